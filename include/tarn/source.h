/* tarn/source.h: bytes by URL, in and out.
 *
 * A URL is a local path, file:..., "-" (standard input or output), http://, https://,
 * s3://bucket/key, or pipe:COMMAND where the caller allowed it. Compressed data is
 * recognised by its first bytes on reading, and made by suffix or option on writing.
 *
 *     tarn_source *in;
 *     if (tarn_source_open("https://host/x.tar.zst", NULL, &in, &err) != TARN_OK) ...
 *     do {
 *         if (tarn_source_read(in, buf, sizeof buf, &got, &err) != TARN_OK) ...
 *     } while (got == sizeof buf);
 *     tarn_source_close(in);
 *
 * Both are streams: constant memory whatever the size. A handle belongs to one thread at
 * a time.
 */
#ifndef TARN_SOURCE_H
#define TARN_SOURCE_H

#include <tarn/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tarn_source tarn_source;
typedef struct tarn_sink tarn_sink;

typedef enum tarn_filter {
    TARN_FILTER_AUTO = 0, /* reading: by the first bytes; writing: by the URL's suffix */
    TARN_FILTER_NONE = 1,
    TARN_FILTER_GZIP = 2,
    TARN_FILTER_BZIP2 = 3,
    TARN_FILTER_XZ = 4,
    TARN_FILTER_ZSTD = 5
} tarn_filter;

typedef struct tarn_source_options {
    size_t size; /* of this struct; set by the initialiser */
    tarn_filter filter;
    bool allow_pipe;        /* run pipe: commands in a shell */
    uint64_t max_expansion; /* refuse data that expands by more than this factor */
    uint64_t max_size;      /* and more than this many bytes after expansion */
    unsigned connect_seconds;
    unsigned stall_seconds; /* without a byte */
    unsigned retries;       /* after the first attempt; each goes on at the failed byte */
} tarn_source_options;

#define TARN_SOURCE_OPTIONS_INIT                                                         \
    {                                                                                    \
        sizeof(tarn_source_options), TARN_FILTER_AUTO, false, 1000, UINT64_MAX, 30, 60,  \
            5                                                                            \
    }

TARN_API TARN_CHECKED tarn_status tarn_source_open(const char *url,
                                                   const tarn_source_options *options,
                                                   tarn_source **out, tarn_error *err);

/* Reads len bytes; *out_got is less only where the data end. Whatever makes the data
 * incomplete (a lost connection, a command that failed, a compressed stream that is cut)
 * is an error, not an end. */
TARN_API TARN_CHECKED tarn_status tarn_source_read(tarn_source *source, void *buf,
                                                   size_t len, size_t *out_got,
                                                   tarn_error *err);

/* Gives up what was not read. Nothing is reported: whoever wants to know whether the data
 * were complete reads to the end. */
TARN_API void tarn_source_close(tarn_source *source);

typedef struct tarn_sink_options {
    size_t size; /* of this struct; set by the initialiser */
    tarn_filter filter;
    int level;       /* of compression; 0 is the filter's default */
    bool allow_pipe; /* as above */
    bool overwrite;  /* replace what is there; false: refuse with TARN_ERR_EXISTS */
    bool no_sync;    /* local files: do not wait for the disk */
    unsigned connect_seconds;
    unsigned stall_seconds;
    unsigned retries;
} tarn_sink_options;

#define TARN_SINK_OPTIONS_INIT                                                           \
    {                                                                                    \
        sizeof(tarn_sink_options), TARN_FILTER_AUTO, 0, false, false, false, 30, 60, 5   \
    }

TARN_API TARN_CHECKED tarn_status tarn_sink_open(const char *url,
                                                 const tarn_sink_options *options,
                                                 tarn_sink **out, tarn_error *err);
TARN_API TARN_CHECKED tarn_status tarn_sink_write(tarn_sink *sink, const void *data,
                                                  size_t len, tarn_error *err);

/* Completes and publishes: until this returns TARN_OK nothing has the final name (except
 * at the far end of "-" and pipe:, which see bytes as they come). The handle is closed,
 * whatever the outcome; after a failure nothing is left. */
TARN_API TARN_CHECKED tarn_status tarn_sink_finish(tarn_sink *sink, tarn_error *err);

/* Leaves nothing behind and closes the handle. */
TARN_API void tarn_sink_abandon(tarn_sink *sink);

#ifdef __cplusplus
}
#endif
#endif
