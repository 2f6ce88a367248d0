/* Counts how many samples have each set of fields. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "dataset/dataset.h"

/* The sets found so far; the name of a set is the bytes of its field numbers. */
typedef struct found {
    tarn_field_sets out; /* what the caller sees; the first member */
    tarn__names names;
    tarn_field_set *sets;
    const tarn_field_set **sorted;
    size_t capacity;
} found;

void tarn_field_sets_free(tarn_field_sets *sets)
{
    found *f = (found *)sets;
    if (!f) return;
    tarn__names_reset(&f->names);
    free(f->sets);
    free(f->sorted);
    free(f);
}

static tarn_status add_set(void *context, const uint32_t *fields, size_t n_fields,
                           uint64_t samples, uint64_t twice, tarn_error *err)
{
    found *f = context;
    uint32_t id;
    size_t before = f->names.count;
    TARN_TRY(tarn__names_add(&f->names, (const char *)fields, n_fields * sizeof *fields,
                             &id, err));
    if (f->names.count > before) {
        TARN_TRY(tarn__grow(&f->sets, sizeof *f->sets, before, &f->capacity, err));
        f->sets[id] = (tarn_field_set){.n_fields = n_fields};
    }
    f->sets[id].samples += samples;
    f->sets[id].twice += twice;
    return TARN_OK;
}

static tarn_status add_all(const tarn_dataset *d, found *f, tarn_error *err)
{
    size_t n = d->source->n_plain;
    uint32_t *fields = malloc((n + 1) * sizeof *fields);
    if (!fields) return tarn__fail_memory(err);
    for (size_t i = 0; i < n; i++)
        fields[i] = (uint32_t)i;
    tarn_status status = d->count ? add_set(f, fields, n, d->count, 0, err) : TARN_OK;
    free(fields);
    return status;
}

static int by_samples(const void *a, const void *b)
{
    const tarn_field_set *x = *(const tarn_field_set *const *)a,
                         *y = *(const tarn_field_set *const *)b;
    if (x->samples != y->samples) return x->samples < y->samples ? 1 : -1;
    size_t n = x->n_fields < y->n_fields ? x->n_fields : y->n_fields;
    for (size_t i = 0; i < n; i++)
        if (x->fields[i] != y->fields[i]) return x->fields[i] < y->fields[i] ? -1 : 1;
    return (x->n_fields > y->n_fields) - (x->n_fields < y->n_fields);
}

static tarn_status sort_sets(found *f, tarn_error *err)
{
    size_t count = f->names.count;
    f->sorted = malloc((count + 1) * sizeof *f->sorted);
    if (!f->sorted) return tarn__fail_memory(err);
    for (size_t i = 0; i < count; i++) {
        f->sets[i].fields =
            (const uint32_t *)(const void *)tarn__names_get(&f->names, i).data;
        f->sorted[i] = &f->sets[i];
    }
    if (count) qsort(f->sorted, count, sizeof *f->sorted, by_samples);
    f->out = (tarn_field_sets){f->sorted, count};
    return TARN_OK;
}

tarn_status tarn_dataset_field_sets(tarn_dataset *d, tarn_field_sets **out,
                                    tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "out", out);
    const tarn__storage *s = d->source;
    *out = NULL;
    found *f = calloc(1, sizeof *f);
    if (!f) return tarn__fail_memory(err);
    tarn__names_init(&f->names);
    d = tarn_dataset_unordered(d);
    tarn_status status =
        s->kind->sets ? s->kind->sets(s->state, &d->chain, d->count, add_set, f, err)
                      : add_all(d, f, err);
    if (status == TARN_OK) status = sort_sets(f, err);
    if (status == TARN_OK)
        *out = &f->out;
    else
        tarn_field_sets_free(&f->out);
    return status;
}
