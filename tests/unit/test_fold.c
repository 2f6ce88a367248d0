/* Folds: discovery, finding, positions, filters, bytes, and indexes that do not fit. */
#include "support.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "itar/fold.h"
#include "itar/folder.h"

static tarn_error err;

static void shard_is(const char *name, const char *fold, const char *suffix)
{
    const char *f, *s;
    size_t fl, sl;
    bool is = tarn__shard_name(name, &f, &fl, &s, &sl);
    assert_int_equal(is, fold != NULL);
    if (!fold) return;
    assert_int_equal(fl, strlen(fold));
    assert_memory_equal(f, fold, fl);
    assert_int_equal(sl, strlen(suffix));
    assert_memory_equal(s, suffix, sl);
}

static void shard_names_say_fold_and_suffix(void **state)
{
    (void)state;
    shard_is("train_0000.tar", "train", "0000");
    shard_is("train_a.tar", "train", "a");
    shard_is("my_train_07.tar", "my_train", "07");
    shard_is("cc-train-000123.tar", "cc-train", "000123");
    shard_is("cc_train-000123.tar", "cc_train", "000123");
    shard_is("set.0001.tar", "set", "0001");
    shard_is("c4-train-00007-of-01024.tar", "c4-train", "00007-of-01024");
    shard_is("best-of-3.tar", "best-of", "3");
    shard_is("00042.tar", "data", "00042");
    shard_is("train.tar", "train", "");
    shard_is("v2.tar", "v2", "");
    shard_is("_7.tar", "_7", "");
    shard_is(".hidden_0.tar", NULL, NULL);
    shard_is("train_0.tar.gz", NULL, NULL);
    shard_is("train.taridx", NULL, NULL);
    shard_is(".tar", NULL, NULL);
}

static void shards_are_sorted_as_text(void **state)
{
    (void)state;
    static const char *const suffixes[] = {"0", "1", "10", "11", "2", "9"};
    tarn_folder *f;
    mkdir(scratch_path("sorted"), 0755);
    for (int i = 5; i >= 0; i--) {
        char name[64];
        snprintf(name, sizeof name, "sorted/t_%s.tar", suffixes[i]);
        write_file(scratch_path(name), "", 0);
    }
    OK(tarn_folder_open(scratch_path("sorted"), &f, &err));
    assert_int_equal(tarn_folder_count(f), 1);
    assert_string_equal(tarn_folder_fold(f, 0), "t");
    for (int i = 0; i < 6; i++) {
        char name[64];
        snprintf(name, sizeof name, "sorted/t_%s.tar", suffixes[i]);
        assert_string_equal(tarn_folder_shards(f, 0)[i], scratch_path(name));
    }
    tarn_folder_close(f);
    FAILS(TARN_ERR_NO_FOLD, "no shard of fold x",
          tarn_folder_open(scratch_path("sorted:x"), &f, &err));
    write_file(scratch_path("sorted/t-3.tar"), "", 0);
    FAILS(TARN_ERR_AMBIGUOUS, "two ways",
          tarn_folder_open(scratch_path("sorted"), &f, &err));
}

static tarn_fold *open_fold(const char *path, const tarn_fold_options *o)
{
    tarn_fold *fold;
    OK(tarn_fold_open(path, o, &fold, &err));
    return fold;
}

static void several_folds_must_be_named(void **state)
{
    (void)state;
    tarn_fold *fold;
    FAILS(TARN_ERR_AMBIGUOUS, "train, val",
          tarn_fold_open(data_path("01_basic"), NULL, &fold, &err));
    FAILS(TARN_ERR_NO_FOLD, "no shard of fold test",
          tarn_fold_open(data_path("01_basic:test"), NULL, &fold, &err));
    fold = open_fold(data_path("01_basic/train.taridx"), NULL);
    assert_string_equal(tarn_fold_name(fold), "train");
    tarn_fold_close(fold);
}

static void payload_is(tarn_fold *fold, const char *key, const char *field,
                       const char *want)
{
    tarn_sample s;
    uint64_t row, size;
    tarn_view view;
    char buf[100];
    OK(tarn_fold_find(fold, key, &s, &err));
    OK(tarn_fold_pick(fold, &s, field, &row, &err));
    OK(tarn_fold_view(fold, row, &view, &err));
    assert_int_equal(view.size, strlen(want));
    assert_memory_equal(view.data, want, view.size);
    tarn_view_release(&view);
    OK(tarn_fold_read(fold, row, buf, sizeof buf, &size, &err));
    assert_int_equal(size, strlen(want));
    assert_memory_equal(buf, want, size);
}

static void samples_are_found_by_key_in_every_mode(void **state)
{
    (void)state;
    for (tarn_io io = TARN_IO_AUTO; io <= TARN_IO_READ; io++) {
        tarn_fold_options o = TARN_FOLD_OPTIONS_INIT;
        o.io = io;
        tarn_fold *fold = open_fold(data_path("09a_writer_maxfiles"), &o);
        tarn_fold_info info;
        tarn_text key = {0}, member = {0};
        tarn_sample s;
        OK(tarn_fold_info_get(fold, &info, sizeof info, &err));
        assert_int_equal(info.samples, 11);
        assert_int_equal(info.shards, 3);
        for (uint64_t i = 0; i < info.samples; i++) {
            OK(tarn_fold_sample(fold, i, &s, &err));
            OK(tarn_fold_names(fold, tarn_sample_row(&s, 0), &key, &member, &err));
            assert_memory_equal(member.data, key.data, key.size);
            tarn_sample again;
            OK(tarn_fold_find(fold, key.data, &again, &err));
            assert_int_equal(again.count, s.count);
            assert_int_equal(tarn_sample_row(&again, 0), tarn_sample_row(&s, 0));
        }
        FAILS(TARN_ERR_NO_SAMPLE, "sample 11 of 11",
              tarn_fold_sample(fold, 11, &s, &err));
        FAILS(TARN_ERR_NO_SAMPLE, "no sample with key nobody",
              tarn_fold_find(fold, "nobody", &s, &err));
        tarn_text_reset(&key);
        tarn_text_reset(&member);
        tarn_fold_close(fold);
    }
}

static void a_small_buffer_gives_the_size_that_is_needed(void **state)
{
    (void)state;
    tarn_fold *fold = open_fold(data_path("01_basic:train"), NULL);
    tarn_sample s;
    uint64_t row, size = 0;
    char buf[10];
    OK(tarn_fold_find(fold, "train-00000", &s, &err));
    OK(tarn_fold_pick(fold, &s, "jpg", &row, &err));
    FAILS(TARN_ERR_LIMIT, "1007 bytes", tarn_fold_read(fold, row, buf, 10, &size, &err));
    assert_int_equal(size, 1007);
    FAILS(TARN_ERR_NO_FIELD, "no field gif; it has jpg, cls, json, txt, npy",
          tarn_fold_pick(fold, &s, "gif", &row, &err));
    tarn_fold_close(fold);
}

/* A folder of its own with one or more shards of the same few samples. */
static const char *make_folder(const char *name, int shards)
{
    static char folder[512];
    snprintf(folder, sizeof folder, "%s", scratch_path(name));
    mkdir(folder, 0755);
    for (int i = 0; i < shards; i++) {
        char path[600], member[64];
        tarball t = {0};
        for (int k = 0; k < 3; k++) {
            snprintf(member, sizeof member, "s%d_%d.txt", i, k);
            tarball_file(&t, member, member);
            snprintf(member, sizeof member, "s%d_%d.cls", i, k);
            tarball_file(&t, member, "1");
        }
        tarball_end(&t);
        snprintf(path, sizeof path, "%s/f_%d.tar", folder, i);
        save_tar(&t, path);
        tarball_reset(&t);
    }
    return folder;
}

static void make_index(const char *folder, bool sums)
{
    tarn_folder *f;
    tarn_index *index;
    tarn_index_options o = TARN_INDEX_OPTIONS_INIT;
    o.sums = sums;
    OK(tarn_folder_open(folder, &f, &err));
    OK(tarn_index_build(tarn_folder_shards(f, 0), tarn_folder_shard_count(f, 0), &o, NULL,
                        &index, NULL, 0, &err));
    OK(tarn_index_save(index, tarn_folder_index_path(f, 0), &err));
    tarn_index_free(index);
    tarn_folder_close(f);
}

static void without_an_index_the_shards_are_scanned_if_asked(void **state)
{
    (void)state;
    const char *folder = make_folder("unindexed", 2);
    tarn_fold *fold;
    FAILS(TARN_ERR_NO_FILE, "tarn index makes it",
          tarn_fold_open(folder, NULL, &fold, &err));
    tarn_fold_options o = TARN_FOLD_OPTIONS_INIT;
    o.scan = true;
    fold = open_fold(folder, &o);
    assert_null(tarn_fold_index_path(fold));
    payload_is(fold, "s1_2", "txt", "s1_2.txt");
    tarn_fold_close(fold);
}

static void renamed_missing_and_changed_shards_are_refused(void **state)
{
    (void)state;
    const char *folder = make_folder("stale", 3);
    tarn_fold *fold;
    make_index(folder, false);
    tarn_fold_close(open_fold(folder, NULL));
    rename(scratch_path("stale/f_2.tar"), scratch_path("stale/f_3.tar"));
    FAILS(TARN_ERR_STALE, "a shard that is not here: f_2.tar",
          tarn_fold_open(folder, NULL, &fold, &err));
    rename(scratch_path("stale/f_3.tar"), scratch_path("stale/f_2.tar"));
    assert_int_equal(truncate(scratch_path("stale/f_1.tar"), 7680), 0);
    FAILS(TARN_ERR_STALE, "7680 bytes, but 7168",
          tarn_fold_open(folder, NULL, &fold, &err));
    assert_int_equal(truncate(scratch_path("stale/f_1.tar"), 7168), 0);
    unlink(scratch_path("stale/f_0.tar"));
    FAILS(TARN_ERR_STALE, "not here: f_0.tar", tarn_fold_open(folder, NULL, &fold, &err));
    unlink(scratch_path("stale/f.tarsum"));
    FAILS(TARN_ERR_STALE, "row 12 is in shard 2, and there are 2",
          tarn_fold_open(folder, NULL, &fold, &err));
    folder = make_folder("late", 2);
    make_index(folder, false);
    unlink(scratch_path("late/f.tarsum"));
    tarn_fold_close(open_fold(folder, NULL));
    tarball t = {0};
    tarball_end(&t);
    save_tar(&t, scratch_path("late/f_2.tar")); /* no members: nothing is missing */
    tarn_fold_close(open_fold(folder, NULL));
    make_folder("late", 3);
    FAILS(TARN_ERR_STALE, "does not know shard f_2.tar",
          tarn_fold_open(folder, NULL, &fold, &err));
    tarball_reset(&t);
}

static void an_index_of_other_shards_never_gives_their_bytes(void **state)
{
    (void)state;
    const char *folder = make_folder("swapped", 2);
    make_index(folder, false);
    rename(scratch_path("swapped/f_0.tar"), scratch_path("swapped/x"));
    rename(scratch_path("swapped/f_1.tar"), scratch_path("swapped/f_0.tar"));
    rename(scratch_path("swapped/x"), scratch_path("swapped/f_1.tar"));
    tarn_fold *fold = open_fold(folder, NULL);
    tarn_view view;
    for (uint64_t row = 0; row < 12; row++)
        FAILS(TARN_ERR_STALE, "the index is not of this shard",
              tarn_fold_view(fold, row, &view, &err));
    tarn_fold_close(fold);
}

static void another_indexs_tarsum_is_refused(void **state)
{
    (void)state;
    const char *folder = make_folder("foreign", 2);
    tarn_fold *fold;
    make_index(folder, false);
    size_t size;
    unsigned char *sums = read_file(scratch_path("foreign/f.tarsum"), &size);
    tarball t = {0};
    tarball_file(&t, "other.txt", "x");
    tarball_end(&t);
    save_tar(&t, scratch_path("foreign/f_1.tar"));
    make_index(folder, false);
    write_file(scratch_path("foreign/f.tarsum"), sums, size);
    FAILS(TARN_ERR_STALE, "another state", tarn_fold_open(folder, NULL, &fold, &err));
    sums[40] ^= 1;
    write_file(scratch_path("foreign/f.tarsum"), sums, size);
    FAILS(TARN_ERR_FORMAT, "damaged", tarn_fold_open(folder, NULL, &fold, &err));
    free(sums);
    tarball_reset(&t);
}

static void changed_payloads_fail_their_checksum_when_asked(void **state)
{
    (void)state;
    const char *folder = make_folder("rotten", 1);
    tarn_fold *fold;
    tarn_fold_options o = TARN_FOLD_OPTIONS_INIT;
    o.check = true;
    make_index(folder, false);
    FAILS(TARN_ERR_NOT_FOUND, "--sums", tarn_fold_open(folder, &o, &fold, &err));
    /* An archive by itself has no checksums that were not made a moment ago. */
    FAILS(TARN_ERR_NOT_FOUND, "--sums",
          tarn_fold_open(scratch_path("rotten/f_0.tar"), &o, &fold, &err));
    make_index(folder, true);
    fold = open_fold(folder, &o);
    payload_is(fold, "s0_0", "txt", "s0_0.txt");
    int fd = open(scratch_path("rotten/f_0.tar"), O_WRONLY);
    assert_int_equal(pwrite(fd, "S", 1, 512), 1);
    close(fd);
    tarn_view view;
    FAILS(TARN_ERR_CHECKSUM, "its bytes have changed",
          tarn_fold_view(fold, 0, &view, &err));
    OK(tarn_fold_view(fold, 1, &view, &err));
    tarn_view_release(&view);
    tarn_fold_close(fold);
}

static uint64_t samples_of(tarn_fold *fold)
{
    tarn_fold_info info;
    OK(tarn_fold_info_get(fold, &info, sizeof info, &err));
    return info.samples;
}

static void required_fields_keep_samples_that_have_all(void **state)
{
    (void)state;
    tarn_fold *fold = open_fold(data_path("01_basic:train"), NULL);
    const char *two[] = {"npy", "jpg", "npy"}, *none[] = {"gif"};
    tarn_sample s;
    OK(tarn_fold_require(fold, two, 3, &err));
    assert_int_equal(samples_of(fold), 31); /* 45 - 9 without npy - 6 without jpg + 1 */
    for (uint64_t i = 0; i < 31; i++) {
        OK(tarn_fold_sample(fold, i, &s, &err));
        assert_int_equal(s.count, 2);
    }
    FAILS(TARN_ERR_NO_FIELD, "no field gif", tarn_fold_require(fold, none, 1, &err));
    assert_int_equal(samples_of(fold), 31);
    tarn_fold_close(fold);
}

static void kept_keys_come_in_the_folds_order(void **state)
{
    (void)state;
    tarn_fold *fold = open_fold(data_path("01_basic:train"), NULL);
    const char *keys[] = {"train-00007", "nobody", "train-00002", "train-00007"};
    bool found[4];
    tarn_sample s;
    tarn_text key = {0};
    FAILS(TARN_ERR_NO_SAMPLE, "nobody", tarn_fold_keep(fold, keys, 4, NULL, &err));
    OK(tarn_fold_keep(fold, keys, 4, found, &err));
    assert_true(found[0] && !found[1] && found[2] && found[3]);
    assert_int_equal(samples_of(fold), 2);
    OK(tarn_fold_sample(fold, 0, &s, &err));
    OK(tarn_fold_names(fold, tarn_sample_row(&s, 0), &key, NULL, &err));
    assert_string_equal(key.data, "train-00002");
    tarn_text_reset(&key);
    tarn_fold_close(fold);
}

/* Keys in sample order, joined; of the three orders a non-contiguous fold can have. */
static void keys_are(const char *path, const tarn_fold_options *o, const char *want)
{
    char got[4000] = "";
    tarn_fold *fold = open_fold(path, o);
    tarn_text key = {0};
    tarn_sample s;
    uint64_t n = samples_of(fold);
    for (uint64_t i = 0; i < n; i++) {
        OK(tarn_fold_sample(fold, i, &s, &err));
        OK(tarn_fold_names(fold, tarn_sample_row(&s, 0), &key, NULL, &err));
        strcat(got, key.data);
        strcat(got, " ");
        for (uint32_t k = 1; k < s.count; k++)
            assert_true(tarn_sample_row(&s, k) > tarn_sample_row(&s, k - 1));
    }
    assert_string_equal(got, want);
    tarn_text_reset(&key);
    tarn_fold_close(fold);
}

static void scattered_samples_are_put_together(void **state)
{
    (void)state;
    const char *path = data_path("03_noncontiguous");
    tarn_fold_options o = TARN_FOLD_OPTIONS_INIT;
    keys_are(path, &o, "s0 s1 s2 s3 s4 s5 s6 s7 s8 s9 u0 u1 u2 u3 u4 u5 u6 u7 ");
    o.by_hash = true; /* the order the reference's enforce_contiguous gives */
    keys_are(path, &o, "s4 u7 u1 s0 u6 s9 u4 u3 s5 s1 s3 s2 u5 s7 u2 u0 s8 s6 ");
}

static void two_members_of_one_field_are_ambiguous(void **state)
{
    (void)state;
    tarball t = {0};
    tarn_sample s;
    uint64_t row;
    tarball_file(&t, "a/x.txt", "1");
    tarball_file(&t, "b/x.txt", "2");
    tarball_end(&t);
    save_tar(&t, scratch_path("twice.tar"));
    tarn_fold *fold = open_fold(scratch_path("twice.tar"), NULL);
    OK(tarn_fold_find(fold, "x", &s, &err));
    FAILS(TARN_ERR_AMBIGUOUS, "two members", tarn_fold_pick(fold, &s, "txt", &row, &err));
    tarn_fold_close(fold);
    tarn_fold_options o = TARN_FOLD_OPTIONS_INIT;
    tarn_index_options index = TARN_INDEX_OPTIONS_INIT;
    index.keys = TARN_KEYS_PATH;
    o.index = &index;
    fold = open_fold(scratch_path("twice.tar"), &o);
    payload_is(fold, "b/x", "txt", "2");
    tarn_fold_close(fold);
    tarball_reset(&t);
}

/* An index knows nothing of the rule its keys were made by; without sums both are tried.
 */
static void path_keys_are_recognised_without_sums(void **state)
{
    (void)state;
    tarball t = {0};
    tarn_index *index;
    tarn_index_options o = TARN_INDEX_OPTIONS_INIT;
    mkdir(scratch_path("paths"), 0755);
    const char *path = scratch_path("paths/p_0.tar");
    tarball_file(&t, "d/x.txt", "one");
    tarball_file(&t, "e/x.txt", "two");
    tarball_end(&t);
    save_tar(&t, path);
    o.keys = TARN_KEYS_PATH;
    OK(tarn_index_build(&path, 1, &o, NULL, &index, NULL, 0, &err));
    OK(tarn_index_save(index, scratch_path("paths/p.taridx"), &err));
    tarn_index_free(index);
    for (int sums = 1; sums >= 0; sums--) {
        if (!sums) unlink(scratch_path("paths/p.tarsum"));
        tarn_fold *fold = open_fold(scratch_path("paths"), NULL);
        payload_is(fold, "d/x", "txt", "one");
        payload_is(fold, "e/x", "txt", "two");
        tarn_fold_close(fold);
    }
    tarball_reset(&t);
}

static void names_in_extended_headers_are_found_from_the_row(void **state)
{
    (void)state;
    tarball t = {0};
    char name[300], member[310];
    for (char c = 'a'; c < 'e'; c++) {
        memset(name, c, 250);
        name[250] = '\0';
        snprintf(member, sizeof member, "%s.txt", name);
        if (c % 2)
            tarball_pax(&t, 'x', "path", member);
        else
            tarball_extended(&t, 'L', member, strlen(member) + 1);
        tarball_file(&t, "cut", (char[]){c, 0});
    }
    tarball_end(&t);
    save_tar(&t, scratch_path("long.tar"));
    tarn_fold *fold = open_fold(scratch_path("long.tar"), NULL);
    for (char c = 'a'; c < 'e'; c++) {
        memset(name, c, 250);
        name[250] = '\0';
        payload_is(fold, name, "txt", (char[]){c, 0});
    }
    tarn_fold_close(fold);
    tarball_reset(&t);
}

/* A caller compiled with an older header has a shorter struct; one who forgot the
 * initialiser has none. */
static void options_are_taken_up_to_their_size(void **state)
{
    (void)state;
    tarn_fold *fold;
    tarn_fold_options none, old = TARN_FOLD_OPTIONS_INIT;
    memset(&none, 0, sizeof none);
    FAILS(TARN_ERR_USAGE, "initialiser",
          tarn_fold_open(data_path("01_basic:train"), &none, &fold, &err));
    old.size = offsetof(tarn_fold_options, check);
    old.check = true; /* behind the end: not seen, or opening would fail without sums */
    tarn_fold_close(open_fold(data_path("01_basic:train"), &old));
}

/* Names that no folder's rules would find, in the order of the list. */
static void shards_can_be_listed(void **state)
{
    (void)state;
    tarn_fold *fold;
    tarn_index *index;
    tarn_fold_options o = TARN_FOLD_OPTIONS_INIT;
    const char *names[] = {"z.one", "a-two"};
    char paths[2][200], index_path[200];
    const char *shards[3] = {paths[0], paths[1], NULL};
    snprintf(index_path, sizeof index_path, "%s", scratch_path("listed.ix"));
    for (int i = 0; i < 2; i++) {
        tarball t = {0};
        snprintf(paths[i], sizeof paths[i], "%s", scratch_path(names[i]));
        tarball_file(&t, i ? "b.txt" : "a.txt", i ? "2" : "1");
        tarball_end(&t);
        save_tar(&t, paths[i]);
        tarball_reset(&t);
    }
    o.shards = shards;
    FAILS(TARN_ERR_NO_FILE, "no index", tarn_fold_open(index_path, &o, &fold, &err));
    o.scan = true;
    keys_are(index_path, &o, "a b ");
    o.scan = false;
    OK(tarn_index_build(shards, 2, NULL, index_path, &index, NULL, 0, &err));
    tarn_index_free(index);
    keys_are(index_path, &o, "a b ");
    fold = open_fold(index_path, &o);
    assert_string_equal(tarn_fold_name(fold), "listed");
    assert_string_equal(tarn_fold_shard_path(fold, 1), paths[1]);
    payload_is(fold, "b", "txt", "2");
    tarn_fold_close(fold);
    shards[1] = NULL;
    FAILS(TARN_ERR_STALE, "a-two", tarn_fold_open(index_path, &o, &fold, &err));
    shards[0] = NULL;
    FAILS(TARN_ERR_USAGE, "no shards", tarn_fold_open(index_path, &o, &fold, &err));
}

typedef struct hammer {
    tarn_fold *fold;
    int failures;
} hammer;

static void *hammer_fold(void *arg)
{
    hammer *h = arg;
    for (int i = 0; i < 300; i++) {
        char key[32];
        tarn_sample s;
        uint64_t row;
        tarn_view view;
        snprintf(key, sizeof key, "train-%05d", i % 45);
        if (tarn_fold_sample(h->fold, (uint64_t)i % 45, &s, NULL) != TARN_OK ||
            tarn_fold_find(h->fold, key, &s, NULL) != TARN_OK ||
            tarn_fold_pick(h->fold, &s, "cls", &row, NULL) != TARN_OK ||
            tarn_fold_view(h->fold, row, &view, NULL) != TARN_OK) {
            h->failures++;
            continue;
        }
        tarn_view_release(&view);
    }
    return NULL;
}

static void threads_share_a_fold(void **state)
{
    (void)state;
    enum { THREADS = 8 };
    tarn_fold *fold = open_fold(data_path("01_basic:train"), NULL);
    hammer hammers[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        hammers[i] = (hammer){fold, 0};
        pthread_create(&threads[i], NULL, hammer_fold, &hammers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(hammers[i].failures, 0);
    }
    tarn_fold_close(fold);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shard_names_say_fold_and_suffix),
        cmocka_unit_test(shards_are_sorted_as_text),
        cmocka_unit_test(several_folds_must_be_named),
        cmocka_unit_test(samples_are_found_by_key_in_every_mode),
        cmocka_unit_test(a_small_buffer_gives_the_size_that_is_needed),
        cmocka_unit_test(without_an_index_the_shards_are_scanned_if_asked),
        cmocka_unit_test(renamed_missing_and_changed_shards_are_refused),
        cmocka_unit_test(an_index_of_other_shards_never_gives_their_bytes),
        cmocka_unit_test(another_indexs_tarsum_is_refused),
        cmocka_unit_test(changed_payloads_fail_their_checksum_when_asked),
        cmocka_unit_test(required_fields_keep_samples_that_have_all),
        cmocka_unit_test(kept_keys_come_in_the_folds_order),
        cmocka_unit_test(scattered_samples_are_put_together),
        cmocka_unit_test(two_members_of_one_field_are_ambiguous),
        cmocka_unit_test(path_keys_are_recognised_without_sums),
        cmocka_unit_test(names_in_extended_headers_are_found_from_the_row),
        cmocka_unit_test(options_are_taken_up_to_their_size),
        cmocka_unit_test(shards_can_be_listed),
        cmocka_unit_test(threads_share_a_fold),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
