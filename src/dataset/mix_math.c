/* The arithmetic of a mix. Turn j of source k has the rank (2 j + 1) / counts[k]. The mix
 * is all turns sorted by rank; of equal ranks the lower source comes first. Ranks are
 * compared as fractions in 128 bits, so nothing is rounded. */
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "dataset/mix.h"

typedef unsigned __int128 wide;

/* How many of the odd numbers 1, 3, 5, ... are below a / b; with equal, at or below. */
static uint64_t odd_below(wide a, uint64_t b, bool equal)
{
    uint64_t whole = (uint64_t)(a / b);
    bool rest = a % b != 0;
    return rest || equal ? whole / 2 + whole % 2 : whole / 2;
}

uint64_t tarn__mixing_position(const tarn__mixing *m, uint32_t source, uint64_t turn)
{
    uint64_t p = turn;
    for (size_t k = 0; k < m->n; k++)
        if (k != source)
            p += odd_below((wide)(2 * turn + 1) * m->counts[k], m->counts[source],
                           k < source);
    return p;
}

/* Whether the turn of source a comes before that of b. */
static bool comes_before(const tarn__mixing *m, size_t a, uint64_t turn_a, size_t b,
                         uint64_t turn_b)
{
    wide x = (wide)(2 * turn_a + 1) * m->counts[b];
    wide y = (wide)(2 * turn_b + 1) * m->counts[a];
    return x != y ? x < y : a < b;
}

/* The source whose next turn comes first. */
static size_t next_source(const tarn__mixing *m, const uint64_t *turns)
{
    size_t best = m->n;
    for (size_t k = 0; k < m->n; k++)
        if (turns[k] < m->counts[k] &&
            (best == m->n || comes_before(m, k, turns[k], best, turns[best])))
            best = k;
    return best;
}

/* The source whose last turn comes last. */
static size_t last_source(const tarn__mixing *m, const uint64_t *turns)
{
    size_t best = m->n;
    for (size_t k = 0; k < m->n; k++)
        if (turns[k] > 0 &&
            (best == m->n || comes_before(m, best, turns[best] - 1, k, turns[k] - 1)))
            best = k;
    return best;
}

/* The number of ranks below 2 p / total differs from p by at most half a turn for each
 * source. The loops correct the difference one turn at a time. */
void tarn__mixing_before(const tarn__mixing *m, uint64_t p, uint64_t *turns)
{
    uint64_t sum = 0;
    for (size_t k = 0; k < m->n; k++) {
        turns[k] = m->total ? odd_below((wide)2 * p * m->counts[k], m->total, false) : 0;
        sum += turns[k];
    }
    for (; sum < p; sum++)
        turns[next_source(m, turns)]++;
    for (; sum > p; sum--)
        turns[last_source(m, turns)]--;
}

void tarn__mixing_at(const tarn__mixing *m, uint64_t p, uint64_t *turns,
                     uint32_t *out_source, uint64_t *out_turn)
{
    tarn__mixing_before(m, p, turns);
    size_t k = next_source(m, turns);
    *out_source = (uint32_t)k;
    *out_turn = turns[k];
}

/* --- Weights ----------------------------------------------------------------------- */

#define WEIGHT_ONE (UINT64_C(1) << 40) /* the largest weight, unless all are integers */

static tarn_status whole_weights(const double *weights, size_t n, uint64_t *out,
                                 uint64_t *out_sum, tarn_error *err)
{
    double most = 0;
    bool whole = true;
    *out_sum = 0;
    for (size_t k = 0; k < n; k++) {
        if (!(weights[k] > 0) || isinf(weights[k]))
            return tarn__fail(err, TARN_ERR_USAGE,
                              "the weight of source %zu is %g (expected a finite number "
                              "above 0)",
                              k, weights[k]);
        if (weights[k] > most) most = weights[k];
        whole &= weights[k] == floor(weights[k]);
    }
    /* Scale by a power of two first, which is exact: the reciprocal of the smallest
     * double is not a double. */
    int power = 0;
    double scale = whole && most <= (double)WEIGHT_ONE
                       ? 1
                       : (double)WEIGHT_ONE / frexp(most, &power);
    for (size_t k = 0; k < n; k++) {
        out[k] = (uint64_t)llround(ldexp(weights[k], -power) * scale);
        if (out[k] == 0)
            return tarn__fail(err, TARN_ERR_USAGE,
                              "the weight of source %zu is too small (%g, the largest "
                              "is %g)",
                              k, weights[k], most);
        *out_sum += out[k];
    }
    return TARN_OK;
}

/* Divides total by weight: rounds down, then gives the remaining samples to the sources
 * with the largest remainders. */
static void divide_total(const uint64_t *w, uint64_t sum, size_t n, uint64_t total,
                         uint64_t *counts, uint64_t *rest)
{
    uint64_t given = 0;
    for (size_t k = 0; k < n; k++) {
        counts[k] = (uint64_t)((wide)total * w[k] / sum);
        rest[k] = (uint64_t)((wide)total * w[k] % sum);
        given += counts[k];
    }
    for (; given < total; given++) {
        size_t best = 0;
        for (size_t k = 1; k < n; k++)
            if (rest[k] > rest[best]) best = k;
        counts[best]++;
        rest[best] = 0;
    }
}

/* The total at which the first source, or every source, is exhausted. */
static wide first_total(const uint64_t *w, uint64_t sum, size_t n,
                        const uint64_t *lengths, tarn_mix_end end)
{
    wide total = 0;
    for (size_t k = 0; k < n; k++) {
        wide t = (wide)lengths[k] * sum;
        t = end == TARN_MIX_ALL ? (t + w[k] - 1) / w[k] : t / w[k];
        if (k == 0 || (end == TARN_MIX_ALL ? t > total : t < total)) total = t;
    }
    return total;
}

static bool fits(const uint64_t *counts, const uint64_t *lengths, size_t n,
                 tarn_mix_end end)
{
    for (size_t k = 0; k < n; k++)
        if (end == TARN_MIX_ALL ? counts[k] < lengths[k] : counts[k] > lengths[k])
            return false;
    return true;
}

static tarn_status share_all(const uint64_t *w, uint64_t sum, size_t n,
                             const uint64_t *lengths, uint64_t given, tarn_mix_end end,
                             uint64_t *counts, uint64_t *rest, tarn_error *err)
{
    wide total = given ? given : first_total(w, sum, n, lengths, end);
    if (total > TARN__MAX_MIXED)
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "the mix would have more than 2^62 samples; use weights that "
                          "differ less");
    divide_total(w, sum, n, (uint64_t)total, counts, rest);
    /* Rounding can leave a source one sample too long or too short. */
    while (!given && !fits(counts, lengths, n, end)) {
        total = end == TARN_MIX_ALL ? total + 1 : total - 1;
        divide_total(w, sum, n, (uint64_t)total, counts, rest);
    }
    return TARN_OK;
}

tarn_status tarn__mixing_share(const double *weights, size_t n, const uint64_t *lengths,
                               uint64_t total, tarn_mix_end end, uint64_t *out_counts,
                               tarn_error *err)
{
    uint64_t sum;
    uint64_t *w = calloc(2 * n + 1, sizeof *w);
    if (!w) return tarn__fail_memory(err);
    tarn_status status = whole_weights(weights, n, w, &sum, err);
    if (status == TARN_OK)
        status = share_all(w, sum, n, lengths, total, end, out_counts, w + n, err);
    free(w);
    return status;
}
