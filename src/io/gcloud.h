/* Google's credentials: HMAC keys, service accounts, the login of gcloud, and the
 * metadata server of a machine. */
#ifndef TARN_IO_GCLOUD_H
#define TARN_IO_GCLOUD_H

#include "io/cred.h"

/* Sets endpoint, too. */
tarn__cred_find tarn__gcloud_find;

/* Appends the JSON web token that a service account signs (RS256), from a private key in
 * PEM. */
TARN_CHECKED tarn_status tarn__gcloud_sign_jwt(tarn__buf *out, const char *header,
                                               const char *claims, const char *pem,
                                               tarn_error *err);

#endif
