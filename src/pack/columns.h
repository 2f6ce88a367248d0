/* The columns of a record pack from a manifest: their types, found from the values or
 * given by the caller, and the conversion of the values. Knows nothing about files. */
#ifndef TARN_PACK_COLUMNS_H
#define TARN_PACK_COLUMNS_H

#include <tarn/iac.h>
#include <tarn/pack.h>

#include "base/json.h"
#include "base/names.h"

enum { TARN__MAX_COLUMNS = 1024 };

typedef enum tarn__column_type {
    TARN__COLUMN_NULL, /* no value yet */
    TARN__COLUMN_TEXT,
    TARN__COLUMN_INT,
    TARN__COLUMN_REAL,
    TARN__COLUMN_BOOL,
    TARN__COLUMN_TIME /* only if the caller asks for it */
} tarn__column_type;

typedef struct tarn__column {
    tarn__column_type type; /* of the values, or of the items of lists */
    bool list;
    bool fixed;    /* the caller gave the type */
    uint64_t line; /* where the type was found */
} tarn__column;

typedef struct tarn__columns {
    tarn__names names;
    tarn__column columns[TARN__MAX_COLUMNS];
    const tarn_pack_type *types; /* the caller's */
    size_t n_types;
    tarn_iac_rows *rows;
    tarn__buf text; /* of the current value */
    tarn_iac_cell *items;
    size_t capacity;
} tarn__columns;

/* types gives the types of some columns, and is borrowed. The struct is large: allocate
 * it with zeros. */
TARN_CHECKED tarn_status tarn__columns_init(tarn__columns *c, const tarn_pack_type *types,
                                            size_t n_types, tarn_error *err);
void tarn__columns_reset(tarn__columns *c);

/* The first pass: adds a column, if it is new, and a value to its type. */
TARN_CHECKED tarn_status tarn__columns_learn(tarn__columns *c, const char *name,
                                             size_t len, const tarn__json *value,
                                             uint64_t line, tarn_error *err);

/* Between the passes: creates rows. */
TARN_CHECKED tarn_status tarn__columns_begin(tarn__columns *c, tarn_error *err);

/* The second pass: adds a value to the end of a column. NULL: a missing value. */
TARN_CHECKED tarn_status tarn__columns_add(tarn__columns *c, size_t column,
                                           const tarn__json *value, tarn_error *err);

#endif
