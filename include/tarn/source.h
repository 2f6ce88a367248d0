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
 * a time. Messages never hold a password, a key or a query. docs/guides/urls.md says what
 * stands behind each kind of URL and which environment variables count.
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

/* Bytes that the caller brings in: in the options, they take the place of what the URL
 * names, which is then a name for messages only. Calls come from the thread that reads.
 * read gives at least one byte, or none at the end; close, which may be NULL, is called
 * once, also after a failure of read. */
typedef struct tarn_source_calls {
    size_t size; /* of this struct; set by the initialiser */
    void *context;
    tarn_status (*read)(void *context, void *buf, size_t len, size_t *out_got,
                        tarn_error *err);
    void (*close)(void *context);
} tarn_source_calls;

#define TARN_SOURCE_CALLS_INIT                                                           \
    {                                                                                    \
        .size = sizeof(tarn_source_calls)                                                \
    }
TARN_API void tarn_source_calls_init(tarn_source_calls *calls, size_t size);

typedef struct tarn_source_options {
    size_t size; /* of this struct; set by the initialiser */
    tarn_filter filter;
    bool allow_pipe;        /* run pipe: commands in a shell */
    uint64_t max_expansion; /* refuse data that expands by more than this factor, the
                             * first 64 MiB not counted; 0: no limit */
    uint64_t max_size;      /* and more than this many bytes after expansion */
    unsigned connect_seconds;
    unsigned stall_seconds; /* without a byte */
    unsigned retries;       /* after the first attempt; each goes on at the failed byte */
    uint64_t max_memory;    /* that a decoder may take for its window: 128 MiB, enough for
                             * what xz -9 and zstd --ultra -22 make */
    const tarn_source_calls *calls; /* copied by open; NULL: bytes come from the URL */
} tarn_source_options;

#define TARN_SOURCE_OPTIONS_INIT                                                         \
    {                                                                                    \
        .size = sizeof(tarn_source_options), .max_expansion = 1000,                      \
        .max_size = UINT64_MAX, .connect_seconds = 30, .stall_seconds = 60,              \
        .retries = 5, .max_memory = UINT64_C(128) << 20                                  \
    }
TARN_API void tarn_source_options_init(tarn_source_options *options, size_t size);

/* Says here already whether there is such a thing: TARN_ERR_NO_FILE for a missing file
 * or object. What filter it needs is looked at with the first read. */
TARN_API TARN_CHECKED tarn_status tarn_source_open(const char *url,
                                                   const tarn_source_options *options,
                                                   tarn_source **out, tarn_error *err);

/* Reads len bytes; *out_got is less only where the data end. Whatever makes the data
 * incomplete (a lost connection, a command that failed, a compressed stream that is cut)
 * is an error, not an end: whoever stops before the end never hears of it. After an error
 * *out_got bytes are good, and every further read fails the same way. */
TARN_API TARN_CHECKED tarn_status tarn_source_read(tarn_source *source, void *buf,
                                                   size_t len, size_t *out_got,
                                                   tarn_error *err);

/* Gives up what was not read. Nothing is reported: whoever wants to know whether the data
 * were complete reads to the end. */
TARN_API void tarn_source_close(tarn_source *source);

/* The same for bytes that the caller takes. begin, which may be NULL, comes first, with
 * the URL (the name of each shard, for writers that make several); of finish and abandon,
 * which may be NULL, one is called, once; abandon also after a failure of write, and none
 * after a failure of begin. */
typedef struct tarn_sink_calls {
    size_t size; /* of this struct; set by the initialiser */
    void *context;
    tarn_status (*begin)(void *context, const char *url, tarn_error *err);
    tarn_status (*write)(void *context, const void *data, size_t len, tarn_error *err);
    tarn_status (*finish)(void *context, tarn_error *err);
    void (*abandon)(void *context);
} tarn_sink_calls;

#define TARN_SINK_CALLS_INIT                                                             \
    {                                                                                    \
        .size = sizeof(tarn_sink_calls)                                                  \
    }
TARN_API void tarn_sink_calls_init(tarn_sink_calls *calls, size_t size);

typedef struct tarn_sink_options {
    size_t size; /* of this struct; set by the initialiser */
    tarn_filter filter;
    int level;       /* of compression; 0 is the filter's default */
    bool allow_pipe; /* as above */
    bool overwrite;  /* replace what is there; false: refuse with TARN_ERR_EXISTS, which
                      * over http, and on stores without conditions, is a look at open */
    bool no_sync;    /* local files: do not wait for the disk */
    unsigned connect_seconds;
    unsigned stall_seconds;
    unsigned retries;             /* of each request; a PUT over 8 MiB is not repeated */
    const tarn_sink_calls *calls; /* copied by open; NULL: bytes go to the URL */
} tarn_sink_options;

#define TARN_SINK_OPTIONS_INIT                                                           \
    {                                                                                    \
        .size = sizeof(tarn_sink_options), .connect_seconds = 30, .stall_seconds = 60,   \
        .retries = 5                                                                     \
    }
TARN_API void tarn_sink_options_init(tarn_sink_options *options, size_t size);

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

/* --- Lists of URLs --------------------------------------------------------------- */

#define TARN_MAX_URLS      1000000u     /* one list stands for */
#define TARN_MAX_URL_BYTES (256u << 20) /* and their text together */

typedef struct tarn_urls {
    const char **urls; /* in order */
    size_t count;
} tarn_urls;

/* Whether a path is a list: several URLs, or a pattern that is neither the name of a
 * file nor "DIR:FOLD" with an existing folder. */
TARN_API bool tarn_urls_is_list(const char *path);

/* Fills *out with what a list stands for, which is yours until tarn_urls_reset; after a
 * failure it is empty. "::" separates; {0000..0031}, {0..10..5}, {a..e} and {one,two},
 * nested as you like, stand for several URLs, {one} for itself, and a backslash protects
 * the next character; a local path with *, ? or [] stands for the matching files, sorted
 * by bytes, unless a file has exactly that name. Braces that do not match, a pattern
 * without a file and an empty URL are errors. */
TARN_API TARN_CHECKED tarn_status tarn_urls_expand(const char *list, tarn_urls *out,
                                                   tarn_error *err);
TARN_API void tarn_urls_reset(tarn_urls *urls);

#ifdef __cplusplus
}
#endif
#endif
