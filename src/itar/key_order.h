/* Rows in key order: sorted by (keyhash, collision, row), so that a key is found by
 * binary search and the rows of a sample are consecutive, wherever they are stored. */
#ifndef TARN_ITAR_KEY_ORDER_H
#define TARN_ITAR_KEY_ORDER_H

#include "base/runs.h"

struct tarn_index;

/* The key order of an index that has none. The caller frees *out. */
TARN_CHECKED tarn_status tarn__order_make(const struct tarn_index *index, uint32_t **out,
                                          tarn_error *err);

/* Sorts the rows of one hash, order[0..count), by (collision, row). */
TARN_CHECKED tarn_status tarn__order_by_collision(const struct tarn_index *index,
                                                  uint32_t *order, size_t count,
                                                  tarn_error *err);

#endif
