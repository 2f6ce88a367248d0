/* Mixes of datasets that have their own orders: every source continues from epoch to
 * epoch, also after its weight was changed; nested mixes, keys and states. */
#include "ordering.h"

enum { A = 7, B = 12, C = 5, MAX = 512 };

/* The result: the value of each sample, and its source. */
typedef struct run {
    uint64_t value[MAX];
    uint32_t source[MAX];
    size_t n;
} run;

static tarn_dataset *ordered(uint64_t rows, tarn_order_kind kind, uint64_t seed)
{
    tarn_order_options o = TARN_ORDER_OPTIONS_INIT;
    tarn_dataset *d = open_rows(rows), *out;
    o.kind = kind;
    o.seed = seed;
    OK(tarn_dataset_order(d, &o, &out, &err));
    tarn_dataset_close(d);
    return out;
}

/* Three shuffled sources, with this many samples each. */
static tarn_dataset *open_three(uint64_t seed, const uint64_t *counts)
{
    tarn_dataset *parts[] = {ordered(A, TARN_ORDER_SHUFFLE, seed),
                             ordered(B, TARN_ORDER_SHUFFLE, seed + 1), open_rows(C)};
    tarn_dataset *mix;
    tarn_mix_options o = TARN_MIX_OPTIONS_INIT;
    o.counts = counts;
    OK(tarn_dataset_mix(parts, 3, &o, &mix, &err));
    for (int k = 0; k < 3; k++)
        tarn_dataset_close(parts[k]);
    return mix;
}

static tarn_dataset *shuffle(tarn_dataset *d)
{
    tarn_order_options o = TARN_ORDER_OPTIONS_INIT;
    tarn_dataset *out;
    o.kind = TARN_ORDER_SHUFFLE;
    o.seed = 77;
    OK(tarn_dataset_order(d, &o, &out, &err));
    tarn_dataset_close(d);
    return out;
}

static uint64_t value_at(tarn_dataset *d, uint64_t i)
{
    tarn_view v;
    uint64_t x;
    OK(tarn_dataset_get(d, i, 0, &v, &err));
    assert_int_equal(v.size, sizeof x);
    memcpy(&x, v.data, sizeof x);
    tarn_view_release(&v);
    return x;
}

/* Adds the first n samples of a mix in its current state, or all. */
static void add_run(run *r, tarn_dataset *d, uint64_t n)
{
    if (n > tarn_dataset_count(d)) n = tarn_dataset_count(d);
    for (uint64_t i = 0; i < n; i++) {
        tarn_place place;
        OK(mix_at(d, i, &place, &err));
        assert_true(r->n < MAX);
        r->source[r->n] = place.source;
        r->value[r->n++] = value_at(d, i);
    }
}

static void add_epoch(run *r, tarn_dataset *mix, uint64_t epoch)
{
    tarn_dataset *d;
    OK(tarn_dataset_at_epoch(mix, epoch, &d, &err));
    add_run(r, d, UINT64_MAX);
    tarn_dataset_close(d);
}

/* The values of one source are its own consecutive epochs. */
static void check_source(const run *r, uint32_t k, tarn_dataset *source)
{
    uint64_t n = 0, length = tarn_dataset_count(source);
    tarn_dataset *pass = NULL;
    for (size_t i = 0; i < r->n; i++) {
        if (r->source[i] != k) continue;
        if (n % length == 0) {
            tarn_dataset_close(pass);
            OK(tarn_dataset_at_epoch(source, n / length, &pass, &err));
        }
        assert_int_equal(r->value[i], value_at(pass, n++ % length));
    }
    tarn_dataset_close(pass);
}

static void check_three(const run *r, uint64_t seed)
{
    tarn_dataset *parts[] = {ordered(A, TARN_ORDER_SHUFFLE, seed),
                             ordered(B, TARN_ORDER_SHUFFLE, seed + 1), open_rows(C)};
    for (uint32_t k = 0; k < 3; k++) {
        check_source(r, k, parts[k]);
        tarn_dataset_close(parts[k]);
    }
}

static const uint64_t some[] = {3, 20, 2}, others[] = {10, 1, 4}, same[] = {A, B, C};

static void a_source_is_seen_once_in_each_of_its_passes(void **state)
{
    (void)state;
    const uint64_t *counts[] = {some, others, same};
    for (size_t i = 0; i < 3; i++) {
        tarn_dataset *mix = open_three(3, counts[i]);
        run r = {.n = 0};
        for (uint64_t epoch = 0; epoch < 11; epoch++)
            add_epoch(&r, mix, epoch);
        check_three(&r, 3);
        tarn_dataset_close(mix);
    }
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void a_shuffled_mix_has_the_samples_of_its_epoch(void **state)
{
    (void)state;
    tarn_dataset *mix = open_three(3, some), *again = open_three(3, some);
    tarn_dataset *shuffled = shuffle(again);
    for (uint64_t epoch = 0; epoch < 6; epoch++) {
        run a = {.n = 0}, b = {.n = 0};
        add_epoch(&a, mix, epoch);
        add_epoch(&b, shuffled, epoch);
        assert_int_equal(a.n, b.n);
        assert_memory_not_equal(a.value, b.value, a.n * sizeof *a.value);
        qsort(a.value, a.n, sizeof *a.value, by_value);
        qsort(b.value, b.n, sizeof *b.value, by_value);
        assert_memory_equal(a.value, b.value, a.n * sizeof *a.value);
    }
    tarn_dataset_close(shuffled);
    tarn_dataset_close(mix);
}

/* Samples have the positions of the dataset without an order, in every epoch. */
static void numbers_of_a_mix_are_those_of_its_epoch(void **state)
{
    (void)state;
    tarn_dataset *shuffled = shuffle(open_three(3, some)), *d;
    for (uint64_t epoch = 0; epoch < 4; epoch++) {
        OK(tarn_dataset_at_epoch(shuffled, epoch, &d, &err));
        uint64_t *numbers = sequence_of(d);
        for (uint64_t i = 0; i < tarn_dataset_count(d); i++)
            assert_int_equal(value_at(d, i),
                             value_at(tarn_dataset_unordered(d), numbers[i]));
        free(numbers);
        tarn_dataset_close(d);
    }
    tarn_dataset_close(shuffled);
}

static void a_mix_in_a_mix_continues_too(void **state)
{
    (void)state;
    tarn_dataset *parts[] = {shuffle(open_three(3, some)), open_three(5, others)};
    static const uint64_t counts[] = {9, 31};
    tarn_dataset *mix;
    tarn_mix_options o = TARN_MIX_OPTIONS_INIT;
    run r = {.n = 0};
    o.counts = counts;
    OK(tarn_dataset_mix(parts, 2, &o, &mix, &err));
    for (uint64_t epoch = 0; epoch < 8; epoch++)
        add_epoch(&r, mix, epoch);
    for (uint32_t k = 0; k < 2; k++) {
        check_source(&r, k, parts[k]);
        tarn_dataset_close(parts[k]);
    }
    tarn_dataset_close(mix);
}

static void a_slice_of_a_mix_is_the_same_in_every_epoch(void **state)
{
    (void)state;
    tarn_dataset *mix = open_three(3, some), *part, *later, *at, *fixed;
    run a = {.n = 0}, b = {.n = 0}, c = {.n = 0}, d = {.n = 0};
    OK(tarn_dataset_slice(mix, 2, 2, 10, &part, &err));
    OK(tarn_dataset_at_epoch(part, 3, &later, &err));
    add_run(&a, part, MAX);
    add_run(&b, later, MAX);
    assert_memory_equal(a.value, b.value, 10 * sizeof *a.value);
    /* The state of another epoch differs. */
    OK(tarn_dataset_at_epoch(mix, 3, &at, &err));
    OK(tarn_dataset_slice(at, 2, 2, 10, &fixed, &err));
    add_run(&c, fixed, MAX);
    assert_memory_not_equal(a.value, c.value, 10 * sizeof *a.value);
    tarn_text text = {0};
    tarn_dataset *rest;
    OK(tarn_dataset_state(fixed, 4, &text, &err));
    FAILS(TARN_ERR_STALE, "another chain",
          tarn_dataset_resume(part, text.data, text.size, &rest, &err));
    OK(tarn_dataset_resume(fixed, text.data, text.size, &rest, &err));
    add_run(&d, rest, MAX);
    assert_int_equal(d.n, 6);
    assert_memory_equal(d.value, c.value + 4, 6 * sizeof *d.value);
    tarn_text_reset(&text);
    tarn_dataset_close(rest);
    tarn_dataset_close(fixed);
    tarn_dataset_close(at);
    tarn_dataset_close(later);
    tarn_dataset_close(part);
    tarn_dataset_close(mix);
}

/* --- Keys --------------------------------------------------------------------------- */

static void check_keys(tarn_dataset *mix, uint64_t epochs)
{
    for (uint64_t epoch = 0; epoch < epochs; epoch++) {
        tarn_dataset *d;
        OK(tarn_dataset_at_epoch(mix, epoch, &d, &err));
        for (uint64_t row = 0; row < B + 1; row++) {
            char text[24];
            const char *key = text;
            tarn_dataset *kept;
            uint64_t found, first = TARN_NO_SAMPLE, n = 0;
            bool there;
            snprintf(text, sizeof text, "%llu", (unsigned long long)row);
            for (uint64_t i = 0; i < tarn_dataset_count(d); i++) {
                if (value_at(d, i) != row) continue;
                if (n++ == 0) first = i;
            }
            OK(keep_keys(d, &key, 1, &there, &kept, &err));
            assert_int_equal(tarn_dataset_count(kept), n);
            assert_int_equal(there, n > 0);
            for (uint64_t i = 0; i < n; i++)
                assert_int_equal(value_at(kept, i), row);
            tarn_dataset_close(kept);
            if (n == 0) {
                FAILS(TARN_ERR_NO_SAMPLE, "", find_key(d, key, &found, &err));
                continue;
            }
            OK(find_key(d, key, &found, &err));
            assert_int_equal(found, first);
        }
        tarn_dataset_close(d);
    }
}

static void keys_are_found_in_every_epoch(void **state)
{
    (void)state;
    const uint64_t *counts[] = {some, others, same};
    for (size_t i = 0; i < 3; i++) {
        tarn_dataset *mix = open_three(3, counts[i]);
        check_keys(mix, 6);
        mix = shuffle(mix);
        check_keys(mix, 3);
        tarn_dataset_close(mix);
    }
}

static void keys_are_found_in_a_mix_in_a_mix(void **state)
{
    (void)state;
    tarn_dataset *parts[] = {shuffle(open_three(3, some)), open_three(5, others)};
    static const uint64_t counts[] = {9, 31};
    tarn_dataset *mix;
    tarn_mix_options o = TARN_MIX_OPTIONS_INIT;
    o.counts = counts;
    OK(tarn_dataset_mix(parts, 2, &o, &mix, &err));
    check_keys(mix, 5);
    tarn_dataset_close(parts[0]);
    tarn_dataset_close(parts[1]);
    tarn_dataset_close(mix);
}

/* --- States ------------------------------------------------------------------------- */

/* The rest of an epoch of some ranks, in the order of positions. */
static void add_rest(run *r, tarn_dataset *mix, const tarn_text *state, uint64_t world)
{
    tarn_dataset *rest[4];
    for (uint64_t rank = 0; rank < world; rank++) {
        tarn_dataset *part;
        OK(tarn_dataset_split(mix, rank, world, TARN_UNEVEN_KEEP, &part, &err));
        OK(tarn_dataset_resume(part, state->data, state->size, &rest[rank], &err));
        tarn_dataset_close(part);
    }
    for (uint64_t i = 0; i < tarn_dataset_count(rest[0]); i++)
        for (uint64_t rank = 0; rank < world; rank++) {
            if (i >= tarn_dataset_count(rest[rank])) continue;
            r->value[r->n++] = value_at(rest[rank], i);
        }
    for (uint64_t rank = 0; rank < world; rank++)
        tarn_dataset_close(rest[rank]);
}

static void check_resumed(tarn_dataset *mix, uint64_t epoch, uint64_t world)
{
    tarn_text text = {0};
    tarn_dataset *d, *part;
    run whole = {.n = 0}, next = {.n = 0};
    add_epoch(&whole, mix, epoch);
    add_epoch(&next, mix, epoch + 1);
    OK(tarn_dataset_at_epoch(mix, epoch, &d, &err));
    OK(tarn_dataset_split(d, 0, world, TARN_UNEVEN_KEEP, &part, &err));
    for (uint64_t taken = 0; taken <= tarn_dataset_count(part); taken++)
        for (uint64_t then = 1; then < 4; then++) {
            run r = {.n = 0};
            uint64_t used = taken * world;
            OK(tarn_dataset_state(part, taken, &text, &err));
            add_rest(&r, mix, &text, then);
            const run *want = used < whole.n ? &whole : &next;
            if (used >= whole.n) used = 0;
            assert_int_equal(r.n, whole.n - used);
            assert_memory_equal(r.value, want->value + used, r.n * sizeof *r.value);
        }
    tarn_text_reset(&text);
    tarn_dataset_close(part);
    tarn_dataset_close(d);
}

static void a_state_of_a_mix_continues_anywhere(void **state)
{
    (void)state;
    tarn_dataset *mixes[] = {open_three(3, some), shuffle(open_three(3, others))};
    for (int i = 0; i < 2; i++) {
        for (uint64_t epoch = 0; epoch < 4; epoch++)
            for (uint64_t world = 1; world < 4; world++)
                check_resumed(mixes[i], epoch, world);
        tarn_dataset_close(mixes[i]);
    }
}

/* After some samples the weights change, and later they change again. */
static void check_changed(uint64_t before, uint64_t between, uint64_t epochs)
{
    tarn_dataset *first = open_three(3, some), *second = open_three(3, others);
    tarn_dataset *third = open_three(3, same), *d, *moved, *again;
    tarn_text text = {0};
    run r = {.n = 0};
    for (uint64_t epoch = 0; epoch < epochs; epoch++)
        add_epoch(&r, first, epoch);
    OK(tarn_dataset_at_epoch(first, epochs, &d, &err));
    add_run(&r, d, before);
    OK(tarn_dataset_state(d, before, &text, &err));
    OK(tarn_dataset_resume(second, text.data, text.size, &moved, &err));
    add_run(&r, moved, between);
    /* The state of the changed mix continues in the one that was not resumed, */
    OK(tarn_dataset_state(moved, between, &text, &err));
    OK(tarn_dataset_resume(second, text.data, text.size, &again, &err));
    size_t n = r.n;
    add_run(&r, again, UINT64_MAX);
    check_three(&r, 3);
    /* and again in one with other weights. */
    tarn_dataset_close(again);
    r.n = n;
    OK(tarn_dataset_resume(third, text.data, text.size, &again, &err));
    add_run(&r, again, UINT64_MAX);
    check_three(&r, 3);
    tarn_text_reset(&text);
    tarn_dataset_close(again);
    tarn_dataset_close(moved);
    tarn_dataset_close(d);
    tarn_dataset_close(third);
    tarn_dataset_close(second);
    tarn_dataset_close(first);
}

static void sources_continue_after_their_weights_change(void **state)
{
    (void)state;
    for (uint64_t epochs = 0; epochs < 3; epochs++)
        for (uint64_t before = 0; before <= 25; before += 5)
            for (uint64_t between = 0; between <= 15; between += 3)
                check_changed(before, between, epochs);
}

static void weights_below_an_order_change_between_epochs_only(void **state)
{
    (void)state;
    tarn_dataset *first = shuffle(open_three(3, some)), *rest;
    tarn_dataset *second = shuffle(open_three(3, others));
    tarn_text text = {0};
    run r = {.n = 0}, want = {.n = 0};
    OK(tarn_dataset_state(first, 4, &text, &err));
    FAILS(TARN_ERR_STALE, "change weights between epochs",
          tarn_dataset_resume(second, text.data, text.size, &rest, &err));
    OK(tarn_dataset_state(first, 25, &text, &err));
    OK(tarn_dataset_resume(second, text.data, text.size, &rest, &err));
    /* The values are the next ones of each source. */
    add_run(&want, tarn_dataset_unordered(first), MAX);
    add_run(&want, tarn_dataset_unordered(rest), MAX);
    check_three(&want, 3);
    add_run(&r, rest, MAX);
    assert_int_equal(r.n, 15);
    qsort(r.value, 15, sizeof *r.value, by_value);
    qsort(want.value + 25, 15, sizeof *r.value, by_value);
    assert_memory_equal(r.value, want.value + 25, 15 * sizeof *r.value);
    tarn_text_reset(&text);
    tarn_dataset_close(rest);
    tarn_dataset_close(first);
    tarn_dataset_close(second);
}

/* Its epochs before the change have other counts, so a mix of it begins with the epoch in
 * which it was resumed. */
static void a_continued_mix_continues_in_a_mix(void **state)
{
    (void)state;
    for (int ordered_too = 0; ordered_too < 2; ordered_too++) {
        tarn_dataset *first = open_three(3, some), *second = open_three(3, others);
        tarn_dataset *d, *moved, *again, *mix, *outer, *fresh, *ignored;
        tarn_text text = {0};
        tarn_place place;
        if (ordered_too) first = shuffle(first);
        if (ordered_too) second = shuffle(second);
        OK(tarn_dataset_at_epoch(first, 2, &d, &err));
        OK(tarn_dataset_state(d, 25, &text, &err));
        OK(tarn_dataset_resume(second, text.data, text.size, &moved, &err));
        OK(tarn_dataset_mix(&moved, 1, NULL, &mix, &err));
        for (uint64_t epoch = 0; epoch < 4; epoch++) {
            OK(tarn_dataset_at_epoch(moved, 3 + epoch, &again, &err));
            OK(tarn_dataset_at_epoch(mix, epoch, &outer, &err));
            for (uint64_t i = 0; i < 15; i++) {
                assert_int_equal(value_at(outer, i), value_at(again, i));
                OK(mix_at(outer, i, &place, &err));
                assert_int_equal(place.pass, 3 + epoch);
            }
            tarn_dataset_close(outer);
            tarn_dataset_close(again);
        }
        check_keys(mix, 2);
        /* Its state does not fit a mix that was not continued. */
        OK(tarn_dataset_state(mix, 4, &text, &err));
        OK(tarn_dataset_mix(&second, 1, NULL, &fresh, &err));
        FAILS(TARN_ERR_STALE, "from epoch 3 after",
              tarn_dataset_resume(fresh, text.data, text.size, &ignored, &err));
        tarn_text_reset(&text);
        tarn_dataset_close(fresh);
        tarn_dataset_close(mix);
        tarn_dataset_close(moved);
        tarn_dataset_close(d);
        tarn_dataset_close(second);
        tarn_dataset_close(first);
    }
}

static void a_state_of_other_sources_is_refused(void **state)
{
    (void)state;
    tarn_dataset *mix = open_three(3, some), *seeds = open_three(4, some), *rows, *two;
    tarn_dataset *rest, *shuffled;
    tarn_text text = {0};
    OK(tarn_dataset_state(mix, 4, &text, &err));
    FAILS(TARN_ERR_STALE, "the state is for another source",
          tarn_dataset_resume(seeds, text.data, text.size, &rest, &err));
    rows = open_rows(A);
    OK(tarn_dataset_mix((tarn_dataset *[]){rows, rows}, 2, NULL, &two, &err));
    FAILS(TARN_ERR_STALE, "not for a mix of 2 sources",
          tarn_dataset_resume(two, text.data, text.size, &rest, &err));
    FAILS(TARN_ERR_STALE, "the state is for a mix",
          tarn_dataset_resume(rows, text.data, text.size, &rest, &err));
    shuffled = shuffle(open_three(3, some));
    FAILS(TARN_ERR_STALE,
          "the state is for another chain: \"\"; this dataset has "
          "\"shuffle(seed=77)\"",
          tarn_dataset_resume(shuffled, text.data, text.size, &rest, &err));
    OK(tarn_dataset_state(rows, 4, &text, &err));
    FAILS(TARN_ERR_STALE, "not for a mix of 3 sources",
          tarn_dataset_resume(mix, text.data, text.size, &rest, &err));
    tarn_text_reset(&text);
    tarn_dataset_close(shuffled);
    tarn_dataset_close(two);
    tarn_dataset_close(rows);
    tarn_dataset_close(seeds);
    tarn_dataset_close(mix);
}

/* A state with other lists. */
static char *with_lists(const tarn_text *state, const char *counts, const char *used,
                        const char *rest)
{
    char *text = calloc(1, state->size + 200);
    const char *at = strstr(state->data, "\"counts\"");
    assert_non_null(at);
    memcpy(text, state->data, (size_t)(at - state->data));
    size_t len = strlen(text);
    snprintf(text + len, state->size + 200 - len,
             "\"counts\": %s, \"used\": %s, \"chain\": \"\", %s}", counts, used, rest);
    return text;
}

static void hostile_states_of_a_mix_do_no_harm(void **state)
{
    (void)state;
#define HERE "\"epoch\": 1, \"position\": 4"
    static const struct {
        const char *counts, *used, *rest, *why;
        tarn_status status;
    } cases[] = {
        {"[3, 20, 2]", "[3, 20]", HERE, "used in the state is not a list of 3 numbers",
         TARN_ERR_FORMAT},
        {"3", "[3, 20, 2]", HERE, "counts in the state", TARN_ERR_FORMAT},
        {"[3, 20, -2]", "[3, 20, 2]", HERE, "counts in the state", TARN_ERR_FORMAT},
        {"[3, 20, 2]", "[3, 20, 9223372036854775808]", HERE, "used", TARN_ERR_FORMAT},
        {"[3, 20, 2]", "[3, [20], 2]", HERE, "used in the state", TARN_ERR_FORMAT},
        {"[3, 20, 2]", "[3, 23, 2]", "\"epoch\": 1, \"position\": 26", "position 26",
         TARN_ERR_FORMAT},
        {"[3, 20, 2]", "[0, 0, 0]", HERE, "used in the state", TARN_ERR_FORMAT},
        {"[3, 20, 2]", "[4, 23, 2]", HERE ", \"x\": 0", "8 entries", TARN_ERR_FORMAT},
        {"[3, 20, 2]", "[4, 23, 2]", "\"epoch\": 9223372036854775807, \"position\": 4",
         "too high", TARN_ERR_LIMIT},
    };
    tarn_dataset *mix = open_three(3, some), *rest;
    tarn_text text = {0};
    OK(tarn_dataset_state(mix, 4, &text, &err));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *bad = with_lists(&text, cases[i].counts, cases[i].used, cases[i].rest);
        FAILS(cases[i].status, cases[i].why,
              tarn_dataset_resume(mix, bad, strlen(bad), &rest, &err));
        free(bad);
    }
    /* Possible numbers: any use of a source is one of its samples. */
    static const char *const used[] = {"[9223372036854775807, 9223372036854775807, "
                                       "9223372036854775807]",
                                       "[100, 50, 3]"};
    for (int i = 0; i < 4; i++) {
        char *odd =
            with_lists(&text, i < 2 ? "[3, 20, 2]" : "[1, 1, 1]", used[i % 2], HERE);
        if (tarn_dataset_resume(mix, odd, strlen(odd), &rest, &err) == TARN_OK) {
            for (uint64_t k = 0; k < tarn_dataset_count(rest); k++)
                assert_true(value_at(rest, k) < B);
            tarn_dataset_close(rest);
        }
        free(odd);
    }
    tarn_text_reset(&text);
    tarn_dataset_close(mix);
}

/* --- A loader ----------------------------------------------------------------------- */

static void a_loader_goes_through_the_epochs_of_a_mix(void **state)
{
    (void)state;
    tarn_dataset *mix = open_three(3, some);
    tarn_loader_options o = TARN_LOADER_OPTIONS_INIT;
    o.batch = 4;
    for (o.threads = 0; o.threads < 3; o.threads++) {
        tarn_loader *l;
        tarn_batch *b;
        tarn_text text = {0};
        run want = {.n = 0};
        size_t n = 0;
        for (uint64_t epoch = 0; epoch < 4; epoch++)
            add_epoch(&want, mix, epoch);
        OK(tarn_loader_open(mix, &o, &l, &err));
        for (int round = 0; n < want.n; round++) {
            tarn_status status = tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err);
            if (status == TARN_END) continue;
            check_ok(status, &err, __FILE__, __LINE__);
            assert_memory_equal(b->columns[0].data, want.value + n, b->count * 8);
            n += b->count;
            tarn_batch_release(b);
            /* At times another loader continues. */
            if (round % 5) continue;
            tarn_loader_options rest = o;
            OK(tarn_loader_state(l, &text, &err));
            tarn_loader_close(l);
            rest.state = text.data;
            rest.state_len = text.size;
            OK(tarn_loader_open(mix, &rest, &l, &err));
        }
        tarn_loader_close(l);
        tarn_text_reset(&text);
    }
    tarn_dataset_close(mix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_source_is_seen_once_in_each_of_its_passes),
        cmocka_unit_test(a_shuffled_mix_has_the_samples_of_its_epoch),
        cmocka_unit_test(numbers_of_a_mix_are_those_of_its_epoch),
        cmocka_unit_test(a_mix_in_a_mix_continues_too),
        cmocka_unit_test(a_slice_of_a_mix_is_the_same_in_every_epoch),
        cmocka_unit_test(keys_are_found_in_every_epoch),
        cmocka_unit_test(keys_are_found_in_a_mix_in_a_mix),
        cmocka_unit_test(a_state_of_a_mix_continues_anywhere),
        cmocka_unit_test(sources_continue_after_their_weights_change),
        cmocka_unit_test(weights_below_an_order_change_between_epochs_only),
        cmocka_unit_test(a_continued_mix_continues_in_a_mix),
        cmocka_unit_test(a_state_of_other_sources_is_refused),
        cmocka_unit_test(hostile_states_of_a_mix_do_no_harm),
        cmocka_unit_test(a_loader_goes_through_the_epochs_of_a_mix),
    };
    return cmocka_run_group_tests(tests, fill_arrays, scratch_remove);
}
