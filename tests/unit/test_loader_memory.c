/* Heap use of a warm loader: nothing for a sample, a little for an epoch. */
#include "loading.h"

#include "counting.h"

enum { COUNT = 400, BATCH = 32, EPOCHS = 10, PER_EPOCH = 16, ROOM = 1 << 20 };

static const char *make_fold(void)
{
    static unsigned char pixels[40 * 60 * 3];
    tarball t = {0};
    for (unsigned i = 0; i < COUNT; i++) {
        tarn_array a;
        tarn_value v = value_integer(i);
        tarball_value(&t, i, "cls", &v);
        for (unsigned k = 0; k < sizeof pixels; k++)
            pixels[k] = (unsigned char)(k + i);
        v = value_bytes(pixels, 100 + i);
        tarball_value(&t, i, "bin", &v);
        OK(tarn_array_init(&a, pixels, (tarn_dtype){'|', 'u', 1}, 3,
                           (const uint64_t[]){40, 60, 3}, &err));
        v = value_array(&a);
        tarball_value(&t, i, "jpg", &v);
        tarball_value(&t, i, "npy", &v);
    }
    tarball_end(&t);
    save_tar(&t, scratch_path("memory.tar"));
    tarball_reset(&t);
    return scratch_path("memory.tar");
}

static void run_epoch(tarn_loader *l)
{
    tarn_batch *b;
    tarn_status status;
    size_t seen = 0;
    while ((status = tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err)) == TARN_OK) {
        seen += b->count;
        tarn_batch_release(b);
    }
    assert_int_equal(status, TARN_END);
    assert_int_equal(seen, COUNT);
}

static size_t held_now(void)
{
#ifdef COUNTING_TSAN
    return 0;
#else
    return atomic_load(&held_bytes);
#endif
}

static void check_flat(tarn_dataset *d, const tarn_loader_options *o, size_t most)
{
    tarn_loader *l;
    OK(tarn_loader_open(d, o, &l, &err));
    for (int i = 0; i < EPOCHS; i++)
        run_epoch(l);
    count_memory();
    size_t before = held_now();
    for (int i = 0; i < EPOCHS; i++)
        run_epoch(l);
    size_t more = count_memory().calls;
    if (more > EPOCHS * most)
        fail_msg("%zu allocations in %d epochs of %d samples", more, EPOCHS, COUNT);
    size_t now = held_now();
    /* What the threads are working on, and one more window. */
    if (now > before + ROOM) fail_msg("%zu bytes more than before", now - before);
    tarn_loader_close(l);
}

static void a_warm_loader_allocates_nothing_for_a_sample(void **state)
{
    (void)state;
    tarn_dataset *d = open_shuffled(make_fold());
    tarn_loader_options o = TARN_LOADER_OPTIONS_INIT;
    tarn_load_field fields[] = {{"cls", TARN_LOAD_AUTO, NULL},
                                {"bin", TARN_LOAD_AUTO, NULL},
                                {"npy", TARN_LOAD_AUTO, NULL},
                                {"jpg", TARN_LOAD_BYTES, NULL}};
    o.batch = BATCH;
    o.fields = fields;
    o.n_fields = 4;
    for (int way = 0; way < 4; way++) {
        o.threads = way & 1 ? 2 : 0;
        set_staged(d, way & 2);
        check_flat(d, &o, PER_EPOCH);
    }
    tarn_dataset_close(d);
}

/* libjpeg allocates and frees its own memory for each image, about ten times. */
static void images_cost_what_libjpeg_takes(void **state)
{
    (void)state;
    tarn_dataset *d = open_shuffled(make_fold());
    tarn_image_steps steps = TARN_IMAGE_STEPS_INIT;
    tarn_loader_options o = TARN_LOADER_OPTIONS_INIT;
    steps.width = steps.height = 32;
    o.batch = BATCH;
    for (int way = 0; way < 4; way++) {
        o.threads = way & 1 ? 2 : 0;
        o.image = way & 2 ? &steps : NULL;
        check_flat(d, &o, PER_EPOCH + COUNT * 16);
    }
    tarn_dataset_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_warm_loader_allocates_nothing_for_a_sample),
        cmocka_unit_test(images_cost_what_libjpeg_takes),
    };
    count_begin();
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
