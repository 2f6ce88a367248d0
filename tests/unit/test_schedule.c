/* Schedules: the steps that are computed for a sample, and the samples of a step, are
 * those that real loaders deliver, for all orders, ranks, kinds of batches and mixes. */
#include "ordering.h"

#include <tarn/schedule.h>

#include "dataset/order.h"

enum { EPOCHS = 2, ROOM = 1 << 14 };

static uint64_t drawn;

/* The same sequence in every run. */
static uint64_t below(uint64_t n)
{
    drawn = drawn * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (drawn >> 33) % n;
}

/* --- What loaders deliver ------------------------------------------------------------
 */

typedef struct delivered {
    uint64_t key;
    tarn_turn turn; /* without position */
} delivered;

static delivered list[ROOM];
static size_t n_list;

static int by_key(const void *a, const void *b)
{
    const delivered *x = a, *y = b;
    const uint64_t p[] = {x->key, x->turn.epoch, x->turn.step, x->turn.rank,
                          x->turn.place},
                   q[] = {y->key, y->turn.epoch, y->turn.step, y->turn.rank,
                          y->turn.place};
    for (int i = 0; i < 5; i++)
        if (p[i] != q[i]) return p[i] < q[i] ? -1 : 1;
    return 0;
}

static void add_batch(const tarn_batch *b, uint64_t rank)
{
    for (size_t i = 0; i < b->count; i++) {
        assert_true(n_list < ROOM);
        list[n_list++] = (delivered){strtoull(b->keys + b->key_offsets[i], NULL, 10),
                                     {.epoch = b->epoch,
                                      .step = b->number,
                                      .rank = rank,
                                      .place = i,
                                      .sample = b->samples[i]}};
    }
}

static void check_step(tarn_dataset *d, const tarn_schedule_options *o, uint64_t step,
                       const tarn_batch *b)
{
    tarn_dataset *at;
    tarn_turn turn;
    tarn_text key = {0};
    OK(tarn_dataset_step(d, step, o, &at, &turn, sizeof turn, &err));
    assert_int_equal(tarn_dataset_count(at), b->count);
    assert_int_equal(turn.epoch, b->epoch);
    assert_int_equal(turn.step, b->number);
    for (uint64_t i = 0; i < b->count; i++) {
        OK(tarn_dataset_key(at, i, &key, &err));
        assert_string_equal(key.data, b->keys + b->key_offsets[i]);
    }
    tarn_text_reset(&key);
    tarn_dataset_close(at);
}

/* Runs the loader of one rank, and compares each batch with tarn_dataset_step. */
static void load_rank(tarn_dataset *d, const tarn_schedule_options *o, uint64_t rank)
{
    tarn_loader_options options = TARN_LOADER_OPTIONS_INIT;
    static const tarn_load_field none;
    tarn_loader *loader;
    tarn_dataset_info info;
    tarn_dataset_info_get(d, &info, sizeof info);
    options.batch = o->batch;
    options.equal_batches = o->equal_batches;
    options.drop_last = o->drop_last;
    options.epochs = info.epoch + EPOCHS;
    options.fields = &none;
    OK(tarn_loader_open(d, &options, &loader, &err));
    uint64_t step = 0;
    for (;;) {
        tarn_batch *b;
        tarn_loader_info now;
        tarn_status status = tarn_loader_next(loader, TARN_NO_TIMEOUT, &b, &err);
        tarn_loader_info_get(loader, &now, sizeof now);
        if (status == TARN_END && now.over) break;
        if (status == TARN_END) continue;
        OK(status);
        add_batch(b, rank);
        check_step(d, o, step++, b);
        tarn_batch_release(b);
    }
    tarn_loader_close(loader);
}

/* --- Comparison ----------------------------------------------------------------------
 */

static void check_key(tarn_dataset *d, const tarn_schedule_options *o, uint64_t key,
                      const delivered *want, size_t count)
{
    static tarn_turn turns[ROOM];
    static delivered got[ROOM];
    char text[24];
    size_t n = 0;
    snprintf(text, sizeof text, "%llu", (unsigned long long)key);
    OK(tarn_dataset_when(d, text, o, turns, ROOM, &n, &err));
    assert_int_equal(n, count);
    for (size_t i = 0; i < n; i++) {
        got[i] = (delivered){key, turns[i]};
        if (i)
            assert_true(turns[i].epoch > turns[i - 1].epoch ||
                        turns[i].position > turns[i - 1].position);
    }
    qsort(got, n, sizeof *got, by_key);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(by_key(&got[i], &want[i]), 0);
        assert_int_equal(got[i].turn.sample, want[i].turn.sample);
    }
}

/* d is closed. */
static void check_all(tarn_dataset *d, uint64_t keys, uint64_t world, tarn_uneven uneven,
                      tarn_schedule_options o)
{
    tarn_dataset *last = NULL;
    n_list = 0;
    o.epochs = EPOCHS;
    for (uint64_t rank = 0; rank < world; rank++) {
        tarn_dataset_close(last);
        OK(tarn_dataset_split(d, rank, world, uneven, &last, &err));
        load_rank(last, &o, rank);
    }
    qsort(list, n_list, sizeof *list, by_key);
    for (uint64_t key = 0, i = 0, end; key < keys; key++, i = end) {
        for (end = i; end < n_list && list[end].key == key;)
            end++;
        check_key(last, &o, key, list + i, end - i);
    }
    tarn_dataset_close(last);
    tarn_dataset_close(d);
}

static tarn_schedule_options random_batches(void)
{
    tarn_schedule_options o = TARN_SCHEDULE_OPTIONS_INIT;
    o.batch = 1 + below(20);
    o.equal_batches = below(2);
    o.drop_last = below(4) == 0;
    return o;
}

/* Only a dataset that has all of the arrays' samples can have every kind of order. */
static tarn_dataset *ordered_rows(int kind, uint64_t rows)
{
    tarn_order_options order = options_of((tarn_order_kind)kind);
    tarn_dataset *d = open_rows(rows), *out;
    order.seed = below(1000);
    order.epoch = below(5);
    if (kind == TARN_ORDER_WEIGHTED || kind == TARN_ORDER_BALANCED)
        order.draws = below(2) * 400;
    OK(tarn_dataset_order(d, &order, &out, &err));
    tarn_dataset_close(d);
    return out;
}

static void every_order_is_inverted_as_loaders_deliver_it(void **state)
{
    (void)state;
    for (int kind = TARN_ORDER_IDENTITY; kind <= TARN_ORDER_LENGTHS; kind++)
        for (int i = 0; i < 12; i++) {
            drawn = (uint64_t)(kind * 100 + i);
            check_all(ordered_rows(kind, N), N, 1 + below(5), (tarn_uneven)below(3),
                      random_batches());
        }
}

static void large_orders_are_inverted(void **state)
{
    (void)state;
    static const uint64_t rows[] = {65, 4096, 4097, 4999};
    for (int kind = TARN_ORDER_IDENTITY; kind <= TARN_ORDER_FEISTEL; kind++)
        for (size_t i = 0; i < 4; i++) {
            drawn = (uint64_t)kind * 7 + i;
            tarn_schedule_options o = random_batches();
            o.batch += 60;
            check_all(ordered_rows(kind, rows[i]), rows[i] < 400 ? rows[i] : 400,
                      1 + below(3), (tarn_uneven)below(3), o);
        }
}

/* Padding repeats samples many times if batches are larger than the epoch. */
static void few_samples_are_repeated_for_many_ranks(void **state)
{
    (void)state;
    for (int uneven = TARN_UNEVEN_KEEP; uneven <= TARN_UNEVEN_PAD; uneven++)
        for (int equal = 0; equal < 2; equal++) {
            tarn_schedule_options o = TARN_SCHEDULE_OPTIONS_INIT;
            o.batch = 8;
            o.equal_batches = equal;
            check_all(ordered_rows(TARN_ORDER_SHUFFLE, 3), 4 - 1, 5, (tarn_uneven)uneven,
                      o);
        }
}

static void shards_of_shards_are_inverted(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 18; i++) {
        drawn = i;
        tarn_dataset *all = ordered_rows(TARN_ORDER_SHUFFLE, N), *part;
        OK(tarn_dataset_split(all, below(3), 3, (tarn_uneven)(i % 3), &part, &err));
        tarn_dataset_close(all);
        check_all(part, N, 1 + below(4), (tarn_uneven)(i / 3 % 3), random_batches());
    }
}

/* Of a selection that repeats samples, all numbers of a key count. */
static void repeated_samples_are_all_found(void **state)
{
    (void)state;
    uint64_t chosen[40];
    tarn_order_options order = options_of(TARN_ORDER_SHUFFLE);
    for (uint64_t k = 0; k < 40; k++)
        chosen[k] = k * 7 % 20;
    for (uint64_t i = 0; i < 8; i++) {
        drawn = i;
        tarn_dataset *rows = open_rows(N), *some, *d;
        OK(tarn_dataset_select(rows, chosen, 40, &some, &err));
        OK(tarn_dataset_order(some, &order, &d, &err));
        tarn_dataset_close(rows);
        tarn_dataset_close(some);
        check_all(d, 20, 1 + below(3), TARN_UNEVEN_KEEP, random_batches());
    }
}

/* --- Mixes ---------------------------------------------------------------------------
 */

static tarn_dataset *random_mix(uint64_t rows)
{
    tarn_dataset *parts[3], *mix;
    double shares[] = {1.0 + (double)below(9), 1.0 + (double)below(9), 1.0};
    tarn_mix_options o = TARN_MIX_OPTIONS_INIT;
    if (below(2)) o.weights = shares;
    o.end = (tarn_mix_end)below(2);
    for (int k = 0; k < 3; k++) {
        tarn_order_options order = options_of(k ? TARN_ORDER_SHUFFLE : TARN_ORDER_BLOCKS);
        tarn_dataset *d = open_rows(rows);
        order.seed = below(100);
        order.epoch = 0;
        OK(tarn_dataset_order(d, &order, &parts[k], &err));
        tarn_dataset_close(d);
    }
    OK(tarn_dataset_mix(parts, 3, &o, &mix, &err));
    for (int k = 0; k < 3; k++)
        tarn_dataset_close(parts[k]);
    return mix;
}

/* A key that no batch of these epochs has is in a source all the same. */
static void mixes_are_inverted_in_every_epoch(void **state)
{
    (void)state;
    tarn_order_options order = options_of(TARN_ORDER_SHUFFLE);
    for (uint64_t i = 0; i < 16; i++) {
        drawn = i;
        uint64_t rows = 5 + below(40);
        tarn_dataset *mix = random_mix(rows), *d;
        order.epoch = below(7);
        order.kind = i % 2 ? TARN_ORDER_SHUFFLE : TARN_ORDER_IDENTITY;
        OK(tarn_dataset_order(mix, &order, &d, &err));
        tarn_dataset_close(mix);
        check_all(d, rows, 1 + below(4), (tarn_uneven)below(3), random_batches());
    }
}

/* --- Lookups by key ------------------------------------------------------------------
 */

/* Keys of a shuffled dataset are found through the inverse, too. */
static void a_key_is_found_at_its_position(void **state)
{
    (void)state;
    for (int kind = TARN_ORDER_IDENTITY; kind <= TARN_ORDER_LENGTHS; kind++) {
        drawn = (uint64_t)kind;
        tarn_dataset *all = ordered_rows(kind, N), *d;
        OK(tarn_dataset_split(all, 1, 3, TARN_UNEVEN_PAD, &d, &err));
        uint64_t *numbers = sequence_of(d), n = tarn_dataset_count(d);
        for (uint64_t key = 0; key < N; key++) {
            char text[24];
            const char *name = text;
            uint64_t at, first = 0;
            size_t missing;
            snprintf(text, sizeof text, "%llu", (unsigned long long)key);
            while (first < n && numbers[first] != key)
                first++;
            OK(tarn_dataset_find(d, &name, 1, &at, &missing, &err));
            assert_true(at == (first < n ? first : TARN_NO_SAMPLE));
        }
        free(numbers);
        tarn_dataset_close(d);
        tarn_dataset_close(all);
    }
}

/* --- Arguments -----------------------------------------------------------------------
 */

static void what_does_not_exist_is_an_error(void **state)
{
    (void)state;
    tarn_schedule_options o = TARN_SCHEDULE_OPTIONS_INIT;
    tarn_dataset *d = ordered_rows(TARN_ORDER_SHUFFLE, N), *part, *made;
    tarn_dataset *mix;
    tarn_turn turn;
    size_t n;
    assert_int_equal(tarn_dataset_when(d, "x", &o, &turn, 1, &n, &err),
                     TARN_ERR_NO_SAMPLE);
    OK(tarn_dataset_mix(&d, 1, NULL, &mix, &err));
    assert_int_equal(tarn_dataset_when(mix, "x", &o, &turn, 1, &n, &err),
                     TARN_ERR_NO_SAMPLE);
    tarn_dataset_close(mix);
    OK(tarn_dataset_split(d, 2, N + 5, TARN_UNEVEN_DROP, &part, &err));
    OK(tarn_dataset_when(part, "3", &o, &turn, 1, &n, &err));
    assert_int_equal(n, 0);
    assert_int_equal(tarn_dataset_step(part, 0, &o, &made, NULL, 0, &err),
                     TARN_ERR_USAGE);
    o.batch = 0;
    assert_int_equal(tarn_dataset_when(d, "3", &o, &turn, 1, &n, &err), TARN_ERR_USAGE);
    assert_int_equal(tarn_dataset_step(d, 0, &o, &made, NULL, 0, &err), TARN_ERR_USAGE);
    tarn_dataset_close(part);
    tarn_dataset_close(d);
}

static void only_as_many_turns_as_there_is_room_are_written(void **state)
{
    (void)state;
    tarn_schedule_options o = TARN_SCHEDULE_OPTIONS_INIT;
    tarn_dataset *d = ordered_rows(TARN_ORDER_SHUFFLE, N);
    tarn_turn turns[2] = {{0}, {.epoch = 77}};
    size_t n;
    o.epochs = 9;
    OK(tarn_dataset_when(d, "3", &o, turns, 1, &n, &err));
    assert_int_equal(n, 9);
    assert_int_equal(turns[1].epoch, 77);
    tarn_dataset_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order_is_inverted_as_loaders_deliver_it),
        cmocka_unit_test(large_orders_are_inverted),
        cmocka_unit_test(few_samples_are_repeated_for_many_ranks),
        cmocka_unit_test(shards_of_shards_are_inverted),
        cmocka_unit_test(repeated_samples_are_all_found),
        cmocka_unit_test(mixes_are_inverted_in_every_epoch),
        cmocka_unit_test(a_key_is_found_at_its_position),
        cmocka_unit_test(what_does_not_exist_is_an_error),
        cmocka_unit_test(only_as_many_turns_as_there_is_room_are_written),
    };
    return cmocka_run_group_tests(tests, fill_arrays, scratch_remove);
}
