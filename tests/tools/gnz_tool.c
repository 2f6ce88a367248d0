/* Driven by the interop tests: one command on each line of standard input, words
 * separated by tabs, and one line back for each: "ok", possibly with a number, or
 * "!status message". Names and metadata are in hexadecimal; values are given as FILE
 * OFFSET DTYPE SHAPE STRIDES, lists as 3,4 and "-" for an empty one.
 *
 *   cast FROM TO IN OUT
 *   new PATH OVERWRITE CHECKSUMS PAGES        update PATH CHECKSUMS
 *   meta JSON    add NAME VALUES DTYPE|-      reserve NAME DTYPE SHAPE RESERVED
 *   begin        fill NUMBER START VALUES     append NUMBER VALUES
 *   find NAME    finish                       abandon
 *   read PATH FOLDER      writes the arrays to FOLDER/NUMBER and FOLDER/list */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/gnz.h>

#include "base/array.h"
#include "base/cast.h"

enum { MAX_WORDS = 16 };

static tarn_gnz_writer *writer;
static char **kept; /* values are borrowed until begin */
static size_t n_kept;

static void die(const char *what)
{
    fprintf(stderr, "gnz_tool: %s\n", what);
    exit(3);
}

static char *load(const char *path, size_t *out_len)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0) die(path);
    long len = ftell(f);
    rewind(f);
    char *data = malloc((size_t)len + 1);
    if (!data || fread(data, 1, (size_t)len, f) != (size_t)len) die("cannot read");
    fclose(f);
    kept = realloc(kept, (n_kept + 1) * sizeof *kept);
    if (!kept) die("memory");
    kept[n_kept++] = data;
    *out_len = (size_t)len;
    return data;
}

static void drop_kept(void)
{
    while (n_kept)
        free(kept[--n_kept]);
    free(kept);
    kept = NULL;
}

static void save(const char *path, const void *data, size_t len)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, len, f) != len || fclose(f) != 0) die("cannot write");
}

/* A word in hexadecimal, decoded in place. */
static char *unhex(char *word, size_t *out_len)
{
    size_t len = strlen(word) / 2;
    for (size_t i = 0; i < len; i++) {
        char pair[3] = {word[2 * i], word[2 * i + 1], '\0'};
        word[i] = (char)strtoul(pair, NULL, 16);
    }
    word[len] = '\0';
    if (out_len) *out_len = len;
    return word;
}

static unsigned list(const char *word, int64_t *out)
{
    unsigned n = 0;
    char *end;
    if (strcmp(word, "-") == 0) return 0;
    for (;; word = end + 1) {
        out[n++] = strtoll(word, &end, 10);
        if (*end != ',') return n;
    }
}

static tarn_dtype dtype_of(const char *text)
{
    tarn_dtype dtype;
    if (tarn_dtype_parse(text, strlen(text), &dtype, NULL) != TARN_OK) die(text);
    return dtype;
}

static tarn_array values(char **words)
{
    size_t len;
    int64_t shape[TARN_MAX_DIMS] = {0};
    tarn_array a = {0};
    a.data = load(words[0], &len) + strtoll(words[1], NULL, 10);
    a.dtype = dtype_of(words[2]);
    a.ndim = list(words[3], shape);
    list(words[4], a.strides);
    for (unsigned i = 0; i < a.ndim; i++)
        a.shape[i] = (uint64_t)shape[i];
    return a;
}

static tarn_status run_cast(char **w, tarn_error *err)
{
    size_t len;
    tarn__cast cast;
    TARN_TRY(tarn__cast_init(&cast, dtype_of(w[1]), dtype_of(w[2]), err));
    char *in = load(w[3], &len);
    size_t count = len / cast.from.size;
    char *out = malloc(count * cast.to.size + 1);
    if (!out) die("memory");
    tarn__cast_run(&cast, out, in, count);
    save(w[4], out, count * cast.to.size);
    free(out);
    drop_kept();
    return TARN_OK;
}

static tarn_status open_writer(char **w, bool update, tarn_error *err)
{
    tarn_gnz_writer_options o = TARN_GNZ_WRITER_OPTIONS_INIT;
    if (writer) die("a writer is open");
    o.update = update;
    o.checksums = w[update ? 2 : 3][0] == '1';
    if (update) return tarn_gnz_writer_open(w[1], &o, &writer, err);
    o.no_sync = true; /* hundreds of files; other tests cover the disk */
    o.overwrite = w[2][0] == '1';
    o.header_pages = (unsigned)strtoul(w[4], NULL, 10);
    return tarn_gnz_writer_open(w[1], &o, &writer, err);
}

static tarn_status add(char **w, tarn_error *err)
{
    tarn_array a = values(w + 2);
    tarn_dtype as = strcmp(w[7], "-") ? dtype_of(w[7]) : a.dtype;
    return tarn_gnz_writer_add(writer, unhex(w[1], NULL), &a, &as, err);
}

static tarn_status reserve(char **w, tarn_error *err)
{
    int64_t dims[TARN_MAX_DIMS];
    uint64_t shape[TARN_MAX_DIMS];
    unsigned ndim = list(w[3], dims);
    for (unsigned i = 0; i < ndim; i++)
        shape[i] = (uint64_t)dims[i];
    return tarn_gnz_writer_reserve(writer, unhex(w[1], NULL), dtype_of(w[2]), ndim, shape,
                                   strtoull(w[4], NULL, 10), err);
}

static tarn_status fill(char **w, bool append, tarn_error *err)
{
    int64_t at[TARN_MAX_DIMS] = {0};
    uint64_t start[TARN_MAX_DIMS];
    const char *name = unhex(w[1], NULL);
    tarn_array a = values(w + (append ? 2 : 3));
    if (append) return tarn_gnz_writer_fill(writer, name, NULL, &a, err);
    list(w[2], at);
    for (unsigned i = 0; i < TARN_MAX_DIMS; i++)
        start[i] = (uint64_t)at[i];
    return tarn_gnz_writer_fill(writer, name, start, &a, err);
}

/* Every way of reading must give the same bytes. */
static void dump(tarn_gnz *gnz, size_t number, const char *folder, FILE *out)
{
    char path[1024], text[TARN_DTYPE_TEXT_MAX];
    tarn_gnz_array info;
    tarn_gnz_view views[2];
    if (tarn_gnz_array_get(gnz, number, &info, sizeof info, NULL) != TARN_OK ||
        tarn_gnz_get(gnz, number, TARN_GNZ_READ, &views[0], NULL) != TARN_OK ||
        tarn_gnz_get(gnz, number, TARN_GNZ_COPY, &views[1], NULL) != TARN_OK)
        die("cannot get");
    size_t bytes = (size_t)info.bytes;
    char *read = malloc(bytes + 1), *packed = malloc(bytes + 1);
    if (!read || !packed ||
        tarn_gnz_read(gnz, number, 0, info.ndim ? info.shape[0] : 1, read, bytes, NULL) !=
            TARN_OK)
        die("cannot read");
    for (int i = 0; i < 2; i++) {
        tarn__array_pack(&views[i].array, false, packed);
        if (memcmp(packed, read, bytes) != 0) die("a view differs from a read");
        tarn_gnz_view_release(&views[i]);
    }
    snprintf(path, sizeof path, "%s/%zu", folder, number);
    save(path, read, bytes);
    free(read);
    free(packed);
    for (const char *p = info.name; *p; p++)
        fprintf(out, "%02x", (unsigned char)*p);
    fprintf(out, "\t%s\t%llu\t%c\t", tarn_dtype_text(info.dtype, text),
            (unsigned long long)info.offset, info.fortran ? 'F' : 'C');
    for (unsigned i = 0; i < info.ndim; i++)
        fprintf(out, "%s%llu", i ? "," : "", (unsigned long long)info.shape[i]);
    fprintf(out, "%s\t%llu\t", info.ndim ? "" : "-", (unsigned long long)info.reserved);
    fprintf(out, info.has_checksum ? "%08x\n" : "-\n", info.checksum);
}

static tarn_status read_file(char **w, tarn_error *err)
{
    char path[1024];
    tarn_gnz *gnz;
    tarn_gnz_info info;
    TARN_TRY(tarn_gnz_open(w[1], NULL, &gnz, err));
    snprintf(path, sizeof path, "%s/list", w[2]);
    FILE *out = fopen(path, "w");
    if (!out) die("cannot write");
    tarn_gnz_info_get(gnz, &info, sizeof info);
    fprintf(out, "%s\n", info.metadata);
    for (size_t i = 0; i < info.arrays; i++)
        dump(gnz, i, w[2], out);
    fclose(out);
    tarn_gnz_close(gnz);
    return TARN_OK;
}

static tarn_status finish(bool publish, tarn_error *err)
{
    tarn_gnz_writer *w = writer;
    tarn_status status = TARN_OK;
    writer = NULL;
    if (publish)
        status = tarn_gnz_writer_finish(w, err);
    else
        tarn_gnz_writer_abandon(w);
    drop_kept();
    return status;
}

static tarn_status run(char **w, tarn_error *err)
{
    size_t len;
    const char *what = w[0];
    if (strcmp(what, "cast") == 0) return run_cast(w, err);
    if (strcmp(what, "new") == 0) return open_writer(w, false, err);
    if (strcmp(what, "update") == 0) return open_writer(w, true, err);
    if (strcmp(what, "read") == 0) return read_file(w, err);
    if (!writer) die("no writer is open");
    if (strcmp(what, "meta") == 0) {
        char *json = unhex(w[1], &len);
        return tarn_gnz_writer_metadata(writer, json, len, err);
    }
    if (strcmp(what, "add") == 0) return add(w, err);
    if (strcmp(what, "reserve") == 0) return reserve(w, err);
    if (strcmp(what, "begin") == 0) return tarn_gnz_writer_begin(writer, err);
    if (strcmp(what, "fill") == 0) return fill(w, false, err);
    if (strcmp(what, "append") == 0) return fill(w, true, err);
    if (strcmp(what, "finish") == 0) return finish(true, err);
    if (strcmp(what, "abandon") == 0) return finish(false, err);
    die(what);
    return TARN_OK;
}

int main(void)
{
    char *line = NULL, text[4096];
    size_t capacity = 0;
    while (getline(&line, &capacity, stdin) > 0) {
        char *words[MAX_WORDS] = {0}, *rest = line;
        tarn_error err;
        line[strcspn(line, "\n")] = '\0';
        for (int i = 0; i < MAX_WORDS && rest; i++)
            words[i] = strsep(&rest, "\t");
        tarn_status status = run(words, &err);
        if (status == TARN_OK)
            puts("ok 0");
        else
            printf("!%s %s\n", tarn_status_name(status),
                   tarn_error_text(&err, text, sizeof text));
        fflush(stdout);
    }
    free(line);
    return 0;
}
