/* What the bytes of a field are, and where they lie: for those who decode or convert
 * without knowing kinds of files. */
#include "base/error.h"
#include "dataset/dataset.h"

static tarn_form pseudo_form(uint32_t id)
{
    return id == TARN__FIELD_KEY || id == TARN__FIELD_SHARD ? TARN_FORM_TEXT
                                                            : TARN_FORM_INTEGER;
}

tarn_status tarn_dataset_form(tarn_dataset *d, uint64_t sample, uint32_t field,
                              tarn_field_form *out, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "out", out);
    TARN_TRY(tarn__check_field(d, field, err));
    uint32_t id = d->ids[field];
    *out = (tarn_field_form){.form = TARN_FORM_NAMED, .codec = d->names[field]};
    if (tarn__is_pseudo(id)) {
        *out = (tarn_field_form){.form = pseudo_form(id), .codec = "txt"};
        return TARN_OK;
    }
    tarn__source *s = d->source;
    if (s->kind->resolve) { /* elsewhere all samples are alike */
        TARN_TRY(tarn__resolve(&d, &sample, err));
        sample = tarn__dataset_at(d, sample);
        TARN_TRY(tarn__leaf(&s, &sample, &id, err));
    }
    return s->kind->form ? s->kind->form(s->state, id, out, err) : TARN_OK;
}

tarn_status tarn_dataset_settle(tarn_dataset *d, uint64_t sample, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    uint32_t none = TARN__FIELD_NONE;
    TARN_TRY(tarn__resolve(&d, &sample, err));
    tarn__source *s = d->source;
    sample = tarn__dataset_at(d, sample);
    TARN_TRY(tarn__leaf(&s, &sample, &none, err));
    return s->kind->settle(s->state, sample, err);
}

tarn_status tarn_dataset_where(tarn_dataset *d, uint64_t sample, uint32_t field,
                               const char **out_path, uint64_t *out_offset,
                               tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "out_path", out_path);
    TARN__NEED(err, "out_offset", out_offset);
    tarn__item item;
    TARN_TRY(tarn__resolve(&d, &sample, err));
    TARN_TRY(tarn__check_field(d, field, err));
    uint32_t id = d->ids[field];
    *out_offset = TARN_NO_OFFSET;
    if (tarn__is_pseudo(id)) return tarn_dataset_shard(d, sample, NULL, out_path, err);
    tarn__source *s = d->source;
    TARN_TRY(tarn__locate_field(&s, tarn__dataset_at(d, sample), id, &item, err));
    *out_path = tarn__files_path(&s->files, item.spot.file);
    if (item.spot.offset != TARN_NO_OFFSET)
        *out_offset = item.spot.offset - item.spot.head;
    return TARN_OK;
}
