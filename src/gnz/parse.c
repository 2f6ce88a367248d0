/* Parses headers: JSON to entries, with every check that needs no array values. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "gnz/header.h"
#include "io/file.h"

static const char magic[4] = {'G', 'N', 'Z', '1'};

/* Errors about the header as a whole have the offset of the JSON. */
#define FAIL(err, code, ...) tarn__fail_at(err, code, NULL, TARN__GNZ_PREFIX, __VA_ARGS__)

typedef struct printable {
    char text[96];
} printable;

static const char *show(printable *p, const tarn__gnz_entry *e)
{
    return tarn_printable(p->text, sizeof p->text, e->name, e->name_size);
}

/* --- One array --------------------------------------------------------------------- */

tarn_status tarn__gnz_entry_measure(tarn__gnz_entry *e, tarn_error *err)
{
    tarn_array array;
    uint64_t extent;
    TARN_TRY(tarn_array_init(&array, NULL, e->dtype, e->ndim, e->shape, err));
    e->rows = e->ndim ? e->shape[0] : 1;
    e->row_bytes = e->dtype.size;
    for (unsigned i = 1; i < e->ndim; i++)
        e->row_bytes *= e->shape[i];
    if (e->reserved < e->rows) e->reserved = e->rows;
    if (!tarn__mul(e->reserved, e->row_bytes, &extent) || extent > INT64_MAX)
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "an array of this shape needs more than 2^63 bytes");
    return TARN_OK;
}

void tarn__gnz_entry_array(const tarn__gnz_entry *e, void *data, tarn_array *out)
{
    int64_t step = e->dtype.size;
    *out = (tarn_array){.data = data, .dtype = e->dtype, .ndim = e->ndim};
    for (unsigned i = 0; i < e->ndim; i++)
        out->shape[i] = e->shape[i];
    for (unsigned n = 0; n < e->ndim; n++) {
        unsigned axis = e->fortran ? n : e->ndim - 1 - n;
        out->strides[axis] = step;
        step *= (int64_t)(e->shape[axis] ? e->shape[axis] : 1);
    }
}

static tarn_status take_name(tarn__gnz_header *h, const tarn__json *key,
                             tarn__gnz_entry *e, tarn_error *err)
{
    uint32_t id;
    if (memchr(key->u.text, '\0', key->size) ||
        !tarn__utf8_is_valid(key->u.text, key->size))
        return FAIL(err, TARN_ERR_UNSUPPORTED,
                    "array name \"%s\" contains a NUL or half a surrogate pair",
                    TARN__SHOW(key->u.text, key->size));
    if (key->size > TARN_MAX_NAME)
        return FAIL(err, TARN_ERR_LIMIT,
                    "array name of %u bytes; the limit is %u (TARN_MAX_NAME)", key->size,
                    TARN_MAX_NAME);
    TARN_TRY(tarn__names_add(&h->names, key->u.text, key->size, &id, err));
    tarn__name name = tarn__names_get(&h->names, id);
    e->name = name.data;
    e->name_size = name.size;
    return TARN_OK;
}

static tarn_status take_shape(const tarn__json *v, tarn__gnz_entry *e, uint64_t *dims,
                              tarn_error *err)
{
    printable p;
    if (!v || v->kind != TARN__JSON_LIST)
        return FAIL(err, TARN_ERR_FORMAT, "array \"%s\": shape is not a list",
                    show(&p, e));
    if (v->size > TARN_MAX_DIMS)
        return FAIL(err, TARN_ERR_LIMIT,
                    "array \"%s\": %u dimensions; the limit is %u (TARN_MAX_DIMS)",
                    show(&p, e), v->size, TARN_MAX_DIMS);
    const tarn__json *dim = v + 1;
    for (uint32_t i = 0; i < v->size; i++, dim = tarn__json_next(dim))
        if (!tarn__json_uint64(dim, &dims[i]) || dims[i] > INT64_MAX)
            return FAIL(err, TARN_ERR_FORMAT,
                        "array \"%s\": dimension %u is not a whole number from 0 to "
                        "2^63 - 1 in plain digits",
                        show(&p, e), i);
    e->ndim = v->size;
    e->shape = dims;
    return TARN_OK;
}

static tarn_status take_dtype(const tarn__json *v, tarn__gnz_entry *e, tarn_error *err)
{
    printable p;
    tarn_error why;
    if (!v || v->kind != TARN__JSON_STRING)
        return FAIL(err, TARN_ERR_FORMAT, "array \"%s\": dtype is not a string",
                    show(&p, e));
    if (tarn_dtype_parse(v->u.text, v->size, &e->dtype, &why) != TARN_OK)
        return FAIL(err, why.code, "array \"%s\": %s", show(&p, e), why.message);
    return TARN_OK;
}

static tarn_status take_order(const tarn__json *v, tarn__gnz_entry *e, tarn_error *err)
{
    printable p;
    if (v && !tarn__json_is(v, "C", 1) && !tarn__json_is(v, "F", 1))
        return FAIL(err, TARN_ERR_UNSUPPORTED, "array \"%s\": order is neither C nor F",
                    show(&p, e));
    e->fortran = v && v->u.text[0] == 'F';
    return TARN_OK;
}

static tarn_status take_place(const tarn__gnz_header *h, const tarn__json *v,
                              tarn__gnz_entry *e, uint64_t file_size, tarn_error *err)
{
    printable p;
    uint64_t end = TARN__GNZ_PREFIX + h->length, bytes = tarn__gnz_bytes(e);
    if (!v || !tarn__json_uint64(v, &e->offset))
        return FAIL(err, TARN_ERR_FORMAT,
                    "array \"%s\": offset is not a whole number in plain digits",
                    show(&p, e));
    if (e->offset < end)
        return FAIL(err, TARN_ERR_FORMAT,
                    "array \"%s\": offset %llu is inside the header, which ends at %llu",
                    show(&p, e), (unsigned long long)e->offset, (unsigned long long)end);
    if (e->offset % TARN_GNZ_PAGE)
        return FAIL(err, TARN_ERR_FORMAT,
                    "array \"%s\": offset %llu is not a multiple of %u", show(&p, e),
                    (unsigned long long)e->offset, TARN_GNZ_PAGE);
    if (!tarn__range_in(e->offset, bytes, file_size))
        return FAIL(err, TARN_ERR_TRUNCATED,
                    "array \"%s\": its %llu bytes at offset %llu end after the file, "
                    "which has %llu bytes",
                    show(&p, e), (unsigned long long)bytes, (unsigned long long)e->offset,
                    (unsigned long long)file_size);
    return TARN_OK;
}

/* The four values of an array, found in one walk along its keys. */
typedef struct fields {
    const tarn__json *offset, *shape, *dtype, *order;
    bool extra;
} fields;

static void find_fields(const tarn__json *object, fields *out)
{
    const tarn__json *key = object + 1;
    *out = (fields){0};
    for (uint32_t i = 0; i < object->size; i++, key = tarn__json_next(key + 1)) {
        if (tarn__json_is(key, "offset", 6))
            out->offset = key + 1;
        else if (tarn__json_is(key, "shape", 5))
            out->shape = key + 1;
        else if (tarn__json_is(key, "dtype", 5))
            out->dtype = key + 1;
        else if (tarn__json_is(key, "order", 5))
            out->order = key + 1;
        else
            out->extra = true;
    }
}

static tarn_status take_array(tarn__gnz_header *h, const tarn__json *key, uint64_t *dims,
                              uint64_t file_size, tarn_error *err)
{
    fields f;
    printable p;
    tarn_error why;
    tarn__gnz_entry *e = &h->entries[h->count];
    TARN_TRY(take_name(h, key, e, err));
    if (key[1].kind != TARN__JSON_OBJECT)
        return FAIL(err, TARN_ERR_FORMAT, "array \"%s\" is not an object", show(&p, e));
    find_fields(key + 1, &f);
    TARN_TRY(take_dtype(f.dtype, e, err));
    TARN_TRY(take_shape(f.shape, e, dims, err));
    TARN_TRY(take_order(f.order, e, err));
    if (tarn__gnz_entry_measure(e, &why) != TARN_OK)
        return FAIL(err, why.code, "array \"%s\": %s", show(&p, e), why.message);
    TARN_TRY(take_place(h, f.offset, e, file_size, err));
    h->extra |= f.extra;
    h->count++;
    return TARN_OK;
}

/* --- All arrays -------------------------------------------------------------------- */

static int by_offset(const void *a, const void *b)
{
    const tarn__gnz_entry *x = *(tarn__gnz_entry *const *)a,
                          *y = *(tarn__gnz_entry *const *)b;
    uint64_t p = tarn__gnz_bytes(x), q = tarn__gnz_bytes(y);
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return (p > q) - (p < q);
}

/* Finds arrays that overlap. Reserved space counts only if it ends before the next array;
 * otherwise the note about it came from another file, and is dropped. */
static tarn_status check_places(tarn__gnz_entry **sorted, size_t count,
                                uint64_t file_size, tarn_error *err)
{
    printable p, q;
    for (size_t i = 0; i < count; i++) {
        tarn__gnz_entry *e = sorted[i], *next = i + 1 < count ? sorted[i + 1] : NULL;
        uint64_t limit = next ? next->offset : file_size;
        TARN__KNOWN(e);
        if (next && tarn__gnz_bytes(e) > limit - e->offset)
            return FAIL(err, TARN_ERR_FORMAT,
                        "arrays \"%s\" and \"%s\" overlap: the first ends at %llu, the "
                        "second begins at %llu",
                        show(&p, e), show(&q, next),
                        (unsigned long long)(e->offset + tarn__gnz_bytes(e)),
                        (unsigned long long)next->offset);
        if (tarn__gnz_extent(e) > limit - e->offset) e->reserved = e->rows;
    }
    return TARN_OK;
}

static tarn_status check_overlap(tarn__gnz_header *h, uint64_t file_size, tarn_error *err)
{
    tarn__gnz_entry **sorted = malloc((h->count + 1) * sizeof *sorted);
    if (!sorted) return tarn__fail_memory(err);
    size_t count = 0;
    h->space = file_size;
    for (size_t i = 0; i < h->count; i++) {
        tarn__gnz_entry *e = &h->entries[i];
        if (e->offset < h->space) h->space = e->offset;
        if (tarn__gnz_extent(e))
            sorted[count++] = e; /* an empty array overlaps nothing */
    }
    qsort(sorted, count, sizeof *sorted, by_offset);
    tarn_status status = check_places(sorted, count, file_size, err);
    free(sorted);
    return status;
}

/* The total number of dimensions, to allocate all shapes before any array is checked. */
static size_t count_dims(const tarn__json *arrays)
{
    size_t count = 0;
    const tarn__json *key = arrays + 1;
    fields f;
    for (uint32_t i = 0; i < arrays->size; i++, key = tarn__json_next(key + 1)) {
        if (key[1].kind != TARN__JSON_OBJECT) continue;
        find_fields(key + 1, &f);
        if (f.shape && f.shape->kind == TARN__JSON_LIST) count += f.shape->size;
    }
    return count;
}

static tarn_status take_arrays(tarn__gnz_header *h, const tarn__json *arrays,
                               uint64_t file_size, tarn_error *err)
{
    if (arrays->kind != TARN__JSON_OBJECT)
        return FAIL(err, TARN_ERR_FORMAT, "\"arrays\" is not an object");
    size_t dims = count_dims(arrays), used = 0;
    h->entries = calloc(arrays->size + 1u, sizeof *h->entries);
    h->dims = calloc(dims + 1, sizeof *h->dims);
    if (!h->entries || !h->dims) return tarn__fail_memory(err);
    const tarn__json *key = arrays + 1;
    for (uint32_t i = 0; i < arrays->size; i++, key = tarn__json_next(key + 1)) {
        TARN_TRY(take_array(h, key, h->dims + used, file_size, err));
        used += h->entries[i].ndim;
    }
    return TARN_OK;
}

/* --- Metadata and notes ------------------------------------------------------------ */

static bool parse_hex(const tarn__json *v, uint32_t *out)
{
    uint32_t value = 0;
    if (!v || v->kind != TARN__JSON_STRING || v->size != 8) return false;
    for (unsigned i = 0; i < 8; i++) {
        char c = v->u.text[i];
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                                                : 16;
        if (digit == 16) return false;
        value = value << 4 | digit;
    }
    *out = value;
    return true;
}

/* Invalid notes are ignored, because metadata may have been copied from another file. */
static void take_note(const tarn__json *note, tarn__gnz_entry *e)
{
    uint64_t rows, extent;
    if (note->kind != TARN__JSON_OBJECT) return;
    e->has_checksum = parse_hex(tarn__json_find(note, "crc32c"), &e->checksum);
    const tarn__json *reserved = tarn__json_find(note, "rows");
    if (reserved && e->ndim && !e->fortran && tarn__json_uint64(reserved, &rows) &&
        rows > e->rows && tarn__mul(rows, e->row_bytes, &extent) && extent <= INT64_MAX)
        e->reserved = rows;
}

static void take_notes(tarn__gnz_header *h, const tarn__json *ours)
{
    if (ours->kind != TARN__JSON_OBJECT) return;
    h->has_sum = parse_hex(tarn__json_find(ours, "header"), &h->sum);
    const tarn__json *arrays = tarn__json_find(ours, "arrays");
    if (!arrays || arrays->kind != TARN__JSON_OBJECT) return;
    const tarn__json *key = arrays + 1;
    for (uint32_t i = 0; i < arrays->size; i++, key = tarn__json_next(key + 1)) {
        uint32_t id = tarn__names_find(&h->names, key->u.text, key->size);
        if (id != TARN__NAME_NONE) take_note(key + 1, &h->entries[id]);
    }
}

static tarn_status take_metadata(tarn__gnz_header *h, const tarn__json *metadata,
                                 tarn_error *err)
{
    tarn__json_writer w;
    const size_t len = sizeof TARN_GNZ_RESERVED - 1;
    tarn__json_begin(&w, &h->metadata);
    tarn__json_open(&w, '{');
    if (metadata && metadata->kind != TARN__JSON_OBJECT)
        return FAIL(err, TARN_ERR_FORMAT, "\"metadata\" is not an object");
    const tarn__json *key = metadata ? metadata + 1 : NULL;
    for (uint32_t i = 0; key && i < metadata->size; i++, key = tarn__json_next(key + 1)) {
        if (tarn__json_is(key, TARN_GNZ_RESERVED, len)) {
            take_notes(h, key + 1);
            continue;
        }
        tarn__json_key(&w, key->u.text, key->size);
        tarn__json_put_value(&w, key + 1, false);
    }
    tarn__json_close(&w, '}');
    TARN_TRY(tarn__json_end(&w, err));
    TARN_TRY(tarn__buf_add(&h->metadata, "", 1, err));
    h->metadata.size--;
    return TARN_OK;
}

/* --- The whole header -------------------------------------------------------------- */

static tarn_status take_root(tarn__gnz_header *h, const tarn__json *root,
                             uint64_t file_size, tarn_error *err)
{
    uint64_t version;
    const tarn__json *v;
    if (root->kind != TARN__JSON_OBJECT)
        return FAIL(err, TARN_ERR_FORMAT, "the header is not a JSON object");
    v = tarn__json_find(root, "version");
    if (!v || !tarn__json_uint64(v, &version))
        return FAIL(err, TARN_ERR_FORMAT, "the header has no version");
    if (version != 1)
        return FAIL(err, TARN_ERR_UNSUPPORTED,
                    "version %llu is not supported (expected 1)",
                    (unsigned long long)version);
    const tarn__json *arrays = tarn__json_find(root, "arrays"),
                     *metadata = tarn__json_find(root, "metadata");
    h->extra = root->size != 1u + (arrays != NULL) + (metadata != NULL);
    if (arrays) TARN_TRY(take_arrays(h, arrays, file_size, err));
    TARN_TRY(take_metadata(h, metadata, err));
    return check_overlap(h, file_size, err);
}

tarn_status tarn__gnz_parse(tarn__gnz_header *h, const char *text, size_t len,
                            uint64_t file_size, tarn_error *err)
{
    tarn__json_doc doc;
    tarn__json_options options = TARN__JSON_OPTIONS_INIT;
    *h = (tarn__gnz_header){.length = len};
    tarn__names_init(&h->names);
    tarn__buf_init(&h->metadata, (size_t)8 * TARN_MAX_GNZ_HEADER);
    tarn_status status = tarn__json_parse(&doc, text, len, &options, err);
    if (status != TARN_OK && err && err->offset != TARN_NO_OFFSET)
        err->offset += TARN__GNZ_PREFIX;
    if (status == TARN_OK) status = take_root(h, tarn__json_root(&doc), file_size, err);
    tarn__json_reset(&doc);
    if (status != TARN_OK) tarn__gnz_header_reset(h);
    return status;
}

void tarn__gnz_header_reset(tarn__gnz_header *h)
{
    tarn__names_reset(&h->names);
    tarn__buf_reset(&h->metadata);
    free(h->entries);
    free(h->dims);
    *h = (tarn__gnz_header){0};
}

static tarn_status check_prefix(const unsigned char *prefix, size_t got,
                                uint64_t file_size, uint32_t *out_len, tarn_error *err)
{
    if (got < TARN__GNZ_PREFIX || memcmp(prefix, magic, sizeof magic) != 0)
        return tarn__fail_at(err, TARN_ERR_FORMAT, NULL, 0,
                             "not an array file: it does not begin with GNZ1");
    *out_len = tarn__get32(prefix + 4);
    if (*out_len > file_size - TARN__GNZ_PREFIX)
        return tarn__fail_at(
            err, TARN_ERR_TRUNCATED, NULL, 4,
            "a header of %u bytes does not fit into the file, which has %llu bytes",
            *out_len, (unsigned long long)file_size);
    if (*out_len > TARN_MAX_GNZ_HEADER)
        return tarn__fail_at(
            err, TARN_ERR_LIMIT, NULL, 4,
            "the header has %u bytes; the limit is %u (TARN_MAX_GNZ_HEADER)", *out_len,
            TARN_MAX_GNZ_HEADER);
    return TARN_OK;
}

static tarn_status read_header(tarn__gnz_header *h, const tarn__file *file,
                               tarn_error *err)
{
    unsigned char prefix[TARN__GNZ_PREFIX];
    size_t got = file->size < sizeof prefix ? (size_t)file->size : sizeof prefix;
    uint32_t len;
    TARN_TRY(tarn__file_read(file, prefix, got, 0, err));
    TARN_TRY(check_prefix(prefix, got, file->size, &len, err));
    char *text = malloc(len + 1u);
    if (!text) return tarn__fail_memory(err);
    tarn_status status = tarn__file_read(file, text, len, TARN__GNZ_PREFIX, err);
    if (status == TARN_OK) status = tarn__gnz_parse(h, text, len, file->size, err);
    free(text);
    return status;
}

tarn_status tarn__gnz_load(tarn__gnz_header *h, const tarn__file *file, tarn_error *err)
{
    *h = (tarn__gnz_header){0};
    tarn_status status = read_header(h, file, err);
    if (status != TARN_OK && err) tarn__error_place(err, file->path, err->offset);
    return status;
}
