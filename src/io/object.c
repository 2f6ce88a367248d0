/* The table of remote schemes. */
#include "io/object.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "io/input.h"
#include "io/stores.h"
#include "io/url.h"

static tarn_status init_http(tarn__object *object, const char *url, bool list,
                             tarn_error *err)
{
    if (list)
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "HTTP has no listing of files; name them with braces, as in "
                          "https://host/train-{000000..000099}.tar");
    object->url = strdup(url);
    object->follow = true;
    return object->url ? TARN_OK : tarn__fail_memory(err);
}

static const struct scheme {
    const char *name;
    tarn__store_init *init;
} schemes[] = {
    {"http", init_http},   {"https", init_http},  {"s3", tarn__s3_init},
    {"gs", tarn__gs_init}, {"az", tarn__az_init}, {"hf", tarn__hf_init},
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

static tarn_status init(tarn__object *object, const char *url, bool list, tarn_error *err)
{
    const struct scheme *scheme = scheme_of(url);
    *object = (tarn__object){0};
    object->shown = tarn__url_shown(url);
    if (!object->shown) return tarn__fail_memory(err);
    tarn_status status = scheme ? scheme->init(object, url, list, err)
                                : tarn__fail(err, TARN_ERR_USAGE, "not a remote URL");
    if (status == TARN_OK) return TARN_OK;
    if (err && !err->path[0]) tarn__error_place(err, object->shown, TARN_NO_OFFSET);
    tarn__object_reset(object);
    return status;
}

tarn_status tarn__object_init(tarn__object *object, const char *url, tarn_error *err)
{
    return init(object, url, false, err);
}

tarn_status tarn__object_init_list(tarn__object *object, const char *url, tarn_error *err)
{
    return init(object, url, true, err);
}

tarn__http_config tarn__object_http(const tarn__object *object)
{
    return (tarn__http_config){
        .shown = object->shown,
        .follow = object->follow,
        .sign = object->sign,
        .renew = object->renew,
        .signer = object->signer,
    };
}

tarn_status tarn__object_input_open(const char *url, const char *shown,
                                    const tarn_source_options *options, tarn__input **out,
                                    tarn_error *err)
{
    tarn__object object;
    TARN_TRY(tarn__object_init(&object, url, err));
    tarn__http_config config = tarn__object_http(&object);
    config.connect_seconds = options->connect_seconds;
    config.stall_seconds = options->stall_seconds;
    config.retries = options->retries;
    config.min_speed = options->min_speed;
    tarn_status status = tarn__http_read(object.url, &config, out, err);
    object.signer = NULL; /* the input owns it, or has freed it */
    tarn__object_reset(&object);
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
