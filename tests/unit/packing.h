/* Shared by the tests of IAC files: a small file whose payloads follow from their
 * numbers. */
#ifndef TARN_TESTS_PACKING_H
#define TARN_TESTS_PACKING_H

#include "support.h"

extern tarn_error err;

enum { ROWS = 50 };

/* Up to 210 bytes. */
void payload_of(unsigned i, unsigned char *out, size_t *size);
/* A table of one slide. */
void one_slide(struct ArrowArrayStream *out);
/* name: n0, n1, ...; group: i % 5 - 2, null for every seventh. */
void index_table(struct ArrowArrayStream *out, unsigned n);
/* ROWS records with these tables. */
void make_pack(const char *path, const tarn_iac_write_options *o);
/* Compares all records of such a file, by view and by copy. */
void check_rows(tarn_iac *pack);

#endif
