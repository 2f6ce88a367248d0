/* What a commit needs of an object store besides reading and writing: small conditional
 * objects, copies that the store makes, removal, and uploads that were never completed.
 * Only S3 has all of it. Objects are named by their URLs.
 *
 * A store is one HTTP client: one thread at a time. */
#ifndef TARN_IO_STORE_H
#define TARN_IO_STORE_H

#include "io/listing.h"
#include "io/s3_upload.h"

typedef struct tarn__store tarn__store;

/* TARN_ERR_UNSUPPORTED, with what to do, if the URL is of another scheme than s3. */
TARN_CHECKED tarn_status tarn__store_check(const char *url, tarn_error *err);

/* For all objects in the bucket of url. Sends no request. */
TARN_CHECKED tarn_status tarn__store_open(const char *url, tarn__store **out,
                                          tarn_error *err);
void tarn__store_close(tarn__store *store);

/* Creates or replaces a small object if the condition is met (a header, or NULL):
 * TARN_ERR_EXISTS if not, TARN_ERR_NO_FILE if it needs an object and there is none. */
TARN_CHECKED tarn_status tarn__store_put(const char *url, const char *text,
                                         const char *condition, tarn_error *err);

/* Reads a small object, as text with a NUL. TARN_ERR_NO_FILE if it does not exist. */
TARN_CHECKED tarn_status tarn__store_get(tarn__store *store, const char *url,
                                         tarn__buf *out, char etag[256], tarn_error *err);

/* Whether an object exists; then what its headers say. */
TARN_CHECKED tarn_status tarn__store_head(tarn__store *store, const char *url,
                                          bool *out_exists, tarn__http_head *out,
                                          tarn_error *err);

/* When the object of these headers was changed; 0: unknown. */
int64_t tarn__store_modified_ns(const tarn__store *store, const tarn__http_head *head);

/* An object that does not exist is fine. */
TARN_CHECKED tarn_status tarn__store_delete(tarn__store *store, const char *url,
                                            tarn_error *err);

/* Has the store copy an object to a name that does not exist, in one step, with mark (see
 * s3_upload.h). TARN_ERR_EXISTS if the name exists and is not such a copy;
 * TARN_ERR_NO_FILE if there is no source, or it changed. */
TARN_CHECKED tarn_status tarn__store_copy(const tarn__listed *from, const char *to,
                                          const char *mark, tarn_error *err);

/* Sends a local file; condition and statuses are those of tarn__store_put. */
TARN_CHECKED tarn_status tarn__store_send(const char *path, const char *url,
                                          const char *condition, tarn_error *err);

/* Aborts all uploads that are not complete, of objects whose URLs begin with prefix.
 * wanted says for which objects; NULL: for all of them. */
typedef bool tarn__store_wanted(const void *context, const char *url);
TARN_CHECKED tarn_status tarn__store_abort(tarn__store *store, const char *prefix,
                                           tarn__store_wanted *wanted,
                                           const void *context, tarn_error *err);

/* Calls work for 0 to count - 1, in several threads with a store each. */
typedef tarn_status tarn__store_work(void *context, size_t number, tarn__store *store,
                                     tarn_error *err);
TARN_CHECKED tarn_status tarn__store_each(const char *url, size_t count,
                                          tarn__store_work *work, void *context,
                                          tarn_error *err);

#endif
