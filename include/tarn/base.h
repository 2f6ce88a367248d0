/* tarn/base.h: the definitions that all other headers need: status codes, the error
 * struct, views and the version.
 *
 * Every function that can fail returns a tarn_status and takes a tarn_error pointer as
 * its last parameter. The pointer may be NULL. If it is not NULL, the struct is filled
 * if, and only if, the status is neither TARN_OK nor TARN_END. The library never
 * prints, exits, aborts or installs signal handlers.
 *
 * How structs can grow. A program works with any later library of the same soname,
 * because the library never uses more of a struct than the size that the program was
 * compiled with:
 *
 * - Structs that you fill (options, steps, callbacks, codecs) begin with their size.
 *   Set the size and all defaults with the initialiser TARN_X_INIT (C, C++20) or, in
 *   other languages, with the function tarn_x_init(&x, sizeof x). Members past that
 *   size have their defaults. A pointer to options may be NULL, which means all
 *   defaults. Options inside other options are pointers, too.
 * - Structs that the library fills and that may grow (info, report, stats, counts) are
 *   passed with their size as the next argument: tarn_gnz_info_get(gnz, &info, sizeof
 *   info). The library writes at most that many bytes. It sets members that it does
 *   not know to zero.
 * - Structs that only the library creates and that you get a pointer to (tarn_batch,
 *   lists and what their pointers point to, the tarn_index_report of a fold) get new
 *   members at their end.
 * - All other structs (tarn_error, texts, views, arrays, values, rows, members, stored
 *   members, spans, samples and their fields, documents, and the batches that you
 *   initialise to all zero) keep their members and their size as long as the soname
 *   stays the same.
 *
 * A NULL handle, path or output pointer is TARN_ERR_USAGE, with a message that names
 * the argument. Functions that cannot fail (close, free, release, abandon) accept
 * NULL.
 *
 * Bindings for other languages can be generated from
 *
 *     cc -E -P -DTARN_BINDINGS -include tarn/tarn.h -x c /dev/null
 *
 * With TARN_BINDINGS the headers contain plain declarations only: no attributes, no
 * functions with bodies (the library exports every function), and no system headers.
 * Binding generators know the names of the system headers (size_t, bool, uint64_t,
 * ...).
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

/* Returns the version of the loaded library, a static string such as "1.2.3". The library
 * may be newer than the headers. tarn/version.h has the version of the headers:
 * TARN_VERSION is text such as "1.2.3", and TARN_VERSION_MAJOR, TARN_VERSION_MINOR and
 * TARN_VERSION_PATCH are its numbers. */
TARN_API const char *tarn_version(void);

/* --- Status and error ----------------------------------------------------------- */

typedef enum tarn_status {
    TARN_OK = 0,
    TARN_END = 1,             /* no more items: the normal end of an iteration */
    TARN_ERR_USAGE = 2,       /* the caller passed invalid arguments */
    TARN_ERR_MEMORY = 3,      /* an allocation failed */
    TARN_ERR_IO = 4,          /* a system call failed; see sys_errno */
    TARN_ERR_FORMAT = 5,      /* the data does not follow its format */
    TARN_ERR_TRUNCATED = 6,   /* the file ends too early for its format */
    TARN_ERR_UNSUPPORTED = 7, /* valid, but deliberately not supported */
    TARN_ERR_LIMIT = 8,       /* over a named limit; the message names it */
    TARN_ERR_NOT_FOUND = 9,   /* no order, codec, option, ... of that name */
    TARN_ERR_AMBIGUOUS = 10,  /* more than one item has that name */
    TARN_ERR_STALE = 11,      /* an index or its sums do not match the shards */
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
    int sys_errno;                        /* errno of the failed system call, or 0 */
    uint64_t offset;                      /* byte offset in the file, or TARN_NO_OFFSET */
    char path[TARN_ERROR_PATH_MAX];       /* "" if the error is not about a file */
    char message[TARN_ERROR_MESSAGE_MAX]; /* what was found, expected, and what to do */
} tarn_error;

/* Returns a short name for a status, such as "truncated". The string is static and never
 * NULL. */
TARN_API const char *tarn_status_name(tarn_status status);

/* Returns true for TARN_ERR_NOT_FOUND, TARN_ERR_NO_FILE, TARN_ERR_NO_FOLD,
 * TARN_ERR_NO_SAMPLE and TARN_ERR_NO_FIELD. */
TARN_API bool tarn_is_not_found(tarn_status status);

/* Writes "path: offset N: message" into buf. The text is cut to fit into size bytes and
 * always NUL-terminated. Returns buf. */
TARN_API char *tarn_error_text(const tarn_error *err, char *buf, size_t size);

/* Writes a name that comes from a file into out, in a form that is safe to show on a
 * terminal: control characters, backslashes, characters that change the direction of
 * text, and bytes that are not UTF-8 become \\xNN. The text is cut to fit into size
 * bytes, with "..." at its end, and always NUL-terminated. Returns out. */
TARN_API char *tarn_printable(char *out, size_t size, const char *name, size_t len);

/* Copies a text to out without the secrets of the URLs in it: users and passwords are
 * removed, a query becomes "?..." and, with is_url, the arguments of pipe:COMMAND become
 * "...". is_url says that the text is one URL, path or list of them; in other text a URL
 * ends at a space. Local paths stay as they are. The text is cut to fit into size bytes
 * and always NUL-terminated; 2 * strlen(text) + 16 bytes are enough. Returns out. The
 * library does this with every path and message of a tarn_error. */
TARN_API char *tarn_hide_secrets(char *out, size_t size, const char *text, bool is_url);

/* Returns the status of expr from the calling function unless it is TARN_OK. */
#define TARN_TRY(expr)                                                                   \
    do {                                                                                 \
        tarn_status tarn_try_status_ = (expr);                                           \
        if (tarn_try_status_ != TARN_OK) return tarn_try_status_;                        \
    } while (0)

/* --- Views and texts -------------------------------------------------------------- */

/* Borrowed bytes. A view is valid until tarn_view_release, and never longer than the
 * handle it came from is open. If the file is mapped, the view points into the map. It is
 * then only reliable as long as no program shortens or rewrites the file. If you cannot
 * rule that out, read into your own buffer instead. */
typedef struct tarn_view {
    const unsigned char *data;
    size_t size;
    void *owned; /* private */
} tarn_view;

#define TARN_VIEW_INIT                                                                   \
    {                                                                                    \
        NULL, 0, NULL                                                                    \
    }

/* Releases a view. It is safe to release a view that is empty or already released. */
TARN_API void tarn_view_release(tarn_view *view);

/* Text that grows as needed. Initialise it to all zero, and free it with
 * tarn_text_reset. */
typedef struct tarn_text {
    char *data; /* NUL-terminated */
    size_t size;
    size_t capacity;
} tarn_text;

/* Frees the memory of a text and sets it to all zero. */
TARN_API void tarn_text_reset(tarn_text *text);

/* How files are read into memory. */
typedef enum tarn_io {
    TARN_IO_AUTO = 0, /* map files on local file systems, read all others */
    TARN_IO_MAP = 1,  /* map every file that can be mapped */
    TARN_IO_READ = 2  /* never map */
} tarn_io;

/* Protects the process against mapped files that become shorter.
 *
 * If another program shortens a mapped file, the system sends SIGBUS to a thread that
 * accesses the missing part. This function installs a SIGBUS handler, once and for the
 * whole process, that fills the missing part with zeros. Functions that copied from the
 * map then fail with TARN_ERR_STALE, and views read zeros. Faults outside the maps of
 * this library are passed to the previously installed handler. The library never installs
 * this handler by itself; the command and the Python package do. Call it before you open
 * files. Returns false if the handler cannot be installed. */
TARN_API bool tarn_guard_maps(void);

/* --- Long work ------------------------------------------------------------------ */

/* A progress callback. It is called from time to time from the calling thread or a worker
 * thread, but never from two threads at once. done and total are in bytes; total is 0 if
 * it is unknown. Return non-zero to stop: the work then ends with TARN_ERR_CANCELLED and
 * publishes nothing. */
typedef int (*tarn_progress)(void *context, uint64_t done, uint64_t total);

/* A callback for problems that do not stop the work, such as damage that is skipped in
 * lenient mode, or samples whose members collide. It is never called from two threads at
 * once. */
typedef void (*tarn_notice)(void *context, const tarn_error *what);

/* --- Named limits --------------------------------------------------------------- */

#define TARN_MAX_SHARDS      65536u               /* shard ids are 16 bits wide */
#define TARN_MAX_FIELDS      65536u               /* field ids, too */
#define TARN_MAX_ROWS        UINT64_C(0xffffffff) /* members in one fold */
#define TARN_MAX_MEMBER_SIZE (UINT64_C(1) << 60)
#define TARN_MAX_NAME        65536u      /* bytes in a member's name */
#define TARN_MAX_END_ZEROS   (64u << 20) /* bytes of zeros at the end of a stream */
#define TARN_MAX_EXTENDED    (1u << 20)  /* bytes in one pax or GNU header */
#define TARN_MAX_SHARD_MAPS  4096u       /* maps that one fold keeps open */
#define TARN_MAX_SHARD_FILES 256u        /* descriptors that one fold keeps open */
#define TARN_MAX_JSON_BYTES  (256u << 20)
#define TARN_MAX_JSON_DEPTH  512u        /* nested objects and lists */
#define TARN_MAX_JSON_VALUES (16u << 20) /* in one text, including keys */

#ifdef __cplusplus
}
#endif
#endif
