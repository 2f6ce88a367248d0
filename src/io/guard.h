/* Maps that survive their file. When a mapped file is truncated, or its disk fails, the
 * next look at a lost page raises SIGBUS, at any moment and in any thread: no look at the
 * length beforehand can rule that out. Here a handler puts zeros in the place of the lost
 * pages and notes that the map is torn; whoever copied out of it asks afterwards, and
 * fails instead of giving the zeros away. Faults elsewhere go to the handler that was
 * there before. */
#ifndef TARN_IO_GUARD_H
#define TARN_IO_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <tarn/base.h>

/* Whether faults come here and not to a handler that was set later. Asked anew when the
 * coarse clock has moved. */
bool tarn__guard_is_on(void);

/* Watches a map from now on, and no longer, if tarn_guard_maps was called before. */
void tarn__guard_add(const void *map, size_t size);
void tarn__guard_remove(const void *map);

extern atomic_uint tarn__guard_torn_maps; /* since the process began */

bool tarn__guard_find_torn(const void *map);

/* Whether pages of this map were lost. */
static inline bool tarn__map_is_torn(const void *map)
{
    return atomic_load_explicit(&tarn__guard_torn_maps, memory_order_acquire) &&
           tarn__guard_find_torn(map);
}

#endif
