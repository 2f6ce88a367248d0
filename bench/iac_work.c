/* The work of bench/iac.py from C; prints the seconds it took, opening not counted unless
 * that is the work.
 *   iac_work read PACK COUNT     copies of random records
 *   iac_work view PACK COUNT     views of random records, reading one byte of each 64
 *   iac_work hand PACK COUNT     views of random records, not read
 *   iac_work batch PACK COUNT    random records, 256 in a call
 *   iac_work open PACK COUNT     open and close
 *   iac_work verify PACK THREADS
 *   iac_work sum PACK THREADS    reads the file's bytes through a map: the speed of
 * memory iac_work build PACK COUNT SIZE
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include <tarn/tarn.h>

#include "../tests/unit/iac_help.h"

static tarn_error err;

/* CPU time for single-threaded work, because other processes disturb it least; wall-clock
 * time for several threads. */
static clockid_t measure = CLOCK_PROCESS_CPUTIME_ID;

static double now(void)
{
    struct timespec t;
    clock_gettime(measure, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(tarn_status status)
{
    char text[4096];
    if (status == TARN_OK) return;
    fprintf(stderr, "%s\n", tarn_error_text(&err, text, sizeof text));
    exit(1);
}

static uint64_t next_random(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return *x;
}

static double read_some(const char *path, uint64_t count, int mode)
{
    tarn_iac *pack;
    tarn_iac_info info;
    tarn_iac_batch batch = {0};
    uint64_t x = 88172645463325252u, rows[256], sum = 0;
    check(tarn_iac_open(path, NULL, &pack, &err));
    tarn_iac_info_get(pack, &info, sizeof info);
    double began = now();
    for (uint64_t i = 0; i < count; i += mode == 2 ? 256 : 1) {
        tarn_view view;
        if (mode == 0) {
            rows[0] = next_random(&x) % info.records;
            check(tarn_iac_read(pack, rows, 1, &batch, &err));
            sum += batch.data[0];
        } else if (mode != 2) {
            check(
                tarn_iac_view(pack, next_random(&x) % info.records, false, &view, &err));
            for (size_t k = 0; mode == 1 && k < view.size; k += 64)
                sum += view.data[k];
            tarn_view_release(&view);
        } else {
            for (int k = 0; k < 256; k++)
                rows[k] = next_random(&x) % info.records;
            check(tarn_iac_read(pack, rows, 256, &batch, &err));
            sum += batch.data[0];
        }
    }
    double took = now() - began;
    if (sum == 1) fprintf(stderr, "sum\n");
    tarn_iac_batch_reset(&batch);
    tarn_iac_close(pack);
    return took;
}

static double open_some(const char *path, uint64_t count)
{
    double began = now();
    for (uint64_t i = 0; i < count; i++) {
        struct ArrowArrayStream stream;
        tarn_iac *pack;
        check(tarn_iac_open(path, NULL, &pack, &err));
        check(tarn_iac_export(pack, TARN_IAC_INDEX, &stream, &err));
        stream.release(&stream);
        tarn_iac_close(pack);
    }
    return (now() - began) / (double)count;
}

typedef struct part {
    const uint64_t *words;
    size_t count;
    uint64_t sum;
} part;

static void *sum_part(void *arg)
{
    part *p = arg;
    uint64_t a = 0, b = 0, c = 0, d = 0;
    for (size_t i = 0; i + 4 <= p->count; i += 4) {
        a += p->words[i];
        b += p->words[i + 1];
        c += p->words[i + 2];
        d += p->words[i + 3];
    }
    p->sum = a + b + c + d;
    return NULL;
}

static double sum_all(const char *path, unsigned threads)
{
    struct stat st;
    part parts[64];
    pthread_t ids[64];
    int fd = open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &st) != 0 || threads > 64) exit(1);
    double began = now();
    uint64_t *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    size_t words = (size_t)st.st_size / 8 / threads;
    for (unsigned i = 0; i < threads; i++) {
        parts[i] = (part){map + i * words, words, 0};
        pthread_create(&ids[i], NULL, sum_part, &parts[i]);
    }
    for (unsigned i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    double took = now() - began;
    if (parts[0].sum == 1) fprintf(stderr, "sum\n");
    return took;
}

static double verify(const char *path, unsigned threads)
{
    tarn_verify_options o = TARN_VERIFY_OPTIONS_INIT;
    tarn_verify_report report;
    o.threads = threads;
    double began = now();
    check(tarn_verify(path, &o, &report, sizeof report, &err));
    double took = now() - began;
    if (report.problems) exit(1);
    return took;
}

static void table(const char *const *columns, uint64_t count,
                  struct ArrowArrayStream *out)
{
    tarn_iac_rows *rows;
    check(tarn_iac_rows_new(columns, 1, &rows, &err));
    for (uint64_t i = 0; i < count; i++) {
        char name[32];
        int len = snprintf(name, sizeof name, "item_%08llu", (unsigned long long)i);
        check(rows_text(rows, 0, name, (size_t)len, &err));
    }
    check(tarn_iac_rows_finish(rows, out, &err));
}

static double build(const char *path, uint64_t count, size_t size)
{
    static const char *const slide_columns[] = {"text:slide_id"}, *const columns[] = {
                                                                      "text:item_id"};
    struct ArrowArrayStream slides, index;
    tarn_iac_write_options o = TARN_IAC_WRITE_OPTIONS_INIT;
    tarn_iac_writer *w;
    uint64_t x = 42;
    uint64_t *payload = malloc(size + 8);
    for (size_t i = 0; i < size / 8 + 1; i++)
        payload[i] = next_random(&x);
    table(slide_columns, 1, &slides);
    table(columns, count, &index);
    o.overwrite = true;
    o.no_sync = true;
    double began = now();
    check(tarn_iac_writer_open(path, &slides, &index, &o, &w, &err));
    for (uint64_t i = 0; i < count; i++) {
        payload[0] = i;
        check(tarn_iac_writer_add(w, payload, size, &err));
    }
    check(tarn_iac_writer_finish(w, &err));
    double took = now() - began;
    free(payload);
    return took;
}

int main(int argc, char **argv)
{
    if (argc < 4) return 2;
    const char *what = argv[1], *path = argv[2];
    uint64_t n = strtoull(argv[3], NULL, 10);
    if (strcmp(what, "verify") == 0 || strcmp(what, "sum") == 0)
        measure = CLOCK_MONOTONIC;
    double took = strcmp(what, "read") == 0     ? read_some(path, n, 0)
                  : strcmp(what, "view") == 0   ? read_some(path, n, 1)
                  : strcmp(what, "batch") == 0  ? read_some(path, n, 2)
                  : strcmp(what, "hand") == 0   ? read_some(path, n, 3)
                  : strcmp(what, "open") == 0   ? open_some(path, n)
                  : strcmp(what, "verify") == 0 ? verify(path, (unsigned)n)
                  : strcmp(what, "sum") == 0    ? sum_all(path, (unsigned)n)
                  : strcmp(what, "build") == 0
                      ? build(path, n, argc > 4 ? strtoull(argv[4], NULL, 10) : 1024)
                      : -1;
    printf("%.9f\n", took);
    return took < 0 ? 2 : 0;
}
