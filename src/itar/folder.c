/* Finds the folds of a folder. glzn accepts only names of exactly two parts,
 * fold_suffix.tar, and rejects a folder with any other name. tarn also accepts the shard
 * names that are common with WebDataset. */
#include "itar/folder.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/error.h"
#include "io/object.h"
#include "itar/commit.h"
#include "itar/remote_place.h"

static const char tar_ending[] = ".tar", index_ending[] = ".taridx";
static const char nameless[] = "data"; /* fold of shards whose name is only a number */

typedef struct shard {
    char *path;
    size_t suffix_at, suffix_len; /* in path */
    char separator;               /* between fold and suffix, 0 if none */
} shard;

typedef struct fold {
    tarn_listed_fold listed; /* what callers see of it */
    char *name;
    char *index_path;
    shard *shards;
    size_t count, capacity;
    const char **paths; /* of the shards, sorted */
} fold;

typedef struct listing {
    tarn_folds folds_out; /* what callers see; the first member */
    char *path;
    const char *query; /* appended to URLs; "" for a local folder */
    fold *folds;
    size_t count, capacity;
    char **compressed; /* the folds of compressed archives */
    size_t n_compressed, compressed_capacity;
    char *unfinished; /* a fold, among those that were asked for, with a journal */
    const tarn_listed_fold **listed;
} listing;

static void free_fold(fold *one)
{
    for (size_t k = 0; k < one->count; k++)
        free(one->shards[k].path);
    free(one->shards);
    free(one->paths);
    free(one->name);
    free(one->index_path);
}

static bool all_digits(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (s[i] < '0' || s[i] > '9') return false;
    return len > 0;
}

bool tarn__shard_name(const char *name, const char **fold_name, size_t *fold_len,
                      const char **suffix, size_t *suffix_len)
{
    size_t len = strlen(name), ending = sizeof tar_ending - 1;
    if (len <= ending || name[0] == '.' || strcmp(name + len - ending, tar_ending) != 0)
        return false;
    len -= ending;
    size_t digits = 0;
    while (digits < len && all_digits(name + len - digits - 1, 1))
        digits++;
    /* name-00007-of-00100: the number comes before "-of-". */
    size_t tail = digits;
    if (digits && len > digits + 4 && memcmp(name + len - digits - 4, "-of-", 4) == 0) {
        size_t before = 0;
        while (digits + 4 + before < len &&
               all_digits(name + len - digits - 5 - before, 1))
            before++;
        if (before) tail = digits + 4 + before;
    }
    const char *under = memrchr(name, '_', len);
    *fold_name = name;
    if (digits == len) {
        *fold_name = nameless;
        *fold_len = sizeof nameless - 1;
        *suffix = name;
        *suffix_len = len;
    } else if (tail && len - tail > 1 && strchr("_-.", name[len - tail - 1])) {
        *fold_len = len - tail - 1;
        *suffix = name + len - tail;
        *suffix_len = tail;
    } else if (under && under > name && under + 1 < name + len) {
        *fold_len = (size_t)(under - name);
        *suffix = under + 1;
        *suffix_len = len - *fold_len - 1;
    } else {
        *fold_len = len;
        *suffix = name + len;
        *suffix_len = 0;
    }
    return true;
}

bool tarn__is_shard_of(const char *fold_name, const char *name)
{
    const char *of, *suffix;
    size_t of_len, suffix_len;
    return !strchr(name, '/') &&
           tarn__shard_name(name, &of, &of_len, &suffix, &suffix_len) &&
           of_len == strlen(fold_name) && memcmp(of, fold_name, of_len) == 0;
}

tarn_status tarn__shard_number(const char *name, const char *folder, char **out_prefix,
                               unsigned *out_digits, uint64_t *out_number,
                               tarn_error *err)
{
    const char *of, *suffix;
    size_t of_len, len;
    if (!tarn__shard_name(name, &of, &of_len, &suffix, &len) || len == 0 || len > 18 ||
        strspn(suffix, "0123456789") != len)
        return tarn__fail_at(err, TARN_ERR_UNSUPPORTED, folder, TARN_NO_OFFSET,
                             "shard %s has no number, so the next shard cannot be named",
                             name);
    *out_prefix = strndup(name, (size_t)(suffix - name));
    if (!*out_prefix) return tarn__fail_memory(err);
    *out_digits = (unsigned)len;
    *out_number = strtoull(suffix, NULL, 10);
    return TARN_OK;
}

tarn_status tarn__shard_compose(const char *prefix, unsigned digits, uint64_t number,
                                const char *folder, char **out, tarn_error *err)
{
    char text[32];
    int len = snprintf(text, sizeof text, "%0*" PRIu64, (int)digits, number);
    if (len > (int)digits)
        return tarn__fail_at(err, TARN_ERR_LIMIT, folder, TARN_NO_OFFSET,
                             "shard number %" PRIu64
                             " has more than %u digits and would not sort after the "
                             "others; write with more digits or larger shards",
                             number, digits);
    if (asprintf(out, "%s%s.tar", prefix, text) < 0) return tarn__fail_memory(err);
    return TARN_OK;
}

tarn_status tarn__path_split(const char *path, char **out_folder, const char **out_fold,
                             tarn_error *err)
{
    struct stat st;
    const char *colon = strrchr(path, ':');
    *out_fold = NULL;
    if (!colon || colon == path || strchr(colon, '/') || stat(path, &st) == 0) {
        *out_folder = strdup(path);
    } else {
        *out_folder = strndup(path, (size_t)(colon - path));
        *out_fold = colon + 1;
    }
    return *out_folder ? TARN_OK : tarn__fail_memory(err);
}

bool tarn__is_index_path(const char *path)
{
    size_t len = strlen(path), ending = sizeof index_ending - 1;
    return len > ending && strcmp(path + len - ending, index_ending) == 0;
}

tarn_status tarn__path_of_index(const char *path, char **out, tarn_error *err)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    int folder = slash ? (int)(slash - path) : 0;
    int len = (int)(strlen(name) - (sizeof index_ending - 1));
    const char *root = folder ? "" : slash ? "/" : ".";
    if (asprintf(out, "%.*s%s:%.*s", folder, path, root, len, name) >= 0) return TARN_OK;
    return tarn__fail_memory(err);
}

static char *join(const listing *f, const char *name, size_t len, const char *ending)
{
    size_t at = strlen(f->path), size = at + len + strlen(ending) + strlen(f->query) + 2;
    char *path = malloc(size);
    if (!path) return NULL;
    const char *slash = at && f->path[at - 1] == '/' ? "" : "/";
    snprintf(path, size, "%s%s%.*s%s%s", f->path, slash, (int)len, name, ending,
             f->query);
    return path;
}

static tarn_status find_fold(listing *f, const char *name, size_t len, fold **out,
                             tarn_error *err)
{
    for (size_t i = 0; i < f->count; i++)
        if (strlen(f->folds[i].name) == len && memcmp(f->folds[i].name, name, len) == 0) {
            *out = &f->folds[i];
            return TARN_OK;
        }
    TARN_TRY(tarn__grow(&f->folds, sizeof *f->folds, f->count, &f->capacity, err));
    fold *fresh = &f->folds[f->count];
    *fresh = (fold){.name = strndup(name, len),
                    .index_path = join(f, name, len, index_ending)};
    f->count++;
    if (!fresh->name || !fresh->index_path) return tarn__fail_memory(err);
    *out = fresh;
    return TARN_OK;
}

static tarn_status add_shard(listing *f, const char *name, const char *only,
                             tarn_error *err)
{
    const char *fold_name, *suffix;
    size_t fold_len, suffix_len;
    fold *target;
    if (!tarn__shard_name(name, &fold_name, &fold_len, &suffix, &suffix_len))
        return TARN_OK;
    if (only && (strlen(only) != fold_len || memcmp(only, fold_name, fold_len) != 0))
        return TARN_OK;
    TARN_TRY(find_fold(f, fold_name, fold_len, &target, err));
    TARN_TRY(tarn__grow(&target->shards, sizeof *target->shards, target->count,
                        &target->capacity, err));
    shard s = {.path = join(f, name, strlen(name), ""), .suffix_len = suffix_len};
    if (!s.path) return tarn__fail_memory(err);
    size_t suffix_in_name = (size_t)(suffix - name);
    s.suffix_at = strlen(s.path) - strlen(f->query) - strlen(name) + suffix_in_name;
    if (suffix_len && suffix_in_name) s.separator = name[suffix_in_name - 1];
    target->shards[target->count++] = s;
    return TARN_OK;
}

static int compare_shards(const void *left, const void *right)
{
    const shard *a = left, *b = right;
    size_t common = a->suffix_len < b->suffix_len ? a->suffix_len : b->suffix_len;
    int order =
        common ? memcmp(a->path + a->suffix_at, b->path + b->suffix_at, common) : 0;
    if (order) return order;
    if (a->suffix_len != b->suffix_len) return a->suffix_len < b->suffix_len ? -1 : 1;
    return strcmp(a->path, b->path);
}

static int compare_folds(const void *left, const void *right)
{
    return strcmp(((const fold *)left)->name, ((const fold *)right)->name);
}

/* With two naming schemes in one fold, its order would be arbitrary. */
static tarn_status check_separators(const listing *f, const fold *one, tarn_error *err)
{
    for (size_t k = 1; k < one->count; k++)
        if (one->shards[k].separator != one->shards[0].separator)
            return tarn__fail_at(err, TARN_ERR_AMBIGUOUS, f->path, TARN_NO_OFFSET,
                                 "the shards of fold %s are named in two ways, such as "
                                 "%s and %s; keep one",
                                 one->name, strrchr(one->paths[0], '/') + 1,
                                 strrchr(one->paths[k], '/') + 1);
    return TARN_OK;
}

static tarn_status sort_all(listing *f, tarn_error *err)
{
    if (f->count) qsort(f->folds, f->count, sizeof *f->folds, compare_folds);
    for (size_t i = 0; i < f->count; i++) {
        fold *one = &f->folds[i];
        qsort(one->shards, one->count, sizeof *one->shards, compare_shards);
        one->paths = malloc(one->count * sizeof *one->paths);
        if (!one->paths) return tarn__fail_memory(err);
        for (size_t k = 0; k < one->count; k++)
            one->paths[k] = one->shards[k].path;
        TARN_TRY(check_separators(f, one, err));
    }
    return TARN_OK;
}

/* Records a compressed archive that would otherwise be a shard of the fold (or of any
 * fold). */
static tarn_status note_compressed(listing *f, const char *name, const char *only,
                                   tarn_error *err)
{
    static const char *const endings[] = {".tar.gz",  ".tgz",    ".tar.bz2",
                                          ".tbz2",    ".tar.xz", ".txz",
                                          ".tar.zst", ".tzst",   ".tar.lz4"};
    const char *fold_name, *suffix;
    size_t fold_len, suffix_len, len = strlen(name), n = 0;
    char plain[512];
    for (size_t i = 0; n == 0 && i < sizeof endings / sizeof endings[0]; i++) {
        size_t k = strlen(endings[i]);
        if (len > k && strcmp(name + len - k, endings[i]) == 0) n = k;
    }
    if (n == 0) return TARN_OK;
    snprintf(plain, sizeof plain, "%.*s%s", (int)(len - n), name, tar_ending);
    if (!tarn__shard_name(plain, &fold_name, &fold_len, &suffix, &suffix_len) ||
        (only && (strlen(only) != fold_len || memcmp(only, fold_name, fold_len) != 0)))
        return TARN_OK;
    TARN_TRY(tarn__grow(&f->compressed, sizeof *f->compressed, f->n_compressed,
                        &f->compressed_capacity, err));
    char *copy = strndup(fold_name, fold_len);
    if (!copy) return tarn__fail_memory(err);
    f->compressed[f->n_compressed++] = copy;
    return TARN_OK;
}

/* Remembers the fold of a journal. */
static tarn_status note_journal(listing *f, const char *name, const char *only,
                                tarn_error *err)
{
    size_t len = strlen(name), ending = sizeof TARN__JOURNAL_ENDING - 1;
    if (f->unfinished || name[0] != '.' || len <= ending + 1 ||
        strcmp(name + len - ending, TARN__JOURNAL_ENDING) != 0)
        return TARN_OK;
    len -= ending + 1;
    if (only && (strlen(only) != len || memcmp(only, name + 1, len) != 0)) return TARN_OK;
    f->unfinished = strndup(name + 1, len);
    return f->unfinished ? TARN_OK : tarn__fail_memory(err);
}

/* Hides the shards that a writer was about to add to a fold. The listing may have started
 * before the writer, so the journal is read after the listing, by name. Then every listed
 * shard that is not published yet is in the journal. */
static tarn_status hide_unpublished(listing *f, fold *one, tarn_error *err)
{
    tarn__names coming, going;
    tarn__journal_state ignored;
    char *path;
    if (asprintf(&path, "%s/.%s%s", f->path, one->name, TARN__JOURNAL_ENDING) < 0)
        return tarn__fail_memory(err);
    size_t kept = 0;
    tarn__names_init(&coming);
    tarn__names_init(&going);
    tarn_status status = tarn__journal_load(path, one->name, one->index_path, &coming,
                                            &going, &ignored, err);
    for (size_t i = 0; i < one->count; i++) {
        const char *name = strrchr(one->shards[i].path, '/') + 1;
        size_t len = strlen(name);
        if (tarn__names_find(&coming, name, len) == TARN__NAME_NONE &&
            tarn__names_find(&going, name, len) == TARN__NAME_NONE)
            one->shards[kept++] = one->shards[i];
        else
            free(one->shards[i].path);
    }
    if (status == TARN_OK && kept < one->count && !f->unfinished &&
        !(f->unfinished = strdup(one->name)))
        status = tarn__fail_memory(err);
    one->count = kept;
    tarn__names_reset(&coming);
    tarn__names_reset(&going);
    free(path);
    return status;
}

static tarn_status hide_unfinished(listing *f, tarn_error *err)
{
    size_t kept = 0;
    tarn_status status = TARN_OK;
    for (size_t i = 0; i < f->count; i++) {
        fold *one = &f->folds[i];
        if (status == TARN_OK) status = hide_unpublished(f, one, err);
        if (one->count)
            f->folds[kept++] = *one;
        else
            free_fold(one);
    }
    f->count = kept;
    return status;
}

static tarn_status add_file(listing *f, const char *name, const char *only,
                            tarn_error *err)
{
    TARN_TRY(note_compressed(f, name, only, err));
    return add_shard(f, name, only, err);
}

static tarn_status list(listing *f, const char *only, tarn_error *err)
{
    DIR *dir = opendir(f->path);
    if (!dir && errno == ENOTDIR)
        return tarn__fail_at(err, TARN_ERR_NO_FILE, f->path, TARN_NO_OFFSET,
                             "not a folder of shards");
    if (!dir) return tarn__fail_errno(err, f->path, errno, "cannot open the folder");
    tarn_status status = TARN_OK;
    struct dirent *entry;
    while (status == TARN_OK && (errno = 0, entry = readdir(dir))) {
        status = note_journal(f, entry->d_name, only, err);
        if (status == TARN_OK) status = add_file(f, entry->d_name, only, err);
    }
    if (status == TARN_OK && errno)
        status = tarn__fail_errno(err, f->path, errno, "cannot list the folder");
    closedir(dir);
    return status;
}

static tarn_status fail_empty(const listing *f, const char *only, tarn_error *err)
{
    if (f->unfinished)
        return tarn__fail_at(err, TARN_ERR_NO_FOLD, f->path, TARN_NO_OFFSET,
                             tarn__stage_is_locked(f->path, f->unfinished)
                                 ? "fold %s is being published or replaced; try again"
                                 : "writing fold %s was interrupted during the final "
                                   "renames; resume it",
                             f->unfinished);
    if (f->n_compressed)
        return tarn__fail_at(
            err, TARN_ERR_UNSUPPORTED, f->path, TARN_NO_OFFSET,
            "only compressed archives found, which have no random access: decompress "
            "them, write plain shards with tarn convert, or read them as streams");
    if (only)
        return tarn__fail_at(err, TARN_ERR_NO_FOLD, f->path, TARN_NO_OFFSET,
                             "no shards of fold %s found", only);
    return tarn__fail_at(err, TARN_ERR_NO_FOLD, f->path, TARN_NO_OFFSET,
                         "no .tar files found");
}

/* --- Public functions -------------------------------------------------------------- */

static void free_folder(listing *f)
{
    if (!f) return;
    for (size_t i = 0; i < f->count; i++)
        free_fold(&f->folds[i]);
    for (size_t i = 0; i < f->n_compressed; i++)
        free(f->compressed[i]);
    free(f->compressed);
    free(f->folds);
    free(f->listed);
    free(f->unfinished);
    free(f->path);
    free(f);
}

static tarn_status export_folds(listing *f, tarn_error *err)
{
    f->listed = calloc(f->count, sizeof *f->listed);
    if (!f->listed) return tarn__fail_memory(err);
    for (size_t i = 0; i < f->count; i++) {
        fold *one = &f->folds[i];
        one->listed = (tarn_listed_fold){.name = one->name,
                                         .index_path = one->index_path,
                                         .shards = one->paths,
                                         .n_shards = one->count};
        for (size_t k = 0; k < f->n_compressed; k++)
            one->listed.compressed += strcmp(one->name, f->compressed[k]) == 0;
        f->listed[i] = &one->listed;
    }
    f->folds_out = (tarn_folds){f->listed, f->count, f->n_compressed};
    return TARN_OK;
}

/* The common end: sorts what was found, or frees it. */
static tarn_status finish_listing(listing *f, const char *only, tarn_status status,
                                  tarn_folds **out, tarn_error *err)
{
    if (status == TARN_OK) status = sort_all(f, err);
    if (status == TARN_OK && f->count == 0) status = fail_empty(f, only, err);
    if (status == TARN_OK) status = export_folds(f, err);
    f->query = "";
    if (status == TARN_OK)
        *out = &f->folds_out;
    else
        free_folder(f);
    return status;
}

tarn_status tarn_folds_list(const char *path, tarn_folds **out, tarn_error *err)
{
    TARN__NEED(err, "path", path);
    TARN__NEED(err, "out", out);
    const char *only;
    *out = NULL;
    if (tarn__is_remote(path)) return tarn__remote_folds_list(path, out, err);
    listing *f = calloc(1, sizeof *f);
    if (!f) return tarn__fail_memory(err);
    f->query = "";
    tarn_status status = tarn__path_split(path, &f->path, &only, err);
    if (status == TARN_OK) status = list(f, only, err);
    if (status == TARN_OK) status = hide_unfinished(f, err);
    return finish_listing(f, only, status, out, err);
}

tarn_status tarn__folds_of(const char *folder, const char *query, const char *only,
                           const char *const *files, size_t count, tarn_folds **out,
                           tarn_error *err)
{
    *out = NULL;
    listing *f = calloc(1, sizeof *f);
    if (!f) return tarn__fail_memory(err);
    f->query = query;
    f->path = strdup(folder);
    tarn_status status = f->path ? TARN_OK : tarn__fail_memory(err);
    for (size_t i = 0; status == TARN_OK && i < count; i++)
        status = add_file(f, files[i], only, err);
    return finish_listing(f, only, status, out, err);
}

void tarn_folds_free(tarn_folds *folds)
{
    free_folder((listing *)folds);
}
