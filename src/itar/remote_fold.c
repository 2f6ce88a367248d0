/* Finds remote folds: the names of the shards come from the URL, from a listing, or from
 * the sums. */
#include "itar/remote_fold.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/text.h"
#include "io/url.h"
#include "itar/remote_place.h"

/* What is known about a shard. */
typedef struct tarn__found {
    const char *etag;
    uint64_t size; /* UINT64_MAX: unknown */
} found;

/* The shards that the sums name. */
static tarn_status shards_of_sums(tarn__remote_fold *f, const tarn__place_url *p,
                                  tarn_error *err)
{
    const tarn__sums *sums = f->index->sums;
    tarn__buf text;
    size_t *starts = calloc(sums->n_shards + 1, sizeof *starts);
    f->shards = calloc(sums->n_shards + 1, sizeof *f->shards);
    tarn__buf_init(&text, TARN_MAX_URL_BYTES);
    tarn_status status = starts && f->shards ? TARN_OK : tarn__fail_memory(err);
    for (size_t i = 0; status == TARN_OK && i < sums->n_shards; i++) {
        tarn__name name = tarn__names_get(&sums->names, i);
        starts[i] = text.size;
        status = memchr(name.data, '/', name.size)
                     ? tarn__fail_at(err, TARN_ERR_FORMAT, sums->path, TARN_NO_OFFSET,
                                     "the name of a shard contains a slash: %s",
                                     TARN__SHOW(name.data, name.size))
                     : tarn__buf_printf(&text, err, "%s/", p->folder);
        if (status == TARN_OK)
            status = p->web ? tarn__url_encode(&text, name.data, name.size, false, err)
                            : tarn__buf_add(&text, name.data, name.size, err);
        if (status == TARN_OK)
            status = tarn__buf_add(&text, p->query, strlen(p->query) + 1, err);
    }
    f->texts = text.data;
    for (size_t i = 0; status == TARN_OK && i < sums->n_shards; i++)
        f->shards[f->n_shards++] = f->texts + starts[i];
    free(starts);
    return status;
}

/* The shards as they were listed or given. */
static tarn_status copy_shards(tarn__remote_fold *f, const char *const *urls,
                               size_t count, tarn_error *err)
{
    size_t total = 0;
    if (count > TARN_MAX_SHARDS)
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "%zu shards, but a fold can have at most %u", count,
                          TARN_MAX_SHARDS);
    for (size_t i = 0; i < count; i++)
        total += strlen(urls[i]) + 1;
    f->shards = calloc(count + 1, sizeof *f->shards);
    char *at = f->texts = malloc(total + 1);
    if (!f->shards || !at) return tarn__fail_memory(err);
    for (size_t i = 0; i < count; i++) {
        f->shards[f->n_shards++] = at;
        at = stpcpy(at, urls[i]) + 1;
    }
    return TARN_OK;
}

static tarn_status fail_several(const tarn_folds *folds, const tarn__place_url *p,
                                tarn_error *err)
{
    char names[512];
    size_t used = 0;
    for (size_t i = 0; i < folds->count && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                 folds->folds[i]->name);
    return tarn__fail_at(err, TARN_ERR_AMBIGUOUS, p->folder, TARN_NO_OFFSET,
                         "several folds found (%s); select one, for example with :%s at "
                         "the end of the folder",
                         names, folds->folds[0]->name);
}

/* While these exist, a commit is copying shards, and the index may not have them yet. */
static bool has_waiting_sums(const tarn__place_url *p, const char *fold)
{
    char *name;
    bool there = false;
    if (!p->listed || asprintf(&name, ".%s.tarsum.next", fold) < 0) return false;
    for (size_t i = 0; !there && i < p->listing.count; i++)
        there = strcmp(tarn__base_name(p->listing.objects[i].url), name) == 0;
    free(name);
    return there;
}

/* The shards of the only fold of a place. *out_index is the URL of its index. */
static tarn_status shards_of_place(tarn__remote_fold *f, tarn__place_url *p,
                                   char **out_index, tarn_error *err)
{
    tarn_folds *folds;
    TARN_TRY(tarn__remote_group(p, &folds, err));
    const tarn_listed_fold *one = folds->folds[0];
    tarn_status status = folds->count > 1
                             ? fail_several(folds, p, err)
                             : copy_shards(f, one->shards, one->n_shards, err);
    if (status == TARN_OK && !(f->name = strdup(one->name)))
        status = tarn__fail_memory(err);
    f->growing = has_waiting_sums(p, one->name);
    if (status == TARN_OK && out_index && !(*out_index = strdup(one->index_path)))
        status = tarn__fail_memory(err);
    tarn_folds_free(folds);
    return status;
}

/* Puts URLs into the order in which the sums name them. */
static tarn_status sort_by_sums(tarn__remote_fold *f, tarn_error *err)
{
    const tarn__sums *sums = f->index->sums;
    const char **sorted = calloc(f->n_shards + 1, sizeof *sorted);
    tarn_status status = sorted ? TARN_OK : tarn__fail_memory(err);
    for (size_t i = 0; status == TARN_OK && i < f->n_shards; i++) {
        char *name = tarn__remote_name(f->shards[i]);
        uint32_t at = name ? tarn__names_find(&sums->names, name, strlen(name)) : 0;
        if (!name)
            status = tarn__fail_memory(err);
        else if (at == TARN__NAME_NONE || at >= f->n_shards || sorted[at])
            status = tarn__fail_at(err, TARN_ERR_STALE, f->index->path, TARN_NO_OFFSET,
                                   "the index does not contain shard %s, or it is given "
                                   "twice",
                                   TARN__SHOW(name, strlen(name)));
        else
            sorted[at] = f->shards[i];
        free(name);
    }
    if (status == TARN_OK) memcpy(f->shards, sorted, f->n_shards * sizeof *sorted);
    free(sorted);
    return status;
}

/* --- Checks ------------------------------------------------------------------------- */

static int compare_listed(const void *url, const void *object)
{
    return strcmp(url, ((const tarn__listed *)object)->url);
}

/* Keeps what the listing says about each shard. */
static tarn_status keep_listing(tarn__remote_fold *f, const tarn__place_url *p,
                                tarn_error *err)
{
    size_t total = 0;
    f->ids = calloc(f->n_shards + 1, sizeof *f->ids);
    if (!f->ids) return tarn__fail_memory(err);
    for (size_t i = 0; i < f->n_shards; i++) {
        const tarn__listed *one =
            p->listing.count ? bsearch(f->shards[i], p->listing.objects, p->listing.count,
                                       sizeof *one, compare_listed)
                             : NULL;
        f->ids[i] = (found){one ? one->etag : "", one ? one->size : UINT64_MAX};
        total += strlen(f->ids[i].etag) + 1;
    }
    char *at = f->etags = malloc(total + 1);
    if (!at) return tarn__fail_memory(err);
    for (size_t i = 0; i < f->n_shards; i++) {
        const char *etag = f->ids[i].etag;
        f->ids[i].etag = at;
        at = stpcpy(at, etag) + 1;
    }
    return TARN_OK;
}

static tarn_status fail_shard(const tarn__remote_fold *f, const char *what,
                              const char *name, tarn_error *err)
{
    return tarn__fail_at(err, TARN_ERR_STALE, f->index->path, TARN_NO_OFFSET,
                         "%s %s; run tarn index again, or open the whole fold", what,
                         TARN__SHOW(name, strlen(name)));
}

/* The shards must be those that were indexed: first names, then sizes that are known. */
static tarn_status check_shard(tarn__remote_fold *f, size_t i, tarn_error *err)
{
    const tarn__sums *sums = f->index->sums;
    const char *want = i < sums->n_shards ? tarn__names_get(&sums->names, i).data : NULL;
    char *have = i < f->n_shards ? tarn__remote_name(f->shards[i]) : NULL;
    tarn_status status = TARN_OK;
    if (i < f->n_shards && !have)
        status = tarn__fail_memory(err);
    else if (have && (!want || strcmp(have, want) < 0))
        status = fail_shard(f, "the index does not contain shard", have, err);
    else if (want && (!have || strcmp(have, want) > 0))
        status = fail_shard(f,
                            have ? "the index has a shard that does not exist:"
                                 : "the index also has the shard",
                            want, err);
    else if (f->ids[i].size != UINT64_MAX && f->ids[i].size != sums->stamps[i].size)
        status = tarn__fail_at(err, TARN_ERR_STALE, f->shards[i], TARN_NO_OFFSET,
                               "the shard has %llu bytes, but had %llu when it was "
                               "indexed; run tarn index again",
                               (unsigned long long)f->ids[i].size,
                               (unsigned long long)sums->stamps[i].size);
    else
        f->ids[i].size = sums->stamps[i].size;
    free(have);
    return status;
}

static tarn_status check_shards(tarn__remote_fold *f, tarn_error *err)
{
    const tarn__sums *sums = f->index->sums;
    for (size_t i = 0; sums && (i < f->n_shards || i < sums->n_shards); i++)
        TARN_TRY(check_shard(f, i, err));
    return TARN_OK;
}

/* The shards that the index names, of those that were listed. */
static tarn_status drop_coming(tarn__remote_fold *f, tarn_error *err)
{
    const tarn__sums *sums = f->index->sums;
    size_t kept = 0;
    for (size_t i = 0; sums && i < f->n_shards; i++) {
        char *name = tarn__remote_name(f->shards[i]);
        if (!name) return tarn__fail_memory(err);
        if (tarn__names_find(&sums->names, name, strlen(name)) != TARN__NAME_NONE)
            f->shards[kept++] = f->shards[i];
        free(name);
    }
    if (sums) f->n_shards = kept;
    f->shards[f->n_shards] = NULL;
    return TARN_OK;
}

/* --- Finding ------------------------------------------------------------------------ */

/* What to do without an index. */
static void explain_missing(const tarn__place_url *p, const char *url, tarn_error *err)
{
    char *shown, *shards = NULL, path[TARN_ERROR_PATH_MAX];
    if (!err || strstr(err->message, "(NoSuchBucket") ||
        strstr(err->message, "(ContainerNotFound"))
        return;
    if (p->web && p->only &&
        asprintf(&shards, "%s/%s-{0000..0099}.tar", p->folder, p->only) < 0)
        shards = NULL;
    shown = tarn__url_shown(shards ? shards : url);
    free(shards);
    memcpy(path, err->path, sizeof path);
    tarn__error_set(err, TARN_ERR_NO_FILE, path, TARN_NO_OFFSET,
                    "no index here; create one with: tarn index '%s' -o FOLDER, and open "
                    "the fold with this index (index=, --index), or upload both of its "
                    "files to this place",
                    shown ? shown : "URL");
    free(shown);
}

static tarn_status fetch_index(tarn__remote_fold *f, const tarn__place_url *p,
                               const char *url, const char *index_url, const char *cache,
                               tarn_error *err)
{
    tarn_status status = tarn__index_fetch(index_url, cache, &f->copy, err);
    if (status == TARN_ERR_NO_FILE) explain_missing(p, url, err);
    TARN_TRY(status);
    f->index = f->copy.index;
    f->copy.index = NULL;
    f->index_path = f->copy.path;
    return TARN_OK;
}

/* A fold whose name is known: its index may name the shards. */
static tarn_status find_named(tarn__remote_fold *f, tarn__place_url *p, const char *url,
                              const char *cache, tarn_error *err)
{
    char *index_url;
    if (asprintf(&index_url, "%s/%s.taridx%s", p->folder, p->only, p->query) < 0)
        return tarn__fail_memory(err);
    tarn_status status = fetch_index(f, p, url, index_url, cache, err);
    free(index_url);
    TARN_TRY(status);
    if (!f->index->sums) return shards_of_place(f, p, NULL, err);
    f->name = strdup(p->only);
    return f->name ? shards_of_sums(f, p, err) : tarn__fail_memory(err);
}

static tarn_status find_listed(tarn__remote_fold *f, tarn__place_url *p, const char *url,
                               const char *cache, tarn_error *err)
{
    char *index_url = NULL;
    tarn_status status = shards_of_place(f, p, &index_url, err);
    if (status == TARN_OK) status = fetch_index(f, p, url, index_url, cache, err);
    free(index_url);
    return status == TARN_OK && f->growing ? drop_coming(f, err) : status;
}

/* With an index of the caller. */
static tarn_status find_given(tarn__remote_fold *f, tarn__place_url *p, const char *index,
                              tarn_error *err)
{
    const char *name = tarn__base_name(index), *dot = strrchr(name, '.');
    f->copy.path = strdup(index);
    if (!f->copy.path) return tarn__fail_memory(err);
    f->index_path = f->copy.path;
    TARN_TRY(tarn__index_load(index, TARN__LOAD_TRUSTING, &f->index, err));
    if (p->glob || (!p->urls && !f->index->sums)) return shards_of_place(f, p, NULL, err);
    f->name = strndup(name, dot ? (size_t)(dot - name) : strlen(name));
    if (!f->name) return tarn__fail_memory(err);
    if (!p->urls) return shards_of_sums(f, p, err);
    TARN_TRY(copy_shards(f, p->urls->urls, p->urls->count, err));
    return f->index->sums ? sort_by_sums(f, err) : TARN_OK;
}

static tarn_status find(tarn__remote_fold *f, tarn__place_url *p, const char *url,
                        const tarn__remote_fold_options *o, tarn_error *err)
{
    tarn__buf text;
    if (o->index)
        TARN_TRY(find_given(f, p, o->index, err));
    else if (p->only)
        TARN_TRY(find_named(f, p, url, o->cache, err));
    else
        TARN_TRY(find_listed(f, p, url, o->cache, err));
    TARN_TRY(keep_listing(f, p, err));
    char *shown = tarn__url_shown(p->folder);
    tarn__buf_init(&text, 2 * TARN__MAX_URL);
    tarn_status status = shown ? tarn__buf_printf(&text, err, "%s:%s", shown, f->name)
                               : tarn__fail_memory(err);
    free(shown);
    f->dataset = text.data;
    return status == TARN_OK ? check_shards(f, err) : status;
}

static tarn_status find_once(const char *url, const tarn__remote_fold_options *options,
                             tarn__remote_fold **out, bool *out_listed, tarn_error *err)
{
    tarn__remote_fold_options none = {0};
    tarn__place_url p = {0};
    tarn__remote_fold *f = calloc(1, sizeof *f);
    *out_listed = false;
    if (!f) return tarn__fail_memory(err);
    tarn_status status = TARN_OK;
    if (tarn_remote_form(url) == TARN_REMOTE_NONE)
        status = tarn__fail_at(
            err, TARN_ERR_UNSUPPORTED, url, TARN_NO_OFFSET,
            "not the URL of a fold: expected FOLDER:FOLD, FOLD.taridx, or the shards as "
            "FOLDER/FOLD-{0000..0099}.tar");
    if (status == TARN_OK) status = tarn__remote_parse(&p, url, err);
    if (status == TARN_OK) status = find(f, &p, url, options ? options : &none, err);
    if (status != TARN_OK && err && !err->path[0])
        tarn__error_place(err, url, TARN_NO_OFFSET);
    *out_listed = p.listed && !(options && options->index);
    tarn__remote_parse_reset(&p);
    if (status == TARN_OK)
        *out = f;
    else
        tarn__remote_fold_free(f);
    return status;
}

/* A commit may publish the fold between the listing and the request for its index. */
tarn_status tarn__remote_fold_find(const char *url,
                                   const tarn__remote_fold_options *options,
                                   tarn__remote_fold **out, tarn_error *err)
{
    enum { TRIES = 3 };
    bool listed;
    tarn_status status = find_once(url, options, out, &listed, err);
    for (unsigned i = 1; i < TRIES && status == TARN_ERR_STALE && listed; i++)
        status = find_once(url, options, out, &listed, err);
    return status;
}

void tarn__remote_fold_free(tarn__remote_fold *f)
{
    if (!f) return;
    tarn_index_free(f->index);
    tarn__index_copy_reset(&f->copy);
    free(f->name);
    free(f->dataset);
    free(f->shards);
    free(f->texts);
    free(f->ids);
    free(f->etags);
    free(f);
}

tarn_index *tarn__remote_fold_take(tarn__remote_fold *f)
{
    tarn_index *index = f->index;
    f->index = NULL;
    return index;
}

void tarn__remote_fold_id(const tarn__remote_fold *f, size_t shard, tarn__object_id *out)
{
    *out = (tarn__object_id){.size = f->ids[shard].size};
    snprintf(out->etag, sizeof out->etag, "%s", f->ids[shard].etag);
}
