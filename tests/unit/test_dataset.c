/* Datasets from C: what the interop test cannot check, such as ownership, odd shapes, and
 * many threads on one dataset. */
#include "support.h"

#include <locale.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "dataset/dataset.h"
#include "dataset/key_index.h"
#include "dataset/mix.h"
#include "itar/fold.h"
#include "tar/keys.h"

static tarn_error err;

static tarn_dataset *open_set(const char *path, const char *const *fields)
{
    tarn_dataset *d;
    tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
    o.fields = fields;
    o.scan = true;
    OK(tarn_dataset_open(path, &o, &d, &err));
    return d;
}

static void has(tarn_dataset *d, uint64_t sample, uint32_t field, const char *want)
{
    tarn_view view;
    OK(tarn_dataset_get(d, sample, field, &view, &err));
    assert_int_equal(view.size, strlen(want));
    assert_memory_equal(view.data, want, view.size);
    tarn_view_release(&view);
}

/* --- Shapes ------------------------------------------------------------------------ */

static void shapes_say_where_a_field_is(void **state)
{
    (void)state;
    tarn__shapes s;
    OK(tarn__shapes_init(&s, 3, &err));
    uint16_t a = tarn__shapes_step(&s, 0, 2), ab = tarn__shapes_step(&s, a, 0);
    uint16_t aba = tarn__shapes_step(&s, ab, 2);
    assert_int_equal(tarn__shapes_step(&s, 0, 2), a);
    assert_int_equal(tarn__shapes_step(&s, a, 0), ab);
    assert_int_equal(tarn__shapes_place(&s, ab, 2), 0);
    assert_int_equal(tarn__shapes_place(&s, ab, 0), 1);
    assert_int_equal(tarn__shapes_place(&s, ab, 1), TARN__PLACE_NONE);
    assert_int_equal(tarn__shapes_place(&s, aba, 2), TARN__PLACE_TWICE);
    assert_int_equal(tarn__shapes_place(&s, aba, 0), 1);
    tarn__shapes_reset(&s);
}

static void shapes_past_the_limit_are_odd(void **state)
{
    (void)state;
    tarn__shapes s;
    OK(tarn__shapes_init(&s, 1000, &err));
    uint16_t shape = 0;
    for (int i = 0; i < 3000; i++)
        shape = tarn__shapes_step(&s, shape, (uint16_t)(i % 1000));
    assert_int_equal(shape, TARN__SHAPE_ODD);
    assert_true(s.count << s.shift <= TARN__MAX_SHAPE_CELLS);
    tarn__shapes_reset(&s);
}

/* Far more shapes than are kept: every sample has a different field. */
static void samples_of_odd_shapes_are_read_and_selected(void **state)
{
    (void)state;
    enum { SAMPLES = 1500 };
    tarball t = {0};
    for (int i = 0; i < SAMPLES; i++) {
        char name[64], text[32];
        snprintf(text, sizeof text, "%d", i);
        snprintf(name, sizeof name, "k%d.own%d", i, i);
        tarball_file(&t, name, text);
        snprintf(name, sizeof name, "k%d.all", i);
        tarball_file(&t, name, text);
    }
    tarball_end(&t);
    save_tar(&t, scratch_path("odd.tar"));
    tarball_reset(&t);
    tarn_dataset *d = open_set(scratch_path("odd.tar"), (const char *[]){"all", NULL});
    assert_int_equal(tarn_dataset_count(d), SAMPLES);
    has(d, 0, 0, "0");
    has(d, SAMPLES - 1, 0, "1499");
    tarn_dataset *one;
    const char *own = "own1400";
    OK(keep_having(d, &own, 1, &one, &err));
    assert_int_equal(tarn_dataset_count(one), 1);
    has(one, 0, 0, "1400");
    tarn_dataset_close(one);
    OK(keep_name(d, TARN_CONDITION_LACKING, own, 0, 0, &one, &err));
    assert_int_equal(tarn_dataset_count(one), SAMPLES - 1);
    tarn_field_sets *sets;
    OK(tarn_dataset_field_sets(one, &sets, &err));
    assert_int_equal(sets->count, SAMPLES - 1);
    for (size_t i = 0; i < sets->count; i++) {
        assert_int_equal(sets->sets[i]->n_fields, 2);
        assert_int_equal(sets->sets[i]->samples, 1);
        assert_int_equal(sets->sets[i]->twice, 0);
        assert_string_not_equal(sets->sets[i]->fields[0], sets->sets[i]->fields[1]);
    }
    tarn_field_sets_free(sets);
    tarn_dataset_close(one);
    tarn_dataset_close(d);
}

static void regular_folds_keep_nothing_for_a_sample(void **state)
{
    (void)state;
    tarball t = {0};
    for (int i = 0; i < 300; i++) {
        char name[64];
        snprintf(name, sizeof name, "k%d.a", i);
        tarball_file(&t, name, "A");
        snprintf(name, sizeof name, "k%d.b", i);
        tarball_file(&t, name, name);
    }
    tarball_end(&t);
    save_tar(&t, scratch_path("regular.tar"));
    tarn__fold *f;
    OK(tarn__fold_open(scratch_path("regular.tar"), NULL, &f, &err));
    OK(tarn__fold_group(f, &err));
    assert_null(f->starts);
    assert_int_equal(f->stride, 2);
    tarn__fold_close(f);
    tarn_dataset *d = open_set(scratch_path("regular.tar"), (const char *[]){"b", NULL});
    has(d, 299, 0, "k299.b");
    uint64_t found;
    OK(find_key(d, "k123", &found, &err));
    assert_int_equal(found, 123);
    tarn_dataset_close(d);
    /* With one more member, it is not. */
    t.size -= 1024;
    tarball_file(&t, "last.a", "x");
    tarball_end(&t);
    save_tar(&t, scratch_path("irregular.tar"));
    tarball_reset(&t);
    OK(tarn__fold_open(scratch_path("irregular.tar"), NULL, &f, &err));
    OK(tarn__fold_group(f, &err));
    assert_non_null(f->starts);
    assert_int_equal(f->n_samples, 301);
    tarn__fold_close(f);
    d = open_set(scratch_path("irregular.tar"), (const char *[]){"a", "b", NULL});
    assert_int_equal(tarn_dataset_count(d), 300);
    has(d, 299, 1, "k299.b");
    tarn_dataset_close(d);
}

/* --- Ownership ---------------------------------------------------------------------- */

static void filters_and_mixes_outlive_what_they_came_from(void **state)
{
    (void)state;
    tarn_dataset *all =
        open_set(data_path("01_basic:train"), (const char *[]){"cls", "_idx", NULL});
    tarn_dataset *some, *mix;
    uint64_t samples[] = {1, 5, 9};
    OK(tarn_dataset_select(all, samples, 3, &some, &err));
    tarn_dataset *parts[] = {all, some};
    OK(tarn_dataset_mix(parts, 2, NULL, &mix, &err));
    tarn_dataset_close(all);
    has(some, 2, 0, "9");
    has(some, 2, 1, "2");
    tarn_dataset_close(some);
    assert_int_equal(tarn_dataset_count(mix), 48);
    tarn_place place;
    OK(mix_at(mix, 47, &place, &err));
    assert_int_equal(place.source, 0);
    assert_int_equal(place.sample, 44);
    has(mix, 47, 0, "44");
    tarn_dataset_close(mix);
}

/* tarn_dataset_get_all returns the same as separate calls for each view and the key. */
static void all_is_the_same(tarn_dataset *d)
{
    tarn_view all[8], each[8];
    tarn_text key = {0}, other = {0};
    tarn_dataset_info info;
    tarn_dataset_info_get(d, &info, sizeof info);
    assert_in_range(info.fields, 1, 8);
    for (uint64_t i = 0; i < info.samples; i++) {
        OK(tarn_dataset_get_all(d, i, all, &key, &err));
        OK(tarn_dataset_get_all(d, i, each, NULL, &err));
        OK(tarn_dataset_key(d, i, &other, &err));
        assert_string_equal(key.data, other.data);
        for (uint32_t f = 0; f < info.fields; f++) {
            assert_int_equal(all[f].data != NULL, each[f].data != NULL);
            assert_int_equal(all[f].size, each[f].size);
            if (all[f].size) assert_memory_equal(all[f].data, each[f].data, all[f].size);
        }
        OK(tarn_dataset_release(d, i, all, info.fields, &err));
        OK(tarn_dataset_release(d, i, each, info.fields, &err));
    }
    tarn_text_reset(&key);
    tarn_text_reset(&other);
}

static void fields_and_key_come_in_one_go(void **state)
{
    (void)state;
    tarball t = {0};
    tarball_file(&t, "a.txt", "first");
    tarball_file(&t, "a.cls", "1");
    tarball_pax(&t, 'x', "path", "folder/bird.txt");
    tarball_file(&t, "other.txt", "named by an extended header");
    tarball_file(&t, "folder/bird.cls", "2");
    tarball_file(&t, "c.cls", "3");
    tarball_file(&t, "c.txt", "");
    tarball_file(&t, "d.cls", "lacks one");
    tarball_end(&t);
    const char *shard = scratch_path("all_0.tar");
    save_tar(&t, shard);
    tarball_reset(&t);
    OK(tarn_index_build(&shard, 1, NULL, scratch_path("all.taridx"), NULL, NULL, 0,
                        &err));
    const char *paths[] = {scratch_path("all.taridx"), data_path("03_noncontiguous"),
                           data_path("05_empty_ext")};
    const char *const *fields[] = {NULL,
                                   (const char *[]){"cls", "_key", "cls", "_idx", NULL}};
    for (int i = 0; i < 6; i++) {
        tarn_dataset *d = open_set(paths[i / 2], fields[i % 2]);
        all_is_the_same(d); /* then again: no header is compared a second time */
        all_is_the_same(d);
        tarn_view views[8];
        tarn_text key = {0};
        FAILS(TARN_ERR_NO_SAMPLE, "sample",
              tarn_dataset_get_all(d, tarn_dataset_count(d), views, &key, &err));
        tarn_dataset_close(d);
    }
}

static void old_callers_options_are_understood(void **state)
{
    (void)state;
    tarn_dataset *d;
    tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
    o.size = offsetof(tarn_dataset_options, drop_ambiguous);
    o.fields = (const char *[]){"cls", NULL};
    o.key_column = (const char *)1; /* past the caller's struct */
    OK(tarn_dataset_open(data_path("01_basic:train"), &o, &d, &err));
    tarn_dataset_close(d);
    o.size = 0;
    FAILS(TARN_ERR_USAGE, "initialiser",
          tarn_dataset_open(data_path("01_basic:train"), &o, &d, &err));
}

static void a_dataset_that_cannot_be_opened_leaves_out_alone(void **state)
{
    (void)state;
    tarball t = {0};
    tarn_dataset *d = NULL;
    tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
    tarball_file(&t, "a/x.txt", "1");
    tarball_file(&t, "b/x.txt", "2");
    tarball_end(&t);
    save_tar(&t, scratch_path("ambiguous.tar"));
    tarball_reset(&t);
    o.fields = (const char *[]){"txt", NULL};
    FAILS(TARN_ERR_AMBIGUOUS, "twice",
          tarn_dataset_open(scratch_path("ambiguous.tar"), &o, &d, &err));
    assert_null(d);
    o.fields = (const char *[]){"jpg", NULL};
    FAILS(TARN_ERR_NO_FIELD, "jpg",
          tarn_dataset_open(scratch_path("ambiguous.tar"), &o, &d, &err));
    assert_null(d);
}

static void a_batch_is_used_again_and_after_errors(void **state)
{
    (void)state;
    tarn_dataset_batch b = TARN_DATASET_BATCH_INIT;
    tarn_dataset *d =
        open_set(data_path("01_basic:train"), (const char *[]){"cls", NULL});
    uint64_t samples[64];
    OK(tarn_dataset_read(d, samples, 0, NULL, 0, &b, &err));
    assert_int_equal(b.count, 0);
    assert_int_equal(b.offsets[0], 0);
    for (size_t n = 1; n <= 45; n++) {
        for (size_t i = 0; i < n; i++)
            samples[i] = (i * 31 + n) % 45;
        OK(tarn_dataset_read(d, samples, n, NULL, 0, &b, &err));
        assert_int_equal(b.count, n);
        for (size_t i = 0; i < n; i++) {
            char want[8];
            int len = snprintf(want, sizeof want, "%llu", (unsigned long long)samples[i]);
            assert_int_equal(b.offsets[i + 1] - b.offsets[i], len);
            assert_memory_equal(b.data + b.offsets[i], want, (size_t)len);
        }
        samples[n / 2] = 45;
        FAILS(TARN_ERR_NO_SAMPLE, "no sample 45; the dataset has 45",
              tarn_dataset_read(d, samples, n, NULL, 0, &b, &err));
        assert_int_equal(b.count, 0);
    }
    tarn_dataset_batch_reset(&b);
    tarn_dataset_close(d);
}

static void checksums_are_compared_in_batches(void **state)
{
    (void)state;
    tarball t = {0};
    tarball_file(&t, "a.x", "first");
    tarball_file(&t, "b.x", "second");
    tarball_end(&t);
    mkdir(scratch_path("sums"), 0755);
    save_tar(&t, scratch_path("sums/t_0.tar"));
    const char *shards[] = {scratch_path("sums/t_0.tar")};
    tarn_index_options io = TARN_INDEX_OPTIONS_INIT;
    io.sums = true;
    OK(tarn_index_build(shards, 1, &io, scratch_path("sums/t.taridx"), NULL, NULL, 0,
                        &err));
    t.data[1024 + 512] ^= 1;
    save_tar(&t, scratch_path("sums/t_0.tar"));
    tarball_reset(&t);
    for (int check = 0; check < 2; check++)
        for (tarn_io how = TARN_IO_AUTO; how <= TARN_IO_READ; how++) {
            tarn_dataset *d;
            tarn_dataset_batch b = TARN_DATASET_BATCH_INIT;
            tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
            uint64_t samples[] = {1, 0};
            o.check = check;
            o.io = how;
            o.cold = true;
            OK(tarn_dataset_open(scratch_path("sums"), &o, &d, &err));
            tarn_status status = tarn_dataset_read(d, samples, 2, NULL, 0, &b, &err);
            assert_int_equal(status, check ? TARN_ERR_CHECKSUM : TARN_OK);
            tarn_dataset_batch_reset(&b);
            tarn_dataset_close(d);
        }
}

/* --- Mixes ------------------------------------------------------------------------- */

static void every_position_of_a_mix_is_one_turn(void **state)
{
    (void)state;
    static const uint64_t cases[][4] = {
        {1, 1, 1, 1}, {5, 0, 3, 7}, {100, 1, 1, 1}, {9, 9, 10, 1}, {0, 0, 0, 4}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const uint64_t *counts = cases[c];
        tarn__mixing m = {counts, 4, counts[0] + counts[1] + counts[2] + counts[3]};
        uint64_t next[4] = {0}, turns[4], turn;
        uint32_t source;
        for (uint64_t p = 0; p < m.total; p++) {
            tarn__mixing_at(&m, p, turns, &source, &turn);
            for (size_t k = 0; k < 4; k++)
                assert_int_equal(turns[k], next[k]);
            assert_int_equal(turn, next[source]++);
            assert_int_equal(tarn__mixing_position(&m, source, turn), p);
        }
        assert_memory_equal(next, counts, sizeof next);
    }
}

static void listed_fields_are_in_every_source(void **state)
{
    (void)state;
    static const char *const spellings[] = {"json", ".json"};
    const char *path = data_path("01_basic:train");
    tarn_dataset *parts[] = {open_set(path, (const char *[]){"cls", "json", NULL}),
                             open_set(path, (const char *[]){"cls", NULL})};
    for (int i = 0; i < 2; i++) {
        const char *fields[] = {"cls", spellings[i], NULL};
        tarn_mix_options o = TARN_MIX_OPTIONS_INIT;
        tarn_dataset *mix;
        o.fields = fields;
        FAILS(TARN_ERR_NO_FIELD, "source 1 of the mix has no field",
              tarn_dataset_mix(parts, 2, &o, &mix, &err));
    }
    tarn_dataset_close(parts[0]);
    tarn_dataset_close(parts[1]);
}

static void only_the_ratio_of_weights_counts(void **state)
{
    (void)state;
    static const double scales[] = {0.1, 1, 0x1p-1060, 0x1p-1000, 0x1p1000};
    const uint64_t lengths[] = {100, 100, 100};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        const double weights[] = {0.5 * scales[i], 1.5 * scales[i], 2 * scales[i]};
        uint64_t counts[3];
        OK(tarn__mixing_share(weights, 3, lengths, 80, TARN_MIX_FIRST, counts, &err));
        assert_int_equal(counts[0], 10);
        assert_int_equal(counts[1], 30);
        assert_int_equal(counts[2], 40);
    }
}

/* --- Threads ----------------------------------------------------------------------- */

enum { THREADS = 64, ROUNDS = 30 };

typedef struct reader {
    tarn_dataset *d;
    unsigned seed;
    bool failed;
} reader;

static bool reads_right(reader *r, tarn_dataset_batch *b)
{
    uint64_t samples[16], found;
    tarn_text key = {0};
    tarn_dataset *part = NULL;
    const char *cls = "cls";
    tarn_error why;
    uint64_t count = tarn_dataset_count(r->d);
    for (size_t i = 0; i < 16; i++)
        samples[i] = (uint64_t)rand_r(&r->seed) % count;
    bool good = tarn_dataset_read(r->d, samples, 16, NULL, 0, b, &why) == TARN_OK &&
                tarn_dataset_key(r->d, samples[0], &key, &why) == TARN_OK &&
                find_key(r->d, key.data, &found, &why) == TARN_OK &&
                found == samples[0] &&
                keep_having(r->d, &cls, 1, &part, &why) == TARN_OK &&
                tarn_dataset_count(part) == count;
    for (size_t i = 0; good && i < 16; i++) {
        tarn_view view;
        good = tarn_dataset_get(part, samples[i], 0, &view, &why) == TARN_OK &&
               view.size == b->offsets[i + 1] - b->offsets[i] &&
               memcmp(view.data, b->data + b->offsets[i], view.size) == 0;
        tarn_view_release(&view);
    }
    tarn_text_reset(&key);
    tarn_dataset_close(part);
    return good;
}

static void *read_many(void *context)
{
    reader *r = context;
    tarn_dataset_batch b = TARN_DATASET_BATCH_INIT;
    for (int i = 0; i < ROUNDS && !r->failed; i++)
        r->failed = !reads_right(r, &b);
    tarn_dataset_batch_reset(&b);
    return NULL;
}

static void read_with_threads(tarn_dataset *d, int threads)
{
    pthread_t ids[THREADS];
    reader readers[THREADS];
    for (int i = 0; i < threads; i++) {
        readers[i] = (reader){d, (unsigned)i + 1, false};
        assert_int_equal(pthread_create(&ids[i], NULL, read_many, &readers[i]), 0);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    for (int i = 0; i < threads; i++)
        assert_false(readers[i].failed);
}

static void threads_share_a_dataset(void **state)
{
    (void)state;
    static const char *const paths[] = {"01_basic:train", "03_noncontiguous"};
    for (int how = TARN_IO_AUTO; how <= TARN_IO_READ; how += 2)
        for (size_t i = 0; i < 2; i++)
            for (int threads = 1; threads <= THREADS; threads += THREADS - 1) {
                tarn_dataset *d;
                tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
                o.fields = (const char *[]){"cls", NULL};
                o.io = (tarn_io)how;
                OK(tarn_dataset_open(data_path(paths[i]), &o, &d, &err));
                read_with_threads(d, threads);
                tarn_dataset_close(d);
            }
}

/* --- Keys that collide ------------------------------------------------------------- */

static uint64_t weak_hash(const char *key, size_t len)
{
    return tarn__key_hash(key, len) & 3;
}

/* glzn's index with a hash of two bits: what its filter keeps when it checks names, and
 * never what it keeps when it does not. */
static void keys_with_one_hash_are_distinguished(void **state)
{
    (void)state;
    static const char *const wanted[] = {"n05", "n17", "n00", "n11"};
    static const char *const kept[] = {"n00", "n05", "n11", "n17"};
    tarn_dataset *d, *some, *one;
    tarn_text key = {0};
    tarn_field_sets *sets;
    uint64_t twice = 0;
    OK(tarn_dataset_open(data_path("04a_crash_weakhash"), NULL, &d, &err));
    tarn__storage_fold(d->source)->place.hash = weak_hash;
    assert_int_equal(tarn_dataset_count(d), 18);
    OK(keep_keys(d, wanted, 4, NULL, &some, &err));
    assert_int_equal(tarn_dataset_count(some), 4);
    for (uint64_t i = 0; i < 4; i++) {
        OK(tarn_dataset_key(some, i, &key, &err));
        assert_string_equal(key.data, kept[i]);
    }
    OK(tarn_dataset_field_sets(some, &sets, &err));
    for (size_t i = 0; i < sets->count; i++)
        twice += sets->sets[i]->twice;
    assert_int_equal(twice, 1); /* n11: five rows, as glzn's filter keeps */
    tarn_field_sets_free(sets);
    for (int i = 0; i < 18; i++) {
        char name[16];
        const char *const stem = name;
        snprintf(name, sizeof name, "n%02d", i);
        OK(keep_keys(d, &stem, 1, NULL, &one, &err));
        assert_int_equal(tarn_dataset_count(one), 1);
        OK(tarn_dataset_key(one, 0, &key, &err));
        assert_string_equal(key.data, name);
        tarn_dataset_close(one);
    }
    FAILS(TARN_ERR_NO_SAMPLE, "n18",
          keep_keys(d, (const char *[]){"n18"}, 1, NULL, &one, &err));
    tarn_text_reset(&key);
    tarn_dataset_close(some);
    tarn_dataset_close(d);
}

/* --- One number for each sample ---------------------------------------------------- */

static void make_weights(const char *path, const char *const *texts, int count)
{
    tarball t = {0};
    for (int i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "k%d.weight", i);
        tarball_file(&t, name, texts[i]);
    }
    tarball_end(&t);
    save_tar(&t, path);
    tarball_reset(&t);
}

static void numbers_in_text_are_decimal(void **state)
{
    (void)state;
    static const char *const wrong[] = {"0x10", "1.5 2", "", "half", "1,5"};
    double numbers[3];
    make_weights(scratch_path("w.tar"), (const char *[]){"1.5\n", " -2", "1e-3"}, 3);
    tarn_dataset *d = open_set(scratch_path("w.tar"), NULL);
    OK(tarn_dataset_numbers(d, 0, TARN_NUMBERS_REAL, numbers, &err));
    assert_true(numbers[0] == 1.5 && numbers[1] == -2 && numbers[2] == 0.001);
    tarn_dataset_close(d);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        make_weights(scratch_path("w.tar"), (const char *[]){"1", wrong[i]}, 2);
        d = open_set(scratch_path("w.tar"), NULL);
        FAILS(TARN_ERR_FORMAT, "field weight of sample k1 is not a number",
              tarn_dataset_numbers(d, 0, TARN_NUMBERS_REAL, numbers, &err));
        tarn_dataset_close(d);
    }
}

static void numbers_do_not_depend_on_the_locale(void **state)
{
    if (!set_comma_locale()) skip();
    numbers_in_text_are_decimal(state);
    setlocale(LC_ALL, "C");
}

/* --- Keys in an array -------------------------------------------------------------- */

enum { ROWS = 5000 };

static void make_keyed(const char *path)
{
    static char keys[ROWS][8];
    static int32_t numbers[ROWS];
    tarn_array a, b;
    uint64_t shape = ROWS;
    tarn_gnz_writer *w;
    for (int i = 0; i < ROWS; i++) {
        snprintf(keys[i], sizeof keys[i], "k%d", (i * 7) % ROWS);
        numbers[i] = -i;
    }
    OK(tarn_array_init(&a, keys, (tarn_dtype){'|', 'S', 8}, 1, &shape, &err));
    OK(tarn_array_init(&b, numbers, (tarn_dtype){'<', 'i', 4}, 1, &shape, &err));
    OK(tarn_gnz_writer_open(path, NULL, &w, &err));
    OK(tarn_gnz_writer_add(w, "_key", &a, NULL, &err));
    OK(tarn_gnz_writer_add(w, "n", &b, NULL, &err));
    OK(tarn_gnz_writer_begin(w, &err));
    OK(tarn_gnz_writer_finish(w, &err));
}

static void *find_keys(void *dataset)
{
    char key[16];
    uint64_t found;
    tarn_error why;
    for (int i = 0; i < ROWS; i++) {
        snprintf(key, sizeof key, "k%d", (i * 7) % ROWS);
        if (find_key(dataset, key, &found, &why) != TARN_OK || found != (uint64_t)i)
            return dataset;
    }
    return NULL;
}

static void rows_are_found_by_their_keys(void **state)
{
    (void)state;
    const char *path = scratch_path("keyed.gnz");
    pthread_t threads[THREADS];
    uint64_t found;
    make_keyed(path);
    for (int n = 0; n <= THREADS; n += THREADS) {
        tarn_dataset *d = open_set(path, NULL);
        tarn_dataset_info info;
        tarn_dataset_info_get(d, &info, sizeof info);
        assert_int_equal(info.fields, 1);
        assert_false(info.numbered);
        if (n == 0) assert_null(find_keys(d));
        for (int i = 0; i < n; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, find_keys, d), 0);
        for (int i = 0; i < n; i++) {
            void *failed;
            pthread_join(threads[i], &failed);
            assert_null(failed);
        }
        FAILS(TARN_ERR_NO_SAMPLE, "no sample has the key k5000",
              find_key(d, "k5000", &found, &err));
        tarn_dataset_close(d);
    }
}

/* A thread that lists keys waits at the first key until the process forks. */
static sem_t listing, forking, forked;
static atomic_bool is_waited_for;

static void let_it_list(void)
{
    if (is_waited_for) sem_post(&forking);
}

static tarn_status number_as_key(void *state, uint64_t sample, tarn_text *out,
                                 tarn_error *why)
{
    char key[32];
    int len = snprintf(key, sizeof key, "%llu", (unsigned long long)sample);
    if (is_waited_for && sample == 0) {
        sem_post(&listing);
        sem_wait(&forking);
        is_waited_for = false;
    }
    (void)state;
    return tarn__text_set(out, key, (size_t)len, why);
}

static void *find_one(void *index)
{
    uint64_t at = 0;
    tarn_error why;
    if (tarn__key_index_find(index, "keys", "77", 0, &at, &why) != TARN_OK) return NULL;
    return at == 77 ? index : NULL;
}

/* Ends only after the fork: ThreadSanitizer would report a finished thread that was not
 * joined as leaked by the child. */
static void *find_one_and_stay(void *index)
{
    void *found = find_one(index);
    sem_wait(&forked);
    return found;
}

static void a_fork_while_keys_are_listed_leaves_a_child_that_finds_them(void **state)
{
    (void)state;
    enum { KEYS = 1 << 20 };
    tarn__key_index index;
    pthread_t thread;
    void *found;
    int status = -1;
    tarn__key_index_init(&index, KEYS, number_as_key, NULL);
    /* Called before the library's own handler, which was registered first. */
    assert_int_equal(pthread_atfork(let_it_list, NULL, NULL), 0);
    sem_init(&listing, 0, 0);
    sem_init(&forking, 0, 0);
    sem_init(&forked, 0, 0);
    is_waited_for = true;
    assert_int_equal(pthread_create(&thread, NULL, find_one_and_stay, &index), 0);
    sem_wait(&listing);
    pid_t child = fork();
    if (child == 0) {
        end_if_it_hangs();
        _exit(find_one(&index) ? 0 : 1);
    }
    sem_post(&forked);
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
    pthread_join(thread, &found);
    assert_ptr_equal(found, &index);
    tarn__key_index_reset(&index);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_say_where_a_field_is),
        cmocka_unit_test(shapes_past_the_limit_are_odd),
        cmocka_unit_test(samples_of_odd_shapes_are_read_and_selected),
        cmocka_unit_test(regular_folds_keep_nothing_for_a_sample),
        cmocka_unit_test(filters_and_mixes_outlive_what_they_came_from),
        cmocka_unit_test(fields_and_key_come_in_one_go),
        cmocka_unit_test(old_callers_options_are_understood),
        cmocka_unit_test(a_dataset_that_cannot_be_opened_leaves_out_alone),
        cmocka_unit_test(a_batch_is_used_again_and_after_errors),
        cmocka_unit_test(checksums_are_compared_in_batches),
        cmocka_unit_test(every_position_of_a_mix_is_one_turn),
        cmocka_unit_test(listed_fields_are_in_every_source),
        cmocka_unit_test(only_the_ratio_of_weights_counts),
        cmocka_unit_test(threads_share_a_dataset),
        cmocka_unit_test(keys_with_one_hash_are_distinguished),
        cmocka_unit_test(numbers_in_text_are_decimal),
        cmocka_unit_test(numbers_do_not_depend_on_the_locale),
        cmocka_unit_test(rows_are_found_by_their_keys),
        cmocka_unit_test(a_fork_while_keys_are_listed_leaves_a_child_that_finds_them),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
