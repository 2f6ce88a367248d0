/* The metadata of Arrow messages, damaged by hand: everything that points outside the
 * message is refused, with the name of the part and its position. */
#include "packing.h"

#include "base/bytes.h"
#include "iac/flatmake.h"
#include "iac/ipc.h"

enum { BASE = 1000, ITEM = 100, END = -1 };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* --- Messages with every kind of part ----------------------------------------------- */

static flat_ref one_pair(flatmake *m)
{
    flat_ref key = fm_string(m, "key", 3), value = fm_string(m, "value", 5);
    fm_table(m);
    fm_field_ref(m, 1, value);
    fm_field_ref(m, 0, key);
    flat_ref pair = fm_table_end(m);
    return fm_refs(m, &pair, 1);
}

static flat_ref union_child(flatmake *m)
{
    static const int32_t ids[] = {0, 1};
    flat_ref name = fm_string(m, "child", 5), list = fm_items(m, ids, 2, 4, 4);
    fm_table(m);
    fm_field(m, 0, 1, 2, 0); /* in this order, its vtable is not the timestamp's */
    fm_field_ref(m, 1, list);
    flat_ref type = fm_table_end(m);
    fm_table(m);
    fm_field_ref(m, FIELD_TYPE, type);
    fm_field_ref(m, FIELD_NAME, name);
    fm_field(m, FIELD_TYPE_TYPE, TYPE_UNION, 1, 0);
    flat_ref child = fm_table_end(m);
    return fm_refs(m, &child, 1);
}

static flat_ref zoned_field(flatmake *m)
{
    flat_ref name = fm_string(m, "when", 4), zone = fm_string(m, "UTC", 3),
             pairs = one_pair(m), children = union_child(m);
    fm_table(m);
    fm_field_ref(m, 1, zone);
    fm_field(m, 0, 1, 2, 0);
    flat_ref type = fm_table_end(m);
    fm_table(m);
    fm_field(m, 0, 32, 4, 0);
    flat_ref index = fm_table_end(m);
    fm_table(m);
    fm_field(m, DICT_ID, 7, 8, 0);
    fm_field_ref(m, DICT_INDEX, index);
    flat_ref dictionary = fm_table_end(m);
    fm_table(m);
    fm_field_ref(m, FIELD_META, pairs);
    fm_field_ref(m, FIELD_CHILDREN, children);
    fm_field_ref(m, FIELD_DICTIONARY, dictionary);
    fm_field_ref(m, FIELD_TYPE, type);
    fm_field_ref(m, FIELD_NAME, name);
    fm_field(m, FIELD_TYPE_TYPE, TYPE_TIMESTAMP, 1, 0);
    return fm_table_end(m);
}

static flat_ref schema_header(flatmake *m)
{
    static const int64_t features[] = {1};
    flat_ref field = zoned_field(m), fields = fm_refs(m, &field, 1);
    flat_ref list = fm_items(m, features, 1, 8, 8);
    fm_table(m);
    fm_field_ref(m, SCHEMA_FEATURES, list);
    fm_field_ref(m, SCHEMA_FIELDS, fields);
    return fm_table_end(m);
}

static flat_ref dictionary_header(flatmake *m)
{
    static const int64_t pairs[] = {1, 0, 2, 0}, counts[] = {0};
    flat_ref nodes = fm_items(m, pairs, 2, 16, 8), buffers = fm_items(m, pairs, 2, 16, 8),
             variadic = fm_items(m, counts, 1, 8, 8);
    fm_table(m);
    fm_field(m, 0, 1, 1, 0);
    flat_ref compression = fm_table_end(m);
    fm_table(m);
    fm_field(m, BATCH_LENGTH, 2, 8, 0);
    fm_field_ref(m, BATCH_VARIADIC, variadic);
    fm_field_ref(m, BATCH_COMPRESSION, compression);
    fm_field_ref(m, BATCH_BUFFERS, buffers);
    fm_field_ref(m, BATCH_NODES, nodes);
    flat_ref batch = fm_table_end(m);
    fm_table(m);
    fm_field(m, DICTBATCH_ID, 7, 8, 0);
    fm_field_ref(m, DICTBATCH_DATA, batch);
    return fm_table_end(m);
}

static void finish(flatmake *m, int type, flat_ref header)
{
    fm_table(m);
    fm_field(m, MESSAGE_BODY, 64, 8, 0);
    fm_field_ref(m, MESSAGE_HEADER, header);
    fm_field(m, MESSAGE_VERSION, IPC_V5, 2, 0);
    fm_field(m, MESSAGE_HEADER_TYPE, type, 1, 0);
    assert_true(fm_finish(m, fm_table_end(m)));
}

/* A message of this type in a separate allocation, so that reads past its end are
 * detected. */
static unsigned char *make_message(int type, uint32_t *out_size)
{
    flatmake m;
    fm_init(&m);
    finish(&m, type, type == IPC_SCHEMA ? schema_header(&m) : dictionary_header(&m));
    unsigned char *copy = malloc(m.size);
    memcpy(copy, fm_data(&m), m.size);
    *out_size = (uint32_t)m.size;
    fm_reset(&m);
    return copy;
}

/* --- Damage ------------------------------------------------------------------------- */

/* A part of a message: slots from the root, with ITEM + i for item i of a vector. */
typedef struct part {
    int type;
    int path[8];
    const char *name;
} part;

static flat table_of(const unsigned char *data, uint32_t size, const int *path,
                     int *out_slot)
{
    flat at = flat_root(data, size);
    for (; path[1] != END; path++)
        at = path[0] >= ITEM ? flat_item(at, (uint32_t)(path[0] - ITEM))
                             : flat_child(at, (unsigned)path[0]);
    *out_slot = path[0];
    assert_true(at.at != 0);
    return at;
}

typedef enum damage { SLOT, OFFSET, LENGTH } damage;

/* The position of the number to change: a vtable's entry, the offset, or the count at its
 * target. */
static uint32_t place_of(const unsigned char *data, uint32_t size, const part *p,
                         damage what)
{
    int slot;
    flat table = table_of(data, size, p->path, &slot);
    if (what == SLOT)
        return table.at - tarn__get32(data + table.at) + 4 + 2 * (uint32_t)slot;
    uint32_t from = slot >= ITEM ? table.at + 4 + 4 * (uint32_t)(slot - ITEM)
                                 : flat_slot(table, (unsigned)slot, 1);
    assert_true(from != 0);
    return what == OFFSET ? from : from + tarn__get32(data + from);
}

static void refuse(const part *p, damage what, uint32_t value, const char *why)
{
    uint32_t size;
    unsigned char *data = make_message(p->type, &size);
    OK(tarn__message_check(data, size, BASE, &err));
    uint32_t at = place_of(data, size, p, what);
    if (what == SLOT)
        tarn__put16(data + at, (uint16_t)value);
    else
        tarn__put32(data + at, value);
    FAILS(TARN_ERR_FORMAT, p->name, tarn__message_check(data, size, BASE, &err));
    assert_non_null(strstr(err.message, why));
    assert_in_range(err.offset, BASE, BASE + size);
    if (what != SLOT) assert_int_equal(err.offset, BASE + at);
    free(data);
}

static const part numbers[] = {
    {IPC_SCHEMA, {0, END}, "Message.version"},
    {IPC_SCHEMA, {1, END}, "Message.header_type"},
    {IPC_SCHEMA, {3, END}, "Message.bodyLength"},
    {IPC_SCHEMA, {2, 1, ITEM, 2, END}, "Field.type_type"},
    {IPC_SCHEMA, {2, 1, ITEM, 3, 0, END}, "Timestamp.unit"},
    {IPC_SCHEMA, {2, 1, ITEM, 4, 0, END}, "DictionaryEncoding.id"},
    {IPC_SCHEMA, {2, 1, ITEM, 4, 1, 0, END}, "Int.bitWidth"},
    {IPC_SCHEMA, {2, 1, ITEM, 5, ITEM, 3, 0, END}, "Union.mode"},
    {IPC_DICTIONARY, {2, 0, END}, "DictionaryBatch.id"},
    {IPC_DICTIONARY, {2, 1, 0, END}, "RecordBatch.length"},
    {IPC_DICTIONARY, {2, 1, 3, 0, END}, "BodyCompression.codec"},
};

static const part vectors[] = {
    {IPC_SCHEMA, {2, 1, END}, "Schema.fields"},
    {IPC_SCHEMA, {2, 3, END}, "Schema.features"},
    {IPC_SCHEMA, {2, 1, ITEM, 5, END}, "Field.children"},
    {IPC_SCHEMA, {2, 1, ITEM, 6, END}, "Field.custom_metadata"},
    {IPC_SCHEMA, {2, 1, ITEM, 5, ITEM, 3, 1, END}, "Union.typeIds"},
    {IPC_DICTIONARY, {2, 1, 1, END}, "RecordBatch.nodes"},
    {IPC_DICTIONARY, {2, 1, 2, END}, "RecordBatch.buffers"},
    {IPC_DICTIONARY, {2, 1, 4, END}, "RecordBatch.variadicBufferCounts"},
};

static const part texts[] = {
    {IPC_SCHEMA, {2, 1, ITEM, 0, END}, "Field.name"},
    {IPC_SCHEMA, {2, 1, ITEM, 3, 1, END}, "Timestamp.timezone"},
    {IPC_SCHEMA, {2, 1, ITEM, 6, ITEM, 0, END}, "KeyValue.key"},
    {IPC_SCHEMA, {2, 1, ITEM, 6, ITEM, 1, END}, "KeyValue.value"},
};

static const part tables[] = {
    {IPC_SCHEMA, {2, END}, "Message.header"},
    {IPC_SCHEMA, {2, 1, ITEM, 3, END}, "Field.type"},
    {IPC_SCHEMA, {2, 1, ITEM, 4, END}, "Field.dictionary"},
    {IPC_SCHEMA, {2, 1, ITEM, 4, 1, END}, "DictionaryEncoding.indexType"},
    {IPC_DICTIONARY, {2, 1, END}, "DictionaryBatch.data"},
    {IPC_DICTIONARY, {2, 1, 3, END}, "RecordBatch.compression"},
};

static void slots_outside_their_table_are_refused(void **state)
{
    (void)state;
    static const struct {
        const part *parts;
        size_t count;
    } all[] = {{numbers, COUNT(numbers)},
               {vectors, COUNT(vectors)},
               {texts, COUNT(texts)},
               {tables, COUNT(tables)}};
    for (size_t k = 0; k < COUNT(all); k++)
        for (size_t i = 0; i < all[k].count; i++) {
            refuse(&all[k].parts[i], SLOT, 3, "is not inside its table");
            refuse(&all[k].parts[i], SLOT, 4000, "is not inside its table");
            refuse(&all[k].parts[i], SLOT, 0xffff, "is not inside its table");
        }
}

static void check_offsets(const part *parts, size_t count)
{
    static const uint32_t values[] = {0, 2, 4000, 0x7ffffffc, 0x80000000, 0xfffffffc};
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < COUNT(values); k++)
            refuse(&parts[i], OFFSET, values[k], "is not inside the message");
}

static void offsets_outside_the_message_are_refused(void **state)
{
    (void)state;
    static const part items[] = {{IPC_SCHEMA, {2, 1, ITEM, END}, "Field"},
                                 {IPC_SCHEMA, {2, 1, ITEM, 5, ITEM, END}, "Field"},
                                 {IPC_SCHEMA, {2, 1, ITEM, 6, ITEM, END}, "KeyValue"}};
    check_offsets(vectors, COUNT(vectors));
    check_offsets(texts, COUNT(texts));
    check_offsets(tables, COUNT(tables));
    check_offsets(items, COUNT(items));
}

static void counts_past_the_end_are_refused(void **state)
{
    (void)state;
    static const uint32_t values[] = {4000, 0x10000000, 0x80000000, 0xffffffff};
    for (size_t k = 0; k < COUNT(values); k++) {
        for (size_t i = 0; i < COUNT(vectors); i++)
            refuse(&vectors[i], LENGTH, values[k],
                   "has more items than fit into the message");
        for (size_t i = 0; i < COUNT(texts); i++)
            refuse(&texts[i], LENGTH, values[k], "does not end inside the message");
    }
    for (size_t i = 0; i < COUNT(texts); i++) /* inside, but without a NUL after it */
        refuse(&texts[i], LENGTH, 1, "with a NUL");
}

/* The number at the beginning of a table, and the two in its vtable. */
static void vtables_out_of_range_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint32_t at, value;
        const char *why;
    } cases[] = {{0, 0x7fffffff, "vtable outside"}, {0, 0x80000000, "vtable outside"},
                 {0, 0xffff0000, "vtable outside"}, {0, 1, "not aligned"},
                 {1, 0, "impossible size"},         {1, 5, "impossible size"},
                 {1, 0xfffe, "impossible size"},    {2, 0xffff, "longer than the"}};
    for (size_t i = 0; i < COUNT(tables); i++)
        for (size_t k = 0; k < COUNT(cases); k++) {
            uint32_t size;
            unsigned char *data = make_message(tables[i].type, &size);
            uint32_t table = place_of(data, size, &tables[i], LENGTH),
                     vtable = table - tarn__get32(data + table);
            if (cases[k].at == 0)
                tarn__put32(data + table, cases[k].value);
            else
                tarn__put16(data + vtable + 2 * (cases[k].at - 1),
                            (uint16_t)cases[k].value);
            FAILS(TARN_ERR_FORMAT, cases[k].why,
                  tarn__message_check(data, size, BASE, &err));
            free(data);
        }
}

static void a_value_without_a_type_is_refused(void **state)
{
    (void)state;
    uint32_t size;
    unsigned char *data = make_message(IPC_SCHEMA, &size);
    data[place_of(data, size, &numbers[1], OFFSET)] = 0;
    FAILS(TARN_ERR_FORMAT, "Message.header has a value but no type",
          tarn__message_check(data, size, BASE, &err));
    assert_int_not_equal(err.offset, TARN_NO_OFFSET);
    free(data);
}

static void cut_anywhere_a_message_is_refused(void **state)
{
    (void)state;
    for (int type = IPC_SCHEMA; type <= IPC_DICTIONARY; type++) {
        uint32_t size;
        unsigned char *data = make_message(type, &size);
        for (uint32_t len = 0; len < size; len++) {
            unsigned char *cut = malloc(len ? len : 1);
            memcpy(cut, data, len);
            /* A cut at the very end may only remove padding. */
            if (tarn__message_check(cut, len, BASE, &err) == TARN_OK)
                assert_true(size - len < 8);
            free(cut);
        }
        free(data);
    }
}

/* A chain of fields with one child each, or of fields whose two children are the same. */
static tarn_status check_nested(unsigned levels, size_t children)
{
    flatmake m;
    flat_ref child = 0;
    fm_init(&m);
    for (unsigned i = 0; i < levels; i++) {
        flat_ref same[2] = {child, child}, list = child ? fm_refs(&m, same, children) : 0;
        fm_table(&m);
        fm_field_ref(&m, FIELD_CHILDREN, list);
        child = fm_table_end(&m);
    }
    flat_ref list = fm_refs(&m, &child, 1);
    fm_table(&m);
    fm_field_ref(&m, SCHEMA_FIELDS, list);
    finish(&m, IPC_SCHEMA, fm_table_end(&m));
    tarn_status status = tarn__message_check(fm_data(&m), (uint32_t)m.size, BASE, &err);
    fm_reset(&m);
    return status;
}

static void tables_too_deep_or_too_many_are_refused(void **state)
{
    (void)state;
    OK(check_nested(TARN_MAX_ARROW_DEPTH, 1));
    FAILS(TARN_ERR_LIMIT, "more than 72 deep", check_nested(80, 1));
    /* 2^40 fields in two kilobytes. */
    FAILS(TARN_ERR_LIMIT, "more tables than bytes", check_nested(40, 2));
}

/* --- In a file ---------------------------------------------------------------------- */

static void a_damaged_message_is_named_by_file_and_offset(void **state)
{
    (void)state;
    const char *path = scratch_path("message.iac");
    const uint32_t metadata = TARN_IAC_HEADER_BYTES + 8;
    const part fields = {IPC_SCHEMA, {2, 1, END}, "Schema.fields"};
    tarn_iac *pack;
    size_t size;
    make_pack(path, NULL);
    unsigned char *bytes = read_file(path, &size);
    uint32_t length = tarn__get32(bytes + metadata - 4),
             at = place_of(bytes + metadata, length, &fields, OFFSET);
    tarn__put32(bytes + metadata + at, 0x7ffffffc);
    write_file(path, bytes, size);
    FAILS(TARN_ERR_FORMAT, "Arrow message: Schema.fields is not inside the message",
          tarn_iac_open(path, NULL, &pack, &err));
    assert_string_equal(err.path, path);
    assert_int_equal(err.offset, metadata + at);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_outside_their_table_are_refused),
        cmocka_unit_test(offsets_outside_the_message_are_refused),
        cmocka_unit_test(counts_past_the_end_are_refused),
        cmocka_unit_test(vtables_out_of_range_are_refused),
        cmocka_unit_test(a_value_without_a_type_is_refused),
        cmocka_unit_test(cut_anywhere_a_message_is_refused),
        cmocka_unit_test(tables_too_deep_or_too_many_are_refused),
        cmocka_unit_test(a_damaged_message_is_named_by_file_and_offset),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
