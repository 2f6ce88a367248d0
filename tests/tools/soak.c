/* A loader that runs for a long time over a disk that fails now and then.
 *
 *   soak FOLDER MINUTES
 *
 * Several threads load epochs of a mix of a fold, an array file and an IAC file, and at
 * the same time the fold's payloads. One read in a thousand fails, some are short or
 * interrupted, and some samples are bad. Each failed sample must be skipped with its
 * reason, each other must come once per epoch with the right bytes. Memory and
 * descriptors are checked every few seconds. The last line is the result, and the exit
 * status is 0 if it is good. */
#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../unit/mixed.h"

enum { SPOTS = 4096, EVERY = 2, FAULTS = 1000 };

static tarn_error err;
static atomic_ullong reads, failed_reads;
static atomic_bool faults_on;
static uint64_t samples, skipped, epochs;

/* --- A disk that fails ------------------------------------------------------------ */

ssize_t pread64(int fd, void *buf, size_t len, off64_t at)
{
    unsigned long long n = atomic_fetch_add(&reads, 1);
    if (atomic_load(&faults_on)) {
        unsigned long long chance = (n * 0x9e3779b97f4a7c15u) >> 40;
        if (chance % FAULTS == 1) {
            atomic_fetch_add(&failed_reads, 1);
            errno = EIO;
            return -1;
        }
        if (chance % 500 == 2) {
            errno = EINTR;
            return -1;
        }
        if (chance % 200 == 3 && len > 1) len = 1 + len / 3;
    }
    return syscall(SYS_pread64, fd, buf, len, at);
}

/* --- Resources of the process ------------------------------------------------------- */

typedef struct spot {
    double minutes, memory; /* MiB private to this process */
    unsigned descriptors;
} spot;

static spot spots[SPOTS];
static size_t n_spots;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double memory_of_process(void)
{
    unsigned long all = 0, resident = 0, shared = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%lu %lu %lu", &all, &resident, &shared) != 3) abort();
    fclose(f);
    return (double)(resident - shared) * (double)sysconf(_SC_PAGESIZE) / 1048576;
}

static unsigned descriptors_of_process(void)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir && readdir(dir))
        count++;
    if (dir) closedir(dir);
    return count;
}

static void look(double minutes)
{
    if (n_spots == SPOTS) return;
    spots[n_spots++] = (spot){minutes, memory_of_process(), descriptors_of_process()};
    static double told;
    if (minutes < told) return;
    printf("soak: minute %.0f: memory %.2f MiB, %llu samples\n", minutes,
           spots[n_spots - 1].memory, (unsigned long long)samples);
    fflush(stdout);
    told = minutes + 1;
}

/* MiB per minute by least squares, over the second half and not before the second minute:
 * the time before that is warm-up. */
static double slope(void)
{
    double n = 0, x = 0, y = 0, xx = 0, xy = 0;
    for (size_t i = n_spots / 2; i < n_spots; i++) {
        if (spots[i].minutes < 1) continue;
        n++;
        x += spots[i].minutes;
        y += spots[i].memory;
        xx += spots[i].minutes * spots[i].minutes;
        xy += spots[i].minutes * spots[i].memory;
    }
    double d = n * xx - x * x;
    return n < 3 || d <= 0 ? 0 : (n * xy - x * y) / d;
}

/* --- Epochs ------------------------------------------------------------------------- */

static int fail(const char *what)
{
    char text[4096];
    printf("soak: FAILED: %s: %s\n", what, tarn_error_text(&err, text, sizeof text));
    return 1;
}

/* Called for each skipped sample: bad data that was put there, or a read that failed. */
static void on_skip(void *context, const tarn_error *why)
{
    (void)context;
    skipped++;
    if (why->code == TARN_ERR_IO && why->sys_errno == EIO) return;
    if (why->code == TARN_ERR_FORMAT) return;
    err = *why;
    exit(fail("a sample was skipped for another reason"));
}

static int epoch_of_mix(const mixed *m, tarn_loader *loader)
{
    static unsigned char seen[MIXED_ALL];
    tarn_batch *batch;
    tarn_status status;
    uint64_t count = tarn_dataset_count(m->all), before = skipped, came = 0;
    memset(seen, 0, sizeof seen);
    while ((status = tarn_loader_next(loader, TARN_NO_TIMEOUT, &batch, &err)) ==
           TARN_OK) {
        if (mixed_wrong(m, batch) != TARN_NO_SAMPLE) return fail("wrong value");
        for (size_t i = 0; i < batch->count; i++)
            if (seen[batch->samples[i]]++) return fail("a sample came twice");
        came += batch->count;
        tarn_batch_release(batch);
    }
    if (status != TARN_END) return fail("next");
    if (came + (skipped - before) != count) return fail("samples are missing");
    samples += came;
    return 0;
}

static int epoch_of_fold(tarn_loader *loader)
{
    static unsigned char bin[MIXED_BIN];
    tarn_batch *batch;
    tarn_status status;
    uint64_t before = skipped, came = 0;
    while ((status = tarn_loader_next(loader, TARN_NO_TIMEOUT, &batch, &err)) ==
           TARN_OK) {
        const tarn_column *c = &batch->columns[0];
        for (size_t i = 0; i < batch->count; i++) {
            size_t size = mixed_bin(batch->samples[i], bin);
            if (c->offsets[i + 1] - c->offsets[i] != size ||
                memcmp(c->data + c->offsets[i], bin, size) != 0)
                return fail("wrong bytes");
        }
        came += batch->count;
        tarn_batch_release(batch);
    }
    if (status != TARN_END) return fail("next");
    if (came + (skipped - before) != MIXED_FOLD) return fail("samples are missing");
    samples += came;
    return 0;
}

static int run(const mixed *m, double minutes)
{
    static const tarn_load_field bytes = {"bin", TARN_LOAD_BYTES, NULL};
    tarn_loader_options o = mixed_loader(3, 32), b = mixed_loader(2, 16);
    tarn_order_options shuffle = TARN_ORDER_OPTIONS_INIT;
    tarn_dataset *shuffled;
    tarn_loader *mix, *fold;
    double begun = now(), next = 0, at;
    b.fields = &bytes;
    o.notice = b.notice = on_skip;
    shuffle.kind = TARN_ORDER_SHUFFLE;
    if (tarn_loader_open(m->shuffled, &o, &mix, &err) != TARN_OK ||
        tarn_dataset_order(m->fold, &shuffle, &shuffled, &err) != TARN_OK ||
        tarn_loader_open(shuffled, &b, &fold, &err) != TARN_OK)
        return fail("open");
    while ((at = (now() - begun) / 60) < minutes) {
        if (epoch_of_mix(m, mix) || epoch_of_fold(fold)) return 1;
        epochs++;
        if (at * 60 >= next) {
            look(at);
            next = at * 60 + EVERY;
        }
    }
    tarn_loader_close(mix);
    tarn_loader_close(fold);
    tarn_dataset_close(shuffled);
    return 0;
}

static int judge(double minutes)
{
    double grown = slope();
    unsigned least = UINT32_MAX, most = 0;
    for (size_t i = n_spots / 2; i < n_spots; i++) {
        if (spots[i].descriptors < least) least = spots[i].descriptors;
        if (spots[i].descriptors > most) most = spots[i].descriptors;
    }
    bool good = grown < 1 && least == most && epochs > 1 && failed_reads > 0;
    printf("soak: %s: %.1f minutes, %llu epochs, %llu samples, all right; %llu skipped, "
           "%llu of %llu reads failed; memory %.1f MiB, %+.3f MiB a minute; "
           "descriptors %u to %u\n",
           good ? "good" : "FAILED", minutes, (unsigned long long)epochs,
           (unsigned long long)samples, (unsigned long long)skipped,
           (unsigned long long)failed_reads, (unsigned long long)reads,
           n_spots ? spots[n_spots - 1].memory : 0, grown, least, most);
    return good ? 0 : 1;
}

int main(int argc, char **argv)
{
    mixed m;
    double minutes = argc > 2 ? strtod(argv[2], NULL) : 30;
    if (argc < 2) {
        fprintf(stderr, "usage: soak FOLDER [MINUTES]\n");
        return 2;
    }
    mixed_make(argv[1]);
    if (mixed_open(&m, argv[1], TARN_IO_READ, &err) != TARN_OK) return fail("open");
    atomic_store(&faults_on, true);
    int status = run(&m, minutes);
    atomic_store(&faults_on, false);
    mixed_close(&m);
    return status ? status : judge(minutes);
}
