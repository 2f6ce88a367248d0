/* Lists of URLs: "::" separates them, braces expand to several, and globs match local
 * files and the objects of stores that have listings. Braces have the same meaning as in
 * Python's braceexpand, because WebDataset's users have such patterns in their scripts.
 */
#include <errno.h>
#include <fnmatch.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tarn/source.h>

#include "base/error.h"
#include "io/listing.h"
#include "io/url.h"

enum {
    MAX_BRACE_DEPTH = 64, /* nested braces */
    MAX_DIGITS = 255,     /* of a number in a range, including padding */
};

/* NUL-terminated texts, stored consecutively. */
typedef struct texts {
    tarn__buf chars;
    size_t *starts;
    size_t count, capacity;
} texts;

static void texts_init(texts *t)
{
    *t = (texts){0};
    tarn__buf_init(&t->chars, TARN_MAX_URL_BYTES);
}

static void texts_reset(texts *t)
{
    tarn__buf_reset(&t->chars);
    free(t->starts);
    *t = (texts){0};
}

static const char *text_at(const texts *t, size_t i)
{
    return t->chars.data + t->starts[i];
}

static tarn_status fail_too_many(tarn_error *err)
{
    return tarn__fail(err, TARN_ERR_LIMIT,
                      "the pattern expands to more than %u URLs or %u MiB", TARN_MAX_URLS,
                      TARN_MAX_URL_BYTES >> 20);
}

/* A text is built with begin, any number of add, and end. */
static tarn_status text_begin(texts *t, tarn_error *err)
{
    if (t->count >= TARN_MAX_URLS) return fail_too_many(err);
    TARN_TRY(tarn__grow(&t->starts, sizeof *t->starts, t->count, &t->capacity, err));
    t->starts[t->count] = t->chars.size;
    return TARN_OK;
}

static tarn_status text_add(texts *t, const char *piece, size_t len, tarn_error *err)
{
    if (len > TARN_MAX_URL_BYTES - t->chars.size) return fail_too_many(err);
    return tarn__buf_add(&t->chars, piece, len, err);
}

static tarn_status text_end(texts *t, tarn_error *err)
{
    TARN_TRY(text_add(t, "", 1, err));
    t->count++;
    return TARN_OK;
}

static tarn_status add_one(texts *t, const char *text, size_t len, tarn_error *err)
{
    TARN_TRY(text_begin(t, err));
    TARN_TRY(text_add(t, text, len, err));
    return text_end(t, err);
}

/* The consecutive parts of a pattern; each stands for one or more texts. */
typedef struct parts {
    texts *items;
    size_t *chosen; /* of each part, during the product */
    size_t count, capacity;
} parts;

static void parts_reset(parts *p)
{
    for (size_t i = 0; i < p->count; i++)
        texts_reset(&p->items[i]);
    free(p->items);
    free(p->chosen);
    *p = (parts){0};
}

static tarn_status parts_next(parts *p, texts **out, tarn_error *err)
{
    TARN_TRY(tarn__grow(&p->items, sizeof *p->items, p->count, &p->capacity, err));
    *out = &p->items[p->count++];
    texts_init(*out);
    return TARN_OK;
}

/* Advances to the next choice, the last part changing fastest; false after the last. */
static bool choose_next(parts *p)
{
    for (size_t i = p->count; i-- > 0;) {
        if (++p->chosen[i] < p->items[i].count) return true;
        p->chosen[i] = 0;
    }
    return false;
}

/* Adds every combination of one text from each part. */
static tarn_status add_product(texts *t, parts *p, tarn_error *err)
{
    uint64_t total = 1;
    for (size_t i = 0; i < p->count; i++) {
        total *= p->items[i].count; /* both factors are within the limit */
        if (total > TARN_MAX_URLS) return fail_too_many(err);
    }
    p->chosen = calloc(p->count + 1, sizeof *p->chosen);
    if (!p->chosen) return tarn__fail_memory(err);
    do {
        TARN_TRY(text_begin(t, err));
        for (size_t i = 0; i < p->count; i++) {
            const char *piece = text_at(&p->items[i], p->chosen[i]);
            TARN_TRY(text_add(t, piece, strlen(piece), err));
        }
        TARN_TRY(text_end(t, err));
    } while (choose_next(p));
    return TARN_OK;
}

/* --- Ranges ---------------------------------------------------------------------- */

typedef struct range {
    bool letters;
    bool too_large; /* a number does not fit */
    int64_t first, last, step;
    int width; /* of zero-padded numbers; 0: no padding */
} range;

/* Reads a decimal number at *at; false if there is none. */
static bool take_number(const char **at, const char *end, range *r, int64_t *out,
                        int *out_len)
{
    const char *p = *at;
    bool negative = p < end && *p == '-';
    int64_t value = 0;
    if (negative) p++;
    const char *digits = p;
    for (; p < end && *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *p - '0', &value))
            r->too_large = true;
    if (p == digits) return false;
    if (p - *at > MAX_DIGITS) r->too_large = true;
    *out_len = (int)(p - *at);
    *out = negative ? -value : value;
    *at = p;
    return true;
}

static bool take_dots(const char **at, const char *end)
{
    if (end - *at < 2 || (*at)[0] != '.' || (*at)[1] != '.') return false;
    *at += 2;
    return true;
}

static bool is_padded(const char *number, int len)
{
    if (*number == '-') {
        number++;
        len--;
    }
    return len > 1 && *number == '0';
}

/* "..STEP" or nothing. The sign of a step is ignored, and 0 means 1. */
static bool take_step(const char **at, const char *end, range *r)
{
    int len;
    r->step = 1;
    if (*at == end) return true;
    if (!take_dots(at, end) || !take_number(at, end, r, &r->step, &len) || *at != end)
        return false;
    if (r->step < 0) r->step = -r->step;
    if (r->step == 0) r->step = 1;
    return true;
}

static bool parse_numbers(const char *at, const char *end, range *r)
{
    const char *first = at, *last;
    int first_len, last_len;
    if (!take_number(&at, end, r, &r->first, &first_len) || !take_dots(&at, end))
        return false;
    last = at;
    if (!take_number(&at, end, r, &r->last, &last_len) || !take_step(&at, end, r))
        return false;
    if (is_padded(first, first_len) || is_padded(last, last_len))
        r->width = first_len > last_len ? first_len : last_len;
    return true;
}

/* Upper case comes directly before lower case, without the characters in between. */
static int letter_place(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    return -1;
}

static bool parse_letters(const char *at, const char *end, range *r)
{
    *r = (range){.letters = true};
    if (end - at < 4 || letter_place(at[0]) < 0) return false;
    r->first = letter_place(*at++);
    if (!take_dots(&at, end) || letter_place(*at) < 0) return false; /* one is left */
    r->last = letter_place(*at++);
    return take_step(&at, end, r);
}

static tarn_status add_range(texts *t, const range *r, tarn_error *err)
{
    if (r->too_large)
        return tarn__fail(err, TARN_ERR_LIMIT, "a number in a range is too large");
    bool up = r->first < r->last;
    uint64_t span = up ? (uint64_t)r->last - (uint64_t)r->first
                       : (uint64_t)r->first - (uint64_t)r->last;
    uint64_t count = span / (uint64_t)r->step + 1;
    if (count > TARN_MAX_URLS) return fail_too_many(err);
    for (uint64_t i = 0; i < count; i++) {
        char text[MAX_DIGITS + 1];
        int64_t value = (int64_t)((uint64_t)r->first + (up ? i : -i) * (uint64_t)r->step);
        int len = 1;
        if (r->letters)
            text[0] = (char)(value < 26 ? 'A' + value : 'a' + value - 26);
        else
            len = snprintf(text, sizeof text, "%0*lld", r->width, (long long)value);
        TARN_TRY(add_one(t, text, (size_t)len, err));
    }
    return TARN_OK;
}

/* --- Braces ---------------------------------------------------------------------- */

static tarn_status expand_braces(texts *t, const char *at, const char *end, int depth,
                                 tarn_error *err);

/* The next special character; an escape has to be skipped with the character after it. */
static const char *next_mark(const char *at, const char *end)
{
    while (at < end && *at != '{' && *at != '}' && *at != ',')
        at += *at == '\\' ? 2 : 1;
    return at < end ? at : end;
}

/* "a,b,c": adds the expansion of each item. *out_found is false if there is no comma. */
static tarn_status add_sequence(texts *t, const char *start, const char *end, int depth,
                                bool *out_found, tarn_error *err)
{
    int open = 0;
    *out_found = false;
    for (const char *at = next_mark(start, end); at < end; at = next_mark(at + 1, end)) {
        if (*at == '{') open++;
        if (*at == '}') open--;
        if (*at != ',' || open != 0) continue;
        *out_found = true;
        TARN_TRY(expand_braces(t, start, at, depth, err));
        start = at + 1;
    }
    return *out_found ? expand_braces(t, start, end, depth, err) : TARN_OK;
}

static tarn_status add_braced(texts *t, const char *text, tarn_error *err)
{
    TARN_TRY(text_begin(t, err));
    TARN_TRY(text_add(t, "{", 1, err));
    TARN_TRY(text_add(t, text, strlen(text), err));
    TARN_TRY(text_add(t, "}", 1, err));
    return text_end(t, err);
}

/* Expands the text between two braces; without a comma or range the braces are
 * literal. */
static tarn_status add_braces(texts *t, const char *start, const char *end, int depth,
                              tarn_error *err)
{
    range r = {0};
    bool found;
    if (parse_numbers(start, end, &r) || parse_letters(start, end, &r))
        return add_range(t, &r, err);
    TARN_TRY(add_sequence(t, start, end, depth, &found, err));
    if (found) return TARN_OK;
    texts inner;
    texts_init(&inner);
    tarn_status status = expand_braces(&inner, start, end, depth, err);
    for (size_t i = 0; i < inner.count && status == TARN_OK; i++)
        status = add_braced(t, text_at(&inner, i), err);
    texts_reset(&inner);
    return status;
}

static tarn_status add_literal(parts *p, const char *start, const char *end,
                               tarn_error *err)
{
    texts *part;
    if (start == end) return TARN_OK;
    TARN_TRY(parts_next(p, &part, err));
    return add_one(part, start, (size_t)(end - start), err);
}

/* Splits a pattern into parts that still contain their escapes. A closing brace before
 * any opening one is literal if an opening one makes up for it later. */
static tarn_status find_parts(parts *p, const char *start, const char *end, int depth,
                              tarn_error *err)
{
    int open = 0;
    texts *part;
    for (const char *at = next_mark(start, end); at < end; at = next_mark(at + 1, end)) {
        if (*at == '{' && open++ == 0) {
            TARN_TRY(add_literal(p, start, at, err));
            start = at;
        }
        if (*at == '}' && --open == 0) {
            TARN_TRY(parts_next(p, &part, err));
            TARN_TRY(add_braces(part, start + 1, at, depth + 1, err));
            start = at + 1;
        }
    }
    if (open != 0)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "unbalanced braces; write \\{ or \\} for a brace that is "
                          "part of the name");
    return add_literal(p, start, end, err);
}

static tarn_status expand_braces(texts *t, const char *at, const char *end, int depth,
                                 tarn_error *err)
{
    parts p = {0};
    if (depth > MAX_BRACE_DEPTH)
        return tarn__fail(err, TARN_ERR_LIMIT, "braces are nested more than %d deep",
                          MAX_BRACE_DEPTH);
    tarn_status status = find_parts(&p, at, end, depth, err);
    if (status == TARN_OK) status = add_product(t, &p, err);
    parts_reset(&p);
    return status;
}

/* --- Globs and lists ------------------------------------------------------------- */

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_glob(const char *url)
{
    struct stat st;
    if (!strpbrk(url, "*?[")) return false;
    if (tarn__url_scheme(url)) return tarn__has_listing(url);
    return lstat(url, &st) != 0; /* a file with exactly this name is meant */
}

static tarn_status add_glob(texts *t, const char *pattern, tarn_error *err)
{
    glob_t found;
    tarn_status status = TARN_OK;
    switch (glob(pattern, GLOB_NOSORT | GLOB_NOESCAPE, NULL, &found)) {
    case 0:
        break;
    case GLOB_NOMATCH:
        return tarn__fail_at(err, TARN_ERR_NO_FILE, pattern, TARN_NO_OFFSET,
                             "no file matches");
    case GLOB_NOSPACE:
        return tarn__fail_memory(err);
    default:
        return tarn__fail_errno(err, pattern, errno, "cannot list");
    }
    /* Sort by bytes: glob would use the collation of the locale. */
    qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, compare_texts);
    for (size_t i = 0; i < found.gl_pathc && status == TARN_OK; i++)
        status = add_one(t, found.gl_pathv[i], strlen(found.gl_pathv[i]), err);
    globfree(&found);
    return status;
}

static tarn_status add_matching(texts *t, const char *pattern, const tarn__listing *found,
                                tarn_error *err)
{
    size_t before = t->count;
    for (size_t i = 0; i < found->count; i++) {
        const char *url = found->objects[i].url;
        if (strcmp(url, pattern) == 0) { /* an object with exactly this name is meant */
            t->count = before;
            return add_one(t, url, strlen(url), err);
        }
        if (fnmatch(pattern, url, FNM_PATHNAME | FNM_NOESCAPE | FNM_PERIOD) == 0)
            TARN_TRY(add_one(t, url, strlen(url), err));
    }
    if (t->count > before) return TARN_OK;
    char *shown = tarn__url_shown(pattern);
    tarn_status status =
        tarn__fail_at(err, TARN_ERR_NO_FILE, shown, TARN_NO_OFFSET, "no object matches");
    free(shown);
    return status;
}

/* Lists what begins like the pattern, and nothing below unless the pattern goes there. */
static tarn_status add_remote_glob(texts *t, const char *pattern, tarn_error *err)
{
    tarn__listing found;
    size_t fixed = strcspn(pattern, "*?[");
    if (tarn__listing_names(pattern) > pattern + fixed)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "*, ? and [] stand for parts of the names of objects, not of "
                          "buckets, containers or repositories");
    char *prefix = strndup(pattern, fixed);
    if (!prefix) return tarn__fail_memory(err);
    tarn_status status =
        tarn__listing_read(&found, prefix, strchr(pattern + fixed, '/') != NULL, err);
    free(prefix);
    TARN_TRY(status);
    status = add_matching(t, pattern, &found, err);
    tarn__listing_reset(&found);
    return status;
}

/* Removes backslashes and keeps the characters that they escape. */
static void drop_escapes(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        if (from[0] == '\\' && from[1] && from[1] != '\n') from++;
        *to++ = *from;
    }
    *to = '\0';
}

static tarn_status add_item(texts *t, const char *item, size_t len, tarn_error *err)
{
    texts found;
    if (len == 0) return tarn__fail(err, TARN_ERR_USAGE, "an empty URL in the list");
    texts_init(&found);
    tarn_status status = expand_braces(&found, item, item + len, 0, err);
    for (size_t i = 0; i < found.count && status == TARN_OK; i++) {
        char *url = found.chars.data + found.starts[i];
        drop_escapes(url);
        if (is_glob(url))
            status = tarn__url_scheme(url) ? add_remote_glob(t, url, err)
                                           : add_glob(t, url, err);
        else
            status = add_one(t, url, strlen(url), err);
    }
    texts_reset(&found);
    return status;
}

static tarn_status add_list(texts *t, const char *list, tarn_error *err)
{
    if (strlen(list) > TARN__MAX_URL)
        return tarn__fail(err, TARN_ERR_LIMIT, "the list has more than %u bytes",
                          TARN__MAX_URL);
    for (;;) {
        const char *end = strstr(list, "::");
        TARN_TRY(add_item(t, list, end ? (size_t)(end - list) : strlen(list), err));
        if (!end) return TARN_OK;
        list = end + 2;
    }
}

/* Whether path is DIR:FOLD with an existing folder, whatever the name looks like. */
static bool is_fold(const char *path)
{
    const char *colon = strrchr(path, ':');
    if (!colon || colon == path || strchr(colon, '/')) return false;
    char *folder = strndup(path, (size_t)(colon - path));
    bool exists = folder && access(folder, F_OK) == 0;
    free(folder);
    return exists;
}

bool tarn_urls_is_list(const char *path)
{
    return path && access(path, F_OK) != 0 &&
           (strstr(path, "::") || strpbrk(path, "{*?[")) && !is_fold(path);
}

/* Allocates one block: the struct, the pointers and the texts. */
static tarn_status give_out(const texts *t, tarn_urls **out, tarn_error *err)
{
    const char **urls;
    tarn_urls *made = malloc(sizeof *made + t->count * sizeof *urls + t->chars.size);
    if (!made) return tarn__fail_memory(err);
    urls = (const char **)(made + 1);
    char *chars = (char *)(urls + t->count);
    memcpy(chars, t->chars.data, t->chars.size);
    for (size_t i = 0; i < t->count; i++)
        urls[i] = chars + t->starts[i];
    *made = (tarn_urls){urls, t->count};
    *out = made;
    return TARN_OK;
}

tarn_status tarn_urls_expand(const char *list, tarn_urls **out, tarn_error *err)
{
    TARN__NEED(err, "list", list);
    TARN__NEED(err, "out", out);
    *out = NULL;
    texts found;
    texts_init(&found);
    tarn_status status = add_list(&found, list, err);
    if (status == TARN_OK) status = give_out(&found, out, err);
    texts_reset(&found);
    return status;
}

void tarn_urls_free(tarn_urls *urls)
{
    free(urls);
}
