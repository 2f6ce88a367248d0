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

/* Truncates a file after the given number of checks of a length: before the bytes that
 * were about to be copied are copied. */
static const char *cut_path;
static off_t cut_to;
static unsigned checks_left;

static void after_check(void)
{
    if (!cut_path || --checks_left) return;
    assert_int_equal(truncate(cut_path, cut_to), 0);
    cut_path = NULL;
}

off_t lseek(int fd, off_t offset, int whence)
{
    off_t end = syscall(SYS_lseek, fd, offset, whence);
    after_check();
    return end;
}

int fstat(int fd, struct stat *st)
{
    int done = (int)syscall(SYS_newfstatat, fd, "", st, AT_EMPTY_PATH);
    after_check();
    return done;
}

/* Makes the file at path, and truncates it after each of the checks that read makes.
 * Returns how often. */
static unsigned cut_after_every_check(const char *path, off_t to, void (*make)(void),
                                      void (*read)(tarn_dataset *d), const char *dataset)
{
    for (unsigned check = 1;; check++) {
        tarn_dataset *d;
        make();
        OK(tarn_dataset_open(dataset, NULL, &d, &err));
        cut_to = to;
        checks_left = check;
        cut_path = path;
        read(d);
        bool was_cut = !cut_path;
        cut_path = NULL;
        tarn_dataset_close(d);
        if (!was_cut) return check - 1;
    }
}

/* The header of a sample does not match the index, so the samples of its batch are read
 * one by one. */
static void make_odd_fold(void)
{
    make_cut_tar();
    const char *shard = scratch_path("odd/f_0.tar");
    mkdir(scratch_path("odd"), 0777);
    assert_int_equal(rename(scratch_path("cut.tar"), shard), 0);
    OK(tarn_index_build(&shard, 1, NULL, scratch_path("odd/f.taridx"), NULL, NULL, 0,
                        &err));
    int fd = open(shard, O_WRONLY);
    assert_int_equal(pwrite(fd, "9", 1, (CUT_ROWS - 3) * 1536), 1);
    close(fd);
}

static void load_all(tarn_dataset *d)
{
    tarn_loader *l;
    tarn_batch *b;
    tarn_loader_options o = TARN_LOADER_OPTIONS_INIT;
    tarn_load_field field = {.field = "bin", .as = TARN_LOAD_BYTES};
    o.batch = 8;
    o.epochs = 1;
    o.fields = &field;
    o.n_fields = 1;
    o.on_error = TARN_ON_ERROR_SKIP;
    OK(tarn_loader_open(d, &o, &l, &err));
    while (tarn_loader_next(l, 10000, &b, &err) == TARN_OK) {
        const tarn_column *c = &b->columns[0];
        for (uint64_t i = 0; i < b->count; i++) {
            uint64_t size = c->offsets[i + 1] - c->offsets[i];
            assert_int_equal(size, CUT_BYTES);
            assert_memory_equal(c->data + c->offsets[i], bytes[b->samples[i]], size);
        }
        tarn_batch_release(b);
    }
    tarn_loader_close(l);
}

static void a_loader_gives_no_zeros_of_a_file_that_was_cut(void **state)
{
    (void)state;
    char *shard = strdup(scratch_path("odd/f_0.tar"));
    char *folder = strdup(scratch_path("odd"));
    assert_true(cut_after_every_check(shard, (CUT_ROWS - 1) * 1536 + 512 + 500,
                                      make_odd_fold, load_all, folder) > 8);
    free(shard);
    free(folder);
}

enum { KEY_BYTES = 16 };

static void make_keyed_arrays(void)
{
    static char keys[CUT_ROWS][KEY_BYTES];
    tarn_array a;
    tarn_gnz_writer *w;
    memset(keys, 'k', sizeof keys);
    OK(tarn_array_init(&a, keys, (tarn_dtype){'|', 'S', KEY_BYTES}, 1,
                       (const uint64_t[]){CUT_ROWS}, &err));
    tarn_gnz_writer_options o = TARN_GNZ_WRITER_OPTIONS_INIT;
    o.overwrite = true;
    OK(tarn_gnz_writer_open(scratch_path("keyed.gnz"), &o, &w, &err));
    OK(tarn_gnz_writer_add(w, "_key", &a, NULL, &err));
    OK(tarn_gnz_writer_finish(w, &err));
}

static void read_last_key(tarn_dataset *d)
{
    tarn_text key = {0};
    if (tarn_dataset_key(d, CUT_ROWS - 1, &key, &err) == TARN_OK)
        assert_int_equal(key.size, KEY_BYTES);
    tarn_text_reset(&key);
}

static void a_key_of_a_file_that_was_cut_is_not_shortened(void **state)
{
    (void)state;
    size_t size;
    char *path = strdup(scratch_path("keyed.gnz"));
    make_keyed_arrays();
    unsigned char *whole = read_file(path, &size);
    while (whole[size - 1] != 'k')
        size--;
    free(whole);
    assert_true(cut_after_every_check(path, (off_t)size - 5, make_keyed_arrays,
                                      read_last_key, path) >= 2);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_from_a_truncated_file_is_an_error),
        cmocka_unit_test(a_file_that_was_cut_is_not_extracted_with_zeros),
        cmocka_unit_test(a_loader_gives_no_zeros_of_a_file_that_was_cut),
        cmocka_unit_test(a_key_of_a_file_that_was_cut_is_not_shortened),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
