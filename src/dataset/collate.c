/* Stacking, padding and joining the arrays of many samples. Every size is computed with
 * checked arithmetic when the plan is made; writing a sample then cannot fail. */
#include "dataset/collate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cast.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/options.h"

typedef tarn__collate_plan plan;

/* --- Options ----------------------------------------------------------------------- */

TARN__DEFINE_INIT(tarn_collate_options, TARN_COLLATE_OPTIONS_INIT)

static tarn_status take_value(const tarn_value *v, tarn__collate *out, tarn_error *err)
{
    if (v && v->kind != TARN_VALUE_INTEGER && v->kind != TARN_VALUE_REAL)
        return tarn__fail(err, TARN_ERR_USAGE, "the padding value is not a number");
    out->real = v && v->kind == TARN_VALUE_REAL;
    out->integer = v && !out->real ? v->integer : 0;
    out->number = out->real ? v->real : 0;
    return TARN_OK;
}

static tarn_status take_axes(const tarn_collate_options *o, tarn__collate *out,
                             tarn_error *err)
{
    if (o->n_axes >= TARN_MAX_DIMS || o->n_fixed >= TARN_MAX_DIMS ||
        (o->axes && !o->n_axes))
        return tarn__fail(err, TARN_ERR_USAGE,
                          "%zu axes and %zu lengths to pad (expected 1 to %u)", o->n_axes,
                          o->n_fixed, TARN_MAX_DIMS - 1);
    out->n_axes = o->axes ? (unsigned)o->n_axes : 0;
    out->n_fixed = o->fixed ? (unsigned)o->n_fixed : 0;
    for (unsigned i = 0; i < out->n_axes; i++)
        out->axes[i] = o->axes[i];
    for (unsigned i = 0; i < out->n_fixed; i++)
        out->fixed[i] = o->fixed[i];
    if (out->n_axes && out->n_fixed > 1 && out->n_fixed != out->n_axes)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "%u lengths for %u padded axes (expected one for each, or one "
                          "for all)",
                          out->n_fixed, out->n_axes);
    return TARN_OK;
}

/* Options that would have no effect are errors. */
static tarn_status check_options(const tarn_collate_options *o, tarn_error *err)
{
    if ((unsigned)o->kind > TARN_COLLATE_RAGGED)
        return tarn__fail(err, TARN_ERR_USAGE, "unknown way to collate: %d",
                          (int)o->kind);
    bool padding = o->value || o->axes || o->fixed || o->multiple || o->left ||
                   o->truncate || o->mask || o->lengths;
    if (o->kind != TARN_COLLATE_PAD && padding)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "options of padding, but the values are not padded");
    if (o->fixed && o->multiple > 1)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "padding to a fixed length and to a multiple: choose one");
    if (o->truncate && !o->fixed)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "truncate has no effect without a fixed length");
    return TARN_OK;
}

tarn_status tarn__collate_take(const tarn_collate_options *given, tarn__collate *out,
                               tarn_error *err)
{
    TARN__OPTIONS(tarn_collate_options, o, TARN_COLLATE_OPTIONS_INIT, given, err);
    TARN_TRY(check_options(&o, err));
    *out = (tarn__collate){.kind = o.kind,
                           .left = o.left,
                           .truncate = o.truncate,
                           .mask = o.mask,
                           .lengths = o.lengths,
                           .multiple = o.multiple ? o.multiple : 1};
    TARN_TRY(take_value(o.value, out, err));
    return take_axes(&o, out, err);
}

/* --- The padding value ------------------------------------------------------------- */

static bool fits_integer(tarn_dtype t, int64_t v)
{
    unsigned bits = t.size * 8;
    if (t.kind == 'b') return v == 0 || v == 1;
    if (t.kind == 'u') return v >= 0 && (bits == 64 || (uint64_t)v >> bits == 0);
    return bits == 64 ||
           (v >= -(INT64_C(1) << (bits - 1)) && v < INT64_C(1) << (bits - 1));
}

/* A number as a float of size bytes; returns what it became. */
static double put_float(double v, uint32_t size, unsigned char *out)
{
    float single = (float)v;
    uint16_t half = tarn__half_from_float(single);
    if (size == 8) memcpy(out, &v, 8);
    if (size == 4) memcpy(out, &single, 4);
    if (size == 2) memcpy(out, &half, 2);
    return size == 8 ? v : size == 4 ? (double)single : tarn__half_to_double(half);
}

/* Whether the value is an element of this type; writes it to out, which is zero. */
static bool put_element(const tarn__collate *how, tarn_dtype t, unsigned char *out)
{
    const double two63 = 9223372036854775808.0;
    int64_t whole = how->integer;
    if (t.kind == 'S' || t.kind == 'U') return how->real ? how->number == 0 : whole == 0;
    if (t.kind == 'f' || t.kind == 'c') {
        double v = how->real ? how->number : (double)whole;
        double got = put_float(v, t.kind == 'c' ? t.size / 2 : t.size, out);
        if (how->real) return !isinf(got) || isinf(v);
        return got >= -two63 && got < two63 && (int64_t)got == whole;
    }
    if (how->real) {
        if (!(how->number >= -two63 && how->number < two63)) return false;
        whole = (int64_t)how->number;
        if ((double)whole != how->number) return false;
    }
    memcpy(out, &whole, t.size);
    return fits_integer(t, whole);
}

static tarn_status find_element(plan *p, tarn_error *err)
{
    char type[TARN_DTYPE_TEXT_MAX], value[32];
    memset(p->element, 0, sizeof p->element);
    if (put_element(p->how, p->dtype, p->element)) return TARN_OK;
    if (p->how->real)
        snprintf(value, sizeof value, "%g", p->how->number);
    else
        snprintf(value, sizeof value, "%lld", (long long)p->how->integer);
    return tarn__fail(err, TARN_ERR_USAGE,
                      "the padding value %s is not a value of type %s", value,
                      tarn_dtype_text(p->dtype, type));
}

/* --- One value --------------------------------------------------------------------- */

/* The padded axes of an array, a bit for each. */
static tarn_status padded_axes(const tarn__collate *how, unsigned ndim, uint64_t *out,
                               tarn_error *err)
{
    *out = how->n_axes ? 0 : (UINT64_C(1) << ndim) - 1;
    for (unsigned i = 0; i < how->n_axes; i++) {
        int axis = how->axes[i] < 0 ? how->axes[i] + (int)ndim : how->axes[i];
        if (axis < 0 || axis >= (int)ndim)
            return tarn__fail(err, TARN_ERR_FORMAT,
                              "the array has %u dimensions, so it has no axis %d to pad",
                              ndim, how->axes[i]);
        if (*out >> axis & 1)
            return tarn__fail(err, TARN_ERR_FORMAT,
                              "two of the axes to pad are axis %d of the array", axis);
        *out |= UINT64_C(1) << axis;
    }
    if (!how->n_axes && how->n_fixed > 1 && how->n_fixed != ndim)
        return tarn__fail(err, TARN_ERR_FORMAT,
                          "the array has %u dimensions, but there are %u lengths to pad "
                          "to",
                          ndim, how->n_fixed);
    return TARN_OK;
}

/* The fixed length of a padded axis. */
static uint64_t fixed_length(const tarn__collate *how, unsigned ndim, unsigned axis)
{
    if (how->n_fixed == 1) return how->fixed[0];
    for (unsigned i = 0; i < how->n_axes; i++)
        if ((how->axes[i] < 0 ? how->axes[i] + (int)ndim : how->axes[i]) == (int)axis)
            return how->fixed[i];
    return how->fixed[axis];
}

static tarn_status check_lengths(const tarn__collate *how, const tarn__shape *shape,
                                 tarn_error *err)
{
    uint64_t padded;
    TARN_TRY(padded_axes(how, shape->ndim, &padded, err));
    for (unsigned k = 0; how->n_fixed && !how->truncate && k < shape->ndim; k++) {
        uint64_t most = fixed_length(how, shape->ndim, k);
        if ((padded >> k & 1) && shape->lengths[k] > most)
            return tarn__fail(err, TARN_ERR_FORMAT,
                              "the array has length %llu along axis %u, but is to be "
                              "padded to %llu; allow truncation, or raise the length",
                              (unsigned long long)shape->lengths[k], k,
                              (unsigned long long)most);
    }
    return TARN_OK;
}

tarn_status tarn__collate_check(const tarn__collate *how, const tarn__shape *shape,
                                tarn_error *err)
{
    const char *verb = how->kind == TARN_COLLATE_PAD      ? "padded"
                       : how->kind == TARN_COLLATE_RAGGED ? "joined"
                                                          : "stacked";
    if (!shape)
        return tarn__fail(err, TARN_ERR_FORMAT,
                          "the value is not an array, so it cannot be %s", verb);
    if (shape->ndim == 0 && how->kind != TARN_COLLATE_STACK)
        return tarn__fail(err, TARN_ERR_FORMAT,
                          "the value is a single number, which has no axis to be %s",
                          verb);
    if (shape->ndim >= TARN_MAX_DIMS)
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "an array of %u dimensions cannot be %s (the limit is "
                          "TARN_MAX_DIMS, %u, for the result)",
                          shape->ndim, verb, TARN_MAX_DIMS);
    if (how->kind != TARN_COLLATE_PAD) return TARN_OK;
    return check_lengths(how, shape, err);
}

/* --- The plan ---------------------------------------------------------------------- */

/* Writes a shape such as (3, 224, 224), cut to fit. */
static const char *shape_text(unsigned ndim, const uint64_t *lengths, char out[96])
{
    size_t at = (size_t)snprintf(out, 96, "(");
    for (unsigned i = 0; i < ndim && at < 72; i++)
        at += (size_t)snprintf(out + at, 96 - at, "%s%llu", i ? ", " : "",
                               (unsigned long long)lengths[i]);
    snprintf(out + at, 96 - at, "%s", at < 72 ? ndim == 1 ? ",)" : ")" : ", ...)");
    return out;
}

/* Whether all samples must have the same length along an axis. */
static bool is_equal_axis(const plan *p, unsigned axis)
{
    if (p->how->kind == TARN_COLLATE_PAD) return !(p->padded >> axis & 1);
    return p->how->kind == TARN_COLLATE_STACK || axis > 0;
}

static tarn_status differs(const plan *p, const tarn__shape *s, unsigned axis,
                           tarn_error *err)
{
    char text[96];
    const char *more = p->how->kind == TARN_COLLATE_PAD ? "; pad that axis as well" : "";
    return tarn__fail(
        err, TARN_ERR_FORMAT,
        "the array has shape %s, but the first of the batch has length %llu "
        "along axis %u%s",
        shape_text(s->ndim, s->lengths, text), (unsigned long long)p->lengths[axis], axis,
        more);
}

/* Compares a sample with the first one, and adds its lengths to the plan. */
static tarn_status add_shape(plan *p, const tarn__shape *s, tarn_error *err)
{
    char a[TARN_DTYPE_TEXT_MAX], b[TARN_DTYPE_TEXT_MAX];
    if (s->dtype.kind != p->dtype.kind || s->dtype.size != p->dtype.size)
        return tarn__fail(err, TARN_ERR_FORMAT,
                          "the array has type %s, but the first of the batch has %s",
                          tarn_dtype_text(s->dtype, a), tarn_dtype_text(p->dtype, b));
    if (s->ndim != p->ndim)
        return tarn__fail(
            err, TARN_ERR_FORMAT,
            "the array has %u dimensions, but the first of the batch has %u", s->ndim,
            p->ndim);
    for (unsigned k = 0; k < p->ndim; k++) {
        if (is_equal_axis(p, k)) {
            if (s->lengths[k] != p->lengths[k]) return differs(p, s, k, err);
        } else if (p->how->kind == TARN_COLLATE_RAGGED) {
            if (!tarn__add(p->lengths[k], s->lengths[k], &p->lengths[k]))
                return tarn__fail(err, TARN_ERR_LIMIT, "the batch is too large");
        } else if (s->lengths[k] > p->lengths[k]) {
            p->lengths[k] = s->lengths[k];
        }
    }
    return TARN_OK;
}

/* The first sample gives type and dimensions. */
static tarn_status begin(plan *p, const tarn__collate *how, const tarn__shape *first,
                         tarn_error *err)
{
    p->how = how;
    p->padded = p->n_masked = 0;
    p->mask_each = 0;
    TARN_TRY(tarn__collate_check(how, first, err));
    p->dtype = first->dtype;
    p->ndim = first->ndim;
    if (how->kind == TARN_COLLATE_PAD) {
        TARN_TRY(padded_axes(how, p->ndim, &p->padded, err));
        TARN_TRY(find_element(p, err));
    }
    for (unsigned k = 0; k < p->ndim; k++)
        p->lengths[k] = is_equal_axis(p, k) ? first->lengths[k] : 0;
    return TARN_OK;
}

/* The lengths of the padded axes, from those of the longest samples. */
static tarn_status pad_lengths(plan *p, tarn_error *err)
{
    const tarn__collate *how = p->how;
    p->mask_each = 1;
    for (unsigned k = 0; k < p->ndim; k++) {
        uint64_t *length = &p->lengths[k], more = how->multiple - 1;
        if (is_equal_axis(p, k)) continue;
        if (how->n_fixed)
            *length = fixed_length(how, p->ndim, k);
        else if (!tarn__add(*length, more, length))
            return tarn__fail(err, TARN_ERR_LIMIT, "the padded length is too large");
        else
            *length -= *length % how->multiple;
        p->masked[p->n_masked++] = *length;
        if (!tarn__mul(p->mask_each, *length, &p->mask_each)) p->mask_each = UINT64_MAX;
    }
    return TARN_OK;
}

/* Lengths of 0 count as 1, so that the shape as well as the bytes are within the limit:
 * an array without elements must still be an array that others can describe. */
static bool find_size(plan *p, size_t count, uint64_t most)
{
    bool ragged = p->how->kind == TARN_COLLATE_RAGGED;
    uint64_t room = p->dtype.size ? p->dtype.size : 1, n = count ? count : 1;
    p->each = p->dtype.size;
    for (unsigned k = ragged; k < p->ndim; k++) {
        p->each *= p->lengths[k]; /* no more than room, which is checked */
        if (!tarn__mul(room, p->lengths[k] ? p->lengths[k] : 1, &room)) return false;
    }
    if (ragged) n = p->lengths[0] ? p->lengths[0] : 1;
    if (!tarn__mul(room, n, &room) || room > most) return false;
    p->size = p->each * (ragged ? p->lengths[0] : count);
    if (p->how->kind != TARN_COLLATE_PAD) return true;
    return tarn__mul(p->mask_each, count, &room) && room <= most;
}

static size_t longest(const tarn__piece *pieces, size_t count)
{
    size_t found = 0;
    for (size_t i = 1; i < count; i++)
        if (pieces[i].shape->bytes > pieces[found].shape->bytes) found = i;
    return found;
}

static tarn_status too_large(const plan *p, const tarn__piece *bad, size_t count,
                             tarn_error *err)
{
    char text[96], sample[96];
    if (p->how->kind != TARN_COLLATE_PAD)
        return tarn__fail(err, TARN_ERR_LIMIT, "the batch is too large for memory");
    return tarn__fail(err, TARN_ERR_LIMIT,
                      "the array has shape %s, so that %zu samples would be padded to %s "
                      "each, more than %llu bytes together (TARN_MAX_PADDED); pad to a "
                      "fixed length, make batches smaller, or leave this sample out",
                      shape_text(p->ndim, bad->shape->lengths, sample), count,
                      shape_text(p->ndim, p->lengths, text),
                      (unsigned long long)TARN_MAX_PADDED);
}

tarn_status tarn__collate_plan_make(const tarn__collate *how, const tarn__piece *pieces,
                                    size_t count, plan *out, size_t *out_bad,
                                    tarn_error *err)
{
    bool pad = how->kind == TARN_COLLATE_PAD;
    *out_bad = 0;
    TARN_TRY(begin(out, how, pieces[0].shape, err));
    for (size_t i = 0; i < count; i++) {
        const tarn__shape *s = pieces[i].shape;
        *out_bad = i;
        if (i > 0 && how->kind == TARN_COLLATE_STACK && s == pieces[0].shape) continue;
        if (i > 0) TARN_TRY(tarn__collate_check(how, s, err));
        TARN_TRY(add_shape(out, s, err));
    }
    *out_bad = SIZE_MAX;
    if (pad) TARN_TRY(pad_lengths(out, err));
    if (find_size(out, count, pad ? TARN_MAX_PADDED : INT64_MAX)) return TARN_OK;
    *out_bad = count ? longest(pieces, count) : SIZE_MAX;
    return too_large(out, &pieces[count ? *out_bad : 0], count, err);
}

/* --- Writing ----------------------------------------------------------------------- */

/* Fills bytes, a multiple of the element, with the padding value. */
static void fill(const plan *p, unsigned char *to, uint64_t bytes)
{
    static const unsigned char zeros[sizeof p->element];
    size_t size = p->dtype.size, done = size;
    if (bytes == 0) return;
    if (size == 1 || memcmp(p->element, zeros, sizeof zeros) == 0) {
        memset(to, p->element[0], bytes);
        return;
    }
    memcpy(to, p->element, size);
    for (size_t n; done < bytes; done += n) {
        n = done < bytes - done ? done : bytes - done;
        memcpy(to + done, to, n);
    }
}

/* Copies the part of a sample from axis on, of from_bytes, to its place of to_bytes, and
 * fills the rest of the place. */
static void pad_axis(const plan *p, const tarn__shape *s, unsigned axis,
                     unsigned char *to, uint64_t to_bytes, const unsigned char *from,
                     uint64_t from_bytes)
{
    uint64_t has = s->lengths[axis], length = p->lengths[axis];
    uint64_t kept = has < length ? has : length;
    if (length == 0 || to_bytes == 0) return;
    uint64_t to_row = to_bytes / length, from_row = has ? from_bytes / has : 0;
    uint64_t before = p->how->left ? (length - kept) * to_row : 0;
    bool same = true;
    for (unsigned k = axis + 1; k < p->ndim; k++)
        same &= s->lengths[k] == p->lengths[k];
    fill(p, to, before);
    fill(p, to + before + kept * to_row, to_bytes - before - kept * to_row);
    to += before;
    if (same && kept) {
        memcpy(to, from, kept * to_row);
        return;
    }
    for (uint64_t i = 0; i < kept; i++)
        pad_axis(p, s, axis + 1, to + i * to_row, to_row, from + i * from_row, from_row);
}

/* Marks the elements of a sample in its mask, which is all false. */
static void mark(const plan *p, const uint64_t *kept, unsigned axis, unsigned char *to,
                 uint64_t bytes)
{
    uint64_t length = p->masked[axis];
    if (length == 0 || bytes == 0) return;
    uint64_t row = bytes / length;
    if (p->how->left) to += (length - kept[axis]) * row;
    if (axis + 1 == p->n_masked) {
        memset(to, 1, kept[axis]);
        return;
    }
    for (uint64_t i = 0; i < kept[axis]; i++)
        mark(p, kept, axis + 1, to + i * row, row);
}

/* Writes how much of a sample is its own: the mask and the lengths. */
static void put_kept(const plan *p, const tarn__shape *s, size_t i,
                     const tarn__collate_into *into)
{
    uint64_t kept[TARN_MAX_DIMS];
    unsigned n = 0;
    for (unsigned k = 0; k < p->ndim; k++)
        if (p->padded >> k & 1)
            kept[n++] = s->lengths[k] < p->lengths[k] ? s->lengths[k] : p->lengths[k];
    for (unsigned k = 0; into->lengths && k < n; k++)
        into->lengths[i * n + k] = (int64_t)kept[k];
    if (!into->mask || !p->mask_each) return;
    unsigned char *mask = into->mask + i * p->mask_each;
    memset(mask, 0, p->mask_each);
    mark(p, kept, 0, mask, p->mask_each);
}

unsigned char *tarn__collate_place(const plan *p, const tarn__shape *s, size_t i,
                                   const tarn__collate_into *into)
{
    if (p->how->kind == TARN_COLLATE_RAGGED)
        return into->values + (uint64_t)into->offsets[i] * p->each;
    for (unsigned k = 0; k < p->ndim; k++)
        if (s->lengths[k] != p->lengths[k]) return NULL;
    return into->values + i * p->each;
}

void tarn__collate_put(const plan *p, const tarn__piece *piece, size_t i,
                       const tarn__collate_into *into)
{
    const tarn__shape *s = piece->shape;
    if (p->how->kind == TARN_COLLATE_RAGGED) {
        if (i == 0) into->offsets[0] = 0;
        into->offsets[i + 1] = into->offsets[i] + (int64_t)s->lengths[0];
    }
    if (p->how->kind == TARN_COLLATE_PAD) put_kept(p, s, i, into);
    if (p->each == 0) return;
    unsigned char *to = tarn__collate_place(p, s, i, into);
    if (!to)
        pad_axis(p, s, 0, into->values + i * p->each, p->each, piece->data, s->bytes);
    else if (s->bytes && to != piece->data)
        memcpy(to, piece->data, s->bytes);
}

/* --- Arrays of callers ---------------------------------------------------------------
 */

/* The shapes of arrays; in *out, to be freed by the caller. */
static tarn_status shapes_of(const tarn_array *arrays, size_t count, tarn__piece **out,
                             tarn_error *err)
{
    *out = NULL;
    if (count == 0)
        return tarn__fail(err, TARN_ERR_USAGE, "no arrays to collate (expected one)");
    tarn__piece *pieces = calloc(count, sizeof *pieces + sizeof(tarn__shape));
    if (!pieces) return tarn__fail_memory(err);
    tarn__shape *shapes = (tarn__shape *)(pieces + count);
    for (size_t i = 0; i < count; i++) {
        tarn_status status = tarn__array_check(&arrays[i], err);
        if (status != TARN_OK) {
            free(pieces);
            return status;
        }
        shapes[i] = (tarn__shape){arrays[i].dtype, arrays[i].ndim,
                                  tarn_array_bytes(&arrays[i]), arrays[i].shape};
        if (shapes[i].dtype.order == '>') shapes[i].dtype.order = '<';
        pieces[i] = (tarn__piece){arrays[i].data, shapes[i].bytes, &shapes[i]};
    }
    *out = pieces;
    return TARN_OK;
}

static tarn_status plan_arrays(const tarn_array *arrays, size_t count,
                               const tarn__collate *how, tarn__piece **out_pieces,
                               plan *out, tarn_error *err)
{
    size_t bad;
    TARN_TRY(shapes_of(arrays, count, out_pieces, err));
    tarn_status status = tarn__collate_plan_make(how, *out_pieces, count, out, &bad, err);
    if (status != TARN_OK) {
        free(*out_pieces);
        *out_pieces = NULL;
    }
    if (status != TARN_OK && err && bad != SIZE_MAX) {
        char text[TARN_ERROR_MESSAGE_MAX];
        memcpy(text, err->message, sizeof text);
        tarn__error_set(err, status, NULL, TARN_NO_OFFSET, "array %zu: %s", bad, text);
    }
    return status;
}

static tarn_status describe(tarn_array *out, tarn_dtype dtype, uint64_t count,
                            unsigned ndim, const uint64_t *lengths, tarn_error *err)
{
    uint64_t shape[TARN_MAX_DIMS];
    shape[0] = count;
    if (ndim) memcpy(shape + 1, lengths, ndim * sizeof *lengths);
    return tarn_array_init(out, NULL, dtype, ndim + 1, shape, err);
}

static tarn_status describe_all(const plan *p, size_t count, tarn_collated *out,
                                tarn_error *err)
{
    static const tarn_dtype yes_no = {'|', 'b', 1}, whole = {'<', 'i', 8};
    uint64_t n = p->n_masked;
    memset(out, 0, sizeof *out);
    if (p->how->kind == TARN_COLLATE_RAGGED) {
        TARN_TRY(describe(&out->offsets, whole, count + 1, 0, NULL, err));
        return describe(&out->values, p->dtype, p->lengths[0], p->ndim - 1,
                        p->lengths + 1, err);
    }
    if (p->how->mask)
        TARN_TRY(describe(&out->mask, yes_no, count, p->n_masked, p->masked, err));
    if (p->how->lengths) TARN_TRY(describe(&out->lengths, whole, count, n > 1, &n, err));
    return describe(&out->values, p->dtype, count, p->ndim, p->lengths, err);
}

tarn_status tarn_collate_plan(const tarn_array *arrays, size_t count,
                              const tarn_collate_options *options, tarn_collated *out,
                              tarn_error *err)
{
    TARN__NEED(err, "arrays", arrays);
    TARN__NEED(err, "out", out);
    tarn__collate how;
    tarn__piece *pieces;
    plan p;
    TARN_TRY(tarn__collate_take(options, &how, err));
    TARN_TRY(plan_arrays(arrays, count, &how, &pieces, &p, err));
    free(pieces);
    return describe_all(&p, count, out, err);
}

/* Elements that are not packed or not little-endian are packed first: directly in their
 * place if they fill it. */
static tarn_status put_array(const plan *p, const tarn_array *a, tarn__piece piece,
                             size_t i, const tarn__collate_into *into, tarn_error *err)
{
    unsigned char *own = NULL, *to;
    bool swap = a->dtype.order == '>' && piece.shape->bytes;
    if (swap || !tarn_array_is_packed(a)) {
        if (p->how->kind == TARN_COLLATE_RAGGED && i == 0) into->offsets[0] = 0;
        to = tarn__collate_place(p, piece.shape, i, into);
        if (!to) to = own = malloc(piece.shape->bytes + 1);
        if (!to) return tarn__fail_memory(err);
        tarn__array_pack(a, false, to);
        if (swap) tarn__swap_bytes(to, a->dtype, tarn__array_count(a));
        piece.data = to;
    }
    tarn__collate_put(p, &piece, i, into);
    free(own);
    return TARN_OK;
}

tarn_status tarn_collate_run(const tarn_array *arrays, size_t count,
                             const tarn_collate_options *options,
                             const tarn_collated *into, tarn_error *err)
{
    TARN__NEED(err, "arrays", arrays);
    TARN__NEED(err, "into", into);
    tarn__collate how;
    tarn__piece *pieces;
    plan p;
    TARN_TRY(tarn__collate_take(options, &how, err));
    TARN_TRY(plan_arrays(arrays, count, &how, &pieces, &p, err));
    const tarn__collate_into to = {into->values.data, into->mask.data, into->lengths.data,
                                   into->offsets.data};
    bool ragged = how.kind == TARN_COLLATE_RAGGED;
    tarn_status status = TARN_OK;
    if ((p.size && !to.values) || (ragged && !to.offsets) ||
        (how.mask && p.mask_each && !to.mask) || (how.lengths && !to.lengths))
        status = tarn__fail(err, TARN_ERR_USAGE,
                            "there is no memory for a part of the result: set its data");
    for (size_t i = 0; status == TARN_OK && i < count; i++)
        status = put_array(&p, &arrays[i], pieces[i], i, &to, err);
    free(pieces);
    return status;
}
