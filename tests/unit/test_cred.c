/* Credentials that expire, with a clock that the test sets: when they are found again,
 * how often, and what happens if that fails. */
#include "support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/cred.h"

enum { THREADS = 16, LIFE = 3600, START = 1000000 };

static tarn_error err;
static atomic_llong now;
static atomic_int finds;
static atomic_bool failing, empty, holding;

static int64_t test_clock(void)
{
    return now;
}

/* Credentials whose key is a number, which grows by one with each. */
static tarn_status find(const tarn__env *env, tarn__cred_value *out, tarn_error *why)
{
    int number = ++finds;
    while (holding)
        usleep(1000); /* the test lets it continue */
    if (failing) {
        why->code = TARN_ERR_IO;
        snprintf(why->message, sizeof why->message, "no answer");
        return TARN_ERR_IO;
    }
    if (empty) return TARN_OK;
    snprintf(out->access, sizeof out->access, "%d", number);
    out->expires = now + LIFE;
    return TARN_OK;
}

static tarn__cred *make(const char *name)
{
    static const char *const prefixes[] = {"TARN_TEST_CRED", NULL};
    tarn__env env;
    tarn__cred *cred;
    setenv("TARN_TEST_CRED", name, 1);
    OK(tarn__env_take(&env, prefixes, &err));
    OK(tarn__cred_get(&env, find, &cred, &err));
    return cred;
}

static int reset(void **state)
{
    (void)state;
    tarn__cred_clock = test_clock;
    now = START;
    finds = 0;
    failing = empty = holding = false;
    return 0;
}

static void expect_key(tarn__cred *cred, const char *key)
{
    tarn__cred_value value;
    OK(tarn__cred_use(cred, &value, &err));
    assert_string_equal(value.access, key);
}

static void are_found_once_and_again_five_minutes_early(void **state)
{
    (void)state;
    tarn__cred *cred = make("early");
    expect_key(cred, "1");
    now = START + LIFE - TARN__CRED_EARLY - 1;
    expect_key(cred, "1");
    assert_int_equal(finds, 1);
    now = START + LIFE - TARN__CRED_EARLY;
    expect_key(cred, "2");
    assert_int_equal(finds, 2);
}

static void are_the_same_for_the_same_environment(void **state)
{
    (void)state;
    tarn__cred *cred = make("same");
    assert_ptr_equal(make("same"), cred);
    assert_ptr_not_equal(make("other"), cred);
}

static void are_used_until_they_expire_if_renewing_fails(void **state)
{
    (void)state;
    tarn__cred_value value;
    tarn__cred *cred = make("failing");
    expect_key(cred, "1");
    failing = true;
    now = START + LIFE - 200;
    expect_key(cred, "1");
    expect_key(cred, "1"); /* not tried again at once */
    assert_int_equal(finds, 2);
    now += TARN__CRED_AGAIN;
    expect_key(cred, "1");
    assert_int_equal(finds, 3);
    now = START + LIFE;
    FAILS(TARN_ERR_IO, "no answer", tarn__cred_use(cred, &value, &err));
    failing = false;
    expect_key(cred, "5");
}

static void do_not_become_anonymous(void **state)
{
    (void)state;
    tarn__cred_value value;
    tarn__cred *cred = make("empty");
    expect_key(cred, "1");
    empty = true;
    now = START + LIFE - 100;
    expect_key(cred, "1");
    now = START + LIFE;
    FAILS(TARN_ERR_IO, "expired", tarn__cred_use(cred, &value, &err));
    tarn__cred *none = make("none");
    expect_key(none, "");
    assert_false(tarn__cred_expire(none));
}

static void are_found_again_when_a_server_refuses_them(void **state)
{
    (void)state;
    tarn__cred *cred = make("refused");
    expect_key(cred, "1");
    assert_true(tarn__cred_expire(cred)); /* just found: no use in asking again */
    expect_key(cred, "1");
    now++;
    assert_true(tarn__cred_expire(cred));
    expect_key(cred, "2");
    assert_true(tarn__cred_expire(cred)); /* the next request that was refused before */
    expect_key(cred, "2");
    assert_int_equal(finds, 2);
}

static void *use(void *context)
{
    tarn__cred_value value;
    tarn_error why;
    return (void *)(intptr_t)(tarn__cred_use(context, &value, &why) == TARN_OK
                                  ? atoi(value.access)
                                  : -1);
}

static void expect_threads(tarn__cred *cred, int key)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use, cred), 0);
    holding = false;
    for (int i = 0; i < THREADS; i++) {
        void *got;
        pthread_join(threads[i], &got);
        assert_int_equal((int)(intptr_t)got, key);
    }
}

static void are_found_by_one_of_many_threads(void **state)
{
    (void)state;
    tarn__cred *cred = make("threads");
    holding = true;
    expect_threads(cred, 1);
    now += LIFE;
    holding = true;
    expect_threads(cred, 2);
    assert_int_equal(finds, 2);
}

static void are_used_while_another_thread_renews_them(void **state)
{
    (void)state;
    pthread_t thread;
    void *got;
    tarn__cred *cred = make("while");
    expect_key(cred, "1");
    now = START + LIFE - 10;
    holding = true;
    assert_int_equal(pthread_create(&thread, NULL, use, cred), 0);
    while (finds < 2)
        usleep(1000); /* the other thread has begun */
    expect_key(cred, "1");
    holding = false;
    pthread_join(thread, &got);
    assert_int_equal((int)(intptr_t)got, 2);
    expect_key(cred, "2");
}

/* The thread that finds them, and another that waits for it, do not exist in a child. */
static void are_found_by_a_child_of_fork_that_came_in_between(void **state)
{
    (void)state;
    pthread_t threads[2];
    tarn__cred *cred = make("fork");
    holding = true;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use, cred), 0);
    while (finds < 1)
        usleep(1000);
    pid_t child = fork();
    if (child == 0) {
        holding = false;
        _exit(use(cred) == (void *)2 && use(cred) == (void *)2 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    holding = false;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(status, 0);
    assert_int_equal(finds, 1);
}

static void times_are_read_with_fractions_and_offsets(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "x",
                                      "2026-11-18",
                                      "2026-11-18T22:00:00X",
                                      "2026-11-18T22:00:00+",
                                      "2026-11-18T22:00:00+99:00",
                                      "2026-11-18T22:00:00.5Zx",
                                      "18.11.2026T22:00:00Z"};
    static const char *const good[] = {
        "2026-11-18T22:00:00Z",      "2026-11-18T22:00:00.123456Z",
        "2026-11-18T23:00:00+01:00", "2026-11-18T20:30:00-0130",
        "2026-11-18 22:00:00",       "2026-11-18T22:00:00UTC"};
    int64_t time;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(tarn__cred_time(good[i], &time));
        assert_int_equal(time, 1795039200);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(tarn__cred_time(bad[i], &time));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(are_found_once_and_again_five_minutes_early, reset),
        cmocka_unit_test_setup(are_the_same_for_the_same_environment, reset),
        cmocka_unit_test_setup(are_used_until_they_expire_if_renewing_fails, reset),
        cmocka_unit_test_setup(do_not_become_anonymous, reset),
        cmocka_unit_test_setup(are_found_again_when_a_server_refuses_them, reset),
        cmocka_unit_test_setup(are_found_by_one_of_many_threads, reset),
        cmocka_unit_test_setup(are_used_while_another_thread_renews_them, reset),
        cmocka_unit_test_setup(are_found_by_a_child_of_fork_that_came_in_between, reset),
        cmocka_unit_test(times_are_read_with_fractions_and_offsets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
