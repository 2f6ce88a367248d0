/* Files that are truncated under an open dataset: data copied from their maps is an error
 * from the next call on, also where there is no signal. */
#include "pack/records.h"
#include "support.h"

#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static tarn_error err;

enum { CUT_ROWS = 40, CUT_BYTES = 1000 };

static unsigned char bytes[CUT_ROWS][CUT_BYTES];

static void make_cut_tar(void)
{
    tarball t = {0};
    mkdir(scratch_path("cut"), 0777);
    for (int i = 0; i < CUT_ROWS; i++) {
        char name[32];
        memset(bytes[i], 'a' + i % 26, CUT_BYTES);
        snprintf(name, sizeof name, "%03d.bin", i);
        tarball_header(&t, name, '0', CUT_BYTES);
        tarball_payload(&t, bytes[i], CUT_BYTES);
        snprintf(name, sizeof name, "cut/%03d.bin", i);
        write_file(scratch_path(name), bytes[i], CUT_BYTES);
    }
    tarball_end(&t);
    save_tar(&t, scratch_path("cut.tar"));
    tarball_reset(&t);
}

static void make_cut_files(void)
{
    tarn_array a;
    tarn_gnz_writer *w;
    make_cut_tar();
    OK(tarn_array_init(&a, bytes, (tarn_dtype){'|', 'u', 1}, 2,
                       (const uint64_t[]){CUT_ROWS, CUT_BYTES}, &err));
    OK(tarn_gnz_writer_open(scratch_path("cut.gnz"), NULL, &w, &err));
    OK(tarn_gnz_writer_add(w, "bin", &a, NULL, &err));
    OK(tarn_gnz_writer_finish(w, &err));
    tarn__records_options none = {0};
    OK(tarn__records_from_folder(scratch_path("cut.iac"), scratch_path("cut"), &none,
                                 NULL, &err));
}

/* The file now ends in the page of the last record's bytes, which a map then shows as
 * zeros: there is no signal, and soon after the last check the length is not checked
 * again. */
static void cut_under(tarn_dataset *d, const char *path, uint32_t field)
{
    tarn_view view;
    tarn_dataset_batch batch = {0};
    tarn_place place;
    uint64_t sample = CUT_ROWS - 1, other = 0;
    size_t size;
    free(read_file(path, &size));
    OK(tarn_dataset_locate(d, sample, field, &place, sizeof place, &err));
    OK(tarn_dataset_get(d, sample, field, &view, &err));
    assert_int_equal(view.data[CUT_BYTES - 1], 'a' + sample % 26);
    OK(tarn_dataset_release(d, sample, NULL, 0, &err));
    OK(tarn_dataset_read(d, &other, 1, &field, 1, &batch, &err));
    assert_int_equal(truncate(path, (off_t)(size - 1)), 0);
    assert_int_not_equal(tarn_dataset_release(d, sample, NULL, 0, &err), TARN_OK);
    assert_non_null(strstr(err.path, "cut."));
    assert_int_not_equal(tarn_dataset_read(d, &sample, 1, &field, 1, &batch, &err),
                         TARN_OK);
    tarn_view_release(&view);
    tarn_dataset_batch_reset(&batch);
}

static void a_copy_from_a_truncated_file_is_an_error(void **state)
{
    (void)state;
    static const char *const names[] = {"cut.tar", "cut.gnz", "cut.iac"};
    /* Without a guard each copy also checks the length before it, which would hide a
     * missing check after it. Done here, because cmocka sets handlers before each test.
     */
    assert_true(tarn_guard_maps());
    make_cut_files();
    for (size_t i = 0; i < 3; i++) {
        tarn_dataset *d, *mixed;
        uint32_t field = 0;
        OK(tarn_dataset_open(scratch_path(names[i]), NULL, &d, &err));
        if (i < 2) OK(tarn_dataset_field_find(d, "bin", &field, &err));
        OK(tarn_dataset_mix(&d, 1, NULL, &mixed, &err));
        cut_under(mixed, scratch_path(names[i]), field);
        tarn_dataset_close(mixed);
        assert_int_not_equal(tarn_dataset_release(d, 3, NULL, 0, &err), TARN_OK);
        FAILS(TARN_ERR_NO_SAMPLE, "40", tarn_dataset_release(d, 40, NULL, 0, &err));
        tarn_dataset_close(d);
    }
}

/* Truncates a file when the next one is created in a folder: between the check of a
 * view's file and the use of the view. */
static const char *cut_at_create;

int openat(int folder, const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    unsigned mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, unsigned) : 0;
    va_end(more);
    /* The file now ends in the middle of the last payload. */
    if (cut_at_create)
        assert_int_equal(truncate(cut_at_create, (CUT_ROWS - 1) * 1536 + 512 + 500), 0);
    cut_at_create = NULL;
    return (int)syscall(SYS_openat, folder, path, flags, mode);
}

static void a_file_that_was_cut_is_not_extracted_with_zeros(void **state)
{
    (void)state;
    static const char *const last = "039";
    tarn_dataset *fold, *one;
    uint64_t files;
    make_cut_tar();
    OK(tarn_dataset_open(scratch_path("cut.tar"), NULL, &fold, &err));
    tarn_condition c = TARN_CONDITION_INIT;
    c.kind = TARN_CONDITION_KEYS;
    c.names = &last;
    c.n_names = 1;
    OK(tarn_dataset_filter(fold, &c, &one, &err));
    cut_at_create = scratch_path("cut.tar");
    assert_int_not_equal(
        tarn_dataset_extract(one, scratch_path("extracted"), NULL, &files, &err),
        TARN_OK);
    assert_null(cut_at_create);
    assert_non_null(strstr(err.path, "cut.tar"));
    assert_int_equal(files, 0);
    assert_int_not_equal(access(scratch_path("extracted/039.bin"), F_OK), 0);
    tarn_dataset_close(one);
    tarn_dataset_close(fold);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_from_a_truncated_file_is_an_error),
        cmocka_unit_test(a_file_that_was_cut_is_not_extracted_with_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
