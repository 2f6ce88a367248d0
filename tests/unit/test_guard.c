/* Maps whose file is truncated: zeros and a mark instead of a signal; other faults are
 * passed to the previous handler. */
#include "support.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/file.h"
#include "io/guard.h"

enum { PAGES = 8, PAGE = 4096, SIZE = PAGES * PAGE - 100 };

#define CHECK(cond)                                                                      \
    do {                                                                                 \
        if (cond) break;                                                                 \
        fprintf(stderr, "# %s:%d: not so: %s\n", __FILE__, __LINE__, #cond);             \
        _exit(1);                                                                        \
    } while (0)

static sigjmp_buf out_of_fault;
static volatile sig_atomic_t passed_on;

static void earlier_handler(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info, (void)context;
    passed_on++;
    siglongjmp(out_of_fault, 1);
}

/* The handler is set before any map is made, like a program's own handler. */
static void in_a_process(void (*test)(void))
{
    struct sigaction action = {.sa_sigaction = earlier_handler, .sa_flags = SA_SIGINFO};
    int status = -1;
    scratch();
    pid_t child = fork();
    if (child == 0) {
        CHECK(sigaction(SIGBUS, &action, NULL) == 0);
        CHECK(tarn_guard_maps());
        test();
        _exit(0);
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
}

static unsigned char *make_map(const char *name, int *out_fd)
{
    unsigned char *data = malloc(SIZE);
    CHECK(data);
    memset(data, 'x', SIZE);
    write_file(scratch_path(name), data, SIZE);
    free(data);
    *out_fd = open(scratch_path(name), O_RDWR | O_CLOEXEC);
    unsigned char *map = tarn__map(*out_fd, SIZE);
    CHECK(map);
    return map;
}

static void try_lost_pages_are_zeros_and_a_mark(void)
{
    int fd, other_fd;
    unsigned char *map = make_map("cut", &fd), *other = make_map("whole", &other_fd);
    CHECK(ftruncate(fd, 2 * PAGE) == 0);
    CHECK(map[PAGE] == 'x');
    CHECK(!tarn__map_is_torn(map));
    for (size_t i = 2 * PAGE; i < SIZE; i++)
        CHECK(map[i] == 0);
    CHECK(tarn__map_is_torn(map));
    CHECK(!tarn__map_is_torn(other));
    CHECK(passed_on == 0);
    tarn__unmap(map, SIZE);
    tarn__unmap(other, SIZE);
    CHECK(!tarn__map_is_torn(map));
    close(fd);
    close(other_fd);
}

static void try_other_faults_are_passed_on(void)
{
    int fd;
    unsigned char *ours = make_map("ours", &fd);
    volatile unsigned char *theirs = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, fd, 0);
    CHECK(theirs != MAP_FAILED);
    CHECK(ftruncate(fd, 0) == 0);
    passed_on = 0;
    if (sigsetjmp(out_of_fault, 1) == 0) {
        (void)theirs[PAGE];
        CHECK(passed_on); /* no effect */
    }
    CHECK(passed_on == 1);
    CHECK(ours[PAGE] == 0);
    munmap((void *)(uintptr_t)theirs, SIZE);
    tarn__unmap(ours, SIZE);
    close(fd);
}

/* Many maps are made and removed: each is found again, and marked only if its own file
 * was truncated. */
static void try_maps_come_and_go(void)
{
    enum { MAPS = 300 };
    unsigned char *maps[MAPS];
    int fd, cut_fd;
    tarn__unmap(make_map("many", &fd), SIZE);
    for (int turn = 0; turn < 20; turn++) {
        for (int i = 0; i < MAPS; i++)
            CHECK((maps[i] = tarn__map(fd, SIZE)) != NULL);
        unsigned char *cut = make_map("one", &cut_fd);
        CHECK(ftruncate(cut_fd, 0) == 0);
        CHECK(cut[3 * PAGE] == 0);
        CHECK(tarn__map_is_torn(cut));
        for (int i = 0; i < MAPS; i++) {
            int at = (i * 7 + turn) % MAPS;
            CHECK(!tarn__map_is_torn(maps[at]));
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

static void try_threads_may_fault_at_once(void)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    int fd;
    for (int turn = 0; turn < 20; turn++) {
        unsigned char *map = make_map("threads", &fd);
        for (int i = 0; i < THREADS; i++)
            CHECK(pthread_create(&threads[i], NULL, read_pages, map) == 0);
        CHECK(ftruncate(fd, 0) == 0);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        tarn__unmap(map, SIZE);
        close(fd);
    }
    CHECK(passed_on == 0);
}

static atomic_bool enough;

/* Like a map, but without its system calls, for which a fork waits, too. */
static void *add_and_remove(void *map)
{
    while (!atomic_load(&enough)) {
        tarn__guard_add(map, SIZE);
        tarn__guard_remove(map);
    }
    return NULL;
}

/* A child that finds the table locked would wait for a thread that it does not have. */
static void try_a_fork_finds_the_table_free(void)
{
    enum { THREADS = 2, FORKS = 400 };
    static char places[THREADS][SIZE];
    pthread_t threads[THREADS];
    int fd, status;
    tarn__unmap(make_map("forked", &fd), SIZE);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, add_and_remove, places[i]) == 0);
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        if (child == 0) {
            end_if_it_hangs();
            tarn__unmap(tarn__map(fd, SIZE), SIZE);
            _exit(0);
        }
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        CHECK(status == 0);
    }
    atomic_store(&enough, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    close(fd);
}

#define TEST(name)                                                                       \
    static void name(void **state)                                                       \
    {                                                                                    \
        (void)state;                                                                     \
        in_a_process(try_##name);                                                        \
    }

TEST(lost_pages_are_zeros_and_a_mark)
TEST(other_faults_are_passed_on)
TEST(maps_come_and_go)
TEST(threads_may_fault_at_once)
TEST(a_fork_finds_the_table_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lost_pages_are_zeros_and_a_mark),
        cmocka_unit_test(other_faults_are_passed_on),
        cmocka_unit_test(maps_come_and_go),
        cmocka_unit_test(threads_may_fault_at_once),
        cmocka_unit_test(a_fork_finds_the_table_free),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
