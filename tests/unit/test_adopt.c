/* Whole shards of other folds, and random samples: what is accepted, what is refused, and
 * which files are left. */
#include "own_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include "itar/collection.h"
#include "itar/keyset.h"

static tarn_error err;

static tarn_fold_writer_options quick(void)
{
    tarn_fold_writer_options o = TARN_FOLD_WRITER_OPTIONS_INIT;
    o.max_count = 3;
    o.no_sync = true;
    return o;
}

static void add(tarn_fold_writer *w, int number)
{
    char key[16], text[24];
    snprintf(key, sizeof key, "k%03d", number);
    snprintf(text, sizeof text, "text of %d", number);
    tarn_field fields[] = {{"txt", text, strlen(text), NULL}, {"cls", key, 4, NULL}};
    OK(tarn_fold_writer_add(w, key, fields, 2, &err));
}

/* Fold "f" in a folder: samples from to to - 1, three per shard. */
static void make_fold(const char *folder, int from, int to)
{
    tarn_fold_writer *w;
    tarn_fold_writer_options o = quick();
    OK(tarn_fold_writer_open(in(folder), "f", &o, &w, &err));
    for (int i = from; i < to; i++)
        add(w, i);
    OK(tarn_fold_writer_finish(w, NULL, 0, &err));
}

static tarn_dataset *open_fold(const char *path)
{
    tarn_dataset *fold;
    OK(tarn_dataset_open(in(path), NULL, &fold, &err));
    return fold;
}

static uint64_t count_samples(const char *path)
{
    tarn_dataset *fold = open_fold(path);
    uint64_t count = tarn_dataset_count(fold);
    tarn_dataset_close(fold);
    return count;
}

/* Reads every payload and compares it with its checksum. */
static void check_whole(const char *path)
{
    tarn_verify_report report;
    OK(tarn_verify(in(path), NULL, &report, sizeof report, &err));
    assert_int_equal(report.problems, 0);
    assert_int_equal(report.checksummed, report.members);
}

static nlink_t links(const char *path)
{
    struct stat st;
    assert_int_equal(stat(in(path), &st), 0);
    return st.st_nlink;
}

static void two_folds_become_one_without_a_copy(void **state)
{
    tarn_fold_writer *w;
    tarn_written written;
    tarn_fold_writer_options o = quick();
    (void)state;
    make_fold("a", 0, 5);
    make_fold("b", 5, 9);
    tarn_dataset *a = open_fold("a"), *b = open_fold("b");
    OK(tarn_fold_writer_open(in("c"), "all", &o, &w, &err));
    OK(tarn_fold_writer_adopt(w, a, NULL, 0, TARN_ADOPT_LINK, &err));
    OK(tarn_fold_writer_adopt(w, b, NULL, 0, TARN_ADOPT_COPY, &err));
    assert_int_equal(count_files(in("c"), false), count_files(in("c"), true));
    OK(tarn_fold_writer_finish(w, &written, sizeof written, &err));
    assert_int_equal(written.samples, 9);
    assert_int_equal(written.members, 18);
    assert_int_equal(written.shards, 4);
    assert_int_equal(written.payload, 9 * (9 + 4));
    assert_int_equal(links("c/all_0001.tar"), 2);
    assert_int_equal(links("c/all_0002.tar"), 1);
    assert_int_equal(count_files(in("c"), true), 0);
    check_whole("c");
    assert_int_equal(count_samples("c"), 9);
    tarn_dataset_close(a);
    tarn_dataset_close(b);
}

static void adopted_and_written_samples_are_in_one_fold(void **state)
{
    tarn_fold_writer *w;
    bool there;
    tarn_fold_writer_options o = quick();
    uint32_t second = 1;
    (void)state;
    make_fold("a", 0, 6);
    tarn_dataset *a = open_fold("a");
    OK(tarn_fold_writer_open(in("c"), "f", &o, &w, &err));
    add(w, 50);
    OK(tarn_fold_writer_adopt(w, a, &second, 1, TARN_ADOPT_LINK, &err));
    add(w, 51);
    OK(tarn_fold_writer_has(w, "k004", &there, &err));
    assert_true(there);
    OK(tarn_fold_writer_has(w, "k000", &there, &err));
    assert_false(there);
    tarn_field field = {"txt", "", 0, NULL};
    FAILS(TARN_ERR_EXISTS, "k004", tarn_fold_writer_add(w, "k004", &field, 1, &err));
    OK(tarn_fold_writer_finish(w, NULL, 0, &err));
    tarn_dataset_close(a);
    check_whole("c");
    assert_int_equal(count_samples("c"), 5);
    tarn_dataset *c = open_fold("c");
    tarn_text key = {0};
    tarn_stored members[4];
    tarn_view view;
    size_t n;
    OK(tarn_dataset_key(c, 1, &key, &err));
    OK(tarn_dataset_members(c, 1, members, 4, &n, &err));
    OK(tarn_dataset_get(c, 1, members[1].field, &view, &err));
    assert_string_equal(key.data, "k003");
    assert_memory_equal(view.data, "text of 3", 9);
    tarn_view_release(&view);
    tarn_text_reset(&key);
    tarn_dataset_close(c);
}

static void a_key_in_both_names_both_and_leaves_nothing(void **state)
{
    tarn_fold_writer *w;
    tarn_fold_writer_options o = quick();
    (void)state;
    make_fold("a", 0, 5);
    make_fold("b", 4, 9);
    tarn_dataset *a = open_fold("a"), *b = open_fold("b");
    OK(tarn_fold_writer_open(in("c"), "f", &o, &w, &err));
    OK(tarn_fold_writer_adopt(w, a, NULL, 0, TARN_ADOPT_LINK, &err));
    tarn_status status = tarn_fold_writer_adopt(w, b, NULL, 0, TARN_ADOPT_LINK, &err);
    assert_int_equal(status, TARN_ERR_EXISTS);
    assert_string_equal(err.path, in("b/f_0000.tar"));
    assert_non_null(strstr(err.message, "k004"));
    assert_non_null(strstr(err.message, "/a/f_0001.tar"));
    /* The call had no effect: another sample is written where its first shard had been.
     */
    assert_int_equal(count_files(in("c"), true), 1 + 2);
    add(w, 70);
    OK(tarn_fold_writer_finish(w, NULL, 0, &err));
    check_whole("c");
    assert_int_equal(count_samples("c"), 6);
    assert_int_equal(links("b/f_0000.tar"), 1);
    /* Against an existing fold. */
    o.append = true;
    OK(tarn_fold_writer_open(in("c"), "f", &o, &w, &err));
    FAILS(TARN_ERR_EXISTS, "c/f_0001.tar",
          tarn_fold_writer_adopt(w, b, NULL, 0, TARN_ADOPT_LINK, &err));
    tarn_fold_writer_abandon(w, false, NULL);
    assert_int_equal(count_samples("c"), 6);
    tarn_dataset_close(a);
    tarn_dataset_close(b);
}

static void a_resumed_writer_passes_over_what_it_has(void **state)
{
    tarn_fold_writer *w;
    tarn_written written;
    uint64_t kept;
    tarn_fold_writer_options o = quick();
    (void)state;
    make_fold("a", 0, 5);
    make_fold("b", 5, 9);
    for (int copy = 0; copy < 2; copy++) {
        tarn_adopt how = copy ? TARN_ADOPT_COPY : TARN_ADOPT_LINK;
        const char *target = copy ? "d" : "c";
        tarn_dataset *a = open_fold("a"), *b = open_fold("b");
        o.resume = false;
        OK(tarn_fold_writer_open(in(target), "f", &o, &w, &err));
        OK(tarn_fold_writer_adopt(w, a, NULL, 0, how, &err));
        tarn_fold_writer_abandon(w, true, &kept);
        assert_int_equal(kept, 2);
        o.resume = true;
        for (int again = 0; again < 2; again++) {
            OK(tarn_fold_writer_open(in(target), "f", &o, &w, &err));
            OK(tarn_fold_writer_adopt(w, a, NULL, 0, how, &err));
            OK(tarn_fold_writer_adopt(w, b, NULL, 0, how, &err));
            OK(tarn_fold_writer_finish(w, &written, sizeof written, &err));
            assert_int_equal(written.shards, again ? 0 : 2);
            check_whole(target);
            assert_int_equal(count_samples(target), 9);
        }
        tarn_dataset_close(a);
        tarn_dataset_close(b);
    }
}

static void a_shard_that_changed_is_stale(void **state)
{
    tarn_fold_writer *w;
    tarn_fold_writer_options o = quick();
    size_t size;
    (void)state;
    make_fold("a", 0, 3);
    tarn_dataset *a = open_fold("a");
    unsigned char *data = read_file(in("a/f_0000.tar"), &size);
    data[1] = '9'; /* k000.cls becomes k900.cls, with a correct checksum */
    tarball_sum(data);
    write_file(in("a/f_0000.tar"), data, size);
    free(data);
    OK(tarn_fold_writer_open(in("c"), "f", &o, &w, &err));
    tarn_status status = tarn_fold_writer_adopt(w, a, NULL, 0, TARN_ADOPT_COPY, &err);
    assert_int_equal(status, TARN_ERR_STALE);
    assert_string_equal(err.path, in("a/f_0000.tar"));
    tarn_fold_writer_abandon(w, false, NULL);
    assert_int_equal(count_files(in("c"), false), 0);
    tarn_dataset_close(a);
}

/* One sample in both shards, as a writer that counts bytes may leave it. */
static void make_torn(const char *folder)
{
    tarball t = {0};
    mkdir(in(folder), 0777);
    tarball_file(&t, "x.txt", "one");
    tarball_file(&t, "y.txt", "two");
    tarball_end(&t);
    char path[64];
    snprintf(path, sizeof path, "%s/t_0.tar", folder);
    save_tar(&t, in(path));
    tarball_reset(&t);
    tarball_file(&t, "y.cls", "2");
    tarball_file(&t, "z.cls", "3");
    tarball_end(&t);
    snprintf(path, sizeof path, "%s/t_1.tar", folder);
    save_tar(&t, in(path));
    tarball_reset(&t);
}

static void a_sample_in_two_shards_of_one_fold_stays_one(void **state)
{
    tarn_dataset *t;
    tarn_fold_writer *w;
    tarn_written written;
    tarn_dataset_options scan = TARN_DATASET_OPTIONS_INIT;
    tarn_fold_writer_options o = quick();
    (void)state;
    make_torn("t");
    scan.scan = true;
    OK(tarn_dataset_open(in("t"), &scan, &t, &err));
    OK(tarn_fold_writer_open(in("c"), "f", &o, &w, &err));
    OK(tarn_fold_writer_adopt(w, t, NULL, 0, TARN_ADOPT_LINK, &err));
    OK(tarn_fold_writer_finish(w, &written, sizeof written, &err));
    assert_int_equal(written.samples, 3);
    tarn_dataset_close(t);
    check_whole("c"); /* without sums, its payloads were read */
    assert_int_equal(count_samples("c"), 3);
}

static void a_missing_shard_is_an_error(void **state)
{
    tarn_fold_writer *w;
    tarn_fold_writer_options o = quick();
    uint32_t shards[] = {0, 7};
    (void)state;
    make_fold("a", 0, 3);
    tarn_dataset *a = open_fold("a");
    OK(tarn_fold_writer_open(in("c"), "f", &o, &w, &err));
    FAILS(TARN_ERR_NOT_FOUND, "no shard 7",
          tarn_fold_writer_adopt(w, a, shards, 2, TARN_ADOPT_LINK, &err));
    assert_int_equal(count_files(in("c"), true), 1); /* the lock */
    tarn_fold_writer_abandon(w, false, NULL);
    tarn_dataset_close(a);
}

static bool has_key(const tarn__keyset *set, const tarn__scan *scan, const char *key)
{
    size_t len = strlen(key);
    return tarn__keyset_has(set, scan, key, len, tarn__keyset_hash(set, key, len));
}

/* A frequently repeated key must not fill the table. */
static void keys_that_come_again_take_no_slot(void **state)
{
    tarn__keyset set = {0};
    tarn__scan scan = {0};
    char key[16];
    (void)state;
    OK(tarn__scan_init(&scan, &err));
    OK(tarn__keyset_next_scan(&set, &err));
    for (int i = 0; i < 200000; i++) {
        size_t len = (size_t)snprintf(key, sizeof key, "%d", i % 2 ? -1 : i);
        OK(tarn__scan_begin_run(&scan, key, len, 0, &err));
        uint64_t hash = tarn__keyset_hash(&set, key, len);
        if (tarn__keyset_has(&set, &scan, key, len, hash))
            OK(tarn__keyset_pass(&set, &err));
        else
            OK(tarn__keyset_add(&set, &scan, hash, &err));
    }
    assert_true(has_key(&set, &scan, "-1"));
    assert_true(has_key(&set, &scan, "199998"));
    assert_false(has_key(&set, &scan, "199999"));
    size_t used = 0;
    for (size_t i = 0; i < set.slot_count; i++)
        used += set.slots[i] != 0;
    assert_int_equal(used, 100001);
    tarn__keyset_reset(&set);
    tarn__scan_reset(&scan);
}

/* --- Random choices ----------------------------------------------------------------- */

static void keys_in_order(tarn_dataset *fold, char out[][8], size_t count)
{
    tarn_text key = {0};
    for (size_t i = 0; i < count; i++) {
        OK(tarn_dataset_key(fold, i, &key, &err));
        snprintf(out[i], 8, "%s", key.data);
    }
    tarn_text_reset(&key);
}

/* The parts of samples k000 to k019, in any order. */
static void parts_by_key(tarn_dataset *fold, uint64_t seed, uint8_t out[20])
{
    const double half = 0.5;
    char keys[20][8];
    uint8_t parts[20];
    keys_in_order(fold, keys, 20);
    OK(tarn_dataset_parts(fold, &half, 1, seed, parts, &err));
    for (size_t i = 0; i < 20; i++)
        out[atoi(keys[i] + 1)] = parts[i];
}

static void parts_go_by_seed_and_keys_alone(void **state)
{
    uint8_t one[20], two[20];
    tarn_fold_writer *w;
    tarn_fold_writer_options o = quick();
    tarn_order_options order = TARN_ORDER_OPTIONS_INIT;
    (void)state;
    make_fold("a", 0, 20);
    o.max_count = 7;
    OK(tarn_fold_writer_open(in("b"), "g", &o, &w, &err));
    for (int i = 19; i >= 0; i--)
        add(w, i);
    OK(tarn_fold_writer_finish(w, NULL, 0, &err));
    tarn_dataset *a = open_fold("a"), *b = open_fold("b"), *mixed;
    parts_by_key(a, 5, one);
    parts_by_key(b, 5, two);
    assert_memory_equal(one, two, sizeof one);
    order.kind = TARN_ORDER_SHUFFLE;
    OK(tarn_dataset_order(a, &order, &mixed, &err));
    parts_by_key(mixed, 5, two);
    assert_memory_equal(one, two, sizeof one);
    parts_by_key(b, 6, two);
    assert_memory_not_equal(one, two, sizeof one);
    tarn_dataset_close(a);
    tarn_dataset_close(b);
    tarn_dataset_close(mixed);
}

static void parts_of_folds_and_collections_are_the_same(void **state)
{
    tarn__collection *c;
    const double fractions[] = {0.2, 0.25};
    uint8_t parts[20];
    unsigned part, counts[3] = {0};
    (void)state;
    make_fold("a", 0, 20);
    mkdir(in("files"), 0777);
    for (int i = 0; i < 20; i++) {
        char name[32];
        snprintf(name, sizeof name, "files/k%03d.txt", i);
        write_file(in(name), "x", 1);
    }
    OK(tarn__collection_new(NULL, &c, &err));
    OK(tarn__collection_add_folder(c, in("files"), &err));
    OK(tarn__collection_group(c, &err));
    OK(tarn__collection_split(c, fractions, 2, 11, &err));
    tarn_dataset *a = open_fold("a");
    OK(tarn_dataset_parts(a, fractions, 2, 11, parts, &err));
    for (size_t i = 0; i < 20; i++) {
        assert_non_null(tarn__collection_key(c, i, &part));
        assert_int_equal(part, parts[i]);
        counts[part]++;
    }
    assert_int_equal(counts[0], 11);
    assert_int_equal(counts[1], 4);
    assert_int_equal(counts[2], 5);
    const double much[] = {0.9, 0.2};
    FAILS(TARN_ERR_USAGE, "add up", tarn_dataset_parts(a, much, 2, 0, parts, &err));
    tarn_dataset_close(a);
    tarn__collection_free(c);
}

/* --- Walking --------------------------------------------------------------------- */

typedef struct seen {
    size_t count, stop_at;
    char keys[200][8];
    uint64_t bytes;
} seen;

static tarn_status see(void *context, unsigned part, const char *key,
                       const tarn_field *fields, size_t count, tarn_error *why)
{
    seen *s = context;
    assert_int_equal(part, 0);
    assert_int_equal(count, 2);
    assert_string_equal(fields[0].name, "bin");
    assert_string_equal(fields[1].name, "cls");
    if (s->count == s->stop_at) {
        *why = (tarn_error){.code = TARN_ERR_USAGE, .message = "enough"};
        return TARN_ERR_USAGE;
    }
    /* Every byte is the sample's own. */
    unsigned char want = (unsigned char)(100 + atoi(key + 1));
    for (size_t i = 0; i < fields[0].size; i++)
        if (((const unsigned char *)fields[0].data)[i] != want) fail_msg("%s", key);
    s->bytes += fields[0].size;
    snprintf(s->keys[s->count++], 8, "%s", key);
    return TARN_OK;
}

static int stop_at_once(void *context, uint64_t done, uint64_t total)
{
    (void)context;
    assert_true(done <= total);
    return 1;
}

/* Samples of many sizes, a few of them larger than what is read at once. */
static uint64_t make_sizes(const char *folder, int count)
{
    static unsigned char bytes[3 << 20];
    tarn_fold_writer *w;
    tarn_fold_writer_options o = quick();
    uint64_t total = 0;
    o.max_count = 30;
    OK(tarn_fold_writer_open(in(folder), "f", &o, &w, &err));
    for (int i = 0; i < count; i++) {
        char key[16];
        size_t size = i % 50 == 7 ? sizeof bytes - 5 : (size_t)(i * 37 % 2000);
        snprintf(key, sizeof key, "k%03d", i);
        memset(bytes, 100 + i, size);
        tarn_field fields[] = {{"bin", bytes, size, NULL}, {"cls", key, 4, NULL}};
        OK(tarn_fold_writer_add(w, key, fields, 2, &err));
        total += size;
    }
    OK(tarn_fold_writer_finish(w, NULL, 0, &err));
    return total;
}

/* Another order, which replaces the dataset. */
static tarn_dataset *shuffled(tarn_dataset *fold)
{
    tarn_dataset *out;
    tarn_order_options o = TARN_ORDER_OPTIONS_INIT;
    o.kind = TARN_ORDER_SHUFFLE;
    o.seed = 3;
    OK(tarn_dataset_order(fold, &o, &out, &err));
    tarn_dataset_close(fold);
    return out;
}

static void a_walk_hands_on_every_sample_in_order(void **state)
{
    const tarn_io ways[] = {TARN_IO_MAP, TARN_IO_READ};
    const unsigned threads[] = {1, 2, 5};
    tarn_walk_options o = TARN_WALK_OPTIONS_INIT;
    (void)state;
    uint64_t total = make_sizes("a", 150);
    for (int k = 0; k < 12; k++) {
        static seen s;
        tarn_dataset *fold;
        tarn_dataset_options how = TARN_DATASET_OPTIONS_INIT;
        memset(&s, 0, sizeof s);
        s.stop_at = SIZE_MAX;
        how.io = ways[k % 2];
        how.check = true;
        o.threads = threads[k / 2 % 3];
        OK(tarn_dataset_open(in("a"), &how, &fold, &err));
        if (k >= 6) fold = shuffled(fold);
        OK(tarn_dataset_walk(fold, &o, see, &s, &err));
        assert_int_equal(s.count, 150);
        assert_int_equal(s.bytes, total);
        char want[200][8] = {{0}};
        keys_in_order(fold, want, 150);
        for (int i = 0; i < 150; i++)
            assert_string_equal(s.keys[i], want[i]);
        tarn_dataset_close(fold);
    }
}

static void a_walk_stops_where_requested(void **state)
{
    tarn_walk_options o = TARN_WALK_OPTIONS_INIT;
    (void)state;
    make_sizes("a", 150);
    tarn_dataset *fold = open_fold("a");
    for (unsigned threads = 1; threads < 5; threads += 3) {
        static seen s;
        s.count = 0;
        s.stop_at = 99;
        o.threads = threads;
        o.progress = NULL;
        FAILS(TARN_ERR_USAGE, "enough", tarn_dataset_walk(fold, &o, see, &s, &err));
        assert_int_equal(s.count, 99);
        o.progress = stop_at_once;
        s.count = 0;
        FAILS(TARN_ERR_CANCELLED, "stopped", tarn_dataset_walk(fold, &o, see, &s, &err));
        assert_true(s.count > 0 && s.count < 99);
    }
    tarn_dataset_close(fold);
}

static void a_walk_finds_damage_and_returns_what_is_before(void **state)
{
    static seen s;
    size_t size, n;
    tarn_stored members[4];
    tarn_dataset_options how = TARN_DATASET_OPTIONS_INIT;
    (void)state;
    make_sizes("a", 150);
    tarn_dataset *fold = open_fold("a");
    OK(tarn_dataset_members(fold, 100, members, 4, &n, &err));
    tarn_dataset_close(fold);
    unsigned char *data = read_file(in("a/f_0003.tar"), &size);
    data[members[0].offset + 512]++;
    write_file(in("a/f_0003.tar"), data, size);
    free(data);
    how.check = true;
    OK(tarn_dataset_open(in("a"), &how, &fold, &err));
    s.stop_at = SIZE_MAX;
    FAILS(TARN_ERR_CHECKSUM, "f_0003.tar", tarn_dataset_walk(fold, NULL, see, &s, &err));
    assert_int_equal(s.count, 64); /* the groups before */
    tarn_dataset_close(fold);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_OWN_FOLDER(two_folds_become_one_without_a_copy),
        IN_OWN_FOLDER(adopted_and_written_samples_are_in_one_fold),
        IN_OWN_FOLDER(a_key_in_both_names_both_and_leaves_nothing),
        IN_OWN_FOLDER(a_resumed_writer_passes_over_what_it_has),
        IN_OWN_FOLDER(a_shard_that_changed_is_stale),
        IN_OWN_FOLDER(a_sample_in_two_shards_of_one_fold_stays_one),
        IN_OWN_FOLDER(a_missing_shard_is_an_error),
        IN_OWN_FOLDER(keys_that_come_again_take_no_slot),
        IN_OWN_FOLDER(parts_go_by_seed_and_keys_alone),
        IN_OWN_FOLDER(parts_of_folds_and_collections_are_the_same),
        IN_OWN_FOLDER(a_walk_hands_on_every_sample_in_order),
        IN_OWN_FOLDER(a_walk_stops_where_requested),
        IN_OWN_FOLDER(a_walk_finds_damage_and_returns_what_is_before),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
