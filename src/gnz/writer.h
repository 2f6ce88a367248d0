/* A writer of array files, shared by the files of this folder: writer.c collects and lays
 * out, values.c writes values, update.c changes files in place. */
#ifndef TARN_GNZ_WRITER_H
#define TARN_GNZ_WRITER_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/cast.h"
#include "gnz/header.h"
#include "io/publish.h"

typedef struct tarn__gnz_slot {
    tarn__gnz_entry entry;
    uint64_t shape[TARN_MAX_DIMS];
    bool old;          /* existed in the file before the update */
    bool complete;     /* values are given before the file is begun */
    tarn_array values; /* if complete: the caller's, valid until begin returns */
    tarn__cast cast;
    uint64_t next;   /* the next row to append */
    uint64_t summed; /* bytes that the checksum covers */
} tarn__gnz_slot;

struct tarn_gnz_writer {
    tarn_gnz_writer_options options;
    char *path;
    tarn__publish publish; /* for a new file */
    int fd;                /* of the new or updated file */
    bool updating, begun;
    bool has_sum;       /* the header stores its own checksum */
    bool committed;     /* the journal says that the new header is valid */
    bool replacing;     /* the journal may already have the new header */
    atomic_bool failed; /* values were lost: nothing may be published */
    tarn__names names;  /* the number of a name is the number of its array */
    tarn__gnz_slot **slots;
    size_t count, capacity;
    tarn__buf metadata;
    uint64_t old_size;    /* size of the file before the update */
    uint64_t space;       /* space for its header */
    tarn__buf old_head;   /* its bytes up to the end of the header */
    uint64_t done, total; /* for progress */
    pthread_mutex_t lock; /* guards next and rows */
};

/* The path for messages: that of the temporary file while there is one. */
const char *tarn__gnz_writer_place(const tarn_gnz_writer *writer);

/* Adds an array with a copy of name and shape. */
TARN_CHECKED tarn_status tarn__gnz_slot_add(tarn_gnz_writer *writer, const char *name,
                                            size_t name_len, tarn_dtype dtype,
                                            unsigned ndim, const uint64_t *shape,
                                            uint64_t reserved, tarn__gnz_slot **out,
                                            tarn_error *err);

/* The arrays and the metadata as they would be written now. The caller frees the list of
 * entries. */
TARN_CHECKED tarn_status tarn__gnz_writer_plan(const tarn_gnz_writer *writer,
                                               tarn__gnz_plan *out, tarn_error *err);

/* Appends the current header. */
TARN_CHECKED tarn_status tarn__gnz_writer_head(const tarn_gnz_writer *writer,
                                               tarn__buf *out, tarn_error *err);

/* Extends the file from old_size to size bytes and reserves the disk space. */
TARN_CHECKED tarn_status tarn__gnz_take_space(const tarn_gnz_writer *writer,
                                              uint64_t from, uint64_t size,
                                              tarn_error *err);

/* Adds to the bytes done; TARN_ERR_CANCELLED if the caller wants to stop. */
TARN_CHECKED tarn_status tarn__gnz_step(tarn_gnz_writer *writer, uint64_t bytes,
                                        tarn_error *err);

/* values.c: casts values and writes them contiguously from offset on. If crc is given, it
 * is updated with the written bytes, and progress is reported. */
TARN_CHECKED tarn_status tarn__gnz_write_values(tarn_gnz_writer *writer,
                                                const tarn_array *values,
                                                const tarn__cast *cast, uint64_t offset,
                                                uint32_t *crc, tarn_error *err);

/* Computes the checksums that were not computed while writing. */
TARN_CHECKED tarn_status tarn__gnz_sum_slots(tarn_gnz_writer *writer, tarn_error *err);

/* update.c */
TARN_CHECKED tarn_status tarn__gnz_open_old(tarn_gnz_writer *writer, tarn_error *err);
TARN_CHECKED tarn_status tarn__gnz_begin_update(tarn_gnz_writer *writer, tarn_error *err);
TARN_CHECKED tarn_status tarn__gnz_finish_update(tarn_gnz_writer *writer,
                                                 tarn_error *err);
void tarn__gnz_abandon_update(tarn_gnz_writer *writer);

/* journal.c: the file next to an array file that makes an update recoverable. */

/* Whether a journal exists. */
TARN_CHECKED tarn_status tarn__gnz_journal_find(const char *path, bool *out_there,
                                                tarn_error *err);
/* Returns whether no journal exists afterwards. */
bool tarn__gnz_journal_remove(const char *path);

/* Zeros pad the shorter header, so that both have the same length. If cut is not 0 and
 * the file is longer, recovery truncates it to cut bytes. */
TARN_CHECKED tarn_status tarn__gnz_journal_write(const char *path, const char *old_head,
                                                 const char *new_head, size_t len,
                                                 uint64_t cut, tarn_error *err);

/* Finishes or undoes an interrupted update if the journal belongs to this file; fd must
 * be open for writing. Does nothing without a journal. */
TARN_CHECKED tarn_status tarn__gnz_journal_apply(const char *path, int fd,
                                                 bool *out_applied, tarn_error *err);

/* Overwrites the header and waits until it is on the disk. */
TARN_CHECKED tarn_status tarn__gnz_put_head(const char *path, int fd, const char *head,
                                            size_t len, tarn_error *err);

#endif
