/* Names of files in the cache. Only hashes of URLs are stored in names: they say which
 * object it is, and no secret. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/sha256.h"
#include "io/cache_inside.h"
#include "io/url.h"

/* Parameters that sign a request, and change with each signature. */
static bool signs(const char *name, size_t len)
{
    static const char *const names[] = {"signature",
                                        "expires",
                                        "policy",
                                        "key-pair-id",
                                        "awsaccesskeyid",
                                        "googleaccessid",
                                        "sv",
                                        "ss",
                                        "srt",
                                        "sp",
                                        "st",
                                        "se",
                                        "spr",
                                        "sig",
                                        "sip",
                                        "sr",
                                        "si",
                                        "skoid",
                                        "sktid",
                                        "skt",
                                        "ske",
                                        "sks",
                                        "skv"};
    if (len > 6 && strncasecmp(name, "x-amz-", 6) == 0) return true;
    if (len > 7 && strncasecmp(name, "x-goog-", 7) == 0) return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == len && strncasecmp(name, names[i], len) == 0) return true;
    return false;
}

/* Whether a query is that of a signed URL. */
static bool is_signed(const char *query, size_t len)
{
    static const char *const marks[] = {
        "X-Amz-Signature=", "X-Goog-Signature=", "Signature=", "sig="};
    for (size_t at = 0; at < len; at++) {
        if (at && query[at - 1] != '&') continue;
        for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
            size_t n = strlen(marks[i]);
            if (n <= len - at && strncasecmp(query + at, marks[i], n) == 0) return true;
        }
    }
    return false;
}

static tarn_status add_query(tarn__buf *out, const char *query, size_t len,
                             tarn_error *err)
{
    bool drop = is_signed(query, len);
    for (size_t at = 0; at < len;) {
        const char *end = memchr(query + at, '&', len - at);
        size_t n = end ? (size_t)(end - query) - at : len - at;
        const char *equals = memchr(query + at, '=', n);
        if (!drop || !signs(query + at, equals ? (size_t)(equals - query) - at : n)) {
            TARN_TRY(tarn__buf_add(out, "&", 1, err));
            TARN_TRY(tarn__buf_add(out, query + at, n, err));
        }
        at += n + 1;
    }
    return TARN_OK;
}

/* The URL without user, fragment and signature. */
static tarn_status add_url(tarn__buf *out, const char *url, tarn_error *err)
{
    const char *host = strstr(url, "://");
    host = host ? host + 3 : url;
    const char *path = host + strcspn(host, "/?#"), *user = host;
    for (const char *p = host; p < path; p++)
        if (*p == '@') user = p + 1;
    const char *query = path + strcspn(path, "?#");
    TARN_TRY(tarn__buf_add(out, url, (size_t)(host - url), err));
    TARN_TRY(tarn__buf_add(out, user, (size_t)(query - user), err));
    if (*query != '?') return TARN_OK;
    return add_query(out, query + 1, strcspn(query + 1, "#"), err);
}

/* ".tar" if the URL ends with it: programs recognise files by such endings. */
static void ending_of(char out[10], const char *url)
{
    size_t len = tarn__url_name_length(url), n = 0;
    while (n < len && n < 9 && url[len - n - 1] != '.' && url[len - n - 1] != '/')
        n++;
    out[0] = '\0';
    if (n == 0 || n > 8 || n == len || url[len - n - 1] != '.') return;
    for (size_t i = len - n; i < len; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789", url[i] | 0x20)) return;
    snprintf(out, 10, ".%.*s", (int)n, url + len - n);
    if (strcasecmp(out, TARN__CACHE_MAP) == 0) out[0] = '\0';
}

tarn_status tarn__cache_name(tarn__cache_names *names, const char *url,
                             const tarn__object_id *id, tarn_error *err)
{
    tarn__buf text;
    char hash[TARN__SHA256_HEX], ending[10];
    tarn__buf_init(&text, 2 * TARN__MAX_URL + 1024);
    tarn_status status = add_url(&text, url, err);
    if (status == TARN_OK) {
        tarn__sha256_hex(hash, text.data, text.size);
        status = tarn__buf_printf(&text, err, "\n%s\n%s\n%llu", id->etag, id->modified,
                                  (unsigned long long)id->size);
    }
    if (status == TARN_OK) {
        tarn__sha256_hex(names->key, text.data, text.size);
        ending_of(ending, url);
        snprintf(names->data, sizeof names->data, "%.16s-%.16s%s", hash, names->key,
                 ending);
        snprintf(names->map, sizeof names->map, "%.16s-%.16s%s", hash, names->key,
                 TARN__CACHE_MAP);
    }
    tarn__buf_reset(&text);
    return status;
}

void tarn__cache_dataset_name(char name[TARN__CACHE_ID], const char *dataset)
{
    char hash[TARN__SHA256_HEX];
    tarn__sha256_hex(hash, dataset, strlen(dataset));
    snprintf(name, TARN__CACHE_ID, "%.16s", hash);
}

static bool is_id(const char *name)
{
    return strspn(name, "0123456789abcdef") == 16;
}

bool tarn__cache_is_dataset(const char *name)
{
    return is_id(name) && name[16] == '\0';
}

bool tarn__cache_is_object(const char *name)
{
    return is_id(name) && name[16] == '-' && is_id(name + 17) &&
           (name[33] == '\0' || name[33] == '.') && strlen(name) < TARN__CACHE_NAME;
}

bool tarn__cache_is_map(const char *name)
{
    return tarn__cache_is_object(name) && strcmp(name + 33, TARN__CACHE_MAP) == 0;
}
