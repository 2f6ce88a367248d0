/* Array files (GNZ) as a source. Sample i is row i of every array with the same number of
 * rows. Keys are row numbers, or the values of an array. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/gnz.h>

#include "base/error.h"
#include "base/text.h"
#include "dataset/dataset.h"
#include "dataset/digest.h"
#include "dataset/key_index.h"
#include "dataset/row_value.h"
#include "gnz/reader.h"

typedef struct field {
    size_t number; /* of the array */
    uint64_t row_bytes;
    uint64_t offset;
    bool fortran;
    tarn_dtype dtype;
    unsigned ndim; /* of a row */
    const uint64_t *shape;
} field;

typedef struct state {
    tarn_gnz *gnz;
    const char *path; /* owned by the source, like files */
    field *fields;
    uint64_t samples;
    bool named;  /* keys are the values of an array */
    size_t keys; /* its number */
    uint64_t key_offset;
    tarn_dtype key_type;
    tarn__key_index index;
    tarn__files *files;
} state;

/* The array that holds keys by default. */
#define KEYS "_key"

/* Rows of 0 bytes take no space, so a small file could claim any number of them. */
enum { MAX_EMPTY = 1 << 20 };

static void close_gnz(void *p)
{
    state *s = p;
    tarn__key_index_reset(&s->index);
    tarn_gnz_close(s->gnz);
    free(s->fields);
    free(s);
}

/* The number of samples: the rows of the selected arrays, which must agree, or of the
 * largest group of arrays. */
static tarn_status count_rows(state *s, const char *const *fields, tarn_error *err)
{
    const tarn__gnz_entry *all = s->gnz->header.entries, *first = NULL;
    size_t n;
    for (size_t i = 0; fields && fields[i]; i++) {
        if (tarn_gnz_find(s->gnz, fields[i], &n, NULL) != TARN_OK) continue;
        if (!first) first = &all[n];
        if (all[n].ndim == 0)
            return tarn__fail_at(err, TARN_ERR_USAGE, s->path, TARN_NO_OFFSET,
                                 "array \"%s\" has no rows (it has 0 dimensions)",
                                 all[n].name);
        if (all[n].rows != first->rows)
            return tarn__fail_at(
                err, TARN_ERR_USAGE, s->path, TARN_NO_OFFSET,
                "arrays \"%s\" and \"%s\" have different numbers of rows (%llu and %llu)",
                first->name, all[n].name, (unsigned long long)first->rows,
                (unsigned long long)all[n].rows);
    }
    s->samples = first ? first->rows : s->gnz->samples;
    if (first || s->gnz->fields) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_NO_FIELD, s->path, TARN_NO_OFFSET,
                         "no array has rows");
}

static tarn_status list_arrays(state *s, tarn__storage *source, tarn_error *err)
{
    tarn_gnz_array info;
    size_t count = s->gnz->header.count;
    bool bytes = false;
    s->fields = calloc(count + 1, sizeof *s->fields);
    if (!s->fields) return tarn__fail_memory(err);
    for (size_t i = 0; i < count; i++) {
        uint32_t id;
        TARN_TRY(tarn_gnz_array_get(s->gnz, i, &info, sizeof info, err));
        if (info.ndim == 0 || info.shape[0] != s->samples) continue;
        bytes |= info.bytes > 0;
        if (s->named && s->keys == i && strcmp(info.name, KEYS) == 0) continue;
        TARN_TRY(
            tarn__names_add(&source->fields, info.name, strlen(info.name), &id, err));
        s->fields[id] = (field){i,
                                s->samples ? info.bytes / s->samples : 0,
                                info.offset,
                                info.fortran && info.ndim > 1,
                                info.dtype,
                                info.ndim - 1,
                                info.shape + 1};
    }
    source->n_plain = source->fields.count;
    if (bytes || s->samples <= MAX_EMPTY) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_LIMIT, s->path, TARN_NO_OFFSET,
                         "the file claims %llu samples of 0 bytes (limit %llu)",
                         (unsigned long long)s->samples, (unsigned long long)MAX_EMPTY);
}

static tarn_status settle_gnz(void *p, uint64_t sample, tarn_error *err)
{
    const state *s = p;
    (void)sample;
    return s->gnz->map ? tarn__gnz_check_length(s->gnz, err) : TARN_OK;
}

static tarn_status key_gnz(void *p, uint64_t sample, tarn_text *out, tarn_error *err);

/* Takes keys from the named array, or from KEYS if the file has it. */
static tarn_status set_keys(state *s, const char *name, tarn_error *err)
{
    tarn_gnz_array info;
    if (!name && tarn_gnz_find(s->gnz, KEYS, &s->keys, NULL) != TARN_OK) return TARN_OK;
    if (name) TARN_TRY(tarn_gnz_find(s->gnz, name, &s->keys, err));
    TARN_TRY(tarn_gnz_array_get(s->gnz, s->keys, &info, sizeof info, err));
    /* Texts of 0 bytes take no space, so a small file could claim any number of them. */
    bool text = (info.dtype.kind == 'U' || info.dtype.kind == 'S') &&
                (info.dtype.size || s->samples <= 1);
    bool number = info.dtype.kind == 'i' || info.dtype.kind == 'u';
    s->named =
        info.ndim == 1 && info.shape[0] == s->samples && (text || (name && number));
    s->key_type = info.dtype;
    s->key_offset = info.offset;
    if (s->named) tarn__key_index_init(&s->index, s->samples, key_gnz, s);
    if (s->named || !name) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_USAGE, s->path, TARN_NO_OFFSET,
                         "array %s cannot be used as keys (expected one text or integer "
                         "for each of %llu rows)",
                         name, (unsigned long long)s->samples);
}

tarn_status tarn__open_gnz(tarn__storage *source, const tarn_dataset_options *o,
                           tarn_error *err)
{
    state *s = source->state = calloc(1, sizeof *s);
    if (!s) return tarn__fail_memory(err);
    TARN_TRY(tarn__gnz_open(source->path, o->io, source->cache, &s->gnz, err));
    s->path = s->gnz->file.path;
    s->files = &source->files;
    tarn__files_init_one(s->files, &s->gnz->file, s->gnz->map, o->cold, o->io);
    source->remote = tarn__files_are_away(&source->files);
    TARN_TRY(count_rows(s, o->fields, err));
    TARN_TRY(set_keys(s, o->key_column, err));
    TARN_TRY(list_arrays(s, source, err));
    source->repeats = s->named;
    source->numbered = !s->named;
    source->samples = s->samples;
    source->shards = 1;
    return TARN_OK;
}

static tarn_status view_gnz(void *p, uint64_t sample, uint32_t id, tarn_view *out,
                            tarn_error *err)
{
    state *s = p;
    return tarn__gnz_view_row(s->gnz, s->fields[id].number, sample, out, err);
}

/* Where the key of a row is. */
static tarn__spot locate_key(const state *s, uint64_t row)
{
    uint64_t size = s->key_type.size, at = s->key_offset + row * size;
    return (tarn__spot){
        .row = row, .offset = s->named ? at : TARN_NO_OFFSET, .size = size};
}

/* In Fortran order the bytes of a row are not contiguous, so a row has no offset. */
static tarn_status locate_gnz(void *p, tarn__item *items, size_t count, tarn_error *err)
{
    const state *s = p;
    (void)err;
    for (size_t i = 0; i < count; i++) {
        if (items[i].field == TARN__FIELD_NONE) {
            items[i].spot = locate_key(s, items[i].sample);
            continue;
        }
        const field *f = &s->fields[items[i].field];
        uint64_t offset = f->offset + items[i].sample * f->row_bytes;
        items[i].spot = (tarn__spot){.row = items[i].sample,
                                     .offset = f->fortran ? TARN_NO_OFFSET : offset,
                                     .size = f->row_bytes,
                                     .made = f->fortran};
    }
    return TARN_OK;
}

static tarn_status key_gnz(void *p, uint64_t sample, tarn_text *out, tarn_error *err)
{
    state *s = p;
    tarn_view view;
    if (!s->named) return tarn__row_key(sample, out, err);
    TARN_TRY(tarn__gnz_view_row(s->gnz, s->keys, sample, &view, err));
    tarn_status status = tarn__element_text(s->key_type, view.data, out, err);
    tarn_view_release(&view);
    if (status == TARN_OK) return settle_gnz(s, sample, err);
    tarn__error_place(err, s->path, TARN_NO_OFFSET);
    return status;
}

static tarn_status find_gnz(void *p, const char *key, uint64_t from, uint64_t *out,
                            tarn_error *err)
{
    state *s = p;
    if (s->named) return tarn__key_index_find(&s->index, s->path, key, from, out, err);
    if (tarn__find_row(key, from, s->samples, out)) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_NO_SAMPLE, s->path, TARN_NO_OFFSET,
                         "no row %s (the file has %llu rows)",
                         TARN__SHOW(key, strlen(key)), (unsigned long long)s->samples);
}

static tarn_status copy_gnz(void *p, tarn__cold_way way, const tarn__item *items,
                            size_t count, const tarn__target *to, tarn_error *err)
{
    state *s = p;
    if (way == TARN__COLD_GATHER)
        return tarn__files_read(s->files, items, count, to, err);
    for (size_t i = 0; i < count; i++) {
        tarn_view view;
        TARN_TRY(view_gnz(s, items[i].sample, items[i].field, &view, err));
        if (view.size)
            memcpy(to->data + to->offsets[items[i].number], view.data, view.size);
        tarn_view_release(&view);
    }
    return settle_gnz(s, 0, err);
}

static tarn_status form_gnz(void *p, uint32_t id, tarn_field_form *out, tarn_error *err)
{
    const field *f = &((const state *)p)->fields[id];
    *out = (tarn_field_form){TARN_FORM_ARRAY, NULL, f->dtype, f->ndim, f->shape};
    return TARN_OK;
}

static tarn_status describe_gnz(void *p, tarn__buf *out, tarn_error *err)
{
    const state *s = p;
    XXH64_state_t hash;
    XXH64_reset(&hash, 0);
    for (size_t i = 0; i < s->gnz->header.count; i++) {
        tarn_gnz_array info;
        TARN_TRY(tarn_gnz_array_get(s->gnz, i, &info, sizeof info, err));
        tarn__digest_text(&hash, info.name, strlen(info.name));
        XXH64_update(&hash, &info.dtype.order, 1);
        XXH64_update(&hash, &info.dtype.kind, 1);
        tarn__digest_number(&hash, info.dtype.size);
        tarn__digest_number(&hash, info.offset);
        tarn__digest_number(&hash, info.has_checksum ? info.checksum : 0);
        for (unsigned k = 0; k < info.ndim; k++)
            tarn__digest_number(&hash, info.shape[k]);
    }
    return tarn__digest_end(&hash, "gnz", s->samples, out, err);
}

const tarn__storage_kind tarn__kind_gnz = {
    .kind = TARN_DATASET_GNZ,
    .locates_keys = true,
    .close = close_gnz,
    .locate = locate_gnz,
    .view = view_gnz,
    .key = key_gnz,
    .find = find_gnz,
    .copy = copy_gnz,
    .settle = settle_gnz,
    .form = form_gnz,
    .describe = describe_gnz,
};
