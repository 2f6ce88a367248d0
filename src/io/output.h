/* The base of every sink: raw bytes are written, and appear under their name at finish or
 * not at all. Knows nothing about filters.
 *
 * An implementation puts a tarn__output first in its own struct. */
#ifndef TARN_IO_OUTPUT_H
#define TARN_IO_OUTPUT_H

#include <tarn/source.h>

typedef struct tarn__output tarn__output;

typedef struct tarn__output_ops {
    tarn_status (*write)(tarn__output *out, const void *data, size_t len,
                         tarn_error *err);
    /* Both free the output. A failed finish leaves nothing. */
    tarn_status (*finish)(tarn__output *out, tarn_error *err);
    void (*abandon)(tarn__output *out);
} tarn__output_ops;

struct tarn__output {
    const tarn__output_ops *ops;
    char *shown; /* the URL as shown in errors, without secrets; freed by the owner */
};

/* Each function opens the URLs of one scheme; url is complete, with the scheme. */
typedef tarn_status tarn__output_open(const char *url, const char *shown,
                                      const tarn_sink_options *options,
                                      tarn__output **out, tarn_error *err);

tarn__output_open tarn__stdout_open, tarn__file_output_open, tarn__file_url_create,
    tarn__pipe_output_open, tarn__http_output_open, tarn__s3_output_open,
    tarn__az_output_open, tarn__calls_output_open;

/* An object of S3 that is created only if a condition is met, a header such as
 * "If-None-Match: *", which is borrowed; NULL: in any case. Nothing is requested first,
 * and the store must support the condition. Statuses: tarn__s3_upload_complete. */
TARN_CHECKED tarn_status tarn__s3_output_open_if(const char *url, const char *condition,
                                                 const tarn_sink_options *options,
                                                 tarn__output **out, tarn_error *err);

#endif
