/* Arrow schemas: types with odd parameters, too many of everything, names and metadata
 * that are repeated many times; from a stream's metadata and from a caller. */
#include "support.h"

#include "base/bytes.h"
#include "iac/flatmake.h"
#include "iac/ipc.h"

static tarn_error err;

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* --- From metadata ------------------------------------------------------------------ */

typedef struct field {
    flat_ref name, type, children, dictionary, metadata;
    int number;
} field;

static flat_ref make_field(flatmake *m, const field *f)
{
    fm_table(m);
    fm_field_ref(m, FIELD_META, f->metadata);
    fm_field_ref(m, FIELD_CHILDREN, f->children);
    fm_field_ref(m, FIELD_DICTIONARY, f->dictionary);
    fm_field_ref(m, FIELD_TYPE, f->type);
    fm_field_ref(m, FIELD_NAME, f->name);
    fm_field(m, FIELD_TYPE_TYPE, f->number, 1, 0);
    fm_field(m, FIELD_NULLABLE, 1, 1, 0);
    return fm_table_end(m);
}

/* A type of up to three numbers; a width of 0 leaves one out. */
typedef struct numbers {
    struct {
        int64_t value;
        unsigned width;
    } at[3];
} numbers;

static flat_ref make_type(flatmake *m, const numbers *n)
{
    fm_table(m);
    for (unsigned i = 3; i-- > 0;)
        if (n->at[i].width) fm_field(m, i, n->at[i].value, n->at[i].width, INT64_MIN);
    return fm_table_end(m);
}

static flat_ref plain_type(flatmake *m)
{
    fm_table(m);
    return fm_table_end(m);
}

/* A field of the simple type of this number. */
static flat_ref plain_field(flatmake *m, int number, const char *name, flat_ref children)
{
    field f = {.number = number, .children = children};
    f.name = fm_string(m, name, strlen(name));
    f.type = plain_type(m);
    return make_field(m, &f);
}

/* Decodes the schema with these fields; *out must be released if it is accepted. */
static tarn_status decode(flatmake *m, const flat_ref *fields, size_t count,
                          flat_ref metadata, int endian, struct ArrowSchema *out)
{
    tarn__dicts dicts = {0};
    flat_ref list = fm_refs(m, fields, count);
    fm_table(m);
    fm_field_ref(m, SCHEMA_META, metadata);
    fm_field_ref(m, SCHEMA_FIELDS, list);
    fm_field(m, SCHEMA_ENDIAN, endian, 2, 0);
    flat_ref root = fm_table_end(m);
    assert_true(fm_finish(m, root));
    tarn_status status =
        tarn__schema_decode(flat_root(fm_data(m), (uint32_t)m->size), out, &dicts, &err);
    fm_reset(m);
    free(dicts.items);
    if (status != TARN_OK) out->release(out);
    return status;
}

static tarn_status decode_one(flatmake *m, flat_ref only, struct ArrowSchema *out)
{
    return decode(m, &only, 1, 0, 0, out);
}

static void types_are_taken_or_refused_by_their_numbers(void **state)
{
    (void)state;
    static const struct {
        int number;
        numbers n;
        const char *format; /* NULL: refused */
    } cases[] = {
        {TYPE_INT, {{{8, 4}, {1, 1}}}, "c"},
        {TYPE_INT, {{{64, 4}}}, "L"},
        {TYPE_INT, {{{24, 4}, {1, 1}}}, NULL},
        {TYPE_INT, {{{0, 0}}}, NULL},
        {TYPE_FLOAT, {{{2, 2}}}, "g"},
        {TYPE_FLOAT, {{{3, 2}}}, NULL},
        {TYPE_DATE, {{{0, 0}}}, "tdm"},
        {TYPE_DATE, {{{0, 2}}}, "tdD"},
        {TYPE_DATE, {{{2, 2}}}, NULL},
        {TYPE_TIME, {{{0, 0}}}, "ttm"},
        {TYPE_TIME, {{{0, 2}}}, "tts"},
        {TYPE_TIME, {{{2, 2}, {64, 4}}}, "ttu"},
        {TYPE_TIME, {{{3, 2}, {64, 4}}}, "ttn"},
        {TYPE_TIME, {{{2, 2}}}, NULL},
        {TYPE_TIME, {{{0, 2}, {64, 4}}}, NULL},
        {TYPE_TIME, {{{0, 2}, {16, 4}}}, NULL},
        {TYPE_TIMESTAMP, {{{3, 2}}}, "tsn:"},
        {TYPE_TIMESTAMP, {{{4, 2}}}, NULL},
        {TYPE_TIMESTAMP, {{{-1, 2}}}, NULL},
        {TYPE_INTERVAL, {{{0, 0}}}, "tiM"},
        {TYPE_INTERVAL, {{{1, 2}}}, "tiD"},
        {TYPE_INTERVAL, {{{2, 2}}}, "tin"},
        {TYPE_INTERVAL, {{{3, 2}}}, NULL},
        {TYPE_DURATION, {{{0, 0}}}, "tDm"},
        {TYPE_DURATION, {{{9, 2}}}, NULL},
        {TYPE_DECIMAL, {{{9, 4}, {2, 4}}}, "d:9,2"},
        {TYPE_DECIMAL, {{{9, 4}, {-2, 4}, {32, 4}}}, "d:9,-2,32"},
        {TYPE_DECIMAL, {{{40, 4}, {2, 4}, {256, 4}}}, "d:40,2,256"},
        {TYPE_DECIMAL, {{{9, 4}, {2, 4}, {48, 4}}}, NULL},
        {TYPE_DECIMAL, {{{9, 4}, {2, 4}, {-8, 4}}}, NULL},
        {TYPE_FIXED_BINARY, {{{7, 4}}}, "w:7"},
        {TYPE_FIXED_BINARY, {{{INT32_MAX, 4}}}, "w:2147483647"},
        {TYPE_FIXED_BINARY, {{{-7, 4}}}, NULL},
        {TYPE_FIXED_LIST, {{{-1, 4}}}, NULL},
        {TYPE_UNION, {{{0, 2}}}, "+us:"},
        {TYPE_UNION, {{{1, 2}}}, "+ud:"},
        {TYPE_UNION, {{{2, 2}}}, NULL},
        {TYPE_UNION, {{{-1, 2}}}, NULL},
        {TYPE_LARGE_UTF8, {{{0, 0}}}, "U"},
        {TYPE_UTF8_VIEW, {{{0, 0}}}, "vu"},
        {0, {{{0, 0}}}, NULL},
        {TYPE_LARGE_LIST_VIEW + 1, {{{0, 0}}}, NULL},
        {255, {{{0, 0}}}, NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        flatmake m;
        struct ArrowSchema out;
        field f = {.number = cases[i].number};
        fm_init(&m);
        f.name = fm_string(&m, "n\n", 2);
        f.type = make_type(&m, &cases[i].n);
        tarn_status got = decode_one(&m, make_field(&m, &f), &out);
        if (got == TARN_OK && cases[i].format) {
            assert_string_equal(out.children[0]->format, cases[i].format);
            out.release(&out);
        } else if (got == TARN_OK || cases[i].format) {
            fail_msg("case %zu: %s", i, got ? err.message : "it was taken");
        } else {
            assert_int_equal(got, TARN_ERR_UNSUPPORTED);
            assert_non_null(strstr(err.message, "column n\\x0a has Arrow type "));
        }
    }
}

/* A union of this many children, with the ids 0, step, 2 * step and so on. */
static tarn_status decode_union(size_t children, size_t ids, int32_t step,
                                struct ArrowSchema *out)
{
    flatmake m;
    flat_ref refs[200];
    int32_t type_ids[200];
    field f = {.number = TYPE_UNION};
    fm_init(&m);
    for (size_t i = 0; i < children; i++)
        refs[i] = plain_field(&m, TYPE_BOOL, "b", 0);
    for (size_t i = 0; i < ids; i++)
        type_ids[i] = (int32_t)i * step;
    f.children = fm_refs(&m, refs, children);
    flat_ref list = ids ? fm_items(&m, type_ids, ids, 4, 4) : 0;
    fm_table(&m);
    fm_field_ref(&m, 1, list);
    f.type = fm_table_end(&m);
    f.name = fm_string(&m, "u", 1);
    return decode_one(&m, make_field(&m, &f), out);
}

static void unions_have_as_many_types_as_children(void **state)
{
    (void)state;
    static const char *const part = "Arrow type 14 with unknown parameters";
    struct ArrowSchema out;
    OK(decode_union(3, 3, 5, &out));
    assert_string_equal(out.children[0]->format, "+us:0,5,10");
    out.release(&out);
    OK(decode_union(2, 0, 0, &out));
    assert_string_equal(out.children[0]->format, "+us:0,1");
    out.release(&out);
    OK(decode_union(127, 127, 1, &out));
    assert_non_null(strstr(out.children[0]->format, ",125,126"));
    out.release(&out);
    FAILS(TARN_ERR_UNSUPPORTED, part, decode_union(128, 128, 1, &out));
    FAILS(TARN_ERR_UNSUPPORTED, part, decode_union(3, 2, 1, &out));
    FAILS(TARN_ERR_UNSUPPORTED, part, decode_union(3, 3, 64, &out));
    FAILS(TARN_ERR_UNSUPPORTED, part, decode_union(3, 3, -1, &out));
}

static void types_have_the_children_they_must_have(void **state)
{
    (void)state;
    static const struct {
        int number, children[3], grandchildren;
        bool good;
    } cases[] = {
        {TYPE_LIST, {TYPE_BOOL}, 0, true},
        {TYPE_LIST, {0}, 0, false},
        {TYPE_LIST, {TYPE_BOOL, TYPE_BOOL}, 0, false},
        {TYPE_UTF8, {TYPE_BOOL}, 0, false},
        {TYPE_MAP, {TYPE_STRUCT}, 2, true},
        {TYPE_MAP, {TYPE_STRUCT}, 1, false},
        {TYPE_MAP, {TYPE_BOOL}, 0, false},
        {TYPE_RUN_END, {TYPE_BOOL, TYPE_BOOL}, 0, false},
        {TYPE_RUN_END, {TYPE_DATE, TYPE_BOOL}, 0, false},
        {TYPE_RUN_END, {TYPE_BOOL}, 0, false},
        {TYPE_STRUCT, {TYPE_BOOL, TYPE_UTF8, TYPE_BOOL}, 0, true},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        flatmake m;
        flat_ref inner[2], refs[3];
        struct ArrowSchema out;
        size_t count = 0;
        fm_init(&m);
        for (int k = 0; k < cases[i].grandchildren; k++)
            inner[k] = plain_field(&m, TYPE_BOOL, "k", 0);
        flat_ref below = cases[i].grandchildren
                             ? fm_refs(&m, inner, (size_t)cases[i].grandchildren)
                             : 0;
        for (; count < 3 && cases[i].children[count]; count++)
            refs[count] = plain_field(&m, cases[i].children[count], "c", below);
        flat_ref children = fm_refs(&m, refs, count);
        tarn_status got =
            decode_one(&m, plain_field(&m, cases[i].number, "n", children), &out);
        if ((got == TARN_OK) != cases[i].good)
            fail_msg("case %zu: %s", i, got ? err.message : "it was taken");
        if (got == TARN_OK)
            out.release(&out);
        else
            assert_non_null(
                strstr(err.message, "not the children that the type requires"));
    }
}

static void deep_and_wide_tables_are_refused(void **state)
{
    (void)state;
    for (unsigned deep = TARN_MAX_ARROW_DEPTH - 1; deep <= TARN_MAX_ARROW_DEPTH; deep++) {
        flatmake m;
        struct ArrowSchema out;
        fm_init(&m);
        flat_ref f = plain_field(&m, TYPE_BOOL, "b", 0);
        for (unsigned i = 0; i < deep; i++) {
            flat_ref list = fm_refs(&m, &f, 1);
            f = plain_field(&m, TYPE_LIST, "l", list);
        }
        if (deep < TARN_MAX_ARROW_DEPTH) {
            OK(decode_one(&m, f, &out));
            out.release(&out);
        } else {
            FAILS(TARN_ERR_LIMIT, "more than 64 deep", decode_one(&m, f, &out));
        }
    }
    flatmake m;
    struct ArrowSchema out;
    flat_ref *refs = calloc(TARN_MAX_ARROW_FIELDS + 1, sizeof *refs);
    fm_init(&m);
    flat_ref one = plain_field(&m, TYPE_BOOL, "", 0); /* repeated without a limit */
    for (size_t i = 0; i <= TARN_MAX_ARROW_FIELDS; i++)
        refs[i] = one;
    FAILS(TARN_ERR_LIMIT, "more than 65536 columns",
          decode(&m, refs, TARN_MAX_ARROW_FIELDS + 1, 0, 0, &out));
    free(refs);
}

/* The same megabyte in 70 places. */
static void names_and_metadata_count_each_time(void **state)
{
    (void)state;
    enum { LONG = 1 << 20, TIMES = 70 };
    char *text = malloc(LONG);
    memset(text, 't', LONG);
    for (int where = 0; where < 3; where++) {
        flatmake m;
        struct ArrowSchema out;
        flat_ref refs[TIMES], pairs[TIMES];
        fm_init(&m);
        flat_ref shared = fm_string(&m, text, LONG);
        fm_table(&m);
        fm_field_ref(&m, 1, shared);
        fm_field_ref(&m, 0, shared);
        flat_ref pair = fm_table_end(&m);
        for (size_t i = 0; i < TIMES; i++)
            pairs[i] = pair;
        flat_ref metadata = fm_refs(&m, pairs, TIMES);
        field f = {.number = TYPE_BOOL};
        f.type = plain_type(&m);
        if (where == 0) f.name = shared;
        if (where == 1) f.metadata = metadata;
        for (size_t i = 0; i < TIMES; i++)
            refs[i] = make_field(&m, &f);
        FAILS(
            TARN_ERR_LIMIT, "more than 67108864 bytes of names and metadata",
            decode(&m, refs, where == 0 ? TIMES : 1, where == 2 ? metadata : 0, 0, &out));
    }
    free(text);
}

static void names_metadata_and_byte_order_are_checked(void **state)
{
    (void)state;
    flatmake m;
    struct ArrowSchema out;
    fm_init(&m);
    flat_ref k = fm_string(&m, "key", 3), v = fm_string(&m, "value", 5);
    fm_table(&m);
    fm_field_ref(&m, 1, v);
    fm_field_ref(&m, 0, k);
    flat_ref pair = fm_table_end(&m), metadata = fm_refs(&m, &pair, 1);
    flat_ref one = plain_field(&m, TYPE_BOOL, "b", 0);
    OK(decode(&m, &one, 1, metadata, 0, &out));
    /* One pair, each text after its length. */
    assert_memory_equal(out.metadata, "\1\0\0\0\3\0\0\0key\5\0\0\0value", 20);
    out.release(&out);
    fm_init(&m);
    one = plain_field(&m, TYPE_BOOL, "b", 0);
    FAILS(TARN_ERR_UNSUPPORTED, "big-endian", decode(&m, &one, 1, 0, 1, &out));
    fm_init(&m);
    FAILS(TARN_ERR_FORMAT, "not UTF-8",
          decode_one(&m, plain_field(&m, TYPE_BOOL, "\xff", 0), &out));
    fm_init(&m);
    field f = {.number = TYPE_BOOL};
    f.name = fm_string(&m, "a\0b", 3);
    f.type = plain_type(&m);
    FAILS(TARN_ERR_FORMAT, "or contains a NUL", decode_one(&m, make_field(&m, &f), &out));
}

/* A field of texts in a dictionary. */
static flat_ref dictionary_field(flatmake *m, int64_t id, int bits, int kind)
{
    field f = {.number = TYPE_UTF8};
    flat_ref index = bits ? make_type(m, &(numbers){{{bits, 4}, {1, 1}}}) : 0;
    fm_table(m);
    fm_field(m, DICT_ID, id, 8, 0);
    fm_field_ref(m, DICT_INDEX, index);
    fm_field(m, DICT_KIND, kind, 2, 0);
    f.dictionary = fm_table_end(m);
    f.name = fm_string(m, "d", 1);
    f.type = plain_type(m);
    return make_field(m, &f);
}

static void dictionaries_are_of_a_known_kind(void **state)
{
    (void)state;
    static const struct {
        int bits, kind;
        const char *format;
    } cases[] = {{0, 0, "i"}, {8, 0, "c"}, {64, 0, "l"}, {24, 0, NULL}, {8, 1, NULL}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        flatmake m;
        struct ArrowSchema out;
        fm_init(&m);
        flat_ref f = dictionary_field(&m, 3, cases[i].bits, cases[i].kind);
        if (cases[i].format) {
            OK(decode_one(&m, f, &out));
            assert_string_equal(out.children[0]->format, cases[i].format);
            assert_string_equal(out.children[0]->dictionary->format, "u");
            out.release(&out);
        } else {
            FAILS(TARN_ERR_UNSUPPORTED, "an unknown kind of dictionary",
                  decode_one(&m, f, &out));
        }
    }
}

static void too_many_dictionaries_are_refused(void **state)
{
    (void)state;
    enum { LIMIT = 4096 };
    for (size_t count = LIMIT; count <= LIMIT + 1; count++) {
        flatmake m;
        struct ArrowSchema out;
        flat_ref *refs = calloc(count, sizeof *refs);
        fm_init(&m);
        for (size_t i = 0; i < count; i++) /* each id twice */
            refs[i] = dictionary_field(&m, (int64_t)(i % 2048), 8, 0);
        if (count == LIMIT) {
            OK(decode(&m, refs, count, 0, 0, &out));
            out.release(&out);
        } else {
            FAILS(TARN_ERR_LIMIT, "more than 4096 dictionary-encoded columns",
                  decode(&m, refs, count, 0, 0, &out));
        }
        free(refs);
    }
}

/* --- From a caller ------------------------------------------------------------------ */

static void schemas_of_callers_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *root, *format, *dictionary;
        tarn_status want;
        const char *part;
    } cases[] = {
        {"+s", "i", NULL, TARN_OK, NULL},
        {"+s", "i", "u", TARN_OK, NULL},
        {"+s", "I", "u", TARN_OK, NULL},
        {NULL, "i", NULL, TARN_ERR_USAGE, "a stream of structs"},
        {"+l", "i", NULL, TARN_ERR_USAGE, "a stream of structs"},
        {"+s", NULL, NULL, TARN_ERR_UNSUPPORTED, "the unknown Arrow type (none)"},
        {"+s", "q", NULL, TARN_ERR_UNSUPPORTED, "the unknown Arrow type q"},
        {"+s", "f", "u", TARN_ERR_FORMAT, "Arrow type f, but not the children"},
        {"+s", "u", "u", TARN_ERR_FORMAT, "Arrow type u, but not the children"},
        {"+s", "i", "q", TARN_ERR_UNSUPPORTED, "Arrow type q"},
        {"+s", "+r", NULL, TARN_ERR_FORMAT, "not the children"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct ArrowSchema dictionary = {.format = cases[i].dictionary};
        struct ArrowSchema child = {.format = cases[i].format}, *children[] = {&child},
                           root = {.format = cases[i].root,
                                   .n_children = 1,
                                   .children = children};
        tarn__dicts dicts = {0};
        if (cases[i].dictionary) child.dictionary = &dictionary;
        for (int listed = 0; listed < 2; listed++) {
            tarn_status got = tarn__schema_check(&root, listed ? &dicts : NULL, &err);
            if (cases[i].want == TARN_OK)
                OK(got);
            else
                FAILS(cases[i].want, cases[i].part, got);
        }
        if (cases[i].want == TARN_OK)
            assert_int_equal(dicts.count, cases[i].dictionary != NULL);
        free(dicts.items);
    }
}

static void run_ends_of_callers_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        bool dictionary, good;
    } cases[] = {{"s", false, true},  {"i", false, true},    {"l", false, true},
                 {"c", false, false}, {"tdD", false, false}, {"i", true, false}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct ArrowSchema words = {.format = "u"}, values = {.format = "b"};
        struct ArrowSchema ends = {.format = cases[i].format}, *pair[] = {&ends, &values};
        struct ArrowSchema runs = {.format = "+r", .n_children = 2, .children = pair};
        struct ArrowSchema *only[] = {&runs};
        struct ArrowSchema root = {.format = "+s", .n_children = 1, .children = only};
        if (cases[i].dictionary) ends.dictionary = &words;
        tarn_status got = tarn__schema_check(&root, NULL, &err);
        if (cases[i].good)
            OK(got);
        else
            FAILS(TARN_ERR_FORMAT, "not the children", got);
    }
}

static void deep_and_wide_schemas_of_callers_are_refused(void **state)
{
    (void)state;
    static struct ArrowSchema chain[TARN_MAX_ARROW_DEPTH + 2], *below[COUNT(chain)];
    for (size_t i = 0; i + 1 < COUNT(chain); i++) {
        below[i] = &chain[i + 1];
        chain[i] =
            (struct ArrowSchema){.format = "+s", .n_children = 1, .children = &below[i]};
    }
    chain[COUNT(chain) - 1] = (struct ArrowSchema){.format = "b"};
    FAILS(TARN_ERR_LIMIT, "more than 64 deep", tarn__schema_check(chain, NULL, &err));
    OK(tarn__schema_check(chain + 1, NULL, &err));
    struct ArrowSchema words = {.format = "u"}, one = {.format = "c"};
    struct ArrowSchema **many = calloc(TARN_MAX_ARROW_FIELDS, sizeof *many);
    struct ArrowSchema root = {.format = "+s", .children = many};
    tarn__dicts dicts = {0};
    for (size_t i = 0; i < TARN_MAX_ARROW_FIELDS; i++)
        many[i] = &one;
    root.n_children = TARN_MAX_ARROW_FIELDS - 1;
    OK(tarn__schema_check(&root, &dicts, &err));
    root.n_children++;
    FAILS(TARN_ERR_LIMIT, "more than 65536 columns",
          tarn__schema_check(&root, &dicts, &err));
    one.dictionary = &words;
    root.n_children = 4097;
    FAILS(TARN_ERR_LIMIT, "more than 4096 dictionary-encoded",
          tarn__schema_check(&root, &dicts, &err));
    free(dicts.items);
    free(many);
}

/* Unions whose type ids are 0 and 5. */
static void union_types_refer_to_existing_children(void **state)
{
    (void)state;
    signed char types[] = {5, 0, 5};
    int32_t offsets[] = {0, 0, 1};
    const void *buffers[] = {types, offsets};
    struct ArrowSchema number = {.format = "i", .name = "n"},
                       *schemas[] = {&number, &number};
    struct ArrowArray values = {.length = 2}, *arrays[] = {&values, &values};
    struct ArrowSchema schema = {.name = "u", .n_children = 2, .children = schemas};
    struct ArrowArray array = {.length = 3,
                               .n_buffers = 2,
                               .buffers = buffers,
                               .n_children = 2,
                               .children = arrays};
    static const char *const formats[] = {"+us:0,5", "+ud:0,5"};
    static const signed char wrong[] = {1, 4, 6, 127, -1, -128};
    for (int dense = 0; dense < 2; dense++) {
        schema.format = formats[dense];
        types[2] = 5;
        OK(tarn__array_validate(&schema, &array, &err));
        array.n_children = 1; /* there is no child for 5 */
        FAILS(TARN_ERR_FORMAT, "row 0", tarn__array_validate(&schema, &array, &err));
        array.n_children = 2;
        for (size_t i = 0; i < sizeof wrong; i++) {
            types[2] = wrong[i];
            FAILS(TARN_ERR_FORMAT, "column u, row 2 of a batch: its type is not one",
                  tarn__array_validate(&schema, &array, &err));
        }
    }
    types[2] = 5;
    offsets[2] = 2;
    FAILS(TARN_ERR_FORMAT, "not inside the values",
          tarn__array_validate(&schema, &array, &err));
}

static void the_number_of_nulls_is_that_of_the_bitmap(void **state)
{
    (void)state;
    unsigned char bits[] = {0xfb, 0x01}; /* of nine values, one is null */
    int32_t values[9] = {0};
    const void *buffers[] = {bits, values};
    uint64_t left = 0;
    struct ArrowSchema schema = {.format = "i", .name = "n"};
    struct ArrowArray array = {
        .length = 9, .null_count = 1, .n_buffers = 2, .buffers = buffers};
    OK(tarn__array_check_values(&schema, &array, &left, &err));
    array.null_count = 2;
    FAILS(TARN_ERR_FORMAT, "column n: a batch reports 2 nulls, but has 1",
          tarn__array_check_values(&schema, &array, &left, &err));
    buffers[0] = NULL;
    OK(tarn__array_check_values(&schema, &array, &left, &err));
}

/* A small file may have many views of the same long bytes. */
static void texts_that_overlap_take_no_more_than_their_limit(void **state)
{
    (void)state;
    enum { VIEWS = 100, LONG = 1000 };
    static unsigned char views[VIEWS][16], data[LONG + 1];
    const void *buffers[] = {NULL, views, data, NULL};
    uint64_t sizes[] = {0, sizeof views, sizeof data, 8, 0}, left;
    struct ArrowSchema schema = {.format = "vu", .name = "t"};
    struct ArrowArray array = {
        .length = VIEWS, .n_buffers = 4, .buffers = buffers, .private_data = sizes};
    memset(data, 'a', LONG);
    for (int i = 0; i < VIEWS; i++) {
        tarn__put32(views[i], LONG - 100);
        memset(views[i] + 4, 'a', 4);
        tarn__put32(views[i] + 12, (uint32_t)i);
    }
    OK(tarn__array_validate(&schema, &array, &err));
    left = sizeof data;
    OK(tarn__array_check_values(&schema, &array, &left, &err));
    assert_int_equal(left, 0);
    data[LONG] = 0xff;
    left = sizeof data + 10 * (LONG - 100) + 1;
    FAILS(TARN_ERR_FORMAT, "row 10 of a batch: its texts overlap so much",
          tarn__array_check_values(&schema, &array, &left, &err));
    assert_int_equal(left, 1);
    left = sizeof data + VIEWS * (LONG - 100);
    OK(tarn__array_check_values(&schema, &array, &left, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_are_taken_or_refused_by_their_numbers),
        cmocka_unit_test(unions_have_as_many_types_as_children),
        cmocka_unit_test(union_types_refer_to_existing_children),
        cmocka_unit_test(the_number_of_nulls_is_that_of_the_bitmap),
        cmocka_unit_test(texts_that_overlap_take_no_more_than_their_limit),
        cmocka_unit_test(types_have_the_children_they_must_have),
        cmocka_unit_test(deep_and_wide_tables_are_refused),
        cmocka_unit_test(names_and_metadata_count_each_time),
        cmocka_unit_test(names_metadata_and_byte_order_are_checked),
        cmocka_unit_test(dictionaries_are_of_a_known_kind),
        cmocka_unit_test(too_many_dictionaries_are_refused),
        cmocka_unit_test(schemas_of_callers_are_checked),
        cmocka_unit_test(run_ends_of_callers_are_checked),
        cmocka_unit_test(deep_and_wide_schemas_of_callers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
