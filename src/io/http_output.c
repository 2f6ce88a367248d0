/* Writing over HTTP, with PUT. Small data is buffered and sent at once, with retries;
 * larger data is sent while it is written, and then a lost connection is an error. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "io/object.h"
#include "io/output.h"

enum { SMALL = 8 << 20 };

typedef struct http_output {
    tarn__output out;
    tarn__http http;
    tarn__object object;
    bool overwrite;
    const char *only_new[2]; /* headers */
    tarn__buf held;          /* while the data is small */
    bool streaming;          /* the data is not small */
    const char *next;        /* data for curl to take */
    size_t left;
    bool paused, ended;
    bool body_ended; /* curl was given the end of the data */
    tarn__http_reply reply;
} http_output;

static size_t give_body(char *buf, size_t one, size_t size, void *context)
{
    http_output *h = context;
    if (h->left == 0 && !h->ended) {
        h->paused = true;
        return CURL_READFUNC_PAUSE;
    }
    size_t n = h->left < size ? h->left : size;
    memcpy(buf, h->next, n);
    h->next += n;
    h->left -= n;
    h->body_ended = n == 0;
    h->http.moved++;
    return n;
}

static size_t take_reply(char *data, size_t one, size_t len, void *context)
{
    http_output *h = context;
    return tarn__http_take_reply(&h->http, &h->reply, data, len);
}

static tarn_status check_answer(http_output *h, tarn_error *err)
{
    TARN_TRY(tarn__http_check_reply(&h->http, &h->reply, err));
    long status = h->http.head.status;
    if (status >= 200 && status < 300) return TARN_OK;
    return tarn__http_fail_status(&h->http, h->reply.body, h->reply.size, err);
}

static void resume_transfer(http_output *h)
{
    if (!h->paused) return;
    h->paused = false;
    h->http.curl->easy_pause(h->http.easy, CURLPAUSE_CONT);
}

static tarn_status feed_body(http_output *h, const char *data, size_t len,
                             tarn_error *err)
{
    h->next = data;
    h->left = len;
    resume_transfer(h);
    while (h->left && h->http.running)
        tarn__http_pump(&h->http);
    if (h->left == 0) return TARN_OK;
    TARN_TRY(check_answer(h, err));
    return tarn__http_fail_early(&h->http, err);
}

static tarn_status begin_stream(http_output *h, tarn_error *err)
{
    tarn__http_request request = {
        .method = "PUT",
        .url = h->object.url,
        .headers = h->overwrite ? NULL : h->only_new,
        .body_size = UINT64_MAX,
    };
    tarn__http_flow flow = {take_reply, give_body, h};
    h->streaming = true;
    TARN_TRY(tarn__http_begin(&h->http, &request, &flow, err));
    TARN_TRY(feed_body(h, h->held.data, h->held.size, err));
    tarn__buf_reset(&h->held);
    return TARN_OK;
}

static tarn_status http_write(tarn__output *out, const void *data, size_t len,
                              tarn_error *err)
{
    http_output *h = (http_output *)out;
    if (!h->streaming && len <= SMALL - h->held.size)
        return tarn__buf_add(&h->held, data, len, err);
    if (!h->streaming) TARN_TRY(begin_stream(h, err));
    return feed_body(h, data, len, err);
}

static tarn_status send_small(http_output *h, tarn_error *err)
{
    tarn__http_request request = {
        .method = "PUT",
        .url = h->object.url,
        .headers = h->overwrite ? NULL : h->only_new,
        .body = h->held.data,
        .body_size = h->held.size,
    };
    TARN_TRY(tarn__http_exchange(&h->http, &request, &h->reply, err));
    return check_answer(h, err);
}

static tarn_status end_stream(http_output *h, tarn_error *err)
{
    h->ended = true;
    resume_transfer(h);
    while (h->http.running)
        tarn__http_pump(&h->http);
    TARN_TRY(check_answer(h, err));
    return h->body_ended ? TARN_OK : tarn__http_fail_early(&h->http, err);
}

/* The server has to discard a transfer that is aborted in the middle. */
static void http_abandon(tarn__output *out)
{
    http_output *h = (http_output *)out;
    tarn__http_reset(&h->http);
    tarn__buf_reset(&h->held);
    tarn__object_reset(&h->object);
    free(h);
}

static tarn_status http_finish(tarn__output *out, tarn_error *err)
{
    http_output *h = (http_output *)out;
    tarn_status status = h->streaming ? end_stream(h, err) : send_small(h, err);
    http_abandon(out);
    return status;
}

static const tarn__output_ops ops = {http_write, http_finish, http_abandon};

tarn_status tarn__http_output_open(const char *url, const char *shown,
                                   const tarn_sink_options *options, tarn__output **out,
                                   tarn_error *err)
{
    http_output *h = calloc(1, sizeof *h);
    if (!h) return tarn__fail_memory(err);
    h->out.ops = &ops;
    h->overwrite = options->overwrite;
    tarn__buf_init(&h->held, SMALL);
    tarn_status status = tarn__object_init(&h->object, url, err);
    tarn__http_config config = tarn__object_http(&h->object);
    h->only_new[0] = h->object.only_new ? h->object.only_new : "If-None-Match: *";
    config.connect_seconds = options->connect_seconds;
    config.stall_seconds = options->stall_seconds;
    config.retries = options->retries;
    if (status == TARN_OK) status = tarn__http_init(&h->http, &config, err);
    if (status == TARN_OK && !h->overwrite)
        status = tarn__http_check_absent(&h->http, h->object.url, err);
    if (status != TARN_OK) {
        http_abandon(&h->out);
        return status;
    }
    *out = &h->out;
    return TARN_OK;
}
