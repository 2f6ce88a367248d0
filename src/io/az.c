/* az:// URLs: Azure Blob Storage, with a shared access signature, the key of the account,
 * or without any. */
#include <nettle/base64.h>
#include <nettle/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/error.h"
#include "io/cred.h"
#include "io/stores.h"
#include "io/url.h"

#define VERSION "2021-12-02"

enum { MAX_KEY = 256, MAX_SIGNED = 64 << 10 };

/* One block, so that free() releases all of it. */
typedef struct az_signer {
    char account[64];
    unsigned char key[MAX_KEY];
    size_t key_len; /* 0: not signed */
} az_signer;

/* --- Settings ---------------------------------------------------------------------- */

typedef struct settings {
    char account[64], key[512], sas[4096], endpoint[1024];
} settings;

static const char *variable(const char *first, const char *second)
{
    const char *value = getenv(first);
    if (!value || !value[0]) value = second ? getenv(second) : NULL;
    return value ? value : "";
}

static tarn_status set(char *out, size_t size, const char *value, size_t len,
                       const char *what, tarn_error *err)
{
    return out[0] ? TARN_OK : tarn__cred_set(out, size, value, len, what, err);
}

/* The value of a name in "Name=value;Name=value". */
static const char *part(const char *text, const char *name, size_t *out_len)
{
    size_t n = strlen(name);
    for (const char *at = text; *at; at += strcspn(at, ";"), at += *at == ';') {
        if (strncasecmp(at, name, n) != 0 || at[n] != '=') continue;
        *out_len = strcspn(at + n + 1, ";");
        return at + n + 1;
    }
    *out_len = 0;
    return "";
}

static tarn_status read_connection(settings *s, const char *text, tarn_error *err)
{
    static const char what[] = "a part of AZURE_STORAGE_CONNECTION_STRING";
    size_t len;
    const char *value = part(text, "UseDevelopmentStorage", &len);
    if (len == 4 && strncasecmp(value, "true", 4) == 0)
        text =
            "AccountName=devstoreaccount1;AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUz"
            "FT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;BlobEndpoint="
            "http://127.0.0.1:10000/devstoreaccount1";
    value = part(text, "AccountName", &len);
    TARN_TRY(set(s->account, sizeof s->account, value, len, what, err));
    value = part(text, "AccountKey", &len);
    TARN_TRY(set(s->key, sizeof s->key, value, len, what, err));
    value = part(text, "SharedAccessSignature", &len);
    TARN_TRY(set(s->sas, sizeof s->sas, value, len, what, err));
    value = part(text, "BlobEndpoint", &len);
    TARN_TRY(set(s->endpoint, sizeof s->endpoint, value, len, what, err));
    value = part(text, "EndpointSuffix", &len);
    if (s->endpoint[0] || !len) return TARN_OK;
    snprintf(s->endpoint, sizeof s->endpoint, "https://%s.blob.%.*s", s->account,
             (int)len, value);
    return TARN_OK;
}

static tarn_status read_settings(settings *s, tarn_error *err)
{
    const struct {
        char *out;
        size_t size;
        const char *first, *second;
    } variables[] = {
        {s->account, sizeof s->account, "AZURE_STORAGE_ACCOUNT",
         "AZURE_STORAGE_ACCOUNT_NAME"},
        {s->key, sizeof s->key, "AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY"},
        {s->sas, sizeof s->sas, "AZURE_STORAGE_SAS_TOKEN", NULL},
        {s->endpoint, sizeof s->endpoint, "AZURE_STORAGE_ENDPOINT", NULL},
    };
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = variable(variables[i].first, variables[i].second);
        TARN_TRY(set(variables[i].out, variables[i].size, value, strlen(value),
                     variables[i].first, err));
    }
    TARN_TRY(read_connection(s, variable("AZURE_STORAGE_CONNECTION_STRING", NULL), err));
    if (!s->account[0])
        return tarn__fail(
            err, TARN_ERR_USAGE,
            "no storage account for az:// URLs; set AZURE_STORAGE_ACCOUNT or "
            "AZURE_STORAGE_CONNECTION_STRING");
    if (s->account[strspn(s->account, "abcdefghijklmnopqrstuvwxyz0123456789-")])
        return tarn__fail(err, TARN_ERR_USAGE,
                          "the name of the storage account has an invalid character");
    if (!s->endpoint[0])
        snprintf(s->endpoint, sizeof s->endpoint, "https://%s.blob.core.windows.net",
                 s->account);
    size_t len = strlen(s->endpoint);
    while (len && s->endpoint[len - 1] == '/')
        s->endpoint[--len] = '\0';
    if ((tarn__url_scheme_is(s->endpoint, "http") ||
         tarn__url_scheme_is(s->endpoint, "https")) &&
        !s->endpoint[strcspn(s->endpoint, "?#@ \\")])
        return TARN_OK;
    return tarn__fail(err, TARN_ERR_USAGE, "the endpoint of Azure is not an http URL");
}

/* --- The shared key ---------------------------------------------------------------- */

/* The value of a header that was given for the request. */
static const char *header(const tarn__http_request *request, const char *name)
{
    size_t n = strlen(name);
    for (const char *const *h = request->headers; h && *h; h++)
        if (strncasecmp(*h, name, n) == 0 && (*h)[n] == ':')
            return *h + n + 1 + strspn(*h + n + 1, " ");
    return "";
}

/* Whether the body becomes a blob, and not a block or the list of a blob's blocks. */
static bool creates_blob(const tarn__http_request *request)
{
    const char *query = strchr(request->url, '?');
    return strcmp(request->method, "PUT") == 0 && !(query && strstr(query, "comp="));
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Each parameter of the query, decoded, in order: "\nname:value". */
static tarn_status add_query(tarn__buf *out, const char *query, tarn_error *err)
{
    char *pairs[32];
    size_t count = 0;
    tarn_status status = TARN_OK;
    tarn__buf text;
    char *copy = strdup(query), *rest = copy, *pair;
    if (!copy) return tarn__fail_memory(err);
    while ((pair = strsep(&rest, "&")) && count < 32)
        if (pair[0]) pairs[count++] = pair;
    qsort(pairs, count, sizeof *pairs, compare_texts);
    tarn__buf_init(&text, MAX_SIGNED);
    for (size_t i = 0; i < count && status == TARN_OK; i++) {
        char *equals = strchr(pairs[i], '=');
        if (equals) *equals = ':';
        text.size = 0;
        status = tarn__url_decode(&text, pairs[i], strlen(pairs[i]), err);
        if (status == TARN_OK) status = tarn__buf_add(out, "\n", 1, err);
        if (status == TARN_OK) status = tarn__buf_add(out, text.data, text.size, err);
        if (status == TARN_OK && !equals) status = tarn__buf_add(out, ":", 1, err);
    }
    tarn__buf_reset(&text);
    free(copy);
    return status;
}

static tarn_status string_to_sign(tarn__buf *out, const az_signer *signer,
                                  const tarn__http_request *request, const char *date,
                                  tarn_error *err)
{
    char length[32] = "";
    const char *path = strchr(strstr(request->url, "://") + 3, '/');
    size_t path_len = path ? strcspn(path, "?") : 0;
    const char *query = path && path[path_len] ? path + path_len + 1 : "";
    if (request->body_size)
        snprintf(length, sizeof length, "%llu", (unsigned long long)request->body_size);
    TARN_TRY(tarn__buf_printf(
        out, err, "%s\n\n\n%s\n\n%s\n\n%s\n%s\n%s\n%s\n%s\n", request->method, length,
        header(request, "Content-Type"), header(request, "If-Modified-Since"),
        header(request, "If-Match"), header(request, "If-None-Match"),
        header(request, "If-Unmodified-Since"), header(request, "Range")));
    TARN_TRY(tarn__buf_printf(out, err,
                              "%sx-ms-date:%s\nx-ms-version:" VERSION "\n/%s%.*s",
                              creates_blob(request) ? "x-ms-blob-type:BlockBlob\n" : "",
                              date, signer->account, (int)path_len, path ? path : ""));
    return add_query(out, query, err);
}

static tarn_status add_signature(const az_signer *signer, const tarn__buf *text,
                                 tarn__http *http, tarn_error *err)
{
    struct hmac_sha256_ctx mac;
    uint8_t digest[SHA256_DIGEST_SIZE];
    char coded[BASE64_ENCODE_RAW_LENGTH(SHA256_DIGEST_SIZE) + 1] = "", line[256];
    hmac_sha256_set_key(&mac, signer->key_len, signer->key);
    hmac_sha256_update(&mac, text->size, (const uint8_t *)text->data);
    hmac_sha256_digest(&mac, sizeof digest, digest);
    explicit_bzero(&mac, sizeof mac);
    base64_encode_raw(coded, sizeof digest, digest);
    snprintf(line, sizeof line, "Authorization: SharedKey %s:%s", signer->account, coded);
    return tarn__http_add_header(http, line, err);
}

static tarn_status sign(void *context, const tarn__http_request *request,
                        tarn__http *http, tarn_error *err)
{
    const az_signer *signer = context;
    time_t now = (time_t)tarn__cred_clock();
    char date[64], line[128];
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &utc);
    snprintf(line, sizeof line, "x-ms-date: %s", date);
    TARN_TRY(tarn__http_add_header(http, line, err));
    TARN_TRY(tarn__http_add_header(http, "x-ms-version: " VERSION, err));
    if (creates_blob(request))
        TARN_TRY(tarn__http_add_header(http, "x-ms-blob-type: BlockBlob", err));
    if (!signer->key_len) return TARN_OK;
    tarn__buf text;
    tarn__buf_init(&text, MAX_SIGNED);
    tarn_status status = string_to_sign(&text, signer, request, date, err);
    if (status == TARN_OK) status = add_signature(signer, &text, http, err);
    tarn__buf_reset(&text);
    return status;
}

/* --- Objects ----------------------------------------------------------------------- */

static tarn_status decode_key(az_signer *signer, const char *text, tarn_error *err)
{
    struct base64_decode_ctx context;
    size_t len = MAX_KEY;
    base64_decode_init(&context);
    if (BASE64_DECODE_LENGTH(strlen(text)) > MAX_KEY ||
        !base64_decode_update(&context, &len, signer->key, strlen(text), text) ||
        !base64_decode_final(&context) || !len)
        return tarn__fail(
            err, TARN_ERR_USAGE,
            "the key of the storage account (AZURE_STORAGE_KEY) is not valid "
            "base64");
    signer->key_len = len;
    return TARN_OK;
}

static bool is_container_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '$';
}

static tarn_status make_url(tarn__buf *out, const settings *s, const char *url, bool list,
                            tarn_error *err)
{
    const char *container = url + strlen("az://");
    size_t n = 0;
    while (is_container_char(container[n]))
        n++;
    const char *name = container[n] == '/' ? container + n + 1 : "";
    if (n == 0 || n > 63 || (container[n] && container[n] != '/') || (!list && !name[0]))
        return tarn__fail(err, TARN_ERR_USAGE,
                          "invalid URL; expected az://container/name with a container "
                          "name of lower-case letters, digits and hyphens");
    TARN_TRY(tarn__buf_printf(out, err, "%s/%.*s%s", s->endpoint, (int)n, container,
                              list ? "" : "/"));
    if (!list) TARN_TRY(tarn__url_encode(out, name, strlen(name), true, err));
    const char *sas = s->sas + (s->sas[0] == '?');
    if (sas[0]) TARN_TRY(tarn__buf_printf(out, err, "?%s", sas));
    return tarn__buf_add(out, "", 1, err);
}

static tarn_status init(tarn__object *object, const settings *s, const char *url,
                        bool list, tarn_error *err)
{
    az_signer *signer = calloc(1, sizeof *signer);
    if (!signer) return tarn__fail_memory(err);
    object->signer = signer;
    object->sign = sign;
    memcpy(signer->account, s->account, sizeof signer->account);
    if (!s->sas[0] && s->key[0]) TARN_TRY(decode_key(signer, s->key, err));
    tarn__buf text;
    tarn__buf_init(&text, 4 * TARN__MAX_URL);
    tarn_status status = make_url(&text, s, url, list, err);
    if (status != TARN_OK) tarn__buf_reset(&text);
    object->url = text.data;
    return status;
}

tarn_status tarn__az_init(tarn__object *object, const char *url, bool list,
                          tarn_error *err)
{
    settings s = {0};
    tarn_status status = read_settings(&s, err);
    if (status == TARN_OK) status = init(object, &s, url, list, err);
    explicit_bzero(&s, sizeof s);
    return status;
}
