/* One cache used by many processes and threads at once: every byte is right, every block
 * is fetched once, and killed processes hold up nobody. */
#include "caching.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 6, LARGE = 1500, THREADS = 12, PATIENCE = 60000 };

/* Of each block: how often it was claimed, and how often a claim ended without it. */
typedef struct counts {
    atomic_uint claimed[LARGE], lost[LARGE];
    atomic_uint wrong;
} counts;

static counts *shared;

static void make_counts(void)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
}

static uint32_t draw(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static tarn__cached *open_large(tarn__cachedir *cache)
{
    return open_sized(cache, DATASET, URL, "large", (uint64_t)LARGE * BLOCK - 77);
}

static void count_span(const tarn__cached_span *s, atomic_uint *counters)
{
    for (uint64_t b = s->first; b < s->first + s->count; b++)
        atomic_fetch_add(&counters[b], 1);
}

/* What the user of a claim does: it stores it, gives it up, or dies. */
static void use_claim(tarn__cached *c, const tarn__cached_span *s, uint32_t *seed,
                      bool may_die)
{
    unsigned what = draw(seed) % 16;
    count_span(s, shared->claimed);
    if (what < 2) {
        count_span(s, shared->lost);
        if (what == 1 && may_die) kill(getpid(), SIGKILL);
        tarn__cached_give_up(c, s->first, s->count);
    } else if (s->count > 1 && what < 8) { /* in two parts */
        OK(put(c, s->first + 1, s->count - 1));
        OK(put(c, s->first, 1));
    } else {
        OK(put(c, s->first, s->count));
    }
}

static void check_there(tarn__cached *c, const tarn__cached_span *s)
{
    unsigned char got[BLOCK], want[BLOCK];
    uint64_t at = s->first * BLOCK;
    size_t len = at + BLOCK < c->size ? BLOCK : (size_t)(c->size - at);
    object_bytes(want, at, len);
    if (pread(c->fd, got, len, (off_t)at) != (ssize_t)len || memcmp(got, want, len) != 0)
        atomic_fetch_add(&shared->wrong, 1);
}

static void use_range(tarn__cached *c, uint32_t *seed, bool may_die)
{
    tarn__cached_span s[6];
    size_t n;
    uint64_t end, at = (uint64_t)(draw(seed) % LARGE) * BLOCK + draw(seed) % 50;
    uint64_t size = draw(seed) % (20 * BLOCK);
    if (at > c->size) return;
    if (size > c->size - at) size = c->size - at;
    tarn_error why;
    if (tarn__cached_claim(c, at, size, s, 6, &n, &end, &why) != TARN_OK)
        atomic_fetch_add(&shared->wrong, 1);
    for (size_t i = 0; i < n; i++) {
        if (s[i].state == TARN__CACHED_CLAIMED) use_claim(c, &s[i], seed, may_die);
        if (s[i].state == TARN__CACHED_THERE) check_there(c, &s[i]);
        if (s[i].state == TARN__CACHED_PASSED) atomic_fetch_add(&shared->wrong, 1);
    }
    for (size_t i = 0; i < n; i++)
        if (s[i].state == TARN__CACHED_BUSY &&
            !tarn__cached_wait(c, s[i].first, s[i].count, PATIENCE, NULL))
            atomic_fetch_add(&shared->wrong, 1);
}

static void work(tarn__cached *c, uint32_t seed, bool may_die)
{
    while (!tarn__cached_complete(c)) {
        use_range(c, &seed, may_die);
        if (draw(&seed) % 64 == 0) /* the rest, which random ranges rarely hit */
            for (uint64_t b = 0; b < LARGE && !tarn__cached_complete(c); b += 8)
                (void)tarn__cached_has(c, b * BLOCK, 1);
    }
}

static pid_t start(uint32_t seed)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child) return child;
    tarn__cachedir *cache = open_cache("c", 0);
    tarn__cached *c = open_large(cache);
    work(c, seed, true);
    tarn__cached_close(c);
    tarn__cachedir_close(cache);
    _exit(0);
}

static void check_counts(tarn__cached *c)
{
    assert_true(tarn__cached_complete(c));
    assert_int_equal(check_bytes(c), LARGE);
    assert_int_equal(shared->wrong, 0);
    for (int b = 0; b < LARGE; b++)
        assert_int_equal(shared->claimed[b], 1 + shared->lost[b]);
}

static void processes_that_are_killed_hold_up_nobody(void **state)
{
    (void)state;
    unsigned running = 0, killed = 0, seed = 1;
    int how;
    make_counts();
    for (; running < PROCESSES; running++)
        (void)start(seed++);
    while (running) {
        assert_true(wait(&how) > 0);
        running--;
        if (WIFSIGNALED(how)) {
            assert_int_equal(WTERMSIG(how), SIGKILL);
            killed++;
            (void)start(seed++);
            running++;
        } else {
            assert_int_equal(WEXITSTATUS(how), 0);
        }
    }
    assert_true(killed > 0);
    tarn__cachedir *cache = open_cache("c", 0);
    tarn__cached *c = open_large(cache);
    check_counts(c);
    tarn__cached_close(c);
    tarn__cachedir_close(cache);
}

typedef struct worker {
    pthread_t thread;
    tarn__cached *c;
    uint32_t seed;
} worker;

static void *run_worker(void *context)
{
    worker *w = context;
    work(w->c, w->seed, false);
    return NULL;
}

/* Two handles, so that threads meet in the table and in the locks. */
static void threads_fetch_each_block_once(void **state)
{
    (void)state;
    worker workers[THREADS];
    make_counts();
    tarn__cachedir *cache = open_cache("c", 0);
    tarn__cached *both[2] = {open_large(cache), open_large(cache)};
    for (uint32_t i = 0; i < THREADS; i++) {
        workers[i] = (worker){.c = both[i % 2], .seed = i};
        assert_int_equal(
            pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    check_counts(both[0]);
    tarn__cached_close(both[0]);
    tarn__cached_close(both[1]);
    tarn__cachedir_close(cache);
}

/* --- Eviction ----------------------------------------------------------------------- */

enum { ROUNDS = 60, SMALL = 30 };

static tarn__cached *open_any(tarn__cachedir *cache, uint32_t *seed)
{
    static const char *const datasets[] = {"one", "two", "three"};
    static const char *const urls[] = {"https://h/a.tar", "https://h/b.tar"};
    static const char *const etags[] = {"1", "2"};
    return open_sized(cache, datasets[draw(seed) % 3], urls[draw(seed) % 2],
                      etags[draw(seed) % 2], SMALL * BLOCK - 5);
}

/* Opens, fills, checks and closes objects, in a cache that has room for a few. */
static void churn(uint32_t seed)
{
    tarn__cachedir *cache = open_cache("c", 3 * SMALL * BLOCK);
    for (int i = 0; i < ROUNDS; i++) {
        tarn__cached *c = open_any(cache, &seed);
        (void)check_bytes(c);
        fill(c);
        if (draw(&seed) % 8 == 0) tarn__cached_drop(c, draw(&seed) % SMALL, 1);
        fill(c);
        (void)check_bytes(c);
        if (draw(&seed) % 4) {
            tarn__cached_close(c);
            continue;
        }
        cache->evict_from = 0;
        tarn__cached_close(c);
        tarn__cachedir_close(cache);
        if (draw(&seed) % 16 == 0) kill(getpid(), SIGKILL);
        cache = open_cache("c", 3 * SMALL * BLOCK);
    }
    tarn__cachedir_close(cache);
}

static void objects_that_are_evicted_and_opened_at_once_are_right(void **state)
{
    (void)state;
    int how;
    for (uint32_t i = 0; i < 4; i++)
        if (fork() == 0) {
            churn(i);
            _exit(0);
        }
    for (int i = 0; i < 4; i++) {
        assert_true(wait(&how) > 0);
        assert_true(how == 0 || (WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL));
    }
    tarn__cachedir *cache = open_cache("c", 0);
    assert_in_range(cache->written, 1, 4 * SMALL * BLOCK + 12 * 2 * BLOCK);
    tarn__cachedir_close(cache);
}

/* --- Fork ------------------------------------------------------------------------- */

static void say(int fd)
{
    assert_int_equal(write(fd, "x", 1), 1);
}

static void hear(int fd)
{
    char byte;
    assert_int_equal(read(fd, &byte, 1), 1);
}

/* The parent claims, forks, and is killed; its child lives on. */
static void a_claim_does_not_live_on_in_a_child(void **state)
{
    (void)state;
    int ready[2], stop[2], how;
    assert_int_equal(pipe(ready) | pipe(stop), 0);
    pid_t parent = fork();
    assert_true(parent >= 0);
    if (parent == 0) {
        tarn__cachedir *cache = open_cache("c", 0);
        tarn__cached *c = open_object(cache, URL, "1");
        claims(c, 0, 10, TARN__CACHED_CLAIMED);
        if (fork() == 0) {
            close(stop[1]);
            say(ready[1]);
            char byte;
            _exit((int)read(stop[0], &byte, 1));
        }
        for (;;)
            pause();
    }
    hear(ready[0]);
    tarn__cachedir *cache = open_cache("c", 0);
    tarn__cached *c = open_object(cache, URL, "1");
    claims(c, 0, 10, TARN__CACHED_BUSY);
    assert_false(tarn__cached_wait(c, 0, 10, 1, NULL));
    assert_int_equal(kill(parent, SIGKILL), 0);
    assert_int_equal(waitpid(parent, &how, 0), parent);
    assert_true(tarn__cached_wait(c, 0, 10, PATIENCE, NULL));
    claims(c, 0, 10, TARN__CACHED_CLAIMED);
    OK(put(c, 0, 10));
    close(stop[1]);
    close(stop[0]);
    tarn__cached_close(c);
    tarn__cachedir_close(cache);
}

/* A child uses the handles that it inherited. */
static void a_child_has_its_own_claims(void **state)
{
    (void)state;
    int how;
    tarn__cachedir *cache = open_cache("c", 0);
    tarn__cached *c = open_object(cache, URL, "1");
    claims(c, 0, 10, TARN__CACHED_CLAIMED);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool good = true;
        claims(c, 0, 10, TARN__CACHED_BUSY);
        good &= put(c, 0, 1) == TARN_ERR_USAGE;
        claims(c, 20, 5, TARN__CACHED_CLAIMED);
        good &= put(c, 20, 2) == TARN_OK;
        good &= cache->slot == 1;
        _exit(good ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
    claims(c, 20, 2, TARN__CACHED_THERE);
    claims(c, 22, 3, TARN__CACHED_CLAIMED);
    OK(put(c, 0, 10));
    OK(put(c, 22, 3));
    assert_int_equal(check_bytes(c), 15);
    tarn__cached_close(c);
    tarn__cachedir_close(cache);
}

/* --- Waiting ------------------------------------------------------------------------ */

typedef struct waiter {
    tarn__cached *c;
    atomic_bool cancel;
    bool result;
} waiter;

static void *run_waiter(void *context)
{
    waiter *w = context;
    w->result = tarn__cached_wait(w->c, 0, 8, PATIENCE, &w->cancel);
    return NULL;
}

static void waiting_ends_with_the_claim_or_by_cancel(void **state)
{
    (void)state;
    pthread_t thread;
    tarn__cachedir *cache = open_cache("c", 0);
    tarn__cached *a = open_object(cache, URL, "1"), *b = open_object(cache, URL, "1");
    claims(a, 0, 8, TARN__CACHED_CLAIMED);
    for (int i = 0; i < 2; i++) {
        waiter w = {.c = i ? a : b};
        assert_int_equal(pthread_create(&thread, NULL, run_waiter, &w), 0);
        atomic_store(&w.cancel, true);
        pthread_join(thread, NULL);
        assert_false(w.result);
    }
    for (int i = 0; i < 2; i++) {
        waiter w = {.c = i ? a : b};
        assert_int_equal(pthread_create(&thread, NULL, run_waiter, &w), 0);
        if (i)
            OK(put(a, 0, 8));
        else
            tarn__cached_give_up(a, 0, 8);
        pthread_join(thread, NULL);
        assert_true(w.result);
        if (!i) claims(a, 0, 8, TARN__CACHED_CLAIMED);
    }
    assert_true(tarn__cached_wait(b, 0, BLOCKS, PATIENCE, NULL));
    tarn__cached_close(a);
    tarn__cached_close(b);
    tarn__cachedir_close(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_OWN_FOLDER(processes_that_are_killed_hold_up_nobody),
        IN_OWN_FOLDER(threads_fetch_each_block_once),
        IN_OWN_FOLDER(objects_that_are_evicted_and_opened_at_once_are_right),
        IN_OWN_FOLDER(a_claim_does_not_live_on_in_a_child),
        IN_OWN_FOLDER(a_child_has_its_own_claims),
        IN_OWN_FOLDER(waiting_ends_with_the_claim_or_by_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
