/* Credentials of Amazon's services, found where its SDKs find them and in their order:
 * environment, profiles (roles, web identity, single sign-on, keys, a program), container
 * endpoint, instance metadata. Included only by aws_*.c and s3*.c. */
#ifndef TARN_IO_AWS_H
#define TARN_IO_AWS_H

#include "io/cred.h"

/* --- The two configuration files -------------------------------------------------- */

typedef struct tarn__aws_setting {
    const char *kind, *name; /* "profile" and its name, "sso-session" and its name, ... */
    const char *key, *parent; /* parent: NULL, or the key above an indented line */
    const char *value;
} tarn__aws_setting;

typedef struct tarn__aws_files {
    tarn__buf texts[2];
    tarn__aws_setting *settings;
    size_t count, capacity;
} tarn__aws_files;

TARN_CHECKED tarn_status tarn__aws_files_load(tarn__aws_files *files,
                                              const tarn__env *env, tarn_error *err);
void tarn__aws_files_reset(tarn__aws_files *files);
/* Where they are; false if that is unknown. */
bool tarn__aws_files_path(const tarn__env *env, bool config, char *out, size_t size);

bool tarn__aws_has(const tarn__aws_files *files, const char *kind, const char *name);
/* NULL if it is missing or empty. */
const char *tarn__aws_get(const tarn__aws_files *files, const char *kind,
                          const char *name, const char *key);

/* --- Providers -------------------------------------------------------------------- */

typedef struct tarn__aws {
    const tarn__env *env;
    tarn__aws_files files;
    const char *profile;
    char region[64]; /* "" if none is configured */
} tarn__aws;

/* The URL of a service that the environment or the profile gives, or NULL. */
const char *tarn__aws_endpoint(const tarn__aws *aws, const char *service);
/* "amazonaws.com", or that of another partition. */
const char *tarn__aws_domain(const char *region);

/* A provider that is not configured leaves access empty. */
typedef tarn_status tarn__aws_provider(const tarn__aws *aws, const char *profile,
                                       tarn__cred_value *out, tarn_error *err);
tarn__aws_provider tarn__aws_sso, tarn__aws_process, tarn__aws_container,
    tarn__aws_instance;

typedef struct tarn__aws_role {
    const char *arn, *session, *external_id, *seconds; /* NULL but for arn */
    const tarn__cred_value *source;                    /* AssumeRole with these, */
    const char *token_file;                            /* or with this web identity */
} tarn__aws_role;

TARN_CHECKED tarn_status tarn__aws_assume(const tarn__aws *aws,
                                          const tarn__aws_role *role,
                                          tarn__cred_value *out, tarn_error *err);

/* The whole chain. */
tarn__cred_find tarn__aws_find;

/* --- Signatures, version 4 --------------------------------------------------------- */

typedef struct tarn__aws_signer {
    tarn__cred *cred;             /* NULL: keys are used */
    const tarn__cred_value *keys; /* access "": no signature */
    char service[8], region[64];
    char host[264]; /* the Host header as libcurl sends it */
} tarn__aws_signer;

/* Sets host from a URL that is a scheme, a host, an optional port and path. */
TARN_CHECKED tarn_status tarn__aws_signer_host(tarn__aws_signer *signer, const char *url,
                                               tarn_error *err);

tarn__http_sign tarn__aws_sign;
tarn__http_renew tarn__aws_renew;

/* The same for given keys and a given time, for tests. */
TARN_CHECKED tarn_status tarn__aws_sign_at(const tarn__aws_signer *signer,
                                           const tarn__cred_value *keys,
                                           const tarn__http_request *request,
                                           int64_t time, tarn__http *http,
                                           tarn_error *err);

#endif
