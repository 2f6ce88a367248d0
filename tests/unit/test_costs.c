/* Many records of one key, many fields of one sample, many empty texts: each lookup must
 * not go through all of them. Nothing is timed here; with slow algorithms these tests do
 * not end. */
#include "iac_help.h"
#include "packing.h"

enum { REPEATED = 20000, FIELDS = 60000, TWICE = 200000 };

static void add_text(tarn_iac_rows *rows, size_t column, const char *text)
{
    OK(rows_text(rows, column, text, strlen(text), &err));
}

/* Payloads are the low byte of a record's number. */
static void finish_pack(const char *path, tarn_iac_rows *rows, unsigned records)
{
    struct ArrowArrayStream slides, index;
    tarn_iac_write_options o = TARN_IAC_WRITE_OPTIONS_INIT;
    tarn_iac_writer *w;
    o.overwrite = true;
    one_slide(&slides);
    OK(tarn_iac_rows_finish(rows, &index, &err));
    OK(tarn_iac_writer_open(path, &slides, &index, &o, &w, &err));
    for (unsigned i = 0; i < records; i++) {
        unsigned char byte = (unsigned char)i;
        OK(tarn_iac_writer_add(w, &byte, 1, &err));
    }
    OK(tarn_iac_writer_finish(w, &err));
}

/* --- Keys in a mix ----------------------------------------------------------------- */

/* Every third record is "a", the others are "b". */
static tarn_dataset *open_repeated(unsigned records)
{
    static const char *const columns[] = {"text:name"};
    tarn_iac_rows *rows;
    tarn_dataset *d;
    tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
    const char *path = scratch_path("repeated.iac");
    OK(tarn_iac_rows_new(columns, 1, &rows, &err));
    for (unsigned i = 0; i < records; i++)
        add_text(rows, 0, i % 3 == 0 ? "a" : "b");
    finish_pack(path, rows, records);
    o.key_column = "name";
    OK(tarn_dataset_open(path, &o, &d, &err));
    return d;
}

static void check_kept(tarn_dataset *d, const char *key)
{
    tarn_dataset *kept;
    tarn_text text = {0};
    uint64_t n = 0, first = TARN_NO_SAMPLE, found;
    OK(keep_keys(d, &key, 1, NULL, &kept, &err));
    for (uint64_t i = 0; i < tarn_dataset_count(d); i++) {
        OK(tarn_dataset_key(d, i, &text, &err));
        if (strcmp(text.data, key) != 0) continue;
        if (first == TARN_NO_SAMPLE) first = i;
        assert_int_equal(row_of(kept, n++), row_of(d, i));
    }
    assert_int_equal(tarn_dataset_count(kept), n);
    OK(find_key(d, key, &found, &err));
    assert_int_equal(found, first);
    tarn_text_reset(&text);
    tarn_dataset_close(kept);
}

/* For a part and some of its samples; rounds: how often each comes. */
static tarn_dataset *mix_of(tarn_dataset *whole, uint64_t from, uint64_t rounds)
{
    tarn_dataset *some, *mix;
    tarn_mix_options o = TARN_MIX_OPTIONS_INIT;
    OK(tarn_dataset_slice(whole, from, 1, tarn_dataset_count(whole) - from, &some, &err));
    uint64_t counts[] = {tarn_dataset_count(whole) * rounds + 2,
                         tarn_dataset_count(some) * rounds / 2};
    tarn_dataset *parts[] = {whole, some};
    o.counts = counts;
    OK(tarn_dataset_mix(parts, 2, &o, &mix, &err));
    tarn_dataset_close(some);
    return mix;
}

static void keys_that_repeat_in_a_mix_are_all_found(void **state)
{
    (void)state;
    tarn_dataset *few = open_repeated(10), *mix = mix_of(few, 4, 3);
    tarn_dataset *nested = mix_of(mix, 7, 2);
    tarn_dataset *part;
    OK(tarn_dataset_slice(nested, 5, 1, tarn_dataset_count(nested) - 8, &part, &err));
    check_kept(mix, "a");
    check_kept(mix, "b");
    check_kept(nested, "a");
    check_kept(part, "b");
    tarn_dataset_close(part);
    tarn_dataset_close(nested);
    tarn_dataset_close(mix);
    tarn_dataset_close(few);

    tarn_dataset *many = open_repeated(REPEATED);
    mix = mix_of(many, 1, 1);
    check_kept(mix, "b");
    tarn_dataset_close(mix);
    tarn_dataset_close(many);
}

static void keys_that_repeat_in_an_order_are_found(void **state)
{
    (void)state;
    tarn_order_options o = TARN_ORDER_OPTIONS_INIT;
    tarn_dataset *many = open_repeated(REPEATED), *shuffled, *part;
    tarn_text key = {0};
    uint64_t found, first = 0;
    o.kind = TARN_ORDER_SHUFFLE;
    OK(tarn_dataset_order(many, &o, &shuffled, &err));
    OK(tarn_dataset_slice(shuffled, REPEATED - 1, -1, REPEATED - 5, &part, &err));
    check_kept(part, "a");
    check_kept(part, "b");
    for (const char *want = "a"; want; want = *want == 'a' ? "b" : NULL) {
        for (first = 0; first < REPEATED; first++) {
            OK(tarn_dataset_key(shuffled, first, &key, &err));
            if (strcmp(key.data, want) == 0) break;
        }
        OK(find_key(shuffled, want, &found, &err));
        assert_int_equal(found, first);
    }
    tarn_text_reset(&key);
    tarn_dataset_close(part);
    tarn_dataset_close(shuffled);
    tarn_dataset_close(many);
}

/* --- Fields of a sample ------------------------------------------------------------ */

static void check_field(tarn_dataset *d, const char *name, unsigned record)
{
    uint32_t number = (uint32_t)strtoul(name + 1, NULL, 10) + 1;
    tarn_view view;
    assert_string_equal(tarn_dataset_field(d, number), name);
    OK(tarn_dataset_get(d, 0, number, &view, &err));
    assert_int_equal(view.size, 1);
    assert_int_equal(view.data[0], (unsigned char)record);
    tarn_view_release(&view);
}

/* One sample that has "twice" very often, then f0 up to the last; and one with only
 * "twice". */
static tarn_dataset *open_long(void)
{
    static const char *const columns[] = {"text:key", "text:field"};
    tarn_iac_rows *rows;
    tarn_dataset *d;
    const char *path = scratch_path("long.iac");
    OK(tarn_iac_rows_new(columns, 2, &rows, &err));
    for (unsigned i = 0; i < TWICE + FIELDS + 1; i++) {
        char field[16];
        snprintf(field, sizeof field, "f%u", i - TWICE);
        add_text(rows, 0, i < TWICE + FIELDS ? "long" : "short");
        add_text(rows, 1, i < TWICE || i == TWICE + FIELDS ? "twice" : field);
    }
    finish_pack(path, rows, TWICE + FIELDS + 1);
    OK(tarn_dataset_open(path, NULL, &d, &err));
    return d;
}

static void fields_of_a_long_sample_are_found(void **state)
{
    (void)state;
    tarn_dataset *d = open_long();
    tarn_view view;
    tarn_loader *l;
    tarn_loader_options o = TARN_LOADER_OPTIONS_INIT;
    for (unsigned i = 0; i < FIELDS; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%u", i);
        check_field(d, name, TWICE + i);
    }
    FAILS(TARN_ERR_AMBIGUOUS, "has field twice twice",
          tarn_dataset_get(d, 0, 0, &view, &err));
    FAILS(TARN_ERR_NO_FIELD, "has no field f0", tarn_dataset_get(d, 1, 1, &view, &err));
    OK(tarn_dataset_get(d, 1, 0, &view, &err));
    tarn_view_release(&view);
    o.batch = 1;
    OK(tarn_loader_open(d, &o, &l, &err));
    tarn_loader_close(l);
    tarn_dataset_close(d);
}

/* --- Empty rows --------------------------------------------------------------------- */

static const char *empty_rows(const char *count)
{
    unsigned char file[4096] = {'G', 'N', 'Z', '1'};
    const char *path = scratch_path("empty.gnz");
    file[4] = (unsigned char)snprintf((char *)file + 8, sizeof file - 8,
                                      "{\"version\": 1, \"arrays\": {\"_key\": "
                                      "{\"offset\": 4096, \"shape\": [%s], "
                                      "\"dtype\": \"|S0\"}}}",
                                      count);
    write_file(path, file, sizeof file);
    return path;
}

static void empty_texts_are_not_keys(void **state)
{
    (void)state;
    const char *path = empty_rows("1048576");
    tarn_dataset *d;
    tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
    uint64_t found;
    OK(tarn_dataset_open(path, NULL, &d, &err));
    FAILS(TARN_ERR_NO_SAMPLE, "no row x", find_key(d, "x", &found, &err));
    OK(find_key(d, "1048575", &found, &err));
    assert_int_equal(found, 1048575);
    tarn_dataset_close(d);
    o.key_column = "_key";
    FAILS(TARN_ERR_USAGE, "cannot be used as keys",
          tarn_dataset_open(path, &o, &d, &err));
}

static void samples_of_no_bytes_are_not_many(void **state)
{
    (void)state;
    tarn_dataset *d;
    FAILS(TARN_ERR_LIMIT, "claims 1048577 samples of 0 bytes",
          tarn_dataset_open(empty_rows("1048577"), NULL, &d, &err));
    FAILS(TARN_ERR_LIMIT, "4611686018427387904 samples",
          tarn_dataset_open(empty_rows("4611686018427387904"), NULL, &d, &err));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_that_repeat_in_a_mix_are_all_found),
        cmocka_unit_test(keys_that_repeat_in_an_order_are_found),
        cmocka_unit_test(fields_of_a_long_sample_are_found),
        cmocka_unit_test(empty_texts_are_not_keys),
        cmocka_unit_test(samples_of_no_bytes_are_not_many),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
