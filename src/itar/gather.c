/* Filling a collection from folders. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "itar/collection.h"

/* Folders inside folders; a file system's own limits come first. */
enum { MAX_DEPTH = 128 };

typedef struct found {
    char *name;
    bool is_folder;
} found;

typedef struct gathering {
    tarn_collection *c;
    size_t root_len; /* of the folder that was given, with its slash */
} gathering;

static void pass_over(tarn_collection *c, const char *path, const char *why)
{
    tarn_error what;
    c->passed_over++;
    if (!c->options.notice) return;
    tarn__error_set(&what, TARN_ERR_UNSUPPORTED, path, TARN_NO_OFFSET, "passed over: %s",
                    why);
    c->options.notice(c->options.notice_context, &what);
}

/* --- One file ---------------------------------------------------------------------- */

/* The key of a file: its stem, or with the path rule the folders before it too. */
static tarn_status make_key(const tarn_collection *c, const char *inner, const char *base,
                            size_t stem, tarn__buf *out, tarn_error *err)
{
    out->size = 0;
    if (c->options.keys == TARN_KEYS_PATH) {
        TARN_TRY(tarn__buf_add(out, inner, (size_t)(base - inner), err));
        for (size_t i = 0; i < out->size; i++)
            if (out->data[i] == '/') out->data[i] = '-';
    }
    return tarn__buf_add(out, base, stem, err);
}

static tarn_status fail_two_classes(tarn_collection *c, uint32_t key, uint32_t a,
                                    uint32_t b, tarn_error *err)
{
    return tarn__fail(
        err, TARN_ERR_AMBIGUOUS,
        "sample %s is in two classes, %s and %s; keys made of the whole path "
        "(--keys path) would tell them apart",
        tarn__names_get(&c->keys, key).data, tarn__names_get(&c->classes, a).data,
        tarn__names_get(&c->classes, b).data);
}

/* The first folder below the one that was given is the class. */
static tarn_status note_class(tarn_collection *c, uint32_t key, const char *inner,
                              tarn_error *err)
{
    const char *slash = strchr(inner, '/');
    uint32_t class;
    if (!c->options.class_from_dir || !slash) return TARN_OK;
    if (memchr(inner, '\n', (size_t)(slash - inner)))
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "the name of a class has a newline, and lists of classes have "
                          "one on each line");
    TARN_TRY(tarn__names_add(&c->classes, inner, (size_t)(slash - inner), &class, err));
    while (key >= c->class_capacity) {
        size_t before = c->class_capacity;
        TARN_TRY(tarn__grow(&c->class_of, sizeof *c->class_of, before, &c->class_capacity,
                            err));
        memset(c->class_of + before, 0xff,
               (c->class_capacity - before) * sizeof *c->class_of);
    }
    if (c->class_of[key] != TARN__NAME_NONE && c->class_of[key] != class)
        return fail_two_classes(c, key, c->class_of[key], class, err);
    c->class_of[key] = class;
    return TARN_OK;
}

/* path is the folder that was given, a slash, and what is inside it from root_len on. */
static tarn_status add_file(tarn_collection *c, const char *path, size_t root_len,
                            tarn_error *err)
{
    const char *inner = path + root_len, *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path, *dot = strchr(base, '.');
    if (!dot || !dot[1]) {
        pass_over(c, path, "its name has no field: no text behind a dot");
        return TARN_OK;
    }
    char *folder =
        slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
    tarn__buf key;
    uint32_t number = 0;
    tarn__buf_init(&key, TARN_MAX_NAME);
    tarn_status status = folder ? TARN_OK : tarn__fail_memory(err);
    if (status == TARN_OK)
        status = make_key(c, inner, base, (size_t)(dot - base), &key, err);
    if (status == TARN_OK)
        status = tarn__collect_file(c, key.data, key.size, dot + 1, strlen(dot + 1),
                                    folder, base, &number, err);
    if (status == TARN_OK) status = note_class(c, number, inner, err);
    if (status != TARN_OK && err && !err->path[0])
        tarn__error_place(err, path, TARN_NO_OFFSET);
    free(folder);
    tarn__buf_reset(&key);
    return status;
}

tarn_status tarn_collection_add_file(tarn_collection *c, const char *path,
                                     tarn_error *err)
{
    const char *slash = strrchr(path, '/');
    struct stat st;
    if (stat(path, &st) != 0) return tarn__fail_errno(err, path, errno, "cannot stat");
    if (!S_ISREG(st.st_mode))
        return tarn__fail_at(err, TARN_ERR_UNSUPPORTED, path, TARN_NO_OFFSET,
                             "not a regular file");
    return add_file(c, path, slash ? (size_t)(slash - path) + 1 : 0, err);
}

/* --- Folders ----------------------------------------------------------------------- */

static bool is_output(const tarn_collection *c, const struct stat *st)
{
    return c->has_output && st->st_dev == c->output_dev && st->st_ino == c->output_ino;
}

/* Its number is in the listing already, so only a likely one is looked at. */
static bool is_output_entry(const tarn_collection *c, int dir, const struct dirent *entry)
{
    struct stat st;
    return c->has_output && entry->d_ino == c->output_ino &&
           fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           is_output(c, &st);
}

/* Whether an entry is a file, a folder, or nothing for us. */
static bool sort_out(tarn_collection *c, int dir, const struct dirent *entry,
                     const char *folder, bool *is_folder)
{
    struct stat st;
    unsigned char type = entry->d_type;
    char *path;
    if (type == DT_UNKNOWN && fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        type = S_ISREG(st.st_mode)   ? DT_REG
               : S_ISDIR(st.st_mode) ? DT_DIR
               : S_ISLNK(st.st_mode) ? DT_LNK
                                     : DT_FIFO;
    const char *why = NULL;
    if (entry->d_name[0] == '.')
        why = "its name begins with a dot";
    else if (type == DT_LNK && fstatat(dir, entry->d_name, &st, 0) != 0)
        why = "a link that leads nowhere";
    else if (type == DT_LNK && !S_ISREG(st.st_mode))
        why = "a link to something that is no file";
    else if (type != DT_REG && type != DT_DIR && type != DT_LNK)
        why = "neither a file nor a folder";
    else if (is_output_entry(c, dir, entry))
        why = "the output is written there";
    *is_folder = type == DT_DIR;
    if (!why) return true;
    if (asprintf(&path, "%s/%s", folder, entry->d_name) >= 0) {
        pass_over(c, path, why);
        free(path);
    }
    return false;
}

static tarn_status list_folder(gathering *g, const char *path, found **out, size_t *count,
                               tarn_error *err)
{
    size_t capacity = 0;
    DIR *dir = opendir(path);
    struct dirent *entry;
    if (!dir) return tarn__fail_errno(err, path, errno, "cannot open the folder");
    tarn_status status = TARN_OK;
    while (status == TARN_OK && (errno = 0, entry = readdir(dir))) {
        bool is_folder;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (!sort_out(g->c, dirfd(dir), entry, path, &is_folder)) continue;
        status = tarn__grow(out, sizeof **out, *count, &capacity, err);
        if (status != TARN_OK) break;
        (*out)[*count] = (found){strdup(entry->d_name), is_folder};
        if (!(*out)[*count].name) status = tarn__fail_memory(err);
        ++*count;
    }
    if (status == TARN_OK && errno)
        status = tarn__fail_errno(err, path, errno, "cannot list the folder");
    closedir(dir);
    return status;
}

static int compare_found(const void *left, const void *right)
{
    return strcmp(((const found *)left)->name, ((const found *)right)->name);
}

/* By name, so that the same folder gives the same collection everywhere. */
static tarn_status gather(gathering *g, const char *path, unsigned depth, tarn_error *err)
{
    found *list = NULL;
    size_t count = 0;
    if (depth > MAX_DEPTH)
        return tarn__fail_at(err, TARN_ERR_LIMIT, path, TARN_NO_OFFSET,
                             "more than %d folders inside each other", MAX_DEPTH);
    tarn_status status = list_folder(g, path, &list, &count, err);
    if (status == TARN_OK && count) qsort(list, count, sizeof *list, compare_found);
    for (size_t i = 0; status == TARN_OK && i < count; i++) {
        char *inner;
        if (asprintf(&inner, "%s/%s", path, list[i].name) < 0) {
            status = tarn__fail_memory(err);
            break;
        }
        status = list[i].is_folder ? gather(g, inner, depth + 1, err)
                                   : add_file(g->c, inner, g->root_len, err);
        free(inner);
    }
    for (size_t i = 0; i < count; i++)
        free(list[i].name);
    free(list);
    return status;
}

tarn_status tarn_collection_add_folder(tarn_collection *c, const char *path,
                                       tarn_error *err)
{
    size_t len = strlen(path);
    struct stat st;
    if (stat(path, &st) == 0 && is_output(c, &st))
        return tarn__fail_at(err, TARN_ERR_USAGE, path, TARN_NO_OFFSET,
                             "the source is the output as well: choose another output");
    while (len > 1 && path[len - 1] == '/')
        len--;
    char *root = strndup(path, len);
    if (!root) return tarn__fail_memory(err);
    gathering g = {c, len + 1};
    tarn_status status = gather(&g, root, 0, err);
    free(root);
    return status;
}
