/* Members, walks, files and parts of every kind of dataset. Tests specific to folds are
 * in test_fold.c and test_adopt.c. */
#include "support.h"

#include <sys/stat.h>
#include <unistd.h>

#include "mixed.h"

static tarn_error err;
static mixed data;

enum { KINDS = 5 };

static tarn_dataset *set_of(int kind)
{
    tarn_dataset *all[KINDS] = {data.fold, data.gnz, data.iac, data.all, data.shuffled};
    return all[kind];
}

/* --- Walks -------------------------------------------------------------------------- */

typedef struct seen {
    tarn_dataset *set;
    uint64_t count;
    tarn_text key;
} seen;

static void field_is(const seen *s, const tarn_field *field)
{
    uint32_t number;
    tarn_view view;
    OK(tarn_dataset_field_find(s->set, field->name, &number, &err));
    OK(tarn_dataset_get(s->set, s->count, number, &view, &err));
    assert_int_equal(field->size, view.size);
    assert_memory_equal(field->data, view.data, view.size);
    tarn_view_release(&view);
}

static tarn_status see(void *context, unsigned part, const char *key,
                       const tarn_field *fields, size_t count, tarn_error *why)
{
    seen *s = context;
    (void)why;
    assert_int_equal(part, 0);
    OK(tarn_dataset_key(s->set, s->count, &s->key, &err));
    assert_string_equal(key, s->key.data);
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++)
        field_is(s, &fields[i]);
    s->count++;
    return TARN_OK;
}

static void walks_give_what_is_read_sample_by_sample(void **state)
{
    (void)state;
    for (tarn_io io = TARN_IO_AUTO; io <= TARN_IO_READ; io++) {
        OK(mixed_open(&data, scratch(), io, &err));
        for (int k = 0; k < KINDS; k++)
            for (unsigned threads = 1; threads <= 4; threads += 3) {
                seen s = {.set = set_of(k)};
                tarn_walk_options o = TARN_WALK_OPTIONS_INIT;
                o.threads = threads;
                OK(tarn_dataset_walk(s.set, &o, see, &s, &err));
                assert_int_equal(s.count, tarn_dataset_count(s.set));
                tarn_text_reset(&s.key);
            }
        mixed_close(&data);
    }
}

/* --- Members ------------------------------------------------------------------------ */

static void members_are_where_their_fields_are(void **state)
{
    (void)state;
    OK(mixed_open(&data, scratch(), TARN_IO_AUTO, &err));
    for (int k = 0; k < KINDS; k++) {
        tarn_dataset *set = set_of(k);
        for (uint64_t i = 0; i < tarn_dataset_count(set); i += 7) {
            tarn_stored members[16];
            size_t n;
            OK(tarn_dataset_members(set, i, members, 16, &n, &err));
            assert_true(n > 0 && n <= 16);
            for (size_t m = 0; m < n; m++) {
                tarn_place place;
                OK(tarn_dataset_locate(set, i, members[m].field, &place, sizeof place,
                                       &err));
                assert_string_equal(members[m].path, place.path);
                assert_int_equal(members[m].shard, place.shard);
                assert_int_equal(members[m].offset, place.offset);
                assert_int_equal(members[m].bytes, place.size);
                assert_true((members[m].row == TARN_NO_ROW) == (set != data.fold));
                assert_true(m == 0 || members[m - 1].offset <= members[m].offset);
            }
        }
    }
    mixed_close(&data);
}

static void made_fields_are_members_too(void **state)
{
    (void)state;
    tarn_dataset *some;
    tarn_stored members[4];
    size_t n;
    OK(mixed_open(&data, scratch(), TARN_IO_AUTO, &err));
    OK(tarn_dataset_with_fields(data.fold, (const char *[]){"_idx", "cls"}, 2, &some,
                                &err));
    OK(tarn_dataset_members(some, 123, members, 4, &n, &err));
    assert_int_equal(n, 2);
    assert_int_equal(members[0].field, 1);
    assert_int_equal(members[1].field, 0);
    assert_int_equal(members[1].bytes, 3);
    assert_true(members[1].offset == TARN_NO_OFFSET && members[1].row == TARN_NO_ROW);
    tarn_dataset_close(some);
    mixed_close(&data);
}

/* --- Files and parts ---------------------------------------------------------------- */

static void what_has_no_name_is_extracted_as_key_and_field(void **state)
{
    (void)state;
    tarn_dataset *two;
    tarn_view view;
    uint64_t files;
    size_t size;
    OK(mixed_open(&data, scratch(), TARN_IO_AUTO, &err));
    OK(tarn_dataset_slice(data.gnz, 5, 1, 2, &two, &err));
    OK(tarn_dataset_extract(two, scratch_path("files"), NULL, &files, &err));
    assert_int_equal(files, 2 * (uint64_t)(tarn_dataset_field(two, 1) ? 2 : 1));
    unsigned char *bytes = read_file(scratch_path("files/6.cls"), &size);
    OK(tarn_dataset_get(two, 1, 0, &view, &err));
    assert_int_equal(size, view.size);
    assert_memory_equal(bytes, view.data, size);
    tarn_view_release(&view);
    free(bytes);
    FAILS(TARN_ERR_EXISTS, "5.cls",
          tarn_dataset_extract(two, scratch_path("files"), NULL, &files, &err));
    assert_int_equal(files, 0);
    tarn_dataset_close(two);
    mixed_close(&data);
}

static void parts_have_their_fractions_in_every_kind(void **state)
{
    (void)state;
    const double fractions[] = {0.25, 0.5};
    static uint8_t parts[MIXED_ALL];
    OK(mixed_open(&data, scratch(), TARN_IO_AUTO, &err));
    for (int k = 0; k < KINDS; k++) {
        uint64_t n = tarn_dataset_count(set_of(k)), counts[3] = {0};
        OK(tarn_dataset_parts(set_of(k), fractions, 2, 1, parts, &err));
        for (uint64_t i = 0; i < n; i++)
            counts[parts[i]]++;
        assert_int_equal(counts[1], n / 4);
        assert_int_equal(counts[2], n / 2);
    }
    mixed_close(&data);
}

static void only_a_fold_has_shards_to_take(void **state)
{
    (void)state;
    tarn_fold_info info;
    tarn_fold_writer *w;
    OK(mixed_open(&data, scratch(), TARN_IO_AUTO, &err));
    OK(tarn_dataset_fold(data.fold, &info, sizeof info, &err));
    assert_int_equal(info.n_shards, MIXED_FOLD / 10);
    struct stat st;
    assert_int_equal(stat(info.shards[7], &st), 0);
    assert_int_equal(info.sizes[7], st.st_size);
    FAILS(TARN_ERR_USAGE, "not a fold",
          tarn_dataset_fold(data.gnz, &info, sizeof info, &err));
    FAILS(TARN_ERR_USAGE, "not a fold",
          tarn_dataset_fold(data.all, &info, sizeof info, &err));
    OK(tarn_fold_writer_open(scratch_path("taken"), "f", NULL, &w, &err));
    FAILS(TARN_ERR_USAGE, "not a fold",
          tarn_fold_writer_adopt(w, data.iac, NULL, 0, TARN_ADOPT_LINK, &err));
    tarn_fold_writer_abandon(w, false, NULL);
    mixed_close(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walks_give_what_is_read_sample_by_sample),
        cmocka_unit_test(members_are_where_their_fields_are),
        cmocka_unit_test(made_fields_are_members_too),
        cmocka_unit_test(what_has_no_name_is_extracted_as_key_and_field),
        cmocka_unit_test(parts_have_their_fractions_in_every_kind),
        cmocka_unit_test(only_a_fold_has_shards_to_take),
    };
    mixed_make(scratch());
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
