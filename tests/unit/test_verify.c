/* Verification finds damage, and repair fixes what can be fixed. */
#include "support.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static tarn_error err;
static char told[8000];
static unsigned n_told;

static void add_told(void *context, const tarn_error *what)
{
    char text[2200];
    (void)context;
    n_told++;
    tarn_error_text(what, text, sizeof text);
    strncat(told, text, sizeof told - strlen(told) - 2);
    strcat(told, "\n");
}

static tarn_verify_report verify(const char *path, bool repair)
{
    tarn_verify_report report;
    tarn_verify_options o = TARN_VERIFY_OPTIONS_INIT;
    o.problem = add_told;
    o.repair = repair;
    told[0] = '\0';
    n_told = 0;
    OK(tarn_verify(path, &o, &report, sizeof report, &err));
    assert_int_equal(report.problems, n_told);
    return report;
}

/* One fold of two shards with checksums; *out_size is the size of each shard. */
static const char *make_fold(const char *name, size_t *out_size)
{
    static char folder[512];
    const char *paths[2];
    char stored[2][600], index_path[600];
    tarn_index *index;
    tarn_index_options o = TARN_INDEX_OPTIONS_INIT;
    snprintf(folder, sizeof folder, "%s", scratch_path(name));
    mkdir(folder, 0755);
    for (int i = 0; i < 2; i++) {
        tarball t = {0};
        for (int k = 0; k < 4; k++) {
            char member[32];
            snprintf(member, sizeof member, "s%d%d.txt", i, k);
            tarball_file(&t, member, "some text");
        }
        tarball_end(&t);
        snprintf(stored[i], sizeof stored[i], "%s/f_%d.tar", folder, i);
        save_tar(&t, stored[i]);
        paths[i] = stored[i];
        *out_size = t.size;
        tarball_reset(&t);
    }
    o.sums = true;
    OK(tarn_index_build(paths, 2, &o, NULL, &index, NULL, 0, &err));
    snprintf(index_path, sizeof index_path, "%s/f.taridx", folder);
    OK(tarn_index_save(index, index_path, &err));
    tarn_index_free(index);
    return folder;
}

static void flip(const char *path, off_t at)
{
    unsigned char byte;
    int fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void a_good_fold_has_no_problem(void **state)
{
    (void)state;
    size_t size;
    tarn_verify_report r = verify(make_fold("good", &size), false);
    assert_int_equal(r.problems, 0);
    assert_int_equal(r.members, 8);
    assert_int_equal(r.shards, 2);
    assert_int_equal(r.checksummed, 8);
    assert_int_equal(r.indexed, 1);
    r = verify(data_path("01_basic"), false);
    assert_int_equal(r.problems, 0);
    assert_int_equal(r.folds, 2);
    assert_int_equal(r.checksummed, 0);
}

static void every_problem_is_listed(void **state)
{
    (void)state;
    size_t size;
    const char *folder = make_fold("many", &size);
    flip(scratch_path("many/f_0.tar"), 512 + 3);        /* a payload */
    flip(scratch_path("many/f_0.tar"), 2048 + 512 + 3); /* another */
    flip(scratch_path("many/f_1.tar"), 1024);           /* a header */
    tarn_verify_report r = verify(folder, false);
    assert_non_null(strstr(told, "f_0.tar: offset 0: the payload of row 0"));
    assert_non_null(strstr(told, "f_0.tar: offset 2048: the payload of row 2"));
    assert_non_null(strstr(told, "f_1.tar: offset 1024: header checksum"));
    assert_non_null(strstr(told, "row 5 of the index: there is no readable member here"));
    assert_non_null(strstr(told, "headers are not those that were indexed"));
    assert_true(r.problems >= 5);
    assert_int_equal(r.remaining, r.problems);
}

static void repair_leaves_a_fold_with_changed_payloads_alone(void **state)
{
    (void)state;
    size_t size, before_size, after_size;
    const char *folder = make_fold("changed", &size);
    flip(scratch_path("changed/f_0.tar"), 512 + 3);
    unsigned char *before = read_file(scratch_path("changed/f.tarsum"), &before_size);
    tarn_verify_report r = verify(folder, true);
    unsigned char *after = read_file(scratch_path("changed/f.tarsum"), &after_size);
    assert_int_equal(r.remaining, 1);
    assert_int_equal(r.repairs, 0);
    assert_int_equal(before_size, after_size);
    assert_memory_equal(before, after, before_size);
    free(before);
    free(after);
}

static void repair_cuts_a_torn_tail_off_and_keeps_it(void **state)
{
    (void)state;
    size_t size, bad_size;
    const char *folder = make_fold("torn", &size);
    assert_int_equal(truncate(scratch_path("torn/f_1.tar"), 3 * 1024 + 512 + 4), 0);
    tarn_verify_report r = verify(folder, true);
    assert_true(r.problems > 0);
    assert_int_equal(r.remaining, 0);
    assert_int_equal(r.repairs, 3); /* tail kept, shard truncated, index rebuilt */
    unsigned char *bad = read_file(scratch_path("torn/f_1.tar.bad"), &bad_size);
    assert_int_equal(bad_size, 512 + 4);
    assert_string_equal((char *)bad, "s13.txt");
    free(bad);
    r = verify(folder, false);
    assert_int_equal(r.problems, 0);
    assert_int_equal(r.members, 7);
    assert_int_equal(r.checksummed, 7);
}

/* Shard numbers shift when one is missing: payloads must still be checked by name, and
 * neither problem may hide the other. */
static void a_missing_shard_does_not_hide_changed_payloads(void **state)
{
    (void)state;
    size_t size;
    const char *folder = make_fold("shifted", &size);
    rename(scratch_path("shifted/f_0.tar"), scratch_path("shifted/away"));
    tarn_verify_report r = verify(folder, true);
    assert_int_equal(r.checksummed, 4);
    assert_non_null(strstr(told, "a shard that does not exist: f_0.tar (4 members)"));
    assert_null(strstr(told, "f_1.tar"));
    assert_int_equal(r.repairs, 0);
    flip(scratch_path("shifted/f_1.tar"), 512 + 3);
    verify(folder, true);
    assert_non_null(strstr(told, "f_1.tar: offset 0: the payload of row 4"));
    rename(scratch_path("shifted/away"), scratch_path("shifted/f_0.tar"));
    r = verify(folder, false);
    assert_int_equal(r.problems, 1);
}

static void repair_adds_a_missing_end(void **state)
{
    (void)state;
    size_t size;
    const char *folder = make_fold("endless", &size);
    assert_int_equal(truncate(scratch_path("endless/f_0.tar"), 4 * 1024), 0);
    tarn_verify_report r = verify(folder, true);
    assert_int_equal(r.remaining, 0);
    assert_int_not_equal(access(scratch_path("endless/f_0.tar.bad"), F_OK), 0);
    assert_int_equal(verify(folder, false).members, 8);
}

static void repair_rebuilds_a_damaged_index_with_its_checksums(void **state)
{
    (void)state;
    size_t size;
    const char *folder = make_fold("rebuilt", &size);
    flip(scratch_path("rebuilt/f.taridx"), 0);
    tarn_verify_report r = verify(folder, true);
    assert_non_null(strstr(told, "not a taridx file"));
    assert_int_equal(r.remaining, 0);
    r = verify(folder, false);
    assert_int_equal(r.problems, 0);
    assert_int_equal(r.checksummed, 8);
}

static void add_repair(void *context, const tarn_error *what)
{
    (void)context;
    strncat(told, what->message, sizeof told - strlen(told) - 1);
}

static tarn_verify_report repair_telling_all(const char *folder)
{
    tarn_verify_report report;
    tarn_verify_options o = TARN_VERIFY_OPTIONS_INIT;
    o.repair = true;
    o.repaired = add_repair;
    told[0] = '\0';
    OK(tarn_verify(folder, &o, &report, sizeof report, &err));
    return report;
}

static void assert_all_payloads_are_checked(const char *folder)
{
    tarn_verify_report r = verify(folder, false);
    assert_int_equal(r.problems, 0);
    assert_int_equal(r.checksummed, 8);
}

static void repair_makes_new_checksums_and_says_so_where_the_old_are_damaged(void **state)
{
    static const off_t places[] = {20, 200, -4}; /* header, names, checksums */
    (void)state;
    size_t size;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        char name[40];
        struct stat st;
        snprintf(name, sizeof name, "newsums%zu", i);
        const char *folder = make_fold(name, &size);
        snprintf(name, sizeof name, "newsums%zu/f.tarsum", i);
        assert_int_equal(stat(scratch_path(name), &st), 0);
        flip(scratch_path(name), places[i] < 0 ? st.st_size + places[i] : places[i]);
        tarn_verify_report r = repair_telling_all(folder);
        assert_int_equal(r.remaining, 0);
        assert_non_null(strstr(told, "computed from the current payloads"));
        assert_all_payloads_are_checked(folder);
    }
}

static void a_removed_index_is_reported_and_made_again_with_its_checksums(void **state)
{
    (void)state;
    size_t size;
    const char *folder = make_fold("removed", &size);
    assert_int_equal(unlink(scratch_path("removed/f.taridx")), 0);
    tarn_verify_report r = verify(folder, false);
    assert_int_equal(r.remaining, 1);
    assert_non_null(strstr(told, "the index of these checksums does not exist"));
    assert_int_equal(r.checksummed, 8);
    r = repair_telling_all(folder);
    assert_int_equal(r.remaining, 0);
    assert_null(strstr(told, "current payloads"));
    assert_all_payloads_are_checked(folder);
}

static void a_removed_index_is_not_made_again_for_changed_payloads(void **state)
{
    (void)state;
    size_t size;
    const char *folder = make_fold("removed2", &size);
    assert_int_equal(unlink(scratch_path("removed2/f.taridx")), 0);
    flip(scratch_path("removed2/f_0.tar"), 512);
    assert_int_equal(verify(folder, true).remaining, 2);
    assert_int_not_equal(access(scratch_path("removed2/f.taridx"), F_OK), 0);
    assert_int_equal(access(scratch_path("removed2/f.tarsum"), F_OK), 0);
}

/* As a writer leaves it that is killed between the last two renames. */
static void sums_that_wait_for_their_name_are_used_and_get_it(void **state)
{
    (void)state;
    size_t size;
    const char *folder = make_fold("waiting", &size);
    char *waiting = strdup(scratch_path("waiting/.f.tarsum.next"));
    for (int stale = 0; stale < 2; stale++) {
        assert_int_equal(rename(scratch_path("waiting/f.tarsum"), waiting), 0);
        if (stale) { /* those of another index have the name */
            const char *one = scratch_path("waiting/f_0.tar");
            OK(tarn_index_build(&one, 1, NULL, scratch_path("waiting2.taridx"), NULL,
                                NULL, 0, &err));
            assert_int_equal(
                rename(scratch_path("waiting2.tarsum"), scratch_path("waiting/f.tarsum")),
                0);
        }
        assert_all_payloads_are_checked(folder);
        assert_int_equal(access(waiting, F_OK), 0);
        assert_int_equal(verify(folder, true).problems, 0);
        assert_int_not_equal(access(waiting, F_OK), 0);
        assert_all_payloads_are_checked(folder);
    }
    free(waiting);
}

/* A damaged .tarsum must not make repair lose the rule of the keys. */
static void repair_keeps_the_key_rule_without_sums(void **state)
{
    (void)state;
    tarball t = {0};
    tarn_index *index;
    tarn_index_options o = TARN_INDEX_OPTIONS_INIT;
    mkdir(scratch_path("rule"), 0755);
    const char *path = scratch_path("rule/r_0.tar");
    tarball_file(&t, "README", "no key by the path rule");
    tarball_file(&t, "d1/x.txt", "one");
    tarball_file(&t, "d2/x.txt", "two");
    tarball_end(&t);
    save_tar(&t, path);
    o.keys = TARN_KEYS_PATH;
    OK(tarn_index_build(&path, 1, &o, scratch_path("rule/r.taridx"), NULL, NULL, 0,
                        &err));
    flip(scratch_path("rule/r.tarsum"), 100);
    tarn_verify_report r = verify(scratch_path("rule"), true);
    assert_int_equal(r.problems, 1);
    assert_int_equal(r.remaining, 0);
    OK(tarn_index_load(scratch_path("rule/r.taridx"), &index, &err));
    tarn_index_info info;
    tarn_index_info_get(index, &info, sizeof info);
    assert_int_equal(info.keys, TARN_KEYS_PATH);
    assert_int_equal(info.samples, 2);
    tarn_index_free(index);
    tarball_reset(&t);
}

static void repair_never_empties_a_file_that_is_not_an_archive(void **state)
{
    (void)state;
    size_t size, after;
    const char *folder = make_fold("other", &size);
    unsigned char *noise = malloc(9000);
    for (int i = 0; i < 9000; i++)
        noise[i] = (unsigned char)(i * 7 + 3);
    write_file(scratch_path("other/f_1.tar"), noise, 9000);
    tarn_verify_report r = verify(folder, true);
    assert_true(r.remaining > 0);
    free(read_file(scratch_path("other/f_1.tar"), &after));
    assert_int_equal(after, 9000);
    free(noise);
}

static void damage_in_the_middle_is_reported_and_remains(void **state)
{
    (void)state;
    size_t size;
    const char *folder = make_fold("middle", &size);
    flip(scratch_path("middle/f_0.tar"), 1024);
    tarn_verify_report r = verify(folder, true);
    assert_true(r.remaining > 0);
    r = verify(folder, false);
    assert_int_equal(r.problems, 1); /* the index matches what can be read now */
    assert_int_equal(r.members, 7);
}

static void bytes_after_the_end_are_cut_off_and_kept(void **state)
{
    (void)state;
    size_t size, bad_size;
    const char *folder = make_fold("trailing", &size);
    int fd = open(scratch_path("trailing/f_0.tar"), O_WRONLY | O_APPEND);
    assert_int_equal(write(fd, "garbage", 7), 7);
    close(fd);
    tarn_verify_report r = verify(folder, true);
    assert_int_equal(r.remaining, 0);
    unsigned char *bad = read_file(scratch_path("trailing/f_0.tar.bad"), &bad_size);
    assert_memory_equal(bad, "garbage", 7);
    free(bad);
    assert_int_equal(verify(folder, false).problems, 0);
}

static void a_single_archive_can_be_verified(void **state)
{
    (void)state;
    tarn_verify_report r = verify(data_path("06_tar_oddities/v7.tar"), false);
    assert_int_equal(r.problems, 0);
    assert_int_equal(r.indexed, 0);
    r = verify(data_path("06_tar_oddities/truncated_payload.tar"), false);
    assert_int_equal(r.problems, 1);
    FAILS(TARN_ERR_NO_FILE, "cannot open",
          tarn_verify("/nowhere", NULL, &r, sizeof r, &err));
}

static void an_index_without_its_shards_is_checked_by_itself(void **state)
{
    (void)state;
    size_t size;
    unsigned char *data = read_file(data_path("01_basic/train.taridx"), &size);
    mkdir(scratch_path("alone"), 0755);
    write_file(scratch_path("alone/train.taridx"), data, size);
    assert_int_equal(verify(scratch_path("alone/train.taridx"), false).members, 210);
    data[16] ^= 1;
    write_file(scratch_path("alone/train.taridx"), data, size);
    assert_int_equal(verify(scratch_path("alone/train.taridx"), false).problems, 1);
    free(data);
}

/* Three keys with the same XXH64. */
static const char *const twins[] = {
    "twin_onetwin_one________________twin_onetwin_one________________",
    "twin_oneH8Q^baaa________________twin_onesgsv0XC&________________",
    "$;5kdaaatwin_one________________Qk)]0alXtwin_one________________",
};

static void make_twins(const char *folder, const char *index_path)
{
    char member[128], path[600];
    tarball t = {0};
    mkdir(folder, 0755);
    for (size_t i = 0; i < 3; i++) {
        snprintf(member, sizeof member, "%s.txt", twins[i]);
        tarball_file(&t, member, "some text");
    }
    tarball_end(&t);
    snprintf(path, sizeof path, "%s/f_0.tar", folder);
    save_tar(&t, path);
    tarball_reset(&t);
    OK(tarn_index_build((const char *[]){path}, 1, NULL, index_path, NULL, NULL, 0,
                        &err));
}

/* The header of an index: samples at 16, keys that collide at 36, the start of those keys
 * and of the rows at 40 and 48. In a row: the number of such a key at 20. */
static size_t forget_collisions(unsigned char *data, size_t size)
{
    uint64_t keys_at, rows_at;
    memcpy(&keys_at, data + 40, 8);
    memcpy(&rows_at, data + 48, 8);
    memset(data + 36, 0, 4);
    memcpy(data + 48, &keys_at, 8);
    memmove(data + keys_at, data + rows_at, size - rows_at);
    size -= rows_at - keys_at;
    for (size_t row = keys_at; row < size; row += 32)
        memset(data + row + 20, 0, 4);
    data[16] = 1;
    return size;
}

static void an_index_that_joins_colliding_keys_is_found_and_repaired(void **state)
{
    (void)state;
    size_t size;
    char *folder = strdup(scratch_path("twins"));
    char *index_path = strdup(scratch_path("twins/f.taridx"));
    make_twins(folder, index_path);
    assert_int_equal(verify(folder, false).problems, 0);
    unsigned char *data = read_file(index_path, &size);
    size = forget_collisions(data, size);
    write_file(index_path, data, size);
    verify(folder, false);
    assert_non_null(strstr(told, "f.tarsum: built for another version of"));
    unlink(scratch_path("twins/f.tarsum"));
    tarn_verify_report r = verify(folder, true);
    assert_non_null(strstr(told, "row 1 of the index: wrong collision number"));
    assert_non_null(strstr(told, "row 2 of the index: wrong collision number"));
    assert_non_null(strstr(told, "the index counts 1 samples, but the shards have 3"));
    assert_int_equal(r.remaining, 0);
    r = verify(folder, false);
    assert_int_equal(r.problems, 0);
    assert_int_equal(r.samples, 3);
    free(data);
    free(index_path);
    free(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_fold_has_no_problem),
        cmocka_unit_test(every_problem_is_listed),
        cmocka_unit_test(repair_leaves_a_fold_with_changed_payloads_alone),
        cmocka_unit_test(repair_cuts_a_torn_tail_off_and_keeps_it),
        cmocka_unit_test(a_missing_shard_does_not_hide_changed_payloads),
        cmocka_unit_test(repair_adds_a_missing_end),
        cmocka_unit_test(repair_rebuilds_a_damaged_index_with_its_checksums),
        cmocka_unit_test(
            repair_makes_new_checksums_and_says_so_where_the_old_are_damaged),
        cmocka_unit_test(a_removed_index_is_reported_and_made_again_with_its_checksums),
        cmocka_unit_test(a_removed_index_is_not_made_again_for_changed_payloads),
        cmocka_unit_test(sums_that_wait_for_their_name_are_used_and_get_it),
        cmocka_unit_test(repair_keeps_the_key_rule_without_sums),
        cmocka_unit_test(repair_never_empties_a_file_that_is_not_an_archive),
        cmocka_unit_test(damage_in_the_middle_is_reported_and_remains),
        cmocka_unit_test(bytes_after_the_end_are_cut_off_and_kept),
        cmocka_unit_test(a_single_archive_can_be_verified),
        cmocka_unit_test(an_index_without_its_shards_is_checked_by_itself),
        cmocka_unit_test(an_index_that_joins_colliding_keys_is_found_and_repaired),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
