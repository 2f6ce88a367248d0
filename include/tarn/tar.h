/* tarn/tar.h: the members of one tar archive, in order.
 *
 * An archive is a local file, or anything that tarn/source.h reads: "-", a URL, a
 * compressed file. All but a plain file are streams: constant memory, payloads in order
 * only, and what is wrong is found when it comes by.
 *
 * v7, ustar, pax and GNU archives are read. Directories, links and devices are counted
 * and passed over. What different tar programs would read differently (sparse members,
 * a size in a global header, malformed pax records, ...) is refused with the reason.
 *
 *     tarn_tar *tar;
 *     tarn_member m;
 *     if (tarn_tar_open("a.tar", NULL, &tar, &err) != TARN_OK) return fail(&err);
 *     while ((status = tarn_tar_next(tar, &m, &err)) == TARN_OK)
 *         printf("%.*s %llu\n", (int)m.name_len, m.name, (unsigned long long)m.size);
 *     tarn_tar_close(tar);
 *     if (status != TARN_END) return fail(&err);
 *
 * A reader belongs to one thread at a time.
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

    /* Strict (false): a bad header, a missing end, a truncation, or bytes after the end
     * are errors. Lenient (true): each is told to notice, and reading goes on at the next
     * header that can be trusted; a member whose name is in doubt is passed over too.
     * In a stream the next 16 MiB must tell where that is, or the rest is passed over. */
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
    const char *name; /* raw bytes, no NUL inside; borrowed until the next call */
    size_t name_len;
    uint64_t start;  /* of the first header that belongs to it, extended ones included */
    uint64_t offset; /* of its own header: the payload begins 512 bytes later */
    uint64_t size;   /* of the payload */
    char type;       /* '0' for every regular file, else the archive's type flag */
    uint32_t mode;
    int64_t mtime;     /* seconds since 1970 */
    uint32_t mtime_ns; /* and the rest, from a pax header */
} tarn_member;

/* What has been passed so far. */
typedef struct tarn_tar_counts {
    uint64_t members; /* regular files */
    uint64_t directories;
    uint64_t links;      /* hard and symbolic */
    uint64_t devices;    /* and fifos */
    uint64_t damages;    /* places passed over in lenient mode */
    uint64_t lost_bytes; /* in those places */
} tarn_tar_counts;

/* Opens an archive by path or URL. options may be NULL. */
TARN_API TARN_CHECKED tarn_status tarn_tar_open(const char *path,
                                                const tarn_tar_options *options,
                                                tarn_tar **out, tarn_error *err);

/* Whether path would be read as a stream: "-", a URL, a compressed file, a pipe. False
 * for what is not there. */
TARN_API bool tarn_tar_is_stream(const char *path);

/* The next regular member, or TARN_END. After an error the reader is of no more use.
 * That a file ends inside a member is known before it is returned; of a stream it is
 * known when its payload, or the member behind it, is asked for. */
TARN_API TARN_CHECKED tarn_status tarn_tar_next(tarn_tar *tar, tarn_member *out,
                                                tarn_error *err);

/* Reads len bytes of a member's payload, beginning at offset within it. Of a stream only
 * the member returned last can be read, and that from front to back: TARN_ERR_USAGE
 * otherwise. */
TARN_API TARN_CHECKED tarn_status tarn_tar_read(tarn_tar *tar, const tarn_member *member,
                                                uint64_t offset, void *buf, size_t len,
                                                tarn_error *err);

TARN_API void tarn_tar_counts_get(const tarn_tar *tar, tarn_tar_counts *out, size_t size);

TARN_API void tarn_tar_close(tarn_tar *tar);

#ifdef __cplusplus
}
#endif
#endif
