/* Arrow tables that tarn itself never writes, message by message: what is accepted with
 * which values, and what is refused with which message. */
#include "support.h"

#include <lz4frame.h>
#include <zstd.h>

#include "iac/flatmake.h"
#include "iac/ipc.h"
#include "iac/ipc_write.h"

static tarn_error err;

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { MOST = 64 << 20 };

/* --- Schemas ------------------------------------------------------------------------ */

enum { POOL = 8 };
static struct ArrowSchema pool[POOL], *pointers[POOL][POOL];
static size_t used;

/* A column without children, which are added below it afterwards. */
static struct ArrowSchema *column(const char *format, const char *name)
{
    assert_true(used < POOL);
    pool[used] = (struct ArrowSchema){.format = format, .name = name};
    pool[used].children = pointers[used];
    return &pool[used++];
}

static void hang(struct ArrowSchema *parent, struct ArrowSchema *child)
{
    parent->children[parent->n_children++] = child;
}

static struct ArrowSchema *root_of(struct ArrowSchema *only)
{
    struct ArrowSchema *root = column("+s", "");
    if (only) hang(root, only);
    return root;
}

/* --- Messages ----------------------------------------------------------------------- */

static void put_message(tarn__buf *out, flatmake *m, int type, flat_ref header,
                        const void *body, size_t size)
{
    static const unsigned char zeros[8] = {0};
    unsigned char prefix[8];
    size_t behind = (8 - size % 8) % 8;
    fm_table(m);
    fm_field(m, MESSAGE_BODY, (int64_t)(size + behind), 8, 0);
    fm_field_ref(m, MESSAGE_HEADER, header);
    fm_field(m, MESSAGE_VERSION, IPC_V5, 2, 0);
    fm_field(m, MESSAGE_HEADER_TYPE, type, 1, 0);
    flat_ref root = fm_table_end(m);
    assert_true(fm_finish(m, root));
    size_t padding = (8 - m->size % 8) % 8;
    tarn__put32(prefix, UINT32_MAX);
    tarn__put32(prefix + 4, (uint32_t)(m->size + padding));
    OK(tarn__buf_add(out, prefix, 8, &err));
    OK(tarn__buf_add(out, fm_data(m), m->size, &err));
    OK(tarn__buf_add(out, zeros, padding, &err));
    OK(tarn__buf_add(out, body, size, &err));
    OK(tarn__buf_add(out, zeros, behind, &err));
    fm_reset(m);
}

/* Begins a stream, and resets the columns of the schema. */
static void put_schema(tarn__buf *out, const struct ArrowSchema *schema)
{
    tarn__ipc_writer w;
    out->size = 0;
    OK(tarn__ipc_begin(&w, schema, out, &err));
    tarn__ipc_reset(&w);
    used = 0;
}

typedef struct batch {
    int64_t length;
    int64_t nodes[8]; /* length and nulls of each */
    size_t n_nodes;
    int64_t buffers[16]; /* offset and size of each */
    size_t n_buffers;
    bool packed;
    int codec, method;
    const void *body;
    size_t size;
    bool delta;
} batch;

static flat_ref make_batch(flatmake *m, const batch *b)
{
    flat_ref codec = 0, nodes = fm_items(m, b->nodes, b->n_nodes, 16, 8),
             buffers = fm_items(m, b->buffers, b->n_buffers, 16, 8);
    if (b->packed) {
        fm_table(m);
        fm_field(m, 0, b->codec, 1, 0);
        fm_field(m, 1, b->method, 1, 0);
        codec = fm_table_end(m);
    }
    fm_table(m);
    fm_field(m, BATCH_LENGTH, b->length, 8, 0);
    fm_field_ref(m, BATCH_COMPRESSION, codec);
    fm_field_ref(m, BATCH_BUFFERS, buffers);
    fm_field_ref(m, BATCH_NODES, nodes);
    return fm_table_end(m);
}

static void put_batch(tarn__buf *out, const batch *b)
{
    flatmake m;
    fm_init(&m);
    flat_ref header = make_batch(&m, b);
    put_message(out, &m, IPC_BATCH, header, b->body, b->size);
}

static void put_dictionary(tarn__buf *out, int64_t id, const batch *b)
{
    flatmake m;
    fm_init(&m);
    flat_ref data = make_batch(&m, b);
    fm_table(&m);
    fm_field(&m, DICTBATCH_ID, id, 8, 0);
    fm_field_ref(&m, DICTBATCH_DATA, data);
    fm_field(&m, DICTBATCH_DELTA, b->delta, 1, 0);
    flat_ref header = fm_table_end(&m);
    put_message(out, &m, IPC_DICTIONARY, header, b->body, b->size);
}

static tarn_status parse(const tarn__buf *in, tarn__table **out)
{
    *out = NULL;
    return tarn__table_parse((const unsigned char *)in->data, in->size, MOST, out, &err);
}

static void refuse(const tarn__buf *in, tarn_status want, const char *part)
{
    tarn__table *t;
    FAILS(want, part, parse(in, &t));
    assert_null(t);
}

/* Checks that it is accepted, and that its first column has these values as JSON. */
static void assert_shows(const tarn__buf *in, const char *want)
{
    tarn__table *t;
    tarn__buf text;
    tarn__buf_init(&text, 1 << 16);
    OK(parse(in, &t));
    OK(tarn__table_validate(t, &err));
    for (uint64_t row = 0; row < t->rows; row++) {
        uint64_t at;
        const struct ArrowArray *b = &t->batches[tarn__table_batch(t, row, &at)];
        if (row) OK(tarn__buf_add(&text, " ", 1, &err));
        OK(tarn__cell_json(&text, t->schema.children[0], b->children[0], (int64_t)at,
                           &err));
    }
    OK(tarn__buf_add(&text, "", 1, &err));
    assert_string_equal(text.data, want);
    tarn__buf_reset(&text);
    tarn__table_unref(t);
}

/* Checks that it is accepted, but found invalid when it is validated. */
static void assert_invalid(const tarn__buf *in, const char *part)
{
    tarn__table *t;
    OK(parse(in, &t));
    FAILS(TARN_ERR_FORMAT, part, tarn__table_validate(t, &err));
    tarn__table_unref(t);
}

/* Two rows of 32 bits, 7 and 9, at this offset of the body. */
static batch two_numbers(int64_t at)
{
    static unsigned char body[64];
    memset(body, 0, sizeof body);
    tarn__put32(body + at, 7);
    tarn__put32(body + at + 4, 9);
    return (batch){.length = 2,
                   .nodes = {2, 0},
                   .n_nodes = 1,
                   .buffers = {0, 0, at, 8},
                   .n_buffers = 2,
                   .body = body,
                   .size = sizeof body};
}

/* --- Streams ------------------------------------------------------------------------ */

static void buffers_and_streams_may_be_anywhere(void **state)
{
    (void)state;
    tarn__buf out;
    tarn__table *t;
    tarn__buf_init(&out, MOST);
    for (int64_t at = 0; at < 16; at++) {
        batch b = two_numbers(at);
        put_schema(&out, root_of(column("i", "n")));
        put_batch(&out, &b);
        assert_shows(&out, "7 9");
        unsigned char *copy = malloc(out.size + 16);
        memcpy(copy + at, out.data, out.size);
        OK(tarn__table_parse(copy + at, out.size, MOST, &t, &err));
        OK(tarn__table_validate(t, &err));
        const int32_t *values = t->batches[0].children[0]->buffers[1];
        assert_int_equal((uintptr_t)values % 8, 0);
        assert_int_equal(values[1], 9);
        tarn__table_unref(t);
        free(copy);
    }
    tarn__buf_reset(&out);
}

static void rows_are_found_in_any_number_of_batches(void **state)
{
    (void)state;
    tarn__buf out;
    tarn__table *t;
    tarn__buf_init(&out, MOST);
    put_schema(&out, root_of(column("i", "n")));
    for (int i = 0; i < 5; i++) {
        batch b = two_numbers(8), none = {.n_nodes = 1, .n_buffers = 2};
        put_batch(&out, &b);
        put_batch(&out, &none);
    }
    OK(parse(&out, &t));
    assert_int_equal(t->rows, 10);
    for (uint64_t row = 0; row < 10; row++) {
        uint64_t in_batch;
        size_t number = tarn__table_batch(t, row, &in_batch);
        assert_int_equal(t->starts[number] + in_batch, row);
        assert_int_equal(in_batch, row % 2);
        assert_int_equal(t->batches[number].length, 2);
    }
    tarn__table_unref(t);
    tarn__buf_reset(&out);
}

static void messages_are_in_order(void **state)
{
    (void)state;
    tarn__buf out;
    flatmake m;
    batch b = two_numbers(0);
    tarn__buf_init(&out, MOST);
    put_batch(&out, &b);
    refuse(&out, TARN_ERR_FORMAT, "does not begin with a schema");
    put_schema(&out, root_of(column("i", "n")));
    size_t one = out.size;
    char *first = malloc(one);
    memcpy(first, out.data, one);
    OK(tarn__buf_add(&out, first, one, &err));
    free(first);
    refuse(&out, TARN_ERR_FORMAT, "a second schema");
    assert_int_equal(err.offset, one);
    /* Tensors are messages too, but do not belong to a table. */
    put_schema(&out, root_of(column("i", "n")));
    fm_init(&m);
    flat_ref tensor = make_batch(&m, &b);
    put_message(&out, &m, 4, tensor, "", 0);
    tarn__table *t;
    assert_int_not_equal(parse(&out, &t), TARN_OK);
    assert_true(err.message[0]);
    put_schema(&out, root_of(column("i", "n")));
    OK(tarn__buf_add(&out, "\xff\xff\xff\xff\0\0\0\0more", 12, &err));
    refuse(&out, TARN_ERR_FORMAT, "4 bytes after the end");
    tarn__buf_reset(&out);
}

static void numbers_of_rows_must_be_possible(void **state)
{
    (void)state;
    tarn__buf out;
    batch b = {.length = INT64_MAX};
    tarn__table *t;
    tarn__buf_init(&out, MOST);
    /* Without a column, rows need no memory. */
    put_schema(&out, root_of(NULL));
    put_batch(&out, &b);
    OK(parse(&out, &t));
    assert_true(t->rows == INT64_MAX);
    tarn__table_unref(t);
    put_batch(&out, &b);
    refuse(&out, TARN_ERR_FORMAT, "too many rows");
    b.length = -1;
    put_schema(&out, root_of(NULL));
    put_batch(&out, &b);
    refuse(&out, TARN_ERR_FORMAT, "negative length");
    tarn__buf_reset(&out);
}

static void columns_of_a_batch_must_fit_it(void **state)
{
    (void)state;
    static const struct {
        int64_t nodes[4];
        size_t n_nodes;
        int64_t buffers[6];
        size_t n_buffers;
        const char *part;
    } cases[] = {
        {{2, 0}, 1, {0, 0, 0, 8}, 2, NULL},
        {{2, 0}, 0, {0, 0, 0, 8}, 2, "fewer columns than the schema"},
        {{2, 0, 2, 0}, 2, {0, 0, 0, 8}, 2, "more columns or buffers"},
        {{2, 0}, 1, {0, 0, 0, 8}, 1, "fewer buffers than its columns"},
        {{2, 0}, 1, {0, 0, 0, 8, 0, 8}, 3, "more columns or buffers"},
        {{2, 0}, 1, {0, 0, 60, 8}, 2, "not inside its message"},
        {{2, 0}, 1, {0, 0, -8, 8}, 2, "not inside its message"},
        {{2, 0}, 1, {0, 0, 0, 7}, 2, "too short for its rows"},
        {{2, 1}, 1, {0, 0, 0, 8}, 2, "too short for its rows"},
        {{2, 3}, 1, {0, 1, 0, 8}, 2, "length or number of nulls"},
        {{2, -1}, 1, {0, 1, 0, 8}, 2, "length or number of nulls"},
        {{-2, 0}, 1, {0, 0, 0, 8}, 2, "length or number of nulls"},
        {{3, 0}, 1, {0, 0, 0, 12}, 2, "the number of rows differs"},
    };
    tarn__buf out;
    tarn__buf_init(&out, MOST);
    for (size_t i = 0; i < COUNT(cases); i++) {
        batch b = two_numbers(0);
        memcpy(b.nodes, cases[i].nodes, sizeof cases[i].nodes);
        memcpy(b.buffers, cases[i].buffers, sizeof cases[i].buffers);
        b.n_nodes = cases[i].n_nodes;
        b.n_buffers = cases[i].n_buffers;
        put_schema(&out, root_of(column("i", "n")));
        put_batch(&out, &b);
        if (cases[i].part)
            refuse(&out, TARN_ERR_FORMAT, cases[i].part);
        else
            assert_shows(&out, "7 9");
    }
    tarn__buf_reset(&out);
}

/* --- Compressed buffers ------------------------------------------------------------- */

/* One column of bytes in a buffer whose compressed form is this. */
static void put_packed(tarn__buf *out, int codec, int method, int64_t rows, int64_t says,
                       const void *packed, size_t size)
{
    unsigned char *body = malloc(size + 8);
    tarn__put64(body, (uint64_t)says);
    memcpy(body + 8, packed, size);
    batch b = {.length = rows,
               .nodes = {rows, 0},
               .n_nodes = 1,
               .buffers = {0, 0, 0, (int64_t)size + 8},
               .n_buffers = 2,
               .packed = true,
               .codec = codec,
               .method = method,
               .body = body,
               .size = size + 8};
    put_schema(out, root_of(column("C", "n")));
    put_batch(out, &b);
    free(body);
}

static void compressed_buffers_are_what_they_say(void **state)
{
    (void)state;
    tarn__buf out;
    unsigned char packed[2][256];
    size_t sizes[2];
    tarn__buf_init(&out, MOST);
    sizes[0] = LZ4F_compressFrame(packed[0], 256, "\7\7\7\7\11", 5, NULL);
    sizes[1] = ZSTD_compress(packed[1], 256, "\7\7\7\7\11", 5, 3);
    for (int codec = 0; codec < 2; codec++) {
        const unsigned char *p = packed[codec];
        size_t size = sizes[codec];
        put_packed(&out, codec, 0, 5, 5, p, size);
        assert_shows(&out, "7 7 7 7 9");
        put_packed(&out, codec, 0, 5, -1, "\1\2\3\4\5", 5); /* uncompressed */
        assert_shows(&out, "1 2 3 4 5");
        put_packed(&out, codec, 0, 5, -2, p, size);
        refuse(&out, TARN_ERR_FORMAT, "a compressed buffer is damaged");
        put_packed(&out, codec, 0, 4, 4, p, size);
        refuse(&out, TARN_ERR_FORMAT, "a compressed buffer is damaged");
        put_packed(&out, codec, 0, 5, 6, p, size);
        refuse(&out, TARN_ERR_FORMAT, "a compressed buffer is damaged");
        put_packed(&out, codec, 0, 5, 5, p, size - 1);
        refuse(&out, TARN_ERR_FORMAT, "a compressed buffer is damaged");
        put_packed(&out, codec, 0, 5, 5, "no compressed data", 18);
        refuse(&out, TARN_ERR_FORMAT, "a compressed buffer is damaged");
        unsigned char none[64];
        put_packed(&out, codec, 0, 0, 0, none,
                   codec ? ZSTD_compress(none, 64, "", 0, 3)
                         : LZ4F_compressFrame(none, 64, "", 0, NULL));
        assert_shows(&out, "");
        put_packed(&out, codec, 0, 0, 20000000, p, size);
        refuse(&out, TARN_ERR_FORMAT, "more than 10000 times");
        put_packed(&out, codec, 1, 5, 5, p, size);
        refuse(&out, TARN_ERR_UNSUPPORTED, "body compression");
    }
    /* Two frames are as valid as one; a frame in the format of zstd 0.7 is not. */
    static const unsigned char old[] =
        "\x27\xb5\x2f\xfd\x20\5\x40\0\5\7\7\7\7\11\xc0\0\0";
    memcpy(packed[1] + sizes[1], packed[1], sizes[1]);
    put_packed(&out, 1, 0, 10, 10, packed[1], 2 * sizes[1]);
    assert_shows(&out, "7 7 7 7 9 7 7 7 7 9");
    put_packed(&out, 1, 0, 5, 5, old, sizeof old - 1);
    refuse(&out, TARN_ERR_FORMAT, "a compressed buffer is damaged");
    put_packed(&out, 2, 0, 5, 5, packed[0], sizes[0]);
    refuse(&out, TARN_ERR_UNSUPPORTED, "body compression 2 is not supported");
    tarn__buf_reset(&out);
}

/* More than is free, but less than the maximum. */
static void large_buffers_may_expand_as_far_as_is_likely(void **state)
{
    (void)state;
    enum { SIZE = 17 << 20 };
    tarn__buf out;
    tarn__table *t;
    unsigned char *plain = calloc(1, SIZE), *packed = malloc(1 << 20);
    uint32_t seed = 1;
    tarn__buf_init(&out, MOST);
    for (size_t i = 0; i < 4000; i++) {
        seed = seed * 1664525u + 1013904223u;
        plain[i * 4096] = (unsigned char)(seed >> 24);
    }
    size_t size = ZSTD_compress(packed, 1 << 20, plain, SIZE, 1);
    put_packed(&out, 1, 0, SIZE, SIZE, packed, size);
    OK(parse(&out, &t));
    assert_memory_equal(t->batches[0].children[0]->buffers[1], plain, SIZE);
    tarn__table_unref(t);
    FAILS(TARN_ERR_LIMIT, "max_table_bytes",
          tarn__table_parse((unsigned char *)out.data, out.size, 16 << 20, &t, &err));
    free(packed);
    free(plain);
    tarn__buf_reset(&out);
}

/* --- Dictionaries ------------------------------------------------------------------- */

/* The texts "a", "bb" or "c", "dd". */
static batch two_texts(bool others)
{
    static const unsigned char first[24] = {0, 0, 0, 0, 1, 0, 0,   0,   3,  0,
                                            0, 0, 0, 0, 0, 0, 'a', 'b', 'b'};
    static const unsigned char second[24] = {0, 0, 0, 0, 1, 0, 0,   0,   3,  0,
                                             0, 0, 0, 0, 0, 0, 'c', 'd', 'd'};
    return (batch){.length = 2,
                   .nodes = {2, 0},
                   .n_nodes = 1,
                   .buffers = {0, 0, 0, 12, 16, 3},
                   .n_buffers = 3,
                   .body = others ? second : first,
                   .size = 24};
}

/* Rows with these indices, each of this many bytes. */
static void put_indices(tarn__buf *out, int64_t rows, const void *indices, size_t size)
{
    batch b = {.length = rows,
               .nodes = {rows, 0},
               .n_nodes = 1,
               .buffers = {0, 0, 0, (int64_t)size},
               .n_buffers = 2,
               .body = indices,
               .size = size};
    put_batch(out, &b);
}

static void put_dictionary_schema(tarn__buf *out, const char *index)
{
    struct ArrowSchema *n = column(index, "n");
    n->dictionary = column("u", "");
    put_schema(out, root_of(n));
}

static void dictionaries_may_be_replaced_but_not_added_to(void **state)
{
    (void)state;
    tarn__buf out;
    batch texts = two_texts(false), others = two_texts(true);
    tarn__buf_init(&out, MOST);
    put_dictionary_schema(&out, "c");
    texts.delta = true; /* to nothing: that is the whole text */
    put_dictionary(&out, 0, &texts);
    put_indices(&out, 3, "\1\0\1", 3);
    assert_shows(&out, "\"bb\" \"a\" \"bb\"");
    put_dictionary(&out, 0, &others);
    put_indices(&out, 2, "\0\1", 2);
    assert_shows(&out, "\"bb\" \"a\" \"bb\" \"c\" \"dd\"");
    others.delta = true;
    put_dictionary(&out, 0, &others);
    refuse(&out, TARN_ERR_UNSUPPORTED, "column n: delta dictionaries are not supported");
    put_dictionary_schema(&out, "c");
    put_dictionary(&out, 5, &others);
    refuse(&out, TARN_ERR_FORMAT, "a dictionary that no column uses");
    put_dictionary_schema(&out, "c");
    others.packed = true;
    others.codec = 7;
    put_dictionary(&out, 0, &others);
    refuse(&out, TARN_ERR_UNSUPPORTED, "body compression 7 is not supported");
    put_dictionary_schema(&out, "c");
    others.packed = false;
    others.n_buffers = 2;
    put_dictionary(&out, 0, &others);
    refuse(&out, TARN_ERR_FORMAT, "column n: the batch has fewer buffers");
    others.n_buffers = 4;
    put_dictionary_schema(&out, "c");
    put_dictionary(&out, 0, &others);
    refuse(&out, TARN_ERR_FORMAT, "more columns or buffers");
    tarn__buf_reset(&out);
}

static void indices_of_every_width_stay_in_their_dictionary(void **state)
{
    (void)state;
    static const char *const formats[] = {"c", "C", "s", "S", "i", "I", "l", "L"};
    tarn__buf out;
    tarn__buf_init(&out, MOST);
    for (size_t i = 0; i < COUNT(formats); i++) {
        size_t width = (size_t)1 << i / 2;
        unsigned char rows[16] = {0};
        batch texts = two_texts(false);
        rows[0] = 1;
        for (int wrong = 0; wrong < 3; wrong++) {
            if (wrong) memset(rows + width, 0, width);
            if (wrong == 1) rows[width] = 2;
            if (wrong == 2) rows[2 * width - 1] = 0x80; /* negative, or very large */
            put_dictionary_schema(&out, formats[i]);
            put_dictionary(&out, 0, &texts);
            put_indices(&out, 2, rows, 2 * width);
            if (wrong)
                assert_invalid(&out, "row 1 of a batch: its index is outside");
            else
                assert_shows(&out, "\"bb\" \"a\"");
        }
    }
    tarn__buf_reset(&out);
}

/* A null may have any index, but only if the column is nullable. */
static void nulls_have_no_index(void **state)
{
    (void)state;
    tarn__buf out;
    batch texts = two_texts(false);
    batch b = {.length = 2,
               .nodes = {2, 1},
               .n_nodes = 1,
               .buffers = {0, 1, 8, 2},
               .n_buffers = 2,
               .body = "\1\0\0\0\0\0\0\0\1\x63\0\0\0\0\0\0",
               .size = 16};
    tarn__buf_init(&out, MOST);
    put_dictionary_schema(&out, "c");
    put_dictionary(&out, 0, &texts);
    put_batch(&out, &b);
    assert_shows(&out, "\"bb\" null");
    b.nodes[1] = 0; /* the bitmap exists, but has no meaning */
    put_dictionary_schema(&out, "c");
    put_dictionary(&out, 0, &texts);
    put_batch(&out, &b);
    assert_invalid(&out, "its index is outside the dictionary");
    tarn__buf_reset(&out);
}

/* --- Runs --------------------------------------------------------------------------- */

/* Values 7 and 9 in runs that end at these rows. */
static void put_runs(tarn__buf *out, const char *format, int64_t a, int64_t b,
                     bool with_null)
{
    size_t width = format[0] == 's' ? 2 : format[0] == 'i' ? 4 : 8;
    static unsigned char body[64];
    struct ArrowSchema *n = column("+r", "n");
    hang(n, column(format, "run_ends"));
    hang(n, column("C", "values"));
    memset(body, 0, sizeof body);
    memcpy(body + 8, &a, width);
    memcpy(body + 8 + width, &b, width);
    body[0] = 1;
    body[32] = 7;
    body[33] = 9;
    batch rows = {.length = 3,
                  .nodes = {3, 0, 2, with_null, 2, 0},
                  .n_nodes = 3,
                  .buffers = {0, with_null, 8, (int64_t)(2 * width), 0, 0, 32, 2},
                  .n_buffers = 4,
                  .body = body,
                  .size = sizeof body};
    put_schema(out, root_of(n));
    put_batch(out, &rows);
}

static void run_ends_grow_and_reach_the_last_row(void **state)
{
    (void)state;
    static const char *const formats[] = {"s", "i", "l"};
    tarn__buf out;
    tarn__buf_init(&out, MOST);
    for (size_t i = 0; i < 3; i++) {
        put_runs(&out, formats[i], 1, 3, false);
        assert_shows(&out, "7 9 9");
        put_runs(&out, formats[i], 3, 3, false);
        assert_invalid(&out, "the run ends do not increase");
        put_runs(&out, formats[i], -1, 3, false);
        assert_invalid(&out, "the run ends do not increase");
        put_runs(&out, formats[i], 1, 2, false);
        assert_invalid(&out, "no run reaches it");
        put_runs(&out, formats[i], 1, 3, true);
        assert_invalid(&out, "the runs have nulls, or too few values");
    }
    tarn__buf_reset(&out);
}

/* --- Memory limits ------------------------------------------------------------------ */

static void tables_keep_to_the_memory_allowed(void **state)
{
    (void)state;
    tarn__buf out;
    tarn__table *t;
    struct ArrowSchema *outer = column("+s", "outer"), *n = column("c", "n");
    batch texts = two_texts(false);
    batch rows = {.length = 2,
                  .nodes = {2, 0, 2, 0},
                  .n_nodes = 2,
                  .buffers = {0, 0, 0, 0, 3, 2}, /* not aligned */
                  .n_buffers = 3,
                  .body = "\0\0\0\1\1",
                  .size = 5};
    uint64_t least = 0;
    tarn__buf_init(&out, MOST);
    n->dictionary = column("u", "");
    hang(outer, n);
    put_schema(&out, root_of(outer));
    put_dictionary(&out, 0, &texts);
    put_batch(&out, &rows);
    for (;; least++) {
        tarn_status got =
            tarn__table_parse((unsigned char *)out.data, out.size, least, &t, &err);
        if (got == TARN_OK) break;
        assert_int_equal(got, TARN_ERR_LIMIT);
        assert_non_null(strstr(err.message, "max_table_bytes"));
    }
    tarn__table_unref(t);
    assert_true(least > 500 && least < 5000);
    tarn__buf_reset(&out);
}

static void a_slab_does_not_overflow(void **state)
{
    (void)state;
    tarn__slab slab = {0};
    assert_null(tarn__slab_zeros(&slab, SIZE_MAX));
    assert_null(tarn__slab_zeros(&slab, SIZE_MAX / 2 + 1));
    unsigned char *p = tarn__slab_zeros(&slab, 5000);
    assert_non_null(p);
    assert_int_equal(p[4999], 0);
    tarn__slab_free(&slab);
}

/* --- Exporting ---------------------------------------------------------------------- */

/* A consumer of a table may keep a part of it and release the rest first. */
static void parts_of_an_exported_batch_live_on_their_own(void **state)
{
    (void)state;
    tarn__buf out;
    tarn__table *t;
    struct ArrowArrayStream stream;
    struct ArrowArray whole, part, words, end;
    batch texts = two_texts(false);
    tarn__buf_init(&out, MOST);
    put_dictionary_schema(&out, "c");
    put_dictionary(&out, 0, &texts);
    put_indices(&out, 2, "\1\0", 2);
    OK(parse(&out, &t));
    OK(tarn__table_export(t, &stream, &err));
    tarn__table_unref(t);
    assert_int_equal(stream.get_next(&stream, &whole), 0);
    assert_int_equal(stream.get_next(&stream, &end), 0);
    assert_null(end.release);
    stream.release(&stream);
    part = *whole.children[0];
    whole.children[0]->release = NULL;
    whole.release(&whole);
    words = *part.dictionary;
    part.dictionary->release = NULL;
    assert_int_equal(*(const signed char *)part.buffers[1], 1);
    part.release(&part);
    assert_memory_equal(words.buffers[2], "abb", 3);
    words.release(&words);
    tarn__buf_reset(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_and_streams_may_be_anywhere),
        cmocka_unit_test(rows_are_found_in_any_number_of_batches),
        cmocka_unit_test(messages_are_in_order),
        cmocka_unit_test(numbers_of_rows_must_be_possible),
        cmocka_unit_test(columns_of_a_batch_must_fit_it),
        cmocka_unit_test(compressed_buffers_are_what_they_say),
        cmocka_unit_test(large_buffers_may_expand_as_far_as_is_likely),
        cmocka_unit_test(dictionaries_may_be_replaced_but_not_added_to),
        cmocka_unit_test(indices_of_every_width_stay_in_their_dictionary),
        cmocka_unit_test(nulls_have_no_index),
        cmocka_unit_test(run_ends_grow_and_reach_the_last_row),
        cmocka_unit_test(tables_keep_to_the_memory_allowed),
        cmocka_unit_test(a_slab_does_not_overflow),
        cmocka_unit_test(parts_of_an_exported_batch_live_on_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
