/* Writes schemas as IPC metadata, field by field in the order of Arrow C++. */
#include <stdlib.h>
#include <string.h>

#include <nanoarrow/nanoarrow.h>

#include "iac/flatmake.h"
#include "iac/ipc.h"

flat_ref tarn__ipc_schema_make(flatmake *m, const struct ArrowSchema *schema,
                               const tarn__dicts *dicts);

typedef struct typed {
    int number;
    flat_ref type;
} typed;

static flat_ref one(flatmake *m, int64_t value, unsigned width, int64_t otherwise)
{
    fm_table(m);
    fm_field(m, 0, value, width, otherwise);
    return fm_table_end(m);
}

/* The wider field comes first. */
static flat_ref make_plain(flatmake *m, const tarn__type *t)
{
    tarn__type_fields f = tarn__type_fields_of(t->number);
    unsigned first = f.width[1] > f.width[0], second = !first;
    fm_table(m);
    if (f.width[first])
        fm_field(m, first, first ? t->b : t->a, f.width[first], f.otherwise[first]);
    if (f.width[second])
        fm_field(m, second, second ? t->b : t->a, f.width[second], f.otherwise[second]);
    return fm_table_end(m);
}

static typed make_timestamp(flatmake *m, const char *f)
{
    static const char units[] = "smun";
    flat_ref zone = f[4] ? fm_string(m, f + 4, strlen(f + 4)) : 0;
    fm_table(m);
    fm_field_ref(m, 1, zone);
    fm_field(m, 0, strchr(units, f[2]) - units, 2, 0);
    return (typed){TYPE_TIMESTAMP, fm_table_end(m)};
}

static typed make_decimal(flatmake *m, const char *f)
{
    long numbers[3] = {0, 0, 128};
    const char *at = f + 2;
    char *end;
    for (int i = 0; i < 3 && *at; i++) {
        numbers[i] = strtol(at, &end, 10);
        at = *end ? end + 1 : end;
    }
    fm_table(m);
    fm_field(m, 2, numbers[2], 4, 128);
    fm_field(m, 1, numbers[1], 4, 0);
    fm_field(m, 0, numbers[0], 4, 0);
    return (typed){TYPE_DECIMAL, fm_table_end(m)};
}

static typed make_union(flatmake *m, const char *f)
{
    int32_t ids[128];
    size_t count = 0;
    const char *at = f + 4;
    while (*at && count < 128) {
        char *end;
        ids[count++] = (int32_t)strtol(at, &end, 10);
        at = *end ? end + 1 : end;
    }
    flat_ref list = fm_items(m, ids, count, 4, 4);
    fm_table(m);
    fm_field_ref(m, 1, list);
    fm_field(m, 0, f[2] == 'd', 2, 0);
    return (typed){TYPE_UNION, fm_table_end(m)};
}

static typed make_type(flatmake *m, const struct ArrowSchema *schema)
{
    const char *f = schema->format;
    const tarn__type *plain = tarn__type_of(f);
    if (strcmp(f, "+m") == 0)
        return (typed){TYPE_MAP,
                       one(m, (schema->flags & ARROW_FLAG_MAP_KEYS_SORTED) != 0, 1, 0)};
    if (plain) return (typed){plain->number, make_plain(m, plain)};
    if (f[0] == 't') return make_timestamp(m, f);
    if (f[0] == 'd') return make_decimal(m, f);
    if (f[0] == 'w')
        return (typed){TYPE_FIXED_BINARY, one(m, strtol(f + 2, NULL, 10), 4, 0)};
    if (f[1] == 'w')
        return (typed){TYPE_FIXED_LIST, one(m, strtol(f + 3, NULL, 10), 4, 0)};
    return make_union(m, f);
}

static flat_ref make_metadata(flatmake *m, const char *metadata)
{
    struct ArrowMetadataReader reader;
    struct ArrowStringView key, value;
    if (!metadata || ArrowMetadataReaderInit(&reader, metadata) != 0 ||
        reader.remaining_keys <= 0)
        return 0;
    size_t count = 0, all = (size_t)reader.remaining_keys;
    flat_ref *pairs = calloc(all, sizeof *pairs);
    if (!pairs) {
        m->failed = true;
        return 0;
    }
    while (count < all && ArrowMetadataReaderRead(&reader, &key, &value) == 0) {
        flat_ref k = fm_string(m, key.data, (size_t)key.size_bytes);
        flat_ref v = fm_string(m, value.data, (size_t)value.size_bytes);
        fm_table(m);
        fm_field_ref(m, 1, v);
        fm_field_ref(m, 0, k);
        pairs[count++] = fm_table_end(m);
    }
    flat_ref list = fm_refs(m, pairs, count);
    free(pairs);
    return list;
}

static flat_ref make_dictionary(flatmake *m, const struct ArrowSchema *schema, int64_t id)
{
    flat_ref index = make_plain(m, tarn__type_of(schema->format));
    fm_table(m);
    fm_field(m, DICT_ID, id, 8, 0);
    fm_field_ref(m, DICT_INDEX, index);
    fm_field(m, DICT_ORDERED, (schema->flags & ARROW_FLAG_DICTIONARY_ORDERED) != 0, 1, 0);
    return fm_table_end(m);
}

static flat_ref make_field(flatmake *m, const struct ArrowSchema *schema,
                           const tarn__dicts *dicts, size_t *next);

static flat_ref *make_fields(flatmake *m, const struct ArrowSchema *parent,
                             const tarn__dicts *dicts, size_t *next)
{
    size_t n = (size_t)parent->n_children;
    flat_ref *refs = calloc(n + 1, sizeof *refs);
    if (!refs) m->failed = true;
    for (size_t i = 0; refs && i < n; i++)
        refs[i] = make_field(m, parent->children[i], dicts, next);
    return refs;
}

static flat_ref make_field(flatmake *m, const struct ArrowSchema *schema,
                           const tarn__dicts *dicts, size_t *next)
{
    const struct ArrowSchema *values = schema->dictionary ? schema->dictionary : schema;
    const char *name = schema->name ? schema->name : "";
    int64_t id = schema->dictionary ? dicts->items[(*next)++].id : 0;
    flat_ref *children = make_fields(m, values, dicts, next);
    typed type = make_type(m, values);
    flat_ref dictionary = schema->dictionary ? make_dictionary(m, schema, id) : 0;
    flat_ref name_ref = fm_string(m, name, strlen(name));
    flat_ref list = children ? fm_refs(m, children, (size_t)values->n_children) : 0;
    free(children);
    flat_ref metadata = make_metadata(m, schema->metadata);
    fm_table(m);
    fm_field_ref(m, FIELD_META, metadata);
    fm_field_ref(m, FIELD_CHILDREN, list);
    fm_field_ref(m, FIELD_DICTIONARY, dictionary);
    fm_field_ref(m, FIELD_TYPE, type.type);
    fm_field_ref(m, FIELD_NAME, name_ref);
    fm_field(m, FIELD_TYPE_TYPE, type.number, 1, 0);
    fm_field(m, FIELD_NULLABLE, (schema->flags & ARROW_FLAG_NULLABLE) != 0, 1, 0);
    return fm_table_end(m);
}

flat_ref tarn__ipc_schema_make(flatmake *m, const struct ArrowSchema *schema,
                               const tarn__dicts *dicts)
{
    size_t next = 0;
    flat_ref *fields = make_fields(m, schema, dicts, &next);
    flat_ref list = fields ? fm_refs(m, fields, (size_t)schema->n_children) : 0;
    free(fields);
    flat_ref metadata = make_metadata(m, schema->metadata);
    fm_table(m);
    fm_field_ref(m, SCHEMA_META, metadata);
    fm_field_ref(m, SCHEMA_FIELDS, list);
    return fm_table_end(m);
}
