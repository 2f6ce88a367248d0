/* Counts for the left column: sets of fields, and histograms. Sizes come from the index
 * and cover all samples of a view; numbers and sides of images are read from its first
 * samples, and the answer says from how many. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "browse.h"

enum { BINS = 24, DISTINCT = 40, PIECE = 65536 };

static int by_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* --- Histograms ----------------------------------------------------------------------
 */

static void put_bin(cli_json *j, double low, double high, uint64_t n)
{
    cli_json_open(j, NULL, '{');
    browse_json_real(j, "low", low);
    browse_json_real(j, "high", high);
    cli_json_number(j, "n", n);
    cli_json_close(j, '}');
}

/* One bin for each value. */
static void put_distinct(cli_json *j, const double *list, uint64_t n)
{
    for (uint64_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && list[end] == list[i];)
            end++;
        put_bin(j, list[i], list[i], end - i);
    }
}

static uint64_t count_distinct(const double *list, uint64_t n)
{
    uint64_t distinct = 0;
    for (uint64_t i = 0; i < n && distinct <= DISTINCT; i++)
        distinct += i == 0 || list[i] != list[i - 1];
    return distinct;
}

/* Bins of equal width. list is sorted. The last bin contains its end. */
static void put_bins(cli_json *j, const double *list, uint64_t n)
{
    double low = list[0], width = (list[n - 1] - low) / BINS;
    uint64_t i = 0;
    for (int b = 0; b < BINS; b++) {
        double high = b == BINS - 1 ? list[n - 1] : low + (b + 1) * width;
        uint64_t start = i;
        while (i < n && (list[i] < high || b == BINS - 1))
            i++;
        if (i > start)
            put_bin(j, low + b * width, nextafter(high, b == BINS - 1 ? high : low),
                    i - start);
    }
}

/* The finite ones of the numbers. */
static void put_histogram(cli_json *j, double *list, uint64_t n)
{
    uint64_t finite = 0;
    for (uint64_t i = 0; i < n; i++)
        if (isfinite(list[i])) list[finite++] = list[i];
    qsort(list, (size_t)finite, sizeof *list, by_double);
    bool few = count_distinct(list, finite) <= DISTINCT;
    cli_json_bool(j, "distinct", few);
    if (finite) {
        browse_json_real(j, "min", list[0]);
        browse_json_real(j, "median", list[finite / 2]);
        browse_json_real(j, "max", list[finite - 1]);
    }
    cli_json_open(j, "bins", '[');
    if (few)
        put_distinct(j, list, finite);
    else
        put_bins(j, list, finite);
    cli_json_close(j, ']');
}

/* --- Numbers -------------------------------------------------------------------------
 */

/* Sizes of many samples, by powers of two in four steps each, so that nothing is kept for
 * a sample. */
typedef struct sizes {
    uint64_t bins[260], n, total, min, max;
} sizes;

static unsigned bin_of(uint64_t size)
{
    if (size < 4) return (unsigned)size;
    unsigned top = 63 - (unsigned)__builtin_clzll(size);
    return 4 * (top - 1) + (unsigned)(size >> (top - 2) & 3);
}

static uint64_t bin_start(unsigned bin)
{
    if (bin < 4) return bin;
    return (uint64_t)(4 + bin % 4) << (bin / 4 - 1);
}

static void add_size(sizes *s, uint64_t size)
{
    unsigned bin = bin_of(size);
    s->bins[bin < 259 ? bin : 259]++;
    s->n++;
    s->total += size;
    if (size < s->min) s->min = size;
    if (size > s->max) s->max = size;
}

/* A field that some samples lack is measured in those that have it. */
static tarn_status add_sizes(tarn_dataset *set, uint32_t field, sizes *s, tarn_error *err)
{
    uint64_t count = tarn_dataset_count(set);
    uint64_t *list = malloc(PIECE * sizeof *list);
    if (!list) cli_no_memory();
    tarn_status status = TARN_OK;
    for (uint64_t from = 0, n; from < count && status == TARN_OK; from += n) {
        tarn_dataset *piece;
        n = count - from < PIECE ? count - from : PIECE;
        status = tarn_dataset_slice(set, from, 1, n, &piece, err);
        if (status != TARN_OK) break;
        status = tarn_dataset_numbers(piece, field, TARN_NUMBERS_SIZE, list, err);
        tarn_dataset_close(piece);
        for (uint64_t i = 0; status == TARN_OK && i < n; i++)
            add_size(s, list[i]);
    }
    free(list);
    return status;
}

static void put_sizes(cli_json *j, const sizes *s)
{
    browse_json_real(j, "min", s->n ? (double)s->min : 0);
    browse_json_real(j, "max", (double)s->max);
    browse_json_real(j, "total", (double)s->total);
    cli_json_number(j, "samples", s->n);
    cli_json_bool(j, "distinct", s->n && s->min == s->max);
    cli_json_open(j, "bins", '[');
    for (unsigned b = 0; b < 260; b++)
        if (s->bins[b])
            put_bin(j, (double)bin_start(b), (double)(bin_start(b + 1) - 1), s->bins[b]);
    cli_json_close(j, ']');
}

static tarn_status answer_sizes(const browse_view *view, const char *field, cli_json *j,
                                tarn_error *err)
{
    uint32_t number;
    sizes *s = calloc(1, sizeof *s);
    if (!s) cli_no_memory();
    s->min = UINT64_MAX;
    /* The order does not matter, and without it neighbours are stored together. */
    tarn_dataset *set = view->has_step ? view->set : tarn_dataset_unordered(view->set),
                 *having = NULL;
    tarn_condition c = TARN_CONDITION_INIT;
    c.kind = TARN_CONDITION_HAVING;
    c.names = &field;
    c.n_names = 1;
    tarn_status status = tarn_dataset_filter(set, &c, &having, err);
    if (status == TARN_OK) status = tarn_dataset_field_find(having, field, &number, err);
    if (status == TARN_OK) status = add_sizes(having, number, s, err);
    tarn_dataset_close(having);
    if (status == TARN_OK) put_sizes(j, s);
    free(s);
    return status;
}

/* Numbers, or a side of the images, of the first samples that have the field. */
static tarn_status read_firsts(const browser *b, const browse_view *view,
                               const char *field, const char *what, double *out,
                               uint64_t *out_n, uint64_t *out_read, tarn_error *err)
{
    uint32_t number, width, height;
    uint64_t most = b->info.remote ? BROWSE_FIRST_REMOTE : BROWSE_FIRST;
    if (view->count < most) most = view->count;
    *out_read = most;
    TARN_TRY(tarn_dataset_field_find(view->set, field, &number, err));
    for (uint64_t i = *out_n = 0; i < most; i++) {
        tarn_view v;
        tarn_dataset *one;
        if (strcmp(what, "num") == 0) {
            TARN_TRY(tarn_dataset_slice(view->set, i, 1, 1, &one, err));
            if (tarn_dataset_numbers(one, number, TARN_NUMBERS_REAL, &out[*out_n],
                                     NULL) == TARN_OK)
                ++*out_n;
            tarn_dataset_close(one);
            continue;
        }
        if (tarn_dataset_get(view->set, i, number, &v, NULL) != TARN_OK) continue;
        if (browse_measure(v.data, v.size, &width, &height))
            out[(*out_n)++] = what[0] == 'w' ? width : height;
        tarn_view_release(&v);
    }
    return TARN_OK;
}

/* --- Texts ---------------------------------------------------------------------------
 */

typedef struct word {
    char *text;
    uint64_t n;
} word;

static int by_text(const void *a, const void *b)
{
    return strcmp(((const word *)a)->text, ((const word *)b)->text);
}

static int by_count(const void *a, const void *b)
{
    const word *x = a, *y = b;
    if (x->n != y->n) return x->n < y->n ? 1 : -1;
    return strcmp(x->text, y->text);
}

/* The text in a JSON string without escapes; NULL for others. */
static char *plain_string(const tarn_view *v)
{
    const char *s = (const char *)v->data;
    if (v->size < 2 || v->size > 200 || s[0] != '"' || s[v->size - 1] != '"') return NULL;
    if (memchr(s, '\\', v->size)) return NULL;
    return strndup(s + 1, v->size - 2);
}

/* The most frequent texts of a column, in the first samples. */
static tarn_status answer_words(const browser *b, const browse_view *view,
                                const char *field, cli_json *j, tarn_error *err)
{
    uint32_t number;
    uint64_t most = b->info.remote ? BROWSE_FIRST_REMOTE : BROWSE_FIRST, n = 0, kinds = 0;
    if (view->count < most) most = view->count;
    TARN_TRY(tarn_dataset_field_find(view->set, field, &number, err));
    word *list = calloc((size_t)most + 1, sizeof *list);
    if (!list) cli_no_memory();
    for (uint64_t i = 0; i < most; i++) {
        tarn_view v;
        if (tarn_dataset_get(view->set, i, number, &v, NULL) != TARN_OK) continue;
        if ((list[n].text = plain_string(&v))) list[n++].n = 1;
        tarn_view_release(&v);
    }
    qsort(list, (size_t)n, sizeof *list, by_text);
    for (uint64_t i = 0; i < n; i++) {
        if (kinds && strcmp(list[kinds - 1].text, list[i].text) == 0) {
            list[kinds - 1].n++;
            free(list[i].text);
        } else {
            list[kinds++] = list[i];
        }
    }
    qsort(list, (size_t)kinds, sizeof *list, by_count);
    cli_json_number(j, "read", most);
    cli_json_number(j, "kinds", kinds);
    cli_json_open(j, "words", '[');
    for (uint64_t i = 0; i < kinds; i++) {
        if (i < DISTINCT) {
            cli_json_open(j, NULL, '{');
            browse_json_bytes(j, "text", list[i].text, strlen(list[i].text));
            cli_json_number(j, "n", list[i].n);
            cli_json_close(j, '}');
        }
        free(list[i].text);
    }
    cli_json_close(j, ']');
    free(list);
    return TARN_OK;
}

/* --- Answers -------------------------------------------------------------------------
 */

static tarn_status answer_sets(const browse_view *view, cli_json *j, tarn_error *err)
{
    enum { SHOWN = 20 };
    tarn_field_sets *sets;
    TARN_TRY(tarn_dataset_field_sets(view->set, &sets, err));
    cli_json_number(j, "kinds", sets->count);
    cli_json_open(j, "sets", '[');
    for (size_t i = 0; i < sets->count && i < SHOWN; i++) {
        const tarn_field_set *s = sets->sets[i];
        cli_json_open(j, NULL, '{');
        cli_json_number(j, "samples", s->samples);
        cli_json_open(j, "fields", '[');
        for (size_t f = 0; f < s->n_fields; f++)
            cli_json_text(j, NULL, s->fields[f]);
        cli_json_close(j, ']');
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
    tarn_field_sets_free(sets);
    return TARN_OK;
}

static tarn_status answer_numbers(const browser *b, const browse_view *view,
                                  const char *field, const char *what, cli_json *j,
                                  tarn_error *err)
{
    uint64_t n = 0, read = 0;
    double *list = malloc((BROWSE_FIRST + 1) * sizeof *list);
    if (!list) cli_no_memory();
    tarn_status status = read_firsts(b, view, field, what, list, &n, &read, err);
    if (status == TARN_OK) {
        cli_json_number(j, "read", read);
        cli_json_number(j, "samples", n);
        put_histogram(j, list, n);
    }
    free(list);
    return status;
}

static tarn_status answer(const browser *b, const browse_view *view, const char *what,
                          const char *field, cli_json *j, tarn_error *err)
{
    if (strcmp(what, "sets") == 0) return answer_sets(view, j, err);
    if (strcmp(what, "size") == 0) return answer_sizes(view, field, j, err);
    if (strcmp(what, "words") == 0) return answer_words(b, view, field, j, err);
    return answer_numbers(b, view, field, what, j, err);
}

static bool is_known(const char *what)
{
    static const char *const known[] = {"sets", "size",  "words",
                                        "num",  "width", "height"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(what, known[i]) == 0) return true;
    return false;
}

void browse_stats(browser *b, const browse_query *q, browse_answer *a)
{
    browse_view *view;
    tarn_error err;
    const char *what = browse_query_get(q, "what"), *field = browse_query_get(q, "field");
    if (!what || !is_known(what) || (!field && strcmp(what, "sets") != 0)) {
        browse_fail(a, 400,
                    "what must be sets, size, words, num, width or height, with a "
                    "field");
        return;
    }
    if (!browse_view_open(b, q, &view, a)) return;
    if (pthread_mutex_trylock(&b->counting) != 0) {
        browse_fail(a, 503, "another request is counting; try again");
        browse_view_close(b, view);
        return;
    }
    cli_json j = browse_json_begin(a);
    cli_json_number(&j, "count", view->count);
    tarn_status status = answer(b, view, what, field, &j, &err);
    browse_json_end(&j, a);
    pthread_mutex_unlock(&b->counting);
    if (status != TARN_OK) {
        free(a->body);
        browse_fail_as(a, &err);
    }
    browse_view_close(b, view);
}
