/* A separate folder for each test. */
#include "own_folder.h"

#include <dirent.h>
#include <sys/stat.h>

char dir[512];

int own_folder(void **state)
{
    static int number;
    (void)state;
    snprintf(dir, sizeof dir, "%s/%d", scratch(), number++);
    return mkdir(dir, 0777);
}

const char *in(const char *name)
{
    static char paths[8][1024];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

size_t count_files(const char *folder, bool hidden)
{
    size_t count = 0;
    DIR *d = opendir(folder);
    if (!d) return 0;
    for (struct dirent *e; (e = readdir(d));)
        count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
                 (!hidden || e->d_name[0] == '.');
    closedir(d);
    return count;
}
