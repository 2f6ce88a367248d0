/* The stored members of samples: which there are, their places, and their bytes. In a
 * fold the members are the rows of a sample, so a field may occur twice. In other kinds
 * they are the fields. */
#include <stdlib.h>
#include <string.h>

#include <tarn/members.h>

#include "base/error.h"
#include "dataset/dataset.h"
#include "itar/fold_read.h"

/* A list of at most room members. count is the number of all members, also of those that
 * did not fit. */
typedef struct list {
    tarn_stored *out;
    size_t room, count;
} list;

static void list_add(list *l, tarn_stored one)
{
    if (l->count < l->room) l->out[l->count] = one;
    l->count++;
}

/* Whether a field was listed before, with the same name. */
static bool is_repeated(const tarn_dataset *d, uint32_t field)
{
    uint32_t first = d->first[field];
    return first != field &&
           (!d->fieldset->renamed || strcmp(d->names[first], d->names[field]) == 0);
}

/* The next field of the dataset, from number from on, that is the field id of the file in
 * a sample; TARN__FIELD_NONE if there is none. */
static tarn_status next_field(const tarn_dataset *d, uint64_t sample, uint32_t id,
                              uint32_t from, uint32_t *out, tarn_error *err)
{
    bool plain = !d->fieldset->renamed;
    *out = TARN__FIELD_NONE;
    if (plain && from) return TARN_OK;
    if (plain && id < d->n_fields && d->ids[id] == id) from = d->first[id];
    for (uint32_t i = from; i < d->n_fields && *out == TARN__FIELD_NONE; i++) {
        uint32_t mine = d->ids[i];
        if (is_repeated(d, i)) continue;
        TARN_TRY(tarn__field_of_row(d, sample, &mine, err));
        if (mine == id) *out = i;
    }
    return TARN_OK;
}

/* Adds a row of a fold, once for each field of the dataset that it is. */
static tarn_status add_row(const tarn_dataset *d, uint64_t sample, uint64_t number,
                           const tarn_row *row, list *l, tarn_error *err)
{
    uint32_t field;
    for (uint32_t from = 0;; from = field + 1) {
        TARN_TRY(next_field(d, sample, row->field, from, &field, err));
        if (field == TARN__FIELD_NONE) return TARN_OK;
        list_add(l, (tarn_stored){.path = tarn__files_path(&d->source->files, row->shard),
                                  .offset = row->offset,
                                  .bytes = row->size,
                                  .row = number,
                                  .field = field,
                                  .shard = row->shard});
    }
}

static tarn_status add_rows(tarn_dataset *d, tarn__fold *fold, uint64_t sample, list *l,
                            tarn_error *err)
{
    uint64_t count = tarn__fold_n_rows(fold, sample), number;
    for (uint64_t k = 0; k < count; k++) {
        tarn_row row;
        TARN_TRY(tarn__fold_row_at(fold, sample, k, &number, &row, err));
        TARN_TRY(add_row(d, sample, number, &row, l, err));
    }
    return TARN_OK;
}

/* Adds a field that is not stored but made on request. */
static tarn_status add_pseudo(tarn_dataset *d, uint64_t number, uint32_t field, list *l,
                              tarn_error *err)
{
    tarn_stored one = {.offset = TARN_NO_OFFSET, .row = TARN_NO_ROW, .field = field};
    tarn_view view;
    tarn_place place;
    TARN_TRY(tarn__dataset_place(d, number, &place, err));
    TARN_TRY(tarn__pseudo(d, number, d->ids[field], &view, err));
    one.shard = place.shard;
    one.path = place.path;
    one.bytes = view.size;
    tarn_view_release(&view);
    list_add(l, one);
    return TARN_OK;
}

static tarn_status add_field(tarn_dataset *d, uint64_t number, uint32_t field, list *l,
                             tarn_error *err)
{
    tarn__storage *s = d->source;
    tarn__item item;
    tarn_error why;
    uint64_t row = tarn__dataset_at(d, number);
    uint32_t id = d->ids[field];
    TARN_TRY(tarn__field_of_row(d, row, &id, err));
    tarn_status status = tarn__locate_field(&s, row, id, &item, &why);
    if (status == TARN_ERR_NO_FIELD) return TARN_OK;
    if (status != TARN_OK) {
        if (err) *err = why;
        return status;
    }
    tarn_stored one = {.path = tarn__files_path(&s->files, item.spot.file),
                       .offset = item.spot.offset,
                       .row = TARN_NO_ROW,
                       .field = field,
                       .shard = item.spot.file};
    if (one.offset != TARN_NO_OFFSET) one.offset -= item.spot.head;
    TARN_TRY(tarn__field_size(d->source, row, id, &one.bytes, err));
    list_add(l, one);
    return TARN_OK;
}

static int by_place(const void *left, const void *right)
{
    const tarn_stored *a = left, *b = right;
    if (a->shard != b->shard) return a->shard < b->shard ? -1 : 1;
    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    return a->field < b->field ? -1 : a->field > b->field;
}

static tarn_status list_members(tarn_dataset *d, uint64_t number, list *l,
                                tarn_error *err)
{
    tarn__fold *fold = tarn__storage_fold(d->source);
    if (fold) TARN_TRY(add_rows(d, fold, tarn__dataset_at(d, number), l, err));
    for (uint32_t i = 0; i < d->n_fields; i++) {
        if (is_repeated(d, i)) continue;
        if (tarn__is_pseudo(d->ids[i]))
            TARN_TRY(add_pseudo(d, number, i, l, err));
        else if (!fold)
            TARN_TRY(add_field(d, number, i, l, err));
    }
    if (!fold && l->count > 1 && l->count <= l->room)
        qsort(l->out, l->count, sizeof *l->out, by_place);
    return TARN_OK;
}

tarn_status tarn_dataset_members(tarn_dataset *d, uint64_t sample, tarn_stored *out,
                                 size_t room, size_t *out_count, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "out", out || !room);
    TARN__NEED(err, "out_count", out_count);
    list l = {out, room, 0};
    TARN_TRY(tarn__resolve(&d, &sample, err));
    TARN_TRY(list_members(d, sample, &l, err));
    *out_count = l.count;
    return TARN_OK;
}

tarn_status tarn__members_get(tarn_dataset *d, uint64_t sample, tarn__members *out,
                              tarn_error *err)
{
    for (;;) {
        TARN_TRY(
            tarn_dataset_members(d, sample, out->items, out->capacity, &out->count, err));
        if (out->count <= out->capacity) return TARN_OK;
        free(out->items);
        out->capacity = 2 * out->count;
        out->items = malloc(out->capacity * sizeof *out->items);
        if (out->items) continue;
        out->capacity = 0;
        return tarn__fail_memory(err);
    }
}

tarn_status tarn__member_view(tarn_dataset *d, uint64_t sample, const tarn_stored *member,
                              tarn_view *out, tarn_error *err)
{
    if (member->row == TARN_NO_ROW)
        return tarn_dataset_get(d, sample, member->field, out, err);
    return tarn__fold_view(tarn__storage_fold(d->source), member->row, true, out, err);
}
