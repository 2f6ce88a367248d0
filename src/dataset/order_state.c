/* The state of an order as JSON: what it takes to compute the rest of the epoch, and what
 * tells that it is the same data. */
#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/json.h"
#include "base/options.h"
#include "dataset/order.h"

enum { VERSION = 1, MAX_STATE_VALUES = 64 };

#define OF(kind) (1u << (kind))

/* The numbers of the kinds that have them. */
static const struct {
    const char *name;
    size_t offset;
    unsigned kinds;
} numbers[] = {
    {"rounds", offsetof(tarn_order_options, rounds),
     OF(TARN_ORDER_FEISTEL) | OF(TARN_ORDER_BUCKETS)},
    {"outer", offsetof(tarn_order_options, outer), OF(TARN_ORDER_BUCKETS)},
    {"mix", offsetof(tarn_order_options, mix), OF(TARN_ORDER_BUCKETS)},
    {"block", offsetof(tarn_order_options, block), OF(TARN_ORDER_BLOCKS)},
    {"window", offsetof(tarn_order_options, window), OF(TARN_ORDER_BLOCKS)},
    {"draws", offsetof(tarn_order_options, draws),
     OF(TARN_ORDER_WEIGHTED) | OF(TARN_ORDER_WEIGHTED_ONCE) | OF(TARN_ORDER_BALANCED)},
    {"chunk", offsetof(tarn_order_options, chunk), OF(TARN_ORDER_LENGTHS)},
    {"pool", offsetof(tarn_order_options, pool), OF(TARN_ORDER_LENGTHS)},
};

enum { N_NUMBERS = sizeof numbers / sizeof *numbers };

static uint64_t *number_at(tarn_order_options *o, size_t k)
{
    return (uint64_t *)((char *)o + numbers[k].offset);
}

/* The array that the kind goes by; all have items of eight bytes. */
static const void *array_of(const tarn_order_options *o, uint64_t count, uint64_t *out_n)
{
    *out_n = o->kind == TARN_ORDER_BUCKETS ? o->n_buckets : count;
    switch (o->kind) {
    case TARN_ORDER_BUCKETS:
        return o->buckets;
    case TARN_ORDER_WEIGHTED:
    case TARN_ORDER_WEIGHTED_ONCE:
        return o->weights;
    case TARN_ORDER_BALANCED:
        return o->classes;
    case TARN_ORDER_LENGTHS:
        return o->lengths;
    default:
        return NULL;
    }
}

enum { DATA_TEXT = 17 };

/* The hash of that array, as text; "" if there is none. */
static void data_text(const tarn_order_options *o, uint64_t count, char out[DATA_TEXT])
{
    uint64_t n;
    const void *array = array_of(o, count, &n);
    out[0] = '\0';
    if (array)
        snprintf(out, DATA_TEXT, "%016llx",
                 (unsigned long long)XXH64(array, (size_t)n * 8, 0));
}

/* --- Writing ----------------------------------------------------------------------- */

static void put_number(tarn__json_writer *w, const char *name, uint64_t value)
{
    tarn__json_key_text(w, name);
    tarn__json_put_uint(w, value);
}

static void put_seed(tarn__json_writer *w, const tarn_order_options *o)
{
    char text[32];
    snprintf(text, sizeof text, "%s%llu", o->negative ? "-" : "",
             (unsigned long long)o->seed);
    tarn__json_key_text(w, "seed");
    tarn__json_put_raw(w, text, strlen(text));
}

static void put_state(tarn__json_writer *w, const tarn_order *order, uint64_t used)
{
    tarn_order_options o = *tarn__order_options(order);
    tarn_order_info info;
    char data[DATA_TEXT];
    tarn_order_info_get(order, &info);
    tarn__json_open(w, '{');
    put_number(w, "tarn_order", VERSION);
    tarn__json_key_text(w, "kind");
    tarn__json_put_text(w, tarn_order_kind_name(o.kind));
    put_seed(w, &o);
    put_number(w, "epoch", o.epoch);
    put_number(w, "position", used);
    put_number(w, "count", info.count);
    for (size_t k = 0; k < N_NUMBERS; k++)
        if (numbers[k].kinds & OF(o.kind))
            put_number(w, numbers[k].name, *number_at(&o, k));
    data_text(&o, info.count, data);
    if (data[0]) {
        tarn__json_key_text(w, "data");
        tarn__json_put_text(w, data);
    }
    tarn__json_close(w, '}');
}

tarn_status tarn_order_state(const tarn_order *order, uint64_t used, char *out,
                             size_t size, tarn_error *err)
{
    tarn__buf text;
    tarn__json_writer w;
    tarn_order_info info;
    tarn_order_info_get(order, &info);
    if (used > info.total)
        return tarn__fail(err, TARN_ERR_USAGE, "position %llu of an epoch of %llu",
                          (unsigned long long)used, (unsigned long long)info.total);
    tarn__buf_init(&text, TARN_ORDER_STATE_MAX);
    tarn__json_begin(&w, &text);
    put_state(&w, order, used);
    tarn_status status = tarn__json_end(&w, err);
    if (status == TARN_OK && text.size >= size)
        status =
            tarn__fail(err, TARN_ERR_USAGE, "the state has %zu bytes: %zu is no room",
                       text.size + 1, size);
    if (status == TARN_OK) {
        memcpy(out, text.data, text.size);
        out[text.size] = '\0';
    }
    tarn__buf_reset(&text);
    return status;
}

/* --- Reading ----------------------------------------------------------------------- */

static tarn_status take_number(const tarn__json *root, const char *name, uint64_t *out,
                               tarn_error *err)
{
    const tarn__json *v = tarn__json_find(root, name);
    if (v && tarn__json_uint64(v, out)) return TARN_OK;
    return tarn__fail(err, TARN_ERR_FORMAT,
                      v ? "the state's %s is no number from 0 to 2^64 - 1"
                        : "the state has no %s",
                      name);
}

static tarn_status take_seed(const tarn__json *root, tarn_order_options *o,
                             tarn_error *err)
{
    const tarn__json *v = tarn__json_find(root, "seed");
    o->negative = v && v->kind == TARN__JSON_INTEGER && v->u.text[0] == '-';
    if (!o->negative) return take_number(root, "seed", &o->seed, err);
    /* The sign is not part of the 64 bits. */
    tarn__json magnitude = *v;
    magnitude.u.text++;
    magnitude.size--;
    if (tarn__json_uint64(&magnitude, &o->seed)) return TARN_OK;
    return tarn__fail(err, TARN_ERR_FORMAT, "the state's seed is below -(2^64 - 1)");
}

static tarn_status take_kind(const tarn__json *root, tarn_order_options *o,
                             tarn_error *err)
{
    uint64_t version;
    TARN_TRY(take_number(root, "tarn_order", &version, err));
    if (version != VERSION)
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "a state of version %llu: this library knows %d",
                          (unsigned long long)version, VERSION);
    const tarn__json *v = tarn__json_find(root, "kind");
    if (!v || v->kind != TARN__JSON_STRING)
        return tarn__fail(err, TARN_ERR_FORMAT, "the state has no kind");
    if (tarn_order_kind_find(v->u.text, &o->kind, err) == TARN_OK &&
        strlen(v->u.text) == v->size)
        return TARN_OK;
    return tarn__fail(err, TARN_ERR_FORMAT, "the state is of a kind that there is not");
}

/* A name that this version does not have may be one that matters. */
static tarn_status check_names(const tarn__json *root, unsigned known, tarn_error *err)
{
    if (root->size == known) return TARN_OK;
    return tarn__fail(err, TARN_ERR_FORMAT,
                      "the state has %u entries, and a state of its kind has %u",
                      root->size, known);
}

static tarn_status check_data(const tarn__json *root, const tarn_order_options *o,
                              uint64_t count, uint64_t state_count, unsigned *known,
                              tarn_error *err)
{
    char data[DATA_TEXT];
    const tarn__json *v = tarn__json_find(root, "data");
    if (state_count != count)
        return tarn__fail(err, TARN_ERR_STALE,
                          "the state is of %llu samples, and there are %llu",
                          (unsigned long long)state_count, (unsigned long long)count);
    data_text(o, count, data);
    if (!data[0]) return tarn__order_need(NULL, "the array it went by", v != NULL, err);
    (*known)++;
    if (!v || v->kind != TARN__JSON_STRING)
        return tarn__fail(err, TARN_ERR_FORMAT, "the state has no data");
    if (tarn__json_is(v, data, strlen(data))) return TARN_OK;
    return tarn__fail(err, TARN_ERR_STALE,
                      "the %s of the state's order were not those given now",
                      o->kind == TARN_ORDER_BUCKETS    ? "buckets"
                      : o->kind == TARN_ORDER_BALANCED ? "classes"
                      : o->kind == TARN_ORDER_LENGTHS  ? "lengths"
                                                       : "weights");
}

static tarn_status take_state(const tarn__json *root, uint64_t count,
                              tarn_order_options *o, uint64_t *out_used, tarn_error *err)
{
    uint64_t state_count;
    unsigned known = 6;
    if (root->kind != TARN__JSON_OBJECT)
        return tarn__fail(err, TARN_ERR_FORMAT, "the state is no JSON object");
    TARN_TRY(take_kind(root, o, err));
    TARN_TRY(take_seed(root, o, err));
    TARN_TRY(take_number(root, "epoch", &o->epoch, err));
    TARN_TRY(take_number(root, "position", out_used, err));
    TARN_TRY(take_number(root, "count", &state_count, err));
    for (size_t k = 0; k < N_NUMBERS; k++) {
        if (!(numbers[k].kinds & OF(o->kind))) continue;
        TARN_TRY(take_number(root, numbers[k].name, number_at(o, k), err));
        known++;
    }
    TARN_TRY(check_data(root, o, count, state_count, &known, err));
    return check_names(root, known, err);
}

tarn_status tarn_order_resume(uint64_t count, const char *state, size_t state_len,
                              const tarn_order_options *options, tarn_order **out,
                              tarn_error *err)
{
    TARN__OPTIONS(tarn_order_options, o, TARN_ORDER_OPTIONS_INIT, options, err);
    tarn__json_options limits = TARN__JSON_OPTIONS_INIT;
    tarn__json_doc doc;
    uint64_t used;
    limits.max_bytes = TARN_ORDER_STATE_MAX;
    limits.max_values = MAX_STATE_VALUES;
    limits.max_depth = 2;
    TARN_TRY(tarn__json_parse(&doc, state, state_len, &limits, err));
    tarn_status status = take_state(tarn__json_root(&doc), count, &o, &used, err);
    tarn__json_reset(&doc);
    if (status != TARN_OK) return status;
    return tarn__order_open(count, &o, used, out, err);
}
