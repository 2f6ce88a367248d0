/* The files of a folder and its subfolders, sorted by name, so that the same tree gives
 * the same list everywhere. Links to files are followed, links to folders are not. */
#ifndef TARN_IO_TREE_H
#define TARN_IO_TREE_H

#include <sys/types.h>

#include <tarn/base.h>

/* Which files are visited. A pattern without a slash is matched with the name of the file
 * and of each folder above it, below the root. A pattern with a slash is matched with the
 * path below the root, or with its first folders; there, "*" and "?" do not match a
 * slash. A file is visited if no exclude matches, and an include if there are any. */
typedef struct tarn__globs {
    const char *const *include, *const *exclude;
    size_t n_include, n_exclude;
} tarn__globs;

/* Whether a file is visited. inner is its path below the root. */
bool tarn__globs_take(const tarn__globs *globs, const char *inner);

typedef struct tarn__tree {
    tarn__globs globs;
    bool hidden; /* also visit names that begin with a dot */
    /* path is the root, a slash, and the rest starting at inner. */
    tarn_status (*file)(void *context, const char *path, size_t inner, tarn_error *err);
    /* Reports entries that are not visited, and why. May be NULL. */
    void (*skipped)(void *context, const char *path, const char *why);
    void *context;
    bool has_output; /* private, like the following members */
    dev_t output_dev;
    ino_t output_ino;
} tarn__tree;

/* Excludes the file or folder that will be written. It need not exist. */
void tarn__tree_output(tarn__tree *tree, const char *path);

/* TARN_ERR_USAGE if root is the output itself. */
TARN_CHECKED tarn_status tarn__tree_walk(const tarn__tree *tree, const char *root,
                                         tarn_error *err);

#endif
