/* Credentials that are found for the process: kept, and found again before they expire.
 * The providers of a cloud (aws_*.c, gcloud.c) find them; this module knows none. */
#ifndef TARN_IO_CRED_H
#define TARN_IO_CRED_H

#include "base/buf.h"
#include "base/json.h"
#include "io/http.h"

/* --- The environment ------------------------------------------------------------- */

/* A copy of some variables, so that credentials are found again as they were found
 * first, and by any thread: "NAME=value", each with a NUL. */
typedef struct tarn__env {
    tarn__buf text;
} tarn__env;

/* Copies the variables whose names begin with one of the prefixes, and HOME. */
TARN_CHECKED tarn_status tarn__env_take(tarn__env *env, const char *const *prefixes,
                                        tarn_error *err);
void tarn__env_reset(tarn__env *env);

/* NULL if the variable is unset or empty. */
const char *tarn__env_get(const tarn__env *env, const char *name);

/* Notes the state of a file: credentials are found again when it has changed. */
TARN_CHECKED tarn_status tarn__env_note(tarn__env *env, const char *path,
                                        tarn_error *err);

/* named, or a file in the home directory; false if there is neither. */
bool tarn__env_path(const tarn__env *env, const char *named, const char *in_home,
                    char *out, size_t size);

/* --- Values ---------------------------------------------------------------------- */

typedef struct tarn__cred_value {
    char access[256], secret[256]; /* access "": none, requests are anonymous */
    char token[16384];             /* with the keys, or alone for bearer tokens */
    char region[64], endpoint[1024];
    int64_t expires; /* seconds since 1970; INT64_MAX: never */
} tarn__cred_value;

/* Copies a text to a member. Rejects one that does not fit or that could break out of a
 * header line. */
TARN_CHECKED tarn_status tarn__cred_set(char *out, size_t size, const char *value,
                                        size_t len, const char *what, tarn_error *err);

#define TARN__CRED_EARLY 300 /* seconds before the end that credentials are renewed */
#define TARN__CRED_AGAIN 30  /* seconds after a failed renewal until the next */

/* Finds credentials, possibly over the network. */
typedef tarn_status tarn__cred_find(const tarn__env *env, tarn__cred_value *out,
                                    tarn_error *err);

typedef struct tarn__cred tarn__cred;

/* The credentials of an environment: the same for the same variables, and valid until
 * the process ends. Takes env over, also on failure. Finds nothing yet. */
TARN_CHECKED tarn_status tarn__cred_get(tarn__env *env, tarn__cred_find *find,
                                        tarn__cred **out, tarn_error *err);

/* The current value. The first caller finds it and the others wait for that. Later one
 * caller renews it while the others use the old one until it expires. If a renewal fails,
 * the old one is used until it expires. */
TARN_CHECKED tarn_status tarn__cred_use(tarn__cred *cred, tarn__cred_value *out,
                                        tarn_error *err);

/* A server says that the value has expired: the next use finds a new one, unless the
 * value is less than a second old, so that many refusals at once lead to one renewal.
 * False if a new one cannot be found, because there are no credentials. */
bool tarn__cred_expire(tarn__cred *cred);

/* The time in seconds since 1970. Tests replace it. */
extern int64_t (*tarn__cred_clock)(void);

/* --- Asking providers ------------------------------------------------------------ */

typedef struct tarn__cred_ask {
    const char *method, *url;
    const char *const *headers; /* "Name: value", ends with NULL; or NULL */
    const char *body;           /* or NULL */
    unsigned connect_seconds, stall_seconds, retries; /* 0: 10, 20 and 0 */
    bool direct;                                      /* without a proxy */
    tarn__http_sign *sign;
    void *signer;
} tarn__cred_ask;

typedef struct tarn__cred_answer {
    long status;
    bool connected; /* the server was reached, also if that failed later */
    tarn__http_reply reply;
} tarn__cred_answer;

/* Sends one request without following redirects. */
TARN_CHECKED tarn_status tarn__cred_ask_any(const tarn__cred_ask *ask,
                                            tarn__cred_answer *answer, tarn_error *err);
/* The same; any status but 200 is an error. */
TARN_CHECKED tarn_status tarn__cred_ask_ok(const tarn__cred_ask *ask,
                                           tarn__cred_answer *answer, tarn_error *err);

/* Adds the header Authorization with a bearer token. */
TARN_CHECKED tarn_status tarn__cred_bearer(const char *token, tarn__http *http,
                                           tarn_error *err);

/* Reads a file of at most max bytes; out ends with a NUL that size does not count. */
TARN_CHECKED tarn_status tarn__cred_read_file(tarn__buf *out, const char *path,
                                              size_t max, tarn_error *err);

/* Reads JSON that must be an object; from names where it came from. */
TARN_CHECKED tarn_status tarn__cred_parse(tarn__json_doc *doc, const char *text,
                                          size_t len, const char *from, tarn_error *err);

/* Copies the text of a key. Without need a missing one becomes "". */
TARN_CHECKED tarn_status tarn__cred_text(const tarn__json *object, const char *key,
                                         bool need, char *out, size_t size,
                                         tarn_error *err);

/* Reads "2031-01-31T23:59:59Z", with fractions and offsets; false for anything else. */
bool tarn__cred_time(const char *text, int64_t *out);

/* Appends "; text" to the message of a failure, and returns its status. */
tarn_status tarn__cred_explain(tarn_error *err, tarn_status status, const char *format,
                               ...) __attribute__((format(printf, 3, 4)));

#endif
