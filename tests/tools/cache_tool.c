/* Fills and checks a cache without a network, for the tests of the command and of power
 * failures; and measures it.
 *
 *   cache_tool fill FOLDER DATASET URL ETAG SIZE [FIRST COUNT]   stores blocks
 *   cache_tool check FOLDER DATASET URL ETAG SIZE                compares those in it
 *   cache_tool story FOLDER DATASET URL ETAG SIZE                two objects, one synced
 *   cache_tool hold FOLDER DATASET URL ETAG SIZE                 until input ends
 *   cache_tool bench FOLDER BLOCKS                               ns per claim and put */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "io/file.h"
#include "io/shardcache.h"

enum { BLOCK = TARN__CACHE_BLOCK, MOST = 4096 };

static tarn_error err;

static void need(tarn_status status)
{
    char text[3000];
    if (status == TARN_OK) return;
    fprintf(stderr, "cache_tool: %s\n", tarn_error_text(&err, text, sizeof text));
    exit(1);
}

static void fill_bytes(unsigned char *out, uint64_t offset, uint64_t size)
{
    for (uint64_t i = 0; i < size; i++)
        out[i] =
            (unsigned char)(1 + ((offset + i) * 7 + (offset + i) / BLOCK * 13) % 255);
}

static tarn__cached *open_object(tarn__cachedir *dir, const char *dataset,
                                 const char *url, const char *etag, uint64_t size)
{
    tarn__cached *c;
    tarn__object_id id = {.size = size};
    snprintf(id.etag, sizeof id.etag, "\"%s\"", etag);
    need(tarn__cached_open(dir, dataset, url, url, &id, &c, &err));
    return c;
}

static void fill(tarn__cached *c, uint64_t first, uint64_t count, uint64_t size)
{
    tarn__cached_span spans[64];
    size_t n;
    uint64_t at = first * BLOCK, end = (first + count) * BLOCK, to;
    unsigned char *data = malloc(MOST * (size_t)BLOCK);
    if (!data) exit(1);
    for (end = end < size ? end : size; at < end; at = to) {
        uint64_t len = end - at < MOST * (uint64_t)BLOCK ? end - at : MOST * BLOCK;
        need(tarn__cached_claim(c, at, len, spans, 64, &n, &to, &err));
        for (size_t i = 0; i < n; i++) {
            if (spans[i].state != TARN__CACHED_CLAIMED) continue;
            fill_bytes(data, spans[i].first * BLOCK, spans[i].count * BLOCK);
            if (tarn__cached_put(c, spans[i].first, spans[i].count, data, &err) !=
                TARN_OK)
                printf("notice: %s\n", err.message);
        }
    }
    free(data);
}

static int check(tarn__cached *c, uint64_t size)
{
    unsigned char got[BLOCK], want[BLOCK];
    uint64_t there = 0;
    for (uint64_t at = 0; at < size; at += BLOCK) {
        size_t len = size - at < BLOCK ? (size_t)(size - at) : BLOCK;
        if (!tarn__cached_has(c, at, len)) continue;
        there++;
        need(tarn__read_exact(tarn__cached_fd(c), tarn__cached_path(c), got, len, at,
                              &err));
        fill_bytes(want, at, len);
        if (memcmp(got, want, len) == 0) continue;
        fprintf(stderr, "cache_tool: wrong bytes at %llu\n", (unsigned long long)at);
        return 1;
    }
    printf("%llu%s\n", (unsigned long long)there,
           tarn__cached_complete(c) ? " complete" : "");
    return 0;
}

/* What a cache goes through: a part, the whole, an old whole that is opened again and so
 * marked as durable, a dropped block that comes again. */
static void tell_story(tarn__cachedir *dir, char **argv, uint64_t size)
{
    struct timespec old[2] = {{1000000000, 0}, {1000000000, 0}};
    char map[4096];
    tarn__cached *a = open_object(dir, argv[3], argv[4], argv[5], size);
    tarn__cached *b = open_object(dir, argv[3], argv[4], "other", size);
    fill(a, 0, 5, size);
    fill(b, 0, size / BLOCK + 1, size);
    fill(a, 8, 2, size);
    snprintf(map, sizeof map, "%s", tarn__cached_path(b));
    memcpy(strrchr(map, '.'), ".blocks", sizeof ".blocks");
    tarn__cached_close(b);
    if (utimensat(AT_FDCWD, map, old, 0) != 0) exit(1);
    b = open_object(dir, argv[3], argv[4], "other", size);
    fill(a, 0, size / BLOCK + 1, size);
    tarn__cached_drop(a, 3, 2);
    fill(a, 3, 2, size);
    tarn__cached_drop(b, 1, 1);
    fill(b, 1, 1, size);
    tarn__cached_close(a);
    tarn__cached_close(b);
}

static int use(char **argv, int argc, tarn__cachedir *dir)
{
    uint64_t size = strtoull(argv[6], NULL, 10), first = 0, count = size / BLOCK + 1;
    int result = 0;
    if (strcmp(argv[1], "story") == 0) {
        tell_story(dir, argv, size);
        return 0;
    }
    tarn__cached *c = open_object(dir, argv[3], argv[4], argv[5], size);
    if (argc == 9) {
        first = strtoull(argv[7], NULL, 10);
        count = strtoull(argv[8], NULL, 10);
    }
    if (strcmp(argv[1], "fill") == 0) fill(c, first, count, size);
    if (strcmp(argv[1], "check") == 0) result = check(c, size);
    if (strcmp(argv[1], "hold") == 0) {
        puts("ready");
        fflush(stdout);
        while (getchar() != EOF)
            ;
    }
    tarn__cached_close(c);
    return result;
}

/* --- Measuring ---------------------------------------------------------------------- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void show(const char *what, double began, uint64_t count)
{
    printf("%-40s %10.0f ns\n", what, (now() - began) * 1e9 / (double)count);
}

/* Ranges of 25 blocks (100 KiB), as a sample has. */
static void measure(tarn__cachedir *dir, const char *folder, uint64_t blocks)
{
    enum { RANGE = 25 };
    static unsigned char data[RANGE * BLOCK];
    tarn__cached_span s[4];
    size_t n;
    uint64_t end, ranges = blocks / RANGE, size = ranges * RANGE * BLOCK, hits = 0;
    char url[64], path[4096];
    snprintf(url, sizeof url, "https://bench/%ld", (long)getpid());
    tarn__cached *c = open_object(dir, "bench", url, "1", size);
    fill_bytes(data, 0, sizeof data);
    double began = now(), claiming = 0;
    for (uint64_t i = 0; i < ranges; i++) {
        double before = now();
        need(tarn__cached_claim(c, i * sizeof data, sizeof data, s, 4, &n, &end, &err));
        claiming += now() - before;
        need(tarn__cached_put(c, s[0].first, s[0].count, data, &err));
    }
    show("claim and put, 100 KiB", began, ranges);
    printf("%-40s %10.0f ns\n", "  of that, claim", claiming * 1e9 / (double)ranges);
    began = now();
    for (uint64_t i = 0; i < 100 * ranges; i++)
        hits += tarn__cached_has(c, i % ranges * sizeof data, sizeof data);
    show(hits == 100 * ranges ? "has, complete" : "has, WRONG", began, 100 * ranges);
    began = now();
    tarn__cached *again = open_object(dir, "bench", url, "1", size);
    show("open, complete", began, 1);
    tarn__cached_close(again);
    tarn__cached_close(c);
    snprintf(path, sizeof path, "%s/plain-%ld", folder, (long)getpid());
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)size) != 0) exit(1);
    began = now();
    for (uint64_t i = 0; i < ranges; i++)
        if (pwrite(fd, data, sizeof data, (off_t)(i * sizeof data)) < 0) exit(1);
    show("plain pwrite, 100 KiB", began, ranges);
    close(fd);
    unlink(path);
}

int main(int argc, char **argv)
{
    tarn__cachedir *dir;
    bool bench = argc == 4 && strcmp(argv[1], "bench") == 0;
    if (argc != 7 && argc != 9 && !bench) return 2;
    need(tarn__cachedir_open(argv[2], NULL, &dir, &err));
    int result = 0;
    if (bench)
        measure(dir, argv[2], strtoull(argv[3], NULL, 10));
    else
        result = use(argv, argc, dir);
    tarn__cachedir_close(dir);
    return result;
}
