/* Writing to S3: data that fits in one part is one PUT, anything larger a multipart
 * upload, which is completed at finish and otherwise aborted. One part at a time is in
 * memory. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/error.h"
#include "io/object.h"
#include "io/output.h"
#include "io/url.h"

/* An upload has at most 10,000 parts. Doubling the size of a part after every thousand
 * parts reaches the largest possible object (5 TiB) and keeps parts small for smaller
 * objects: 8 MiB up to 8 GB, 64 MiB up to 120 GB. */
enum { FIRST_PART = 8 << 20, PARTS_OF_A_SIZE = 1000, MAX_PARTS = 10000 };

typedef struct s3_output {
    tarn__output out;
    tarn__http http;
    tarn__object object;
    char *shown;
    bool overwrite;
    char mark[33]; /* a random number in hex */
    uint64_t total;
    char *part;
    size_t used, capacity;
    unsigned parts;  /* number of parts sent */
    char *upload;    /* the upload's id, as it appears in a query */
    tarn__buf etags; /* of the parts, as XML */
    tarn__http_reply reply;
} s3_output;

static const char *const only_new[] = {"If-None-Match: *", NULL};

typedef struct call {
    const char *method, *query;
    const char *const *headers;
    const char *mark; /* for requests that create an object */
    const void *body;
    size_t len;
} call;

/* Sends a request; its response is in s->http.head and s->reply. */
static tarn_status exchange(s3_output *s, const call *c, tarn_error *err)
{
    size_t size = strlen(s->object.url) + strlen(c->query) + 2;
    char *url = malloc(size);
    if (!url) return tarn__fail_memory(err);
    snprintf(url, size, "%s%s%s", s->object.url, c->query[0] ? "?" : "", c->query);
    tarn__http_request r = {
        .method = c->method,
        .url = url,
        .headers = c->headers,
        .body = c->body,
        .body_size = c->len,
        .mark = c->mark,
    };
    tarn_status status = tarn__http_exchange(&s->http, &r, &s->reply, err);
    free(url);
    return status;
}

static tarn_status send_request(s3_output *s, const call *c, tarn_error *err)
{
    TARN_TRY(exchange(s, c, err));
    long code = s->http.head.status;
    if (code >= 200 && code < 300) return TARN_OK;
    return tarn__http_fail_status(&s->http, s->reply.body, s->reply.size, err);
}

/* Whether the object is the one that this writer has sent. */
static bool is_ours(s3_output *s)
{
    call c = {.method = "HEAD", .query = "", .body = ""};
    const tarn__http_head *head = &s->http.head;
    return exchange(s, &c, NULL) == TARN_OK && head->status == 200 &&
           strcmp(head->mark, s->mark) == 0 && head->has_length &&
           head->length == s->total;
}

/* Creates the object, by default only if there is none. If a store does not support that
 * condition, it says so, and the request is repeated without it; then the check at the
 * beginning is the only protection. If a response was lost, the next attempt (of this
 * program or of libcurl) finds the object (412) or no upload (404); then *out_found says
 * that the object is ours. */
static tarn_status create_object(s3_output *s, call *c, bool *out_found, tarn_error *err)
{
    tarn_error first;
    *out_found = false;
    c->headers = s->overwrite ? NULL : only_new;
    tarn_status status = send_request(s, c, &first);
    long code = s->http.head.status;
    if (status != TARN_OK && c->headers && code == 501) {
        c->headers = NULL;
        status = send_request(s, c, &first);
        code = s->http.head.status;
    }
    if (status == TARN_OK) return TARN_OK;
    if (code == 412 || code == 404) *out_found = is_ours(s);
    if (*out_found) return TARN_OK;
    if (err) *err = first;
    return status;
}

static tarn_status fail_odd(s3_output *s, const char *what, tarn_error *err)
{
    return tarn__fail_at(err, TARN_ERR_IO, s->shown, TARN_NO_OFFSET,
                         "the response of the store has no %s", what);
}

static tarn_status begin_upload(s3_output *s, tarn_error *err)
{
    call c = {.method = "POST", .query = "uploads=", .mark = s->mark, .body = ""};
    TARN_TRY(send_request(s, &c, err));
    const char *from = strstr(s->reply.body, "<UploadId>");
    const char *to = from ? strstr(from, "</UploadId>") : NULL;
    if (!to) return fail_odd(s, "upload id", err);
    from += strlen("<UploadId>");
    /* The id is sent back unchanged; an id with XML escapes is rejected. */
    if (to == from || memchr(from, '&', (size_t)(to - from)))
        return fail_odd(s, "usable upload id", err);
    tarn__buf query;
    tarn__buf_init(&query, 16384);
    tarn_status status = tarn__buf_add(&query, "uploadId=", 9, err);
    if (status == TARN_OK)
        status = tarn__url_encode(&query, from, (size_t)(to - from), false, err);
    if (status == TARN_OK) status = tarn__buf_add(&query, "", 1, err);
    if (status == TARN_OK)
        s->upload = query.data;
    else
        tarn__buf_reset(&query);
    return status;
}

static tarn_status note_etag(s3_output *s, tarn_error *err)
{
    const char *etag = s->http.head.etag;
    char text[512];
    size_t len = strlen(etag);
    if (len >= 2 && etag[0] == '"' && etag[len - 1] == '"') {
        etag++;
        len -= 2;
    }
    if (len == 0 || strcspn(etag, "<>&\"") < len) return fail_odd(s, "usable ETag", err);
    int n = snprintf(text, sizeof text,
                     "<Part><PartNumber>%u</PartNumber><ETag>&quot;%.*s&quot;</ETag>"
                     "</Part>",
                     s->parts, (int)len, etag);
    return tarn__buf_add(&s->etags, text, (size_t)n, err);
}

static tarn_status grow_part(s3_output *s, tarn_error *err)
{
    if (s->parts % PARTS_OF_A_SIZE) return TARN_OK;
    free(s->part);
    s->capacity *= 2;
    s->part = malloc(s->capacity);
    return s->part ? TARN_OK : tarn__fail_memory(err);
}

static tarn_status send_part(s3_output *s, tarn_error *err)
{
    if (!s->upload) TARN_TRY(begin_upload(s, err));
    if (s->parts == MAX_PARTS)
        return tarn__fail_at(err, TARN_ERR_LIMIT, s->shown, TARN_NO_OFFSET,
                             "more than %d parts", MAX_PARTS);
    size_t size = strlen(s->upload) + 64;
    char *query = malloc(size);
    if (!query) return tarn__fail_memory(err);
    s->parts++;
    snprintf(query, size, "partNumber=%u&%s", s->parts, s->upload);
    call c = {.method = "PUT", .query = query, .body = s->part, .len = s->used};
    tarn_status status = send_request(s, &c, err);
    free(query);
    TARN_TRY(status);
    TARN_TRY(note_etag(s, err));
    s->used = 0;
    return grow_part(s, err);
}

static tarn_status s3_write(tarn__output *out, const void *data, size_t len,
                            tarn_error *err)
{
    s3_output *s = (s3_output *)out;
    while (len) {
        if (s->used == s->capacity) TARN_TRY(send_part(s, err));
        size_t room = s->capacity - s->used, n = len < room ? len : room;
        memcpy(s->part + s->used, data, n);
        s->used += n;
        s->total += n;
        data = (const char *)data + n;
        len -= n;
    }
    return TARN_OK;
}

/* The store may respond with success first and report a failure in the body later. Only a
 * body that says so is a success. */
static tarn_status check_completed(s3_output *s, tarn_error *err)
{
    const char *body = s->reply.body;
    if (strstr(body, "<Error"))
        return tarn__http_fail_status(&s->http, body, s->reply.size, err);
    if (strstr(body, "CompleteMultipartUploadResult")) return TARN_OK;
    return fail_odd(s, "confirmation that the object is complete", err);
}

static tarn_status complete_upload(s3_output *s, tarn_error *err)
{
    static const char head[] = "<CompleteMultipartUpload>";
    static const char tail[] = "</CompleteMultipartUpload>";
    tarn__buf body;
    if (s->used) TARN_TRY(send_part(s, err));
    tarn__buf_init(&body, s->etags.size + 256);
    tarn_status status = tarn__buf_add(&body, head, sizeof head - 1, err);
    if (status == TARN_OK)
        status = tarn__buf_add(&body, s->etags.data, s->etags.size, err);
    if (status == TARN_OK) status = tarn__buf_add(&body, tail, sizeof tail - 1, err);
    bool found = false;
    call c = {.method = "POST", .query = s->upload, .body = body.data, .len = body.size};
    if (status == TARN_OK) status = create_object(s, &c, &found, err);
    tarn__buf_reset(&body);
    TARN_TRY(status);
    if (!found) TARN_TRY(check_completed(s, err));
    free(s->upload);
    s->upload = NULL;
    return TARN_OK;
}

/* Parts of an upload that is not aborted are stored, and billed, until it is aborted. */
static void s3_abandon(tarn__output *out)
{
    s3_output *s = (s3_output *)out;
    if (s->http.config.retries > 1)
        s->http.config.retries = 1; /* do not wait long
                                       here */
    call abort = {.method = "DELETE", .query = s->upload, .body = ""};
    if (s->upload) (void)!send_request(s, &abort, NULL);
    tarn__http_reset(&s->http);
    tarn__object_reset(&s->object);
    tarn__buf_reset(&s->etags);
    free(s->upload);
    free(s->part);
    free(s->shown);
    free(s);
}

static tarn_status s3_finish(tarn__output *out, tarn_error *err)
{
    s3_output *s = (s3_output *)out;
    bool found;
    call whole = {
        .method = "PUT", .query = "", .mark = s->mark, .body = s->part, .len = s->used};
    tarn_status status =
        s->upload ? complete_upload(s, err) : create_object(s, &whole, &found, err);
    s3_abandon(out);
    return status;
}

static const tarn__output_ops ops = {s3_write, s3_finish, s3_abandon};

static tarn_status make_mark(s3_output *s, tarn_error *err)
{
    unsigned char number[16];
    if (getrandom(number, sizeof number, 0) != sizeof number)
        return tarn__fail_errno(err, NULL, errno, "cannot get a random number");
    for (size_t i = 0; i < sizeof number; i++)
        snprintf(s->mark + 2 * i, 3, "%02x", number[i]);
    return TARN_OK;
}

static tarn_status start_output(s3_output *s, const char *url, const char *shown,
                                const tarn_sink_options *options, tarn_error *err)
{
    s->shown = strdup(shown);
    s->part = malloc(FIRST_PART);
    if (!s->shown || !s->part) return tarn__fail_memory(err);
    s->capacity = FIRST_PART;
    s->overwrite = options->overwrite;
    tarn__buf_init(&s->etags, 8 << 20);
    TARN_TRY(make_mark(s, err));
    TARN_TRY(tarn__object_init(&s->object, url, err));
    tarn__http_config config = tarn__object_http(&s->object);
    config.connect_seconds = options->connect_seconds;
    config.stall_seconds = options->stall_seconds;
    config.retries = options->retries;
    TARN_TRY(tarn__http_init(&s->http, &config, err));
    return s->overwrite ? TARN_OK : tarn__http_check_absent(&s->http, s->object.url, err);
}

tarn_status tarn__s3_output_open(const char *url, const char *shown,
                                 const tarn_sink_options *options, tarn__output **out,
                                 tarn_error *err)
{
    s3_output *s = calloc(1, sizeof *s);
    if (!s) return tarn__fail_memory(err);
    s->out.ops = &ops;
    tarn_status status = start_output(s, url, shown, options, err);
    if (status != TARN_OK) {
        s3_abandon(&s->out);
        return status;
    }
    *out = &s->out;
    return TARN_OK;
}
