/* Shared by the tests of the loader: data whose values follow from the sample numbers,
 * and epochs as text, for comparison. */
#ifndef TARN_TESTS_LOADING_H
#define TARN_TESTS_LOADING_H

#include "support.h"

extern tarn_error err;

enum { SAMPLES = 53, WIDE = 40, HIGH = 30 };

/* Files in the scratch folder, made on first use. The fold has cls, raw bytes of growing
 * size, arrays of one shape and of several, text, and an image; the image of each sample
 * whose number is a multiple of bad cannot be decoded. */
const char *fold_path(unsigned bad);
const char *array_path(void);
const char *pack_path(void);

tarn_dataset *open_path(const char *path);
/* In random order, which changes with the epoch. */
tarn_dataset *open_shuffled(const char *path);
/* One rank's part of a dataset; takes ownership of the dataset. */
tarn_dataset *one_rank(tarn_dataset *d, uint64_t rank, uint64_t world_size,
                       tarn_uneven uneven);
/* Whether loaders read the bytes of fields before they decode them, as for cold data. */
void set_staged(tarn_dataset *d, bool staged);
/* The samples of all three that have the array's x, in random order. */
tarn_dataset *open_mix(void);

/* Batches of 8. */
tarn_loader_options loader_options(void);

/* Appends the content of a batch. */
void add_batch(tarn_bytes *out, const tarn_batch *b);
/* All batches up to an end, as one text; returns the number of batches. */
size_t drain(tarn_loader *l, tarn_bytes *out);
tarn_bytes epochs_of(tarn_dataset *d, const tarn_loader_options *o, int epochs);
/* Compares two texts, and releases the second. */
void same(const tarn_bytes *a, tarn_bytes *b);

const tarn_column *column(const tarn_batch *b, const char *field);
/* Compares key, cls, bin, fix.npy and txt of a sample of the fold with what was written.
 */
void check_sample(const tarn_batch *b, size_t i);

#endif
