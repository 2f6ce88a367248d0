/* What the bytes of a field are, and where they lie: for those who decode or convert
 * without knowing kinds of files. */
#include "dataset/dataset.h"

tarn_status tarn_dataset_form_get(const tarn_dataset *d, uint64_t sample, uint32_t field,
                                  tarn_dataset_form *out, tarn_error *err)
{
    bool mix = d->source->kind == &tarn__kind_mix;
    TARN_TRY(tarn__check_field(d, field, err));
    if (mix) TARN_TRY(tarn__check_sample(d, sample, err));
    uint32_t id = d->ids[field];
    *out = (tarn_dataset_form){.kind = TARN_FORM_FIELD, .codec = d->names[field]};
    if (tarn__is_pseudo(id))
        *out = (tarn_dataset_form){.kind = TARN_FORM_TEXT, .codec = "txt"};
    else if (d->source->kind->form)
        return d->source->kind->form(d->source->state,
                                     mix ? tarn__dataset_at(d, sample) : 0, id, out, err);
    return TARN_OK;
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
