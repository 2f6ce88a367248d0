/* Collections: valid and invalid sources, the numbers of classes, and cancelling. */
#include "support.h"

#include <sys/stat.h>

#include "itar/collection.h"

static tarn_error err;

typedef struct seen {
    unsigned puts, notices;
    unsigned stop_after;               /* after this many puts; 0: never */
    char last[TARN_ERROR_MESSAGE_MAX]; /* notice, or the value of cls */
} seen;

static void on_notice(void *context, const tarn_error *what)
{
    seen *s = context;
    s->notices++;
    snprintf(s->last, sizeof s->last, "%s", what->message);
}

static tarn_status on_put(void *context, unsigned part, const char *key,
                          const tarn_field *fields, size_t count, tarn_error *why)
{
    seen *s = context;
    (void)part, (void)key, (void)why;
    s->puts++;
    for (size_t i = 0; i < count; i++)
        if (strcmp(fields[i].name, "cls") == 0)
            snprintf(s->last, sizeof s->last, "%.*s", (int)fields[i].size,
                     (const char *)fields[i].data);
    return TARN_OK;
}

static int on_progress(void *context, uint64_t done, uint64_t total)
{
    seen *s = context;
    (void)total;
    return s->stop_after && done >= s->stop_after;
}

/* Creates a folder with one file in it. */
static const char *folder_with(const char *folder, const char *file)
{
    const char *path = scratch_path(folder);
    char name[1024];
    mkdir(path, 0777);
    snprintf(name, sizeof name, "%s/%s", path, file);
    write_file(name, "x", 1);
    return path;
}

static tarn__collection *begin(seen *s, bool classes, const char *output)
{
    tarn__collection *c;
    tarn__collection_options o = {0};
    o.notice = on_notice;
    o.notice_context = s;
    o.class_from_dir = classes;
    o.output = output;
    OK(tarn__collection_new(&o, &c, &err));
    return c;
}

static tarn_status walk(tarn__collection *c, seen *s, unsigned threads)
{
    tarn_walk_options o = TARN_WALK_OPTIONS_INIT;
    o.threads = threads;
    o.progress = on_progress;
    o.progress_context = s;
    return tarn__collection_walk(c, &o, on_put, s, &err);
}

static void stopping_takes_no_more_than_the_sample_at_hand(void **state)
{
    (void)state;
    char name[32];
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "k%02d.txt", i);
        folder_with("stop", name);
    }
    for (unsigned threads = 1; threads <= 4; threads += 3) {
        seen s = {.stop_after = 3};
        tarn__collection *c = begin(&s, false, NULL);
        OK(tarn__collection_add_folder(c, scratch_path("stop"), &err));
        OK(tarn__collection_group(c, &err));
        FAILS(TARN_ERR_CANCELLED, "stopped", walk(c, &s, threads));
        assert_int_equal(s.puts, 3);
        tarn__collection_free(c);
    }
}

static void the_output_is_not_a_source(void **state)
{
    (void)state;
    seen s = {0};
    folder_with("source", "a.txt");
    folder_with("source/out", "old.tar");
    tarn__collection *c = begin(&s, false, scratch_path("source/out"));
    OK(tarn__collection_add_folder(c, scratch_path("source"), &err));
    OK(tarn__collection_group(c, &err));
    assert_int_equal(c->n_samples, 1);
    assert_int_equal(c->skipped, 1);
    assert_non_null(strstr(s.last, "the output"));
    tarn__collection_free(c);
    c = begin(&s, false, scratch_path("source"));
    FAILS(TARN_ERR_USAGE, "also the output",
          tarn__collection_add_folder(c, scratch_path("source"), &err));
    tarn__collection_free(c);
}

static void classes_keep_the_numbers_they_were_given(void **state)
{
    (void)state;
    seen s = {0};
    mkdir(scratch_path("classes"), 0777);
    folder_with("classes/bee", "b.txt");
    tarn__collection *c = begin(&s, true, NULL);
    OK(tarn__collection_add_class(c, "cat", 3, &err));
    OK(tarn__collection_add_class(c, "bee", 3, &err));
    FAILS(TARN_ERR_FORMAT, "twice", tarn__collection_add_class(c, "cat", 3, &err));
    OK(tarn__collection_add_folder(c, scratch_path("classes"), &err));
    FAILS(TARN_ERR_USAGE, "before", tarn__collection_add_class(c, "dog", 3, &err));
    OK(tarn__collection_group(c, &err));
    OK(walk(c, &s, 1));
    assert_string_equal(s.last, "1");
    assert_string_equal(tarn__names_get(&c->classes, 0).data, "cat");
    assert_int_equal(c->classes.count, 2);
    tarn__collection_free(c);
}

static void new_classes_follow_sorted_by_name(void **state)
{
    (void)state;
    seen s = {0};
    mkdir(scratch_path("later"), 0777);
    folder_with("later/owl", "o.txt");
    folder_with("later/ant", "a.txt");
    tarn__collection *c = begin(&s, true, NULL);
    OK(tarn__collection_add_class(c, "yak", 3, &err));
    OK(tarn__collection_add_folder(c, scratch_path("later"), &err));
    OK(tarn__collection_group(c, &err));
    assert_string_equal(tarn__names_get(&c->classes, 0).data, "yak");
    assert_string_equal(tarn__names_get(&c->classes, 1).data, "ant");
    assert_string_equal(tarn__names_get(&c->classes, 2).data, "owl");
    tarn__collection_free(c);
}

static void a_line_without_a_value_is_reported(void **state)
{
    (void)state;
    static const char text[] = "key,txt\na,x\nb,\n";
    seen s = {0};
    write_file(scratch_path("m.csv"), text, sizeof text - 1);
    tarn__collection *c = begin(&s, false, NULL);
    OK(tarn__collection_add_manifest(c, scratch_path("m.csv"), &err));
    OK(tarn__collection_group(c, &err));
    assert_int_equal(c->n_samples, 1);
    assert_int_equal(c->skipped, 1);
    assert_non_null(strstr(s.last, "line 3"));
    tarn__collection_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stopping_takes_no_more_than_the_sample_at_hand),
        cmocka_unit_test(the_output_is_not_a_source),
        cmocka_unit_test(classes_keep_the_numbers_they_were_given),
        cmocka_unit_test(new_classes_follow_sorted_by_name),
        cmocka_unit_test(a_line_without_a_value_is_reported),
    };
    return cmocka_run_group_tests_name("collect", tests, NULL, scratch_remove);
}
