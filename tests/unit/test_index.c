/* Building, saving and loading indexes, compared with files that glzn wrote. */
#include "support.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc.h"
#include "itar/index.h"
#include "itar/key_order.h"
#include "tar/keys.h"

static tarn_error err;

static void same_files(const char *one, const char *other)
{
    size_t one_size, other_size;
    unsigned char *a = read_file(scratch_path(one), &one_size);
    unsigned char *b = read_file(scratch_path(other), &other_size);
    assert_int_equal(one_size, other_size);
    assert_memory_equal(a, b, one_size);
    free(a);
    free(b);
}

/* Builds and saves the index of a folder of fixtures; the file must equal the
 * fixture's. */
static void rebuilt_index_is(const char *folder, const char *fold, tarn__hash hash)
{
    char spelled[512], stored[512];
    tarn_folds *f;
    tarn_index *index;
    size_t want_size, got_size;
    for (unsigned threads = 1; threads <= 4; threads += 3) {
        tarn_index_options o = TARN_INDEX_OPTIONS_INIT;
        o.threads = threads;
        snprintf(spelled, sizeof spelled, "%s:%s", data_path(folder), fold);
        snprintf(stored, sizeof stored, "%s/%s.taridx", data_path(folder), fold);
        OK(tarn_folds_list(spelled, &f, &err));
        OK(tarn__index_build(f->folds[0]->shards, f->folds[0]->n_shards, &o, hash, NULL,
                             &index, NULL, &err));
        OK(tarn_index_save(index, scratch_path("saved.taridx"), &err));
        tarn_index_free(index);
        OK(tarn__index_create(f->folds[0]->shards, f->folds[0]->n_shards, &o, hash,
                              scratch_path("made.taridx"), &index, NULL, &err));
        same_files("saved.tarsum", "made.tarsum");
        same_files("saved.taridx", "made.taridx");
        unsigned char *want = read_file(stored, &want_size);
        unsigned char *got = read_file(scratch_path("made.taridx"), &got_size);
        assert_int_equal(got_size, want_size);
        assert_memory_equal(got, want, want_size);
        free(want);
        free(got);
        tarn_index_free(index);
        tarn_folds_free(f);
    }
}

static void indexes_equal_those_of_glzn_byte_for_byte(void **state)
{
    (void)state;
    rebuilt_index_is("01_basic", "train", tarn__key_hash);
    rebuilt_index_is("01_basic", "val", tarn__key_hash);
    rebuilt_index_is("02_multidot", "train", tarn__key_hash);
    rebuilt_index_is("03_noncontiguous", "train", tarn__key_hash);
    rebuilt_index_is("05_empty_ext", "train", tarn__key_hash);
    rebuilt_index_is("05_zero_length", "train", tarn__key_hash);
    rebuilt_index_is("09a_writer_maxfiles", "train", tarn__key_hash);
}

static uint64_t weak_hash(const char *key, size_t len)
{
    return tarn__key_hash(key, len) & 3;
}

static uint64_t constant_hash(const char *key, size_t len)
{
    (void)key, (void)len;
    return 42;
}

static void colliding_keys_get_the_collision_numbers_of_glzn(void **state)
{
    (void)state;
    rebuilt_index_is("04a_crash_weakhash", "train", weak_hash);
}

static tarn_index *build_one(const tarball *t, const tarn_index_options *o,
                             tarn__hash hash, tarn_index_report *report)
{
    const char *path = scratch_path("one.tar");
    tarn_index *index;
    save_tar(t, path);
    OK(tarn__index_build(&path, 1, o, hash, NULL, &index, report, &err));
    return index;
}

/* All keys have the same hash: the order and the numbers must still be right, in
 * reasonable time. */
static void many_colliding_keys_stay_fast_and_right(void **state)
{
    (void)state;
    enum { KEYS = 20000 };
    tarball t = {0};
    tarn_index_info info;
    char name[32];
    t.data = malloc(KEYS * 512 + 1024);
    for (unsigned i = 0; i < KEYS; i++) {
        tarball one = {0};
        snprintf(name, sizeof name, "k%05u.x", i * 7919 % KEYS);
        tarball_header(&one, name, '0', 0);
        memcpy(t.data + t.size, one.data, 512);
        t.size += 512;
        tarball_reset(&one);
    }
    memset(t.data + t.size, 0, 1024);
    t.size += 1024;
    tarn_index *index = build_one(&t, NULL, constant_hash, NULL);
    tarn_index_info_get(index, &info, sizeof info);
    assert_int_equal(info.samples, KEYS);
    assert_int_equal(info.collisions, KEYS - 1);
    for (unsigned i = 0; i < KEYS; i++) {
        tarn_row row;
        OK(tarn_index_row(index, i, &row, &err));
        assert_int_equal(row.collision, i);
        snprintf(name, sizeof name, "k%05u", i * 7919 % KEYS);
        if (i) assert_string_equal(tarn_index_collision(index, i), name);
    }
    tarn_index_free(index);
    tarball_reset(&t);
}

static void empty_shards_do_not_shift_the_others(void **state)
{
    (void)state;
    tarball empty = {0}, full = {0};
    tarn_index *index;
    tarn_row row;
    tarball_end(&empty);
    tarball_file(&full, "a.txt", "x");
    tarball_end(&full);
    char paths[4][512];
    const char *shards[4];
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "e_%d.tar", i);
        snprintf(paths[i], sizeof paths[i], "%s", scratch_path(name));
        if (i == 1) full.data[0] = 'b', tarball_sum(full.data);
        save_tar(i % 2 ? &full : &empty, paths[i]);
        shards[i] = paths[i];
    }
    OK(tarn_index_build(shards, 4, NULL, NULL, &index, NULL, 0, &err));
    OK(tarn_index_row(index, 0, &row, &err));
    assert_int_equal(row.shard, 1);
    OK(tarn_index_row(index, 1, &row, &err));
    assert_int_equal(row.shard, 3);
    tarn_index_free(index);
    tarball_reset(&empty);
    tarball_reset(&full);
}

static void rows_point_at_the_members_own_header(void **state)
{
    (void)state;
    tarball t = {0};
    tarn_row row;
    char name[160];
    memset(name, 'n', 120);
    strcpy(name + 120, ".Jpg");
    tarball_pax(&t, 'x', "path", name);
    tarball_file(&t, "nnn", "payload");
    tarball_extended(&t, 'L', name, 124);
    memcpy(t.data + t.size - 512, "m", 1); /* another name, still long */
    tarball_file(&t, "mnn", "other");
    tarball_end(&t);
    tarn_index *index = build_one(&t, NULL, tarn__key_hash, NULL);
    OK(tarn_index_row(index, 0, &row, &err));
    assert_int_equal(row.offset, 1024);
    assert_int_equal(row.size, 7);
    assert_int_equal(row.keyhash, tarn__key_hash(name, 120));
    assert_string_equal(tarn_index_field(index, row.field), "jpg");
    OK(tarn_index_row(index, 1, &row, &err));
    assert_int_equal(row.offset, 1024 + 1024 + 1024);
    tarn_index_free(index);
    tarball_reset(&t);
}

static void key_is(tarn_keys rule, const char *name, const char *stem, const char *field)
{
    tarn__splitter s;
    tarn__key key;
    tarn__splitter_init(&s);
    tarn_status status = tarn__split(&s, rule, name, strlen(name), &key, &err);
    if (!stem) {
        assert_int_equal(status, TARN_END);
    } else {
        OK(status);
        assert_int_equal(key.stem_len, strlen(stem));
        assert_memory_equal(key.stem, stem, key.stem_len);
        assert_int_equal(key.field_len, strlen(field));
        assert_memory_equal(key.field, field, key.field_len);
    }
    tarn__splitter_reset(&s);
}

static void both_rules_split_names_as_documented(void **state)
{
    (void)state;
    key_is(TARN_KEYS_BASE, "a/b.c/x.Seg.PNG", "x", "seg.png");
    key_is(TARN_KEYS_BASE, "x", "x", "");
    key_is(TARN_KEYS_BASE, ".hidden", "", "hidden");
    key_is(TARN_KEYS_BASE, "a..cls", "a", ".cls");
    key_is(TARN_KEYS_BASE, "back\\slash.txt", "back\\slash", "txt");
    key_is(TARN_KEYS_BASE, "a\tb.c\tD", "a\tb", "c\td");
    key_is(TARN_KEYS_BASE, "\xff.jpg", "\xef\xbf\xbd", "jpg");
    key_is(TARN_KEYS_PATH, "a/b.c/x.Seg.PNG", "a/b.c/x", "seg.png");
    key_is(TARN_KEYS_PATH, "./x.jpg", "./x", "jpg");
    key_is(TARN_KEYS_PATH, "x", NULL, NULL);
    key_is(TARN_KEYS_PATH, "d/.hidden.jpg", NULL, NULL);
    key_is(TARN_KEYS_PATH, "__meta__/x.jpg", NULL, NULL);
    key_is(TARN_KEYS_PATH, "__x__", NULL, NULL);
    key_is(TARN_KEYS_PATH, "__foo__.txt", "__foo__", "txt");
}

static void control_characters_are_refused_by_name(void **state)
{
    (void)state;
    tarball t = {0};
    tarn_index *index;
    const char *path = scratch_path("control.tar");
    tarball_file(&t, "good.txt", "x");
    tarball_file(&t, "bad\nkey.txt", "x");
    tarball_end(&t);
    save_tar(&t, path);
    FAILS(TARN_ERR_FORMAT, "bad\\x0akey.txt: its key contains a control character",
          tarn_index_build(&path, 1, NULL, NULL, &index, NULL, 0, &err));
    assert_int_equal(err.offset, 1024);
    tarball_reset(&t);
}

static char told[2000];

static void add_told(void *context, const tarn_error *what)
{
    (void)context;
    strncat(told, what->message, sizeof told - strlen(told) - 1);
}

static void members_that_collide_are_reported_with_both_names(void **state)
{
    (void)state;
    tarball t = {0};
    tarn_index_report report;
    tarn_index_options o = TARN_INDEX_OPTIONS_INIT;
    o.notice = add_told;
    tarball_file(&t, "a/x.jpg", "1");
    tarball_file(&t, "b/x.jpg", "2"); /* in one run */
    tarball_file(&t, "y.txt", "3");
    tarball_file(&t, "c/x.JPG", "4"); /* in another */
    tarball_end(&t);
    tarn_index *index = build_one(&t, &o, tarn__key_hash, &report);
    assert_int_equal(report.duplicates, 2);
    assert_non_null(strstr(told, "b/x.jpg has the same key and field as a/x.jpg"));
    assert_non_null(strstr(told, "c/x.JPG has the same key and field as b/x.jpg"));
    tarn_index_free(index);
    o.keys = TARN_KEYS_PATH;
    index = build_one(&t, &o, tarn__key_hash, &report);
    assert_int_equal(report.duplicates, 0);
    tarn_index_free(index);
    tarball_reset(&t);
}

static void too_many_fields_is_a_clear_error(void **state)
{
    (void)state;
    enum { FIELDS = 65537 };
    tarball t = {0};
    tarn_index *index;
    const char *path = scratch_path("fields.tar");
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    for (unsigned i = 0; i < FIELDS; i++) {
        char name[32];
        snprintf(name, sizeof name, "k.f%u", i);
        tarball_header(&t, name, '0', 0);
        assert_int_equal(write(fd, t.data, 512), 512);
        tarball_reset(&t);
    }
    tarball_end(&t);
    assert_int_equal(write(fd, t.data, 1024), 1024);
    close(fd);
    tarball_reset(&t);
    FAILS(TARN_ERR_LIMIT, "65536 different fields",
          tarn_index_build(&path, 1, NULL, NULL, &index, NULL, 0, &err));
}

static void too_many_shards_is_a_clear_error(void **state)
{
    (void)state;
    const char **shards = calloc(65537, sizeof *shards);
    tarn_index *index;
    for (int i = 0; i < 65537; i++)
        shards[i] = "x";
    FAILS(TARN_ERR_LIMIT, "65537 shards",
          tarn_index_build(shards, 65537, NULL, NULL, &index, NULL, 0, &err));
    free(shards);
}

/* Saves a changed copy of a fixture's index and loads it. */
static tarn_status load_changed(size_t at, const void *bytes, size_t len, size_t cut)
{
    size_t size;
    tarn_index *index;
    unsigned char *data = read_file(data_path("01_basic/train.taridx"), &size);
    if (len) memcpy(data + at, bytes, len);
    write_file(scratch_path("changed.taridx"), data, size - cut);
    free(data);
    tarn_status status = tarn_index_load(scratch_path("changed.taridx"), &index, &err);
    if (status == TARN_OK) tarn_index_free(index);
    return status;
}

static void damaged_indexes_are_refused_with_the_reason(void **state)
{
    (void)state;
    OK(load_changed(0, "T", 1, 0));
    FAILS(TARN_ERR_FORMAT, "not a taridx", load_changed(0, "X", 1, 0));
    FAILS(TARN_ERR_UNSUPPORTED, "version 2", load_changed(8, "\2", 1, 0));
    FAILS(TARN_ERR_FORMAT, "unexpected size", load_changed(12, "\30", 1, 0));
    FAILS(TARN_ERR_FORMAT, "impossible count",
          load_changed(24, "\xff\xff\xff\xff", 4, 0));
    FAILS(TARN_ERR_FORMAT, "impossible count", load_changed(0, "T", 1, 1));
    FAILS(TARN_ERR_FORMAT, "impossible count", load_changed(0, "T", 1, 32));
    FAILS(TARN_ERR_FORMAT, "names", load_changed(32, "\4", 1, 0));
    FAILS(TARN_ERR_FORMAT, "names", load_changed(32, "\6", 1, 0));
    FAILS(TARN_ERR_FORMAT, "names", load_changed(36, "\1\1", 2, 0));
    FAILS(TARN_ERR_FORMAT, "outside the file",
          load_changed(40, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, 0));
    FAILS(TARN_ERR_FORMAT, "flags", load_changed(56, "\3", 1, 0));
    FAILS(TARN_ERR_FORMAT, "the index counts", load_changed(16, "\54", 1, 0));
    FAILS(TARN_ERR_FORMAT, "listed twice", load_changed(64, "cls", 3, 0));
    FAILS(TARN_ERR_TRUNCATED, "too short", load_changed(0, "T", 1, 6804 - 40));
    FAILS(TARN_ERR_FORMAT, "field number", load_changed(84 + 18, "\5", 1, 0));
    FAILS(TARN_ERR_FORMAT, "collision number", load_changed(84 + 20, "\1", 1, 0));
    FAILS(TARN_ERR_FORMAT, "multiple of 512", load_changed(84 + 2, "\1", 1, 0));
    FAILS(TARN_ERR_FORMAT, "an invalid offset",
          load_changed(84 + 10, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, 0));
}

/* Rows that are valid one by one, but not together: a member inside another one, such as
 * an archive in the archive, would be read instead of its own. */
static void rows_that_overlap_or_go_back_are_refused(void **state)
{
    (void)state;
    static const struct {
        int row;
        int64_t moved;
    } forged[] = {{1, -512}, {1, -1024}, {2, -512}, {0, 512}};
    tarball t = {0};
    size_t size;
    char *path = strdup(scratch_path("overlap.taridx"));
    for (int i = 0; i < 3; i++) {
        char name[] = "0.txt";
        name[0] = (char)('0' + i);
        tarball_file(&t, name, "one block of text");
    }
    tarball_end(&t);
    const char *shard = scratch_path("overlap_0.tar");
    save_tar(&t, shard);
    tarball_reset(&t);
    OK(tarn_index_build(&shard, 1, NULL, path, NULL, NULL, 0, &err));
    unlink(scratch_path("overlap.tarsum"));
    unsigned char *bytes = read_file(path, &size);
    unsigned char *rows = bytes + size - 3 * TARN__ROW_SIZE;
    for (size_t i = 0; i < sizeof forged / sizeof forged[0]; i++) {
        tarn_row row, was;
        tarn_index *index;
        unsigned char *at = rows + forged[i].row * TARN__ROW_SIZE;
        tarn__row_get(at, &was);
        row = was;
        row.offset += (uint64_t)forged[i].moved;
        tarn__row_put(at, &row);
        write_file(path, bytes, size);
        FAILS(TARN_ERR_FORMAT, "starts before the end of the previous row",
              tarn_index_load(path, &index, &err));
        tarn__row_put(at, &was);
    }
    write_file(path, bytes, size);
    tarn_index *index;
    OK(tarn_index_load(path, &index, &err));
    tarn_index_free(index);
    free(bytes);
    free(path);
}

static void whitespace_and_empty_names_survive(void **state)
{
    (void)state;
    tarball t = {0};
    tarn_index *loaded;
    tarball_file(&t, "a", "1");
    tarball_file(&t, "b.two words", "2");
    tarball_file(&t, "c \xe2\x80\xa8 d.txt", "3"); /* a Unicode line separator */
    tarball_end(&t);
    tarn_index *index = build_one(&t, NULL, constant_hash, NULL);
    OK(tarn_index_save(index, scratch_path("white.taridx"), &err));
    OK(tarn_index_load(scratch_path("white.taridx"), &loaded, &err));
    assert_string_equal(tarn_index_field(loaded, 0), "");
    assert_string_equal(tarn_index_field(loaded, 1), "two words");
    assert_string_equal(tarn_index_collision(loaded, 2), "c \xe2\x80\xa8 d");
    assert_null(tarn_index_field(loaded, 3));
    assert_null(tarn_index_collision(loaded, 0));
    tarn_index_free(loaded);
    tarn_index_free(index);
    tarball_reset(&t);
}

static void checksums_are_those_of_the_payloads(void **state)
{
    (void)state;
    tarball t = {0};
    tarn_index_options o = TARN_INDEX_OPTIONS_INIT;
    tarn_index_info info;
    o.sums = true;
    tarball_file(&t, "a.txt", "123456789");
    tarball_file(&t, "b.txt", "");
    tarball_end(&t);
    tarn_index *index = build_one(&t, &o, tarn__key_hash, NULL);
    tarn_index_info_get(index, &info, sizeof info);
    assert_true(info.has_checksums);
    assert_int_equal(index->sums->checksums[0], 0xe3069283u);
    assert_int_equal(index->sums->checksums[1], 0);
    tarn_index_free(index);
    tarball_reset(&t);
}

static void sorting_is_by_hash_then_row(void **state)
{
    (void)state;
    enum { N = 40000 };
    tarn__run *runs = malloc(N * sizeof *runs);
    for (int round = 0; round < 4; round++) {
        bool hostile = round & 1;
        uint64_t x = 88172645463325252u;
        for (uint32_t i = 0; i < N; i++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            runs[i] = (tarn__run){hostile ? i % 3 : x % 20000 << 40 | x % 5,
                                  (uint32_t)(i * 7919u % N), i};
        }
        tarn__runs_sort(runs, N, round < 2 ? 0 : 3);
        for (size_t i = 1; i < N; i++)
            assert_true(
                runs[i - 1].hash < runs[i].hash ||
                (runs[i - 1].hash == runs[i].hash && runs[i - 1].row < runs[i].row));
    }
    free(runs);
}

static int stop_at_once(void *context, uint64_t done, uint64_t total)
{
    (void)context, (void)done, (void)total;
    return 1;
}

static void a_progress_callback_can_stop_the_work(void **state)
{
    (void)state;
    tarn_index *index;
    tarn_index_options o = TARN_INDEX_OPTIONS_INIT;
    o.progress = stop_at_once;
    const char *path = data_path("01_basic/train_0000.tar");
    FAILS(TARN_ERR_CANCELLED, "stopped",
          tarn_index_build(&path, 1, &o, NULL, &index, NULL, 0, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(indexes_equal_those_of_glzn_byte_for_byte),
        cmocka_unit_test(colliding_keys_get_the_collision_numbers_of_glzn),
        cmocka_unit_test(many_colliding_keys_stay_fast_and_right),
        cmocka_unit_test(empty_shards_do_not_shift_the_others),
        cmocka_unit_test(rows_point_at_the_members_own_header),
        cmocka_unit_test(both_rules_split_names_as_documented),
        cmocka_unit_test(control_characters_are_refused_by_name),
        cmocka_unit_test(members_that_collide_are_reported_with_both_names),
        cmocka_unit_test(too_many_fields_is_a_clear_error),
        cmocka_unit_test(too_many_shards_is_a_clear_error),
        cmocka_unit_test(damaged_indexes_are_refused_with_the_reason),
        cmocka_unit_test(rows_that_overlap_or_go_back_are_refused),
        cmocka_unit_test(whitespace_and_empty_names_survive),
        cmocka_unit_test(checksums_are_those_of_the_payloads),
        cmocka_unit_test(sorting_is_by_hash_then_row),
        cmocka_unit_test(a_progress_callback_can_stop_the_work),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
