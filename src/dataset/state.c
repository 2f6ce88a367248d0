/* The state of a dataset or loader as JSON on one line:
 *
 *     {"tarn": 2, "data": "fold 120:9f3c...", "chain": "shuffle(seed=7)",
 *      "epoch": 1, "position": 64}
 *
 * data and chain are the fingerprint: a state is refused if the data differs, or if the
 * chain gives other samples or another order. Ranks are not part of it. For a mix, data
 * is a list of the sources, counts has the number of samples of each in an epoch, and
 * used the number used over all epochs. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "dataset/dataset.h"
#include "dataset/mix.h"
#include "dataset/order.h"

enum { VERSION = 2 };
#define MAX_STATE ((size_t)4 << 20)

/* --- Fingerprints ------------------------------------------------------------------ */

static tarn_status describe_data(tarn_dataset *base, tarn__buf *out, tarn_error *err);

/* Describes a source. This reads the whole index, so the text is kept. It is set once:
 * release and acquire make the text visible with the pointer, and a thread that loses the
 * exchange drops its copy. */
static tarn_status describe_source(tarn__storage *s, tarn__buf *out, tarn_error *err)
{
    const char *text = atomic_load_explicit(&s->text, memory_order_acquire);
    if (text) return tarn__buf_printf(out, err, "%s", text);
    size_t before = out->size;
    TARN_TRY(s->kind->describe(s->state, out, err));
    char *none = NULL, *copy = strdup(out->data + before);
    if (!copy) return tarn__fail_memory(err);
    if (!atomic_compare_exchange_strong_explicit(
            &s->text, &none, copy, memory_order_acq_rel, memory_order_acquire))
        free(copy);
    return TARN_OK;
}

/* The steps above the data. Each begins with a blank. */
static tarn_status describe_chain(tarn_dataset *base, const tarn_order *order,
                                  tarn__buf *out, tarn_error *err)
{
    if (!base->live && base->chain.offset)
        TARN_TRY(tarn__buf_printf(
            out, err, " epoch(%llu)",
            (unsigned long long)(base->chain.offset / base->source->samples)));
    TARN_TRY(tarn__chain_describe(&base->chain, out, err));
    return order ? tarn__order_describe(order, false, out, err) : TARN_OK;
}

/* A source of a mix: its data and its chain. */
static tarn_status describe_part(tarn_dataset *d, tarn__buf *out, tarn_error *err)
{
    tarn_dataset *base = tarn_dataset_unordered(d);
    TARN_TRY(describe_data(base, out, err));
    TARN_TRY(describe_chain(base, d->order, out, err));
    if (!d->order || tarn__order_is_whole(d->order)) return TARN_OK;
    const tarn_order_options *o = tarn__order_options(d->order);
    return tarn__buf_printf(out, err, " shard(%llu/%llu,%s)", (unsigned long long)o->rank,
                            (unsigned long long)o->world_size,
                            tarn__uneven_name(o->uneven));
}

static tarn_status describe_data(tarn_dataset *base, tarn__buf *out, tarn_error *err)
{
    const tarn__storage *s = base->source;
    size_t parts = tarn__mix_parts(s);
    uint64_t count;
    if (parts == 0) return describe_source(base->source, out, err);
    for (size_t k = 0; k < parts; k++) {
        tarn_dataset *part = tarn__mix_part(s, k, &count);
        TARN_TRY(tarn__buf_printf(out, err, "%s%llu x (", k ? " + " : "",
                                  (unsigned long long)count));
        TARN_TRY(describe_part(part, out, err));
        TARN_TRY(tarn__buf_printf(out, err, ")"));
    }
    return tarn__mix_describe(s, out, err);
}

/* --- Writing ----------------------------------------------------------------------- */

/* The text of a fingerprint, without a blank at the start. Empties the buffer; the text
 * stays valid until the buffer is used again. */
static const char *take_text(tarn__buf *text, size_t *out_size)
{
    size_t size = text->size, blank = size && text->data[0] == ' ';
    text->size = 0;
    *out_size = size - blank;
    return size ? text->data + blank : "";
}

static void put_text(tarn__json_writer *w, tarn__buf *text)
{
    size_t size;
    tarn__json_put_text(w, take_text(text, &size));
}

static void put_number(tarn__json_writer *w, const char *name, uint64_t value)
{
    tarn__json_key_text(w, name);
    tarn__json_put_uint(w, value);
}

static tarn_status put_mix(tarn__json_writer *w, tarn_dataset *base, uint64_t epoch,
                           uint64_t used, tarn__buf *text, tarn_error *err)
{
    const tarn__storage *s = base->source;
    size_t parts = tarn__mix_parts(s);
    uint64_t count, turns[TARN_MAX_MIX];
    tarn__mix_used(s, epoch, used, turns);
    tarn__json_key_text(w, "data");
    tarn__json_open(w, '[');
    for (size_t k = 0; k < parts; k++) {
        TARN_TRY(describe_part(tarn__mix_part(s, k, &count), text, err));
        put_text(w, text);
    }
    tarn__json_close(w, ']');
    tarn__json_key_text(w, "counts");
    tarn__json_open(w, '[');
    for (size_t k = 0; k < parts; k++) {
        (void)tarn__mix_part(s, k, &count);
        tarn__json_put_uint(w, count);
    }
    tarn__json_close(w, ']');
    tarn__json_key_text(w, "used");
    tarn__json_open(w, '[');
    for (size_t k = 0; k < parts; k++)
        tarn__json_put_uint(w, turns[k]);
    tarn__json_close(w, ']');
    return TARN_OK;
}

static tarn_status put_state(tarn__json_writer *w, tarn_dataset *base,
                             const tarn_order *order, uint64_t used, tarn__buf *text,
                             tarn_error *err)
{
    uint64_t epoch = tarn__order_options(order)->epoch;
    tarn__json_open(w, '{');
    put_number(w, "tarn", VERSION);
    if (tarn__mix_parts(base->source) && base->live) {
        TARN_TRY(put_mix(w, base, epoch, used, text, err));
    } else {
        TARN_TRY(describe_data(base, text, err));
        tarn__json_key_text(w, "data");
        put_text(w, text);
    }
    TARN_TRY(describe_chain(base, order, text, err));
    tarn__json_key_text(w, "chain");
    put_text(w, text);
    put_number(w, "epoch", epoch);
    put_number(w, "position", used);
    tarn__json_close(w, '}');
    return TARN_OK;
}

tarn_status tarn__state_text(tarn_dataset *base, const tarn_order *order, uint64_t used,
                             tarn_text *out, tarn_error *err)
{
    tarn__buf text, part;
    tarn__json_writer w;
    tarn_error ignored;
    tarn__buf_init(&text, MAX_STATE);
    tarn__buf_init(&part, MAX_STATE);
    tarn__json_begin(&w, &text);
    tarn_status status = put_state(&w, base, order, used, &part, err);
    tarn_status ended = tarn__json_end(&w, status == TARN_OK ? err : &ignored);
    if (status == TARN_OK) status = ended;
    if (status == TARN_OK) status = tarn__text_set(out, text.data, text.size, err);
    tarn__buf_reset(&part);
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
                      v ? "%s in the state is not a number from 0 to 2^64 - 1"
                        : "the state has no %s",
                      name);
}

static tarn_status take_version(const tarn__json *root, tarn_error *err)
{
    uint64_t version;
    if (root->kind != TARN__JSON_OBJECT)
        return tarn__fail(err, TARN_ERR_FORMAT, "the state is not a JSON object");
    TARN_TRY(take_number(root, "tarn", &version, err));
    if (version == VERSION) return TARN_OK;
    return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                      "the state has version %llu; this library reads %d",
                      (unsigned long long)version, VERSION);
}

/* Compares a text of the state with this dataset's, and empties mine. */
static tarn_status compare_text(const tarn__json *theirs, const char *what,
                                tarn__buf *mine, tarn_error *err)
{
    char shown[200], own[200];
    size_t size;
    const char *from = take_text(mine, &size);
    if (!theirs || theirs->kind != TARN__JSON_STRING)
        return tarn__fail(err, TARN_ERR_FORMAT, "the state has no text for its %s", what);
    if (tarn__json_is(theirs, from, size)) return TARN_OK;
    return tarn__fail(err, TARN_ERR_STALE,
                      "the state is for %s %s: \"%s\"; this dataset has \"%s\"",
                      strcmp(what, "data") == 0 ? "other" : "another", what,
                      tarn_printable(shown, sizeof shown, theirs->u.text, theirs->size),
                      tarn_printable(own, sizeof own, from, size));
}

static tarn_status check_parts(const tarn__json *list, tarn_dataset *base,
                               tarn__buf *text, tarn_error *err)
{
    size_t parts = tarn__mix_parts(base->source);
    uint64_t count;
    if (!list || list->kind != TARN__JSON_LIST || list->size != parts)
        return tarn__fail(err, TARN_ERR_STALE,
                          "the state is not for a mix of %zu sources", parts);
    const tarn__json *v = list + 1;
    for (size_t k = 0; k < parts; k++, v = tarn__json_next(v)) {
        TARN_TRY(describe_part(tarn__mix_part(base->source, k, &count), text, err));
        TARN_TRY(compare_text(v, "source", text, err));
    }
    return TARN_OK;
}

static tarn_status take_list(const tarn__json *root, const char *name, size_t n,
                             uint64_t *out, tarn_error *err)
{
    const tarn__json *list = tarn__json_find(root, name);
    const tarn__json *v = list ? list + 1 : NULL;
    bool good = list && list->kind == TARN__JSON_LIST && list->size == n;
    for (size_t k = 0; good && k < n; k++, v = tarn__json_next(v))
        good = tarn__json_uint64(v, &out[k]) && out[k] <= INT64_MAX;
    if (good) return TARN_OK;
    return tarn__fail(err, TARN_ERR_FORMAT,
                      "%s in the state is not a list of %zu numbers", name, n);
}

/* The additional entries in a state of a mix. */
typedef struct mix_state {
    uint64_t counts[TARN_MAX_MIX], used[TARN_MAX_MIX];
    bool same; /* counts are equal to those of this mix */
} mix_state;

static tarn_status take_mix(const tarn__json *root, tarn_dataset *base, mix_state *out,
                            tarn__buf *text, tarn_error *err)
{
    size_t parts = tarn__mix_parts(base->source);
    uint64_t count;
    TARN_TRY(check_parts(tarn__json_find(root, "data"), base, text, err));
    TARN_TRY(take_list(root, "counts", parts, out->counts, err));
    TARN_TRY(take_list(root, "used", parts, out->used, err));
    out->same = true;
    for (size_t k = 0; k < parts; k++) {
        (void)tarn__mix_part(base->source, k, &count);
        out->same &= count == out->counts[k];
    }
    return TARN_OK;
}

/* A dataset over a mix whose sources continue from the state's positions. */
static tarn_status continue_mix(tarn_dataset *d, const mix_state *m, uint64_t epoch,
                                tarn_dataset **out, tarn_error *err)
{
    tarn_dataset *plain = tarn_dataset_unordered(d), *base;
    tarn__storage *source;
    TARN_TRY(tarn__mix_continued(plain->source, epoch, m->used, &source, err));
    tarn_status status = tarn__dataset_like(plain, &base, err);
    if (status != TARN_OK) {
        tarn__storage_release(source);
        return status;
    }
    tarn__storage_release(base->source);
    base->source = source;
    if (d->order) return tarn__dataset_ordered(base, tarn__order_use(d->order), out, err);
    *out = base;
    return TARN_OK;
}

/* With other weights an epoch has other samples, so sources continue from their positions
 * and a new epoch begins. With an order this is possible only between epochs, because the
 * samples used so far are not the first of each source. */
static tarn_status apply_weights(tarn_dataset *d, const mix_state *m, uint64_t *epoch,
                                 uint64_t *used, tarn_dataset **out, tarn_error *err)
{
    uint64_t total = 0, position = *used;
    for (size_t k = 0; k < tarn__mix_parts(d->source); k++)
        total += m->counts[k];
    bool ordered = d->order && tarn__order_options(d->order)->kind != TARN_ORDER_IDENTITY;
    if ((ordered || tarn_dataset_unordered(d)->chain.n) && position && position < total)
        return tarn__fail(err, TARN_ERR_STALE,
                          "the state is in the middle of an epoch of a mix with an order "
                          "and different weights; change weights between epochs");
    if (position >= total) ++*epoch;
    *used = 0;
    return continue_mix(d, m, *epoch, out, err);
}

/* With the same weights, the number of used samples may still differ, if weights were
 * changed in an earlier epoch. */
static tarn_status apply_used(tarn_dataset *d, mix_state *m, uint64_t epoch,
                              uint64_t position, tarn_dataset **out, tarn_error *err)
{
    const tarn__storage *s = d->source;
    uint64_t begun[TARN_MAX_MIX], now[TARN_MAX_MIX];
    bool same = true;
    tarn__mix_used(s, epoch, 0, begun);
    tarn__mix_used(s, epoch, position, now);
    for (size_t k = 0; k < tarn__mix_parts(s); k++) {
        uint64_t turns = now[k] - begun[k];
        same &= m->used[k] == now[k];
        if (m->used[k] < turns)
            return tarn__fail(err, TARN_ERR_FORMAT,
                              "used in the state is %llu for source %zu (expected at "
                              "least %llu, the samples before position %llu)",
                              (unsigned long long)m->used[k], k,
                              (unsigned long long)turns, (unsigned long long)position);
        m->used[k] -= turns;
    }
    if (!same) return continue_mix(d, m, epoch, out, err);
    *out = tarn__dataset_use(d);
    return TARN_OK;
}

static tarn_status take_state(const tarn__json *root, tarn_dataset *d, mix_state *m,
                              tarn_dataset **out, uint64_t *epoch, uint64_t *used,
                              tarn__buf *text, tarn_error *err)
{
    tarn_dataset *base = tarn_dataset_unordered(d);
    bool mix = tarn__mix_parts(base->source) && base->live;
    TARN_TRY(take_version(root, err));
    const tarn__json *data = tarn__json_find(root, "data");
    if (!mix && data && data->kind == TARN__JSON_LIST)
        return tarn__fail(
            err, TARN_ERR_STALE,
            "the state is for a mix; this dataset is not a mix, or is fixed "
            "in one epoch of it");
    if (mix) {
        TARN_TRY(take_mix(root, base, m, text, err));
    } else {
        TARN_TRY(describe_data(base, text, err));
        TARN_TRY(compare_text(data, "data", text, err));
    }
    TARN_TRY(describe_chain(base, d->order, text, err));
    TARN_TRY(compare_text(tarn__json_find(root, "chain"), "chain", text, err));
    TARN_TRY(take_number(root, "epoch", epoch, err));
    TARN_TRY(take_number(root, "position", used, err));
    if (root->size != (mix ? 7u : 5u))
        return tarn__fail(err, TARN_ERR_FORMAT,
                          "the state has %u entries; a state of this dataset has %u",
                          root->size, mix ? 7u : 5u);
    if (*epoch == UINT64_MAX)
        return tarn__fail(err, TARN_ERR_FORMAT, "epoch in the state is too high");
    if (mix && !m->same) return apply_weights(d, m, epoch, used, out, err);
    if (mix) return apply_used(d, m, *epoch, *used, out, err);
    *out = tarn__dataset_use(d);
    return TARN_OK;
}

/* Moves a position after the last one to the start of the next epoch. */
static tarn_status wrap_position(tarn_dataset *d, uint64_t *epoch, uint64_t *used,
                                 tarn_error *err)
{
    tarn_dataset *base;
    tarn_order *order;
    tarn_order_info info;
    TARN_TRY(tarn__dataset_parts(d, &base, &order, err));
    tarn_order_info_get(order, &info, sizeof info);
    tarn_order_close(order);
    tarn_dataset_close(base);
    if (*used > info.total)
        return tarn__fail(err, TARN_ERR_FORMAT,
                          "the state is at position %llu, but the epoch has %llu",
                          (unsigned long long)*used, (unsigned long long)info.total);
    if (*used < info.total || info.total == 0) return TARN_OK;
    *used = 0;
    ++*epoch;
    return TARN_OK;
}

tarn_status tarn__state_take(tarn_dataset *d, const char *state, size_t size,
                             tarn_dataset **out, uint64_t *out_epoch, uint64_t *out_used,
                             tarn_error *err)
{
    tarn__json_options limits = TARN__JSON_OPTIONS_INIT;
    tarn__json_doc doc;
    tarn__buf text;
    limits.max_bytes = MAX_STATE;
    limits.max_values = 4 * TARN_MAX_MIX;
    limits.max_depth = 3;
    TARN_TRY(tarn__json_parse(&doc, state, size, &limits, err));
    tarn__buf_init(&text, MAX_STATE);
    mix_state *m = malloc(sizeof *m);
    *out = NULL;
    tarn_status status =
        m ? take_state(tarn__json_root(&doc), d, m, out, out_epoch, out_used, &text, err)
          : tarn__fail_memory(err);
    if (status == TARN_OK) status = wrap_position(*out, out_epoch, out_used, err);
    if (status != TARN_OK) tarn_dataset_close(*out);
    free(m);
    tarn__buf_reset(&text);
    tarn__json_reset(&doc);
    return status;
}
