/* One number for each sample, as orders need them: shards, sizes, classes. */
#include <string.h>

#include <tarn/codec.h>

#include "base/error.h"
#include "base/number.h"
#include "dataset/dataset.h"
#include "dataset/row_value.h"

tarn_status tarn_dataset_shard_counts(tarn_dataset *d, uint64_t *out, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "out", out);
    uint64_t at[TARN__PIECE];
    memset(out, 0, d->source->shards * sizeof *out);
    for (uint64_t i = 0, n; i < d->count; i += n) {
        n = tarn__dataset_numbers(d, i, at);
        for (uint64_t k = 0; k < n; k++) {
            tarn_place place;
            TARN_TRY(tarn__dataset_place(tarn_dataset_unordered(d), at[k], &place, err));
            out[place.shard]++;
        }
    }
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

/* A decimal number as text or JSON, or an element of any numeric type. */
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
                         "field %s of sample %s is not %s", d->names[field], shown, what);
}

/* Reads samples first to first + count - 1; count is at most TARN__PIECE. */
static tarn_status read_numbers(tarn_dataset *d, uint32_t field, bool integers,
                                uint64_t first, size_t count, tarn_dataset_batch *batch,
                                void *out, tarn_error *err)
{
    uint64_t samples[TARN__PIECE];
    tarn_field_form form;
    bool mix = d->source->kind == &tarn__kind_mix;
    for (size_t i = 0; i < count; i++)
        samples[i] = first + i;
    TARN_TRY(tarn_dataset_read(d, samples, count, &field, 1, batch, err));
    for (size_t i = 0; i < count; i++) {
        const unsigned char *data = batch->data + batch->offsets[i];
        size_t size = (size_t)(batch->offsets[i + 1] - batch->offsets[i]);
        if (i == 0 || mix)
            TARN_TRY(tarn_dataset_form(d, first + i, field, &form, sizeof form, err));
        if (integers ? parse_integer(&form, data, size, (int64_t *)out + first + i)
                     : parse_number(&form, data, size, (double *)out + first + i))
            continue;
        return fail_number(d, first + i, field,
                           !integers ? "a number"
                           : form.form == TARN_FORM_ARRAY
                               ? "an integer of at most 64 bits"
                               : "an integer in decimal digits",
                           err);
    }
    return TARN_OK;
}

tarn_status tarn_dataset_numbers(tarn_dataset *d, uint32_t field, tarn_numbers what,
                                 void *out, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "out", out);
    if ((unsigned)what > TARN_NUMBERS_REAL)
        return tarn__fail(err, TARN_ERR_USAGE, "unknown kind of numbers: %d", (int)what);
    TARN_TRY(tarn__check_field(d, field, err));
    if (what == TARN_NUMBERS_SIZE) return tarn__dataset_sizes(d, field, out, err);
    tarn_dataset_batch batch = TARN_DATASET_BATCH_INIT;
    tarn_status status = TARN_OK;
    for (uint64_t i = 0; status == TARN_OK && i < d->count; i += TARN__PIECE) {
        size_t n = d->count - i < TARN__PIECE ? (size_t)(d->count - i) : TARN__PIECE;
        status =
            read_numbers(d, field, what == TARN_NUMBERS_INTEGER, i, n, &batch, out, err);
    }
    tarn_dataset_batch_reset(&batch);
    return status;
}
