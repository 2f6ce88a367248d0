/* Array files from C, compared with the bare system calls. Each prints the seconds of the
 * measured part, without filling memory or starting a process.
 *
 *     gnz write  PATH BYTES SYNC    one buffer into a file with write(2)
 *     gnz tarn   PATH BYTES SYNC    the same buffer as one array of a .gnz
 *     gnz open   PATH TIMES         opening a .gnz, with a view of every array
 *     gnz rows   PATH COUNT         random rows of the first array, through its strides
 *     gnz bare   PATH COUNT         the same through a pointer and a constant
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tarn/gnz.h>

#include "clock.h"

static tarn_error err;

static void fail(const char *what)
{
    char text[2048];
    fprintf(stderr, "gnz: %s: %s\n", what, tarn_error_text(&err, text, sizeof text));
    exit(1);
}

#define OK(expr)                                                                         \
    do {                                                                                 \
        if ((expr) != TARN_OK) fail(#expr);                                              \
    } while (0)

static float *filled(size_t bytes)
{
    float *data = malloc(bytes);
    if (!data) fail("memory");
    for (size_t i = 0; i < bytes / sizeof *data; i++)
        data[i] = (float)i;
    return data;
}

static double by_write(const char *path, const char *data, size_t bytes, int sync)
{
    unlink(path);
    double began = now();
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    for (size_t at = 0; at < bytes;) {
        ssize_t n = write(fd, data + at, bytes - at);
        if (n <= 0) fail("write");
        at += (size_t)n;
    }
    if (sync && fsync(fd) != 0) fail("fsync");
    close(fd);
    return now() - began;
}

static double by_tarn(const char *path, float *data, size_t bytes, int sync)
{
    const tarn_dtype f4 = {'<', 'f', 4};
    const uint64_t shape[] = {bytes / 64, 16};
    tarn_gnz_writer *w;
    tarn_array array;
    tarn_gnz_writer_options o = TARN_GNZ_WRITER_OPTIONS_INIT;
    unlink(path);
    o.no_sync = !sync;
    double began = now();
    OK(tarn_array_init(&array, data, f4, 2, shape, &err));
    OK(tarn_gnz_writer_open(path, &o, &w, &err));
    OK(tarn_gnz_writer_add(w, "x", &array, NULL, &err));
    OK(tarn_gnz_writer_finish(w, &err));
    return now() - began;
}

static double open_all(const char *path, size_t times)
{
    double began = now();
    for (size_t k = 0; k < times; k++) {
        tarn_gnz *gnz;
        tarn_gnz_view view;
        tarn_gnz_info info;
        OK(tarn_gnz_open(path, NULL, &gnz, &err));
        tarn_gnz_info_get(gnz, &info, sizeof info);
        for (size_t i = 0; i < info.arrays; i++) {
            OK(tarn_gnz_get(gnz, i, TARN_GNZ_READ, &view, &err));
            tarn_gnz_view_release(&view);
        }
        tarn_gnz_close(gnz);
    }
    return (now() - began) / (double)times;
}

/* Rows in an order that no prefetcher guesses; the sum keeps the loads from being
 * removed. */
static double rows(const char *path, size_t count, int bare)
{
    tarn_gnz *gnz;
    tarn_gnz_view view;
    volatile float sink;
    float sum = 0;
    uint64_t at = 1;
    OK(tarn_gnz_open(path, NULL, &gnz, &err));
    OK(tarn_gnz_get(gnz, 0, TARN_GNZ_READ, &view, &err));
    const tarn_array *array = &view.array;
    const float *base = array->data;
    uint64_t mask = 1;
    while (mask * 2 <= array->shape[0])
        mask *= 2;
    mask--;
    double began = now();
    for (size_t k = 0; k < count; k++) {
        at = at * 6364136223846793005u + 1442695040888963407u;
        uint64_t row = at >> 33 & mask;
        const float *p =
            bare
                ? base + row * 16
                : (const float *)((char *)array->data + (int64_t)row * array->strides[0]);
        sum += p[0] + p[15];
    }
    double seconds = now() - began;
    sink = sum;
    (void)sink;
    tarn_gnz_view_release(&view);
    tarn_gnz_close(gnz);
    return seconds;
}

int main(int argc, char **argv)
{
    if (argc < 4) return 2;
    const char *what = argv[1], *path = argv[2];
    size_t n = strtoull(argv[3], NULL, 10);
    int sync = argc > 4 && argv[4][0] == '1';
    double seconds = -1;
    if (strcmp(what, "write") == 0) seconds = by_write(path, (char *)filled(n), n, sync);
    if (strcmp(what, "tarn") == 0) seconds = by_tarn(path, filled(n), n, sync);
    if (strcmp(what, "open") == 0) seconds = open_all(path, n);
    if (strcmp(what, "rows") == 0) seconds = rows(path, n, 0);
    if (strcmp(what, "bare") == 0) seconds = rows(path, n, 1);
    if (seconds < 0) return 2;
    printf("%.9f\n", seconds);
    return 0;
}
