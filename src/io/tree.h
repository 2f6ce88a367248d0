/* The files of a folder and its subfolders, sorted by name, so that the same tree gives
 * the same list everywhere. Links to files are followed, links to folders are not. */
#ifndef TARN_IO_TREE_H
#define TARN_IO_TREE_H

#include <sys/types.h>

#include <tarn/base.h>

typedef struct tarn__tree {
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
