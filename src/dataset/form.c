/* What the bytes of a field are, and where they lie: for those who decode or convert
 * without knowing kinds of files. */
#include "dataset/dataset.h"

static tarn_form pseudo_form(uint32_t id)
{
    return id == TARN__FIELD_KEY || id == TARN__FIELD_SHARD ? TARN_FORM_TEXT
                                                            : TARN_FORM_INTEGER;
}

tarn_status tarn_dataset_form(const tarn_dataset *d, uint64_t sample, uint32_t field,
                              tarn_field_form *out, tarn_error *err)
{
    bool mix = d->source->kind == &tarn__kind_mix;
    TARN_TRY(tarn__check_field(d, field, err));
    if (mix) TARN_TRY(tarn__check_sample(d, sample, err));
    uint32_t id = d->ids[field];
    *out = (tarn_field_form){.form = TARN_FORM_NAMED, .codec = d->names[field]};
    if (tarn__is_pseudo(id))
        *out = (tarn_field_form){.form = pseudo_form(id), .codec = "txt"};
    else if (d->source->kind->form)
        return d->source->kind->form(d->source->state,
                                     mix ? tarn__dataset_at(d, sample) : 0, id, out, err);
    return TARN_OK;
}

tarn_status tarn_dataset_settle(tarn_dataset *d, uint64_t sample, tarn_error *err)
{
    TARN_TRY(tarn__check_sample(d, sample, err));
    return d->source->kind->settle(d->source->state, tarn__dataset_at(d, sample), err);
}

tarn_status tarn_dataset_where(tarn_dataset *d, uint64_t sample, uint32_t field,
                               const char **out_path, uint64_t *out_offset,
                               tarn_error *err)
{
    TARN_TRY(tarn__check_sample(d, sample, err));
    TARN_TRY(tarn__check_field(d, field, err));
    uint32_t id = d->ids[field];
    *out_offset = TARN_NO_OFFSET;
    if (tarn__is_pseudo(id)) return tarn_dataset_shard(d, sample, NULL, out_path, err);
    return d->source->kind->where(d->source->state, tarn__dataset_at(d, sample), id,
                                  out_path, out_offset, err);
}
