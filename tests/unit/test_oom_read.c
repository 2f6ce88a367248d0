/* Reading without memory: archives, folds, array files, IAC files, datasets and loaders.
 */
#include "oom.h"

#include <dirent.h>
#include <sys/stat.h>

#include "gnz/reader.h"
#include "iac/ipc_write.h"
#include "iac/table.h"
#include "itar/fold_read.h"
#include "itar/journal.h"

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

/* Two consecutive members: the decoder starts again. */
static tarn_status read_twice(tarn_error *why)
{
    static const char *const names[][2] = {{"in.tar.xz", "two.xz"},
                                           {"in.tar.bz2", "two.bz2"}};
    static bool written;
    for (size_t i = 0; i < 2; i++) {
        if (!written) {
            size_t size;
            unsigned char *one = read_file(PART(names[i][0]), &size);
            unsigned char *two = malloc(2 * size);
            memcpy(two, one, size);
            memcpy(two + size, one, size);
            write_file(PART(names[i][1]), two, 2 * size);
            free(one);
            free(two);
            written = i == 1;
        }
        tarn_source *source;
        unsigned char buf[4096];
        size_t got = 1, all = 0;
        tarn_status status = tarn_source_open(PART(names[i][1]), NULL, &source, why);
        if (status != TARN_OK) return status;
        for (; got && status == TARN_OK; all += got)
            status = tarn_source_read(source, buf, sizeof buf, &got, why);
        tarn_source_close(source);
        if (status != TARN_OK) return status;
        assert_true(all > 0 && all % 1024 == 0);
    }
    return TARN_OK;
}

/* Members with every way to store a name. */
static tarn_status read_long_names(tarn_error *why)
{
    static const char path[] =
        "a/folder/with/a/long/name/that/takes/more/than/the/memory/"
        "a/text/begins/with/\xff\xc3\xadwi.T\xc3\x8dXT";
    static bool written;
    tarn__fold *fold;
    tarn_text key = {0};
    if (!written) {
        tarball t = {0};
        assert_int_equal(mkdir(PART("names"), 0777), 0);
        tarball_pax(&t, 'x', "path", path);
        tarball_file(&t, "x", "1");
        tarball_extended(&t, 'L', path + 1, sizeof path - 1);
        tarball_file(&t, "x", "2");
        tarball_header(&t, "p.txt", '0', 0);
        memcpy(tarball_last(&t) + 345, path, 70);
        tarball_sum(tarball_last(&t));
        tarball_end(&t);
        save_tar(&t, PART("names/f_0.tar"));
        tarball_reset(&t);
        OK(tarn_index_build((const char *[]){PART("names/f_0.tar")}, 1, NULL,
                            PART("names/f.taridx"), NULL, NULL, 0, &err));
        written = true;
    }
    tarn_status status = tarn__fold_open(PART("names"), NULL, &fold, why);
    if (status != TARN_OK) return status;
    for (uint64_t row = 0; row < 3 && status == TARN_OK; row++)
        status = tarn__fold_names(fold, row, &key, NULL, why);
    tarn_text_reset(&key);
    tarn__fold_close(fold);
    return status;
}

static tarn_status read_fold(tarn_error *why)
{
    tarn_dataset *fold;
    tarn_view view = TARN_VIEW_INIT;
    tarn_text key = {0};
    tarn_stored members[4];
    size_t n;
    uint64_t sample = 0;
    uint32_t field = 0;
    tarn_status status = tarn_dataset_open(PART("shards"), NULL, &fold, why);
    if (status != TARN_OK) return status;
    status =
        tarn_dataset_find(fold, (const char *const[]){"s0003"}, 1, &sample, NULL, why);
    if (status == TARN_OK) status = tarn_dataset_field_find(fold, "cls", &field, why);
    if (status == TARN_OK) status = tarn_dataset_key(fold, sample, &key, why);
    if (status == TARN_OK)
        status = tarn_dataset_members(fold, sample, members, 4, &n, why);
    if (status == TARN_OK) status = tarn_dataset_get(fold, sample, field, &view, why);
    if (status == TARN_OK) assert_memory_equal(view.data, "3", 1);
    tarn_view_release(&view);
    tarn_text_reset(&key);
    tarn_dataset_close(fold);
    return status;
}

/* Nothing is known about a journal that could not be read for lack of memory. */
static tarn_status read_journal(tarn_error *why)
{
    static const char *const coming[] = {"train_0001.tar", "train_0002.tar"};
    char *path = strdup(PART("train.tarn-commit"));
    static bool written;
    tarn__names in, out;
    tarn__journal_state state = TARN__JOURNAL_NONE;
    uint32_t id;
    tarn__names_init(&in);
    tarn__names_init(&out);
    if (!path) return TARN_ERR_MEMORY;
    if (!written) {
        tarn__journal journal = {NULL, coming, 2, &out};
        OK(tarn__names_add(&out, "train_0000.tar", 14, &id, &err));
        OK(tarn__journal_write(&journal, path, true, &err));
        tarn__names_reset(&out);
        tarn__names_init(&out);
        written = true;
    }
    tarn_status status = tarn__journal_load(path, "train", NULL, &in, &out, &state, why);
    if (status == TARN_OK) {
        assert_int_equal(state, TARN__JOURNAL_LIVE);
        assert_int_equal(in.count, 2);
        assert_int_equal(out.count, 1);
    } else {
        assert_int_equal(in.count + out.count, 0);
    }
    tarn__names_reset(&in);
    tarn__names_reset(&out);
    free(path);
    return status;
}

static tarn_status verify_fold(tarn_error *why)
{
    tarn_verify_report report;
    tarn_status status = tarn_verify(PART("shards"), NULL, &report, sizeof report, why);
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
    if (status == TARN_OK)
        status = tarn_gnz_stats_get(g, number, &stats, sizeof stats, why);
    if (status == TARN_OK) status = tarn__gnz_view_row(g, number, 2, &row, why);
    tarn_view_release(&row);
    tarn_gnz_close(g);
    return status;
}

/* Columns, read instead of mapped. */
static tarn_status read_columns(tarn_error *why)
{
    static const char json[] =
        "{\"arrays\": {\"f\": {\"dtype\": \"<i4\", \"offset\": 4096, \"order\": \"F\", "
        "\"shape\": [6, 4]}}, \"version\": 1}";
    static unsigned char bytes[4096 + 96] = "GNZ1";
    tarn_gnz_options o = TARN_GNZ_OPTIONS_INIT;
    tarn_gnz *g;
    tarn_gnz_view whole;
    tarn_view row = TARN_VIEW_INIT;
    int32_t out[24];
    if (!bytes[8]) {
        bytes[4] = sizeof json - 1;
        memcpy(bytes + 8, json, sizeof json - 1);
        write_file(PART("columns.gnz"), bytes, sizeof bytes);
    }
    o.io = TARN_IO_READ;
    tarn_status status = tarn_gnz_open(PART("columns.gnz"), &o, &g, why);
    if (status != TARN_OK) return status;
    status = tarn_gnz_read(g, 0, 0, 6, out, sizeof out, why);
    if (status == TARN_OK) status = tarn_gnz_get(g, 0, TARN_GNZ_READ, &whole, why);
    if (status == TARN_OK) tarn_gnz_view_release(&whole);
    if (status == TARN_OK) status = tarn__gnz_view_row(g, 0, 2, &row, why);
    tarn_view_release(&row);
    tarn_gnz_close(g);
    return status;
}

static tarn_status verify_gnz(tarn_error *why)
{
    tarn_verify_report report;
    tarn_status status = tarn_verify(PART("in.gnz"), NULL, &report, sizeof report, why);
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
    if (status == TARN_OK) status = tarn_iac_view(pack, row, true, &view, why);
    if (status == TARN_OK) assert_memory_equal(view.data, pixels, 100);
    if (status == TARN_OK) status = tarn_iac_read(pack, rows, 2, &batch, why);
    if (status == TARN_OK) status = tarn_iac_export(pack, TARN_IAC_INDEX, &stream, why);
    if (stream.release) stream.release(&stream);
    tarn_view_release(&view);
    tarn_iac_batch_reset(&batch);
    tarn_iac_close(pack);
    return status;
}

/* --- Tables of every type ----------------------------------------------------------- */

enum { MAX_TABLES = 64 };
static char *tables[MAX_TABLES + 1]; /* and a long one */
static unsigned char *kept;
static size_t n_tables;

/* The index tables of the seeds of fuzz_iac, each in a separate file. A seed is a byte of
 * options, two lengths of three bytes, the slide table, this one, data. */
static void find_tables(void)
{
    if (n_tables) return;
    char folder[600], path[900];
    struct dirent *entry;
    snprintf(folder, sizeof folder, "%s", corpus_path("iac"));
    assert_int_equal(mkdir(PART("tables"), 0777), 0);
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        size_t size;
        bool made = !strncmp(entry->d_name, "found-", 6) || strchr(entry->d_name, '-');
        if (entry->d_name[0] == '.' || made || n_tables == MAX_TABLES) continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        unsigned char *seed = read_file(path, &size);
        size_t slides = (size_t)seed[1] | (size_t)seed[2] << 8 | (size_t)seed[3] << 16,
               len = (size_t)seed[4] | (size_t)seed[5] << 8 | (size_t)seed[6] << 16;
        if (!(seed[0] & 1) && 7 + slides + len <= size) {
            snprintf(path, sizeof path, "tables/%s", entry->d_name);
            tables[n_tables] = strdup(PART(path));
            write_file(tables[n_tables++], seed + 7 + slides, len);
        }
        free(seed);
    }
    closedir(dir);
    assert_true(n_tables > 30);
}

/* Reads all batches of a stream. */
static tarn_status drain(struct ArrowArrayStream *stream, uint64_t *rows)
{
    struct ArrowSchema schema = {0};
    int failed = stream->get_schema(stream, &schema);
    if (schema.release) schema.release(&schema);
    while (!failed) {
        struct ArrowArray batch = {0};
        failed = stream->get_next(stream, &batch);
        if (failed || !batch.release) break;
        *rows += (uint64_t)batch.length;
        batch.release(&batch);
    }
    return failed ? TARN_ERR_MEMORY : TARN_OK;
}

enum { LONG = 3000 };

/* Columns whose offsets, indices and run ends need a block of memory each, in a struct,
 * with a byte before them: in the file they are not aligned. */
static const char *write_long_table(void)
{
    static int32_t offsets[LONG + 1], indices[LONG];
    static int64_t ends[LONG];
    static unsigned char values[LONG];
    static const void *no_rows[] = {NULL}, *texts[] = {NULL, offsets, ""},
                      *index[] = {NULL, indices}, *numbers[] = {NULL, values},
                      *run_ends[] = {NULL, ends};
    struct ArrowSchema
        words = {.format = "u", .name = ""},
        text = {.format = "u", .name = "text"},
        coded = {.format = "i", .name = "d", .dictionary = &words},
        end = {.format = "l", .name = "run_ends"},
        value = {.format = "C", .name = "values"}, *pair[] = {&end, &value},
        runs = {.format = "+r", .name = "r", .n_children = 2, .children = pair},
        *inner[] = {&text, &coded, &runs},
        nest = {.format = "+s", .name = "s", .n_children = 3, .children = inner},
        *outer[] = {&nest}, root = {.format = "+s", .n_children = 1, .children = outer};
    struct ArrowArray a_words = {.length = LONG, .n_buffers = 3, .buffers = texts},
                      a_text = a_words,
                      a_coded = {.length = LONG,
                                 .n_buffers = 2,
                                 .buffers = index,
                                 .dictionary = &a_words},
                      a_end = {.length = LONG, .n_buffers = 2, .buffers = run_ends},
                      a_value = {.length = LONG, .n_buffers = 2, .buffers = numbers},
                      *a_pair[] = {&a_end, &a_value},
                      a_runs = {.length = LONG, .n_children = 2, .children = a_pair},
                      *a_inner[] = {&a_text, &a_coded, &a_runs},
                      a_nest = {.length = LONG,
                                .n_buffers = 1,
                                .buffers = no_rows,
                                .n_children = 3,
                                .children = a_inner},
                      *a_outer[] = {&a_nest},
                      all = {.length = LONG,
                             .n_buffers = 1,
                             .buffers = no_rows,
                             .n_children = 1,
                             .children = a_outer};
    tarn__ipc_writer w;
    tarn__buf out;
    for (int i = 0; i < LONG; i++)
        ends[i] = i + 1;
    tarn__buf_init(&out, 16 << 20);
    OK(tarn__buf_add(&out, "........", 8, &err));
    OK(tarn__ipc_begin(&w, &root, &out, &err));
    OK(tarn__ipc_batch(&w, &all, &err));
    OK(tarn__ipc_end(&w, &err));
    tarn__ipc_reset(&w);
    write_file(PART("long.arrow"), out.data, out.size);
    tarn__buf_reset(&out);
    return PART("long.arrow");
}

static tarn_status read_long_table(tarn_error *why)
{
    static char *path;
    tarn__source_file *file;
    if (!path) path = tables[MAX_TABLES] = strdup(write_long_table());
    for (uint64_t shift = 0; shift < 2; shift++) {
        tarn__table *t;
        tarn_status status = tarn__source_file_open(path, false, NULL, &file, why);
        if (status != TARN_OK) return status;
        if (shift) { /* the same bytes, one position earlier */
            tarn_view view;
            status = tarn__source_file_view(file, 8, file->size - 8, &view, why);
            if (status == TARN_OK) {
                static unsigned char *moved;
                if (!moved) moved = malloc(view.size + 1);
                if (!moved) status = TARN_ERR_MEMORY;
                if (moved) memcpy(moved + 1, view.data, view.size);
                if (moved)
                    status = tarn__table_parse(moved + 1, view.size, 64 << 20, &t, why);
                kept = moved;
                tarn_view_release(&view);
            }
        } else {
            status = tarn__table_read(file, 8, file->size - 8, 64 << 20, &t, why);
        }
        tarn__source_file_unref(file);
        if (status == TARN_OK) {
            status = tarn__table_validate(t, why);
            if (status == TARN_OK) assert_int_equal(t->rows, LONG);
            tarn__table_unref(t);
        }
        if (status != TARN_OK) return status;
    }
    return TARN_OK;
}

static tarn_status read_table(const char *path, bool no_map, tarn_error *why)
{
    tarn__source_file *file;
    tarn__table *t = NULL;
    struct ArrowArrayStream stream = {0};
    uint64_t rows = 0;
    tarn_status status = tarn__source_file_open(path, no_map, NULL, &file, why);
    if (status != TARN_OK) return status;
    status = tarn__table_read(file, 0, file->size, 64 << 20, &t, why);
    tarn__source_file_unref(file);
    if (status != TARN_OK) return status;
    status = tarn__table_export(t, &stream, why);
    if (status == TARN_OK) status = drain(&stream, &rows);
    if (status == TARN_OK) assert_int_equal(rows, t->rows);
    if (stream.release) stream.release(&stream);
    tarn__table_unref(t);
    return status;
}

static tarn_status read_tables(tarn_error *why)
{
    find_tables();
    for (size_t i = 0; i < n_tables; i++) {
        tarn_status status = read_table(tables[i], i % 3 == 2, why);
        if (status != TARN_OK) return status;
    }
    return TARN_OK;
}

static tarn_status look_at(tarn_dataset *d, tarn_error *why)
{
    tarn_text key = {0};
    tarn_dataset_batch batch = {0};
    uint64_t n, samples[] = {3, 0, 5};
    uint32_t fields[] = {0};
    tarn_status status = tarn_dataset_key(d, 2, &key, why);
    if (status == TARN_OK) status = find_key(d, key.data, &n, why);
    if (status == TARN_OK) assert_int_equal(n, 2);
    if (status == TARN_OK)
        status = tarn_dataset_read(d, samples, 3, fields, 1, &batch, why);
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
    if (status == TARN_OK) status = keep_keys(d, keys, 1, NULL, &few, why);
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

static tarn_dataset *open_one; /* stays open, and must work after the failure */

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
        tarn_order_close(order);
        if (status != TARN_OK) return status;
    }
    return TARN_OK;
}

/* Slice, order, filter below it, ranks twice, another epoch, and a list. */
enum { CHAIN = 8 };

static tarn_status make_chain(tarn_dataset **d, tarn_error *why)
{
    static const uint64_t some[] = {1, 0, 1};
    static const double weights[] = {1, 2, 3, 4, 5, 6};
    static const bool mask[] = {true, true, true, true, true, false};
    tarn_order_options o = TARN_ORDER_OPTIONS_INIT;
    TARN_TRY(tarn_dataset_slice(d[0], 5, -1, 6, &d[1], why));
    o.kind = TARN_ORDER_SHUFFLE;
    TARN_TRY(tarn_dataset_order(d[1], &o, &d[2], why));
    o.kind = TARN_ORDER_WEIGHTED_ONCE;
    o.weights = weights;
    TARN_TRY(tarn_dataset_order(d[2], &o, &d[3], why));
    TARN_TRY(keep_mask(d[3], mask, &d[4], why));
    TARN_TRY(tarn_dataset_split(d[4], 0, 2, TARN_UNEVEN_PAD, &d[5], why));
    TARN_TRY(tarn_dataset_split(d[5], 0, 1, TARN_UNEVEN_DROP, &d[6], why));
    TARN_TRY(tarn_dataset_at_epoch(d[6], 2, &d[7], why));
    TARN_TRY(tarn_dataset_select(d[7], some, 3, &d[CHAIN], why));
    return TARN_OK;
}

static tarn_status resume_each(tarn_dataset **d, tarn_error *why)
{
    tarn_text state = {0};
    tarn_status status = TARN_OK;
    for (int i = 0; i <= CHAIN && status == TARN_OK; i++) {
        tarn_dataset *rest = NULL;
        status = tarn_dataset_state(d[i], 1, &state, why);
        if (status == TARN_OK)
            status = tarn_dataset_resume(d[i], state.data, state.size, &rest, why);
        tarn_dataset_close(rest);
    }
    tarn_text_reset(&state);
    return status;
}

static tarn_status chain(tarn_error *why)
{
    tarn_dataset *d[CHAIN + 1] = {NULL};
    tarn_status status = tarn_dataset_open(PART("shards"), NULL, &d[0], why);
    if (status == TARN_OK) status = make_chain(d, why);
    if (status == TARN_OK) status = resume_each(d, why);
    for (int i = 0; i <= CHAIN; i++)
        tarn_dataset_close(d[i]);
    return status;
}

static tarn_status mix_states(tarn_error *why)
{
    tarn_dataset *d[5] = {NULL};
    tarn_mix_options o = TARN_MIX_OPTIONS_INIT;
    tarn_text state = {0}, key = {0};
    uint64_t found;
    o.counts = (const uint64_t[]){4, 3};
    tarn_status status = tarn_dataset_open(PART("shards"), NULL, &d[0], why);
    if (status == TARN_OK) status = tarn_dataset_order(d[0], NULL, &d[1], why);
    if (status == TARN_OK) status = tarn_dataset_mix(d, 2, &o, &d[2], why);
    if (status == TARN_OK) status = tarn_dataset_state(d[2], 3, &state, why);
    o.counts = (const uint64_t[]){3, 5}; /* sources continue */
    if (status == TARN_OK) status = tarn_dataset_mix(d, 2, &o, &d[3], why);
    if (status == TARN_OK)
        status = tarn_dataset_resume(d[3], state.data, state.size, &d[4], why);
    if (status == TARN_OK) status = tarn_dataset_key(d[4], 2, &key, why);
    if (status == TARN_OK) status = find_key(d[4], key.data, &found, why);
    for (int i = 0; i < 5; i++)
        tarn_dataset_close(d[i]);
    tarn_text_reset(&state);
    tarn_text_reset(&key);
    return status;
}

static tarn_loader_options loader_options(unsigned threads)
{
    static tarn_image_steps steps = TARN_IMAGE_STEPS_INIT;
    tarn_loader_options o = TARN_LOADER_OPTIONS_INIT;
    steps.width = steps.height = 8;
    o.batch = 4;
    o.threads = threads;
    o.image = &steps;
    o.epochs = 1;
    return o;
}

static tarn_status load_all(tarn_loader *l, size_t *seen, tarn_error *why)
{
    tarn_batch *batch;
    tarn_status status;
    while ((status = tarn_loader_next(l, TARN_NO_TIMEOUT, &batch, why)) == TARN_OK) {
        *seen += batch->count;
        tarn_batch_release(batch);
    }
    return status == TARN_END ? TARN_OK : status;
}

static tarn_status load_with(const char *path, const tarn_loader_options *o,
                             tarn_error *why)
{
    tarn_order_options shuffle = TARN_ORDER_OPTIONS_INIT;
    tarn_dataset *d, *shuffled = NULL;
    tarn_loader *l;
    size_t seen = 0;
    shuffle.kind = TARN_ORDER_SHUFFLE;
    tarn_status status = tarn_dataset_open(path, NULL, &d, why);
    if (status != TARN_OK) return status;
    status = tarn_dataset_order(d, &shuffle, &shuffled, why);
    tarn_dataset_close(d);
    if (status == TARN_OK) status = tarn_loader_open(shuffled, o, &l, why);
    tarn_dataset_close(shuffled);
    if (status != TARN_OK) return status;
    status = load_all(l, &seen, why);
    if (status == TARN_OK) assert_true(seen >= SAMPLES);
    tarn_loader_close(l);
    return status;
}

static tarn_status load(const char *path, unsigned threads, bool images, tarn_error *why)
{
    tarn_loader_options o = loader_options(threads);
    if (!images) o.image = NULL;
    return load_with(path, &o, why);
}

static tarn_status load_masks(tarn_error *why)
{
    tarn_loader_options o = loader_options(0);
    const tarn_load_field fields[] = {{"png", TARN_LOAD_MASK, NULL},
                                      {"png", TARN_LOAD_AUTO, NULL}};
    o.fields = fields;
    o.n_fields = 2;
    return load_with(PART("shards"), &o, why);
}

static tarn_status load_padded(tarn_error *why)
{
    tarn_loader_options o = loader_options(0);
    const tarn_load_field fields[] = {{"png", TARN_LOAD_AUTO, NULL},
                                      {"png", TARN_LOAD_AUTO, NULL}};
    tarn_collate_options pad = TARN_COLLATE_OPTIONS_INIT,
                         ragged = TARN_COLLATE_OPTIONS_INIT;
    pad.kind = TARN_COLLATE_PAD;
    pad.mask = pad.lengths = true;
    ragged.kind = TARN_COLLATE_RAGGED;
    o.image = NULL;
    o.fields = fields;
    o.n_fields = 2;
    o.collate = (const tarn_collate_options *const[]){&pad, &ragged};
    return load_with(PART("shards"), &o, why);
}

static tarn_status keep_image(void *context, const tarn_map_input *in,
                              tarn_map_output *out, tarn_error *why)
{
    (void)context;
    return tarn_map_put(out, 0, &in->values[0], why);
}

static tarn_status load_mapped(tarn_error *why)
{
    static const char *const made[] = {"image"};
    tarn_loader_options o = loader_options(0);
    const tarn_load_field fields[] = {{"png", TARN_LOAD_AUTO, NULL}};
    o.image = NULL;
    o.fields = fields;
    o.n_fields = 1;
    o.map = keep_image;
    o.map_fields = made;
    o.n_map_fields = 1;
    return load_with(PART("shards"), &o, why);
}

static tarn_status load_here(tarn_error *why)
{
    return load(PART("shards"), 0, true, why);
}

static tarn_status load_by_threads(tarn_error *why)
{
    return load(PART("shards"), 2, true, why);
}

static tarn_status load_gnz(tarn_error *why)
{
    return load(PART("in.gnz"), 0, false, why);
}

static tarn_status load_iac(tarn_error *why)
{
    return load(PART("in.iac"), 2, false, why);
}

/* The same loader continues after the failure, and misses nothing. */
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
        memory_comes_back();
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

/* Alternatives and other names: one sample, a batch, members, a filter, and all
 * decoded. */
static tarn_status read_alternatives(tarn_error *why)
{
    tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
    tarn_condition c = TARN_CONDITION_INIT;
    tarn_dataset *d, *having = NULL;
    tarn_verify_decode_report report;
    tarn_dataset_batch batch = TARN_DATASET_BATCH_INIT;
    tarn_view views[2];
    tarn_text key = {0};
    tarn_stored members[8];
    size_t count;
    o.fields = (const char *[]){"x=gone;cls;jpg", "png;npy", NULL};
    tarn_status status = tarn_dataset_open(PART("shards"), &o, &d, why);
    if (status != TARN_OK) return status;
    status = tarn_dataset_get_all(d, 1, views, &key, why);
    tarn_text_reset(&key);
    for (size_t i = 0; status == TARN_OK && i < 2; i++)
        tarn_view_release(&views[i]);
    if (status == TARN_OK)
        status = tarn_dataset_read(d, (uint64_t[]){0, 1}, 2, NULL, 0, &batch, why);
    tarn_dataset_batch_reset(&batch);
    if (status == TARN_OK) status = tarn_dataset_members(d, 0, members, 8, &count, why);
    c.kind = TARN_CONDITION_HAVING;
    c.names = (const char *[]){"x", "gone;cls"};
    c.n_names = 2;
    if (status == TARN_OK) status = tarn_dataset_filter(d, &c, &having, why);
    tarn_dataset_close(having);
    if (status == TARN_OK)
        status = tarn_verify_decode(d, NULL, &report, sizeof report, why);
    if (status == TARN_OK) assert_int_equal(report.samples, SAMPLES);
    tarn_dataset_close(d);
    return status;
}

static const scenario scenarios[] = {
    {"fields have alternatives", read_alternatives, NULL, NULL},
    {"a tar is read", read_tar, NULL, NULL},
    {"a .tar.gz is read", read_gz, NULL, NULL},
    {"a .tar.zst is read", read_zst, NULL, NULL},
    {"a .tar.xz is read", read_xz, NULL, NULL},
    {"a .tar.bz2 is read", read_bz2, NULL, NULL},
    {"two members are read", read_twice, NULL, NULL},
    {"a fold is read", read_fold, NULL, NULL},
    {"a fold of long names is read", read_long_names, NULL, NULL},
    {"a fold is verified", verify_fold, NULL, NULL},
    {"a journal is read", read_journal, NULL, NULL},
    {"an array file is read", read_gnz, NULL, NULL},
    {"columns of an array file are read", read_columns, NULL, NULL},
    {"an array file is verified", verify_gnz, NULL, NULL},
    {"an IAC file is read", read_iac, NULL, NULL},
    {"tables of every type are read", read_tables, NULL, NULL},
    {"a long table is read", read_long_table, NULL, NULL},
    {"a dataset of a fold", dataset_of_fold, NULL, NULL},
    {"a dataset of a tar", dataset_of_tar, NULL, NULL},
    {"a dataset of an array file", dataset_of_gnz, NULL, NULL},
    {"a dataset of an IAC file", dataset_of_iac, NULL, NULL},
    {"a dataset that stays open", live_dataset, NULL, NULL},
    {"orders", open_orders, NULL, NULL},
    {"a chain and its states", chain, NULL, NULL},
    {"states of mixes", mix_states, NULL, NULL},
    {"a loader without threads", load_here, NULL, NULL},
    {"a loader that pads", load_padded, NULL, NULL},
    {"a loader with a function of the caller", load_mapped, NULL, NULL},
    {"masks are loaded", load_masks, NULL, NULL},
    {"a loader with threads", load_by_threads, NULL, NULL},
    {"a loader of an array file", load_gnz, NULL, NULL},
    {"a loader of an IAC file", load_iac, NULL, NULL},
    {"a loader that continues", load_on, NULL, NULL},
};

static int end(void **state)
{
    if (open_one) tarn_dataset_close(open_one);
    for (size_t i = 0; i <= MAX_TABLES; i++)
        free(tables[i]);
    free(kept);
    return scratch_remove(state);
}

int main(void)
{
    return run_without_memory(scenarios, sizeof scenarios / sizeof scenarios[0], end);
}
