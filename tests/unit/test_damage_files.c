/* Damaged array files, IAC files, and the journals of both kinds of writers. Each gives
 * an error when it is opened, read or verified, or exactly the content of the intact
 * file; a damaged journal changes nothing. */
#include "damage.h"
#include "iac_help.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/crc.h"
#include "base/names.h"
#include "gnz/writer.h"
#include "itar/journal.h"

static tarn_error err;

static bool has_message(void)
{
    return err.code > TARN_END && err.message[0];
}

/* --- Array files ------------------------------------------------------------------- */

enum { ARRAYS = 5 };

static const struct {
    const char *name, *type;
    unsigned ndim;
    uint64_t shape[3];
} arrays[ARRAYS] = {{"a matrix", "<f4", 2, {40, 30}},
                    {"empty", "<i8", 2, {0, 4}},
                    {"label", "|u1", 1, {40}},
                    {"scalar", ">f8", 0, {0}},
                    {"words", "|S5", 1, {40}}};

static unsigned char *values_of(size_t number, tarn_array *out)
{
    unsigned char *data = malloc(8192);
    tarn_dtype dtype;
    assert_non_null(data);
    for (size_t i = 0; i < 8192; i++)
        data[i] = (unsigned char)((i * 31 + number * 7) >> 2);
    OK(tarn_dtype_parse(arrays[number].type, strlen(arrays[number].type), &dtype, &err));
    OK(tarn_array_init(out, data, dtype, arrays[number].ndim, arrays[number].shape,
                       &err));
    return data;
}

static void make_gnz(const char *path, const char *metadata)
{
    tarn_gnz_writer *w;
    unsigned char *data[ARRAYS];
    tarn_array array[ARRAYS];
    tarn_gnz_writer_options o = TARN_GNZ_WRITER_OPTIONS_INIT;
    o.overwrite = o.checksums = o.no_sync = true;
    OK(tarn_gnz_writer_open(path, &o, &w, &err));
    OK(tarn_gnz_writer_metadata(w, metadata, strlen(metadata), &err));
    for (size_t i = 0; i < ARRAYS; i++) {
        data[i] = values_of(i, &array[i]);
        OK(tarn_gnz_writer_add(w, arrays[i].name, &array[i], NULL, &err));
    }
    OK(tarn_gnz_writer_finish(w, &err));
    for (size_t i = 0; i < ARRAYS; i++)
        free(data[i]);
}

/* All ways of reading, whatever the header says; returns whether everything is unchanged.
 */
static bool same_array(tarn_gnz *gnz, size_t number)
{
    tarn_gnz_array info;
    tarn_gnz_view view;
    tarn_array want;
    OK(tarn_gnz_array_get(gnz, number, &info, sizeof info, &err));
    size_t bytes = (size_t)info.bytes;
    unsigned char *read = malloc(bytes + 1), *data = values_of(number, &want);
    assert_non_null(read);
    bool same = strcmp(info.name, arrays[number].name) == 0 &&
                info.ndim == arrays[number].ndim && info.dtype.kind == want.dtype.kind &&
                info.dtype.order == want.dtype.order &&
                info.dtype.size == want.dtype.size && !info.fortran &&
                memcmp(info.shape, want.shape, info.ndim * sizeof *info.shape) == 0;
    if (tarn_gnz_read(gnz, number, 0, info.ndim ? info.shape[0] : 1, read, bytes, &err) !=
        TARN_OK)
        assert_true(has_message());
    else if (same)
        same = memcmp(read, data, bytes) == 0;
    if (tarn_gnz_get(gnz, number, TARN_GNZ_READ, &view, &err) == TARN_OK) {
        same = same && tarn_array_bytes(&view.array) == bytes &&
               memcmp(view.array.data, data, bytes) == 0;
        tarn_gnz_view_release(&view);
    }
    free(read);
    free(data);
    return same;
}

static bool same_gnz(tarn_gnz *gnz, const char *metadata)
{
    tarn_gnz_info info;
    tarn_gnz_info_get(gnz, &info, sizeof info);
    bool same = info.arrays == ARRAYS && info.metadata_size == strlen(metadata) &&
                memcmp(info.metadata, metadata, info.metadata_size) == 0;
    for (size_t i = 0; i < info.arrays; i++)
        if (i >= ARRAYS || !same_array(gnz, i)) same = false;
    return same;
}

static const char *check_gnz(void *context, const unsigned char *bytes, size_t size)
{
    const char *path = context;
    tarn_gnz *gnz;
    tarn_verify_report report;
    write_file(path, bytes, size);
    err = (tarn_error){0};
    if (tarn_gnz_open(path, NULL, &gnz, &err) != TARN_OK)
        return has_message() ? NULL : "a failure without a message";
    bool same = same_gnz(gnz, "{\"who\": \"kea\"}");
    tarn_gnz_close(gnz);
    if (same) return NULL;
    OK(tarn_verify(path, NULL, &report, sizeof report, &err));
    return report.problems ? NULL : "other contents, and verification finds nothing";
}

static void damaged_array_file_is_noticed_or_harmless(void **state)
{
    size_t size;
    sweep s = {0};
    char path[300];
    (void)state;
    snprintf(path, sizeof path, "%s", scratch_path("a.gnz"));
    make_gnz(path, "{\"who\": \"kea\"}");
    unsigned char *bytes = read_file(path, &size);
    assert_true(size <= 65536);
    sweep_bytes(&s, bytes, size, 131, check_gnz, path);
    free(bytes);
    sweep_end(&s, "gnz");
}

/* Found by the sweep: one flipped bit in the name of the checksums' key removes them. */
static void changed_name_of_the_checksums_is_noticed(void **state)
{
    static const char *const names[] = {"metadata", "__tarn__"};
    size_t size;
    sweep s = {0};
    char path[300];
    (void)state;
    snprintf(path, sizeof path, "%s", scratch_path("name.gnz"));
    make_gnz(path, "{\"who\": \"kea\"}");
    unsigned char *bytes = read_file(path, &size);
    for (size_t i = 0; i < 2; i++) {
        unsigned char *at = memmem(bytes, size, names[i], 8);
        assert_non_null(at);
        for (unsigned bit = 0; bit < 64; bit++) {
            snprintf(s.what, sizeof s.what, "bit %u of %s", bit, names[i]);
            at[bit / 8] ^= (unsigned char)(1u << bit % 8);
            sweep_judge(&s, check_gnz(path, bytes, size));
            at[bit / 8] ^= (unsigned char)(1u << bit % 8);
        }
    }
    free(bytes);
    sweep_end(&s, "names in a gnz header");
}

/* --- The journal of an update ------------------------------------------------------- */

typedef struct update {
    char path[300], journal[300];
    unsigned char *before, *after;
    size_t size, head;
} update;

/* Repair finishes the update, or reports what is wrong and leaves the file as it is. */
static const char *check_update(void *context, const unsigned char *bytes, size_t size)
{
    update *u = context;
    size_t got;
    tarn_verify_report report;
    tarn_verify_options o = TARN_VERIFY_OPTIONS_INIT;
    o.repair = true;
    write_file(u->path, u->before, u->size);
    write_file(u->journal, bytes, size);
    err = (tarn_error){0};
    bool refused = tarn_verify(u->path, &o, &report, sizeof report, &err) != TARN_OK;
    unsigned char *now = read_file(u->path, &got);
    bool same = got == u->size && memcmp(now, u->before, got) == 0,
         done = got == u->size && memcmp(now, u->after, got) == 0;
    free(now);
    if (refused && !has_message()) return "a failure without a message";
    if (refused && !same) return "refused, and the file was changed";
    return done || same ? NULL : "a file that is neither the old nor the new one";
}

static void damaged_journal_of_an_update_is_noticed(void **state)
{
    update u;
    size_t size;
    sweep s = {0};
    (void)state;
    snprintf(u.path, sizeof u.path, "%s", scratch_path("u.gnz"));
    snprintf(u.journal, sizeof u.journal, "%s", scratch_path(".u.gnz.journal"));
    make_gnz(u.path, "{\"who\": \"tui\"}");
    u.after = read_file(u.path, &u.size);
    make_gnz(u.path, "{\"who\": \"kea\"}");
    u.before = read_file(u.path, &size);
    assert_int_equal(size, u.size);
    u.head = 1024;
    OK(tarn__gnz_journal_write(u.path, (char *)u.before, (char *)u.after, u.head, 0,
                               &err));
    unsigned char *journal = read_file(u.journal, &size);
    assert_null(check_update(&u, journal, size));
    sweep_bytes(&s, journal, size, 31, check_update, &u);
    unlink(u.journal);
    free(journal);
    free(u.before);
    free(u.after);
    sweep_end(&s, "journal of an array file");
}

/* --- The journal of a fold's writer ------------------------------------------------- */

typedef struct commit {
    char path[300], index[300];
} commit;

static const char *check_commit(void *context, const unsigned char *bytes, size_t size)
{
    const commit *c = context;
    tarn__names coming, going;
    tarn__journal_state state;
    tarn__names_init(&coming);
    tarn__names_init(&going);
    write_file(c->path, bytes, size);
    OK(tarn__journal_load(c->path, "f", c->index, &coming, &going, &state, &err));
    bool same = coming.count == 2 && going.count == 1 &&
                !strcmp(tarn__names_get(&coming, 0).data, "f_0.tar") &&
                !strcmp(tarn__names_get(&coming, 1).data, "f_1.tar") &&
                !strcmp(tarn__names_get(&going, 0).data, "f_9.tar");
    bool none = coming.count == 0 && going.count == 0;
    const char *why = NULL;
    if (state == TARN__JOURNAL_LIVE ? !same : !none) why = "other shards come or go";
    tarn__names_reset(&coming);
    tarn__names_reset(&going);
    return why;
}

static void damaged_journal_of_a_fold_does_not_count(void **state)
{
    static const char *names[] = {"f_0.tar", "f_1.tar"};
    commit c;
    size_t size;
    sweep s = {0};
    tarn__names going;
    uint32_t id;
    (void)state;
    snprintf(c.path, sizeof c.path, "%s", scratch_path(".f.journal"));
    snprintf(c.index, sizeof c.index, "%s", scratch_path("none.taridx"));
    tarn__names_init(&going);
    OK(tarn__names_add(&going, "f_9.tar", 7, &id, &err));
    tarn__journal journal = {NULL, names, 2, &going};
    OK(tarn__journal_write(&journal, c.path, true, &err));
    unsigned char *bytes = read_file(c.path, &size);
    assert_null(check_commit(&c, bytes, size));
    sweep_bytes(&s, bytes, size, 1, check_commit, &c);
    tarn__names_reset(&going);
    free(bytes);
    sweep_end(&s, "journal of a fold");
}

/* The content of a journal, with a correct checksum after it. */
static void write_commit(const char *path, const char *text)
{
    char whole[400];
    int n = snprintf(whole, sizeof whole, "%s", text);
    n += snprintf(whole + n, sizeof whole - (size_t)n, "%08x\n",
                  tarn__crc32c(0, whole, (size_t)n));
    write_file(path, whole, (size_t)n);
}

static tarn_status load_commit(const char *path, const char *index,
                               tarn__journal_state *state, size_t *names)
{
    tarn__names coming, going;
    tarn__names_init(&coming);
    tarn__names_init(&going);
    tarn_status status =
        tarn__journal_load(path, "f", index, &coming, &going, state, &err);
    *names = coming.count + going.count;
    tarn__names_reset(&coming);
    tarn__names_reset(&going);
    return status;
}

static void journals_of_a_fold_are_read_to_the_letter(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        tarn__journal_state want;
        size_t names;
    } cases[] = {
        {"tarn commit 1\n-\n+f_0.tar\n-f_1.tar\n", TARN__JOURNAL_LIVE, 2},
        {"tarn commit 1\n-\n", TARN__JOURNAL_LIVE, 0},
        {"tarn commit 1\n-", TARN__JOURNAL_LIVE, 0},
        {"tarn commit 1\n-\n+f_0.tar", TARN__JOURNAL_LIVE, 1},
        {"tarn commit 1\n0123\n+f_0.tar\n", TARN__JOURNAL_PAST, 0},
        {"tarn commit 1\n-\n+f_0.tar\n*f_1.tar\n", TARN__JOURNAL_DAMAGED, 0},
        {"tarn commit 1\n-\n+f_0.tar\n-../f_1.tar\n", TARN__JOURNAL_DAMAGED, 0},
        {"tarn commit 1\n-\n+g_0.tar\n", TARN__JOURNAL_DAMAGED, 0},
        {"tarn commit 2\n-\n+f_0.tar\n", TARN__JOURNAL_DAMAGED, 0},
        {"", TARN__JOURNAL_DAMAGED, 0},
    };
    const char *path = scratch_path(".letter.journal");
    tarn__journal_state got;
    size_t names;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_commit(path, cases[i].text);
        OK(load_commit(path, NULL, &got, &names));
        if (got != cases[i].want || names != cases[i].names)
            fail_msg("case %zu: %d, %zu names", i, (int)got, names);
    }
    /* Links are not followed, folders are not read, and a missing journal is ignored. */
    const char *link = scratch_path(".link.journal");
    write_commit(path, cases[0].text);
    assert_int_equal(symlink(path, link), 0);
    OK(load_commit(link, NULL, &got, &names));
    assert_int_equal(got, TARN__JOURNAL_DAMAGED);
    OK(load_commit(scratch(), NULL, &got, &names));
    assert_int_equal(got, TARN__JOURNAL_DAMAGED);
    OK(load_commit(scratch_path("none"), NULL, &got, &names));
    assert_int_equal(got, TARN__JOURNAL_NONE);
    /* If it cannot be checked whether a journal exists, there may be one. */
    char under[400];
    snprintf(under, sizeof under, "%s/under", path);
    FAILS(TARN_ERR_NO_FILE, "cannot open", load_commit(under, NULL, &got, &names));
    FAILS(TARN_ERR_NO_FILE, "cannot open", load_commit(path, under, &got, &names));
    tarn__journal journal = {under, NULL, 0, NULL};
    FAILS(TARN_ERR_NO_FILE, "cannot open",
          tarn__journal_write(&journal, scratch_path(".new.journal"), true, &err));
    assert_int_not_equal(access(scratch_path(".new.journal"), F_OK), 0);
}

/* --- IAC files ---------------------------------------------------------------------- */

enum { RECORDS = 12 };

static size_t record_of(unsigned i, unsigned char *out)
{
    size_t size = 5 + i * 29 % 90;
    for (size_t k = 0; k < size; k++)
        out[k] = (unsigned char)(i * 53 + k * 11);
    return size;
}

static void table(const char *column, const char *prefix, unsigned rows,
                  struct ArrowArrayStream *out)
{
    const char *columns[] = {column};
    char text[16];
    tarn_iac_rows *r;
    OK(tarn_iac_rows_new(columns, 1, &r, &err));
    for (unsigned i = 0; i < rows; i++) {
        int len = snprintf(text, sizeof text, "%s%u", prefix, i);
        OK(rows_text(r, 0, text, (size_t)len, &err));
    }
    OK(tarn_iac_rows_finish(r, out, &err));
}

static void make_iac(const char *path)
{
    struct ArrowArrayStream slides, index;
    tarn_iac_writer *w;
    unsigned char bytes[256];
    table("text:slide_id", "s", 1, &slides);
    table("text:name", "name", RECORDS, &index);
    OK(tarn_iac_writer_open(path, &slides, &index, NULL, &w, &err));
    for (unsigned i = 0; i < RECORDS; i++)
        OK(tarn_iac_writer_add(w, bytes, record_of(i, bytes), &err));
    OK(tarn_iac_writer_finish(w, &err));
}

/* Payloads have CRCs, and are right or an error. Header and tables have none in this
 * format: their content is in bounds, but may be wrong. */
static const char *check_iac(void *context, const unsigned char *bytes, size_t size)
{
    const char *path = context, *why = NULL;
    unsigned char want[256];
    tarn_iac *pack;
    tarn_iac_info info;
    tarn_iac_options o = TARN_IAC_OPTIONS_INIT;
    uint64_t row;
    tarn_view view;
    o.check = true;
    o.max_table_bytes = 1 << 20;
    write_file(path, bytes, size);
    err = (tarn_error){0};
    if (tarn_iac_open(path, &o, &pack, &err) != TARN_OK)
        return has_message() ? NULL : "a failure without a message";
    tarn_iac_info_get(pack, &info, sizeof info);
    for (uint64_t i = 0; i < info.records && i < 2 * RECORDS; i++) {
        if (tarn_iac_view(pack, i, false, &view, &err) != TARN_OK) continue;
        size_t len = record_of((unsigned)i, want);
        if (view.size != len || memcmp(view.data, want, len) != 0)
            why = info.has_checksums ? "another payload" : "another payload, unchecked";
        tarn_view_release(&view);
    }
    for (size_t c = 0; c < iac_columns(pack, TARN_IAC_INDEX); c++)
        (void)!tarn_iac_find(pack, iac_column(pack, TARN_IAC_INDEX, c).name, "name3", 5,
                             0, &row, &err);
    tarn_iac_close(pack);
    return why;
}

static void damaged_pack_gives_no_other_payload(void **state)
{
    size_t size;
    sweep s = {0};
    char path[300];
    (void)state;
    snprintf(path, sizeof path, "%s", scratch_path("a.iac"));
    make_iac(path);
    unsigned char *bytes = read_file(path, &size);
    assert_null(check_iac(path, bytes, size));
    sweep_bytes(&s, bytes, size, 301, check_iac, path);
    free(bytes);
    sweep_end(&s, "iac");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_array_file_is_noticed_or_harmless),
        cmocka_unit_test(changed_name_of_the_checksums_is_noticed),
        cmocka_unit_test(damaged_journal_of_an_update_is_noticed),
        cmocka_unit_test(damaged_journal_of_a_fold_does_not_count),
        cmocka_unit_test(journals_of_a_fold_are_read_to_the_letter),
        cmocka_unit_test(damaged_pack_gives_no_other_payload),
    };
    return cmocka_run_group_tests(tests, scratch_in_memory, scratch_remove);
}
