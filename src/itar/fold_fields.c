/* The fields that the samples of a fold have: selects samples by fields, and counts sets
 * of fields. Each shape is evaluated once; samples of odd shapes are evaluated one by
 * one. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sort.h"
#include "itar/fold.h"
#include "itar/fold_read.h"

enum { STRETCH = 256 };

/* The next samples of a list. */
typedef struct stretch {
    uint64_t from;
    size_t count;
    bool listed; /* listed in numbers; otherwise from, from + 1, ... */
    uint64_t numbers[STRETCH];
} stretch;

static void next_stretch(const tarn__numbers *samples, uint64_t from, stretch *out)
{
    uint64_t left = samples->count - from;
    out->from = from;
    out->count = left < STRETCH ? (size_t)left : STRETCH;
    out->listed = samples->fill != NULL;
    if (out->listed) samples->fill(samples->context, from, out->numbers, out->count);
}

static inline uint64_t stretch_at(const stretch *s, size_t i)
{
    return s->listed ? s->numbers[i] : s->from + i;
}

/* --- Selecting by fields ----------------------------------------------------------- */

typedef enum verdict { LEAVE = 0, KEEP = 1, TWICE = 2 } verdict;

static verdict evaluate_need(const tarn__need *need, const uint32_t *places)
{
    bool twice = false;
    if (need->lack) return places[0] == TARN__LACKED ? KEEP : LEAVE;
    for (size_t i = 0; i < need->count; i++)
        twice |= places[i] == TARN__DOUBLE;
    if (twice && need->once) return TWICE;
    for (size_t i = 0; i < need->count; i++)
        if (places[i] == TARN__LACKED && !need->may_lack) return LEAVE;
    return KEEP;
}

/* Sets places to those of the fields that a shape or, without one, a sample has of each
 * need. out_fields, unless it is NULL, is set to these fields. */
static void find_places(const tarn__fold *f, const tarn__need *need, uint16_t shape,
                        uint64_t sample, uint32_t *places, uint32_t *out_fields)
{
    for (size_t i = 0; i < need->count; i++) {
        places[i] = TARN__LACKED;
        for (size_t k = tarn__need_begin(need, i);
             k < need->ends[i] && places[i] == TARN__LACKED; k++) {
            uint32_t field = need->fields[k];
            places[i] = shape == TARN__SHAPE_ODD
                            ? tarn__fold_place(f, sample, field)
                            : tarn__fold_shape_place(f, shape, field);
            if (out_fields) out_fields[i] = field;
        }
    }
}

/* Evaluates the need for each shape. */
static tarn_status evaluate_shapes(const tarn__fold *f, const tarn__need *need,
                                   unsigned char **out_verdicts, uint32_t **out_places,
                                   tarn_error *err)
{
    const tarn__shapes *shapes = &f->shapes;
    unsigned char *verdicts = *out_verdicts = malloc(TARN__SHAPE_ODD + 1u);
    uint32_t *places = *out_places = calloc(2 * need->count + 1, sizeof *places);
    if (!verdicts || !places) return tarn__fail_memory(err);
    for (size_t k = 0; k < shapes->count; k++) {
        find_places(f, need, (uint16_t)k, 0, places, NULL);
        verdicts[k] = (unsigned char)evaluate_need(need, places);
    }
    verdicts[TARN__SHAPE_ODD] =
        TWICE; /* evaluated one by one, like samples with duplicates */
    return TARN_OK;
}

/* A sample that is odd or has a field twice. places has room for two numbers for each
 * need. */
static tarn_status keep_special(tarn__fold *f, tarn__need *need, uint64_t sample,
                                uint32_t *places, bool *out_keep, tarn_error *err)
{
    size_t twice = 0;
    uint32_t *fields = places + need->count;
    find_places(f, need, TARN__SHAPE_ODD, sample, places, fields);
    for (size_t i = 0; i < need->count; i++)
        if (places[i] == TARN__DOUBLE) twice = i;
    verdict v = evaluate_need(need, places);
    *out_keep = v == KEEP;
    if (v != TWICE) return TARN_OK;
    if (!need->drop_twice) return tarn__fold_fail_twice(f, sample, fields[twice], err);
    need->dropped++;
    return TARN_OK;
}

/* Packs eight bytes of 0 or 1 into one byte, the first as the lowest bit, and returns
 * their sum. */
static unsigned pack_bits(const unsigned char *bytes, unsigned char *out)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    *out = (unsigned char)(word * UINT64_C(0x0102040810204080) >> 56);
    return (unsigned)(word * UINT64_C(0x0101010101010101) >> 56);
}

static tarn_status mark_stretch(tarn__fold *f, tarn__need *need,
                                const unsigned char *verdicts, uint32_t *places,
                                const stretch *s, unsigned char *marks, uint64_t *kept,
                                tarn_error *err)
{
    unsigned char v[STRETCH] = {0};
    unsigned seen = 0, total = 0;
    for (size_t i = 0; i < s->count; i++)
        seen |= v[i] = verdicts[tarn__fold_shape(f, stretch_at(s, i))];
    for (size_t i = 0; (seen & TWICE) && i < s->count; i++) {
        bool keep = v[i] == KEEP;
        if (v[i] == TWICE)
            TARN_TRY(keep_special(f, need, stretch_at(s, i), places, &keep, err));
        v[i] = keep;
    }
    for (size_t i = 0; i < s->count; i += 8)
        total += pack_bits(v + i, &marks[i / 8]);
    *kept += total;
    return TARN_OK;
}

static tarn_status mark_samples(tarn__fold *f, tarn__need *need,
                                const unsigned char *verdicts, uint32_t *places,
                                const tarn__numbers *samples, unsigned char *marks,
                                uint64_t *out_kept, tarn_error *err)
{
    stretch s;
    for (uint64_t i = 0; i < samples->count; i += STRETCH) {
        next_stretch(samples, i, &s);
        TARN_TRY(
            mark_stretch(f, need, verdicts, places, &s, marks + i / 8, out_kept, err));
    }
    return TARN_OK;
}

tarn_status tarn__fold_keep_by_need(tarn__fold *f, tarn__need *need,
                                    const tarn__numbers *samples, unsigned char *marks,
                                    uint64_t *out_kept, tarn_error *err)
{
    unsigned char *verdicts;
    uint32_t *places;
    *out_kept = 0;
    tarn_status status = evaluate_shapes(f, need, &verdicts, &places, err);
    if (status == TARN_OK && need->whole && !f->shape_of && verdicts[f->shape] == KEEP)
        *out_kept = samples->count;
    else if (status == TARN_OK)
        status = mark_samples(f, need, verdicts, places, samples, marks, out_kept, err);
    free(verdicts);
    free(places);
    return status;
}

/* --- Sets of fields ---------------------------------------------------------------- */

/* The distinct fields of a shape. */
static size_t shape_fields(const tarn__fold *f, uint16_t shape, uint32_t *out,
                           bool *out_twice)
{
    size_t n = 0;
    *out_twice = false;
    for (uint32_t i = 0; i < f->shapes.n_fields; i++) {
        uint32_t place = tarn__fold_shape_place(f, shape, i);
        if (place == TARN__LACKED) continue;
        *out_twice |= place == TARN__DOUBLE;
        out[n++] = i;
    }
    return n;
}

/* The distinct fields of an odd sample. met[i] is the last visit, counted from 1, that
 * had field i. */
static size_t odd_fields(const tarn__fold *f, uint64_t sample, uint64_t visit,
                         uint64_t *met, uint32_t *out, bool *out_twice)
{
    uint64_t end = tarn__fold_start(f, sample + 1);
    size_t n = 0;
    *out_twice = false;
    for (uint64_t at = tarn__fold_start(f, sample); at < end; at++) {
        uint16_t field = tarn__row_field(tarn__index_at(f->index, tarn__fold_row(f, at)));
        *out_twice |= met[field] == visit;
        if (met[field] != visit) out[n++] = field;
        met[field] = visit;
    }
    qsort(out, n, sizeof *out, tarn__by_u32);
    return n;
}

typedef struct tally {
    uint64_t *counts; /* by shape */
    uint64_t *met;
    uint32_t *fields;
} tally;

static tarn_status count_stretch(const tarn__fold *f, const stretch *s, tally *t,
                                 tarn__add_fields add, void *context, tarn_error *err)
{
    bool twice;
    for (size_t i = 0; i < s->count; i++) {
        uint64_t sample = stretch_at(s, i);
        uint16_t shape = tarn__fold_shape(f, sample);
        if (shape != TARN__SHAPE_ODD) {
            t->counts[shape]++;
            continue;
        }
        size_t n = odd_fields(f, sample, s->from + i + 1, t->met, t->fields, &twice);
        TARN_TRY(add(context, t->fields, n, 1, twice, err));
    }
    return TARN_OK;
}

static tarn_status count_shapes(const tarn__fold *f, const tarn__numbers *samples,
                                tally *t, tarn__add_fields add, void *context,
                                tarn_error *err)
{
    bool twice;
    stretch s;
    for (uint64_t i = 0; i < samples->count; i += STRETCH) {
        next_stretch(samples, i, &s);
        TARN_TRY(count_stretch(f, &s, t, add, context, err));
    }
    for (size_t k = 0; k < f->shapes.count; k++) {
        if (t->counts[k] == 0) continue;
        size_t n = shape_fields(f, (uint16_t)k, t->fields, &twice);
        TARN_TRY(add(context, t->fields, n, t->counts[k], twice ? t->counts[k] : 0, err));
    }
    return TARN_OK;
}

tarn_status tarn__fold_sets(const tarn__fold *f, const tarn__numbers *samples,
                            tarn__add_fields add, void *context, tarn_error *err)
{
    size_t n_fields = f->shapes.n_fields + 1;
    tally t = {calloc(f->shapes.count + 1, sizeof *t.counts),
               calloc(n_fields, sizeof *t.met), calloc(n_fields, sizeof *t.fields)};
    tarn_status status = t.counts && t.met && t.fields
                             ? count_shapes(f, samples, &t, add, context, err)
                             : tarn__fail_memory(err);
    free(t.counts);
    free(t.met);
    free(t.fields);
    return status;
}
