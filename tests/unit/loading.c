/* Data for the loader's tests, and epochs as text. */
#include "dataset/dataset.h"

#include "iac_help.h"
#include "loading.h"

#include <unistd.h>

#include "codec/codec.h"

tarn_error err;

/* --- Data -------------------------------------------------------------------------- */

static void add_image(tarball *t, unsigned i, const char *field, unsigned wide)
{
    static unsigned char pixels[HIGH * (WIDE + SAMPLES) * 3];
    tarn_array a;
    for (unsigned k = 0; k < HIGH * wide * 3; k++)
        pixels[k] = (unsigned char)(k * 7 + i * 13 + k / 97);
    OK(tarn_array_init(&a, pixels, (tarn_dtype){'|', 'u', 1}, 3,
                       (const uint64_t[]){HIGH, wide, 3}, &err));
    tarn_value v = value_array(&a);
    tarball_value(t, i, field, &v);
}

const char *fold_path(unsigned bad)
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
        tarn_value v = value_integer((int64_t)i * 3 - 7);
        tarball_value(&t, i, "cls", &v);
        memset(bin, (int)i, sizeof bin);
        v = value_bytes(bin, i * 3);
        tarball_value(&t, i, "bin", &v);
        for (unsigned k = 0; k < 6; k++)
            fixed[k] = (float)(i * 10 + k);
        OK(tarn_array_init(&a, fixed, (tarn_dtype){'<', 'f', 4}, 2,
                           (const uint64_t[]){2, 3}, &err));
        v = value_array(&a);
        tarball_value(&t, i, "fix.npy", &v);
        for (unsigned k = 0; k < SAMPLES; k++)
            ragged[k] = (int16_t)(i + k);
        OK(tarn_array_init(&a, ragged, (tarn_dtype){'<', 'i', 2}, 1,
                           (const uint64_t[]){i % 5 ? 4 : i % 7}, &err));
        v = value_array(&a);
        tarball_value(&t, i, "rag.npy", &v);
        snprintf(text, sizeof text, "text of %u", i);
        v = value_text(text, strlen(text));
        tarball_value(&t, i, "txt", &v);
        if (bad && i % bad == 0) {
            v = value_bytes("no image at all", 15);
            tarball_value(&t, i, "png", &v);
        } else {
            add_image(&t, i, "png", WIDE + i % 3);
        }
    }
    tarball_end(&t);
    save_tar(&t, name);
    tarball_reset(&t);
    return name;
}

const char *array_path(void)
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
    OK(tarn_gnz_writer_open(name, NULL, &w, &err));
    OK(tarn_array_init(&a, x, (tarn_dtype){'<', 'f', 4}, 2,
                       (const uint64_t[]){SAMPLES, 4}, &err));
    OK(tarn_gnz_writer_add(w, "x", &a, NULL, &err));
    OK(tarn_array_init(&a, y, (tarn_dtype){'|', 'u', 1}, 1, (const uint64_t[]){SAMPLES},
                       &err));
    OK(tarn_gnz_writer_add(w, "y", &a, NULL, &err));
    OK(tarn_gnz_writer_finish(w, &err));
    return name;
}

const char *pack_path(void)
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
        OK(rows_text(rows, 0, "n", 1, &err));
        OK(rows_number(rows, 1, -(int64_t)i, &err));
    }
    OK(tarn_iac_rows_finish(rows, &index, &err));
    OK(tarn_iac_writer_open(name, &slides, &index, NULL, &w, &err));
    for (unsigned i = 0; i < SAMPLES; i++)
        OK(tarn_iac_writer_add(w, "payload that grows with its number, up to a point",
                               i % 40, &err));
    OK(tarn_iac_writer_finish(w, &err));
    return name;
}

tarn_dataset *open_path(const char *path)
{
    tarn_dataset *d;
    OK(tarn_dataset_open(path, NULL, &d, &err));
    return d;
}

static tarn_dataset *shuffle(tarn_dataset *d)
{
    tarn_dataset *out;
    tarn_order_options o = TARN_ORDER_OPTIONS_INIT;
    o.kind = TARN_ORDER_SHUFFLE;
    o.seed = 11;
    OK(tarn_dataset_order(d, &o, &out, &err));
    tarn_dataset_close(d);
    return out;
}

tarn_dataset *open_shuffled(const char *path)
{
    return shuffle(open_path(path));
}

tarn_dataset *one_rank(tarn_dataset *d, uint64_t rank, uint64_t world_size,
                       tarn_uneven uneven)
{
    tarn_dataset *out;
    OK(tarn_dataset_split(d, rank, world_size, uneven, &out, &err));
    tarn_dataset_close(d);
    return out;
}

void set_staged(tarn_dataset *d, bool staged)
{
    d->source->cold = staged;
}

tarn_dataset *open_mix(void)
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
    /* No field is in all sources; keep the samples that have x. */
    OK(keep_having(mix, (const char *[]){"x"}, 1, &picked, &err));
    tarn_dataset_close(mix);
    return shuffle(picked);
}

/* --- An epoch as text -------------------------------------------------------------- */

tarn_loader_options loader_options(void)
{
    tarn_loader_options o = TARN_LOADER_OPTIONS_INIT;
    o.batch = 8;
    return o;
}

static void add(tarn_bytes *out, const void *data, size_t size)
{
    OK(tarn__bytes_add(out, data, size, &err));
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
    case TARN_COLUMN_RAGGED:
        assert_int_equal((uintptr_t)c->data % 64, 0);
        assert_int_equal(c->offsets[0], 0);
        add(out, &c->dtype.kind, 1);
        add_number(out, c->dtype.size);
        add(out, c->shape, c->ndim * sizeof *c->shape);
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

void add_batch(tarn_bytes *out, const tarn_batch *b)
{
    add_number(out, b->count);
    add_number(out, b->epoch);
    add(out, b->samples, b->count * sizeof *b->samples);
    if (b->keys) add(out, b->keys, b->key_offsets[b->count]);
    for (size_t i = 0; i < b->n_columns; i++)
        add_column(out, &b->columns[i], b->count);
}

size_t drain(tarn_loader *l, tarn_bytes *out)
{
    tarn_batch *b;
    tarn_status status;
    size_t n = 0;
    for (; (status = tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err)) == TARN_OK; n++) {
        add_batch(out, b);
        tarn_batch_release(b);
    }
    if (status != TARN_END) check_ok(status, &err, __FILE__, __LINE__);
    return n;
}

tarn_bytes epochs_of(tarn_dataset *d, const tarn_loader_options *o, int epochs)
{
    tarn_loader *l;
    tarn_bytes out = TARN_BYTES_INIT;
    OK(tarn_loader_open(d, o, &l, &err));
    for (int i = 0; i < epochs; i++)
        drain(l, &out);
    tarn_loader_close(l);
    return out;
}

void same(const tarn_bytes *a, tarn_bytes *b)
{
    assert_int_equal(a->size, b->size);
    assert_memory_equal(a->data, b->data, a->size);
    tarn_bytes_release(b);
}

const tarn_column *column(const tarn_batch *b, const char *field)
{
    for (size_t i = 0; i < b->n_columns; i++)
        if (strcmp(b->columns[i].field, field) == 0) return &b->columns[i];
    fail_msg("no column %s", field);
    return NULL;
}

void check_sample(const tarn_batch *b, size_t i)
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
