/* Damaged folds: shards, indexes and sums are truncated, flipped, shortened and given
 * extreme numbers, and everything is read again. Each read must give an error or the
 * content of the intact fold. TARN_DAMAGE=full runs every case, otherwise a sample of
 * them. */
#include "damage.h"

#include <unistd.h>

static tarn_error err;

static void sound_folds_are_read_whole(void **state)
{
    golden g;
    void (*const makers[])(golden *) = {make_birds, make_mixed, make_doubles,
                                        make_nest_last, make_nest_open};
    (void)state;
    for (size_t i = 0; i < sizeof makers / sizeof makers[0]; i++) {
        makers[i](&g);
        tarn__fold *fold = open_fold(&g, true, TARN_IO_AUTO);
        tarn_view view;
        assert_non_null(fold);
        assert_null(check_open(&g, fold));
        for (size_t k = 0; k < g.count; k++)
            OK(tarn__fold_view(fold, k, false, &view, &err));
        tarn__fold_close(fold);
        golden_drop(&g);
    }
}

/* --- Damaged shards --------------------------------------------------------------- */

/* An index of the damaged shard has the true rows, or is not made. */
static const char *check_rebuilt(const golden *g)
{
    const char *shards[] = {g->file[SHARD], g->file[OTHER]}, *why = NULL;
    tarn_index *index;
    tarn_index_info info;
    tarn_row row;
    tarn_index_options o = TARN_INDEX_OPTIONS_INIT;
    o.threads = 1;
    if (tarn_index_build(shards, 2, &o, NULL, &index, NULL, 0, &err) != TARN_OK)
        return NULL;
    tarn_index_info_get(index, &info, sizeof info);
    if (info.rows != g->count) why = "an index of another number of members";
    for (size_t i = 0; !why && i < g->count; i++) {
        OK(tarn_index_row(index, i, &row, &err));
        if (row.offset != g->members[i].offset || row.size != g->members[i].size)
            why = "an index with another row";
    }
    tarn_index_free(index);
    return why;
}

/* Every multiple of 512, and every byte of the last few. */
static uint64_t next_cut(const golden *g, uint64_t at, uint64_t last)
{
    return at + 512 < g->size[SHARD] - last ? at + 512 : at + 1;
}

static void truncated_shard_is_noticed_or_harmless(void **state)
{
    golden g;
    sweep s = {0};
    (void)state;
    make_birds(&g);
    for (int with_sums = 1; with_sums >= 0; with_sums--) {
        if (!with_sums) unlink(g.file[SUMS]);
        for (uint64_t at = 0; at < g.size[SHARD]; at = next_cut(&g, at, 2048)) {
            snprintf(s.what, sizeof s.what, "shard cut to %llu", (unsigned long long)at);
            golden_cut(&g, SHARD, at);
            sweep_judge(&s, check_fold(&g, with_sums));
            if (with_sums) sweep_judge(&s, check_rebuilt(&g));
            golden_restore_all(&g, SHARD);
        }
    }
    golden_drop(&g);
    sweep_end(&s, __func__);
}

static void shard_truncated_under_an_open_fold_is_noticed_or_harmless(void **state)
{
    golden g;
    sweep s = {0};
    (void)state;
    make_birds(&g);
    for (uint64_t at = 0; at < g.size[SHARD]; at = next_cut(&g, at, 512)) {
        for (int io = TARN_IO_MAP; io <= TARN_IO_READ; io++) {
            tarn__fold *fold = open_fold(&g, false, (tarn_io)io);
            assert_non_null(fold);
            assert_null(check_bytes(&g, fold, 0, g.count));
            snprintf(s.what, sizeof s.what, "cut to %llu", (unsigned long long)at);
            golden_cut(&g, SHARD, at);
            sweep_judge(&s, check_open(&g, fold));
            tarn__fold_close(fold);
            golden_restore_all(&g, SHARD);
        }
    }
    golden_drop(&g);
    sweep_end(&s, __func__);
}
/* The member that contains a byte, or the one before it. */
static size_t row_at(const golden *g, uint64_t at)
{
    size_t i = g->count;
    while (i > 1 && (g->members[i - 1].shard || g->members[i - 1].start > at))
        i--;
    return i - 1;
}

/* The rows around the damage, mapped, for every case; everything, read, for one bit of
 * every fourth byte. The folder of a long name is not in a header with a checksum, and
 * not in the index: only verification can detect a change of it. */
static void flipped_shard_bit_is_noticed_or_harmless(void **state)
{
    golden g;
    sweep s = {0};
    (void)state;
    make_birds(&g);
    tarn__fold *mapped = open_fold(&g, true, TARN_IO_MAP);
    tarn__fold *read = open_fold(&g, true, TARN_IO_READ);
    assert_true(mapped && read);
    for (uint64_t at = 0; at < g.size[SHARD]; at++) {
        unsigned step = is_header(&g, at) ? 1 : 8;
        size_t row = row_at(&g, at);
        g.folders_unsure = is_record(&g, at);
        for (unsigned bit = (unsigned)(at % step); bit < 8; bit += step) {
            snprintf(s.what, sizeof s.what, "bit %u of byte %llu of the shard", bit,
                     (unsigned long long)at);
            golden_flip(&g, SHARD, at, bit);
            sweep_judge(&s, check_bytes(&g, mapped, row ? row - 1 : 0, row + 3));
            if (bit == at % 8 && at % 4 == 0) sweep_judge(&s, check_open(&g, read));
            golden_restore(&g, SHARD, at);
        }
    }
    tarn__fold_close(mapped);
    tarn__fold_close(read);
    golden_drop(&g);
    sweep_end(&s, __func__);
}

/* --- Damaged indexes and sums ----------------------------------------------------- */

enum { FLIPS = 1, CUTS = 2, HOLES = 4, EXTREMES = 8, ALL = 15 };

/* Two keys have the same hash, and only the collision number in a row says which of the
 * two it means. Without sums nothing in the index shows that the number is wrong. */
static bool is_crash_of_twin(const golden *g, int file, uint64_t at, size_t width)
{
    if (file != INDEX) return false;
    for (size_t i = 0; i < g->count; i++) {
        uint64_t crash = g->size[INDEX] - 32 * (g->count - i) + 20;
        if (strlen(g->members[i].key) == 64 && at < crash + 4 && crash < at + width)
            return true;
    }
    return false;
}

/* The number of cases of a short run: shards are long and have their own tests above. */
static size_t one_in(int file)
{
    return file == SHARD ? 101 : 7;
}

/* Reads with the damaged file that is now on disk. A shard's payloads have no checksum
 * except in the sums. */
static void judge_fold(sweep *s, const golden *g, int file, bool with_sums)
{
    if (file != SHARD) sweep_judge(s, check_fold(g, false));
    if (with_sums) sweep_judge(s, check_fold(g, true));
}

static void sweep_flips(sweep *s, golden *g, int file, bool with_sums)
{
    for (uint64_t at = 0; at < g->size[file]; at++)
        for (unsigned bit = 0; bit < 8; bit++) {
            if (!with_sums && is_crash_of_twin(g, file, at, 1)) continue;
            if (!sweep_takes(s, one_in(file))) continue;
            g->folders_unsure = file == SHARD && is_record(g, at);
            snprintf(s->what, sizeof s->what, "bit %u of byte %llu", bit,
                     (unsigned long long)at);
            golden_flip(g, file, at, bit);
            judge_fold(s, g, file, with_sums);
            golden_restore(g, file, at);
        }
}

static void sweep_cuts(sweep *s, golden *g, int file, bool with_sums)
{
    for (uint64_t at = 0; at < g->size[file]; at++) {
        if (!sweep_takes(s, one_in(file))) continue;
        g->folders_unsure = false;
        snprintf(s->what, sizeof s->what, "cut to %llu", (unsigned long long)at);
        golden_cut(g, file, at);
        judge_fold(s, g, file, with_sums);
        golden_restore_all(g, file);
    }
}

/* Every byte removed, with the rest moved up. */
static void sweep_holes(sweep *s, golden *g, int file, bool with_sums)
{
    for (uint64_t at = 0; at < g->size[file]; at++) {
        if (!sweep_takes(s, one_in(file))) continue;
        g->folders_unsure = file == SHARD && is_record(g, at);
        snprintf(s->what, sizeof s->what, "without byte %llu", (unsigned long long)at);
        golden_put(g, file, at, g->bytes[file] + at + 1, g->size[file] - at - 1);
        golden_cut(g, file, g->size[file] - 1);
        judge_fold(s, g, file, with_sums);
        golden_restore_all(g, file);
    }
}

/* Every even offset as a number of 4 and of 8 bytes; in a shard, every fourth. */
static void sweep_extremes(sweep *s, golden *g, int file, bool with_sums)
{
    for (uint64_t at = 0; at + 8 <= g->size[file]; at += file == SHARD ? 4 : 2)
        for (size_t i = 0; i < EXTREMES_COUNT; i++)
            for (size_t width = i < SHORT_EXTREMES ? 4 : 8; width <= 8; width += 4) {
                if (!with_sums && is_crash_of_twin(g, file, at, width)) continue;
                if (!sweep_takes(s, one_in(file))) continue;
                g->folders_unsure = file == SHARD && is_record(g, at);
                snprintf(s->what, sizeof s->what, "%zu bytes at %llu set to %llx", width,
                         (unsigned long long)at, (unsigned long long)extremes[i]);
                golden_put(g, file, at, &extremes[i], width);
                judge_fold(s, g, file, with_sums);
                golden_put(g, file, at, g->bytes[file] + at, width);
            }
}

static void sweep_file(const char *title, void (*make)(golden *), int file,
                       bool with_sums, unsigned kinds)
{
    golden g;
    sweep s = {0};
    make(&g);
    if (!with_sums) unlink(g.file[SUMS]);
    if (kinds & FLIPS) sweep_flips(&s, &g, file, with_sums);
    if (kinds & CUTS) sweep_cuts(&s, &g, file, with_sums);
    if (kinds & HOLES) sweep_holes(&s, &g, file, with_sums);
    if (kinds & EXTREMES) sweep_extremes(&s, &g, file, with_sums);
    golden_drop(&g);
    sweep_end(&s, title);
}

#define SWEEP(name, make, file, with_sums, kinds)                                        \
    static void name##_is_noticed_or_harmless(void **state)                              \
    {                                                                                    \
        (void)state;                                                                     \
        sweep_file(#name, make, file, with_sums, kinds);                                 \
    }

SWEEP(flipped_index_bit, make_birds, INDEX, true, FLIPS)
SWEEP(flipped_index_bit_without_sums, make_birds, INDEX, false, FLIPS)
SWEEP(flipped_bit_in_mixed_index, make_mixed, INDEX, true, FLIPS)
SWEEP(flipped_bit_in_mixed_index_without_sums, make_mixed, INDEX, false, FLIPS)
SWEEP(flipped_bit_in_index_of_doubles, make_doubles, INDEX, true, FLIPS)
SWEEP(flipped_bit_in_index_of_doubles_without_sums, make_doubles, INDEX, false, FLIPS)
SWEEP(cut_index, make_birds, INDEX, true, CUTS | HOLES)
SWEEP(cut_index_without_sums, make_birds, INDEX, false, CUTS | HOLES)
SWEEP(cut_mixed_index_without_sums, make_mixed, INDEX, false, CUTS | HOLES)
SWEEP(extreme_number_in_index, make_birds, INDEX, true, EXTREMES)
SWEEP(extreme_number_in_index_without_sums, make_birds, INDEX, false, EXTREMES)
SWEEP(flipped_sums_bit, make_birds, SUMS, true, FLIPS)
SWEEP(flipped_bit_in_mixed_sums, make_mixed, SUMS, true, FLIPS)
SWEEP(cut_sums, make_birds, SUMS, true, CUTS | HOLES)
SWEEP(extreme_number_in_sums, make_mixed, SUMS, true, EXTREMES)
SWEEP(damaged_shard, make_birds, SHARD, true, ALL)
SWEEP(damaged_mixed_shard, make_mixed, SHARD, true, ALL)

/* With sums beside it, an index must never hide what the shards have: an existing key or
 * field, or a sample that has all the requested fields. */
static const char *check_denials(const golden *g)
{
    const char *why = NULL, *fields[] = {"cls", NULL};
    tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
    tarn_dataset *having;
    uint64_t row;
    tarn__fold *fold = open_fold(g, false, TARN_IO_AUTO);
    if (!fold) return NULL;
    for (size_t i = 0; !why && i < g->count; i++) {
        const member *m = &g->members[i];
        tarn_status status = row_of_field(fold, m->key, m->field, &row);
        if (status == TARN_ERR_NO_SAMPLE) why = "a key is called missing";
        if (status == TARN_ERR_NO_FIELD) why = "a field is called missing";
    }
    tarn__fold_close(fold);
    o.fields = fields;
    if (why || tarn_dataset_open(g->path, &o, &having, NULL) != TARN_OK) return why;
    if (tarn_dataset_count(having) != g->samples)
        why = "a sample is filtered out that has the field";
    tarn_dataset_close(having);
    return why;
}

static void damage_beside_sums_is_not_called_missing(void **state)
{
    golden g;
    sweep s = {0};
    (void)state;
    make_birds(&g);
    for (int file = INDEX; file <= SUMS; file++)
        for (uint64_t at = 0; at < g.size[file]; at++)
            for (unsigned bit = 0; bit < 8; bit++) {
                if (!sweep_takes(&s, one_in(file))) continue;
                snprintf(s.what, sizeof s.what, "bit %u of byte %llu of the %s", bit,
                         (unsigned long long)at, file == INDEX ? "index" : "sums");
                golden_flip(&g, file, at, bit);
                sweep_judge(&s, check_denials(&g));
                golden_restore(&g, file, at);
            }
    golden_drop(&g);
    sweep_end(&s, __func__);
}

/* --- Pages ------------------------------------------------------------------------ */

/* Sums are checked a page at a time: 128 rows, or 1024 entries of the order. This many
 * samples of two members have both borders inside. */
enum { MANY = 520, ROW_BORDER = 128, ORDER_BORDER = 1024 };

static void make_many(golden *g)
{
    tarball t = {0}, other = {0};
    char name[32];
    *g = (golden){0};
    for (unsigned i = 0; i < 2 * MANY; i++) {
        snprintf(name, sizeof name, "s%03u.%s", i / 2, i % 2 ? "cls" : "txt");
        tarball_file(&t, name, name);
    }
    tarball_end(&t);
    tarball_end(&other);
    golden_publish(g, "many", &t, &other);
    tarball_reset(&t);
    tarball_reset(&other);
}

/* A sample has its two rows, and they have the right names; or there is an error. */
static bool is_one_of_many(tarn__fold *fold, unsigned number, const tarn__sample_rows *s)
{
    char name[32];
    tarn_view view;
    bool good = s->count == 2;
    for (uint32_t k = 0; good && k < 2; k++) {
        uint64_t row = tarn__rows_at(s, k);
        snprintf(name, sizeof name, "s%03u.%s", number, k ? "cls" : "txt");
        good = row == 2 * number + k;
        if (!good || tarn__fold_view(fold, row, false, &view, NULL) != TARN_OK) continue;
        good = view.size == strlen(name) && memcmp(view.data, name, view.size) == 0;
        tarn_view_release(&view);
    }
    return good;
}

static const char *check_some_of_many(const golden *g, bool check)
{
    static const unsigned numbers[] = {0, 62, 63, 64, 65, 255, 511, 512, 513, MANY - 1};
    const char *why = NULL;
    char key[16];
    tarn__sample_rows s;
    uint64_t samples;
    tarn__fold *fold = open_fold(g, check, TARN_IO_AUTO);
    for (size_t i = 0; fold && i < sizeof numbers / sizeof numbers[0]; i++) {
        snprintf(key, sizeof key, "s%03u", numbers[i]);
        tarn_status status = tarn__fold_find_rows(fold, key, &s, NULL);
        if (status == TARN_ERR_NO_SAMPLE) why = "a key is called missing";
        if (status == TARN_OK && !is_one_of_many(fold, numbers[i], &s))
            why = "another sample, by key";
        if (tarn__fold_count(fold, &samples, NULL) != TARN_OK) continue;
        if (samples != MANY) why = "another number of samples";
        s = samples == MANY ? rows_of(fold, numbers[i]) : (tarn__sample_rows){0};
        if (!is_one_of_many(fold, numbers[i], &s)) why = "another sample, by position";
    }
    tarn__fold_close(fold);
    return why;
}

static void flip_many(sweep *s, const golden *g, int file, uint64_t from, uint64_t to)
{
    for (uint64_t at = from; at < to; at++)
        for (unsigned bit = 0; bit < 8; bit++) {
            snprintf(s->what, sizeof s->what, "bit %u of byte %llu of file %d", bit,
                     (unsigned long long)at, file);
            golden_flip(g, file, at, bit);
            sweep_judge(s, check_some_of_many(g, file == SUMS));
            golden_restore(g, file, at);
        }
}

/* Rows, key order and checksums on both sides of the border between two pages. */
static void flipped_bit_beside_the_border_of_a_page_is_noticed(void **state)
{
    golden g;
    sweep s = {0};
    (void)state;
    make_many(&g);
    assert_null(check_some_of_many(&g, true));
    uint64_t rows = g.size[INDEX] - 32 * 2 * MANY;
    uint64_t checksums = g.size[SUMS] - 4 * 2 * MANY, order = checksums - 4 * 2 * MANY;
    flip_many(&s, &g, INDEX, rows + 32 * (ROW_BORDER - 2), rows + 32 * (ROW_BORDER + 2));
    flip_many(&s, &g, SUMS, order + 4 * (ORDER_BORDER - 2),
              order + 4 * (ORDER_BORDER + 2));
    flip_many(&s, &g, SUMS, checksums + 4 * (ORDER_BORDER - 2),
              checksums + 4 * (ORDER_BORDER + 2));
    flip_many(&s, &g, SUMS, order - 48, order);
    golden_drop(&g);
    sweep_end(&s, __func__);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_folds_are_read_whole),
        cmocka_unit_test(truncated_shard_is_noticed_or_harmless),
        cmocka_unit_test(shard_truncated_under_an_open_fold_is_noticed_or_harmless),
        cmocka_unit_test(flipped_shard_bit_is_noticed_or_harmless),
        cmocka_unit_test(flipped_index_bit_is_noticed_or_harmless),
        cmocka_unit_test(flipped_index_bit_without_sums_is_noticed_or_harmless),
        cmocka_unit_test(flipped_bit_in_mixed_index_is_noticed_or_harmless),
        cmocka_unit_test(flipped_bit_in_mixed_index_without_sums_is_noticed_or_harmless),
        cmocka_unit_test(flipped_bit_in_index_of_doubles_is_noticed_or_harmless),
        cmocka_unit_test(
            flipped_bit_in_index_of_doubles_without_sums_is_noticed_or_harmless),
        cmocka_unit_test(cut_index_is_noticed_or_harmless),
        cmocka_unit_test(cut_index_without_sums_is_noticed_or_harmless),
        cmocka_unit_test(cut_mixed_index_without_sums_is_noticed_or_harmless),
        cmocka_unit_test(extreme_number_in_index_is_noticed_or_harmless),
        cmocka_unit_test(extreme_number_in_index_without_sums_is_noticed_or_harmless),
        cmocka_unit_test(flipped_sums_bit_is_noticed_or_harmless),
        cmocka_unit_test(flipped_bit_in_mixed_sums_is_noticed_or_harmless),
        cmocka_unit_test(cut_sums_is_noticed_or_harmless),
        cmocka_unit_test(extreme_number_in_sums_is_noticed_or_harmless),
        cmocka_unit_test(damaged_shard_is_noticed_or_harmless),
        cmocka_unit_test(damaged_mixed_shard_is_noticed_or_harmless),
        cmocka_unit_test(damage_beside_sums_is_not_called_missing),
        cmocka_unit_test(flipped_bit_beside_the_border_of_a_page_is_noticed),
    };
    return cmocka_run_group_tests(tests, scratch_in_memory, scratch_remove);
}
