/* The loader from C. What comes is compared with what the dataset gives sample by sample,
 * then across numbers of threads; the rest is about ends: of epochs, of samples that
 * cannot be had, of processes and loaders that go away in the middle. */
#include "support.h"

#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static tarn_error err;

enum { SAMPLES = 53, WIDE = 40, HIGH = 30 };

/* --- Data ----------------------------------------------------------------------------
 */

static void add_value(tarball *t, unsigned i, const char *field, const tarn_value *value)
{
    char name[64];
    tarn_bytes out = TARN_BYTES_INIT;
    OK(tarn_codecs_encode(NULL, field, value, NULL, &out, &err));
    snprintf(name, sizeof name, "s%04u.%s", i, field);
    tarball_header(t, name, '0', out.size);
    tarball_payload(t, out.data, out.size);
    tarn_bytes_release(&out);
}

static void add_image(tarball *t, unsigned i, const char *field, unsigned wide)
{
    static unsigned char pixels[HIGH * (WIDE + SAMPLES) * 3];
    tarn_array a;
    for (unsigned k = 0; k < HIGH * wide * 3; k++)
        pixels[k] = (unsigned char)(k * 7 + i * 13 + k / 97);
    OK(tarn_array_init(&a, pixels, (tarn_dtype){'|', 'u', 1}, 3,
                       (const uint64_t[]){HIGH, wide, 3}, &err));
    tarn_value v = tarn_value_array(&a);
    add_value(t, i, field, &v);
}

/* cls, raw bytes of growing size, arrays of one shape and of several, text, an image; the
 * image of each sample that is a multiple of bad is no image. */
static const char *fold_path(unsigned bad)
{
    static char names[2][64];
    char *name = names[bad > 0];
    snprintf(name, sizeof names[0], "%s/loader%u.tar", scratch(), bad);
    if (access(name, F_OK) == 0) return name;
    tarball t = {0};
    for (unsigned i = 0; i < SAMPLES; i++) {
        float fixed[6];
        int16_t ragged[SAMPLES];
        char text[64], bin[200];
        tarn_array a;
        tarn_value v = tarn_value_integer((int64_t)i * 3 - 7);
        add_value(&t, i, "cls", &v);
        memset(bin, (int)i, sizeof bin);
        v = tarn_value_bytes(bin, i * 3);
        add_value(&t, i, "bin", &v);
        for (unsigned k = 0; k < 6; k++)
            fixed[k] = (float)(i * 10 + k);
        OK(tarn_array_init(&a, fixed, (tarn_dtype){'<', 'f', 4}, 2,
                           (const uint64_t[]){2, 3}, &err));
        v = tarn_value_array(&a);
        add_value(&t, i, "fix.npy", &v);
        for (unsigned k = 0; k < SAMPLES; k++)
            ragged[k] = (int16_t)(i + k);
        OK(tarn_array_init(&a, ragged, (tarn_dtype){'<', 'i', 2}, 1,
                           (const uint64_t[]){i % 5 ? 4 : i % 7}, &err));
        v = tarn_value_array(&a);
        add_value(&t, i, "rag.npy", &v);
        snprintf(text, sizeof text, "text of %u", i);
        v = tarn_value_text(text, strlen(text));
        add_value(&t, i, "txt", &v);
        if (bad && i % bad == 0) {
            v = tarn_value_bytes("no image at all", 15);
            add_value(&t, i, "png", &v);
        } else {
            add_image(&t, i, "png", WIDE + i % 3);
        }
    }
    tarball_end(&t);
    save_tar(&t, name);
    tarball_reset(&t);
    return name;
}

static const char *array_path(void)
{
    static char name[64];
    static float x[SAMPLES][4];
    static uint8_t y[SAMPLES];
    tarn_array a;
    tarn_gnz_writer *w;
    snprintf(name, sizeof name, "%s/loader.gnz", scratch());
    if (access(name, F_OK) == 0) return name;
    for (unsigned i = 0; i < SAMPLES; i++) {
        y[i] = (uint8_t)(i * 5);
        for (unsigned k = 0; k < 4; k++)
            x[i][k] = (float)(i + k) / 2;
    }
    OK(tarn_gnz_writer_new(name, NULL, &w, &err));
    OK(tarn_array_init(&a, x, (tarn_dtype){'<', 'f', 4}, 2,
                       (const uint64_t[]){SAMPLES, 4}, &err));
    OK(tarn_gnz_writer_add(w, "x", &a, NULL, &err));
    OK(tarn_array_init(&a, y, (tarn_dtype){'|', 'u', 1}, 1, (const uint64_t[]){SAMPLES},
                       &err));
    OK(tarn_gnz_writer_add(w, "y", &a, NULL, &err));
    OK(tarn_gnz_writer_finish(w, &err));
    return name;
}

static const char *pack_path(void)
{
    static char name[64];
    struct ArrowArrayStream slides, index;
    tarn_iac_rows *rows;
    tarn_iac_writer *w;
    snprintf(name, sizeof name, "%s/loader.iac", scratch());
    if (access(name, F_OK) == 0) return name;
    OK(tarn_iac_rows_new((const char *[]){"u8:slide_idx"}, 1, &rows, &err));
    OK(tarn_iac_rows_finish(rows, &slides, &err));
    OK(tarn_iac_rows_new((const char *[]){"text:name", "int:label"}, 2, &rows, &err));
    for (unsigned i = 0; i < SAMPLES; i++) {
        OK(tarn_iac_rows_text(rows, 0, "n", 1, &err));
        OK(tarn_iac_rows_number(rows, 1, -(int64_t)i, &err));
    }
    OK(tarn_iac_rows_finish(rows, &index, &err));
    OK(tarn_iac_writer_open(name, &slides, &index, NULL, &w, &err));
    for (unsigned i = 0; i < SAMPLES; i++)
        OK(tarn_iac_writer_add(w, "payload that grows with its number, up to a point",
                               i % 40, &err));
    OK(tarn_iac_writer_finish(w, &err));
    return name;
}

static tarn_dataset *open_path(const char *path)
{
    tarn_dataset *d;
    OK(tarn_dataset_open(path, NULL, &d, &err));
    return d;
}

static tarn_dataset *open_mix(void)
{
    tarn_dataset *parts[] = {open_path(fold_path(0)), open_path(array_path()),
                             open_path(pack_path())};
    tarn_dataset *mix, *picked;
    static const uint64_t counts[] = {20, 60, 30};
    tarn_mix_options o = TARN_MIX_OPTIONS_INIT;
    o.counts = counts;
    OK(tarn_dataset_mix(parts, 3, &o, &mix, &err));
    for (int i = 0; i < 3; i++)
        tarn_dataset_close(parts[i]);
    /* No field is in all sources; take those that have x. */
    OK(tarn_dataset_keep_having(mix, (const char *[]){"x"}, 1, &picked, &err));
    tarn_dataset_close(mix);
    return picked;
}

/* --- An epoch as text ----------------------------------------------------------------
 */

static tarn_loader_options options(void)
{
    tarn_loader_options o = TARN_LOADER_OPTIONS_INIT;
    o.order.kind = TARN_ORDER_SHUFFLE;
    o.order.seed = 11;
    o.order.batch = 8;
    return o;
}

static void add(tarn_bytes *out, const void *data, size_t size)
{
    OK(tarn_bytes_add(out, data, size, &err));
}

static void add_number(tarn_bytes *out, uint64_t n)
{
    add(out, &n, sizeof n);
}

static void add_column(tarn_bytes *out, const tarn_column *c, size_t count)
{
    add(out, c->field, strlen(c->field) + 1);
    add_number(out, c->kind);
    switch (c->kind) {
    case TARN_COLUMN_ARRAY:
        assert_int_equal((uintptr_t)c->data % 64, 0);
        add(out, &c->dtype.kind, 1);
        add_number(out, c->dtype.size);
        for (unsigned i = 0; i < c->ndim; i++)
            add_number(out, c->shape[i]);
        add(out, c->data, c->size);
        break;
    case TARN_COLUMN_BYTES:
        assert_int_equal(c->offsets[0], 0);
        assert_int_equal(c->offsets[count], c->size);
        add(out, c->offsets, (count + 1) * sizeof *c->offsets);
        add(out, c->data, c->size);
        break;
    case TARN_COLUMN_ARRAYS:
        for (size_t i = 0; i < count; i++) {
            add(out, c->arrays[i].shape, c->arrays[i].ndim * sizeof(uint64_t));
            add(out, c->arrays[i].data, tarn_array_bytes(&c->arrays[i]));
        }
        break;
    case TARN_COLUMN_VIEWS:
        for (size_t i = 0; i < count; i++) {
            add_number(out, c->views[i].size);
            add(out, c->views[i].data, c->views[i].size);
        }
        break;
    }
}

static void add_batch(tarn_bytes *out, const tarn_batch *b)
{
    add_number(out, b->count);
    add_number(out, b->epoch);
    add(out, b->samples, b->count * sizeof *b->samples);
    if (b->keys) add(out, b->keys, b->key_offsets[b->count]);
    for (size_t i = 0; i < b->n_columns; i++)
        add_column(out, &b->columns[i], b->count);
}

/* All batches up to an end, one text; the number of batches. */
static size_t drain(tarn_loader *l, tarn_bytes *out)
{
    tarn_batch *b;
    tarn_status status;
    size_t n = 0;
    for (; (status = tarn_loader_next(l, &b, &err)) == TARN_OK; n++) {
        add_batch(out, b);
        tarn_batch_release(b);
    }
    if (status != TARN_END) check_ok(status, &err, __FILE__, __LINE__);
    return n;
}

static tarn_bytes epochs_of(tarn_dataset *d, const tarn_loader_options *o, int epochs)
{
    tarn_loader *l;
    tarn_bytes out = TARN_BYTES_INIT;
    OK(tarn_loader_open(d, o, &l, &err));
    for (int i = 0; i < epochs; i++)
        drain(l, &out);
    tarn_loader_close(l);
    return out;
}

static void same(const tarn_bytes *a, tarn_bytes *b)
{
    assert_int_equal(a->size, b->size);
    assert_memory_equal(a->data, b->data, a->size);
    tarn_bytes_release(b);
}

/* --- What comes ----------------------------------------------------------------------
 */

static const tarn_column *column(const tarn_batch *b, const char *field)
{
    for (size_t i = 0; i < b->n_columns; i++)
        if (strcmp(b->columns[i].field, field) == 0) return &b->columns[i];
    fail_msg("no column %s", field);
    return NULL;
}

static void check_sample(const tarn_batch *b, size_t i)
{
    uint64_t s = b->samples[i];
    char want[64];
    snprintf(want, sizeof want, "s%04u", (unsigned)s);
    assert_string_equal(b->keys + b->key_offsets[i], want);
    const tarn_column *cls = column(b, "cls"), *bin = column(b, "bin");
    assert_int_equal(((const int64_t *)cls->data)[i], (int64_t)s * 3 - 7);
    assert_int_equal(bin->offsets[i + 1] - bin->offsets[i], s * 3);
    for (uint64_t k = bin->offsets[i]; k < bin->offsets[i + 1]; k++)
        assert_int_equal(bin->data[k], s);
    const float *fix = (const float *)column(b, "fix.npy")->data + i * 6;
    for (int k = 0; k < 6; k++)
        assert_true(fix[k] == (float)(s * 10 + (unsigned)k));
    const tarn_column *txt = column(b, "txt");
    int len = snprintf(want, sizeof want, "text of %u", (unsigned)s);
    assert_int_equal(txt->offsets[i + 1] - txt->offsets[i], len);
    assert_memory_equal(txt->data + txt->offsets[i], want, len);
}

static void check_ragged(const tarn_batch *b)
{
    const tarn_column *c = column(b, "rag.npy");
    for (size_t i = 0; i < b->count; i++) {
        uint64_t s = b->samples[i], length = s % 5 ? 4 : s % 7;
        const int16_t *values = NULL;
        if (c->kind == TARN_COLUMN_ARRAYS) {
            assert_int_equal(c->arrays[i].shape[0], length);
            values = c->arrays[i].data;
        } else {
            assert_int_equal(c->kind, TARN_COLUMN_ARRAY);
            assert_int_equal(c->shape[0], length);
            values = (const int16_t *)c->data + i * length;
        }
        for (uint64_t k = 0; k < length; k++)
            assert_int_equal(values[k], s + k);
    }
}

static void columns_are_what_the_fields_are(void **state)
{
    (void)state;
    tarn_dataset *d = open_path(fold_path(0));
    tarn_loader_options o = options();
    tarn_loader *l;
    tarn_batch *b;
    size_t seen = 0;
    OK(tarn_loader_open(d, &o, &l, &err));
    tarn_dataset_close(d); /* the loader keeps it */
    while (tarn_loader_next(l, &b, &err) == TARN_OK) {
        assert_int_equal(b->count, seen + 8 <= SAMPLES ? 8 : SAMPLES % 8);
        for (size_t i = 0; i < b->count; i++)
            check_sample(b, i);
        assert_int_equal(column(b, "cls")->kind, TARN_COLUMN_ARRAY);
        assert_int_equal(column(b, "cls")->dtype.kind, 'i');
        assert_int_equal(column(b, "fix.npy")->ndim, 2);
        assert_int_equal(column(b, "fix.npy")->shape[1], 3);
        check_ragged(b);
        const tarn_column *png = column(b, "png");
        if (png->kind == TARN_COLUMN_ARRAYS)
            for (size_t i = 0; i < b->count; i++)
                assert_int_equal(png->arrays[i].shape[1], WIDE + b->samples[i] % 3);
        seen += b->count;
        tarn_batch_release(b);
    }
    assert_int_equal(seen, SAMPLES);
    tarn_loader_close(l);
}

/* What the loader decodes is what the table of codecs makes of the bytes. */
static void values_are_those_of_the_codecs(void **state)
{
    (void)state;
    tarn_dataset *d = open_path(fold_path(0));
    tarn_loader_options o = options();
    tarn_loader *l;
    tarn_batch *b;
    o.order.batch = 1;
    OK(tarn_loader_open(d, &o, &l, &err));
    while (tarn_loader_next(l, &b, &err) == TARN_OK) {
        for (size_t c = 0; c < b->n_columns; c++) {
            const tarn_column *got = &b->columns[c];
            tarn_view view;
            tarn_value v;
            OK(tarn_dataset_get(d, b->samples[0], (uint32_t)c, &view, &err));
            OK(tarn_codecs_decode(NULL, got->field, view.data, view.size, NULL, &v,
                                  &err));
            if (v.kind == TARN_VALUE_ARRAY) {
                assert_int_equal(got->ndim, v.arrays->ndim);
                assert_int_equal(got->size, tarn_array_bytes(v.arrays));
                assert_memory_equal(got->data, v.arrays->data, got->size);
            } else if (v.kind != TARN_VALUE_INTEGER) {
                assert_int_equal(got->size, v.size);
                assert_memory_equal(got->data, v.data, v.size);
            }
            tarn_value_release(&v);
            tarn_view_release(&view);
        }
        tarn_batch_release(b);
    }
    tarn_loader_close(l);
    tarn_dataset_close(d);
}

static void any_number_of_threads_gives_the_same(void **state)
{
    (void)state;
    tarn_dataset *sets[] = {open_path(fold_path(0)), open_path(array_path()),
                            open_path(pack_path()), open_mix()};
    static const unsigned threads[] = {1, 2, 8};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        for (int way = 0; way < 2; way++) {
            tarn_loader_options o = options();
            tarn_load_field fields[] = {{"x", TARN_LOAD_AUTO, NULL},
                                        {"y", TARN_LOAD_INTEGER, NULL}};
            if (i == 3) {
                o.fields = fields;
                o.n_fields = 2;
            }
            o.staged = way == 1;
            tarn_bytes want = epochs_of(sets[i], &o, 3);
            assert_true(want.size > 0);
            for (size_t k = 0; k < 3; k++) {
                o.threads = threads[k];
                o.depth = k == 1 ? 1 : 0;
                tarn_bytes got = epochs_of(sets[i], &o, 3);
                same(&want, &got);
            }
            tarn_bytes_release(&want);
        }
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        tarn_dataset_close(sets[i]);
}

static void arrays_and_packs_have_types(void **state)
{
    (void)state;
    tarn_dataset *d = open_path(array_path());
    tarn_loader_options o = options();
    tarn_loader *l;
    tarn_batch *b;
    OK(tarn_loader_open(d, &o, &l, &err));
    OK(tarn_loader_next(l, &b, &err));
    const tarn_column *x = column(b, "x"), *y = column(b, "y");
    assert_int_equal(x->kind, TARN_COLUMN_ARRAY);
    assert_int_equal(x->ndim, 1);
    assert_int_equal(y->ndim, 0);
    assert_int_equal(y->dtype.size, 1);
    for (size_t i = 0; i < b->count; i++) {
        assert_int_equal(y->data[i], (uint8_t)(b->samples[i] * 5));
        assert_true(((const float *)x->data)[i * 4 + 1] ==
                    (float)(b->samples[i] + 1) / 2);
    }
    tarn_batch_release(b);
    tarn_loader_close(l);
    tarn_dataset_close(d);
    d = open_path(pack_path());
    OK(tarn_loader_open(d, &o, &l, &err));
    OK(tarn_loader_next(l, &b, &err));
    for (size_t i = 0; i < b->count; i++)
        assert_int_equal(((const int64_t *)column(b, "label")->data)[i],
                         -(int64_t)b->samples[i]);
    assert_int_equal(column(b, "name")->kind, TARN_COLUMN_BYTES);
    assert_int_equal(column(b, "payload")->kind, TARN_COLUMN_BYTES);
    tarn_batch_release(b);
    tarn_loader_close(l);
    tarn_dataset_close(d);
}

static void fields_come_as_they_are_asked_for(void **state)
{
    (void)state;
    tarn_dataset *d = open_path(fold_path(0));
    tarn_loader_options o = options();
    tarn_load_field fields[] = {{"cls", TARN_LOAD_BYTES, NULL},
                                {"png", TARN_LOAD_VIEWS, NULL},
                                {"cls", TARN_LOAD_INTEGER, NULL}};
    tarn_loader *l;
    tarn_batch *b;
    o.fields = fields;
    o.n_fields = 3;
    o.threads = 2;
    o.no_keys = true;
    OK(tarn_loader_open(d, &o, &l, &err));
    OK(tarn_loader_next(l, &b, &err));
    assert_null(b->keys);
    assert_int_equal(b->columns[0].kind, TARN_COLUMN_BYTES);
    assert_int_equal(b->columns[1].kind, TARN_COLUMN_VIEWS);
    assert_int_equal(b->columns[2].kind, TARN_COLUMN_ARRAY);
    for (size_t i = 0; i < b->count; i++) {
        char want[24];
        int len = snprintf(want, sizeof want, "%d", (int)b->samples[i] * 3 - 7);
        assert_int_equal(b->columns[0].offsets[i + 1] - b->columns[0].offsets[i], len);
        assert_memory_equal(b->columns[0].data + b->columns[0].offsets[i], want, len);
        assert_memory_equal(b->columns[1].views[i].data, "\x89PNG", 4);
    }
    tarn_batch_release(b);
    tarn_loader_close(l);
    fields[0] = (tarn_load_field){"gone", TARN_LOAD_AUTO, NULL};
    FAILS(TARN_ERR_NOT_FOUND, "gone", tarn_loader_open(d, &o, &l, &err));
    tarn_dataset_close(d);
}

static void fields_of_no_file_are_numbers_and_text(void **state)
{
    (void)state;
    tarn_dataset *d;
    tarn_dataset_options set = TARN_DATASET_OPTIONS_INIT;
    tarn_loader_options o = options();
    tarn_loader *l;
    tarn_batch *b;
    set.fields = (const char *[]){"cls", "_idx", "_key", "_shard", NULL};
    OK(tarn_dataset_open(fold_path(0), &set, &d, &err));
    OK(tarn_loader_open(d, &o, &l, &err));
    OK(tarn_loader_next(l, &b, &err));
    const tarn_column *idx = column(b, "_idx"), *key = column(b, "_key");
    assert_int_equal(column(b, "_shard")->size, b->count * strlen("loader0.tar"));
    for (size_t i = 0; i < b->count; i++) {
        assert_int_equal(((const int64_t *)idx->data)[i], b->samples[i]);
        assert_int_equal(key->offsets[i + 1] - key->offsets[i], 5);
        assert_memory_equal(key->data + key->offsets[i], b->keys + b->key_offsets[i], 5);
    }
    tarn_batch_release(b);
    tarn_loader_close(l);
    tarn_dataset_close(d);
}

static void image_steps_are_those_of_one_image(void **state)
{
    (void)state;
    tarn_dataset *d = open_path(fold_path(0));
    tarn_loader_options o = options();
    tarn_image_steps steps = TARN_IMAGE_STEPS_INIT;
    tarn_load_field field = {"png", TARN_LOAD_AUTO, &steps};
    tarn_image_plan *plan;
    tarn_image_decoder *decoder;
    tarn_loader *l;
    tarn_batch *b;
    static float want[3 * 16 * 12];
    steps.width = 16;
    steps.height = 12;
    steps.fit = TARN_IMAGE_FIT_RANDOM;
    steps.flip = 0.5;
    steps.type = TARN_IMAGE_F32;
    steps.layout = TARN_IMAGE_CHW;
    o.fields = &field;
    o.n_fields = 1;
    o.threads = 2;
    OK(tarn_image_plan_new(&steps, &plan, &err));
    OK(tarn_image_decoder_new(NULL, &decoder, &err));
    OK(tarn_loader_open(d, &o, &l, &err));
    for (int epoch = 0; epoch < 2; epoch++)
        while (tarn_loader_next(l, &b, &err) == TARN_OK) {
            const tarn_column *c = &b->columns[0];
            assert_int_equal(c->ndim, 3);
            assert_int_equal(c->shape[0], 3);
            assert_int_equal(c->shape[2], 16);
            for (size_t i = 0; i < b->count; i++) {
                tarn_view v;
                tarn_image_draw draw = {11, (uint64_t)epoch, b->samples[i]};
                uint32_t png;
                OK(tarn_dataset_field_find(d, "png", &png, &err));
                OK(tarn_dataset_get(d, b->samples[i], png, &v, &err));
                OK(tarn_image_run(decoder, plan, v.data, v.size, draw, want, &err));
                assert_memory_equal(c->data + i * sizeof want, want, sizeof want);
                tarn_view_release(&v);
            }
            tarn_batch_release(b);
        }
    tarn_loader_close(l);
    tarn_image_decoder_free(decoder);
    tarn_image_plan_free(plan);
    tarn_dataset_close(d);
}

/* --- Samples that cannot be had ------------------------------------------------------
 */

static void a_bad_sample_is_named(void **state)
{
    (void)state;
    tarn_dataset *d = open_path(fold_path(7));
    tarn_loader_options o = options();
    tarn_loader *l;
    tarn_batch *b;
    char first[TARN_ERROR_MESSAGE_MAX];
    o.order.kind = TARN_ORDER_IDENTITY;
    for (unsigned threads = 0; threads < 3; threads++) {
        o.threads = threads;
        OK(tarn_loader_open(d, &o, &l, &err));
        FAILS(TARN_ERR_FORMAT, "sample 0 (s0000), field png",
              tarn_loader_next(l, &b, &err));
        assert_string_equal(err.path, fold_path(7));
        assert_true(err.offset != TARN_NO_OFFSET && err.offset % 512 == 0);
        strcpy(first, err.message);
        FAILS(TARN_ERR_FORMAT, first, tarn_loader_next(l, &b, &err));
        tarn_loader_close(l);
    }
    tarn_dataset_close(d);
}

static size_t count_good(tarn_dataset *d, const tarn_loader_options *o, unsigned bad)
{
    tarn_loader *l;
    tarn_batch *b;
    bool seen[SAMPLES] = {false};
    size_t total = 0, batches = 0;
    tarn_order_options plain = o->order;
    uint64_t list[SAMPLES], at = 0;
    tarn_order *order;
    OK(tarn_order_open(SAMPLES, &plain, &order, &err));
    OK(tarn_order_fill(order, 0, SAMPLES, list, &err));
    OK(tarn_loader_open(d, o, &l, &err));
    size_t good = SAMPLES - (SAMPLES + bad - 1) / bad;
    while (tarn_loader_next(l, &b, &err) == TARN_OK) {
        assert_int_equal(b->number, batches++);
        assert_int_equal(b->count, good - total < 8 ? good - total : 8);
        for (size_t i = 0; i < b->count; i++) {
            while (list[at] % bad == 0)
                at++;
            assert_int_equal(b->samples[i], list[at++]);
            assert_false(seen[b->samples[i]]);
            seen[b->samples[i]] = true;
            check_sample(b, i);
        }
        total += b->count;
        tarn_batch_release(b);
    }
    tarn_loader_stats stats;
    tarn_loader_stats_get(l, &stats);
    assert_int_equal(stats.skipped, SAMPLES - good);
    for (size_t i = 0; i < stats.skipped; i++) {
        assert_int_equal(tarn_loader_skipped(l, i)->sample % bad, 0);
        assert_non_null(strstr(tarn_loader_skipped(l, i)->error.message, "field png"));
    }
    assert_null(tarn_loader_skipped(l, stats.skipped));
    tarn_loader_close(l);
    tarn_order_close(order);
    return total;
}

static void skipping_keeps_batches_full_and_in_order(void **state)
{
    (void)state;
    tarn_loader_options o = options();
    o.on_error = TARN_ON_ERROR_SKIP;
    static const unsigned bads[] = {2, 7, 50};
    for (size_t i = 0; i < 3; i++) {
        tarn_dataset *d = open_path(fold_path(bads[i]));
        tarn_bytes want = TARN_BYTES_INIT;
        for (unsigned threads = 0; threads <= 8; threads += threads ? threads : 1) {
            o.threads = threads;
            o.staged = threads == 2;
            size_t good = count_good(d, &o, bads[i]);
            assert_int_equal(good, SAMPLES - (SAMPLES + bads[i] - 1) / bads[i]);
            tarn_bytes got = epochs_of(d, &o, 3);
            if (threads == 0) {
                want = got;
                continue;
            }
            same(&want, &got);
        }
        tarn_bytes_release(&want);
        tarn_dataset_close(d);
    }
}

static void every_sample_may_be_bad(void **state)
{
    (void)state;
    tarn_dataset *d = open_path(fold_path(1));
    tarn_loader_options o = options();
    o.on_error = TARN_ON_ERROR_SKIP;
    o.threads = 2;
    tarn_loader *l;
    tarn_batch *b;
    OK(tarn_loader_open(d, &o, &l, &err));
    assert_int_equal(tarn_loader_next(l, &b, &err), TARN_END);
    assert_int_equal(tarn_loader_next(l, &b, &err), TARN_END);
    tarn_loader_stats stats;
    tarn_loader_stats_get(l, &stats);
    assert_int_equal(stats.skipped, 2 * SAMPLES);
    tarn_loader_close(l);
    tarn_dataset_close(d);
}

static void notice(void *context, const tarn_error *what)
{
    assert_non_null(strstr(what->message, "field png"));
    ++*(size_t *)context;
}

static void a_limit_is_a_limit(void **state)
{
    (void)state;
    tarn_dataset *d = open_path(fold_path(7));
    tarn_loader_options o = options();
    size_t told = 0;
    o.on_error = TARN_ON_ERROR_LIMIT;
    o.notice = notice;
    o.notice_context = &told;
    for (o.error_limit = 0; o.error_limit < 9; o.error_limit++) {
        tarn_loader *l;
        tarn_batch *b;
        tarn_status status;
        size_t seen = 0;
        told = 0;
        o.threads = (unsigned)(o.error_limit % 3);
        OK(tarn_loader_open(d, &o, &l, &err));
        while ((status = tarn_loader_next(l, &b, &err)) == TARN_OK) {
            seen += b->count;
            tarn_batch_release(b);
        }
        if (o.error_limit == 8) {
            assert_int_equal(status, TARN_END);
            assert_int_equal(seen, SAMPLES - 8);
            assert_int_equal(told, 8);
        } else {
            assert_int_equal(status, TARN_ERR_FORMAT);
            assert_non_null(strstr(err.message, "which is the limit"));
            assert_true(told <= o.error_limit);
        }
        tarn_loader_close(l);
    }
    tarn_dataset_close(d);
}

/* --- Epochs, ranks, state ------------------------------------------------------------
 */

/* The samples of all ranks, in the order of positions. */
static size_t take_ranks(tarn_dataset *d, tarn_loader_options o, const char *from,
                         unsigned world, size_t batches, uint64_t *out, char *state)
{
    size_t n = 0;
    tarn_batch *taken[4][64];
    size_t counts[4] = {0};
    tarn_loader *l[4];
    o.state = from;
    o.state_len = from ? strlen(from) : 0;
    o.order.world = world;
    for (unsigned r = 0; r < world; r++) {
        o.order.rank = r;
        OK(tarn_loader_open(d, &o, &l[r], &err));
        while (counts[r] < batches &&
               tarn_loader_next(l[r], &taken[r][counts[r]], &err) == TARN_OK)
            counts[r]++;
    }
    if (state) OK(tarn_loader_state(l[0], state, TARN_ORDER_STATE_MAX, &err));
    for (size_t k = 0; k < counts[0]; k++)
        for (size_t i = 0; i < taken[0][k]->count; i++)
            for (unsigned r = 0; r < world; r++)
                if (k < counts[r] && i < taken[r][k]->count)
                    out[n++] = taken[r][k]->samples[i];
    for (unsigned r = 0; r < world; r++) {
        tarn_loader_close(l[r]);
        for (size_t k = 0; k < counts[r]; k++)
            tarn_batch_release(taken[r][k]);
    }
    return n;
}

static void a_state_goes_on_anywhere(void **state)
{
    (void)state;
    tarn_dataset *d = open_path(fold_path(0));
    tarn_loader_options o = options();
    uint64_t want[SAMPLES], got[SAMPLES + 8];
    char text[TARN_ORDER_STATE_MAX];
    o.order.batch = 3;
    assert_int_equal(take_ranks(d, o, NULL, 1, 64, want, NULL), SAMPLES);
    for (unsigned world = 1; world <= 4; world++)
        for (unsigned then = 1; then <= 3; then++)
            for (size_t batches = 0; batches * 3 * world <= SAMPLES; batches++) {
                o.threads = (unsigned)batches % 3;
                size_t n = take_ranks(d, o, NULL, world, batches, got, text);
                if (batches > 0 && n < batches * 3 * world) break; /* it ended */
                o.threads = then - 1;
                n += take_ranks(d, o, text, then, 64, got + n, NULL);
                assert_int_equal(n, SAMPLES);
                assert_memory_equal(got, want, sizeof want);
            }
    tarn_dataset_close(d);
}

static void a_state_after_skips_goes_on(void **state)
{
    (void)state;
    tarn_dataset *d = open_path(fold_path(7));
    tarn_loader_options o = options();
    uint64_t want[SAMPLES], got[SAMPLES];
    char text[TARN_ORDER_STATE_MAX];
    o.on_error = TARN_ON_ERROR_SKIP;
    size_t total = take_ranks(d, o, NULL, 1, 64, want, NULL);
    for (size_t batches = 0; batches * 8 <= total; batches++) {
        size_t n = take_ranks(d, o, NULL, 1, batches, got, text);
        o.threads = 2;
        n += take_ranks(d, o, text, 1, 64, got + n, NULL);
        assert_int_equal(n, total);
        assert_memory_equal(got, want, total * sizeof *want);
    }
    tarn_dataset_close(d);
}

static void epochs_follow_each_other(void **state)
{
    (void)state;
    tarn_dataset *d = open_path(array_path());
    tarn_loader_options o = options();
    tarn_loader *l;
    tarn_batch *b;
    uint64_t first[2] = {0};
    o.epochs = 2;
    o.threads = 2;
    OK(tarn_loader_open(d, &o, &l, &err));
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        size_t n = 0;
        while (tarn_loader_next(l, &b, &err) == TARN_OK) {
            assert_int_equal(b->epoch, epoch);
            assert_int_equal(b->number, n);
            if (n++ == 0) first[epoch] = b->samples[0];
            tarn_batch_release(b);
        }
        assert_int_equal(n, 7);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(tarn_loader_next(l, &b, &err), TARN_END);
    /* Back to the first, and to one that was never reached. */
    OK(tarn_loader_set_epoch(l, 0, &err));
    OK(tarn_loader_next(l, &b, &err));
    assert_int_equal(b->samples[0], first[0]);
    tarn_batch_release(b);
    OK(tarn_loader_set_epoch(l, 1, &err));
    OK(tarn_loader_next(l, &b, &err));
    assert_int_equal(b->samples[0], first[1]);
    assert_int_equal(b->number, 0);
    tarn_batch_release(b);
    tarn_loader_close(l);
    tarn_dataset_close(d);
}

static void ranks_get_equal_batches(void **state)
{
    (void)state;
    tarn_dataset *d = open_path(array_path());
    static const tarn_ranks ways[] = {TARN_RANKS_UNEVEN, TARN_RANKS_DROP, TARN_RANKS_PAD};
    for (int way = 0; way < 3; way++) {
        size_t batches[5];
        for (unsigned rank = 0; rank < 5; rank++) {
            tarn_loader_options o = options();
            tarn_bytes out = TARN_BYTES_INIT;
            tarn_loader *l;
            o.order.rank = rank;
            o.order.world = 5;
            o.order.batch = 4;
            o.order.ranks = ways[way];
            o.order.equal_batches = true;
            o.threads = 2;
            OK(tarn_loader_open(d, &o, &l, &err));
            batches[rank] = drain(l, &out);
            assert_int_equal(batches[rank], batches[0]);
            tarn_bytes_release(&out);
            tarn_loader_close(l);
        }
        assert_int_equal(batches[0], ways[way] == TARN_RANKS_DROP ? 2 : 3);
    }
    tarn_dataset_close(d);
}

static void nothing_is_an_epoch_too(void **state)
{
    (void)state;
    tarn_dataset *d = open_path(array_path()), *none;
    tarn_loader_options o = options();
    tarn_loader *l;
    tarn_batch *b;
    OK(tarn_dataset_keep_samples(d, NULL, 0, &none, &err));
    for (o.threads = 0; o.threads < 3; o.threads++) {
        OK(tarn_loader_open(none, &o, &l, &err));
        for (int i = 0; i < 5; i++)
            assert_int_equal(tarn_loader_next(l, &b, &err), TARN_END);
        tarn_loader_close(l);
    }
    tarn_dataset_close(none);
    tarn_dataset_close(d);
}

static void options_are_checked(void **state)
{
    (void)state;
    tarn_dataset *d = open_path(fold_path(0));
    tarn_loader *l;
    tarn_loader_options o = options();
    tarn_image_steps steps = TARN_IMAGE_STEPS_INIT;
    tarn_load_field field = {"cls", TARN_LOAD_AUTO, &steps};
    o.order.batch = 0;
    FAILS(TARN_ERR_USAGE, "batches of 0", tarn_loader_open(d, &o, &l, &err));
    o = options();
    o.threads = TARN_MAX_LOADER_THREADS + 1;
    FAILS(TARN_ERR_USAGE, "threads", tarn_loader_open(d, &o, &l, &err));
    o = options();
    o.order.rank = 2;
    FAILS(TARN_ERR_USAGE, "no rank 2", tarn_loader_open(d, &o, &l, &err));
    o = options();
    o.fields = &field;
    o.n_fields = 1;
    steps.width = steps.height = 8;
    FAILS(TARN_ERR_USAGE, "no image", tarn_loader_open(d, &o, &l, &err));
    o.state = "nonsense";
    o.state_len = 8;
    FAILS(TARN_ERR_FORMAT, "", tarn_loader_open(d, &o, &l, &err));
    tarn_dataset_close(d);
}

/* --- Ends ----------------------------------------------------------------------------
 */

static void it_can_be_closed_at_any_moment(void **state)
{
    (void)state;
    tarn_dataset *d = open_path(fold_path(7));
    tarn_loader_options o = options();
    o.on_error = TARN_ON_ERROR_SKIP;
    for (unsigned threads = 0; threads <= 4; threads += 2)
        for (size_t after = 0; after < 12; after++) {
            tarn_loader *l;
            tarn_batch *held[12];
            o.threads = threads;
            OK(tarn_loader_open(d, &o, &l, &err));
            size_t n = 0;
            for (size_t i = 0; i < after; i++) {
                tarn_status status = tarn_loader_next(l, &held[n], &err);
                if (status == TARN_OK) n++;
            }
            tarn_loader_close(l);
            /* They outlive it. */
            for (size_t i = 0; i < n; i++) {
                check_sample(held[i], 0);
                tarn_batch_release(held[i]);
            }
        }
    tarn_dataset_close(d);
}

static void a_short_wait_loses_nothing(void **state)
{
    (void)state;
    tarn_dataset *d = open_path(fold_path(7));
    tarn_loader_options o = options();
    o.on_error = TARN_ON_ERROR_SKIP;
    tarn_bytes want = epochs_of(d, &o, 1);
    for (o.threads = 0; o.threads < 3; o.threads++) {
        tarn_loader *l;
        tarn_bytes got = TARN_BYTES_INIT;
        OK(tarn_loader_open(d, &o, &l, &err));
        for (;;) {
            tarn_batch *b;
            tarn_status status = tarn_loader_next_within(l, 0, &b, &err);
            if (status == TARN_END) break;
            OK(status);
            if (b) add_batch(&got, b);
            tarn_batch_release(b);
        }
        same(&want, &got);
        tarn_loader_close(l);
    }
    tarn_bytes_release(&want);
    tarn_dataset_close(d);
}

static int in_child(tarn_loader *l, const tarn_bytes *want, size_t done)
{
    tarn_bytes got = TARN_BYTES_INIT;
    drain(l, &got);
    tarn_loader_close(l);
    bool good = got.size == want->size - done &&
                memcmp(got.data, want->data + done, got.size) == 0;
    tarn_bytes_release(&got);
    return good ? 0 : 1;
}

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define NO_THREADS_AFTER_FORK 1
#elif __has_feature(address_sanitizer)
#define NO_THREADS_BEFORE_FORK 1
#endif
#endif

/* AddressSanitizer's allocator stays locked in a child if a thread was in it. */
#ifdef NO_THREADS_BEFORE_FORK
enum { FORKED_THREADS = 0 };
#else
enum { FORKED_THREADS = 4 };
#endif

static void a_child_goes_on_by_itself(void **state)
{
    (void)state;
#ifdef NO_THREADS_AFTER_FORK
    print_message("ThreadSanitizer starts no threads in a child\n");
    skip();
#endif
    tarn_dataset *d = open_path(fold_path(0));
    tarn_loader_options o = options();
    tarn_bytes want = epochs_of(d, &o, 1);
    for (unsigned threads = 0; threads <= FORKED_THREADS; threads += 2)
        for (size_t after = 0; after < 7; after++) {
            tarn_loader *l;
            tarn_batch *b = NULL;
            tarn_bytes got = TARN_BYTES_INIT;
            o.threads = threads;
            OK(tarn_loader_open(d, &o, &l, &err));
            for (size_t i = 0; i < after; i++) {
                tarn_batch_release(b);
                OK(tarn_loader_next(l, &b, &err));
                add_batch(&got, b);
            }
            fflush(stdout);
            pid_t child = fork();
            if (child == 0) {
                alarm(20);
                tarn_batch_release(b);
                _exit(in_child(l, &want, got.size));
            }
            int status = -1;
            assert_true(child > 0 && waitpid(child, &status, 0) == child);
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
            tarn_batch_release(b);
            drain(l, &got);
            same(&want, &got);
            tarn_loader_close(l);
        }
    tarn_bytes_release(&want);
    tarn_dataset_close(d);
}

static void many_threads_share_the_work(void **state)
{
    (void)state;
    tarn_dataset *d = open_path(fold_path(50));
    tarn_loader_options o = options();
    o.on_error = TARN_ON_ERROR_SKIP;
    tarn_bytes want = epochs_of(d, &o, 4);
    o.threads = 64;
    o.depth = 16;
    tarn_bytes got = epochs_of(d, &o, 4);
    same(&want, &got);
    tarn_bytes_release(&want);
    tarn_dataset_close(d);
}

static void hold_all_batches_if_you_like(void **state)
{
    (void)state;
    tarn_dataset *d = open_path(fold_path(0));
    tarn_loader_options o = options();
    tarn_loader *l;
    tarn_batch *held[SAMPLES];
    o.order.batch = 1;
    o.threads = 2;
    OK(tarn_loader_open(d, &o, &l, &err));
    for (size_t i = 0; i < SAMPLES; i++)
        OK(tarn_loader_next(l, &held[i], &err));
    for (size_t i = 0; i < SAMPLES; i++) {
        check_sample(held[i], 0);
        tarn_batch_release(held[i]);
    }
    tarn_loader_close(l);
    tarn_dataset_close(d);
}

static atomic_size_t lent;

static void *lend(void *context, size_t size)
{
    assert_int_equal(size % 64, 0);
    atomic_fetch_add((atomic_size_t *)context, size);
    return aligned_alloc(64, size);
}

static void take_back(void *context, void *memory, size_t size)
{
    atomic_fetch_sub((atomic_size_t *)context, size);
    free(memory);
}

static void memory_may_be_the_callers(void **state)
{
    (void)state;
    tarn_dataset *d = open_path(fold_path(0));
    tarn_loader_options o = options();
    tarn_bytes want = epochs_of(d, &o, 2);
    o.alloc = lend;
    o.free = take_back;
    o.memory_context = &lent;
    o.threads = 2;
    tarn_loader *l;
    tarn_bytes got = TARN_BYTES_INIT;
    OK(tarn_loader_open(d, &o, &l, &err));
    drain(l, &got);
    drain(l, &got);
    assert_true(atomic_load(&lent) > 0);
    tarn_loader_close(l);
    same(&want, &got);
    assert_int_equal(atomic_load(&lent), 0);
    tarn_bytes_release(&want);
    tarn_dataset_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_what_the_fields_are),
        cmocka_unit_test(values_are_those_of_the_codecs),
        cmocka_unit_test(any_number_of_threads_gives_the_same),
        cmocka_unit_test(arrays_and_packs_have_types),
        cmocka_unit_test(fields_come_as_they_are_asked_for),
        cmocka_unit_test(fields_of_no_file_are_numbers_and_text),
        cmocka_unit_test(image_steps_are_those_of_one_image),
        cmocka_unit_test(a_bad_sample_is_named),
        cmocka_unit_test(skipping_keeps_batches_full_and_in_order),
        cmocka_unit_test(every_sample_may_be_bad),
        cmocka_unit_test(a_limit_is_a_limit),
        cmocka_unit_test(a_state_goes_on_anywhere),
        cmocka_unit_test(a_state_after_skips_goes_on),
        cmocka_unit_test(epochs_follow_each_other),
        cmocka_unit_test(ranks_get_equal_batches),
        cmocka_unit_test(nothing_is_an_epoch_too),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(it_can_be_closed_at_any_moment),
        cmocka_unit_test(a_short_wait_loses_nothing),
        cmocka_unit_test(a_child_goes_on_by_itself),
        cmocka_unit_test(many_threads_share_the_work),
        cmocka_unit_test(hold_all_batches_if_you_like),
        cmocka_unit_test(memory_may_be_the_callers),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
