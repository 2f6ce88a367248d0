/* Writing array files: many threads on one array, writers that fail or die, updates in
 * place and their journal. tests/interop/test_gnz.py tests the bytes. */
#include "support.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gnz/writer.h"

static tarn_error err;
static const tarn_dtype u4 = {'<', 'u', 4};
static const tarn_gnz_writer_options update = {.size = sizeof update, .update = true};

static tarn_array array_of(void *data, unsigned ndim, const uint64_t *shape)
{
    tarn_array array;
    OK(tarn_array_init(&array, data, u4, ndim, shape, &err));
    return array;
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* Files of the scratch folder whose names contain a part. */
static int count_files(const char *part)
{
    int count = 0;
    struct dirent *entry;
    DIR *dir = opendir(scratch());
    assert_non_null(dir);
    while ((entry = readdir(dir)))
        count += strstr(entry->d_name, part) != NULL;
    closedir(dir);
    return count;
}

/* --- Threads ----------------------------------------------------------------------- */

enum { ROWS = 960, COLUMNS = 33, BLOCK = 8 };

typedef enum way { BY_ROWS, BY_COLUMNS, APPENDED } way;

typedef struct crew {
    tarn_gnz_writer *writer;
    way how;
    unsigned threads;
} crew;

typedef struct hand {
    crew *crew;
    unsigned number;
    pthread_t thread;
    tarn_status status;
} hand;

static tarn_status fill_block(const crew *c, unsigned block)
{
    uint32_t values[ROWS * BLOCK];
    tarn_array array;
    uint64_t columns = c->how == BY_COLUMNS ? 1 : COLUMNS;
    uint64_t rows = c->how == BY_COLUMNS ? ROWS : BLOCK;
    uint64_t first_row = c->how == BY_COLUMNS ? 0 : block * BLOCK;
    uint64_t first_column = c->how == BY_COLUMNS ? block : 0;
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t j = 0; j < columns; j++)
            values[i * columns + j] =
                (uint32_t)((first_row + i) * COLUMNS + first_column + j);
    TARN_TRY(
        tarn_array_init(&array, values, u4, 2, (const uint64_t[]){rows, columns}, NULL));
    if (c->how == APPENDED)
        return tarn_gnz_writer_fill(c->writer, "x", NULL, &array, NULL);
    return tarn_gnz_writer_fill(
        c->writer, "x", (const uint64_t[]){first_row, first_column}, &array, NULL);
}

static void *work(void *context)
{
    hand *h = context;
    unsigned step = h->crew->threads ? h->crew->threads : 1;
    unsigned blocks = h->crew->how == BY_COLUMNS ? COLUMNS : ROWS / BLOCK;
    h->status = TARN_OK;
    for (unsigned b = h->number; b < blocks && h->status == TARN_OK; b += step)
        h->status = fill_block(h->crew, b);
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void check_filled(const char *path, way how)
{
    tarn_gnz *gnz;
    tarn_verify_report report;
    static uint32_t got[ROWS][COLUMNS];
    OK(tarn_gnz_open(path, NULL, &gnz, &err));
    OK(tarn_gnz_read(gnz, 0, 0, ROWS, got, sizeof got, &err));
    tarn_gnz_close(gnz);
    /* Appended blocks stay together and come in any order. */
    if (how == APPENDED) qsort(got, ROWS / BLOCK, sizeof got[0] * BLOCK, by_value);
    for (uint32_t i = 0; i < ROWS; i++)
        for (uint32_t j = 0; j < COLUMNS; j++)
            assert_int_equal(got[i][j], i * COLUMNS + j);
    OK(tarn_verify(path, NULL, &report, sizeof report, &err));
    assert_int_equal(report.problems, 0);
    assert_int_equal(report.checksummed, 1);
}

static void fill_with(way how, unsigned threads)
{
    const char *path = scratch_path("threads.gnz");
    hand hands[16];
    crew c = {.how = how, .threads = threads};
    uint64_t shape[] = {how == APPENDED ? 0 : ROWS, COLUMNS};
    tarn_gnz_writer_options o = TARN_GNZ_WRITER_OPTIONS_INIT;
    o.overwrite = o.checksums = true;
    OK(tarn_gnz_writer_open(path, &o, &c.writer, &err));
    OK(tarn_gnz_writer_reserve(c.writer, "x", u4, 2, shape, ROWS, &err));
    OK(tarn_gnz_writer_begin(c.writer, &err));
    for (unsigned i = 0; i < (threads ? threads : 1); i++) {
        hands[i] = (hand){.crew = &c, .number = i};
        if (threads)
            assert_int_equal(pthread_create(&hands[i].thread, NULL, work, &hands[i]), 0);
        else
            work(&hands[i]);
    }
    for (unsigned i = 0; i < (threads ? threads : 1); i++) {
        if (threads) pthread_join(hands[i].thread, NULL);
        assert_int_equal(hands[i].status, TARN_OK);
    }
    OK(tarn_gnz_writer_finish(c.writer, &err));
    check_filled(path, how);
}

static void threads_fill_one_array(void **state)
{
    (void)state;
    for (int how = BY_ROWS; how <= APPENDED; how++) {
        fill_with((way)how, 0);
        fill_with((way)how, 3);
        fill_with((way)how, 16);
    }
}

/* --- Writers that fail ------------------------------------------------------------- */

static void full_disk_is_known_at_the_beginning(void **state)
{
    const char *path = scratch_path("full.gnz");
    struct rlimit old, small;
    tarn_gnz_writer *w;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){1 << 20, old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    OK(tarn_gnz_writer_open(path, NULL, &w, &err));
    OK(tarn_gnz_writer_reserve(w, "x", u4, 1, (const uint64_t[]){1 << 20}, 0, &err));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    tarn_status status = tarn_gnz_writer_begin(w, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    FAILS(TARN_ERR_IO, "cannot reserve", status);
    FAILS(TARN_ERR_USAGE, "earlier write failed", tarn_gnz_writer_finish(w, &err));
    assert_false(exists(path));
    assert_int_equal(count_files("full.gnz"), 0);
}

static void writer_that_dies_leaves_no_name(void **state)
{
    const char *path = scratch_path("dies.gnz");
    tarn_gnz_writer *w;
    int status;
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        uint32_t values[4] = {1, 2, 3, 4};
        tarn_array array = array_of(values, 1, (const uint64_t[]){4});
        if (tarn_gnz_writer_open(path, NULL, &w, NULL) != TARN_OK ||
            tarn_gnz_writer_reserve(w, "x", u4, 1, (const uint64_t[]){8}, 0, NULL) !=
                TARN_OK ||
            tarn_gnz_writer_begin(w, NULL) != TARN_OK ||
            tarn_gnz_writer_fill(w, "x", NULL, &array, NULL) != TARN_OK)
            _exit(1);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_false(exists(path));
    assert_int_equal(count_files("dies.gnz"), 1); /* the temporary file */
    OK(tarn_gnz_writer_open(path, NULL, &w, &err));
    OK(tarn_gnz_writer_finish(w, &err));
    assert_true(exists(path));
    assert_int_equal(count_files("dies.gnz"), 1); /* removed, and the new file */
}

static void file_that_appears_meanwhile_is_not_replaced(void **state)
{
    const char *path = scratch_path("race.gnz");
    tarn_gnz_writer *w;
    size_t size;
    (void)state;
    OK(tarn_gnz_writer_open(path, NULL, &w, &err));
    OK(tarn_gnz_writer_begin(w, &err));
    write_file(path, "mine", 4);
    FAILS(TARN_ERR_EXISTS, "", tarn_gnz_writer_finish(w, &err));
    unsigned char *bytes = read_file(path, &size);
    assert_int_equal(size, 4);
    assert_int_equal(count_files("race.gnz"), 1);
    free(bytes);
}

static int stop(void *context, uint64_t done, uint64_t total)
{
    (void)context;
    assert_true(done <= total);
    return 1;
}

static void stopped_writer_leaves_nothing(void **state)
{
    const char *path = scratch_path("stopped.gnz");
    uint32_t values[4] = {1, 2, 3, 4};
    tarn_array array = array_of(values, 1, (const uint64_t[]){4});
    tarn_gnz_writer *w;
    tarn_gnz_writer_options o = TARN_GNZ_WRITER_OPTIONS_INIT;
    (void)state;
    o.progress = stop;
    OK(tarn_gnz_writer_open(path, &o, &w, &err));
    OK(tarn_gnz_writer_add(w, "x", &array, NULL, &err));
    FAILS(TARN_ERR_CANCELLED, "stopped", tarn_gnz_writer_finish(w, &err));
    assert_int_equal(count_files("stopped.gnz"), 0);
}

static void wrong_calls_are_reported(void **state)
{
    uint32_t values[4] = {1, 2, 3, 4};
    tarn_array array = array_of(values, 1, (const uint64_t[]){4});
    tarn_gnz_writer *w;
    tarn_gnz_writer_options o = TARN_GNZ_WRITER_OPTIONS_INIT;
    (void)state;
    o.header_pages = TARN_MAX_GNZ_PAGES + 1;
    FAILS(TARN_ERR_LIMIT, "pages",
          tarn_gnz_writer_open(scratch_path("w.gnz"), &o, &w, &err));
    OK(tarn_gnz_writer_open(scratch_path("w.gnz"), NULL, &w, &err));
    OK(tarn_gnz_writer_add(w, "a", &array, NULL, &err));
    FAILS(TARN_ERR_EXISTS, "\"a\"", tarn_gnz_writer_add(w, "a", &array, NULL, &err));
    FAILS(TARN_ERR_USAGE, "UTF-8", tarn_gnz_writer_add(w, "\xff", &array, NULL, &err));
    FAILS(TARN_ERR_USAGE, "no rows",
          tarn_gnz_writer_reserve(w, "s", u4, 0, NULL, 3, &err));
    FAILS(
        TARN_ERR_LIMIT, "2^63",
        tarn_gnz_writer_reserve(w, "s", u4, 1, (const uint64_t[]){1}, UINT64_MAX, &err));
    FAILS(TARN_ERR_USAGE, "not begun", tarn_gnz_writer_fill(w, "a", NULL, &array, &err));
    OK(tarn_gnz_writer_reserve(w, "b", u4, 1, (const uint64_t[]){6}, 0, &err));
    OK(tarn_gnz_writer_begin(w, &err));
    FAILS(TARN_ERR_USAGE, "was begun", tarn_gnz_writer_add(w, "c", &array, NULL, &err));
    FAILS(TARN_ERR_USAGE, "added with its values",
          tarn_gnz_writer_fill(w, "a", NULL, &array, &err));
    FAILS(TARN_ERR_NO_FIELD, "no array \"z\"",
          tarn_gnz_writer_fill(w, "z", NULL, &array, &err));
    OK(tarn_gnz_writer_fill(w, "b", NULL, &array, &err));
    FAILS(TARN_ERR_LIMIT, "more do not fit",
          tarn_gnz_writer_fill(w, "b", NULL, &array, &err));
    tarn_gnz_writer_abandon(w);
    assert_int_equal(count_files("w.gnz"), 0);
}

/* --- Updates ----------------------------------------------------------------------- */

static void make_growing(const char *path)
{
    uint32_t values[4] = {1, 2, 3, 4};
    tarn_array array = array_of(values, 1, (const uint64_t[]){4});
    tarn_gnz_writer *w;
    tarn_gnz_writer_options o = TARN_GNZ_WRITER_OPTIONS_INIT;
    o.overwrite = o.checksums = true;
    OK(tarn_gnz_writer_open(path, &o, &w, &err));
    OK(tarn_gnz_writer_reserve(w, "x", u4, 1, (const uint64_t[]){0}, 100, &err));
    OK(tarn_gnz_writer_begin(w, &err));
    OK(tarn_gnz_writer_fill(w, "x", NULL, &array, &err));
    OK(tarn_gnz_writer_finish(w, &err));
}

static uint64_t rows_of(const char *path)
{
    tarn_gnz *gnz;
    tarn_gnz_array info;
    OK(tarn_gnz_open(path, NULL, &gnz, &err));
    OK(tarn_gnz_array_get(gnz, 0, &info, sizeof info, &err));
    uint64_t rows = info.shape[0];
    tarn_gnz_close(gnz);
    return rows;
}

static void append_four(const char *path)
{
    uint32_t values[4] = {5, 6, 7, 8};
    tarn_array array = array_of(values, 1, (const uint64_t[]){4});
    tarn_gnz_writer *w;
    OK(tarn_gnz_writer_open(path, &update, &w, &err));
    OK(tarn_gnz_writer_begin(w, &err));
    OK(tarn_gnz_writer_fill(w, "x", NULL, &array, &err));
    OK(tarn_gnz_writer_finish(w, &err));
}

static void one_update_at_a_time(void **state)
{
    const char *path = scratch_path("one.gnz");
    tarn_gnz_writer *first, *second;
    (void)state;
    make_growing(path);
    OK(tarn_gnz_writer_open(path, &update, &first, &err));
    FAILS(TARN_ERR_IO, "another update",
          tarn_gnz_writer_open(path, &update, &second, &err));
    tarn_gnz_writer_abandon(first);
    append_four(path);
    assert_int_equal(rows_of(path), 8);
    FAILS(TARN_ERR_NO_FILE, "cannot open",
          tarn_gnz_writer_open(scratch_path("none.gnz"), &update, &second, &err));
}

static void update_keeps_what_it_does_not_know(void **state)
{
    const char json[] = "{\"arrays\": {}, \"more\": 1, \"version\": 1}";
    unsigned char page[TARN_GNZ_PAGE] = "GNZ1";
    const char *path = scratch_path("more.gnz");
    tarn_gnz_writer *w;
    (void)state;
    page[4] = sizeof json - 1;
    memcpy(page + 8, json, sizeof json - 1);
    write_file(path, page, sizeof page);
    FAILS(TARN_ERR_UNSUPPORTED, "would lose",
          tarn_gnz_writer_open(path, &update, &w, &err));
}

static bool has_journal(const char *path)
{
    bool there;
    OK(tarn__gnz_journal_find(path, &there, &err));
    return there;
}

/* The state that a crash leaves: the rows and the journal exist, and some of the header's
 * sectors are new, or some of its bytes, where a disk does not write whole sectors. */
static void crash_at_any_sector_is_repaired(void **state)
{
    const char *path = scratch_path("crash.gnz");
    unsigned char *before, *after;
    size_t size;
    tarn_verify_report report;
    tarn_verify_options o = TARN_VERIFY_OPTIONS_INIT;
    (void)state;
    make_growing(path);
    before = read_file(path, &size);
    append_four(path);
    after = read_file(path, &size);
    const size_t head = 700;
    for (unsigned sectors = 0; sectors < 5; sectors++) {
        unsigned char *torn = malloc(size);
        assert_non_null(torn);
        memcpy(torn, after, size);
        for (size_t i = 0; i < head; i++)
            if (sectors == 4 ? i % 2 : !(sectors >> (i / 512) & 1)) torn[i] = before[i];
        write_file(path, torn, size);
        free(torn);
        OK(tarn__gnz_journal_write(path, (char *)before, (char *)after, head, 0, &err));
        OK(tarn_verify(path, NULL, &report, sizeof report, &err));
        assert_true(report.problems >= 1);
        o.repair = true;
        OK(tarn_verify(path, &o, &report, sizeof report, &err));
        assert_int_equal(report.repairs, 1);
        assert_int_equal(report.problems, 0);
        assert_int_equal(rows_of(path), 8);
        assert_false(has_journal(path));
    }
    /* The next update does the same. */
    write_file(path, after, size);
    OK(tarn__gnz_journal_write(path, (char *)before, (char *)after, head, 0, &err));
    append_four(path);
    assert_int_equal(rows_of(path), 12);
    assert_false(has_journal(path));
    free(before);
    free(after);
}

/* Whichever name the update was started with. */
static void journal_is_beside_the_file_itself(void **state)
{
    const char *path = scratch_path("real.gnz"), *link = scratch_path("places/link.gnz");
    size_t size;
    (void)state;
    make_growing(path);
    unsigned char *before = read_file(path, &size);
    assert_int_equal(mkdir(scratch_path("places"), 0755), 0);
    assert_int_equal(symlink(path, link), 0);
    OK(tarn__gnz_journal_write(link, (char *)before, (char *)before, 700, size, &err));
    assert_true(has_journal(path));
    append_four(path);
    assert_int_equal(rows_of(link), 8);
    assert_false(has_journal(link));
    free(before);
}

static void journal_of_another_file_is_refused(void **state)
{
    const char *path = scratch_path("other.gnz");
    char *old_head = calloc(1, 600), *new_head = calloc(1, 600);
    tarn_gnz_writer *w;
    size_t size;
    (void)state;
    make_growing(path);
    unsigned char *before = read_file(path, &size);
    OK(tarn__gnz_journal_write(path, old_head, new_head, 600, 0, &err));
    FAILS(TARN_ERR_STALE, "another file", tarn_gnz_writer_open(path, &update, &w, &err));
    unsigned char *after = read_file(path, &size);
    assert_memory_equal(before, after, size);
    write_file(scratch_path(".other.gnz.journal"), "rubbish", 7);
    FAILS(TARN_ERR_FORMAT, "not the journal",
          tarn_gnz_writer_open(path, &update, &w, &err));
    make_growing(path); /* a new file does not need it */
    assert_false(has_journal(path));
    free(before);
    free(after);
    free(old_head);
    free(new_head);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* Forks, so it runs before threads exist. */
        cmocka_unit_test(writer_that_dies_leaves_no_name),
        cmocka_unit_test(threads_fill_one_array),
        cmocka_unit_test(full_disk_is_known_at_the_beginning),
        cmocka_unit_test(file_that_appears_meanwhile_is_not_replaced),
        cmocka_unit_test(stopped_writer_leaves_nothing),
        cmocka_unit_test(wrong_calls_are_reported),
        cmocka_unit_test(one_update_at_a_time),
        cmocka_unit_test(update_keeps_what_it_does_not_know),
        cmocka_unit_test(crash_at_any_sector_is_repaired),
        cmocka_unit_test(journal_is_beside_the_file_itself),
        cmocka_unit_test(journal_of_another_file_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
