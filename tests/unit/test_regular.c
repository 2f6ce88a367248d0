/* Regular folds, whose sums say how many rows each sample has: what is checked when they
 * are opened, and what happens where the rows differ. */
#include "support.h"

#include <tarn/dataset.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/crc.h"
#include "itar/fold.h"

enum { SAMPLES = 500, STRIDE_AT = 92, ORDER_AT = 56 };

static tarn_error err;

/* What is different about sample AMISS: nothing; its fields are exchanged; its cls has
 * another key (and TWIN has the key of the sample before, so that the numbers fit); it
 * has no cls. */
typedef enum amiss { NOTHING, SWAPPED, RENAMED, SHORT } amiss;
enum { AMISS = 300, TWIN = 400 };

/* A fold of samples with a txt, which contains the number, and a cls. */
static const char *fold_with(amiss what)
{
    static const char *const folders[] = {"even", "swapped", "renamed", "short"};
    const char *folder = scratch_path(folders[what]);
    char name[40], text[40];
    tarball t = {0};
    tarn_index_options o = TARN_INDEX_OPTIONS_INIT;
    o.sums = true;
    o.threads = 1;
    for (int i = 0; i < SAMPLES; i++) {
        amiss now = i == AMISS ? what : NOTHING;
        snprintf(text, sizeof text, "%d", i);
        for (int k = 0; k < 2 - (now == SHORT); k++) {
            bool is_cls = (k == 1) != (now == SWAPPED);
            snprintf(name, sizeof name, "s%04d%s.%s",
                     what == RENAMED && i == TWIN ? i - 1 : i,
                     now == RENAMED && k ? "x" : "", is_cls ? "cls" : "txt");
            tarball_file(&t, name, is_cls ? "7" : text);
        }
    }
    tarball_end(&t);
    publish_fold(&t, folder, &o);
    tarball_reset(&t);
    return folder;
}

static uint32_t stored_stride(const char *folder)
{
    char path[300];
    size_t size;
    snprintf(path, sizeof path, "%s/f.tarsum", folder);
    unsigned char *bytes = read_file(path, &size);
    uint32_t stride = tarn__get32(bytes + STRIDE_AT);
    free(bytes);
    return stride;
}

/* Corrects the checksum over the head of a .tarsum, and writes it. */
static void seal(const char *path, unsigned char *bytes, size_t size)
{
    uint32_t self = tarn__crc32c(0, bytes, 124);
    self = tarn__crc32c(self, bytes + 128, tarn__get64(bytes + ORDER_AT) - 128);
    tarn__put32(bytes + 124, self);
    write_file(path, bytes, size);
}

/* Writes a stride into otherwise valid sums. */
static void forge(const char *folder, uint32_t stride)
{
    char path[300];
    size_t size;
    snprintf(path, sizeof path, "%s/f.tarsum", folder);
    unsigned char *bytes = read_file(path, &size);
    tarn__put32(bytes + STRIDE_AT, stride);
    seal(path, bytes, size);
    free(bytes);
}

/* The number in field txt of a sample, or -1 and err. */
static int number_in(tarn_dataset *fold, uint64_t sample)
{
    tarn_view view;
    uint32_t field;
    char text[16] = "";
    OK(tarn_dataset_field_find(fold, "txt", &field, &err));
    if (tarn_dataset_get(fold, sample, field, &view, &err) != TARN_OK) return -1;
    assert_true(view.size < sizeof text);
    memcpy(text, view.data, view.size);
    tarn_view_release(&view);
    return (int)strtol(text, NULL, 10);
}

static void opening_reads_only_what_is_used(void **state)
{
    (void)state;
    const char *folder = fold_with(NOTHING);
    tarn_dataset *fold;
    tarn_fold_info info;
    size_t checked = 0;
    assert_int_equal(stored_stride(folder), 2);
    OK(tarn_dataset_open(folder, NULL, &fold, &err));
    assert_int_equal(number_in(fold, AMISS), AMISS);
    OK(tarn_dataset_fold(fold, &info, sizeof info, &err));
    for (size_t page = 0; page < (2 * SAMPLES + 127) / 128; page++)
        checked += atomic_load(&info.index->sums->checked[page]);
    assert_int_equal(checked, 2); /* the first, for the fields, and the sample's */
    for (int i = 0; i < SAMPLES; i++)
        assert_int_equal(number_in(fold, (uint64_t)i), i);
    tarn_dataset_close(fold);
}

static void folds_that_are_not_regular_say_so(void **state)
{
    (void)state;
    assert_int_equal(stored_stride(fold_with(SWAPPED)), 0);
    assert_int_equal(stored_stride(fold_with(RENAMED)), 0);
    assert_int_equal(stored_stride(fold_with(SHORT)), 0);
}

/* Samples in other pages are correct. Those in the page are refused, by position and in a
 * split, and verification finds the damage. */
static void check_refused(const char *folder)
{
    tarn_dataset *fold;
    tarn_verify_report report = {0};
    const double half = 0.5;
    static uint8_t parts[SAMPLES];
    forge(folder, 2);
    OK(tarn_dataset_open(folder, NULL, &fold, &err));
    assert_int_equal(number_in(fold, 0), 0);
    assert_int_equal(number_in(fold, 200), 200);
    assert_int_equal(number_in(fold, AMISS), -1);
    check_failed(TARN_ERR_FORMAT, err.code, &err, "damaged in page 4", __FILE__,
                 __LINE__);
    FAILS(TARN_ERR_FORMAT, "damaged in page 4",
          tarn_dataset_parts(fold, &half, 1, 7, parts, &err));
    tarn_dataset_close(fold);
    OK(tarn_verify(folder, NULL, &report, sizeof report, &err));
    assert_true(report.problems > 0);
}

static void rows_that_break_the_promise_are_refused(void **state)
{
    (void)state;
    check_refused(fold_with(SWAPPED));
    check_refused(fold_with(RENAMED));
}

static void a_promise_that_the_numbers_do_not_allow_is_refused(void **state)
{
    (void)state;
    static const struct {
        uint32_t stride;
        const char *part;
    } cases[] = {{1, "1 rows per sample"},
                 {4, "4 rows per sample"},
                 {3, "impossible count"}, /* of 1,000 rows */
                 {100, "impossible count"},
                 {UINT32_MAX, "impossible count"}};
    const char *folder = fold_with(NOTHING);
    tarn_dataset *fold;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        forge(folder, cases[i].stride);
        FAILS(TARN_ERR_FORMAT, cases[i].part,
              tarn_dataset_open(folder, NULL, &fold, &err));
    }
    forge(folder, 0); /* not stated: it is checked */
    OK(tarn_dataset_open(folder, NULL, &fold, &err));
    assert_int_equal(number_in(fold, AMISS), AMISS);
    tarn_dataset_close(fold);
}

/* --- Unusual shapes ------------------------------------------------------------- */

enum { WIDE = 64, MANY_NAMES = 9000, TARIDX_NAMES = 64 };

/* A fold of some samples with WIDE fields each. */
static const char *wide_fold(void)
{
    const char *folder = scratch_path("wide");
    char name[40];
    tarball t = {0};
    tarn_index_options o = TARN_INDEX_OPTIONS_INIT;
    o.threads = 1;
    for (int i = 0; i < 6 * WIDE; i++) {
        snprintf(name, sizeof name, "k%d.f%d", i / WIDE, i % WIDE);
        tarball_file(&t, name, "x");
    }
    tarball_end(&t);
    publish_fold(&t, folder, &o);
    tarball_reset(&t);
    return folder;
}

/* Gives the index so large a number of names that no shape is kept, and its third page
 * fields that do not exist; the sums match the index, except for that page. */
static void forge_names(const char *folder)
{
    char index_path[300], sums_path[300], name[20];
    size_t size, sums_size;
    snprintf(index_path, sizeof index_path, "%s/f.taridx", folder);
    snprintf(sums_path, sizeof sums_path, "%s/f.tarsum", folder);
    unsigned char *index = read_file(index_path, &size);
    unsigned char *sums = read_file(sums_path, &sums_size);
    uint64_t rows_at = tarn__get64(index + 48);
    tarn__buf out;
    tarn__buf_init(&out, SIZE_MAX / 2);
    OK(tarn__buf_add(&out, index, (size_t)rows_at, &err));
    for (int i = WIDE; i < MANY_NAMES; i++) {
        int len = snprintf(name, sizeof name, "\ng%d", i);
        OK(tarn__buf_add(&out, name, (size_t)len, &err));
    }
    uint64_t at = out.size;
    OK(tarn__buf_add(&out, index + rows_at, size - (size_t)rows_at, &err));
    tarn__put32(out.data + 32, MANY_NAMES);
    tarn__put64(out.data + 40, at);
    tarn__put64(out.data + 48, at);
    for (uint64_t row = 256; row < 6 * WIDE; row++)
        tarn__put16(out.data + at + row * 32 + 18, (uint16_t)(UINT16_MAX - row));
    write_file(index_path, out.data, out.size);
    tarn__put64(sums + 80, out.size);
    tarn__put32(sums + 88, tarn__crc32c(0, out.data, (size_t)at));
    seal(sums_path, sums, sums_size);
    tarn__buf_reset(&out);
    free(index);
    free(sums);
}

/* With too many fields for shapes, rows are read for each question: all must have been
 * checked. */
static void rows_of_no_known_shape_are_checked_first(void **state)
{
    (void)state;
    const char *folder = wide_fold();
    tarn_dataset *d;
    tarn_field_sets *sets;
    OK(tarn_dataset_open(folder, NULL, &d, &err));
    OK(tarn_dataset_field_sets(d, &sets, &err));
    assert_int_equal(sets->count, 1);
    tarn_field_sets_free(sets);
    tarn_dataset_close(d);
    assert_int_equal(stored_stride(folder), WIDE);
    forge_names(folder);
    FAILS(TARN_ERR_FORMAT, "damaged in page 2",
          tarn_dataset_open(folder, NULL, &d, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_reads_only_what_is_used),
        cmocka_unit_test(folds_that_are_not_regular_say_so),
        cmocka_unit_test(rows_that_break_the_promise_are_refused),
        cmocka_unit_test(a_promise_that_the_numbers_do_not_allow_is_refused),
        cmocka_unit_test(rows_of_no_known_shape_are_checked_first),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
