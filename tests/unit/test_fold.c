/* Folds: discovery, finding, positions, filters, bytes, and indexes that do not match. */
#include "support.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

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
    tarn_folds *f;
    mkdir(scratch_path("sorted"), 0755);
    for (int i = 5; i >= 0; i--) {
        char name[64];
        snprintf(name, sizeof name, "sorted/t_%s.tar", suffixes[i]);
        write_file(scratch_path(name), "", 0);
    }
    write_file(scratch_path("sorted/t_12.tar.gz"), "", 0);
    write_file(scratch_path("sorted/u_1.tgz"), "", 0);
    OK(tarn_folds_list(scratch_path("sorted"), &f, &err));
    assert_int_equal(f->count, 1);
    assert_int_equal(f->compressed, 2);
    assert_int_equal(f->folds[0]->compressed, 1);
    assert_int_equal(f->folds[0]->n_shards, 6);
    assert_string_equal(f->folds[0]->name, "t");
    assert_string_equal(f->folds[0]->index_path, scratch_path("sorted/t.taridx"));
    for (int i = 0; i < 6; i++) {
        char name[64];
        snprintf(name, sizeof name, "sorted/t_%s.tar", suffixes[i]);
        assert_string_equal(f->folds[0]->shards[i], scratch_path(name));
    }
    tarn_folds_free(f);
    FAILS(TARN_ERR_NO_FOLD, "no shards of fold x",
          tarn_folds_list(scratch_path("sorted:x"), &f, &err));
    assert_null(f);
    write_file(scratch_path("sorted/t-3.tar"), "", 0);
    FAILS(TARN_ERR_AMBIGUOUS, "two ways",
          tarn_folds_list(scratch_path("sorted"), &f, &err));
}

static tarn_dataset *open_fold(const char *path, const tarn_dataset_options *o)
{
    tarn_dataset *fold;
    OK(tarn_dataset_open(path, o, &fold, &err));
    return fold;
}

static tarn_fold_info info_of(const tarn_dataset *fold)
{
    tarn_fold_info info;
    OK(tarn_dataset_fold(fold, &info, sizeof info, &err));
    return info;
}

static void several_folds_must_be_named(void **state)
{
    (void)state;
    tarn_dataset *fold;
    FAILS(TARN_ERR_AMBIGUOUS, "train, val",
          tarn_dataset_open(data_path("01_basic"), NULL, &fold, &err));
    FAILS(TARN_ERR_NO_FOLD, "no shards of fold test",
          tarn_dataset_open(data_path("01_basic:test"), NULL, &fold, &err));
    fold = open_fold(data_path("01_basic/train.taridx"), NULL);
    assert_string_equal(info_of(fold).name, "train");
    tarn_dataset_close(fold);
}

/* Both as a view and in a buffer. */
static void payload_is(tarn_dataset *fold, const char *key, const char *field,
                       const char *want)
{
    uint64_t sample;
    uint32_t number;
    tarn_dataset_batch batch = TARN_DATASET_BATCH_INIT;
    tarn_view view;
    OK(tarn_dataset_find(fold, (const char *const[]){key}, 1, &sample, NULL, &err));
    OK(tarn_dataset_field_find(fold, field, &number, &err));
    OK(tarn_dataset_get(fold, sample, number, &view, &err));
    assert_int_equal(view.size, strlen(want));
    assert_memory_equal(view.data, want, view.size);
    tarn_view_release(&view);
    OK(tarn_dataset_read(fold, &sample, 1, &number, 1, &batch, &err));
    assert_int_equal(batch.offsets[1], strlen(want));
    assert_memory_equal(batch.data, want, strlen(want));
    tarn_dataset_batch_reset(&batch);
}

static void samples_are_found_by_key_in_every_mode(void **state)
{
    (void)state;
    for (tarn_io io = TARN_IO_AUTO; io <= TARN_IO_READ; io++) {
        tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
        o.io = io;
        tarn_dataset *fold = open_fold(data_path("09a_writer_maxfiles"), &o);
        tarn_text key = {0};
        uint64_t number;
        assert_int_equal(tarn_dataset_count(fold), 11);
        assert_int_equal(info_of(fold).n_shards, 3);
        for (uint64_t i = 0; i < 11; i++) {
            OK(tarn_dataset_key(fold, i, &key, &err));
            OK(tarn_dataset_find(fold, (const char *const[]){key.data}, 1, &number, NULL,
                                 &err));
            assert_int_equal(number, i);
        }
        FAILS(TARN_ERR_NO_SAMPLE, "no sample 11; the dataset has 11",
              tarn_dataset_key(fold, 11, &key, &err));
        FAILS(TARN_ERR_NO_SAMPLE, "no sample with key nobody",
              tarn_dataset_find(fold, (const char *const[]){"nobody"}, 1, &number, NULL,
                                &err));
        tarn_text_reset(&key);
        tarn_dataset_close(fold);
    }
}

/* A separate folder with one or more shards of the same few samples. */
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
    tarn_folds *f;
    tarn_index *index;
    tarn_index_options o = TARN_INDEX_OPTIONS_INIT;
    o.sums = sums;
    OK(tarn_folds_list(folder, &f, &err));
    OK(tarn_index_build(f->folds[0]->shards, f->folds[0]->n_shards, &o, NULL, &index,
                        NULL, 0, &err));
    OK(tarn_index_save(index, f->folds[0]->index_path, &err));
    tarn_index_free(index);
    tarn_folds_free(f);
}

static void without_an_index_the_shards_are_scanned_if_asked(void **state)
{
    (void)state;
    const char *folder = make_folder("unindexed", 2);
    tarn_dataset *fold;
    FAILS(TARN_ERR_NO_FILE, "create it with tarn index",
          tarn_dataset_open(folder, NULL, &fold, &err));
    tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
    o.scan = true;
    fold = open_fold(folder, &o);
    assert_null(info_of(fold).index_path);
    payload_is(fold, "s1_2", "txt", "s1_2.txt");
    tarn_dataset_close(fold);
}

static void renamed_missing_and_changed_shards_are_refused(void **state)
{
    (void)state;
    const char *folder = make_folder("stale", 3);
    tarn_dataset *fold;
    make_index(folder, false);
    tarn_dataset_close(open_fold(folder, NULL));
    rename(scratch_path("stale/f_2.tar"), scratch_path("stale/f_3.tar"));
    FAILS(TARN_ERR_STALE, "a shard that does not exist: f_2.tar",
          tarn_dataset_open(folder, NULL, &fold, &err));
    rename(scratch_path("stale/f_3.tar"), scratch_path("stale/f_2.tar"));
    assert_int_equal(truncate(scratch_path("stale/f_1.tar"), 7680), 0);
    FAILS(TARN_ERR_STALE, "7680 bytes, but had 7168",
          tarn_dataset_open(folder, NULL, &fold, &err));
    assert_int_equal(truncate(scratch_path("stale/f_1.tar"), 7168), 0);
    unlink(scratch_path("stale/f_0.tar"));
    FAILS(TARN_ERR_STALE, "does not exist: f_0.tar",
          tarn_dataset_open(folder, NULL, &fold, &err));
    unlink(scratch_path("stale/f.tarsum"));
    FAILS(TARN_ERR_STALE, "row 12 is in shard 2, but there are 2 shards",
          tarn_dataset_open(folder, NULL, &fold, &err));
    folder = make_folder("late", 2);
    make_index(folder, false);
    unlink(scratch_path("late/f.tarsum"));
    tarn_dataset_close(open_fold(folder, NULL));
    tarball t = {0};
    tarball_end(&t);
    save_tar(&t, scratch_path("late/f_2.tar")); /* no members: nothing is missing */
    tarn_dataset_close(open_fold(folder, NULL));
    make_folder("late", 3);
    FAILS(TARN_ERR_STALE, "does not contain shard f_2.tar",
          tarn_dataset_open(folder, NULL, &fold, &err));
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
    tarn_dataset *fold = open_fold(folder, NULL);
    tarn_view view;
    for (uint64_t i = 0; i < 12; i++)
        FAILS(TARN_ERR_STALE, "the index does not belong to this shard",
              tarn_dataset_get(fold, i / 2, i % 2, &view, &err));
    tarn_dataset_close(fold);
}

static void another_indexs_tarsum_is_refused(void **state)
{
    (void)state;
    const char *folder = make_folder("foreign", 2);
    tarn_dataset *fold;
    make_index(folder, false);
    size_t size;
    unsigned char *sums = read_file(scratch_path("foreign/f.tarsum"), &size);
    tarball t = {0};
    tarball_file(&t, "other.txt", "x");
    tarball_end(&t);
    save_tar(&t, scratch_path("foreign/f_1.tar"));
    make_index(folder, false);
    write_file(scratch_path("foreign/f.tarsum"), sums, size);
    FAILS(TARN_ERR_STALE, "another version",
          tarn_dataset_open(folder, NULL, &fold, &err));
    sums[40] ^= 1;
    write_file(scratch_path("foreign/f.tarsum"), sums, size);
    FAILS(TARN_ERR_FORMAT, "damaged", tarn_dataset_open(folder, NULL, &fold, &err));
    free(sums);
    tarball_reset(&t);
}

static void changed_payloads_fail_their_checksum_when_asked(void **state)
{
    (void)state;
    const char *folder = make_folder("rotten", 1);
    tarn_dataset *fold;
    tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
    o.check = true;
    make_index(folder, false);
    FAILS(TARN_ERR_NOT_FOUND, "--sums", tarn_dataset_open(folder, &o, &fold, &err));
    /* A single archive has only checksums that were just made. */
    FAILS(TARN_ERR_NOT_FOUND, "--sums",
          tarn_dataset_open(scratch_path("rotten/f_0.tar"), &o, &fold, &err));
    make_index(folder, true);
    fold = open_fold(folder, &o);
    payload_is(fold, "s0_0", "txt", "s0_0.txt");
    int fd = open(scratch_path("rotten/f_0.tar"), O_WRONLY);
    assert_int_equal(pwrite(fd, "S", 1, 512), 1);
    close(fd);
    tarn_view view;
    FAILS(TARN_ERR_CHECKSUM, "its bytes have changed",
          tarn_dataset_get(fold, 0, 0, &view, &err));
    OK(tarn_dataset_get(fold, 0, 1, &view, &err));
    tarn_view_release(&view);
    tarn_dataset_close(fold);
}

/* --- Members ------------------------------------------------------------------------ */

static tarn_status keep(tarn_dataset *fold, tarn_condition_kind kind,
                        const char *const *names, size_t count, bool *found,
                        tarn_dataset **out)
{
    tarn_condition c = TARN_CONDITION_INIT;
    c.kind = kind;
    c.names = names;
    c.n_names = count;
    c.found = found;
    return tarn_dataset_filter(fold, &c, out, &err);
}

static void required_fields_keep_samples_that_have_all(void **state)
{
    (void)state;
    tarn_dataset *fold = open_fold(data_path("01_basic:train"), NULL), *having, *few;
    const char *two[] = {"npy", "jpg", "npy"}, *none[] = {"gif"};
    tarn_stored members[8];
    size_t n;
    OK(keep(fold, TARN_CONDITION_HAVING, two, 3, NULL, &having));
    OK(tarn_dataset_with_fields(having, two, 3, &few, &err));
    assert_int_equal(tarn_dataset_count(few), 31); /* 45 - 9 - 6 without a field + 1 */
    for (uint64_t i = 0; i < 31; i++) {
        OK(tarn_dataset_members(few, i, members, 8, &n, &err));
        assert_int_equal(n, 2);
        assert_int_equal(members[0].field + members[1].field, 1); /* never the third */
        assert_true(members[0].row < members[1].row);
        OK(tarn_dataset_members(having, i, members, 8, &n, &err));
        assert_true(n > 2);
    }
    FAILS(TARN_ERR_NO_FIELD, "no field gif; the fields are jpg",
          tarn_dataset_with_fields(having, none, 1, &few, &err));
    tarn_dataset_close(having);
    tarn_dataset_close(fold);
    assert_string_equal(tarn_dataset_field(few, 1), "jpg");
    tarn_dataset_close(few);
}

/* Samples without a field stay, and so do orders. */
static void other_fields_leave_samples_and_order_alone(void **state)
{
    (void)state;
    tarn_dataset *fold = open_fold(data_path("01_basic:train"), NULL), *mixed, *few;
    tarn_order_options o = TARN_ORDER_OPTIONS_INIT;
    const char *npy = "npy";
    tarn_stored member;
    size_t n, with = 0;
    o.kind = TARN_ORDER_SHUFFLE;
    OK(tarn_dataset_order(fold, &o, &mixed, &err));
    OK(tarn_dataset_with_fields(mixed, &npy, 1, &few, &err));
    assert_int_equal(tarn_dataset_count(few), 45);
    for (uint64_t i = 0; i < 45; i++) {
        tarn_place a, b;
        OK(tarn_dataset_locate(few, i, TARN_NO_FIELD, &a, sizeof a, &err));
        OK(tarn_dataset_locate(mixed, i, TARN_NO_FIELD, &b, sizeof b, &err));
        assert_int_equal(a.row, b.row);
        OK(tarn_dataset_members(few, i, &member, 1, &n, &err));
        with += n;
    }
    assert_int_equal(with, 36);
    FAILS(TARN_ERR_NO_SAMPLE, "no sample 45; the dataset has 45",
          tarn_dataset_members(few, 45, &member, 1, &n, &err));
    tarn_dataset_close(few);
    tarn_dataset_close(mixed);
    tarn_dataset_close(fold);
}

static void kept_keys_come_in_the_folds_order(void **state)
{
    (void)state;
    tarn_dataset *fold = open_fold(data_path("01_basic:train"), NULL), *kept;
    const char *keys[] = {"train-00007", "nobody", "train-00002", "train-00007"};
    bool found[4];
    tarn_text key = {0};
    FAILS(TARN_ERR_NO_SAMPLE, "nobody",
          keep(fold, TARN_CONDITION_KEYS, keys, 4, NULL, &kept));
    OK(keep(fold, TARN_CONDITION_KEYS, keys, 4, found, &kept));
    assert_true(found[0] && !found[1] && found[2] && found[3]);
    assert_int_equal(tarn_dataset_count(kept), 2);
    OK(tarn_dataset_key(kept, 0, &key, &err));
    assert_string_equal(key.data, "train-00002");
    tarn_text_reset(&key);
    tarn_dataset_close(kept);
    tarn_dataset_close(fold);
}

/* Keys in sample order, joined, for the three possible orders of a non-contiguous fold.
 */
static void keys_are(const char *path, const tarn_dataset_options *o, const char *want)
{
    char got[4000] = "";
    tarn_dataset *fold = open_fold(path, o);
    tarn_text key = {0};
    tarn_stored members[16];
    size_t n;
    for (uint64_t i = 0; i < tarn_dataset_count(fold); i++) {
        OK(tarn_dataset_key(fold, i, &key, &err));
        strcat(got, key.data);
        strcat(got, " ");
        OK(tarn_dataset_members(fold, i, members, 16, &n, &err));
        for (size_t k = 1; k < n; k++)
            assert_true(members[k].row > members[k - 1].row);
    }
    assert_string_equal(got, want);
    tarn_text_reset(&key);
    tarn_dataset_close(fold);
}

static void scattered_samples_are_put_together(void **state)
{
    (void)state;
    const char *path = data_path("03_noncontiguous");
    tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
    keys_are(path, &o, "s0 s1 s2 s3 s4 s5 s6 s7 s8 s9 u0 u1 u2 u3 u4 u5 u6 u7 ");
    o.by_hash = true; /* the order of glzn's enforce_contiguous */
    keys_are(path, &o, "s4 u7 u1 s0 u6 s9 u4 u3 s5 s1 s3 s2 u5 s7 u2 u0 s8 s6 ");
}

static void two_members_of_one_field_are_ambiguous(void **state)
{
    (void)state;
    tarball t = {0};
    tarn_view view;
    tarn_stored members[2];
    size_t n;
    tarball_file(&t, "a/x.txt", "1");
    tarball_file(&t, "b/x.txt", "2");
    tarball_end(&t);
    save_tar(&t, scratch_path("twice.tar"));
    tarn_dataset *fold = open_fold(scratch_path("twice.tar"), NULL);
    FAILS(TARN_ERR_AMBIGUOUS, "field txt twice",
          tarn_dataset_get(fold, 0, 0, &view, &err));
    OK(tarn_dataset_members(fold, 0, members, 1, &n, &err)); /* not enough room */
    assert_int_equal(n, 2);
    OK(tarn_dataset_members(fold, 0, members, 2, &n, &err));
    for (size_t k = 0; k < 2; k++) {
        assert_int_equal(members[k].field, 0);
        assert_int_equal(members[k].row, k);
        assert_int_equal(members[k].offset, 1024 * k);
        assert_int_equal(members[k].bytes, 1);
        assert_string_equal(members[k].path, scratch_path("twice.tar"));
    }
    tarn_dataset_close(fold);
    tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
    tarn_index_options index = TARN_INDEX_OPTIONS_INIT;
    index.keys = TARN_KEYS_PATH;
    o.index = &index;
    fold = open_fold(scratch_path("twice.tar"), &o);
    payload_is(fold, "b/x", "txt", "2");
    tarn_dataset_close(fold);
    tarball_reset(&t);
}

/* An index does not record the rule of its keys; without sums both are tried. */
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
        tarn_dataset *fold = open_fold(scratch_path("paths"), NULL);
        payload_is(fold, "d/x", "txt", "one");
        payload_is(fold, "e/x", "txt", "two");
        tarn_dataset_close(fold);
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
    tarn_dataset *fold = open_fold(scratch_path("long.tar"), NULL);
    for (char c = 'a'; c < 'e'; c++) {
        memset(name, c, 250);
        name[250] = '\0';
        payload_is(fold, name, "txt", (char[]){c, 0});
    }
    tarn_dataset_close(fold);
    tarball_reset(&t);
}

/* A caller compiled with an older header has a shorter struct; a caller that forgot the
 * initialiser has none. */
static void options_are_taken_up_to_their_size(void **state)
{
    (void)state;
    tarn_dataset *fold;
    tarn_dataset_options none, old = TARN_DATASET_OPTIONS_INIT;
    memset(&none, 0, sizeof none);
    FAILS(TARN_ERR_USAGE, "initialiser",
          tarn_dataset_open(data_path("01_basic:train"), &none, &fold, &err));
    old.size = offsetof(tarn_dataset_options, check);
    old.check = true; /* after the end: not read, or opening would fail without sums */
    tarn_dataset_close(open_fold(data_path("01_basic:train"), &old));
}

/* Names that the rules for folders would not find, in the order of the list. */
static void shards_can_be_listed(void **state)
{
    (void)state;
    tarn_dataset *fold;
    tarn_index *index;
    tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
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
    FAILS(TARN_ERR_NO_FILE, "no index", tarn_dataset_open(index_path, &o, &fold, &err));
    o.scan = true;
    keys_are(index_path, &o, "a b ");
    o.scan = false;
    OK(tarn_index_build(shards, 2, NULL, index_path, &index, NULL, 0, &err));
    tarn_index_free(index);
    keys_are(index_path, &o, "a b ");
    fold = open_fold(index_path, &o);
    assert_string_equal(info_of(fold).name, "listed");
    assert_string_equal(info_of(fold).shards[1], paths[1]);
    payload_is(fold, "b", "txt", "2");
    tarn_dataset_close(fold);
    shards[1] = NULL;
    FAILS(TARN_ERR_STALE, "a-two", tarn_dataset_open(index_path, &o, &fold, &err));
    shards[0] = NULL;
    FAILS(TARN_ERR_USAGE, "without shards",
          tarn_dataset_open(index_path, &o, &fold, &err));
}

typedef struct hammer {
    tarn_dataset *fold;
    int failures;
} hammer;

static void *hammer_fold(void *arg)
{
    hammer *h = arg;
    for (int i = 0; i < 300; i++) {
        char key[32];
        tarn_stored members[8];
        size_t n;
        uint64_t number;
        uint32_t field;
        tarn_view view;
        snprintf(key, sizeof key, "train-%05d", i % 45);
        if (tarn_dataset_members(h->fold, (uint64_t)i % 45, members, 8, &n, NULL) !=
                TARN_OK ||
            tarn_dataset_find(h->fold, (const char *const[]){key}, 1, &number, NULL,
                              NULL) != TARN_OK ||
            tarn_dataset_field_find(h->fold, "cls", &field, NULL) != TARN_OK ||
            tarn_dataset_get(h->fold, number, field, &view, NULL) != TARN_OK) {
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
    tarn_dataset *fold = open_fold(data_path("01_basic:train"), NULL);
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
    tarn_dataset_close(fold);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shard_names_say_fold_and_suffix),
        cmocka_unit_test(shards_are_sorted_as_text),
        cmocka_unit_test(several_folds_must_be_named),
        cmocka_unit_test(samples_are_found_by_key_in_every_mode),
        cmocka_unit_test(without_an_index_the_shards_are_scanned_if_asked),
        cmocka_unit_test(renamed_missing_and_changed_shards_are_refused),
        cmocka_unit_test(an_index_of_other_shards_never_gives_their_bytes),
        cmocka_unit_test(another_indexs_tarsum_is_refused),
        cmocka_unit_test(changed_payloads_fail_their_checksum_when_asked),
        cmocka_unit_test(required_fields_keep_samples_that_have_all),
        cmocka_unit_test(other_fields_leave_samples_and_order_alone),
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
