/* The schemes of object stores: each makes requests out of URLs. object.c has the table;
 * nothing else includes this. */
#ifndef TARN_IO_STORES_H
#define TARN_IO_STORES_H

#include "io/object.h"

/* Sets url, sign, renew, signer and follow. With list, the URL is that of the requests
 * which list the objects (of a bucket, container or repository), and the key of url may
 * be empty. */
typedef tarn_status tarn__store_init(tarn__object *object, const char *url, bool list,
                                     tarn_error *err);

tarn__store_init tarn__s3_init, tarn__gs_init, tarn__az_init, tarn__hf_init;

#endif
