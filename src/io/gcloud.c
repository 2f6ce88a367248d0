/* The order in which Google's credentials are looked for: that of google-auth, with HMAC
 * keys before it. */
#include "io/gcloud.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "io/url.h"

enum { MAX_FILE = 64 << 10, MAX_FORM = 32 << 10, RETRIES = 2 };

#define TOKEN_URL "https://oauth2.googleapis.com/token"
#define SCOPE     "https://www.googleapis.com/auth/devstorage.read_write"

/* --- Answers ----------------------------------------------------------------------- */

/* {"access_token": ..., "expires_in": seconds} */
static tarn_status take_token(const tarn__cred_answer *answer, const char *from,
                              tarn__cred_value *out, tarn_error *err)
{
    tarn__json_doc doc;
    int64_t seconds;
    TARN_TRY(tarn__cred_parse(&doc, answer->reply.body, answer->reply.size, from, err));
    const tarn__json *root = tarn__json_root(&doc),
                     *v = tarn__json_find(root, "expires_in");
    tarn_status status =
        tarn__cred_text(root, "access_token", true, out->token, sizeof out->token, err);
    if (status == TARN_OK &&
        (!v || !tarn__json_int64(v, &seconds) || seconds <= 0 || seconds > 1 << 30))
        status = tarn__fail(err, TARN_ERR_FORMAT, "expires_in is missing");
    if (status == TARN_OK)
        out->expires = tarn__cred_clock() + seconds;
    else
        tarn__error_place(err, from, TARN_NO_OFFSET);
    tarn__json_reset(&doc);
    return status;
}

static tarn_status ask_for_token(const tarn__cred_ask *ask, tarn__cred_value *out,
                                 tarn_error *err)
{
    tarn__cred_answer *answer = calloc(1, sizeof *answer);
    if (!answer) return tarn__fail_memory(err);
    tarn_status status = tarn__cred_ask_ok(ask, answer, err);
    if (status == TARN_OK) status = take_token(answer, ask->url, out, err);
    explicit_bzero(answer, sizeof *answer);
    free(answer);
    return status;
}

static tarn_status send_form(const char *url, const char *form, tarn__cred_value *out,
                             tarn_error *err)
{
    static const char *const headers[] = {
        "Content-Type: application/x-www-form-urlencoded", NULL};
    tarn__cred_ask ask = {.method = "POST",
                          .url = url,
                          .headers = headers,
                          .body = form,
                          .retries = RETRIES};
    return ask_for_token(&ask, out, err);
}

/* --- Files ------------------------------------------------------------------------- */

static const char *text_of(const tarn__json *object, const char *key)
{
    const tarn__json *v = tarn__json_find(object, key);
    return v && v->kind == TARN__JSON_STRING && v->size && strlen(v->u.text) == v->size
               ? v->u.text
               : NULL;
}

static tarn_status fail_missing(const char *key, tarn_error *err)
{
    return tarn__fail(err, TARN_ERR_FORMAT, "%s is missing", key);
}

static tarn_status add_claims(tarn__buf *out, const char *email, tarn_error *err)
{
    tarn__json_writer w;
    int64_t now = tarn__cred_clock();
    tarn__json_begin(&w, out);
    tarn__json_open(&w, '{');
    tarn__json_key_text(&w, "iss");
    tarn__json_put_text(&w, email);
    tarn__json_key_text(&w, "scope");
    tarn__json_put_text(&w, SCOPE);
    tarn__json_key_text(&w, "aud");
    tarn__json_put_text(&w, TOKEN_URL);
    tarn__json_key_text(&w, "iat");
    tarn__json_put_int(&w, now);
    tarn__json_key_text(&w, "exp");
    tarn__json_put_int(&w, now + 3600);
    tarn__json_close(&w, '}');
    TARN_TRY(tarn__json_end(&w, err));
    return tarn__buf_add(out, "", 1, err);
}

static tarn_status add_header(tarn__buf *out, const char *key_id, tarn_error *err)
{
    tarn__json_writer w;
    tarn__json_begin(&w, out);
    tarn__json_open(&w, '{');
    tarn__json_key_text(&w, "typ");
    tarn__json_put_text(&w, "JWT");
    tarn__json_key_text(&w, "alg");
    tarn__json_put_text(&w, "RS256");
    if (key_id) {
        tarn__json_key_text(&w, "kid");
        tarn__json_put_text(&w, key_id);
    }
    tarn__json_close(&w, '}');
    TARN_TRY(tarn__json_end(&w, err));
    return tarn__buf_add(out, "", 1, err);
}

static tarn_status make_assertion(tarn__buf *form, const tarn__json *key, tarn_error *err)
{
    const char *email = text_of(key, "client_email"), *pem = text_of(key, "private_key");
    tarn__buf header, claims;
    if (!email) return fail_missing("client_email", err);
    if (!pem) return fail_missing("private_key", err);
    tarn__buf_init(&header, MAX_FORM);
    tarn__buf_init(&claims, MAX_FORM);
    tarn_status status = add_header(&header, text_of(key, "private_key_id"), err);
    if (status == TARN_OK) status = add_claims(&claims, email, err);
    if (status == TARN_OK)
        status =
            tarn__buf_printf(form, err,
                             "grant_type=urn%%3Aietf%%3Aparams%%3Aoauth%%3Agrant-type%%3A"
                             "jwt-bearer&assertion=");
    if (status == TARN_OK)
        status = tarn__gcloud_sign_jwt(form, header.data, claims.data, pem, err);
    tarn__buf_reset(&header);
    tarn__buf_reset(&claims);
    return status;
}

static tarn_status make_refresh(tarn__buf *form, const tarn__json *login, tarn_error *err)
{
    static const char *const keys[] = {"client_id", "client_secret", "refresh_token"};
    TARN_TRY(tarn__buf_printf(form, err, "grant_type=refresh_token"));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *value = text_of(login, keys[i]);
        if (!value) return fail_missing(keys[i], err);
        TARN_TRY(tarn__buf_printf(form, err, "&%s=", keys[i]));
        TARN_TRY(tarn__url_encode(form, value, strlen(value), false, err));
    }
    return TARN_OK;
}

static tarn_status use_file(const tarn__json *object, tarn__cred_value *out,
                            tarn_error *err)
{
    const char *type = text_of(object, "type"), *url = text_of(object, "token_uri");
    bool account = type && strcmp(type, "service_account") == 0;
    if (!account && !(type && strcmp(type, "authorized_user") == 0))
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "the type is %s; tarn supports service_account and "
                          "authorized_user",
                          type ? TARN__SHOW(type, strlen(type)) : "missing");
    if (!url) url = TOKEN_URL;
    if (!tarn__url_scheme_is(url, "https") && !tarn__url_scheme_is(url, "http"))
        return tarn__fail(err, TARN_ERR_FORMAT, "token_uri is not a URL");
    tarn__buf form;
    tarn__buf_init(&form, MAX_FORM);
    tarn_status status =
        account ? make_assertion(&form, object, err) : make_refresh(&form, object, err);
    if (status == TARN_OK) status = tarn__buf_add(&form, "", 1, err);
    if (status == TARN_OK) status = send_form(url, form.data, out, err);
    if (form.data) explicit_bzero(form.data, form.size);
    tarn__buf_reset(&form);
    return status;
}

static tarn_status from_file(const char *path, bool must_exist, tarn__cred_value *out,
                             tarn_error *err)
{
    tarn__buf text;
    tarn__json_doc doc;
    tarn_error why = {0};
    tarn_status status = tarn__cred_read_file(&text, path, MAX_FILE, &why);
    if (status != TARN_OK) {
        if (!must_exist && (why.sys_errno == ENOENT || why.sys_errno == ENOTDIR))
            return TARN_OK;
        if (err) *err = why;
        return status;
    }
    status = tarn__cred_parse(&doc, text.data, text.size, path, err);
    explicit_bzero(text.data, text.size);
    tarn__buf_reset(&text);
    TARN_TRY(status);
    status = use_file(tarn__json_root(&doc), out, err);
    if (status != TARN_OK && err && !err->path[0])
        tarn__error_place(err, path, TARN_NO_OFFSET);
    tarn__json_reset(&doc);
    if (status == TARN_OK) return TARN_OK;
    return tarn__cred_explain(err, status, "the credentials are in %s", path);
}

/* --- Machines ---------------------------------------------------------------------- */

static bool is_true(const char *value)
{
    return value && (strcasecmp(value, "true") == 0 || strcmp(value, "1") == 0 ||
                     strcasecmp(value, "yes") == 0);
}

/* Outside of Google's cloud the name does not exist, or nothing answers there. */
static tarn_status from_metadata(const tarn__env *env, tarn__cred_value *out,
                                 tarn_error *err)
{
    static const char *const headers[] = {"Metadata-Flavor: Google", NULL};
    const char *host = tarn__env_get(env, "GCE_METADATA_HOST");
    const char *given = host;
    char url[1200];
    if (is_true(tarn__env_get(env, "NO_GCE_CHECK"))) return TARN_OK;
    if (!host) host = tarn__env_get(env, "GCE_METADATA_IP");
    if (!host) host = "169.254.169.254";
    int n = snprintf(url, sizeof url,
                     "http://%s/computeMetadata/v1/instance/service-accounts/default/"
                     "token",
                     host);
    if (n < 0 || (size_t)n >= sizeof url || host[strcspn(host, "/?#@\\")])
        return tarn__fail(err, TARN_ERR_USAGE, "GCE_METADATA_HOST is not a host");
    tarn__cred_answer *answer = calloc(1, sizeof *answer);
    if (!answer) return tarn__fail_memory(err);
    tarn__cred_ask ask = {.method = "GET",
                          .url = url,
                          .headers = headers,
                          .connect_seconds = given ? 3 : 1,
                          .stall_seconds = 3,
                          .retries = given ? 2 : 0,
                          .direct = true};
    tarn_error why = {0};
    tarn_status status = tarn__cred_ask_any(&ask, answer, &why);
    long code = answer->status;
    if (status != TARN_OK && given) {
        if (err) *err = why;
    } else if (status != TARN_OK || code == 404 || code == 403) {
        status = TARN_OK; /* not Google's, or without a service account */
    } else if (code == 200) {
        status = take_token(answer, url, out, err);
    } else {
        status = tarn__fail_at(err, TARN_ERR_IO, url, TARN_NO_OFFSET,
                               "the metadata server responded with status %ld; set "
                               "NO_GCE_CHECK=true to do without it",
                               code);
    }
    explicit_bzero(answer, sizeof *answer);
    free(answer);
    return status;
}

/* --- All --------------------------------------------------------------------------- */

static tarn_status take_hmac(const tarn__env *env, tarn__cred_value *out, tarn_error *err)
{
    const char *access = tarn__env_get(env, "GS_ACCESS_KEY_ID");
    const char *secret = tarn__env_get(env, "GS_SECRET_ACCESS_KEY");
    if (!access && !secret) return TARN_OK;
    if (!access || !secret)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "only one of GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY is set; "
                          "set both or none");
    TARN_TRY(tarn__cred_set(out->secret, sizeof out->secret, secret, strlen(secret),
                            "GS_SECRET_ACCESS_KEY", err));
    return tarn__cred_set(out->access, sizeof out->access, access, strlen(access),
                          "GS_ACCESS_KEY_ID", err);
}

static tarn_status take_endpoint(const tarn__env *env, tarn__cred_value *out,
                                 tarn_error *err)
{
    const char *host = tarn__env_get(env, "STORAGE_EMULATOR_HOST");
    char url[1024];
    if (!host) host = "https://storage.googleapis.com";
    size_t len = strlen(host);
    while (len && host[len - 1] == '/')
        len--;
    int n = snprintf(url, sizeof url, "%s%.*s", strstr(host, "://") ? "" : "http://",
                     (int)len, host);
    if (n < 0 || (size_t)n >= sizeof url || strchr(strstr(url, "://") + 3, '/'))
        return tarn__fail(err, TARN_ERR_USAGE,
                          "invalid STORAGE_EMULATOR_HOST; expected a host with an "
                          "optional port");
    return tarn__cred_set(out->endpoint, sizeof out->endpoint, url, (size_t)n,
                          "STORAGE_EMULATOR_HOST", err);
}

tarn_status tarn__gcloud_find(const tarn__env *env, tarn__cred_value *out,
                              tarn_error *err)
{
    char path[4096], in_home[] = ".config/gcloud/application_default_credentials.json";
    const char *file = tarn__env_get(env, "GOOGLE_APPLICATION_CREDENTIALS");
    const char *folder = tarn__env_get(env, "CLOUDSDK_CONFIG");
    TARN_TRY(take_endpoint(env, out, err));
    if (is_true(tarn__env_get(env, "GS_NO_SIGN_REQUEST"))) return TARN_OK;
    TARN_TRY(take_hmac(env, out, err));
    if (out->access[0]) return TARN_OK;
    if (file) return from_file(file, true, out, err);
    /* An emulator needs no credentials, and must not get those of the cloud unasked. */
    if (tarn__env_get(env, "STORAGE_EMULATOR_HOST")) return TARN_OK;
    if (folder)
        snprintf(path, sizeof path, "%s/application_default_credentials.json", folder);
    if (folder || tarn__env_path(env, NULL, in_home, path, sizeof path))
        TARN_TRY(from_file(path, false, out, err));
    return out->token[0] ? TARN_OK : from_metadata(env, out, err);
}
