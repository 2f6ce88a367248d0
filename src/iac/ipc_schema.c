/* Converts schemas from Arrow IPC metadata to the C data interface. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nanoarrow/nanoarrow.h>

#include "base/error.h"
#include "base/utf8.h"
#include "iac/ipc.h"

/* --- Decoding --------------------------------------------------------------------- */

/* Names and metadata can refer to the same bytes many times, so the total is limited
 * while they are copied. */
enum { MAX_SCHEMA_TEXT = 64 << 20 };

typedef struct decoding {
    tarn__dicts *dicts;
    uint32_t fields;
    uint64_t text;
    tarn_error *err;
} decoding;

static int read_field(flat type, unsigned n, int width, int otherwise)
{
    return width == 4   ? flat_i32(type, n, otherwise)
           : width == 2 ? flat_i16(type, n, otherwise)
           : width == 1 ? flat_u8(type, n, otherwise) != 0
                        : 0;
}

/* The format of a type without parameters in its format, or NULL. */
static const char *plain_format(int number, flat type)
{
    tarn__type_fields f = tarn__type_fields_of(number);
    const tarn__type *found =
        tarn__type_numbered(number, read_field(type, 0, f.width[0], f.otherwise[0]),
                            read_field(type, 1, f.width[1], f.otherwise[1]));
    return found ? found->format : NULL;
}

static tarn_status bad_type(const decoding *d, const char *name, int number)
{
    return tarn__fail(d->err, TARN_ERR_UNSUPPORTED,
                      "column %s has Arrow type %d with unknown parameters",
                      TARN__SHOW(name, strlen(name)), number);
}

static tarn_status add_made(tarn__buf *out, tarn_error *err, const char *fmt, ...)
    TARN__PRINTF(3, 4);

/* Appends a part of a format: a few letters and numbers. */
static tarn_status add_made(tarn__buf *out, tarn_error *err, const char *fmt, ...)
{
    char text[64];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return tarn__buf_add(out, text, (size_t)len, err);
}

static tarn_status union_format(const decoding *d, flat type, uint32_t children,
                                const char *name, tarn__buf *out)
{
    int mode = flat_i16(type, 0, 0);
    flat ids = flat_child(type, 1);
    uint32_t count = flat_count(ids, 4);
    if (children > 127 || (ids.at && count != children) || mode < 0 || mode > 1)
        return bad_type(d, name, TYPE_UNION);
    TARN_TRY(add_made(out, d->err, "+u%c:", mode == 0 ? 's' : 'd'));
    for (uint32_t i = 0; i < children; i++) {
        int32_t id = ids.at ? (int32_t)tarn__get32(flat_items(ids) + 4 * i) : (int32_t)i;
        if (id < 0 || id > 127) return bad_type(d, name, TYPE_UNION);
        TARN_TRY(add_made(out, d->err, "%s%d", i ? "," : "", id));
    }
    return TARN_OK;
}

static tarn_status decimal_format(const decoding *d, flat type, tarn__buf *out)
{
    int32_t precision = flat_i32(type, 0, 0), scale = flat_i32(type, 1, 0),
            bits = flat_i32(type, 2, 128);
    if (bits == 128) return add_made(out, d->err, "d:%d,%d", precision, scale);
    return add_made(out, d->err, "d:%d,%d,%d", precision, scale, bits);
}

static tarn_status timestamp_format(const decoding *d, flat type, const char *name,
                                    tarn__buf *out)
{
    int unit = flat_i16(type, 0, 0);
    flat zone = flat_child(type, 1);
    uint32_t len = flat_count(zone, 1);
    if (unit < 0 || unit > 3) return bad_type(d, name, TYPE_TIMESTAMP);
    TARN_TRY(add_made(out, d->err, "ts%c:", "smun"[unit]));
    return len ? tarn__buf_add(out, flat_items(zone), len, d->err) : TARN_OK;
}

/* Formats that contain numbers or a time zone. */
static tarn_status made_format(const decoding *d, int number, flat type,
                               uint32_t children, const char *name, tarn__buf *out)
{
    switch (number) {
    case TYPE_DECIMAL:
        return decimal_format(d, type, out);
    case TYPE_TIMESTAMP:
        return timestamp_format(d, type, name, out);
    case TYPE_FIXED_BINARY:
        return add_made(out, d->err, "w:%d", flat_i32(type, 0, 0));
    case TYPE_FIXED_LIST:
        return add_made(out, d->err, "+w:%d", flat_i32(type, 0, 0));
    case TYPE_UNION:
        return union_format(d, type, children, name, out);
    default:
        return bad_type(d, name, number);
    }
}

static tarn_status set_format(const decoding *d, struct ArrowSchema *out, flat field,
                              uint32_t children)
{
    enum { MAX_FORMAT = 4096 };
    tarn__layout layout;
    tarn__buf made;
    int number = flat_u8(field, FIELD_TYPE_TYPE, 0);
    flat type = flat_child(field, FIELD_TYPE);
    const char *format = plain_format(number, type);
    tarn__buf_init(&made, MAX_FORMAT);
    tarn_status status = TARN_OK;
    if (!format) {
        status = made_format(d, number, type, children, out->name, &made);
        if (status == TARN_OK) status = tarn__buf_add(&made, "", 1, d->err);
        format = made.data;
    }
    if (status == TARN_OK && !tarn__layout_get(format, &layout))
        status = bad_type(d, out->name, number);
    if (status == TARN_OK && ArrowSchemaSetFormat(out, format) != 0)
        status = tarn__fail_memory(d->err);
    if (number == TYPE_MAP && flat_u8(type, 0, 0))
        out->flags |= ARROW_FLAG_MAP_KEYS_SORTED;
    tarn__buf_reset(&made);
    return status;
}

static tarn_status count_text(decoding *d, uint64_t len)
{
    d->text += len;
    if (d->text <= MAX_SCHEMA_TEXT) return TARN_OK;
    return tarn__fail(
        d->err, TARN_ERR_LIMIT,
        "the schema of the table has more than %d bytes of names and metadata",
        MAX_SCHEMA_TEXT);
}

static tarn_status set_name(decoding *d, struct ArrowSchema *out, flat name)
{
    uint32_t len = flat_count(name, 1);
    const char *text = len ? (const char *)flat_items(name) : "";
    TARN_TRY(count_text(d, len));
    if (len && (memchr(text, 0, len) || !tarn__utf8_is_valid(text, len)))
        return tarn__fail(d->err, TARN_ERR_FORMAT,
                          "the name of a column is not UTF-8, or contains a NUL");
    char *copy = strndup(text, len);
    int failed = copy ? ArrowSchemaSetName(out, copy) : ENOMEM;
    free(copy);
    return failed ? tarn__fail_memory(d->err) : TARN_OK;
}

/* Key-value pairs in the encoding of the C data interface. */
static tarn_status set_metadata(decoding *d, struct ArrowSchema *out, flat pairs)
{
    uint32_t count = flat_count(pairs, 4);
    struct ArrowBuffer built;
    if (!count) return TARN_OK;
    if (ArrowMetadataBuilderInit(&built, NULL) != 0) return tarn__fail_memory(d->err);
    int failed = 0;
    tarn_status status = TARN_OK;
    for (uint32_t i = 0; i < count && !failed && status == TARN_OK; i++) {
        flat pair = flat_item(pairs, i), key = flat_child(pair, 0),
             value = flat_child(pair, 1);
        struct ArrowStringView k = {(const char *)flat_items(key), flat_count(key, 1)},
                               v = {(const char *)flat_items(value),
                                    flat_count(value, 1)};
        status = count_text(d, (uint64_t)k.size_bytes + (uint64_t)v.size_bytes + 8);
        if (status == TARN_OK) failed = ArrowMetadataBuilderAppend(&built, k, v);
    }
    if (!failed && status == TARN_OK)
        failed = ArrowSchemaSetMetadata(out, (const char *)built.data);
    ArrowBufferReset(&built);
    return failed ? tarn__fail_memory(d->err) : status;
}

/* Turns out, which describes the values, into a field of indices into them. */
static tarn_status set_dictionary(const decoding *d, struct ArrowSchema *out,
                                  flat dictionary, size_t ordinal)
{
    struct ArrowSchema values;
    flat index = flat_child(dictionary, DICT_INDEX);
    const char *format = index.at ? plain_format(TYPE_INT, index) : "i";
    if (!format || flat_i16(dictionary, DICT_KIND, 0) != 0)
        return tarn__fail(d->err, TARN_ERR_UNSUPPORTED,
                          "column %s has an unknown kind of dictionary", out->name);
    ArrowSchemaMove(out, &values);
    ArrowSchemaInit(out);
    if (ArrowSchemaAllocateDictionary(out) != 0) {
        ArrowSchemaRelease(&values);
        return tarn__fail_memory(d->err);
    }
    ArrowSchemaMove(&values, out->dictionary);
    out->flags = out->dictionary->flags & ARROW_FLAG_NULLABLE;
    if (flat_u8(dictionary, DICT_ORDERED, 0)) out->flags |= ARROW_FLAG_DICTIONARY_ORDERED;
    out->dictionary->flags |= ARROW_FLAG_NULLABLE;
    if (ArrowSchemaSetFormat(out, format) != 0 ||
        ArrowSchemaSetName(out, out->dictionary->name) != 0 ||
        ArrowSchemaSetName(out->dictionary, "") != 0)
        return tarn__fail_memory(d->err);
    d->dicts->items[ordinal].field = out;
    return TARN_OK;
}

static tarn_status add_dict(tarn__dicts *dicts, int64_t id, tarn_error *err)
{
    enum { MAX_DICTIONARIES = 4096 };
    uint32_t first = (uint32_t)dicts->count;
    if (dicts->count >= MAX_DICTIONARIES)
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "the table has more than %d dictionary-encoded columns",
                          MAX_DICTIONARIES);
    for (uint32_t i = 0; i < dicts->count && first == dicts->count; i++)
        if (dicts->items[i].id == id) first = i;
    TARN_TRY(tarn__grow(&dicts->items, sizeof *dicts->items, dicts->count,
                        &dicts->capacity, err));
    dicts->items[dicts->count++] = (tarn__dict){.id = id, .first = first};
    return TARN_OK;
}

static tarn_status set_children(decoding *d, struct ArrowSchema *out, flat fields,
                                unsigned depth);

static tarn_status set_field(decoding *d, struct ArrowSchema *out, flat field,
                             unsigned depth)
{
    flat children = flat_child(field, FIELD_CHILDREN),
         dictionary = flat_child(field, FIELD_DICTIONARY);
    size_t ordinal = d->dicts->count;
    if (depth > TARN_MAX_ARROW_DEPTH || ++d->fields > TARN_MAX_ARROW_FIELDS)
        return tarn__fail(
            d->err, TARN_ERR_LIMIT,
            "the table has more than %u columns, or nests them more than %u deep",
            TARN_MAX_ARROW_FIELDS, TARN_MAX_ARROW_DEPTH);
    TARN_TRY(set_name(d, out, flat_child(field, FIELD_NAME)));
    TARN_TRY(set_format(d, out, field, flat_count(children, 4)));
    if (flat_u8(field, FIELD_NULLABLE, 0))
        out->flags |= ARROW_FLAG_NULLABLE;
    else
        out->flags &= ~(int64_t)ARROW_FLAG_NULLABLE;
    if (dictionary.at)
        TARN_TRY(add_dict(d->dicts, flat_i64(dictionary, DICT_ID, 0), d->err));
    TARN_TRY(set_children(d, out, children, depth + 1));
    if (dictionary.at) d->dicts->items[ordinal].next = (uint32_t)d->dicts->count;
    if (dictionary.at) TARN_TRY(set_dictionary(d, out, dictionary, ordinal));
    return set_metadata(d, out, flat_child(field, FIELD_META));
}

static tarn_status set_children(decoding *d, struct ArrowSchema *out, flat fields,
                                unsigned depth)
{
    uint32_t count = flat_count(fields, 4);
    if (!count) return TARN_OK;
    if (ArrowSchemaAllocateChildren(out, count) != 0) return tarn__fail_memory(d->err);
    for (uint32_t i = 0; i < count; i++)
        ArrowSchemaInit(out->children[i]);
    for (uint32_t i = 0; i < count; i++)
        TARN_TRY(set_field(d, out->children[i], flat_item(fields, i), depth));
    return TARN_OK;
}

/* Whether a schema has the children that its type requires. */
static bool has_its_children(const struct ArrowSchema *s, const tarn__layout *layout)
{
    switch (layout->shape) {
    case SHAPE_LIST:
    case SHAPE_LISTVIEW:
    case SHAPE_FIXEDLIST:
        return s->n_children == 1 &&
               (s->format[1] != 'm' || (strcmp(s->children[0]->format, "+s") == 0 &&
                                        s->children[0]->n_children == 2));
    case SHAPE_RUNEND:
        return s->n_children == 2 && !s->children[0]->dictionary &&
               strlen(s->children[0]->format) == 1 &&
               strchr("sil", s->children[0]->format[0]);
    case SHAPE_STRUCT:
        return true;
    case SHAPE_SPARSE:
    case SHAPE_DENSE:
        return s->n_children <= 127;
    default:
        return s->n_children == 0;
    }
}

static tarn_status check_field(const struct ArrowSchema *s, tarn__dicts *dicts,
                               uint32_t *fields, unsigned depth, tarn_error *err)
{
    tarn__layout layout;
    char shown[128];
    const char *name = s->name ? s->name : "";
    tarn_printable(shown, sizeof shown, name, strlen(name));
    if (depth > TARN_MAX_ARROW_DEPTH || ++*fields > TARN_MAX_ARROW_FIELDS)
        return tarn__fail(
            err, TARN_ERR_LIMIT,
            "the table has more than %u columns, or nests them more than %u deep",
            TARN_MAX_ARROW_FIELDS, TARN_MAX_ARROW_DEPTH);
    if (!s->format || !tarn__layout_get(s->format, &layout))
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "column %s has the unknown Arrow type %s", shown,
                          s->format ? s->format : "(none)");
    if (!has_its_children(s, &layout) ||
        (s->dictionary && layout.number != 'i' && layout.number != 'u'))
        return tarn__fail(
            err, TARN_ERR_FORMAT,
            "column %s has Arrow type %s, but not the children that the type requires",
            shown, s->format);
    if (s->dictionary) {
        size_t ordinal = dicts ? dicts->count : 0;
        if (dicts) TARN_TRY(add_dict(dicts, (int64_t)ordinal, err));
        if (dicts) dicts->items[ordinal].field = s;
        TARN_TRY(check_field(s->dictionary, dicts, fields, depth + 1, err));
        if (dicts) dicts->items[ordinal].next = (uint32_t)dicts->count;
    }
    for (int64_t i = 0; i < s->n_children; i++)
        TARN_TRY(check_field(s->children[i], dicts, fields, depth + 1, err));
    return TARN_OK;
}

tarn_status tarn__schema_check(const struct ArrowSchema *schema, tarn__dicts *dicts,
                               tarn_error *err)
{
    uint32_t fields = 0;
    if (!schema->format || strcmp(schema->format, "+s") != 0)
        return tarn__fail(err, TARN_ERR_USAGE, "a table must be a stream of structs");
    return check_field(schema, dicts, &fields, 0, err);
}

tarn_status tarn__schema_decode(flat schema, struct ArrowSchema *out, tarn__dicts *dicts,
                                tarn_error *err)
{
    decoding d = {dicts, 0, 0, err};
    ArrowSchemaInit(out);
    if (flat_i16(schema, SCHEMA_ENDIAN, 0) != 0)
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "the table has big-endian numbers, which are not supported");
    if (ArrowSchemaSetFormat(out, "+s") != 0 || ArrowSchemaSetName(out, "") != 0)
        return tarn__fail_memory(err);
    out->flags = 0;
    TARN_TRY(set_children(&d, out, flat_child(schema, SCHEMA_FIELDS), 1));
    TARN_TRY(set_metadata(&d, out, flat_child(schema, SCHEMA_META)));
    return tarn__schema_check(out, NULL, err);
}
