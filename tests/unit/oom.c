/* The data of the scenarios, and failing memory requests. */
#include "oom.h"
#include "iac_help.h"

#include <dirent.h>
#include <ftw.h>
#include <sys/stat.h>

#include "counting.h"

#ifdef COUNTING_TSAN
static void memory_fails_at(long n, bool forever)
{
    (void)n, (void)forever;
}

static size_t memory_is_back(void)
{
    return 0;
}
#endif

enum { FEW = 200, LEAST_PLACES = 250 };

tarn_error err;

/* --- Existing data ------------------------------------------------------------------ */

unsigned char pixels[24 * 20 * 3];

tarn_array image_array(void)
{
    tarn_array a;
    OK(tarn_array_init(&a, pixels, (tarn_dtype){'|', 'u', 1}, 3,
                       (const uint64_t[]){24, 20, 3}, &err));
    return a;
}

tarn_array row_array(uint64_t rows)
{
    tarn_array a;
    OK(tarn_array_init(&a, pixels, (tarn_dtype){'<', 'i', 4}, 2,
                       (const uint64_t[]){rows, 5}, &err));
    return a;
}

static void make_shard(const char *path)
{
    tarball t = {0};
    for (unsigned i = 0; i < SAMPLES; i++) {
        tarn_array a = image_array();
        tarn_value v = value_integer(i), pic = value_array(&a);
        tarball_value(&t, i, "cls", &v);
        tarball_value(&t, i, "jpg", &pic);
        tarball_value(&t, i, "npy", &pic);
        tarball_value(&t, i, "png", &pic);
    }
    tarball_end(&t);
    save_tar(&t, path);
    tarball_reset(&t);
}

tarn_status write_gnz(const char *path, tarn_error *why)
{
    tarn_gnz_writer *w;
    tarn_gnz_writer_options o = TARN_GNZ_WRITER_OPTIONS_INIT;
    tarn_array rows = row_array(8);
    o.overwrite = true;
    o.checksums = true;
    tarn_status status = tarn_gnz_writer_open(path, &o, &w, why);
    if (status != TARN_OK) return status;
    status = tarn_gnz_writer_metadata(w, "{\"a\": [1, 2]}", 13, why);
    if (status == TARN_OK) status = tarn_gnz_writer_add(w, "x", &rows, NULL, why);
    if (status == TARN_OK)
        status = tarn_gnz_writer_reserve(w, "y", (tarn_dtype){'<', 'i', 4}, 2,
                                         (const uint64_t[]){0, 5}, 20, why);
    if (status == TARN_OK) status = tarn_gnz_writer_begin(w, why);
    if (status == TARN_OK) status = tarn_gnz_writer_fill(w, "y", NULL, &rows, why);
    if (status == TARN_OK) return tarn_gnz_writer_finish(w, why);
    tarn_gnz_writer_abandon(w);
    return status;
}

static tarn_status add_rows(struct ArrowArrayStream *out, size_t count, tarn_error *why)
{
    const char *columns[] = {"text:name", "int:n", "real:x"};
    tarn_iac_rows *rows;
    tarn_status status = tarn_iac_rows_new(columns, 3, &rows, why);
    if (status != TARN_OK) return status;
    for (size_t i = 0; i < count && status == TARN_OK; i++) {
        status = rows_text(rows, 0, i % 2 ? "odd" : "even", i % 2 ? 3 : 4, why);
        if (status == TARN_OK) status = rows_number(rows, 1, (int64_t)i, why);
        if (status == TARN_OK) status = rows_real(rows, 2, 0.5, why);
    }
    if (status == TARN_OK) return tarn_iac_rows_finish(rows, out, why);
    tarn_iac_rows_free(rows);
    return status;
}

tarn_status write_iac(const char *path, tarn_error *why)
{
    struct ArrowArrayStream slides = {0}, index = {0};
    tarn_iac_write_options o = TARN_IAC_WRITE_OPTIONS_INIT;
    const void *payloads[SAMPLES];
    size_t sizes[SAMPLES];
    o.overwrite = true;
    o.codec = "zstd";
    for (size_t i = 0; i < SAMPLES; i++) {
        payloads[i] = pixels;
        sizes[i] = 100 + i;
    }
    tarn_status status = add_rows(&slides, 0, why);
    if (status == TARN_OK) status = add_rows(&index, SAMPLES, why);
    if (status == TARN_OK)
        status = iac_build(path, &slides, &index, payloads, sizes, SAMPLES, &o, why);
    if (slides.release) slides.release(&slides);
    if (index.release) index.release(&index);
    return status;
}

tarn_status write_fold(const char *folder, const tarn_fold_writer_options *o,
                       const char *prefix, tarn_error *why)
{
    tarn_fold_writer *w;
    tarn_status status = tarn_fold_writer_open(folder, "train", o, &w, why);
    if (status != TARN_OK) return status;
    for (unsigned i = 0; i < 5 && status == TARN_OK; i++) {
        char key[32];
        tarn_field fields[] = {{"txt", "hello", 5, NULL}, {"bin", pixels, 700, NULL}};
        snprintf(key, sizeof key, "%s%u", prefix, i);
        status = tarn_fold_writer_add(w, key, fields, 2, why);
    }
    if (status == TARN_OK) return tarn_fold_writer_finish(w, NULL, 0, why);
    tarn_fold_writer_abandon(w, false, NULL);
    return status;
}

tarn_fold_writer_options fold_options(void)
{
    tarn_fold_writer_options o = TARN_FOLD_WRITER_OPTIONS_INIT;
    o.max_count = 2;
    o.threads = 1;
    o.no_sync = true;
    return o;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

void remove_folder(const char *path)
{
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void make_fold(const char *path)
{
    tarn_fold_writer_options o = fold_options();
    remove_folder(path);
    OK(write_fold(path, &o, "old", &err));
}

tarn_status read_samples(const char *url, tarn_error *why)
{
    tarn_samples *in;
    tarn_samples_item item;
    unsigned count = 0;
    tarn_status status = tarn_samples_open(&url, 1, NULL, &in, why);
    if (status != TARN_OK) return status;
    while ((status = tarn_samples_next(in, &item, why)) == TARN_OK)
        count++;
    tarn_samples_close(in);
    if (status == TARN_END) assert_int_equal(count, 3);
    return status == TARN_END ? TARN_OK : status;
}

tarn_status write_tar(const char *path, tarn_error *why)
{
    tarn_tar_writer *w;
    tarn_tar_writer_options o = TARN_TAR_WRITER_OPTIONS_INIT;
    tarn_sink_options sink = TARN_SINK_OPTIONS_INIT;
    sink.overwrite = sink.no_sync = true;
    o.sink = &sink;
    tarn_status status = tarn_tar_writer_open(path, &o, &w, why);
    if (status != TARN_OK) return status;
    for (unsigned i = 0; i < 3 && status == TARN_OK; i++) {
        char key[16];
        tarn_field fields[] = {{"txt", "hello", 5, NULL}, {"bin", pixels, 900, NULL}};
        snprintf(key, sizeof key, "k%u", i);
        status = tarn_tar_writer_add(w, key, fields, 2, why);
    }
    if (status == TARN_OK) return tarn_tar_writer_finish(w, NULL, 0, why);
    tarn_tar_writer_abandon(w);
    return status;
}

static int make_data(void **state)
{
    (void)state;
    static const char *const compressed[] = {"in.tar.gz", "in.tar.zst", "in.tar.xz",
                                             "in.tar.bz2"};
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (unsigned char)(i * 7);
    assert_int_equal(mkdir(PART("shards"), 0777), 0);
    make_shard(PART("shards/a_0.tar"));
    OK(tarn_index_build((const char *[]){PART("shards/a_0.tar")}, 1, NULL,
                        PART("shards/a.taridx"), NULL, NULL, 0, &err));
    make_shard(PART("plain.tar"));
    OK(write_gnz(PART("in.gnz"), &err));
    OK(write_iac(PART("in.iac"), &err));
    assert_int_equal(mkdir(PART("files"), 0777), 0);
    write_file(PART("files/a.txt"), "hello", 5);
    write_file(PART("files/a.cls"), "1", 1);
    write_file(PART("files/b.txt"), "world", 5);
    write_file(PART("list.csv"), "key,txt,cls\na,hello,1\nb,world,2\n", 31);
    static const char lines[] = "{\"file\": \"files/a.txt\", \"n\": 1, \"t\": [2]}\n"
                                "{\"file\": \"files/b.txt\", \"n\": 2}\n";
    write_file(PART("list.jsonl"), lines, sizeof lines - 1);
    for (size_t i = 0; i < sizeof compressed / sizeof compressed[0]; i++)
        OK(write_tar(PART(compressed[i]), &err));
    return 0;
}

/* --- Failing requests --------------------------------------------------------------- */

static size_t failed_before; /* the scenario ended the failures itself */

void memory_comes_back(void)
{
    failed_before += memory_is_back();
}

void check_nothing_hidden(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        if (strstr(entry->d_name, ".tmp-"))
            fail_msg("%s is left in %s", entry->d_name, path);
    }
    if (dir) closedir(dir);
}

/* Again with memory, on the same disk where possible. */
static void run_clean(const scenario *s)
{
    if (s->prepare) s->prepare();
    OK(s->run(&err));
    if (s->check) s->check();
}

static size_t wrong_errors;

/* Whether the n-th request was made at all. */
static bool torture(const scenario *s, long n, bool forever)
{
    tarn_error why = {0};
    if (s->prepare) s->prepare();
    memory_fails_at(n, forever);
    tarn_status status = s->run(&why);
    size_t failed = memory_is_back() + failed_before;
    failed_before = 0;
    if (!failed) {
        check_ok(status, &why, s->name, (int)n);
        return false;
    }
    if (status != TARN_OK && status != TARN_ERR_MEMORY) {
        print_message("# %s: request %ld%s: %s: %s\n", s->name, n,
                      forever ? " and on" : "", tarn_status_name(status), why.message);
        wrong_errors++;
    }
    if (s->check) {
        check_nothing_hidden(PART("out"));
        s->check();
    }
    return true;
}

/* The number of requests. */
static size_t torture_everywhere(const scenario *s, long first)
{
    size_t places = 0;
    count_memory();
    run_clean(s);
    /* Only some of many requests, unless all are wanted. */
    long step = getenv("TARN_FULL") || count_memory().calls <= FEW ? 1 : 7;
    for (int forever = 0; forever < 2; forever++)
        for (long n = first % step; n < 100000 && torture(s, n, forever); n += step)
            places++;
    run_clean(s);
    if (getenv("TARN_FULL")) print_message("# %s: %zu places\n", s->name, places);
    return places;
}

static const scenario *all;
static size_t n_all;

static void memory_fails_everywhere(void **state)
{
    (void)state;
    const char *only = getenv("TARN_SCENARIO");
    size_t total = 0;
    for (size_t i = 0; i < n_all; i++)
        if (!only || strcmp(only, all[i].name) == 0)
            total += torture_everywhere(&all[i], (long)i);
    assert_int_equal(wrong_errors, 0);
    print_message("# figure: %zu requests for memory failed in %zu scenarios\n", total,
                  n_all);
#ifndef COUNTING_TSAN
    assert_true(total > (only ? 0 : LEAST_PLACES));
#endif
}

int run_without_memory(const scenario *scenarios, size_t count, int (*end)(void **state))
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_fails_everywhere),
    };
    all = scenarios;
    n_all = count;
    count_begin();
    return cmocka_run_group_tests(tests, make_data, end);
}
