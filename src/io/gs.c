/* gs:// URLs: Google Cloud Storage through its XML interface, with a bearer token, or
 * with keys that sign as for S3. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "io/aws.h"
#include "io/gcloud.h"
#include "io/stores.h"
#include "io/url.h"

static bool is_bucket_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '_';
}

static tarn_status make_url(tarn__buf *out, const char *base, const char *url, bool list,
                            tarn_error *err)
{
    const char *bucket = url + strlen("gs://");
    size_t n = 0;
    while (is_bucket_char(bucket[n]))
        n++;
    const char *key = bucket[n] == '/' ? bucket + n + 1 : "";
    if (n == 0 || n > 222 || (bucket[n] && bucket[n] != '/') || (!list && !key[0]))
        return tarn__fail(err, TARN_ERR_USAGE,
                          "invalid URL; expected gs://bucket/name with a bucket name of "
                          "lower-case letters, digits, dots, hyphens and underscores");
    TARN_TRY(
        tarn__buf_printf(out, err, "%s/%.*s%s", base, (int)n, bucket, list ? "" : "/"));
    if (!list) TARN_TRY(tarn__url_encode(out, key, strlen(key), true, err));
    return tarn__buf_add(out, "", 1, err);
}

static tarn_status sign(void *context, const tarn__http_request *request,
                        tarn__http *http, tarn_error *err)
{
    tarn__aws_signer *signer = context;
    tarn__cred_value *found = malloc(sizeof *found);
    if (!found) return tarn__fail_memory(err);
    tarn_status status = tarn__cred_use(signer->cred, found, err);
    if (status == TARN_OK && found->access[0])
        status = tarn__aws_sign_at(signer, found, request, tarn__cred_clock(), http, err);
    else if (status == TARN_OK && found->token[0])
        status = tarn__cred_bearer(found->token, http, err);
    explicit_bzero(found, sizeof *found);
    free(found);
    return status;
}

static bool renew(void *context, long status, const char *body, size_t len)
{
    tarn__aws_signer *signer = context;
    return status == 401 && tarn__cred_expire(signer->cred);
}

static tarn_status get_credentials(tarn__cred **out, tarn_error *err)
{
    static const char *const prefixes[] = {
        "GOOGLE_",      "GCE_", "GS_", "CLOUDSDK_", "STORAGE_EMULATOR_HOST",
        "NO_GCE_CHECK", NULL};
    tarn__env env;
    tarn_status status = tarn__env_take(&env, prefixes, err);
    if (status == TARN_OK) return tarn__cred_get(&env, tarn__gcloud_find, out, err);
    tarn__env_reset(&env);
    return status;
}

static tarn_status locate(tarn__object *object, tarn__aws_signer *signer, const char *url,
                          bool list, tarn_error *err)
{
    tarn__cred_value *found = malloc(sizeof *found);
    tarn__buf text;
    tarn__buf_init(&text, 4 * TARN__MAX_URL);
    if (!found) return tarn__fail_memory(err);
    tarn_status status = tarn__cred_use(signer->cred, found, err);
    if (status == TARN_OK) status = make_url(&text, found->endpoint, url, list, err);
    if (status == TARN_OK) status = tarn__aws_signer_host(signer, found->endpoint, err);
    explicit_bzero(found, sizeof *found);
    free(found);
    if (status != TARN_OK) tarn__buf_reset(&text);
    object->url = text.data;
    return status;
}

tarn_status tarn__gs_init(tarn__object *object, const char *url, bool list,
                          tarn_error *err)
{
    tarn__aws_signer *signer = calloc(1, sizeof *signer);
    if (!signer) return tarn__fail_memory(err);
    object->signer = signer;
    object->sign = sign;
    object->renew = renew;
    object->only_new = "x-goog-if-generation-match: 0";
    strcpy(signer->service, "s3");
    strcpy(signer->region, "auto");
    TARN_TRY(get_credentials(&signer->cred, err));
    return locate(object, signer, url, list, err);
}
