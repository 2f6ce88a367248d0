/* An object of S3 that is created in one step: by one request, or by a multipart upload
 * that is completed at the end and otherwise aborted. Knows nothing about buffers. */
#ifndef TARN_IO_S3_UPLOAD_H
#define TARN_IO_S3_UPLOAD_H

#include <tarn/source.h>

#include "io/object.h"

#define TARN__S3_ONLY_NEW "If-None-Match: *"

enum { TARN__S3_MARK_SIZE = 33 };

typedef struct tarn__s3_upload {
    tarn__http http;
    tarn__object object;
    const char *condition; /* a header of the request that creates the object; or NULL */
    bool optional; /* a store that does not know the condition may create it without */
    char mark[TARN__S3_MARK_SIZE]; /* by which a writer knows its own object */
    uint64_t total;                /* bytes of the object */
    unsigned parts;                /* number of parts sent */
    char *id;                      /* of the upload, as it appears in a query; or NULL */
    tarn__buf etags;               /* of the parts, as XML */
    tarn__http_reply reply;
} tarn__s3_upload;

/* Sends no request. mark has 32 characters; NULL: a random one. Reset it also after a
 * failure. */
TARN_CHECKED tarn_status tarn__s3_upload_open(tarn__s3_upload *upload, const char *url,
                                              const char *mark,
                                              const tarn_sink_options *options,
                                              tarn_error *err);

/* Creates the object with one request. TARN_ERR_EXISTS if the condition is not met,
 * TARN_ERR_NO_FILE if it needs an object and there is none. If a response is lost, the
 * object is recognised by its mark. */
TARN_CHECKED tarn_status tarn__s3_upload_whole(tarn__s3_upload *upload, const void *data,
                                               size_t len, tarn_error *err);

/* Adds a part to a multipart upload, which the first one begins. */
TARN_CHECKED tarn_status tarn__s3_upload_part(tarn__s3_upload *upload, const void *data,
                                              size_t len, tarn_error *err);

/* The same with len bytes of another object, which the store copies. headers name them.
 */
TARN_CHECKED tarn_status tarn__s3_upload_copy(tarn__s3_upload *upload,
                                              const char *const *headers, uint64_t len,
                                              tarn_error *err);

/* Makes the parts an object; the statuses of tarn__s3_upload_whole, and TARN_ERR_STALE if
 * another write of the same object was in the way, and everything must be sent again. */
TARN_CHECKED tarn_status tarn__s3_upload_complete(tarn__s3_upload *upload,
                                                  tarn_error *err);

/* Aborts what is not complete, and frees everything. */
void tarn__s3_upload_reset(tarn__s3_upload *upload);

#endif
