/* Checks the metadata of an Arrow message before anything in it is read. The metadata is
 * FlatBuffers: tables that refer to each other by offsets. Every table, vector and string
 * that the reader may use must be inside the message, aligned and complete. The shapes
 * below follow Arrow's Message.fbs and Schema.fbs. Values are not checked here. */
#include "base/error.h"
#include "iac/ipc.h"

/* Message, Schema, nested fields, a dictionary and its index type, and a few more, so
 * that the schema reader is the one that reports fields that are nested too deeply. */
enum { MAX_LEVELS = TARN_MAX_ARROW_DEPTH + 8 };

typedef enum kind {
    NO_SLOT,
    NUMBER, /* of width bytes */
    TEXT,   /* bytes followed by a NUL */
    ITEMS,  /* a vector of numbers or structs of width bytes */
    TABLE,
    TABLES, /* a vector of tables */
    UNION   /* a table whose shape depends on the number in the slot before */
} kind;

typedef struct shape shape;

typedef struct slot {
    const char *name;
    kind kind;
    unsigned width;
    const shape *of; /* for TABLE and TABLES */
    const shape *(*choose)(unsigned number);
} slot;

enum { MAX_SLOTS = 7 };

struct shape {
    const char *name;
    slot slots[MAX_SLOTS]; /* up to the first NO_SLOT */
};

/* --- Arrow's tables --------------------------------------------------------------- */

#define NUM(name, width)  name, NUMBER, width, NULL, NULL
#define STR(name)         name, TEXT, 0, NULL, NULL
#define VEC(name, width)  name, ITEMS, width, NULL, NULL
#define TAB(name, of)     name, TABLE, 0, &(of), NULL
#define TABS(name, of)    name, TABLES, 0, &(of), NULL
#define ANY(name, choose) name, UNION, 0, NULL, choose

static const shape field; /* declared first because fields have fields as children */

static const shape key_value = {"KeyValue", {{STR("key")}, {STR("value")}}};
static const shape int_type = {"Int", {{NUM("bitWidth", 4)}, {NUM("is_signed", 1)}}};
static const shape dictionary_encoding = {"DictionaryEncoding",
                                          {{NUM("id", 8)},
                                           {TAB("indexType", int_type)},
                                           {NUM("isOrdered", 1)},
                                           {NUM("dictionaryKind", 2)}}};

/* NULL for an unknown type, which the schema reader refuses. */
static const shape *type_of(unsigned number)
{
    static const shape plain = {.name = "Type"};
    static const shape with[] = {
        [TYPE_FLOAT] = {"FloatingPoint", {{NUM("precision", 2)}}},
        [TYPE_DECIMAL] =
            {"Decimal", {{NUM("precision", 4)}, {NUM("scale", 4)}, {NUM("bitWidth", 4)}}},
        [TYPE_DATE] = {"Date", {{NUM("unit", 2)}}},
        [TYPE_TIME] = {"Time", {{NUM("unit", 2)}, {NUM("bitWidth", 4)}}},
        [TYPE_TIMESTAMP] = {"Timestamp", {{NUM("unit", 2)}, {STR("timezone")}}},
        [TYPE_INTERVAL] = {"Interval", {{NUM("unit", 2)}}},
        [TYPE_UNION] = {"Union", {{NUM("mode", 2)}, {VEC("typeIds", 4)}}},
        [TYPE_FIXED_BINARY] = {"FixedSizeBinary", {{NUM("byteWidth", 4)}}},
        [TYPE_FIXED_LIST] = {"FixedSizeList", {{NUM("listSize", 4)}}},
        [TYPE_MAP] = {"Map", {{NUM("keysSorted", 1)}}},
        [TYPE_DURATION] = {"Duration", {{NUM("unit", 2)}}},
    };
    if (number > TYPE_LARGE_LIST_VIEW) return NULL;
    if (number == TYPE_INT) return &int_type;
    return number <= TYPE_DURATION && with[number].name ? &with[number] : &plain;
}

static const shape field = {
    "Field",
    {[FIELD_NAME] = {STR("name")},
     [FIELD_NULLABLE] = {NUM("nullable", 1)},
     [FIELD_TYPE_TYPE] = {NUM("type_type", 1)},
     [FIELD_TYPE] = {ANY("type", type_of)},
     [FIELD_DICTIONARY] = {TAB("dictionary", dictionary_encoding)},
     [FIELD_CHILDREN] = {TABS("children", field)},
     [FIELD_META] = {TABS("custom_metadata", key_value)}}};

static const shape *header_of(unsigned number)
{
    static const shape compression = {"BodyCompression",
                                      {{NUM("codec", 1)}, {NUM("method", 1)}}};
    static const shape batch = {"RecordBatch",
                                {[BATCH_LENGTH] = {NUM("length", 8)},
                                 [BATCH_NODES] = {VEC("nodes", 16)},
                                 [BATCH_BUFFERS] = {VEC("buffers", 16)},
                                 [BATCH_COMPRESSION] = {TAB("compression", compression)},
                                 [BATCH_VARIADIC] = {VEC("variadicBufferCounts", 8)}}};
    static const shape dictionary = {"DictionaryBatch",
                                     {[DICTBATCH_ID] = {NUM("id", 8)},
                                      [DICTBATCH_DATA] = {TAB("data", batch)},
                                      [DICTBATCH_DELTA] = {NUM("isDelta", 1)}}};
    static const shape schema = {"Schema",
                                 {[SCHEMA_ENDIAN] = {NUM("endianness", 2)},
                                  [SCHEMA_FIELDS] = {TABS("fields", field)},
                                  [SCHEMA_META] = {TABS("custom_metadata", key_value)},
                                  [SCHEMA_FEATURES] = {VEC("features", 8)}}};
    return number == IPC_SCHEMA       ? &schema
           : number == IPC_DICTIONARY ? &dictionary
           : number == IPC_BATCH      ? &batch
                                      : NULL;
}

static const shape message = {"Message",
                              {[MESSAGE_VERSION] = {NUM("version", 2)},
                               [MESSAGE_HEADER_TYPE] = {NUM("header_type", 1)},
                               [MESSAGE_HEADER] = {ANY("header", header_of)},
                               [MESSAGE_BODY] = {NUM("bodyLength", 8)},
                               [MESSAGE_META] = {TABS("custom_metadata", key_value)}}};

/* --- Walk ------------------------------------------------------------------------- */

typedef struct check {
    const unsigned char *data;
    uint32_t size;
    uint32_t tables; /* tables that may still be entered */
    uint64_t base;   /* offset of data in the file or stream */
    tarn_error *err;
} check;

/* A table whose own extent was checked. */
typedef struct table {
    const shape *shape;
    uint32_t at, size;
    uint32_t vtable, vtable_size;
    unsigned level;
} table;

static tarn_status bad(const check *c, uint32_t at, const char *where, const char *name,
                       const char *what)
{
    return tarn__fail_at(c->err, TARN_ERR_FORMAT, NULL, c->base + at,
                         "Arrow message: %s%s%s %s", where, name ? "." : "",
                         name ? name : "", what);
}

/* Follows the offset at position at. The target must be aligned, come after the offset,
 * and have at least four bytes. */
static bool follow(const check *c, uint32_t at, uint32_t *out)
{
    uint64_t to = (uint64_t)at + tarn__get32(c->data + at);
    if (to == at || to % 4 != 0 || !tarn__range_in(to, 4, c->size)) return false;
    *out = (uint32_t)to;
    return true;
}

static bool text_fits(const check *c, uint32_t at)
{
    uint64_t length = tarn__get32(c->data + at), from = (uint64_t)at + 4;
    return tarn__range_in(from, length + 1, c->size) && c->data[from + length] == 0;
}

/* Some writers do not align empty vectors. */
static bool items_fit(const check *c, uint32_t at, unsigned width)
{
    uint64_t count = tarn__get32(c->data + at), from = (uint64_t)at + 4;
    if (count && from % (width < 8 ? width : 8) != 0) return false;
    return tarn__range_in(from, count * width, c->size);
}

static tarn_status check_table(check *c, const shape *s, uint32_t at, unsigned level);

static tarn_status check_tables(check *c, const shape *s, uint32_t at, unsigned level)
{
    uint32_t count = tarn__get32(c->data + at);
    for (uint32_t i = 0, from = at + 4; i < count; i++, from += 4) {
        uint32_t to;
        if (!follow(c, from, &to))
            return bad(c, from, s->name, NULL, "is not inside the message");
        TARN_TRY(check_table(c, s, to, level));
    }
    return TARN_OK;
}

/* The position of slot n in bytes from the table; 0 if it is absent. */
static uint32_t slot_offset(const check *c, const table *t, unsigned n)
{
    uint32_t entry = 4 + 2 * n;
    return entry < t->vtable_size ? tarn__get16(c->data + t->vtable + entry) : 0;
}

/* Checks the item that the offset at from refers to. */
static tarn_status check_target(check *c, const table *t, const slot *s, uint32_t from,
                                const shape *of)
{
    uint32_t to;
    if (!follow(c, from, &to))
        return bad(c, from, t->shape->name, s->name, "is not inside the message");
    if (s->kind == TEXT && !text_fits(c, to))
        return bad(c, to, t->shape->name, s->name,
                   "does not end inside the message with a NUL");
    if ((s->kind == ITEMS && !items_fit(c, to, s->width)) ||
        (s->kind == TABLES && !items_fit(c, to, 4)))
        return bad(c, to, t->shape->name, s->name,
                   "has more items than fit into the message, or is not aligned");
    if (s->kind == TABLES) return check_tables(c, of, to, t->level + 1);
    return of ? check_table(c, of, to, t->level + 1) : TARN_OK;
}

static tarn_status check_slot(check *c, const table *t, unsigned n)
{
    const slot *s = &t->shape->slots[n];
    const shape *of = s->of;
    uint32_t offset = slot_offset(c, t, n), width = s->kind == NUMBER ? s->width : 4;
    if (!offset) return TARN_OK;
    if (offset < 4 || !tarn__range_in(offset, width, t->size) ||
        (t->at + offset) % width != 0)
        return bad(c, t->at, t->shape->name, s->name,
                   "is not inside its table, or not aligned");
    if (s->kind == NUMBER) return TARN_OK;
    if (s->kind == UNION) {
        uint32_t number = slot_offset(c, t, n - 1);
        if (!number || c->data[t->at + number] == 0)
            return bad(c, t->at, t->shape->name, s->name, "has a value but no type");
        of = s->choose(c->data[t->at + number]);
        if (!of) return TARN_OK; /* unknown, and never read */
    }
    return check_target(c, t, s, t->at + offset, of);
}

static tarn_status enter(check *c, table *t)
{
    const char *name = t->shape->name;
    if (t->level > MAX_LEVELS || c->tables-- == 0)
        return tarn__fail_at(c->err, TARN_ERR_LIMIT, NULL, c->base + t->at,
                             "Arrow message: tables are nested more than %d deep, or "
                             "there are more tables than bytes",
                             MAX_LEVELS);
    int64_t vtable = (int64_t)t->at - (int32_t)tarn__get32(c->data + t->at);
    if (vtable % 2 != 0 || !tarn__range_in((uint64_t)vtable, 4, c->size))
        return bad(c, t->at, name, NULL,
                   "has its vtable outside the message, or not aligned");
    t->vtable = (uint32_t)vtable;
    t->vtable_size = tarn__get16(c->data + vtable);
    t->size = tarn__get16(c->data + vtable + 2);
    if (t->vtable_size < 4 || t->vtable_size % 2 != 0 ||
        !tarn__range_in(t->vtable, t->vtable_size, c->size))
        return bad(c, t->vtable, name, NULL, "has a vtable of an impossible size");
    if (!tarn__range_in(t->at, t->size, c->size))
        return bad(c, t->vtable, name, NULL, "is longer than the message");
    return TARN_OK;
}

static tarn_status check_table(check *c, const shape *s, uint32_t at, unsigned level)
{
    table t = {.shape = s, .at = at, .level = level};
    TARN_TRY(enter(c, &t));
    for (unsigned n = 0; n < MAX_SLOTS && s->slots[n].kind != NO_SLOT; n++)
        TARN_TRY(check_slot(c, &t, n));
    return TARN_OK;
}

tarn_status tarn__message_check(const unsigned char *data, uint32_t size, uint64_t base,
                                tarn_error *err)
{
    check c = {data, size, size, base, err};
    uint32_t root;
    if (size < 8 || !follow(&c, 0, &root))
        return bad(&c, 0, message.name, NULL, "is not inside its metadata");
    return check_table(&c, &message, root, 0);
}
