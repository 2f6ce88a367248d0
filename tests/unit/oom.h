/* Every request for memory fails once, and then all from there on, in each scenario:
 * nothing crashes or leaks (AddressSanitizer checks), the error is TARN_ERR_MEMORY,
 * nothing is published partially, no temporary files are left, and afterwards everything
 * works. Where the library can do without the memory, it may also succeed.
 * test_oom_read.c and test_oom_write.c have the scenarios. */
#ifndef TARN_TESTS_OOM_H
#define TARN_TESTS_OOM_H

#include "support.h"

enum { SAMPLES = 6 };
#define PART(name) scratch_path(name)

typedef struct scenario {
    const char *name;
    tarn_status (*run)(tarn_error *why);
    void (*prepare)(void); /* or NULL */
    void (*check)(void);   /* or NULL */
} scenario;

/* Runs them all as the only test of a program, and then end. */
int run_without_memory(const scenario *scenarios, size_t count, int (*end)(void **state));

/* For a scenario that continues by itself after a failure. */
void memory_comes_back(void);

/* Data of the scenarios, in the scratch folder: shards (with an index), plain.tar,
 * in.tar.gz and similar files, in.gnz, in.iac, files, list.csv and list.jsonl; and the
 * functions that make them */

extern tarn_error err; /* for calls that must not fail */
extern unsigned char pixels[24 * 20 * 3];

tarn_array image_array(void);
tarn_array row_array(uint64_t rows);
tarn_status write_gnz(const char *path, tarn_error *why);
tarn_status write_iac(const char *path, tarn_error *why);
tarn_status write_tar(const char *path, tarn_error *why);
tarn_status write_fold(const char *folder, const tarn_fold_writer_options *o,
                       const char *prefix, tarn_error *why);
tarn_fold_writer_options fold_options(void);
void make_fold(const char *path);
void remove_folder(const char *path);
tarn_status read_samples(const char *url, tarn_error *why);

/* Checks that no writer left a temporary file. */
void check_nothing_hidden(const char *folder);

#endif
