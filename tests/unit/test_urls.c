/* Lists of URLs. tests/interop compares the meaning of braces with the real braceexpand.
 */
#include "support.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "io/url.h"

static tarn_error err;

/* The URLs of a list, joined with blanks. */
static tarn_status expand(const char *list, char *out, size_t size)
{
    tarn_urls *urls;
    TARN_TRY(tarn_urls_expand(list, &urls, &err));
    out[0] = '\0';
    for (size_t i = 0; i < urls->count; i++) {
        size_t used = strlen(out);
        snprintf(out + used, size - used, "%s%s", i ? " " : "", urls->urls[i]);
    }
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

static void braces_expand_to_several(void **state)
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
    assert_fails(TARN_ERR_USAGE, "unbalanced braces", "{a,b");
    assert_fails(TARN_ERR_USAGE, "unbalanced braces", "a}");
    assert_fails(TARN_ERR_USAGE, "unbalanced braces", "{1{2,3}");
}

/* What is nearly a range is text, as in braceexpand. */
static void text_that_is_not_a_range_stays_text(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{}",          "{-}",       "{1}",        "{1.}",    "{1.2}",   "{1.x2}",
        "{1..}",       "{1..x}",    "{1..-}",     "{1..2x}", "{1..2.}", "{1..2.3}",
        "{1..2..}",    "{1..2..x}", "{a..}",      "{a.b}",   "{a..1}",  "{a..bc}",
        "{a..b..}",    "{a..b..x}", "{1..2..3x}", "{1..b}",  "{ab..c}", "{1..2..3..4}",
        "{a..b..1..}", "{_..a}",    "{a.._}",     "{a..b.1}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_expands(texts[i], texts[i]);
    assert_expands("{1..3..0}", "1 2 3");
    assert_expands("{c..a..2}", "c a");
    assert_expands("{a..c..0}", "a b c");
    assert_expands("{1..2,x}", "1..2 x");
    assert_expands("a\\\nb", "a\\\nb"); /* a line's end needs no escape */
    assert_expands("a\\", "a\\");
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
    assert_fails(TARN_ERR_LIMIT, "too large", "{1..9223372036854775808}");
    assert_expands("{9223372036854775806..9223372036854775807}",
                   "9223372036854775806 9223372036854775807");
    char zeros[300] = "{";
    memset(zeros + 1, '0', 255);
    snprintf(zeros + 256, 40, "..1}");
    OK(expand(zeros, (char[4096]){0}, 4096));
    memset(zeros + 1, '0', 256);
    snprintf(zeros + 257, 40, "..1}");
    assert_fails(TARN_ERR_LIMIT, "too large", zeros);
    char *list = malloc((64 << 10) + 2);
    memset(list, 'u', (64 << 10) + 1);
    list[(64 << 10) + 1] = '\0';
    assert_fails(TARN_ERR_LIMIT, "the list has more than 65536 bytes", list);
    free(list);
    tarn_urls *urls;
    OK(tarn_urls_expand("{0..999}{000..999}", &urls, &err));
    assert_int_equal(urls->count, 1000000);
    assert_string_equal(urls->urls[999999], "999999");
    tarn_urls_free(urls);
    /* Many parts without alternatives: the time is proportional to the result. */
    char *many = malloc(60003);
    memcpy(many, "{0..999}", 8);
    for (int i = 8; i < 60000; i += 4)
        memcpy(many + i, "{xy}", 4);
    many[60000] = '\0';
    OK(tarn_urls_expand(many, &urls, &err));
    assert_int_equal(urls->count, 1000);
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

static void globs_expand_to_existing_files(void **state)
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
    assert_fails(TARN_ERR_NO_FILE, "no file matches", "globs/*.zip");
    assert_expands("http://host/*.tar", "http://host/*.tar");
}

static void percent_signs_go_there_and_back(void **state)
{
    (void)state;
    static const struct {
        const char *text, *kept, *coded; /* with slashes kept, and encoded too */
    } cases[] = {
        {"aZ09-._~", "aZ09-._~", "aZ09-._~"},
        {"a/b c", "a/b%20c", "a%2Fb%20c"},
        {"\xc3\xa9?%", "%C3%A9%3F%25", "%C3%A9%3F%25"},
    };
    static const char *const wrong[] = {"%",   "%4",  "%/1", "%1/",
                                        "%g1", "%1G", "%@1", "%`1"};
    tarn__buf out;
    tarn__buf_init(&out, 1 << 10);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int keep = 0; keep < 2; keep++) {
            const char *want = keep ? cases[i].kept : cases[i].coded;
            char coded[100];
            out.size = 0;
            OK(tarn__url_encode(&out, cases[i].text, strlen(cases[i].text), keep, &err));
            assert_int_equal(out.size, strlen(want));
            assert_memory_equal(out.data, want, out.size);
            memcpy(coded, out.data, out.size);
            size_t size = out.size;
            out.size = 0;
            OK(tarn__url_decode(&out, coded, size, &err));
            assert_int_equal(out.size, strlen(cases[i].text));
            assert_memory_equal(out.data, cases[i].text, out.size);
        }
    out.size = 0;
    OK(tarn__url_decode(&out, "%c3%aF%Af", 9, &err));
    assert_memory_equal(out.data, "\xc3\xaf\xaf", 3);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        FAILS(TARN_ERR_USAGE, "two hex digits",
              tarn__url_decode(&out, wrong[i], strlen(wrong[i]), &err));
    tarn__buf_reset(&out);
}

static void secrets_are_not_shown(void **state)
{
    (void)state;
    static const struct {
        const char *url, *shown;
    } cases[] = {
        {"http://me:word@host/x?sig=1", "http://host/x?..."},
        {"http://me@you@host?a@b", "http://host?..."},
        {"http://host?user@x", "http://host?..."},
        {"http://host/a@b", "http://host/a@b"},
        {"s3://key@bucket/x?y", "s3://bucket/x?y"},
        {"pipe:cat secret", "pipe:cat..."},
        {"pipe:KEY=1 cat", "pipe:..."},
        {"a@b?c", "a@b?c"},
        {"/data/http:/me:word@host/x?sig=1", "/data/http:/host/x?..."},
        {"http://me:wo/rd@host/x", "http://host/x"},
        {"http://me:wo#rd@host/x", "http://host/x"},
        {"http://me:12#rd@host/x", "http://me:12#..."},
        {"http://{me:a@h/a,me:b@h/b}.tar", "http://h/b}.tar"},
        {"http://h:{8000,8001}/a@b", "http://h:{8000,8001}/a@b"},
        {"http://[::1]:80/a@b", "http://[::1]:80/a@b"},
        {"http://h/a::http://me:word@h/b::x", "http://h/a::http://h/b::x"},
        {"http://h/a b?sig=1 2", "http://h/a b?..."},
        {"{http,https}://me:word@h/b", "{http,https}://h/b"},
        {"s3://bucket/x?X-Amz-Signature=1", "s3://bucket/x?..."},
        {"ftp://me:word@host/x", "ftp://host/x"},
        {"/data/c:/a@b?c=1", "/data/c:/a@b?c=1"},
        {"/data/ftp:/me:word@h/x", "/data/ftp:/h/x"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *shown = tarn__url_shown(cases[i].url);
        assert_string_equal(shown, cases[i].shown);
        free(shown);
    }
}

static void secrets_are_not_shown_inside_messages(void **state)
{
    (void)state;
    static const struct {
        const char *text, *shown;
    } cases[] = {
        {"open http://me:word@h/x?sig=1: not found (try it)",
         "open http://h/x?...: not found (try it)"},
        {"not 'http://h/x?sig=1', but \"http://me:word@h\"",
         "not 'http://h/x?...', but \"http://h\""},
        {"URL=http://me:word@h/x, a@b", "URL=http://h/x, a@b"},
        {"a ratio of 3:/4@5", "a ratio of 3:/4@5"},
        {"http://h/x?...: not found", "http://h/x?...: not found"},
    };
    tarn_error e;
    char out[200], long_text[3000];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tarn_hide_secrets(out, sizeof out, cases[i].text, false);
        assert_string_equal(out, cases[i].shown);
        tarn__error_set(&e, TARN_ERR_IO, cases[i].text, 0, "%s", cases[i].text);
        assert_string_equal(e.message, cases[i].shown);
        assert_null(strstr(e.path, "word@"));
    }
    /* What is cut is hidden first. */
    memset(long_text, 'x', sizeof long_text);
    for (size_t size = 1000; size < 1030; size++) {
        snprintf(long_text + size, sizeof long_text - size, " http://me:word@h/%01500d",
                 7);
        tarn__error_set(&e, TARN_ERR_IO, long_text, 0, "%s", long_text);
        assert_null(strstr(e.message, "me:"));
        assert_null(strstr(e.path, "word@"));
    }
    for (size_t size = 0; size < 30; size++) {
        memset(out, 'x', sizeof out);
        assert_true(strlen(tarn_hide_secrets(out, size + 1, "http://a@h/b?c", true)) <=
                    size);
    }
    tarn_hide_secrets(NULL, 0, "http://a@h", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(braces_expand_to_several),
        cmocka_unit_test(braces_that_do_not_match_are_an_error),
        cmocka_unit_test(text_that_is_not_a_range_stays_text),
        cmocka_unit_test(lists_are_split_first),
        cmocka_unit_test(too_many_are_refused_at_once),
        cmocka_unit_test(percent_signs_go_there_and_back),
        cmocka_unit_test(secrets_are_not_shown),
        cmocka_unit_test(secrets_are_not_shown_inside_messages),
        cmocka_unit_test(globs_expand_to_existing_files),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
