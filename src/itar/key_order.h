/* Rows in key order: sorted by (keyhash, crash, row), so that a key is found by bisection
 * and the rows of a sample stand together wherever they lie. */
#ifndef TARN_ITAR_KEY_ORDER_H
#define TARN_ITAR_KEY_ORDER_H

#include "base/runs.h"

struct tarn_index;

/* The key order of an index that has none. *out is the caller's to free. */
TARN_CHECKED tarn_status tarn__order_make(const struct tarn_index *index, uint32_t **out,
                                          tarn_error *err);

/* Puts the rows of one hash, order[0..count), into (crash, row) order. */
TARN_CHECKED tarn_status tarn__order_by_crash(const struct tarn_index *index,
                                              uint32_t *order, size_t count,
                                              tarn_error *err);

#endif
