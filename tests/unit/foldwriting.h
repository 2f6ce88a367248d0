/* Shared by the tests of the fold writer: each test has its own folder, with folds whose
 * samples contain their keys. */
#ifndef TARN_TESTS_FOLDWRITING_H
#define TARN_TESTS_FOLDWRITING_H

#include "own_folder.h"

extern tarn_error err;

bool is_there(const char *name);

/* Not synced, two samples per shard. */
tarn_fold_writer_options quick(void);
tarn_fold_writer *open_fold(const char *fold, const tarn_fold_writer_options *o);
/* Opens, and abandons the writer if it could be opened. */
tarn_status try_open(const char *fold, const tarn_fold_writer_options *o);
tarn_status add(tarn_fold_writer *w, const char *key);
/* Keys PREFIX00, PREFIX01, ... */
void add_some(tarn_fold_writer *w, const char *prefix, int from, int count);
void make_fold(const char *fold, const char *prefix, int count);
/* Leaves finished shards of "train". */
void suspend(tarn_fold_writer_options o, const char *prefix, int count);
/* Opens a fold as a reader does; returns the number of its samples, each read by key. */
uint64_t read_fold(const char *fold, const char *prefix);
void remove_fold(const char *fold);

#endif
