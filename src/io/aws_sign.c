/* AWS signature version 4. The URL already has the form that is signed (s3.c made it), so
 * nothing is normalised here. libcurl's own signer would be enough for plain reads, but
 * the version in Debian 12 does not sign the query, which contains the part number of a
 * multipart upload. */
#include <nettle/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/sha256.h"
#include "io/aws.h"
#include "io/url.h"

enum { HASH = TARN__SHA256, HEX = TARN__SHA256_HEX };

static void hmac(unsigned char out[HASH], const void *key, size_t key_len,
                 const char *text)
{
    struct hmac_sha256_ctx mac;
    hmac_sha256_set_key(&mac, key_len, key);
    hmac_sha256_update(&mac, strlen(text), (const uint8_t *)text);
    hmac_sha256_digest(&mac, HASH, out);
    explicit_bzero(&mac, sizeof mac);
}

static void signing_key(unsigned char key[HASH], const tarn__aws_signer *signer,
                        const tarn__cred_value *keys, const char *day)
{
    char first[4 + sizeof keys->secret];
    int n = snprintf(first, sizeof first, "AWS4%s", keys->secret);
    hmac(key, first, (size_t)n, day);
    hmac(key, key, HASH, signer->region);
    hmac(key, key, HASH, signer->service);
    hmac(key, key, HASH, "aws4_request");
    explicit_bzero(first, sizeof first);
}

typedef struct stamp {
    char time[32];   /* 20240131T235959Z */
    char scope[128]; /* 20240131/region/service/aws4_request */
} stamp;

static void make_stamp(stamp *s, const tarn__aws_signer *signer, int64_t when)
{
    time_t t = (time_t)when;
    struct tm utc;
    gmtime_r(&t, &utc);
    strftime(s->time, sizeof s->time, "%Y%m%dT%H%M%SZ", &utc);
    snprintf(s->scope, sizeof s->scope, "%.8s/%s/%s/aws4_request", s->time,
             signer->region, signer->service);
}

static tarn_status add_text(tarn__buf *buf, const char *text, tarn_error *err)
{
    return tarn__buf_add(buf, text, strlen(text), err);
}

/* Headers of a request that S3 wants to be signed, besides those that are added here.
 * They are given in the order that signatures need. */
static bool is_signed(const char *line)
{
    return strncmp(line, "x-amz-copy-source", 17) == 0;
}

static tarn_status add_given(tarn__buf *buf, const tarn__http_request *request,
                             tarn_error *err)
{
    for (const char *const *h = request->headers; h && *h; h++) {
        if (!is_signed(*h)) continue;
        int name = (int)strcspn(*h, ":");
        TARN_TRY(tarn__buf_printf(buf, err, "\n%.*s:%s", name, *h, *h + name + 2));
    }
    return TARN_OK;
}

static tarn_status add_names(tarn__buf *buf, const tarn__http_request *request,
                             const tarn__cred_value *keys, tarn_error *err)
{
    TARN_TRY(add_text(buf, "host;x-amz-content-sha256", err));
    for (const char *const *h = request->headers; h && *h; h++)
        if (is_signed(*h))
            TARN_TRY(tarn__buf_printf(buf, err, ";%.*s", (int)strcspn(*h, ":"), *h));
    TARN_TRY(add_text(buf, ";x-amz-date", err));
    if (request->mark) TARN_TRY(add_text(buf, ";" TARN__S3_MARK, err));
    if (keys->token[0]) TARN_TRY(add_text(buf, ";x-amz-security-token", err));
    return tarn__buf_add(buf, "", 1, err);
}

/* Method, path, query, headers and the digest of the body, one line each. */
static tarn_status canonical(tarn__buf *buf, const tarn__aws_signer *signer,
                             const tarn__cred_value *keys,
                             const tarn__http_request *request, const stamp *s,
                             const char *digest, const char *signed_names,
                             tarn_error *err)
{
    const char *path = strstr(request->url, "://");
    path = path ? strchr(path + 3, '/') : NULL;
    if (!path) return tarn__fail(err, TARN_ERR_USAGE, "the URL has no path");
    const char *query = strchr(path, '?');
    TARN_TRY(add_text(buf, request->method, err));
    TARN_TRY(add_text(buf, "\n", err));
    TARN_TRY(
        tarn__buf_add(buf, path, query ? (size_t)(query - path) : strlen(path), err));
    TARN_TRY(add_text(buf, "\n", err));
    TARN_TRY(add_text(buf, query ? query + 1 : "", err));
    TARN_TRY(add_text(buf, "\nhost:", err));
    TARN_TRY(add_text(buf, signer->host, err));
    TARN_TRY(add_text(buf, "\nx-amz-content-sha256:", err));
    TARN_TRY(add_text(buf, digest, err));
    TARN_TRY(add_given(buf, request, err));
    TARN_TRY(add_text(buf, "\nx-amz-date:", err));
    TARN_TRY(add_text(buf, s->time, err));
    if (request->mark) {
        TARN_TRY(add_text(buf, "\n" TARN__S3_MARK ":", err));
        TARN_TRY(add_text(buf, request->mark, err));
    }
    if (keys->token[0]) {
        TARN_TRY(add_text(buf, "\nx-amz-security-token:", err));
        TARN_TRY(add_text(buf, keys->token, err));
    }
    TARN_TRY(add_text(buf, "\n\n", err));
    TARN_TRY(add_text(buf, signed_names, err));
    TARN_TRY(add_text(buf, "\n", err));
    return add_text(buf, digest, err);
}

static void sign_canonical(const tarn__aws_signer *signer, const tarn__cred_value *keys,
                           const tarn__buf *text, const stamp *s, char out[HEX])
{
    unsigned char key[HASH], mac[HASH];
    char digest[HEX], to_sign[512], day[9];
    tarn__sha256_hex(digest, text->data, text->size);
    snprintf(to_sign, sizeof to_sign, "AWS4-HMAC-SHA256\n%s\n%s\n%s", s->time, s->scope,
             digest);
    snprintf(day, sizeof day, "%.8s", s->time);
    signing_key(key, signer, keys, day);
    hmac(mac, key, HASH, to_sign);
    tarn__to_hex(out, mac, HASH);
    explicit_bzero(key, sizeof key);
}

static tarn_status add_header(tarn__http *http, const char *name, const char *value,
                              tarn_error *err)
{
    tarn__buf line;
    tarn__buf_init(&line, 32768);
    tarn_status status = add_text(&line, name, err);
    if (status == TARN_OK) status = add_text(&line, ": ", err);
    if (status == TARN_OK) status = tarn__buf_add(&line, value, strlen(value) + 1, err);
    if (status == TARN_OK) status = tarn__http_add_header(http, line.data, err);
    tarn__buf_reset(&line);
    return status;
}

static tarn_status add_authorization(const tarn__cred_value *keys, const stamp *s,
                                     const char *signed_names, const char *signature,
                                     tarn__http *http, tarn_error *err)
{
    char value[1024];
    int n = snprintf(value, sizeof value,
                     "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s",
                     keys->access, s->scope, signed_names, signature);
    if (n < 0 || (size_t)n >= sizeof value)
        return tarn__fail(err, TARN_ERR_LIMIT, "the access key is too long");
    return add_header(http, "Authorization", value, err);
}

tarn_status tarn__aws_sign_at(const tarn__aws_signer *signer,
                              const tarn__cred_value *keys,
                              const tarn__http_request *request, int64_t time,
                              tarn__http *http, tarn_error *err)
{
    char digest[HEX];
    char signature[HEX];
    stamp s;
    tarn__buf text, names;
    if (request->mark) TARN_TRY(add_header(http, TARN__S3_MARK, request->mark, err));
    if (!keys->access[0]) return TARN_OK;
    if (request->body_size == UINT64_MAX) /* only known when it has been sent */
        snprintf(digest, sizeof digest, "UNSIGNED-PAYLOAD");
    else
        tarn__sha256_hex(digest, request->body, (size_t)request->body_size);
    make_stamp(&s, signer, time);
    tarn__buf_init(&text, 512 << 10);
    tarn__buf_init(&names, 1024);
    tarn_status status = add_names(&names, request, keys, err);
    if (status == TARN_OK)
        status = canonical(&text, signer, keys, request, &s, digest, names.data, err);
    if (status == TARN_OK) {
        sign_canonical(signer, keys, &text, &s, signature);
        status = add_header(http, "x-amz-content-sha256", digest, err);
    }
    tarn__buf_reset(&text);
    if (status == TARN_OK) status = add_header(http, "x-amz-date", s.time, err);
    if (status == TARN_OK && keys->token[0])
        status = add_header(http, "x-amz-security-token", keys->token, err);
    if (status == TARN_OK)
        status = add_authorization(keys, &s, names.data, signature, http, err);
    tarn__buf_reset(&names);
    return status;
}

/* How much later it is at the store than here, as its refusal of a request said. */
static _Atomic int64_t clock_offset;

tarn_status tarn__aws_sign(void *context, const tarn__http_request *request,
                           tarn__http *http, tarn_error *err)
{
    tarn__aws_signer *signer = context;
    int64_t now = tarn__cred_clock() + clock_offset;
    if (!signer->cred)
        return tarn__aws_sign_at(signer, signer->keys, request, now, http, err);
    tarn__cred_value *keys = malloc(sizeof *keys);
    if (!keys) return tarn__fail_memory(err);
    tarn_status status = tarn__cred_use(signer->cred, keys, err);
    if (status == TARN_OK)
        status = tarn__aws_sign_at(signer, keys, request, now, http, err);
    explicit_bzero(keys, sizeof *keys);
    free(keys);
    return status;
}

/* --- Refusals ---------------------------------------------------------------------- */

static bool find_tag(const char *body, size_t len, const char *open, char *out,
                     size_t size)
{
    const char *from = memmem(body, len, open, strlen(open));
    if (!from) return false;
    from += strlen(open);
    const char *to = memchr(from, '<', (size_t)(body + len - from));
    if (!to || (size_t)(to - from) >= size) return false;
    memcpy(out, from, (size_t)(to - from));
    out[to - from] = '\0';
    return true;
}

/* A signature counts for a quarter of an hour, by the clock of the store. */
static bool set_clock(const char *body, size_t len)
{
    char text[64];
    int64_t there;
    if (!find_tag(body, len, "<ServerTime>", text, sizeof text) ||
        !tarn__cred_time(text, &there))
        return false;
    clock_offset = there - tarn__cred_clock();
    return true;
}

bool tarn__aws_renew(void *context, long status, const char *body, size_t len)
{
    static const char *const expired[] = {"ExpiredToken", "ExpiredTokenException",
                                          "TokenRefreshRequired", "InvalidToken",
                                          "InvalidAccessKeyId"};
    tarn__aws_signer *signer = context;
    char code[64];
    if (!signer->cred || (status != 400 && status != 401 && status != 403)) return false;
    bool known = find_tag(body, len, "<Code>", code, sizeof code);
    if (known && strcmp(code, "RequestTimeTooSkewed") == 0) return set_clock(body, len);
    bool may = !known && len == 0 && status == 400; /* the answer to HEAD */
    for (size_t i = 0; known && i < sizeof expired / sizeof *expired; i++)
        may |= strcmp(code, expired[i]) == 0;
    return may && tarn__cred_expire(signer->cred);
}

/* --- Hosts ------------------------------------------------------------------------- */

tarn_status tarn__aws_signer_host(tarn__aws_signer *signer, const char *url,
                                  tarn_error *err)
{
    const char *host = strstr(url, "://");
    bool http = tarn__url_scheme_is(url, "http");
    if (!host || !(http || tarn__url_scheme_is(url, "https")))
        return tarn__fail(err, TARN_ERR_USAGE,
                          "invalid endpoint; expected http://host or https://host");
    host += 3;
    size_t len = strcspn(host, "/");
    if (len == 0 || strcspn(host, "?#@ \\") < len || len >= sizeof signer->host)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "invalid endpoint; expected a host with an optional port");
    const char *usual = http ? ":80" : ":443";
    size_t n = strlen(usual);
    if (len > n && strncmp(host + len - n, usual, n) == 0) len -= n;
    for (size_t i = 0; i < len; i++)
        signer->host[i] =
            (char)(host[i] >= 'A' && host[i] <= 'Z' ? host[i] + 32 : host[i]);
    signer->host[len] = '\0';
    return TARN_OK;
}
