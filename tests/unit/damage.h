/* Shared by the tests of damage: intact folds, ways to damage a file, and sweeps that
 * count the results. A sweep runs every case if TARN_DAMAGE is "full", and an evenly
 * spread sample of them otherwise. */
#ifndef TARN_TESTS_DAMAGE_H
#define TARN_TESTS_DAMAGE_H

#include "support.h"

#include "itar/fold.h"

/* Two keys with the same XXH64. */
#define REST     "________________________"
#define TWIN_ONE "twin_one" REST "twin_one" REST
#define TWIN_TWO "ezbdywnd" REST "rQ#FS-y!" REST

#define TEN(c) c c c c c c c c c c
#define DEEP   TEN("long/long/") "folder/"

enum { MAX_MEMBERS = 32, SHOWN = 4 };

typedef struct member {
    char name[256], key[80], field[16];
    unsigned shard;
    uint64_t start, offset, size;
    unsigned sample;
} member;

/* An intact fold, on disk and in memory. */
typedef struct golden {
    char folder[256], path[300];
    char file[4][300]; /* shard 0, shard 1, index, sums */
    int fd[4];         /* opened for damaging */
    unsigned char *bytes[4];
    size_t size[4];
    member members[MAX_MEMBERS];
    size_t count;
    unsigned samples;
    bool folders_unsure; /* the damage may be in the folder of a long name */
} golden;

enum { SHARD, OTHER, INDEX, SUMS };

/* Contiguous, with every way to store a member's name and size. */
void make_birds(golden *g);
/* Samples whose members are not contiguous. */
void make_mixed(golden *g);
/* Members with one key and field: their index rows differ only in the offset. */
void make_doubles(golden *g);
/* An archive in the archive, whose end coincides with the end of the shard. */
void make_nest_last(golden *g);
/* One without an end: its members are followed by those of the shard. */
void make_nest_open(golden *g);

/* Writes shards, index and sums of a fold, and keeps them in memory. */
void golden_publish(golden *g, const char *name, const tarball *shard,
                    const tarball *other);
void golden_drop(golden *g);

/* --- Counting ---------------------------------------------------------------------- */

typedef struct sweep {
    size_t cases, broken;
    size_t seen;    /* all cases, including those that are left out */
    char what[128]; /* the current damage */
    char shown[SHOWN][256];
} sweep;

/* Whether TARN_DAMAGE requests all cases. */
bool damage_is_full(void);

/* Whether the next case is run: all are, or one in N (an odd number, so that no bit of a
 * byte is left out). */
bool sweep_takes(sweep *s, size_t one_in);

/* why is NULL if the result is right. */
void sweep_judge(sweep *s, const char *why);
/* Prints how many cases there were, and fails the test if one was broken. */
void sweep_end(const sweep *s, const char *title);

/* --- Damaging ---------------------------------------------------------------------- */

void golden_put(const golden *g, int file, uint64_t at, const void *data, size_t size);
void golden_flip(const golden *g, int file, uint64_t at, unsigned bit);
void golden_restore(const golden *g, int file, uint64_t at);
void golden_restore_all(const golden *g, int file);
void golden_cut(const golden *g, int file, uint64_t size);

/* Values for a number in a file: the first six also as 4 bytes. */
enum { EXTREMES_COUNT = 12, SHORT_EXTREMES = 6 };
extern const uint64_t extremes[EXTREMES_COUNT];

/* Damages a file in memory in every way: truncated, a bit flipped, a byte removed,
 * aligned fields of 4 and 8 bytes set to extremes. check gets each version in a block of
 * exactly its size, and returns NULL or what is wrong. */
typedef const char *(*damage_check)(void *context, const unsigned char *bytes,
                                    size_t size);
void sweep_bytes(sweep *s, const unsigned char *bytes, size_t size, size_t one_in,
                 damage_check check, void *context);

/* --- Reading everything ------------------------------------------------------------ */

/* Each returns NULL, or what is wrong. */
const char *check_bytes(const golden *g, tarn__fold *fold, size_t from, size_t to);
const char *check_open(const golden *g, tarn__fold *fold);
const char *check_fold(const golden *g, bool check);

/* NULL, with a proper error, if it is refused. */
tarn__fold *open_fold(const golden *g, bool check, tarn_io io);

/* The rows of a sample of a fold whose samples were counted. */
tarn__sample_rows rows_of(const tarn__fold *fold, uint64_t sample);

/* The row of a field of the sample with a key. */
tarn_status row_of_field(tarn__fold *fold, const char *key, const char *field,
                         uint64_t *out);

/* Whether a byte of shard 0 is in a header block, or in the records of an extended
 * header. */
bool is_header(const golden *g, uint64_t at);
bool is_record(const golden *g, uint64_t at);

#endif
