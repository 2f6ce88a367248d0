/* A remote object: where it is requested, and what authenticates the request. The only
 * place that knows which URL schemes are remote. */
#ifndef TARN_IO_OBJECT_H
#define TARN_IO_OBJECT_H

#include "io/http.h"

typedef struct tarn__object {
    char *url;               /* as used in requests */
    char *shown;             /* for messages, without secrets */
    tarn__http_sign *sign;   /* NULL: requests are not signed */
    tarn__http_renew *renew; /* NULL: a refused request stays refused */
    void *signer;            /* released with free() */
    bool follow;             /* the server may redirect */
    const char *only_new;    /* the header of a write that must not replace anything;
                                NULL: If-None-Match */
} tarn__object;

/* Whether a path is a URL of a remote scheme. */
bool tarn__is_remote(const char *path);

/* Finds the credentials (for the first object that may contact the servers which give
 * them); does not contact the object's server. */
TARN_CHECKED tarn_status tarn__object_init(tarn__object *object, const char *url,
                                           tarn_error *err);
/* The same for the requests that list the objects of the URL's bucket, container or
 * repository: url is theirs, and may have a query. */
TARN_CHECKED tarn_status tarn__object_init_list(tarn__object *object, const char *url,
                                                tarn_error *err);
void tarn__object_reset(tarn__object *object);

/* The client of an object; shown and signer are borrowed. */
tarn__http_config tarn__object_http(const tarn__object *object);

/* What distinguishes an object from another one at the same URL. */
typedef struct tarn__object_id {
    uint64_t size;     /* UINT64_MAX: unknown */
    char etag[256];    /* "" if the server sends none */
    char modified[64]; /* the date of the last change; "" if the server sends none */
} tarn__object_id;

/* Whether they may be the same: both sizes are equal or one is unknown, and so on. A weak
 * ETag promises the same meaning, not the same bytes, and counts like none. */
bool tarn__object_agrees(const tarn__object_id *a, const tarn__object_id *b);

#endif
