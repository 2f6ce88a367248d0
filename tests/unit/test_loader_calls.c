/* What callers of a loader may do in the middle of an epoch: close it, wait with a
 * timeout, return a batch, fork, and keep batches. */
#include "loading.h"

#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static void it_can_be_closed_at_any_moment(void **state)
{
    (void)state;
    tarn_dataset *d = open_shuffled(fold_path(7));
    tarn_loader_options o = loader_options();
    o.on_error = TARN_ON_ERROR_SKIP;
    for (unsigned threads = 0; threads <= 4; threads += 2)
        for (size_t after = 0; after < 12; after++) {
            tarn_loader *l;
            tarn_batch *held[12];
            o.threads = threads;
            OK(tarn_loader_open(d, &o, &l, &err));
            size_t n = 0;
            for (size_t i = 0; i < after; i++) {
                tarn_status status = tarn_loader_next(l, TARN_NO_TIMEOUT, &held[n], &err);
                if (status == TARN_OK) n++;
            }
            tarn_loader_close(l);
            /* Batches outlive the loader. */
            for (size_t i = 0; i < n; i++) {
                check_sample(held[i], 0);
                tarn_batch_release(held[i]);
            }
        }
    tarn_dataset_close(d);
}

static void a_short_wait_loses_nothing(void **state)
{
    (void)state;
    tarn_dataset *d = open_shuffled(fold_path(7));
    tarn_loader_options o = loader_options();
    o.on_error = TARN_ON_ERROR_SKIP;
    tarn_bytes want = epochs_of(d, &o, 1);
    for (o.threads = 0; o.threads < 3; o.threads++) {
        tarn_loader *l;
        tarn_bytes got = TARN_BYTES_INIT;
        OK(tarn_loader_open(d, &o, &l, &err));
        for (;;) {
            tarn_batch *b;
            tarn_status status = tarn_loader_next(l, 0, &b, &err);
            if (status == TARN_END) break;
            OK(status);
            if (b) add_batch(&got, b);
            tarn_batch_release(b);
        }
        same(&want, &got);
        tarn_loader_close(l);
    }
    tarn_bytes_release(&want);
    tarn_dataset_close(d);
}

static bool gets_the_rest(tarn_loader *l, const tarn_bytes *want, size_t done,
                          size_t skipped)
{
    tarn_bytes got = TARN_BYTES_INIT;
    tarn_loader_stats stats;
    drain(l, &got);
    tarn_loader_stats_get(l, &stats, sizeof stats);
    tarn_loader_close(l);
    bool good = stats.skipped == skipped && got.size == want->size - done &&
                memcmp(got.data, want->data + done, got.size) == 0;
    tarn_bytes_release(&got);
    return good;
}

/* A child and then its parent, which already has some of the wanted batches, get the
 * rest. held may be NULL. */
static void fork_and_drain(tarn_loader *l, tarn_batch *held, const tarn_bytes *want,
                           tarn_bytes *got, size_t skipped)
{
    int status = -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        end_if_it_hangs();
        tarn_batch_release(held);
        _exit(gets_the_rest(l, want, got->size, skipped) ? 0 : 1);
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    tarn_batch_release(held);
    drain(l, got);
    same(want, got);
    tarn_loader_close(l);
}

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define NO_THREADS_AFTER_FORK 1
#elif __has_feature(address_sanitizer)
#define NO_THREADS_BEFORE_FORK 1
#endif
#endif

/* AddressSanitizer's allocator stays locked in a child if a thread was using it. */
#ifdef NO_THREADS_BEFORE_FORK
enum { FORKED_THREADS = 0 };
#else
enum { FORKED_THREADS = 4 };
#endif

static void a_child_continues_independently(void **state)
{
    (void)state;
#ifdef NO_THREADS_AFTER_FORK
    print_message("ThreadSanitizer starts no threads in a child\n");
    skip();
#endif
    tarn_dataset *d = open_shuffled(fold_path(0));
    tarn_loader_options o = loader_options();
    tarn_bytes want = epochs_of(d, &o, 1);
    for (unsigned threads = 0; threads <= FORKED_THREADS; threads += 2)
        for (size_t after = 0; after < 7; after++) {
            tarn_loader *l;
            tarn_batch *b = NULL;
            tarn_bytes got = TARN_BYTES_INIT;
            o.threads = threads;
            OK(tarn_loader_open(d, &o, &l, &err));
            for (size_t i = 0; i < after; i++) {
                tarn_batch_release(b);
                OK(tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err));
                add_batch(&got, b);
            }
            fork_and_drain(l, b, &want, &got, 0);
        }
    tarn_bytes_release(&want);
    tarn_dataset_close(d);
}

/* A batch that was being prepared is prepared again. */
static void a_child_misses_nothing_that_was_prepared(void **state)
{
    (void)state;
#ifdef NO_THREADS_AFTER_FORK
    print_message("ThreadSanitizer starts no threads in a child\n");
    skip();
#endif
    tarn_dataset *d = open_shuffled(fold_path(7));
    tarn_loader_options o = loader_options();
    o.on_error = TARN_ON_ERROR_SKIP;
    tarn_bytes want = epochs_of(d, &o, 1);
    for (o.threads = 0; o.threads <= FORKED_THREADS; o.threads += 2)
        for (size_t waits = 0; waits < 60; waits += 4) {
            tarn_loader *l;
            tarn_bytes got = TARN_BYTES_INIT;
            OK(tarn_loader_open(d, &o, &l, &err));
            for (size_t i = 0, batches = 0; i < waits && batches < 5; i++) {
                tarn_batch *b;
                OK(tarn_loader_next(l, 0, &b, &err));
                if (b) add_batch(&got, b);
                batches += b != NULL;
                tarn_batch_release(b);
            }
            fork_and_drain(l, NULL, &want, &got, SAMPLES / 7 + 1);
        }
    tarn_bytes_release(&want);
    tarn_dataset_close(d);
}

static void many_threads_share_the_work(void **state)
{
    (void)state;
    tarn_dataset *d = open_shuffled(fold_path(50));
    tarn_loader_options o = loader_options();
    o.on_error = TARN_ON_ERROR_SKIP;
    tarn_bytes want = epochs_of(d, &o, 4);
    o.threads = 64;
    o.prefetch = 16;
    tarn_bytes got = epochs_of(d, &o, 4);
    same(&want, &got);
    tarn_bytes_release(&want);
    tarn_dataset_close(d);
}

static void hold_all_batches_if_you_like(void **state)
{
    (void)state;
    tarn_dataset *d = open_shuffled(fold_path(0));
    tarn_loader_options o = loader_options();
    tarn_loader *l;
    tarn_batch *held[SAMPLES];
    o.batch = 1;
    o.threads = 2;
    OK(tarn_loader_open(d, &o, &l, &err));
    for (size_t i = 0; i < SAMPLES; i++)
        OK(tarn_loader_next(l, TARN_NO_TIMEOUT, &held[i], &err));
    for (size_t i = 0; i < SAMPLES; i++) {
        check_sample(held[i], 0);
        tarn_batch_release(held[i]);
    }
    tarn_loader_close(l);
    tarn_dataset_close(d);
}

static atomic_size_t lent;

static void *lend(void *context, size_t size)
{
    assert_int_equal(size % 64, 0);
    atomic_fetch_add((atomic_size_t *)context, size);
    return aligned_alloc(64, size);
}

static void take_back(void *context, void *memory, size_t size)
{
    atomic_fetch_sub((atomic_size_t *)context, size);
    free(memory);
}

static void memory_may_be_the_callers(void **state)
{
    (void)state;
    tarn_dataset *d = open_shuffled(fold_path(0));
    tarn_loader_options o = loader_options();
    tarn_bytes want = epochs_of(d, &o, 2);
    o.alloc = lend;
    o.free = take_back;
    o.memory_context = &lent;
    o.threads = 2;
    tarn_loader *l;
    tarn_bytes got = TARN_BYTES_INIT;
    OK(tarn_loader_open(d, &o, &l, &err));
    drain(l, &got);
    drain(l, &got);
    assert_true(atomic_load(&lent) > 0);
    tarn_loader_close(l);
    same(&want, &got);
    assert_int_equal(atomic_load(&lent), 0);
    tarn_bytes_release(&want);
    tarn_dataset_close(d);
}

/* The batch that a caller could not use is delivered again, and counts once. */
static void a_batch_that_is_given_back_comes_again(void **state)
{
    (void)state;
    tarn_dataset *d = open_shuffled(fold_path(7));
    tarn_loader_options o = loader_options();
    tarn_loader *l;
    tarn_batch *b;
    tarn_loader_stats stats;
    tarn_loader_info info;
    tarn_text before = {0}, after = {0};
    o.on_error = TARN_ON_ERROR_SKIP;
    tarn_bytes want = epochs_of(d, &o, 1), got = TARN_BYTES_INIT, again = TARN_BYTES_INIT;
    for (o.threads = 0; o.threads < 3; o.threads++) {
        OK(tarn_loader_open(d, &o, &l, &err));
        tarn_loader_back(l); /* nothing was delivered yet */
        for (uint64_t i = 0;; i++) {
            OK(tarn_loader_state(l, &before, &err));
            if (tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err) == TARN_END) break;
            add_batch(&again, b);
            tarn_batch_release(b);
            tarn_loader_back(l);
            tarn_loader_back(l); /* once only */
            OK(tarn_loader_state(l, &after, &err));
            assert_string_equal(before.data, after.data);
            tarn_loader_stats_get(l, &stats, sizeof stats);
            assert_int_equal(stats.batches, i);
            tarn_loader_info_get(l, &info, sizeof info);
            assert_int_equal(info.left, info.batches - i);
            OK(tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err));
            assert_int_equal(b->number, i);
            add_batch(&got, b);
            tarn_batch_release(b);
        }
        tarn_loader_back(l); /* the end of an epoch stays an end */
        tarn_loader_info_get(l, &info, sizeof info);
        assert_int_equal(info.epoch, 1);
        tarn_loader_stats_get(l, &stats, sizeof stats);
        assert_int_equal(stats.samples + stats.skipped, SAMPLES);
        for (size_t i = 0; i < stats.skipped; i++)
            assert_non_null(tarn_loader_skipped(l, i));
        assert_null(tarn_loader_skipped(l, (size_t)stats.skipped));
        tarn_loader_close(l);
        same(&want, &got);
        same(&want, &again);
        got = again = (tarn_bytes)TARN_BYTES_INIT;
    }
    tarn_text_reset(&before);
    tarn_text_reset(&after);
    tarn_bytes_release(&want);
    tarn_dataset_close(d);
}

/* The state before some batches is the one that was taken there. */
static void a_state_may_be_that_before_some_batches(void **state)
{
    (void)state;
    tarn_dataset *d = open_shuffled(fold_path(0));
    tarn_loader_options o = loader_options();
    tarn_loader *l;
    tarn_batch *b;
    tarn_text then[16], now = {0};
    size_t n = 0;
    memset(then, 0, sizeof then);
    OK(tarn_loader_open(d, &o, &l, &err));
    OK(tarn_loader_state(l, &then[n++], &err));
    while (n < 16 && tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err) == TARN_OK) {
        tarn_batch_release(b);
        OK(tarn_loader_state(l, &then[n++], &err));
        for (size_t i = 0; i < n; i++) {
            OK(tarn_loader_state_before(l, i, &now, &err));
            assert_string_equal(now.data, then[n - 1 - i].data);
        }
        assert_int_equal(tarn_loader_state_before(l, n, &now, &err), TARN_ERR_USAGE);
    }
    assert_int_equal(n, (SAMPLES + 7) / 8 + 1);
    for (size_t i = 0; i < n; i++)
        tarn_text_reset(&then[i]);
    tarn_text_reset(&now);
    tarn_loader_close(l);
    tarn_dataset_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_that_is_given_back_comes_again),
        cmocka_unit_test(it_can_be_closed_at_any_moment),
        cmocka_unit_test(a_short_wait_loses_nothing),
        cmocka_unit_test(a_child_continues_independently),
        cmocka_unit_test(a_child_misses_nothing_that_was_prepared),
        cmocka_unit_test(many_threads_share_the_work),
        cmocka_unit_test(hold_all_batches_if_you_like),
        cmocka_unit_test(memory_may_be_the_callers),
        cmocka_unit_test(a_state_may_be_that_before_some_batches),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
