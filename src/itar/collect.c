/* Fills a collection from files and folders. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/error.h"
#include "io/tree.h"
#include "itar/collection.h"

static void skip(void *context, const char *path, const char *why)
{
    tarn__collection *c = context;
    tarn_error what;
    c->skipped++;
    if (!c->options.notice) return;
    tarn__error_set(&what, TARN_ERR_UNSUPPORTED, path, TARN_NO_OFFSET, "skipped: %s",
                    why);
    c->options.notice(c->options.notice_context, &what);
}

/* The key of a file: its stem; with the path rule also the folders before it. */
static tarn_status make_key(const tarn__collection *c, const char *inner,
                            const char *base, size_t stem, tarn__buf *out,
                            tarn_error *err)
{
    out->size = 0;
    if (c->options.keys == TARN_KEYS_PATH) {
        TARN_TRY(tarn__buf_add(out, inner, (size_t)(base - inner), err));
        for (size_t i = 0; i < out->size; i++)
            if (out->data[i] == '/') out->data[i] = '-';
    }
    return tarn__buf_add(out, base, stem, err);
}

static tarn_status fail_two_classes(tarn__collection *c, uint32_t key, uint32_t a,
                                    uint32_t b, tarn_error *err)
{
    char shown[3][200];
    tarn__name names[3] = {tarn__names_get(&c->keys, key),
                           tarn__names_get(&c->classes, a),
                           tarn__names_get(&c->classes, b)};
    for (int i = 0; i < 3; i++)
        tarn_printable(shown[i], sizeof shown[i], names[i].data, names[i].size);
    return tarn__fail(err, TARN_ERR_AMBIGUOUS,
                      "sample %s is in two classes, %s and %s; keys from the whole path "
                      "(--keys path) would distinguish them",
                      shown[0], shown[1], shown[2]);
}

/* The folder that is the class of a file: its name and length. False if the file is not
 * in one. */
static bool find_class(const tarn__collection *c, const char *inner, const char **out,
                       size_t *out_len)
{
    const char *slash = strchr(inner, '/');
    for (unsigned level = c->options.class_level; slash && level > 1; level--) {
        inner = slash + 1;
        slash = strchr(inner, '/');
    }
    *out = inner;
    *out_len = slash ? (size_t)(slash - inner) : 0;
    return slash != NULL;
}

static tarn_status note_class(tarn__collection *c, uint32_t key, const char *inner,
                              tarn_error *err)
{
    uint32_t class;
    size_t len;
    if (!c->options.class_from_dir || !find_class(c, inner, &inner, &len)) return TARN_OK;
    if (memchr(inner, '\n', len))
        return tarn__fail(
            err, TARN_ERR_UNSUPPORTED,
            "the class name contains a newline, but class lists have one name per line");
    TARN_TRY(tarn__names_add(&c->classes, inner, len, &class, err));
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

/* Why a file is not packed, or NULL. */
static const char *why_skipped(const tarn__collection *c, const char *inner,
                               const char *base)
{
    static const char *const litter[] = {"thumbs.db", "ehthumbs.db", "desktop.ini"};
    const char *dot = strchr(base, '.'), *class;
    size_t len;
    for (size_t i = 0; i < sizeof litter / sizeof *litter; i++)
        if (strcasecmp(base, litter[i]) == 0) return "a file of a desktop program";
    if (!dot || !dot[1]) return "its name has no field (no text after a dot)";
    if (c->options.class_from_dir && !find_class(c, inner, &class, &len))
        return "it is in no sub-folder that could be its class";
    return NULL;
}

/* path is the given folder, a slash, and the path inside it, which starts at root_len. */
static tarn_status add_file(void *context, const char *path, size_t root_len,
                            tarn_error *err)
{
    tarn__collection *c = context;
    const char *inner = path + root_len, *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path, *dot = strchr(base, '.');
    const char *why = why_skipped(c, inner, base);
    if (why) {
        skip(c, path, why);
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

tarn_status tarn__collection_add_file(tarn__collection *c, const char *path,
                                      tarn_error *err)
{
    const char *slash = strrchr(path, '/');
    struct stat st;
    if (stat(path, &st) != 0) return tarn__fail_errno(err, path, errno, "cannot stat");
    if (!S_ISREG(st.st_mode))
        return tarn__fail_at(err, TARN_ERR_UNSUPPORTED, path, TARN_NO_OFFSET,
                             "not a regular file");
    if (!tarn__globs_take(&c->options.globs, slash ? slash + 1 : path)) return TARN_OK;
    return add_file(c, path, slash ? (size_t)(slash - path) + 1 : 0, err);
}

tarn_status tarn__collection_add_folder(tarn__collection *c, const char *path,
                                        tarn_error *err)
{
    tarn__tree tree = c->tree;
    tree.file = add_file;
    tree.skipped = skip;
    tree.context = c;
    return tarn__tree_walk(&tree, path, err);
}
