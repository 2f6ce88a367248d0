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
    const char **fields; /* of all sets */
    size_t capacity, n_fields;
} found;

void tarn_field_sets_free(tarn_field_sets *sets)
{
    found *f = (found *)sets;
    if (!f) return;
    tarn__names_reset(&f->names);
    free(f->sets);
    free(f->sorted);
    free(f->fields);
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
        f->n_fields += n_fields;
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

static int by_samples(const void *a, const void *b, void *names)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    const found *f = names;
    uint64_t p = f->sets[x].samples, q = f->sets[y].samples;
    if (p != q) return p < q ? 1 : -1;
    tarn__name m = tarn__names_get(&f->names, x), n = tarn__names_get(&f->names, y);
    const uint32_t *s = (const void *)m.data, *t = (const void *)n.data;
    for (size_t i = 0; i < f->sets[x].n_fields && i < f->sets[y].n_fields; i++)
        if (s[i] != t[i]) return s[i] < t[i] ? -1 : 1;
    return (m.size > n.size) - (m.size < n.size);
}

static tarn_status sort_sets(const tarn__names *fields, found *f, tarn_error *err)
{
    size_t count = f->names.count, used = 0;
    uint32_t *order = malloc((count + 1) * sizeof *order);
    f->sorted = malloc((count + 1) * sizeof *f->sorted);
    f->fields = malloc((f->n_fields + 1) * sizeof *f->fields);
    if (!order || !f->sorted || !f->fields) {
        free(order);
        return tarn__fail_memory(err);
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t *ids = (const void *)tarn__names_get(&f->names, i).data;
        order[i] = i;
        f->sets[i].fields = f->fields + used;
        for (size_t k = 0; k < f->sets[i].n_fields; k++)
            f->fields[used++] = tarn__names_get(fields, ids[k]).data;
    }
    if (count) qsort_r(order, count, sizeof *order, by_samples, f);
    for (size_t i = 0; i < count; i++)
        f->sorted[i] = &f->sets[order[i]];
    free(order);
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
    if (status == TARN_OK) status = sort_sets(&s->fields, f, err);
    if (status == TARN_OK)
        *out = &f->out;
    else
        tarn_field_sets_free(&f->out);
    return status;
}
