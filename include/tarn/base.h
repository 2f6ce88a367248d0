/* tarn/base.h: what every other header needs: status codes, the error struct, views,
 * the version.
 *
 * Every function that can fail returns a tarn_status and takes a tarn_error pointer as
 * its last parameter. The pointer may be NULL; otherwise the struct is filled when, and
 * only when, the status is neither TARN_OK nor TARN_END. The library never prints,
 * exits, aborts or installs signal handlers.
 *
 * Structs and how they grow. A program works with any later library of the same soname,
 * because no struct is used past the size that the program was compiled with:
 *
 *   - Structs that you fill (options, steps, callbacks, codecs) begin with their size.
 *     Set it, and all defaults, with the initialiser TARN_X_INIT (C, C++20) or, in other
 *     languages, with the function tarn_x_init(&x, sizeof x). Members past that size have
 *     their defaults. A pointer to options may be NULL: all defaults. Options inside
 *     other options are pointers, too.
 *   - Structs that the library fills and that may grow (info, report, stats, counts) come
 *     with their size as the next argument: tarn_gnz_info_get(gnz, 0, &info, sizeof info,
 *     &err). At most that many bytes are written; members that the library does not know
 *     are set to zero.
 *   - Structs that only the library makes and that you get a pointer to (tarn_batch, the
 *     tarn_index_report of a fold) get new members at their end.
 *   - All other structs (tarn_error, views, arrays, values, rows, members, samples and
 *     their fields) keep their members and size for as long as the soname stays.
 *
 * A NULL handle, path or output pointer is TARN_ERR_USAGE, with a message that names the
 * argument. Functions that cannot fail (close, free, release, abandon) accept NULL.
 *
 * Bindings for other languages can be generated from
 *
 *     cc -E -P -DTARN_BINDINGS -include tarn/tarn.h -x c /dev/null
 *
 * With TARN_BINDINGS the headers are plain declarations: no attributes, no functions with
 * bodies (the library exports every function), and nothing of the system's headers, whose
 * names (size_t, bool, uint64_t, ...) such programs know.
 */
#ifndef TARN_BASE_H
#define TARN_BASE_H

#ifndef TARN_BINDINGS
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#endif

#include <tarn/version.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) && !defined(TARN_BINDINGS)
#define TARN_API     __attribute__((visibility("default")))
#define TARN_CHECKED __attribute__((warn_unused_result))
#else
#define TARN_API
#define TARN_CHECKED
#endif
#ifdef TARN_BINDINGS
#define TARN_INLINE
#else
#define TARN_INLINE inline
#endif

/* The version of the library that is loaded. It may be newer than the headers, which say
 * in tarn/version.h what they are: TARN_VERSION is text such as "1.2.3", and
 * TARN_VERSION_MAJOR, TARN_VERSION_MINOR and TARN_VERSION_PATCH are its numbers. */
TARN_API const char *tarn_version(void);

/* --- Status and error ----------------------------------------------------------- */

typedef enum tarn_status {
    TARN_OK = 0,
    TARN_END = 1,             /* nothing is left: the normal end of an iteration */
    TARN_ERR_USAGE = 2,       /* the caller's arguments are wrong */
    TARN_ERR_MEMORY = 3,      /* an allocation failed */
    TARN_ERR_IO = 4,          /* the operating system said no; see sys_errno */
    TARN_ERR_FORMAT = 5,      /* the bytes do not follow their format */
    TARN_ERR_TRUNCATED = 6,   /* the file ends before the format says so */
    TARN_ERR_UNSUPPORTED = 7, /* well formed, but refused on purpose */
    TARN_ERR_LIMIT = 8,       /* over a limit that has a name; the message gives it */
    TARN_ERR_NOT_FOUND = 9,   /* no order, codec, option, ... of that name */
    TARN_ERR_AMBIGUOUS = 10,  /* more than one thing answers to that name */
    TARN_ERR_STALE = 11,      /* an index or its sums do not fit the shards */
    TARN_ERR_CHECKSUM = 12,   /* the bytes are not those that were written */
    TARN_ERR_CANCELLED = 13,  /* a progress callback asked to stop */
    TARN_ERR_EXISTS = 14,     /* the target already exists */
    TARN_ERR_NO_FILE = 15,    /* no such file, folder or URL */
    TARN_ERR_NO_FOLD = 16,    /* the folder has no such fold, or no shards */
    TARN_ERR_NO_SAMPLE = 17,  /* no sample, row or record with that key or number */
    TARN_ERR_NO_FIELD = 18    /* no field, column or array with that name or number */
} tarn_status;

#define TARN_NO_OFFSET         UINT64_MAX
#define TARN_ERROR_PATH_MAX    1024
#define TARN_ERROR_MESSAGE_MAX 1024

typedef struct tarn_error {
    tarn_status code;
    int sys_errno;                        /* of the system call that failed, or 0 */
    uint64_t offset;                      /* in the file; TARN_NO_OFFSET if none */
    char path[TARN_ERROR_PATH_MAX];       /* "" if no file is concerned */
    char message[TARN_ERROR_MESSAGE_MAX]; /* what was found, expected, and to do next */
} tarn_error;

/* A short name for a status, such as "truncated". Never NULL. */
TARN_API const char *tarn_status_name(tarn_status status);

/* True for TARN_ERR_NOT_FOUND, NO_FILE, NO_FOLD, NO_SAMPLE and NO_FIELD. */
TARN_API bool tarn_is_not_found(tarn_status status);

/* Writes "path: offset N: message" into buf, cut to fit, always NUL-terminated.
 * Returns buf. */
TARN_API char *tarn_error_text(const tarn_error *err, char *buf, size_t size);

/* A name from a file, as it may be shown on a terminal: control characters, backslashes,
 * marks that turn text around and bytes that are not UTF-8 become \\xNN. Cut to fit, with
 * "..."; always NUL-terminated. Returns out. */
TARN_API char *tarn_printable(char *out, size_t size, const char *name, size_t len);

/* Passes a failure up: returns from the calling function unless expr is TARN_OK. */
#define TARN_TRY(expr)                                                                   \
    do {                                                                                 \
        tarn_status tarn_try_status_ = (expr);                                           \
        if (tarn_try_status_ != TARN_OK) return tarn_try_status_;                        \
    } while (0)

/* --- Views and texts -------------------------------------------------------------- */

/* Bytes that belong to someone else. A view stays valid until tarn_view_release, and
 * never longer than the handle it came from is open. Where the file is mapped it
 * points into the map, so it also trusts that nobody shortens or rewrites the file
 * meanwhile; use a read into a buffer of your own where that cannot be promised. */
typedef struct tarn_view {
    const unsigned char *data;
    size_t size;
    void *owned; /* private */
} tarn_view;

#define TARN_VIEW_INIT                                                                   \
    {                                                                                    \
        NULL, 0, NULL                                                                    \
    }

/* Gives a view back. Harmless on a view that is empty or released already. */
TARN_API void tarn_view_release(tarn_view *view);

/* Text that grows as needed. Begin with all zero; free with tarn_text_reset. */
typedef struct tarn_text {
    char *data; /* NUL-terminated */
    size_t size;
    size_t capacity;
} tarn_text;

TARN_API void tarn_text_reset(tarn_text *text);

/* How files are brought into memory. */
typedef enum tarn_io {
    TARN_IO_AUTO = 0, /* map files on local file systems, read all others */
    TARN_IO_MAP = 1,  /* map wherever it can be done */
    TARN_IO_READ = 2  /* never map */
} tarn_io;

/* Where another program shortens a file that is mapped, the system sends SIGBUS to
 * whoever looks at what is gone. This sets a handler for it, once and for the whole
 * process, which puts zeros there; whatever copied out of the map then fails with
 * TARN_ERR_STALE, and views read zeros. Faults that are not in a map of this library go
 * to the handler that was there before. The library never does this by itself; the
 * command and the Python package do. To be called before files are opened. False if the
 * handler cannot be set. */
TARN_API bool tarn_guard_maps(void);

/* --- Long work ------------------------------------------------------------------ */

/* Called now and then from the calling thread or a worker, never from two threads at
 * once. done and total are bytes; total is 0 where nobody knows it. Return non-zero to
 * stop: the work then ends with TARN_ERR_CANCELLED and publishes nothing. */
typedef int (*tarn_progress)(void *context, uint64_t done, uint64_t total);

/* Called with something worth telling that does not stop the work: damage passed over
 * in lenient mode, samples whose members collide. Never from two threads at once. */
typedef void (*tarn_notice)(void *context, const tarn_error *what);

/* --- Named limits --------------------------------------------------------------- */

#define TARN_MAX_SHARDS      65536u               /* shard ids are 16 bits wide */
#define TARN_MAX_FIELDS      65536u               /* and so are field ids */
#define TARN_MAX_ROWS        UINT64_C(0xffffffff) /* members in one fold */
#define TARN_MAX_MEMBER_SIZE (UINT64_C(1) << 60)
#define TARN_MAX_NAME        65536u     /* bytes in a member's name */
#define TARN_MAX_EXTENDED    (1u << 20) /* bytes in one pax or GNU header */
#define TARN_MAX_SHARD_MAPS  4096u      /* maps one fold keeps */
#define TARN_MAX_SHARD_FILES 256u       /* descriptors one fold keeps */
#define TARN_MAX_JSON_BYTES  (256u << 20)
#define TARN_MAX_JSON_DEPTH  512u        /* objects and lists inside each other */
#define TARN_MAX_JSON_VALUES (16u << 20) /* in one text, keys counted */

#ifdef __cplusplus
}
#endif
#endif
