/* States of orders: whatever is resumed gives samples there are, to its last position,
 * and its own state resumes it again. The word DATA stands for the hash of the arrays. */
#include "common.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <tarn/order.h>

enum { COUNT = 20 };

static const uint64_t buckets[] = {9, 0, 11};
static double weights[COUNT];
static int64_t classes[COUNT];
static uint64_t lengths[COUNT];

static void check_order(tarn_order *order)
{
    tarn_order_info info;
    tarn_error err;
    uint64_t sample, again;
    char state[TARN_ORDER_STATE_MAX];
    tarn_order_info_get(order, &info);
    CHECK(info.start <= info.total && info.length <= info.total + 1);
    CHECK(tarn_order_at(order, info.length, &sample, &err) == TARN_ERR_USAGE);
    for (uint64_t i = 0; i < info.length && i < 2 * COUNT; i++) {
        CHECK(tarn_order_at(order, info.length - 1 - i, &sample, &err) == TARN_OK);
        CHECK(sample < COUNT);
        CHECK(tarn_order_fill(order, info.length - 1 - i, 1, &again, &err) == TARN_OK);
        CHECK(again == sample);
    }
    CHECK(tarn_order_state(order, info.start, state, sizeof state, &err) == TARN_OK);
}

/* Puts the hash of what the kind goes by in the place of DATA. */
static size_t put_hash(char *text, size_t size, size_t room)
{
    char hash[17];
    const void *array = strstr(text, "buckets")    ? (const void *)buckets
                        : strstr(text, "balanced") ? (const void *)classes
                        : strstr(text, "lengths")  ? (const void *)lengths
                                                   : (const void *)weights;
    char *data = strstr(text, "DATA");
    if (!data || size + 12 > room) return size;
    size_t bytes = array == buckets ? sizeof buckets : sizeof lengths;
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)XXH64(array, bytes, 0));
    memmove(data + 16, data + 4, size - (size_t)(data + 4 - text));
    memcpy(data, hash, 16);
    return size + 12;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tarn_error err;
    tarn_order *order;
    tarn_order_options o = TARN_ORDER_OPTIONS_INIT;
    char text[2 * TARN_ORDER_STATE_MAX] = "";
    for (int i = 0; i < COUNT; i++) {
        weights[i] = i % 4;
        classes[i] = i % 3;
        lengths[i] = (uint64_t)i * 7 % 11;
    }
    o.buckets = buckets;
    o.n_buckets = 3;
    o.weights = weights;
    o.classes = classes;
    o.lengths = lengths;
    o.world = 2;
    if (size >= TARN_ORDER_STATE_MAX) size = TARN_ORDER_STATE_MAX;
    memcpy(text, data, size);
    size = put_hash(text, size, sizeof text);
    char *exact = exact_copy(text, size);
    for (int share = TARN_RANKS_UNEVEN; share <= TARN_RANKS_PAD; share++) {
        o.ranks = (tarn_ranks)share;
        if (tarn_order_resume(COUNT, exact, size, &o, &order, &err) != TARN_OK) {
            CHECK(err.code > TARN_END && err.message[0]);
            continue;
        }
        check_order(order);
        tarn_order_close(order);
    }
    free(exact);
    return 0;
}
