/* Credentials, region and endpoint for S3: the environment variables and the two files
 * that other tools use. Nothing found in a file is executed, so profiles that name a
 * program do not work here. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "io/s3.h"

#define MAX_CONFIG_FILE (1u << 20)

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

/* Copies a value. Rejects one that does not fit or that could break out of a header
 * line. */
static tarn_status take_value(char *out, size_t size, const char *value, size_t len,
                              const char *what, tarn_error *err)
{
    if (len >= size) return tarn__fail(err, TARN_ERR_USAGE, "%s is too long", what);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)value[i] < 0x20 || value[i] == 0x7f)
            return tarn__fail(err, TARN_ERR_USAGE, "%s contains a control character",
                              what);
    memcpy(out, value, len);
    out[len] = '\0';
    return TARN_OK;
}

static char *trim_blanks(char *text)
{
    size_t len = strlen(text);
    while (len && (unsigned char)text[len - 1] <= ' ')
        text[--len] = '\0';
    while (*text && (unsigned char)*text <= ' ')
        text++;
    return text;
}

typedef struct profile {
    const char *name;
    bool found; /* in one of the files */
    char access[256], secret[256], token[8192], region[64], endpoint[1024];
} profile;

/* "[name]", or "[profile name]" as in the second file. */
static bool names_profile(char *line, const char *name)
{
    char *end = strchr(line, ']');
    if (!end) return false;
    *end = '\0';
    char *inside = trim_blanks(line + 1);
    if (strncmp(inside, "profile ", 8) == 0) inside = trim_blanks(inside + 8);
    return strcmp(inside, name) == 0;
}

static tarn_status take_setting(profile *p, char *line, tarn_error *err)
{
    char *equals = strchr(line, '=');
    if (!equals) return TARN_OK;
    *equals = '\0';
    const char *key = trim_blanks(line), *value = trim_blanks(equals + 1);
    const struct {
        const char *key;
        char *out;
        size_t size;
    } settings[] = {
        {"aws_access_key_id", p->access, sizeof p->access},
        {"aws_secret_access_key", p->secret, sizeof p->secret},
        {"aws_session_token", p->token, sizeof p->token},
        {"region", p->region, sizeof p->region},
        {"endpoint_url", p->endpoint, sizeof p->endpoint},
    };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        if (strcmp(key, settings[i].key) == 0 && !settings[i].out[0])
            return take_value(settings[i].out, settings[i].size, value, strlen(value),
                              key, err);
    return TARN_OK;
}

static tarn_status read_settings(profile *p, FILE *file, tarn_error *err)
{
    char *line = NULL;
    size_t capacity = 0, total = 0;
    ssize_t len;
    bool inside = false;
    tarn_status status = TARN_OK;
    while (status == TARN_OK && (len = getline(&line, &capacity, file)) >= 0) {
        total += (size_t)len;
        if (total > MAX_CONFIG_FILE)
            status = tarn__fail(err, TARN_ERR_LIMIT, "more than %u bytes of settings",
                                MAX_CONFIG_FILE);
        else if (line[0] == '[')
            p->found |= inside = names_profile(line, p->name);
        /* Indented lines belong to a service. */
        else if (inside && line[0] != '#' && line[0] != ';' && line[0] > ' ')
            status = take_setting(p, line, err);
    }
    free(line);
    return status;
}

static tarn_status read_file(profile *p, const char *named, const char *usual,
                             tarn_error *err)
{
    char path[4096];
    const char *home = variable("HOME");
    if (named) {
        snprintf(path, sizeof path, "%s", named);
    } else {
        if (!home) return TARN_OK;
        snprintf(path, sizeof path, "%s/.aws/%s", home, usual);
    }
    FILE *file = fopen(path, "re");
    if (!file && (errno == ENOENT || errno == ENOTDIR || errno == EACCES)) return TARN_OK;
    if (!file) return tarn__fail_errno(err, path, errno, "cannot open");
    tarn_status status = read_settings(p, file, err);
    fclose(file);
    if (status != TARN_OK) tarn__error_place(err, path, TARN_NO_OFFSET);
    return status;
}

static tarn_status read_profile(profile *p, tarn_error *err)
{
    const char *chosen = variable("AWS_PROFILE");
    p->name = chosen ? chosen : "default";
    TARN_TRY(read_file(p, variable("AWS_SHARED_CREDENTIALS_FILE"), "credentials", err));
    TARN_TRY(read_file(p, variable("AWS_CONFIG_FILE"), "config", err));
    if (chosen && !p->found)
        return tarn__fail(err, TARN_ERR_NOT_FOUND,
                          "the profile named by AWS_PROFILE does not exist");
    return TARN_OK;
}

/* The two keys from the environment belong together: one alone is a mistake. */
static tarn_status choose_keys(tarn__s3_signer *signer, const profile *p, tarn_error *err)
{
    const char *access = variable("AWS_ACCESS_KEY_ID");
    const char *secret = variable("AWS_SECRET_ACCESS_KEY");
    const char *token = variable("AWS_SESSION_TOKEN");
    if (!access != !secret)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY "
                          "is set; set both or none");
    if (!access) {
        access = p->access;
        secret = p->secret;
        token = p->token;
    }
    if (!access[0] != !secret[0])
        return tarn__fail(err, TARN_ERR_USAGE,
                          "the profile %s has only one of aws_access_key_id and "
                          "aws_secret_access_key",
                          p->name);
    TARN_TRY(take_value(signer->access, sizeof signer->access, access, strlen(access),
                        "the access key", err));
    TARN_TRY(take_value(signer->secret, sizeof signer->secret, secret, strlen(secret),
                        "the secret key", err));
    if (!token) token = "";
    return take_value(signer->token, sizeof signer->token, token, strlen(token),
                      "the session token", err);
}

static tarn_status choose_region(tarn__s3_signer *signer, const profile *p,
                                 tarn_error *err)
{
    const char *region = variable("AWS_REGION");
    if (!region) region = variable("AWS_DEFAULT_REGION");
    if (!region) region = p->region[0] ? p->region : "us-east-1";
    for (const char *c = region; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
              (*c >= '0' && *c <= '9') || *c == '-' || *c == '_'))
            return tarn__fail(err, TARN_ERR_USAGE,
                              "the region name contains an invalid character");
    return take_value(signer->region, sizeof signer->region, region, strlen(region),
                      "the region", err);
}

static tarn_status choose_endpoint(tarn__s3_config *config, const profile *p,
                                   tarn_error *err)
{
    const char *endpoint = variable("AWS_ENDPOINT_URL_S3");
    if (!endpoint) endpoint = variable("AWS_ENDPOINT_URL");
    if (!endpoint) endpoint = p->endpoint;
    size_t len = strlen(endpoint);
    while (len && endpoint[len - 1] == '/')
        len--;
    return take_value(config->endpoint, sizeof config->endpoint, endpoint, len,
                      "the endpoint", err);
}

tarn_status tarn__s3_config_load(tarn__s3_config *config, tarn_error *err)
{
    profile *p = calloc(1, sizeof *p);
    if (!p) return tarn__fail_memory(err);
    memset(config, 0, sizeof *config);
    tarn_status status = read_profile(p, err);
    if (status == TARN_OK) status = choose_keys(&config->signer, p, err);
    if (status == TARN_OK) status = choose_region(&config->signer, p, err);
    if (status == TARN_OK) status = choose_endpoint(config, p, err);
    explicit_bzero(p, sizeof *p);
    free(p);
    return status;
}
