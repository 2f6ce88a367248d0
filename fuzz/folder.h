/* A folder for the files of a fuzz target, and functions that write files to it. */
#ifndef TARN_FUZZ_FOLDER_H
#define TARN_FUZZ_FOLDER_H

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

#include "common.h"

static char folder[256];

static inline void remove_folder(void)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir) closedir(dir);
    rmdir(folder);
}

/* Returns whether the file is new. */
static inline bool make_folder(void)
{
    if (folder[0]) return false;
    const char *parent = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/tarn-fuzz-XXXXXX", parent ? parent : "/tmp");
    CHECK(mkdtemp(folder));
    atexit(remove_folder);
    return true;
}

enum { PATH_SIZE = sizeof folder + 64 };

static inline void path_to(char *path, const char *name)
{
    CHECK(snprintf(path, PATH_SIZE, "%s/%s", folder, name) < PATH_SIZE);
}

static inline void put_file(const char *path, const void *data, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    close(fd);
}

#endif
