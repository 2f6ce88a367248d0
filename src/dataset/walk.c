/* Calls a callback with all samples of a dataset. Any free thread views a group of
 * samples; groups are passed to the callback in order (base/turns.h). Mapped payloads are
 * not copied. */
#include <stdlib.h>

#include <tarn/members.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/options.h"
#include "base/turns.h"
#include "dataset/dataset.h"

enum {
    GROUP = 64,           /* samples viewed before the first is passed on */
    GROUP_BYTES = 8 << 20 /* limit of bytes copied ahead, if files are not mapped; the
                             rest of a group is read in its turn */
};

/* Some samples of a group, and their views. */
typedef struct desk {
    uint64_t from; /* position of the first */
    uint64_t numbers[GROUP], rows[GROUP];
    uint64_t key_at[GROUP];
    tarn__buf keys; /* each with a NUL after it */
    size_t starts[GROUP + 1];
    uint32_t shards[GROUP]; /* shard of all members; UINT32_MAX: more than one */
    size_t count;
    tarn__members members;
    tarn_field *fields;
    tarn_view *views; /* of the fields */
    size_t n_fields, field_capacity, view_capacity;
    uint64_t copied;
} desk;

typedef struct walk {
    tarn_dataset *set;
    tarn_walk_options options;
    tarn_put put;
    void *context;
} walk;

static void *new_desk(void)
{
    desk *d = calloc(1, sizeof *d);
    if (d) tarn__buf_init(&d->keys, SIZE_MAX / 2);
    return d;
}

static void clear_desk(desk *d)
{
    while (d->n_fields)
        tarn_view_release(&d->views[--d->n_fields]);
    d->keys.size = d->count = 0;
    d->copied = 0;
}

static void free_desk(void *state)
{
    desk *d = state;
    clear_desk(d);
    tarn__buf_reset(&d->keys);
    free(d->members.items);
    free(d->fields);
    free(d->views);
    free(d);
}

/* --- Viewing ----------------------------------------------------------------------- */

static tarn_status add_member(const walk *w, desk *d, uint64_t sample,
                              const tarn_stored *member, tarn_error *err)
{
    tarn_view *view;
    TARN_TRY(
        tarn__grow(&d->fields, sizeof *d->fields, d->n_fields, &d->field_capacity, err));
    TARN_TRY(
        tarn__grow(&d->views, sizeof *d->views, d->n_fields, &d->view_capacity, err));
    view = &d->views[d->n_fields];
    TARN_TRY(tarn__member_view(w->set, sample, member, view, err));
    if (view->owned) d->copied += view->size;
    d->fields[d->n_fields++] = (tarn_field){
        .name = w->set->names[member->field], .data = view->data, .size = view->size};
    return TARN_OK;
}

static tarn_status add_sample(const walk *w, desk *d, tarn_error *err)
{
    uint64_t sample = d->from + d->count;
    TARN_TRY(tarn__members_get(w->set, sample, &d->members, err));
    d->starts[d->count] = d->n_fields;
    for (size_t k = 0; k < d->members.count; k++) {
        const tarn_stored *member = &d->members.items[k];
        TARN_TRY(add_member(w, d, sample, member, err));
        if (k == 0)
            d->shards[d->count] = member->shard;
        else if (d->shards[d->count] != member->shard)
            d->shards[d->count] = UINT32_MAX;
    }
    d->starts[++d->count] = d->n_fields;
    return TARN_OK;
}

static tarn_status view_all(const walk *w, desk *d, size_t count, tarn_error *err)
{
    size_t done;
    TARN_TRY(tarn__dataset_keys(tarn_dataset_unordered(w->set), d->numbers, count,
                                d->rows, &d->keys, d->key_at, &done, err));
    while (d->count < count && d->copied < GROUP_BYTES)
        TARN_TRY(add_sample(w, d, err));
    return TARN_OK;
}

/* Views samples from from on until GROUP_BYTES are copied, but at least one. */
static tarn_status view_samples(const walk *w, desk *d, uint64_t from, uint64_t to,
                                tarn_error *err)
{
    size_t count = (size_t)(to - from);
    clear_desk(d);
    d->from = from;
    TARN_TRY(tarn_dataset_sequence(w->set, from, count, d->numbers, err));
    if (!w->set->source->remote) return view_all(w, d, count, err);
    tarn__supply supply;
    TARN_TRY(tarn__supply_samples(&supply, w->set, from, count, err));
    tarn_status status = view_all(w, d, count, err);
    tarn__supply_end(&supply);
    return status;
}

/* --- Passing on -------------------------------------------------------------------- */

/* Checks that files were complete the whole time. One check is enough for consecutive
 * samples of one file. */
static tarn_status settle_sample(const walk *w, const desk *d, size_t i, tarn_error *err)
{
    bool same = i + 1 < d->count && d->shards[i] == d->shards[i + 1];
    if (same && d->shards[i] != UINT32_MAX && !w->set->source->kind->resolve)
        return TARN_OK;
    return tarn__settle(tarn_dataset_unordered(w->set), d->numbers[i], err);
}

static tarn_status put_all(const walk *w, const desk *d, tarn_error *err)
{
    for (size_t i = 0; i < d->count; i++) {
        TARN_TRY(w->put(w->context, 0, d->keys.data + d->key_at[i],
                        d->fields + d->starts[i], d->starts[i + 1] - d->starts[i], err));
        TARN_TRY(settle_sample(w, d, i, err));
    }
    return TARN_OK;
}

static uint64_t group_end(const walk *w, size_t group)
{
    uint64_t end = ((uint64_t)group + 1) * GROUP;
    return end < w->set->count ? end : w->set->count;
}

static tarn_status view_group(void *context, void *state, size_t group, tarn_error *err)
{
    const walk *w = context;
    return view_samples(w, state, (uint64_t)group * GROUP, group_end(w, group), err);
}

static tarn_status pass_group(void *context, void *state, size_t group, tarn_error *err)
{
    const walk *w = context;
    desk *d = state;
    uint64_t from = (uint64_t)group * GROUP, to = group_end(w, group);
    for (;;) {
        from += d->count;
        TARN_TRY(put_all(w, d, err));
        if (from >= to) break;
        TARN_TRY(view_samples(w, d, from, to, err));
    }
    clear_desk(d);
    if (w->options.progress &&
        w->options.progress(w->options.progress_context, to, w->set->count))
        return tarn__fail(err, TARN_ERR_CANCELLED, "stopped");
    return TARN_OK;
}

TARN__DEFINE_INIT(tarn_walk_options, TARN_WALK_OPTIONS_INIT)

tarn_status tarn_dataset_walk(tarn_dataset *d, const tarn_walk_options *options,
                              tarn_put put, void *context, tarn_error *err)
{
    static const tarn__turns_work work = {new_desk, free_desk, view_group, pass_group};
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "put", put);
    TARN__OPTIONS(tarn_walk_options, taken, TARN_WALK_OPTIONS_INIT, options, err);
    walk w = {.set = d, .options = taken, .put = put, .context = context};
    return tarn__turns_run(&work, &w, taken.threads,
                           (size_t)((d->count + GROUP - 1) / GROUP), err);
}
