/* Driven by the interop tests: each line of standard input is a request, each line of
 * standard output its numbers. Seeds are words of 32 bits, least significant first.
 *
 *   bits WORDS word... COUNT k...      Random(seed): getrandbits(k) for each k
 *   seedseq WORDS word... COUNT        SeedSequence(seed).generate_state(COUNT, uint64)
 *   raw SEED COUNT                     default_rng(SEED): 64-bit outputs
 *   upto SEED COUNT last...            numbers from 0 to last
 *   choice SEED POPULATION COUNT REPLACE */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"

enum { MOST = 1 << 20 };

static uint64_t number(void)
{
    uint64_t n;
    if (scanf("%" SCNu64, &n) != 1) exit(3);
    return n;
}

static size_t seed_words(uint32_t *out)
{
    size_t count = (size_t)number();
    if (count == 0 || count > MOST) exit(3);
    for (size_t i = 0; i < count; i++)
        out[i] = (uint32_t)number();
    return count;
}

static void show(uint64_t value)
{
    printf("%" PRIu64 " ", value);
}

static void bits(uint32_t *words)
{
    tarn__mt mt;
    tarn__mt_seed(&mt, words, seed_words(words));
    for (uint64_t n = number(); n > 0; n--)
        show(tarn__mt_bits(&mt, (unsigned)number()));
}

static void seed_sequence(uint32_t *words, uint64_t *out)
{
    size_t count = seed_words(words), wanted = (size_t)number();
    if (wanted > MOST) exit(3);
    tarn__seed_sequence(words, count, out, wanted);
    for (size_t i = 0; i < wanted; i++)
        show(out[i]);
}

static void choice(tarn__pcg64 *rng, uint64_t *out)
{
    uint64_t population = number(), count = number();
    bool replace = number();
    if (count > MOST) exit(3);
    if (tarn__pcg64_choice(rng, population, count, replace, out, NULL) != TARN_OK)
        printf("error");
    else
        for (uint64_t i = 0; i < count; i++)
            show(out[i]);
}

static void numpy(const char *what, uint64_t *out)
{
    tarn__pcg64 rng;
    tarn__pcg64_seed(&rng, number());
    if (strcmp(what, "choice") == 0) {
        choice(&rng, out);
        return;
    }
    for (uint64_t n = number(); n > 0; n--)
        show(strcmp(what, "raw") == 0 ? tarn__pcg64_next(&rng)
                                      : tarn__pcg64_upto(&rng, number()));
}

int main(void)
{
    char what[16];
    uint32_t *words = malloc(MOST * sizeof *words);
    uint64_t *out = malloc(MOST * sizeof *out);
    if (!words || !out) return 3;
    while (scanf("%15s", what) == 1) {
        if (strcmp(what, "bits") == 0)
            bits(words);
        else if (strcmp(what, "seedseq") == 0)
            seed_sequence(words, out);
        else
            numpy(what, out);
        putchar('\n');
    }
    free(words);
    free(out);
    return 0;
}
