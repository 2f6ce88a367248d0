/* Several datasets as one source. Positions are in mixing.c. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/options.h"
#include "dataset/dataset.h"
#include "dataset/mix.h"

typedef struct state {
    tarn_dataset **parts;
    size_t n;
    uint64_t *counts;
    uint64_t total;
    uint32_t n_fields;
    uint32_t *fields; /* [part * n_fields + field]: its number there, or NONE */
    const tarn__source *source;
} state;

static void close_mix(void *p)
{
    state *s = p;
    for (size_t k = 0; s->parts && k < s->n; k++)
        tarn_dataset_close(s->parts[k]);
    free(s->parts);
    free(s->counts);
    free(s->fields);
    free(s);
}

/* --- Making ------------------------------------------------------------------------ */

static tarn_status choose_counts(state *s, const tarn_mix_options *o, tarn_error *err)
{
    uint64_t *lengths = malloc((s->n + 1) * sizeof *lengths);
    if (!lengths) return tarn__fail_memory(err);
    for (size_t k = 0; k < s->n; k++)
        s->counts[k] = lengths[k] = s->parts[k]->count;
    tarn_status status = TARN_OK;
    if (o->weights)
        status = tarn__mixing_share(o->weights, s->n, lengths, o->total, o->end,
                                    s->counts, err);
    else if (o->counts)
        memcpy(s->counts, o->counts, s->n * sizeof *s->counts);
    for (size_t k = 0; status == TARN_OK && k < s->n; k++) {
        if (s->counts[k] > TARN__MAX_MIXED - s->total)
            status = tarn__fail(err, TARN_ERR_LIMIT, "more than 2^62 samples in a mix");
        else if (lengths[k] == 0 && (s->counts[k] || o->weights))
            status = tarn__fail(err, TARN_ERR_USAGE,
                                "source %zu of the mix has no samples", k);
        else
            s->total += s->counts[k];
    }
    free(lengths);
    return status;
}

static tarn_status name_fields(const state *s, tarn__source *source, tarn_error *err)
{
    uint32_t id;
    for (size_t k = 0; k < s->n; k++) {
        const tarn_dataset *d = s->parts[k];
        for (uint32_t i = 0; i < d->n_fields; i++)
            if (!tarn__is_pseudo(d->ids[i]))
                TARN_TRY(tarn__names_add(&source->fields, d->names[i],
                                         strlen(d->names[i]), &id, err));
    }
    source->n_plain = source->fields.count;
    return TARN_OK;
}

static tarn_status number_fields(state *s, const tarn__source *source, tarn_error *err)
{
    s->n_fields = (uint32_t)source->fields.count;
    size_t cells = s->n * s->n_fields;
    s->fields = malloc((cells + 1) * sizeof *s->fields);
    if (!s->fields) return tarn__fail_memory(err);
    memset(s->fields, 0xff, cells * sizeof *s->fields);
    for (size_t k = 0; k < s->n; k++) {
        const tarn_dataset *d = s->parts[k];
        for (uint32_t i = d->n_fields; i-- > 0;) {
            uint32_t id =
                tarn__names_find(&source->fields, d->names[i], strlen(d->names[i]));
            if (id != TARN__NAME_NONE && !tarn__is_pseudo(d->ids[i]))
                s->fields[k * s->n_fields + id] = i;
        }
    }
    return TARN_OK;
}

static tarn_status check_listed(const state *s, const char *const *fields,
                                tarn_error *err)
{
    for (size_t i = 0; fields && fields[i]; i++) {
        uint32_t id = tarn__field_id(s->source, fields[i]);
        if (id == TARN__FIELD_NONE && fields[i][0] == '.')
            id = tarn__field_id(s->source, fields[i] + 1);
        if (id == TARN__FIELD_NONE || tarn__is_pseudo(id)) continue;
        for (size_t k = 0; k < s->n; k++)
            if (s->fields[k * s->n_fields + id] == TARN__FIELD_NONE)
                return tarn__fail(err, TARN_ERR_NO_FIELD,
                                  "source %zu of the mix has no field %s", k, fields[i]);
    }
    return TARN_OK;
}

static tarn_status fill(state *s, tarn__source *source, tarn_dataset *const *parts,
                        size_t count, const tarn_mix_options *o, tarn_error *err)
{
    s->parts = calloc(count, sizeof *s->parts);
    s->counts = calloc(count, sizeof *s->counts);
    s->source = source;
    if (!s->parts || !s->counts) return tarn__fail_memory(err);
    for (s->n = 0; s->n < count; s->n++) {
        s->parts[s->n] = parts[s->n];
        atomic_fetch_add(&parts[s->n]->users, 1);
        source->shards += parts[s->n]->source->shards;
        source->cold |= parts[s->n]->source->cold;
    }
    TARN_TRY(choose_counts(s, o, err));
    TARN_TRY(name_fields(s, source, err));
    TARN_TRY(number_fields(s, source, err));
    source->samples = s->total;
    source->repeats = true;
    return check_listed(s, o->fields, err);
}

tarn_status tarn_dataset_mix(tarn_dataset *const *sources, size_t count,
                             const tarn_mix_options *options, tarn_dataset **out,
                             tarn_error *err)
{
    tarn__source *source;
    TARN__OPTIONS(tarn_mix_options, o, TARN_MIX_OPTIONS_INIT, options, err);
    if (count == 0 || count > TARN_MAX_MIX)
        return tarn__fail(err, TARN_ERR_USAGE, "%zu sources in a mix, of 1 to %u", count,
                          TARN_MAX_MIX);
    if (o.weights && o.counts)
        return tarn__fail(err, TARN_ERR_USAGE, "weights or counts, not both");
    TARN_TRY(tarn__source_new(&tarn__kind_mix, NULL, &source, err));
    state *s = source->state = calloc(1, sizeof *s);
    tarn_status status =
        s ? fill(s, source, sources, count, &o, err) : tarn__fail_memory(err);
    if (status == TARN_OK) status = tarn__dataset_new(source, o.fields, false, out, err);
    if (status != TARN_OK) tarn__source_release(source);
    return status;
}

/* --- Positions --------------------------------------------------------------------- */

static tarn__mixing mixing(const state *s)
{
    return (tarn__mixing){s->counts, s->n, s->total};
}

static void at(const state *s, uint64_t p, tarn_mix_place *out)
{
    uint64_t turns[TARN_MAX_MIX];
    tarn__mixing m = mixing(s);
    tarn__mixing_at(&m, p, turns, &out->source, &out->turn);
    out->sample = out->turn % s->parts[out->source]->count;
}

static tarn_status get_state(const tarn_dataset *d, const state **out, tarn_error *err)
{
    *out = d->source->state;
    if (d->source->kind == &tarn__kind_mix) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_USAGE, d->source->path, TARN_NO_OFFSET,
                         "this dataset is no mix");
}

tarn_status tarn_mix_at(const tarn_dataset *d, uint64_t sample, tarn_mix_place *out,
                        tarn_error *err)
{
    const state *s;
    TARN_TRY(get_state(d, &s, err));
    TARN_TRY(tarn__check_sample(d, sample, err));
    at(s, tarn__dataset_at(d, sample), out);
    return TARN_OK;
}

static tarn_status check_source(const state *s, uint32_t source, tarn_error *err)
{
    if (source < s->n) return TARN_OK;
    return tarn__fail(err, TARN_ERR_USAGE, "source %u of %zu in the mix", source, s->n);
}

tarn_status tarn_mix_count(const tarn_dataset *d, uint32_t source, uint64_t *out,
                           tarn_error *err)
{
    const state *s;
    TARN_TRY(get_state(d, &s, err));
    TARN_TRY(check_source(s, source, err));
    *out = s->counts[source];
    return TARN_OK;
}

tarn_status tarn_mix_position(const tarn_dataset *d, uint32_t source, uint64_t turn,
                              uint64_t *out, tarn_error *err)
{
    const state *s;
    TARN_TRY(get_state(d, &s, err));
    TARN_TRY(check_source(s, source, err));
    if (d->picked)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "the mix has been filtered: ask for a "
                          "position in the mix itself");
    if (turn >= s->counts[source])
        return tarn__fail(err, TARN_ERR_NO_SAMPLE, "turn %llu of source %u, of %llu",
                          (unsigned long long)turn, source,
                          (unsigned long long)s->counts[source]);
    tarn__mixing m = mixing(s);
    *out = tarn__mixing_position(&m, source, turn);
    return TARN_OK;
}

/* --- One sample -------------------------------------------------------------------- */

/* The part that a sample is of, its number there, and that of the field. */
static tarn_status find_part(const state *s, uint64_t sample, uint32_t field,
                             tarn_dataset **out, tarn_mix_place *place,
                             uint32_t *out_field, tarn_error *err)
{
    at(s, sample, place);
    *out = s->parts[place->source];
    *out_field = s->fields[place->source * s->n_fields + field];
    if (*out_field != TARN__FIELD_NONE) return TARN_OK;
    return tarn__fail(err, TARN_ERR_NO_FIELD,
                      "sample %llu is of source %u of the mix, which has no field %s",
                      (unsigned long long)sample, place->source,
                      tarn__names_get(&s->source->fields, field).data);
}

static tarn_status view_mix(void *p, uint64_t sample, uint32_t field, tarn_view *out,
                            tarn_error *err)
{
    tarn_dataset *part;
    tarn_mix_place place;
    TARN_TRY(find_part(p, sample, field, &part, &place, &field, err));
    return tarn_dataset_get(part, place.sample, field, out, err);
}

static tarn_status size_mix(void *p, uint64_t sample, uint32_t field, uint64_t *out,
                            tarn_error *err)
{
    tarn_dataset *part;
    tarn_mix_place place;
    TARN_TRY(find_part(p, sample, field, &part, &place, &field, err));
    return tarn_dataset_size(part, place.sample, field, out, err);
}

static tarn_status key_mix(void *p, uint64_t sample, tarn_text *out, tarn_error *err)
{
    const state *s = p;
    tarn_mix_place place;
    at(s, sample, &place);
    return tarn_dataset_key(s->parts[place.source], place.sample, out, err);
}

static tarn_status shard_mix(void *p, uint64_t sample, uint32_t *out_number,
                             const char **out_path, tarn_error *err)
{
    const state *s = p;
    tarn_mix_place place;
    at(s, sample, &place);
    return tarn_dataset_shard(s->parts[place.source], place.sample, out_number, out_path,
                              err);
}

static tarn_status form_mix(const void *p, uint64_t sample, uint32_t field,
                            tarn_field_form *out, tarn_error *err)
{
    tarn_dataset *part;
    tarn_mix_place place;
    TARN_TRY(find_part(p, sample, field, &part, &place, &field, err));
    return tarn_dataset_form(part, place.sample, field, out, err);
}

static tarn_status where_mix(void *p, uint64_t sample, uint32_t field,
                             const char **out_path, uint64_t *out_offset, tarn_error *err)
{
    tarn_dataset *part;
    tarn_mix_place place;
    TARN_TRY(find_part(p, sample, field, &part, &place, &field, err));
    return tarn_dataset_where(part, place.sample, field, out_path, out_offset, err);
}

/* The first position where part k has this key, at or behind the turns in before. Turns
 * go through the part again and again: that is the first such sample of the rest of a
 * round, or of the next one. */
static tarn_status find_in_part(const state *s, uint32_t k, const char *key,
                                uint64_t before, uint64_t *best, tarn_error *err)
{
    tarn_dataset *part = s->parts[k];
    uint64_t length = part->count, sample, next;
    tarn_error why;
    tarn__mixing m = mixing(s);
    if (before >= s->counts[k]) return TARN_OK;
    uint64_t done = before % length, turn = before - done;
    tarn_status status = tarn__dataset_find_from(part, key, tarn__dataset_at(part, done),
                                                 &sample, &next, &why);
    if (status == TARN_ERR_NO_SAMPLE && done) {
        turn += length;
        status = tarn__dataset_find_from(part, key, 0, &sample, &next, &why);
    }
    if (status == TARN_ERR_NO_SAMPLE) return TARN_OK;
    if (status != TARN_OK) {
        if (err) *err = why;
        return status;
    }
    turn += sample;
    uint64_t position =
        turn < s->counts[k] ? tarn__mixing_position(&m, k, turn) : UINT64_MAX;
    if (position < *best) *best = position;
    return TARN_OK;
}

static tarn_status find_mix(void *p, const char *key, uint64_t from, uint64_t *out,
                            tarn_error *err)
{
    const state *s = p;
    uint64_t turns[TARN_MAX_MIX], best = UINT64_MAX;
    char shown[200];
    tarn__mixing m = mixing(s);
    tarn__mixing_before(&m, from < s->total ? from : s->total, turns);
    for (uint32_t k = 0; k < s->n; k++)
        TARN_TRY(find_in_part(s, k, key, turns[k], &best, err));
    *out = best;
    if (best != UINT64_MAX) return TARN_OK;
    return tarn__fail(err, TARN_ERR_NO_SAMPLE, "no sample with key %s in the mix",
                      tarn_printable(shown, sizeof shown, key, strlen(key)));
}

/* --- Batches ----------------------------------------------------------------------- */

/* Of a mix in a mix: a copy that is known to be right. */
static tarn_status make_nested(tarn_dataset *part, tarn__item *item, tarn_error *err)
{
    TARN_TRY(tarn_dataset_get(part, item->sample, item->field, &item->view, err));
    item->size = item->view.size;
    item->made = true;
    if (item->view.owned) return TARN_OK;
    unsigned char *copy = malloc(item->view.size + 1);
    if (!copy) return tarn__fail_memory(err);
    if (item->view.size) memcpy(copy, item->view.data, item->view.size);
    item->view = (tarn_view){copy, item->view.size, copy};
    return tarn_dataset_settle(part, item->sample, err);
}

/* Puts the items of each part together and has it place them. A part that is a mix itself
 * makes its pieces one by one: an item has room for one source. */
static tarn_status place_mix(void *p, tarn__item *items, size_t count, tarn_error *err)
{
    const state *s = p;
    size_t done = 0;
    for (size_t i = 0; i < count; i++) {
        tarn_dataset *part;
        tarn_mix_place place;
        TARN_TRY(find_part(s, items[i].sample, items[i].field, &part, &place,
                           &items[i].field, err));
        items[i].source = place.source;
        items[i].sample = place.sample;
    }
    for (uint32_t k = 0; k < s->n && done < count; k++) {
        tarn_dataset *part = s->parts[k];
        bool nested = part->source->kind == &tarn__kind_mix;
        size_t from = done;
        for (size_t i = from; i < count; i++) {
            if (items[i].source != k) continue;
            tarn__item item = items[i];
            items[i] = items[done];
            if (nested) {
                items[done] = item;
                TARN_TRY(make_nested(part, &items[done], err));
            } else {
                item.sample = tarn__dataset_at(part, item.sample);
                item.field = part->ids[item.field];
                items[done] = item;
            }
            done++;
        }
        if (!nested && done > from)
            TARN_TRY(part->source->kind->place(part->source->state, items + from,
                                               done - from, err));
    }
    return TARN_OK;
}

static tarn_status copy_mix(void *p, const tarn__item *items, size_t count,
                            const tarn__target *to, tarn_error *err)
{
    const state *s = p;
    tarn_status status = TARN_OK;
    tarn__item *own = malloc(count * sizeof *own);
    if (!own) return tarn__fail_memory(err);
    for (uint32_t k = 0; k < s->n && status == TARN_OK; k++) {
        const tarn__source *source = s->parts[k]->source;
        size_t n = 0;
        for (size_t i = 0; i < count; i++)
            if (items[i].source == k) own[n++] = items[i];
        if (n) status = source->kind->copy(source->state, own, n, to, err);
    }
    free(own);
    return status;
}

static tarn_status settle_mix(void *p, uint64_t sample, tarn_error *err)
{
    const state *s = p;
    tarn_mix_place place;
    at(s, sample, &place);
    return tarn_dataset_settle(s->parts[place.source], place.sample, err);
}

/* Part by part; items are put into another order. */
static void announce_mix(void *p, tarn__item *items, size_t count)
{
    const state *s = p;
    size_t done = 0;
    for (size_t i = 0; i < count; i++) {
        tarn_dataset *part;
        tarn_mix_place place;
        uint32_t field;
        items[i].source = UINT32_MAX;
        if (find_part(s, items[i].sample, items[i].field, &part, &place, &field, NULL) !=
            TARN_OK)
            continue;
        items[i].source = place.source;
        items[i].sample = tarn__dataset_at(part, place.sample);
        items[i].field = part->ids[field];
    }
    for (uint32_t k = 0; k < s->n && done < count; k++) {
        size_t from = done;
        for (size_t i = from; i < count; i++) {
            if (items[i].source != k) continue;
            tarn__item item = items[i];
            items[i] = items[done];
            items[done++] = item;
        }
        if (done > from) tarn__announce(s->parts[k]->source, items + from, done - from);
    }
}

/* --- Fields ------------------------------------------------------------------------ */

static tarn_status has_field(state *s, uint64_t sample, uint32_t field, bool *out,
                             bool *out_twice, tarn_error *err)
{
    uint64_t size;
    tarn_error why;
    tarn_status status = size_mix(s, sample, field, &size, &why);
    *out_twice = status == TARN_ERR_AMBIGUOUS;
    *out = status == TARN_OK || *out_twice;
    if (*out || status == TARN_ERR_NO_FIELD) return TARN_OK;
    if (err) *err = why;
    return status;
}

/* Samples of a mix are judged one by one. Those listed at the making are in all parts. */
static tarn_status keep_mix(void *p, tarn__need *need, const uint32_t *list,
                            uint64_t count, uint32_t *out, uint64_t *out_count,
                            tarn_error *err)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t sample = list ? list[i] : i;
        bool all = true, has, twice;
        for (size_t f = 0; f < need->count && all; f++) {
            TARN_TRY(has_field(p, sample, need->fields[f], &has, &twice, err));
            all = has;
        }
        if (all != need->lack) out[n++] = (uint32_t)sample;
    }
    *out_count = n;
    return TARN_OK;
}

static tarn_status sets_mix(void *p, const uint32_t *list, uint64_t count,
                            tarn_status (*add)(void *, const uint32_t *, size_t, uint64_t,
                                               uint64_t, tarn_error *),
                            void *context, tarn_error *err)
{
    state *s = p;
    uint32_t *fields = malloc((s->n_fields + 1) * sizeof *fields);
    tarn_status status = fields ? TARN_OK : tarn__fail_memory(err);
    for (uint64_t i = 0; status == TARN_OK && i < count; i++) {
        size_t n = 0;
        bool any_twice = false, has, twice;
        for (uint32_t f = 0; status == TARN_OK && f < s->n_fields; f++) {
            status = has_field(s, list ? list[i] : i, f, &has, &twice, err);
            if (status == TARN_OK && has) fields[n++] = f;
            any_twice |= status == TARN_OK && twice;
        }
        if (status == TARN_OK) status = add(context, fields, n, 1, any_twice, err);
    }
    free(fields);
    return status;
}

const tarn__source_kind tarn__kind_mix = {
    .kind = TARN_DATASET_MIX,
    .close = close_mix,
    .view = view_mix,
    .size = size_mix,
    .key = key_mix,
    .find = find_mix,
    .shard = shard_mix,
    .place = place_mix,
    .copy = copy_mix,
    .settle = settle_mix,
    .announce_all = announce_mix,
    .keep = keep_mix,
    .sets = sets_mix,
    .form = form_mix,
    .where = where_mix,
};
