/* tarn/tar.h: reads the members of one tar archive, in order.
 *
 * An archive is a local file or anything else that tarn/source.h reads: "-", a URL, a
 * compressed file. All archives except plain files are streams: they need constant
 * memory, payloads can only be read in order, and errors are found when the reader
 * reaches them.
 *
 * The reader supports v7, ustar, pax and GNU archives. It counts and skips directories,
 * links and devices. Members that different tar programs would read differently (sparse
 * members, a size in a global header, malformed pax records, ...) are refused, with the
 * reason.
 *
 *     tarn_tar *tar;
 *     tarn_member m;
 *     if (tarn_tar_open("a.tar", NULL, &tar, &err) != TARN_OK) return fail(&err);
 *     while ((status = tarn_tar_next(tar, &m, &err)) == TARN_OK)
 *         printf("%.*s %llu\n", (int)m.name_len, m.name, (unsigned long long)m.size);
 *     tarn_tar_close(tar);
 *     if (status != TARN_END) return fail(&err);
 *
 * Only one thread at a time may use a reader.
 */
#ifndef TARN_TAR_H
#define TARN_TAR_H

#include <tarn/base.h>
#include <tarn/source.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tarn_tar tarn_tar;

typedef struct tarn_tar_options {
    size_t size; /* of this struct; set by the initialiser */

    /* false (strict): a bad header, a missing end, a truncation, and bytes after the end
     * are errors. true (lenient): each of these is reported to notice, and reading
     * continues at the next trustworthy header; a member whose name is in doubt is
     * skipped, too. In a stream, that header must be found within the next 16 MiB, or the
     * rest is skipped. */
    bool lenient;

    /* Also return directories, links and devices. */
    bool all_types;

    tarn_notice notice;
    void *notice_context;

    bool allow_pipe;                   /* run pipe: commands in a shell */
    const tarn_source_options *source; /* how streams are opened; NULL: the defaults */
} tarn_tar_options;

#define TARN_TAR_OPTIONS_INIT                                                            \
    {                                                                                    \
        .size = sizeof(tarn_tar_options)                                                 \
    }
TARN_API void tarn_tar_options_init(tarn_tar_options *options, size_t size);

typedef struct tarn_member {
    const char *name; /* raw bytes without NULs; borrowed until the next call */
    size_t name_len;
    uint64_t start;  /* of its first header, including extended headers */
    uint64_t offset; /* of its own header; the payload begins 512 bytes later */
    uint64_t size;   /* of the payload */
    char type;       /* '0' for regular files, otherwise the type flag */
    uint32_t mode;
    int64_t mtime;     /* seconds since 1970 */
    uint32_t mtime_ns; /* and nanoseconds, from a pax header */
} tarn_member;

/* Counts up to the current position. */
typedef struct tarn_tar_counts {
    uint64_t members; /* regular files */
    uint64_t directories;
    uint64_t links;      /* hard and symbolic */
    uint64_t devices;    /* and fifos */
    uint64_t damages;    /* damaged places skipped in lenient mode */
    uint64_t lost_bytes; /* bytes in those places */
} tarn_tar_counts;

/* Opens an archive by path or URL. options may be NULL. Close it with tarn_tar_close. */
TARN_API TARN_CHECKED tarn_status tarn_tar_open(const char *path,
                                                const tarn_tar_options *options,
                                                tarn_tar **out, tarn_error *err);

/* Returns whether path would be read as a stream: "-", a URL, a compressed file, a pipe.
 * Returns false if path does not exist. */
TARN_API bool tarn_tar_is_stream(const char *path);

/* Gets the next regular member, or TARN_END. After an error the reader cannot be used
 * further. If a file ends inside a member, that is detected before the member is
 * returned. In a stream it is detected when the payload of the member, or the next
 * member, is read. */
TARN_API TARN_CHECKED tarn_status tarn_tar_next(tarn_tar *tar, tarn_member *out,
                                                tarn_error *err);

/* Reads len bytes of a member's payload, starting at offset within the payload. In a
 * stream, only the member returned last can be read, and only from front to back;
 * otherwise TARN_ERR_USAGE. */
TARN_API TARN_CHECKED tarn_status tarn_tar_read(tarn_tar *tar, const tarn_member *member,
                                                uint64_t offset, void *buf, size_t len,
                                                tarn_error *err);

/* Fills *out, of size bytes. */
TARN_API void tarn_tar_counts_get(const tarn_tar *tar, tarn_tar_counts *out, size_t size);

TARN_API void tarn_tar_close(tarn_tar *tar);

#ifdef __cplusplus
}
#endif
#endif
