/* The table of remote schemes. */
#include "io/object.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "io/s3.h"
#include "io/url.h"

static tarn_status init_http(tarn__object *object, const char *url, tarn_error *err)
{
    object->url = strdup(url);
    object->follow = true;
    return object->url ? TARN_OK : tarn__fail_memory(err);
}

static tarn_status init_s3(tarn__object *object, const char *url, tarn_error *err)
{
    tarn__s3_object s3;
    TARN_TRY(tarn__s3_object_init(&s3, url, err));
    object->url = s3.url;
    object->sign = tarn__s3_sign;
    object->signer = s3.signer;
    return TARN_OK;
}

static const struct scheme {
    const char *name;
    tarn_status (*init)(tarn__object *object, const char *url, tarn_error *err);
} schemes[] = {
    {"http", init_http},
    {"https", init_http},
    {"s3", init_s3},
};

static const struct scheme *scheme_of(const char *url)
{
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (tarn__url_scheme_is(url, schemes[i].name)) return &schemes[i];
    return NULL;
}

bool tarn__is_remote(const char *path)
{
    return scheme_of(path) != NULL;
}

tarn_status tarn__object_init(tarn__object *object, const char *url, tarn_error *err)
{
    const struct scheme *scheme = scheme_of(url);
    *object = (tarn__object){0};
    object->shown = tarn__url_shown(url);
    if (!object->shown) return tarn__fail_memory(err);
    tarn_status status = scheme ? scheme->init(object, url, err)
                                : tarn__fail(err, TARN_ERR_USAGE, "not a remote URL");
    if (status == TARN_OK) return TARN_OK;
    if (err && !err->path[0]) tarn__error_place(err, object->shown, TARN_NO_OFFSET);
    tarn__object_reset(object);
    return status;
}

void tarn__object_reset(tarn__object *object)
{
    free(object->url);
    free(object->shown);
    free(object->signer);
    *object = (tarn__object){0};
}

static bool texts_agree(const char *a, const char *b)
{
    return !a[0] || !b[0] || strcmp(a, b) == 0;
}

/* A weak tag promises the same meaning, not the same bytes. */
static const char *strong(const char *etag)
{
    return etag[0] == '"' ? etag : "";
}

bool tarn__object_agrees(const tarn__object_id *a, const tarn__object_id *b)
{
    if (a->size != b->size && a->size != UINT64_MAX && b->size != UINT64_MAX)
        return false;
    if (strong(a->etag)[0] && strong(b->etag)[0]) return strcmp(a->etag, b->etag) == 0;
    return texts_agree(a->modified, b->modified);
}
