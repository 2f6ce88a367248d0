/* An open IAC file (a record pack), shared by the files of the reader. */
#ifndef TARN_IAC_FILE_H
#define TARN_IAC_FILE_H

#include <tarn/verify.h>

#include "iac/header.h"
#include "iac/table.h"

/* One of the three columns that the reader needs. */
typedef struct tarn__number_column {
    const char *name;
    int64_t column;   /* -1: missing or unusable */
    tarn_status flaw; /* why it is unusable, or TARN_OK */
    uint32_t width;
    unsigned above_sign; /* 64 minus the number of bits, for signed numbers */
} tarn__number_column;

struct tarn_iac {
    tarn__source_file *file;
    tarn_iac_options options;
    tarn__iac_header header;
    tarn__iac_codec codec;
    tarn__table *tables[2]; /* by tarn_iac_table */
    tarn__number_column offset, length, crc32;
    char **types[2];                         /* type names of the columns */
    tarn__forklock lock;                     /* held while a lookup is built */
    _Atomic(struct tarn__lookup *) *lookups; /* by column of the index */
};

/* tarn_iac_open with options that are complete; path may be a URL of a remote file, whose
 * copy is in the cache, which is borrowed and may be NULL. */
TARN_CHECKED tarn_status tarn__iac_open(const char *path, const tarn_iac_options *options,
                                        struct tarn__cachedir *cache,
                                        struct tarn_iac **out, tarn_error *err);

/* Fails if the column exists but cannot be used; the error says why. */
TARN_CHECKED tarn_status tarn__iac_check_column(const struct tarn_iac *pack,
                                                const tarn__number_column *column,
                                                tarn_error *err);

/* The error for a row number past the end. */
tarn_status tarn__iac_no_row(const struct tarn_iac *pack, uint64_t row, tarn_error *err);

/* Checks the checksum of a record's bytes if the file was opened with checks. */
TARN_CHECKED tarn_status tarn__iac_check(const struct tarn_iac *pack, uint64_t row,
                                         const void *data, tarn_error *err);

/* Copies a record as stored; TARN_ERR_LIMIT if it has more bytes than capacity. */
TARN_CHECKED tarn_status tarn__iac_copy(const struct tarn_iac *pack, uint64_t row,
                                        void *buf, size_t capacity, tarn_error *err);

/* See tarn_verify; adds to the report. */
TARN_CHECKED tarn_status tarn__iac_verify(const char *path,
                                          const tarn_verify_options *options,
                                          tarn_verify_report *report, tarn_error *err);

/* find.c */
void tarn__lookup_free(struct tarn__lookup *lookup);

#endif
