/* Whole requests: the response is kept in memory. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "io/http.h"

size_t tarn__http_take_reply(tarn__http *http, tarn__http_reply *reply, const char *data,
                             size_t len)
{
    size_t room = sizeof reply->body - 1 - reply->size;
    size_t n = len < room ? len : room;
    tarn__http_received(http, len);
    memcpy(reply->body + reply->size, data, n);
    reply->size += n;
    reply->body[reply->size] = '\0';
    return n; /* less than len ends the transfer */
}

tarn_status tarn__http_check_reply(const tarn__http *http, const tarn__http_reply *reply,
                                   tarn_error *err)
{
    bool full = reply->size == sizeof reply->body - 1;
    if (http->result == CURLE_WRITE_ERROR && full && http->head.status >= 300)
        return TARN_OK; /* the status says enough */
    if (http->result == CURLE_WRITE_ERROR && full)
        return tarn__fail_at(err, TARN_ERR_LIMIT, http->config.shown, TARN_NO_OFFSET,
                             "the response has more than %d bytes",
                             TARN__HTTP_REPLY_MAX - 1);
    return http->result == CURLE_OK ? TARN_OK : tarn__http_fail(http, err);
}

/* What a request is answered with: a short reply, or a buffer with its own limit. */
typedef struct exchange {
    tarn__http *http;
    tarn__http_reply *reply;
    tarn__buf *body; /* NULL: only reply is used */
    tarn_error full; /* why the buffer takes no more */
} exchange;

static size_t take(char *data, size_t one, size_t len, void *context)
{
    exchange *x = context;
    if (!x->body || x->http->head.status != 200)
        return tarn__http_take_reply(x->http, x->reply, data, len);
    tarn__http_received(x->http, len);
    return tarn__buf_add(x->body, data, len, &x->full) == TARN_OK ? len : 0;
}

static tarn_status attempt(exchange *x, const tarn__http_request *request,
                           tarn_error *err)
{
    tarn__http_flow flow = {take, NULL, x};
    x->reply->size = 0;
    x->reply->body[0] = '\0';
    if (x->body) x->body->size = 0;
    TARN_TRY(tarn__http_begin(x->http, request, &flow, err));
    while (x->http->running)
        tarn__http_pump(x->http);
    return TARN_OK;
}

/* Repeats a request while that may help; signed again once if it was refused. */
static tarn_status run(exchange *x, const tarn__http_request *request, tarn_error *err)
{
    const tarn__http_config *c = &x->http->config;
    bool renewed = false;
    for (unsigned failures = 0;;) {
        TARN_TRY(attempt(x, request, err));
        if (tarn__http_may_retry(x->http) && failures < c->retries &&
            x->full.code == TARN_OK) {
            tarn__http_back_off(++failures);
            continue;
        }
        if (!c->renew || renewed || x->http->result != CURLE_OK ||
            !c->renew(c->signer, x->http->head.status, x->reply->body, x->reply->size))
            return TARN_OK;
        renewed = true;
    }
}

tarn_status tarn__http_exchange(tarn__http *http, const tarn__http_request *request,
                                tarn__http_reply *reply, tarn_error *err)
{
    exchange x = {.http = http, .reply = reply};
    TARN_TRY(run(&x, request, err));
    TARN_TRY(tarn__http_check_reply(http, reply, err));
    bool early = http->head.status < 300 && http->body_sent < http->body_size;
    return early ? tarn__http_fail_early(http, err) : TARN_OK;
}

static tarn_status check_load(exchange *x, tarn_error *err)
{
    if (x->full.code != TARN_OK)
        return tarn__fail_at(err, TARN_ERR_LIMIT, x->http->config.shown, TARN_NO_OFFSET,
                             "the response has more than %zu bytes", x->body->max);
    TARN_TRY(tarn__http_check_reply(x->http, x->reply, err));
    if (x->http->head.status == 200) return TARN_OK;
    return tarn__http_fail_status(x->http, x->reply->body, x->reply->size, err);
}

tarn_status tarn__http_load(tarn__http *http, const tarn__http_request *request,
                            tarn__buf *body, tarn_error *err)
{
    exchange x = {.http = http, .body = body};
    x.reply = malloc(sizeof *x.reply);
    if (!x.reply) return tarn__fail_memory(err);
    tarn_status status = run(&x, request, err);
    if (status == TARN_OK) status = check_load(&x, err);
    free(x.reply);
    return status;
}

tarn_status tarn__http_check_absent(tarn__http *http, const char *url, tarn_error *err)
{
    tarn__http_request request = {.method = "HEAD", .url = url};
    tarn__http_reply *reply = malloc(sizeof *reply);
    if (!reply) return tarn__fail_memory(err);
    tarn_status status = tarn__http_exchange(http, &request, reply, err);
    free(reply);
    TARN_TRY(status);
    switch (http->head.status) {
    case 200:
        return tarn__fail_at(
            err, TARN_ERR_EXISTS, http->config.shown, TARN_NO_OFFSET,
            "the object already exists; use overwrite (--overwrite) to replace it");
    case 403:
    case 404:
    case 405:
    case 410:
    case 501:
        return TARN_OK;
    default:
        return tarn__http_fail_status(http, "", 0, err);
    }
}
