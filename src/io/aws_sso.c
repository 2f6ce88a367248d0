/* Single sign-on: the login that `aws sso login` keeps in ~/.aws/sso/cache is exchanged
 * for credentials of a role. A login of an sso-session is renewed when it ends soon, and
 * stored again for the other tools. */
#include <errno.h>
#include <fcntl.h>
#include <nettle/sha1.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "io/aws.h"
#include "io/url.h"

enum { MAX_CACHE = 256 << 10, EARLY = 15 * 60, MAX_LOGIN = 8192, RETRIES = 2 };

typedef struct sso {
    const tarn__aws *aws;
    const char *profile, *session; /* session NULL: the older form without it */
    const char *start_url, *region, *account, *role;
    char path[4096];       /* of the cached login */
    char login[MAX_LOGIN]; /* its access token */
    tarn__cred_answer answer;
} sso;

/* --- Settings ---------------------------------------------------------------------- */

static tarn_status read_settings(sso *s, tarn_error *err)
{
    const tarn__aws_files *files = &s->aws->files;
    const char *shown = TARN__SHOW(s->profile, strlen(s->profile));
    const char *kind = s->session ? "sso-session" : "profile";
    const char *name = s->session ? s->session : s->profile;
    if (s->session && !tarn__aws_has(files, kind, name))
        return tarn__fail(err, TARN_ERR_NOT_FOUND,
                          "the sso_session of the profile %s does not exist", shown);
    s->start_url = tarn__aws_get(files, kind, name, "sso_start_url");
    s->region = tarn__aws_get(files, kind, name, "sso_region");
    const char *missing = !s->account     ? "sso_account_id"
                          : !s->role      ? "sso_role_name"
                          : !s->start_url ? "sso_start_url"
                          : !s->region    ? "sso_region"
                                          : NULL;
    if (missing)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "the profile %s uses single sign-on, but %s is not set", shown,
                          missing);
    if (s->region[strspn(s->region, "abcdefghijklmnopqrstuvwxyz0123456789-")])
        return tarn__fail(err, TARN_ERR_USAGE, "the sso_region is not a region");
    return TARN_OK;
}

/* The file is named by the SHA-1 of the session's name or of the URL. */
static tarn_status find_cache(sso *s, tarn_error *err)
{
    const char *name = s->session ? s->session : s->start_url;
    unsigned char hash[SHA1_DIGEST_SIZE];
    char file[80] = ".aws/sso/cache/";
    struct sha1_ctx sha;
    sha1_init(&sha);
    sha1_update(&sha, strlen(name), (const uint8_t *)name);
    sha1_digest(&sha, sizeof hash, hash);
    for (size_t i = 0; i < sizeof hash; i++)
        sprintf(file + strlen(file), "%02x", hash[i]);
    strcat(file, ".json");
    if (tarn__env_path(s->aws->env, NULL, file, s->path, sizeof s->path)) return TARN_OK;
    return tarn__fail(err, TARN_ERR_USAGE, "HOME is not set");
}

static tarn_status fail_login(const sso *s, const char *why, tarn_error *err)
{
    return tarn__fail_at(err, TARN_ERR_IO, s->path, TARN_NO_OFFSET,
                         "%s; run aws sso login --profile %s", why,
                         TARN__SHOW(s->profile, strlen(s->profile)));
}

/* --- Renewing the login ------------------------------------------------------------ */

static tarn_status make_body(const tarn__json *login, tarn__buf *out, tarn_error *err)
{
    static const char *const keys[] = {"clientId", "clientSecret", "refreshToken"};
    tarn__json_writer w;
    tarn__json_begin(&w, out);
    tarn__json_open(&w, '{');
    tarn__json_key_text(&w, "grantType");
    tarn__json_put_text(&w, "refresh_token");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const tarn__json *v = tarn__json_find(login, keys[i]);
        if (!v || v->kind != TARN__JSON_STRING)
            return tarn__fail(err, TARN_ERR_FORMAT, "%s is missing", keys[i]);
        tarn__json_key_text(&w, keys[i]);
        tarn__json_put_string(&w, v->u.text, v->size);
    }
    tarn__json_close(&w, '}');
    TARN_TRY(tarn__json_end(&w, err));
    return tarn__buf_add(out, "", 1, err);
}

static void put_text(tarn__json_writer *w, const char *key, const tarn__json *value)
{
    if (!value) return;
    tarn__json_key_text(w, key);
    tarn__json_put_value(w, value, false);
}

/* The cached login with the members of the answer. */
static tarn_status make_login(const tarn__json *login, const tarn__json *made,
                              int64_t expires, tarn__buf *out, tarn_error *err)
{
    static const char *const kept[] = {"startUrl", "region", "clientId", "clientSecret",
                                       "registrationExpiresAt"};
    char text[32];
    time_t t = (time_t)expires;
    struct tm utc;
    tarn__json_writer w;
    gmtime_r(&t, &utc);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    tarn__json_begin(&w, out);
    tarn__json_open(&w, '{');
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        put_text(&w, kept[i], tarn__json_find(login, kept[i]));
    put_text(&w, "accessToken", tarn__json_find(made, "accessToken"));
    tarn__json_key_text(&w, "expiresAt");
    tarn__json_put_text(&w, text);
    const tarn__json *refresh = tarn__json_find(made, "refreshToken");
    put_text(&w, "refreshToken",
             refresh ? refresh : tarn__json_find(login, "refreshToken"));
    tarn__json_close(&w, '}');
    return tarn__json_end(&w, err);
}

/* Other tools see the old file or the new one, and never a part. */
static tarn_status replace_file(const char *path, const tarn__buf *text, tarn_error *err)
{
    char part[4200];
    snprintf(part, sizeof part, "%s.tarn-%ld", path, (long)getpid());
    int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return tarn__fail_errno(err, part, errno, "cannot create");
    ssize_t n = write(fd, text->data, text->size);
    int e = n == (ssize_t)text->size ? 0 : n < 0 ? errno : ENOSPC;
    if (close(fd) != 0 && !e) e = errno;
    if (!e && rename(part, path) != 0) e = errno;
    if (!e) return TARN_OK;
    unlink(part);
    return tarn__fail_errno(err, path, e, "cannot store the renewed login");
}

static tarn_status store_login(sso *s, const tarn__json *login, const tarn__json *made,
                               tarn_error *err)
{
    int64_t seconds = 0;
    const tarn__json *v = tarn__json_find(made, "expiresIn");
    if (!v || !tarn__json_int64(v, &seconds) || seconds <= 0 || seconds > 1 << 30)
        return tarn__fail(err, TARN_ERR_FORMAT, "expiresIn is missing");
    TARN_TRY(tarn__cred_text(made, "accessToken", true, s->login, sizeof s->login, err));
    tarn__buf text;
    tarn__buf_init(&text, MAX_CACHE);
    tarn_status status =
        make_login(login, made, tarn__cred_clock() + seconds, &text, err);
    if (status == TARN_OK) status = replace_file(s->path, &text, err);
    if (text.data) explicit_bzero(text.data, text.size);
    tarn__buf_reset(&text);
    return status;
}

static tarn_status service_url(const sso *s, const char *service, const char *host,
                               const char *path, char *out, size_t size, tarn_error *err)
{
    const char *given = tarn__aws_endpoint(s->aws, service);
    size_t len = given ? strlen(given) : 0;
    while (len && given[len - 1] == '/')
        len--;
    int n = given ? snprintf(out, size, "%.*s%s", (int)len, given, path)
                  : snprintf(out, size, "https://%s.%s.%s%s", host, s->region,
                             tarn__aws_domain(s->region), path);
    if (n > 0 && (size_t)n < size) return TARN_OK;
    return tarn__fail(err, TARN_ERR_USAGE, "a URL for single sign-on is too long");
}

static tarn_status ask_for_login(sso *s, const tarn__json *login, const char *url,
                                 tarn_error *err)
{
    static const char *const headers[] = {"Content-Type: application/json", NULL};
    tarn__buf body;
    tarn__json_doc doc;
    tarn__buf_init(&body, MAX_CACHE);
    tarn_status status = make_body(login, &body, err);
    tarn__cred_ask ask = {
        .method = "POST", .url = url, .headers = headers, .body = body.data};
    if (status == TARN_OK) status = tarn__cred_ask_ok(&ask, &s->answer, err);
    if (body.data) explicit_bzero(body.data, body.size);
    tarn__buf_reset(&body);
    TARN_TRY(status);
    TARN_TRY(
        tarn__cred_parse(&doc, s->answer.reply.body, s->answer.reply.size, url, err));
    status = store_login(s, login, tarn__json_root(&doc), err);
    tarn__json_reset(&doc);
    return status;
}

/* --- The login --------------------------------------------------------------------- */

static tarn_status use_login(sso *s, const tarn__json *login, tarn_error *err)
{
    char text[64], url[2048];
    int64_t expires, now = tarn__cred_clock();
    TARN_TRY(tarn__cred_text(login, "expiresAt", true, text, sizeof text, err));
    TARN_TRY(tarn__cred_text(login, "accessToken", true, s->login, sizeof s->login, err));
    if (!tarn__cred_time(text, &expires))
        return tarn__fail(err, TARN_ERR_FORMAT, "expiresAt is not a time");
    bool renewable = s->session && tarn__json_find(login, "refreshToken");
    if (renewable && expires - EARLY <= now) {
        TARN_TRY(service_url(s, "sso-oidc", "oidc", "/token", url, sizeof url, err));
        tarn_status status = ask_for_login(s, login, url, err);
        if (status == TARN_OK) return TARN_OK;
        if (expires <= now)
            return tarn__cred_explain(err, status,
                                      "the login of single sign-on has expired; run aws "
                                      "sso login");
        return tarn__cred_text(login, "accessToken", true, s->login, sizeof s->login,
                               err);
    }
    return expires > now ? TARN_OK : fail_login(s, "the login has expired", err);
}

static tarn_status read_login(sso *s, tarn_error *err)
{
    tarn__buf text;
    tarn__json_doc doc;
    tarn_error why = {0};
    tarn_status status = tarn__cred_read_file(&text, s->path, MAX_CACHE, &why);
    if (status != TARN_OK && why.sys_errno == ENOENT)
        return fail_login(s, "there is no login", err);
    if (status != TARN_OK) {
        if (err) *err = why;
        return status;
    }
    status = tarn__cred_parse(&doc, text.data, text.size, s->path, err);
    if (status == TARN_OK) {
        status = use_login(s, tarn__json_root(&doc), err);
        if (status != TARN_OK && err && !err->path[0])
            tarn__error_place(err, s->path, TARN_NO_OFFSET);
        tarn__json_reset(&doc);
    }
    explicit_bzero(text.data, text.size);
    tarn__buf_reset(&text);
    return status;
}

/* --- The role ---------------------------------------------------------------------- */

static tarn_status take_role(const tarn__json *answer, tarn__cred_value *out,
                             tarn_error *err)
{
    const tarn__json *role = tarn__json_find(answer, "roleCredentials"), *v = NULL;
    if (role && role->kind == TARN__JSON_OBJECT) v = tarn__json_find(role, "expiration");
    int64_t ms;
    if (!v || !tarn__json_int64(v, &ms))
        return tarn__fail(err, TARN_ERR_FORMAT,
                          "roleCredentials with a time of expiration are missing");
    TARN_TRY(tarn__cred_text(role, "secretAccessKey", true, out->secret,
                             sizeof out->secret, err));
    TARN_TRY(
        tarn__cred_text(role, "sessionToken", true, out->token, sizeof out->token, err));
    TARN_TRY(
        tarn__cred_text(role, "accessKeyId", true, out->access, sizeof out->access, err));
    out->expires = ms / 1000;
    return TARN_OK;
}

static tarn_status add_query(tarn__buf *url, const char *name, const char *value,
                             tarn_error *err)
{
    TARN_TRY(tarn__buf_printf(url, err, "%s=", name));
    return tarn__url_encode(url, value, strlen(value), false, err);
}

static tarn_status role_url(const sso *s, tarn__buf *url, tarn_error *err)
{
    char base[2048];
    TARN_TRY(service_url(s, "sso", "portal.sso", "/federation/credentials?", base,
                         sizeof base, err));
    TARN_TRY(tarn__buf_printf(url, err, "%s", base));
    TARN_TRY(add_query(url, "role_name", s->role, err));
    TARN_TRY(add_query(url, "&account_id", s->account, err));
    return tarn__buf_add(url, "", 1, err);
}

static tarn_status ask_for_role(sso *s, const char *url, tarn__cred_value *out,
                                tarn_error *err)
{
    char header[MAX_LOGIN + 64];
    const char *headers[] = {header, NULL};
    tarn__json_doc doc;
    snprintf(header, sizeof header, "x-amz-sso_bearer_token: %s", s->login);
    tarn__cred_ask ask = {
        .method = "GET", .url = url, .headers = headers, .retries = RETRIES};
    tarn_status status = tarn__cred_ask_any(&ask, &s->answer, err);
    explicit_bzero(header, sizeof header);
    TARN_TRY(status);
    if (s->answer.status == 401)
        return fail_login(s, "the login is no longer valid", err);
    if (s->answer.status != 200)
        return tarn__fail_at(
            err, TARN_ERR_IO, url, TARN_NO_OFFSET,
            "single sign-on responded with status %ld for the profile %s",
            s->answer.status, TARN__SHOW(s->profile, strlen(s->profile)));
    TARN_TRY(
        tarn__cred_parse(&doc, s->answer.reply.body, s->answer.reply.size, url, err));
    status = take_role(tarn__json_root(&doc), out, err);
    if (status != TARN_OK) tarn__error_place(err, url, TARN_NO_OFFSET);
    tarn__json_reset(&doc);
    return status;
}

static tarn_status get_role(sso *s, tarn__cred_value *out, tarn_error *err)
{
    TARN_TRY(read_settings(s, err));
    TARN_TRY(find_cache(s, err));
    TARN_TRY(read_login(s, err));
    tarn__buf url;
    tarn__buf_init(&url, 16384);
    tarn_status status = role_url(s, &url, err);
    if (status == TARN_OK) status = ask_for_role(s, url.data, out, err);
    tarn__buf_reset(&url);
    return status;
}

tarn_status tarn__aws_sso(const tarn__aws *aws, const char *profile,
                          tarn__cred_value *out, tarn_error *err)
{
    const char *account =
        tarn__aws_get(&aws->files, "profile", profile, "sso_account_id");
    const char *role = tarn__aws_get(&aws->files, "profile", profile, "sso_role_name");
    if (!account && !role) return TARN_OK;
    sso *s = calloc(1, sizeof *s);
    if (!s) return tarn__fail_memory(err);
    s->aws = aws;
    s->profile = profile;
    s->session = tarn__aws_get(&aws->files, "profile", profile, "sso_session");
    s->account = account;
    s->role = role;
    tarn_status status = get_role(s, out, err);
    explicit_bzero(s, sizeof *s);
    free(s);
    return status;
}
