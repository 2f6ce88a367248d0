/* What the files of a join share: join.c writes the index, join_keys.c compares keys with
 * the same hash. */
#ifndef TARN_ITAR_JOIN_INSIDE_H
#define TARN_ITAR_JOIN_INSIDE_H

#include "base/runs.h"
#include "itar/fold_read.h"
#include "itar/join.h"

typedef struct tarn__joined {
    uint64_t first_row; /* of the part, in the joined index */
    uint32_t first_shard, n_shards, n_collisions;
    uint64_t n_rows;
    uint16_t *fields; /* for each of its fields, the number in the joined index */
    uint32_t n_fields;
    tarn__fold *fold; /* opened when a key is needed */
} tarn__joined;

/* A key whose collision number in the joined index is not 0. */
typedef struct tarn__stranger {
    uint64_t hash;
    uint32_t part, old; /* where it is, and its number there */
    uint32_t first_row; /* in the joined index */
    uint32_t fresh;     /* its number in the joined index */
    char *key;
    size_t len;
} tarn__stranger;

typedef struct tarn__joiner {
    const tarn__join *join;
    tarn__joined *parts;
    uint64_t *first_rows; /* of the parts, for searching */
    tarn_index *index;    /* the joined one, without rows */
    tarn__run *group;     /* runs with the same hash */
    size_t n_group, group_capacity;
    tarn__stranger *strangers;
    size_t n_strangers, stranger_capacity;
} tarn__joiner;

/* The runs of j->group have the same hash. Puts them into the order of their keys, notes
 * those that are strangers, and fails if two parts have the same key. */
TARN_CHECKED tarn_status tarn__join_group(tarn__joiner *j, tarn_error *err);

/* Numbers all strangers by first appearance. */
TARN_CHECKED tarn_status tarn__join_number(tarn__joiner *j, tarn_error *err);

/* The collision number in the joined index, for that in a part. */
uint32_t tarn__join_collision(const tarn__joiner *j, uint64_t hash, uint32_t part,
                              uint32_t old);

void tarn__join_close(tarn__joiner *j);

#endif
