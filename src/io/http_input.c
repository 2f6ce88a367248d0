/* Reading over HTTP. If the connection is lost, a new request asks for the rest, and the
 * response is used only if it is the rest of the same object. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "io/http.h"

enum { BUFFER = 1 << 20, REPLY = 2048 };

/* The count of attempts restarts after this many bytes. */
#define RENEWED_AFTER (UINT64_C(64) << 20)

typedef enum verdict {
    PENDING,   /* no response yet */
    ACCEPTED,  /* the body is what we asked for */
    UNCHANGED, /* the object is the one that the caller has */
    REFUSED    /* it is not what we asked for; see failure */
} verdict;

typedef struct http_input {
    tarn__input in;
    tarn__http http;
    char *url, *shown;
    char *buffer;
    size_t at, end;    /* received and not yet consumed */
    bool paused;       /* the buffer was full */
    uint64_t position; /* number of bytes of the object received */
    uint64_t skip;     /* bytes to skip in a response that starts at the beginning */
    verdict verdict;
    tarn_status failure; /* why it was refused; TARN_OK: see its status */
    bool known;          /* the following members are set */
    uint64_t total;      /* UINT64_MAX: unknown */
    char etag[256], modified[64];
    bool conditional;    /* the first request has a condition */
    unsigned attempt;    /* since bytes were received */
    bool renewed;        /* the last request was signed again, because it was refused */
    uint64_t renewed_at; /* a position */
    char reply[REPLY];   /* the body of a refused response */
    size_t reply_size;
    bool complete;
} http_input;

/* A weak tag promises the same meaning, not the same bytes. */
static bool is_strong(const char *etag)
{
    return etag[0] == '"';
}

static bool can_resume(const http_input *h)
{
    return h->position == 0 || is_strong(h->etag) || h->modified[0];
}

static void note_identity(http_input *h, const tarn__http_head *head)
{
    h->known = true;
    h->total = head->has_length ? head->length : UINT64_MAX;
    memcpy(h->etag, head->etag, sizeof h->etag);
    memcpy(h->modified, head->modified, sizeof h->modified);
    h->in.modified_ns = tarn__http_modified_ns(&h->http, head);
}

static bool is_same(const http_input *h, const tarn__http_head *head, uint64_t total)
{
    if (total != UINT64_MAX && h->total != UINT64_MAX && total != h->total) return false;
    if (strcmp(h->etag, head->etag) != 0) return false;
    return is_strong(h->etag) || strcmp(h->modified, head->modified) == 0;
}

static verdict refuse_changed(http_input *h)
{
    h->failure = TARN_ERR_STALE;
    return REFUSED;
}

static verdict judge_response(http_input *h)
{
    const tarn__http_head *head = &h->http.head;
    h->failure = TARN_OK;
    h->skip = 0;
    if (head->status == 200 && h->position == 0) {
        note_identity(h, head);
        return ACCEPTED;
    }
    if (head->status == 304 && h->conditional && h->position == 0) return UNCHANGED;
    if (head->status == 200) { /* the server does not support ranges, or the object has
                                  changed */
        uint64_t total = head->has_length ? head->length : UINT64_MAX;
        if (!is_same(h, head, total)) return refuse_changed(h);
        h->skip = h->position;
        return ACCEPTED;
    }
    if (head->status == 206 && h->position > 0) {
        bool fits = head->has_range && head->range_first == h->position &&
                    is_same(h, head, head->range_total);
        if (!fits) return refuse_changed(h);
        h->renewed = false;
        if (h->total == UINT64_MAX) h->total = head->range_total;
        return ACCEPTED;
    }
    if (head->status == 416 && h->position > 0) return refuse_changed(h);
    return REFUSED;
}

static size_t take_refused(http_input *h, const char *data, size_t len)
{
    size_t room = REPLY - h->reply_size;
    size_t n = len < room ? len : room;
    memcpy(h->reply + h->reply_size, data, n);
    h->reply_size += n;
    return n; /* returning less than len aborts the transfer */
}

static size_t on_body(char *data, size_t one, size_t len, void *context)
{
    http_input *h = context;
    size_t all = len;
    tarn__http_received(&h->http, len);
    if (h->verdict == PENDING) h->verdict = judge_response(h);
    if (h->verdict == REFUSED) return take_refused(h, data, len);
    if (h->skip) {
        size_t n = h->skip < len ? (size_t)h->skip : len;
        h->skip -= n;
        data += n;
        len -= n;
    }
    if (h->total != UINT64_MAX && len > h->total - h->position) {
        h->verdict = refuse_changed(h);
        return 0;
    }
    if (h->end + len > BUFFER) {
        h->skip += all - len; /* the same bytes come again */
        h->paused = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    memcpy(h->buffer + h->end, data, len);
    h->end += len;
    h->position += len;
    return all;
}

static tarn_status begin_request(http_input *h, tarn_error *err)
{
    char range[64], condition[300];
    const char *headers[3] = {NULL};
    const char *etag = h->http.config.known_etag, *date = h->http.config.known_modified;
    if (h->position == 0 && etag && is_strong(etag)) {
        snprintf(condition, sizeof condition, "If-None-Match: %s", etag);
        headers[0] = condition;
    } else if (h->position == 0 && date && date[0]) {
        snprintf(condition, sizeof condition, "If-Modified-Since: %s", date);
        headers[0] = condition;
    }
    h->conditional = headers[0] != NULL;
    if (h->position > 0) {
        snprintf(range, sizeof range, "Range: bytes=%llu-",
                 (unsigned long long)h->position);
        snprintf(condition, sizeof condition, "If-Range: %s",
                 is_strong(h->etag) ? h->etag : h->modified);
        headers[0] = range;
        headers[1] = condition;
    }
    tarn__http_request request = {.method = "GET", .url = h->url, .headers = headers};
    tarn__http_flow flow = {on_body, NULL, h};
    h->verdict = PENDING;
    h->paused = false;
    h->reply_size = 0;
    return tarn__http_begin(&h->http, &request, &flow, err);
}

static tarn_status fail_read(http_input *h, tarn_error *err)
{
    tarn_status status;
    if (h->verdict == REFUSED && h->failure == TARN_ERR_STALE)
        status = tarn__fail_at(err, TARN_ERR_STALE, h->shown, TARN_NO_OFFSET,
                               "the object changed while it was read; read it again from "
                               "the beginning");
    else if (h->verdict == REFUSED)
        status = tarn__http_fail_status(&h->http, h->reply, h->reply_size, err);
    else if (h->http.result == CURLE_OK && h->total == UINT64_MAX)
        status = tarn__fail_at(
            err, TARN_ERR_TRUNCATED, h->shown, TARN_NO_OFFSET,
            "the response may be incomplete: the server did not send its length");
    else if (h->http.result == CURLE_OK)
        status = tarn__fail_at(err, TARN_ERR_TRUNCATED, h->shown, TARN_NO_OFFSET,
                               "the response ends here (the server announced %llu bytes)",
                               (unsigned long long)h->total);
    else
        status = tarn__http_fail(&h->http, err);
    if (err && h->position > 0) err->offset = h->position;
    return status;
}

/* Starts another attempt, or returns the failure of the last one. */
static tarn_status try_again(http_input *h, tarn_error *err)
{
    const tarn__http_config *c = &h->http.config;
    bool lost = h->verdict != REFUSED && h->http.result == CURLE_OK;
    if (h->verdict == REFUSED && h->failure == TARN_OK && c->renew && !h->renewed &&
        c->renew(c->signer, h->http.head.status, h->reply, h->reply_size)) {
        h->renewed = true;
        return begin_request(h, err);
    }
    if (h->position - h->renewed_at >= RENEWED_AFTER) {
        h->attempt = 0;
        h->renewed_at = h->position;
    }
    bool may = (lost || tarn__http_may_retry(&h->http)) && h->failure != TARN_ERR_STALE;
    if (!may || h->attempt >= h->http.config.retries) return fail_read(h, err);
    if (!can_resume(h)) {
        tarn_status status = fail_read(h, err);
        if (err) {
            size_t used = strlen(err->message);
            snprintf(err->message + used, sizeof err->message - used,
                     "; reading cannot resume, because the server sends neither a "
                     "strong ETag nor Last-Modified");
        }
        return status;
    }
    tarn__http_back_off(++h->attempt);
    return begin_request(h, err);
}

/* Whether a finished response has reached the end of the object: a partial response may
 * be shorter than requested, and a complete one shorter than what was received before. */
static bool is_complete(http_input *h)
{
    if (h->skip) {
        h->verdict = refuse_changed(h);
        return false;
    }
    return h->total == UINT64_MAX ? h->http.head.status == 200 : h->position == h->total;
}

/* Makes one step: receives bytes, ends the response, or starts another attempt. */
static tarn_status advance_transfer(http_input *h, tarn_error *err)
{
    if (h->paused && h->at == h->end) {
        h->paused = false;
        h->at = h->end = 0;
        h->http.curl->easy_pause(h->http.easy, CURLPAUSE_CONT);
        if (h->at < h->end) return TARN_OK;
    }
    tarn__http_pump(&h->http);
    if (h->http.running) return TARN_OK;
    if (h->http.result == CURLE_OK && h->verdict == PENDING)
        h->verdict = judge_response(h);
    bool over = h->verdict == UNCHANGED || (h->verdict == ACCEPTED && is_complete(h));
    if (h->http.result == CURLE_OK && over) {
        h->complete = true;
        return TARN_OK;
    }
    return try_again(h, err);
}

static tarn_status http_read(tarn__input *in, void *buf, size_t len, size_t *out_got,
                             tarn_error *err)
{
    http_input *h = (http_input *)in;
    if (h->at == h->end) h->at = h->end = 0;
    while (h->at == h->end && !h->complete)
        TARN_TRY(advance_transfer(h, err));
    size_t held = h->end - h->at;
    *out_got = held < len ? held : len;
    memcpy(buf, h->buffer + h->at, *out_got);
    h->at += *out_got;
    return TARN_OK;
}

static void http_close(tarn__input *in)
{
    http_input *h = (http_input *)in;
    void *signer = h->http.config.signer;
    tarn__http_reset(&h->http);
    free(signer);
    free(h->url);
    free(h->shown);
    free(h->buffer);
    free(h);
}

static const tarn__input_ops ops = {http_read, http_close};

/* Waits for a response, so that a missing object is reported when it is opened. */
static tarn_status await_answer(http_input *h, tarn_error *err)
{
    TARN_TRY(begin_request(h, err));
    while (h->verdict != ACCEPTED && !h->complete)
        TARN_TRY(advance_transfer(h, err));
    return TARN_OK;
}

tarn_status tarn__http_read(const char *url, const tarn__http_config *config,
                            tarn__input **out, tarn_error *err)
{
    http_input *h = calloc(1, sizeof *h);
    if (!h) {
        free(config->signer);
        return tarn__fail_memory(err);
    }
    h->in.ops = &ops;
    h->url = strdup(url);
    h->shown = strdup(config->shown);
    h->buffer = malloc(BUFFER);
    tarn__http_config own = *config;
    own.shown = h->shown;
    tarn_status status =
        h->url && h->shown && h->buffer ? TARN_OK : tarn__fail_memory(err);
    if (status == TARN_OK) status = tarn__http_init(&h->http, &own, err);
    h->http.config.signer = config->signer;
    if (status == TARN_OK) status = await_answer(h, err);
    if (status == TARN_OK && h->verdict == UNCHANGED) status = TARN_END;
    h->http.config.known_etag = h->http.config.known_modified = NULL; /* the caller's */
    if (status != TARN_OK) {
        http_close(&h->in);
        return status;
    }
    *out = &h->in;
    return TARN_OK;
}

void tarn__http_read_head(const tarn__input *in, tarn__http_head *out)
{
    const http_input *h = (const http_input *)in;
    *out = (tarn__http_head){
        .status = 200, .has_length = h->total != UINT64_MAX, .length = h->total};
    memcpy(out->etag, h->etag, sizeof out->etag);
    memcpy(out->modified, h->modified, sizeof out->modified);
}
