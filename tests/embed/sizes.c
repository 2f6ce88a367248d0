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
    tarn_shard_writer *w;
    tarn_field field = {"txt", "hello", 5, NULL};
    GUARDED(tarn_sink_options, sink);
    GUARDED(tarn_tar_writer_options, tar);
    GUARDED(tarn_shard_writer_options, o);
    GUARDED(tarn_written, written);
    tarn_sink_options_init(&sink.is, sizeof sink.is);
    tarn_tar_writer_options_init(&tar.is, sizeof tar.is);
    tarn_shard_writer_options_init(&o.is, sizeof o.is);
    untouched(sink.after, "tarn_sink_options");
    untouched(tar.after, "tarn_tar_writer_options");
    untouched(o.after, "tarn_shard_writer_options");
    sink.is.overwrite = true;
    tar.is.mtime = 77;
    tar.is.mode = 0640;
    tar.is.sink = &sink.is;
    o.is.writer = &tar.is;
    o.is.max_count = 2;
    check(tarn_shard_writer_open(pattern, &o.is, &w, &err), &err);
    check(tarn_shard_writer_add(w, "a", &field, 1, &err), &err);
    check(tarn_shard_writer_add(w, "b", &field, 1, &err), &err);
    check(tarn_shard_writer_add(w, "c", &field, 1, &err), &err);
    check(tarn_shard_writer_finish(w, &written.is, sizeof written.is, &err), &err);
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

int main(int argc, char **argv)
{
    char path[4096];
    if (argc != 2) return 2;
    fprintf(stderr, "%zu %zu %zu %zu %zu\n", sizeof(tarn_sink_options),
            sizeof(tarn_tar_writer_options), sizeof(tarn_fold_writer_options),
            sizeof(tarn_written), sizeof(tarn_tar_counts));
    snprintf(path, sizeof path, "%s/x_%%d.tar", argv[1]);
    write_shards(path);
    write_fold(argv[1]);
    snprintf(path, sizeof path, "%s/x_0.tar", argv[1]);
    list(path);
    snprintf(path, sizeof path, "%s/train_0000.tar", argv[1]);
    list(path);
    return 0;
}
