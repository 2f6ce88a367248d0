/* Makes a mix of datasets, and remakes one whose sources continue from a state. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/options.h"
#include "dataset/kind_mix.h"

static tarn_status choose_counts(tarn__mix *s, const tarn_mix_options *o, tarn_error *err)
{
    uint64_t *lengths = malloc((s->n + 1) * sizeof *lengths);
    if (!lengths) return tarn__fail_memory(err);
    for (size_t k = 0; k < s->n; k++)
        s->counts[k] = lengths[k] = s->parts[k].dataset->count;
    tarn_status status = TARN_OK;
    if (o->weights)
        status = tarn__mixing_share(o->weights, s->n, lengths, o->total, o->end,
                                    s->counts, err);
    else if (o->counts)
        memcpy(s->counts, o->counts, s->n * sizeof *s->counts);
    for (size_t k = 0; status == TARN_OK && k < s->n; k++) {
        if (s->counts[k] > TARN__MAX_MIXED - s->total)
            status = tarn__fail(err, TARN_ERR_LIMIT,
                                "the mix would have more than 2^62 samples");
        else if (lengths[k] == 0 && (s->counts[k] || o->weights))
            status = tarn__fail(err, TARN_ERR_USAGE,
                                "source %zu of the mix has no samples", k);
        else
            s->total += s->counts[k];
    }
    free(lengths);
    return status;
}

static tarn_status name_fields(const tarn__mix *s, tarn__storage *source, tarn_error *err)
{
    uint32_t id;
    for (size_t k = 0; k < s->n; k++) {
        const tarn_dataset *d = s->parts[k].dataset;
        for (uint32_t i = 0; i < d->n_fields; i++)
            if (!tarn__is_pseudo(d->ids[i]))
                TARN_TRY(tarn__names_add(&source->fields, d->names[i],
                                         strlen(d->names[i]), &id, err));
    }
    source->n_plain = source->fields.count;
    return TARN_OK;
}

static tarn_status number_fields(tarn__mix *s, const tarn__storage *source,
                                 tarn_error *err)
{
    s->n_fields = (uint32_t)source->fields.count;
    size_t cells = s->n * s->n_fields;
    s->fields = malloc((cells + 1) * sizeof *s->fields);
    if (!s->fields) return tarn__fail_memory(err);
    memset(s->fields, 0xff, cells * sizeof *s->fields);
    for (size_t k = 0; k < s->n; k++) {
        const tarn_dataset *d = s->parts[k].dataset;
        for (uint32_t i = d->n_fields; i-- > 0;) {
            uint32_t id =
                tarn__names_find(&source->fields, d->names[i], strlen(d->names[i]));
            if (id != TARN__NAME_NONE && !tarn__is_pseudo(d->ids[i]))
                s->fields[k * s->n_fields + id] = i;
        }
    }
    return TARN_OK;
}

static tarn_status check_entry(const tarn__mix *s, const char *text,
                               const tarn__alternatives *a, tarn_error *err)
{
    for (size_t k = 0; k < s->n; k++) {
        bool has = false;
        for (size_t i = 0; i < a->count; i++)
            has |= tarn__is_pseudo(a->ids[i]) ||
                   s->fields[k * s->n_fields + a->ids[i]] != TARN__FIELD_NONE;
        if (!has)
            return tarn__fail(err, TARN_ERR_NO_FIELD,
                              "source %zu of the mix has no field %s", k, text);
    }
    return TARN_OK;
}

static tarn_status check_listed(const tarn__mix *s, const char *const *fields,
                                tarn_error *err)
{
    tarn__alternatives a = {0};
    tarn_status status = TARN_OK;
    for (size_t i = 0; fields && fields[i] && status == TARN_OK; i++) {
        status = tarn__alternatives_read(s->source, fields[i], &a, err);
        if (status == TARN_OK) status = check_entry(s, fields[i], &a, err);
    }
    tarn__alternatives_reset(&a);
    return status;
}

/* Takes a dataset as a part. If it is resumed in the middle of an epoch, the part has
 * only the samples that are left, in every epoch. */
static tarn_status take_part(tarn_dataset *d, tarn_dataset **out, tarn_error *err)
{
    tarn_order_info info = {0};
    if (d->order) tarn_order_info_get(d->order, &info, sizeof info);
    if (info.start) return tarn_dataset_slice(d, 0, 1, d->count, out, err);
    *out = tarn__dataset_use(d);
    return TARN_OK;
}

static tarn_status take_parts(tarn__mix *s, tarn__storage *source,
                              tarn_dataset *const *parts, size_t count,
                              const tarn_mix_options *o, tarn_error *err)
{
    s->parts = calloc(count, sizeof *s->parts);
    s->counts = calloc(count, sizeof *s->counts);
    s->source = source;
    if (!s->parts || !s->counts) return tarn__fail_memory(err);
    for (s->n = 0; s->n < count; s->n++) {
        TARN_TRY(take_part(parts[s->n], &s->parts[s->n].dataset, err));
        source->shards += parts[s->n]->source->shards;
        source->cold |= parts[s->n]->source->cold;
        source->remote |= parts[s->n]->source->remote;
    }
    TARN_TRY(choose_counts(s, o, err));
    TARN_TRY(name_fields(s, source, err));
    TARN_TRY(number_fields(s, source, err));
    source->samples = s->total;
    source->repeats = true;
    return check_listed(s, o->fields, err);
}

static tarn_status make_source(tarn_dataset *const *parts, size_t count,
                               const tarn_mix_options *o, tarn__storage **out,
                               tarn_error *err)
{
    TARN_TRY(tarn__storage_new(&tarn__kind_mix, NULL, out, err));
    tarn__mix *s = (*out)->state = calloc(1, sizeof *s);
    if (s) tarn__forklock_init(&s->lock, TARN__LOCK_OUTERMOST);
    tarn_status status =
        s ? take_parts(s, *out, parts, count, o, err) : tarn__fail_memory(err);
    if (status != TARN_OK) tarn__storage_release(*out);
    return status;
}

TARN__DEFINE_INIT(tarn_mix_options, TARN_MIX_OPTIONS_INIT)

tarn_status tarn_dataset_mix(tarn_dataset *const *sources, size_t count,
                             const tarn_mix_options *options, tarn_dataset **out,
                             tarn_error *err)
{
    TARN__NEED(err, "sources", sources || !count);
    TARN__NEED(err, "out", out);
    tarn__storage *source;
    TARN__OPTIONS(tarn_mix_options, o, TARN_MIX_OPTIONS_INIT, options, err);
    if (count == 0 || count > TARN_MAX_MIX)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "a mix cannot have %zu sources (expected 1 to %u)", count,
                          TARN_MAX_MIX);
    if (o.weights && o.counts)
        return tarn__fail(err, TARN_ERR_USAGE, "set weights or counts, not both");
    TARN_TRY(make_source(sources, count, &o, &source, err));
    tarn_status status = tarn__dataset_new(source, o.fields, false, out, err);
    if (status != TARN_OK) tarn__storage_release(source);
    return status;
}

/* --- States ------------------------------------------------------------------------ */

size_t tarn__mix_parts(const tarn__storage *source)
{
    return source->kind == &tarn__kind_mix ? ((const tarn__mix *)source->state)->n : 0;
}

tarn_dataset *tarn__mix_part(const tarn__storage *source, size_t k, uint64_t *out_count)
{
    const tarn__mix *s = source->state;
    *out_count = s->counts[k];
    return s->parts[k].dataset;
}

tarn_status tarn__mix_describe(const tarn__storage *source, tarn__buf *out,
                               tarn_error *err)
{
    const tarn__mix *s = source->state;
    if (!s->continued) return TARN_OK;
    TARN_TRY(tarn__buf_printf(out, err, " from epoch %llu after",
                              (unsigned long long)s->first_epoch));
    for (size_t k = 0; k < s->n; k++)
        TARN_TRY(
            tarn__buf_printf(out, err, " %llu", (unsigned long long)s->parts[k].used));
    return TARN_OK;
}

void tarn__mix_used(const tarn__storage *source, uint64_t epoch, uint64_t position,
                    uint64_t *out)
{
    const tarn__mix *s = source->state;
    tarn__mixing m = tarn__mix_mixing(s);
    tarn__mixing_before(&m, position < s->total ? position : s->total, out);
    for (size_t k = 0; k < s->n; k++)
        out[k] += tarn__mix_used_before(s, k, epoch);
}

tarn_status tarn__mix_continued(const tarn__storage *from, uint64_t epoch,
                                const uint64_t *used, tarn__storage **out,
                                tarn_error *err)
{
    const tarn__mix *mix = from->state;
    tarn_mix_options o = TARN_MIX_OPTIONS_INIT;
    tarn_dataset *parts[TARN_MAX_MIX];
    for (size_t k = 0; k < mix->n; k++)
        parts[k] = mix->parts[k].dataset;
    o.counts = mix->counts;
    TARN_TRY(make_source(parts, mix->n, &o, out, err));
    tarn__mix *s = (*out)->state;
    s->first_epoch = epoch;
    s->continued = true;
    for (size_t k = 0; k < s->n; k++)
        s->parts[k].used = used[k];
    return TARN_OK;
}
