/* Finds rows by the value of a column. The index is a hash table of row numbers, in which
 * the rows of one value form a chain; the values stay in the table. The hash is keyed, so
 * an attacker cannot prepare values that collide, and values are always compared in
 * full. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/names.h"
#include "base/number.h"
#include "iac/file.h"

typedef struct tarn__lookup {
    uint32_t *slots; /* first row of a value + 1; 0 for an empty slot */
    uint32_t *next;  /* by row: the next row of the same value + 1 */
    size_t mask;
} tarn__lookup;

void tarn__lookup_free(tarn__lookup *l)
{
    if (!l) return;
    free(l->slots);
    free(l->next);
    free(l);
}

/* A value as it is hashed and compared: text unchanged, integers of all widths as sign
 * and 64 bits. */
typedef struct needle {
    const char *data;
    size_t size;
    char number[9];
    bool is_number;
} needle;

static void set_number(needle *n, bool negative, uint64_t bits)
{
    n->is_number = true;
    n->number[0] = negative;
    memcpy(n->number + 1, &bits, 8);
    n->size = sizeof n->number;
    n->data = n->number;
}

static bool needle_at(const tarn_iac *p, int64_t column, uint64_t row, needle *out)
{
    const tarn__table *t = p->tables[TARN_IAC_INDEX];
    uint64_t in_batch;
    const struct ArrowArray *batch = &t->batches[tarn__table_batch(t, row, &in_batch)];
    tarn__cell cell = tarn__cell_get(t->schema.children[column], batch->children[column],
                                     (int64_t)in_batch);
    *out = (needle){0};
    switch (cell.kind) {
    case TARN__CELL_BYTES:
        out->data = cell.u.bytes.data;
        out->size = (size_t)cell.u.bytes.size;
        return true;
    case TARN__CELL_INT:
        set_number(out, cell.u.i < 0, (uint64_t)cell.u.i);
        return true;
    case TARN__CELL_UINT:
        set_number(out, false, cell.u.u);
        return true;
    default:
        return false;
    }
}

static bool equal(const needle *a, const needle *b)
{
    return a->is_number == b->is_number && a->size == b->size &&
           (a->size == 0 || memcmp(a->is_number ? a->number : a->data,
                                   b->is_number ? b->number : b->data, a->size) == 0);
}

static uint64_t hash(const needle *n)
{
    return tarn__name_hash(n->is_number ? n->number : n->data, n->size);
}

/* The slot of the value, or the empty slot where it would be inserted. */
static size_t probe(const tarn_iac *p, const tarn__lookup *l, int64_t column,
                    const needle *n)
{
    needle other;
    size_t at = (size_t)hash(n) & l->mask;
    for (; l->slots[at]; at = (at + 1) & l->mask)
        if (needle_at(p, column, l->slots[at] - 1, &other) && equal(n, &other)) break;
    return at;
}

/* Adds the rows from last to first, so that each chain begins with the first row. */
static tarn__lookup *build(const tarn_iac *p, int64_t column, tarn_error *err)
{
    uint64_t rows = p->header.num_records;
    size_t slots = 16;
    tarn__lookup *l = calloc(1, sizeof *l);
    while (slots < rows * 2)
        slots *= 2;
    if (l) {
        l->slots = calloc(slots, sizeof *l->slots);
        l->next = calloc(rows ? (size_t)rows : 1, sizeof *l->next);
        l->mask = slots - 1;
    }
    if (!l || !l->slots || !l->next) {
        tarn__lookup_free(l);
        (void)tarn__fail_memory(err);
        return NULL;
    }
    for (uint64_t row = rows; row > 0; row--) {
        needle n;
        if (!needle_at(p, column, row - 1, &n)) continue;
        size_t at = probe(p, l, column, &n);
        l->next[row - 1] = l->slots[at];
        l->slots[at] = (uint32_t)row;
    }
    return l;
}

/* The format of a column's values, which are in its dictionary or its runs if it has
 * them. */
static const char *value_format(const struct ArrowSchema *s)
{
    if (s->dictionary) return value_format(s->dictionary);
    return strcmp(s->format, "+r") == 0 ? value_format(s->children[1]) : s->format;
}

static bool is_integer(const struct ArrowSchema *s)
{
    const char *f = value_format(s);
    return strchr("cCsSiIlL", f[0]) && !f[1];
}

static bool can_look_up(const struct ArrowSchema *s)
{
    const char *f = value_format(s);
    return f[0] == 'v' || f[0] == 'w' || (strchr("zuZUcCsSiIlL", f[0]) && !f[1]);
}

static tarn_status get_lookup(tarn_iac *p, int64_t column, tarn__lookup **out,
                              tarn_error *err)
{
    tarn__lookup *l = atomic_load_explicit(&p->lookups[column], memory_order_acquire);
    if (!l) {
        pthread_mutex_lock(&p->lock.mutex);
        l = atomic_load_explicit(&p->lookups[column], memory_order_relaxed);
        if (!l) {
            l = build(p, column, err);
            atomic_store_explicit(&p->lookups[column], l, memory_order_release);
        }
        pthread_mutex_unlock(&p->lock.mutex);
    }
    *out = l;
    return l ? TARN_OK : TARN_ERR_MEMORY;
}

static tarn_status find_column(tarn_iac *p, const char *name, int64_t *out,
                               tarn_error *err)
{
    tarn__table *t = p->tables[TARN_IAC_INDEX];
    *out = tarn__table_column(t, name);
    if (*out < 0)
        return tarn__fail_at(
            err, *out == -2 ? TARN_ERR_AMBIGUOUS : TARN_ERR_NO_FIELD, p->file->path,
            TARN_NO_OFFSET,
            *out == -2 ? "two columns are named %s" : "no column %s in the index", name);
    if (!can_look_up(t->schema.children[*out]))
        return tarn__fail_at(
            err, TARN_ERR_UNSUPPORTED, p->file->path, TARN_NO_OFFSET,
            "column %s has type %s; only text and integer columns can be searched", name,
            p->types[TARN_IAC_INDEX][*out]);
    if (t->rows >= UINT32_MAX)
        return tarn__fail_at(err, TARN_ERR_LIMIT, p->file->path, TARN_NO_OFFSET,
                             "the file has more than %u records", UINT32_MAX - 1);
    return tarn__table_validate(t, err);
}

static bool parse_number(const char *text, size_t len, needle *out)
{
    uint64_t value;
    bool negative = len && text[0] == '-';
    uint64_t most = negative ? (uint64_t)INT64_MAX + 1 : UINT64_MAX;
    if (!tarn__digits(text + negative, len - negative, most, &value)) return false;
    if (value == 0) negative = false;
    set_number(out, negative, negative ? 0 - value : value);
    return true;
}

static tarn_status not_there(const tarn_iac *p, const char *column, const char *value,
                             size_t len, tarn_error *err)
{
    return tarn__fail_at(err, TARN_ERR_NO_SAMPLE, p->file->path, TARN_NO_OFFSET,
                         "no record with %s = %s", column, TARN__SHOW(value, len));
}

tarn_status tarn_iac_find(tarn_iac *p, const char *column, const char *value, size_t len,
                          uint64_t from, uint64_t *out_row, tarn_error *err)
{
    TARN__NEED(err, "pack", p);
    TARN__NEED(err, "column", column);
    TARN__NEED(err, "value", value || !len);
    TARN__NEED(err, "out_row", out_row);
    int64_t number;
    tarn__lookup *l;
    needle n = {.data = value, .size = len}, before;
    TARN_TRY(find_column(p, column, &number, err));
    if (is_integer(p->tables[TARN_IAC_INDEX]->schema.children[number]) &&
        !parse_number(value, len, &n))
        return not_there(p, column, value, len, err);
    TARN_TRY(get_lookup(p, number, &l, err));
    uint64_t rows = p->header.num_records;
    uint32_t row = 0;
    /* Continuing after a row that was just found needs no walk along the chain. */
    if (from > 0 && from <= rows && needle_at(p, number, from - 1, &before) &&
        equal(&n, &before))
        row = l->next[from - 1];
    else if (from < rows)
        row = l->slots[probe(p, l, number, &n)];
    while (row && row - 1 < from)
        row = l->next[row - 1];
    if (!row) return not_there(p, column, value, len, err);
    *out_row = row - 1;
    return TARN_OK;
}
