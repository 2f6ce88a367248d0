/* Values with the memory they own. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "codec/codec.h"

#define ALIGNMENT 64u /* of the elements of arrays allocated here */

/* --- Reading values ------------------------------------------------------------- */

static const char *kind_name(tarn_value_kind kind)
{
    static const char *const names[] = {"bytes",           "text",          "JSON",
                                        "an integer",      "a real number", "an array",
                                        "a list of arrays"};
    bool known = (unsigned)kind <= TARN_VALUE_ARRAYS;
    return known ? names[kind] : "a value of unknown kind";
}

tarn_status tarn__wrong_value(tarn_error *err, const char *extension, const char *wanted,
                              const tarn_value *value)
{
    return tarn__fail(
        err, TARN_ERR_UNSUPPORTED,
        "field .%s takes %s (or bytes and text, which are written unchanged), not %s",
        extension, wanted, kind_name(value->kind));
}

const tarn_array *tarn__one_array(const tarn_value *value)
{
    return value->kind == TARN_VALUE_ARRAY && value->arrays ? value->arrays : NULL;
}

tarn_status tarn__array_native(const tarn_array *array, const void **out, void **out_copy,
                               tarn_error *err)
{
    uint64_t bytes = tarn_array_bytes(array);
    *out_copy = NULL;
    *out = array->data;
    if (tarn_array_is_packed(array) && array->dtype.order != '>') return TARN_OK;
    void *copy = malloc(bytes ? bytes : 1);
    if (!copy) return tarn__fail_memory(err);
    tarn__array_pack(array, false, copy);
    if (array->dtype.order == '>')
        tarn__swap_bytes(copy, array->dtype, tarn__array_count(array));
    *out = *out_copy = copy;
    return TARN_OK;
}

/* --- Making values -------------------------------------------------------------- */

void tarn_value_release(tarn_value *value)
{
    if (!value) return;
    if (value->release) value->release(value->owned);
    *value = (tarn_value)TARN_VALUE_INIT;
}

tarn_status tarn__alloc_items(size_t count, size_t size, void *out, tarn_error *err)
{
    void *items = calloc(count ? count : 1, size);
    if (!items) return tarn__fail_memory(err);
    memcpy(out, &items, sizeof items);
    return TARN_OK;
}

static tarn_value one_array(const tarn_array *array, void *owned)
{
    return (tarn_value){.kind = TARN_VALUE_ARRAY,
                        .arrays = array,
                        .count = 1,
                        .owned = owned,
                        .release = free};
}

tarn_status tarn__value_borrow_array(tarn_value *value, const tarn_array *array,
                                     tarn_error *err)
{
    tarn_array *copy = malloc(sizeof *copy);
    if (!copy) return tarn__fail_memory(err);
    *copy = *array;
    *value = one_array(copy, copy);
    return TARN_OK;
}

tarn_status tarn__value_make_array(tarn_value *value, tarn_dtype dtype, unsigned ndim,
                                   const uint64_t *shape, uint64_t max_size,
                                   tarn_error *err)
{
    tarn_array array;
    TARN_TRY(tarn_array_init(&array, NULL, dtype, ndim, shape, err));
    uint64_t bytes = tarn_array_bytes(&array);
    if (bytes > max_size)
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "array of %llu bytes; the limit is %llu (max_size)",
                          (unsigned long long)bytes, (unsigned long long)max_size);
    size_t head = (sizeof array + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (bytes > SIZE_MAX - head - ALIGNMENT) return tarn__fail_memory(err);
    size_t all = (head + bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    char *block = aligned_alloc(ALIGNMENT, all);
    if (!block) return tarn__fail_memory(err);
    array.data = block + head;
    memcpy(block, &array, sizeof array);
    *value = one_array((const tarn_array *)block, block);
    return TARN_OK;
}

typedef struct owner {
    tarn_value inner;
    void *data;
} owner;

static void release_owner(void *owned)
{
    owner *o = owned;
    tarn_value_release(&o->inner);
    free(o->data);
    free(o);
}

tarn_status tarn__value_own(tarn_value *value, void *data, tarn_error *err)
{
    owner *o = malloc(sizeof *o);
    if (!o) {
        tarn_value_release(value);
        free(data);
        return tarn__fail_memory(err);
    }
    *o = (owner){*value, data};
    value->owned = o;
    value->release = release_owner;
    return TARN_OK;
}

/* The memory that a list of arrays owns. */
typedef struct gathered {
    tarn_value *items;
    char **names;
    size_t count;
    tarn_array arrays[];
} gathered;

void tarn__values_free(tarn_value *items, char **names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        tarn_value_release(&items[i]);
        if (names) free(names[i]);
    }
    free(items);
    free(names);
}

static void release_gathered(void *owned)
{
    gathered *g = owned;
    tarn__values_free(g->items, g->names, g->count);
    free(g);
}

tarn_status tarn__value_gather(tarn_value *value, tarn_value *items, char **names,
                               size_t count, tarn_error *err)
{
    gathered *g = malloc(sizeof *g + count * sizeof g->arrays[0]);
    if (!g) {
        tarn__values_free(items, names, count);
        return tarn__fail_memory(err);
    }
    *g = (gathered){.items = items, .names = names, .count = count};
    for (size_t i = 0; i < count; i++)
        g->arrays[i] = items[i].arrays[0];
    *value = (tarn_value){.kind = TARN_VALUE_ARRAYS,
                          .arrays = g->arrays,
                          .names = (const char *const *)names,
                          .count = count,
                          .owned = g,
                          .release = release_gathered};
    return TARN_OK;
}
