/* Batches of a fold of equal members for bench/cold.py: tarn_dataset_read on data that is
 * out of the page cache, compared with a loop of pread over the same payloads.
 * Contestants take turns; each line of output is a name and samples per second: the
 * median, slowest and fastest of the rounds.
 *
 *     cold_work random|sequential|warm DIR SIZE BATCH SAMPLES ROUNDS
 *
 * DIR has SHARDS shards as bench/cold.py writes them. Each round opens the dataset again,
 * so that headers are compared as on first use; warm measures the CPU time of a dataset
 * that was read before.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tarn/tarn.h>

enum { SHARDS = 4, MAX_ROUNDS = 99, AHEAD = 2 /* batches that are prefetched */ };

typedef struct setting {
    const char *folder;
    int fds[SHARDS];
    uint64_t count; /* samples in the fold */
    size_t size, batch, wanted;
    uint64_t *samples;
    unsigned char *data;
    tarn_dataset *dataset;
    tarn_dataset_batch out;
    bool ahead;
} setting;

static uint64_t seen; /* keeps the compiler from removing the work */
static tarn_error err;

/* CPU time of the process, where it never waits and others would disturb it. */
static clockid_t timer = CLOCK_MONOTONIC;

static double now(void)
{
    struct timespec t;
    clock_gettime(timer, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what)
{
    char text[2200];
    fprintf(stderr, "cold_work: %s\n",
            what ? what : tarn_error_text(&err, text, sizeof text));
    exit(1);
}

static uint64_t draw(uint64_t below)
{
    static uint64_t state = 7;
    state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = state;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) % below;
}

static void open_shards(setting *s)
{
    for (int i = 0; i < SHARDS; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/train_%04d.tar", s->folder, i);
        s->fds[i] = open(path, O_RDONLY);
        if (s->fds[i] < 0) die("cannot open a shard");
    }
    if (tarn_dataset_open(s->folder, NULL, &s->dataset, &err) != TARN_OK) die(NULL);
    s->count = tarn_dataset_count(s->dataset);
    tarn_dataset_close(s->dataset);
}

static void evict(const setting *s)
{
    for (int i = 0; i < SHARDS; i++)
        if (posix_fadvise(s->fds[i], 0, 0, POSIX_FADV_DONTNEED) != 0) die("evict");
}

static void by_pread(setting *s, const uint64_t *samples)
{
    uint64_t each = s->count / SHARDS, stride = 512 + (s->size + 511) / 512 * 512;
    for (size_t i = 0; i < s->batch; i++) {
        int fd = s->fds[samples[i] / each];
        off_t at = (off_t)(samples[i] % each * stride + 512);
        if (pread(fd, s->data + i * s->size, s->size, at) != (ssize_t)s->size)
            die("short read");
    }
    seen += s->data[0];
}

static void by_dataset(setting *s, const uint64_t *samples)
{
    if (s->ahead && samples + s->batch * (AHEAD + 1) <= s->samples + s->wanted &&
        tarn_dataset_prefetch(s->dataset, samples + s->batch * AHEAD, s->batch, NULL, 0,
                              &err) != TARN_OK)
        die(NULL);
    if (tarn_dataset_read(s->dataset, samples, s->batch, NULL, 0, &s->out, &err) !=
        TARN_OK)
        die(NULL);
    seen += s->out.data[0];
}

typedef struct contestant {
    const char *name;
    bool pread, cold, ahead;
    tarn_io io;
} contestant;

static const contestant all[] = {
    {"pread", true, false, false, TARN_IO_AUTO},
    {"map", false, false, false, TARN_IO_MAP},
    {"auto", false, false, false, TARN_IO_AUTO},
    {"cold", false, true, false, TARN_IO_AUTO},
    {"auto+prefetch", false, false, true, TARN_IO_AUTO},
};
enum { CONTESTANTS = sizeof all / sizeof all[0] };

static void begin(setting *s, const contestant *c)
{
    tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
    o.cold = c->cold;
    o.io = c->io;
    s->ahead = c->ahead;
    if (tarn_dataset_open(s->folder, &o, &s->dataset, &err) != TARN_OK) die(NULL);
}

static double read_all(setting *s, const contestant *c)
{
    double start = now();
    for (size_t i = 0; i < s->wanted; i += s->batch)
        if (c->pread)
            by_pread(s, s->samples + i);
        else
            by_dataset(s, s->samples + i);
    return (double)s->wanted / (now() - start);
}

/* Maps keep pages in the page cache, so the dataset is closed before they are evicted. */
static double once(setting *s, const contestant *c, bool sequential)
{
    uint64_t first = draw(s->count - s->wanted);
    for (size_t i = 0; i < s->wanted; i++)
        s->samples[i] = sequential ? first + i : draw(s->count);
    evict(s);
    if (!c->pread) begin(s, c);
    double rate = read_all(s, c);
    if (!c->pread) tarn_dataset_close(s->dataset);
    return rate;
}

static double once_warm(setting *s, const contestant *c)
{
    timer = CLOCK_PROCESS_CPUTIME_ID;
    for (size_t i = 0; i < s->wanted; i++)
        s->samples[i] = draw(s->count);
    if (!c->pread) begin(s, c);
    (void)read_all(s, c);
    double rate = read_all(s, c);
    if (!c->pread) tarn_dataset_close(s->dataset);
    return rate;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static setting s;
    static double rates[CONTESTANTS][MAX_ROUNDS];
    if (argc != 7) die("random|sequential|warm DIR SIZE BATCH SAMPLES ROUNDS");
    bool warm = strcmp(argv[1], "warm") == 0;
    bool sequential = strcmp(argv[1], "sequential") == 0;
    s.folder = argv[2];
    s.size = strtoul(argv[3], NULL, 10);
    s.batch = strtoul(argv[4], NULL, 10);
    s.wanted = strtoul(argv[5], NULL, 10) / s.batch * s.batch;
    unsigned rounds = (unsigned)strtoul(argv[6], NULL, 10);
    open_shards(&s);
    if (!s.wanted || s.wanted >= s.count || !rounds || rounds > MAX_ROUNDS)
        die("numbers out of range");
    s.samples = malloc(s.wanted * sizeof *s.samples);
    s.data = malloc(s.batch * s.size);
    if (!s.samples || !s.data) die("out of memory");
    for (unsigned r = 0; r < rounds; r++)
        for (size_t k = 0; k < CONTESTANTS; k++) {
            size_t i = r % 2 ? CONTESTANTS - 1 - k : k;
            rates[i][r] = warm ? once_warm(&s, &all[i]) : once(&s, &all[i], sequential);
        }
    for (size_t i = 0; i < CONTESTANTS; i++) {
        qsort(rates[i], rounds, sizeof rates[i][0], by_value);
        printf("%s %.0f %.0f %.0f\n", all[i].name, rates[i][rounds / 2], rates[i][0],
               rates[i][rounds - 1]);
    }
    tarn_dataset_batch_reset(&s.out);
    return seen == 42;
}
