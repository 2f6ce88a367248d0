/* The bare methods of bench/cold.py: random ranges of files that are out of the page
 * cache, or in it, by each method of src/io/ranges.h and by its baselines. Contestants
 * take turns: each line of output is a name and ranges per second, the median of rounds.
 *
 *     cold_ways cold|warm WAYS SIZE BATCH READS ROUNDS FILE...
 *
 * WAYS is all, or names separated by commas.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "clock.h"
#include "io/file.h"
#include "io/ranges.h"

enum { MAX_FILES = 64, MAX_ROUNDS = 99, BLOCK = 512 };

typedef struct setting {
    tarn__file files[MAX_FILES];
    tarn__ranges_file gathered[MAX_FILES];
    unsigned char *maps[MAX_FILES];
    unsigned n_files;
    uint32_t own_align;
    size_t size, batch, reads;
    tarn__ranges gather;
    tarn__ranges_piece *pieces;
    unsigned char *data;
} setting;

static uint64_t state = 88172645463325252u;
static uint64_t sum; /* keeps the compiler from removing the work */

static uint64_t draw(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static void die(const char *what)
{
    fprintf(stderr, "cold_ways: %s\n", what);
    exit(1);
}

/* Mapped pages stay in the page cache, so files are unmapped first. */
static void evict(setting *s)
{
    for (unsigned i = 0; i < s->n_files; i++)
        if (madvise(s->maps[i], s->files[i].size, MADV_DONTNEED) != 0 ||
            posix_fadvise(s->files[i].fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
            die("cannot evict");
}

static int by_place(const void *a, const void *b)
{
    const tarn__ranges_piece *x = a, *y = b;
    if (x->file != y->file) return x->file < y->file ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Members at random positions, in the order of tarn_dataset_read: sorted by offset. */
static void choose(setting *s)
{
    for (size_t i = 0; i < s->batch; i++) {
        unsigned f = (unsigned)draw(s->n_files);
        uint64_t blocks = (s->files[f].size - s->size) / BLOCK;
        s->pieces[i] = (tarn__ranges_piece){.file = &s->gathered[f],
                                            .offset = draw(blocks) * BLOCK,
                                            .size = s->size,
                                            .to = s->data + i * s->size};
    }
    qsort(s->pieces, s->batch, sizeof *s->pieces, by_place);
}

typedef void (*way)(setting *);

static void by_gather(setting *s, tarn__ranges_way how)
{
    tarn_error err;
    char text[2200];
    if (tarn__ranges_read(&s->gather, how, s->pieces, s->batch, &err) != TARN_OK)
        die(tarn_error_text(&err, text, sizeof text));
}

static void by_pread(setting *s)
{
    by_gather(s, TARN__RANGES_PREAD);
}

static void by_advised(setting *s)
{
    by_gather(s, TARN__RANGES_ADVISED);
}

static void by_ring(setting *s)
{
    by_gather(s, TARN__RANGES_RING);
}

static void by_direct(setting *s)
{
    by_gather(s, TARN__RANGES_DIRECT);
}

static void by_direct_pages(setting *s)
{
    for (unsigned i = 0; i < s->n_files; i++)
        s->gathered[i].align = TARN__RANGES_ALIGN;
    by_direct(s);
    for (unsigned i = 0; i < s->n_files; i++)
        s->gathered[i].align = s->own_align;
}

static void by_map(setting *s)
{
    for (size_t i = 0; i < s->batch; i++) {
        const tarn__ranges_piece *p = &s->pieces[i];
        memcpy(p->to, s->maps[p->file - s->gathered] + p->offset, p->size);
    }
}

static void by_map_advised(setting *s)
{
    for (size_t i = 0; i < s->batch; i++) {
        uintptr_t at =
            (uintptr_t)s->maps[s->pieces[i].file - s->gathered] + s->pieces[i].offset;
        uintptr_t page = at & ~(uintptr_t)4095;
        (void)madvise((void *)page, at - page + s->size, MADV_WILLNEED);
    }
    by_map(s);
}

static void by_direct_pread(setting *s)
{
    static unsigned char *bounce;
    if (!bounce) bounce = aligned_alloc(4096, 1 << 20);
    for (size_t i = 0; i < s->batch; i++) {
        const tarn__ranges_piece *p = &s->pieces[i];
        uint64_t skip = p->offset % 4096;
        if (pread(p->file->direct, bounce, (skip + p->size + 4095) & ~UINT64_C(4095),
                  (off_t)(p->offset - skip)) < (ssize_t)(skip + p->size))
            die("short direct read");
        memcpy(p->to, bounce + skip, p->size);
    }
}

static bool is_resident(const setting *s, const tarn__ranges_piece *p)
{
    unsigned char resident = 1;
    uintptr_t at = (uintptr_t)s->maps[p->file - s->gathered] + p->offset;
    (void)mincore((void *)(at & ~(uintptr_t)4095), 1, &resident);
    return resident & 1;
}

/* Checks a few pages, then reads all in one way. */
static void by_probe(setting *s)
{
    bool warm = true;
    for (size_t i = 0; i < 2; i++)
        warm &= is_resident(s, &s->pieces[i * s->batch / 2]);
    if (warm)
        by_map(s);
    else
        by_gather(s, TARN__RANGES_DIRECT);
}

/* Copies resident data from the map and reads the rest through the ring; residency by
 * mincore, and by reads that must not wait. */
static void by_each(setting *s, bool (*resident)(const setting *, tarn__ranges_piece *))
{
    size_t n = 0, all = s->batch;
    for (size_t i = 0; i < all; i++)
        if (!resident(s, &s->pieces[i])) s->pieces[n++] = s->pieces[i];
    s->batch = n;
    by_gather(s, TARN__RANGES_DIRECT);
    s->batch = all;
}

static bool take_mapped(const setting *s, tarn__ranges_piece *p)
{
    if (!is_resident(s, p)) return false;
    memcpy(p->to, s->maps[p->file - s->gathered] + p->offset, p->size);
    return true;
}

static bool take_nowait(const setting *s, tarn__ranges_piece *p)
{
    struct iovec iov = {p->to, p->size};
    return preadv2(p->file->fd, &iov, 1, (off_t)p->offset, RWF_NOWAIT) ==
           (ssize_t)s->size;
}

static void by_mincore(setting *s)
{
    by_each(s, take_mapped);
}

static void by_nowait(setting *s)
{
    by_each(s, take_nowait);
}

static const struct {
    const char *name;
    way run;
} ways[] = {{"pread", by_pread},
            {"map", by_map},
            {"map+willneed", by_map_advised},
            {"advised+pread", by_advised},
            {"direct-pread", by_direct_pread},
            {"ring", by_ring},
            {"ring-direct", by_direct},
            {"ring-direct-4k", by_direct_pages},
            {"nowait+direct", by_nowait},
            {"mincore+direct", by_mincore},
            {"probe+direct", by_probe}};
enum { WAYS = sizeof ways / sizeof ways[0] };

static double once(setting *s, way run, bool cold)
{
    double taken = 0;
    if (cold) evict(s);
    for (size_t done = 0; done < s->reads; done += s->batch) {
        choose(s);
        double start = now();
        run(s);
        taken += now() - start;
        sum += s->data[done % s->size];
    }
    return (double)s->reads / taken;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void open_files(setting *s, char **paths, int count)
{
    if (count < 1 || count > MAX_FILES) die("1 to 64 files");
    for (int i = 0; i < count; i++) {
        tarn__file *f = &s->files[i];
        if (tarn__file_open(f, paths[i], NULL) != TARN_OK) die("cannot open a file");
        s->gathered[i] = (tarn__ranges_file){.path = f->path, .fd = f->fd};
        s->gathered[i].direct = tarn__open_direct(f->fd, &s->gathered[i].align);
        s->own_align = s->gathered[i].align;
        s->maps[i] = tarn__map(f->fd, f->size);
        if (!s->maps[i] || f->size < s->size + BLOCK) die("cannot map a file");
    }
    s->n_files = (unsigned)count;
}

static bool is_listed(const char *list, const char *name)
{
    size_t len = strlen(name);
    if (strcmp(list, "all") == 0) return true;
    for (; list; list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL)
        if (strncmp(list, name, len) == 0 && (list[len] == ',' || !list[len]))
            return true;
    return false;
}

int main(int argc, char **argv)
{
    static setting s;
    static double rates[WAYS][MAX_ROUNDS];
    if (argc < 8) die("cold|warm WAYS SIZE BATCH READS ROUNDS FILE...");
    bool cold = strcmp(argv[1], "cold") == 0;
    s.size = strtoul(argv[3], NULL, 10);
    s.batch = strtoul(argv[4], NULL, 10);
    s.reads = strtoul(argv[5], NULL, 10) / s.batch * s.batch;
    unsigned rounds = (unsigned)strtoul(argv[6], NULL, 10);
    if (!s.size || !s.batch || !s.reads || !rounds || rounds > MAX_ROUNDS)
        die("numbers out of range");
    open_files(&s, argv + 7, argc - 7);
    s.pieces = calloc(s.batch, sizeof *s.pieces);
    s.data = malloc(s.batch * s.size);
    if (!s.pieces || !s.data) die("out of memory");
    memset(s.data, 1, s.batch * s.size);
    for (unsigned r = 0; r < rounds; r++)
        for (size_t i = 0; i < WAYS; i++)
            if (is_listed(argv[2], ways[i].name))
                rates[i][r] = once(&s, ways[i].run, cold);
    for (size_t i = 0; i < WAYS; i++) {
        if (!is_listed(argv[2], ways[i].name)) continue;
        qsort(rates[i], rounds, sizeof rates[i][0], by_value);
        printf("%s %.0f %.0f %.0f\n", ways[i].name, rates[i][rounds / 2], rates[i][0],
               rates[i][rounds - 1]);
    }
    return sum == 42;
}
