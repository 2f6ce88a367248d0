/* Copies of remote objects: claims, stores, damage by other programs, restarts of the
 * machine, room. Processes and threads are in test_shardcache_many.c. */
#include "caching.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "io/file.h"

static void blocks_are_there_after_they_were_put(void **state)
{
    (void)state;
    tarn__cachedir *cache = open_cache("c", 0);
    tarn__cached *c = open_object(cache, URL, "1");
    assert_false(tarn__cached_has(c, 0, 1));
    claims(c, 3, 5, TARN__CACHED_CLAIMED);
    OK(put(c, 3, 5));
    assert_true(tarn__cached_has(c, 3 * BLOCK + 5, 4 * BLOCK));
    assert_true(tarn__cached_has(c, 3 * BLOCK, 5 * BLOCK));
    assert_false(tarn__cached_has(c, 3 * BLOCK - 1, 2));
    assert_false(tarn__cached_has(c, 3 * BLOCK, 5 * BLOCK + 1));
    assert_false(tarn__cached_has(c, SIZE, 1));
    claims(c, 3, 5, TARN__CACHED_THERE);
    assert_int_equal(check_bytes(c), 5);
    assert_false(tarn__cached_complete(c));
    tarn__cached_close(c);
    tarn__cachedir_close(cache);
}

static void a_complete_file_is_the_object(void **state)
{
    (void)state;
    unsigned char want[SIZE];
    tarn__cachedir *cache = open_cache("c", 0);
    tarn__cached *c = open_object(cache, URL, "1");
    size_t size;
    fill(c);
    assert_true(tarn__cached_complete(c));
    assert_string_equal(c->path + strlen(c->path) - 4, ".tar");
    unsigned char *got = read_file(tarn__cached_path(c), &size);
    object_bytes(want, 0, SIZE);
    assert_int_equal(size, SIZE);
    assert_memory_equal(got, want, SIZE);
    free(got);
    tarn__cached_close(c);
    c = open_object(cache, URL, "1");
    assert_true(tarn__cached_complete(c));
    claims(c, 0, BLOCKS, TARN__CACHED_THERE);
    tarn__cached_close(c);
    tarn__cachedir_close(cache);
}

static void a_claim_has_one_holder(void **state)
{
    (void)state;
    tarn__cachedir *cache = open_cache("c", 0);
    tarn__cached *a = open_object(cache, URL, "1"), *b = open_object(cache, URL, "1");
    tarn__cached_span s[8];
    size_t n;
    uint64_t end;
    claims(a, 4, 4, TARN__CACHED_CLAIMED);
    claims(a, 4, 4, TARN__CACHED_BUSY);
    OK(put(a, 4, 1));
    OK(tarn__cached_claim(b, 0, 12 * BLOCK, s, 8, &n, &end, &err));
    assert_int_equal(n, 4);
    assert_int_equal(s[0].state, TARN__CACHED_CLAIMED);
    assert_int_equal(s[0].count, 4);
    assert_int_equal(s[1].state, TARN__CACHED_THERE);
    assert_int_equal(s[2].state, TARN__CACHED_BUSY);
    assert_int_equal(s[2].count, 3);
    assert_int_equal(s[3].state, TARN__CACHED_CLAIMED);
    assert_int_equal(end, 12 * BLOCK);
    tarn__cached_give_up(a, 5, 3);
    claims(b, 5, 3, TARN__CACHED_CLAIMED);
    tarn__cached_close(b);
    claims(a, 5, 3, TARN__CACHED_CLAIMED);
    FAILS(TARN_ERR_USAGE, "not claimed", put(a, 4, 2));
    FAILS(TARN_ERR_USAGE, "not inside the object",
          tarn__cached_claim(a, 0, SIZE + 1, s, 8, &n, &end, &err));
    tarn__cached_close(a);
    tarn__cachedir_close(cache);
}

static void spans_end_where_their_array_ends(void **state)
{
    (void)state;
    tarn__cachedir *cache = open_cache("c", 0);
    tarn__cached *a = open_object(cache, URL, "1"), *b = open_object(cache, URL, "1");
    tarn__cached_span s[2];
    size_t n;
    uint64_t end;
    for (uint64_t i = 0; i < 10; i += 2)
        claims(a, i, 1, TARN__CACHED_CLAIMED);
    OK(tarn__cached_claim(b, 100, 9 * BLOCK, s, 2, &n, &end, &err));
    assert_int_equal(n, 2);
    assert_int_equal(end, 2 * BLOCK);
    claims(a, 3, 1, TARN__CACHED_CLAIMED); /* b has not claimed what it did not get */
    tarn__cached_close(b);
    tarn__cached_close(a);
    tarn__cachedir_close(cache);
}

static void objects_are_told_apart_by_what_is_hidden(void **state)
{
    (void)state;
    tarn__cache_names a, b;
    tarn__object_id id = {.size = 5, .etag = "\"x\""};
    static const struct {
        const char *one, *other;
        bool same;
    } cases[] = {
        {"https://h/get?id=1", "https://h/get?id=2", false},
        {"https://h/a?id=1&X-Amz-Signature=1&X-Amz-Date=2",
         "https://h/a?id=1&X-Amz-Signature=3&X-Amz-Date=4", true},
        {"https://h/a?id=1&X-Amz-Signature=1", "https://h/a?id=2&X-Amz-Signature=1",
         false},
        {"https://h/a?sv=1&se=2&sig=3", "https://h/a?sv=1&se=5&sig=6", true},
        {"https://h/a?se=2", "https://h/a?se=5", false},
        {"https://me:secret@h/a.tar#x", "https://h/a.tar", true},
        {"http://one:9000/b/k", "http://two:9000/b/k", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OK(tarn__cache_name(&a, cases[i].one, &id, &err));
        OK(tarn__cache_name(&b, cases[i].other, &id, &err));
        assert_int_equal(strcmp(a.key, b.key) == 0, cases[i].same);
    }
    OK(tarn__cache_name(&a, "https://h/x/a.tar?q=.zip", &id, &err));
    assert_string_equal(a.data + 33, ".tar");
    OK(tarn__cache_name(&a, "https://h.tar/x", &id, &err));
    assert_string_equal(a.data + 33, "");
}

static void an_object_without_a_version_is_not_cached(void **state)
{
    (void)state;
    tarn__cachedir *cache = open_cache("c", 0);
    tarn__cached *c;
    tarn__object_id weak = {.size = 5, .etag = "W/\"x\""}, unknown = {.size = UINT64_MAX},
                    large = {.size = UINT64_C(1) << 60, .etag = "\"x\""};
    FAILS(TARN_ERR_UNSUPPORTED, "ETag",
          tarn__cached_open(cache, DATASET, URL, URL, &weak, &c, &err));
    FAILS(TARN_ERR_UNSUPPORTED, "size is unknown",
          tarn__cached_open(cache, DATASET, URL, URL, &unknown, &c, &err));
    FAILS(TARN_ERR_LIMIT, "TARN__MAX_CACHED",
          tarn__cached_open(cache, DATASET, URL, URL, &large, &c, &err));
    c = open_sized(cache, DATASET, URL, "empty", 0);
    assert_true(tarn__cached_complete(c));
    tarn__cached_close(c);
    tarn__cachedir_close(cache);
}

/* --- Damage ------------------------------------------------------------------------- */

static void shorten(const char *path, off_t size)
{
    assert_int_equal(truncate(path, size), 0);
}

static void a_shortened_file_is_fetched_again(void **state)
{
    (void)state;
    tarn__cachedir *cache = open_cache("c", 0);
    tarn__cached *a = open_object(cache, URL, "1");
    claims(a, 0, 10, TARN__CACHED_CLAIMED);
    OK(put(a, 0, 10));
    claims(a, 20, 1, TARN__CACHED_CLAIMED);
    shorten(a->path, 3 * BLOCK);
    /* A write would turn the lost bytes into zeros. */
    FAILS(TARN_ERR_IO, "changed the size", put(a, 20, 1));
    assert_false(tarn__cached_has(a, 0, BLOCK));
    claims(a, 0, BLOCKS, TARN__CACHED_PASSED);
    tarn__cached *b = open_object(cache, URL, "1");
    assert_int_equal(check_bytes(b), 0);
    fill(b);
    assert_int_equal(check_bytes(b), BLOCKS);
    assert_false(tarn__cached_has(a, 0, BLOCK));
    tarn__cached_close(a);
    tarn__cached_close(b);
    tarn__cachedir_close(cache);
}

static void a_complete_file_that_is_shortened_passes(void **state)
{
    (void)state;
    tarn__cachedir *cache = open_cache("c", 0);
    tarn__cached *c = open_object(cache, URL, "1");
    fill(c);
    claims(c, 0, BLOCKS, TARN__CACHED_THERE);
    shorten(c->path, SIZE - 1);
    claims(c, 0, BLOCKS, TARN__CACHED_PASSED);
    assert_false(tarn__cached_complete(c));
    tarn__cached_close(c);
    tarn__cachedir_close(cache);
}

static void a_folder_that_is_removed_in_use_only_loses(void **state)
{
    (void)state;
    char command[1024];
    tarn__cachedir *cache = open_cache("c", 0);
    tarn__cached *a = open_object(cache, URL, "1");
    claims(a, 0, 5, TARN__CACHED_CLAIMED);
    snprintf(command, sizeof command, "rm -r %s", in("c"));
    assert_int_equal(system(command), 0);
    OK(put(a, 0, 5));
    assert_int_equal(check_bytes(a), 5);
    tarn__cached *b = open_object(cache, URL "2", "1");
    tarn__cached *c = open_sized(cache, "another", URL, "1", SIZE);
    claims(b, 0, BLOCKS, TARN__CACHED_PASSED);
    claims(c, 0, BLOCKS, TARN__CACHED_PASSED);
    tarn__cached_close(a);
    tarn__cached_close(b);
    tarn__cached_close(c);
    tarn__cachedir_close(cache);
}

static void a_damaged_map_is_not_believed(void **state)
{
    (void)state;
    static const struct {
        uint64_t at;
        off_t cut; /* 0: a byte is changed */
    } cases[] = {{5, 0},   {4000, 0}, {TARN__CACHE_HEAD - 16, 0},
                 {0, 100}, {0, 4096}, {0, 4096 + 8 * 5}};
    tarn__cachedir *cache = open_cache("c", 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tarn__cached *c = open_object(cache, URL, "1");
        fill(c);
        int fd = open(c->map_path, O_RDWR);
        unsigned char byte = 0x55;
        if (cases[i].cut)
            shorten(c->map_path, cases[i].cut);
        else
            assert_int_equal(pwrite(fd, &byte, 1, (off_t)cases[i].at), 1);
        close(fd);
        tarn__cached_close(c);
        c = open_object(cache, URL, "1");
        assert_int_equal(check_bytes(c), 0);
        tarn__cached_close(c);
    }
    tarn__cachedir_close(cache);
}

static void a_map_that_is_shortened_in_use_only_loses(void **state)
{
    (void)state;
    tarn__cachedir *cache = open_cache("c", 0);
    tarn__cached *a = open_object(cache, URL, "1"), *b = open_object(cache, URL, "1");
    claims(a, 0, 10, TARN__CACHED_CLAIMED);
    OK(put(a, 0, 10));
    shorten(a->map_path, 0);
    assert_int_equal(check_bytes(a), 10);
    assert_int_equal(check_bytes(b), 0);
    fill(b);
    assert_int_equal(check_bytes(b), BLOCKS);
    tarn__cached_close(a);
    tarn__cached_close(b);
    a = open_object(cache, URL, "1");
    assert_int_equal(check_bytes(a), 0);
    tarn__cached_close(a);
    tarn__cachedir_close(cache);
}

static void a_map_of_a_newer_tarn_is_left_alone(void **state)
{
    (void)state;
    tarn__cachedir *cache = open_cache("c", 0);
    tarn__cached *c = open_object(cache, URL, "1");
    uint32_t newer = 2;
    char path[1024];
    tarn__object_id id = {.size = SIZE, .etag = "\"1\""};
    snprintf(path, sizeof path, "%s", c->map_path);
    assert_int_equal(pwrite(c->map_fd, &newer, 4, TARN__CACHE_HEAD - 12), 4);
    tarn__cached_close(c);
    FAILS(TARN_ERR_UNSUPPORTED, "format 2",
          tarn__cached_open(cache, DATASET, URL, URL, &id, &c, &err));
    assert_int_equal(access(path, F_OK), 0);
    tarn__cachedir_close(cache);
}

static void links_are_not_followed(void **state)
{
    (void)state;
    tarn__object_id id = {.size = SIZE, .etag = "\"1\""};
    tarn__cachedir *cache = open_cache("c", 0);
    tarn__cached *c = open_object(cache, URL, "1");
    char path[1024], precious[1024];
    snprintf(path, sizeof path, "%s", c->path);
    snprintf(precious, sizeof precious, "%s", in("precious"));
    write_file(precious, "precious", 8);
    tarn__cached_close(c);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink(precious, path), 0);
    FAILS(TARN_ERR_UNSUPPORTED, "symbolic link",
          tarn__cached_open(cache, DATASET, URL, URL, &id, &c, &err));
    tarn__cachedir_close(cache);
    mkdir(in("d"), 0777);
    mkdir(in("elsewhere"), 0777);
    assert_int_equal(symlink(in("elsewhere"), in("d/" TARN__CACHE_FOLDER)), 0);
    FAILS(TARN_ERR_UNSUPPORTED, "symbolic link",
          tarn__cachedir_open(in("d"), NULL, &cache, &err));
    write_file(in("file"), "x", 1);
    FAILS(TARN_ERR_NO_FILE, "Not a directory",
          tarn__cachedir_open(in("file"), NULL, &cache, &err));
}

static void dropped_blocks_are_fetched_again(void **state)
{
    (void)state;
    tarn__cachedir *cache = open_cache("c", 0);
    tarn__cached *c = open_object(cache, URL, "1");
    fill(c);
    tarn__cached_close(c);
    c = open_object(cache, URL, "1");
    assert_true(tarn__cached_complete(c));
    assert_int_equal(pwrite(c->fd, "damage", 6, 7 * BLOCK), 6);
    tarn__cached_drop(c, 7, 2);
    assert_false(tarn__cached_complete(c));
    assert_int_equal(check_bytes(c), BLOCKS - 2);
    tarn__cached_close(c);
    c = open_object(cache, URL, "1");
    assert_false(tarn__cached_complete(c));
    claims(c, 7, 2, TARN__CACHED_CLAIMED);
    OK(put(c, 7, 2));
    assert_true(tarn__cached_complete(c));
    assert_int_equal(check_bytes(c), BLOCKS);
    tarn__cached_close(c);
    tarn__cachedir_close(cache);
}

static void a_block_that_another_process_dropped_is_not_part_of_the_whole(void **state)
{
    (void)state;
    tarn__cachedir *one = open_cache("c", 0), *two = open_cache("c", 0);
    tarn__cached *a = open_object(one, URL, "1"), *b = open_object(two, URL, "1");
    claims(a, 0, BLOCKS - 1, TARN__CACHED_CLAIMED);
    OK(put(a, 0, BLOCKS - 1));
    tarn__cached_drop(b, 5, 1);
    claims(a, BLOCKS - 1, 1, TARN__CACHED_CLAIMED);
    OK(put(a, BLOCKS - 1, 1));
    assert_false(tarn__cached_complete(a));
    claims(a, 5, 1, TARN__CACHED_CLAIMED);
    OK(put(a, 5, 1));
    assert_true(tarn__cached_complete(a));
    assert_int_equal(check_bytes(b), BLOCKS);
    assert_true(tarn__cached_complete(b));
    tarn__cached_close(a);
    tarn__cached_close(b);
    tarn__cachedir_close(one);
    tarn__cachedir_close(two);
}

/* --- Restarts ----------------------------------------------------------------------- */

/* After a power failure the map may say more than the disk has. */
static void after_a_restart_blocks_must_have_their_checksums(void **state)
{
    (void)state;
    static const unsigned char zeros[BLOCK];
    tarn__cachedir *cache = open_cache("c", 0);
    tarn__cached *c = open_object(cache, URL, "1");
    fill(c);
    assert_int_equal(pwrite(c->fd, zeros, BLOCK, 4 * BLOCK), BLOCK);
    assert_int_equal(pwrite(c->fd, zeros, 512, 9 * BLOCK + 512), 512);
    assert_int_equal(pwrite(c->fd, zeros, 8, SIZE - 8), 8);
    tarn__cached_close(c);
    cache->boot++;
    for (int i = 0; i < 2; i++) {
        c = open_object(cache, URL, "1");
        assert_false(tarn__cached_complete(c));
        assert_int_equal(check_bytes(c), BLOCKS - 3);
        tarn__cached_close(c);
    }
    c = open_object(cache, URL, "1");
    fill(c);
    assert_true(tarn__cached_complete(c));
    assert_int_equal(check_bytes(c), BLOCKS);
    tarn__cached_close(c);
    tarn__cachedir_close(cache);
}

static void a_whole_copy_that_was_synced_survives_a_restart(void **state)
{
    (void)state;
    struct timespec old[2] = {{1000000000, 0}, {1000000000, 0}};
    tarn__cachedir *cache = open_cache("c", 0);
    tarn__cached *c = open_object(cache, URL, "1");
    fill(c);
    assert_int_equal(utimensat(AT_FDCWD, c->map_path, old, 0), 0);
    tarn__cached_close(c);
    tarn__cached_close(open_object(cache, URL, "1")); /* syncs it */
    cache->boot++;
    c = open_object(cache, URL, "1");
    assert_true(tarn__cached_complete(c));
    tarn__cached_close(c);
    tarn__cachedir_close(cache);
}

/* A copy that another program made while blocks were written may have any of them. */
static void a_copied_cache_is_not_believed_by_its_tags(void **state)
{
    (void)state;
    static const unsigned char zeros[BLOCK];
    char command[3000];
    tarn__cachedir *cache = open_cache("c", 0);
    tarn__cached *c = open_object(cache, URL, "1");
    fill(c);
    tarn__cached_close(c);
    tarn__cachedir_close(cache);
    snprintf(command, sizeof command, "cp -a %s %s", in("c"), in("d"));
    assert_int_equal(system(command), 0);
    cache = open_cache("d", 0);
    c = open_object(cache, URL, "1");
    assert_int_equal(pwrite(c->fd, zeros, BLOCK, 4 * BLOCK), BLOCK);
    assert_int_equal(check_bytes(c), BLOCKS - 1);
    tarn__cached_close(c);
    tarn__cachedir_close(cache);
}

/* --- Room ----------------------------------------------------------------------------
 */

static void what_is_cached_stays_and_the_rest_passes(void **state)
{
    (void)state;
    tarn__cachedir *cache = open_cache("c", (BLOCKS + 20) * BLOCK);
    tarn__cached *a = open_object(cache, URL, "1"), *b = open_object(cache, URL "2", "1");
    tarn__cached_span s[8];
    size_t n;
    uint64_t end;
    fill(a);
    for (int i = 0; i < 3; i++) {
        OK(tarn__cached_claim(b, 0, SIZE, s, 8, &n, &end, &err));
        assert_int_equal(n, 2);
        assert_int_equal(s[0].state, i ? TARN__CACHED_THERE : TARN__CACHED_CLAIMED);
        assert_in_range(s[0].count, 15, 20);
        assert_int_equal(s[1].state, TARN__CACHED_PASSED);
        assert_int_equal(end, SIZE);
        if (!i) OK(put(b, 0, s[0].count));
    }
    assert_int_equal(check_bytes(a), BLOCKS);
    tarn__cached_close(a);
    tarn__cached_close(b);
    tarn__cachedir_close(cache);
}

/* Blocks in another exact shuffle; returns how many were there. */
static uint64_t run_epoch(tarn__cached *c, uint64_t *order, uint32_t *seed)
{
    tarn__cached_span s[1];
    uint64_t hits = 0, end;
    size_t n;
    for (uint64_t i = c->blocks; i-- > 1;) {
        *seed = *seed * 1664525u + 1013904223u;
        uint64_t k = (*seed >> 8) % (i + 1), old = order[i];
        order[i] = order[k];
        order[k] = old;
    }
    for (uint64_t i = 0; i < c->blocks; i++) {
        OK(tarn__cached_claim(c, order[i] * BLOCK, BLOCK, s, 1, &n, &end, &err));
        hits += s[0].state == TARN__CACHED_THERE;
        if (s[0].state == TARN__CACHED_CLAIMED) OK(put(c, s[0].first, 1));
    }
    return hits;
}

static void hits_of_an_epoch_are_the_share_that_is_cached(void **state)
{
    (void)state;
    enum { MANY = 600 };
    uint64_t order[MANY];
    uint32_t seed = 5;
    tarn__cachedir *cache = open_cache("c", MANY / 2 * BLOCK);
    tarn__cached *c = open_sized(cache, DATASET, URL, "1", MANY * BLOCK);
    for (uint64_t i = 0; i < MANY; i++)
        order[i] = i;
    assert_int_equal(run_epoch(c, order, &seed), 0);
    uint64_t cached = check_bytes(c);
    assert_in_range(cached, MANY * 49 / 100, MANY / 2);
    for (int epoch = 0; epoch < 3; epoch++)
        assert_int_equal(run_epoch(c, order, &seed), cached);
    tarn__cached_close(c);
    tarn__cachedir_close(cache);
}

static void some_space_of_the_disk_stays_free(void **state)
{
    (void)state;
    tarn__cachedir *cache;
    tarn__cache_limits limits = {.min_free = UINT64_MAX};
    OK(tarn__cachedir_open(in("c"), &limits, &cache, &err));
    tarn__cached *c = open_object(cache, URL, "1");
    claims(c, 0, BLOCKS, TARN__CACHED_PASSED);
    cache->limits.min_free = 1;
    fill(c);
    assert_int_equal(check_bytes(c), BLOCKS);
    tarn__cached_close(c);
    tarn__cachedir_close(cache);
}

static void a_cache_that_can_store_nothing_says_why(void **state)
{
    (void)state;
    struct statvfs fs;
    tarn__cachedir *cache = open_cache("c", 0);
    assert_int_equal(statvfs(in("c"), &fs), 0);
    tarn__cachedir_keep_free(cache, 1);
    assert_int_equal(cache->limits.min_free, 1);
    assert_null(tarn__cachedir_problem(cache));
    tarn__cachedir_keep_free(cache, UINT64_MAX);
    assert_int_equal(cache->limits.min_free, (uint64_t)fs.f_blocks * fs.f_frsize / 16);
    cache->limits.min_free = UINT64_MAX;
    char *text = tarn__cachedir_problem(cache);
    assert_non_null(text);
    assert_non_null(strstr(text, cache->path));
    assert_non_null(strstr(text, "nothing is cached, because its file system has"));
    free(text);
    cache->limits.min_free = 1;
    tarn__cached *c = open_object(cache, URL, "1");
    fill(c);
    cache->read_only = true;
    assert_null(tarn__cachedir_problem(cache));
    cache->limits.min_free = 1 << 30;
    text = tarn__cachedir_problem(cache);
    assert_non_null(text);
    assert_non_null(strstr(text, "cannot be written"));
    free(text);
    tarn__cached_close(c);
    tarn__cachedir_close(cache);
}

static void other_datasets_are_evicted_longest_unused_first(void **state)
{
    (void)state;
    char first[1024], second[1024];
    struct timespec old[2] = {{1000000000, 0}, {1000000000, 0}};
    tarn__cachedir *cache = open_cache("c", 0);
    tarn__cached *a = open_sized(cache, "one", URL, "1", SIZE),
                 *b = open_sized(cache, "two", URL, "1", SIZE);
    fill(a);
    fill(b);
    snprintf(first, sizeof first, "%s", a->path);
    snprintf(second, sizeof second, "%s", b->path);
    int fd = a->set->lock_fd;
    int copy = dup(fd);
    tarn__cached_close(a);
    tarn__cached_close(b);
    tarn__cachedir_close(cache);
    assert_int_equal(futimens(copy, old), 0);
    close(copy);
    write_file(in("c/mine.txt"), "mine", 4);
    cache = open_cache("c", (2 * BLOCKS + 8) * BLOCK);
    a = open_sized(cache, "three", URL, "1", SIZE);
    for (int i = 0; i < 3; i++)
        fill(a);
    assert_int_equal(check_bytes(a), BLOCKS);
    assert_int_equal(access(first, F_OK), -1);
    assert_int_equal(access(second, F_OK), 0);
    assert_int_equal(access(in("c/mine.txt"), F_OK), 0);
    tarn__cached_close(a);
    tarn__cachedir_close(cache);
}

static void what_is_open_is_not_evicted(void **state)
{
    (void)state;
    tarn__cachedir *one = open_cache("c", 0);
    tarn__cached *a = open_sized(one, "one", URL, "1", SIZE);
    fill(a);
    tarn__cachedir *two = open_cache("c", (BLOCKS + 8) * BLOCK);
    tarn__cached *b = open_sized(two, "two", URL, "1", SIZE);
    fill(b);
    fill(b);
    assert_in_range(check_bytes(b), 1, 8);
    assert_int_equal(access(a->path, F_OK), 0);
    assert_int_equal(check_bytes(a), BLOCKS);
    tarn__cached_close(a);
    tarn__cachedir_close(one);
    tarn__cached_close(b);
    tarn__cachedir_close(two);
}

static void old_versions_are_evicted_first(void **state)
{
    (void)state;
    char old_path[1024], other_path[1024];
    struct timespec old[2] = {{1000000000, 0}, {1000000000, 0}};
    tarn__cachedir *cache = open_cache("c", (3 * BLOCKS + 12) * BLOCK);
    tarn__cached *a = open_object(cache, URL, "1");
    tarn__cached *x = open_sized(cache, "other", URL, "1", SIZE);
    fill(a);
    fill(x);
    snprintf(old_path, sizeof old_path, "%s", a->path);
    snprintf(other_path, sizeof other_path, "%s", x->path);
    assert_int_equal(utimensat(AT_FDCWD, a->map_path, old, 0), 0);
    assert_int_equal(utimensat(AT_FDCWD, a->path, old, 0), 0);
    tarn__cached_close(a);
    a = open_object(cache, URL, "2");
    fill(a);
    tarn__cached *b = open_object(cache, URL "2", "1");
    fill(b);
    fill(b);
    assert_int_equal(access(old_path, F_OK), -1);
    assert_int_equal(access(other_path, F_OK), 0);
    assert_int_equal(check_bytes(b), BLOCKS);
    tarn__cached_close(a);
    tarn__cached_close(b);
    tarn__cached_close(x);
    tarn__cachedir_close(cache);
}

static void a_failing_disk_ends_the_claim_and_is_noticed_once(void **state)
{
    (void)state;
    struct rlimit limit, old;
    tarn__cachedir *cache = open_cache("c", 0);
    tarn__cached *c = open_object(cache, URL, "1");
    claims(c, 0, 4, TARN__CACHED_CLAIMED);
    claims(c, 10, 10, TARN__CACHED_CLAIMED);
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    limit = old;
    limit.rlim_cur = 4 * BLOCK;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    tarn_status first = put(c, 10, 5), second = put(c, 15, 5);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, before);
    assert_int_equal(first, TARN_ERR_IO);
    assert_int_equal(second, TARN_OK);
    assert_int_equal(check_bytes(c), 0);
    assert_int_equal(c->claimed, 4);
    assert_int_equal(cache->flight, 4 * BLOCK);
    assert_false(cache->refused); /* only a full disk is a reason to evict */
    claims(c, 10, 5, TARN__CACHED_PASSED);
    cache->full_until = 0;
    claims(c, 10, 5, TARN__CACHED_CLAIMED);
    tarn__cached_close(c);
    tarn__cachedir_close(cache);
}

static void the_first_process_counts_what_is_there(void **state)
{
    (void)state;
    tarn__cachedir *cache = open_cache("c", 0);
    tarn__cached *c = open_object(cache, URL, "1");
    fill(c);
    assert_int_equal(cache->written, BLOCKS * BLOCK + TARN__CACHE_HEAD + 8 * BLOCKS);
    claims(c, 0, BLOCKS, TARN__CACHED_THERE);
    cache->flight = 1 << 30; /* as if it had been killed */
    tarn__cached_drop(c, 0, 1);
    claims(c, 0, 1, TARN__CACHED_CLAIMED);
    tarn__cached_close(c);
    tarn__cachedir_close(cache);
    cache = open_cache("c", 0);
    assert_int_equal(cache->flight, 0);
    assert_in_range(cache->written, BLOCKS * BLOCK, (BLOCKS + 4) * BLOCK);
    tarn__cachedir *other = open_cache("c", 0);
    assert_int_equal(other->slot, 1);
    assert_int_equal(other->written, 0);
    tarn__cachedir_close(other);
    tarn__cachedir_close(cache);
}

static void a_folder_that_cannot_be_written_is_read(void **state)
{
    (void)state;
    tarn__cachedir *cache = open_cache("c", 0);
    tarn__cached *c = open_object(cache, URL, "1");
    tarn__cached *part = open_object(cache, URL "2", "1");
    fill(c);
    claims(part, 0, 3, TARN__CACHED_CLAIMED);
    OK(put(part, 0, 3));
    tarn__cached_close(c);
    tarn__cached_close(part);
    tarn__cachedir_close(cache);
    cache = open_cache("c", 0);
    cache->read_only = true; /* what a read-only file system gives; see the CLI tests */
    c = open_object(cache, URL, "1");
    assert_true(tarn__cached_complete(c));
    part = open_object(cache, URL "2", "1");
    assert_int_equal(check_bytes(part), 3);
    claims(part, 5, 5, TARN__CACHED_PASSED);
    tarn__cached *none = open_object(cache, URL "3", "1");
    claims(none, 0, BLOCKS, TARN__CACHED_PASSED);
    assert_int_equal(access(none->path, F_OK), -1);
    tarn__cached_close(c);
    tarn__cached_close(part);
    tarn__cached_close(none);
    tarn__cachedir_close(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_OWN_FOLDER(blocks_are_there_after_they_were_put),
        IN_OWN_FOLDER(a_complete_file_is_the_object),
        IN_OWN_FOLDER(a_claim_has_one_holder),
        IN_OWN_FOLDER(spans_end_where_their_array_ends),
        IN_OWN_FOLDER(objects_are_told_apart_by_what_is_hidden),
        IN_OWN_FOLDER(an_object_without_a_version_is_not_cached),
        IN_OWN_FOLDER(a_shortened_file_is_fetched_again),
        IN_OWN_FOLDER(a_complete_file_that_is_shortened_passes),
        IN_OWN_FOLDER(a_folder_that_is_removed_in_use_only_loses),
        IN_OWN_FOLDER(a_damaged_map_is_not_believed),
        IN_OWN_FOLDER(a_map_that_is_shortened_in_use_only_loses),
        IN_OWN_FOLDER(a_map_of_a_newer_tarn_is_left_alone),
        IN_OWN_FOLDER(links_are_not_followed),
        IN_OWN_FOLDER(dropped_blocks_are_fetched_again),
        IN_OWN_FOLDER(a_block_that_another_process_dropped_is_not_part_of_the_whole),
        IN_OWN_FOLDER(after_a_restart_blocks_must_have_their_checksums),
        IN_OWN_FOLDER(a_whole_copy_that_was_synced_survives_a_restart),
        IN_OWN_FOLDER(a_copied_cache_is_not_believed_by_its_tags),
        IN_OWN_FOLDER(what_is_cached_stays_and_the_rest_passes),
        IN_OWN_FOLDER(hits_of_an_epoch_are_the_share_that_is_cached),
        IN_OWN_FOLDER(some_space_of_the_disk_stays_free),
        IN_OWN_FOLDER(a_cache_that_can_store_nothing_says_why),
        IN_OWN_FOLDER(other_datasets_are_evicted_longest_unused_first),
        IN_OWN_FOLDER(what_is_open_is_not_evicted),
        IN_OWN_FOLDER(old_versions_are_evicted_first),
        IN_OWN_FOLDER(a_failing_disk_ends_the_claim_and_is_noticed_once),
        IN_OWN_FOLDER(the_first_process_counts_what_is_there),
        IN_OWN_FOLDER(a_folder_that_cannot_be_written_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
