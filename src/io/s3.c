/* s3:// URLs: from bucket and key to the URL that is requested, and reading from it. */
#include "io/s3.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "io/url.h"

static bool is_bucket_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '-' || c == '.' || c == '_';
}

/* The bucket becomes part of a host name or path, so it must not contain unusual
 * characters. */
static tarn_status split_url(const char *url, size_t *out_bucket_len,
                             const char **out_bucket, const char **out_key,
                             tarn_error *err)
{
    const char *bucket = url + strlen("s3://");
    size_t n = 0;
    while (is_bucket_char(bucket[n]))
        n++;
    if (n == 0 || n > 255 || bucket[n] != '/' || !bucket[n + 1])
        return tarn__fail(
            err, TARN_ERR_USAGE,
            "invalid S3 URL; expected s3://bucket/key with a bucket name of letters, "
            "digits, dots and hyphens");
    *out_bucket = bucket;
    *out_bucket_len = n;
    *out_key = bucket + n + 1;
    return TARN_OK;
}

/* Amazon wants the bucket in the host name; a bucket name with dots would not match the
 * certificate. All other stores get it in the path. */
static void amazon_host(const tarn__s3_signer *signer, const char *bucket,
                        size_t bucket_len, char *out, size_t size, bool *out_in_path)
{
    const char *domain =
        strncmp(signer->region, "cn-", 3) == 0 ? "amazonaws.com.cn" : "amazonaws.com";
    *out_in_path = bucket_len > 63 || memchr(bucket, '.', bucket_len) != NULL;
    if (*out_in_path)
        snprintf(out, size, "https://s3.%s.%s", signer->region, domain);
    else
        snprintf(out, size, "https://%.*s.s3.%s.%s", (int)bucket_len, bucket,
                 signer->region, domain);
}

/* The Host header as libcurl sends it: the port only if it is not the default. */
static tarn_status host_of(const char *endpoint, char *out, size_t size, tarn_error *err)
{
    const char *host = strstr(endpoint, "://");
    bool http = tarn__url_scheme_is(endpoint, "http");
    if (!host || !(http || tarn__url_scheme_is(endpoint, "https")))
        return tarn__fail(err, TARN_ERR_USAGE,
                          "invalid S3 endpoint; expected http://host or https://host");
    host += 3;
    size_t len = strlen(host);
    if (len == 0 || strpbrk(host, "/?#@ \\") || len >= size)
        return tarn__fail(
            err, TARN_ERR_USAGE,
            "invalid S3 endpoint; expected a host with an optional port and "
            "nothing after it");
    const char *usual = http ? ":80" : ":443";
    size_t n = strlen(usual);
    if (len > n && strcmp(host + len - n, usual) == 0) len -= n;
    for (size_t i = 0; i < len; i++)
        out[i] = (char)(host[i] >= 'A' && host[i] <= 'Z' ? host[i] + 32 : host[i]);
    out[len] = '\0';
    return TARN_OK;
}

static tarn_status make_url(tarn__buf *out, const char *base, bool in_path,
                            const char *bucket, size_t bucket_len, const char *key,
                            tarn_error *err)
{
    TARN_TRY(tarn__buf_add(out, base, strlen(base), err));
    TARN_TRY(tarn__buf_add(out, "/", 1, err));
    if (in_path) {
        TARN_TRY(tarn__buf_add(out, bucket, bucket_len, err));
        TARN_TRY(tarn__buf_add(out, "/", 1, err));
    }
    TARN_TRY(tarn__url_encode(out, key, strlen(key), true, err));
    return tarn__buf_add(out, "", 1, err);
}

static tarn_status locate_object(tarn__s3_object *object, tarn__s3_config *config,
                                 const char *s3_url, tarn_error *err)
{
    const char *bucket, *key;
    size_t bucket_len;
    char amazon[1024];
    bool in_path = true;
    tarn__buf url;
    TARN_TRY(split_url(s3_url, &bucket_len, &bucket, &key, err));
    const char *base = config->endpoint;
    if (!base[0]) {
        amazon_host(&config->signer, bucket, bucket_len, amazon, sizeof amazon, &in_path);
        base = amazon;
    }
    TARN_TRY(host_of(base, config->signer.host, sizeof config->signer.host, err));
    tarn__buf_init(&url, 4 * TARN__MAX_URL);
    tarn_status status = make_url(&url, base, in_path, bucket, bucket_len, key, err);
    object->signer = malloc(sizeof *object->signer);
    if (status == TARN_OK && !object->signer) status = tarn__fail_memory(err);
    if (status != TARN_OK) {
        tarn__buf_reset(&url);
        tarn__s3_object_reset(object);
        return status;
    }
    memcpy(object->signer, &config->signer, sizeof *object->signer);
    object->url = url.data;
    return TARN_OK;
}

tarn_status tarn__s3_object_init(tarn__s3_object *object, const char *s3_url,
                                 tarn_error *err)
{
    *object = (tarn__s3_object){0};
    tarn__s3_config *config = malloc(sizeof *config);
    if (!config) return tarn__fail_memory(err);
    tarn_status status = tarn__s3_config_load(config, err);
    if (status == TARN_OK) status = locate_object(object, config, s3_url, err);
    explicit_bzero(config, sizeof *config);
    free(config);
    return status;
}

void tarn__s3_object_reset(tarn__s3_object *object)
{
    if (object->signer) explicit_bzero(object->signer, sizeof *object->signer);
    free(object->signer);
    free(object->url);
    *object = (tarn__s3_object){0};
}

tarn_status tarn__s3_input_open(const char *url, const char *shown,
                                const tarn_source_options *options, tarn__input **out,
                                tarn_error *err)
{
    tarn__s3_object object;
    tarn_status status = tarn__s3_object_init(&object, url, err);
    if (status != TARN_OK) {
        if (err && !err->path[0]) tarn__error_place(err, shown, TARN_NO_OFFSET);
        return status;
    }
    tarn__http_config config = {
        .shown = shown,
        .connect_seconds = options->connect_seconds,
        .stall_seconds = options->stall_seconds,
        .retries = options->retries,
        .min_speed = options->min_speed,
        .sign = tarn__s3_sign,
        .signer = object.signer,
    };
    status = tarn__http_read(object.url, &config, out, err);
    object.signer = NULL; /* the input owns it, or has freed it */
    tarn__s3_object_reset(&object);
    return status;
}
