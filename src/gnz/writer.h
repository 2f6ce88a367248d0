/* A writer of array files, as the files of this folder see it: writer.c collects and lays
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
    bool old;          /* was in the file that is updated */
    bool complete;     /* values are given before the file is begun */
    tarn_array values; /* if complete: the caller's, until begin returns */
    tarn__cast cast;
    uint64_t next;   /* the row that is appended next */
    uint64_t summed; /* bytes that the checksum covers */
} tarn__gnz_slot;

struct tarn_gnz_writer {
    tarn_gnz_writer_options options;
    char *path;
    tarn__publish publish; /* of a new file */
    int fd;                /* the file's, new or updated */
    bool updating, begun;
    bool has_sum;       /* the header notes its own checksum */
    bool committed;     /* the journal says that the new header counts */
    bool replacing;     /* the journal may have the new header already */
    atomic_bool failed; /* values were lost: nothing may be published */
    tarn__names names;  /* an array's number is its name's */
    tarn__gnz_slot **slots;
    size_t count, capacity;
    tarn__buf metadata;
    uint64_t old_size;    /* of the file that is updated, */
    uint64_t space;       /* the room for its header, */
    tarn__buf old_head;   /* and its bytes up to the header's end */
    uint64_t done, total; /* for progress */
    pthread_mutex_t lock; /* over next and rows */
};

/* Path for messages: the temporary file's while there is one. */
const char *tarn__gnz_writer_place(const tarn_gnz_writer *writer);

/* Adds a slot with a copy of name and shape. */
TARN_CHECKED tarn_status tarn__gnz_slot_add(tarn_gnz_writer *writer, const char *name,
                                            size_t name_len, tarn_dtype dtype,
                                            unsigned ndim, const uint64_t *shape,
                                            uint64_t reserved, tarn__gnz_slot **out,
                                            tarn_error *err);

/* The array that would be written: where things are, what the metadata is. The list of
 * entries is the caller's to free. */
TARN_CHECKED tarn_status tarn__gnz_writer_plan(const tarn_gnz_writer *writer,
                                               tarn__gnz_plan *out, tarn_error *err);

/* Appends the header as it is now. */
TARN_CHECKED tarn_status tarn__gnz_writer_head(const tarn_gnz_writer *writer,
                                               tarn__buf *out, tarn_error *err);

/* Extends the file to size bytes from old_size on, with disk space behind it. */
TARN_CHECKED tarn_status tarn__gnz_take_space(const tarn_gnz_writer *writer,
                                              uint64_t from, uint64_t size,
                                              tarn_error *err);

/* Counts bytes that are done; TARN_ERR_CANCELLED if the caller wants to stop. */
TARN_CHECKED tarn_status tarn__gnz_step(tarn_gnz_writer *writer, uint64_t bytes,
                                        tarn_error *err);

/* values.c: casts and writes values so that they lie together from offset on. Where crc
 * is given it goes on over what is written, and progress is told. */
TARN_CHECKED tarn_status tarn__gnz_write_values(tarn_gnz_writer *writer,
                                                const tarn_array *values,
                                                const tarn__cast *cast, uint64_t offset,
                                                uint32_t *crc, tarn_error *err);

/* Makes the checksums of what was not summed while it was written. */
TARN_CHECKED tarn_status tarn__gnz_sum_slots(tarn_gnz_writer *writer, tarn_error *err);

/* update.c */
TARN_CHECKED tarn_status tarn__gnz_open_old(tarn_gnz_writer *writer, tarn_error *err);
TARN_CHECKED tarn_status tarn__gnz_begin_update(tarn_gnz_writer *writer, tarn_error *err);
TARN_CHECKED tarn_status tarn__gnz_finish_update(tarn_gnz_writer *writer,
                                                 tarn_error *err);
void tarn__gnz_abandon_update(tarn_gnz_writer *writer);

/* journal.c: the header that an update was about to write, beside the file. */

/* Whether there is one. */
TARN_CHECKED tarn_status tarn__gnz_journal_find(const char *path, bool *out_there,
                                                tarn_error *err);
/* Whether there is none now. */
bool tarn__gnz_journal_remove(const char *path);

/* Both headers have the same length: zeros fill up the shorter one. A file that is longer
 * than cut is cut back to it, unless cut is 0. */
TARN_CHECKED tarn_status tarn__gnz_journal_write(const char *path, const char *old_head,
                                                 const char *new_head, size_t len,
                                                 uint64_t cut, tarn_error *err);

/* Finishes or takes back what an interrupted update began, if the journal is of this
 * file; fd must be open for writing. Without a journal nothing happens. */
TARN_CHECKED tarn_status tarn__gnz_journal_apply(const char *path, int fd,
                                                 bool *out_applied, tarn_error *err);

/* Writes a header over the old one and waits for the disk. */
TARN_CHECKED tarn_status tarn__gnz_put_head(const char *path, int fd, const char *head,
                                            size_t len, tarn_error *err);

#endif
