/* Calls on datasets and orders in one line each, which many tests need. */
#ifndef TARN_TESTS_ASKING_H
#define TARN_TESTS_ASKING_H

#include <tarn/tarn.h>

static inline tarn_status find_key(tarn_dataset *d, const char *key, uint64_t *out,
                                   tarn_error *why)
{
    return tarn_dataset_find(d, &key, 1, out, NULL, why);
}

/* The number that a sample had before any selection. */
static inline uint64_t row_of(tarn_dataset *d, uint64_t sample)
{
    tarn_place place;
    tarn_status status =
        tarn_dataset_locate(d, sample, TARN_NO_FIELD, &place, sizeof place, NULL);
    return status == TARN_OK ? place.row : TARN_NO_SAMPLE;
}

/* The source of a sample of a mix. */
static inline tarn_status mix_at(tarn_dataset *d, uint64_t sample, tarn_place *out,
                                 tarn_error *why)
{
    return tarn_dataset_locate(d, sample, TARN_NO_FIELD, out, sizeof *out, why);
}

static inline uint64_t length_of(const tarn_order *order)
{
    tarn_order_info info;
    tarn_order_info_get(order, &info, sizeof info);
    return info.length;
}

static inline tarn_status order_at(const tarn_order *order, uint64_t i, uint64_t *out,
                                   tarn_error *why)
{
    return tarn_order_fill(order, i, 1, out, why);
}

/* --- Filters ----------------------------------------------------------------------- */

static inline tarn_status keep_mask(tarn_dataset *d, const bool *mask, tarn_dataset **out,
                                    tarn_error *why)
{
    tarn_condition c = TARN_CONDITION_INIT;
    c.mask = mask;
    return tarn_dataset_filter(d, &c, out, why);
}

/* By names: keys, fields, or values of the column name. */
static inline tarn_status keep_names(tarn_dataset *d, tarn_condition_kind kind,
                                     const char *name, const char *const *names,
                                     size_t count, bool *found, tarn_dataset **out,
                                     tarn_error *why)
{
    tarn_condition c = TARN_CONDITION_INIT;
    c.kind = kind;
    c.name = name;
    c.names = names;
    c.n_names = count;
    c.found = found;
    return tarn_dataset_filter(d, &c, out, why);
}

static inline tarn_status keep_keys(tarn_dataset *d, const char *const *keys,
                                    size_t count, bool *found, tarn_dataset **out,
                                    tarn_error *why)
{
    return keep_names(d, TARN_CONDITION_KEYS, NULL, keys, count, found, out, why);
}

static inline tarn_status keep_having(tarn_dataset *d, const char *const *fields,
                                      size_t count, tarn_dataset **out, tarn_error *why)
{
    return keep_names(d, TARN_CONDITION_HAVING, NULL, fields, count, NULL, out, why);
}

/* By name and range. */
static inline tarn_status keep_name(tarn_dataset *d, tarn_condition_kind kind,
                                    const char *name, double min, double max,
                                    tarn_dataset **out, tarn_error *why)
{
    tarn_condition c = TARN_CONDITION_INIT;
    c.kind = kind;
    c.name = name;
    c.min = min;
    c.max = max;
    return tarn_dataset_filter(d, &c, out, why);
}

static inline tarn_status keep_column(tarn_dataset *d, const char *column,
                                      const char *const *values, size_t count,
                                      tarn_dataset **out, tarn_error *why)
{
    return keep_names(d, TARN_CONDITION_COLUMN, column, values, count, NULL, out, why);
}

#endif
