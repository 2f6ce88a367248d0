/* The fold writer: what it refuses, what it leaves behind, and what it makes of journals,
 * links and shards that somebody else put into the folder. Kills are in tests/faults. */
#include "support.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/crc.h"
#include "itar/journal.h"
#include "itar/keyset.h"

static tarn_error err;
static char dir[512];

/* A folder of its own for each test. */
static int setup(void **state)
{
    static int number;
    (void)state;
    snprintf(dir, sizeof dir, "%s/%d", scratch(), number++);
    return mkdir(dir, 0777);
}

/* A path in it, until the eighth next call. */
static const char *in(const char *name)
{
    static char paths[8][1024];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

static bool is_there(const char *name)
{
    struct stat st;
    return lstat(in(name), &st) == 0;
}

/* Names that begin with a dot, or all of them. */
static size_t count_files(bool hidden)
{
    size_t count = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
                 (!hidden || e->d_name[0] == '.');
    closedir(d);
    return count;
}

static tarn_fold_writer_options quick(void)
{
    tarn_fold_writer_options o = TARN_FOLD_WRITER_OPTIONS_INIT;
    o.tar.sink.no_sync = true;
    o.max_count = 2;
    return o;
}

static tarn_fold_writer *open_fold(const char *fold, const tarn_fold_writer_options *o)
{
    tarn_fold_writer *w = NULL;
    OK(tarn_fold_writer_open(dir, fold, o, &w, &err));
    return w;
}

static tarn_status try_open(const char *fold, const tarn_fold_writer_options *o)
{
    tarn_fold_writer *w = NULL;
    tarn_status status = tarn_fold_writer_open(dir, fold, o, &w, &err);
    if (status == TARN_OK) tarn_fold_writer_abandon(w);
    return status;
}

static tarn_status add(tarn_fold_writer *w, const char *key)
{
    tarn_field field = {"txt", key, strlen(key), NULL};
    return tarn_fold_writer_add(w, key, &field, 1, &err);
}

/* Keys PREFIX00, PREFIX01, ... */
static void add_some(tarn_fold_writer *w, const char *prefix, int from, int count)
{
    char key[64];
    for (int i = from; i < from + count; i++) {
        snprintf(key, sizeof key, "%s%02d", prefix, i);
        OK(add(w, key));
    }
}

static void make_fold(const char *fold, const char *prefix, int count)
{
    tarn_fold_writer_options o = quick();
    tarn_fold_writer *w = open_fold(fold, &o);
    add_some(w, prefix, 0, count);
    OK(tarn_fold_writer_finish(w, NULL, &err));
}

/* Leaves finished shards behind. */
static void suspend(tarn_fold_writer_options o, const char *prefix, int count)
{
    tarn_fold_writer *w = open_fold("train", &o);
    add_some(w, prefix, 0, count);
    tarn_fold_writer_suspend(w, NULL);
}

/* Opens a fold as a reader does; the number of its samples, each read by key. */
static uint64_t read_fold(const char *fold, const char *prefix)
{
    char path[1024], key[64], payload[64];
    tarn_fold *f;
    tarn_fold_info info;
    snprintf(path, sizeof path, "%s:%s", dir, fold);
    OK(tarn_fold_open(path, NULL, &f, &err));
    OK(tarn_fold_info_get(f, &info, &err));
    for (uint64_t i = 0; prefix && i < info.samples; i++) {
        tarn_sample sample;
        uint64_t size;
        snprintf(key, sizeof key, "%s%02d", prefix, (int)i);
        OK(tarn_fold_find(f, key, &sample, &err));
        OK(tarn_fold_read(f, tarn_sample_row(&sample, 0), payload, sizeof payload, &size,
                          &err));
        assert_int_equal(size, strlen(key));
        assert_memory_equal(payload, key, size);
    }
    tarn_fold_close(f);
    return info.samples;
}

static void remove_fold(const char *fold)
{
    char path[1024];
    tarn_folder *f;
    snprintf(path, sizeof path, "%s:%s", dir, fold);
    OK(tarn_folder_open(path, &f, &err));
    for (size_t i = 0; i < tarn_folder_shard_count(f, 0); i++)
        assert_int_equal(remove(tarn_folder_shards(f, 0)[i]), 0);
    assert_int_equal(remove(tarn_folder_index_path(f, 0)), 0);
    tarn_folder_close(f);
    snprintf(path, sizeof path, "%s/%s.tarsum", dir, fold);
    assert_int_equal(remove(path), 0);
}

/* --- Keys ----------------------------------------------------------------------------
 */

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
        for (int i = 0; s != 3 && i < EACH; i++) { /* one has none */
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

static void has_tells_of_all_that_will_be_there(void **state)
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
    OK(add(w, "b02")); /* it was in the shard that was not finished */
    OK(tarn_fold_writer_finish(w, NULL, &err));
    assert_int_equal(read_fold("train", NULL), 7);
    assert_int_equal(count_files(true), 0);
}

/* --- Options and names ---------------------------------------------------------------
 */

static void options_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"",    "a_b", "a/b",  "a.b", "a\\b",
                                        "a:b", "a\n", "\xff", "..",  "a\x7f"};
    tarn_fold_writer_options o = quick();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        FAILS(TARN_ERR_USAGE, "name of a fold", try_open(names[i], &o));
    o.append = o.resume = true;
    FAILS(TARN_ERR_USAGE, "exclude each other", try_open("train", &o));
    o = quick();
    o.digits = 0;
    FAILS(TARN_ERR_USAGE, "1 to 9 digits", try_open("train", &o));
    o.digits = 10;
    FAILS(TARN_ERR_USAGE, "1 to 9 digits", try_open("train", &o));
    o = quick();
    o.tar.rules = TARN_RULES_NONE;
    FAILS(TARN_ERR_USAGE, "strict rules", try_open("train", &o));
    o.size = 3;
    FAILS(TARN_ERR_USAGE, "initialiser", try_open("train", &o));
    o = quick();
    tarn_fold_writer *w;
    FAILS(TARN_ERR_UNSUPPORTED, "of this machine",
          tarn_fold_writer_open("pipe:cat >x", "train", &o, &w, &err));
    FAILS(TARN_ERR_UNSUPPORTED, "of this machine",
          tarn_fold_writer_open("s3://bucket/x", "train", &o, &w, &err));
    write_file(in("file"), "", 0);
    FAILS(TARN_ERR_NOT_FOUND, "Not a directory",
          tarn_fold_writer_open(in("file"), "train", &o, &w, &err));
    assert_int_equal(count_files(false), 1);
}

/* "x:train" is how readers spell fold train in x. */
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
    OK(tarn_fold_writer_finish(w, NULL, &err));
    assert_int_equal(read_fold("train", "a"), 2);
    assert_true(is_there("train_98.tar") && is_there("train_99.tar"));
    o = quick();
    o.append = true;
    w = open_fold("train", &o);
    FAILS(TARN_ERR_LIMIT, "more than 2 digits", add(w, "a02"));
    OK(tarn_fold_writer_finish(w, NULL, &err));
    assert_int_equal(count_files(true), 0);
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
    tarn_fold_writer_written(w, &written);
    assert_int_equal(written.samples, 61);
    OK(tarn_fold_writer_finish(w, NULL, &err));
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
        tarn_fold_writer_options o = quick();
        o.overwrite = true;
        if (pax) {
            o.tar.names = TARN_NAMES_PAX;
            memset(key + strlen(key), 'x', 120);
        }
        tarn_fold_writer *w = open_fold("train", &o);
        tarn_field field = {".ÄTxT", "1", 1, NULL};
        OK(tarn_fold_writer_add(w, key, &field, 1, &err));
        OK(tarn_fold_writer_finish(w, NULL, &err));
        tarn_fold *f;
        tarn_sample sample;
        uint64_t row;
        snprintf(path, sizeof path, "%s:train", dir);
        OK(tarn_fold_open(path, NULL, &f, &err));
        OK(tarn_fold_find(f, key, &sample, &err));
        OK(tarn_fold_pick(f, &sample, "ätxt", &row, &err));
        tarn_fold_close(f);
    }
}

/* --- Samples that fail ---------------------------------------------------------------
 */

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
        OK(tarn_fold_writer_finish(w, NULL, &err));
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

/* The shard cannot be opened at first: the keys that follow must be found in it. */
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
    OK(tarn_fold_writer_finish(w, NULL, &err));
    assert_int_equal(read_fold("train", "a"), 7);
}

/* A limit on the size of files is met where the disk would be full. */
static void a_writer_that_lost_bytes_says_so_to_the_end(void **state)
{
    (void)state;
    struct rlimit before, small;
    tarn_fold_writer_options o = quick();
    bool there;
    tarn_fold_writer *w = open_fold("train", &o);
    add_some(w, "a", 0, 4); /* one shard is finished, one at hand */
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
    FAILS(TARN_ERR_IO, "only be abandoned", tarn_fold_writer_finish(w, NULL, &err));
    assert_true(is_there(".train_0000.tar.part"));
    assert_int_equal(count_files(false), 1);
    o.resume = true;
    w = open_fold("train", &o);
    add_some(w, "a", 2, 3);
    OK(tarn_fold_writer_finish(w, NULL, &err));
    assert_int_equal(read_fold("train", "a"), 5);
    assert_int_equal(count_files(true), 0);
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
    OK(tarn_fold_writer_finish(w, NULL, &err));
    assert_int_equal(read_fold("train", NULL), 9);
    o.append = true;
    w = open_fold("train", &o);
    FAILS(TARN_ERR_LIMIT, "65536 different fields", add(w, "one-more"));
    OK(tarn_fold_writer_add(w, "again", fields, 10, &err));
    OK(tarn_fold_writer_finish(w, NULL, &err));
    assert_int_equal(read_fold("train", NULL), 10);
    free(fields);
    free(names);
}

/* --- Several writers -----------------------------------------------------------------
 */

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
    tarn_fold_writer_abandon(w[1]);
    for (int i = 0; i < 4; i++)
        if (i != 1) OK(tarn_fold_writer_finish(w[i], NULL, &err));
    for (int i = 0; i < 4; i++)
        if (i != 1) assert_int_equal(read_fold(folds[i], "a"), 5);
    assert_int_equal(count_files(false), 3 * 5);
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
    OK(tarn_fold_writer_finish(w, NULL, &err));
    w = open_fold("train", &o);
    tarn_fold_writer_abandon(w);
    assert_int_equal(read_fold("train", "a"), 3);
    assert_int_equal(count_files(true), 0);
}

/* A reader looks again and again while another process writes. Appended samples only
 * become more; a fold that is replaced is the one or the other, or not there. */
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
            if (tarn_fold_writer_finish(w, NULL, &err) != TARN_OK) _exit(3);
        }
        if (child == 0) _exit(0);
        uint64_t seen = 0;
        int code = 0;
        while (waitpid(child, &code, WNOHANG) == 0) {
            tarn_fold *f;
            tarn_fold_info info;
            tarn_status status = tarn_fold_open(path, NULL, &f, &err);
            if (overwrite && status == TARN_ERR_NOT_FOUND) continue;
            OK(status);
            OK(tarn_fold_info_get(f, &info, &err));
            tarn_fold_close(f);
            if (overwrite)
                assert_true(info.samples == 3 || info.samples == 2 + 3 * ROUNDS);
            else
                assert_true(info.samples >= seen && info.samples % 3 == 2);
            seen = info.samples;
        }
        assert_true(WIFEXITED(code));
        assert_int_equal(WEXITSTATUS(code), 0);
    }
    assert_int_equal(read_fold("train", NULL), 3);
}

/* --- What is in the folder -----------------------------------------------------------
 */

static void finished_shards_that_were_to_replace_the_fold_are_not_added(void **state)
{
    (void)state;
    tarn_fold_writer_options o = quick();
    make_fold("train", "a", 5);
    o.overwrite = true;
    suspend(o, "b", 5);
    o.overwrite = false;
    o.resume = true;
    FAILS(TARN_ERR_EXISTS, "overwrite to begin again", try_open("train", &o));
    assert_int_equal(read_fold("train", "a"), 5);
    /* Numbered behind the fold, but with its keys. */
    o.resume = false;
    o.overwrite = true;
    o.start = 50;
    suspend(o, "a", 5);
    o.overwrite = false;
    o.resume = true;
    FAILS(TARN_ERR_AMBIGUOUS, "twice", try_open("train", &o));
    assert_int_equal(read_fold("train", "a"), 5);
    o = quick();
    o.overwrite = true;
    tarn_fold_writer *w = open_fold("train", &o);
    add_some(w, "c", 0, 2);
    OK(tarn_fold_writer_finish(w, NULL, &err));
    assert_int_equal(read_fold("train", "c"), 2);
    assert_int_equal(count_files(false), 3);
}

static void a_shard_that_came_meanwhile_is_not_written_over(void **state)
{
    (void)state;
    tarn_fold_writer_options o = quick();
    make_fold("train", "a", 2);
    o.append = true;
    tarn_fold_writer *w = open_fold("train", &o);
    add_some(w, "a", 2, 2);
    write_file(in("train_0001.tar"), "mine", 4);
    FAILS(TARN_ERR_EXISTS, "train_0001.tar", tarn_fold_writer_finish(w, NULL, &err));
    size_t size;
    unsigned char *mine = read_file(in("train_0001.tar"), &size);
    assert_int_equal(size, 4);
    free(mine);
    assert_int_equal(rename(in("train_0001.tar"), in("mine")), 0);
    assert_int_equal(read_fold("train", "a"), 2);
    o.append = false;
    o.resume = true;
    w = open_fold("train", &o);
    OK(tarn_fold_writer_finish(w, NULL, &err));
    assert_int_equal(read_fold("train", "a"), 4);
    assert_int_equal(count_files(true), 0);
}

/* Temporary files of dead writers of this fold go, all others stay. */
static void what_dead_writers_left_is_swept(void **state)
{
    (void)state;
    static const char *const dead[] = {"..train_0000.tar.part.tmp-1-0-00000000",
                                       "..train_00.tar.part.tmp-1-0-00000000",
                                       "..train_9.tar.part.tmp-1",
                                       "..train.tarn-commit.tmp-1-0-00000000",
                                       ".train.taridx.tmp-1-0-00000000",
                                       ".train.tarsum.tmp-1-0-00000000"};
    static const char *const others[] = {
        "..val_0000.tar.part.tmp-1",  "..val.tarn-commit.tmp-1",
        ".val.taridx.tmp-1",          ".train.tmp-1",
        "..train_0000.tar.tmp-1",     ".train.txt.tmp-1",
        "train.taridx.tmp-1",         "..trainee_0000.tar.part.tmp-1",
        ".train_0000.tar.part.tmp-1", ".train.taridx.tmp"};
    enum {
        DEAD = sizeof dead / sizeof dead[0],
        OTHERS = sizeof others / sizeof others[0]
    };
    tarn_fold_writer_options o = quick();
    for (int i = 0; i < DEAD; i++)
        write_file(in(dead[i]), "x", 1);
    for (int i = 0; i < OTHERS; i++)
        write_file(in(others[i]), "x", 1);
    tarn_fold_writer *w = open_fold("train", &o);
    for (int i = 0; i < DEAD; i++)
        assert_false(is_there(dead[i]));
    tarn_fold_writer_abandon(w);
    for (int i = 0; i < OTHERS; i++)
        assert_true(is_there(others[i]));
}

/* Writes a journal with a right checksum, whatever it says. */
static void forge_journal(const char *text)
{
    char whole[4096];
    int len = snprintf(whole, sizeof whole, "tarn commit 1\n%s", text);
    snprintf(whole + len, sizeof whole - (size_t)len, "%08x\n",
             tarn__crc32c(0, whole, (size_t)len));
    write_file(in(".train.tarn-commit"), whole, strlen(whole));
}

static void a_journal_moves_nothing_but_shards_of_its_fold(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "-\n+../victim.tar\n",  "-\n-../victim.tar\n",   "-\n+train_0/../victim.tar\n",
        "-\n-victim.tar\n",     "-\n+val_0000.tar\n",    "-\n-val_0000.tar\n",
        "-\n-victim\n",         "-\n+.train_0000.tar\n", "-\n-train.taridx\n",
        "-\n*train_0000.tar\n", "-\n-/etc/passwd\n"};
    char outside[1024];
    snprintf(outside, sizeof outside, "%s/../victim.tar", dir);
    write_file(outside, "x", 1);
    make_fold("val", "v", 2);
    write_file(in("victim.tar"), "x", 1);
    write_file(in("victim"), "x", 1);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        tarn_fold_writer_options o = quick();
        forge_journal(texts[i]);
        o.resume = true;
        FAILS(TARN_ERR_FORMAT, "damaged", try_open("train", &o));
        o.resume = false;
        FAILS(TARN_ERR_FORMAT, "damaged", try_open("train", &o));
        o.overwrite = true;
        tarn_fold_writer *w = open_fold("train", &o);
        add_some(w, "a", 0, 3);
        if (i % 2)
            tarn_fold_writer_abandon(w);
        else
            OK(tarn_fold_writer_finish(w, NULL, &err));
        assert_int_equal(access(outside, F_OK), 0);
        assert_true(is_there("victim.tar") && is_there("victim"));
        assert_int_equal(read_fold("val", "v"), 2);
        assert_int_equal(count_files(true), 0);
        if (i % 2) continue;
        assert_int_equal(read_fold("train", "a"), 3);
        remove_fold("train"); /* a journal of no index must count again */
    }
    assert_int_equal(remove(outside), 0);
}

static void journals_that_cannot_be_read_stop_writers_but_not_readers(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "garbage", "tarn commit 1\n-\n00000000\n",
                                        "tarn commit 2\n-\n"};
    tarn_fold_writer_options o = quick();
    make_fold("train", "a", 3);
    o.append = true;
    for (int i = 0; i < 8; i++) {
        const char *path = in(".train.tarn-commit");
        if (i < 4) write_file(path, texts[i], strlen(texts[i]));
        if (i == 4) assert_int_equal(mkdir(path, 0777), 0);
        if (i == 5) assert_int_equal(mkfifo(path, 0666), 0);
        if (i == 6) assert_int_equal(symlink("train_0000.tar", path), 0);
        if (i == 7) {
            write_file(path, "", 0);
            assert_int_equal(truncate(path, INT64_C(1) << 40), 0);
        }
        assert_int_equal(read_fold("train", "a"), 3);
        FAILS(TARN_ERR_FORMAT, "tarn-commit", try_open("train", &o));
        assert_int_equal(count_files(true), 1);
        assert_int_equal(remove(in(".train.tarn-commit")), 0);
        assert_int_equal(read_fold("train", "a"), 3);
    }
}

/* The journal of a commit that has come true hides nothing, and goes. */
static void a_journal_of_the_past_counts_no_more(void **state)
{
    (void)state;
    tarn_fold_writer_options o = quick();
    make_fold("train", "a", 4);
    for (int i = 0; i < 3; i++) {
        forge_journal(i ? "-\n+train_0000.tar\n-train_0001.tar\n"
                        : "0123\n+train_0000.tar\n");
        assert_int_equal(read_fold("train", "a"), 4);
        o.append = i == 0;
        o.resume = i == 1;
        o.overwrite = i == 2;
        tarn_fold_writer *w = open_fold("train", &o);
        tarn_fold_writer_suspend(w, NULL);
        assert_int_equal(read_fold("train", "a"), 4);
        assert_int_equal(count_files(true), 0);
    }
}

/* Its shards were removed by hand: there is nothing to resume. */
static void a_journal_without_its_shards_goes(void **state)
{
    (void)state;
    tarn_fold_writer_options o = quick();
    forge_journal("-\n+train_0000.tar\n+train_0001.tar\n");
    o.resume = true;
    tarn_fold_writer *w = open_fold("train", &o);
    OK(tarn_fold_writer_finish(w, NULL, &err));
    assert_int_equal(count_files(false), 0);
}

/* The journal says that a shard of the old fold was to go: half of that fold is no fold,
 * so it goes with the new one. */
/* The old fold is gone by then, so the new one is all there is. Who comes to overwrite
 * publishes it first; who resumes it and gives up throws it away. */
static void an_overwrite_that_is_given_up_halfway_leaves_no_half_fold(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        tarn_fold_writer_options o = quick();
        make_fold("train", "a", 4);
        o.overwrite = true;
        suspend(o, "b", 3);
        assert_int_equal(remove(in("train.taridx")), 0);
        assert_int_equal(remove(in("train.tarsum")), 0);
        forge_journal("-\n+train_0000.tar\n-train_0000.tar\n-train_0001.tar\n");
        o.resume = i == 0;
        o.overwrite = i == 1;
        tarn_fold_writer_abandon(open_fold("train", &o));
        assert_int_equal(count_files(false), i == 0 ? 0 : 3);
    }
    tarn_fold *fold;
    tarn_fold_info info;
    OK(tarn_fold_open(in("train.taridx"), NULL, &fold, &err));
    OK(tarn_fold_info_get(fold, &info, &err));
    assert_int_equal(info.shards, 1);
    tarn_fold_close(fold);
}

static void links_are_not_followed(void **state)
{
    (void)state;
    tarn_fold_writer_options o = quick();
    char victim[1024], path[1024];
    snprintf(victim, sizeof victim, "%s/victim", dir);
    write_file(victim, "x", 1);
    assert_int_equal(symlink("victim", in(".train.tarn-lock")), 0);
    FAILS(TARN_ERR_IO, "tarn-lock", try_open("train", &o));
    assert_int_equal(remove(in(".train.tarn-lock")), 0);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/.train_0000.tar.part", dir);
        if (i == 0) assert_int_equal(symlink("victim", path), 0);
        if (i == 1) assert_int_equal(symlink("nowhere", path), 0);
        if (i == 2) assert_int_equal(mkfifo(path, 0666), 0);
        FAILS(TARN_ERR_EXISTS, "1 finished shard", try_open("train", &o));
        o.resume = true;
        FAILS(TARN_ERR_UNSUPPORTED, "remove it", try_open("train", &o));
        assert_true(is_there(".train_0000.tar.part"));
        o.resume = false;
        o.overwrite = true;
        tarn_fold_writer *w = open_fold("train", &o);
        add_some(w, "a", 0, 2);
        OK(tarn_fold_writer_finish(w, NULL, &err));
        assert_int_equal(read_fold("train", "a"), 2);
        struct stat st;
        assert_int_equal(lstat(in("train_0000.tar"), &st), 0);
        assert_true(S_ISREG(st.st_mode));
        w = open_fold("train", &o);
        tarn_fold_writer_suspend(w, NULL);
        remove_fold("train");
        o.overwrite = false;
    }
    size_t size;
    unsigned char *data = read_file(victim, &size);
    assert_int_equal(size, 1);
    free(data);
}

static void a_finished_shard_that_was_cut_is_not_published(void **state)
{
    (void)state;
    tarn_fold_writer_options o = quick();
    suspend(o, "a", 5);
    assert_int_equal(truncate(in(".train_0001.tar.part"), 700), 0);
    o.resume = true;
    FAILS(TARN_ERR_TRUNCATED, ".train_0001.tar.part", try_open("train", &o));
    assert_int_equal(count_files(true), 2);
    assert_int_equal(remove(in(".train_0001.tar.part")), 0);
    tarn_fold_writer *w = open_fold("train", &o);
    add_some(w, "a", 2, 3);
    OK(tarn_fold_writer_finish(w, NULL, &err));
    assert_int_equal(read_fold("train", "a"), 5);
}

static void abandoning_takes_with_it_what_was_resumed(void **state)
{
    (void)state;
    tarn_fold_writer_options o = quick();
    uint64_t shards;
    make_fold("train", "a", 2);
    o.append = true;
    suspend(o, "b", 5);
    o.append = false;
    o.resume = true;
    tarn_fold_writer *w = open_fold("train", &o);
    tarn_fold_writer_suspend(w, &shards);
    assert_int_equal(shards, 2);
    tarn_fold_writer_suspend(NULL, NULL);
    tarn_fold_writer_abandon(NULL);
    w = open_fold("train", &o);
    add_some(w, "c", 0, 3);
    tarn_fold_writer_abandon(w);
    assert_int_equal(count_files(true), 0);
    assert_int_equal(count_files(false), 3);
    assert_int_equal(read_fold("train", "a"), 2);
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_key_is_known_once_it_was_added),
        TEST(has_tells_of_all_that_will_be_there),
        TEST(options_that_make_no_sense_are_refused),
        TEST(a_file_that_is_spelled_like_the_fold_is_in_the_way),
        TEST(numbers_begin_and_end_where_they_must),
        TEST(no_file_is_larger_than_it_may_be),
        TEST(names_past_ascii_and_pax_are_found_again),
        TEST(a_sample_that_fails_leaves_no_trace),
        TEST(a_shard_that_could_not_be_opened_is_tried_again),
        TEST(a_writer_that_lost_bytes_says_so_to_the_end),
        TEST(more_fields_than_an_index_numbers_are_refused_in_time),
        TEST(several_folds_are_written_at_once),
        TEST(a_fold_has_one_writer),
        TEST(readers_see_the_old_fold_or_the_new_one),
        TEST(finished_shards_that_were_to_replace_the_fold_are_not_added),
        TEST(a_shard_that_came_meanwhile_is_not_written_over),
        TEST(what_dead_writers_left_is_swept),
        TEST(a_journal_moves_nothing_but_shards_of_its_fold),
        TEST(journals_that_cannot_be_read_stop_writers_but_not_readers),
        TEST(a_journal_of_the_past_counts_no_more),
        TEST(a_journal_without_its_shards_goes),
        TEST(an_overwrite_that_is_given_up_halfway_leaves_no_half_fold),
        TEST(links_are_not_followed),
        TEST(a_finished_shard_that_was_cut_is_not_published),
        TEST(abandoning_takes_with_it_what_was_resumed),
    };
    return cmocka_run_group_tests_name("foldwrite", tests, NULL, scratch_remove);
}
