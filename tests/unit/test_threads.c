/* 64 threads at once: on one dataset that they share, with readers, lookups, filters, and
 * their own loaders that are opened and closed at any moment; and one loader with 64
 * threads. Under ThreadSanitizer this finds races; every byte is always checked. The
 * amount of work is fixed. TARN_FULL: a million samples. */
#include "support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "mixed.h"

static tarn_error err;

enum { THREADS = 64, SAMPLES = 20000, MOST = 1000000 };

static mixed data;
static atomic_ullong problems;

static uint64_t wanted(void)
{
    return getenv("TARN_FULL") ? MOST : SAMPLES;
}

static void expect(bool good, const char *what, const tarn_error *why)
{
    if (good) return;
    if (atomic_fetch_add(&problems, 1) < 10)
        fprintf(stderr, "# %s: %s\n", what, why ? why->message : "");
}

static uint32_t draw(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static uint64_t get_one(uint32_t *seed)
{
    tarn_error why = {0};
    tarn_view view = TARN_VIEW_INIT;
    unsigned char bin[MIXED_BIN];
    uint64_t sample = draw(seed) % MIXED_FOLD;
    uint32_t field = 0;
    tarn_status status = tarn_dataset_field_find(data.fold, "bin", &field, &why);
    if (status == TARN_OK)
        status = tarn_dataset_get(data.fold, sample, field, &view, &why);
    expect(status == TARN_OK, "get", &why);
    if (status != TARN_OK) return 1;
    size_t size = mixed_bin(sample, bin);
    expect(view.size == size && memcmp(view.data, bin, size) == 0, "bytes", NULL);
    tarn_view_release(&view);
    return 1;
}

static uint64_t find_one(uint32_t *seed)
{
    tarn_error why = {0};
    char key[16];
    uint64_t sample = draw(seed) % MIXED_FOLD, found = 0;
    snprintf(key, sizeof key, "f%05u", (unsigned)sample);
    tarn_status status = find_key(data.fold, key, &found, &why);
    expect(status == TARN_OK && found == sample, "find", &why);
    return 1;
}

static uint64_t read_some(uint32_t *seed)
{
    enum { SOME = 20 };
    tarn_error why = {0};
    tarn_dataset_batch batch = {0};
    unsigned char bin[MIXED_BIN];
    uint64_t samples[SOME];
    uint32_t field = 0;
    for (int i = 0; i < SOME; i++)
        samples[i] = draw(seed) % MIXED_FOLD;
    tarn_status status = tarn_dataset_field_find(data.fold, "bin", &field, &why);
    if (status == TARN_OK)
        status = tarn_dataset_read(data.fold, samples, SOME, &field, 1, &batch, &why);
    expect(status == TARN_OK, "read", &why);
    for (int i = 0; i < SOME && status == TARN_OK; i++) {
        size_t size = mixed_bin(samples[i], bin);
        uint64_t from = batch.offsets[i];
        expect(batch.offsets[i + 1] - from == size &&
                   memcmp(batch.data + from, bin, size) == 0,
               "batch", NULL);
    }
    tarn_dataset_batch_reset(&batch);
    return SOME;
}

static uint64_t filter_one(uint32_t *seed)
{
    tarn_error why = {0};
    tarn_dataset *few;
    uint64_t first = draw(seed) % (MIXED_FOLD / 2);
    tarn_status status = tarn_dataset_slice(data.fold, first, 1, 50, &few, &why);
    expect(status == TARN_OK, "filter", &why);
    if (status != TARN_OK) return 1;
    expect(tarn_dataset_count(few) == 50, "count", NULL);
    expect(row_of(few, 7) == first + 7, "place", NULL);
    tarn_dataset_close(few);
    return 1;
}

/* A loader that is closed at any time. */
static uint64_t load_some(uint32_t *seed)
{
    tarn_error why = {0};
    tarn_loader_options o = mixed_loader(draw(seed) % 3, 16);
    tarn_loader *loader;
    tarn_batch *batch;
    unsigned batches = draw(seed) % 12;
    uint64_t loaded = 1;
    o.seed = *seed;
    tarn_status status = tarn_loader_open(data.shuffled, &o, &loader, &why);
    expect(status == TARN_OK, "loader", &why);
    if (status != TARN_OK) return loaded;
    if (draw(seed) % 4 == 0) status = tarn_loader_set_epoch(loader, 3, &why);
    while (batches-- && status == TARN_OK) {
        status = tarn_loader_next(loader, TARN_NO_TIMEOUT, &batch, &why);
        if (status != TARN_OK) break;
        expect(mixed_wrong(&data, batch) == TARN_NO_SAMPLE, "loaded", NULL);
        loaded += batch->count;
        tarn_batch_release(batch);
    }
    expect(status == TARN_OK, "next", &why);
    tarn_loader_close(loader);
    return loaded;
}

typedef struct worker {
    pthread_t thread;
    uint32_t seed;
    uint64_t samples;
} worker;

static pthread_barrier_t all_are_there;

/* As many samples as any other thread, whichever is faster; a step counts as one at
 * least. */
static void *work(void *context)
{
    worker *w = context;
    pthread_barrier_wait(&all_are_there);
    while (w->samples < wanted() / THREADS) {
        unsigned what = draw(&w->seed) % 100;
        if (what < 2)
            w->samples += load_some(&w->seed);
        else if (what < 5)
            w->samples += filter_one(&w->seed);
        else if (what < 10)
            w->samples += read_some(&w->seed);
        else if (what < 30)
            w->samples += find_one(&w->seed);
        else
            w->samples += get_one(&w->seed);
    }
    return NULL;
}

static void run_threads(tarn_io io)
{
    static worker workers[THREADS];
    uint64_t samples = 0;
    OK(mixed_open(&data, scratch(), io, &err));
    assert_int_equal(pthread_barrier_init(&all_are_there, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.seed = (uint32_t)(i + 1) * 77777u};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        samples += workers[i].samples;
    }
    pthread_barrier_destroy(&all_are_there);
    mixed_close(&data);
    print_message("# figure: %llu samples by %d threads\n", (unsigned long long)samples,
                  THREADS);
    assert_int_equal(atomic_load(&problems), 0);
}

static void many_threads_over_one_dataset(void **state)
{
    (void)state;
    run_threads(TARN_IO_MAP);
}

/* 60 shards, and descriptors for a quarter of them: files are closed while readers use
 * them. */
static void many_threads_over_a_cache_that_is_too_small(void **state)
{
    (void)state;
    struct rlimit before, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = 64;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    run_threads(TARN_IO_READ);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void many_threads_in_one_loader(void **state)
{
    (void)state;
    tarn_loader_options o = mixed_loader(THREADS, 32);
    tarn_loader *loader;
    tarn_batch *batch;
    uint64_t seen = 0, good = 0, epochs = 0;
    OK(mixed_open(&data, scratch(), TARN_IO_AUTO, &err));
    for (uint64_t i = 0; i < MIXED_ALL; i++)
        good += i < tarn_dataset_count(data.all) && !mixed_is_bad(&data, i);
    OK(tarn_loader_open(data.shuffled, &o, &loader, &err));
    while (epochs < wanted() / MIXED_ALL) {
        tarn_status status = tarn_loader_next(loader, TARN_NO_TIMEOUT, &batch, &err);
        if (status == TARN_END) {
            epochs++;
            assert_int_equal(seen, epochs * good);
            continue;
        }
        check_ok(status, &err, __FILE__, __LINE__);
        assert_int_equal(mixed_wrong(&data, batch), TARN_NO_SAMPLE);
        seen += batch->count;
        tarn_batch_release(batch);
    }
    print_message("# figure: %llu samples by a loader with %d threads\n",
                  (unsigned long long)seen, THREADS);
    tarn_loader_close(loader);
    mixed_close(&data);
}

static int make_data(void **state)
{
    (void)state;
    mixed_make(scratch());
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_threads_over_one_dataset),
        cmocka_unit_test(many_threads_over_a_cache_that_is_too_small),
        cmocka_unit_test(many_threads_in_one_loader),
    };
    return cmocka_run_group_tests(tests, make_data, scratch_remove);
}
