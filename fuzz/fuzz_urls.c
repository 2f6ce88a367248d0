/* Lists of URLs, and functions for a single URL: expansion, display, percent encoding.
 * The input is the text. */
#include "common.h"

#include <math.h>

#include <tarn/source.h>

#include "io/url.h"

enum { LONGEST = 96 };

/* Whether it may expand to thousands of URLs, by a long range or by several adjacent
 * braces: valid, but slow. */
static int makes_many(const char *text)
{
    size_t run = 0, braces = 0, commas = 0, ranges = 0;
    for (const char *at = strstr(text, ".."); at; at = strstr(at + 2, ".."))
        ranges++;
    for (; *text; text++) {
        run = *text >= '0' && *text <= '9' ? run + 1 : 0;
        if (run > 3 && run < 10) return 1;
        braces += *text == '{';
        commas += *text == ',';
    }
    double each = braces ? (double)(commas + braces) / (double)braces : 1;
    return (double)braces * log2(each) + (double)ranges * 10 > 12;
}

static void try_list(const char *text)
{
    tarn_urls *urls, *again;
    tarn_error err;
    tarn_status status = tarn_urls_expand(text, &urls, &err);
    if (status != TARN_OK) {
        CHECK(!urls && err.code == status && err.message[0]);
        CHECK(status == TARN_ERR_USAGE || status == TARN_ERR_LIMIT ||
              status == TARN_ERR_NO_FILE);
        return;
    }
    size_t count = urls->count;
    CHECK(count >= 1 && count <= TARN_MAX_URLS);
    for (size_t i = 0; i < count && i < 100; i++)
        CHECK(strlen(urls->urls[i]) <= strlen(text) * 8 + 256);
    /* Text without special characters expands to itself. */
    if (!strpbrk(text, "{}\\:")) {
        CHECK(tarn_urls_expand(text, &again, &err) == TARN_OK);
        CHECK(count == 1 && strcmp(urls->urls[0], text) == 0);
        tarn_urls_free(again);
    }
    tarn_urls_free(urls);
}

static void try_shown(const char *text)
{
    char *shown = tarn__url_shown(text);
    CHECK(shown);
    for (const char *c = shown; *c; c++)
        CHECK((unsigned char)*c >= 0x20 && *c != 0x7f);
    if (strncmp(text, "http://", 7) == 0)
        CHECK(!strchr(shown, '?') || strstr(shown, "?..."));
    free(shown);
    CHECK(tarn__url_name_length(text) <= strlen(text));
    CHECK(tarn__url_scheme(text) < strlen(text) + 1);
}

static void try_percent(const char *text)
{
    tarn__buf coded, plain;
    size_t len = strlen(text);
    tarn__buf_init(&coded, 3 * len + 1);
    tarn__buf_init(&plain, len + 1);
    CHECK(tarn__url_encode(&coded, text, len, false, NULL) == TARN_OK);
    CHECK(tarn__url_decode(&plain, coded.data, coded.size, NULL) == TARN_OK);
    CHECK(plain.size == len && (!len || memcmp(plain.data, text, len) == 0));
    tarn__buf_reset(&plain);
    (void)!tarn__url_decode(&plain, text, len, NULL);
    tarn__buf_reset(&coded);
    tarn__buf_reset(&plain);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > LONGEST) return 0;
    char *text = malloc(size + 1);
    CHECK(text);
    memcpy(text, data, size);
    text[size] = '\0';
    try_shown(text);
    try_percent(text);
    /* The files that exist must not matter here. */
    if (!strpbrk(text, "*?[") && !makes_many(text)) try_list(text);
    free(text);
    return 0;
}
