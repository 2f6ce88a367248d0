/* Writes and reads archives with options of every depth. It is compiled with the headers
 * of the library and with those of an imagined older release (older_headers.py), and must
 * do the same with both. The bytes after each struct would change what the library does,
 * or show that it wrote there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/tarn.h>

#define GUARD 256
#define BYTE  0xa5

/* A struct of the program's own, with bytes after it that nobody else may use. */
#define GUARDED(type, name)                                                              \
    struct {                                                                             \
        type is;                                                                         \
        unsigned char after[GUARD];                                                      \
    } name;                                                                              \
    memset(&name, BYTE, sizeof name)

static void check(tarn_status status, const tarn_error *err)
{
    if (status == TARN_OK) return;
    printf("%s: %s\n", tarn_status_name(status), err->message);
    exit(1);
}

static void untouched(const unsigned char *after, const char *what)
{
    for (size_t i = 0; i < GUARD; i++)
        if (after[i] != BYTE) {
            printf("byte %zu after %s was written\n", i, what);
            exit(1);
        }
}

static void write_shards(const char *pattern)
{
    tarn_error err;
    tarn_tar_writer *w;
    tarn_field field = {"txt", "hello", 5, NULL};
    GUARDED(tarn_sink_options, sink);
    GUARDED(tarn_tar_writer_options, tar);
    GUARDED(tarn_shard_options, o);
    GUARDED(tarn_written, written);
    tarn_sink_options_init(&sink.is, sizeof sink.is);
    tarn_tar_writer_options_init(&tar.is, sizeof tar.is);
    tarn_shard_options_init(&o.is, sizeof o.is);
    untouched(sink.after, "tarn_sink_options");
    untouched(tar.after, "tarn_tar_writer_options");
    untouched(o.after, "tarn_shard_options");
    sink.is.overwrite = true;
    tar.is.mtime = 77;
    tar.is.mode = 0640;
    tar.is.sink = &sink.is;
    tar.is.shards = &o.is;
    o.is.max_count = 2;
    check(tarn_tar_writer_open(pattern, &tar.is, &w, &err), &err);
    check(tarn_tar_writer_add(w, "a", &field, 1, &err), &err);
    check(tarn_tar_writer_add(w, "b", &field, 1, &err), &err);
    check(tarn_tar_writer_add(w, "c", &field, 1, &err), &err);
    check(tarn_tar_writer_finish(w, &written.is, sizeof written.is, &err), &err);
    untouched(written.after, "tarn_written");
    printf("%d samples, %d bytes\n", (int)written.is.samples, (int)written.is.bytes);
}

static void write_fold(const char *folder)
{
    tarn_error err;
    tarn_fold_writer *w;
    tarn_field field = {"txt", "hello", 5, NULL};
    GUARDED(tarn_tar_writer_options, tar);
    GUARDED(tarn_fold_writer_options, o);
    tar.is = (tarn_tar_writer_options)TARN_TAR_WRITER_OPTIONS_INIT;
    o.is = (tarn_fold_writer_options)TARN_FOLD_WRITER_OPTIONS_INIT;
    tar.is.mode = 0600;
    o.is.writer = &tar.is;
    o.is.overwrite = true;
    check(tarn_fold_writer_open(folder, "train", &o.is, &w, &err), &err);
    check(tarn_fold_writer_add(w, "a", &field, 1, &err), &err);
    printf("the same key again: %s\n",
           tarn_status_name(tarn_fold_writer_add(w, "a", &field, 1, &err)));
    check(tarn_fold_writer_finish(w, NULL, 0, &err), &err);
}

static void list(const char *path)
{
    tarn_error err;
    tarn_tar *tar;
    tarn_member m;
    GUARDED(tarn_tar_counts, counts);
    check(tarn_tar_open(path, NULL, &tar, &err), &err);
    while (tarn_tar_next(tar, &m, &err) == TARN_OK)
        printf("%.*s %d %o %d\n", (int)m.name_len, m.name, (int)m.size, m.mode,
               (int)m.mtime);
    tarn_tar_counts_get(tar, &counts.is, sizeof counts.is);
    untouched(counts.after, "tarn_tar_counts");
    printf("%d members\n", (int)counts.is.members);
    tarn_tar_close(tar);
}

/* Lists of the library, whose elements may be longer than the program knows. */
static void list_folds(const char *folder)
{
    tarn_error err;
    tarn_folds *folds;
    check(tarn_folds_list(folder, &folds, &err), &err);
    for (size_t i = 0; i < folds->count; i++)
        printf("fold %s of %d shards, the first is %s\n", folds->folds[i]->name,
               (int)folds->folds[i]->n_shards,
               strrchr(folds->folds[i]->shards[0], '/') + 1);
    tarn_folds_free(folds);
}

static void count_fields(tarn_dataset *dataset)
{
    tarn_error err;
    tarn_field_sets *sets;
    GUARDED(tarn_field_form, form);
    check(tarn_dataset_field_sets(dataset, &sets, &err), &err);
    for (size_t i = 0; i < sets->count; i++)
        printf("%d samples have %d fields\n", (int)sets->sets[i]->samples,
               (int)sets->sets[i]->n_fields);
    tarn_field_sets_free(sets);
    check(tarn_dataset_form(dataset, 0, 0, &form.is, sizeof form.is, &err), &err);
    untouched(form.after, "tarn_field_form");
    printf("the codec is %s\n", form.is.codec);
}

static void open_dataset(const char *path, tarn_dataset **out)
{
    tarn_error err;
    GUARDED(tarn_index_options, index);
    GUARDED(tarn_dataset_options, o);
    GUARDED(tarn_dataset_info, info);
    tarn_index_options_init(&index.is, sizeof index.is);
    tarn_dataset_options_init(&o.is, sizeof o.is);
    untouched(index.after, "tarn_index_options");
    untouched(o.after, "tarn_dataset_options");
    o.is.scan = true;
    o.is.index = &index.is;
    check(tarn_dataset_open(path, &o.is, out, &err), &err);
    tarn_dataset_info_get(*out, &info.is, sizeof info.is);
    untouched(info.after, "tarn_dataset_info");
    printf("%d samples in %d shards\n", (int)info.is.samples, (int)info.is.shards);
}

static void shuffle(tarn_dataset *dataset, tarn_dataset **out)
{
    tarn_error err;
    GUARDED(tarn_order_options, o);
    tarn_order_options_init(&o.is, sizeof o.is);
    untouched(o.after, "tarn_order_options");
    o.is.kind = TARN_ORDER_LENGTHS;
    printf("an order of lengths without lengths: %s\n",
           tarn_status_name(tarn_dataset_order(dataset, &o.is, out, &err)));
    o.is.kind = TARN_ORDER_SHUFFLE;
    o.is.seed = 4;
    check(tarn_dataset_order(dataset, &o.is, out, &err), &err);
}

/* The context is the last member of the loader's options; nobody sets it. */
static void *allocate(void *context, size_t size)
{
    if (context) printf("a context out of nowhere\n");
    return aligned_alloc(64, size);
}

static void give_back(void *context, void *memory, size_t size)
{
    (void)size;
    if (context) printf("a context out of nowhere\n");
    free(memory);
}

static void load(tarn_dataset *dataset)
{
    tarn_error err;
    tarn_loader *loader;
    tarn_batch *batch;
    GUARDED(tarn_decode_options, decode);
    GUARDED(tarn_loader_options, o);
    tarn_decode_options_init(&decode.is, sizeof decode.is);
    tarn_loader_options_init(&o.is, sizeof o.is);
    untouched(decode.after, "tarn_decode_options");
    untouched(o.after, "tarn_loader_options");
    o.is.batch = 2;
    o.is.decode = &decode.is;
    o.is.alloc = allocate;
    o.is.free = give_back;
    check(tarn_loader_open(dataset, &o.is, &loader, &err), &err);
    while (tarn_loader_next(loader, TARN_NO_TIMEOUT, &batch, &err) == TARN_OK) {
        const tarn_column *column = &batch->columns[0];
        for (size_t i = 0; i < batch->count; i++)
            printf("%s: %.*s\n", batch->keys + batch->key_offsets[i],
                   (int)(column->offsets[i + 1] - column->offsets[i]),
                   (const char *)column->data + column->offsets[i]);
        tarn_batch_release(batch);
    }
    tarn_loader_close(loader);
}

int main(int argc, char **argv)
{
    char path[4096];
    tarn_dataset *dataset, *shuffled;
    if (argc != 2) return 2;
    fprintf(stderr, "%zu %zu %zu %zu %zu\n", sizeof(tarn_sink_options),
            sizeof(tarn_tar_writer_options), sizeof(tarn_fold_writer_options),
            sizeof(tarn_written), sizeof(tarn_tar_counts));
    fprintf(stderr, "%zu %zu %zu %zu\n", sizeof(tarn_listed_fold), sizeof(tarn_folds),
            sizeof(tarn_field_set), sizeof(tarn_field_form));
    fprintf(stderr, "%zu %zu %zu %zu %zu %zu\n", sizeof(tarn_decode_options),
            sizeof(tarn_dataset_options), sizeof(tarn_dataset_info),
            sizeof(tarn_index_options), sizeof(tarn_loader_options),
            sizeof(tarn_order_options));
    snprintf(path, sizeof path, "%s/x_%%d.tar", argv[1]);
    write_shards(path);
    write_fold(argv[1]);
    snprintf(path, sizeof path, "%s/x_0.tar", argv[1]);
    list(path);
    snprintf(path, sizeof path, "%s/train_0000.tar", argv[1]);
    list(path);
    list_folds(argv[1]);
    snprintf(path, sizeof path, "%s:x", argv[1]);
    open_dataset(path, &dataset);
    count_fields(dataset);
    shuffle(dataset, &shuffled);
    load(shuffled);
    tarn_dataset_close(shuffled);
    tarn_dataset_close(dataset);
    return 0;
}
