/* tarn/source.h: reads and writes bytes by URL.
 *
 * A URL is a local path, file:..., "-" (standard input or output), http://, https://,
 * s3://bucket/key, gs://bucket/name, az://container/name, hf://datasets/owner/name/path
 * (only for reading), or, if the caller allows it, pipe:COMMAND. When reading, compressed
 * data is recognised by its first bytes. When writing, the suffix or an option selects
 * the compression.
 *
 *     tarn_source *in;
 *     if (tarn_source_open("https://host/x.tar.zst", NULL, &in, &err) != TARN_OK) ...
 *     do {
 *         if (tarn_source_read(in, buf, sizeof buf, &got, &err) != TARN_OK) ...
 *     } while (got == sizeof buf);
 *     tarn_source_close(in);
 *
 * Sources and sinks are streams: they need constant memory, whatever the size of the
 * data. Only one thread at a time may use a handle. Messages never contain a password, a
 * key or a query. docs/guides/urls.md describes each kind of URL and the environment
 * variables that are used.
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
    TARN_FILTER_AUTO = 0, /* reading: by the first bytes; writing: by the suffix */
    TARN_FILTER_NONE = 1,
    TARN_FILTER_GZIP = 2,
    TARN_FILTER_BZIP2 = 3,
    TARN_FILTER_XZ = 4,
    TARN_FILTER_ZSTD = 5
} tarn_filter;

/* Callbacks that supply the bytes. If they are set in the options, they replace the data
 * at the URL, which is then only a name for messages. They are called from the thread
 * that reads. read returns at least one byte, or none at the end. close, which may be
 * NULL, is called once, even after a failure of read. */
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
    bool allow_pipe; /* run pipe: commands in a shell */
    /* Refuse data that expands by more than this factor, not counting the first 64 MiB;
     * 0: no limit. */
    uint64_t max_expansion;
    uint64_t max_size; /* refuse more than this many bytes after expansion */
    unsigned connect_seconds;
    unsigned stall_seconds; /* longest time without a byte */
    /* Attempts after the first; each continues at the failed byte. */
    unsigned retries;
    /* Memory that a decoder may use for its window. The default of 128 MiB is enough for
     * the output of xz -9 and zstd --ultra -22. */
    uint64_t max_memory;
    const tarn_source_calls *calls; /* copied by open; NULL: read from the URL */
    /* Fewest bytes per second that a server may send, on average over stall_seconds of
     * waiting for it; 0: no limit. */
    unsigned min_speed;
} tarn_source_options;

#define TARN_SOURCE_OPTIONS_INIT                                                         \
    {                                                                                    \
        .size = sizeof(tarn_source_options), .max_expansion = 1000,                      \
        .max_size = UINT64_MAX, .connect_seconds = 30, .stall_seconds = 60,              \
        .retries = 5, .max_memory = UINT64_C(128) << 20, .min_speed = 1000               \
    }
TARN_API void tarn_source_options_init(tarn_source_options *options, size_t size);

/* Opens a URL for reading. TARN_ERR_NO_FILE if the file or object does not exist. The
 * filter is determined at the first read. options may be NULL. Close the source with
 * tarn_source_close. */
TARN_API TARN_CHECKED tarn_status tarn_source_open(const char *url,
                                                   const tarn_source_options *options,
                                                   tarn_source **out, tarn_error *err);

/* Reads len bytes. *out_got is less than len only at the end of the data. If the data is
 * incomplete (a lost connection, a failed command, a truncated compressed stream), that
 * is an error, not an end. Callers that stop before the end do not get such errors. After
 * an error the first *out_got bytes are valid, and every further read fails with the same
 * error. */
TARN_API TARN_CHECKED tarn_status tarn_source_read(tarn_source *source, void *buf,
                                                   size_t len, size_t *out_got,
                                                   tarn_error *err);

/* Closes a source and discards unread data. It reports no errors: to find out whether the
 * data is complete, read to the end. */
TARN_API void tarn_source_close(tarn_source *source);

/* Callbacks that receive the bytes of a sink. begin, which may be NULL, is called first,
 * with the URL (for writers of several shards, with the name of each shard). Then either
 * finish or abandon, which may be NULL, is called once. abandon is also called after a
 * failure of write. Neither is called after a failure of begin. */
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
    int level;       /* compression level; 0: the default of the filter */
    bool allow_pipe; /* run pipe: commands in a shell */
    /* Replace existing data. false: fail with TARN_ERR_EXISTS. Over http, and on stores
     * without conditional requests, this is only checked on opening. */
    bool overwrite;
    bool no_sync; /* local files: do not wait for the disk */
    unsigned connect_seconds;
    unsigned stall_seconds;
    unsigned retries;             /* of each request; a PUT over 8 MiB is not retried */
    const tarn_sink_calls *calls; /* copied by open; NULL: write to the URL */
} tarn_sink_options;

#define TARN_SINK_OPTIONS_INIT                                                           \
    {                                                                                    \
        .size = sizeof(tarn_sink_options), .connect_seconds = 30, .stall_seconds = 60,   \
        .retries = 5                                                                     \
    }
TARN_API void tarn_sink_options_init(tarn_sink_options *options, size_t size);

/* Opens a URL for writing. options may be NULL. Close the sink with tarn_sink_finish or
 * tarn_sink_abandon. */
TARN_API TARN_CHECKED tarn_status tarn_sink_open(const char *url,
                                                 const tarn_sink_options *options,
                                                 tarn_sink **out, tarn_error *err);
/* Writes len bytes. */
TARN_API TARN_CHECKED tarn_status tarn_sink_write(tarn_sink *sink, const void *data,
                                                  size_t len, tarn_error *err);

/* Completes and publishes the data. The final name does not exist before this function
 * returns TARN_OK (except for "-" and pipe:, whose readers see bytes as they are
 * written). The handle is closed in every case. After a failure no data is left. */
TARN_API TARN_CHECKED tarn_status tarn_sink_finish(tarn_sink *sink, tarn_error *err);

/* Discards the data and closes the handle. */
TARN_API void tarn_sink_abandon(tarn_sink *sink);

/* --- Lists of URLs --------------------------------------------------------------- */

#define TARN_MAX_URLS      1000000u     /* URLs in one list */
#define TARN_MAX_URL_BYTES (256u << 20) /* total bytes of their text */

typedef struct tarn_urls {
    const char *const *urls; /* in order */
    size_t count;
} tarn_urls;

/* Returns whether a path is a list: several URLs, or a pattern that is neither the name
 * of a file nor "DIR:FOLD" with an existing folder. */
TARN_API bool tarn_urls_is_list(const char *path);

/* Expands a list of URLs. *out is yours until tarn_urls_free; after a failure it is
 * NULL. "::" separates URLs. {0000..0031}, {0..10..5}, {a..e} and {one,two}, which may
 * be nested, expand to several URLs; {one} is unchanged, and a backslash escapes the next
 * character. A local path with *, ? or [] expands to the matching files, sorted by bytes,
 * unless a file has exactly that name. Unbalanced braces, a pattern that matches no file,
 * and an empty URL are errors. */
TARN_API TARN_CHECKED tarn_status tarn_urls_expand(const char *list, tarn_urls **out,
                                                   tarn_error *err);
TARN_API void tarn_urls_free(tarn_urls *urls);

#ifdef __cplusplus
}
#endif
#endif
