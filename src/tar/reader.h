/* The archive reader as the rest of the library sees it. */
#ifndef TARN_TAR_READER_H
#define TARN_TAR_READER_H

#include <tarn/tar.h>

#include "base/buf.h"
#include "base/checked.h"
#include "io/window.h"
#include "tar/header.h"
#include "tar/pax.h"

typedef struct tarn__member {
    const char *name; /* until the next call, or the next look through the window; of a
                         stream, until the next call */
    size_t name_len;
    uint64_t start, offset, size;
    tarn__kind kind;
    char type;
} tarn__member;

/* What the extended headers before a member say about it. */
typedef struct tarn__extended {
    bool pax, gnu_name, gnu_link;
    bool has_path; /* then it is in tarn_tar.path */
    bool has_size, has_mtime;
    uint64_t size;
    int64_t mtime;
    uint32_t mtime_ns;
} tarn__extended;

/* Where a member is. */
typedef struct tarn__extent {
    uint64_t start, offset, size;
} tarn__extent;

struct tarn_tar {
    tarn__file file;
    tarn__window window;
    tarn_tar_options options;
    tarn_tar_counts counts;
    uint64_t at;    /* of the next header */
    uint64_t group; /* of the first extended header of the member at hand */
    tarn__extended extended;
    tarn__pax global;
    tarn__buf path;
    tarn__buf joined; /* prefix/name */
    bool ended, saw_extended;
    uint64_t torn_at; /* lenient: from here on nothing could be read, or NO_OFFSET */
    uint64_t cut_at;  /* and what lies behind this is what no archive should have */
    unsigned meeting_steps; /* lenient: see recover.c */
    tarn_error trouble;     /* lenient: a read that failed while looking around */
    uint64_t digest;        /* of all headers so far */

    /* Only for a stream, whose size is unknown until its end is met. */
    tarn_source *source;       /* NULL: a file */
    tarn__buf name;            /* of the member at hand, which the window may let go */
    tarn__extent current;      /* the member at hand */
    uint64_t read_to;          /* how much of its payload was read */
    uint64_t zeros, zeros_end; /* the zero blocks that were looked through last */
    bool unseen; /* lenient: something lay further ahead than can be looked */
};

/* Opens a plain file for reading headers only, or every byte (use). A compressed one is
 * refused: whoever calls this needs random access. */
TARN_CHECKED tarn_status tarn__tar_open(tarn_tar *tar, const char *path,
                                        const tarn_tar_options *options,
                                        tarn__window_use use, tarn_error *err);
/* Opens whatever a URL leads to: a plain file as above, all else as a stream. */
TARN_CHECKED tarn_status tarn__tar_open_url(tarn_tar *tar, const char *url,
                                            const tarn_tar_options *options,
                                            tarn__window_use use, tarn_error *err);
void tarn__tar_close(tarn_tar *tar);

/* Reads len bytes of the payload of the member at hand from offset on, through the
 * window: the way for whoever reads most payloads. */
TARN_CHECKED tarn_status tarn__tar_payload(tarn_tar *tar, const tarn__member *member,
                                           uint64_t offset, void *buf, size_t len,
                                           tarn_error *err);

/* The next member of any kind, or TARN_END. Lenient mode is applied. */
TARN_CHECKED tarn_status tarn__tar_next(tarn_tar *tar, tarn__member *out,
                                        tarn_error *err);

/* Whether lenient reading may go on after a failure. What could not be fetched is no
 * damage; a compressed stream that is broken or cut is. */
bool tarn__tar_is_damage(const tarn_tar *tar, tarn_status status);

/* Lenient mode: tells what is wrong at tar->at and moves on to the next header that can
 * be trusted. TARN_END if there is none. */
TARN_CHECKED tarn_status tarn__tar_recover(tarn_tar *tar, const tarn_error *why,
                                           tarn_error *err);

/* Where a shard's torn tail begins: everything before *out_keep is whole members, and the
 * bytes from *out_cut on are of no use. TARN_END if the archive ends as it should. */
TARN_CHECKED tarn_status tarn__tar_find_tear(const char *path, uint64_t *out_keep,
                                             uint64_t *out_cut, tarn_error *err);

/* Whether these bytes are zeros that a stream took for the end: it has passed them, and
 * they may be asked for again. */
bool tarn__tar_passed_zeros(const tarn_tar *tar, uint64_t offset, size_t len);
extern const unsigned char tarn__zero_block[TARN__BLOCK];

/* len bytes at offset, until the next call. TARN_END if they are not all there: a stream
 * knows that only once it has tried. */
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

/* Where the member ends, padding included. The size was checked against the file. */
static inline uint64_t tarn__member_end(uint64_t offset, uint64_t size)
{
    return offset + TARN__BLOCK +
           ((size + TARN__BLOCK - 1) & ~(uint64_t)(TARN__BLOCK - 1));
}

#endif
