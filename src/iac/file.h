/* An open IAC file (a record pack), as the parts of the reader see it. */
#ifndef TARN_IAC_FILE_H
#define TARN_IAC_FILE_H

#include "iac/header.h"
#include "iac/table.h"

/* One of the three columns the reader itself needs. */
typedef struct tarn__number_column {
    const char *name;
    int64_t column;   /* -1: there is none, or none of use */
    tarn_status flaw; /* why it is of no use, or TARN_OK */
    uint32_t width;
    unsigned above_sign; /* bits that a signed number lacks of 64 */
} tarn__number_column;

struct tarn_iac {
    tarn__source_file *file;
    tarn_iac_options options;
    tarn__iac_header header;
    tarn__iac_codec codec;
    tarn__table *tables[2]; /* by tarn_iac_table */
    tarn__number_column offset, length, crc32;
    char **types[2];                         /* of columns, in words */
    tarn__forklock lock;                     /* while a lookup is made */
    _Atomic(struct tarn__lookup *) *lookups; /* by column of the index */
};

/* Fails where there is such a column, but not of use; the error says why. */
TARN_CHECKED tarn_status tarn__iac_check_column(const struct tarn_iac *pack,
                                                const tarn__number_column *column,
                                                tarn_error *err);

/* The failure of a row that is past the end. */
tarn_status tarn__iac_no_row(const struct tarn_iac *pack, uint64_t row, tarn_error *err);

/* Whether a record's bytes have its checksum, if the pack was opened to check. */
TARN_CHECKED tarn_status tarn__iac_check(const struct tarn_iac *pack, uint64_t row,
                                         const void *data, tarn_error *err);

/* Copies a record as it is stored; TARN_ERR_LIMIT if it has more bytes than capacity. */
TARN_CHECKED tarn_status tarn__iac_copy(const struct tarn_iac *pack, uint64_t row,
                                        void *buf, size_t capacity, tarn_error *err);

/* find.c */
void tarn__lookup_free(struct tarn__lookup *lookup);

#endif
