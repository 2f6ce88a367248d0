/* Takes URLs of folds apart, and lists folders in stores. */
#include "itar/remote_place.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "io/object.h"
#include "io/url.h"
#include "itar/folder.h"

static bool is_web(const char *url)
{
    return tarn__url_scheme_is(url, "http") || tarn__url_scheme_is(url, "https");
}

static bool ends_with(const char *text, size_t len, const char *ending)
{
    size_t n = strlen(ending);
    return len > n && memcmp(text + len - n, ending, n) == 0;
}

size_t tarn__remote_bare(const char *url)
{
    return is_web(url) ? strcspn(url, "?#") : strlen(url);
}

static bool is_pattern(const char *url, size_t len)
{
    return strstr(url, "::") || memchr(url, '{', len);
}

/* Whether names are matched, which needs a listing. */
static bool is_glob(const char *url)
{
    return !is_web(url) && strpbrk(url, "*?[");
}

/* The colon before the name of a fold; not that of a port. */
static const char *fold_colon(const char *url, size_t len)
{
    const char *colon = memrchr(url, ':', len), *host = strstr(url, "://") + 3;
    if (!colon || colon < host || colon + 1 == url + len) return NULL;
    if (memchr(colon, '/', (size_t)(url + len - colon))) return NULL;
    if (is_web(url) && !memchr(host, '/', (size_t)(colon - host))) return NULL;
    return colon;
}

/* Files that are not shards, and archives that can only be read as streams. */
static bool is_other_file(const char *url, size_t len)
{
    static const char *const endings[] = {".gz",  ".tgz", ".bz2", ".tbz2",
                                          ".xz",  ".txz", ".zst", ".tzst",
                                          ".lz4", ".gnz", ".iac", ".tarsum"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (ends_with(url, len, endings[i])) return true;
    return false;
}

static tarn_remote form_of_one(const char *url)
{
    size_t len = tarn__remote_bare(url);
    if (ends_with(url, len, ".tar")) return TARN_REMOTE_SHARDS;
    if (ends_with(url, len, ".taridx") || fold_colon(url, len)) return TARN_REMOTE_FOLD;
    if (is_web(url) || is_other_file(url, len)) return TARN_REMOTE_NONE;
    return TARN_REMOTE_FOLD;
}

tarn_remote tarn_remote_form(const char *path)
{
    tarn_urls *urls;
    if (!path || !tarn__is_remote(path)) return TARN_REMOTE_NONE;
    if (!is_pattern(path, tarn__remote_bare(path))) return form_of_one(path);
    if (tarn_urls_expand(path, &urls, NULL) != TARN_OK) return TARN_REMOTE_NONE;
    tarn_remote form = TARN_REMOTE_SHARDS;
    for (size_t i = 0; i < urls->count; i++) {
        const char *url = urls->urls[i];
        if (!tarn__is_remote(url) || form_of_one(url) != TARN_REMOTE_SHARDS)
            form = TARN_REMOTE_NONE;
    }
    tarn_urls_free(urls);
    return form;
}

/* --- Taking a URL apart ------------------------------------------------------------- */

void tarn__remote_parse_reset(tarn__place_url *p)
{
    free(p->folder);
    free(p->query);
    free(p->only);
    free(p->glob);
    free(p->files);
    free(p->names);
    tarn_urls_free(p->urls);
    tarn__listing_reset(&p->listing);
    *p = (tarn__place_url){0};
}

/* Sets folder and query; *out_name is the rest of the len bytes. */
static tarn_status split_folder(tarn__place_url *p, const char *url, size_t len,
                                const char **out_name, tarn_error *err)
{
    const char *slash = memrchr(url, '/', len);
    *out_name = slash + 1;
    p->folder = strndup(url, (size_t)(slash - url));
    p->query = strdup(url + tarn__remote_bare(url));
    return p->folder && p->query ? TARN_OK : tarn__fail_memory(err);
}

/* The shards, as URLs. Their files are only known if all are in one folder. */
static tarn_status take_urls(tarn__place_url *p, const char *list, tarn_error *err)
{
    const char *name;
    TARN_TRY(tarn_urls_expand(list, &p->urls, err));
    p->files = calloc(p->urls->count + 1, sizeof *p->files);
    if (!p->files) return tarn__fail_memory(err);
    const char *first = p->urls->urls[0];
    TARN_TRY(split_folder(p, first, tarn__remote_bare(first), &name, err));
    size_t at = strlen(p->folder);
    for (size_t i = 0; i < p->urls->count; i++) {
        const char *url = p->urls->urls[i];
        size_t len = tarn__remote_bare(url);
        p->apart |= strncmp(url, p->folder, at) != 0 || url[at] != '/' ||
                    memchr(url + at + 1, '/', len - at - 1) ||
                    strcmp(url + len, p->query) != 0;
        p->files[p->count++] = strrchr(url, '/') + 1;
    }
    return TARN_OK;
}

static tarn_status take_folder(tarn__place_url *p, const char *url, size_t len,
                               tarn_error *err)
{
    while (len && url[len - 1] == '/')
        len--;
    p->folder = strndup(url, len);
    p->query = strdup("");
    return p->folder && p->query ? TARN_OK : tarn__fail_memory(err);
}

tarn_status tarn__remote_parse(tarn__place_url *p, const char *url, tarn_error *err)
{
    size_t len = tarn__remote_bare(url);
    const char *colon = fold_colon(url, len), *name;
    *p = (tarn__place_url){.web = is_web(url)};
    if (is_pattern(url, len)) return take_urls(p, url, err);
    if (ends_with(url, len, ".taridx")) {
        TARN_TRY(split_folder(p, url, len, &name, err));
        p->only = strndup(name, (size_t)(url + len - name) - strlen(".taridx"));
        return p->only ? TARN_OK : tarn__fail_memory(err);
    }
    if (is_glob(url)) {
        TARN_TRY(split_folder(p, url, len, &name, err));
        p->glob = strdup(name);
        if (!p->glob) return tarn__fail_memory(err);
        if (!strpbrk(p->folder, "*?[")) return TARN_OK;
        return tarn__fail(err, TARN_ERR_USAGE,
                          "patterns are only supported in the last part of a URL");
    }
    if (ends_with(url, len, ".tar")) return take_urls(p, url, err);
    TARN_TRY(take_folder(p, url, colon ? (size_t)(colon - url) : len, err));
    if (!colon) return TARN_OK;
    free(p->query);
    p->query = strdup(url + len);
    p->only = strndup(colon + 1, (size_t)(url + len - colon - 1));
    return p->query && p->only ? TARN_OK : tarn__fail_memory(err);
}

/* --- Listing ------------------------------------------------------------------------ */

/* The part of a URL that all wanted objects share. */
static char *listing_prefix(const tarn__place_url *p)
{
    char *prefix;
    const char *fixed = p->glob ? p->glob : "";
    int len = (int)strcspn(fixed, "*?[");
    return asprintf(&prefix, "%s/%.*s", p->folder, len, fixed) < 0 ? NULL : prefix;
}

static tarn_status fail_web(const tarn__place_url *p, tarn_error *err)
{
    char *shown = tarn__url_shown(p->folder);
    tarn_status status = tarn__fail_at(
        err, TARN_ERR_UNSUPPORTED, shown, TARN_NO_OFFSET,
        "a web server does not list its files: write the shards as "
        "%s/%s-{0000..0099}.tar, or FOLDER:FOLD if FOLD.taridx and FOLD.tarsum are there",
        shown, p->only ? p->only : "train");
    free(shown);
    return status;
}

static tarn_status list_store(tarn__place_url *p, tarn_error *err)
{
    if (p->web) return fail_web(p, err);
    char *prefix = listing_prefix(p);
    if (!prefix) return tarn__fail_memory(err);
    tarn_status status = tarn__listing_read(&p->listing, prefix, false, err);
    free(prefix);
    TARN_TRY(status);
    p->listed = true;
    p->files = calloc(p->listing.count + 1, sizeof *p->files);
    if (!p->files) return tarn__fail_memory(err);
    for (size_t i = 0; i < p->listing.count; i++) {
        const char *name = strrchr(p->listing.objects[i].url, '/') + 1;
        if (!p->glob || fnmatch(p->glob, name, FNM_PERIOD) == 0 ||
            strcmp(p->glob, name) == 0)
            p->files[p->count++] = name;
    }
    return TARN_OK;
}

/* Names without the query, which URLs of a list end with. */
static tarn_status drop_query(tarn__place_url *p, tarn_error *err)
{
    size_t total = 0;
    if (!p->query[0]) return TARN_OK;
    for (size_t i = 0; i < p->count; i++)
        total += strcspn(p->files[i], "?#") + 1;
    char *at = p->names = malloc(total + 1);
    if (!at) return tarn__fail_memory(err);
    for (size_t i = 0; i < p->count; i++) {
        size_t len = strcspn(p->files[i], "?#");
        memcpy(at, p->files[i], len);
        at[len] = '\0';
        p->files[i] = at;
        at += len + 1;
    }
    return TARN_OK;
}

/* The folds of the files of a place. */
tarn_status tarn__remote_group(tarn__place_url *p, tarn_folds **out, tarn_error *err)
{
    if (p->apart)
        return tarn__fail_at(err, TARN_ERR_USAGE, p->urls->urls[0], TARN_NO_OFFSET,
                             "the shards of a fold must be in one folder; for others, "
                             "give an index of exactly these shards (index=, --index)");
    if (!p->files)
        TARN_TRY(list_store(p, err));
    else
        TARN_TRY(drop_query(p, err));
    if (p->listed && p->count == 0)
        return tarn__fail_at(err, TARN_ERR_NO_FOLD, p->folder, TARN_NO_OFFSET, "%s%s",
                             p->glob ? "no object matches "
                                     : "no objects here, and folders in it are not "
                                       "searched; give the folder of the shards",
                             p->glob ? p->glob : "");
    return tarn__folds_of(p->folder, p->query, p->only, p->files, p->count, out, err);
}

tarn_status tarn__remote_folds_list(const char *url, tarn_folds **out, tarn_error *err)
{
    tarn__place_url p;
    *out = NULL;
    tarn_status status = tarn__remote_parse(&p, url, err);
    if (status == TARN_OK) status = tarn__remote_group(&p, out, err);
    tarn__remote_parse_reset(&p);
    return status;
}

char *tarn__remote_name(const char *url)
{
    tarn__buf name;
    size_t len = tarn__remote_bare(url);
    const char *slash = memrchr(url, '/', len), *at = slash ? slash + 1 : url;
    len -= (size_t)(at - url);
    if (!is_web(url)) return strndup(at, len);
    tarn__buf_init(&name, TARN__MAX_URL + 1);
    if (tarn__url_decode(&name, at, len, NULL) == TARN_OK &&
        tarn__buf_add(&name, "", 1, NULL) == TARN_OK)
        return name.data;
    tarn__buf_reset(&name);
    return strndup(at, len);
}
