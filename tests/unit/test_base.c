/* Arithmetic, buffers, names, UTF-8, errors, the parallel loop. */
#include "support.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/checked.h"
#include "base/crc.h"
#include "base/error.h"
#include "base/names.h"
#include "base/pool.h"
#include "base/utf8.h"

static tarn_error err;

static void checked_arithmetic_refuses_what_does_not_fit(void **state)
{
    (void)state;
    uint64_t out = 7;
    assert_false(tarn__add(UINT64_MAX, 1, &out));
    assert_false(tarn__mul(UINT64_C(1) << 32, UINT64_C(1) << 32, &out));
    assert_false(tarn__align_up(UINT64_MAX - 510, 512, &out));
    assert_int_equal(out, 7);
    assert_true(tarn__add(UINT64_MAX - 1, 1, &out) && out == UINT64_MAX);
    assert_true(tarn__mul(UINT64_C(1) << 32, (UINT64_C(1) << 32) - 1, &out));
    assert_true(tarn__align_up(1, 512, &out) && out == 512);
    assert_true(tarn__align_up(1024, 512, &out) && out == 1024);
    assert_true(tarn__align_up(UINT64_MAX - 511, 512, &out) && out == UINT64_MAX - 511);
}

static void range_in_does_not_wrap(void **state)
{
    (void)state;
    assert_true(tarn__range_in(10, 10, 20));
    assert_true(tarn__range_in(20, 0, 20));
    assert_false(tarn__range_in(10, 11, 20));
    assert_false(tarn__range_in(21, 0, 20));
    assert_false(tarn__range_in(10, UINT64_MAX, 20));
    assert_false(tarn__range_in(UINT64_MAX, 2, 20));
}

static void buffer_never_grows_past_its_maximum(void **state)
{
    (void)state;
    tarn__buf buf;
    tarn__buf_init(&buf, 100);
    for (int i = 0; i < 10; i++)
        OK(tarn__buf_add(&buf, "0123456789", 10, &err));
    FAILS(TARN_ERR_LIMIT, "more than 100 bytes", tarn__buf_add(&buf, "x", 1, &err));
    FAILS(TARN_ERR_LIMIT, "100", tarn__buf_reserve(&buf, SIZE_MAX, &err));
    assert_int_equal(buf.size, 100);
    assert_true(buf.capacity <= 100);
    tarn__buf_reset(&buf);
}

static void names_are_numbered_in_the_order_they_came(void **state)
{
    (void)state;
    tarn__names names;
    uint32_t id;
    char name[32];
    tarn__names_init(&names);
    assert_int_equal(tarn__names_find(&names, "x", 1), TARN__NAME_NONE);
    for (unsigned i = 0; i < 5000; i++) {
        int len = snprintf(name, sizeof name, "name%u", i);
        OK(tarn__names_add(&names, name, (size_t)len, &id, &err));
        assert_int_equal(id, i);
    }
    OK(tarn__names_add(&names, "name4321", 8, &id, &err));
    assert_int_equal(id, 4321);
    OK(tarn__names_add(&names, "", 0, &id, &err));
    assert_int_equal(id, 5000);
    assert_int_equal(tarn__names_find(&names, "name77", 6), 77);
    assert_int_equal(tarn__names_find(&names, "name77\0", 7), TARN__NAME_NONE);
    assert_string_equal(tarn__names_get(&names, 12).data, "name12");
    tarn__names_reset(&names);
}

static void clean_is(const char *in, size_t len, const char *want)
{
    tarn__buf out;
    tarn__buf_init(&out, 1000);
    OK(tarn__utf8_clean(&out, in, len, &err));
    assert_int_equal(out.size, strlen(want));
    assert_memory_equal(out.data, want, out.size);
    tarn__buf_reset(&out);
}

#define FFFD "\xef\xbf\xbd"

static void malformed_utf8_gets_one_mark_for_each_maximal_part(void **state)
{
    (void)state;
    clean_is("abc", 3, "abc");
    clean_is("\xff", 1, FFFD);
    clean_is("\xe2\x82", 2, FFFD); /* a prefix of three bytes: one part */
    clean_is("\xe2\x82x", 3, FFFD "x");
    clean_is("\xe0\x80\x80", 3, FFFD FFFD FFFD); /* overlong: no part of it is a prefix */
    clean_is("\xed\xa0\x80", 3, FFFD FFFD FFFD); /* a surrogate */
    clean_is("\xf0\x9f\x98", 3, FFFD);
    clean_is("\xf4\x90\x80\x80", 4, FFFD FFFD FFFD FFFD);
    clean_is("\xc0\xaf", 2, FFFD FFFD);
    clean_is("\xf0\x9f\x98\x80", 4, "\xf0\x9f\x98\x80");
}

static void lower_is(const char *in, const char *want)
{
    tarn__buf out;
    tarn__buf_init(&out, 1000);
    OK(tarn__utf8_lower(&out, in, strlen(in), &err));
    assert_int_equal(out.size, strlen(want));
    assert_memory_equal(out.data, want, out.size);
    tarn__buf_reset(&out);
}

static void lower_case_is_the_full_unicode_one(void **state)
{
    (void)state;
    lower_is("JPG.Seg16", "jpg.seg16");
    lower_is("\xc3\x9c", "\xc3\xbc");
    lower_is("\xc4\xb0", "i\xcc\x87");                /* I with a dot: two code points */
    lower_is("\xce\x91\xce\xa3", "\xce\xb1\xcf\x82"); /* final sigma */
    lower_is("\xce\xa3\xce\x91", "\xcf\x83\xce\xb1"); /* not final */
    lower_is("\xce\xa3", "\xcf\x83");                 /* nothing before it: not final */
    lower_is("\xce\x91.\xce\xa3", "\xce\xb1.\xcf\x82"); /* a dot is ignored */
    lower_is("\xc8\xba", "\xe2\xb1\xa5");               /* two bytes become three */
    lower_is("\xf0\x90\x90\x80", "\xf0\x90\x90\xa8");
}

static void crc32c_is_the_castagnoli_one(void **state)
{
    (void)state;
    assert_int_equal(tarn__crc32c(0, "123456789", 9), 0xe3069283u);
    assert_int_equal(tarn__crc32c(tarn__crc32c(0, "1234", 4), "56789", 5), 0xe3069283u);
    assert_int_equal(tarn__crc32c(0, "", 0), 0);
}

static void error_text_has_path_offset_and_reason(void **state)
{
    (void)state;
    char text[200];
    tarn_status status =
        tarn__fail_at(&err, TARN_ERR_FORMAT, "train_0003.tar", 1048576, "bad %d", 7);
    assert_int_equal(status, TARN_ERR_FORMAT);
    assert_string_equal(tarn_error_text(&err, text, sizeof text),
                        "train_0003.tar: offset 1048576: bad 7");
    status = tarn__fail_errno(&err, "x", 2, "cannot open");
    assert_int_equal(status, TARN_ERR_NO_FILE);
    assert_int_equal(err.sys_errno, 2);
    assert_string_equal(tarn_error_text(&err, text, sizeof text),
                        "x: cannot open: No such file or directory");
    assert_int_equal(strlen(tarn_error_text(&err, text, 10)), 9);
    assert_int_equal(tarn__fail(NULL, TARN_ERR_LIMIT, "unseen"), TARN_ERR_LIMIT);
}

static void every_status_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int a = TARN_OK; a <= TARN_ERR_NO_FIELD; a++)
        for (int b = TARN_OK; b < a; b++)
            assert_string_not_equal(tarn_status_name((tarn_status)a),
                                    tarn_status_name((tarn_status)b));
    assert_string_equal(tarn_status_name((tarn_status)99), "unknown");
}

static void five_statuses_mean_that_something_was_not_found(void **state)
{
    (void)state;
    int count = 0;
    for (int s = TARN_OK; s <= 99; s++)
        if (tarn_is_not_found((tarn_status)s)) count++;
    assert_int_equal(count, 5);
    assert_true(tarn_is_not_found(TARN_ERR_NOT_FOUND));
    assert_true(tarn_is_not_found(TARN_ERR_NO_FILE));
    assert_true(tarn_is_not_found(TARN_ERR_NO_FOLD));
    assert_true(tarn_is_not_found(TARN_ERR_NO_SAMPLE));
    assert_true(tarn_is_not_found(TARN_ERR_NO_FIELD));
}

static void printable_escapes_what_a_terminal_would_obey(void **state)
{
    (void)state;
    char out[64];
    assert_string_equal(tarn_printable(out, sizeof out, "a\n\x1b[31m\\", 8),
                        "a\\x0a\\x1b[31m\\x5c");
    assert_string_equal(tarn_printable(out, sizeof out, "\xff\xc3\xa9", 3),
                        "\\xff\xc3\xa9");
    assert_string_equal(tarn_printable(out, 12, "0123456789abcdef", 16), "01234567...");
}

typedef struct loop_state {
    atomic_uint ran[1000];
    atomic_uint total;
    size_t fail_at;
} loop_state;

static tarn_status count_task(void *context, size_t number)
{
    loop_state *s = context;
    atomic_fetch_add(&s->ran[number], 1);
    atomic_fetch_add(&s->total, 1);
    return number >= s->fail_at ? TARN_ERR_FORMAT : TARN_OK;
}

static void parallel_runs_each_task_once_with_any_number_of_threads(void **state)
{
    (void)state;
    for (unsigned threads = 0; threads <= 8; threads += 4) {
        loop_state s = {.fail_at = SIZE_MAX};
        assert_int_equal(tarn__parallel(threads, 1000, count_task, &s, NULL), TARN_OK);
        for (int i = 0; i < 1000; i++)
            assert_int_equal(s.ran[i], 1);
    }
    loop_state none = {.fail_at = 0};
    assert_int_equal(tarn__parallel(4, 0, count_task, &none, NULL), TARN_OK);
}

static void parallel_stops_at_a_failure_and_names_the_first(void **state)
{
    (void)state;
    for (unsigned threads = 0; threads <= 8; threads += 4) {
        loop_state s = {.fail_at = 10};
        size_t failed = 0;
        assert_int_equal(tarn__parallel(threads, 1000, count_task, &s, &failed),
                         TARN_ERR_FORMAT);
        assert_int_equal(failed, 10);
        assert_true(s.total < 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checked_arithmetic_refuses_what_does_not_fit),
        cmocka_unit_test(range_in_does_not_wrap),
        cmocka_unit_test(buffer_never_grows_past_its_maximum),
        cmocka_unit_test(names_are_numbered_in_the_order_they_came),
        cmocka_unit_test(malformed_utf8_gets_one_mark_for_each_maximal_part),
        cmocka_unit_test(lower_case_is_the_full_unicode_one),
        cmocka_unit_test(crc32c_is_the_castagnoli_one),
        cmocka_unit_test(error_text_has_path_offset_and_reason),
        cmocka_unit_test(every_status_has_a_name_of_its_own),
        cmocka_unit_test(five_statuses_mean_that_something_was_not_found),
        cmocka_unit_test(printable_escapes_what_a_terminal_would_obey),
        cmocka_unit_test(parallel_runs_each_task_once_with_any_number_of_threads),
        cmocka_unit_test(parallel_stops_at_a_failure_and_names_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
