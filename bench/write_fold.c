/* Writes a fold of generated samples and prints how long it took. Each sample has a class
 * of two bytes and a payload from 4 MB of noise, as a training set in memory would have.
 *
 *     write_fold DIR SAMPLES PAYLOAD_BYTES durable|unsynced
 *
 * Prints the seconds from open to the end of finish.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/tarn.h>

#include "clock.h"

static int fail(const tarn_error *err)
{
    char text[2048];
    fprintf(stderr, "write_fold: %s\n", tarn_error_text(err, text, sizeof text));
    return 1;
}

/* The caller's own work should not be measured. */
static void put_digits(char *out, int digits, long value)
{
    for (int i = digits; i-- > 0; value /= 10)
        out[i] = (char)('0' + value % 10);
}

int main(int argc, char **argv)
{
    enum { POOL = 4 << 20 };
    if (argc != 5) return 2;
    long samples = atol(argv[2]);
    size_t size = (size_t)atol(argv[3]);
    size_t pool = size > POOL ? size : POOL;
    char *noise = malloc(pool), key[] = "s000000000", cls[] = "00";
    tarn_fold_writer_options o = TARN_FOLD_WRITER_OPTIONS_INIT;
    tarn_fold_writer *w;
    tarn_error err;
    if (!noise) return 1;
    unsigned long long x = 88172645463325252u;
    for (size_t i = 0; i < pool; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        noise[i] = (char)x;
    }
    o.overwrite = true;
    o.no_sync = strcmp(argv[4], "unsynced") == 0;
    double began = now();
    if (tarn_fold_writer_open(argv[1], "train", &o, &w, &err) != TARN_OK)
        return fail(&err);
    for (long i = 0; i < samples; i++) {
        size_t at = pool == size ? 0 : (size_t)i * size % (pool - size);
        put_digits(key + 1, 9, i);
        put_digits(cls, 2, i % 100);
        tarn_field fields[] = {{"bin", noise + at, size, NULL}, {"cls", cls, 2, NULL}};
        if (tarn_fold_writer_add(w, key, fields, 2, &err) != TARN_OK) return fail(&err);
    }
    if (tarn_fold_writer_finish(w, NULL, 0, &err) != TARN_OK) return fail(&err);
    printf("%.6f\n", now() - began);
    free(noise);
    return 0;
}
