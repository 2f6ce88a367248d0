/* The thread that reads ahead: what it has read when the next call returns, forks, files
 * that cannot be opened or end early; which pieces follow each other; and datasets whose
 * samples are read by it. */
#include "support.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/write.h>

#include "dataset/dataset.h"
#include "io/ahead.h"
#include "io/file.h"

static tarn_error err;

enum {
    FILES = 3,
    FILE_SIZE = 3 << 20,
    SAMPLES = 96,
    SAMPLE_SIZE = 128 << 10,
    BROKEN = 9
};

static void evict(const char *path)
{
    int fd = open(path, O_RDONLY);
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

static char *names[FILES]; /* also for the thread, which must not call scratch_path */

static const char *file_name(uint32_t file)
{
    return names[file];
}

static int open_file(const void *owner, uint32_t file)
{
    (void)owner;
    return file == BROKEN ? -1 : open(file_name(file), O_RDONLY | O_CLOEXEC);
}

/* Whether the bytes from one offset to another are in the page cache. */
static bool is_resident(const char *path, uint64_t from, uint64_t to)
{
    tarn__file file;
    bool all = true;
    OK(tarn__file_open(&file, path, &err));
    unsigned char *map = tarn__map(file.fd, file.size);
    assert_non_null(map);
    for (; from < to; from += 4096)
        all = all && tarn__page_is_resident(map, from);
    tarn__unmap(map, file.size);
    tarn__file_close(&file);
    return all;
}

/* False on tmpfs. */
static bool make_files(void)
{
    unsigned char *data = calloc(1, FILE_SIZE);
    for (uint32_t i = 0; i < FILES; i++) {
        char name[16];
        snprintf(name, sizeof name, "file%u", i);
        if (!names[i]) names[i] = strdup(scratch_path(name));
        write_file(file_name(i), data, FILE_SIZE);
        evict(file_name(i));
    }
    free(data);
    return !is_resident(file_name(0), 0, 4096);
}

static bool ask(tarn__ahead *a, uint32_t file, uint64_t offset, uint64_t size)
{
    tarn__ahead_part *part = malloc(sizeof *part);
    *part = (tarn__ahead_part){file, offset, size};
    return tarn__ahead_read(a, part, 1);
}

static void a_call_returns_when_the_parts_before_it_have_been_read(void **state)
{
    (void)state;
    make_files();
    tarn__ahead *a = tarn__ahead_new(open_file, NULL);
    tarn__ahead_part *parts = malloc(3 * sizeof *parts);
    parts[0] = (tarn__ahead_part){0, 4096, 2 << 20};
    parts[1] = (tarn__ahead_part){2, 0, 100};
    parts[2] = (tarn__ahead_part){1, FILE_SIZE - 4096, 4096};
    assert_true(tarn__ahead_read(a, parts, 3));
    assert_true(ask(a, 1, 0, 1 << 20));
    assert_true(is_resident(file_name(0), 4096, 4096 + (2 << 20)));
    assert_true(is_resident(file_name(2), 0, 100));
    assert_true(is_resident(file_name(1), FILE_SIZE - 4096, FILE_SIZE));
    assert_true(ask(a, 0, 0, 1));
    assert_true(is_resident(file_name(1), 0, 1 << 20));
    tarn__ahead_free(a);
    tarn__ahead_free(tarn__ahead_new(open_file, NULL)); /* without a thread */
    tarn__ahead_free(NULL);
}

static void files_that_cannot_be_opened_or_end_early_are_skipped(void **state)
{
    (void)state;
    make_files();
    tarn__ahead *a = tarn__ahead_new(open_file, NULL);
    assert_true(ask(a, BROKEN, 0, 1 << 20));
    assert_true(ask(a, 0, FILE_SIZE - 10, UINT64_MAX / 2));
    assert_true(ask(a, 0, UINT64_MAX / 4, 1 << 20));
    assert_int_equal(truncate(file_name(1), 5), 0);
    assert_true(ask(a, 1, 0, FILE_SIZE));
    assert_true(ask(a, 2, 0, FILE_SIZE));
    assert_true(ask(a, 2, 0, 1));
    assert_true(is_resident(file_name(2), 0, FILE_SIZE));
    tarn__ahead_free(a);
}

static void a_child_reads_with_a_thread_of_its_own(void **state)
{
    (void)state;
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
    skip(); /* it allows no threads after a fork */
#endif
#endif
    make_files();
    tarn__ahead *a = tarn__ahead_new(open_file, NULL);
    assert_true(ask(a, 0, 0, FILE_SIZE));
    pid_t pid = fork();
    if (pid == 0) {
        bool good = ask(a, 1, 0, FILE_SIZE) && ask(a, 1, 0, 1) &&
                    is_resident(file_name(1), 0, FILE_SIZE);
        tarn__ahead_free(a);
        _exit(good ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    pid = fork();
    if (pid == 0) {
        tarn__ahead_free(a); /* there is no thread to end */
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(ask(a, 2, 0, FILE_SIZE));
    tarn__ahead_free(a);
}

static tarn__item item_at(uint32_t file, uint64_t offset)
{
    return (tarn__item){.spot = {.file = file, .offset = offset, .size = 1000}};
}

static void items_follow_each_other_across_files_only_in_their_order(void **state)
{
    (void)state;
    tarn__item items[60];
    for (uint32_t i = 0; i < 60; i++)
        items[i] = item_at(i / 20, (i % 20) * 2048);
    assert_true(tarn__items_follow(items, 60));
    items[59] = item_at(2, 10 << 20); /* a large gap */
    assert_false(tarn__items_follow(items, 60));
    for (uint32_t i = 0; i < 60; i++)
        items[i] = item_at(2 - i / 20, (i % 20) * 2048);
    assert_false(tarn__items_follow(items, 60));
    for (uint32_t i = 0; i < 60; i++)
        items[i] = item_at(i % 3, (i / 3) * 2048);
    assert_false(tarn__items_follow(items, 60));
}

/* --- Datasets ---------------------------------------------------------------------- */

static unsigned char *payload;

static void make_fold(const char *folder)
{
    tarn_fold_writer_options o = TARN_FOLD_WRITER_OPTIONS_INIT;
    tarn_fold_writer *w;
    o.overwrite = true;
    o.max_count = SAMPLES / 2;
    OK(tarn_fold_writer_open(scratch_path(folder), "t", &o, &w, &err));
    for (int i = 0; i < SAMPLES; i++) {
        char key[16];
        snprintf(key, sizeof key, "%06d", i);
        memset(payload, i + 1, SAMPLE_SIZE);
        tarn_field field = {"bin", payload, SAMPLE_SIZE, NULL};
        OK(tarn_fold_writer_add(w, key, &field, 1, &err));
    }
    OK(tarn_fold_writer_finish(w, NULL, 0, &err));
}

static const char *shard_path(const char *folder, int shard)
{
    char name[64];
    snprintf(name, sizeof name, "%s/t_%04d.tar", folder, shard);
    return scratch_path(name);
}

static tarn_dataset *open_cold(const char *folder, bool *out_evicted)
{
    tarn_dataset *d;
    make_fold(folder);
    evict(shard_path(folder, 0));
    evict(shard_path(folder, 1));
    *out_evicted = !is_resident(shard_path(folder, 1), 0, 4096);
    OK(tarn_dataset_open(scratch_path(folder), NULL, &d, &err));
    return d;
}

static void prefetch(tarn_dataset *d, uint64_t first, uint64_t count)
{
    uint64_t samples[SAMPLES];
    for (uint64_t i = 0; i < count; i++)
        samples[i] = first + i;
    OK(tarn_dataset_prefetch(d, samples, (size_t)count, NULL, 0, &err));
}

static bool sample_is_right(tarn_dataset *d, uint64_t number)
{
    tarn_view v;
    OK(tarn_dataset_get(d, number, 0, &v, &err));
    memset(payload, (int)number + 1, SAMPLE_SIZE);
    bool right = v.size == SAMPLE_SIZE && memcmp(v.data, payload, SAMPLE_SIZE) == 0;
    tarn_view_release(&v);
    return right;
}

static void samples_in_file_order_are_read_before_the_next_prefetch_returns(void **state)
{
    (void)state;
    bool evicted;
    tarn_dataset *d = open_cold("order", &evicted);
    prefetch(d, 0, 60); /* the second shard too */
    if (evicted) assert_non_null(atomic_load(&d->source->files.ahead));
    prefetch(d, 60, 36);
    uint64_t member = SAMPLE_SIZE + 512;
    assert_true(is_resident(shard_path("order", 0), 0, 48 * member));
    assert_true(is_resident(shard_path("order", 1), 0, 12 * member));
    for (uint64_t i = 0; i < SAMPLES; i++)
        assert_true(sample_is_right(d, i));
    tarn_dataset_close(d);
}

static void data_in_memory_needs_no_thread(void **state)
{
    (void)state;
    bool evicted;
    tarn_dataset *d = open_cold("warm", &evicted);
    for (uint64_t i = 0; i < SAMPLES; i++)
        assert_true(sample_is_right(d, i));
    prefetch(d, 0, SAMPLES);
    assert_null(atomic_load(&d->source->files.ahead));
    tarn_dataset_close(d);
}

static void a_shard_truncated_while_it_is_read_ahead_is_an_error_and_no_crash(
    void **state)
{
    (void)state;
    bool evicted;
    tarn_view v;
    tarn_dataset *d = open_cold("short", &evicted);
    prefetch(d, 0, 60);
    assert_int_equal(truncate(shard_path("short", 0), 1 << 20), 0);
    prefetch(d, 0, 90);
    FAILS(TARN_ERR_STALE, "size changed", tarn_dataset_get(d, 40, 0, &v, &err));
    assert_true(sample_is_right(d, 60));
    prefetch(d, 0, 90);
    tarn_dataset_close(d); /* possibly while the thread reads */
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_returns_when_the_parts_before_it_have_been_read),
        cmocka_unit_test(files_that_cannot_be_opened_or_end_early_are_skipped),
        cmocka_unit_test(a_child_reads_with_a_thread_of_its_own),
        cmocka_unit_test(items_follow_each_other_across_files_only_in_their_order),
        cmocka_unit_test(samples_in_file_order_are_read_before_the_next_prefetch_returns),
        cmocka_unit_test(data_in_memory_needs_no_thread),
        cmocka_unit_test(
            a_shard_truncated_while_it_is_read_ahead_is_an_error_and_no_crash),
    };
    payload = malloc(SAMPLE_SIZE);
    int failed = cmocka_run_group_tests(tests, NULL, scratch_remove);
    free(payload);
    for (uint32_t i = 0; i < FILES; i++)
        free(names[i]);
    return failed;
}
