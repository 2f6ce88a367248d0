/* Tasks and their commit: the joined index equals that of a scan, whatever the parts
 * contain; what is refused; and which files are left. */
#include "own_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <tarn/commit.h>

#include "itar/join.h"

static tarn_error err;

/* Three keys with the same XXH64. */
static const char *const twins[] = {
    "twin_onetwin_one________________twin_onetwin_one________________",
    "twin_oneH8Q^baaa________________twin_onesgsv0XC&________________",
    "$;5kdaaatwin_one________________Qk)]0alXtwin_one________________",
};

static tarn_fold_writer_options quick(unsigned task, unsigned tasks)
{
    tarn_fold_writer_options o = TARN_FOLD_WRITER_OPTIONS_INIT;
    o.no_sync = true;
    o.max_count = 3;
    o.task = task;
    o.tasks = tasks;
    return o;
}

static tarn_fold_writer *begin(unsigned task, unsigned tasks)
{
    tarn_fold_writer *w;
    tarn_fold_writer_options o = quick(task, tasks);
    OK(tarn_fold_writer_open(dir, "train", &o, &w, &err));
    return w;
}

static const char *payload; /* NULL: the key */

static void add(tarn_fold_writer *w, const char *key, const char *const *fields)
{
    tarn_field all[4];
    size_t n = 0;
    const char *data = payload ? payload : key;
    for (; fields[n]; n++)
        all[n] = (tarn_field){fields[n], data, strlen(data), NULL};
    OK(tarn_fold_writer_add(w, key, all, n, &err));
}

static const char *const two[] = {"cls", "txt", NULL}, *const three[] = {"a", "b", "txt",
                                                                         NULL};

/* Keys k0100 to k0104 and so on, with the same fields. */
static void write_part(unsigned task, unsigned tasks, int count)
{
    char key[32];
    tarn_fold_writer *w = begin(task, tasks);
    for (int i = 0; i < count; i++) {
        snprintf(key, sizeof key, "k%02u%02d", task, i);
        add(w, key, two);
    }
    OK(tarn_fold_writer_finish(w, NULL, 0, &err));
}

static tarn_status commit_with(tarn_commit_options o, tarn_commit_report *out)
{
    o.no_sync = true;
    return tarn_commit(dir, &o, out, sizeof *out, &err);
}

static tarn_status commit(tarn_commit_report *out)
{
    tarn_commit_options o = TARN_COMMIT_OPTIONS_INIT;
    return commit_with(o, out);
}

static void same_file(const char *left, const char *right)
{
    size_t a_size, b_size;
    unsigned char *a = read_file(in(left), &a_size), *b = read_file(in(right), &b_size);
    assert_int_equal(a_size, b_size);
    assert_memory_equal(a, b, a_size);
    free(a);
    free(b);
}

/* A scan of the committed shards gives the same two files. */
static void index_equals_a_scan(void)
{
    tarn_folds *folds;
    tarn_index_options o = TARN_INDEX_OPTIONS_INIT;
    OK(tarn_folds_list(dir, &folds, &err));
    o.sums = true;
    OK(tarn_index_build(folds->folds[0]->shards, folds->folds[0]->n_shards, &o,
                        in("scan.taridx"), NULL, NULL, 0, &err));
    tarn_folds_free(folds);
    same_file("train.taridx", "scan.taridx");
    same_file("train.tarsum", "scan.tarsum");
    assert_int_equal(unlink(in("scan.taridx")), 0);
    assert_int_equal(unlink(in("scan.tarsum")), 0);
}

static void a_committed_fold_is_complete_and_nothing_is_left(void **state)
{
    (void)state;
    tarn_commit_report r;
    for (unsigned i = 0; i < 4; i++)
        write_part(i, 4, 7);
    assert_int_equal(count_files(dir, false), 1);
    OK(commit(&r));
    assert_int_equal(r.tasks, 4);
    assert_int_equal(r.samples, 28);
    assert_int_equal(r.members, 56);
    assert_int_equal(r.shards, 12);
    assert_false(r.existed);
    assert_int_equal(count_files(dir, true), 0);
    assert_int_equal(count_files(dir, false), 14);
    index_equals_a_scan();
    OK(commit(&r));
    assert_true(r.existed);
    assert_int_equal(r.samples, 28);
}

static void parts_with_other_fields_are_joined_as_a_scan_does(void **state)
{
    (void)state;
    tarn_commit_report r;
    tarn_fold_writer *w = begin(1, 3);
    add(w, "other", three);
    add(w, "same", two);
    OK(tarn_fold_writer_finish(w, NULL, 0, &err));
    write_part(0, 3, 4);
    write_part(2, 3, 0); /* an empty shard, which the fold does not need */
    OK(commit(&r));
    assert_int_equal(r.samples, 6);
    assert_int_equal(r.shards, 3);
    index_equals_a_scan();
}

static void parts_without_any_sample_are_an_empty_fold(void **state)
{
    (void)state;
    tarn_commit_report r;
    write_part(0, 2, 0);
    write_part(1, 2, 0);
    OK(commit(&r));
    assert_int_equal(r.samples, 0);
    assert_int_equal(r.shards, 1);
    index_equals_a_scan();
}

static void keys_that_collide_in_different_parts_are_numbered_as_by_a_scan(void **state)
{
    (void)state;
    tarn_commit_report r;
    for (unsigned i = 0; i < 2; i++) {
        tarn_fold_writer *w = begin(i, 2);
        add(w, i ? "after" : "before", two);
        add(w, twins[i], two);
        if (i) add(w, twins[2], two);
        OK(tarn_fold_writer_finish(w, NULL, 0, &err));
    }
    OK(commit(&r));
    index_equals_a_scan();
    tarn_index *index;
    OK(tarn_index_load(in("train.taridx"), &index, &err));
    assert_string_equal(tarn_index_collision(index, 1), twins[1]);
    assert_string_equal(tarn_index_collision(index, 2), twins[2]);
    tarn_index_free(index);
}

static void a_key_in_two_parts_is_refused_with_both_shards(void **state)
{
    (void)state;
    tarn_commit_report r;
    for (unsigned i = 0; i < 2; i++) {
        tarn_fold_writer *w = begin(i, 2);
        add(w, "twice", two);
        OK(tarn_fold_writer_finish(w, NULL, 0, &err));
    }
    FAILS(TARN_ERR_EXISTS, "the key twice is also in", commit(&r));
    assert_non_null(strstr(err.path, "00001-of-00002/train_0000.tar"));
    assert_non_null(strstr(err.message, "00000-of-00002/train_0000.tar"));
    assert_int_equal(count_files(dir, false), 1); /* only the parts */
}

/* Also where the hash is that of other keys, and the key has a collision number. */
static void a_repeated_key_is_found_among_keys_that_collide(void **state)
{
    (void)state;
    tarn_commit_report r;
    for (unsigned i = 0; i < 2; i++) {
        tarn_fold_writer *w = begin(i, 2);
        add(w, twins[0], two);
        if (!i) add(w, twins[1], two);
        OK(tarn_fold_writer_finish(w, NULL, 0, &err));
    }
    FAILS(TARN_ERR_EXISTS, twins[0], commit(&r));
}

static void more_runs_than_memory_give_the_same_index(void **state)
{
    (void)state;
    tarn_commit_report r;
    tarn_commit_options o = TARN_COMMIT_OPTIONS_INIT;
    for (unsigned i = 0; i < 5; i++)
        write_part(i, 5, 20);
    o.memory = 16 * 11; /* eleven runs: ten pieces for 100 samples */
    OK(commit_with(o, &r));
    assert_int_equal(r.samples, 100);
    index_equals_a_scan();
}

static void too_little_memory_for_sorting_is_an_error(void **state)
{
    (void)state;
    tarn_commit_report r;
    tarn_commit_options o = TARN_COMMIT_OPTIONS_INIT;
    write_part(0, 1, 20);
    for (o.memory = 1; o.memory < 64; o.memory++)
        FAILS(TARN_ERR_LIMIT, "too little for sorting these keys", commit_with(o, &r));
    o.memory = 80; /* four pieces of five */
    OK(commit_with(o, &r));
    assert_int_equal(r.samples, 20);
    index_equals_a_scan();
}

static void missing_tasks_are_named(void **state)
{
    (void)state;
    tarn_commit_report r;
    FAILS(TARN_ERR_NOT_FOUND, "no parts of fold train", commit(&r));
    write_part(0, 5, 1);
    write_part(2, 5, 1);
    FAILS(TARN_ERR_NOT_FOUND, "3 of 5 tasks missing: 1, 3, 4", commit(&r));
    assert_int_equal(count_files(dir, false), 1);
}

static void a_complete_part_is_not_written_again(void **state)
{
    (void)state;
    tarn_fold_writer *w;
    tarn_fold_writer_options o = quick(0, 2);
    write_part(0, 2, 1);
    FAILS(TARN_ERR_EXISTS, "the part of task 0 of 2 is complete",
          tarn_fold_writer_open(dir, "train", &o, &w, &err));
}

static void two_runs_of_one_task_leave_one_part(void **state)
{
    (void)state;
    tarn_commit_report r;
    tarn_fold_writer *first = begin(0, 1), *second = begin(0, 1);
    add(first, "a", two);
    add(second, "a", two);
    OK(tarn_fold_writer_finish(second, NULL, 0, &err));
    OK(tarn_fold_writer_finish(first, NULL, 0, &err));
    OK(commit(&r));
    assert_int_equal(r.samples, 1);
    assert_int_equal(count_files(dir, true), 0);
}

static void an_abandoned_task_leaves_no_part(void **state)
{
    (void)state;
    tarn_commit_report r;
    tarn_fold_writer *w = begin(0, 1);
    add(w, "a", two);
    tarn_fold_writer_abandon(w, false, NULL);
    FAILS(TARN_ERR_NOT_FOUND, "no task is complete", commit(&r));
    write_part(0, 1, 2);
    OK(commit(&r));
    assert_int_equal(r.samples, 2);
}

static void a_task_that_outlives_the_commit_is_refused(void **state)
{
    (void)state;
    tarn_commit_report r;
    tarn_fold_writer *late = begin(0, 1);
    add(late, "a", two);
    write_part(0, 1, 1);
    OK(commit(&r));
    tarn_status status = tarn_fold_writer_finish(late, NULL, 0, &err);
    assert_true(status == TARN_ERR_STALE || status == TARN_ERR_IO ||
                status == TARN_ERR_NO_FILE);
    assert_int_equal(count_files(dir, true), 0);
}

static void parts_of_two_jobs_are_not_mixed(void **state)
{
    (void)state;
    tarn_commit_report r;
    tarn_fold_writer *w;
    tarn_commit_options c = TARN_COMMIT_OPTIONS_INIT;
    tarn_fold_writer_options o = quick(1, 2);
    write_part(0, 2, 1);
    o.job = "another";
    FAILS(TARN_ERR_EXISTS, "another job",
          tarn_fold_writer_open(dir, "train", &o, &w, &err));
    o.job = NULL;
    o.tasks = 3;
    FAILS(TARN_ERR_AMBIGUOUS,
          "the existing parts are of 2 tasks, not of 3 tasks: run this task as I/2",
          tarn_fold_writer_open(dir, "train", &o, &w, &err));
    c.discard = true;
    OK(commit_with(c, &r));
    assert_int_equal(count_files(dir, false), 0);
}

static void an_open_number_of_tasks_is_given_to_the_commit(void **state)
{
    (void)state;
    tarn_commit_report r;
    tarn_commit_options c = TARN_COMMIT_OPTIONS_INIT;
    for (unsigned i = 0; i < 3; i++)
        write_part(i, TARN_TASKS_OPEN, 2);
    FAILS(TARN_ERR_USAGE, "give the number", commit(&r));
    c.tasks = 4;
    FAILS(TARN_ERR_NOT_FOUND, "1 of 4 tasks missing: 3", commit_with(c, &r));
    c.tasks = 2;
    FAILS(TARN_ERR_AMBIGUOUS, "task 2", commit_with(c, &r));
    c.tasks = 3;
    OK(commit_with(c, &r));
    assert_int_equal(r.samples, 6);
}

static void an_existing_fold_is_extended_or_replaced(void **state)
{
    (void)state;
    tarn_commit_report r;
    tarn_commit_options c = TARN_COMMIT_OPTIONS_INIT;
    write_part(0, 1, 4);
    OK(commit(&r));
    write_part(1, 2, 4);
    tarn_fold_writer *w = begin(0, 2);
    add(w, "new", three);
    OK(tarn_fold_writer_finish(w, NULL, 0, &err));
    FAILS(TARN_ERR_EXISTS, "already exists, with 2 shards", commit(&r));
    c.append = true;
    OK(commit_with(c, &r));
    assert_int_equal(r.samples, 9);
    assert_int_equal(r.shards, 5);
    index_equals_a_scan();
    write_part(0, 1, 5);
    FAILS(TARN_ERR_EXISTS, "is also in", commit_with(c, &r));
    c.append = false;
    c.overwrite = true;
    OK(commit_with(c, &r));
    assert_int_equal(r.samples, 5);
    assert_int_equal(r.shards, 2);
    assert_int_equal(count_files(dir, false), 4);
    index_equals_a_scan();
    /* Also by shards that are the last of the old fold. */
    write_part(3, 4, 2);
    write_part(0, 4, 0);
    write_part(1, 4, 0);
    write_part(2, 4, 0);
    c.overwrite = false;
    c.append = true;
    OK(commit_with(c, &r));
    assert_int_equal(r.samples, 7);
    for (unsigned i = 0; i < 4; i++)
        write_part(i, 4, i == 3 ? 2 : 0);
    c.overwrite = true;
    c.append = false;
    OK(commit_with(c, &r));
    assert_int_equal(r.samples, 2);
}

static void a_fold_that_differs_only_in_payloads_is_replaced(void **state)
{
    (void)state;
    tarn_commit_report r;
    tarn_commit_options c = TARN_COMMIT_OPTIONS_INIT;
    size_t size;
    c.overwrite = true;
    for (int i = 0; i < 2; i++) {
        payload = i ? "after!" : "before";
        write_part(0, 1, 2);
        OK(commit_with(c, &r));
    }
    payload = NULL;
    unsigned char *data = read_file(in("train_0000.tar"), &size);
    assert_memory_equal(data + 512, "after!", 6);
    free(data);
    index_equals_a_scan();
}

static char *part_file(unsigned task, unsigned tasks, const char *name)
{
    static char path[2048];
    char command[1200];
    snprintf(command, sizeof command, "ls %s/.train.tasks", dir);
    FILE *f = popen(command, "r");
    char job[64] = "";
    assert_int_equal(fscanf(f, "%63s", job), 1);
    pclose(f);
    snprintf(path, sizeof path, "%s/.train.tasks/%s/%05u-of-%05u/%s", dir, job, task,
             tasks, name);
    return path;
}

/* Any byte of a part's index or sums, except for the key order, which is made again. */
static void a_damaged_part_is_never_committed(void **state)
{
    (void)state;
    static const char *const names[] = {"train.taridx", "train.tarsum"};
    tarn_commit_report r;
    size_t size;
    for (unsigned i = 0; i < 2; i++)
        write_part(i, 2, 3);
    for (int k = 0; k < 2; k++) {
        const char *path = part_file(1, 2, names[k]);
        unsigned char *data = read_file(path, &size);
        for (size_t at = 0; at < size; at += 3) {
            enum { ROWS = 6 };
            if (k == 1 && at >= size - 8 * ROWS && at < size - 4 * ROWS) continue;
            data[at] ^= 0x41;
            write_file(path, data, size);
            assert_int_not_equal(commit(&r), TARN_OK);
            data[at] ^= 0x41;
        }
        write_file(path, data, size);
        free(data);
    }
    assert_int_equal(count_files(dir, false), 1);
    OK(commit(&r));
    index_equals_a_scan();
}

static void shards_of_an_interrupted_writer_are_not_taken(void **state)
{
    (void)state;
    tarn_commit_report r;
    tarn_fold_writer_options o = quick(0, 0);
    tarn_fold_writer *w;
    OK(tarn_fold_writer_open(dir, "train", &o, &w, &err));
    for (int i = 0; i < 5; i++) {
        char key[16];
        snprintf(key, sizeof key, "own%d", i);
        add(w, key, three);
    }
    tarn_fold_writer_abandon(w, true, NULL);
    write_part(0, 1, 1);
    FAILS(TARN_ERR_EXISTS, "an interrupted writer of fold train", commit(&r));
}

static void impossible_tasks_are_refused(void **state)
{
    (void)state;
    tarn_fold_writer *w;
    tarn_commit_report r;
    tarn_fold_writer_options o = quick(2, 2);
    tarn_commit_options c = TARN_COMMIT_OPTIONS_INIT;
    FAILS(TARN_ERR_USAGE, "task 2 of 2",
          tarn_fold_writer_open(dir, "train", &o, &w, &err));
    o = quick(0, TARN_MAX_TASKS + 1);
    FAILS(TARN_ERR_USAGE, "tasks", tarn_fold_writer_open(dir, "train", &o, &w, &err));
    o = quick(0, 2);
    o.append = true;
    FAILS(TARN_ERR_USAGE, "commit", tarn_fold_writer_open(dir, "train", &o, &w, &err));
    c.append = c.overwrite = true;
    FAILS(TARN_ERR_USAGE, "exclude", commit_with(c, &r));
    FAILS(TARN_ERR_UNSUPPORTED, "in folders and on s3://",
          tarn_commit("gs://bucket/x", NULL, NULL, 0, &err));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        IN_OWN_FOLDER(a_committed_fold_is_complete_and_nothing_is_left),
        IN_OWN_FOLDER(parts_with_other_fields_are_joined_as_a_scan_does),
        IN_OWN_FOLDER(parts_without_any_sample_are_an_empty_fold),
        IN_OWN_FOLDER(keys_that_collide_in_different_parts_are_numbered_as_by_a_scan),
        IN_OWN_FOLDER(a_key_in_two_parts_is_refused_with_both_shards),
        IN_OWN_FOLDER(a_repeated_key_is_found_among_keys_that_collide),
        IN_OWN_FOLDER(more_runs_than_memory_give_the_same_index),
        IN_OWN_FOLDER(too_little_memory_for_sorting_is_an_error),
        IN_OWN_FOLDER(missing_tasks_are_named),
        IN_OWN_FOLDER(a_complete_part_is_not_written_again),
        IN_OWN_FOLDER(two_runs_of_one_task_leave_one_part),
        IN_OWN_FOLDER(an_abandoned_task_leaves_no_part),
        IN_OWN_FOLDER(a_task_that_outlives_the_commit_is_refused),
        IN_OWN_FOLDER(parts_of_two_jobs_are_not_mixed),
        IN_OWN_FOLDER(an_open_number_of_tasks_is_given_to_the_commit),
        IN_OWN_FOLDER(an_existing_fold_is_extended_or_replaced),
        IN_OWN_FOLDER(a_fold_that_differs_only_in_payloads_is_replaced),
        IN_OWN_FOLDER(a_damaged_part_is_never_committed),
        IN_OWN_FOLDER(shards_of_an_interrupted_writer_are_not_taken),
        IN_OWN_FOLDER(impossible_tasks_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
