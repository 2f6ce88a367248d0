/* Walking over a fold: groups of samples are located by whichever thread is free, and
 * handed on in order. Payloads stay where they are mapped. */
#include <stdlib.h>
#include <string.h>

#include <tarn/pack.h>

#include "base/error.h"
#include "base/options.h"
#include "base/pool.h"
#include "base/turns.h"
#include "itar/fold.h"
#include "tar/reader.h"

enum {
    GROUP = 64,            /* samples located before the first of them is handed on */
    GROUP_BYTES = 8 << 20, /* read into memory, where shards are not mapped; the rest of a
                              group is read when its turn comes */
    AHEAD = 1 << 20        /* bytes of a shard that are looked at in one go */
};

/* A stretch of a shard. */
typedef struct stretch {
    tarn_view view;
    uint64_t offset;
    uint16_t shard;
} stretch;

typedef struct located {
    tarn__desk desk;
    tarn__located at;
    tarn__buf keys; /* each ended by a NUL */
    tarn_field *fields;
    stretch *stretches;
    size_t n_fields, n_stretches, field_capacity, stretch_capacity;
    size_t starts[GROUP + 1]; /* of each sample's fields */
    size_t key_at[GROUP];
    size_t count; /* samples */
    uint64_t copied;
} located;

typedef struct foldwalk {
    tarn_fold *fold;
    tarn_walk_options options;
    tarn_put put;
    void *context;
    tarn__turns turns;
} foldwalk;

static located *new_located(void)
{
    located *l = calloc(1, sizeof *l);
    if (!l) return NULL;
    tarn__located_init(&l->at);
    tarn__buf_init(&l->keys, SIZE_MAX / 2);
    return l;
}

static void release(located *l)
{
    while (l->n_stretches)
        tarn_view_release(&l->stretches[--l->n_stretches].view);
    l->keys.size = l->count = l->n_fields = 0;
    l->copied = 0;
}

static void free_located(located *l)
{
    release(l);
    tarn__located_reset(&l->at);
    tarn__buf_reset(&l->keys);
    free(l->fields);
    free(l->stretches);
    free(l);
}

/* --- Locating ---------------------------------------------------------------------- */

/* How much is looked at from a row on: what follows comes next if rows are walked in file
 * order, and costs nothing if the shard is mapped. */
static size_t reach(const tarn_fold *f, const located *l)
{
    const tarn_row *row = &l->at.row;
    size_t need = TARN__BLOCK + (size_t)row->size;
    bool mapped = l->n_stretches && !l->stretches[l->n_stretches - 1].view.owned;
    uint64_t left = tarn__filecache_size(f->files, row->shard) - row->offset;
    if ((f->rows && !mapped) || need >= AHEAD) return need;
    return left < AHEAD ? (size_t)left : AHEAD;
}

/* Header and payload of the row in l->at. */
static tarn_status find_bytes(tarn_fold *f, located *l, const unsigned char **out,
                              tarn_error *err)
{
    const tarn_row *row = &l->at.row;
    stretch *s = l->n_stretches ? &l->stretches[l->n_stretches - 1] : NULL;
    if (!s || s->shard != row->shard || row->offset < s->offset ||
        row->offset - s->offset + TARN__BLOCK + row->size > s->view.size) {
        TARN_TRY(tarn__grow(&l->stretches, sizeof *l->stretches, l->n_stretches,
                            &l->stretch_capacity, err));
        s = &l->stretches[l->n_stretches];
        *s = (stretch){.offset = row->offset, .shard = row->shard};
        TARN_TRY(tarn__filecache_view(f->files, row->shard, row->offset, reach(f, l),
                                      &s->view, err));
        l->n_stretches++;
        if (s->view.owned) l->copied += s->view.size;
    }
    *out = s->view.data + (row->offset - s->offset);
    return TARN_OK;
}

static tarn_status add_row(tarn_fold *f, located *l, uint64_t row, tarn_error *err)
{
    const unsigned char *bytes;
    TARN_TRY(
        tarn__grow(&l->fields, sizeof *l->fields, l->n_fields, &l->field_capacity, err));
    TARN_TRY(tarn__locate_row(&f->place, row, &l->at.row, err));
    TARN_TRY(find_bytes(f, l, &bytes, err));
    TARN_TRY(tarn__fold_check(f, row, &l->at, bytes, bytes + TARN__BLOCK, err));
    l->fields[l->n_fields++] =
        (tarn_field){.name = tarn_index_field(f->index, l->at.row.field),
                     .data = bytes + TARN__BLOCK,
                     .size = (size_t)l->at.row.size};
    return TARN_OK;
}

static tarn_status add_sample(tarn_fold *f, located *l, uint64_t number, tarn_error *err)
{
    tarn_sample sample;
    TARN_TRY(tarn_fold_sample(f, number, &sample, err));
    l->starts[l->count] = l->n_fields;
    l->key_at[l->count] = l->keys.size;
    for (uint32_t k = 0; k < sample.count; k++) {
        TARN_TRY(add_row(f, l, tarn_sample_row(&sample, k), err));
        if (k) continue;
        TARN_TRY(tarn__buf_add(&l->keys, l->at.key.stem, l->at.key.stem_len, err));
        TARN_TRY(tarn__buf_add(&l->keys, "", 1, err));
    }
    l->starts[++l->count] = l->n_fields;
    return TARN_OK;
}

/* As many samples as may be in memory, and at least one. */
static tarn_status load(tarn_fold *f, located *l, uint64_t from, uint64_t to,
                        tarn_error *err)
{
    release(l);
    for (uint64_t i = from; i < to && l->copied < GROUP_BYTES; i++)
        TARN_TRY(add_sample(f, l, i, err));
    return TARN_OK;
}

/* --- Handing on -------------------------------------------------------------------- */

static tarn_status put_located(const foldwalk *w, const located *l, tarn_error *err)
{
    for (size_t i = 0; i < l->count; i++)
        TARN_TRY(w->put(w->context, 0, l->keys.data + l->key_at[i],
                        l->fields + l->starts[i], l->starts[i + 1] - l->starts[i], err));
    return TARN_OK;
}

static tarn_status hand_on(const foldwalk *w, located *l, uint64_t from, uint64_t to,
                           tarn_error *err)
{
    for (;;) {
        from += l->count;
        TARN_TRY(put_located(w, l, err));
        if (from >= to) break;
        TARN_TRY(load(w->fold, l, from, to, err));
    }
    if (w->options.progress &&
        w->options.progress(w->options.progress_context, to, w->fold->n_samples))
        return tarn__fail(err, TARN_ERR_CANCELLED, "stopped");
    return TARN_OK;
}

/* Groups before one that fails are handed on all the same. */
static tarn_status walk_group(void *context, size_t number)
{
    foldwalk *w = context;
    uint64_t from = (uint64_t)number * GROUP, to = from + GROUP;
    tarn_error why;
    if (to > w->fold->n_samples) to = w->fold->n_samples;
    located *l = (located *)tarn__turns_desk(&w->turns);
    if (!l) l = new_located();
    tarn_status status = l ? load(w->fold, l, from, to, &why) : tarn__fail_memory(&why);
    if (!tarn__turns_wait(&w->turns, number)) {
        if (l) free_located(l);
        return TARN_ERR_CANCELLED;
    }
    if (status == TARN_OK) status = hand_on(w, l, from, to, &why);
    if (l) release(l);
    tarn__turns_pass(&w->turns, l ? &l->desk : NULL, status, &why);
    return status;
}

TARN__DEFINE_INIT(tarn_walk_options, TARN_WALK_OPTIONS_INIT)

tarn_status tarn_fold_walk(tarn_fold *f, const tarn_walk_options *options, tarn_put put,
                           void *context, tarn_error *err)
{
    TARN__NEED(err, "fold", f);
    TARN__NEED(err, "put", put);
    TARN__OPTIONS(tarn_walk_options, taken, TARN_WALK_OPTIONS_INIT, options, err);
    TARN_TRY(tarn__fold_group(f, err));
    foldwalk w = {.fold = f, .options = taken, .put = put, .context = context};
    tarn__turns_init(&w.turns);
    size_t groups = (size_t)((f->n_samples + GROUP - 1) / GROUP), failed;
    tarn_status status = tarn__parallel(tarn__thread_count(taken.threads), groups,
                                        walk_group, &w, &failed);
    if (status != TARN_OK) {
        status = w.turns.status;
        if (err) *err = w.turns.error;
    }
    for (located *l; (l = (located *)tarn__turns_desk(&w.turns));)
        free_located(l);
    tarn__turns_reset(&w.turns);
    return status;
}
