/* Samples whose values follow from their numbers, in all three kinds of datasets and in a
 * mix of them: for tests of threads and processes, and for the soak. */
#ifndef TARN_TESTS_MIXED_H
#define TARN_TESTS_MIXED_H

#include <tarn/tarn.h>

#include "asking.h"

enum {
    MIXED_FOLD = 600, /* samples; ten per shard */
    MIXED_GNZ = 500,
    MIXED_IAC = 400,
    MIXED_ALL = MIXED_FOLD + MIXED_GNZ + MIXED_IAC,
    MIXED_STEP = 10000, /* cls is sample + MIXED_STEP * source */
    MIXED_BAD = 97,     /* every N-th sample of the fold has an invalid cls */
    MIXED_BIN = 3000    /* bytes of the largest bin */
};

/* FOLDER/fold with the fields bin and cls, FOLDER/a.gnz and FOLDER/p.iac with cls. */
void mixed_make(const char *folder);

typedef struct mixed {
    tarn_dataset *fold, *gnz, *iac;
    tarn_dataset *all;      /* cls of all three */
    tarn_dataset *shuffled; /* the same in random order */
} mixed;

tarn_status mixed_open(mixed *m, const char *folder, tarn_io io, tarn_error *err);
void mixed_close(mixed *m);

bool mixed_is_bad(const mixed *m, uint64_t sample); /* of all */
int64_t mixed_cls(const mixed *m, uint64_t sample); /* of all */

/* The bin of a sample of the fold; its size. */
size_t mixed_bin(uint64_t sample, unsigned char *out);

/* Options for a loader: cls as an integer, failed samples skipped. */
tarn_loader_options mixed_loader(unsigned threads, size_t batch);

/* The first wrong sample of a batch of such a loader, or TARN_NO_SAMPLE. */
uint64_t mixed_wrong(const mixed *m, const tarn_batch *batch);

#endif
