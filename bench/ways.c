/* Bare ways of reading the headers of tar shards, which the library's window chooses
 * from. Usage: ways read BYTES SHARD... (everything, in reads of that size), ways hop
 * BYTES SHARD... (one read at each header), ways map 0 SHARD... (one access at each
 * header). Built by run.py. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t seen; /* keeps the compiler from removing the work */

static off_t next_header(const unsigned char *header, off_t at)
{
    uint64_t size = 0;
    for (int i = 124; i < 135; i++)
        size = size << 3 | (header[i] & 7u);
    for (int i = 0; i < 512; i += 64)
        seen += header[i];
    return at + 512 + (off_t)((size + 511) / 512 * 512);
}

static void read_all(int fd, unsigned char *buffer, size_t bytes)
{
    ssize_t n;
    for (off_t at = 0; (n = pread(fd, buffer, bytes, at)) > 0; at += n)
        seen += buffer[0];
}

static void hop(int fd, unsigned char *buffer, size_t bytes, off_t size)
{
    off_t from = 0, end = 0;
    for (off_t at = 0; at + 512 <= size;) {
        if (at < from || at + 512 > end) {
            ssize_t n = pread(fd, buffer, bytes, at);
            if (n < 512) break;
            from = at;
            end = at + n;
        }
        if (buffer[at - from] == 0) break;
        at = next_header(buffer + (at - from), at);
    }
}

static void map(int fd, off_t size)
{
    unsigned char *data = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) exit(1);
    for (off_t at = 0; at + 512 <= size && data[at];)
        at = next_header(data + at, at);
    munmap(data, (size_t)size);
}

int main(int argc, char **argv)
{
    if (argc < 4) return 2;
    size_t bytes = strtoul(argv[2], NULL, 10);
    unsigned char *buffer = aligned_alloc(4096, (bytes + 4607) / 4096 * 4096);
    for (int i = 3; buffer && i < argc; i++) {
        struct stat st;
        int fd = open(argv[i], O_RDONLY);
        if (fd < 0 || fstat(fd, &st) != 0) return 1;
        if (strcmp(argv[1], "read") == 0)
            read_all(fd, buffer, bytes);
        else if (strcmp(argv[1], "hop") == 0)
            hop(fd, buffer, bytes, st.st_size);
        else
            map(fd, st.st_size);
        close(fd);
    }
    free(buffer);
    return seen == 1;
}
