/* The fold writer: what it refuses, and which files it leaves when samples fail or others
 * write. test_foldwrite_folder.c tests existing files in its folder, tests/faults kills
 * it. */
#include "itar/keyset.h" /* has parameters named err: before foldwriting.h */

#include "foldwriting.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- Keys -------------------------------------------------------------------------- */

static bool has(const tarn__keyset *set, const tarn__scan *scans, const char *key,
                size_t len)
{
    return tarn__keyset_has(set, scans, key, len, tarn__keyset_hash(set, key, len));
}

static void every_key_is_known_once_it_was_added(void **state)
{
    (void)state;
    enum { SCANS = 7, EACH = 9000 };
    tarn__scan scans[SCANS] = {0};
    tarn__keyset set = {0};
    char key[32];
    for (int s = 0; s < SCANS; s++) {
        OK(tarn__scan_init(&scans[s], &err));
        OK(tarn__keyset_next_scan(&set, &err));
        for (int i = 0; s != 3 && i < EACH; i++) { /* one has no key */
            int len = snprintf(key, sizeof key, "%d", s * EACH + i);
            assert_false(has(&set, scans, key, (size_t)len));
            OK(tarn__keyset_add(&set, scans, tarn__keyset_hash(&set, key, (size_t)len),
                                &err));
            OK(tarn__scan_begin_run(&scans[s], key, (size_t)len, 42, &err));
        }
    }
    for (int i = 0; i < SCANS * EACH; i++) {
        int len = snprintf(key, sizeof key, "%d", i);
        assert_int_equal(has(&set, scans, key, (size_t)len), i / EACH != 3);
    }
    assert_false(has(&set, scans, "", 0));
    assert_false(has(&set, scans, "0 ", 2));
    tarn__keyset_reset(&set);
    for (int s = 0; s < SCANS; s++)
        tarn__scan_reset(&scans[s]);
}

static void has_knows_all_future_keys(void **state)
{
    (void)state;
    static const char *const keys[] = {"a00", "b00", "c00", "d00"};
    tarn_fold_writer_options o = quick();
    make_fold("train", "a", 3);
    o.append = true;
    suspend(o, "b", 3);
    o.append = false;
    o.resume = true;
    tarn_fold_writer *w = open_fold("train", &o);
    add_some(w, "c", 0, 1);
    for (int i = 0; i < 4; i++) {
        bool there;
        OK(tarn_fold_writer_has(w, keys[i], &there, &err));
        assert_int_equal(there, i < 3);
        if (i < 3) FAILS(TARN_ERR_EXISTS, keys[i], add(w, keys[i]));
    }
    OK(add(w, "b02")); /* it was in the unfinished shard */
    OK(tarn_fold_writer_finish(w, NULL, 0, &err));
    assert_int_equal(read_fold("train", NULL), 7);
    assert_int_equal(count_files(dir, true), 0);
}

/* --- Options and names ------------------------------------------------------------- */

static void options_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"",    "a_b", "a/b",  "a.b", "a\\b",
                                        "a:b", "a\n", "\xff", "..",  "a\x7f"};
    tarn_fold_writer_options o = quick();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        FAILS(TARN_ERR_USAGE, "name of a fold", try_open(names[i], &o));
    o.append = o.overwrite = true;
    FAILS(TARN_ERR_USAGE, "overwrite cannot be combined", try_open("train", &o));
    o.append = false;
    o.resume = true;
    FAILS(TARN_ERR_USAGE, "overwrite cannot be combined", try_open("train", &o));
    o = quick();
    o.digits = 0;
    FAILS(TARN_ERR_USAGE, "1 to 9 digits", try_open("train", &o));
    o.digits = 10;
    FAILS(TARN_ERR_USAGE, "1 to 9 digits", try_open("train", &o));
    o = quick();
    tarn_tar_writer_options tar = TARN_TAR_WRITER_OPTIONS_INIT;
    tarn_sink_options sink = TARN_SINK_OPTIONS_INIT;
    o.writer = &tar;
    tar.sink = &sink;
    FAILS(TARN_ERR_USAGE, "writer->sink must not be set", try_open("train", &o));
    tarn_shard_options shards = TARN_SHARD_OPTIONS_INIT;
    tar.sink = NULL;
    tar.shards = &shards;
    FAILS(TARN_ERR_USAGE, "writer->shards must not be set", try_open("train", &o));
    tar.sink = NULL;
    tar.rules = TARN_RULES_NONE;
    FAILS(TARN_ERR_USAGE, "strict rules", try_open("train", &o));
    tar.size = 3;
    FAILS(TARN_ERR_USAGE, "initialiser", try_open("train", &o));
    o.size = 3;
    FAILS(TARN_ERR_USAGE, "initialiser", try_open("train", &o));
    o = quick();
    tarn_fold_writer *w;
    FAILS(TARN_ERR_UNSUPPORTED, "a local folder",
          tarn_fold_writer_open("pipe:cat >x", "train", &o, &w, &err));
    FAILS(TARN_ERR_UNSUPPORTED, "a local folder",
          tarn_fold_writer_open("s3://bucket/x", "train", &o, &w, &err));
    write_file(in("file"), "", 0);
    FAILS(TARN_ERR_NO_FILE, "Not a directory",
          tarn_fold_writer_open(in("file"), "train", &o, &w, &err));
    assert_int_equal(count_files(dir, false), 1);
}

/* "x:train" is how readers write fold train in x. */
static void a_file_that_is_spelled_like_the_fold_is_in_the_way(void **state)
{
    (void)state;
    char other[1024];
    tarn_fold_writer_options o = quick();
    make_fold("train", "a", 2);
    snprintf(other, sizeof other, "%s:train", dir);
    assert_int_equal(mkdir(other, 0777), 0);
    FAILS(TARN_ERR_AMBIGUOUS, "rename it", try_open("train", &o));
    assert_int_equal(rmdir(other), 0);
    assert_int_equal(read_fold("train", "a"), 2);
}

static void numbers_begin_and_end_where_they_must(void **state)
{
    (void)state;
    tarn_fold_writer_options o = quick();
    o.start = 98;
    o.digits = 2;
    o.max_count = 1;
    tarn_fold_writer *w = open_fold("train", &o);
    add_some(w, "a", 0, 2);
    FAILS(TARN_ERR_LIMIT, "more than 2 digits", add(w, "a02"));
    OK(tarn_fold_writer_finish(w, NULL, 0, &err));
    assert_int_equal(read_fold("train", "a"), 2);
    assert_true(is_there("train_98.tar") && is_there("train_99.tar"));
    o = quick();
    o.append = true;
    w = open_fold("train", &o);
    FAILS(TARN_ERR_LIMIT, "more than 2 digits", add(w, "a02"));
    OK(tarn_fold_writer_finish(w, NULL, 0, &err));
    assert_int_equal(count_files(dir, true), 0);
}

static void no_file_is_larger_than_it_may_be(void **state)
{
    (void)state;
    static char payload[30000];
    tarn_fold_writer_options o = quick();
    o.max_count = 0;
    o.max_size = 30720;
    tarn_fold_writer *w = open_fold("train", &o);
    char key[16];
    struct stat st;
    for (size_t i = 0; i < 60; i++) {
        tarn_field field = {"bin", payload, i * 137 % 9000, NULL};
        snprintf(key, sizeof key, "k%02zu", i);
        OK(tarn_fold_writer_add(w, key, &field, 1, &err));
    }
    tarn_field large = {"bin", payload, 30720 - 1024 - 512, NULL};
    OK(tarn_fold_writer_add(w, "exact", &large, 1, &err));
    large.size++;
    FAILS(TARN_ERR_LIMIT, "over", tarn_fold_writer_add(w, "over", &large, 1, &err));
    tarn_written written;
    tarn_fold_writer_written(w, &written, sizeof written);
    assert_int_equal(written.samples, 61);
    OK(tarn_fold_writer_finish(w, NULL, 0, &err));
    for (int i = 0; i < 15; i++) {
        snprintf(key, sizeof key, "train_%04d.tar", i);
        if (stat(in(key), &st) == 0) assert_true(st.st_size <= 30720);
    }
    assert_int_equal(read_fold("train", NULL), 61);
}

static void names_past_ascii_and_pax_are_found_again(void **state)
{
    (void)state;
    for (int pax = 0; pax < 2; pax++) {
        char path[1024], key[160] = "größe";
        tarn_tar_writer_options tar = TARN_TAR_WRITER_OPTIONS_INIT;
        tarn_fold_writer_options o = quick();
        o.overwrite = true;
        if (pax) {
            tar.names = TARN_NAMES_PAX;
            o.writer = &tar;
            memset(key + strlen(key), 'x', 120);
        }
        tarn_fold_writer *w = open_fold("train", &o);
        tarn_field field = {".ÄTxT", "1", 1, NULL};
        OK(tarn_fold_writer_add(w, key, &field, 1, &err));
        OK(tarn_fold_writer_finish(w, NULL, 0, &err));
        tarn_dataset *f;
        uint64_t sample;
        uint32_t field_number;
        tarn_view view;
        snprintf(path, sizeof path, "%s:train", dir);
        OK(tarn_dataset_open(path, NULL, &f, &err));
        OK(tarn_dataset_find(f, (const char *const[]){key}, 1, &sample, NULL, &err));
        OK(tarn_dataset_field_find(f, "ätxt", &field_number, &err));
        OK(tarn_dataset_get(f, sample, field_number, &view, &err));
        tarn_view_release(&view);
        tarn_dataset_close(f);
    }
}

/* --- Samples that fail ------------------------------------------------------------- */

static void a_sample_that_fails_leaves_no_trace(void **state)
{
    (void)state;
    char with[1024], without[1024];
    for (int tried = 0; tried < 2; tried++) {
        tarn_fold_writer_options o = quick();
        o.max_count = 0;
        tarn_fold_writer *w = open_fold(tried ? "with" : "out", &o);
        add_some(w, "a", 0, 2);
        tarn_field gone[] = {{"new", "x", 1, NULL}, {"txt", NULL, 0, "/proc/self/stat"}};
        if (tried) FAILS(TARN_ERR_STALE, "", tarn_fold_writer_add(w, "b", gone, 2, &err));
        if (tried) FAILS(TARN_ERR_USAGE, "", add(w, "a.b"));
        bool there;
        OK(tarn_fold_writer_has(w, "b", &there, &err));
        assert_false(there);
        OK(add(w, "b"));
        OK(tarn_fold_writer_finish(w, NULL, 0, &err));
    }
    static const char *const endings[] = {"_0000.tar", ".taridx"};
    for (int i = 0; i < 2; i++) {
        size_t size, other;
        snprintf(with, sizeof with, "%s/with%s", dir, endings[i]);
        snprintf(without, sizeof without, "%s/out%s", dir, endings[i]);
        unsigned char *left = read_file(with, &size), *right = read_file(without, &other);
        assert_int_equal(size, other);
        assert_memory_equal(left, right, size);
        free(left);
        free(right);
    }
}

/* The shard cannot be opened at first: later keys must still be found in it. */
static void a_shard_that_could_not_be_opened_is_tried_again(void **state)
{
    (void)state;
    struct rlimit before, none;
    char key[16];
    tarn_fold_writer_options o = quick();
    tarn_fold_writer *w = open_fold("train", &o);
    getrlimit(RLIMIT_NOFILE, &before);
    for (int i = 0; i < 7; i++) {
        snprintf(key, sizeof key, "a%02d", i);
        none = before;
        none.rlim_cur = 0;
        if (i % 2 == 0) {
            setrlimit(RLIMIT_NOFILE, &none);
            tarn_status status = add(w, key);
            tarn_error why = err;
            tarn_status again = add(w, key);
            setrlimit(RLIMIT_NOFILE, &before);
            check_failed(TARN_ERR_IO, status, &why, "Too many open files", __FILE__,
                         __LINE__);
            assert_int_equal(again, TARN_ERR_IO);
        }
        OK(add(w, key));
        FAILS(TARN_ERR_EXISTS, key, add(w, key));
        FAILS(TARN_ERR_EXISTS, "a00", add(w, "a00"));
    }
    OK(tarn_fold_writer_finish(w, NULL, 0, &err));
    assert_int_equal(read_fold("train", "a"), 7);
}

/* A limit on the size of files simulates a full disk. */
static void a_writer_that_lost_bytes_says_so_to_the_end(void **state)
{
    (void)state;
    struct rlimit before, small;
    tarn_fold_writer_options o = quick();
    bool there;
    tarn_fold_writer *w = open_fold("train", &o);
    add_some(w, "a", 0, 4); /* one shard is finished, one is open */
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 1024;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    tarn_status status = add(w, "a04");
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_DFL);
    FAILS(TARN_ERR_IO, "File too large", status);
    FAILS(TARN_ERR_IO, "only be abandoned", add(w, "a05"));
    FAILS(TARN_ERR_IO, "only be abandoned", tarn_fold_writer_has(w, "a02", &there, &err));
    FAILS(TARN_ERR_IO, "only be abandoned", tarn_fold_writer_finish(w, NULL, 0, &err));
    assert_true(is_there(".train_0000.tar.part"));
    assert_int_equal(count_files(dir, false), 1);
    o.resume = true;
    w = open_fold("train", &o);
    add_some(w, "a", 2, 3);
    OK(tarn_fold_writer_finish(w, NULL, 0, &err));
    assert_int_equal(read_fold("train", "a"), 5);
    assert_int_equal(count_files(dir, true), 0);
}

static void more_fields_than_an_index_numbers_are_refused_in_time(void **state)
{
    (void)state;
    enum { EACH = 8192 };
    tarn_fold_writer_options o = quick();
    o.max_count = 0;
    tarn_field *fields = calloc(EACH, sizeof *fields);
    char(*names)[16] = calloc(EACH, sizeof *names), key[16];
    tarn_fold_writer *w = open_fold("train", &o);
    for (int s = 0; s < 8; s++) {
        for (int i = 0; i < EACH; i++) {
            snprintf(names[i], sizeof names[i], "f%d", s * EACH + i);
            fields[i] = (tarn_field){names[i], "", 0, NULL};
        }
        snprintf(key, sizeof key, "k%d", s);
        OK(tarn_fold_writer_add(w, key, fields, EACH, &err));
    }
    FAILS(TARN_ERR_LIMIT, "65536 different fields", add(w, "one-more"));
    OK(tarn_fold_writer_add(w, "same", fields, EACH, &err));
    OK(tarn_fold_writer_finish(w, NULL, 0, &err));
    assert_int_equal(read_fold("train", NULL), 9);
    o.append = true;
    w = open_fold("train", &o);
    FAILS(TARN_ERR_LIMIT, "65536 different fields", add(w, "one-more"));
    OK(tarn_fold_writer_add(w, "again", fields, 10, &err));
    OK(tarn_fold_writer_finish(w, NULL, 0, &err));
    assert_int_equal(read_fold("train", NULL), 10);
    free(fields);
    free(names);
}

/* --- Several writers --------------------------------------------------------------- */

static void several_folds_are_written_at_once(void **state)
{
    (void)state;
    static const char *const folds[] = {"train", "val", "train-2", "2024"};
    tarn_fold_writer_options o = quick();
    tarn_fold_writer *w[4];
    for (int i = 0; i < 4; i++)
        w[i] = open_fold(folds[i], &o);
    for (int n = 0; n < 5; n++)
        for (int i = 0; i < 4; i++)
            add_some(w[i], "a", n, 1);
    tarn_fold_writer_abandon(w[1], false, NULL);
    for (int i = 0; i < 4; i++)
        if (i != 1) OK(tarn_fold_writer_finish(w[i], NULL, 0, &err));
    for (int i = 0; i < 4; i++)
        if (i != 1) assert_int_equal(read_fold(folds[i], "a"), 5);
    assert_int_equal(count_files(dir, false), 3 * 5);
}

static void a_fold_has_one_writer(void **state)
{
    (void)state;
    tarn_fold_writer_options o = quick();
    tarn_fold_writer *w = open_fold("train", &o);
    FAILS(TARN_ERR_EXISTS, "another writer", try_open("train", &o));
    o.overwrite = true;
    FAILS(TARN_ERR_EXISTS, "another writer", try_open("train", &o));
    add_some(w, "a", 0, 3);
    OK(tarn_fold_writer_finish(w, NULL, 0, &err));
    w = open_fold("train", &o);
    tarn_fold_writer_abandon(w, false, NULL);
    assert_int_equal(read_fold("train", "a"), 3);
    assert_int_equal(count_files(dir, true), 0);
}

/* A reader opens the fold repeatedly while another process writes. Appended samples only
 * increase in number; a replaced fold is the old one, the new one, or missing. */
static void readers_see_the_old_fold_or_the_new_one(void **state)
{
    (void)state;
    enum { ROUNDS = 60 };
    char path[1024];
    snprintf(path, sizeof path, "%s:train", dir);
    for (int overwrite = 0; overwrite < 2; overwrite++) {
        tarn_fold_writer_options o = quick();
        o.max_count = 1;
        o.append = !overwrite;
        o.overwrite = overwrite;
        make_fold(overwrite ? "other" : "train", "z", 2);
        pid_t child = fork();
        assert_true(child >= 0);
        for (int i = 0; child == 0 && i < ROUNDS; i++) {
            char key[32];
            tarn_fold_writer *w;
            if (tarn_fold_writer_open(dir, "train", &o, &w, &err) != TARN_OK) _exit(1);
            for (int k = 0; k < 3; k++) {
                snprintf(key, sizeof key, "%d-%d", i, k);
                if (add(w, key) != TARN_OK) _exit(2);
            }
            if (tarn_fold_writer_finish(w, NULL, 0, &err) != TARN_OK) _exit(3);
        }
        if (child == 0) _exit(0);
        uint64_t seen = 0;
        int code = 0;
        while (waitpid(child, &code, WNOHANG) == 0) {
            tarn_dataset *f;
            tarn_status status = tarn_dataset_open(path, NULL, &f, &err);
            if (overwrite && tarn_is_not_found(status)) continue;
            OK(status);
            uint64_t count = tarn_dataset_count(f);
            tarn_dataset_close(f);
            if (overwrite)
                assert_true(count == 3 || count == 2 + 3 * ROUNDS);
            else
                assert_true(count >= seen && count % 3 == 2);
            seen = count;
        }
        assert_true(WIFEXITED(code));
        assert_int_equal(WEXITSTATUS(code), 0);
    }
    assert_int_equal(read_fold("train", NULL), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_OWN_FOLDER(every_key_is_known_once_it_was_added),
        IN_OWN_FOLDER(has_knows_all_future_keys),
        IN_OWN_FOLDER(options_that_make_no_sense_are_refused),
        IN_OWN_FOLDER(a_file_that_is_spelled_like_the_fold_is_in_the_way),
        IN_OWN_FOLDER(numbers_begin_and_end_where_they_must),
        IN_OWN_FOLDER(no_file_is_larger_than_it_may_be),
        IN_OWN_FOLDER(names_past_ascii_and_pax_are_found_again),
        IN_OWN_FOLDER(a_sample_that_fails_leaves_no_trace),
        IN_OWN_FOLDER(a_shard_that_could_not_be_opened_is_tried_again),
        IN_OWN_FOLDER(a_writer_that_lost_bytes_says_so_to_the_end),
        IN_OWN_FOLDER(more_fields_than_an_index_numbers_are_refused_in_time),
        IN_OWN_FOLDER(several_folds_are_written_at_once),
        IN_OWN_FOLDER(a_fold_has_one_writer),
        IN_OWN_FOLDER(readers_see_the_old_fold_or_the_new_one),
    };
    return cmocka_run_group_tests_name("foldwrite", tests, NULL, scratch_remove);
}
