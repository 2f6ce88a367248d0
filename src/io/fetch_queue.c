/* A binary heap whose items know their places. */
#include "io/fetch_queue.h"

#include <stdlib.h>

#include "base/error.h"

bool tarn__queue_before(const tarn__queued *a, const tarn__queued *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->order < b->order;
}

tarn_status tarn__queue_reserve(tarn__queue *queue, size_t count, tarn_error *err)
{
    if (count <= queue->capacity) return TARN_OK;
    size_t capacity = count + queue->capacity / 2, bytes;
    if (__builtin_mul_overflow(capacity, sizeof *queue->items, &bytes))
        return tarn__fail_memory(err);
    tarn__queued **items = realloc(queue->items, bytes);
    if (!items) return tarn__fail_memory(err);
    queue->items = items;
    queue->capacity = capacity;
    return TARN_OK;
}

static void put(tarn__queue *queue, size_t place, tarn__queued *item)
{
    queue->items[place] = item;
    item->place = place;
}

/* Finds the place of an item, from a gap at place upwards. */
static size_t rise(tarn__queue *queue, size_t place, const tarn__queued *item)
{
    while (place > 0) {
        tarn__queued *parent = queue->items[(place - 1) / 2];
        if (!tarn__queue_before(item, parent)) break;
        size_t next = parent->place;
        put(queue, place, parent);
        place = next;
    }
    return place;
}

/* The same downwards. */
static size_t sink(tarn__queue *queue, size_t place, const tarn__queued *item)
{
    for (;;) {
        size_t child = 2 * place + 1;
        if (child >= queue->count) return place;
        if (child + 1 < queue->count &&
            tarn__queue_before(queue->items[child + 1], queue->items[child]))
            child++;
        if (!tarn__queue_before(queue->items[child], item)) return place;
        put(queue, place, queue->items[child]);
        place = child;
    }
}

void tarn__queue_push(tarn__queue *queue, tarn__queued *item)
{
    size_t gap = queue->count++;
    put(queue, rise(queue, gap, item), item);
}

void tarn__queue_remove(tarn__queue *queue, tarn__queued *item)
{
    tarn__queued *last = queue->items[--queue->count];
    if (last == item) return;
    size_t gap = rise(queue, item->place, last);
    put(queue, sink(queue, gap, last), last);
}

tarn__queued *tarn__queue_first(const tarn__queue *queue)
{
    return queue->count ? queue->items[0] : NULL;
}

void tarn__queue_reset(tarn__queue *queue)
{
    free(queue->items);
    *queue = (tarn__queue){0};
}
