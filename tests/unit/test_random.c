/* The generators compared with vectors of Python and NumPy; tests/interop/test_random.py
 * has many more, from the programs themselves. */
#include "support.h"

#include "base/random.h"

static tarn_error err;

static void python_seeds_and_bits(void **state)
{
    (void)state;
    tarn__mt mt;
    tarn__mt_seed_int(&mt, 0);
    assert_int_equal(tarn__mt_next(&mt), 3626764237u);
    tarn__mt_seed_int(&mt, UINT64_C(1) << 32);
    assert_int_equal(tarn__mt_next(&mt), 485306839u);
    tarn__mt_seed_int(&mt, ((unsigned __int128)1 << 64) + 3);
    assert_int_equal(tarn__mt_next(&mt), 3921169615u);
    tarn__mt_seed_int(&mt, 0);
    assert_int_equal(tarn__mt_bits(&mt, 0), 0);
    assert_int_equal(tarn__mt_bits(&mt, 32), 3626764237u);
    tarn__mt_seed_int(&mt, 0);
    assert_int_equal(tarn__mt_bits(&mt, 5), 3626764237u >> 27);
}

static void numpy_raw_outputs(void **state)
{
    (void)state;
    tarn__pcg64 rng;
    uint64_t words[4];
    tarn__seed_sequence((uint32_t[]){0}, 1, words, 4);
    assert_true(words[0] == UINT64_C(15793235383387715774));
    assert_true(words[3] == UINT64_C(3188717715514472916));
    tarn__pcg64_seed(&rng, UINT64_MAX);
    assert_true(tarn__pcg64_next(&rng) == UINT64_C(12544278110101001871));
    assert_true(tarn__pcg64_next(&rng) == UINT64_C(15593249672699323225));
    tarn__pcg64_seed(&rng, UINT64_MAX);
    assert_int_equal(tarn__pcg64_next32(&rng), (uint32_t)UINT64_C(12544278110101001871));
    assert_int_equal(tarn__pcg64_next32(&rng), UINT64_C(12544278110101001871) >> 32);
    assert_int_equal(tarn__pcg64_next32(&rng), (uint32_t)UINT64_C(15593249672699323225));
}

static void choices_are_distinct_without_replacement(void **state)
{
    (void)state;
    static const uint64_t sizes[][2] = {{1, 1},         {65, 65},     {70, 1},
                                        {9999, 9999},   {20000, 300}, {20000, 401},
                                        {10001, 10001}, {100000, 70}};
    static uint64_t out[20000];
    static bool seen[100000];
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        tarn__pcg64 rng;
        tarn__pcg64_seed(&rng, k);
        OK(tarn__pcg64_choice(&rng, sizes[k][0], sizes[k][1], false, out, &err));
        memset(seen, 0, sizeof seen);
        for (uint64_t i = 0; i < sizes[k][1]; i++) {
            assert_true(out[i] < sizes[k][0] && !seen[out[i]]);
            seen[out[i]] = true;
        }
    }
}

static void what_cannot_be_chosen_is_refused(void **state)
{
    (void)state;
    tarn__pcg64 rng;
    uint64_t out[4];
    tarn__pcg64_seed(&rng, 1);
    FAILS(TARN_ERR_USAGE, "4 of 3", tarn__pcg64_choice(&rng, 3, 4, false, out, &err));
    FAILS(TARN_ERR_USAGE, "1 of 0", tarn__pcg64_choice(&rng, 0, 1, true, out, &err));
    OK(tarn__pcg64_choice(&rng, 0, 0, false, out, &err));
    OK(tarn__pcg64_choice(&rng, 1, 4, true, out, &err));
    assert_int_equal(out[0] + out[1] + out[2] + out[3], 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(python_seeds_and_bits),
        cmocka_unit_test(numpy_raw_outputs),
        cmocka_unit_test(choices_are_distinct_without_replacement),
        cmocka_unit_test(what_cannot_be_chosen_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
