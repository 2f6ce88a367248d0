/* Element types and arrays. */
#include "support.h"

#include "base/array.h"

static tarn_error err;

static tarn_dtype dtype_of(const char *text)
{
    tarn_dtype dtype;
    OK(tarn_dtype_parse(text, strlen(text), &dtype, &err));
    return dtype;
}

static void types_are_read_and_written_as_numpy_does(void **state)
{
    (void)state;
    static const char *const known[] = {
        "|b1", "|i1",  "|u1", "<i2", ">i2", "<u8", ">f2",         "<f4",         "<f8",
        "<c8", ">c16", "|S0", "|S5", "<U3", ">U0", "<U536870911", "|S2147483647"};
    char text[TARN_DTYPE_TEXT_MAX];
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        assert_string_equal(tarn_dtype_text(dtype_of(known[i]), text), known[i]);
    assert_int_equal(dtype_of("<U3").size, 12);
    assert_string_equal(tarn_dtype_text(dtype_of("=f4"), text), "<f4");
    assert_string_equal(tarn_dtype_text(dtype_of(">i1"), text), "|i1");
    assert_string_equal(tarn_dtype_text(dtype_of("<S2"), text), "|S2");
}

static void types_that_are_not_known_are_refused(void **state)
{
    (void)state;
    static const char *const odd[] = {"",
                                      "<",
                                      "<f",
                                      "f4",
                                      "<f3",
                                      "<f16",
                                      "<c32",
                                      "|O",
                                      "|O8",
                                      "<M8[ns]",
                                      "|V4",
                                      "|i4",
                                      "<b2",
                                      "<i16",
                                      "<f04",
                                      "<f+4",
                                      "<f4 ",
                                      "|S2147483648",
                                      "<U536870912",
                                      "<i-1",
                                      "!i4",
                                      "<i99999999999"};
    tarn_dtype dtype;
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
        FAILS(TARN_ERR_UNSUPPORTED, "element type",
              tarn_dtype_parse(odd[i], strlen(odd[i]), &dtype, &err));
    FAILS(TARN_ERR_UNSUPPORTED, "\\x1b", tarn_dtype_parse("<f\x1b", 3, &dtype, &err));
}

static void shapes_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    tarn_array a;
    uint64_t shape[3] = {UINT64_C(1) << 32, UINT64_C(1) << 31, 1};
    FAILS(TARN_ERR_LIMIT, "2^63",
          tarn_array_init(&a, NULL, dtype_of("|u1"), 2, shape, &err));
    shape[1]--;
    OK(tarn_array_init(&a, NULL, dtype_of("|u1"), 2, shape, &err));
    assert_true(tarn_array_bytes(&a) == (UINT64_C(1) << 63) - (UINT64_C(1) << 32));
    shape[0] = 0;
    shape[1] = UINT64_MAX;
    FAILS(TARN_ERR_LIMIT, "2^63",
          tarn_array_init(&a, NULL, dtype_of("|u1"), 2, shape, &err));
    shape[1] = 5;
    OK(tarn_array_init(&a, NULL, dtype_of("<f4"), 3, shape, &err));
    assert_int_equal(tarn__array_count(&a), 0);
    assert_true(tarn_array_is_packed(&a) && tarn__array_is_fortran(&a));
    FAILS(TARN_ERR_LIMIT, "TARN_MAX_DIMS",
          tarn_array_init(&a, NULL, dtype_of("<f4"), 65, shape, &err));
    OK(tarn_array_init(&a, NULL, dtype_of("<f4"), 0, NULL, &err));
    assert_int_equal(tarn_array_bytes(&a), 4);
}

static void packing_follows_the_strides(void **state)
{
    (void)state;
    uint16_t values[24], out[24];
    tarn_array a;
    for (uint16_t i = 0; i < 24; i++)
        values[i] = i;
    OK(tarn_array_init(&a, values, dtype_of("<u2"), 3, (uint64_t[]){2, 3, 4}, &err));
    assert_true(tarn_array_is_packed(&a) && !tarn__array_is_fortran(&a));
    tarn__array_pack(&a, false, out);
    assert_memory_equal(out, values, sizeof values);

    /* values.reshape(2, 3, 4)[::-1, :, ::2].transpose(2, 0, 1) */
    tarn_array b = {.data = values + 12, .dtype = a.dtype, .ndim = 3};
    memcpy(b.shape, (uint64_t[]){2, 2, 3}, 24);
    memcpy(b.strides, (int64_t[]){4, -24, 8}, 24);
    assert_false(tarn_array_is_packed(&b) || tarn__array_is_fortran(&b));
    tarn__array_pack(&b, false, out);
    static const uint16_t rows[] = {12, 16, 20, 0, 4, 8, 14, 18, 22, 2, 6, 10};
    assert_memory_equal(out, rows, sizeof rows);
    tarn__array_pack(&b, true, out);
    static const uint16_t columns[] = {12, 14, 0, 2, 16, 18, 4, 6, 20, 22, 8, 10};
    assert_memory_equal(out, columns, sizeof columns);
}

static void axes_of_length_one_do_not_count(void **state)
{
    (void)state;
    uint32_t values[4] = {1, 2, 3, 4};
    tarn_array a = {.data = values, .dtype = dtype_of("<u4"), .ndim = 3};
    memcpy(a.shape, (uint64_t[]){1, 4, 1}, 24);
    memcpy(a.strides, (int64_t[]){-77, 4, 0}, 24);
    assert_true(tarn_array_is_packed(&a) && tarn__array_is_fortran(&a));
    a.strides[1] = 0; /* one value four times */
    assert_false(tarn_array_is_packed(&a));
}

static void bytes_are_swapped_in_units(void **state)
{
    (void)state;
    char data[17] = "0123456789abcdef";
    tarn__swap_bytes(data, dtype_of("<c8"), 2);
    assert_string_equal(data, "32107654ba98fedc");
    tarn__swap_bytes(data, dtype_of("<U2"), 2);
    assert_string_equal(data, "0123456789abcdef");
    tarn__swap_bytes(data, dtype_of("|S8"), 2);
    tarn__swap_bytes(data, dtype_of("|u1"), 16);
    assert_string_equal(data, "0123456789abcdef");
    tarn__swap_bytes(data, dtype_of("<f8"), 2);
    assert_string_equal(data, "76543210fedcba98");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_are_read_and_written_as_numpy_does),
        cmocka_unit_test(types_that_are_not_known_are_refused),
        cmocka_unit_test(shapes_that_do_not_fit_are_refused),
        cmocka_unit_test(packing_follows_the_strides),
        cmocka_unit_test(axes_of_length_one_do_not_count),
        cmocka_unit_test(bytes_are_swapped_in_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
