/* One number for each sample, as orders ask for them: shards, sizes, classes. */
#include <string.h>

#include <tarn/codec.h>

#include "base/error.h"
#include "base/number.h"
#include "dataset/dataset.h"
#include "dataset/row_value.h"

enum { AT_ONCE = 1024 };

tarn_status tarn_dataset_shard_counts(tarn_dataset *d, uint64_t *out, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "out", out);
    memset(out, 0, d->source->shards * sizeof *out);
    for (uint64_t i = 0; i < d->count; i++) {
        uint32_t shard;
        TARN_TRY(tarn_dataset_shard(d, i, &shard, NULL, err));
        out[shard]++;
    }
    return TARN_OK;
}

tarn_status tarn_dataset_sizes(tarn_dataset *d, uint32_t field, uint64_t *out,
                               tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "out", out);
    for (uint64_t i = 0; i < d->count; i++)
        TARN_TRY(tarn_dataset_size(d, i, field, &out[i], err));
    return TARN_OK;
}

static bool parse_integer(const tarn_field_form *form, const unsigned char *data,
                          size_t size, int64_t *out)
{
    tarn_value value;
    if (form->form == TARN_FORM_ARRAY)
        return size == form->dtype.size && tarn__element_integer(form->dtype, data, out);
    tarn_status status = tarn_decode("cls", data, size, NULL, &value, NULL);
    bool good = status == TARN_OK && value.kind == TARN_VALUE_INTEGER;
    if (good) *out = value.integer;
    tarn_value_release(&value);
    return good;
}

/* Digits with a point, as text or JSON, or an element of any type of numbers. */
static bool parse_number(const tarn_field_form *form, const unsigned char *data,
                         size_t size, double *out)
{
    char text[64];
    if (form->form == TARN_FORM_ARRAY)
        return size == form->dtype.size && tarn__element_number(form->dtype, data, out);
    if (size >= sizeof text) return false;
    memcpy(text, data, size);
    text[size] = '\0';
    const char *end = tarn__double_read(text, out);
    return end > text && end + strspn(end, " \t\r\n") == text + size;
}

static tarn_status fail_number(tarn_dataset *d, uint64_t sample, uint32_t field,
                               const char *what, tarn_error *err)
{
    tarn_text key = {0};
    char shown[200];
    if (tarn_dataset_key(d, sample, &key, NULL) == TARN_OK)
        tarn_printable(shown, sizeof shown, key.data, key.size);
    else
        tarn_printable(shown, sizeof shown, "?", 1);
    tarn_text_reset(&key);
    return tarn__fail_at(err, TARN_ERR_FORMAT, d->source->path, TARN_NO_OFFSET,
                         "field %s of sample %s is no %s", d->names[field], shown, what);
}

/* Samples first to first + count - 1, which is at most AT_ONCE, into one of the two. */
static tarn_status read_numbers(tarn_dataset *d, uint32_t field, uint64_t first,
                                size_t count, tarn_dataset_batch *batch,
                                int64_t *integers, double *numbers, tarn_error *err)
{
    uint64_t samples[AT_ONCE];
    tarn_field_form form;
    bool mix = d->source->kind == &tarn__kind_mix;
    for (size_t i = 0; i < count; i++)
        samples[i] = first + i;
    TARN_TRY(tarn_dataset_read_batch(d, samples, count, &field, 1, batch, err));
    for (size_t i = 0; i < count; i++) {
        const unsigned char *data = batch->data + batch->offsets[i];
        size_t size = (size_t)(batch->offsets[i + 1] - batch->offsets[i]);
        if (i == 0 || mix) TARN_TRY(tarn_dataset_form(d, first + i, field, &form, err));
        if (integers && !parse_integer(&form, data, size, &integers[first + i]))
            return fail_number(d, first + i, field,
                               form.form == TARN_FORM_ARRAY ? "integer of at most 64 bits"
                                                            : "integer in decimal digits",
                               err);
        if (numbers && !parse_number(&form, data, size, &numbers[first + i]))
            return fail_number(d, first + i, field, "number", err);
    }
    return TARN_OK;
}

static tarn_status read_all(tarn_dataset *d, uint32_t field, int64_t *integers,
                            double *numbers, tarn_error *err)
{
    tarn_dataset_batch batch = TARN_DATASET_BATCH_INIT;
    tarn_status status = tarn__check_field(d, field, err);
    for (uint64_t i = 0; status == TARN_OK && i < d->count; i += AT_ONCE) {
        size_t n = d->count - i < AT_ONCE ? (size_t)(d->count - i) : AT_ONCE;
        status = read_numbers(d, field, i, n, &batch, integers, numbers, err);
    }
    tarn_dataset_batch_reset(&batch);
    return status;
}

tarn_status tarn_dataset_integers(tarn_dataset *d, uint32_t field, int64_t *out,
                                  tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "out", out);
    return read_all(d, field, out, NULL, err);
}

tarn_status tarn_dataset_numbers(tarn_dataset *d, uint32_t field, double *out,
                                 tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "out", out);
    return read_all(d, field, NULL, out, err);
}
