/* Lists of URLs. That braces mean what Python's braceexpand says is tested against the
 * real one in tests/interop. */
#include "support.h"

#include <sys/stat.h>
#include <unistd.h>

static tarn_error err;

/* The URLs a list stands for, joined with blanks. */
static tarn_status expand(const char *list, char *out, size_t size)
{
    tarn_urls *urls;
    TARN_TRY(tarn_urls_expand(list, &urls, &err));
    out[0] = '\0';
    for (size_t i = 0; i < tarn_urls_count(urls); i++) {
        size_t used = strlen(out);
        snprintf(out + used, size - used, "%s%s", i ? " " : "", tarn_urls_get(urls, i));
    }
    assert_null(tarn_urls_get(urls, tarn_urls_count(urls)));
    tarn_urls_free(urls);
    return TARN_OK;
}

static void assert_expands(const char *list, const char *want)
{
    char got[4096];
    OK(expand(list, got, sizeof got));
    assert_string_equal(got, want);
}

static void assert_fails(tarn_status code, const char *part, const char *list)
{
    char got[4096];
    FAILS(code, part, expand(list, got, sizeof got));
}

static void braces_stand_for_several(void **state)
{
    (void)state;
    assert_expands("t_{0008..0011}.tar", "t_0008.tar t_0009.tar t_0010.tar t_0011.tar");
    assert_expands("{0..10..5}", "0 5 10");
    assert_expands("{10..0..-5}", "10 5 0");
    assert_expands("{-1..01}", "-1 00 01");
    assert_expands("{a..e}{1,2}", "a1 a2 b1 b2 c1 c2 d1 d2 e1 e2");
    assert_expands("{Y..b}", "Y Z a b");
    assert_expands("{a,b{1..2},}x", "ax b1x b2x x");
    assert_expands("{b}", "{b}");
    assert_expands("{b{1,2}}", "{b1} {b2}");
    assert_expands("\\{a,b\\}", "{a,b}");
    assert_expands("{a\\,b,c}", "a,b c");
    assert_expands("plain", "plain");
}

static void braces_that_do_not_match_are_an_error(void **state)
{
    (void)state;
    assert_fails(TARN_ERR_USAGE, "do not match", "{a,b");
    assert_fails(TARN_ERR_USAGE, "do not match", "a}");
    assert_fails(TARN_ERR_USAGE, "do not match", "{1{2,3}");
}

static void lists_are_split_first(void **state)
{
    (void)state;
    assert_expands("a{1,2}::s3://b/{x,y}::-", "a1 a2 s3://b/x s3://b/y -");
    assert_fails(TARN_ERR_USAGE, "empty URL", "a::");
    assert_fails(TARN_ERR_USAGE, "empty URL", "");
    assert_fails(TARN_ERR_USAGE, "empty URL", "a::::b");
}

static void too_many_are_refused_at_once(void **state)
{
    (void)state;
    assert_fails(TARN_ERR_LIMIT, "1000000 URLs", "{0..1000000}");
    assert_fails(TARN_ERR_LIMIT, "1000000 URLs", "{0..999}{0..999}{0..1}");
    assert_fails(TARN_ERR_LIMIT, "1000000 URLs",
                 "{-9000000000000000000..9000000000000000000}");
    assert_fails(TARN_ERR_LIMIT, "1000000 URLs", "{0..999999}::x");
    assert_fails(TARN_ERR_LIMIT, "too large", "{1..99999999999999999999}");
    tarn_urls *urls;
    OK(tarn_urls_expand("{0..999}{000..999}", &urls, &err));
    assert_int_equal(tarn_urls_count(urls), 1000000);
    assert_string_equal(tarn_urls_get(urls, 999999), "999999");
    tarn_urls_free(urls);
    /* Many parts, each of which doubles nothing: the time is that of the result. */
    char *many = malloc(60003);
    memcpy(many, "{0..999}", 8);
    for (int i = 8; i < 60000; i += 4)
        memcpy(many + i, "{xy}", 4);
    many[60000] = '\0';
    OK(tarn_urls_expand(many, &urls, &err));
    assert_int_equal(tarn_urls_count(urls), 1000);
    tarn_urls_free(urls);
    free(many);
    char deep[256] = "";
    memset(deep, '{', 100);
    memset(deep + 100, '}', 100);
    assert_fails(TARN_ERR_LIMIT, "deep", deep);
    char *wide = malloc(60001);
    memset(wide, 'x', 60000);
    memcpy(wide + 59000, "{0..99999}", 10);
    wide[60000] = '\0';
    assert_fails(TARN_ERR_LIMIT, "256 MiB", wide);
    free(wide);
}

static void globs_stand_for_the_files_there_are(void **state)
{
    (void)state;
    static const char *const names[] = {"b.tar", "a.tar", "B.tar", "c.txt", "[x].tar"};
    assert_int_equal(chdir(scratch()), 0);
    mkdir("globs", 0755);
    for (int i = 0; i < 5; i++) {
        char path[64];
        snprintf(path, sizeof path, "globs/%s", names[i]);
        write_file(path, "", 0);
    }
    assert_expands("globs/*.tar", "globs/B.tar globs/[x].tar globs/a.tar globs/b.tar");
    assert_expands("globs/{?.txt,[ab].tar}", "globs/c.txt globs/a.tar globs/b.tar");
    assert_expands("globs/[x].tar", "globs/[x].tar"); /* a file of that name */
    assert_fails(TARN_ERR_NOT_FOUND, "no file has such a name", "globs/*.zip");
    assert_expands("http://host/*.tar", "http://host/*.tar");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(braces_stand_for_several),
        cmocka_unit_test(braces_that_do_not_match_are_an_error),
        cmocka_unit_test(lists_are_split_first),
        cmocka_unit_test(too_many_are_refused_at_once),
        cmocka_unit_test(globs_stand_for_the_files_there_are),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
