/* One request for a range, and what becomes of its response. Runs in the thread of the
 * transfers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "io/fetch_inside.h"

enum {
    RENEWED_AFTER = 1 << 20, /* bytes after which the count of attempts restarts */
    /* libcurl allocates a buffer for each request. The C library gives larger ones back
     * to the system each time, which costs more than smaller reads. */
    RECEIVE_BUFFER = 64 << 10
};

static size_t missing(const tarn__job *job)
{
    return job->fetch->size - job->got;
}

void tarn__job_place(const tarn__job *job, tarn_error *err)
{
    const tarn__fetch *f = job->fetch;
    size_t used = strlen(err->message);
    if (!err->path[0]) tarn__error_place(err, job->object->object.shown, TARN_NO_OFFSET);
    if (job->identify) return;
    err->offset = f->offset + job->got;
    snprintf(err->message + used, sizeof err->message - used,
             " (bytes %llu-%llu were requested)", (unsigned long long)f->offset,
             (unsigned long long)(f->offset + f->size - 1));
}

/* --- The response ------------------------------------------------------------------- */

/* The first response fixes what was unknown. */
static void note_identity(tarn__fetched *object, const tarn__object_id *id)
{
    bool news = (object->id.size == UINT64_MAX && id->size != UINT64_MAX) ||
                (!object->id.etag[0] && id->etag[0]) ||
                (!object->id.modified[0] && id->modified[0]);
    if (!news) return;
    pthread_mutex_lock(&tarn__fetcher_state.lock.mutex);
    if (object->id.size == UINT64_MAX) object->id.size = id->size;
    if (!object->id.etag[0]) memcpy(object->id.etag, id->etag, sizeof id->etag);
    if (!object->id.modified[0])
        memcpy(object->id.modified, id->modified, sizeof id->modified);
    pthread_mutex_unlock(&tarn__fetcher_state.lock.mutex);
}

static void judge(tarn__transfer *t)
{
    const tarn__job *job = t->job;
    tarn__asked asked = {
        .shown = job->object->object.shown,
        .first = job->fetch->offset + job->got,
        .size = missing(job),
        .id = &job->object->id,
        .identify = job->identify,
    };
    t->judgement = tarn__fetch_judge(&t->http.head, &asked, &t->why);
    if (t->judgement.verdict == TARN__ACCEPTED)
        note_identity(job->object, &t->judgement.id);
}

static size_t take_reply(tarn__transfer *t, const char *data, size_t len)
{
    size_t room = sizeof t->reply - t->reply_size;
    size_t n = len < room ? len : room;
    memcpy(t->reply + t->reply_size, data, n);
    t->reply_size += n;
    return n; /* less than len ends the transfer */
}

static size_t on_body(char *data, size_t one, size_t len, void *context)
{
    tarn__transfer *t = context;
    tarn__job *job = t->job;
    size_t all = len;
    tarn__http_received(&t->http, len);
    if (t->judgement.verdict == TARN__PENDING) judge(t);
    if (t->judgement.verdict == TARN__BAD_STATUS) return take_reply(t, data, len);
    if (t->judgement.verdict == TARN__REFUSED) return 0;
    if (t->judgement.skip) {
        size_t n = t->judgement.skip < len ? (size_t)t->judgement.skip : len;
        t->judgement.skip -= n;
        data += n;
        len -= n;
    }
    size_t left = missing(job), n = len < left ? len : left;
    if (!job->identify && n) memcpy(job->fetch->to + job->got, data, n);
    job->got += n;
    t->got += n;
    t->enough = missing(job) == 0 && n < len;
    if (t->enough && t->http.head.status == 206) {
        t->judgement.verdict = TARN__REFUSED;
        tarn__error_set(&t->why, TARN_ERR_FORMAT, job->object->object.shown,
                        TARN_NO_OFFSET, "the response has more bytes than its range");
    }
    return t->enough ? 0 : all;
}

/* --- The request -------------------------------------------------------------------- */

static bool is_strong(const char *etag)
{
    return etag[0] == '"';
}

static void configure(tarn__transfer *t, const tarn__fetched *object)
{
    t->http.config = (tarn__http_config){
        .shown = object->object.shown,
        .connect_seconds = object->limits.connect_seconds,
        .stall_seconds = object->limits.stall_seconds,
        .retries = object->limits.retries,
        .min_speed = object->limits.min_speed,
        .follow = object->object.follow,
        .sign = object->object.sign,
        .renew = object->object.renew,
        .signer = object->object.signer,
    };
    t->http.origin = TARN__THIS_MACHINE;
}

static void begin_clock(tarn__transfer *t, int64_t now_ms)
{
    t->began_ms = t->moved_ms = t->slow_ms = now_ms;
    t->moved = t->http.moved;
    t->counted = t->slow_from = t->http.received;
}

tarn_status tarn__transfer_begin(tarn__transfer *t, tarn__job *job, int64_t now_ms,
                                 tarn_error *err)
{
    char range[64], condition[300];
    const char *headers[4] = {"Accept-Encoding: identity", range};
    const tarn__fetched *object = job->object;
    /* Two responses can only be joined if it is known that the object is the same. */
    if (!is_strong(object->id.etag) && !object->id.modified[0])
        job->got = job->renewed_at = 0;
    unsigned long long first = job->fetch->offset + job->got;
    snprintf(range, sizeof range, "Range: bytes=%llu-%llu", first,
             first + missing(job) - 1);
    if (is_strong(object->id.etag)) {
        snprintf(condition, sizeof condition, "If-Match: %s", object->id.etag);
        headers[2] = condition;
    }
    tarn__http_request request = {
        .method = "GET", .url = object->object.url, .headers = headers};
    tarn__http_flow flow = {on_body, NULL, t};
    configure(t, object);
    t->job = job;
    t->judgement = (tarn__judgement){.verdict = TARN__PENDING};
    t->got = t->reply_size = 0;
    t->enough = false;
    TARN_TRY(tarn__http_prepare(&t->http, &request, &flow, err));
    t->http.curl->easy_setopt(t->http.easy, CURLOPT_PRIVATE, t);
    t->http.curl->easy_setopt(t->http.easy, CURLOPT_BUFFERSIZE, (long)RECEIVE_BUFFER);
    begin_clock(t, now_ms);
    return TARN_OK;
}

/* --- The end ------------------------------------------------------------------------ */

static bool time_out(tarn__transfer *t, bool *why)
{
    t->http.result = CURLE_OPERATION_TIMEDOUT;
    *why = true;
    return true;
}

bool tarn__transfer_check(tarn__transfer *t, int64_t now_ms)
{
    const tarn__http_config *c = &t->http.config;
    int64_t limit = (int64_t)c->stall_seconds * 1000;
    uint64_t least = (uint64_t)c->min_speed * c->stall_seconds;
    if (limit == 0) return false;
    if (t->http.moved != t->moved) {
        t->moved = t->http.moved;
        t->moved_ms = now_ms;
    }
    if (!t->http.connected) {
        t->slow_ms = now_ms;
        limit += (int64_t)c->connect_seconds * 1000;
    }
    if (now_ms - t->moved_ms >= limit) return time_out(t, &t->http.stalled);
    if (now_ms - t->slow_ms < limit) return false;
    if (t->http.received - t->slow_from < least) return time_out(t, &t->http.slow);
    t->slow_ms = now_ms;
    t->slow_from = t->http.received;
    return false;
}

static bool is_over(const tarn__transfer *t)
{
    const tarn__job *job = t->job;
    bool received =
        t->http.result == CURLE_OK || (t->http.result == CURLE_WRITE_ERROR && t->enough);
    if (t->judgement.verdict != TARN__ACCEPTED) return false;
    /* The identity is in the head; of an empty object there is nothing else. */
    return job->identify || (received && missing(job) == 0);
}

/* The failure of a transfer that is over. */
static void explain(const tarn__transfer *t, tarn_error *err)
{
    bool whole = t->http.result == CURLE_OK || t->http.result == CURLE_WRITE_ERROR;
    tarn_status status = TARN_OK;
    if (t->judgement.verdict == TARN__REFUSED)
        *err = t->why;
    else if (t->judgement.verdict == TARN__BAD_STATUS && whole)
        status = tarn__http_fail_status(&t->http, t->reply, t->reply_size, err);
    else if (t->http.result == CURLE_OK)
        status = tarn__fail_at(err, TARN_ERR_IO, t->http.config.shown, TARN_NO_OFFSET,
                               "the response ended before all bytes had arrived");
    else
        status = tarn__http_fail(&t->http, err);
    (void)status; /* it is in err */
    tarn__job_place(t->job, err);
}

static bool asks_for_less(const tarn__transfer *t)
{
    long status = t->http.head.status;
    return t->judgement.verdict == TARN__BAD_STATUS && (status == 429 || status == 503);
}

/* Of many requests that were refused with old credentials, one gets new ones. */
static bool sign_again(tarn__transfer *t, int64_t now_ms)
{
    const tarn__http_config *c = &t->http.config;
    tarn__fetched *object = t->job->object;
    long status = t->http.head.status;
    if (t->judgement.verdict != TARN__BAD_STATUS || !c->renew || t->job->signed_again ||
        status < 400 || status > 403)
        return false;
    if (t->began_ms > object->renewed_ms) {
        if (!c->renew(c->signer, status, t->reply, t->reply_size)) return false;
        object->renewed_ms = now_ms;
    }
    t->job->signed_again = true;
    return true;
}

tarn__next tarn__transfer_end(tarn__transfer *t, int64_t now_ms, tarn_error *err)
{
    tarn__job *job = t->job;
    bool ended = t->http.result == CURLE_OK;
    if (ended && t->judgement.verdict == TARN__PENDING) judge(t);
    if (is_over(t)) return TARN__NEXT_DONE;
    if (sign_again(t, now_ms)) return TARN__NEXT_AGAIN;
    if (job->got - job->renewed_at >= RENEWED_AFTER) {
        job->attempts = 0;
        job->renewed_at = job->got;
    }
    bool cut = ended && t->judgement.verdict == TARN__ACCEPTED;
    bool may = (cut || tarn__http_may_retry(&t->http)) &&
               t->judgement.verdict != TARN__REFUSED &&
               job->attempts < t->http.config.retries;
    if (!may) {
        explain(t, err);
        return TARN__NEXT_FAILED;
    }
    job->attempts++;
    return asks_for_less(t) ? TARN__NEXT_SLOW_DOWN : TARN__NEXT_LATER;
}
