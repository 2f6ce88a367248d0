/* The archive reader, for the rest of the library. */
#ifndef TARN_TAR_READER_H
#define TARN_TAR_READER_H

#include <tarn/tar.h>

#include "base/buf.h"
#include "base/checked.h"
#include "io/window.h"
#include "tar/header.h"
#include "tar/pax.h"

typedef struct tarn__member {
    const char *name; /* valid until the next call or the next use of the window; for a
                         stream, until the next call */
    size_t name_len;
    uint64_t start, offset, size;
    tarn__kind kind;
    char type;
} tarn__member;

/* Values from the extended headers before a member. */
typedef struct tarn__extended {
    bool pax, gnu_name, gnu_link;
    bool has_path; /* then it is in tarn_tar.path */
    bool has_size, has_mtime;
    uint64_t size;
    int64_t mtime;
    uint32_t mtime_ns;
} tarn__extended;

/* The location of a member. */
typedef struct tarn__extent {
    uint64_t start, offset, size;
} tarn__extent;

struct tarn_tar {
    tarn__file file;
    tarn__window window;
    tarn_tar_options options;
    tarn_tar_counts counts;
    uint64_t at;    /* of the next header */
    uint64_t group; /* of the first extended header of the current member */
    tarn__extended extended;
    tarn__pax global;
    tarn__buf path;
    tarn__buf joined; /* prefix/name */
    bool ended, saw_extended;
    uint64_t torn_at; /* lenient: nothing could be read from here on, or NO_OFFSET */
    uint64_t cut_at;  /* lenient: bytes from here on do not belong to an archive */
    unsigned meeting_steps; /* lenient: see recover.c */
    tarn_error trouble;     /* lenient: a read that failed during the search */
    uint64_t digest;        /* of all headers so far */

    /* Only for a stream, whose size is unknown until its end is reached. */
    tarn_source *source;       /* NULL: a file */
    tarn__buf name;            /* of the current member; the window may drop its bytes */
    tarn__extent current;      /* the current member */
    uint64_t read_to;          /* how much of its payload was read */
    uint64_t zeros, zeros_end; /* the zero blocks checked last */
    bool unseen; /* lenient: the search ended at the limit of looking ahead */
};

/* Opens a plain file for reading headers only, or every byte (use). A compressed file is
 * rejected, because callers of this function need random access. The URL of a remote
 * object is read as a stream. */
TARN_CHECKED tarn_status tarn__tar_open(tarn_tar *tar, const char *path,
                                        const tarn_tar_options *options,
                                        tarn__window_use use, tarn_error *err);
/* Opens any URL: a plain file as above, everything else as a stream. */
TARN_CHECKED tarn_status tarn__tar_open_url(tarn_tar *tar, const char *url,
                                            const tarn_tar_options *options,
                                            tarn__window_use use, tarn_error *err);
void tarn__tar_close(tarn_tar *tar);

/* Reads len bytes of the current member's payload from offset on, through the window: for
 * callers that read most payloads. */
TARN_CHECKED tarn_status tarn__tar_payload(tarn_tar *tar, const tarn__member *member,
                                           uint64_t offset, void *buf, size_t len,
                                           tarn_error *err);

/* The next member of any kind, or TARN_END. Lenient mode is applied. */
TARN_CHECKED tarn_status tarn__tar_next(tarn_tar *tar, tarn__member *out,
                                        tarn_error *err);

/* Whether lenient reading may continue after a failure. A failure to fetch data is not
 * damage; a broken or truncated compressed stream is. */
bool tarn__tar_is_damage(const tarn_tar *tar, tarn_status status);

/* Lenient mode: reports the error at tar->at and moves to the next header that can be
 * trusted. TARN_END if there is none. */
TARN_CHECKED tarn_status tarn__tar_recover(tarn_tar *tar, const tarn_error *why,
                                           tarn_error *err);

/* Finds where a shard's torn tail begins: everything before *out_keep is complete
 * members, and the bytes from *out_cut on are useless. TARN_END if the archive ends
 * correctly. */
TARN_CHECKED tarn_status tarn__tar_find_tear(const char *path, uint64_t *out_keep,
                                             uint64_t *out_cut, tarn_error *err);

/* Whether these bytes are zeros that a stream took for the end: they may be requested
 * again after the window has passed them. */
bool tarn__tar_passed_zeros(const tarn_tar *tar, uint64_t offset, size_t len);
extern const unsigned char tarn__zero_block[TARN__BLOCK];

/* len bytes at offset, valid until the next call. TARN_END if there are fewer, which a
 * stream knows only after it has tried to read them. */
TARN_CHECKED static inline tarn_status tarn__tar_get(tarn_tar *tar, uint64_t offset,
                                                     size_t len,
                                                     const unsigned char **out,
                                                     tarn_error *err)
{
    if (!tarn__range_in(offset, len, tar->file.size)) return TARN_END;
    if (tar->source && tarn__tar_passed_zeros(tar, offset, len)) {
        *out = tarn__zero_block;
        return TARN_OK;
    }
    return tarn__window_get(&tar->window, offset, len, out, err);
}

/* The offset of the first byte at or after from that is not zero, or the file's size. */
TARN_CHECKED tarn_status tarn__tar_skip_zeros(tarn_tar *tar, uint64_t from, uint64_t *out,
                                              tarn_error *err);

/* The end of a member, including padding. The size was checked against the file. */
static inline uint64_t tarn__member_end(uint64_t offset, uint64_t size)
{
    return offset + TARN__BLOCK +
           ((size + TARN__BLOCK - 1) & ~(uint64_t)(TARN__BLOCK - 1));
}

#endif
