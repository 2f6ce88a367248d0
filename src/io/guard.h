/* Maps that survive a change of their file. When a mapped file is truncated, or its disk
 * fails, the next access to a lost page raises SIGBUS, at any time and in any thread; no
 * check of the length beforehand can rule that out. The handler in guard.c replaces the
 * lost pages by zeros and marks the map as torn. Code that copied from the map checks for
 * this afterwards and fails instead of returning the zeros. Faults at other addresses go
 * to the previous handler. */
#ifndef TARN_IO_GUARD_H
#define TARN_IO_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <tarn/base.h>

/* Whether our handler is installed and has not been replaced by another one. Checked
 * again whenever the coarse clock has moved. */
bool tarn__guard_is_on(void);

/* Starts and stops watching a map. They do nothing unless tarn_guard_maps was called
 * before. */
void tarn__guard_add(const void *map, size_t size);
void tarn__guard_remove(const void *map);

extern atomic_uint tarn__guard_torn_maps; /* since the process started */

bool tarn__guard_find_torn(const void *map);

/* Whether pages of this map were lost. */
static inline bool tarn__map_is_torn(const void *map)
{
    return atomic_load_explicit(&tarn__guard_torn_maps, memory_order_acquire) &&
           tarn__guard_find_torn(map);
}

#endif
