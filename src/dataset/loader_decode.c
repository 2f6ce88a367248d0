/* Decodes one field of one sample into a piece of a window. The common types (numbers,
 * npy, images) are decoded without allocating memory; all others use the codec table. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/number.h"
#include "dataset/dataset.h"
#include "dataset/loader.h"
#include "dataset/order.h"
#include "dataset/row_value.h"

/* The destination of a piece. */
typedef struct place {
    tarn__worker *worker;
    tarn__strip *strip;
    tarn__piece *piece;
    size_t slot;
    tarn__slab *slab;
} place;

/* --- Storing pieces ---------------------------------------------------------------- */

/* Makes room for an array: directly in the column if it has the expected shape, otherwise
 * in the slab. */
static tarn_status put_shape(const place *p, const tarn__shape *shape, tarn_error *err)
{
    const tarn__shape *hint = p->strip->hint;
    p->piece->size = shape->bytes;
    if (hint && tarn__shape_same(hint, shape)) {
        p->piece->shape = hint;
        p->piece->data = p->strip->data + p->slot * hint->bytes;
        return TARN_OK;
    }
    p->piece->shape = tarn__shape_copy(p->slab, shape);
    p->piece->data = tarn__slab_take(p->slab, (size_t)shape->bytes);
    return p->piece->shape && p->piece->data ? TARN_OK : tarn__fail_memory(err);
}

static tarn_status put_array(const place *p, const tarn_array *a, tarn_error *err)
{
    bool big = a->dtype.order == '>';
    tarn__shape shape = {a->dtype, a->ndim, tarn_array_bytes(a), a->shape};
    if (big) shape.dtype.order = '<';
    TARN_TRY(put_shape(p, &shape, err));
    if (shape.bytes == 0) return TARN_OK;
    if (tarn_array_is_packed(a))
        memcpy(p->piece->data, a->data, shape.bytes);
    else
        tarn__array_pack(a, false, p->piece->data);
    if (big) tarn__swap_bytes(p->piece->data, shape.dtype, tarn__array_count(a));
    return TARN_OK;
}

/* One number of eight bytes. */
static tarn_status put_number(const place *p, char kind, const void *value,
                              tarn_error *err)
{
    tarn__shape shape = {{'<', kind, 8}, 0, 8, NULL};
    TARN_TRY(put_shape(p, &shape, err));
    memcpy(p->piece->data, value, 8);
    return TARN_OK;
}

static tarn_status put_bytes(const place *p, const void *data, size_t size,
                             tarn_error *err)
{
    p->piece->shape = NULL;
    p->piece->size = size;
    p->piece->data = tarn__slab_take(p->slab, size);
    if (!p->piece->data) return tarn__fail_memory(err);
    if (size) memcpy(p->piece->data, data, size);
    return TARN_OK;
}

/* --- Named codecs ------------------------------------------------------------------ */

/* Whether an image may have other samples than bytes, which the codec table keeps. */
static bool is_deep(const unsigned char *data, size_t size)
{
    static const unsigned char mark[] = {0x89, 'P', 'N', 'G'};
    enum { DEPTH_AT = 24 };
    if (tarn__image_format(data, size) == TARN_IMAGE_JXL) return true;
    return size > DEPTH_AT && memcmp(data, mark, sizeof mark) == 0 &&
           data[DEPTH_AT] == 16;
}

/* The shape is that of the image codec: [height, width] for one channel, otherwise
 * [height, width, channels]. */
static tarn_status decode_image(const place *p, const unsigned char *data, size_t size,
                                tarn_error *err)
{
    const tarn_decode_options *o = &p->worker->engine->setup->decode;
    tarn_image_info info;
    TARN_TRY(tarn__image_head(p->worker->image, data, size, &info, err));
    unsigned channels = o->channels ? o->channels : info.channels;
    if (channels == 2 || channels > 4)
        return tarn__fail(err, TARN_ERR_USAGE, "channels must be 0, 1, 3 or 4 (found %u)",
                          channels);
    uint64_t lengths[] = {info.height, info.width, channels};
    uint64_t bytes = (uint64_t)info.height * info.width * channels;
    if ((uint64_t)info.height * info.width > o->max_pixels || bytes > o->max_size)
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "image of %u x %u pixels is too large (limits: %llu pixels in "
                          "max_pixels, %llu bytes in max_size)",
                          info.width, info.height, (unsigned long long)o->max_pixels,
                          (unsigned long long)o->max_size);
    tarn__shape shape = {{'|', 'u', 1}, channels == 1 ? 2 : 3, bytes, lengths};
    TARN_TRY(put_shape(p, &shape, err));
    tarn__image out = {p->piece->data, info.width, info.height, channels,
                       (size_t)info.width * channels};
    return tarn__image_into(p->worker->image, data, size, &info, &out, err);
}

static tarn_status put_value(const place *p, const tarn_value *v,
                             const unsigned char *data, size_t size, tarn_error *err)
{
    switch (v->kind) {
    case TARN_VALUE_INTEGER:
        return put_number(p, 'i', &v->integer, err);
    case TARN_VALUE_REAL:
        return put_number(p, 'f', &v->real, err);
    case TARN_VALUE_ARRAY:
        return put_array(p, v->arrays, err);
    case TARN_VALUE_ARRAYS:
        return put_bytes(p, data, size, err);
    default:
        return put_bytes(p, v->data, v->size, err);
    }
}

tarn_status tarn__piece_put(tarn__strip *t, size_t slot, tarn__slab *slab,
                            const tarn_value *v, tarn_error *err)
{
    const place p = {NULL, t, &t->pieces[slot], slot, slab};
    if ((unsigned)v->kind >= TARN_VALUE_ARRAYS)
        return tarn__fail(
            err, TARN_ERR_USAGE,
            "a value of kind %d cannot be in a batch (expected one array, a "
            "number, text or bytes)",
            (int)v->kind);
    if (v->kind == TARN_VALUE_ARRAY) TARN_TRY(tarn__array_check(v->arrays, err));
    return put_value(&p, v, NULL, 0, err);
}

tarn_status tarn__piece_room(tarn__strip *t, size_t slot, tarn__slab *slab,
                             const tarn__shape *shape, tarn_error *err)
{
    const place p = {NULL, t, &t->pieces[slot], slot, slab};
    return put_shape(&p, shape, err);
}

/* The column's decoder is used if the name, which may differ between samples, has the
 * same class. Otherwise the codec table decides. */
static tarn_status decode_named(const place *p, const tarn__load_column *c,
                                const char *name, const unsigned char *data, size_t size,
                                tarn_error *err)
{
    const tarn__load_setup *s = p->worker->engine->setup;
    tarn_value value;
    tarn_array array;
    if (c->codec_given) name = c->codec;
    bool known = strcmp(name, c->codec) == 0 || tarn__codec_class_of(name) == c->decoder;
    if (known && c->decoder == TARN__CODEC_NPY) {
        TARN_TRY(tarn__npy_find(data, size, &array, err));
        return put_array(p, &array, err);
    }
    if (known && c->decoder == TARN__CODEC_IMAGE && !is_deep(data, size))
        return decode_image(p, data, size, err);
    TARN_TRY(tarn_decode(name, data, size, &s->decode, &value, err));
    tarn_status status = put_value(p, &value, data, size, err);
    tarn_value_release(&value);
    return status;
}

/* --- Forms without a codec name ---------------------------------------------------- */

static tarn_status null_column(tarn_error *err)
{
    return tarn__fail(err, TARN_ERR_FORMAT,
                      "the column is null, expected a number; choose other records or "
                      "fields, or skip such samples");
}

static tarn_status decode_integer(const place *p, const unsigned char *data, size_t size,
                                  tarn_error *err)
{
    tarn_value value;
    if (size == 4 && memcmp(data, "null", 4) == 0) return null_column(err);
    TARN_TRY(tarn_decode("cls", data, size, NULL, &value, err));
    return put_number(p, 'i', &value.integer, err);
}

static tarn_status decode_real(const place *p, const unsigned char *data, size_t size,
                               tarn_error *err)
{
    char text[64];
    if (size == 0 || size >= sizeof text || data[0] == 'n') return null_column(err);
    memcpy(text, data, size);
    text[size] = '\0';
    double value = tarn__double_parse(text);
    return put_number(p, 'f', &value, err);
}

/* Stores one integer of any type as 64 bits. */
static tarn_status put_integer(const place *p, const tarn_array *a, tarn_error *err)
{
    int64_t value;
    if (tarn__array_count(a) == 1 && tarn__element_integer(a->dtype, a->data, &value))
        return put_number(p, 'i', &value, err);
    return tarn__fail(err, TARN_ERR_FORMAT,
                      "the array cannot be loaded as an integer (expected one integer "
                      "of at most 63 bits)");
}

static tarn_status decode_row(const place *p, const tarn__load_column *c,
                              const tarn_field_form *f, const unsigned char *data,
                              size_t size, tarn_error *err)
{
    tarn_array a;
    TARN_TRY(
        tarn_array_init(&a, (void *)(uintptr_t)data, f->dtype, f->ndim, f->shape, err));
    if (tarn_array_bytes(&a) != size)
        return tarn__fail(err, TARN_ERR_FORMAT,
                          "the row has %zu bytes, its type needs %llu", size,
                          (unsigned long long)tarn_array_bytes(&a));
    return c->as == TARN_LOAD_INTEGER ? put_integer(p, &a, err) : put_array(p, &a, err);
}

static tarn_status decode_form(const place *p, const tarn__load_column *c,
                               const tarn_field_form *f, const unsigned char *data,
                               size_t size, tarn_error *err)
{
    tarn_array array;
    if (f->form == TARN_FORM_ARRAY) return decode_row(p, c, f, data, size, err);
    if (c->as == TARN_LOAD_INTEGER && c->decoder == TARN__CODEC_NPY) {
        TARN_TRY(tarn__npy_find(data, size, &array, err));
        return put_integer(p, &array, err);
    }
    if (c->as == TARN_LOAD_INTEGER || f->form == TARN_FORM_INTEGER)
        return decode_integer(p, data, size, err);
    if (f->form == TARN_FORM_REAL) return decode_real(p, data, size, err);
    if (f->form == TARN_FORM_NAMED || f->form == TARN_FORM_BYTES)
        return decode_named(p, c, f->codec, data, size, err);
    return put_bytes(p, data, size, err);
}

/* --- Images and masks --------------------------------------------------------------- */

/* A piece of the window, with what the steps need. */
typedef struct job {
    place place;
    const tarn__load_column *column;
    tarn_image_draw draw;
    const unsigned char *data;
    size_t size;
} job;

static uint32_t *size_of(const job *j)
{
    const tarn__worker *k = j->place.worker;
    return k->sizes[j->column - k->engine->setup->columns];
}

/* The steps write to the place in the column; pixels is NULL for encoded data. */
static tarn_status run_steps(const job *j, const tarn_array *pixels, tarn_error *err)
{
    const place *p = &j->place;
    const tarn__strip *t = p->strip;
    const tarn__image_plan *plan = j->column->plan;
    tarn_image_decoder *d = p->worker->image;
    tarn_status status;
    *p->piece =
        (tarn__piece){t->data + p->slot * t->hint->bytes, t->hint->bytes, t->hint};
    if (pixels)
        status = tarn__image_run_pixels(d, plan, pixels, j->draw, p->piece->data, err);
    else
        status = tarn__image_run(d, plan, j->data, j->size, j->draw, p->piece->data, err);
    size_of(j)[0] = d->width;
    size_of(j)[1] = d->height;
    return status;
}

static tarn_status run_image(const job *j, tarn_error *err)
{
    tarn__worker *k = j->place.worker;
    const tarn_decode_options *o = &k->engine->setup->decode;
    job plain = *j;
    if (j->column->squeeze == TARN__PLAIN) return run_steps(j, NULL, err);
    k->plain.size = 0;
    tarn__most most = {o->max_size, "max_size"};
    TARN_TRY(tarn__expand(j->column->squeeze, j->data, j->size, most, &k->plain, err));
    plain.data = k->plain.data;
    plain.size = k->plain.size;
    return run_steps(&plain, NULL, err);
}

/* A mask must have the size of an image that it follows. */
static tarn_status check_mask_size(const job *j, const tarn__labels *labels,
                                   tarn_error *err)
{
    const tarn__load_setup *s = j->place.worker->engine->setup;
    const tarn__load_column *other = NULL;
    const uint32_t *size = NULL;
    for (size_t i = 0; i < s->n_columns; i++) {
        const tarn__load_column *c = &s->columns[i];
        if (c->way != TARN__LOAD_STEPS ||
            !tarn__image_plans_agree(c->plan, j->column->plan))
            continue;
        other = c;
        size = j->place.worker->sizes[i];
        if (size[0] == labels->width && size[1] == labels->height) return TARN_OK;
    }
    return tarn__fail(err, TARN_ERR_FORMAT,
                      "mask of %u x %u pixels, but the image (field %s) has %u x %u%s; a "
                      "mask must have the size of its image",
                      labels->width, labels->height, other->name, size[0], size[1],
                      s->decode.flags & TARN_DECODE_UPRIGHT ? " when it is upright" : "");
}

static tarn_status put_mask(const job *j, const tarn_array *a, tarn_error *err)
{
    const tarn_image_steps *steps = tarn__image_plan_steps(j->column->plan);
    uint64_t channels = a->ndim == 3 ? a->shape[2] : 1, bytes;
    uint64_t lengths[] = {steps->height, steps->width, channels};
    if ((a->ndim != 2 && a->ndim != 3) || a->shape[0] > TARN_MAX_IMAGE_SIDE ||
        a->shape[1] > TARN_MAX_IMAGE_SIDE)
        return tarn__fail(err, TARN_ERR_FORMAT,
                          "a mask must be an array [height, width] or [height, width, "
                          "channels] with sides of at most %u",
                          TARN_MAX_IMAGE_SIDE);
    tarn__labels labels = {NULL, (uint32_t)a->shape[1], (uint32_t)a->shape[0],
                           (size_t)channels * a->dtype.size};
    TARN_TRY(check_mask_size(j, &labels, err));
    if (!tarn__mul((uint64_t)steps->height * steps->width, labels.size, &bytes) ||
        bytes > j->place.worker->engine->setup->decode.max_size)
        return tarn__fail(
            err, TARN_ERR_LIMIT, "the mask needs more than %llu bytes (max_size)",
            (unsigned long long)j->place.worker->engine->setup->decode.max_size);
    tarn__shape shape = {a->dtype, a->ndim, bytes, lengths};
    if (shape.dtype.order == '>') shape.dtype.order = '<';
    void *copy;
    const void *native;
    TARN_TRY(put_shape(&j->place, &shape, err));
    TARN_TRY(tarn__array_native(a, &native, &copy, err));
    labels.data = native;
    tarn_status status = tarn__mask_run(j->place.worker->image, j->column->plan, &labels,
                                        j->draw, j->place.piece->data, err);
    free(copy);
    return status;
}

/* name is the name of the field in the file. */
static tarn_status run_mask(const job *j, const char *name, tarn_error *err)
{
    tarn_decode_options o = j->place.worker->engine->setup->decode;
    tarn_value value;
    o.channels = 0;
    o.flags = TARN_DECODE_INDICES;
    if (j->column->codec_given) name = j->column->codec;
    TARN_TRY(tarn_decode(name, j->data, j->size, &o, &value, err));
    tarn_status status = TARN_OK;
    if (value.kind == TARN_VALUE_ARRAY)
        status = put_mask(j, value.arrays, err);
    else
        status = tarn__fail(err, TARN_ERR_FORMAT, "a mask must be an array");
    tarn_value_release(&value);
    return status;
}

/* --- Formats that only the fallback knows ------------------------------------------- */

static bool is_foreign(const job *j)
{
    tarn_image_info info;
    const tarn__load_column *c = j->column;
    if (!c->image || c->squeeze != TARN__PLAIN) return false;
    if (!tarn__image_format(j->data, j->size)) return true;
    return tarn__image_head(j->place.worker->image, j->data, j->size, &info, NULL) ==
           TARN_ERR_UNSUPPORTED;
}

static tarn_status check_foreign(const job *j, const tarn_value *value, tarn_error *err)
{
    const tarn_decode_options *o = &j->place.worker->engine->setup->decode;
    const tarn_array *a = value->arrays;
    bool mask = j->column->way == TARN__LOAD_MASK;
    if (value->kind != TARN_VALUE_ARRAY || !tarn_array_is_packed(a) ||
        a->dtype.order == '>' || (a->ndim != 2 && a->ndim != 3) || !a->shape[0] ||
        !a->shape[1])
        return tarn__fail(
            err, TARN_ERR_FORMAT,
            "the fallback did not return a contiguous array [height, width] or "
            "[height, width, channels]");
    uint64_t channels = a->ndim == 3 ? a->shape[2] : 1;
    if (!mask && (a->dtype.kind != 'u' || a->dtype.size > 2 || channels == 2 ||
                  channels > 4 || channels == 0))
        return tarn__fail(err, TARN_ERR_FORMAT,
                          "the fallback must return 1, 3 or 4 channels of uint8 or "
                          "uint16 (found %llu of %c%u)",
                          (unsigned long long)channels, a->dtype.kind, a->dtype.size);
    if (a->shape[0] > TARN_MAX_IMAGE_SIDE || a->shape[1] > TARN_MAX_IMAGE_SIDE ||
        a->shape[0] * a->shape[1] > o->max_pixels || tarn_array_bytes(a) > o->max_size)
        return tarn__fail(
            err, TARN_ERR_LIMIT,
            "the image has %llu x %llu pixels, more than max_pixels (%llu) "
            "or max_size (%llu bytes) allow",
            (unsigned long long)a->shape[1], (unsigned long long)a->shape[0],
            (unsigned long long)o->max_pixels, (unsigned long long)o->max_size);
    return TARN_OK;
}

static tarn_status run_fallback(const job *j, tarn_error *err)
{
    const tarn_loader_options *o = &j->place.worker->engine->setup->o;
    tarn_value value = TARN_VALUE_INIT;
    TARN_TRY(
        o->fallback(o->fallback_context, j->column->name, j->data, j->size, &value, err));
    tarn_status status = check_foreign(j, &value, err);
    if (status == TARN_OK && j->column->way == TARN__LOAD_MASK)
        status = put_mask(j, value.arrays, err);
    else if (status == TARN_OK && j->column->way == TARN__LOAD_STEPS)
        status = run_steps(j, value.arrays, err);
    else if (status == TARN_OK)
        status = put_array(&j->place, value.arrays, err);
    tarn_value_release(&value);
    return status;
}

/* --- Pieces ------------------------------------------------------------------------- */

static tarn_status decode_piece(tarn__worker *k, tarn__window *w, size_t slot,
                                size_t column, uint32_t field, const unsigned char *data,
                                size_t size, tarn__slab *slab, tarn_error *err)
{
    const tarn__load_setup *s = k->engine->setup;
    const tarn__load_column *c = &s->columns[column];
    tarn__strip *t = &w->strips[column];
    job j = {{k, t, &t->pieces[slot], slot, slab}, c, {0, 0, 0}, data, size};
    tarn_field_form form = {.form = TARN_FORM_NAMED};
    tarn_status status;
    if (c->way != TARN__LOAD_STEPS)
        TARN_TRY(tarn_dataset_form(w->epoch->set, w->samples[slot], field, &form,
                                   sizeof form, err));
    if (c->way == TARN__LOAD_VALUE) {
        status = decode_form(&j.place, c, &form, data, size, err);
    } else {
        /* Random choices depend on the position, so that a sample that occurs twice is
         * augmented differently each time. */
        j.draw = (tarn_image_draw){s->seed, w->epoch->number,
                                   tarn__order_position(w->order, w->from + slot)};
        status = c->way == TARN__LOAD_MASK ? run_mask(&j, form.codec, err)
                                           : run_image(&j, err);
    }
    if (status == TARN_OK || !s->o.fallback || !is_foreign(&j)) return status;
    k->deferred = !k->is_caller;
    if (k->deferred) return status;
    w->fallbacks++;
    return run_fallback(&j, err);
}

tarn_status tarn__decode_piece(tarn__worker *k, tarn__window *w, size_t slot,
                               size_t column, uint32_t field, const unsigned char *data,
                               size_t size, tarn__slab *slab, tarn_error *err)
{
    const tarn__collate *how = k->engine->setup->columns[column].collate;
    TARN_TRY(decode_piece(k, w, slot, column, field, data, size, slab, err));
    if (!how) return TARN_OK;
    return tarn__collate_check(how, w->strips[column].pieces[slot].shape, err);
}
