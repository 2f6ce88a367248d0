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

typedef struct exchange {
    tarn__http *http;
    tarn__http_reply *reply;
} exchange;

static size_t take(char *data, size_t one, size_t len, void *context)
{
    exchange *x = context;
    return tarn__http_take_reply(x->http, x->reply, data, len);
}

tarn_status tarn__http_exchange(tarn__http *http, const tarn__http_request *request,
                                tarn__http_reply *reply, tarn_error *err)
{
    exchange context = {http, reply};
    tarn__http_flow flow = {take, NULL, &context};
    for (unsigned attempt = 0;; attempt++) {
        reply->size = 0;
        reply->body[0] = '\0';
        if (attempt) tarn__http_back_off(attempt);
        TARN_TRY(tarn__http_begin(http, request, &flow, err));
        while (http->running)
            tarn__http_pump(http);
        if (!tarn__http_may_retry(http) || attempt >= http->config.retries) break;
    }
    TARN_TRY(tarn__http_check_reply(http, reply, err));
    bool early = http->head.status < 300 && http->body_sent < http->body_size;
    return early ? tarn__http_fail_early(http, err) : TARN_OK;
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
            "the object already exists; allow overwriting to replace it");
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
