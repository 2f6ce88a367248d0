/* Reads and writes files of arrays. Shared by tarn pack and tarn convert. */
#include "arrays.h"
#include "out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct cli_arrays_file {
    tarn_value value; /* of .npy and .npz */
    void *map;
    size_t size;
    tarn_gnz *gnz; /* of .gnz, with a view of each array */
    tarn_gnz_view *views;
    size_t n_views;
} file;

cli_kind cli_kind_of(const char *path)
{
    return cli_ends_with(path, ".npy")   ? CLI_NPY
           : cli_ends_with(path, ".npz") ? CLI_NPZ
           : cli_ends_with(path, ".gnz") ? CLI_GNZ
                                         : CLI_OTHER;
}

/* --- Reading ----------------------------------------------------------------------- */

static void *grown(void *items, size_t count, size_t size)
{
    void *more = realloc(items, (count + 1) * size);
    if (!more) cli_no_memory();
    return more;
}

static void add(cli_arrays *list, const tarn_array *array, const char *name)
{
    list->arrays = grown(list->arrays, list->count, sizeof *list->arrays);
    list->names = grown(list->names, list->count, sizeof *list->names);
    list->arrays[list->count] = *array;
    if (!(list->names[list->count] = strdup(name))) cli_no_memory();
    list->count++;
}

static file *add_file(cli_arrays *list)
{
    list->files = grown(list->files, list->n_files, sizeof *list->files);
    file *f = &list->files[list->n_files++];
    *f = (file){.value = TARN_VALUE_INIT};
    return f;
}

static int fail_path(const char *path, const char *what)
{
    cli_note("tarn: %s: %s: %s\n", path, what, strerror(errno));
    return CLI_DATA;
}

static int map_file(file *f, const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail_path(path, "cannot open");
    void *map = MAP_FAILED;
    bool known = fstat(fd, &st) == 0;
    if (known && st.st_size > 0)
        map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    else if (known)
        errno = ENODATA;
    int why = errno;
    close(fd);
    errno = why;
    if (map == MAP_FAILED) return fail_path(path, "cannot map");
    f->map = map;
    f->size = (size_t)st.st_size;
    return CLI_OK;
}

static char *stem(const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    const char *dot = strrchr(base, '.');
    char *name = strndup(base, dot ? (size_t)(dot - base) : strlen(base));
    if (!name) cli_no_memory();
    return name;
}

static int load_numpy(cli_arrays *list, const char *path, const char *name)
{
    tarn_error err;
    tarn_decode_options o = TARN_DECODE_OPTIONS_INIT;
    file *f = add_file(list);
    o.max_size = UINT64_MAX;
    int status = map_file(f, path);
    if (status != CLI_OK) return status;
    if (tarn_decode(cli_kind_of(path) == CLI_NPY ? "npy" : "npz", f->map, f->size, &o,
                    &f->value, &err) != TARN_OK) {
        cli_note("tarn: %s: %s\n", path, err.message);
        return CLI_DATA;
    }
    char *own = name ? strdup(name) : stem(path);
    if (!own) cli_no_memory();
    if (f->value.kind == TARN_VALUE_ARRAY) add(list, f->value.arrays, own);
    for (size_t i = 0; f->value.kind == TARN_VALUE_ARRAYS && i < f->value.count; i++)
        add(list, &f->value.arrays[i], f->value.names[i]);
    free(own);
    return CLI_OK;
}

typedef struct place {
    uint64_t offset;
    size_t number;
} place;

static int by_place(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* Array numbers in file order, so that a copy has the same layout. */
static place *places(const tarn_gnz *gnz, size_t count)
{
    tarn_gnz_array info;
    place *all = calloc(count + 1, sizeof *all);
    if (!all) cli_no_memory();
    for (size_t i = 0; i < count; i++)
        if (tarn_gnz_array_get(gnz, i, &info, sizeof info, NULL) == TARN_OK)
            all[i] = (place){info.offset, i};
    qsort(all, count, sizeof *all, by_place);
    return all;
}

static int load_gnz(cli_arrays *list, const char *path)
{
    tarn_error err;
    tarn_gnz_info whole;
    tarn_gnz_array info;
    file *f = add_file(list);
    if (tarn_gnz_open(path, NULL, &f->gnz, &err) != TARN_OK) return cli_fail(&err);
    tarn_gnz_info_get(f->gnz, &whole, sizeof whole);
    free(list->metadata);
    if (!(list->metadata = strdup(whole.metadata))) cli_no_memory();
    f->views = calloc(whole.arrays + 1, sizeof *f->views);
    if (!f->views) cli_no_memory();
    place *all = places(f->gnz, whole.arrays);
    int status = CLI_OK;
    for (size_t i = 0; i < whole.arrays && status == CLI_OK; i++) {
        size_t number = all[i].number;
        if (tarn_gnz_array_get(f->gnz, number, &info, sizeof info, &err) != TARN_OK ||
            tarn_gnz_get(f->gnz, number, TARN_GNZ_READ, &f->views[i], &err) != TARN_OK) {
            status = cli_fail(&err);
            break;
        }
        f->n_views = i + 1;
        add(list, &f->views[i].array, info.name);
    }
    free(all);
    return status;
}

int cli_arrays_load(cli_arrays *list, const char *word)
{
    const char *equals = strchr(word, '='), *path = word;
    char *name = NULL;
    int status;
    if (equals && access(word, F_OK) != 0) {
        path = equals + 1;
        if (!(name = strndup(word, (size_t)(equals - word)))) cli_no_memory();
    }
    switch (cli_kind_of(path)) {
    case CLI_GNZ:
        status = load_gnz(list, path);
        break;
    case CLI_NPY:
    case CLI_NPZ:
        status = load_numpy(list, path, name);
        break;
    default:
        cli_note("tarn: %s: arrays are read from .npy, .npz and .gnz only\n", path);
        status = CLI_USAGE;
    }
    free(name);
    return status;
}

void cli_arrays_free(cli_arrays *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->names[i]);
    for (size_t i = 0; i < list->n_files; i++) {
        file *f = &list->files[i];
        tarn_value_release(&f->value);
        if (f->map) munmap(f->map, f->size);
        for (size_t k = 0; k < f->n_views; k++)
            tarn_gnz_view_release(&f->views[k]);
        free(f->views);
        tarn_gnz_close(f->gnz);
    }
    free(list->arrays);
    free(list->names);
    free(list->metadata);
    free(list->files);
    *list = (cli_arrays){0};
}

/* --- Writing ----------------------------------------------------------------------- */

/* --as TYPE for all arrays, or NAME=TYPE,... for some. */
int cli_arrays_type(const cli_args *args, const char *name, tarn_dtype *out, bool *found)
{
    tarn_error err;
    cli_list list;
    const char *value = cli_value(args, "as");
    int status = CLI_OK;
    *found = false;
    if (!value) return CLI_OK;
    if (!cli_list_get(value, &list)) return CLI_DATA;
    for (size_t i = 0; i < list.count && status == CLI_OK; i++) {
        const char *item = list.items[i], *equals = strrchr(item, '=');
        size_t len = equals > item ? (size_t)(equals - item) : 0;
        const char *type = len ? equals + 1 : item;
        if (len && (strlen(name) != len || memcmp(name, item, len) != 0)) continue;
        *found = true;
        if (tarn_dtype_parse(type, strlen(type), out, &err) != TARN_OK)
            status = cli_usage(args->command, "--as: %s", err.message);
    }
    cli_list_free(&list);
    return status;
}

/* A name that matches no array is most likely a typing error. */
int cli_arrays_check_as(const cli_args *args, const char *const *names, size_t count)
{
    const char *value = cli_value(args, "as");
    cli_list items;
    int status = CLI_OK;
    if (!value) return CLI_OK;
    if (!cli_list_get(value, &items)) return CLI_DATA;
    for (size_t i = 0; i < items.count && status == CLI_OK; i++) {
        const char *item = items.items[i], *equals = strrchr(item, '=');
        size_t len = equals > item ? (size_t)(equals - item) : 0, k = 0;
        while (len && k < count &&
               (strlen(names[k]) != len || memcmp(names[k], item, len) != 0))
            k++;
        if (len && k == count)
            status = cli_usage(args->command, "--as %s: no such array", item);
    }
    cli_list_free(&items);
    return status;
}

int cli_arrays_metadata(const cli_args *args, const char *own, tarn_gnz_writer *w)
{
    tarn_error err;
    const char *value = cli_value(args, "metadata");
    char *json = NULL;
    if (value && value[0] == '@')
        json = cli_file_text(value + 1);
    else if (value || own)
        json = strdup(value ? value : own);
    if (!json) return value ? CLI_DATA : CLI_OK;
    int status = CLI_OK;
    if (tarn_gnz_writer_metadata(w, json, strlen(json), &err) != TARN_OK)
        status = cli_fail(&err);
    free(json);
    return status;
}

/* An array that may grow is reserved first and filled once the file is created. */
static int add_growing(tarn_gnz_writer *w, const char *name, const tarn_array *array,
                       tarn_dtype dtype, uint64_t reserve)
{
    tarn_error err;
    uint64_t rows = array->shape[0] > reserve ? array->shape[0] : reserve;
    if (tarn_gnz_writer_reserve(w, name, dtype, array->ndim, array->shape, rows, &err) !=
        TARN_OK)
        return cli_fail(&err);
    return CLI_OK;
}

static int add_arrays(const cli_args *args, const cli_arrays *list, tarn_gnz_writer *w,
                      uint64_t reserve)
{
    tarn_error err;
    tarn_dtype as;
    bool cast;
    int status = cli_arrays_check_as(args, (const char *const *)list->names, list->count);
    if (status != CLI_OK) return status;
    for (size_t i = 0; i < list->count; i++) {
        const tarn_array *array = &list->arrays[i];
        status = cli_arrays_type(args, list->names[i], &as, &cast);
        if (status != CLI_OK) return status;
        if (!cast) as = array->dtype;
        if (reserve && array->ndim) {
            status = add_growing(w, list->names[i], array, as, reserve);
            if (status != CLI_OK) return status;
        } else if (tarn_gnz_writer_add(w, list->names[i], array, &as, &err) != TARN_OK) {
            return cli_fail(&err);
        }
    }
    return CLI_OK;
}

static int fill_growing(const cli_arrays *list, tarn_gnz_writer *w)
{
    static const uint64_t origin[TARN_MAX_DIMS];
    tarn_error err;
    for (size_t i = 0; i < list->count; i++)
        if (list->arrays[i].ndim &&
            tarn_gnz_writer_fill(w, list->names[i], origin, &list->arrays[i], &err) !=
                TARN_OK)
            return cli_fail(&err);
    return CLI_OK;
}

static int finish(tarn_gnz_writer *w, int status)
{
    tarn_error err;
    if (status != CLI_OK)
        tarn_gnz_writer_abandon(w);
    else if (tarn_gnz_writer_finish(w, &err) != TARN_OK)
        status = cli_fail(&err);
    return status;
}

static int begin(tarn_gnz_writer *w)
{
    tarn_error err;
    return tarn_gnz_writer_begin(w, &err) == TARN_OK ? CLI_OK : cli_fail(&err);
}

static int save_gnz(const cli_args *args, const cli_arrays *list, const char *path)
{
    tarn_error err;
    tarn_gnz_writer *w;
    cli_progress progress;
    uint64_t reserve = 0;
    tarn_gnz_writer_options o = TARN_GNZ_WRITER_OPTIONS_INIT;
    o.overwrite = cli_has(args, "overwrite");
    o.checksums = cli_has(args, "checksums");
    o.no_sync = cli_has(args, "no-sync");
    if (!cli_number(args, "header-pages", &o.header_pages) ||
        !cli_size(args, "reserve", &reserve))
        return CLI_USAGE;
    cli_progress_begin(&progress, "writing", !cli_has(args, "quiet"));
    o.progress = cli_progress_step;
    o.progress_context = &progress;
    if (tarn_gnz_writer_open(path, &o, &w, &err) != TARN_OK) return cli_fail(&err);
    int status = cli_arrays_metadata(args, list->metadata, w);
    if (status == CLI_OK) status = add_arrays(args, list, w, reserve);
    if (status == CLI_OK && reserve) {
        status = begin(w);
        if (status == CLI_OK) status = fill_growing(list, w);
    }
    status = finish(w, status);
    cli_progress_end(&progress);
    return status;
}

static int append_rows(const cli_arrays *list, tarn_gnz_writer *w)
{
    tarn_error err;
    for (size_t i = 0; i < list->count; i++)
        if (tarn_gnz_writer_fill(w, list->names[i], NULL, &list->arrays[i], &err) !=
            TARN_OK)
            return cli_fail(&err);
    return CLI_OK;
}

/* Updates an existing array file: --add adds arrays, --append adds rows. */
static int update_file(const cli_args *args, const cli_arrays *list, const char *path)
{
    tarn_error err;
    tarn_gnz_writer *w;
    tarn_gnz_writer_options o = TARN_GNZ_WRITER_OPTIONS_INIT;
    bool append = cli_has(args, "append");
    uint64_t reserve = 0;
    o.update = true;
    o.checksums = cli_has(args, "checksums");
    if (!cli_size(args, "reserve", &reserve)) return CLI_USAGE;
    if (tarn_gnz_writer_open(path, &o, &w, &err) != TARN_OK) return cli_fail(&err);
    int status = CLI_OK;
    if (cli_has(args, "metadata")) status = cli_arrays_metadata(args, list->metadata, w);
    if (status == CLI_OK && !append) status = add_arrays(args, list, w, reserve);
    if (status == CLI_OK) status = begin(w);
    if (status == CLI_OK && append) status = append_rows(list, w);
    if (status == CLI_OK && !append && reserve) status = fill_growing(list, w);
    return finish(w, status);
}

/* As durable as a .gnz, and does not replace a file that was created in the meantime. */
static int save_bytes(const cli_args *args, const tarn_bytes *bytes, const char *path)
{
    tarn_error err;
    tarn_sink *sink;
    tarn_sink_options o = TARN_SINK_OPTIONS_INIT;
    o.overwrite = cli_has(args, "overwrite");
    o.no_sync = cli_has(args, "no-sync");
    o.filter = TARN_FILTER_NONE;
    if (tarn_sink_open(path, &o, &sink, &err) != TARN_OK) return cli_fail(&err);
    if (tarn_sink_write(sink, bytes->data, bytes->size, &err) != TARN_OK) {
        tarn_sink_abandon(sink);
        return cli_fail(&err);
    }
    return tarn_sink_finish(sink, &err) == TARN_OK ? CLI_OK : cli_fail(&err);
}

static int save_numpy(const cli_args *args, const cli_arrays *list, const char *path)
{
    struct stat st;
    tarn_error err;
    tarn_bytes out = TARN_BYTES_INIT;
    tarn_encode_options o = TARN_ENCODE_OPTIONS_INIT;
    bool npy = cli_kind_of(path) == CLI_NPY;
    if (npy && list->count != 1) {
        cli_note("tarn: %s: a .npy holds one array (found %zu)\n", path, list->count);
        return CLI_USAGE;
    }
    if (!cli_has(args, "overwrite") && lstat(path, &st) == 0) {
        cli_note("tarn: %s: the file exists; use --overwrite to replace it\n", path);
        return CLI_DATA;
    }
    o.npz_stored = !cli_has(args, "compress");
    tarn_value value = {.kind = npy ? TARN_VALUE_ARRAY : TARN_VALUE_ARRAYS,
                        .arrays = list->arrays,
                        .names = npy ? NULL : (const char *const *)list->names,
                        .count = npy ? 1 : list->count};
    int status = CLI_OK;
    if (tarn_encode(npy ? "npy" : "npz", &value, &o, &out, &err) == TARN_OK)
        status = save_bytes(args, &out, path);
    else
        status = cli_fail(&err);
    tarn_bytes_release(&out);
    return status;
}

int cli_arrays_save(const cli_args *args, const cli_arrays *list, const char *path)
{
    switch (cli_kind_of(path)) {
    case CLI_GNZ:
        return save_gnz(args, list, path);
    case CLI_NPY:
    case CLI_NPZ:
        return save_numpy(args, list, path);
    default:
        return cli_usage(args->command,
                         "%s: arrays can be written to .npy, .npz and .gnz only", path);
    }
}

int cli_arrays_pack(const cli_args *args, const char *output)
{
    cli_arrays list = {0};
    int status = CLI_OK;
    bool update = cli_has(args, "add") || cli_has(args, "append");
    if (cli_has(args, "add") && cli_has(args, "append"))
        return cli_usage(args->command, "--add and --append exclude each other");
    for (int i = 0; i < args->n_words && status == CLI_OK; i++)
        status = cli_arrays_load(&list, args->words[i]);
    if (status == CLI_OK)
        status = update ? update_file(args, &list, output)
                        : cli_arrays_save(args, &list, output);
    cli_arrays_free(&list);
    return status;
}
