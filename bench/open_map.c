/* Opens, measures, maps and unmaps each file named on the command line, and does nothing
 * else: the minimum for a process that reads from these files. This is the baseline of
 * the lookup benchmark; run.py builds it. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_map(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    int status = fstat(fd, &st);
    if (status == 0 && st.st_size > 0) {
        size_t size = (size_t)st.st_size;
        void *map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
        status = map == MAP_FAILED ? -1 : munmap(map, size);
    }
    close(fd);
    return status;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (open_map(argv[i]) != 0) {
            perror(argv[i]);
            return 1;
        }
    }
    return 0;
}
