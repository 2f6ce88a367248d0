/* Makes, merges and maps the steps of the selection chain. */
#include "dataset/chain.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/buf.h"
#include "base/error.h"
#include "dataset/order.h"

enum { PIECE = 1024 }; /* few enough positions to stay in the cache between steps */

/* --- Steps ------------------------------------------------------------------------- */

static tarn__step *step_new(tarn__step_kind kind, uint64_t count, tarn_error *err)
{
    tarn__step *s = calloc(1, sizeof *s);
    if (!s) {
        (void)tarn__fail_memory(err);
        return NULL;
    }
    atomic_init(&s->users, 1);
    s->kind = kind;
    s->count = count;
    return s;
}

static void step_release(tarn__step *s)
{
    if (!s || atomic_fetch_sub(&s->users, 1) != 1) return;
    tarn_order_close(s->order);
    free(s->narrow);
    free(s->wide);
    free(s);
}

static uint64_t step_at(const tarn__step *s, uint64_t at)
{
    switch (s->kind) {
    case TARN__STEP_RANGE:
        return s->start + at * s->stride;
    case TARN__STEP_LIST:
        return s->narrow ? s->narrow[at] : s->wide[at];
    default:
        break;
    }
    tarn__order_map(s->order, &at, 1);
    return at;
}

static void step_map(const tarn__step *s, uint64_t *at, size_t n)
{
    if (s->kind == TARN__STEP_ORDER)
        tarn__order_map(s->order, at, n);
    else if (s->kind == TARN__STEP_LIST && s->narrow)
        for (size_t i = 0; i < n; i++)
            at[i] = s->narrow[at[i]];
    else
        for (size_t i = 0; i < n; i++)
            at[i] = step_at(s, at[i]);
}

/* --- Mapping ----------------------------------------------------------------------- */

uint64_t tarn__chain_at_steps(const tarn__chain *c, uint64_t position)
{
    for (size_t k = c->n; k-- > 0;)
        position = step_at(c->steps[k], position);
    return position + c->offset;
}

static void map_steps(const tarn__chain *c, uint64_t *at, size_t n)
{
    for (size_t k = c->n; k-- > 0;)
        step_map(c->steps[k], at, n);
}

void tarn__chain_map(const tarn__chain *c, uint64_t *at, size_t n)
{
    map_steps(c, at, n);
    for (size_t i = 0; c->offset && i < n; i++)
        at[i] += c->offset;
}

bool tarn__chain_ascends(const tarn__chain *c)
{
    for (size_t k = 0; k < c->n; k++)
        if (!c->steps[k]->ascending) return false;
    return true;
}

static bool bisect(const tarn__chain *c, uint64_t count, uint64_t number, uint64_t from,
                   uint64_t *out)
{
    uint64_t low = from, high = count;
    while (low < high) {
        uint64_t mid = low + (high - low) / 2;
        if (tarn__chain_at(c, mid) < number)
            low = mid + 1;
        else
            high = mid;
    }
    *out = low;
    return low < count && tarn__chain_at(c, low) == number;
}

bool tarn__chain_find(const tarn__chain *c, uint64_t count, uint64_t number,
                      uint64_t from, uint64_t *out)
{
    uint64_t at[PIECE];
    if (tarn__chain_ascends(c)) return bisect(c, count, number, from, out);
    for (uint64_t n; from < count; from += n) {
        n = count - from < PIECE ? count - from : PIECE;
        for (uint64_t i = 0; i < n; i++)
            at[i] = from + i;
        tarn__chain_map(c, at, (size_t)n);
        for (uint64_t i = 0; i < n; i++)
            if (at[i] == number) {
                *out = from + i;
                return true;
            }
    }
    return false;
}

/* --- Making ------------------------------------------------------------------------ */

tarn_status tarn__chain_copy(tarn__chain *out, const tarn__chain *from, tarn_error *err)
{
    *out = (tarn__chain){.offset = from->offset};
    if (from->n == 0) return TARN_OK;
    out->steps = malloc(from->n * sizeof(tarn__step *));
    if (!out->steps) return tarn__fail_memory(err);
    for (; out->n < from->n; out->n++) {
        out->steps[out->n] = from->steps[out->n];
        atomic_fetch_add(&out->steps[out->n]->users, 1);
    }
    return TARN_OK;
}

static void drop_steps(tarn__chain *c)
{
    while (c->n > 0)
        step_release(c->steps[--c->n]);
}

void tarn__chain_reset(tarn__chain *c)
{
    drop_steps(c);
    free(c->steps);
    *c = (tarn__chain){0};
}

/* Takes ownership of the step, also on failure. */
static tarn_status push_step(tarn__chain *c, tarn__step *s, tarn_error *err)
{
    tarn__step **more = realloc(c->steps, (c->n + 1) * sizeof(tarn__step *));
    if (!more) {
        step_release(s);
        return tarn__fail_memory(err);
    }
    c->steps = more;
    c->steps[c->n++] = s;
    return TARN_OK;
}

tarn_status tarn__chain_push_range(tarn__chain *c, uint64_t start, int64_t stride,
                                   uint64_t count, tarn_error *err)
{
    tarn__step *s = step_new(TARN__STEP_RANGE, count, err);
    if (!s) return TARN_ERR_MEMORY;
    s->start = start;
    s->stride = (uint64_t)stride;
    s->ascending = stride > 0 || count < 2;
    tarn__step *below = c->n ? c->steps[c->n - 1] : NULL;
    if (below && below->kind == TARN__STEP_RANGE) {
        s->start = below->start + start * below->stride;
        s->stride = s->stride * below->stride;
        s->ascending = (int64_t)s->stride > 0 || count < 2;
        step_release(below);
        c->steps[c->n - 1] = s;
        return TARN_OK;
    }
    return push_step(c, s, err);
}

/* Memory for numbers up to most. */
static tarn_status alloc_list(tarn__step *s, uint64_t most, tarn_error *err)
{
    size_t room = (size_t)(s->count ? s->count : 1);
    if (most <= UINT32_MAX)
        s->narrow = tarn__big_alloc(room * sizeof *s->narrow);
    else
        s->wide = tarn__big_alloc(room * sizeof *s->wide);
    return s->narrow || s->wide ? TARN_OK : tarn__fail_memory(err);
}

/* Copies the numbers into a narrow or wide list. */
static tarn_status fill_list(tarn__step *s, const uint64_t *at, tarn_error *err)
{
    uint64_t most = 0;
    s->ascending = true;
    for (uint64_t i = 0; i < s->count; i++) {
        if (i && at[i] <= at[i - 1]) s->ascending = false;
        if (at[i] > most) most = at[i];
    }
    TARN_TRY(alloc_list(s, most, err));
    for (uint64_t i = 0; s->narrow && i < s->count; i++)
        s->narrow[i] = (uint32_t)at[i];
    if (s->wide) memcpy(s->wide, at, (size_t)s->count * sizeof *at);
    return TARN_OK;
}

tarn_status tarn__chain_push_list(tarn__chain *c, uint64_t *at, uint64_t count,
                                  tarn_error *err)
{
    tarn__step *s = step_new(TARN__STEP_LIST, count, err);
    if (!s) return TARN_ERR_MEMORY;
    for (uint64_t i = 0, n; i < count; i += n) {
        n = count - i < PIECE ? count - i : PIECE;
        map_steps(c, at + i, (size_t)n);
    }
    tarn_status status = fill_list(s, at, err);
    if (status != TARN_OK) {
        step_release(s);
        return status;
    }
    drop_steps(c);
    return push_step(c, s, err);
}

/* The 64 marks from a multiple of 64 on; the lowest bit is the first one. */
static uint64_t marks_at(const unsigned char *marks, uint64_t count, uint64_t from)
{
    uint64_t word = 0, bytes = (count - from + 7) / 8;
    memcpy(&word, marks + from / 8, bytes < sizeof word ? (size_t)bytes : sizeof word);
    return word;
}

/* Lists marked positions from *from on while at has room for 64 more. Returns their
 * number. */
static size_t next_marked(const unsigned char *marks, uint64_t count, uint64_t *from,
                          uint64_t at[PIECE])
{
    size_t n = 0;
    for (; *from < count && n + 64 <= PIECE; *from += 64)
        for (uint64_t word = marks_at(marks, count, *from); word; word &= word - 1)
            at[n++] = *from + (unsigned)__builtin_ctzll(word);
    return n;
}

/* Lists all marked positions. */
static void list_marked(const unsigned char *marks, uint64_t count, uint32_t *out)
{
    for (uint64_t from = 0; from < count; from += 64)
        for (uint64_t word = marks_at(marks, count, from); word; word &= word - 1)
            *out++ = (uint32_t)from + (unsigned)__builtin_ctzll(word);
}

tarn_status tarn__chain_push_marked(tarn__chain *c, const unsigned char *marks,
                                    uint64_t count, uint64_t kept, uint64_t rows,
                                    tarn_error *err)
{
    uint64_t at[PIECE], from = 0, done = 0;
    tarn__step *s = step_new(TARN__STEP_LIST, kept, err);
    if (!s) return TARN_ERR_MEMORY;
    tarn_status status = alloc_list(s, rows, err);
    if (status != TARN_OK) {
        step_release(s);
        return status;
    }
    s->ascending = tarn__chain_ascends(c);
    if (s->narrow && c->n == 0) {
        list_marked(marks, count, s->narrow);
        done = kept;
    }
    while (done < kept) {
        size_t n = next_marked(marks, count, &from, at);
        map_steps(c, at, n);
        for (size_t i = 0; i < n; i++)
            if (s->narrow)
                s->narrow[done + i] = (uint32_t)at[i];
            else
                s->wide[done + i] = at[i];
        done += n;
    }
    drop_steps(c);
    return push_step(c, s, err);
}

tarn_status tarn__chain_push_order(tarn__chain *c, tarn_order *order, tarn_error *err)
{
    tarn__step *s = step_new(TARN__STEP_ORDER, tarn__order_length(order), err);
    if (!s) return TARN_ERR_MEMORY;
    s->order = tarn__order_use(order);
    s->ascending = s->count < 2;
    return push_step(c, s, err);
}

/* --- Description ------------------------------------------------------------------- */

/* Narrow and wide lists of the same numbers give the same text. */
static tarn_status describe_list(const tarn__step *s, tarn__buf *out, tarn_error *err)
{
    XXH64_state_t hash;
    uint64_t piece[PIECE];
    XXH64_reset(&hash, 0);
    for (uint64_t i = 0, n; i < s->count; i += n) {
        n = s->count - i < PIECE ? s->count - i : PIECE;
        for (uint64_t k = 0; k < n; k++)
            piece[k] = step_at(s, i + k);
        XXH64_update(&hash, piece, (size_t)n * sizeof *piece);
    }
    return tarn__buf_printf(out, err, " list(%llu:%016llx)", (unsigned long long)s->count,
                            (unsigned long long)XXH64_digest(&hash));
}

static tarn_status describe_step(const tarn__step *s, tarn__buf *out, tarn_error *err)
{
    if (s->kind == TARN__STEP_LIST) return describe_list(s, out, err);
    if (s->kind == TARN__STEP_ORDER)
        return tarn__order_describe(s->order, true, out, err);
    return tarn__buf_printf(out, err, " slice(%llu,%lld,%llu)",
                            (unsigned long long)s->start, (long long)s->stride,
                            (unsigned long long)s->count);
}

tarn_status tarn__chain_describe(const tarn__chain *c, tarn__buf *out, tarn_error *err)
{
    for (size_t k = 0; k < c->n; k++)
        TARN_TRY(describe_step(c->steps[k], out, err));
    return TARN_OK;
}
