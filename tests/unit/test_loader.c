/* The loader from C: batches are compared with what the dataset returns for each sample,
 * then across numbers of threads; and samples that fail. */
#include "loading.h"

#include <unistd.h>

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
    tarn_dataset *d = open_shuffled(fold_path(0));
    tarn_loader_options o = loader_options();
    tarn_loader *l;
    tarn_batch *b;
    size_t seen = 0;
    OK(tarn_loader_open(d, &o, &l, &err));
    tarn_dataset_close(d); /* the loader keeps it open */
    while (tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err) == TARN_OK) {
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

/* The loader decodes like the table of codecs. */
static void values_are_those_of_the_codecs(void **state)
{
    (void)state;
    tarn_dataset *d = open_shuffled(fold_path(0));
    tarn_loader_options o = loader_options();
    tarn_loader *l;
    tarn_batch *b;
    o.batch = 1;
    OK(tarn_loader_open(d, &o, &l, &err));
    while (tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err) == TARN_OK) {
        for (size_t c = 0; c < b->n_columns; c++) {
            const tarn_column *got = &b->columns[c];
            tarn_view view;
            tarn_value v;
            OK(tarn_dataset_get(tarn_dataset_unordered(d), b->samples[0], (uint32_t)c,
                                &view, &err));
            OK(tarn_decode(got->field, view.data, view.size, NULL, &v, &err));
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
    tarn_dataset *sets[] = {open_shuffled(fold_path(0)), open_shuffled(array_path()),
                            open_shuffled(pack_path()), open_mix()};
    static const unsigned threads[] = {1, 2, 8};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        for (int way = 0; way < 2; way++) {
            tarn_loader_options o = loader_options();
            tarn_load_field fields[] = {{"x", TARN_LOAD_AUTO, NULL},
                                        {"y", TARN_LOAD_INTEGER, NULL}};
            if (i == 3) {
                o.fields = fields;
                o.n_fields = 2;
            }
            set_staged(sets[i], way == 1);
            tarn_bytes want = epochs_of(sets[i], &o, 3);
            assert_true(want.size > 0);
            for (size_t k = 0; k < 3; k++) {
                o.threads = threads[k];
                o.prefetch = k == 1 ? 1 : 0;
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
    tarn_dataset *d = open_shuffled(array_path());
    tarn_loader_options o = loader_options();
    tarn_loader *l;
    tarn_batch *b;
    OK(tarn_loader_open(d, &o, &l, &err));
    OK(tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err));
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
    d = open_shuffled(pack_path());
    OK(tarn_loader_open(d, &o, &l, &err));
    OK(tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err));
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
    tarn_dataset *d = open_shuffled(fold_path(0));
    tarn_loader_options o = loader_options();
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
    OK(tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err));
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
    FAILS(TARN_ERR_NO_FIELD, "gone", tarn_loader_open(d, &o, &l, &err));
    tarn_dataset_close(d);
}

static void fields_of_no_file_are_numbers_and_text(void **state)
{
    (void)state;
    tarn_dataset *d;
    tarn_dataset_options set = TARN_DATASET_OPTIONS_INIT;
    tarn_loader_options o = loader_options();
    tarn_loader *l;
    tarn_batch *b;
    set.fields = (const char *[]){"cls", "_idx", "_key", "_shard", NULL};
    OK(tarn_dataset_open(fold_path(0), &set, &d, &err));
    OK(tarn_loader_open(d, &o, &l, &err));
    OK(tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err));
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
    tarn_dataset *d = open_shuffled(fold_path(0));
    tarn_loader_options o = loader_options();
    tarn_image_steps steps = TARN_IMAGE_STEPS_INIT;
    tarn_load_field field = {"png", TARN_LOAD_AUTO, &steps};
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
    OK(tarn_image_decoder_new(NULL, &decoder, &err));
    OK(tarn_loader_open(d, &o, &l, &err));
    for (int epoch = 0; epoch < 2; epoch++)
        while (tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err) == TARN_OK) {
            const tarn_column *c = &b->columns[0];
            assert_int_equal(c->ndim, 3);
            assert_int_equal(c->shape[0], 3);
            assert_int_equal(c->shape[2], 16);
            for (size_t i = 0; i < b->count; i++) {
                tarn_view v;
                tarn_image_draw draw = {11, (uint64_t)epoch, b->number * 8 + i};
                uint32_t png;
                OK(tarn_dataset_field_find(d, "png", &png, &err));
                OK(tarn_dataset_get(tarn_dataset_unordered(d), b->samples[i], png, &v,
                                    &err));
                OK(tarn_image_run(decoder, &steps, v.data, v.size, draw, want,
                                  sizeof want, &err));
                assert_memory_equal(c->data + i * sizeof want, want, sizeof want);
                tarn_view_release(&v);
            }
            tarn_batch_release(b);
        }
    tarn_loader_close(l);
    tarn_image_decoder_free(decoder);
    tarn_dataset_close(d);
}

/* --- Samples that fail -------------------------------------------------------------- */

static void a_bad_sample_is_named(void **state)
{
    (void)state;
    tarn_dataset *d = open_path(fold_path(7));
    tarn_loader_options o = loader_options();
    tarn_loader *l;
    tarn_batch *b;
    char first[TARN_ERROR_MESSAGE_MAX];
    for (unsigned threads = 0; threads < 3; threads++) {
        o.threads = threads;
        OK(tarn_loader_open(d, &o, &l, &err));
        FAILS(TARN_ERR_FORMAT, "sample 0 (s0000), field png",
              tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err));
        assert_string_equal(err.path, fold_path(7));
        assert_true(err.offset != TARN_NO_OFFSET && err.offset % 512 == 0);
        strcpy(first, err.message);
        FAILS(TARN_ERR_FORMAT, first, tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err));
        tarn_loader_close(l);
    }
    tarn_dataset_close(d);
}

/* Slot i of a batch with SKIP or REPLACE has the sample at its position *out. */
static void usable_slots(const uint64_t *at, size_t n, unsigned bad, bool replace,
                         uint64_t *out, size_t *out_n)
{
    *out_n = 0;
    for (size_t i = 0; i < n; i++) {
        size_t k = i;
        while (replace && at[k % n] % bad == 0 && k < i + n)
            k++;
        if (at[k % n] % bad) out[(*out_n)++] = at[k % n];
    }
}

static void check_skips(const tarn_loader *l, unsigned bad, size_t want)
{
    tarn_loader_stats stats;
    tarn_loader_stats_get(l, &stats, sizeof stats);
    assert_int_equal(stats.skipped, want);
    for (size_t i = 0; i < stats.skipped; i++) {
        assert_int_equal(tarn_loader_skipped(l, i)->sample % bad, 0);
        assert_non_null(strstr(tarn_loader_skipped(l, i)->error.message, "field png"));
    }
    assert_null(tarn_loader_skipped(l, stats.skipped));
}

/* all is the whole epoch; the batch covers count of its positions, beginning at from. */
static void check_places(const tarn_batch *b, const uint64_t *all, size_t from,
                         size_t count, bool replace)
{
    uint64_t places[8], positions[8];
    assert_int_equal(tarn_batch_places(b, NULL, NULL), count);
    assert_int_equal(tarn_batch_places(b, places, positions), count);
    for (size_t i = 0; i < b->count; i++) {
        assert_true(places[i] < count);
        assert_int_equal(positions[i], from + places[i]);
        assert_int_equal(b->samples[i], all[positions[i]]);
        if (i && !replace) assert_true(places[i] > places[i - 1]);
    }
}

/* Every batch has the samples at its own positions, whatever happened to others. */
static void check_holes(tarn_dataset *d, const tarn_loader_options *o, unsigned bad)
{
    tarn_loader *l;
    tarn_batch *b;
    uint64_t all[SAMPLES], want[8];
    size_t batches = 0, n;
    bool replace = o->on_error == TARN_ON_ERROR_REPLACE;
    OK(tarn_dataset_sequence(d, 0, SAMPLES, all, &err));
    OK(tarn_loader_open(d, o, &l, &err));
    for (; tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err) == TARN_OK; batches++) {
        size_t from = batches * 8, count = SAMPLES - from < 8 ? SAMPLES - from : 8;
        usable_slots(all + from, count, bad, replace, want, &n);
        assert_int_equal(b->number, batches);
        assert_int_equal(b->count, n);
        assert_memory_equal(b->samples, want, n * sizeof *want);
        check_places(b, all, from, count, replace);
        for (size_t i = 0; i < n; i++)
            check_sample(b, i);
        tarn_batch_release(b);
    }
    assert_int_equal(batches, (SAMPLES + 7) / 8);
    check_skips(l, bad, (SAMPLES + bad - 1) / bad);
    tarn_loader_close(l);
}

static void a_bad_sample_is_a_hole_in_its_own_batch(void **state)
{
    (void)state;
    tarn_loader_options o = loader_options();
    static const unsigned bads[] = {2, 7, 50};
    for (int i = 0; i < 6; i++) {
        tarn_dataset *d = open_shuffled(fold_path(bads[i % 3]));
        tarn_bytes want = TARN_BYTES_INIT;
        o.on_error = i < 3 ? TARN_ON_ERROR_SKIP : TARN_ON_ERROR_REPLACE;
        for (unsigned threads = 0; threads <= 8; threads += threads ? threads : 1) {
            o.threads = threads;
            set_staged(d, threads == 2);
            check_holes(d, &o, bads[i % 3]);
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

/* A view into the file, and a view of generated bytes. */
static void check_views(const tarn_batch *b)
{
    const tarn_column *txt = column(b, "txt"), *key = column(b, "_key");
    assert_int_equal(txt->kind, TARN_COLUMN_VIEWS);
    assert_int_equal(key->kind, TARN_COLUMN_VIEWS);
    for (size_t i = 0; i < b->count; i++) {
        char want[32];
        int len = snprintf(want, sizeof want, "text of %u", (unsigned)b->samples[i]);
        assert_int_equal(txt->views[i].size, len);
        assert_memory_equal(txt->views[i].data, want, len);
        assert_int_equal(key->views[i].size, 5);
        assert_memory_equal(key->views[i].data, b->keys + b->key_offsets[i], 5);
        snprintf(want, sizeof want, "s%04u", (unsigned)b->samples[i]);
        assert_string_equal(b->keys + b->key_offsets[i], want);
    }
}

static void views_have_holes_too(void **state)
{
    (void)state;
    tarn_dataset_options set = TARN_DATASET_OPTIONS_INIT;
    tarn_load_field fields[] = {{"txt", TARN_LOAD_VIEWS, NULL},
                                {"_key", TARN_LOAD_VIEWS, NULL},
                                {"png", TARN_LOAD_AUTO, NULL}};
    tarn_dataset *d;
    tarn_loader_options o = loader_options();
    set.fields = (const char *[]){"txt", "_key", "png", NULL};
    o.fields = fields;
    o.n_fields = 3;
    OK(tarn_dataset_open(fold_path(7), &set, &d, &err));
    for (int way = 0; way < 6; way++) {
        tarn_loader *l;
        tarn_batch *b;
        size_t n = 0;
        o.threads = (unsigned)way % 3;
        o.on_error = way < 3 ? TARN_ON_ERROR_SKIP : TARN_ON_ERROR_REPLACE;
        OK(tarn_loader_open(d, &o, &l, &err));
        while (tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err) == TARN_OK) {
            check_views(b);
            n += b->count;
            tarn_batch_release(b);
        }
        assert_int_equal(n, way < 3 ? SAMPLES - 8 : SAMPLES);
        tarn_loader_close(l);
    }
    tarn_dataset_close(d);
}

/* Arrays are writable, so the copy of a sample must be separate. */
static void a_replaced_sample_has_memory_of_its_own(void **state)
{
    (void)state;
    tarn_dataset *d = open_path(fold_path(7)); /* sample 0 is replaced by sample 1 */
    tarn_loader_options o = loader_options();
    tarn_loader *l;
    tarn_batch *b;
    o.on_error = TARN_ON_ERROR_REPLACE;
    OK(tarn_loader_open(d, &o, &l, &err));
    OK(tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err));
    assert_int_equal(b->samples[0], 1);
    assert_int_equal(b->samples[1], 1);
    assert_int_equal(b->samples[7], 1); /* after the last comes the first again */
    tarn_column *rag = NULL, *fix = NULL;
    for (size_t i = 0; i < b->n_columns; i++) {
        if (strcmp(b->columns[i].field, "rag.npy") == 0) rag = &b->columns[i];
        if (strcmp(b->columns[i].field, "fix.npy") == 0) fix = &b->columns[i];
    }
    assert_int_equal(rag->kind, TARN_COLUMN_ARRAYS);
    memset(rag->arrays[0].data, 0xee, tarn_array_bytes(&rag->arrays[0]));
    assert_int_equal(((const int16_t *)rag->arrays[1].data)[0], 1);
    assert_int_equal(((const int16_t *)rag->arrays[7].data)[0], 1);
    memset(fix->data, 0xee, 24);
    check_sample(b, 1);
    check_sample(b, 7);
    tarn_batch_release(b);
    tarn_loader_close(l);
    tarn_dataset_close(d);
}

static void a_batch_without_a_usable_sample_is_an_error(void **state)
{
    (void)state;
    tarn_dataset *d = open_shuffled(fold_path(1));
    tarn_loader_options o = loader_options();
    for (int i = 0; i < 6; i++) {
        tarn_loader *l;
        tarn_batch *b;
        o.on_error = i < 3 ? TARN_ON_ERROR_SKIP : TARN_ON_ERROR_REPLACE;
        o.threads = (unsigned)i % 3;
        OK(tarn_loader_open(d, &o, &l, &err));
        for (int again = 0; again < 2; again++)
            FAILS(TARN_ERR_FORMAT,
                  "no usable sample in batch 0 of epoch 0; first error: sample",
                  tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err));
        check_skips(l, 1, 8);
        /* Another epoch can be set. */
        OK(tarn_loader_set_epoch(l, 1, &err));
        FAILS(TARN_ERR_FORMAT, "batch 0 of epoch 1",
              tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err));
        check_skips(l, 1, 16);
        tarn_loader_close(l);
    }
    tarn_dataset_close(d);
}

static void notice(void *context, const tarn_error *what)
{
    assert_non_null(strstr(what->message, "field png"));
    ++*(size_t *)context;
}

/* Labels, some of them damaged, and arrays that are small for half of the samples. */
static const char *growing_path(void)
{
    static char name[64];
    static uint8_t bytes[8192];
    snprintf(name, sizeof name, "%s/growing.tar", scratch());
    if (access(name, F_OK) == 0) return name;
    tarball t = {0};
    for (unsigned i = 0; i < SAMPLES; i++) {
        tarn_array a;
        tarn_value v = value_bytes("?", 1);
        if (i % 7) v = value_integer(i);
        tarball_value(&t, i, "cls", &v);
        memset(bytes, (int)i, sizeof bytes);
        OK(tarn_array_init(&a, bytes, (tarn_dtype){'|', 'u', 1}, 1,
                           (const uint64_t[]){i < SAMPLES / 2 ? 8 : sizeof bytes}, &err));
        v = value_array(&a);
        tarball_value(&t, i, "a.npy", &v);
    }
    tarball_end(&t);
    save_tar(&t, name);
    tarball_reset(&t);
    return name;
}

static void check_growing(const tarn_batch *b, size_t slot)
{
    const tarn_column *a = column(b, "a.npy");
    uint64_t i = b->samples[slot], size = i < SAMPLES / 2 ? 8 : 8192;
    const unsigned char *data = a->kind == TARN_COLUMN_ARRAY
                                    ? a->data + slot * size
                                    : (const unsigned char *)a->arrays[slot].data;
    if (a->kind == TARN_COLUMN_ARRAYS)
        assert_int_equal(tarn_array_bytes(&a->arrays[slot]), size);
    assert_int_equal(((const int64_t *)column(b, "cls")->data)[slot], i);
    assert_int_equal(data[0], i);
    assert_int_equal(data[size - 1], i);
}

static void values_may_grow_and_labels_be_damaged(void **state)
{
    (void)state;
    tarn_dataset *d = open_path(growing_path());
    tarn_loader_options o = loader_options();
    o.on_error = TARN_ON_ERROR_SKIP;
    for (o.threads = 0; o.threads <= 3; o.threads += 3) {
        tarn_loader *l;
        tarn_batch *b;
        size_t count = 0;
        OK(tarn_loader_open(d, &o, &l, &err));
        for (int epoch = 0; epoch < 2; epoch++)
            while (tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err) == TARN_OK) {
                for (size_t i = 0; i < b->count; i++)
                    check_growing(b, i);
                count += b->count;
                tarn_batch_release(b);
            }
        assert_int_equal(count, 2 * (SAMPLES - (SAMPLES + 6) / 7));
        assert_non_null(strstr(tarn_loader_skipped(l, 1)->error.message, "field cls"));
        tarn_loader_close(l);
    }
    tarn_dataset_close(d);
}

static void a_limit_is_a_limit(void **state)
{
    (void)state;
    tarn_dataset *d = open_shuffled(fold_path(7));
    tarn_loader_options o = loader_options();
    size_t told = 0;
    o.on_error = TARN_ON_ERROR_SKIP;
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
        while ((status = tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err)) == TARN_OK) {
            seen += b->count;
            tarn_batch_release(b);
        }
        if (o.error_limit == 8) {
            assert_int_equal(status, TARN_END);
            assert_int_equal(seen, SAMPLES - 8);
            assert_int_equal(told, 8);
        } else {
            assert_int_equal(status, TARN_ERR_FORMAT);
            assert_non_null(strstr(err.message, "too many faulty samples"));
            assert_true(told <= o.error_limit);
        }
        tarn_loader_close(l);
    }
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
        cmocka_unit_test(a_bad_sample_is_a_hole_in_its_own_batch),
        cmocka_unit_test(views_have_holes_too),
        cmocka_unit_test(a_replaced_sample_has_memory_of_its_own),
        cmocka_unit_test(a_batch_without_a_usable_sample_is_an_error),
        cmocka_unit_test(values_may_grow_and_labels_be_damaged),
        cmocka_unit_test(a_limit_is_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
