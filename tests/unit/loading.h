/* What the tests of the loader share: data whose values can be told from their numbers,
 * and epochs as text, to be compared. */
#ifndef TARN_TESTS_LOADING_H
#define TARN_TESTS_LOADING_H

#include "support.h"

extern tarn_error err;

enum { SAMPLES = 53, WIDE = 40, HIGH = 30 };

/* Files in the scratch folder, made on first use. The fold has cls, raw bytes of growing
 * size, arrays of one shape and of several, text, and an image; the image of each sample
 * that is a multiple of bad is no image. */
const char *fold_path(unsigned bad);
const char *array_path(void);
const char *pack_path(void);

tarn_dataset *open_path(const char *path);
/* In random order, which changes with the epoch. */
tarn_dataset *open_shuffled(const char *path);
/* One rank's part of a dataset, which is taken over. */
tarn_dataset *one_rank(tarn_dataset *d, uint64_t rank, uint64_t world_size,
                       tarn_uneven uneven);
/* Whether loaders read the bytes of fields before they decode them, as for cold data. */
void set_staged(tarn_dataset *d, bool staged);
/* Of all three, those samples that have the array's x, in random order. */
tarn_dataset *open_mix(void);

/* Batches of 8. */
tarn_loader_options loader_options(void);

/* Appends all that a batch holds. */
void add_batch(tarn_bytes *out, const tarn_batch *b);
/* All batches up to an end, one text; the number of batches. */
size_t drain(tarn_loader *l, tarn_bytes *out);
tarn_bytes epochs_of(tarn_dataset *d, const tarn_loader_options *o, int epochs);
/* Compares two texts, and releases the second. */
void same(const tarn_bytes *a, tarn_bytes *b);

const tarn_column *column(const tarn_batch *b, const char *field);
/* Compares key, cls, bin, fix.npy and txt of a sample of the fold with what was put in.
 */
void check_sample(const tarn_batch *b, size_t i);

#endif
