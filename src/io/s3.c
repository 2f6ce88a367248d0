/* s3:// URLs: from bucket and key to the URL that is requested. */
#include "io/aws.h"
#include "io/stores.h"

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
static tarn_status split_url(const char *url, bool need_key, size_t *out_bucket_len,
                             const char **out_bucket, const char **out_key,
                             tarn_error *err)
{
    const char *bucket = url + strlen("s3://");
    size_t n = 0;
    while (is_bucket_char(bucket[n]))
        n++;
    bool complete = bucket[n] == '/' && (bucket[n + 1] || !need_key);
    if (n == 0 || n > 255 || !(complete || (!need_key && !bucket[n])))
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
static void amazon_host(const char *region, const char *bucket, size_t bucket_len,
                        char *out, size_t size, bool *out_in_path)
{
    const char *domain = tarn__aws_domain(region);
    *out_in_path = bucket_len > 63 || memchr(bucket, '.', bucket_len) != NULL;
    if (*out_in_path)
        snprintf(out, size, "https://s3.%s.%s", region, domain);
    else
        snprintf(out, size, "https://%.*s.s3.%s.%s", (int)bucket_len, bucket, region,
                 domain);
}

/* Nothing may follow the host of an endpoint. */
static tarn_status check_endpoint(const char *endpoint, tarn_error *err)
{
    const char *host = strstr(endpoint, "://");
    if (host && !strchr(host + 3, '/')) return TARN_OK;
    return tarn__fail(err, TARN_ERR_USAGE,
                      "invalid S3 endpoint; expected http:// or https://, a host with an "
                      "optional port, and nothing after it");
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

static tarn_status locate(tarn__object *object, tarn__aws_signer *signer,
                          const tarn__cred_value *found, const char *s3_url, bool list,
                          tarn_error *err)
{
    const char *bucket, *key, *base = found->endpoint;
    size_t bucket_len;
    char amazon[1024];
    bool in_path = true;
    tarn__buf url;
    TARN_TRY(split_url(s3_url, !list, &bucket_len, &bucket, &key, err));
    if (!base[0]) {
        amazon_host(found->region, bucket, bucket_len, amazon, sizeof amazon, &in_path);
        base = amazon;
    }
    TARN_TRY(check_endpoint(base, err));
    TARN_TRY(tarn__aws_signer_host(signer, base, err));
    snprintf(signer->service, sizeof signer->service, "s3");
    memcpy(signer->region, found->region, sizeof found->region);
    tarn__buf_init(&url, 4 * TARN__MAX_URL);
    tarn_status status =
        make_url(&url, base, in_path, bucket, bucket_len, list ? "" : key, err);
    if (status != TARN_OK) tarn__buf_reset(&url);
    object->url = url.data;
    return status;
}

/* The credentials of the environment as it is now. */
static tarn_status get_credentials(tarn__cred **out, tarn_error *err)
{
    static const char *const prefixes[] = {"AWS_", NULL};
    char path[4096];
    tarn__env env;
    tarn_status status = tarn__env_take(&env, prefixes, err);
    for (int config = 0; config < 2 && status == TARN_OK; config++)
        if (tarn__aws_files_path(&env, config, path, sizeof path))
            status = tarn__env_note(&env, path, err);
    if (status == TARN_OK) return tarn__cred_get(&env, tarn__aws_find, out, err);
    tarn__env_reset(&env);
    return status;
}

tarn_status tarn__s3_init(tarn__object *object, const char *url, bool list,
                          tarn_error *err)
{
    tarn__aws_signer *signer = calloc(1, sizeof *signer);
    tarn__cred_value *found = malloc(sizeof *found);
    object->signer = signer;
    object->sign = tarn__aws_sign;
    object->renew = tarn__aws_renew;
    tarn_status status = signer && found ? TARN_OK : tarn__fail_memory(err);
    if (status == TARN_OK) status = get_credentials(&signer->cred, err);
    if (status == TARN_OK) status = tarn__cred_use(signer->cred, found, err);
    if (status == TARN_OK) status = locate(object, signer, found, url, list, err);
    if (found) explicit_bzero(found, sizeof *found);
    free(found);
    return status;
}
