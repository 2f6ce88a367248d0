/* Maps whose file is cut: zeros and a mark instead of a signal; faults elsewhere are left
 * to whoever was there before. */
#include "support.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "io/file.h"
#include "io/guard.h"

enum { PAGES = 8, PAGE = 4096, SIZE = PAGES * PAGE - 100 };

static sigjmp_buf out_of_fault;
static volatile sig_atomic_t passed_on;
static tarn_error err;

static void earlier_handler(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info, (void)context;
    passed_on++;
    siglongjmp(out_of_fault, 1);
}

/* Before any map is made, as a program's own handler would be. */
static int set_handler(void **state)
{
    struct sigaction action = {.sa_sigaction = earlier_handler, .sa_flags = SA_SIGINFO};
    (void)state;
    return sigaction(SIGBUS, &action, NULL);
}

static unsigned char *make_map(const char *name, int *out_fd)
{
    unsigned char *data = malloc(SIZE);
    assert_non_null(data);
    memset(data, 'x', SIZE);
    write_file(scratch_path(name), data, SIZE);
    free(data);
    *out_fd = open(scratch_path(name), O_RDWR | O_CLOEXEC);
    unsigned char *map = tarn__map(*out_fd, SIZE);
    assert_non_null(map);
    return map;
}

static void lost_pages_are_zeros_and_a_mark(void **state)
{
    int fd, other_fd;
    (void)state;
    unsigned char *map = make_map("cut", &fd), *other = make_map("whole", &other_fd);
    unsigned mark = tarn__guard_mark();
    assert_int_equal(ftruncate(fd, 2 * PAGE), 0);
    assert_int_equal(map[PAGE], 'x');
    assert_false(tarn__map_is_torn(map));
    OK(tarn__guard_settle(mark, &err));
    for (size_t i = 2 * PAGE; i < SIZE; i++)
        assert_int_equal(map[i], 0);
    assert_true(tarn__map_is_torn(map));
    assert_false(tarn__map_is_torn(other));
    FAILS(TARN_ERR_STALE, "truncated while", tarn__guard_settle(mark, &err));
    assert_int_equal(passed_on, 0);
    tarn__unmap(map, SIZE);
    tarn__unmap(other, SIZE);
    assert_false(tarn__map_is_torn(map));
    close(fd);
    close(other_fd);
}

static void other_faults_are_passed_on(void **state)
{
    int fd;
    (void)state;
    unsigned char *ours = make_map("ours", &fd);
    volatile unsigned char *theirs = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_true(theirs != MAP_FAILED);
    assert_int_equal(ftruncate(fd, 0), 0);
    passed_on = 0;
    if (sigsetjmp(out_of_fault, 1) == 0) {
        (void)theirs[PAGE];
        fail();
    }
    assert_int_equal(passed_on, 1);
    assert_int_equal(ours[PAGE], 0);
    munmap((void *)(uintptr_t)theirs, SIZE);
    tarn__unmap(ours, SIZE);
    close(fd);
}

/* Many maps come and go: each is found again, and torn only if its own file was cut. */
static void maps_come_and_go(void **state)
{
    enum { MAPS = 300 };
    unsigned char *maps[MAPS];
    int fd, cut_fd;
    (void)state;
    tarn__unmap(make_map("many", &fd), SIZE);
    for (int turn = 0; turn < 20; turn++) {
        for (int i = 0; i < MAPS; i++)
            assert_non_null(maps[i] = tarn__map(fd, SIZE));
        unsigned char *cut = make_map("one", &cut_fd);
        assert_int_equal(ftruncate(cut_fd, 0), 0);
        assert_int_equal(cut[3 * PAGE], 0);
        assert_true(tarn__map_is_torn(cut));
        for (int i = 0; i < MAPS; i++) {
            int at = (i * 7 + turn) % MAPS;
            assert_false(tarn__map_is_torn(maps[at]));
            tarn__unmap(maps[at], SIZE);
        }
        tarn__unmap(cut, SIZE);
        close(cut_fd);
    }
    close(fd);
}

static void *read_pages(void *map)
{
    volatile unsigned char *p = map;
    unsigned sum = 0;
    for (int turn = 0; turn < 50; turn++)
        for (size_t i = 0; i < SIZE; i += 64)
            sum += p[i];
    return (void *)(uintptr_t)sum;
}

static void threads_may_fault_at_once(void **state)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    int fd;
    (void)state;
    for (int turn = 0; turn < 20; turn++) {
        unsigned char *map = make_map("threads", &fd);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, read_pages, map), 0);
        assert_int_equal(ftruncate(fd, 0), 0);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        tarn__unmap(map, SIZE);
        close(fd);
    }
    assert_int_equal(passed_on, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lost_pages_are_zeros_and_a_mark),
        cmocka_unit_test(other_faults_are_passed_on),
        cmocka_unit_test(maps_come_and_go),
        cmocka_unit_test(threads_may_fault_at_once),
    };
    return cmocka_run_group_tests(tests, set_handler, scratch_remove);
}
