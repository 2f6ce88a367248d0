/* Datasets derived from datasets: slices, lists, filters, orders and ranks in any
 * sequence, compared with plain arrays; keys and states in all of them. */
#include "ordering.h"

enum { ROWS = 40, MAX_SEQ = 4096, MAX_SPLITS = 8, CHAINS = 4000 };

static uint64_t rng = 88172645463325252u;

static uint64_t below(uint64_t n)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return n ? rng % n : 0;
}

/* --- The model ---------------------------------------------------------------------- */

typedef struct list {
    uint64_t at[MAX_SEQ];
    uint64_t n;
} list;

typedef struct split {
    uint64_t rank, world;
    tarn_uneven ranks;
} split;

/* Rows in an order of one epoch, of which several consecutive splits take a part. */
typedef struct model {
    list base;
    bool ordered;
    tarn_order_options o; /* arrays belong to the rows below */
    double weights[MAX_SEQ];
    int64_t classes[MAX_SEQ];
    uint64_t lengths[MAX_SEQ], buckets[4];
    split splits[MAX_SPLITS];
    size_t n_splits;
} model;

static split outer_split(const model *m)
{
    return m->n_splits ? m->splits[m->n_splits - 1] : (split){0, 1, TARN_UNEVEN_KEEP};
}

/* The positions of one rank, starting at a position, of an epoch of n. */
static void take_part(list *seq, const split *s, uint64_t from)
{
    static list out;
    uint64_t left = seq->n - from, n = (left + s->world - 1) / s->world;
    out.n = 0;
    if (s->ranks == TARN_UNEVEN_DROP) n = left / s->world;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t p = from + s->rank + i * s->world;
        if (p >= seq->n && s->ranks == TARN_UNEVEN_KEEP) break;
        out.at[out.n++] = seq->at[p % seq->n];
    }
    *seq = out;
}

/* Numbers in the base, for the whole epoch before the last split. */
static void whole_epoch(const model *m, uint64_t epoch, list *out)
{
    tarn_order_options o = m->o;
    tarn_order *order;
    o.epoch = epoch;
    o.weights = m->weights;
    o.classes = m->classes;
    o.lengths = m->lengths;
    o.buckets = m->buckets;
    OK(tarn_order_open(m->base.n, &o, &order, &err));
    out->n = length_of(order);
    assert_true(out->n <= MAX_SEQ);
    OK(tarn_order_fill(order, 0, out->n, out->at, &err));
    tarn_order_close(order);
    for (size_t i = 0; i + 1 < m->n_splits; i++)
        take_part(out, &m->splits[i], 0);
}

/* Numbers in their order. */
static void numbers_of(const model *m, list *out)
{
    split s = outer_split(m);
    whole_epoch(m, m->o.epoch, out);
    take_part(out, &s, 0);
}

static bool is_whole(const model *m)
{
    return m->n_splits == 0;
}

/* Rows in their order become the base. */
static void freeze(model *m)
{
    static list seq;
    numbers_of(m, &seq);
    for (uint64_t i = 0; i < seq.n; i++)
        seq.at[i] = m->base.at[seq.at[i]];
    m->base = seq;
    uint64_t epoch = m->o.epoch;
    m->o = (tarn_order_options)TARN_ORDER_OPTIONS_INIT;
    m->o.epoch = epoch;
    m->ordered = false;
    m->n_splits = 0;
}

/* --- Random steps ------------------------------------------------------------------- */

static void replace(tarn_dataset **d, tarn_dataset *by)
{
    tarn_dataset_close(*d);
    *d = by;
}

static void slice_step(tarn_dataset **d, model *m)
{
    static list out;
    tarn_dataset *part;
    freeze(m);
    uint64_t n = m->base.n, start = below(n), count = below(n + 1);
    int64_t stride = (int64_t)below(4) + 1;
    if (below(2)) stride = -stride;
    uint64_t step = (uint64_t)(stride < 0 ? -stride : stride);
    uint64_t most = n == 0 ? 0 : (stride < 0 ? start : n - 1 - start) / step + 1;
    if (count > most) count = most;
    OK(tarn_dataset_slice(*d, start, stride, count, &part, &err));
    out.n = count;
    for (uint64_t i = 0; i < count; i++)
        out.at[i] = m->base.at[start + i * (uint64_t)stride];
    m->base = out;
    replace(d, part);
}

static void select_step(tarn_dataset **d, model *m)
{
    static list out, chosen;
    tarn_dataset *part;
    freeze(m);
    chosen.n = m->base.n ? below(m->base.n * 3 / 2 + 1) : 0; /* some are repeated */
    for (uint64_t i = 0; i < chosen.n; i++) {
        chosen.at[i] = below(m->base.n);
        out.at[i] = m->base.at[chosen.at[i]];
    }
    out.n = chosen.n;
    OK(tarn_dataset_select(*d, chosen.at, chosen.n, &part, &err));
    m->base = out;
    replace(d, part);
}

static void fill_model_arrays(model *m)
{
    uint64_t n = m->base.n;
    for (uint64_t i = 0; i < n; i++) {
        m->weights[i] = 1 + (double)below(5);
        m->classes[i] = (int64_t)below(3) - 1;
        m->lengths[i] = below(20);
    }
    m->buckets[0] = below(n + 1);
    m->buckets[1] = 0;
    m->buckets[2] = n - m->buckets[0];
}

static void order_step(tarn_dataset **d, model *m)
{
    tarn_dataset *part;
    freeze(m);
    fill_model_arrays(m);
    m->o = (tarn_order_options)TARN_ORDER_OPTIONS_INIT;
    m->o.kind = (tarn_order_kind)below(TARN_ORDER_LENGTHS + 1);
    m->o.seed = below(100);
    m->o.epoch = below(3);
    m->o.block = 1 + below(6);
    m->o.window = 1 + below(3);
    m->o.chunk = 1 + below(6);
    m->o.n_buckets = 3;
    if (m->o.kind == TARN_ORDER_WEIGHTED && m->base.n) m->o.draws = below(2 * m->base.n);
    m->ordered = true;
    tarn_order_options o = m->o;
    tarn_dataset_info now;
    tarn_dataset_info_get(*d, &now, sizeof now);
    if (m->o.epoch == 0) m->o.epoch = now.epoch; /* 0 selects the dataset's own */
    o.weights = m->weights;
    o.classes = m->classes;
    o.lengths = m->lengths;
    o.buckets = m->buckets;
    OK(tarn_dataset_order(*d, &o, &part, &err));
    replace(d, part);
}

static void split_step(tarn_dataset **d, model *m)
{
    tarn_dataset *part;
    split s = {.world = 1 + below(4), .ranks = (tarn_uneven)below(3)};
    s.rank = below(s.world);
    if (m->n_splits == MAX_SPLITS) return;
    m->splits[m->n_splits++] = s;
    m->ordered = true;
    OK(tarn_dataset_split(*d, s.rank, s.world, s.ranks, &part, &err));
    replace(d, part);
}

/* The arrays of an order are filtered with its samples. */
static void filter_base(model *m, const bool *mask)
{
    uint64_t n = 0, ends[3] = {m->buckets[0], m->buckets[0], m->base.n}, kept[3] = {0};
    for (uint64_t i = 0; i < m->base.n; i++) {
        if (!mask[i]) continue;
        m->base.at[n] = m->base.at[i];
        m->weights[n] = m->weights[i];
        m->classes[n] = m->classes[i];
        m->lengths[n++] = m->lengths[i];
        kept[i < ends[0] ? 0 : 2]++;
    }
    memcpy(m->buckets, kept, sizeof kept);
    m->base.n = n;
}

static void keep_step(tarn_dataset **d, model *m)
{
    static bool mask[MAX_SEQ];
    tarn_dataset *part;
    if (m->ordered && !is_whole(m)) freeze(m);
    for (uint64_t i = 0; i < m->base.n; i++)
        mask[i] = below(4) != 0;
    OK(keep_mask(*d, mask, &part, &err));
    filter_base(m, mask);
    replace(d, part);
}

static void epoch_step(tarn_dataset **d, model *m)
{
    tarn_dataset *other;
    m->o.epoch = below(5);
    OK(tarn_dataset_at_epoch(*d, m->o.epoch, &other, &err));
    replace(d, other);
}

/* --- Comparing ---------------------------------------------------------------------- */

static void check_sequence(tarn_dataset *d, const model *m, const list *want)
{
    uint64_t *got = sequence_of(d), x;
    assert_int_equal(tarn_dataset_count(d), want->n);
    assert_int_equal(tarn_dataset_count(tarn_dataset_unordered(d)), m->base.n);
    assert_memory_equal(got, want->at, want->n * sizeof *got);
    for (uint64_t i = 0; i < want->n; i++)
        assert_int_equal(row_of(d, i), m->base.at[want->at[i]]);
    assert_true(row_of(d, want->n) == TARN_NO_SAMPLE);
    FAILS(TARN_ERR_USAGE, "", tarn_dataset_sequence(d, want->n, 1, &x, &err));
    if (want->n) {
        tarn_view v;
        uint64_t i = below(want->n);
        OK(tarn_dataset_get(d, i, 0, &v, &err));
        memcpy(&x, v.data, sizeof x);
        assert_int_equal(x, m->base.at[want->at[i]]);
        tarn_view_release(&v);
    }
    free(got);
}

/* A key is found at its first position, and nowhere if it was not selected. */
static void check_keys(tarn_dataset *d, const model *m, const list *want)
{
    for (int k = 0; k < 4; k++) {
        char key[24];
        uint64_t row = below(ROWS), first = 0, found;
        while (first < want->n && m->base.at[want->at[first]] != row)
            first++;
        snprintf(key, sizeof key, "%llu", (unsigned long long)row);
        if (first == want->n) {
            FAILS(TARN_ERR_NO_SAMPLE, "was not selected", find_key(d, key, &found, &err));
            continue;
        }
        OK(find_key(d, key, &found, &err));
        assert_int_equal(found, first);
    }
    uint64_t found;
    FAILS(TARN_ERR_NO_SAMPLE, "no row", find_key(d, "1000", &found, &err));
}

/* The position of an epoch after each rank has taken this many samples. */
static uint64_t used_after(const split *s, uint64_t total, uint64_t taken)
{
    uint64_t most = (total + s->world - 1) / s->world;
    if (s->ranks == TARN_UNEVEN_DROP) most = total / s->world;
    if (taken == 0) return 0;
    return taken >= most ? total : taken * s->world;
}

static void check_state(tarn_dataset *d, const model *m, uint64_t length)
{
    static list want;
    tarn_text text = {0};
    tarn_dataset *rest, *other;
    model later = *m;
    split s = outer_split(m);
    whole_epoch(m, m->o.epoch, &want);
    uint64_t used = used_after(&s, want.n, below(length + 2));
    uint64_t taken = used == want.n ? UINT64_MAX : used / s.world;
    OK(tarn_dataset_state(d, taken, &text, &err));
    if (used == want.n && want.n) {
        used = 0;
        later.o.epoch++;
        whole_epoch(m, later.o.epoch, &want);
    }
    static list part;
    part = want;
    take_part(&part, &s, used);
    OK(tarn_dataset_resume(d, text.data, text.size, &rest, &err));
    check_sequence(rest, &later, &part);
    tarn_dataset_close(rest);
    /* With other ranks, which replace the last split. */
    if (m->n_splits == 0) {
        split o = {below(3), 3, (tarn_uneven)below(3)};
        OK(tarn_dataset_split(d, o.rank, o.world, o.ranks, &other, &err));
        OK(tarn_dataset_resume(other, text.data, text.size, &rest, &err));
        take_part(&want, &o, used);
        check_sequence(rest, &later, &want);
        tarn_dataset_close(rest);
        tarn_dataset_close(other);
    }
    tarn_text_reset(&text);
}

static void any_chain_is_what_arrays_give(void **state)
{
    (void)state;
    static void (*const steps[])(tarn_dataset **, model *) = {
        slice_step, select_step, order_step, split_step, keep_step, epoch_step};
    static model m;
    static list seq;
    tarn_dataset *rows = open_rows(ROWS);
    for (int i = 0; i < CHAINS; i++) {
        tarn_dataset *d;
        OK(tarn_dataset_slice(rows, 0, 1, ROWS, &d, &err));
        m = (model){.o = TARN_ORDER_OPTIONS_INIT};
        for (m.base.n = 0; m.base.n < ROWS; m.base.n++)
            m.base.at[m.base.n] = m.base.n;
        for (uint64_t k = 1 + below(6); k > 0; k--) {
            steps[below(6)](&d, &m);
            numbers_of(&m, &seq);
            check_sequence(d, &m, &seq);
        }
        check_keys(d, &m, &seq);
        check_state(d, &m, seq.n);
        tarn_dataset_close(d);
    }
    tarn_dataset_close(rows);
}

/* --- Single steps ------------------------------------------------------------------- */

static void expect(tarn_dataset *d, const char *want)
{
    char text[2000] = "";
    for (uint64_t i = 0; i < tarn_dataset_count(d); i++) {
        size_t len = strlen(text);
        snprintf(text + len, sizeof text - len, "%s%llu", i ? " " : "",
                 (unsigned long long)row_of(d, i));
    }
    assert_string_equal(text, want);
}

static void slices_are_within_the_dataset(void **state)
{
    (void)state;
    tarn_dataset *d = open_rows(10), *a, *b;
    OK(tarn_dataset_slice(d, 9, -2, 5, &a, &err));
    expect(a, "9 7 5 3 1");
    OK(tarn_dataset_slice(a, 3, -1, 4, &b, &err));
    expect(b, "3 5 7 9");
    tarn_dataset_close(b);
    OK(tarn_dataset_slice(a, 4, INT64_MIN, 1, &b, &err));
    expect(b, "1");
    tarn_dataset_close(b);
    OK(tarn_dataset_slice(a, 5, 1, 0, &b, &err));
    expect(b, "");
    tarn_dataset_close(b);
    static const struct {
        uint64_t start;
        int64_t stride;
        uint64_t count;
    } wrong[] = {{10, 1, 1},        {0, 1, 11},         {0, 0, 1},
                 {9, 1, 2},         {4, -1, 6},         {0, INT64_MAX, 3},
                 {0, INT64_MIN, 2}, {UINT64_MAX, 1, 1}, {1, 1, UINT64_MAX},
                 {0, 3, 5},         {5, INT64_MIN, 3}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        FAILS(TARN_ERR_USAGE, "is out of range for 10 samples",
              tarn_dataset_slice(d, wrong[i].start, wrong[i].stride, wrong[i].count, &b,
                                 &err));
    FAILS(TARN_ERR_NO_SAMPLE, "no sample 10; the dataset has 10",
          tarn_dataset_select(d, (const uint64_t[]){3, 10}, 2, &b, &err));
    tarn_dataset_close(a);
    tarn_dataset_close(d);
}

static void two_splits_in_a_row_split_the_first_part(void **state)
{
    (void)state;
    static const struct {
        tarn_uneven first, second;
        const char *want[4]; /* rank r of 2, and then rank s of 2: [2 * r + s] */
    } cases[] = {
        {TARN_UNEVEN_KEEP, TARN_UNEVEN_KEEP, {"0 4 8", "2 6 10", "1 5 9", "3 7"}},
        {TARN_UNEVEN_DROP, TARN_UNEVEN_DROP, {"0 4", "2 6", "1 5", "3 7"}},
        {TARN_UNEVEN_PAD, TARN_UNEVEN_KEEP, {"0 4 8", "2 6 10", "1 5 9", "3 7 0"}},
        {TARN_UNEVEN_KEEP, TARN_UNEVEN_PAD, {"0 4 8", "2 6 10", "1 5 9", "3 7 1"}},
    };
    tarn_dataset *d = open_rows(11), *a, *b;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (uint64_t k = 0; k < 4; k++) {
            OK(tarn_dataset_split(d, k / 2, 2, cases[i].first, &a, &err));
            OK(tarn_dataset_split(a, k % 2, 2, cases[i].second, &b, &err));
            expect(b, cases[i].want[k]);
            tarn_dataset_close(b);
            tarn_dataset_close(a);
        }
    FAILS(TARN_ERR_USAGE, "", tarn_dataset_split(d, 2, 2, TARN_UNEVEN_DROP, &a, &err));
    FAILS(TARN_ERR_USAGE, "", tarn_dataset_split(d, 0, 0, TARN_UNEVEN_DROP, &a, &err));
    tarn_dataset_close(d);
}

/* An array filtered by hand, for an order of the filtered dataset. */
static void filter_arrays(tarn_order_options *o, const bool *mask)
{
    static double some_weights[N];
    static int64_t some_classes[N];
    static uint64_t some_lengths[N], some_buckets[5];
    uint64_t n = 0, row = 0;
    for (uint64_t b = 0; b < o->n_buckets; b++) {
        some_buckets[b] = 0;
        for (uint64_t i = 0; i < o->buckets[b]; i++, row++)
            some_buckets[b] += mask[row];
    }
    for (uint64_t i = 0; i < N; i++) {
        if (!mask[i]) continue;
        some_weights[n] = weights[i];
        some_classes[n] = classes[i];
        some_lengths[n++] = lengths[i];
    }
    o->weights = some_weights;
    o->classes = some_classes;
    o->lengths = some_lengths;
    o->buckets = some_buckets;
}

static void a_filter_of_an_order_is_the_order_of_the_filter(void **state)
{
    (void)state;
    static bool mask[N];
    tarn_dataset *rows = open_rows(N);
    for (int k = TARN_ORDER_IDENTITY; k <= TARN_ORDER_LENGTHS; k++)
        for (int round = 0; round < 20; round++) {
            tarn_order_options o = options_of((tarn_order_kind)k);
            tarn_dataset *ordered, *few, *a, *b, *later;
            for (int i = 0; i < N; i++)
                mask[i] = i == 1 || below(10) < (uint64_t)round % 11;
            OK(tarn_dataset_order(rows, &o, &ordered, &err));
            OK(keep_mask(ordered, mask, &a, &err));
            OK(keep_mask(rows, mask, &few, &err));
            filter_arrays(&o, mask);
            OK(tarn_dataset_order(few, &o, &b, &err));
            for (uint64_t epoch = 3; epoch < 6; epoch++) {
                assert_int_equal(tarn_dataset_count(a), tarn_dataset_count(b));
                for (uint64_t i = 0; i < tarn_dataset_count(a); i++)
                    assert_int_equal(row_of(a, i), row_of(b, i));
                OK(tarn_dataset_at_epoch(a, epoch + 1, &later, &err));
                replace(&a, later);
                OK(tarn_dataset_at_epoch(b, epoch + 1, &later, &err));
                replace(&b, later);
            }
            tarn_dataset_close(a);
            tarn_dataset_close(b);
            tarn_dataset_close(few);
            tarn_dataset_close(ordered);
        }
    tarn_dataset_close(rows);
}

static void filters_by_key_and_field_go_below_the_order_too(void **state)
{
    (void)state;
    static const char *const keys[] = {"3", "1", "4", "15", "9", "26"};
    tarn_order_options o = options_of(TARN_ORDER_SHUFFLE);
    tarn_dataset *rows = open_rows(N), *ordered, *few, *a, *b, *part;
    OK(tarn_dataset_order(rows, &o, &ordered, &err));
    OK(keep_keys(ordered, keys, 6, NULL, &a, &err));
    OK(keep_keys(rows, keys, 6, NULL, &few, &err));
    OK(tarn_dataset_order(few, &o, &b, &err));
    assert_int_equal(tarn_dataset_count(a), 6);
    for (uint64_t i = 0; i < 6; i++)
        assert_int_equal(row_of(a, i), row_of(b, i));
    /* After a split the filter keeps the order unchanged. */
    OK(tarn_dataset_split(ordered, 1, 2, TARN_UNEVEN_KEEP, &part, &err));
    replace(&a, NULL);
    bool found[6];
    OK(keep_keys(part, keys, 6, found, &a, &err));
    for (uint64_t i = 0, n = 0; i < tarn_dataset_count(part); i++) {
        char row[24];
        bool wanted = false;
        snprintf(row, sizeof row, "%d", (int)row_of(part, i));
        for (int k = 0; k < 6; k++)
            wanted |= strcmp(row, keys[k]) == 0;
        if (wanted) assert_int_equal(row_of(a, n++), row_of(part, i));
        if (i + 1 == tarn_dataset_count(part)) assert_int_equal(tarn_dataset_count(a), n);
    }
    tarn_dataset_close(part);
    tarn_dataset_close(a);
    tarn_dataset_close(b);
    tarn_dataset_close(few);
    tarn_dataset_close(ordered);
    tarn_dataset_close(rows);
}

static void a_slice_of_a_huge_shuffle_costs_no_memory(void **state)
{
    (void)state;
    const uint64_t huge = UINT64_C(1) << 40;
    tarn_dataset *rows = open_rows(10), *mix, *shuffled, *a, *b, *part;
    tarn_mix_options mo = TARN_MIX_OPTIONS_INIT;
    tarn_order_options o = options_of(TARN_ORDER_SHUFFLE);
    tarn_order *order = open_order(huge, &o);
    mo.counts = &huge;
    OK(tarn_dataset_mix(&rows, 1, &mo, &mix, &err));
    OK(tarn_dataset_order(mix, &o, &shuffled, &err));
    OK(tarn_dataset_slice(shuffled, huge - 1, -3, huge / 3, &a, &err));
    OK(tarn_dataset_slice(a, 5, 1000, huge / 3000 - 1, &b, &err));
    OK(tarn_dataset_split(b, 3, 7, TARN_UNEVEN_KEEP, &part, &err));
    for (uint64_t i = 0; i < 1000; i++) {
        tarn_place place;
        uint64_t at = below(tarn_dataset_count(part)), want;
        OK(order_at(order, huge - 1 - 3 * (5 + 1000 * (3 + 7 * at)), &want, &err));
        OK(mix_at(part, at, &place, &err));
        /* Epoch 3 of the mix: its source has come huge times in each epoch before. */
        assert_int_equal(place.pass, (3 * huge + want) / 10);
        assert_int_equal(place.sample, (3 * huge + want) % 10);
    }
    tarn_text text = {0};
    OK(tarn_dataset_state(part, 12345, &text, &err));
    tarn_text_reset(&text);
    tarn_order_close(order);
    tarn_dataset_close(part);
    tarn_dataset_close(b);
    tarn_dataset_close(a);
    tarn_dataset_close(shuffled);
    tarn_dataset_close(mix);
    tarn_dataset_close(rows);
}

static void a_dataset_stays_after_those_it_came_from_are_closed(void **state)
{
    (void)state;
    tarn_order_options o = options_of(TARN_ORDER_WEIGHTED_ONCE);
    tarn_dataset *d = open_rows(N), *next;
    OK(tarn_dataset_order(d, &o, &next, &err));
    replace(&d, next);
    uint64_t before[10];
    OK(tarn_dataset_sequence(d, 0, 10, before, &err));
    OK(tarn_dataset_slice(d, 0, 1, 10, &next, &err));
    replace(&d, next);
    OK(tarn_dataset_split(d, 1, 2, TARN_UNEVEN_KEEP, &next, &err));
    replace(&d, next);
    for (uint64_t i = 0; i < 5; i++)
        assert_int_equal(row_of(d, i), before[1 + 2 * i]);
    tarn_dataset_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_chain_is_what_arrays_give),
        cmocka_unit_test(slices_are_within_the_dataset),
        cmocka_unit_test(two_splits_in_a_row_split_the_first_part),
        cmocka_unit_test(a_filter_of_an_order_is_the_order_of_the_filter),
        cmocka_unit_test(filters_by_key_and_field_go_below_the_order_too),
        cmocka_unit_test(a_slice_of_a_huge_shuffle_costs_no_memory),
        cmocka_unit_test(a_dataset_stays_after_those_it_came_from_are_closed),
    };
    return cmocka_run_group_tests(tests, fill_arrays, scratch_remove);
}
