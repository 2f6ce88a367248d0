/* The form, place and size of a field, for callers that decode or convert without knowing
 * how the dataset is stored. */
#include <stdlib.h>

#include "base/error.h"
#include "base/options.h"
#include "dataset/dataset.h"
#include "dataset/mix.h"
#include "dataset/order.h"

static tarn_form pseudo_form(uint32_t id)
{
    return id == TARN__FIELD_KEY || id == TARN__FIELD_SHARD ? TARN_FORM_TEXT
                                                            : TARN_FORM_INTEGER;
}

static tarn_status find_form(tarn_dataset *d, uint64_t sample, uint32_t field,
                             tarn_field_form *out, tarn_error *err)
{
    TARN_TRY(tarn__check_field(d, field, err));
    uint32_t id = d->ids[field];
    if (tarn__is_pseudo(id)) {
        *out = (tarn_field_form){.form = pseudo_form(id), .codec = "txt"};
        return TARN_OK;
    }
    tarn__storage *s = d->source;
    /* Otherwise the field has one form for all samples. */
    if (s->kind->resolve || tarn__is_choice(id)) {
        TARN_TRY(tarn__resolve(&d, &sample, err));
        sample = tarn__dataset_at(d, sample);
        TARN_TRY(tarn__field_of_row(d, sample, &id, err));
        TARN_TRY(tarn__leaf(&s, &sample, &id, err));
    }
    *out = (tarn_field_form){.form = TARN_FORM_NAMED,
                             .codec = tarn__names_get(&s->fields, id).data};
    return s->kind->form ? s->kind->form(s->state, id, out, err) : TARN_OK;
}

tarn_status tarn_dataset_form(tarn_dataset *d, uint64_t sample, uint32_t field,
                              tarn_field_form *out, size_t size, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "out", out);
    tarn_field_form form;
    TARN_TRY(find_form(d, sample, field, &form, err));
    TARN__FILL_OUT(out, size, form);
    return TARN_OK;
}

/* --- Places and sizes -------------------------------------------------------------- */

/* The shard needs a lookup only if the source has several files. */
tarn_status tarn__dataset_place(tarn_dataset *d, uint64_t number, tarn_place *out,
                                tarn_error *err)
{
    uint32_t none = TARN__FIELD_NONE;
    tarn__storage *s = d->source;
    tarn__item item = {.sample = tarn__dataset_at(d, number), .field = TARN__FIELD_NONE};
    *out = (tarn_place){.row = item.sample, .sample = number, .offset = TARN_NO_OFFSET};
    if (s->kind == &tarn__kind_mix) tarn__mix_place(s, item.sample, out);
    TARN_TRY(tarn__leaf(&s, &item.sample, &none, err));
    if (s->files.cache) TARN_TRY(s->kind->locate(s->state, &item, 1, err));
    out->shard = item.spot.file;
    out->path = tarn__files_path(&s->files, item.spot.file);
    return TARN_OK;
}

/* The number of bytes of a located item. */
static tarn_status size_of(const tarn__storage *s, const tarn__item *item, uint64_t *out,
                           tarn_error *err)
{
    tarn_view view;
    *out = item->spot.size;
    if (*out != TARN__NO_SIZE) return TARN_OK;
    TARN_TRY(s->kind->view(s->state, item->sample, item->field, &view, err));
    *out = view.size;
    tarn_view_release(&view);
    return TARN_OK;
}

tarn_status tarn__field_size(tarn__storage *s, uint64_t row, uint32_t field,
                             uint64_t *out, tarn_error *err)
{
    tarn__item item;
    TARN_TRY(tarn__locate_field(&s, row, field, &item, err));
    return size_of(s, &item, out, err);
}

static tarn_status pseudo_size(tarn_dataset *d, uint64_t number, uint32_t id,
                               uint64_t *out, tarn_error *err)
{
    tarn_view view;
    TARN_TRY(tarn__pseudo(d, number, id, &view, err));
    *out = view.size;
    tarn_view_release(&view);
    return TARN_OK;
}

static tarn_status place_field(tarn_dataset *d, uint64_t number, uint32_t id,
                               tarn_place *out, tarn_error *err)
{
    tarn__item item;
    tarn__storage *s = d->source;
    if (tarn__is_pseudo(id)) return pseudo_size(d, number, id, &out->size, err);
    TARN_TRY(tarn__field_of_row(d, out->row, &id, err));
    TARN_TRY(tarn__locate_field(&s, out->row, id, &item, err));
    out->shard = item.spot.file;
    out->path = tarn__files_path(&s->files, item.spot.file);
    if (item.spot.offset != TARN_NO_OFFSET)
        out->offset = item.spot.offset - item.spot.head;
    return size_of(s, &item, &out->size, err);
}

tarn_status tarn_dataset_locate(tarn_dataset *d, uint64_t sample, uint32_t field,
                                tarn_place *out, size_t size, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "out", out);
    tarn_place place;
    TARN_TRY(tarn__resolve(&d, &sample, err));
    if (field != TARN_NO_FIELD) TARN_TRY(tarn__check_field(d, field, err));
    TARN_TRY(tarn__dataset_place(d, sample, &place, err));
    if (field != TARN_NO_FIELD)
        TARN_TRY(place_field(d, sample, d->ids[field], &place, err));
    TARN__FILL_OUT(out, size, place);
    return TARN_OK;
}

/* The sizes of some rows. They are located in one call if they are in one source. */
static tarn_status rows_sizes(const tarn_dataset *d, const uint64_t *rows, size_t count,
                              uint32_t field, tarn__item *items, uint64_t *out,
                              tarn_error *err)
{
    tarn__storage *source = d->source;
    for (size_t i = 0; i < count; i++) {
        items[i].sample = rows[i];
        items[i].field = field;
        TARN_TRY(tarn__field_of_row(d, rows[i], &items[i].field, err));
        if (source->kind->resolve)
            TARN_TRY(tarn__field_size(source, rows[i], items[i].field, &out[i], err));
    }
    if (source->kind->resolve) return TARN_OK;
    TARN_TRY(source->kind->locate(source->state, items, count, err));
    for (size_t i = 0; i < count; i++)
        TARN_TRY(size_of(source, &items[i], &out[i], err));
    return TARN_OK;
}

tarn_status tarn__dataset_sizes(tarn_dataset *d, uint32_t field, uint64_t *out,
                                tarn_error *err)
{
    tarn_dataset *base = tarn_dataset_unordered(d);
    uint32_t id = d->ids[field];
    tarn__item *items = malloc(TARN__PIECE * sizeof *items);
    tarn_status status = items ? TARN_OK : tarn__fail_memory(err);
    uint64_t rows[TARN__PIECE];
    for (uint64_t i = 0, n; status == TARN_OK && i < d->count; i += n) {
        n = tarn__dataset_numbers(d, i, rows);
        for (uint64_t k = 0; status == TARN_OK && tarn__is_pseudo(id) && k < n; k++)
            status = pseudo_size(base, rows[k], id, &out[i + k], err);
        if (tarn__is_pseudo(id)) continue;
        tarn__chain_map(&base->chain, rows, (size_t)n);
        status = rows_sizes(d, rows, (size_t)n, id, items, &out[i], err);
    }
    free(items);
    return status;
}
