/* Remote files: what is known about them. remote_copy.c opens their copies, remote_read.c
 * reads them. */
#include "io/remote.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "io/remote_file.h"
#include "io/url.h"

static _Thread_local tarn__remote_task current;

tarn__remote_task tarn__remote_begin(tarn__remote_task task)
{
    tarn__remote_task before = current;
    current = task;
    return before;
}

const tarn__remote_task *tarn__remote_current(void)
{
    return &current;
}

/* --- Opening ----------------------------------------------------------------------- */

static bool says_version(const tarn__object_id *id)
{
    return id->size != UINT64_MAX && (id->etag[0] || id->modified[0]);
}

tarn_status tarn__remote_open(const char *url, tarn__cachedir *cache, const char *dataset,
                              const tarn__object_id *known,
                              const tarn__fetch_limits *limits, tarn__remote **out,
                              tarn_error *err)
{
    static atomic_ullong opened;
    tarn__remote *r = calloc(1, sizeof *r);
    if (!r) return tarn__fail_memory(err);
    r->number = atomic_fetch_add_explicit(&opened, 1, memory_order_relaxed);
    r->cache = cache;
    r->limits = *limits;
    r->url = strdup(url);
    r->shown = tarn__url_shown(url);
    r->dataset = strdup(dataset);
    if (known) r->known = malloc(sizeof *known);
    if (!r->url || !r->shown || !r->dataset || (known && !r->known)) {
        tarn__remote_close(r);
        return tarn__fail_memory(err);
    }
    if (known) *r->known = *known;
    atomic_init(&r->identified, known && says_version(known));
    *out = r;
    return TARN_OK;
}

void tarn__remote_close(tarn__remote *r)
{
    if (!r) return;
    tarn__remote_forget(r);
    if (atomic_load(&r->fetched)) tarn__fetched_close(atomic_load(&r->fetched));
    free(r->url);
    free(r->shown);
    free(r->dataset);
    free(r->known);
    free(atomic_load(&r->requested));
    free(r);
}

const char *tarn__remote_shown(const tarn__remote *r)
{
    return r->shown;
}

/* --- Its parts --------------------------------------------------------------------- */

tarn_status tarn__remote_fetched(tarn__remote *r, tarn__fetched **out, tarn_error *err)
{
    tarn__object object;
    tarn__fetched *mine, *theirs = NULL;
    *out = atomic_load(&r->fetched);
    if (*out) return TARN_OK;
    TARN_TRY(tarn__object_init(&object, r->url, err));
    char *url = strdup(object.url), *none = NULL;
    if (!url) {
        tarn__object_reset(&object);
        return tarn__fail_memory(err);
    }
    if (!atomic_compare_exchange_strong(&r->requested, &none, url)) free(url);
    TARN_TRY(tarn__fetched_open(&object, r->known, &r->limits, &mine, err));
    *out = mine;
    if (atomic_compare_exchange_strong(&r->fetched, &theirs, mine)) return TARN_OK;
    tarn__fetched_close(mine);
    *out = theirs;
    return TARN_OK;
}

tarn_status tarn__remote_identify(tarn__remote *r, tarn__object_id *out, tarn_error *err)
{
    tarn__fetched *fetched;
    if (r->counted) {
        *out = (tarn__object_id){.size = tarn__counted_size(r->counted)};
        return TARN_OK;
    }
    TARN_TRY(tarn__remote_fetched(r, &fetched, err));
    return tarn__fetched_identify(fetched, out, err);
}

tarn_status tarn__remote_prepare(tarn__remote *r, tarn_error *err)
{
    tarn__cached *cached;
    unsigned char byte;
    tarn__remote_piece first = {r, 0, 1, &byte, false};
    if (!atomic_load(&r->identified)) TARN_TRY(tarn__remote_read(&first, 1, err));
    TARN_TRY(tarn__remote_use(r, &cached, err));
    if (cached) tarn__remote_release(r);
    return TARN_OK;
}
