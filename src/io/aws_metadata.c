/* Credentials from endpoints of the machine: those of containers (ECS, and EKS with pod
 * identity), and the metadata of an EC2 instance (version 2 only). Never through a
 * proxy. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "io/aws.h"
#include "io/url.h"

/* Outside the cloud nothing answers at the address of the metadata: do not wait long. */
enum { CONTAINER_TIME = 2, CONTAINER_RETRIES = 2, MAX_TOKEN = 16 << 10 };

static tarn_status take_answer(const tarn__json *object, const char *from,
                               tarn__cred_value *out, tarn_error *err)
{
    char expires[64];
    tarn_status status = tarn__cred_text(object, "SecretAccessKey", true, out->secret,
                                         sizeof out->secret, err);
    if (status == TARN_OK)
        status =
            tarn__cred_text(object, "Token", true, out->token, sizeof out->token, err);
    if (status == TARN_OK)
        status =
            tarn__cred_text(object, "Expiration", true, expires, sizeof expires, err);
    if (status == TARN_OK && !tarn__cred_time(expires, &out->expires))
        status = tarn__fail(err, TARN_ERR_FORMAT, "Expiration is not a time");
    if (status == TARN_OK)
        status = tarn__cred_text(object, "AccessKeyId", true, out->access,
                                 sizeof out->access, err);
    if (status != TARN_OK) tarn__error_place(err, from, TARN_NO_OFFSET);
    return status;
}

/* {"AccessKeyId": ..., "SecretAccessKey": ..., "Token": ..., "Expiration": ...} */
static tarn_status parse_answer(const tarn__cred_answer *answer, const char *from,
                                tarn__cred_value *out, tarn_error *err)
{
    tarn__json_doc doc;
    TARN_TRY(tarn__cred_parse(&doc, answer->reply.body, answer->reply.size, from, err));
    tarn_status status = take_answer(tarn__json_root(&doc), from, out, err);
    tarn__json_reset(&doc);
    return status;
}

/* --- Containers -------------------------------------------------------------------- */

/* The token goes there, so only https and this machine's addresses are allowed. */
static bool is_allowed(const char *url)
{
    static const char *const hosts[] = {"169.254.170.2", "169.254.170.23",
                                        "[fd00:ec2::23]", "localhost", "[::1]"};
    if (tarn__url_scheme_is(url, "https")) return true;
    if (!tarn__url_scheme_is(url, "http")) return false;
    const char *host = url + strlen("http://");
    size_t n = strcspn(host, "/?#");
    if (memchr(host, '@', n)) return false;
    size_t name = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/?#");
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
        if (name == strlen(hosts[i]) && strncasecmp(host, hosts[i], name) == 0)
            return true;
    char text[16] = "";
    struct in_addr v4;
    if (name < sizeof text) memcpy(text, host, name);
    return inet_pton(AF_INET, text, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
}

static tarn_status container_url(const tarn__aws *aws, char *out, size_t size,
                                 tarn_error *err)
{
    const char *relative =
        tarn__env_get(aws->env, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *full = tarn__env_get(aws->env, "AWS_CONTAINER_CREDENTIALS_FULL_URI");
    out[0] = '\0';
    if (!relative && !full) return TARN_OK;
    if (relative && relative[0] != '/')
        return tarn__fail(err, TARN_ERR_USAGE,
                          "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI does not begin with a "
                          "slash");
    int n = relative ? snprintf(out, size, "http://169.254.170.2%s", relative)
                     : snprintf(out, size, "%s", full);
    if (n < 0 || (size_t)n >= size)
        return tarn__fail(err, TARN_ERR_USAGE, "the container's URL is too long");
    if (is_allowed(out)) return TARN_OK;
    return tarn__fail(err, TARN_ERR_USAGE,
                      "AWS_CONTAINER_CREDENTIALS_FULL_URI must begin with https:// or "
                      "lead to 169.254.170.2, 169.254.170.23, fd00:ec2::23 or this "
                      "machine");
}

static tarn_status container_token(const tarn__aws *aws, char *out, size_t size,
                                   tarn_error *err)
{
    const char *file = tarn__env_get(aws->env, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    const char *token = tarn__env_get(aws->env, "AWS_CONTAINER_AUTHORIZATION_TOKEN");
    static const char name[] = "Authorization: ";
    size_t n = sizeof name - 1;
    out[0] = '\0';
    if (!file && !token) return TARN_OK;
    memcpy(out, name, n);
    if (!file)
        return tarn__cred_set(out + n, size - n, token, strlen(token),
                              "AWS_CONTAINER_AUTHORIZATION_TOKEN", err);
    tarn__buf text;
    TARN_TRY(tarn__cred_read_file(&text, file, MAX_TOKEN, err));
    while (text.size && (unsigned char)text.data[text.size - 1] <= ' ')
        text.size--;
    tarn_status status =
        tarn__cred_set(out + n, size - n, text.data, text.size,
                       "the token in AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", err);
    explicit_bzero(text.data, text.size);
    tarn__buf_reset(&text);
    return status;
}

tarn_status tarn__aws_container(const tarn__aws *aws, const char *profile,
                                tarn__cred_value *out, tarn_error *err)
{
    char url[4096], token[MAX_TOKEN + 32];
    const char *headers[3] = {"Accept: application/json", NULL, NULL};
    TARN_TRY(container_url(aws, url, sizeof url, err));
    if (!url[0]) return TARN_OK;
    TARN_TRY(container_token(aws, token, sizeof token, err));
    if (token[0]) headers[1] = token;
    tarn__cred_answer *answer = malloc(sizeof *answer);
    if (!answer) return tarn__fail_memory(err);
    tarn__cred_ask ask = {
        .method = "GET",
        .url = url,
        .headers = headers,
        .connect_seconds = CONTAINER_TIME,
        .stall_seconds = CONTAINER_TIME,
        .retries = CONTAINER_RETRIES,
        .direct = true,
    };
    tarn_status status = tarn__cred_ask_ok(&ask, answer, err);
    if (status == TARN_OK) status = parse_answer(answer, url, out, err);
    explicit_bzero(answer, sizeof *answer);
    explicit_bzero(token, sizeof token);
    free(answer);
    if (status == TARN_OK) return TARN_OK;
    return tarn__cred_explain(err, status,
                              "it was asked for credentials because "
                              "AWS_CONTAINER_CREDENTIALS_*_URI is set");
}

/* --- Instances --------------------------------------------------------------------- */

typedef struct instance {
    char base[1024], header[1024];
    unsigned seconds, retries;
    tarn__cred_answer answer;
} instance;

static unsigned number(const tarn__env *env, const char *name, unsigned usual)
{
    const char *text = tarn__env_get(env, name);
    unsigned long value = text ? strtoul(text, NULL, 10) : 0;
    return value == 0 || value > 60 ? usual : (unsigned)value;
}

static tarn_status set_up(instance *i, const tarn__env *env, tarn_error *err)
{
    const char *endpoint = tarn__env_get(env, "AWS_EC2_METADATA_SERVICE_ENDPOINT");
    const char *mode = tarn__env_get(env, "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE");
    bool six = mode && strcasecmp(mode, "ipv6") == 0;
    if (!endpoint) endpoint = six ? "http://[fd00:ec2::254]" : "http://169.254.169.254";
    size_t len = strlen(endpoint);
    while (len && endpoint[len - 1] == '/')
        len--;
    if (!tarn__url_scheme_is(endpoint, "http") && !tarn__url_scheme_is(endpoint, "https"))
        return tarn__fail(err, TARN_ERR_USAGE,
                          "AWS_EC2_METADATA_SERVICE_ENDPOINT must begin with http:// or "
                          "https://");
    i->seconds = number(env, "AWS_METADATA_SERVICE_TIMEOUT", 1);
    i->retries = number(env, "AWS_METADATA_SERVICE_NUM_ATTEMPTS", 1) - 1;
    return tarn__cred_set(i->base, sizeof i->base, endpoint, len,
                          "AWS_EC2_METADATA_SERVICE_ENDPOINT", err);
}

static tarn_status request(instance *i, const char *method, const char *path,
                           const char *header, tarn_error *err)
{
    char url[2048];
    const char *headers[2] = {header, NULL};
    int n = snprintf(url, sizeof url, "%s%s", i->base, path);
    if (n < 0 || (size_t)n >= sizeof url)
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "the name of the instance's role is too long");
    tarn__cred_ask ask = {
        .method = method,
        .url = url,
        .headers = headers,
        .body = strcmp(method, "PUT") == 0 ? "" : NULL,
        .connect_seconds = i->seconds,
        .stall_seconds = i->seconds,
        .retries = i->retries,
        .direct = true,
    };
    return tarn__cred_ask_any(&ask, &i->answer, err);
}

static tarn_status fail_answer(instance *i, const char *path, tarn_error *err)
{
    char url[2048];
    snprintf(url, sizeof url, "%s%s", i->base, path);
    return tarn__fail_at(err, TARN_ERR_IO, url, TARN_NO_OFFSET,
                         "the instance metadata responded with status %ld; set "
                         "AWS_EC2_METADATA_DISABLED=true to do without it",
                         i->answer.status);
}

/* The token of version 2. Without a usable answer there are no metadata here. */
static tarn_status get_token(instance *i, bool *out_found, tarn_error *err)
{
    static const char path[] = "/latest/api/token";
    tarn_status status =
        request(i, "PUT", path, "x-aws-ec2-metadata-token-ttl-seconds: 21600", NULL);
    long code = i->answer.status;
    *out_found = status == TARN_OK && code == 200;
    if (status != TARN_OK || code == 403 || code == 404 || code == 405) return TARN_OK;
    if (code != 200) return fail_answer(i, path, err);
    static const char name[] = "x-aws-ec2-metadata-token: ";
    memcpy(i->header, name, sizeof name);
    return tarn__cred_set(i->header + sizeof name - 1, sizeof i->header - sizeof name + 1,
                          i->answer.reply.body, i->answer.reply.size,
                          "the token of the instance metadata", err);
}

/* The instance's role; "" if it has none. */
static tarn_status get_role(instance *i, const char *path, char *out, size_t size,
                            tarn_error *err)
{
    out[0] = '\0';
    TARN_TRY(request(i, "GET", path, i->header, err));
    if (i->answer.status == 404) return TARN_OK;
    if (i->answer.status != 200) return fail_answer(i, path, err);
    size_t len = strcspn(i->answer.reply.body, "\r\n");
    for (size_t k = 0; k < len; k++)
        if (!strchr("+=,.@_-", i->answer.reply.body[k]) &&
            !(i->answer.reply.body[k] >= '0' && i->answer.reply.body[k] <= '9') &&
            !((i->answer.reply.body[k] | 32) >= 'a' &&
              (i->answer.reply.body[k] | 32) <= 'z'))
            return tarn__fail(err, TARN_ERR_FORMAT,
                              "the instance metadata sent an invalid name of a role");
    return tarn__cred_set(out, size, i->answer.reply.body, len, "the instance's role",
                          err);
}

static tarn_status get_keys(instance *i, tarn__cred_value *out, tarn_error *err)
{
    char path[512] = "/latest/meta-data/iam/security-credentials/", role[256], from[2048];
    TARN_TRY(get_role(i, path, role, sizeof role, err));
    if (!role[0]) return TARN_OK;
    strcat(path, role);
    TARN_TRY(request(i, "GET", path, i->header, err));
    if (i->answer.status != 200) return fail_answer(i, path, err);
    snprintf(from, sizeof from, "%s%s", i->base, path);
    return parse_answer(&i->answer, from, out, err);
}

/* Where the instance is; that is only a guess for the region of a bucket, so a failure
 * does not matter. */
static void get_region(instance *i, tarn__cred_value *out)
{
    if (request(i, "GET", "/latest/meta-data/placement/region", i->header, NULL) !=
            TARN_OK ||
        i->answer.status != 200)
        return;
    const char *region = i->answer.reply.body;
    size_t len = strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789-");
    if (len < sizeof out->region && len == i->answer.reply.size) {
        memcpy(out->region, region, len);
        out->region[len] = '\0';
    }
}

tarn_status tarn__aws_instance(const tarn__aws *aws, const char *profile,
                               tarn__cred_value *out, tarn_error *err)
{
    const char *disabled = tarn__env_get(aws->env, "AWS_EC2_METADATA_DISABLED");
    if (disabled && strcasecmp(disabled, "true") == 0) return TARN_OK;
    instance *i = calloc(1, sizeof *i);
    if (!i) return tarn__fail_memory(err);
    bool found = false;
    tarn_status status = set_up(i, aws->env, err);
    if (status == TARN_OK) status = get_token(i, &found, err);
    if (found && status == TARN_OK) status = get_keys(i, out, err);
    if (out->access[0] && status == TARN_OK && !aws->region[0]) get_region(i, out);
    explicit_bzero(i, sizeof *i);
    free(i);
    return status;
}
