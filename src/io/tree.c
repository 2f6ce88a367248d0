/* Walks a tree of folders. */
#include "io/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/error.h"

/* Nested folders; the limits of file systems are usually lower. */
enum { MAX_DEPTH = 128 };

typedef struct found {
    char *name;
    bool is_folder;
} found;

/* --- Patterns ---------------------------------------------------------------------- */

/* The names of the path one by one. */
static bool matches_name(const char *glob, const char *inner)
{
    char name[NAME_MAX + 1];
    for (const char *end = inner; *end; inner = end + (*end == '/')) {
        end = strchrnul(inner, '/');
        size_t len = (size_t)(end - inner);
        if (len > NAME_MAX) continue;
        memcpy(name, inner, len);
        name[len] = '\0';
        if (fnmatch(glob, name, 0) == 0) return true;
    }
    return false;
}

static bool matches_any(const char *const *globs, size_t count, const char *inner)
{
    for (size_t i = 0; i < count; i++) {
        bool path = strchr(globs[i], '/');
        const char *glob = globs[i] + (globs[i][0] == '/');
        if (path ? fnmatch(glob, inner, FNM_PATHNAME | FNM_LEADING_DIR) == 0
                 : matches_name(glob, inner))
            return true;
    }
    return false;
}

/* Also for a folder, and then for everything in it. */
static bool is_excluded(const tarn__globs *g, const char *inner)
{
    return matches_any(g->exclude, g->n_exclude, inner);
}

bool tarn__globs_take(const tarn__globs *g, const char *inner)
{
    return !is_excluded(g, inner) &&
           (!g->n_include || matches_any(g->include, g->n_include, inner));
}

/* --- Folders ----------------------------------------------------------------------- */

void tarn__tree_output(tarn__tree *tree, const char *path)
{
    struct stat st;
    tree->has_output = path && stat(path, &st) == 0;
    if (!tree->has_output) return;
    tree->output_dev = st.st_dev;
    tree->output_ino = st.st_ino;
}

static bool is_output(const tarn__tree *tree, const struct stat *st)
{
    return tree->has_output && st->st_dev == tree->output_dev &&
           st->st_ino == tree->output_ino;
}

/* Comparing the inode number first avoids a system call for entries that are not the
 * output. */
static bool is_output_entry(const tarn__tree *tree, int dir, const struct dirent *entry)
{
    struct stat st;
    return tree->has_output && entry->d_ino == tree->output_ino &&
           fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           is_output(tree, &st);
}

static unsigned char type_of(int dir, const struct dirent *entry)
{
    struct stat st;
    if (entry->d_type != DT_UNKNOWN) return entry->d_type;
    if (fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) return DT_UNKNOWN;
    return S_ISREG(st.st_mode)   ? DT_REG
           : S_ISDIR(st.st_mode) ? DT_DIR
           : S_ISLNK(st.st_mode) ? DT_LNK
                                 : DT_FIFO;
}

/* Why an entry is not visited, or NULL. */
static const char *why_skipped(const tarn__tree *tree, int dir,
                               const struct dirent *entry, unsigned char type)
{
    struct stat st;
    if (entry->d_name[0] == '.' && !tree->hidden) return "its name begins with a dot";
    if (type == DT_LNK && fstatat(dir, entry->d_name, &st, 0) != 0)
        return "a broken link";
    if (type == DT_LNK && !S_ISREG(st.st_mode))
        return "a link to something other than a file";
    if (type != DT_REG && type != DT_DIR && type != DT_LNK)
        return "neither a file nor a folder";
    return is_output_entry(tree, dir, entry) ? "the output is written there" : NULL;
}

static tarn_status join_path(const char *folder, const char *name, char **out,
                             tarn_error *err)
{
    return asprintf(out, "%s/%s", folder, name) < 0 ? tarn__fail_memory(err) : TARN_OK;
}

/* Sets *out to NULL if no pattern needs the path and no message does. */
static tarn_status entry_path(const tarn__tree *tree, const char *folder,
                              const char *name, const char *why, char **out,
                              tarn_error *err)
{
    *out = NULL;
    if (!tree->globs.n_exclude && !(why && tree->skipped)) return TARN_OK;
    return join_path(folder, name, out, err);
}

/* Excluded entries are left out without a message. */
static tarn_status add_entry(const tarn__tree *tree, int dir, const struct dirent *entry,
                             const char *folder, size_t inner, found *out,
                             bool *out_taken, tarn_error *err)
{
    unsigned char type = type_of(dir, entry);
    const char *why = why_skipped(tree, dir, entry, type);
    char *path;
    TARN_TRY(entry_path(tree, folder, entry->d_name, why, &path, err));
    *out_taken = !why && !(path && is_excluded(&tree->globs, path + inner));
    *out = (found){*out_taken ? strdup(entry->d_name) : NULL, type == DT_DIR};
    if (why && path && tree->skipped && tarn__globs_take(&tree->globs, path + inner))
        tree->skipped(tree->context, path, why);
    free(path);
    return *out_taken && !out->name ? tarn__fail_memory(err) : TARN_OK;
}

static tarn_status list_folder(const tarn__tree *tree, const char *path, size_t inner,
                               found **out, size_t *count, tarn_error *err)
{
    size_t capacity = 0;
    DIR *dir = opendir(path);
    struct dirent *entry;
    if (!dir) return tarn__fail_errno(err, path, errno, "cannot open the folder");
    tarn_status status = TARN_OK;
    while (status == TARN_OK && (errno = 0, entry = readdir(dir))) {
        bool taken = false;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        status = tarn__grow(out, sizeof **out, *count, &capacity, err);
        if (status == TARN_OK)
            status = add_entry(tree, dirfd(dir), entry, path, inner, *out + *count,
                               &taken, err);
        *count += status == TARN_OK && taken;
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

static tarn_status walk_folder(const tarn__tree *tree, const char *path, size_t inner,
                               unsigned depth, tarn_error *err)
{
    found *list = NULL;
    size_t count = 0;
    if (depth > MAX_DEPTH)
        return tarn__fail_at(err, TARN_ERR_LIMIT, path, TARN_NO_OFFSET,
                             "more than %d nested folders", MAX_DEPTH);
    tarn_status status = list_folder(tree, path, inner, &list, &count, err);
    if (status == TARN_OK && count) qsort(list, count, sizeof *list, compare_found);
    for (size_t i = 0; i < count; i++) {
        char *path_in = NULL;
        if (status == TARN_OK) status = join_path(path, list[i].name, &path_in, err);
        if (status == TARN_OK && list[i].is_folder)
            status = walk_folder(tree, path_in, inner, depth + 1, err);
        else if (status == TARN_OK && tarn__globs_take(&tree->globs, path_in + inner))
            status = tree->file(tree->context, path_in, inner, err);
        free(path_in);
        free(list[i].name);
    }
    free(list);
    return status;
}

tarn_status tarn__tree_walk(const tarn__tree *tree, const char *path, tarn_error *err)
{
    size_t len = strlen(path);
    struct stat st;
    if (stat(path, &st) == 0 && is_output(tree, &st))
        return tarn__fail_at(err, TARN_ERR_USAGE, path, TARN_NO_OFFSET,
                             "the source is also the output; choose another output");
    while (len > 1 && path[len - 1] == '/')
        len--;
    char *root = strndup(path, len);
    if (!root) return tarn__fail_memory(err);
    tarn_status status = walk_folder(tree, root, len + 1, 0, err);
    free(root);
    return status;
}
