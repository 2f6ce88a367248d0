/* Requests to S3 that are neither reads nor streams: see store.h. */
#include "io/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/pool.h"
#include "base/xml.h"
#include "io/output.h"
#include "io/url.h"

enum {
    THREADS = 16,
    SMALL = 1 << 20,     /* bytes of an object that is read as text */
    MAX_PAGE = 16 << 20, /* bytes of one page of uploads */
    TRIES = 5,           /* of a copy that another one is in the way of */
    BUFFER = 1 << 20,
};

/* A part is small enough to be copied before a silent connection is given up; it grows
 * with the object, which has at most 10,000 parts. */
#define COPY_PART  (UINT64_C(256) << 20)
#define COPY_PARTS 10000

struct tarn__store {
    tarn__object object; /* the bucket */
    tarn__http http;
    char *bucket; /* "s3://bucket/" */
    tarn__http_reply reply;
};

/* --- Requests ----------------------------------------------------------------------- */

tarn_status tarn__store_check(const char *url, tarn_error *err)
{
    char *shown;
    if (tarn__url_scheme_is(url, "s3")) return TARN_OK;
    shown = tarn__url_shown(url);
    tarn_status status = tarn__fail_at(
        err, TARN_ERR_UNSUPPORTED, shown ? shown : "", TARN_NO_OFFSET,
        "tasks and commits work in folders and on s3://, which has conditional writes "
        "and copies that the store makes; write to one of these, and copy the fold");
    free(shown);
    return status;
}

static tarn_status start(tarn__store *s, const char *url, tarn_error *err)
{
    const tarn_sink_options usual = TARN_SINK_OPTIONS_INIT;
    TARN_TRY(tarn__store_check(url, err));
    s->bucket = strndup(url, (size_t)(tarn__listing_names(url) - url));
    if (!s->bucket) return tarn__fail_memory(err);
    TARN_TRY(tarn__object_init_list(&s->object, s->bucket, err));
    tarn__http_config config = tarn__object_http(&s->object);
    config.connect_seconds = usual.connect_seconds;
    config.stall_seconds = usual.stall_seconds;
    config.retries = usual.retries;
    return tarn__http_init(&s->http, &config, err);
}

tarn_status tarn__store_open(const char *url, tarn__store **out, tarn_error *err)
{
    tarn__store *s = calloc(1, sizeof *s);
    if (!s) return tarn__fail_memory(err);
    tarn_status status = start(s, url, err);
    if (status == TARN_OK)
        *out = s;
    else
        tarn__store_close(s);
    return status;
}

void tarn__store_close(tarn__store *s)
{
    if (!s) return;
    tarn__http_reset(&s->http);
    tarn__object_reset(&s->object);
    free(s->bucket);
    free(s);
}

/* The URL that is requested for an object, and a query. */
static tarn_status request_url(const tarn__store *s, const char *url, const char *query,
                               tarn__buf *out, tarn_error *err)
{
    const char *key = tarn__listing_names(url);
    TARN_TRY(tarn__buf_add(out, s->object.url, strlen(s->object.url), err));
    TARN_TRY(tarn__url_encode(out, key, strlen(key), true, err));
    return tarn__buf_add(out, query, strlen(query) + 1, err);
}

/* The answer is in s->http.head and s->reply. */
static tarn_status ask(tarn__store *s, const char *method, const char *url,
                       const char *query, tarn_error *err)
{
    tarn__buf text;
    tarn__buf_init(&text, 8 * TARN__MAX_URL);
    tarn_status status = request_url(s, url, query, &text, err);
    tarn__http_request r = {.method = method, .url = text.data, .body = ""};
    if (status == TARN_OK) status = tarn__http_exchange(&s->http, &r, &s->reply, err);
    tarn__buf_reset(&text);
    return status;
}

/* Messages name the object and not the bucket. */
static tarn_status place(tarn_status status, const char *url, tarn_error *err)
{
    char *shown = status != TARN_OK && err ? tarn__url_shown(url) : NULL;
    if (shown) tarn__error_place(err, shown, TARN_NO_OFFSET);
    free(shown);
    return status;
}

static tarn_status fail_answer(tarn__store *s, const char *url, tarn_error *err)
{
    return place(tarn__http_fail_status(&s->http, s->reply.body, s->reply.size, err), url,
                 err);
}

static bool is_good(const tarn__store *s)
{
    return s->http.head.status >= 200 && s->http.head.status < 300;
}

tarn_status tarn__store_head(tarn__store *s, const char *url, bool *out_exists,
                             tarn__http_head *out, tarn_error *err)
{
    TARN_TRY(place(ask(s, "HEAD", url, "", err), url, err));
    *out_exists = is_good(s);
    *out = s->http.head;
    if (*out_exists || s->http.head.status == 404) return TARN_OK;
    return fail_answer(s, url, err);
}

int64_t tarn__store_modified_ns(const tarn__store *s, const tarn__http_head *head)
{
    return tarn__http_modified_ns(&s->http, head);
}

tarn_status tarn__store_delete(tarn__store *s, const char *url, tarn_error *err)
{
    TARN_TRY(place(ask(s, "DELETE", url, "", err), url, err));
    return is_good(s) || s->http.head.status == 404 ? TARN_OK : fail_answer(s, url, err);
}

static tarn_status load(tarn__store *s, const char *url, const char *query,
                        tarn__buf *out, tarn_error *err)
{
    tarn__buf text;
    tarn__buf_init(&text, 8 * TARN__MAX_URL);
    tarn_status status = request_url(s, url, query, &text, err);
    tarn__http_request r = {.method = "GET", .url = text.data};
    if (status == TARN_OK) status = tarn__http_load(&s->http, &r, out, err);
    tarn__buf_reset(&text);
    return place(status, url, err);
}

tarn_status tarn__store_get(tarn__store *s, const char *url, tarn__buf *out,
                            char etag[256], tarn_error *err)
{
    tarn__buf_init(out, SMALL);
    tarn_status status = load(s, url, "", out, err);
    if (status == TARN_OK) status = tarn__buf_add(out, "", 1, err);
    memcpy(etag, s->http.head.etag, sizeof s->http.head.etag);
    if (status != TARN_OK) tarn__buf_reset(out);
    return status;
}

/* --- Writing ------------------------------------------------------------------------ */

tarn_status tarn__store_put(const char *url, const char *text, const char *condition,
                            tarn_error *err)
{
    const tarn_sink_options usual = TARN_SINK_OPTIONS_INIT;
    tarn__s3_upload *u = malloc(sizeof *u);
    if (!u) return tarn__fail_memory(err);
    tarn_status status = tarn__s3_upload_open(u, url, NULL, &usual, err);
    u->condition = condition;
    if (status == TARN_OK) status = tarn__s3_upload_whole(u, text, strlen(text), err);
    tarn__s3_upload_reset(u);
    free(u);
    return status;
}

static tarn_status send_bytes(tarn__output *out, int fd, const char *path,
                              tarn_error *err)
{
    char *buffer = malloc(BUFFER);
    tarn_status status = buffer ? TARN_OK : tarn__fail_memory(err);
    while (status == TARN_OK) {
        ssize_t n = read(fd, buffer, BUFFER);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) status = tarn__fail_errno(err, path, errno, "cannot read");
        if (n <= 0) break;
        status = out->ops->write(out, buffer, (size_t)n, err);
    }
    free(buffer);
    return status;
}

static tarn_status send_file(int fd, const char *path, const char *url,
                             const char *condition, tarn_error *err)
{
    const tarn_sink_options usual = TARN_SINK_OPTIONS_INIT;
    tarn__output *out;
    if (lseek(fd, 0, SEEK_SET) != 0)
        return tarn__fail_errno(err, path, errno, "cannot read");
    TARN_TRY(tarn__s3_output_open_if(url, condition, &usual, &out, err));
    tarn_status status = send_bytes(out, fd, path, err);
    if (status == TARN_OK) return out->ops->finish(out, err);
    out->ops->abandon(out);
    return status;
}

tarn_status tarn__store_send(const char *path, const char *url, const char *condition,
                             tarn_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return tarn__fail_errno(err, path, errno, "cannot open");
    tarn_status status = TARN_ERR_STALE;
    for (unsigned i = 1; status == TARN_ERR_STALE && i <= TRIES; i++) {
        if (i > 1) tarn__http_back_off(i);
        status = send_file(fd, path, url, condition, err);
    }
    close(fd);
    return status;
}

/* --- Copies ------------------------------------------------------------------------- */

static tarn_status copy_source(tarn__buf *out, const char *url, tarn_error *err)
{
    const char *bucket = strstr(url, "://") + 3, *key = tarn__listing_names(url);
    TARN_TRY(tarn__buf_printf(out, err, "x-amz-copy-source: /%.*s", (int)(key - bucket),
                              bucket));
    TARN_TRY(tarn__url_encode(out, key, strlen(key), true, err));
    return tarn__buf_add(out, "", 1, err);
}

static tarn_status copy_parts(tarn__s3_upload *u, const tarn__listed *from,
                              const char *source, tarn_error *err)
{
    char match[320], range[80];
    uint64_t part = COPY_PART;
    while (from->size / part >= COPY_PARTS)
        part *= 2;
    snprintf(match, sizeof match, "x-amz-copy-source-if-match: %s", from->etag);
    for (uint64_t at = 0; at < from->size; at += part) {
        uint64_t left = from->size - at, len = left < part ? left : part;
        snprintf(range, sizeof range,
                 "x-amz-copy-source-range: bytes=%" PRIu64 "-%" PRIu64, at, at + len - 1);
        const char *const headers[] = {source, match, range, NULL};
        TARN_TRY(tarn__s3_upload_copy(u, headers, len, err));
    }
    return TARN_OK;
}

/* A source that changed does not exist any more. */
static tarn_status copy_once(tarn__s3_upload *u, const tarn__listed *from, const char *to,
                             const char *mark, const char *source, tarn_error *err)
{
    const tarn_sink_options usual = TARN_SINK_OPTIONS_INIT;
    TARN_TRY(tarn__s3_upload_open(u, to, mark, &usual, err));
    u->condition = TARN__S3_ONLY_NEW;
    tarn_status status = copy_parts(u, from, source, err);
    if (status == TARN_ERR_EXISTS) return TARN_ERR_NO_FILE;
    TARN_TRY(status);
    status = tarn__s3_upload_complete(u, err);
    return status == TARN_ERR_NO_FILE ? TARN_ERR_STALE : status;
}

tarn_status tarn__store_copy(const tarn__listed *from, const char *to, const char *mark,
                             tarn_error *err)
{
    tarn__buf source;
    tarn__s3_upload *u = malloc(sizeof *u);
    tarn__buf_init(&source, 4 * TARN__MAX_URL);
    if (!u) return tarn__fail_memory(err);
    tarn_status status = copy_source(&source, from->url, err), copied = TARN_ERR_STALE;
    for (unsigned i = 1; status == TARN_OK && copied == TARN_ERR_STALE && i <= TRIES;
         i++) {
        if (i > 1) tarn__http_back_off(i);
        copied = copy_once(u, from, to, mark, source.data, err);
        tarn__s3_upload_reset(u);
    }
    tarn__buf_reset(&source);
    free(u);
    return status == TARN_OK ? copied : status;
}

/* --- Uploads that were never completed ---------------------------------------------- */

typedef struct pending {
    char *key, *id;
} pending;

typedef struct uploads {
    pending *all;
    size_t count, capacity;
    pending now;              /* the upload that is being read */
    char *key_mark, *id_mark; /* where the next page begins */
    bool more;
} uploads;

static tarn_status keep_text(char **to, const char *text, size_t len, tarn_error *err)
{
    free(*to);
    *to = strndup(text, len);
    return *to ? TARN_OK : tarn__fail_memory(err);
}

static tarn_status end_upload(uploads *p, tarn_error *err)
{
    if (!p->now.key || !p->now.id)
        return tarn__fail(err, TARN_ERR_FORMAT, "an upload without a name or id");
    TARN_TRY(tarn__grow(&p->all, sizeof *p->all, p->count, &p->capacity, err));
    p->all[p->count++] = p->now;
    p->now = (pending){0};
    return TARN_OK;
}

static tarn_status take_element(void *context, const char *path, const char *text,
                                size_t len, tarn_error *err)
{
    uploads *p = context;
    if (strncmp(path, "ListMultipartUploadsResult/", 27) != 0) return TARN_OK;
    path += 27;
    if (strcmp(path, "Upload/Key") == 0) return keep_text(&p->now.key, text, len, err);
    if (strcmp(path, "Upload/UploadId") == 0)
        return keep_text(&p->now.id, text, len, err);
    if (strcmp(path, "Upload") == 0) return end_upload(p, err);
    if (strcmp(path, "IsTruncated") == 0) p->more = strcmp(text, "true") == 0;
    if (strcmp(path, "NextKeyMarker") == 0)
        return keep_text(&p->key_mark, text, len, err);
    if (strcmp(path, "NextUploadIdMarker") == 0)
        return keep_text(&p->id_mark, text, len, err);
    return TARN_OK;
}

static tarn_status add_pair(tarn__buf *out, const char *before, const char *value,
                            tarn_error *err)
{
    TARN_TRY(tarn__buf_add(out, before, strlen(before), err));
    return tarn__url_encode(out, value, strlen(value), false, err);
}

/* In the order that signatures need. */
static tarn_status page_query(const uploads *p, const char *prefix, tarn__buf *out,
                              tarn_error *err)
{
    TARN_TRY(tarn__buf_add(out, "?", 1, err));
    if (p->more) TARN_TRY(add_pair(out, "key-marker=", p->key_mark, err));
    TARN_TRY(add_pair(out, p->more ? "&prefix=" : "prefix=", prefix, err));
    if (p->more && p->id_mark)
        TARN_TRY(add_pair(out, "&upload-id-marker=", p->id_mark, err));
    return tarn__buf_add(out, "&uploads=", 10, err);
}

static tarn_status read_page(tarn__store *s, uploads *p, const char *prefix,
                             tarn_error *err)
{
    tarn__buf query, page;
    tarn__buf_init(&query, 8 * TARN__MAX_URL);
    tarn__buf_init(&page, MAX_PAGE);
    tarn_status status = page_query(p, tarn__listing_names(prefix), &query, err);
    p->more = false;
    if (status == TARN_OK) status = load(s, s->bucket, query.data, &page, err);
    if (status == TARN_OK)
        status = tarn__xml_read(page.data ? page.data : "", page.size, take_element, NULL,
                                p, err);
    if (status == TARN_OK &&
        !memmem(page.data ? page.data : "", page.size, "ListMultipartUploadsResult", 26))
        status = tarn__fail(err, TARN_ERR_FORMAT, "the list of uploads is not one of S3");
    if (status == TARN_OK && p->more && !p->key_mark)
        status = tarn__fail(err, TARN_ERR_FORMAT, "the list of uploads is not complete");
    tarn__buf_reset(&query);
    tarn__buf_reset(&page);
    return place(status, s->bucket, err);
}

static tarn_status abort_one(tarn__store *s, const pending *one,
                             tarn__store_wanted *wanted, const void *context,
                             tarn_error *err)
{
    tarn__buf url, query;
    tarn__buf_init(&url, TARN__MAX_URL);
    tarn__buf_init(&query, TARN__MAX_URL);
    tarn_status status = tarn__buf_printf(&url, err, "%s%s", s->bucket, one->key);
    if (status == TARN_OK) status = tarn__buf_add(&url, "", 1, err);
    if (status == TARN_OK) status = add_pair(&query, "?uploadId=", one->id, err);
    if (status == TARN_OK) status = tarn__buf_add(&query, "", 1, err);
    if (status == TARN_OK && (!wanted || wanted(context, url.data))) {
        status = place(ask(s, "DELETE", url.data, query.data, err), url.data, err);
        if (status == TARN_OK && !is_good(s) && s->http.head.status != 404)
            status = fail_answer(s, url.data, err);
    }
    tarn__buf_reset(&url);
    tarn__buf_reset(&query);
    return status;
}

tarn_status tarn__store_abort(tarn__store *s, const char *prefix,
                              tarn__store_wanted *wanted, const void *context,
                              tarn_error *err)
{
    uploads p = {0};
    tarn_status status;
    do {
        status = read_page(s, &p, prefix, err);
    } while (status == TARN_OK && p.more);
    for (size_t i = 0; i < p.count; i++) {
        if (status == TARN_OK) status = abort_one(s, &p.all[i], wanted, context, err);
        free(p.all[i].key);
        free(p.all[i].id);
    }
    free(p.all);
    free(p.now.key);
    free(p.now.id);
    free(p.key_mark);
    free(p.id_mark);
    return status;
}

/* --- Many at once ------------------------------------------------------------------- */

typedef struct crowd {
    const char *url;
    tarn__store_work *work;
    void *context;
    size_t count;
    atomic_size_t next;  /* relaxed: only distributes numbers */
    atomic_bool stopped; /* relaxed: a hint */
    tarn_error errors[THREADS];
} crowd;

static tarn_status work_some(void *context, size_t number)
{
    crowd *c = context;
    tarn__store *store;
    tarn_error *err = &c->errors[number];
    TARN_TRY(tarn__store_open(c->url, &store, err));
    tarn_status status = TARN_OK;
    while (status == TARN_OK &&
           !atomic_load_explicit(&c->stopped, memory_order_relaxed)) {
        size_t i = atomic_fetch_add_explicit(&c->next, 1, memory_order_relaxed);
        if (i >= c->count) break;
        status = c->work(c->context, i, store, err);
    }
    if (status != TARN_OK) atomic_store_explicit(&c->stopped, true, memory_order_relaxed);
    tarn__store_close(store);
    return status;
}

tarn_status tarn__store_each(const char *url, size_t count, tarn__store_work *work,
                             void *context, tarn_error *err)
{
    size_t threads = count < THREADS ? count : THREADS, failed;
    crowd *c = calloc(1, sizeof *c);
    if (!c) return tarn__fail_memory(err);
    c->url = url;
    c->work = work;
    c->context = context;
    c->count = count;
    tarn_status status =
        tarn__parallel((unsigned)threads, threads, work_some, c, &failed);
    if (status != TARN_OK && err) *err = c->errors[failed];
    free(c);
    return status;
}
