/* The work of bench/dataset.py, timed inside the process. Each line of output is a
 * name and seconds, the median of some rounds; contestants run alternately.
 *
 *   dataset_work open PATH INDEX          a fold, compared with mapping its index
 *   dataset_work filter PATH FIELD...     a fold of samples that have these fields
 *   dataset_work batch PATH FIELD COUNT   COUNT random fields, compared with memcpy
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "clock.h"

enum { ROUNDS = 11, BATCHES = 2000 };

static uint64_t seen; /* keeps the compiler from removing the work */
static tarn_error err;

static void die(void)
{
    char text[2200];
    fprintf(stderr, "dataset_work: %s\n", tarn_error_text(&err, text, sizeof text));
    exit(1);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void put(const char *name, double *seconds)
{
    qsort(seconds, ROUNDS, sizeof *seconds, by_value);
    printf("%s %.9f\n", name, seconds[ROUNDS / 2]);
}

static double add_up(const char *path)
{
    struct stat st;
    double start = now();
    int fd = open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &st) != 0) exit(1);
    const unsigned char *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) exit(1);
    for (size_t i = 0; i + 8 <= (size_t)st.st_size; i += 8) {
        uint64_t word;
        memcpy(&word, p + i, 8);
        seen += word;
    }
    munmap((void *)(uintptr_t)p, (size_t)st.st_size);
    close(fd);
    return now() - start;
}

static tarn_dataset *open_set(const char *path, const char *const *fields)
{
    tarn_dataset *d;
    tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
    o.fields = fields;
    if (tarn_dataset_open(path, &o, &d, &err) != TARN_OK) die();
    return d;
}

static double open_once(const char *path, const char *const *fields)
{
    double start = now();
    tarn_dataset *d = open_set(path, fields);
    double taken = now() - start;
    seen += tarn_dataset_count(d);
    tarn_dataset_close(d);
    return taken;
}

static void bench_open(const char *path, const char *index)
{
    double mapped[ROUNDS], opened[ROUNDS];
    add_up(index);
    for (int i = 0; i < ROUNDS; i++) {
        mapped[i] = add_up(index);
        opened[i] = open_once(path, NULL);
    }
    put("map+sum", mapped);
    put("open", opened);
}

/* Selecting when opening, and as a filter on an open dataset. */
static void bench_filter(const char *path, const char *const *fields)
{
    double opened[ROUNDS], filtered[ROUNDS];
    tarn_dataset *all = open_set(path, NULL);
    uint64_t kept = 0;
    size_t count = 0;
    while (fields[count])
        count++;
    tarn_condition c = TARN_CONDITION_INIT;
    c.kind = TARN_CONDITION_HAVING;
    c.names = fields;
    c.n_names = count;
    for (int i = 0; i < ROUNDS; i++) {
        opened[i] = open_once(path, fields);
        double start = now();
        tarn_dataset *d;
        if (tarn_dataset_filter(all, &c, &d, &err) != TARN_OK) die();
        filtered[i] = now() - start;
        kept = tarn_dataset_count(d);
        tarn_dataset_close(d);
    }
    tarn_dataset_close(all);
    printf("kept %llu\n", (unsigned long long)kept);
    put("open-with-fields", opened);
    put("filter", filtered);
}

typedef struct piece {
    const unsigned char *data;
    size_t size;
} piece;

static uint64_t draw(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = *state;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static double copy_plain(const piece *pieces, const uint64_t *samples, size_t total,
                         size_t count, unsigned char *to)
{
    double start = now();
    for (size_t b = 0; b + count <= total; b += count) {
        unsigned char *at = to;
        for (size_t i = 0; i < count; i++) {
            const piece *p = &pieces[samples[b + i]];
            memcpy(at, p->data, p->size);
            at += p->size;
        }
        seen += to[0];
    }
    return now() - start;
}

static double copy_batch(tarn_dataset *d, const uint64_t *samples, size_t total,
                         size_t count)
{
    static tarn_dataset_batch batch;
    double start = now();
    for (size_t b = 0; b + count <= total; b += count) {
        if (tarn_dataset_read(d, samples + b, count, NULL, 0, &batch, &err) != TARN_OK)
            die();
        seen += batch.data[0];
    }
    return now() - start;
}

static void bench_batch(const char *path, const char *field, size_t count)
{
    double plain[ROUNDS], fetched[ROUNDS], first[ROUNDS];
    tarn_dataset *d = open_set(path, (const char *[]){field, NULL});
    uint64_t n = tarn_dataset_count(d), seed = 1, bytes = 0;
    size_t total = count * BATCHES;
    piece *pieces = malloc(n * sizeof *pieces);
    uint64_t *samples = malloc(total * sizeof *samples);
    if (!pieces || !samples) exit(1);
    for (uint64_t i = 0; i < n; i++) {
        tarn_view v;
        if (tarn_dataset_get(d, i, 0, &v, &err) != TARN_OK) die();
        pieces[i] = (piece){v.data, v.size};
        bytes += v.size;
    }
    unsigned char *to = malloc(bytes / n * count * 4 + (1 << 20));
    if (!to) exit(1);
    for (int i = 0; i < ROUNDS; i++) {
        for (size_t k = 0; k < total; k++)
            samples[k] = draw(&seed) % n;
        plain[i] = copy_plain(pieces, samples, total, count, to);
        fetched[i] = copy_batch(d, samples, total, count);
        tarn_dataset *fresh = open_set(path, (const char *[]){field, NULL});
        size_t some = total < n / 4 ? total : n / 4 / count * count;
        first[i] = copy_batch(fresh, samples, some, count) * (double)total / (double)some;
        tarn_dataset_close(fresh);
    }
    printf("pieces %zu\n", total);
    put("memcpy", plain);
    put("read_batch", fetched);
    put("read_batch-first-use", first);
    tarn_dataset_close(d);
    free(pieces);
    free(samples);
    free(to);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "open") == 0)
        bench_open(argv[2], argv[3]);
    else if (argc >= 4 && strcmp(argv[1], "filter") == 0)
        bench_filter(argv[2], (const char *const *)argv + 3);
    else if (argc == 5 && strcmp(argv[1], "batch") == 0)
        bench_batch(argv[2], argv[3], strtoul(argv[4], NULL, 10));
    else
        return 2;
    fprintf(stderr, "%s", seen == 42 ? " " : "");
    return 0;
}
