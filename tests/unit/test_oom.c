/* Every request for memory fails once, and then from there on, in one scenario after the
 * other: nothing crashes or leaks (AddressSanitizer looks), the error is that there is no
 * memory, nothing is published half, nothing temporary is left, and afterwards everything
 * works. Where the library can do without, it may also succeed. */
#include "support.h"

#include <dirent.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

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

static tarn_error err; /* of what must not fail */

enum { SAMPLES = 6, FEW = 200 };
#define PART(name) scratch_path(name)

/* --- Data that is there ------------------------------------------------------------- */

static unsigned char pixels[24 * 20 * 3];

static tarn_array image_array(void)
{
    tarn_array a;
    OK(tarn_array_init(&a, pixels, (tarn_dtype){'|', 'u', 1}, 3,
                       (const uint64_t[]){24, 20, 3}, &err));
    return a;
}

static tarn_array row_array(uint64_t rows)
{
    tarn_array a;
    OK(tarn_array_init(&a, pixels, (tarn_dtype){'<', 'i', 4}, 2,
                       (const uint64_t[]){rows, 5}, &err));
    return a;
}

static void add_value(tarball *t, unsigned i, const char *field, const tarn_value *value)
{
    char name[64];
    tarn_bytes out = TARN_BYTES_INIT;
    OK(tarn_codecs_encode(NULL, field, value, NULL, &out, &err));
    snprintf(name, sizeof name, "s%02u.%s", i, field);
    tarball_header(t, name, '0', out.size);
    tarball_payload(t, out.data, out.size);
    tarn_bytes_release(&out);
}

static void make_shard(const char *path)
{
    tarball t = {0};
    for (unsigned i = 0; i < SAMPLES; i++) {
        tarn_array a = image_array();
        tarn_value v = tarn_value_integer(i), pic = tarn_value_array(&a);
        add_value(&t, i, "cls", &v);
        add_value(&t, i, "jpg", &pic);
        add_value(&t, i, "npy", &pic);
        add_value(&t, i, "png", &pic);
    }
    tarball_end(&t);
    save_tar(&t, path);
    tarball_reset(&t);
}

static tarn_status write_gnz(const char *path, tarn_error *why)
{
    tarn_gnz_writer *w;
    tarn_gnz_writer_options o = TARN_GNZ_WRITER_OPTIONS_INIT;
    tarn_array rows = row_array(8);
    size_t reserved;
    o.overwrite = true;
    o.checksums = true;
    tarn_status status = tarn_gnz_writer_new(path, &o, &w, why);
    if (status != TARN_OK) return status;
    status = tarn_gnz_writer_metadata(w, "{\"a\": [1, 2]}", 13, why);
    if (status == TARN_OK) status = tarn_gnz_writer_add(w, "x", &rows, NULL, why);
    if (status == TARN_OK)
        status = tarn_gnz_writer_reserve(w, "y", (tarn_dtype){'<', 'i', 4}, 2,
                                         (const uint64_t[]){0, 5}, 20, &reserved, why);
    if (status == TARN_OK) status = tarn_gnz_writer_begin(w, why);
    if (status == TARN_OK) status = tarn_gnz_writer_append(w, reserved, &rows, why);
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
        status = tarn_iac_rows_text(rows, 0, i % 2 ? "odd" : "even", i % 2 ? 3 : 4, why);
        if (status == TARN_OK) status = tarn_iac_rows_number(rows, 1, (int64_t)i, why);
        if (status == TARN_OK) status = tarn_iac_rows_real(rows, 2, 0.5, why);
    }
    if (status == TARN_OK) return tarn_iac_rows_finish(rows, out, why);
    tarn_iac_rows_free(rows);
    return status;
}

static tarn_status write_iac(const char *path, tarn_error *why)
{
    struct ArrowArrayStream slides = {0}, index = {0};
    tarn_iac_write_options o = TARN_IAC_WRITE_OPTIONS_INIT;
    const void *payloads[SAMPLES];
    size_t sizes[SAMPLES];
    o.overwrite = true;
    o.codec = TARN_IAC_ZSTD;
    for (size_t i = 0; i < SAMPLES; i++) {
        payloads[i] = pixels;
        sizes[i] = 100 + i;
    }
    tarn_status status = add_rows(&slides, 0, why);
    if (status == TARN_OK) status = add_rows(&index, SAMPLES, why);
    if (status == TARN_OK)
        status = tarn_iac_build(path, &slides, &index, payloads, sizes, SAMPLES, &o, why);
    if (slides.release) slides.release(&slides);
    if (index.release) index.release(&index);
    return status;
}

static tarn_status write_fold(const char *folder, const tarn_fold_writer_options *o,
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
    if (status == TARN_OK) return tarn_fold_writer_finish(w, NULL, why);
    tarn_fold_writer_abandon(w);
    return status;
}

static tarn_fold_writer_options fold_options(void)
{
    tarn_fold_writer_options o = TARN_FOLD_WRITER_OPTIONS_INIT;
    o.max_count = 2;
    o.threads = 1;
    o.tar.sink.no_sync = true;
    return o;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static void remove_folder(const char *path)
{
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void make_fold(const char *path)
{
    tarn_fold_writer_options o = fold_options();
    remove_folder(path);
    OK(write_fold(path, &o, "old", &err));
}

static int make_data(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (unsigned char)(i * 7);
    assert_int_equal(mkdir(PART("shards"), 0777), 0);
    make_shard(PART("shards/a_0.tar"));
    OK(tarn_index_create((const char *[]){PART("shards/a_0.tar")}, 1, NULL,
                         PART("shards/a.taridx"), NULL, NULL, &err));
    make_shard(PART("plain.tar"));
    OK(write_gnz(PART("in.gnz"), &err));
    OK(write_iac(PART("in.iac"), &err));
    assert_int_equal(mkdir(PART("files"), 0777), 0);
    write_file(PART("files/a.txt"), "hello", 5);
    write_file(PART("files/a.cls"), "1", 1);
    write_file(PART("files/b.txt"), "world", 5);
    write_file(PART("list.csv"), "key,txt,cls\na,hello,1\nb,world,2\n", 31);
    return 0;
}

/* --- Scenarios: reading ------------------------------------------------------------- */

static tarn_status read_tar(tarn_error *why)
{
    tarn_tar *tar;
    tarn_member m;
    unsigned char buf[64];
    tarn_status status = tarn_tar_open(PART("plain.tar"), NULL, &tar, why);
    if (status != TARN_OK) return status;
    while ((status = tarn_tar_next(tar, &m, why)) == TARN_OK) {
        size_t len = m.size < sizeof buf ? (size_t)m.size : sizeof buf;
        status = tarn_tar_read(tar, &m, 0, buf, len, why);
        if (status != TARN_OK) break;
    }
    tarn_tar_close(tar);
    return status == TARN_END ? TARN_OK : status;
}

static tarn_status read_samples(const char *url, tarn_error *why)
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

static tarn_status write_tar(const char *path, tarn_error *why)
{
    tarn_tar_writer *w;
    tarn_tar_writer_options o = TARN_TAR_WRITER_OPTIONS_INIT;
    o.sink.overwrite = true;
    o.sink.no_sync = true;
    tarn_status status = tarn_tar_writer_open(path, &o, &w, why);
    if (status != TARN_OK) return status;
    for (unsigned i = 0; i < 3 && status == TARN_OK; i++) {
        char key[16];
        tarn_field fields[] = {{"txt", "hello", 5, NULL}, {"bin", pixels, 900, NULL}};
        snprintf(key, sizeof key, "k%u", i);
        status = tarn_tar_writer_add(w, key, fields, 2, NULL, why);
    }
    if (status == TARN_OK) return tarn_tar_writer_finish(w, why);
    tarn_tar_writer_abandon(w);
    return status;
}

static tarn_status read_gz(tarn_error *why)
{
    return read_samples(PART("in.tar.gz"), why);
}

static tarn_status read_zst(tarn_error *why)
{
    return read_samples(PART("in.tar.zst"), why);
}

static tarn_status read_xz(tarn_error *why)
{
    return read_samples(PART("in.tar.xz"), why);
}

static tarn_status read_bz2(tarn_error *why)
{
    return read_samples(PART("in.tar.bz2"), why);
}

static tarn_status read_fold(tarn_error *why)
{
    tarn_fold *fold;
    tarn_sample s;
    tarn_view view = TARN_VIEW_INIT;
    tarn_text key = {0};
    uint64_t row = 0;
    tarn_status status = tarn_fold_open(PART("shards"), NULL, &fold, why);
    if (status != TARN_OK) return status;
    status = tarn_fold_find(fold, "s03", &s, why);
    if (status == TARN_OK) status = tarn_fold_pick(fold, &s, "cls", &row, why);
    if (status == TARN_OK) status = tarn_fold_names(fold, row, &key, NULL, why);
    if (status == TARN_OK) status = tarn_fold_view(fold, row, &view, why);
    if (status == TARN_OK) assert_memory_equal(view.data, "3", 1);
    tarn_view_release(&view);
    tarn_text_reset(&key);
    tarn_fold_close(fold);
    return status;
}

static tarn_status verify_fold(tarn_error *why)
{
    tarn_verify_report report;
    tarn_status status = tarn_verify(PART("shards"), NULL, &report, why);
    if (status == TARN_OK) assert_int_equal(report.problems, 0);
    return status;
}

static tarn_status read_gnz(tarn_error *why)
{
    tarn_gnz *g;
    tarn_gnz_view view;
    tarn_gnz_stats stats;
    tarn_view row = TARN_VIEW_INIT;
    size_t number = 0;
    tarn_status status = tarn_gnz_open(PART("in.gnz"), NULL, &g, why);
    if (status != TARN_OK) return status;
    status = tarn_gnz_find(g, "x", &number, why);
    if (status == TARN_OK) status = tarn_gnz_get(g, number, TARN_GNZ_COPY, &view, why);
    if (status == TARN_OK) tarn_gnz_view_release(&view);
    if (status == TARN_OK) status = tarn_gnz_stats_get(g, number, &stats, why);
    if (status == TARN_OK) status = tarn_gnz_sample(g, number, 2, &row, why);
    tarn_view_release(&row);
    tarn_gnz_close(g);
    return status;
}

static tarn_status verify_gnz(tarn_error *why)
{
    tarn_gnz_report report;
    tarn_status status = tarn_gnz_verify(PART("in.gnz"), NULL, &report, why);
    if (status == TARN_OK) assert_int_equal(report.problems, 0);
    return status;
}

static tarn_status read_iac(tarn_error *why)
{
    tarn_iac *pack;
    tarn_view view = TARN_VIEW_INIT;
    tarn_iac_batch batch = {0};
    struct ArrowArrayStream stream = {0};
    uint64_t row, rows[] = {4, 1};
    tarn_status status = tarn_iac_open(PART("in.iac"), NULL, &pack, why);
    if (status != TARN_OK) return status;
    status = tarn_iac_find(pack, "name", "odd", 3, 2, &row, why);
    if (status == TARN_OK) status = tarn_iac_view_decoded(pack, row, &view, why);
    if (status == TARN_OK) assert_memory_equal(view.data, pixels, 100);
    if (status == TARN_OK) status = tarn_iac_read_many(pack, rows, 2, &batch, why);
    if (status == TARN_OK) status = tarn_iac_export(pack, TARN_IAC_INDEX, &stream, why);
    if (stream.release) stream.release(&stream);
    tarn_view_release(&view);
    tarn_iac_batch_reset(&batch);
    tarn_iac_close(pack);
    return status;
}

static tarn_status look_at(tarn_dataset *d, tarn_error *why)
{
    tarn_text key = {0};
    tarn_dataset_batch batch = {0};
    uint64_t n, samples[] = {3, 0, 5};
    uint32_t fields[] = {0};
    tarn_status status = tarn_dataset_key(d, 2, &key, why);
    if (status == TARN_OK) status = tarn_dataset_find(d, key.data, &n, why);
    if (status == TARN_OK) assert_int_equal(n, 2);
    if (status == TARN_OK)
        status = tarn_dataset_read_batch(d, samples, 3, fields, 1, &batch, why);
    tarn_dataset_batch_reset(&batch);
    tarn_text_reset(&key);
    return status;
}

static tarn_status read_dataset(const char *path, tarn_error *why)
{
    tarn_dataset *d, *few = NULL;
    const char *keys[2];
    tarn_text key = {0};
    tarn_status status = tarn_dataset_open(path, NULL, &d, why);
    if (status != TARN_OK) return status;
    status = look_at(d, why);
    if (status == TARN_OK) status = tarn_dataset_key(d, 3, &key, why);
    keys[0] = keys[1] = key.data;
    if (status == TARN_OK) status = tarn_dataset_keep_keys(d, keys, 1, NULL, &few, why);
    tarn_text_reset(&key);
    if (few) tarn_dataset_close(few);
    tarn_dataset_close(d);
    return status;
}

static tarn_status dataset_of_fold(tarn_error *why)
{
    return read_dataset(PART("shards"), why);
}

static tarn_status dataset_of_tar(tarn_error *why)
{
    return read_dataset(PART("plain.tar"), why);
}

static tarn_status dataset_of_gnz(tarn_error *why)
{
    return read_dataset(PART("in.gnz"), why);
}

static tarn_status dataset_of_iac(tarn_error *why)
{
    return read_dataset(PART("in.iac"), why);
}

static tarn_dataset *open_one; /* stays open while memory fails: it has to go on */

static tarn_status live_dataset(tarn_error *why)
{
    if (!open_one) OK(tarn_dataset_open(PART("shards"), NULL, &open_one, &err));
    return look_at(open_one, why);
}

static tarn_status open_orders(tarn_error *why)
{
    for (int kind = TARN_ORDER_IDENTITY; kind <= TARN_ORDER_SHUFFLE; kind++) {
        tarn_order *order;
        tarn_order_options o = TARN_ORDER_OPTIONS_INIT;
        uint64_t out[100];
        o.kind = (tarn_order_kind)kind;
        tarn_status status = tarn_order_open(1000, &o, &order, why);
        if (status != TARN_OK) return status;
        status = tarn_order_fill(order, 5, 100, out, why);
        if (status == TARN_OK) status = tarn_order_set_epoch(order, 3, why);
        tarn_order_close(order);
        if (status != TARN_OK) return status;
    }
    return TARN_OK;
}

static tarn_loader_options loader_options(unsigned threads)
{
    static tarn_image_steps steps = TARN_IMAGE_STEPS_INIT;
    tarn_loader_options o = TARN_LOADER_OPTIONS_INIT;
    steps.width = steps.height = 8;
    o.order.kind = TARN_ORDER_SHUFFLE;
    o.order.batch = 4;
    o.threads = threads;
    o.image = &steps;
    o.epochs = 1;
    return o;
}

static tarn_status load_all(tarn_loader *l, size_t *seen, tarn_error *why)
{
    tarn_batch *batch;
    tarn_status status;
    while ((status = tarn_loader_next(l, &batch, why)) == TARN_OK) {
        *seen += batch->count;
        tarn_batch_release(batch);
    }
    return status == TARN_END ? TARN_OK : status;
}

static tarn_status load(const char *path, unsigned threads, tarn_error *why)
{
    tarn_loader_options o = loader_options(threads);
    tarn_dataset *d;
    tarn_loader *l;
    size_t seen = 0;
    tarn_status status = tarn_dataset_open(path, NULL, &d, why);
    if (status != TARN_OK) return status;
    status = tarn_loader_open(d, &o, &l, why);
    tarn_dataset_close(d);
    if (status != TARN_OK) return status;
    status = load_all(l, &seen, why);
    if (status == TARN_OK) assert_true(seen >= SAMPLES);
    tarn_loader_close(l);
    return status;
}

static tarn_status load_here(tarn_error *why)
{
    return load(PART("shards"), 0, why);
}

static tarn_status load_by_threads(tarn_error *why)
{
    return load(PART("shards"), 2, why);
}

static tarn_status load_gnz(tarn_error *why)
{
    return load(PART("in.gnz"), 0, why);
}

static tarn_status load_iac(tarn_error *why)
{
    return load(PART("in.iac"), 2, why);
}

static size_t failed_before; /* the scenario had memory come back itself */

/* The same loader goes on where memory failed it, and misses nothing. */
static tarn_status load_on(tarn_error *why)
{
    tarn_loader_options o = loader_options(0);
    tarn_loader *l;
    size_t seen = 0;
    if (!open_one) OK(tarn_dataset_open(PART("shards"), NULL, &open_one, &err));
    tarn_status status = tarn_loader_open(open_one, &o, &l, why);
    if (status != TARN_OK) return status;
    status = load_all(l, &seen, why);
    if (status == TARN_ERR_MEMORY) {
        failed_before += memory_is_back();
        status = TARN_OK;
        OK(tarn_loader_set_epoch(l, 1, &err));
        OK(tarn_loader_set_epoch(l, 0, &err));
        seen = 0;
        OK(load_all(l, &seen, &err));
    }
    assert_int_equal(seen, SAMPLES);
    tarn_loader_close(l);
    return status;
}

/* --- Scenarios: values -------------------------------------------------------------- */

static tarn_status there_and_back(const char *field, const tarn_value *value,
                                  tarn_error *why)
{
    tarn_bytes bytes = TARN_BYTES_INIT;
    tarn_value out = TARN_VALUE_INIT;
    tarn_status status = tarn_codecs_encode(NULL, field, value, NULL, &bytes, why);
    if (status == TARN_OK)
        status = tarn_codecs_decode(NULL, field, bytes.data, bytes.size, NULL, &out, why);
    tarn_value_release(&out);
    tarn_bytes_release(&bytes);
    return status;
}

static tarn_status code_values(tarn_error *why)
{
    static const char *const fields[] = {"npy",    "jpg",     "png",       "webp",  "ppm",
                                         "npy.gz", "npy.zst", "tenbin.gz", "ppm.gz"};
    tarn_array a = image_array(), numbers = row_array(8);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        bool tenbin = !strncmp(fields[i], "tenbin", 6);
        tarn_value value = tarn_value_array(tenbin ? &numbers : &a);
        tarn_status status = there_and_back(fields[i], &value, why);
        if (status != TARN_OK) return status;
    }
    return TARN_OK;
}

static tarn_status run_images(tarn_error *why)
{
    static unsigned char out[16 * 16 * 3];
    static unsigned char *jpg;
    static size_t size;
    tarn_image_decoder *decoder;
    tarn_image_plan *plan = NULL;
    tarn_image_steps s = TARN_IMAGE_STEPS_INIT;
    if (!jpg) {
        tarn_bytes bytes = TARN_BYTES_INIT;
        tarn_array a = image_array();
        tarn_value value = tarn_value_array(&a);
        OK(tarn_codecs_encode(NULL, "jpg", &value, NULL, &bytes, &err));
        jpg = bytes.data;
        size = bytes.size;
    }
    s.width = s.height = 16;
    tarn_status status = tarn_image_decoder_new(NULL, &decoder, why);
    if (status != TARN_OK) return status;
    status = tarn_image_plan_new(&s, &plan, why);
    for (uint64_t epoch = 0; epoch < 3 && status == TARN_OK; epoch++)
        status = tarn_image_run(decoder, plan, jpg, size, (tarn_image_draw){1, epoch, 0},
                                out, why);
    tarn_image_plan_free(plan);
    tarn_image_decoder_free(decoder);
    return status;
}

static tarn_status expand_urls(tarn_error *why)
{
    tarn_urls *urls;
    tarn_status status = tarn_urls_expand("a{0..20}.tar::b{x,y}.tar", &urls, why);
    if (status == TARN_OK) tarn_urls_free(urls);
    return status;
}

/* --- Scenarios: writing ------------------------------------------------------------- */

static tarn_status write_plain(tarn_error *why)
{
    return write_tar(PART("out/w.tar"), why);
}

static tarn_status write_zst(tarn_error *why)
{
    return write_tar(PART("out/w.tar.zst"), why);
}

static tarn_status write_gz(tarn_error *why)
{
    return write_tar(PART("out/w.tar.gz"), why);
}

static tarn_status write_xz(tarn_error *why)
{
    return write_tar(PART("out/w.tar.xz"), why);
}

static tarn_status new_fold(tarn_error *why)
{
    tarn_fold_writer_options o = fold_options();
    remove_folder(PART("out/fold"));
    return write_fold(PART("out/fold"), &o, "new", why);
}

static tarn_status append_fold(tarn_error *why)
{
    tarn_fold_writer_options o = fold_options();
    o.append = true;
    return write_fold(PART("out/fold"), &o, "new", why);
}

static tarn_status replace_fold(tarn_error *why)
{
    tarn_fold_writer_options o = fold_options();
    o.overwrite = true;
    return write_fold(PART("out/fold"), &o, "new", why);
}

static tarn_status make_index(tarn_error *why)
{
    const char *shards[] = {PART("shards/a_0.tar")};
    tarn_index_options o = TARN_INDEX_OPTIONS_INIT;
    o.sums = true;
    return tarn_index_create(shards, 1, &o, PART("out/a.taridx"), NULL, NULL, why);
}

static tarn_status new_gnz(tarn_error *why)
{
    return write_gnz(PART("out/w.gnz"), why);
}

static tarn_status update_gnz(tarn_error *why)
{
    tarn_gnz_writer *w;
    tarn_array rows = row_array(4);
    size_t number;
    tarn_gnz_writer_options o = TARN_GNZ_WRITER_OPTIONS_INIT;
    o.checksums = true;
    tarn_status status = tarn_gnz_writer_update(PART("out/w.gnz"), &o, &w, why);
    if (status != TARN_OK) return status;
    status = tarn_gnz_writer_find(w, "y", &number, why);
    if (status == TARN_OK) status = tarn_gnz_writer_add(w, "z", &rows, NULL, why);
    if (status == TARN_OK) status = tarn_gnz_writer_begin(w, why);
    if (status == TARN_OK) status = tarn_gnz_writer_append(w, number, &rows, why);
    if (status == TARN_OK) return tarn_gnz_writer_finish(w, why);
    tarn_gnz_writer_abandon(w);
    return status;
}

static tarn_status new_iac(tarn_error *why)
{
    return write_iac(PART("out/w.iac"), why);
}

static tarn_status rewrite_iac(tarn_error *why)
{
    tarn_iac_write_options o = TARN_IAC_WRITE_OPTIONS_INIT;
    o.overwrite = true;
    o.codec = TARN_IAC_GZIP;
    return tarn_iac_rewrite(PART("in.iac"), PART("out/w.iac"), &o, why);
}

static tarn_status put_sample(void *context, unsigned part, const char *key,
                              const tarn_field *fields, size_t count, tarn_error *why)
{
    (void)context, (void)part, (void)key, (void)fields, (void)count, (void)why;
    return TARN_OK;
}

static tarn_status collect(tarn_error *why)
{
    tarn_collection *c;
    tarn_walk_options o = TARN_WALK_OPTIONS_INIT;
    o.threads = 1;
    tarn_status status = tarn_collection_new(NULL, &c, why);
    if (status != TARN_OK) return status;
    status = tarn_collection_add_folder(c, PART("files"), why);
    if (status == TARN_OK) status = tarn_collection_group(c, why);
    if (status == TARN_OK) status = tarn_collection_shuffle(c, 3, why);
    if (status == TARN_OK) status = tarn_collection_walk(c, &o, put_sample, NULL, why);
    tarn_collection_free(c);
    return status;
}

static tarn_status collect_list(tarn_error *why)
{
    tarn_collection *c;
    tarn_status status = tarn_collection_new(NULL, &c, why);
    if (status != TARN_OK) return status;
    status = tarn_collection_add_manifest(c, PART("list.csv"), why);
    if (status == TARN_OK) status = tarn_collection_group(c, why);
    tarn_collection_free(c);
    return status;
}

/* --- What is to be seen of it ------------------------------------------------------- */

static void no_output(void)
{
    remove_folder(PART("out"));
    assert_int_equal(mkdir(PART("out"), 0777), 0);
}

static void old_fold(void)
{
    no_output();
    make_fold(PART("out/fold"));
}

static void old_gnz(void)
{
    no_output();
    OK(write_gnz(PART("out/w.gnz"), &err));
}

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

static void check_nothing_hidden(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        if (strstr(entry->d_name, ".tmp-"))
            fail_msg("%s is left in %s", entry->d_name, path);
    }
    if (dir) closedir(dir);
}

static void check_tar(void)
{
    static const char *const names[] = {"out/w.tar", "out/w.tar.gz", "out/w.tar.zst",
                                        "out/w.tar.xz"};
    for (size_t i = 0; i < 4; i++)
        if (is_there(PART(names[i]))) OK(read_samples(PART(names[i]), &err));
}

static void check_fold(void)
{
    tarn_verify_report report;
    tarn_fold_writer_options o = fold_options();
    tarn_fold_writer *w;
    check_nothing_hidden(PART("out/fold"));
    if (tarn_verify(PART("out/fold"), NULL, &report, &err) == TARN_ERR_NOT_FOUND &&
        strstr(err.message, "resume it")) {
        o.resume = true;
        OK(tarn_fold_writer_open(PART("out/fold"), "train", &o, &w, &err));
        OK(tarn_fold_writer_finish(w, NULL, &err));
    }
    if (is_there(PART("out/fold/train_0000.tar"))) {
        OK(tarn_verify(PART("out/fold"), NULL, &report, &err));
        assert_int_equal(report.problems, 0);
    }
}

static void check_index(void)
{
    tarn_index *index;
    if (!is_there(PART("out/a.taridx"))) return;
    OK(tarn_index_load(PART("out/a.taridx"), &index, &err));
    tarn_index_free(index);
}

static void check_gnz(void)
{
    tarn_gnz_report report;
    tarn_gnz_verify_options o = TARN_GNZ_VERIFY_OPTIONS_INIT;
    if (!is_there(PART("out/w.gnz"))) return;
    o.repair = true;
    OK(tarn_gnz_verify(PART("out/w.gnz"), &o, &report, &err));
    assert_int_equal(report.problems, 0);
}

static void check_iac(void)
{
    tarn_iac *pack;
    if (!is_there(PART("out/w.iac"))) return;
    OK(tarn_iac_open(PART("out/w.iac"), NULL, &pack, &err));
    tarn_iac_close(pack);
}

/* --- Torture ------------------------------------------------------------------------ */

typedef struct scenario {
    const char *name;
    tarn_status (*run)(tarn_error *why);
    void (*prepare)(void); /* or NULL */
    void (*check)(void);   /* or NULL */
} scenario;

/* Once more with memory, on the same disk where that can be. */
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

static const scenario scenarios[] = {
    {"a tar is read", read_tar, NULL, NULL},
    {"a .tar.gz is read", read_gz, NULL, NULL},
    {"a .tar.zst is read", read_zst, NULL, NULL},
    {"a .tar.xz is read", read_xz, NULL, NULL},
    {"a .tar.bz2 is read", read_bz2, NULL, NULL},
    {"a fold is read", read_fold, NULL, NULL},
    {"a fold is verified", verify_fold, NULL, NULL},
    {"an array file is read", read_gnz, NULL, NULL},
    {"an array file is verified", verify_gnz, NULL, NULL},
    {"a pack is read", read_iac, NULL, NULL},
    {"a dataset of a fold", dataset_of_fold, NULL, NULL},
    {"a dataset of a tar", dataset_of_tar, NULL, NULL},
    {"a dataset of an array file", dataset_of_gnz, NULL, NULL},
    {"a dataset of a pack", dataset_of_iac, NULL, NULL},
    {"a dataset that stays open", live_dataset, NULL, NULL},
    {"orders", open_orders, NULL, NULL},
    {"a loader without threads", load_here, NULL, NULL},
    {"a loader with threads", load_by_threads, NULL, NULL},
    {"a loader of an array file", load_gnz, NULL, NULL},
    {"a loader of a pack", load_iac, NULL, NULL},
    {"a loader that goes on", load_on, NULL, NULL},
    {"values", code_values, NULL, NULL},
    {"images", run_images, NULL, NULL},
    {"lists of URLs", expand_urls, NULL, NULL},
    {"files are collected", collect, NULL, NULL},
    {"a manifest is collected", collect_list, NULL, NULL},
    {"a tar is written", write_plain, no_output, check_tar},
    {"a .tar.gz is written", write_gz, no_output, check_tar},
    {"a .tar.zst is written", write_zst, no_output, check_tar},
    {"a .tar.xz is written", write_xz, no_output, check_tar},
    {"a fold is written", new_fold, no_output, check_fold},
    {"a fold is appended to", append_fold, old_fold, check_fold},
    {"a fold is replaced", replace_fold, old_fold, check_fold},
    {"an index is made", make_index, no_output, check_index},
    {"an array file is written", new_gnz, no_output, check_gnz},
    {"an array file is updated", update_gnz, old_gnz, check_gnz},
    {"a pack is written", new_iac, no_output, check_iac},
    {"a pack is written anew", rewrite_iac, no_output, check_iac},
};

static void memory_fails_everywhere(void **state)
{
    (void)state;
    const char *only = getenv("TARN_SCENARIO");
    size_t total = 0, n_scenarios = sizeof scenarios / sizeof scenarios[0];
    static const char *const made[] = {"in.tar.gz", "in.tar.zst", "in.tar.xz",
                                       "in.tar.bz2"};
    for (size_t i = 0; i < 4; i++)
        OK(write_tar(PART(made[i]), &err));
    for (size_t i = 0; i < n_scenarios; i++) {
        const scenario *s = &scenarios[i];
        if (only && strcmp(only, s->name) != 0) continue;
        size_t places = 0;
        count_memory();
        run_clean(s);
        /* Of many requests only some, if not all are wanted. */
        long step = getenv("TARN_FULL") || count_memory().calls <= FEW ? 1 : 7;
        for (int forever = 0; forever < 2; forever++)
            for (long n = (long)i % step; n < 100000 && torture(s, n, forever); n += step)
                places++;
        run_clean(s);
        if (getenv("TARN_FULL")) print_message("# %s: %zu places\n", s->name, places);
        total += places;
    }
    if (open_one) tarn_dataset_close(open_one);
    assert_int_equal(wrong_errors, 0);
    print_message("# figure: %zu requests for memory failed in %zu scenarios\n", total,
                  n_scenarios);
#ifndef COUNTING_TSAN
    assert_true(total > (only ? 0 : 500));
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_fails_everywhere),
    };
    count_begin();
    return cmocka_run_group_tests(tests, make_data, scratch_remove);
}
