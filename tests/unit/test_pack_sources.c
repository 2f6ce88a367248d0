/* tarn_pack: every kind of source and target, the report, and that nothing is left after
 * it was stopped. */
#include "iac_help.h"
#include "support.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

static tarn_error err;

/* --- Sources ------------------------------------------------------------------------ */

/* Two classes of ten samples, and a file that belongs to none. */
static int make_sources(void **state)
{
    char name[64];
    (void)state;
    mkdir(scratch_path("birds"), 0777);
    for (int k = 0; k < 2; k++) {
        snprintf(name, sizeof name, "birds/%s", k ? "kiwi" : "emu");
        mkdir(scratch_path(name), 0777);
        for (int i = 0; i < 10; i++) {
            snprintf(name, sizeof name, "birds/%s/%c%d.txt", k ? "kiwi" : "emu",
                     k ? 'k' : 'e', i);
            write_file(scratch_path(name), "a bird", 6);
        }
    }
    write_file(scratch_path("birds/README"), "x", 1);
    write_file(scratch_path("list.csv"), "key,txt,cls\na,one,1\nb,two,2\n", 28);
    write_file(scratch_path("files.csv"), "file,n\nlist.csv,5\nbirds/README,\n", 32);
    for (int k = 0; k < 2; k++) {
        tarball t = {0};
        for (int i = 0; i < 200; i++) {
            snprintf(name, sizeof name, "in/s%d_%03d.txt", k, i);
            tarball_file(&t, name, "streamed");
        }
        tarball_end(&t);
        snprintf(name, sizeof name, "in_%d.tar", k);
        save_tar(&t, scratch_path(name));
        tarball_reset(&t);
    }
    return 0;
}

static tarn_pack_report report;

static tarn_status pack(const char *source, const char *target,
                        const tarn_pack_options *options)
{
    static char from[1024], to[1024]; /* the report borrows from them */
    const char *sources[] = {from};
    snprintf(from, sizeof from, "%s/%s", scratch(), source);
    snprintf(to, sizeof to, "%s/%s", scratch(), target);
    return tarn_pack(sources, 1, to, options, &report, sizeof report, &err);
}

static uint64_t count_samples(const char *target)
{
    tarn_dataset *d;
    OK(tarn_dataset_open(scratch_path(target), NULL, &d, &err));
    uint64_t count = tarn_dataset_count(d);
    tarn_dataset_close(d);
    return count;
}

static unsigned count_files(const char *folder)
{
    unsigned count = 0;
    DIR *dir = opendir(scratch_path(folder));
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));)
        count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(dir);
    return count;
}

static void every_source_is_packed_into_every_target(void **state)
{
    (void)state;
    static const struct {
        const char *source;
        uint64_t samples, skipped;
    } sources[] = {{"birds", 20, 1},
                   {"birds/emu/e3.txt", 1, 0},
                   {"list.csv", 2, 0},
                   {"in_0.tar", 200, 0},
                   {"in_{0..1}.tar", 400, 0}};
    static const char *const targets[] = {"to_%zu", "to_%zu:all", "to_%zu_%%02d.tar",
                                          "to_%zu.tar.zst"};
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++)
        for (size_t k = 0; k < sizeof targets / sizeof targets[0]; k++) {
            char target[64];
            snprintf(target, sizeof target, targets[k], 10 * i + k);
            OK(pack(sources[i].source, target, NULL));
            assert_int_equal(report.n_folds, 1);
            assert_int_equal(report.folds[0].samples, sources[i].samples);
            assert_int_equal(report.folds[0].shards, 1);
            assert_int_equal(report.skipped, sources[i].skipped);
            if (k == 0) assert_string_equal(report.folds[0].fold, "train");
            if (k == 1) assert_string_equal(report.folds[0].fold, "all");
            if (k > 1) assert_null(report.folds[0].fold);
            if (k < 2) assert_int_equal(count_samples(target), sources[i].samples);
        }
}

static void records_are_packed_from_folders_and_tables(void **state)
{
    (void)state;
    tarn_iac *pack_file;
    tarn_iac_info info;
    uint64_t row;
    OK(pack("birds", "birds.iac", NULL));
    assert_int_equal(report.folds[0].samples, 21); /* README is one of them */
    OK(pack("files.csv", "files.iac", NULL));
    OK(tarn_iac_open(scratch_path("files.iac"), NULL, &pack_file, &err));
    tarn_iac_info_get(pack_file, &info, sizeof info);
    assert_int_equal(info.records, 2);
    assert_string_equal(iac_column(pack_file, TARN_IAC_INDEX, 0).name, "n");
    OK(tarn_iac_find(pack_file, "n", "5", 1, 0, &row, &err));
    assert_int_equal(row, 0);
    tarn_iac_close(pack_file);
    tarn_pack_options o = TARN_PACK_OPTIONS_INIT;
    o.shuffle = true;
    FAILS(TARN_ERR_USAGE, "one folder or manifest", pack("birds", "no.iac", &o));
    FAILS(TARN_ERR_EXISTS, "exists", pack("birds", "birds.iac", NULL));
}

static void splits_are_exact_and_repeatable(void **state)
{
    (void)state;
    static const tarn_pack_split splits[] = {{"val", 0.25}, {"test", 0.1}};
    tarn_pack_options o = TARN_PACK_OPTIONS_INIT;
    o.splits = splits;
    o.n_splits = 2;
    o.seed = 7;
    OK(pack("birds", "split", &o));
    static const uint64_t want[] = {13, 5, 2};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(report.folds[i].samples, want[i]);
    assert_string_equal(report.folds[2].fold, "test");
    OK(pack("in_0.tar", "split_stream", &o));
    uint64_t sum = 0;
    for (size_t i = 0; i < 3; i++) {
        assert_true(report.folds[i].samples > 0);
        sum += report.folds[i].samples;
    }
    assert_int_equal(sum, 200);
    o.fold = "val";
    FAILS(TARN_ERR_USAGE, "fold val is named twice", pack("birds", "no", &o));
    o.fold = NULL;
    FAILS(TARN_ERR_USAGE, "options name folds, too", pack("birds", "no:all", &o));
    FAILS(TARN_ERR_USAGE, "need a folder", pack("birds", "no.tar", &o));
}

static void a_fold_is_appended_to_and_replaced(void **state)
{
    (void)state;
    tarn_fold_writer_options w = TARN_FOLD_WRITER_OPTIONS_INIT;
    tarn_pack_options o = TARN_PACK_OPTIONS_INIT;
    o.writer = &w;
    OK(pack("birds", "grow", &o));
    FAILS(TARN_ERR_EXISTS, "already exists", pack("list.csv", "grow", &o));
    w.append = true;
    OK(pack("list.csv", "grow", &o));
    assert_int_equal(report.folds[0].samples, 2);
    assert_int_equal(count_samples("grow"), 22);
    FAILS(TARN_ERR_EXISTS, "the key a", pack("list.csv", "grow", &o));
    assert_int_equal(count_samples("grow"), 22);
    w.overwrite = true;
    FAILS(TARN_ERR_USAGE, "overwrite cannot be combined", pack("list.csv", "grow", &o));
    w.append = false;
    OK(pack("list.csv", "grow", &o));
    assert_int_equal(count_samples("grow"), 2);
    assert_int_equal(count_files("grow"), 3);
}

/* --- Stopping ----------------------------------------------------------------------- */

typedef struct stopper {
    uint64_t after, calls, done, total, bytes;
} stopper;

static int stop_after(void *context, uint64_t done, uint64_t total, uint64_t bytes)
{
    stopper *s = context;
    s->calls++;
    s->done = done;
    s->total = total;
    s->bytes = bytes;
    return done >= s->after;
}

static void a_stopped_call_leaves_nothing(void **state)
{
    (void)state;
    static const char *const sources[] = {"birds", "in_{0..1}.tar"};
    static const char *const targets[] = {"stopped", "stopped/x.tar", "stopped/x.iac"};
    for (unsigned threads = 1; threads <= 4; threads += 3)
        for (size_t i = 0; i < 5; i++) { /* the last one: a folder as records */
            stopper s = {.after = 5};
            tarn_fold_writer_options w = TARN_FOLD_WRITER_OPTIONS_INIT;
            tarn_pack_options o = TARN_PACK_OPTIONS_INIT;
            w.max_count = i / 2 ? w.max_count : 2; /* some shards are finished by then */
            o.writer = &w;
            o.threads = threads;
            o.class_from_dir = i == 0;
            o.progress = stop_after;
            o.progress_context = &s;
            mkdir(scratch_path("stopped"), 0777);
            FAILS(TARN_ERR_CANCELLED, "stopped",
                  pack(sources[i % 2], targets[i / 2], &o));
            assert_int_equal(report.kept, 0);
            assert_int_equal(count_files("stopped"), 0);
        }
}

static void finished_shards_are_kept_for_resume_on_request(void **state)
{
    (void)state;
    stopper s = {.after = 5};
    tarn_fold_writer_options w = TARN_FOLD_WRITER_OPTIONS_INIT;
    tarn_pack_options o = TARN_PACK_OPTIONS_INIT;
    w.max_count = 2;
    o.writer = &w;
    o.keep_finished = o.class_from_dir = true;
    o.progress = stop_after;
    o.progress_context = &s;
    FAILS(TARN_ERR_CANCELLED, "stopped", pack("birds", "kept", &o));
    assert_int_equal(report.kept, 2);
    s.after = UINT64_MAX;
    w.resume = true;
    OK(pack("birds", "kept", &o));
    assert_int_equal(report.folds[0].samples, 16);
    assert_int_equal(count_samples("kept"), 20);
}

/* The same command may be given again, and what is new needs append. */
static void resuming_a_complete_fold_adds_nothing(void **state)
{
    (void)state;
    stopper s = {.after = UINT64_MAX};
    tarn_fold_writer_options w = TARN_FOLD_WRITER_OPTIONS_INIT;
    tarn_pack_options o = TARN_PACK_OPTIONS_INIT;
    w.max_count = 1;
    o.writer = &w;
    o.keep_finished = true;
    o.progress = stop_after;
    o.progress_context = &s;
    OK(pack("birds", "whole", &o));
    size_t files = count_files("whole");
    w.resume = true;
    OK(pack("birds", "whole", &o));
    assert_int_equal(report.folds[0].samples, 0);
    FAILS(TARN_ERR_EXISTS, "nothing to resume, but it does not have sample ",
          pack("list.csv", "whole", &o));
    assert_int_equal(report.kept, 0);
    assert_int_equal(count_files("whole"), files);
    assert_int_equal(count_samples("whole"), 20);
    w.append = true;
    w.resume = false;
    s.after = 2;
    FAILS(TARN_ERR_CANCELLED, "stopped", pack("list.csv", "whole", &o));
    assert_int_equal(report.kept, 1);
    w.resume = true;
    s.after = UINT64_MAX;
    OK(pack("list.csv", "whole", &o));
    assert_int_equal(report.folds[0].samples, 1);
    assert_int_equal(count_samples("whole"), 22);
    OK(pack("list.csv", "whole", &o));
    assert_int_equal(report.folds[0].samples, 0);
}

static void the_last_call_of_progress_has_all_samples(void **state)
{
    (void)state;
    static const char *const sources[] = {"birds", "in_0.tar"};
    static const uint64_t samples[] = {20, 200};
    for (size_t i = 0; i < 2; i++) {
        stopper s = {.after = UINT64_MAX};
        tarn_pack_options o = TARN_PACK_OPTIONS_INIT;
        o.progress = stop_after;
        o.progress_context = &s;
        OK(pack(sources[i], i ? "seen_0" : "seen_1", &o));
        assert_true(s.calls > 0);
        assert_int_equal(s.done, samples[i]);
        assert_int_equal(s.total, samples[i]);
        assert_int_equal(s.bytes, report.folds[0].payload);
    }
}

/* --- Dry runs, feeds, arguments ----------------------------------------------------- */

static tarn_status count_sample(void *context, unsigned part, const char *key,
                                const tarn_field *fields, size_t count, tarn_error *why)
{
    unsigned *samples = context;
    (void)why;
    assert_int_equal(part, 0);
    assert_true(key[0] == 'e' || key[0] == 'k');
    assert_int_equal(count, 2); /* txt and cls */
    assert_non_null(fields[0].path);
    assert_int_equal(access(fields[0].path, R_OK), 0);
    assert_null(fields[1].path);
    assert_memory_equal(fields[1].data, key[0] == 'k' ? "1" : "0", 1);
    ++*samples;
    return TARN_OK;
}

static void a_dry_run_shows_all_samples_and_writes_nothing(void **state)
{
    (void)state;
    unsigned samples = 0;
    char from[1024];
    const char *sources[] = {from};
    tarn_pack_options o = TARN_PACK_OPTIONS_INIT;
    snprintf(from, sizeof from, "%s", scratch_path("birds"));
    o.dry_run = o.class_from_dir = true;
    o.sample = count_sample;
    o.sample_context = &samples;
    OK(pack("birds", "dry", &o));
    assert_int_equal(samples, 20);
    assert_int_equal(report.classes, 2);
    assert_int_equal(report.fields, 2);
    assert_int_not_equal(access(scratch_path("dry"), F_OK), 0);
    OK(tarn_pack(sources, 1, NULL, &o, NULL, 0, &err));
    FAILS(TARN_ERR_USAGE, "not tar streams", pack("in_0.tar", "dry", &o));
}

typedef struct feeding {
    const char *const *keys;
    size_t count;
    unsigned part;
} feeding;

static tarn_status feed(void *context, void *output, tarn_error *why)
{
    const feeding *f = context;
    tarn_field field = {"txt", "fed", 3, NULL};
    for (size_t i = 0; i < f->count; i++)
        TARN_TRY(tarn_pack_put(output, f->part, f->keys[i], &field, 1, why));
    return TARN_OK;
}

static tarn_status pack_feed(feeding *f, const char *target)
{
    tarn_pack_options o = TARN_PACK_OPTIONS_INIT;
    o.feed = feed;
    o.feed_context = f;
    return tarn_pack(NULL, 0, scratch_path(target), &o, &report, sizeof report, &err);
}

static void samples_come_from_a_function_too(void **state)
{
    (void)state;
    static const char *const keys[] = {"a", "x/b", "x/", "c"},
                             *const twice[] = {"a", "b", "a"}, *const dotted[] = {"a.b"};
    feeding f = {.keys = keys, .count = 4};
    OK(pack_feed(&f, "fed"));
    assert_int_equal(report.folds[0].samples, 3);
    assert_int_equal(report.skipped, 1); /* "x/" is a hidden file */
    tarn_dataset *fold;
    uint64_t sample;
    OK(tarn_dataset_open(scratch_path("fed"), NULL, &fold, &err));
    OK(tarn_dataset_find(fold, (const char *const[]){"x-b"}, 1, &sample, NULL, &err));
    tarn_dataset_close(fold);
    f = (feeding){.keys = twice, .count = 3};
    FAILS(TARN_ERR_EXISTS, "occurs twice", pack_feed(&f, "fed.tar"));
    FAILS(TARN_ERR_EXISTS, "the key a", pack_feed(&f, "fed_twice"));
    assert_int_not_equal(access(scratch_path("fed.tar"), F_OK), 0);
    f = (feeding){.keys = dotted, .count = 1};
    FAILS(TARN_ERR_FORMAT, "contains a dot", pack_feed(&f, "fed_dotted"));
    f.part = 1;
    FAILS(TARN_ERR_USAGE, "no part 1; there are 1", pack_feed(&f, "fed_part"));
}

static void wrong_arguments_are_usage_errors(void **state)
{
    (void)state;
    const char *sources[] = {"birds", NULL};
    tarn_pack_options o = TARN_PACK_OPTIONS_INIT;
    FAILS(TARN_ERR_USAGE, "source", tarn_pack(NULL, 0, "x", NULL, NULL, 0, &err));
    FAILS(TARN_ERR_USAGE, "NULL", tarn_pack(NULL, 1, "x", NULL, NULL, 0, &err));
    FAILS(TARN_ERR_USAGE, "number 1 is NULL",
          tarn_pack(sources, 2, "x", NULL, NULL, 0, &err));
    FAILS(TARN_ERR_USAGE, "target", tarn_pack(sources, 1, NULL, NULL, NULL, 0, &err));
    FAILS(TARN_ERR_USAGE, "empty", tarn_pack(sources, 1, "", NULL, NULL, 0, &err));
    FAILS(TARN_ERR_USAGE, "gnz", tarn_pack(sources, 1, "x.gnz", NULL, NULL, 0, &err));
    assert_int_equal(tarn_pack(sources, 1, NULL, NULL, NULL, 0, NULL), TARN_ERR_USAGE);
    o.n_splits = 1;
    FAILS(TARN_ERR_USAGE, "splits", tarn_pack(sources, 1, "x", &o, NULL, 0, &err));
    o = (tarn_pack_options){0};
    FAILS(TARN_ERR_USAGE, "initialiser", tarn_pack(sources, 1, "x", &o, NULL, 0, &err));
}

static void samples_of_streams_are_chosen_by_key_and_number(void **state)
{
    (void)state;
    static const char *const keys[] = {"s0_007", "s0_150"}, *const none[] = {"nobody"};
    tarn_pack_options o = TARN_PACK_OPTIONS_INIT;
    o.samples = keys;
    o.n_samples = 2;
    OK(pack("in_0.tar", "chosen", &o));
    assert_int_equal(report.folds[0].samples, 2);
    o.samples = none;
    o.n_samples = 1;
    FAILS(TARN_ERR_NOT_FOUND, "no sample with key nobody", pack("in_0.tar", "no", &o));
    FAILS(TARN_ERR_USAGE, "sources, not files", pack("birds", "no", &o));
    o = (tarn_pack_options)TARN_PACK_OPTIONS_INIT;
    o.number = true;
    o.first = 10;
    o.end = 15;
    OK(pack("in_{0..1}.tar", "numbered", &o));
    assert_int_equal(report.folds[0].samples, 5);
    tarn_dataset *fold;
    uint64_t sample;
    OK(tarn_dataset_open(scratch_path("numbered"), NULL, &fold, &err));
    OK(tarn_dataset_find(fold, (const char *const[]){"000000014"}, 1, &sample, NULL,
                         &err));
    tarn_dataset_close(fold);
}

static void older_callers_have_shorter_structs(void **state)
{
    (void)state;
    tarn_pack_options o, same = TARN_PACK_OPTIONS_INIT;
    tarn_pack_options_init(&o, sizeof o);
    assert_memory_equal(&o, &same, sizeof o);
    memset(&o.seed, 0xff, sizeof o - offsetof(tarn_pack_options, seed));
    o.size = offsetof(tarn_pack_options, seed);
    OK(pack("list.csv", "older", &o));
    char from[1024];
    const char *sources[] = {from};
    snprintf(from, sizeof from, "%s", scratch_path("list.csv"));
    report.skipped = 77;
    OK(tarn_pack(sources, 1, scratch_path("older.tar"), NULL, &report,
                 offsetof(tarn_pack_report, skipped), &err));
    assert_int_equal(report.values, 4);
    assert_int_equal(report.skipped, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_source_is_packed_into_every_target),
        cmocka_unit_test(records_are_packed_from_folders_and_tables),
        cmocka_unit_test(splits_are_exact_and_repeatable),
        cmocka_unit_test(a_fold_is_appended_to_and_replaced),
        cmocka_unit_test(a_stopped_call_leaves_nothing),
        cmocka_unit_test(finished_shards_are_kept_for_resume_on_request),
        cmocka_unit_test(resuming_a_complete_fold_adds_nothing),
        cmocka_unit_test(the_last_call_of_progress_has_all_samples),
        cmocka_unit_test(a_dry_run_shows_all_samples_and_writes_nothing),
        cmocka_unit_test(samples_come_from_a_function_too),
        cmocka_unit_test(wrong_arguments_are_usage_errors),
        cmocka_unit_test(samples_of_streams_are_chosen_by_key_and_number),
        cmocka_unit_test(older_callers_have_shorter_structs),
    };
    return cmocka_run_group_tests_name("pack_sources", tests, make_sources,
                                       scratch_remove);
}
