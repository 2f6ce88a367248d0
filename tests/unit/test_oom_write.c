/* Values, collecting and writing without memory. */
#include "iac_help.h"
#include "oom.h"

#include <tarn/commit.h>

#include <sys/stat.h>
#include <unistd.h>

#include "base/crc.h"
#include "itar/collection.h"
#include "pack/records.h"

#include "codec/codec.h"

/* --- Values -------------------------------------------------------------- */

static tarn_status there_and_back(const char *field, const tarn_value *value,
                                  tarn_error *why)
{
    tarn_bytes bytes = TARN_BYTES_INIT;
    tarn_value out = TARN_VALUE_INIT;
    tarn_status status = tarn_encode(field, value, NULL, &bytes, why);
    if (status == TARN_OK)
        status = tarn_decode(field, bytes.data, bytes.size, NULL, &out, why);
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
        tarn_value value = value_array(tenbin ? &numbers : &a);
        tarn_status status = there_and_back(fields[i], &value, why);
        if (status != TARN_OK) return status;
    }
    return TARN_OK;
}

/* Few values in long runs, and several arrays in one field. */
static tarn_status code_masks(tarn_error *why)
{
    static unsigned char labels[20 * 24];
    static const char *const names[] = {"a", "b"};
    tarn_array mask, pair[2];
    for (size_t i = 0; i < sizeof labels; i++)
        labels[i] = (unsigned char)(i / 100);
    OK(tarn_array_init(&mask, labels, (tarn_dtype){'|', 'u', 1}, 2,
                       (const uint64_t[]){20, 24}, &err));
    pair[0] = mask;
    pair[1] = row_array(8);
    tarn_value one = value_array(&mask);
    tarn_value many = {
        .kind = TARN_VALUE_ARRAYS, .arrays = pair, .names = names, .count = 2};
    tarn_status status = there_and_back("rle", &one, why);
    if (status == TARN_OK) status = there_and_back("npz", &many, why);
    if (status == TARN_OK) status = there_and_back("npz.gz", &one, why);
    many.names = NULL;
    if (status == TARN_OK) status = there_and_back("ten", &many, why);
    return status;
}

/* Arrays in another byte order, names of every length, pixels in several chunks, and
 * bytes that are not aligned. */
static tarn_status code_odd_values(tarn_error *why)
{
    static const uint32_t labels[40] = {1, 2, 2, 3};
    static const char text[] =
        "a_name_that_is_longer_than_the_memory_that_bytes_begin_with_is_at_some_length";
    static const struct {
        const char *field;
        char kind;
        uint32_t size;
    } swapped[] = {
        {"seg16", 'u', 2}, {"seg32", 'u', 4}, {"rle", 'i', 4}, {"ten", 'i', 4}};
    tarn_array a;
    for (size_t i = 0; i < 4; i++) {
        OK(tarn_array_init(&a, (void *)(uintptr_t)labels,
                           (tarn_dtype){'>', swapped[i].kind, swapped[i].size}, 2,
                           (const uint64_t[]){8, 5}, &err));
        tarn_value value = value_array(&a);
        tarn_status status = there_and_back(swapped[i].field, &value, why);
        if (status != TARN_OK) return status;
    }
    a.strides[0] = 4; /* neither rows nor columns are contiguous */
    a.strides[1] = 0;
    tarn_value strided = value_array(&a);
    tarn_status status = there_and_back("npy", &strided, why);
    for (size_t len = 1; len < sizeof text && status == TARN_OK; len += 5) {
        const char *names[] = {text + len};
        tarn_value named = {
            .kind = TARN_VALUE_ARRAYS, .arrays = &a, .names = names, .count = 1};
        status = there_and_back("npz", &named, why);
    }
    return status;
}

/* Decodes bytes from an address that is not aligned for any number. */
static tarn_status decode_shifted(const char *field, const tarn_bytes *bytes,
                                  tarn_error *why)
{
    static unsigned char room[8192];
    tarn_value out = TARN_VALUE_INIT;
    assert_true(bytes->size < sizeof room);
    memcpy(room + 1, bytes->data, bytes->size);
    tarn_status status = tarn_decode(field, room + 1, bytes->size, NULL, &out, why);
    tarn_value_release(&out);
    return status;
}

/* Splits the one IDAT of a PNG into two. */
static void split_pixels(const tarn_bytes *png, tarn_bytes *out)
{
    size_t at = 33; /* after the signature and IHDR */
    while (memcmp(png->data + at + 4, "IDAT", 4) != 0)
        at += 12 + (size_t)(png->data[at + 2] << 8 | png->data[at + 3]);
    size_t size = (size_t)(png->data[at + 2] << 8 | png->data[at + 3]), half = size / 2;
    OK(tarn__bytes_add(out, png->data, at, &err));
    for (size_t from = 0, n = half; from < size; from += n, n = size - half) {
        unsigned char head[8] = {
            0, 0, (unsigned char)(n >> 8), (unsigned char)n, 'I', 'D', 'A', 'T'};
        OK(tarn__bytes_add(out, head, 8, &err));
        OK(tarn__bytes_add(out, png->data + at + 8 + from, n, &err));
        uint32_t crc = tarn__crc32(0, out->data + out->size - n - 4, n + 4);
        unsigned char sum[4] = {(unsigned char)(crc >> 24), (unsigned char)(crc >> 16),
                                (unsigned char)(crc >> 8), (unsigned char)crc};
        OK(tarn__bytes_add(out, sum, 4, &err));
    }
    OK(tarn__bytes_add(out, png->data + at + 12 + size, png->size - at - 12 - size,
                       &err));
}

static tarn_status decode_odd_values(tarn_error *why)
{
    static tarn_bytes npy, ten, png; /* kept for all runs */
    if (!npy.data) {
        tarn_bytes whole = TARN_BYTES_INIT;
        tarn_array a = row_array(8), pic = image_array();
        tarn_value value = value_array(&a), image = value_array(&pic);
        OK(tarn_encode("npy", &value, NULL, &npy, &err));
        OK(tarn_encode("ten", &value, NULL, &ten, &err));
        OK(tarn_encode("png", &image, NULL, &whole, &err));
        split_pixels(&whole, &png);
        tarn_bytes_release(&whole);
    }
    tarn_status status = decode_shifted("npy", &npy, why);
    if (status == TARN_OK) status = decode_shifted("ten", &ten, why);
    if (status == TARN_OK) status = decode_shifted("png", &png, why);
    return status;
}

static tarn_status run_images(tarn_error *why)
{
    static unsigned char out[16 * 16 * 3];
    static unsigned char *jpg;
    static size_t size;
    tarn_image_decoder *decoder;
    tarn_image_steps s = TARN_IMAGE_STEPS_INIT;
    if (!jpg) {
        tarn_bytes bytes = TARN_BYTES_INIT;
        tarn_array a = image_array();
        tarn_value value = value_array(&a);
        OK(tarn_encode("jpg", &value, NULL, &bytes, &err));
        jpg = bytes.data;
        size = bytes.size;
    }
    s.width = s.height = 16;
    tarn_status status = tarn_image_decoder_new(NULL, &decoder, why);
    if (status != TARN_OK) return status;
    for (uint64_t epoch = 0; epoch < 3 && status == TARN_OK; epoch++)
        status = tarn_image_run(decoder, &s, jpg, size, (tarn_image_draw){1, epoch, 0},
                                out, sizeof out, why);
    tarn_image_decoder_free(decoder);
    return status;
}

static const char folder_like[] =
    "some/folder/with/a/name/that/is/longer/than/the/memory/that/a/text/begins/with";

static tarn_status expand_urls(tarn_error *why)
{
    tarn_urls *urls;
    char list[400];
    /* Names that fill a buffer in one place or another. No globs: without memory, glibc's
     * own glob frees a name twice. */
    for (int len = 40; len <= 70; len++) {
        snprintf(list, sizeof list, "%.*s{0..20}.tar::b{x,y}{z}.tar::{%.*s}{a{b}}", len,
                 folder_like, len, folder_like);
        tarn_status status = tarn_urls_expand(list, &urls, why);
        if (status != TARN_OK) return status;
        assert_int_equal(urls->count, 21 + 2 + 1);
        tarn_urls_free(urls);
    }
    return TARN_OK;
}

/* --- Writing ------------------------------------------------------------- */

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

static tarn_status write_bz2(tarn_error *why)
{
    return write_tar(PART("out/w.tar.bz2"), why);
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

static tarn_status write_part(uint32_t task, tarn_error *why)
{
    tarn_fold_writer_options o = fold_options();
    o.task = task;
    o.tasks = 2;
    return write_fold(PART("out/fold"), &o, task ? "second" : "first", why);
}

static tarn_status run_task(tarn_error *why)
{
    return write_part(0, why);
}

static tarn_commit_report committed;

static tarn_status commit_as(bool append, bool overwrite, tarn_error *why)
{
    tarn_commit_options o = TARN_COMMIT_OPTIONS_INIT;
    o.append = append;
    o.overwrite = overwrite;
    o.threads = 1;
    o.memory = 64; /* so that there are several pieces */
    o.no_sync = true;
    return tarn_commit(PART("out/fold"), &o, &committed, sizeof committed, why);
}

static tarn_status commit_parts(tarn_error *why)
{
    return commit_as(false, false, why);
}

static tarn_status commit_after(tarn_error *why)
{
    return commit_as(true, false, why);
}

static tarn_status commit_over(tarn_error *why)
{
    return commit_as(false, true, why);
}

static tarn_status make_index(tarn_error *why)
{
    const char *shards[] = {PART("shards/a_0.tar")};
    tarn_index_options o = TARN_INDEX_OPTIONS_INIT;
    o.sums = true;
    return tarn_index_build(shards, 1, &o, PART("out/a.taridx"), NULL, NULL, 0, why);
}

/* Rows of several pages, in two shards, with names of every kind. */
static tarn_status index_many(tarn_error *why)
{
    static bool written;
    const char *shards[] = {PART("many_0.tar"), PART("many_1.tar")};
    tarn_index_options o = TARN_INDEX_OPTIONS_INIT;
    if (!written) {
        for (int k = 0; k < 2; k++) {
            tarball t = {0};
            for (int i = 0; i < 150; i++) {
                char name[64];
                snprintf(name, sizeof name, "s%d_%03d.txt", k, i);
                tarball_file(&t, name, "x");
            }
            tarball_pax(&t, 'x', "path", "a/long/name/k\xff\xc3\xadwi.T\xc3\x8dXT");
            tarball_file(&t, "short", "x");
            tarball_header(&t, "p.txt", '0', 0);
            memcpy(tarball_last(&t) + 345, "a/prefix", 8);
            tarball_sum(tarball_last(&t));
            tarball_end(&t);
            save_tar(&t, shards[k]);
            tarball_reset(&t);
        }
        written = true;
    }
    o.sums = true;
    o.threads = 1;
    return tarn_index_build(shards, 2, &o, PART("out/a.taridx"), NULL, NULL, 0, why);
}

static tarn_status new_gnz(tarn_error *why)
{
    return write_gnz(PART("out/w.gnz"), why);
}

static tarn_status update_gnz(tarn_error *why)
{
    tarn_gnz_writer *w;
    tarn_array rows = row_array(4);
    tarn_gnz_writer_options o = TARN_GNZ_WRITER_OPTIONS_INIT;
    o.checksums = true;
    o.update = true;
    tarn_status status = tarn_gnz_writer_open(PART("out/w.gnz"), &o, &w, why);
    if (status != TARN_OK) return status;
    status = tarn_gnz_writer_add(w, "z", &rows, NULL, why);
    if (status == TARN_OK) status = tarn_gnz_writer_begin(w, why);
    if (status == TARN_OK) status = tarn_gnz_writer_fill(w, "y", NULL, &rows, why);
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
    o.codec = "gzip";
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
    tarn__collection *c;
    tarn_walk_options o = TARN_WALK_OPTIONS_INIT;
    o.threads = 1;
    tarn_status status = tarn__collection_new(NULL, &c, why);
    if (status != TARN_OK) return status;
    status = tarn__collection_add_folder(c, PART("files"), why);
    if (status == TARN_OK) status = tarn__collection_group(c, why);
    if (status == TARN_OK) status = tarn__collection_shuffle(c, 3, why);
    if (status == TARN_OK) status = tarn__collection_walk(c, &o, put_sample, NULL, why);
    tarn__collection_free(c);
    return status;
}

static tarn_status collect_list(tarn_error *why)
{
    tarn__collection *c;
    tarn_status status = tarn__collection_new(NULL, &c, why);
    if (status != TARN_OK) return status;
    status = tarn__collection_add_manifest(c, PART("list.csv"), why);
    if (status == TARN_OK) status = tarn__collection_group(c, why);
    tarn__collection_free(c);
    return status;
}

/* Cells and lines of many lengths, quoted ones, paths of files and objects. */
static tarn_status collect_lists(tarn_error *why)
{
    static bool written;
    static const char text[] = "a cell that needs more memory than there was before it, "
                               "and a good deal more than that as it continues";
    if (!written) {
        char csv[8000], lines[8000];
        int n = snprintf(csv, sizeof csv, "key,txt,md,bin\n"), m = 0;
        for (int i = 0; i < 30; i++) {
            n += snprintf(csv + n, sizeof csv - (size_t)n, "k%d,\"%.*s\",%.*s,%s\n", i,
                          3 * i, text, i, text, i % 2 ? "files/a.txt" : "/dev/null");
            m += snprintf(lines + m, sizeof lines - (size_t)m,
                          "{\"key\": \"k%d\", \"json\": [\"%.*s\"], \"bin\": "
                          "\"files/a.txt\"}\n",
                          i, 3 * i, text);
        }
        write_file(PART("long.csv"), csv, (size_t)n);
        write_file(PART("long.jsonl"), lines, (size_t)m);
        write_file(PART("comma.csv"), "key,txt,md\na,b,", 15);
        written = true;
    }
    static const char *const names[] = {"long.csv", "long.jsonl", "comma.csv"};
    for (size_t i = 0; i < 3; i++) {
        tarn__collection *c;
        tarn_status status = tarn__collection_new(NULL, &c, why);
        if (status != TARN_OK) return status;
        status = tarn__collection_add_manifest(c, PART(names[i]), why);
        if (status == TARN_OK) status = tarn__collection_group(c, why);
        tarn__collection_free(c);
        if (status != TARN_OK) return status;
    }
    return TARN_OK;
}

static tarn_status pair_texts(tarn_error *why)
{
    static const tarn_textpair_doc docs[] = {{.doc_id = "d", .source_text = "long text"},
                                             {.doc_id = "e", .compressed_text = "short"}};
    static const tarn_textpair_patient who[] = {{"p1", "i", docs, 2, NULL},
                                                {"p2", "i", docs, 1, NULL}};
    tarn_textpair_options o = TARN_TEXTPAIR_OPTIONS_INIT;
    tarn_textpair_patient found;
    tarn_iac *pack;
    o.header = "{\"more\": [1]}";
    o.overwrite = true;
    o.quality = 1;
    tarn_status status = tarn_textpair_build(PART("out/w.iac"), who, 2, &o, why);
    if (status != TARN_OK) return status;
    status = tarn_iac_open(PART("out/w.iac"), NULL, &pack, why);
    if (status != TARN_OK) return status;
    status = textpair_find(pack, "p2", &found, why);
    if (status == TARN_OK) tarn_textpair_reset(&found);
    tarn_iac_close(pack);
    return status;
}

static tarn_status pack_list(tarn_error *why)
{
    tarn_iac_write_options o = TARN_IAC_WRITE_OPTIONS_INIT;
    tarn__records_options records = {.write = &o};
    o.overwrite = true;
    return tarn__records_from_manifest(PART("out/w.iac"), PART("list.jsonl"), &records,
                                       NULL, why);
}

static tarn_status pack_into_fold(const char *source, tarn_error *why)
{
    static const tarn_pack_split val = {"val", 0.5};
    const char *sources[] = {source};
    tarn_fold_writer_options w = fold_options();
    tarn_pack_options o = TARN_PACK_OPTIONS_INIT;
    o.writer = &w;
    o.threads = 1;
    o.splits = &val;
    o.n_splits = 1;
    return tarn_pack(sources, 1, PART("out/fold"), &o, NULL, 0, why);
}

static tarn_status pack_folder(tarn_error *why)
{
    return pack_into_fold(PART("files"), why);
}

static tarn_status pack_stream(tarn_error *why)
{
    return pack_into_fold(PART("shards/a_0.tar"), why);
}

/* --- Results ------------------------------------------------------------------------ */

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

static void parts(void)
{
    no_output();
    for (uint32_t task = 0; task < 2; task++)
        OK(write_part(task, &err));
}

static void parts_and_fold(void)
{
    old_fold();
    for (uint32_t task = 0; task < 2; task++)
        OK(write_part(task, &err));
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

static void check_tar(void)
{
    static const char *const names[] = {"out/w.tar", "out/w.tar.gz", "out/w.tar.zst",
                                        "out/w.tar.xz", "out/w.tar.bz2"};
    for (size_t i = 0; i < 5; i++)
        if (is_there(PART(names[i]))) OK(read_samples(PART(names[i]), &err));
}

static void check_fold(void)
{
    tarn_verify_report report;
    tarn_fold_writer_options o = fold_options();
    tarn_fold_writer *w;
    check_nothing_hidden(PART("out/fold"));
    if (tarn_verify(PART("out/fold"), NULL, &report, sizeof report, &err) ==
            TARN_ERR_NO_FOLD &&
        strstr(err.message, "resume it")) {
        o.resume = true;
        OK(tarn_fold_writer_open(PART("out/fold"), "train", &o, &w, &err));
        OK(tarn_fold_writer_finish(w, NULL, 0, &err));
    }
    if (is_there(PART("out/fold/train_0000.tar"))) {
        OK(tarn_verify(PART("out/fold"), NULL, &report, sizeof report, &err));
        assert_int_equal(report.problems, 0);
    }
}

/* Whatever a commit had done before it failed, the next one completes. */
static void check_committed(tarn_status (*commit)(tarn_error *why), uint64_t samples)
{
    OK(commit(&err));
    assert_int_equal(committed.samples, samples);
    assert_false(is_there(PART("out/fold/.train.tasks")));
    assert_false(is_there(PART("out/fold/.train.tasks.done")));
    check_fold();
}

static void check_task(void)
{
    tarn_status status = write_part(0, &err);
    assert_true(status == TARN_OK || status == TARN_ERR_EXISTS);
    OK(write_part(1, &err));
    check_committed(commit_parts, 10);
}

static void check_commit(void)
{
    check_committed(commit_parts, 10);
}

static void check_commit_after(void)
{
    check_committed(commit_after, 15);
}

static void check_commit_over(void)
{
    check_committed(commit_over, 10);
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
    tarn_verify_report report;
    tarn_verify_options o = TARN_VERIFY_OPTIONS_INIT;
    if (!is_there(PART("out/w.gnz"))) return;
    o.repair = true;
    OK(tarn_verify(PART("out/w.gnz"), &o, &report, sizeof report, &err));
    assert_int_equal(report.problems, 0);
}

static void check_iac(void)
{
    tarn_iac *pack;
    if (!is_there(PART("out/w.iac"))) return;
    OK(tarn_iac_open(PART("out/w.iac"), NULL, &pack, &err));
    tarn_iac_close(pack);
}

static const scenario scenarios[] = {
    {"values", code_values, NULL, NULL},
    {"masks and sets of arrays", code_masks, NULL, NULL},
    {"values of other machines", code_odd_values, NULL, NULL},
    {"values that are not aligned", decode_odd_values, NULL, NULL},
    {"images", run_images, NULL, NULL},
    {"text pairs are written and read", pair_texts, no_output, check_iac},
    {"an IAC file from a manifest", pack_list, no_output, check_iac},
    {"lists of URLs", expand_urls, NULL, NULL},
    {"files are collected", collect, NULL, NULL},
    {"a manifest is collected", collect_list, NULL, NULL},
    {"long manifests are collected", collect_lists, NULL, NULL},
    {"a tar is written", write_plain, no_output, check_tar},
    {"a .tar.gz is written", write_gz, no_output, check_tar},
    {"a .tar.zst is written", write_zst, no_output, check_tar},
    {"a .tar.xz is written", write_xz, no_output, check_tar},
    {"a .tar.bz2 is written", write_bz2, no_output, check_tar},
    {"a fold is written", new_fold, no_output, check_fold},
    {"a folder is packed", pack_folder, no_output, check_fold},
    {"a stream is packed", pack_stream, no_output, check_fold},
    {"a fold is appended to", append_fold, old_fold, check_fold},
    {"a fold is replaced", replace_fold, old_fold, check_fold},
    {"a task is run", run_task, no_output, check_task},
    {"parts are committed", commit_parts, parts, check_commit},
    {"parts are committed after a fold", commit_after, parts_and_fold,
     check_commit_after},
    {"parts are committed over a fold", commit_over, parts_and_fold, check_commit_over},
    {"an index is made", make_index, no_output, check_index},
    {"an index of many rows is made", index_many, no_output, check_index},
    {"an array file is written", new_gnz, no_output, check_gnz},
    {"an array file is updated", update_gnz, old_gnz, check_gnz},
    {"an IAC file is written", new_iac, no_output, check_iac},
    {"an IAC file is replaced", rewrite_iac, no_output, check_iac},
};

int main(void)
{
    return run_without_memory(scenarios, sizeof scenarios / sizeof scenarios[0],
                              scratch_remove);
}
