/* Array files as a source: row i of each array that has as many rows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/gnz.h>

#include "base/error.h"
#include "dataset/dataset.h"
#include "itar/fold.h"

typedef struct field {
    size_t number; /* of the array */
    uint64_t row_bytes;
    uint64_t offset;
} field;

typedef struct state {
    tarn_gnz *gnz;
    char *path;
    field *fields;
    uint64_t samples;
    bool cold;
} state;

static void close_gnz(void *p)
{
    state *s = p;
    tarn_gnz_close(s->gnz);
    free(s->fields);
    free(s->path);
    free(s);
}

/* How many samples there are: the rows of the arrays that are asked for, or of the
 * largest group. */
static tarn_status count_rows(state *s, const char *const *fields, tarn_error *err)
{
    size_t count = tarn_gnz_count(s->gnz), listed = 0, real = 0, n;
    while (fields && fields[listed])
        listed++;
    size_t *numbers = malloc((count + listed + 1) * sizeof *numbers);
    const char **names = malloc((listed + 1) * sizeof *names);
    tarn_status status = numbers && names ? TARN_OK : tarn__fail_memory(err);
    for (size_t i = 0; status == TARN_OK && i < listed; i++)
        if (tarn_gnz_find(s->gnz, fields[i], &n, NULL) == TARN_OK)
            names[real++] = fields[i];
    if (status == TARN_OK)
        status = tarn_gnz_samples(s->gnz, real ? names : NULL, real, numbers, &n,
                                  &s->samples, err);
    free(numbers);
    free(names);
    return status;
}

static tarn_status list_arrays(state *s, tarn__source *source, tarn_error *err)
{
    tarn_gnz_info info;
    size_t count = tarn_gnz_count(s->gnz);
    s->fields = calloc(count + 1, sizeof *s->fields);
    if (!s->fields) return tarn__fail_memory(err);
    for (size_t i = 0; i < count; i++) {
        uint32_t id;
        TARN_TRY(tarn_gnz_info_get(s->gnz, i, &info, err));
        if (info.ndim == 0 || info.shape[0] != s->samples) continue;
        TARN_TRY(
            tarn__names_add(&source->fields, info.name, strlen(info.name), &id, err));
        s->fields[id] = (field){i, s->samples ? info.bytes / s->samples : 0, info.offset};
    }
    source->n_plain = source->fields.count;
    return TARN_OK;
}

tarn_status tarn__open_gnz(tarn__source *source, const tarn_dataset_options *o,
                           tarn_error *err)
{
    tarn_gnz_options go = TARN_GNZ_OPTIONS_INIT;
    go.io = o->io;
    state *s = source->state = calloc(1, sizeof *s);
    if (!s) return tarn__fail_memory(err);
    s->cold = o->cold;
    if (!(s->path = strdup(source->path))) return tarn__fail_memory(err);
    TARN_TRY(tarn_gnz_open(source->path, &go, &s->gnz, err));
    TARN_TRY(count_rows(s, o->fields, err));
    TARN_TRY(list_arrays(s, source, err));
    source->samples = s->samples;
    source->shards = 1;
    return TARN_OK;
}

static tarn_status view_gnz(void *p, uint64_t sample, uint32_t id, tarn_view *out,
                            tarn_error *err)
{
    state *s = p;
    return tarn_gnz_sample(s->gnz, s->fields[id].number, sample, out, err);
}

static tarn_status size_gnz(void *p, uint64_t sample, uint32_t id, uint64_t *out,
                            tarn_error *err)
{
    state *s = p;
    *out = s->fields[id].row_bytes;
    return TARN_OK;
}

static tarn_status key_gnz(void *p, uint64_t sample, tarn_text *out, tarn_error *err)
{
    char text[24];
    int len = snprintf(text, sizeof text, "%llu", (unsigned long long)sample);
    return tarn__text_set(out, text, (size_t)len, err);
}

static tarn_status find_gnz(void *p, const char *key, uint64_t from, uint64_t *out,
                            tarn_error *err)
{
    const state *s = p;
    char shown[200];
    uint64_t row;
    if (tarn__row_number(key, &row) && row < s->samples && row >= from) {
        *out = row;
        return TARN_OK;
    }
    return tarn__fail_at(err, TARN_ERR_NOT_FOUND, s->path, TARN_NO_OFFSET,
                         "no row %s, of %llu",
                         tarn_printable(shown, sizeof shown, key, strlen(key)),
                         (unsigned long long)s->samples);
}

static tarn_status shard_gnz(void *p, uint64_t sample, uint32_t *out_number,
                             const char **out_path, tarn_error *err)
{
    const state *s = p;
    *out_number = 0;
    *out_path = s->path;
    return TARN_OK;
}

/* Rows of an array whose first index runs fastest are gathered when they are read. */
static tarn_status form_gnz(const void *p, uint64_t sample, uint32_t id,
                            tarn_field_form *out, tarn_error *err)
{
    const state *s = p;
    tarn_gnz_info info;
    TARN_TRY(tarn_gnz_info_get(s->gnz, s->fields[id].number, &info, err));
    out->form = TARN_FORM_ARRAY;
    out->dtype = info.dtype;
    out->ndim = info.ndim - 1;
    memcpy(out->shape, info.shape + 1, out->ndim * sizeof *out->shape);
    return TARN_OK;
}

static tarn_status where_gnz(void *p, uint64_t sample, uint32_t id, const char **out_path,
                             uint64_t *out_offset, tarn_error *err)
{
    const state *s = p;
    *out_path = s->path;
    *out_offset = s->fields[id].offset + sample * s->fields[id].row_bytes;
    return TARN_OK;
}

static tarn_status place_gnz(void *p, tarn__item *items, size_t count, tarn_error *err)
{
    const state *s = p;
    for (size_t i = 0; i < count; i++) {
        const field *f = &s->fields[items[i].field];
        items[i].size = f->row_bytes;
        items[i].place = f->offset + items[i].sample * f->row_bytes;
    }
    return TARN_OK;
}

static tarn_status copy_gnz(void *p, const tarn__item *items, size_t count,
                            unsigned char *data, const uint64_t *offsets, tarn_error *err)
{
    state *s = p;
    for (size_t i = 0; s->cold && i < count; i++)
        tarn_gnz_advise(s->gnz, s->fields[items[i].field].number, items[i].sample, 1,
                        TARN_GNZ_WILL_NEED);
    for (size_t i = 0; i < count; i++) {
        tarn_view view;
        TARN_TRY(view_gnz(s, items[i].sample, items[i].field, &view, err));
        if (view.size) memcpy(data + offsets[items[i].number], view.data, view.size);
        tarn_view_release(&view);
    }
    return TARN_OK;
}

const tarn__source_kind tarn__kind_gnz = {
    .kind = TARN_DATASET_GNZ,
    .close = close_gnz,
    .view = view_gnz,
    .size = size_gnz,
    .key = key_gnz,
    .find = find_gnz,
    .shard = shard_gnz,
    .form = form_gnz,
    .where = where_gnz,
    .place = place_gnz,
    .copy = copy_gnz,
};
