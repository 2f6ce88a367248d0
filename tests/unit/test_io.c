/* Positional reads, windows, the file cache, publication, files in a folder. */
#include "support.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "io/beneath.h"
#include "io/file.h"
#include "io/filecache.h"
#include "io/publish.h"
#include "io/window.h"

static tarn_error err;

static void make_bytes(const char *path, size_t size)
{
    unsigned char *data = malloc(size + 1);
    for (size_t i = 0; i < size; i++)
        data[i] = (unsigned char)(i * 2654435761u >> 13);
    write_file(path, data, size);
    free(data);
}

static bool bytes_are_right(const unsigned char *data, uint64_t offset, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (data[i] != (unsigned char)((offset + i) * 2654435761u >> 13)) return false;
    return true;
}

static void opening_something_else_than_a_regular_file_is_refused(void **state)
{
    (void)state;
    tarn__file file;
    FAILS(TARN_ERR_UNSUPPORTED, "not a regular file",
          tarn__file_open(&file, "/dev", &err));
    FAILS(TARN_ERR_NO_FILE, "No such file",
          tarn__file_open(&file, "/nowhere/at/all", &err));
    assert_string_equal(err.path, "/nowhere/at/all");
}

static void reading_past_the_end_is_short_or_an_error(void **state)
{
    (void)state;
    const char *path = scratch_path("short");
    char buf[100];
    size_t got;
    tarn__file file;
    make_bytes(path, 50);
    OK(tarn__file_open(&file, path, &err));
    OK(tarn__read_at(file.fd, path, buf, 100, 20, &got, &err));
    assert_int_equal(got, 30);
    FAILS(TARN_ERR_TRUNCATED, "found 30 of 100 bytes",
          tarn__read_exact(file.fd, path, buf, 100, 20, &err));
    assert_int_equal(err.offset, 20);
    FAILS(TARN_ERR_FORMAT, "larger than any file",
          tarn__read_at(file.fd, path, buf, 10, UINT64_MAX - 5, &got, &err));
    tarn__file_close(&file);
}

/* Walks with steps of one size and of mixed sizes; every byte must be the file's. */
static void walk_window(const char *path, tarn__window_use use, size_t step)
{
    tarn__file file;
    tarn__window window;
    OK(tarn__file_open(&file, path, &err));
    OK(tarn__window_open(&window, &file, use, &err));
    for (uint64_t at = 0; at + 512 <= file.size; at += step) {
        const unsigned char *data = NULL;
        OK(tarn__window_get(&window, at, 512, &data, &err));
        assert_true(bytes_are_right(data, at, 512));
        if (at % 7 == 0 && file.size - at > (1 << 20)) {
            OK(tarn__window_get(&window, at, 1 << 20, &data, &err));
            assert_true(bytes_are_right(data + (1 << 20) - 64, at + (1 << 20) - 64, 64));
        }
    }
    const unsigned char *data = NULL;
    FAILS(TARN_ERR_TRUNCATED, "the file has",
          tarn__window_get(&window, file.size - 100, 512, &data, &err));
    tarn__window_close(&window);
    tarn__file_close(&file);
}

static void evict(const char *path)
{
    int fd = open(path, O_RDWR);
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

static void window_shows_the_files_bytes_however_it_reads(void **state)
{
    (void)state;
    const char *path = scratch_path("window");
    static const size_t steps[] = {512, 1536, 20480, 1 << 20, 3 << 20};
    make_bytes(path, (21 << 20) + 777);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        walk_window(path, TARN__WINDOW_HOP, steps[i]);
        walk_window(path, TARN__WINDOW_ALL, steps[i]);
        evict(path);
        walk_window(path, TARN__WINDOW_HOP, steps[i]);
        evict(path);
        walk_window(path, TARN__WINDOW_ALL, steps[i]);
    }
}

enum { FILES = 40, FILE_SIZE = 3000 };

static char cache_paths[FILES][512];

static tarn__filecache *make_cache(tarn__filecache_io io)
{
    const char *paths[FILES];
    uint64_t sizes[FILES];
    tarn__filecache *cache;
    for (int i = 0; i < FILES; i++) {
        char name[32];
        snprintf(name, sizeof name, "cached%d", i);
        snprintf(cache_paths[i], sizeof cache_paths[i], "%s", scratch_path(name));
        make_bytes(cache_paths[i], FILE_SIZE);
        paths[i] = cache_paths[i];
        sizes[i] = FILE_SIZE;
    }
    OK(tarn__filecache_new(paths, sizes, FILES, io, &cache, &err));
    return cache;
}

static void view_of_a_file_that_was_cut_is_an_error(void **state)
{
    (void)state;
    for (tarn__filecache_io io = TARN__IO_AUTO; io <= TARN__IO_READ; io++) {
        tarn__filecache *cache = make_cache(io);
        tarn_view view;
        OK(tarn__filecache_view(cache, 3, 100, 200, &view, &err));
        assert_true(bytes_are_right(view.data, 100, 200));
        tarn_view_release(&view);
        assert_int_equal(truncate(cache_paths[3], 1000), 0);
        tarn_status status = tarn__filecache_view(cache, 3, 1500, 200, &view, &err);
        assert_true(status == TARN_ERR_STALE || status == TARN_ERR_TRUNCATED);
        assert_string_equal(err.path, cache_paths[3]);
        tarn__filecache_free(cache);
    }
}

static void file_of_another_size_is_refused_when_it_is_opened(void **state)
{
    (void)state;
    tarn__filecache *cache = make_cache(TARN__IO_AUTO);
    tarn_view view;
    make_bytes(cache_paths[7], FILE_SIZE + 1);
    FAILS(TARN_ERR_STALE, "found 3001 bytes, expected 3000",
          tarn__filecache_view(cache, 7, 0, 10, &view, &err));
    FAILS(TARN_ERR_TRUNCATED, "the file has only 3000 bytes",
          tarn__filecache_view(cache, 8, 2995, 10, &view, &err));
    tarn__filecache_free(cache);
}

typedef struct reader {
    tarn__filecache *cache;
    atomic_int failures;
} reader;

static void *read_around(void *arg)
{
    reader *r = arg;
    unsigned char buf[64];
    for (unsigned i = 0; i < 2000; i++) {
        size_t number = i * 7919u % FILES;
        uint64_t offset = i * 31 % (FILE_SIZE - 64);
        tarn_view view;
        tarn_status status;
        if (i % 2) {
            status = tarn__filecache_read(r->cache, number, offset, buf, 64, NULL);
            if (status != TARN_OK || !bytes_are_right(buf, offset, 64)) r->failures++;
        } else {
            status = tarn__filecache_view(r->cache, number, offset, 64, &view, NULL);
            if (status != TARN_OK || !bytes_are_right(view.data, offset, 64))
                r->failures++;
            if (status == TARN_OK) tarn_view_release(&view);
        }
    }
    return NULL;
}

/* With fewer descriptors than files, eviction and reading compete. */
static void threads_share_few_descriptors(void **state)
{
    (void)state;
    struct rlimit before, few;
    getrlimit(RLIMIT_NOFILE, &before);
    few = before;
    few.rlim_cur = 32;
    setrlimit(RLIMIT_NOFILE, &few);
    for (tarn__filecache_io io = TARN__IO_AUTO; io <= TARN__IO_READ; io++) {
        reader r = {.cache = make_cache(io)};
        pthread_t threads[8];
        for (int i = 0; i < 8; i++)
            pthread_create(&threads[i], NULL, read_around, &r);
        for (int i = 0; i < 8; i++)
            pthread_join(threads[i], NULL);
        assert_int_equal(r.failures, 0);
        tarn__filecache_free(r.cache);
    }
    setrlimit(RLIMIT_NOFILE, &before);
}

/* Folds of a mix, for example. Without a common budget, each would take a quarter of the
 * descriptors and keep them. */
static void caches_share_the_descriptors_of_the_process(void **state)
{
    (void)state;
    enum { CACHES = 12, AT_LEAST = 4 };
    struct rlimit before, few;
    reader readers[CACHES];
    getrlimit(RLIMIT_NOFILE, &before);
    few = before;
    few.rlim_cur = 256;
    setrlimit(RLIMIT_NOFILE, &few);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < CACHES; i++)
            readers[i] = (reader){.cache = make_cache(TARN__IO_AUTO)};
        for (int i = 0; i < CACHES; i++) {
            read_around(&readers[i]);
            assert_int_equal(readers[i].failures, 0);
        }
        int next = open("/dev/null", O_RDONLY); /* the lowest free descriptor */
        assert_in_range(next, 0, 256 / 2 + AT_LEAST * CACHES);
        close(next);
        for (int i = 0; i < CACHES; i++)
            tarn__filecache_free(readers[i].cache);
    }
    setrlimit(RLIMIT_NOFILE, &before);
}

static void published_file_appears_whole_or_not_at_all(void **state)
{
    (void)state;
    const char *path = scratch_path("published");
    tarn__publish p;
    size_t size;
    write_file(path, "old", 3);
    OK(tarn__publish_begin(&p, path, &err));
    OK(tarn__publish_write(&p, "new bytes", 9, &err));
    char *temporary = strdup(p.temporary);
    assert_int_equal(access(temporary, F_OK), 0);
    unsigned char *before = read_file(path, &size);
    assert_memory_equal(before, "old", 3);
    OK(tarn__publish_finish(&p, &err));
    unsigned char *after = read_file(path, &size);
    assert_int_equal(size, 9);
    assert_memory_equal(after, "new bytes", 9);
    assert_int_not_equal(access(temporary, F_OK), 0);
    free(before);
    free(after);
    free(temporary);
}

static void abandoned_file_leaves_nothing(void **state)
{
    (void)state;
    const char *path = scratch_path("abandoned");
    tarn__publish p;
    OK(tarn__publish_begin(&p, path, &err));
    OK(tarn__publish_write(&p, "bytes", 5, &err));
    char *temporary = strdup(p.temporary);
    tarn__publish_abandon(&p);
    tarn__publish_abandon(&p);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_not_equal(access(temporary, F_OK), 0);
    free(temporary);
    FAILS(TARN_ERR_NO_FILE, "cannot create",
          tarn__publish_begin(&p, scratch_path("no/such/folder"), &err));
}

static void check_is_not_replaced(const char *path, const char *kind)
{
    struct stat before, after;
    tarn__publish p;
    assert_int_equal(lstat(path, &before), 0);
    FAILS(TARN_ERR_UNSUPPORTED, kind, tarn__publish_begin(&p, path, &err));
    assert_int_equal(lstat(path, &after), 0);
    assert_int_equal(after.st_ino, before.st_ino);
    assert_int_equal(after.st_mode, before.st_mode);
}

static void only_files_are_replaced(void **state)
{
    (void)state;
    char *path = strdup(scratch_path("special"));
    assert_int_equal(mkfifo(path, 0600), 0);
    check_is_not_replaced(path, "is a pipe");
    assert_int_equal(symlink(path, scratch_path("special_link")), 0);
    check_is_not_replaced(scratch_path("special_link"), "is a pipe");
    unlink(path);
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    check_is_not_replaced(path, "is a socket");
    close(fd);
    unlink(path);
    check_is_not_replaced(scratch_path(""), "is a folder");
    if (mknod(path, S_IFCHR | 0600, makedev(1, 3)) == 0)
        check_is_not_replaced(path, "is a device");
    free(path);
}

/* A pipe cannot be synced. */
static void a_failed_sync_is_an_error_and_leaves_nothing(void **state)
{
    (void)state;
    const char *path = scratch_path("unsynced");
    int ends[2];
    for (int finish = 0; finish < 2; finish++) {
        tarn__publish p;
        OK(tarn__publish_begin(&p, path, &err));
        char *temporary = strdup(p.temporary);
        assert_int_equal(pipe(ends), 0);
        assert_int_equal(dup2(ends[1], p.fd), p.fd);
        FAILS(TARN_ERR_IO, "cannot sync",
              finish ? tarn__publish_finish(&p, &err) : tarn__publish_sync(&p, &err));
        assert_int_not_equal(access(path, F_OK), 0);
        assert_int_not_equal(access(temporary, F_OK), 0);
        tarn__publish_abandon(&p);
        close(ends[0]);
        close(ends[1]);
        free(temporary);
    }
}

static unsigned count_temporaries(void)
{
    unsigned n = 0;
    DIR *dir = opendir(scratch());
    struct dirent *entry;
    while ((entry = readdir(dir)))
        n += strncmp(entry->d_name, ".swept.tmp-", 11) == 0;
    closedir(dir);
    return n;
}

/* A file that a killed writer left is removed by the next one; one in use is not. */
static void left_over_temporaries_are_swept(void **state)
{
    (void)state;
    const char *path = scratch_path("swept");
    tarn__publish one, two;
    write_file(scratch_path(".swept.tmp-1-0-00000000"), "left", 4);
    OK(tarn__publish_begin(&one, path, &err));
    assert_int_equal(count_temporaries(), 1);
    OK(tarn__publish_begin(&two, path, &err));
    assert_int_equal(count_temporaries(), 2);
    OK(tarn__publish_finish(&two, &err));
    tarn__publish_abandon(&one);
    assert_int_equal(count_temporaries(), 0);
}

/* Replaces the C library's function: another writer sweeps just before the lock is taken.
 */
static int sweeps_left;

int flock(int fd, int operation)
{
    if (sweeps_left > 0) {
        char command[600];
        sweeps_left--;
        snprintf(command, sizeof command, "rm '%s'/.raced.tmp-*", scratch());
        assert_int_equal(system(command), 0);
    }
    return (int)syscall(SYS_flock, fd, operation);
}

static void a_file_that_is_swept_before_it_is_locked_is_made_again(void **state)
{
    (void)state;
    const char *path = scratch_path("raced");
    tarn__publish p;
    size_t size;
    sweeps_left = 3;
    OK(tarn__publish_begin_swept(&p, path, &err));
    assert_int_equal(sweeps_left, 0);
    OK(tarn__publish_write(&p, "bytes", 5, &err));
    OK(tarn__publish_finish(&p, &err));
    free(read_file(path, &size));
    assert_int_equal(size, 5);
}

static tarn_status put(int root, const char *name)
{
    const tarn__payload x = {.data = "x", .size = 1};
    return tarn__write_beneath(root, "root", name, strlen(name), false, &x, &err);
}

static void nothing_is_written_outside_the_folder(void **state)
{
    (void)state;
    int root;
    char outside[512];
    snprintf(outside, sizeof outside, "%s", scratch_path("outside"));
    mkdir(outside, 0755);
    OK(tarn__open_folder(scratch_path("root"), &root, &err));
    assert_int_equal(symlinkat(outside, root, "link"), 0);
    assert_int_equal(symlinkat("../outside/file", root, "filelink"), 0);
    FAILS(TARN_ERR_UNSUPPORTED, "..", put(root, "../outside/a"));
    FAILS(TARN_ERR_UNSUPPORTED, "..", put(root, "a/../../outside/a"));
    FAILS(TARN_ERR_UNSUPPORTED, "symbolic link", put(root, "link/a"));
    FAILS(TARN_ERR_EXISTS, "already exists", put(root, "filelink"));
    FAILS(TARN_ERR_UNSUPPORTED, "control", put(root, "a\nb"));
    FAILS(TARN_ERR_UNSUPPORTED, "no file name", put(root, "./"));
    FAILS(TARN_ERR_UNSUPPORTED, "no file name", put(root, "dir/"));
    OK(put(root, "/etc/passwd"));
    OK(put(root, ".//deep/./er/file"));
    OK(put(root, "...")); /* an odd name, but a valid one */
    FAILS(TARN_ERR_EXISTS, "already exists", put(root, "deep/er/file"));
    assert_int_equal(faccessat(root, "etc/passwd", F_OK, 0), 0);
    assert_int_not_equal(access(scratch_path("outside/a"), F_OK), 0);
    assert_int_not_equal(access(scratch_path("outside/file"), F_OK), 0);
    const tarn__payload y = {.data = "y", .size = 1};
    OK(tarn__write_beneath(root, "root", "filelink", 8, true, &y, &err));
    assert_int_not_equal(access(scratch_path("outside/file"), F_OK), 0);
    close(root);
}

/* A process could be killed here with all bytes written. */
static tarn_status look_for_name(void *context, tarn_error *why)
{
    size_t size;
    if (*(bool *)context)
        free(read_file(scratch_path("late/file"), &size));
    else
        assert_int_not_equal(access(scratch_path("late/file"), F_OK), 0);
    return tarn__fail(why, TARN_ERR_STALE, "not this one");
}

static void an_extracted_file_gets_its_name_when_complete(void **state)
{
    (void)state;
    int root;
    bool there = false;
    tarn__payload payload = {"x", 1, look_for_name, &there};
    OK(tarn__open_folder(scratch_path("late"), &root, &err));
    FAILS(TARN_ERR_STALE, "not this one",
          tarn__write_beneath(root, "late", "file", 4, false, &payload, &err));
    assert_int_not_equal(access(scratch_path("late/file"), F_OK), 0);
    OK(put(root, "file"));
    there = true;
    FAILS(TARN_ERR_STALE, "not this one",
          tarn__write_beneath(root, "late", "file", 4, true, &payload, &err));
    assert_int_equal(access(scratch_path("late/file"), F_OK), 0);
    close(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_something_else_than_a_regular_file_is_refused),
        cmocka_unit_test(reading_past_the_end_is_short_or_an_error),
        cmocka_unit_test(window_shows_the_files_bytes_however_it_reads),
        cmocka_unit_test(view_of_a_file_that_was_cut_is_an_error),
        cmocka_unit_test(file_of_another_size_is_refused_when_it_is_opened),
        cmocka_unit_test(threads_share_few_descriptors),
        cmocka_unit_test(caches_share_the_descriptors_of_the_process),
        cmocka_unit_test(published_file_appears_whole_or_not_at_all),
        cmocka_unit_test(abandoned_file_leaves_nothing),
        cmocka_unit_test(only_files_are_replaced),
        cmocka_unit_test(a_failed_sync_is_an_error_and_leaves_nothing),
        cmocka_unit_test(left_over_temporaries_are_swept),
        cmocka_unit_test(a_file_that_is_swept_before_it_is_locked_is_made_again),
        cmocka_unit_test(nothing_is_written_outside_the_folder),
        cmocka_unit_test(an_extracted_file_gets_its_name_when_complete),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
