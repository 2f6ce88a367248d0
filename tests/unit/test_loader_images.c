/* Images in a loader: masks that follow them, steps without effect, and the fallback.
 * tests/python/test_images.py compares the results with Pillow. */
#include "loading.h"

#include <pthread.h>

enum { BAD = 7, SIDE = 20 };

static tarn_image_steps crop_steps(void)
{
    tarn_image_steps steps = TARN_IMAGE_STEPS_INIT;
    steps.width = SIDE;
    steps.height = SIDE - 3;
    steps.fit = TARN_IMAGE_FIT_CENTRE;
    steps.flip = 0.5;
    return steps;
}

static void refused(tarn_dataset *d, const tarn_loader_options *o, const char *reason)
{
    tarn_loader *l;
    assert_int_equal(tarn_loader_open(d, o, &l, &err), TARN_ERR_USAGE);
    assert_non_null(strstr(err.message, reason));
}

/* --- Masks -------------------------------------------------------------------------- */

/* A crop without a resize changes no pixel, so an image and the same image as a mask are
 * equal, flipped or not, in either order of the columns. */
static void a_mask_gets_the_part_and_the_flip_of_its_image(void **state)
{
    (void)state;
    tarn_dataset *d = open_shuffled(fold_path(0));
    tarn_loader_options o = loader_options();
    tarn_image_steps steps = crop_steps();
    tarn_load_field fields[] = {{"png", TARN_LOAD_MASK, NULL},
                                {"png", TARN_LOAD_AUTO, NULL}};
    o.fields = fields;
    o.n_fields = 2;
    o.image = &steps;
    for (o.threads = 0; o.threads < 3; o.threads++)
        for (int staged = 0; staged < 2; staged++) {
            tarn_loader *l;
            tarn_batch *b;
            size_t bytes = (size_t)steps.width * steps.height * 3;
            set_staged(d, staged);
            OK(tarn_loader_open(d, &o, &l, &err));
            while (tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err) == TARN_OK) {
                assert_int_equal(b->columns[0].size, b->count * bytes);
                assert_memory_equal(b->columns[0].data, b->columns[1].data,
                                    b->count * bytes);
                tarn_batch_release(b);
            }
            tarn_loader_close(l);
        }
    tarn_dataset_close(d);
}

static void steps_and_masks_that_cannot_have_an_effect_are_refused(void **state)
{
    (void)state;
    tarn_dataset *d = open_path(fold_path(0));
    tarn_loader_options o = loader_options();
    tarn_image_steps steps = crop_steps(), other = crop_steps();
    tarn_load_field fields[] = {{"png", TARN_LOAD_MASK, NULL},
                                {"png", TARN_LOAD_AUTO, &other}};
    const char *codecs[] = {NULL, "png"};
    other.flip = 0;
    o.fields = fields;
    o.n_fields = 1;
    refused(d, &o, "png is loaded as a mask, but there are no image steps");
    o.image = &steps;
    refused(d, &o, "png is a mask, but no other field is an image;");
    o.n_fields = 2;
    refused(d, &o, "no other field is an image with the same crop and flip");
    fields[0].field = "txt";
    refused(d, &o, "txt cannot be a mask");
    fields[0] = (tarn_load_field){"cls", TARN_LOAD_AUTO, NULL};
    o.n_fields = 1;
    refused(d, &o, "none of the 1 fields is decoded as an image");
    fields[0] = (tarn_load_field){"png", TARN_LOAD_BYTES, NULL};
    refused(d, &o, "none of the 1 fields is decoded as an image");
    o.image = NULL;
    o.fields = NULL;
    o.codecs = codecs;
    refused(d, &o, "codecs need a list of fields");
    o.fields = fields;
    fields[0] = (tarn_load_field){"png", TARN_LOAD_AUTO, NULL};
    codecs[0] = "nope";
    refused(d, &o, "png: there is no codec nope");
    codecs[0] = "pickle";
    refused(d, &o, "png: there is no codec pickle");
    codecs[0] = NULL;
    tarn_dataset_close(d);
    d = open_path(array_path());
    fields[0] = (tarn_load_field){"x", TARN_LOAD_AUTO, NULL};
    fields[1] = fields[0];
    o.fields = fields;
    o.n_fields = 2;
    refused(d, &o, "codec png for field x, which is not stored as bytes");
    tarn_dataset_close(d);
}

/* --- The fallback ------------------------------------------------------------------- */

typedef struct calls {
    pthread_t thread;
    size_t count;
    tarn_status fails; /* the next call, and then no more */
} calls;

static void release_pixels(void *owned)
{
    tarn_array *a = owned;
    free(a->data);
    free(a);
}

/* A grey image in one colour. */
static tarn_status decode_grey(void *context, const char *field, const void *data,
                               size_t size, tarn_value *out, tarn_error *why)
{
    calls *c = context;
    uint64_t shape[] = {HIGH, WIDE};
    assert_true(pthread_equal(pthread_self(), c->thread));
    assert_string_equal(field, "png");
    assert_int_equal(size, 15);
    assert_memory_equal(data, "no image at all", 15);
    if (c->fails != TARN_OK) {
        tarn_status status = c->fails;
        *why = (tarn_error){.code = status, .message = "not now"};
        c->fails = TARN_OK;
        return status;
    }
    tarn_array *a = calloc(1, sizeof *a);
    assert_non_null(a);
    OK(tarn_array_init(a, malloc((size_t)WIDE * HIGH), (tarn_dtype){'|', 'u', 1}, 2,
                       shape, &err));
    assert_non_null(a->data);
    memset(a->data, 77, (size_t)WIDE * HIGH);
    *out = (tarn_value){.kind = TARN_VALUE_ARRAY,
                        .arrays = a,
                        .count = 1,
                        .owned = a,
                        .release = release_pixels};
    c->count++;
    return TARN_OK;
}

static tarn_loader_options with_fallback(const tarn_load_field *fields, calls *c)
{
    tarn_loader_options o = loader_options();
    *c = (calls){.thread = pthread_self()};
    o.fields = fields;
    o.n_fields = 2;
    o.fallback = decode_grey;
    o.fallback_context = c;
    return o;
}

static size_t grey_samples(const tarn_batch *b, size_t bytes)
{
    size_t grey = 0;
    for (size_t i = 0; i < b->count; i++) {
        const unsigned char *pixels = b->columns[0].data + i * bytes;
        size_t same_as_grey = 0;
        for (size_t k = 0; k < bytes; k++)
            same_as_grey += pixels[k] == 77;
        assert_int_equal(same_as_grey == bytes, b->samples[i] % BAD == 0);
        grey += same_as_grey == bytes;
        check_sample(b, i);
    }
    return grey;
}

static void unknown_images_go_through_the_fallback_in_the_callers_thread(void **state)
{
    (void)state;
    static const char *const names[] = {"png", "cls", "bin", "fix.npy", "txt"};
    tarn_dataset *d = open_shuffled(fold_path(BAD));
    tarn_image_steps steps = crop_steps();
    tarn_load_field fields[5];
    calls c;
    for (size_t i = 0; i < 5; i++)
        fields[i] = (tarn_load_field){names[i], TARN_LOAD_AUTO, NULL};
    tarn_loader_options o = with_fallback(fields, &c);
    o.n_fields = 5;
    o.image = &steps;
    for (o.threads = 0; o.threads < 4; o.threads++)
        for (int staged = 0; staged < 2; staged++) {
            tarn_loader *l;
            tarn_batch *b;
            tarn_loader_stats stats;
            size_t grey = 0;
            c.count = 0;
            set_staged(d, staged);
            OK(tarn_loader_open(d, &o, &l, &err));
            while (tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err) == TARN_OK) {
                grey += grey_samples(b, (size_t)steps.width * steps.height * 3);
                tarn_batch_release(b);
            }
            tarn_loader_stats_get(l, &stats, sizeof stats);
            assert_int_equal(grey, (SAMPLES + BAD - 1) / BAD);
            assert_int_equal(stats.fallbacks, grey);
            assert_int_equal(c.count, grey);
            tarn_loader_close(l);
        }
    tarn_dataset_close(d);
}

static void a_failure_of_the_fallback_is_one_of_the_sample(void **state)
{
    (void)state;
    tarn_dataset *d = open_path(fold_path(BAD));
    tarn_image_steps steps = crop_steps();
    tarn_load_field fields[] = {{"png", TARN_LOAD_AUTO, &steps},
                                {"cls", TARN_LOAD_AUTO, NULL}};
    calls c;
    tarn_loader *l;
    tarn_batch *b;
    tarn_loader_options o = with_fallback(fields, &c);
    c.fails = TARN_ERR_FORMAT;
    o.on_error = TARN_ON_ERROR_SKIP;
    o.threads = 2;
    OK(tarn_loader_open(d, &o, &l, &err));
    OK(tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err));
    assert_int_equal(b->count, 7);
    assert_int_equal(b->samples[0], 1);
    assert_non_null(
        strstr(tarn_loader_skipped(l, 0)->error.message, "field png: not now"));
    tarn_batch_release(b);
    tarn_loader_close(l);
    /* A cancelled call leaves the batch, and the next call gets it. */
    c.fails = TARN_ERR_CANCELLED;
    OK(tarn_loader_open(d, &o, &l, &err));
    assert_int_equal(tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err), TARN_ERR_CANCELLED);
    OK(tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err));
    assert_int_equal(b->count, 8);
    tarn_batch_release(b);
    tarn_loader_close(l);
    tarn_dataset_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mask_gets_the_part_and_the_flip_of_its_image),
        cmocka_unit_test(steps_and_masks_that_cannot_have_an_effect_are_refused),
        cmocka_unit_test(unknown_images_go_through_the_fallback_in_the_callers_thread),
        cmocka_unit_test(a_failure_of_the_fallback_is_one_of_the_sample),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
