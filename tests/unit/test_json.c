/* The JSON tree, its accessors, its limits, and the writer's calls.
 * tests/interop/test_json.py compares the texts with Python's. */
#include "support.h"

#include <locale.h>
#include <math.h>

#include "base/json.h"
#include "base/number.h"

static tarn_error err;

static const tarn__json *parse(tarn__json_doc *doc, const char *text)
{
    OK(tarn__json_parse(doc, text, strlen(text), NULL, &err));
    return tarn__json_root(doc);
}

static void a_tree_is_walked_in_the_order_of_the_text(void **state)
{
    (void)state;
    tarn__json_doc doc;
    const tarn__json *v = parse(&doc, " {\"a\": [1, [2, {}], \"x\"], \"b\": null} ");
    assert_int_equal(v->kind, TARN__JSON_OBJECT);
    assert_int_equal(v->size, 2);
    assert_true(tarn__json_is(v + 1, "a", 1));
    const tarn__json *list = v + 2;
    assert_int_equal(list->kind, TARN__JSON_LIST);
    assert_int_equal(list->size, 3);
    const tarn__json *inner = tarn__json_next(list + 1);
    assert_int_equal(inner->size, 2);
    assert_true(tarn__json_is(tarn__json_next(inner), "x", 1));
    assert_true(tarn__json_is(tarn__json_next(list), "b", 1));
    assert_ptr_equal(tarn__json_find(v, "b"), tarn__json_next(list) + 1);
    assert_null(tarn__json_find(v, "c"));
    assert_null(tarn__json_find(list, "a"));
    assert_ptr_equal(tarn__json_next(v), doc.values + doc.count);
    tarn__json_reset(&doc);
}

static void integers_are_distinguished_from_other_numbers(void **state)
{
    (void)state;
    tarn__json_doc doc;
    int64_t i = 7;
    uint64_t u = 7;
    double d = 7;
    const tarn__json *v =
        parse(&doc, "[9223372036854775807, -9223372036854775808, 9223372036854775808,"
                    " 18446744073709551615, 18446744073709551616, -1, 1.0, 1e3, -0, true,"
                    " 99999999999999999999]");
    assert_true(tarn__json_int64(v + 1, &i) && i == INT64_MAX);
    assert_true(tarn__json_int64(v + 2, &i) && i == INT64_MIN);
    assert_false(tarn__json_uint64(v + 2, &u));
    assert_false(tarn__json_int64(v + 3, &i));
    assert_true(tarn__json_uint64(v + 3, &u) && u == UINT64_C(1) << 63);
    assert_true(tarn__json_uint64(v + 4, &u) && u == UINT64_MAX);
    assert_false(tarn__json_uint64(v + 5, &u));
    assert_true(tarn__json_double(v + 5, &d) && d == 18446744073709551616.0);
    assert_true(tarn__json_int64(v + 6, &i) && i == -1);
    assert_false(tarn__json_uint64(v + 6, &u));
    assert_false(tarn__json_int64(v + 7, &i) || tarn__json_uint64(v + 7, &u));
    assert_false(tarn__json_int64(v + 8, &i) || tarn__json_uint64(v + 8, &u));
    assert_true(tarn__json_double(v + 8, &d) && d == 1000);
    assert_true(tarn__json_int64(v + 9, &i) && i == 0);
    assert_false(tarn__json_int64(v + 10, &i) || tarn__json_double(v + 10, &d));
    assert_false(tarn__json_uint64(v + 11, &u));
    tarn__json_reset(&doc);
}

static void strings_may_hold_nul_and_lone_surrogates(void **state)
{
    (void)state;
    tarn__json_doc doc;
    const tarn__json *v = parse(&doc, "\"a\\u0000b\\ud800\"");
    assert_int_equal(v->size, 6);
    assert_memory_equal(v->u.text, "a\0b\xed\xa0\x80", 7);
    tarn__json_reset(&doc);
}

static void limits_are_kept_and_named(void **state)
{
    (void)state;
    tarn__json_doc doc;
    tarn__json_options o = TARN__JSON_OPTIONS_INIT;
    o.max_bytes = 10;
    o.max_depth = 2;
    o.max_values = 4;
    FAILS(TARN_ERR_LIMIT, "TARN_MAX_JSON_BYTES",
          tarn__json_parse(&doc, "           ", 11, &o, &err));
    FAILS(TARN_ERR_LIMIT, "TARN_MAX_JSON_DEPTH",
          tarn__json_parse(&doc, "[[[]]]", 6, &o, &err));
    assert_int_equal(err.offset, 2);
    FAILS(TARN_ERR_LIMIT, "TARN_MAX_JSON_VALUES",
          tarn__json_parse(&doc, "[1,2,3,4]", 9, &o, &err));
    OK(tarn__json_parse(&doc, "[[],1,2]", 8, &o, &err));
    tarn__json_reset(&doc);
    assert_null(doc.values);
}

static void errors_have_an_offset_and_what_was_found(void **state)
{
    (void)state;
    tarn__json_doc doc;
    char text[256];
    FAILS(TARN_ERR_FORMAT, "expected ',' or ']', found '2'",
          tarn__json_parse(&doc, "[1 2]", 5, NULL, &err));
    assert_int_equal(err.offset, 3);
    assert_non_null(strstr(tarn_error_text(&err, text, sizeof text), "offset 3: JSON: "));
    FAILS(TARN_ERR_FORMAT, "found the end of the text",
          tarn__json_parse(&doc, "[1,", 3, NULL, &err));
    FAILS(TARN_ERR_FORMAT, "found '\\x00'", tarn__json_parse(&doc, "1\0", 2, NULL, &err));
    FAILS(TARN_ERR_FORMAT, "not closed", tarn__json_parse(&doc, "[\"a", 3, NULL, &err));
    assert_int_equal(err.offset, 1);
    FAILS(TARN_ERR_FORMAT, "0x1f", tarn__json_parse(&doc, "\"\x1f\"", 3, NULL, &err));
    FAILS(TARN_ERR_FORMAT, "duplicate key",
          tarn__json_parse(&doc, "{\"a\":1,\"\\u0061\":2}", 18, NULL, &err));
    assert_int_equal(err.offset, 7);
}

static const char *text_of(tarn__buf *buf)
{
    OK(tarn__buf_add(buf, "", 1, &err));
    return buf->data;
}

static void calls_write_what_python_would(void **state)
{
    (void)state;
    tarn__buf buf;
    tarn__json_writer w;
    tarn__json_doc doc;
    const tarn__json *v = parse(&doc, "{\"z\": 1, \"y\": [1E1]}");
    tarn__buf_init(&buf, 1000);
    tarn__json_begin(&w, &buf);
    w.indent = 2;
    tarn__json_open(&w, '{');
    tarn__json_key_text(&w, "a");
    tarn__json_open(&w, '[');
    tarn__json_close(&w, ']');
    tarn__json_key_text(&w, "b");
    tarn__json_put_value(&w, v, true);
    tarn__json_key(&w, "c\0d", 3);
    tarn__json_open(&w, '[');
    tarn__json_put_int(&w, INT64_MIN);
    tarn__json_put_uint(&w, UINT64_MAX);
    tarn__json_put_double(&w, 1e-5);
    tarn__json_put_bool(&w, false);
    tarn__json_put_null(&w);
    tarn__json_put_text(&w, "\xc3\xa9");
    tarn__json_put_raw(&w, "{}", 2);
    tarn__json_close(&w, ']');
    tarn__json_close(&w, '}');
    OK(tarn__json_end(&w, &err));
    assert_string_equal(text_of(&buf),
                        "{\n  \"a\": [],\n  \"b\": {\n    \"y\": [\n      10.0\n    ],\n"
                        "    \"z\": 1\n  },\n  \"c\\u0000d\": [\n"
                        "    -9223372036854775808,\n    18446744073709551615,\n"
                        "    1e-05,\n    false,\n    null,\n    \"\\u00e9\",\n    {}\n"
                        "  ]\n}");
    tarn__buf_reset(&buf);
    tarn__json_reset(&doc);
}

static void a_failing_writer_says_so_at_the_end(void **state)
{
    (void)state;
    tarn__buf buf;
    tarn__json_writer w;
    tarn__buf_init(&buf, 8);
    tarn__json_begin(&w, &buf);
    tarn__json_put_text(&w, "more than eight");
    FAILS(TARN_ERR_LIMIT, "more than 8 bytes", tarn__json_end(&w, &err));
    buf.size = 0;
    tarn__json_begin(&w, &buf);
    tarn__json_put_string(&w, "\xff", 1);
    FAILS(TARN_ERR_FORMAT, "not UTF-8", tarn__json_end(&w, &err));
    buf.size = 0;
    tarn__json_begin(&w, &buf);
    tarn__json_open(&w, '[');
    FAILS(TARN_ERR_USAGE, "not closed", tarn__json_end(&w, &err));
    buf.size = 0;
    tarn__json_begin(&w, &buf);
    tarn__json_close(&w, ']');
    FAILS(TARN_ERR_USAGE, "not open", tarn__json_end(&w, &err));
    tarn__buf_reset(&buf);
}

static void the_locale_does_not_change_numbers(void **state)
{
    (void)state;
    char text[TARN__DOUBLE_MAX];
    if (!set_comma_locale()) skip();
    tarn__double_text(-1234.5, text);
    assert_string_equal(text, "-1234.5");
    assert_true(tarn__double_parse("0.25,") == 0.25);
    assert_true(isinf(tarn__double_parse("-Infinity]")));
    setlocale(LC_ALL, "C");
}

static void numbers_are_decimal_and_end_where_they_end(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t length;
        double value;
    } cases[] = {{"1.5", 3, 1.5},
                 {" \n-2e3x", 6, -2000},
                 {"+.5,7", 3, 0.5},
                 {"0x10", 1, 0},
                 {"-0X1p3", 2, 0},
                 {"0", 1, 0},
                 {"inf", 3, INFINITY},
                 {"1_000", 1, 1},
                 {"five", 0, 0},
                 {" ", 0, 0},
                 {"", 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double value = 7;
        const char *end = tarn__double_read(cases[i].text, &value);
        assert_int_equal(end - cases[i].text, cases[i].length);
        assert_true(value == cases[i].value);
    }
    assert_true(signbit(tarn__double_parse("-0x1")) &&
                !signbit(tarn__double_parse("0x1")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tree_is_walked_in_the_order_of_the_text),
        cmocka_unit_test(integers_are_distinguished_from_other_numbers),
        cmocka_unit_test(strings_may_hold_nul_and_lone_surrogates),
        cmocka_unit_test(limits_are_kept_and_named),
        cmocka_unit_test(errors_have_an_offset_and_what_was_found),
        cmocka_unit_test(calls_write_what_python_would),
        cmocka_unit_test(a_failing_writer_says_so_at_the_end),
        cmocka_unit_test(the_locale_does_not_change_numbers),
        cmocka_unit_test(numbers_are_decimal_and_end_where_they_end),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
