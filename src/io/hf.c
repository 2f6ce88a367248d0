/* hf:// URLs: files in repositories of the Hugging Face Hub, by their resolve URLs. The
 * token goes to the Hub only: libcurl does not send it to where the Hub redirects to. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "io/cred.h"
#include "io/stores.h"
#include "io/url.h"

enum { MAX_TOKEN = 1024 };

/* One block, so that free() releases all of it. */
typedef struct hf_signer {
    char token[MAX_TOKEN];
} hf_signer;

static tarn_status sign(void *context, const tarn__http_request *request,
                        tarn__http *http, tarn_error *err)
{
    const hf_signer *signer = context;
    return signer->token[0] ? tarn__cred_bearer(signer->token, http, err) : TARN_OK;
}

/* --- The token --------------------------------------------------------------------- */

static bool is_true(const char *value)
{
    return value && (strcmp(value, "1") == 0 || strcasecmp(value, "true") == 0 ||
                     strcasecmp(value, "yes") == 0 || strcasecmp(value, "on") == 0);
}

static tarn_status read_token(const tarn__env *env, const char *path, hf_signer *signer,
                              tarn_error *err)
{
    tarn__buf text;
    tarn_error why = {0};
    tarn_status status = tarn__cred_read_file(&text, path, MAX_TOKEN, &why);
    if (status != TARN_OK && (why.sys_errno == ENOENT || why.sys_errno == ENOTDIR))
        return TARN_OK;
    if (status != TARN_OK) {
        if (err) *err = why;
        return status;
    }
    char *from = text.data;
    size_t len = text.size;
    for (; len && (unsigned char)from[len - 1] <= ' '; len--) {
    }
    for (; len && (unsigned char)*from <= ' '; len--)
        from++;
    status = tarn__cred_set(signer->token, sizeof signer->token, from, len,
                            "the token of the Hugging Face Hub", err);
    if (status != TARN_OK) tarn__error_place(err, path, TARN_NO_OFFSET);
    explicit_bzero(text.data, text.size);
    tarn__buf_reset(&text);
    return status;
}

static tarn_status find_token(const tarn__env *env, hf_signer *signer, tarn_error *err)
{
    const char *token = tarn__env_get(env, "HF_TOKEN");
    const char *path = tarn__env_get(env, "HF_TOKEN_PATH");
    const char *home = tarn__env_get(env, "HF_HOME");
    const char *cache = tarn__env_get(env, "XDG_CACHE_HOME");
    char file[4096];
    if (!token) token = tarn__env_get(env, "HUGGING_FACE_HUB_TOKEN");
    if (token)
        return tarn__cred_set(signer->token, sizeof signer->token, token, strlen(token),
                              "HF_TOKEN", err);
    if (is_true(tarn__env_get(env, "HF_HUB_DISABLE_IMPLICIT_TOKEN"))) return TARN_OK;
    if (path)
        snprintf(file, sizeof file, "%s", path);
    else if (home)
        snprintf(file, sizeof file, "%s/token", home);
    else if (cache)
        snprintf(file, sizeof file, "%s/huggingface/token", cache);
    else if (!tarn__env_path(env, NULL, ".cache/huggingface/token", file, sizeof file))
        return TARN_OK;
    return read_token(env, file, signer, err);
}

/* --- The URL ----------------------------------------------------------------------- */

typedef struct place {
    const char *kind;       /* "datasets/", "spaces/" or "" for models */
    const char *repo, *rev; /* not NUL-terminated; rev may be empty */
    size_t kind_len, repo_len, rev_len;
    const char *path;
} place;

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '-' || c == '.' || c == '_';
}

static size_t name_length(const char *text)
{
    size_t n = 0;
    while (is_name_char(text[n]))
        n++;
    return text[0] == '.' || n > 96 ? 0 : n;
}

/* datasets/ORG/NAME[@REV]/PATH; a revision may contain slashes as %2F, as in the Hub's
 * own library, and pull requests as refs/pr/N or refs/convert/NAME. */
static bool split(const char *url, place *p)
{
    const char *at = url + strlen("hf://");
    *p = (place){.kind = at};
    if (strncmp(at, "datasets/", 9) == 0) p->kind_len = 9;
    if (strncmp(at, "spaces/", 7) == 0) p->kind_len = 7;
    p->repo = at += p->kind_len;
    size_t owner = name_length(at);
    if (owner == 0 || at[owner] != '/') return false;
    at += owner + 1;
    size_t name = name_length(at);
    if (name == 0) return false;
    at += name;
    p->repo_len = (size_t)(at - p->repo);
    if (*at == '@') {
        p->rev = ++at;
        if (strncmp(at, "refs/", 5) == 0) {
            at += 5;
            at += strcspn(at, "/");
            at += *at == '/';
        }
        at += strcspn(at, "/");
        p->rev_len = (size_t)(at - p->rev);
        if (p->rev_len == 0 || p->rev_len > 256) return false;
    }
    p->path = *at == '/' ? at + 1 : at;
    return *at == '/' || !*at;
}

static tarn_status add_revision(tarn__buf *out, const place *p, tarn_error *err)
{
    tarn__buf text;
    if (!p->rev) return tarn__buf_add(out, "main", 4, err);
    tarn__buf_init(&text, TARN__MAX_URL);
    tarn_status status = tarn__url_decode(&text, p->rev, p->rev_len, err);
    if (status == TARN_OK)
        status = tarn__url_encode(out, text.data, text.size, false, err);
    tarn__buf_reset(&text);
    return status;
}

static tarn_status make_url(tarn__buf *out, const char *base, const place *p, bool list,
                            tarn_error *err)
{
    const char *kind = list && p->kind_len == 0 ? "models/" : p->kind;
    int kind_len = list && p->kind_len == 0 ? 7 : (int)p->kind_len;
    TARN_TRY(tarn__buf_printf(out, err, "%s/%s%.*s%.*s/%s/", base, list ? "api/" : "",
                              kind_len, kind, (int)p->repo_len, p->repo,
                              list ? "tree" : "resolve"));
    TARN_TRY(add_revision(out, p, err));
    if (!list) {
        TARN_TRY(tarn__buf_add(out, "/", 1, err));
        TARN_TRY(tarn__url_encode(out, p->path, strlen(p->path), true, err));
    }
    return tarn__buf_add(out, "", 1, err);
}

static tarn_status find_base(const tarn__env *env, char *out, size_t size,
                             tarn_error *err)
{
    const char *base = tarn__env_get(env, "HF_ENDPOINT");
    if (!base) base = "https://huggingface.co";
    size_t len = strlen(base);
    while (len && base[len - 1] == '/')
        len--;
    bool valid =
        (tarn__url_scheme_is(base, "http") || tarn__url_scheme_is(base, "https")) &&
        !base[strcspn(base, "?#@ \\")];
    if (!valid) return tarn__fail(err, TARN_ERR_USAGE, "HF_ENDPOINT is not an http URL");
    return tarn__cred_set(out, size, base, len, "HF_ENDPOINT", err);
}

static tarn_status init(tarn__object *object, const tarn__env *env, const place *p,
                        bool list, tarn_error *err)
{
    char base[1024];
    tarn__buf text;
    TARN_TRY(find_base(env, base, sizeof base, err));
    TARN_TRY(find_token(env, object->signer, err));
    tarn__buf_init(&text, 4 * TARN__MAX_URL);
    tarn_status status = make_url(&text, base, p, list, err);
    if (status != TARN_OK) tarn__buf_reset(&text);
    object->url = text.data;
    return status;
}

tarn_status tarn__hf_init(tarn__object *object, const char *url, bool list,
                          tarn_error *err)
{
    static const char *const prefixes[] = {"HF_", "HUGGING_FACE_HUB_TOKEN",
                                           "XDG_CACHE_HOME", NULL};
    place p;
    tarn__env env;
    if (!split(url, &p) || (!list && !p.path[0]))
        return tarn__fail(err, TARN_ERR_USAGE,
                          "invalid URL; expected hf://datasets/OWNER/NAME/PATH, with "
                          "@REVISION after the name for another revision than main");
    object->signer = calloc(1, sizeof(hf_signer));
    if (!object->signer) return tarn__fail_memory(err);
    object->sign = sign;
    object->follow = !list;
    tarn_status status = tarn__env_take(&env, prefixes, err);
    if (status == TARN_OK) status = init(object, &env, &p, list, err);
    tarn__env_reset(&env);
    return status;
}
