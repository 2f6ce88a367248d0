/* Multipart uploads and conditional requests: see s3_upload.h. */
#include "io/s3_upload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/error.h"
#include "io/url.h"

enum { MAX_PARTS = 10000 };

typedef struct call {
    const char *method, *query;
    const char *const *headers;
    const char *mark; /* for requests that create an object */
    const void *body;
    size_t len;
} call;

/* Sends a request; its response is in u->http.head and u->reply. */
static tarn_status exchange(tarn__s3_upload *u, const call *c, tarn_error *err)
{
    size_t size = strlen(u->object.url) + strlen(c->query) + 2;
    char *url = malloc(size);
    if (!url) return tarn__fail_memory(err);
    snprintf(url, size, "%s%s%s", u->object.url, c->query[0] ? "?" : "", c->query);
    tarn__http_request r = {
        .method = c->method,
        .url = url,
        .headers = c->headers,
        .body = c->body,
        .body_size = c->len,
        .mark = c->mark,
    };
    tarn_status status = tarn__http_exchange(&u->http, &r, &u->reply, err);
    free(url);
    return status;
}

static tarn_status send_request(tarn__s3_upload *u, const call *c, tarn_error *err)
{
    TARN_TRY(exchange(u, c, err));
    long code = u->http.head.status;
    if (code >= 200 && code < 300) return TARN_OK;
    return tarn__http_fail_status(&u->http, u->reply.body, u->reply.size, err);
}

/* Whether the object is the one that this writer has sent. */
static bool is_ours(tarn__s3_upload *u)
{
    call c = {.method = "HEAD", .query = "", .body = ""};
    const tarn__http_head *head = &u->http.head;
    return exchange(u, &c, NULL) == TARN_OK && head->status == 200 &&
           strcmp(head->mark, u->mark) == 0 && head->has_length &&
           head->length == u->total;
}

/* Another conditional write of the same object may be under way. */
static tarn_status send_patiently(tarn__s3_upload *u, const call *c, tarn_error *err)
{
    for (unsigned failures = 0;;) {
        tarn_status status = send_request(u, c, err);
        if (status == TARN_OK || u->http.head.status != 409 || strcmp(c->method, "PUT") ||
            failures >= u->http.config.retries)
            return status;
        tarn__http_back_off(++failures);
    }
}

/* Creates the object if the condition is met. If a store does not support an optional
 * condition, it says so, and the request is repeated without it. If a response was lost,
 * the next attempt (of this program or of libcurl) finds the object (412) or no upload
 * (404); then *out_found says that the object is ours. */
static tarn_status create_object(tarn__s3_upload *u, call *c, bool *out_found,
                                 tarn_error *err)
{
    const char *const headers[] = {u->condition, NULL};
    tarn_error first;
    *out_found = false;
    c->headers = headers;
    tarn_status status = send_patiently(u, c, &first);
    long code = u->http.head.status;
    if (status != TARN_OK && u->condition && u->optional && code == 501) {
        c->headers = NULL;
        status = send_request(u, c, &first);
        code = u->http.head.status;
    }
    if (status == TARN_OK) return TARN_OK;
    if (code == 412 || code == 404) *out_found = is_ours(u);
    if (*out_found) return TARN_OK;
    if (code == 409) status = first.code = TARN_ERR_STALE;
    if (err) *err = first;
    return status;
}

static tarn_status fail_odd(tarn__s3_upload *u, const char *what, tarn_error *err)
{
    return tarn__fail_at(err, TARN_ERR_IO, u->object.shown, TARN_NO_OFFSET,
                         "the response of the store has no %s", what);
}

static tarn_status begin_upload(tarn__s3_upload *u, tarn_error *err)
{
    call c = {.method = "POST", .query = "uploads=", .mark = u->mark, .body = ""};
    TARN_TRY(send_request(u, &c, err));
    const char *from = strstr(u->reply.body, "<UploadId>");
    const char *to = from ? strstr(from, "</UploadId>") : NULL;
    if (!to) return fail_odd(u, "upload id", err);
    from += strlen("<UploadId>");
    /* The id is sent back unchanged; an id with XML escapes is rejected. */
    if (to == from || memchr(from, '&', (size_t)(to - from)))
        return fail_odd(u, "usable upload id", err);
    tarn__buf query;
    tarn__buf_init(&query, 16384);
    tarn_status status = tarn__buf_add(&query, "uploadId=", 9, err);
    if (status == TARN_OK)
        status = tarn__url_encode(&query, from, (size_t)(to - from), false, err);
    if (status == TARN_OK) status = tarn__buf_add(&query, "", 1, err);
    if (status == TARN_OK)
        u->id = query.data;
    else
        tarn__buf_reset(&query);
    return status;
}

static tarn_status note_etag(tarn__s3_upload *u, const char *etag, size_t len,
                             tarn_error *err)
{
    char text[512];
    if (len >= 2 && etag[0] == '"' && etag[len - 1] == '"') {
        etag++;
        len -= 2;
    }
    if (len == 0 || len > 255 || strcspn(etag, "<>&\"") < len)
        return fail_odd(u, "usable ETag", err);
    int n = snprintf(text, sizeof text,
                     "<Part><PartNumber>%u</PartNumber><ETag>&quot;%.*s&quot;</ETag>"
                     "</Part>",
                     u->parts, (int)len, etag);
    return tarn__buf_add(&u->etags, text, (size_t)n, err);
}

static tarn_status send_part(tarn__s3_upload *u, call *c, tarn_error *err)
{
    if (!u->id) TARN_TRY(begin_upload(u, err));
    if (u->parts == MAX_PARTS)
        return tarn__fail_at(err, TARN_ERR_LIMIT, u->object.shown, TARN_NO_OFFSET,
                             "more than %d parts", MAX_PARTS);
    size_t size = strlen(u->id) + 64;
    char *query = malloc(size);
    if (!query) return tarn__fail_memory(err);
    u->parts++;
    snprintf(query, size, "partNumber=%u&%s", u->parts, u->id);
    c->query = query;
    tarn_status status = send_request(u, c, err);
    free(query);
    return status;
}

tarn_status tarn__s3_upload_part(tarn__s3_upload *u, const void *data, size_t len,
                                 tarn_error *err)
{
    call c = {.method = "PUT", .body = data, .len = len};
    TARN_TRY(send_part(u, &c, err));
    return note_etag(u, u->http.head.etag, strlen(u->http.head.etag), err);
}

/* The ETag of a part that was copied is in the body, which may report a failure although
 * the status is 200. */
tarn_status tarn__s3_upload_copy(tarn__s3_upload *u, const char *const *headers,
                                 uint64_t len, tarn_error *err)
{
    static const char quote[] = "&quot;";
    const size_t n = sizeof quote - 1;
    call c = {.method = "PUT", .headers = headers, .body = ""};
    TARN_TRY(send_part(u, &c, err));
    const char *from = strstr(u->reply.body, "<ETag>");
    const char *to = from ? strstr(from, "</ETag>") : NULL;
    if (strstr(u->reply.body, "<Error"))
        return tarn__http_fail_status(&u->http, u->reply.body, u->reply.size, err);
    if (!to) return fail_odd(u, "ETag of the copy", err);
    from += strlen("<ETag>");
    if ((size_t)(to - from) > 2 * n && memcmp(from, quote, n) == 0 &&
        memcmp(to - n, quote, n) == 0) {
        from += n;
        to -= n;
    }
    u->total += len;
    return note_etag(u, from, (size_t)(to - from), err);
}

/* The store may respond with success first and report a failure in the body later. Only a
 * body that says so is a success. */
static tarn_status check_completed(tarn__s3_upload *u, tarn_error *err)
{
    const char *body = u->reply.body;
    if (strstr(body, "<Error"))
        return tarn__http_fail_status(&u->http, body, u->reply.size, err);
    if (strstr(body, "CompleteMultipartUploadResult")) return TARN_OK;
    return fail_odd(u, "confirmation that the object is complete", err);
}

tarn_status tarn__s3_upload_complete(tarn__s3_upload *u, tarn_error *err)
{
    static const char head[] = "<CompleteMultipartUpload>";
    static const char tail[] = "</CompleteMultipartUpload>";
    tarn__buf body;
    tarn__buf_init(&body, u->etags.size + 256);
    tarn_status status = tarn__buf_add(&body, head, sizeof head - 1, err);
    if (status == TARN_OK)
        status = tarn__buf_add(&body, u->etags.data, u->etags.size, err);
    if (status == TARN_OK) status = tarn__buf_add(&body, tail, sizeof tail - 1, err);
    bool found = false;
    call c = {.method = "POST", .query = u->id, .body = body.data, .len = body.size};
    if (status == TARN_OK) status = create_object(u, &c, &found, err);
    tarn__buf_reset(&body);
    TARN_TRY(status);
    if (!found) TARN_TRY(check_completed(u, err));
    free(u->id);
    u->id = NULL;
    return TARN_OK;
}

tarn_status tarn__s3_upload_whole(tarn__s3_upload *u, const void *data, size_t len,
                                  tarn_error *err)
{
    bool found;
    call c = {.method = "PUT", .query = "", .mark = u->mark, .body = data, .len = len};
    u->total = len;
    return create_object(u, &c, &found, err);
}

/* Parts of an upload that is not aborted are stored, and billed, until it is aborted. */
void tarn__s3_upload_reset(tarn__s3_upload *u)
{
    if (u->http.config.retries > 1) u->http.config.retries = 1; /* do not wait long */
    call abort = {.method = "DELETE", .query = u->id, .body = ""};
    if (u->id) (void)!send_request(u, &abort, NULL);
    tarn__http_reset(&u->http);
    tarn__object_reset(&u->object);
    tarn__buf_reset(&u->etags);
    free(u->id);
    u->id = NULL;
}

static tarn_status make_mark(tarn__s3_upload *u, tarn_error *err)
{
    unsigned char number[TARN__S3_MARK_SIZE / 2];
    if (getrandom(number, sizeof number, 0) != sizeof number)
        return tarn__fail_errno(err, NULL, errno, "cannot get a random number");
    for (size_t i = 0; i < sizeof number; i++)
        snprintf(u->mark + 2 * i, 3, "%02x", number[i]);
    return TARN_OK;
}

tarn_status tarn__s3_upload_open(tarn__s3_upload *u, const char *url, const char *mark,
                                 const tarn_sink_options *options, tarn_error *err)
{
    memset(u, 0, sizeof *u);
    tarn__buf_init(&u->etags, 8 << 20);
    if (mark)
        snprintf(u->mark, sizeof u->mark, "%s", mark);
    else
        TARN_TRY(make_mark(u, err));
    TARN_TRY(tarn__object_init(&u->object, url, err));
    tarn__http_config config = tarn__object_http(&u->object);
    config.connect_seconds = options->connect_seconds;
    config.stall_seconds = options->stall_seconds;
    config.retries = options->retries;
    return tarn__http_init(&u->http, &config, err);
}
