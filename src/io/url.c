/* Schemes, percent escapes, and URLs that may be shown. */
#include "io/url.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/secrets.h"

static bool is_alpha(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

size_t tarn__url_scheme(const char *url)
{
    size_t n = 0;
    if (!is_alpha(url[0])) return 0;
    while (is_alpha(url[n]) || is_digit(url[n]) || (url[n] && strchr("+.-", url[n])))
        n++;
    if (url[n] != ':') return 0;
    if (strncmp(url + n, "://", 3) == 0) return n;
    if (n == 4 && (strncasecmp(url, "file", 4) == 0 || strncasecmp(url, "pipe", 4) == 0))
        return n;
    return 0;
}

bool tarn__url_scheme_is(const char *url, const char *scheme)
{
    size_t n = tarn__url_scheme(url);
    return n && n == strlen(scheme) && strncasecmp(url, scheme, n) == 0;
}

static bool has_query(const char *url)
{
    return tarn__url_scheme_is(url, "http") || tarn__url_scheme_is(url, "https");
}

char *tarn__url_shown(const char *url)
{
    size_t size = tarn__shown_size(strlen(url));
    char *hidden = malloc(size), *out = malloc(4 * size);
    if (hidden && out) {
        tarn_hide_secrets(hidden, size, url, true);
        tarn_printable(out, 4 * size, hidden, strlen(hidden));
    }
    if (!hidden) {
        free(out);
        out = NULL;
    }
    free(hidden);
    return out;
}

static int hex_value(char c)
{
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

tarn_status tarn__url_decode(tarn__buf *out, const char *text, size_t len,
                             tarn_error *err)
{
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (c == '%') {
            int high = len - i > 2 ? hex_value(text[i + 1]) : -1;
            int low = len - i > 2 ? hex_value(text[i + 2]) : -1;
            if (high < 0 || low < 0)
                return tarn__fail(err, TARN_ERR_USAGE,
                                  "a %% in a URL must be followed by two hex digits; "
                                  "write %%25 for a percent sign");
            c = (char)(high << 4 | low);
            if (c == '\0')
                return tarn__fail(err, TARN_ERR_USAGE, "a URL cannot contain %%00");
            i += 2;
        }
        TARN_TRY(tarn__buf_add(out, &c, 1, err));
    }
    return TARN_OK;
}

tarn_status tarn__url_encode(tarn__buf *out, const char *text, size_t len,
                             bool keep_slashes, tarn_error *err)
{
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        char coded[3] = {'%', hex[c >> 4], hex[c & 15]};
        bool plain = is_alpha((char)c) || is_digit((char)c) || c == '-' || c == '.' ||
                     c == '_' || c == '~' || (c == '/' && keep_slashes);
        TARN_TRY(tarn__buf_add(out, plain ? &text[i] : coded, plain ? 1 : 3, err));
    }
    return TARN_OK;
}

tarn_status tarn__url_file_path(tarn__buf *out, const char *url, tarn_error *err)
{
    const char *path = url + strlen("file:");
    if (strncmp(path, "//", 2) == 0) {
        path += 2;
        if (strncasecmp(path, "localhost/", 10) == 0) path += 9;
        if (path[0] != '/')
            return tarn__fail(err, TARN_ERR_USAGE,
                              "a file: URL must name a file on this machine: "
                              "file:///absolute/path or file:relative/path");
    }
    TARN_TRY(tarn__url_decode(out, path, strlen(path), err));
    TARN_TRY(tarn__buf_add(out, "", 1, err));
    if (out->size == 1)
        return tarn__fail(err, TARN_ERR_USAGE, "the URL does not name a file");
    return TARN_OK;
}

size_t tarn__url_name_length(const char *url)
{
    return has_query(url) ? strcspn(url, "?#") : strlen(url);
}
