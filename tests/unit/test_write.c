/* Output of bytes, and the writers of one archive and of archives that roll over. Headers
 * and names are in test_headers.c, folds in test_foldwrite.c. */
#include "own_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include "io/out.h"
#include "tar/archive.h"

static tarn_error err;

enum { FLUSH = TARN__OUT_FLUSH, ALIGN = 4096, MOST = 3 * FLUSH };

/* Bytes that identify their position. */
static unsigned char *noise(size_t size)
{
    static unsigned char *all;
    static size_t made;
    if (made < size) {
        uint32_t x = 1;
        free(all);
        all = malloc(size);
        assert_non_null(all);
        for (made = 0; made < size; made++) {
            x = x * 1664525u + 1013904223u;
            all[made] = (unsigned char)(x >> 24);
        }
    }
    return all;
}

static void assert_file(const char *path, const void *data, size_t size)
{
    size_t got;
    unsigned char *read = read_file(path, &got);
    assert_int_equal(got, size);
    assert_true(size == 0 || memcmp(read, data, size) == 0);
    free(read);
}

static const char *fresh_folder(const char *name)
{
    const char *path = scratch_path(name);
    assert_int_equal(mkdir(path, 0777), 0);
    return path;
}

static tarn_sink_options quick(bool no_sync)
{
    tarn_sink_options o = TARN_SINK_OPTIONS_INIT;
    o.overwrite = true;
    o.no_sync = no_sync;
    return o;
}

/* --- Output ------------------------------------------------------------------------- */

/* As a whole, in pieces, and through the buffer that the output provides. */
static void put(tarn__out *out, const unsigned char *data, size_t size, int how)
{
    static const size_t pieces[] = {SIZE_MAX, 65537, TARN__OUT_ROOM, 1 << 20};
    for (size_t at = 0; at < size;) {
        size_t n = size - at < pieces[how] ? size - at : pieces[how];
        unsigned char *room;
        if (how == 2) {
            OK(tarn__out_room(out, n, &room, &err));
        } else if (how == 3) {
            size_t len;
            OK(tarn__out_space(out, &room, &len, &err));
            assert_true(len > 0);
            if (n > len) n = len;
        } else {
            OK(tarn__out_write(out, data + at, n, &err));
        }
        if (how >= 2) {
            memcpy(room, data + at, n);
            out->used += n;
        }
        at += n;
        assert_int_equal(tarn__out_size(out), at);
    }
}

static void output_of_any_size_is_in_the_file(void **state)
{
    (void)state;
    static const size_t sizes[] = {0,
                                   1,
                                   ALIGN - 1,
                                   ALIGN,
                                   ALIGN + 1,
                                   FLUSH - 1,
                                   FLUSH,
                                   FLUSH + 1,
                                   FLUSH + TARN__OUT_ROOM - 1,
                                   FLUSH + TARN__OUT_ROOM,
                                   FLUSH + TARN__OUT_ROOM + 1,
                                   2 * FLUSH,
                                   2 * FLUSH + TARN__OUT_ROOM + 17};
    const unsigned char *data = noise(MOST);
    const char *path = scratch_path("sizes");
    tarn__out out = {.file = {.fd = -1}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int how = 0; how < 4; how++) {
            tarn_sink_options o = quick((i + (size_t)how) % 4);
            int64_t mtime;
            struct stat st;
            OK(tarn__out_file(&out, path, &o, false, &err));
            put(&out, data, sizes[i], how);
            OK(tarn__out_finish(&out, &mtime, &err));
            assert_file(path, data, sizes[i]);
            assert_int_equal(stat(path, &st), 0);
            assert_int_equal(mtime, st.st_mtim.tv_sec * INT64_C(1000000000) +
                                        st.st_mtim.tv_nsec);
            assert_true(st.st_blocks * 512 <= (blkcnt_t)sizes[i] + (1 << 20));
        }
    tarn__out_reset(&out);
}

static void an_undone_change_leaves_no_trace(void **state)
{
    (void)state;
    static const struct {
        size_t before, back, after;
    } cases[] = {
        {100, 0, 50},
        {100, 37, 10},
        {100, 100, 0},
        {FLUSH + TARN__OUT_ROOM + 5, FLUSH + TARN__OUT_ROOM, 9},
        {FLUSH + TARN__OUT_ROOM + 5, FLUSH, 9},
        {FLUSH + TARN__OUT_ROOM + 5, FLUSH - 1, 100000},
        {FLUSH + TARN__OUT_ROOM + 5, FLUSH - 3 * ALIGN, 0},
        {FLUSH + TARN__OUT_ROOM + 5, 512, FLUSH + 1000},
        {FLUSH + TARN__OUT_ROOM + 5, 0, 1},
        {MOST, FLUSH + 512, 512},
        {MOST, 5, 2 * FLUSH + TARN__OUT_ROOM},
    };
    const unsigned char *data = noise(2 * MOST);
    const char *path = scratch_path("back");
    tarn__out out = {.file = {.fd = -1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int no_sync = 0; no_sync < 2; no_sync++) {
            tarn_sink_options o = quick(no_sync);
            OK(tarn__out_file(&out, path, &o, false, &err));
            put(&out, data, cases[i].back, 0);
            OK(tarn__out_write(&out, data + 1000, cases[i].before - cases[i].back, &err));
            OK(tarn__out_rewind(&out, cases[i].back, &err));
            assert_int_equal(tarn__out_size(&out), cases[i].back);
            OK(tarn__out_write(&out, data + cases[i].back, cases[i].after, &err));
            OK(tarn__out_finish(&out, NULL, &err));
            assert_file(path, data, cases[i].back + cases[i].after);
        }
    tarn__out_reset(&out);
}

static void taking_back_twice_goes_to_the_right_place(void **state)
{
    (void)state;
    const unsigned char *data = noise(2 * MOST);
    const char *path = scratch_path("twice");
    tarn_sink_options o = quick(false);
    tarn__out out = {.file = {.fd = -1}};
    OK(tarn__out_file(&out, path, &o, false, &err));
    put(&out, data, 2 * FLUSH + 777, 0);
    OK(tarn__out_write(&out, data + 1, FLUSH, &err));
    OK(tarn__out_rewind(&out, 2 * FLUSH + 777, &err));
    OK(tarn__out_write(&out, data + 2, 2 * FLUSH, &err));
    OK(tarn__out_rewind(&out, FLUSH + 5001, &err));
    OK(tarn__out_write(&out, data + FLUSH + 5001, FLUSH, &err));
    OK(tarn__out_finish(&out, NULL, &err));
    assert_file(path, data, 2 * FLUSH + 5001);
    tarn__out_reset(&out);
}

static void a_sink_takes_back_only_what_it_was_not_given(void **state)
{
    (void)state;
    const unsigned char *data = noise(MOST);
    const char *path = scratch_path("sink");
    tarn_sink_options o = quick(true);
    tarn__out out = {.file = {.fd = -1}};
    tarn_sink *sink;
    OK(tarn_sink_open(path, &o, &sink, &err));
    OK(tarn__out_sink(&out, sink, &err));
    put(&out, data, FLUSH + TARN__OUT_ROOM + 5, 1);
    OK(tarn__out_rewind(&out, FLUSH + 3, &err));
    FAILS(TARN_ERR_IO, "taken back", tarn__out_rewind(&out, FLUSH - 1, &err));
    OK(tarn__out_finish(&out, NULL, &err));
    assert_file(path, data, FLUSH + 3);
    tarn__out_reset(&out);
}

static void abandoned_output_is_gone(void **state)
{
    (void)state;
    const char *folder = fresh_folder("abandoned"), *path = scratch_path("abandoned/x");
    tarn_sink_options o = quick(false);
    tarn__out out = {.file = {.fd = -1}};
    for (int i = 0; i < 3; i++) {
        OK(tarn__out_file(&out, path, &o, false, &err));
        put(&out, noise(MOST), i == 0 ? 5 : MOST, 0);
        tarn__out_abandon(&out);
        assert_int_equal(count_files(folder, false), 0);
    }
    OK(tarn__out_file(&out, path, &o, false, &err));
    put(&out, noise(MOST), MOST, 0);
    tarn__out_reset(&out);
    assert_int_equal(count_files(folder, false), 0);
    write_file(path, "mine", 4);
    o.overwrite = false;
    OK(tarn__out_file(&out, path, &o, false, &err));
    FAILS(TARN_ERR_EXISTS, "", tarn__out_finish(&out, NULL, &err));
    assert_file(path, "mine", 4);
    assert_int_equal(count_files(folder, false), 1);
    tarn__out_reset(&out);
}

/* --- One archive ------------------------------------------------------------------- */

static tarn_tar_writer *open_tar(const char *path)
{
    tarn_tar_writer_options o = TARN_TAR_WRITER_OPTIONS_INIT;
    tarn_sink_options sink = quick(true);
    tarn_tar_writer *w;
    o.sink = &sink;
    OK(tarn_tar_writer_open(path, &o, &w, &err));
    return w;
}

static void add_one(tarn_tar_writer *w, const char *key)
{
    tarn_field field = {"txt", key, strlen(key), NULL};
    tarn_written before, after;
    tarn_tar_writer_written(w, &before, sizeof before);
    OK(tarn_tar_writer_add(w, key, &field, 1, &err));
    tarn_tar_writer_written(w, &after, sizeof after);
    assert_int_equal(after.payload - before.payload, strlen(key));
    assert_int_equal(after.samples - before.samples, 1);
}

static tarn_status add_member(tarn_tar_writer *w, const char *name, const void *data,
                              size_t size)
{
    tarn_field field = {name, data, size, NULL};
    return tarn_tar_writer_add(w, NULL, &field, 1, &err);
}

static tarn_status add_file(tarn_tar_writer *w, const char *key, const char *path)
{
    tarn_field fields[] = {{"a", "before", 6, NULL}, {"z", NULL, 0, path}};
    return tarn_tar_writer_add(w, key, fields, 2, &err);
}

static void assert_same_files(const char *left, const char *right)
{
    size_t size;
    unsigned char *data = read_file(left, &size);
    assert_file(right, data, size);
    free(data);
}

static void files_that_cannot_be_members_leave_no_trace(void **state)
{
    (void)state;
    char plain[512], tried[512], fifo[512];
    snprintf(plain, sizeof plain, "%s", scratch_path("plain.tar"));
    snprintf(tried, sizeof tried, "%s", scratch_path("tried.tar"));
    snprintf(fifo, sizeof fifo, "%s", scratch_path("fifo"));
    assert_int_equal(mkfifo(fifo, 0666), 0);
    tarn_tar_writer *w = open_tar(plain);
    add_one(w, "first");
    add_one(w, "last");
    OK(tarn_tar_writer_finish(w, NULL, 0, &err));
    w = open_tar(tried);
    add_one(w, "first");
    FAILS(TARN_ERR_NO_FILE, "no-such", add_file(w, "k", scratch_path("no-such")));
    FAILS(TARN_ERR_UNSUPPORTED, "regular file", add_file(w, "k", scratch()));
    FAILS(TARN_ERR_UNSUPPORTED, "regular file", add_file(w, "k", fifo));
    FAILS(TARN_ERR_UNSUPPORTED, "regular file", add_file(w, "k", "/dev/zero"));
    FAILS(TARN_ERR_STALE, "size", add_file(w, "k", "/proc/self/status"));
    add_one(w, "last");
    OK(tarn_tar_writer_finish(w, NULL, 0, &err));
    assert_same_files(plain, tried);
}

/* A sample is planned, then its file changes, then it is written. */
static void write_changed(size_t planned, size_t then, size_t ahead, tarn_status want)
{
    char path[512], target[512];
    tarn_sink_options sink = quick(true);
    tarn__archive a;
    tarn__sample_plan plan = {0};
    const unsigned char *data = noise(MOST);
    snprintf(path, sizeof path, "%s", scratch_path("changing"));
    snprintf(target, sizeof target, "%s", scratch_path("changing.tar"));
    tarn_field before = {"bin", data, ahead, NULL};
    tarn_field fields[] = {{"a", data, 700, NULL}, {"z", NULL, 0, path}};
    write_file(path, data, planned);
    OK(tarn__archive_init(&a, NULL, TARN_NAMES_PAX, &err));
    OK(tarn__archive_begin(&a, target, &sink, &err));
    OK(tarn__plan_sample(&plan, &a, "before", &before, 1, &err));
    OK(tarn__write_sample(&a, &plan, "before", &before, 1, &err));
    uint64_t size = tarn__out_size(&a.out), digest = a.composer.digest;
    OK(tarn__plan_sample(&plan, &a, "k", fields, 2, &err));
    write_file(path, data, then);
    if (want == TARN_OK) {
        OK(tarn__write_sample(&a, &plan, "k", fields, 2, &err));
        assert_int_equal(tarn__out_size(&a.out), size + plan.bytes);
        assert_int_equal(plan.payload, 700 + planned);
    } else {
        FAILS(want, "changing", tarn__write_sample(&a, &plan, "k", fields, 2, &err));
        assert_int_equal(tarn__out_size(&a.out), size);
        assert_int_equal(a.composer.digest, digest);
    }
    assert_false(a.broken);
    OK(tarn__archive_finish(&a, NULL, &err));
    struct stat st;
    assert_int_equal(stat(target, &st), 0);
    uint64_t whole = size + (want == TARN_OK ? plan.bytes : 0);
    assert_int_equal(st.st_size, whole + tarn__end_size(whole));
    tarn__archive_reset(&a);
    free(plan.members);
}

static void files_that_change_between_plan_and_copy_leave_no_trace(void **state)
{
    (void)state;
    write_changed(5000, 5000, 10, TARN_OK);
    write_changed(5000, 4999, 10, TARN_ERR_TRUNCATED);
    write_changed(5000, 0, 10, TARN_ERR_TRUNCATED);
    write_changed(5000, 5001, 10, TARN_ERR_STALE);
    write_changed(0, 1, 10, TARN_ERR_STALE);
    write_changed(MOST, MOST, 10, TARN_OK);
    write_changed(MOST, MOST - 1, 12345, TARN_ERR_TRUNCATED);
    write_changed(FLUSH + 70000, MOST, FLUSH + 1, TARN_ERR_STALE);
    write_changed(1000, 10, FLUSH + TARN__OUT_ROOM - 512, TARN_ERR_TRUNCATED);
}

static void a_large_file_is_copied_whole(void **state)
{
    (void)state;
    char path[512], target[512];
    tarn_tar *tar;
    tarn_member member;
    snprintf(path, sizeof path, "%s", scratch_path("large"));
    snprintf(target, sizeof target, "%s", scratch_path("large.tar"));
    write_file(path, noise(MOST), MOST - 3);
    tarn_tar_writer *w = open_tar(target);
    OK(add_file(w, "k", path));
    add_one(w, "last");
    tarn_written live, written;
    tarn_tar_writer_written(w, &live, sizeof live);
    OK(tarn_tar_writer_finish(w, &written, sizeof written, &err));
    uint64_t size = written.bytes;
    assert_int_equal(live.bytes, size);
    assert_int_equal(live.shards, 0);
    assert_int_equal(written.shards, 1);
    size_t got;
    unsigned char *data = read_file(target, &got);
    assert_int_equal(got, size + tarn__end_size(size));
    assert_true(memcmp(data + 3 * 512, noise(MOST), MOST - 3) == 0);
    free(data);
    OK(tarn_tar_open(target, NULL, &tar, &err));
    for (int i = 0; i < 3; i++)
        OK(tarn_tar_next(tar, &member, &err));
    assert_int_equal(tarn_tar_next(tar, &member, &err), TARN_END);
    tarn_tar_close(tar);
}

static void members_of_any_name(void **state)
{
    (void)state;
    const char *path = scratch_path("members.tar");
    char *name = malloc(TARN_MAX_NAME + 2);
    memset(name, 'n', TARN_MAX_NAME + 1);
    name[TARN_MAX_NAME + 1] = 0;
    tarn_tar_writer *w = open_tar(path);
    OK(add_member(w, "a", NULL, 0));
    FAILS(TARN_ERR_USAGE, "has no name", add_member(w, "", "x", 1));
    FAILS(TARN_ERR_LIMIT, "65537 bytes", add_member(w, name, "x", 1));
    FAILS(TARN_ERR_USAGE, "name is NULL", add_member(w, NULL, "x", 1));
    FAILS(TARN_ERR_USAGE, "data is NULL", add_member(w, "n", NULL, 1));
    FAILS(TARN_ERR_USAGE, "one archive", tarn_tar_writer_next(w, &err));
    name[TARN_MAX_NAME] = 0;
    OK(add_member(w, name, "x", 1));
    OK(tarn_tar_writer_finish(w, NULL, 0, &err));
    tarn_tar *tar;
    tarn_member member;
    OK(tarn_tar_open(path, NULL, &tar, &err));
    OK(tarn_tar_next(tar, &member, &err));
    OK(tarn_tar_next(tar, &member, &err));
    assert_int_equal(member.name_len, TARN_MAX_NAME);
    tarn_tar_close(tar);
    free(name);
}

static void a_writer_that_lost_bytes_can_only_be_abandoned(void **state)
{
    (void)state;
    tarn_tar_writer_options o = TARN_TAR_WRITER_OPTIONS_INIT;
    tarn_tar_writer *w;
    tarn_field large = {"bin", noise(MOST), MOST, NULL}, small = {"bin", "1", 1, NULL};
    tarn_sink_options sink = quick(false);
    o.sink = &sink;
    for (int i = 0; i < 2; i++) {
        OK(tarn_tar_writer_open("/dev/full", &o, &w, &err));
        FAILS(TARN_ERR_IO, "No space", tarn_tar_writer_add(w, "k", &large, 1, &err));
        FAILS(TARN_ERR_IO, "only be abandoned",
              tarn_tar_writer_add(w, "l", &small, 1, &err));
        FAILS(TARN_ERR_IO, "only be abandoned", add_member(w, "l", "1", 1));
        if (i == 0)
            FAILS(TARN_ERR_IO, "nothing is kept",
                  tarn_tar_writer_finish(w, NULL, 0, &err));
        if (i == 1) tarn_tar_writer_abandon(w);
    }
    OK(tarn_tar_writer_open("/dev/full", &o, &w, &err));
    OK(tarn_tar_writer_add(w, "k", &small, 1, &err));
    FAILS(TARN_ERR_IO, "No space", tarn_tar_writer_finish(w, NULL, 0, &err));
    tarn_tar_writer_abandon(NULL);
}

/* --- Series of archives --------------------------------------------------------- */

typedef struct rolled {
    uint64_t shards, samples, stop_after;
    uint64_t sizes[64];
} rolled;

static int note_shard(void *context, const char *url, uint64_t samples, uint64_t bytes)
{
    rolled *r = context;
    struct stat st;
    assert_int_equal(stat(url, &st), 0);
    assert_int_equal((uint64_t)st.st_size, bytes);
    r->sizes[r->shards++] = bytes;
    r->samples += samples;
    return r->shards == r->stop_after;
}

static tarn_shard_options rolling(rolled *r, tarn_roll roll, uint64_t max_count,
                                  uint64_t max_size)
{
    tarn_shard_options o = TARN_SHARD_OPTIONS_INIT;
    *r = (rolled){0};
    o.roll = roll;
    o.max_count = max_count;
    o.max_size = max_size;
    o.hook = note_shard;
    o.hook_context = r;
    return o;
}

static tarn_tar_writer *open_rolling(const char *pattern, const tarn_shard_options *o)
{
    tarn_tar_writer_options tar = TARN_TAR_WRITER_OPTIONS_INIT;
    tarn_sink_options sink = quick(true);
    tarn_tar_writer *w;
    tar.sink = &sink;
    tar.shards = o;
    OK(tarn_tar_writer_open(scratch_path(pattern), &tar, &w, &err));
    return w;
}

static tarn_status add_sized(tarn_tar_writer *w, int number, size_t size)
{
    char key[16];
    tarn_field field = {"bin", noise(MOST), size, NULL};
    snprintf(key, sizeof key, "k%04d", number);
    return tarn_tar_writer_add(w, key, &field, 1, &err);
}

/* Writes samples of one size, and returns the number of shards. */
static uint64_t roll(rolled *r, const tarn_shard_options *o, int count, size_t size)
{
    tarn_tar_writer *w = open_rolling("roll_%03d.tar", o);
    tarn_written written;
    for (int i = 0; i < count; i++)
        OK(add_sized(w, i, size));
    OK(tarn_tar_writer_next(w, &err));
    OK(tarn_tar_writer_next(w, &err));
    tarn_tar_writer_written(w, &written, sizeof written);
    assert_int_equal(written.samples, (uint64_t)count);
    assert_int_equal(written.payload, (uint64_t)count * size);
    assert_int_equal(written.shards, r->shards);
    OK(tarn_tar_writer_finish(w, NULL, 0, &err));
    assert_int_equal(r->samples, (uint64_t)count);
    return r->shards;
}

static void shards_roll_by_their_rule(void **state)
{
    (void)state;
    rolled r;
    tarn_shard_options o = rolling(&r, TARN_ROLL_FILE, 3, 0);
    assert_int_equal(roll(&r, &o, 10, 5), 4);
    o = rolling(&r, TARN_ROLL_FILE, 0, 0);
    assert_int_equal(roll(&r, &o, 10, 5), 1);
    /* A sample takes 1024 bytes; 9 of them and the end fill 10240 bytes exactly. */
    o = rolling(&r, TARN_ROLL_FILE, 0, 10240);
    assert_int_equal(roll(&r, &o, 18, 512), 2);
    assert_int_equal(r.sizes[0], 10240);
    o = rolling(&r, TARN_ROLL_FILE, 0, 20479);
    assert_int_equal(roll(&r, &o, 18, 512), 2);
    o = rolling(&r, TARN_ROLL_FILE, 0, 20480);
    assert_int_equal(roll(&r, &o, 19, 512), 1);
    o = rolling(&r, TARN_ROLL_PAYLOAD, 0, 1000);
    assert_int_equal(roll(&r, &o, 20, 500), 10);
    o = rolling(&r, TARN_ROLL_PAYLOAD, 0, 1001);
    assert_int_equal(roll(&r, &o, 20, 500), 7);
    o = rolling(&r, TARN_ROLL_ARCHIVE, 0, 2048);
    assert_int_equal(roll(&r, &o, 20, 500), 10);
    o = rolling(&r, TARN_ROLL_ARCHIVE, 0, 2049);
    assert_int_equal(roll(&r, &o, 20, 500), 7);
    o = rolling(&r, TARN_ROLL_FILE, 1, 1);
    assert_int_equal(roll(&r, &o, 0, 0), 0);
}

static void a_sample_that_fits_no_shard_is_refused_and_writing_continues(void **state)
{
    (void)state;
    rolled r;
    tarn_shard_options o = rolling(&r, TARN_ROLL_FILE, 0, 10240);
    tarn_tar_writer *w = open_rolling("fits_%d.tar", &o);
    OK(add_sized(w, 1, 100));
    FAILS(TARN_ERR_LIMIT, "20480 bytes, but", add_sized(w, 2, 9000));
    OK(add_sized(w, 3, 100));
    OK(add_sized(w, 4, 8704));
    OK(tarn_tar_writer_finish(w, NULL, 0, &err));
    assert_int_equal(r.shards, 2);
    assert_int_equal(r.samples, 3);
}

static void the_hook_can_stop_a_writer(void **state)
{
    (void)state;
    rolled r;
    tarn_tar_writer *w;
    fresh_folder("hook");
    tarn_shard_options o = rolling(&r, TARN_ROLL_FILE, 2, 0);
    r.stop_after = 2;
    o.start = 7;
    w = open_rolling("hook/x_%04d.tar", &o);
    assert_int_equal(count_files(scratch_path("hook"), false), 0);
    for (int i = 0; i < 4; i++)
        OK(add_sized(w, i, 10));
    FAILS(TARN_ERR_CANCELLED, "x_0008.tar", add_sized(w, 4, 10));
    OK(add_sized(w, 4, 10));
    assert_int_equal(count_files(scratch_path("hook"), false), 3);
    tarn_tar_writer_abandon(w);
    assert_int_equal(count_files(scratch_path("hook"), false), 2);
    assert_int_equal(access(scratch_path("hook/x_0007.tar"), F_OK), 0);
    r = (rolled){.stop_after = 1};
    o.start = 9;
    w = open_rolling("hook/x_%04d.tar", &o);
    OK(add_sized(w, 1, 10));
    FAILS(TARN_ERR_CANCELLED, "x_0009.tar", tarn_tar_writer_finish(w, NULL, 0, &err));
}

static void an_existing_shard_stays(void **state)
{
    (void)state;
    rolled r;
    tarn_tar_writer *w;
    tarn_shard_options o = rolling(&r, TARN_ROLL_FILE, 1, 0);
    tarn_sink_options keep = TARN_SINK_OPTIONS_INIT;
    tarn_tar_writer_options tar = TARN_TAR_WRITER_OPTIONS_INIT;
    tar.sink = &keep;
    tar.shards = &o;
    write_file(scratch_path("there_1.tar"), "mine", 4);
    OK(tarn_tar_writer_open(scratch_path("there_%d.tar"), &tar, &w, &err));
    OK(add_sized(w, 1, 10));
    FAILS(TARN_ERR_EXISTS, "there_1.tar", add_sized(w, 2, 10));
    FAILS(TARN_ERR_EXISTS, "there_1.tar", add_sized(w, 2, 10));
    assert_int_equal(remove(scratch_path("there_1.tar")), 0);
    OK(add_sized(w, 2, 10));
    OK(tarn_tar_writer_finish(w, NULL, 0, &err));
    assert_int_equal(r.shards, 2);
    tarn_shard_options wrong = {.size = 1};
    tar.shards = &wrong;
    FAILS(TARN_ERR_USAGE, "initialiser", tarn_tar_writer_open("x%d", &tar, &w, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_of_any_size_is_in_the_file),
        cmocka_unit_test(an_undone_change_leaves_no_trace),
        cmocka_unit_test(taking_back_twice_goes_to_the_right_place),
        cmocka_unit_test(a_sink_takes_back_only_what_it_was_not_given),
        cmocka_unit_test(abandoned_output_is_gone),
        cmocka_unit_test(files_that_cannot_be_members_leave_no_trace),
        cmocka_unit_test(files_that_change_between_plan_and_copy_leave_no_trace),
        cmocka_unit_test(a_large_file_is_copied_whole),
        cmocka_unit_test(members_of_any_name),
        cmocka_unit_test(a_writer_that_lost_bytes_can_only_be_abandoned),
        cmocka_unit_test(shards_roll_by_their_rule),
        cmocka_unit_test(a_sample_that_fits_no_shard_is_refused_and_writing_continues),
        cmocka_unit_test(the_hook_can_stop_a_writer),
        cmocka_unit_test(an_existing_shard_stays),
    };
    return cmocka_run_group_tests_name("write", tests, NULL, scratch_remove);
}
