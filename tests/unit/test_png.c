/* Rows of PNGs: the vector filters compared with the definition, exhaustively where
 * possible. tests/interop/test_png.py compares whole files with libpng. */
#include "support.h"

#include "codec/png.h"

/* --- Helpers -------------------------------------------------------------------- */

static uint32_t seed = 7;

static unsigned char any(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (unsigned char)(seed >> 24);
}

/* In memory that ends where the row ends; small numbers now and then, so that ties occur.
 */
static unsigned char *random_row(size_t bytes)
{
    unsigned char *row = malloc(bytes), mask = any() % 2 ? 0xff : 0x03;
    assert_non_null(row);
    for (size_t i = 0; i < bytes; i++)
        row[i] = any() & mask;
    return row;
}

/* As the specification defines it. */
static void by_definition(unsigned filter, unsigned step, const unsigned char *from,
                          const unsigned char *above, size_t bytes, unsigned char *to)
{
    for (size_t i = 0; i < bytes; i++) {
        int a = i < step ? 0 : to[i - step], b = above[i],
            c = i < step ? 0 : above[i - step];
        int p = a + b - c, pa = abs(p - a), pb = abs(p - b), pc = abs(p - c);
        int paeth = pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
        const int guess[5] = {0, a, b, (a + b) / 2, paeth};
        to[i] = (unsigned char)(from[i] + guess[filter]);
    }
}

/* --- Filters -------------------------------------------------------------------- */

/* Two pixels of four bytes: the first sets the left value. */
static void paeth_chooses_right_for_all_numbers(void **state)
{
    (void)state;
    for (unsigned left = 0; left < 256; left++)
        for (unsigned between = 0; between < 256; between++)
            for (unsigned over = 0; over < 256; over += 4) {
                unsigned char from[8] = {0}, above[8], to[8], want[8];
                for (unsigned i = 0; i < 4; i++) {
                    from[i] = (unsigned char)(left - between);
                    above[i] = (unsigned char)between;
                    above[4 + i] = (unsigned char)(over + i);
                }
                tarn__png_unfilter(TARN__PNG_PAETH, 4, from, above, 8, to);
                by_definition(TARN__PNG_PAETH, 4, from, above, 8, want);
                if (want[0] != left || memcmp(to, want, 8) != 0)
                    fail_msg("left %u, above %u, between %u", left, over, between);
            }
}

static void every_filter_is_undone_for_every_size_of_pixel(void **state)
{
    (void)state;
    for (unsigned step = 1; step <= 8; step++)
        for (unsigned filter = 0; filter <= TARN__PNG_PAETH; filter++)
            for (size_t pixels = 1; pixels < 60; pixels++) {
                size_t bytes = pixels * step;
                unsigned char *from = random_row(bytes), *above = random_row(bytes);
                unsigned char *to = random_row(bytes), *want = random_row(bytes);
                tarn__png_unfilter(filter, step, from, above, bytes, to);
                by_definition(filter, step, from, above, bytes, want);
                assert_memory_equal(to, want, bytes);
                free(from);
                free(above);
                free(to);
                free(want);
            }
}

static void two_rows_at_once_are_the_same(void **state)
{
    (void)state;
    for (unsigned step = 1; step <= 8; step++)
        for (size_t pixels = 1; pixels < 60; pixels++) {
            size_t bytes = pixels * step;
            unsigned char *above = random_row(bytes), *want = random_row(bytes);
            const unsigned char *from[2] = {random_row(bytes), random_row(bytes)};
            unsigned char *to[2] = {random_row(bytes), random_row(bytes)};
            if (tarn__png_unfilter_two(step, from, above, bytes, to)) {
                assert_true((step == 3 || step == 4) && pixels > 1);
                by_definition(TARN__PNG_PAETH, step, from[0], above, bytes, want);
                assert_memory_equal(to[0], want, bytes);
                by_definition(TARN__PNG_PAETH, step, from[1], to[0], bytes, want);
                assert_memory_equal(to[1], want, bytes);
            }
            free(above);
            free(want);
            for (unsigned i = 0; i < 2; i++) {
                free((void *)(uintptr_t)from[i]);
                free(to[i]);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paeth_chooses_right_for_all_numbers),
        cmocka_unit_test(every_filter_is_undone_for_every_size_of_pixel),
        cmocka_unit_test(two_rows_at_once_are_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
