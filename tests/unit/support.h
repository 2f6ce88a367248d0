/* Shared by the unit tests: cmocka's headers in the right order, archives made block by
 * block, and scratch folders that are removed. */
#ifndef TARN_TESTS_SUPPORT_H
#define TARN_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/tarn.h>

#include "../values.h"
#include "asking.h"

/* An archive in memory. All functions below append to it. */
typedef struct tarball {
    unsigned char *data;
    size_t size;
} tarball;

void tarball_reset(tarball *t);

/* A ustar header with a correct checksum; the caller adds the payload. */
void tarball_header(tarball *t, const char *name, char type, uint64_t size);
/* Corrects the checksum of the last header after a change. */
void tarball_sum(unsigned char *header);
void tarball_payload(tarball *t, const void *data, size_t size);
void tarball_file(tarball *t, const char *name, const char *text);
/* A field of sample number i, whose key is s0000 and so on, encoded by its name. */
void tarball_value(tarball *t, unsigned i, const char *field, const tarn_value *value);
/* An extended header: type 'x', 'g', 'L' or 'K' with its data. */
void tarball_extended(tarball *t, char type, const void *data, size_t size);
void tarball_pax(tarball *t, char type, const char *key, const char *value);
void tarball_end(tarball *t);
/* The last header block that was appended. */
unsigned char *tarball_last(tarball *t);

/* A scratch folder, and paths in it. scratch() makes it on first use. */
const char *scratch(void);
const char *scratch_path(const char *name); /* valid until the fourth next call */
int scratch_remove(void **state);           /* a group teardown */
/* A group setup for tests that write very many files: in memory where possible. */
int scratch_in_memory(void **state);

void write_file(const char *path, const void *data, size_t size);
unsigned char *read_file(const char *path, size_t *out_size);
void save_tar(const tarball *t, const char *path);

/* Makes it the only shard of fold "f" in a folder, with its index and sums. Returns how
 * many rows it has. */
uint64_t publish_fold(const tarball *t, const char *where,
                      const tarn_index_options *options);

/* Sets a locale that writes 0,5 for a half; creates one in the scratch folder if none is
 * installed. Returns false if there is none: then the test is skipped. */
bool set_comma_locale(void);

/* "tests/data/..." */
const char *data_path(const char *name);

/* The unpacked fuzz corpus of a target (scripts/corpus.py unpack). */
const char *corpus_path(const char *target);

/* Fails the test with the library's message unless the status is TARN_OK. */
void check_ok(tarn_status status, const tarn_error *err, const char *file, int line);
#define OK(expr) check_ok((expr), &err, __FILE__, __LINE__)

/* Checks the code of a failure and a part of its text. */
void check_failed(tarn_status want, tarn_status got, const tarn_error *err,
                  const char *part, const char *file, int line);
#define FAILS(code, part, expr)                                                          \
    check_failed((code), (expr), &err, (part), __FILE__, __LINE__)

/* Ends this process with SIGALRM after HANG_SECONDS, for children that may wait forever.
 * The time is long enough that only a hang reaches it, even on a busy machine. */
enum { HANG_SECONDS = 300 };
void end_if_it_hangs(void);

#endif
