/* Minimum, maximum, mean and histogram of an array, computed in two passes that read
 * its bytes by position. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cast.h"
#include "base/error.h"
#include "base/options.h"
#include "gnz/reader.h"

enum { BLOCK = 1 << 16 };

typedef struct pass {
    tarn_gnz_stats *s;
    double sum, carry;
    bool binning;
} pass;

/* Neumaier summation, which keeps small addends. */
static void add(pass *p, double x)
{
    double sum = p->sum + x;
    p->carry += fabs(p->sum) >= fabs(x) ? (p->sum - sum) + x : (x - sum) + p->sum;
    p->sum = sum;
}

static void measure(pass *p, double x)
{
    tarn_gnz_stats *s = p->s;
    if (isnan(x)) {
        s->nans++;
        return;
    }
    if (x < s->min) s->min = x;
    if (x > s->max) s->max = x;
    if (isinf(x)) {
        s->infinities++;
        return;
    }
    if (x < s->low) s->low = x;
    if (x > s->high) s->high = x;
    add(p, x);
}

static void bin(pass *p, double x)
{
    tarn_gnz_stats *s = p->s;
    if (!isfinite(x)) return;
    /* Halves, so that the width of the range cannot overflow. */
    double width = s->high / 2 - s->low / 2;
    double part = width > 0 ? (x / 2 - s->low / 2) / width : 0;
    unsigned n = (unsigned)(part * TARN_GNZ_BINS);
    s->bins[n < TARN_GNZ_BINS ? n : TARN_GNZ_BINS - 1]++;
}

static tarn_status run_pass(pass *p, const tarn_gnz *g, const tarn__gnz_entry *e,
                            const tarn__cast *cast, char *raw, double *values,
                            tarn_error *err)
{
    size_t item = e->dtype.size, at_once = BLOCK / item;
    uint64_t count = tarn__gnz_bytes(e) / item;
    for (uint64_t at = 0; at < count; at += at_once) {
        size_t n = count - at < at_once ? (size_t)(count - at) : at_once;
        TARN_TRY(tarn__file_read(&g->file, raw, n * item, e->offset + at * item, err));
        tarn__cast_run(cast, values, raw, n);
        for (size_t i = 0; i < n; i++)
            p->binning ? bin(p, values[i]) : measure(p, values[i]);
    }
    p->s->count = count;
    return TARN_OK;
}

static tarn_status measure_all(const tarn_gnz *g, const tarn__gnz_entry *e,
                               const tarn__cast *cast, char *raw, double *values,
                               tarn_gnz_stats *out, tarn_error *err)
{
    pass p = {.s = out};
    *out = (tarn_gnz_stats){
        .min = INFINITY, .max = -INFINITY, .low = INFINITY, .high = -INFINITY};
    TARN_TRY(run_pass(&p, g, e, cast, raw, values, err));
    uint64_t finite = out->count - out->nans - out->infinities;
    out->mean = finite ? (p.sum + p.carry) / (double)finite : NAN;
    if (!finite) out->low = out->high = NAN;
    if (out->count == out->nans) out->min = out->max = NAN;
    p.binning = true;
    return finite ? run_pass(&p, g, e, cast, raw, values, err) : TARN_OK;
}

tarn_status tarn_gnz_stats_get(tarn_gnz *g, size_t number, tarn_gnz_stats *out,
                               size_t size, tarn_error *err)
{
    TARN__NEED(err, "gnz", g);
    TARN__NEED(err, "out", out);
    tarn__cast cast;
    tarn_gnz_array info;
    tarn_gnz_stats stats = {0};
    const tarn_dtype wide = {'<', 'f', 8};
    TARN_TRY(tarn_gnz_array_get(g, number, &info, sizeof info, err));
    if (info.dtype.kind == 'c' || info.dtype.kind == 'S' || info.dtype.kind == 'U')
        return tarn__fail_at(
            err, TARN_ERR_UNSUPPORTED, g->file.path, TARN_NO_OFFSET,
            "array \"%s\" has no statistics: its values are not real numbers",
            TARN__SHOW(info.name, strlen(info.name)));
    TARN_TRY(tarn__cast_init(&cast, info.dtype, wide, err));
    char *raw = malloc(BLOCK);
    double *values = malloc(BLOCK * sizeof *values);
    tarn_status status = raw && values ? measure_all(g, &g->header.entries[number], &cast,
                                                     raw, values, &stats, err)
                                       : tarn__fail_memory(err);
    free(raw);
    free(values);
    if (status == TARN_OK) TARN__FILL_OUT(out, size, stats);
    return status;
}
