/* Reads a mix: several datasets as one source. mix.c makes mixes; mix_math.c computes the
 * positions of each source's samples.
 *
 * Rows of a mix are numbered over all epochs: row e * total + p is position p of epoch e.
 * A source therefore continues from one epoch of the mix to the next. Its n-th use,
 * counted over all epochs, is position n mod len of its pass n div len. A pass is an
 * epoch of the source. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/options.h"
#include "dataset/kind_mix.h"
#include "dataset/order.h"

static void close_mix(void *p)
{
    tarn__mix *s = p;
    for (size_t k = 0; s->parts && k < s->n; k++) {
        for (size_t i = 0; i < TARN__MIX_PASSES; i++)
            tarn_order_close(s->parts[k].orders[i]);
        tarn_dataset_close(s->parts[k].dataset);
    }
    tarn__forklock_destroy(&s->lock);
    free(s->parts);
    free(s->counts);
    free(s->fields);
    free(s);
}

/* --- Rows -------------------------------------------------------------------------- */

/* The first epoch of a part. It is not 0 if the part is itself a mix that was continued
 * with other weights, because earlier epochs do not exist there. */
static uint64_t first_pass(const tarn__mix *s, size_t k)
{
    const tarn_dataset *base = tarn_dataset_unordered(s->parts[k].dataset);
    if (!base->live) return 0;
    return ((const tarn__mix *)base->source->state)->first_epoch;
}

void tarn__mix_place(const tarn__storage *source, uint64_t row, tarn_place *out)
{
    const tarn__mix *s = source->state;
    uint64_t turns[TARN_MAX_MIX], turn, epoch = row / s->total;
    tarn__mixing m = tarn__mix_mixing(s);
    tarn__mixing_at(&m, row % s->total, turns, &out->source, &turn);
    uint64_t use = tarn__mix_used_before(s, out->source, epoch) + turn;
    uint64_t length = s->parts[out->source].dataset->count;
    out->pass = first_pass(s, out->source) + use / length;
    out->sample = use % length;
}

/* The order of a pass of a part; the caller closes it. It is made without the lock, so
 * two threads may make the same one. */
static tarn_status order_of_pass(tarn__mix *s, uint32_t k, uint64_t pass,
                                 tarn_order **out, tarn_error *err)
{
    tarn_order **slot = &s->parts[k].orders[pass % TARN__MIX_PASSES], *old = NULL;
    tarn_order *first = s->parts[k].dataset->order;
    pthread_mutex_lock(&s->lock.mutex);
    if (*slot && tarn__order_options(*slot)->epoch == pass)
        *out = tarn__order_use(*slot);
    else
        *out = NULL;
    pthread_mutex_unlock(&s->lock.mutex);
    if (*out) return TARN_OK;
    TARN_TRY(tarn__order_at_epoch(first, pass, 0, out, err));
    pthread_mutex_lock(&s->lock.mutex);
    old = *slot;
    *slot = tarn__order_use(*out);
    pthread_mutex_unlock(&s->lock.mutex);
    tarn_order_close(old);
    return TARN_OK;
}

/* The row, in the part's own source, of the sample at a position of a pass. */
static tarn_status row_in_pass(tarn__mix *s, uint32_t k, uint64_t pass, uint64_t position,
                               uint64_t *out, tarn_error *err)
{
    const tarn_dataset *d = s->parts[k].dataset, *base = d->order ? d->base : d;
    uint64_t offset = 0;
    if (d->order) {
        tarn_order *order;
        TARN_TRY(order_of_pass(s, k, pass, &order, err));
        tarn__order_map(order, &position, 1);
        tarn_order_close(order);
    }
    *out = tarn__dataset_at(base, position);
    if (!base->live) return TARN_OK;
    if (!tarn__mul(pass, base->source->samples, &offset) ||
        !tarn__add(*out - base->chain.offset, offset, out))
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "a mix inside a mix has too many epochs (row numbers exceed "
                          "64 bits)");
    return TARN_OK;
}

/* --- One sample -------------------------------------------------------------------- */

static tarn_status resolve_mix(void *p, tarn__storage **source, uint64_t *sample,
                               uint32_t *field, tarn_error *err)
{
    tarn__mix *s = p;
    tarn_place at;
    tarn__mix_place(s->source, *sample, &at);
    const tarn_dataset *d = s->parts[at.source].dataset;
    if (*field != TARN__FIELD_NONE) {
        uint32_t number = s->fields[at.source * s->n_fields + *field];
        if (number == TARN__FIELD_NONE)
            return tarn__fail(err, TARN_ERR_NO_FIELD,
                              "sample %llu is from source %u of the mix, which has no "
                              "field %s",
                              (unsigned long long)(*sample % s->total), at.source,
                              tarn__names_get(&s->source->fields, *field).data);
        *field = d->ids[number];
    }
    *source = d->source;
    TARN_TRY(row_in_pass(s, at.source, at.pass, at.sample, sample, err));
    return tarn__field_of_row(d, *sample, field, err);
}

/* The first position of a pass, at or after from, that has the key. */
static tarn_status find_in_pass(tarn__mix *s, uint32_t k, uint64_t pass, const char *key,
                                uint64_t from, uint64_t *out, tarn_error *err)
{
    tarn_dataset *d = s->parts[k].dataset, *in = NULL;
    if (!d->order && !d->live) return tarn__dataset_find_from(d, key, from, out, err);
    TARN_TRY(tarn_dataset_at_epoch(d, pass, &in, err));
    tarn_status status = tarn__dataset_find_from(in, key, from, out, err);
    tarn_dataset_close(in);
    return status;
}

/* Lowers *best to the first row of the epoch where part k has this key, not counting the
 * part's first before turns. */
static tarn_status find_in_part(tarn__mix *s, uint32_t k, const char *key, uint64_t epoch,
                                uint64_t before, uint64_t *best, tarn_error *err)
{
    uint64_t length = s->parts[k].dataset->count, sample = 0;
    uint64_t first = tarn__mix_used_before(s, k, epoch), end = first + s->counts[k];
    tarn_error why;
    tarn__mixing m = tarn__mix_mixing(s);
    tarn_dataset *base = tarn_dataset_unordered(s->parts[k].dataset);
    if (!base->live &&
        tarn__dataset_find_from(base, key, 0, &sample, NULL) == TARN_ERR_NO_SAMPLE)
        return TARN_OK;
    for (uint64_t use = first + before; use < end; use += length - use % length) {
        uint64_t pass = use / length;
        tarn_status status =
            find_in_pass(s, k, first_pass(s, k) + pass, key, use % length, &sample, &why);
        if (status == TARN_ERR_NO_SAMPLE) continue;
        if (status != TARN_OK) {
            if (err) *err = why;
            return status;
        }
        use = pass * length + sample;
        if (use >= end) return TARN_OK;
        uint64_t row = epoch * s->total + tarn__mixing_position(&m, k, use - first);
        if (row < *best) *best = row;
        return TARN_OK;
    }
    return TARN_OK;
}

static tarn_status find_mix(void *p, const char *key, uint64_t from, uint64_t *out,
                            tarn_error *err)
{
    tarn__mix *s = p;
    uint64_t turns[TARN_MAX_MIX], best = UINT64_MAX;
    tarn__mixing m = tarn__mix_mixing(s);
    if (s->total) tarn__mixing_before(&m, from % s->total, turns);
    for (uint32_t k = 0; s->total && k < s->n; k++)
        if (s->counts[k])
            TARN_TRY(find_in_part(s, k, key, from / s->total, turns[k], &best, err));
    *out = best;
    if (best != UINT64_MAX) return TARN_OK;
    return tarn__fail(err, TARN_ERR_NO_SAMPLE, "no sample with key %s in the mix",
                      TARN__SHOW(key, strlen(key)));
}

/* --- Fields ------------------------------------------------------------------------ */

static tarn_status has_mix(void *p, uint64_t sample, uint32_t field, bool *out,
                           tarn_error *err)
{
    tarn__mix *s = p;
    tarn__storage *source = s->source;
    tarn_place at;
    tarn__mix_place(source, sample, &at);
    *out = s->fields[at.source * s->n_fields + field] != TARN__FIELD_NONE;
    if (!*out) return TARN_OK;
    TARN_TRY(resolve_mix(s, &source, &sample, &field, err));
    if (!source->kind->has) return TARN_OK;
    return source->kind->has(source->state, sample, field, out, err);
}

static tarn_status has_field(tarn__mix *s, uint64_t sample, uint32_t field, bool *out,
                             bool *out_twice, tarn_error *err)
{
    tarn__item item;
    tarn__storage *source = s->source;
    tarn_error why;
    tarn_status status = tarn__locate_field(&source, sample, field, &item, &why);
    *out_twice = status == TARN_ERR_AMBIGUOUS;
    *out = status == TARN_OK || *out_twice;
    if (*out || status == TARN_ERR_NO_FIELD) return TARN_OK;
    if (err) *err = why;
    return status;
}

/* Checks the samples of a mix one by one. */
static tarn_status keep_mix(void *p, tarn__need *need, const tarn__chain *chain,
                            uint64_t count, unsigned char *marks, uint64_t *out_kept,
                            tarn_error *err)
{
    *out_kept = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t sample = tarn__chain_at(chain, i);
        bool all = true, has;
        for (size_t f = 0; f < need->count && all; f++) {
            has = false;
            for (size_t k = tarn__need_begin(need, f); k < need->ends[f] && !has; k++)
                TARN_TRY(has_mix(p, sample, need->fields[k], &has, err));
            all = has;
        }
        bool keep = all != need->lack;
        marks[i / 8] |= (unsigned char)(keep << (i % 8));
        *out_kept += keep;
    }
    return TARN_OK;
}

static tarn_status sets_mix(void *p, const tarn__chain *chain, uint64_t count,
                            tarn__add_fields add, void *context, tarn_error *err)
{
    tarn__mix *s = p;
    uint32_t *fields = malloc((s->n_fields + 1) * sizeof *fields);
    tarn_status status = fields ? TARN_OK : tarn__fail_memory(err);
    for (uint64_t i = 0; status == TARN_OK && i < count; i++) {
        size_t n = 0;
        bool any_twice = false, has, twice;
        for (uint32_t f = 0; status == TARN_OK && f < s->n_fields; f++) {
            status = has_field(s, tarn__chain_at(chain, i), f, &has, &twice, err);
            if (status == TARN_OK && has) fields[n++] = f;
            any_twice |= status == TARN_OK && twice;
        }
        if (status == TARN_OK) status = add(context, fields, n, 1, any_twice, err);
    }
    free(fields);
    return status;
}

const tarn__storage_kind tarn__kind_mix = {
    .kind = TARN_DATASET_MIX,
    .close = close_mix,
    .resolve = resolve_mix,
    .find = find_mix,
    .has = has_mix,
    .keep = keep_mix,
    .sets = sets_mix,
};
