/* The base of every source: raw bytes in order, and an end that is reported only when the
 * data is known to be complete. Knows nothing about filters.
 *
 * An implementation puts a tarn__input first in its own struct. */
#ifndef TARN_IO_INPUT_H
#define TARN_IO_INPUT_H

#include <tarn/source.h>

typedef struct tarn__input tarn__input;

typedef struct tarn__input_ops {
    /* Returns at least one byte, or none at the end. Losses that can be repaired have
     * been repaired. */
    tarn_status (*read)(tarn__input *in, void *buf, size_t len, size_t *out_got,
                        tarn_error *err);
    void (*close)(tarn__input *in);
} tarn__input_ops;

struct tarn__input {
    const tarn__input_ops *ops;
    char *shown; /* the URL as shown in errors, without secrets; freed by the owner */
    int64_t modified_ns; /* when a remote object was changed, since 1970; 0: unknown */
};

/* The time of the object that a source reads; 0 if it is unknown. */
int64_t tarn__source_modified_ns(const tarn_source *source);

/* Each function opens the URLs of one scheme; url is complete, with the scheme. The
 * caller sets shown before the call; it is only for messages. */
typedef tarn_status tarn__input_open(const char *url, const char *shown,
                                     const tarn_source_options *options,
                                     tarn__input **out, tarn_error *err);

tarn__input_open tarn__stdin_open, tarn__file_input_open, tarn__file_url_open,
    tarn__pipe_input_open, tarn__object_input_open, tarn__calls_input_open;

#endif
