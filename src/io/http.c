/* The HTTP client. */
#include "io/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>

#include "base/error.h"
#include "io/reach.h"
#include "io/sigpipe.h"

enum { MAX_REDIRECTS = 10, RECEIVE_BUFFER = 256 << 10 };

tarn_status tarn__http_init_shared(tarn__http *http, const tarn__http_config *config,
                                   tarn_error *err)
{
    *http = (tarn__http){.config = *config, .origin = TARN__THIS_MACHINE};
    tarn_status status = tarn__curl_get(&http->curl, err);
    if (status != TARN_OK) {
        tarn__error_place(err, config->shown, TARN_NO_OFFSET);
        return status;
    }
    http->easy = http->curl->easy_init();
    return http->easy ? TARN_OK : tarn__fail_memory(err);
}

tarn_status tarn__http_init(tarn__http *http, const tarn__http_config *config,
                            tarn_error *err)
{
    TARN_TRY(tarn__http_init_shared(http, config, err));
    http->multi = http->curl->multi_init();
    if (http->multi) return TARN_OK;
    tarn__http_reset(http);
    return tarn__fail_memory(err);
}

/* Aborts a request. */
static void stop_request(tarn__http *http)
{
    tarn__sigpipe guard;
    tarn__sigpipe_block(&guard);
    if (http->easy && http->multi)
        http->curl->multi_remove_handle(http->multi, http->easy);
    tarn__sigpipe_restore(&guard);
    http->running = false;
}

void tarn__http_reset(tarn__http *http)
{
    tarn__sigpipe guard;
    if (!http->curl) return;
    stop_request(http);
    tarn__sigpipe_block(&guard);
    http->curl->easy_cleanup(http->easy);
    http->curl->multi_cleanup(http->multi);
    tarn__sigpipe_restore(&guard);
    http->curl->slist_free_all(http->headers);
    *http = (tarn__http){0};
}

/* --- Responses -------------------------------------------------------------------- */

/* The value of a header line, if the header has that name. */
static bool header_is(const char *line, size_t len, const char *name, const char **value,
                      size_t *value_len)
{
    size_t n = strlen(name);
    if (len <= n || strncasecmp(line, name, n) != 0 || line[n] != ':') return false;
    line += n + 1;
    len -= n + 1;
    while (len && (*line == ' ' || *line == '\t')) {
        line++;
        len--;
    }
    while (len && (unsigned char)line[len - 1] <= ' ')
        len--;
    *value = line;
    *value_len = len;
    return true;
}

/* Drops a value that does not fit, because a truncated one would compare wrongly. Also
 * drops a value with control characters, because it may be sent back to the server in a
 * header line. */
static void keep_value(char *out, size_t size, const char *value, size_t len)
{
    if (len >= size) len = 0;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)value[i] < 0x20 || value[i] == 0x7f) len = 0;
    memcpy(out, value, len);
    out[len] = '\0';
}

static bool take_number(const char **at, const char *end, uint64_t *out)
{
    uint64_t value = 0;
    const char *p = *at;
    for (; p < end && *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
            return false;
    if (p == *at) return false;
    *at = p;
    *out = value;
    return true;
}

/* "bytes FIRST-LAST/TOTAL", where TOTAL may be "*". */
static void keep_range(tarn__http_head *head, const char *value, size_t len)
{
    const char *at = value + 6, *end = value + len;
    if (len < 6 || strncasecmp(value, "bytes ", 6) != 0) return;
    if (!take_number(&at, end, &head->range_first) || at == end || *at++ != '-') return;
    if (!take_number(&at, end, &head->range_last) || at == end || *at++ != '/') return;
    if (!take_number(&at, end, &head->range_total)) head->range_total = UINT64_MAX;
    head->has_range = true;
}

/* <URL>; rel="next", <URL>; rel="last" */
static void keep_next(tarn__http_head *head, const char *value, size_t len)
{
    static const char next[] = "rel=\"next\"";
    const char *end = value + len;
    const char *rel = memmem(value, len, next, sizeof next - 1);
    if (!rel) return;
    const char *from = memrchr(value, '<', (size_t)(rel - value));
    const char *to = from ? memchr(from, '>', (size_t)(end - from)) : NULL;
    if (to && to < rel)
        keep_value(head->next, sizeof head->next, from + 1, (size_t)(to - from - 1));
}

static void begin_head(tarn__http_head *head, const char *line, size_t len)
{
    const char *at = memchr(line, ' ', len), *end = line + len;
    uint64_t status = 0;
    *head = (tarn__http_head){0};
    if (at && take_number(&(const char *){at + 1}, end, &status) && status < 1000)
        head->status = (long)status;
}

void tarn__http_head_line(tarn__http_head *head, const char *line, size_t len)
{
    const char *value;
    size_t n;
    if (len > 5 && strncmp(line, "HTTP/", 5) == 0)
        begin_head(head, line, len);
    else if (header_is(line, len, "Content-Length", &value, &n))
        head->has_length = take_number(&value, value + n, &head->length);
    else if (header_is(line, len, "Content-Range", &value, &n))
        keep_range(head, value, n);
    else if (header_is(line, len, "ETag", &value, &n))
        keep_value(head->etag, sizeof head->etag, value, n);
    else if (header_is(line, len, "Last-Modified", &value, &n))
        keep_value(head->modified, sizeof head->modified, value, n);
    else if (header_is(line, len, "x-amz-bucket-region", &value, &n))
        keep_value(head->region, sizeof head->region, value, n);
    else if (header_is(line, len, TARN__S3_MARK, &value, &n))
        keep_value(head->mark, sizeof head->mark, value, n);
    else if (header_is(line, len, "Link", &value, &n))
        keep_next(head, value, n);
    else if (header_is(line, len, "Content-Encoding", &value, &n))
        tarn_printable(head->encoding, sizeof head->encoding, value, n);
    else if (header_is(line, len, "Retry-After", &value, &n) &&
             !take_number(&value, value + n, &head->retry_after))
        head->retry_after = 0; /* a date */
}

int64_t tarn__http_modified_ns(const tarn__http *http, const tarn__http_head *head)
{
    time_t seconds = head->modified[0] ? http->curl->getdate(head->modified, NULL) : 0;
    bool known = seconds > 0 && seconds < INT64_MAX / 1000000000;
    return known ? (int64_t)seconds * 1000000000 : 0;
}

static size_t on_header(char *line, size_t one, size_t len, void *context)
{
    tarn__http *http = context;
    tarn__http_received(http, len);
    http->head_size += len;
    http->head_too_long = http->head_size > TARN__HTTP_HEAD_MAX;
    if (http->head_too_long) return 0; /* aborts the transfer */
    http->head_ended = len <= 2;
    tarn__http_head_line(&http->head, line, len);
    if (http->head.status >= 300 && http->head.status < 400) http->redirected = true;
    return len;
}

/* --- Addresses -------------------------------------------------------------------- */

/* A caller may request any address; where servers redirect to is limited. */
static bool may_go(tarn__http *http, tarn__reach to)
{
    if (http->redirected && !tarn__may_redirect(http->through, to)) {
        http->kept_out = true;
        return false;
    }
    http->through = tarn__reach_farther(http->through, to);
    if (!http->redirected) http->origin = http->through;
    return true;
}

static curl_socket_t on_socket(void *context, curlsocktype purpose,
                               struct curl_sockaddr *address)
{
    if (!may_go(context, tarn__reach_of(&address->addr))) return CURL_SOCKET_BAD;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* --- Requests --------------------------------------------------------------------- */

/* Also called for a connection that another request had opened. */
static int on_connected(void *context, char *to, char *from, int to_port, int from_port)
{
    tarn__http *http = context;
    if (!may_go(http, tarn__reach_of_text(to))) return CURL_PREREQFUNC_ABORT;
    http->connected = true;
    http->moved++;
    return CURL_PREREQFUNC_OK;
}

static size_t give_body(char *buf, size_t one, size_t size, void *context)
{
    tarn__http *http = context;
    uint64_t left = http->body_size - http->body_sent;
    size_t n = left < size ? (size_t)left : size;
    if (n) memcpy(buf, http->body + http->body_sent, n);
    http->body_sent += n;
    http->moved++;
    return n;
}

/* A redirect may require sending the body again. */
static int rewind_body(void *context, curl_off_t offset, int origin)
{
    tarn__http *http = context;
    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > http->body_size)
        return CURL_SEEKFUNC_CANTSEEK;
    http->body_sent = (uint64_t)offset;
    return CURL_SEEKFUNC_OK;
}

tarn_status tarn__http_add_header(tarn__http *http, const char *line, tarn_error *err)
{
    struct curl_slist *longer = http->curl->slist_append(http->headers, line);
    if (!longer) return tarn__fail_memory(err);
    http->headers = longer;
    return TARN_OK;
}

static tarn_status set_headers(tarn__http *http, const tarn__http_request *request,
                               tarn_error *err)
{
    http->curl->slist_free_all(http->headers);
    http->headers = NULL;
    /* Neither wait for a 100 Continue nor guess the type of the body. */
    TARN_TRY(tarn__http_add_header(http, "Expect:", err));
    TARN_TRY(tarn__http_add_header(http, "Content-Type:", err));
    for (const char *const *h = request->headers; h && *h; h++)
        TARN_TRY(tarn__http_add_header(http, *h, err));
    if (http->config.sign)
        TARN_TRY(http->config.sign(http->config.signer, request, http, err));
    http->curl->easy_setopt(http->easy, CURLOPT_HTTPHEADER, http->headers);
    return TARN_OK;
}

/* Trusted certificate authorities can be set with the environment variables of the curl
 * tool. */
static void set_authorities(tarn__http *http)
{
    const char *file = getenv("CURL_CA_BUNDLE");
    if (!file || !file[0]) file = getenv("SSL_CERT_FILE");
    if (file && file[0]) http->curl->easy_setopt(http->easy, CURLOPT_CAINFO, file);
    http->curl->easy_setopt(http->easy, CURLOPT_SSL_VERIFYPEER, 1L);
    http->curl->easy_setopt(http->easy, CURLOPT_SSL_VERIFYHOST, 2L);
}

/* A request that starts with TLS must not be redirected to a URL without it. */
static bool is_secure(const char *url)
{
    return strncasecmp(url, "https:", 6) == 0;
}

static void set_common(tarn__http *http, const char *url)
{
    CURL *easy = http->easy;
    http->redirected = http->kept_out = false;
    http->through = http->origin; /* a connection may be used again */
    http->curl->easy_reset(easy);
    http->curl->easy_setopt(easy, CURLOPT_URL, url);
    http->curl->easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    http->curl->easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    http->curl->easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    http->curl->easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS_STR,
                            is_secure(url) ? "https" : "http,https");
    http->curl->easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_socket);
    http->curl->easy_setopt(easy, CURLOPT_OPENSOCKETDATA, http);
    http->curl->easy_setopt(easy, CURLOPT_FOLLOWLOCATION, http->config.follow ? 1L : 0L);
    http->curl->easy_setopt(easy, CURLOPT_MAXREDIRS, (long)MAX_REDIRECTS);
    if (http->config.direct) http->curl->easy_setopt(easy, CURLOPT_PROXY, "");
    set_authorities(http);
    http->curl->easy_setopt(easy, CURLOPT_CONNECTTIMEOUT,
                            (long)http->config.connect_seconds);
    http->curl->easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)RECEIVE_BUFFER);
    http->curl->easy_setopt(easy, CURLOPT_USERAGENT, "tarn/" TARN_VERSION);
    http->curl->easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    http->curl->easy_setopt(easy, CURLOPT_ERRORBUFFER, http->error);
    http->curl->easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    http->curl->easy_setopt(easy, CURLOPT_HEADERDATA, http);
    http->curl->easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_connected);
    http->curl->easy_setopt(easy, CURLOPT_PREREQDATA, http);
}

static void set_body(tarn__http *http, const tarn__http_request *request,
                     const tarn__http_flow *flow)
{
    CURL *easy = http->easy;
    curl_off_t size =
        request->body_size == UINT64_MAX ? -1 : (curl_off_t)request->body_size;
    bool post = strcmp(request->method, "POST") == 0;
    http->body = request->body;
    http->body_size = request->body_size;
    http->body_sent = 0;
    http->curl->easy_setopt(easy, post ? CURLOPT_POST : CURLOPT_UPLOAD, 1L);
    http->curl->easy_setopt(
        easy, post ? CURLOPT_POSTFIELDSIZE_LARGE : CURLOPT_INFILESIZE_LARGE, size);
    http->curl->easy_setopt(easy, CURLOPT_READFUNCTION,
                            flow->give ? flow->give : give_body);
    http->curl->easy_setopt(easy, CURLOPT_READDATA, flow->give ? flow->context : http);
    if (!flow->give) {
        http->curl->easy_setopt(easy, CURLOPT_SEEKFUNCTION, rewind_body);
        http->curl->easy_setopt(easy, CURLOPT_SEEKDATA, http);
    }
}

static void set_method(tarn__http *http, const tarn__http_request *request,
                       const tarn__http_flow *flow)
{
    CURL *easy = http->easy;
    if (strcmp(request->method, "HEAD") == 0)
        http->curl->easy_setopt(easy, CURLOPT_NOBODY, 1L);
    else if (strcmp(request->method, "DELETE") == 0)
        http->curl->easy_setopt(easy, CURLOPT_CUSTOMREQUEST, "DELETE");
    else if (strcmp(request->method, "GET") != 0)
        set_body(http, request, flow);
    http->curl->easy_setopt(easy, CURLOPT_WRITEFUNCTION, flow->take);
    http->curl->easy_setopt(easy, CURLOPT_WRITEDATA, flow->context);
}

tarn_status tarn__http_prepare(tarn__http *http, const tarn__http_request *request,
                               const tarn__http_flow *flow, tarn_error *err)
{
    http->head = (tarn__http_head){0};
    http->connected = http->stalled = http->slow = false;
    http->head_size = 0;
    http->head_too_long = http->head_ended = false;
    http->waited_ms = 0;
    http->slow_from = http->received;
    http->body_size = http->body_sent = 0;
    http->result = CURLE_OK;
    http->error[0] = '\0';
    set_common(http, request->url);
    set_method(http, request, flow);
    return set_headers(http, request, err);
}

tarn_status tarn__http_begin(tarn__http *http, const tarn__http_request *request,
                             const tarn__http_flow *flow, tarn_error *err)
{
    stop_request(http);
    TARN_TRY(tarn__http_prepare(http, request, flow, err));
    if (http->curl->multi_add_handle(http->multi, http->easy) != CURLM_OK)
        return tarn__fail_memory(err);
    http->running = true;
    return TARN_OK;
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void step_transfer(tarn__http *http)
{
    tarn__sigpipe guard;
    int still = 0, queued;
    CURLMsg *message;
    tarn__sigpipe_block(&guard);
    http->curl->multi_perform(http->multi, &still);
    tarn__sigpipe_restore(&guard);
    while ((message = http->curl->multi_info_read(http->multi, &queued))) {
        if (message->msg != CURLMSG_DONE) continue;
        http->result = message->data.result;
        http->running = false;
    }
}

static void time_out(tarn__http *http, bool *why)
{
    stop_request(http);
    http->result = CURLE_OPERATION_TIMEDOUT;
    *why = true;
}

/* Ends a request whose response has been too slow on average over the time of a stall. */
static void check_speed(tarn__http *http, int64_t waited_ms)
{
    uint64_t least = (uint64_t)http->config.min_speed * http->config.stall_seconds;
    http->waited_ms += waited_ms;
    if (!http->running || !http->connected || least == 0) return;
    if (http->waited_ms < (int64_t)http->config.stall_seconds * 1000) return;
    if (http->received - http->slow_from < least) time_out(http, &http->slow);
    http->waited_ms = 0;
    http->slow_from = http->received;
}

static void await_progress(tarn__http *http, int64_t began)
{
    uint64_t before = http->moved;
    int64_t limit = (int64_t)http->config.stall_seconds * 1000;
    if (!http->connected) limit += (int64_t)http->config.connect_seconds * 1000;
    for (;;) {
        step_transfer(http);
        if (!http->running || http->moved != before) return;
        int64_t left = began + limit - now_ms();
        if (http->config.stall_seconds == 0) left = 1000;
        if (left <= 0) {
            time_out(http, &http->stalled);
            return;
        }
        http->curl->multi_poll(http->multi, NULL, 0, (int)(left < 1000 ? left : 1000),
                               NULL);
    }
}

/* Only time spent in this library counts: the caller may take any time between calls. */
void tarn__http_pump(tarn__http *http)
{
    int64_t began = now_ms();
    await_progress(http, began);
    check_speed(http, now_ms() - began);
}

void tarn__http_received(tarn__http *http, size_t len)
{
    http->moved++;
    http->received += len;
}

/* --- Errors ----------------------------------------------------------------------- */

bool tarn__http_may_retry(const tarn__http *http)
{
    if (http->kept_out || http->head_too_long) return false;
    switch (http->result) {
    case CURLE_OK:
    case CURLE_WRITE_ERROR: /* caused by us: the response was refused */
        break;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
        return true;
    default:
        return false;
    }
    long status = http->head.status;
    return status == 408 || status == 429 || status == 500 || status == 502 ||
           status == 503 || status == 504;
}

/* Starts at a fifth of a second and doubles up to ten seconds; up to half of it is
 * subtracted at random, so that many clients do not come back at the same moment. */
unsigned tarn__http_pause_ms(unsigned attempt)
{
    uint64_t ms = UINT64_C(200) << (attempt < 7 ? attempt - 1 : 6);
    uint32_t chance = 0;
    if (ms > 10000) ms = 10000;
    if (getrandom(&chance, sizeof chance, GRND_NONBLOCK) < 0) chance = 0;
    return (unsigned)(ms - chance % (ms / 2));
}

void tarn__http_back_off(unsigned attempt)
{
    unsigned ms = tarn__http_pause_ms(attempt);
    struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    nanosleep(&t, NULL);
}

tarn_status tarn__http_fail(const tarn__http *http, tarn_error *err)
{
    const char *shown = http->config.shown, *text;
    char clean[4 * CURL_ERROR_SIZE];
    if (http->stalled && http->connected)
        return tarn__fail_at(err, TARN_ERR_IO, shown, TARN_NO_OFFSET,
                             "no data for %u s (stall_seconds)",
                             http->config.stall_seconds);
    if (http->kept_out)
        return tarn__fail_at(err, TARN_ERR_UNSUPPORTED, shown, TARN_NO_OFFSET,
                             "refused a redirect to this machine, a private network or a "
                             "link-local address; open that address directly if you "
                             "trust it");
    if (http->slow)
        return tarn__fail_at(err, TARN_ERR_IO, shown, TARN_NO_OFFSET,
                             "the server sent less than %u bytes/s for %u s (min_speed, "
                             "stall_seconds)",
                             http->config.min_speed, http->config.stall_seconds);
    if (http->head_too_long)
        return tarn__fail_at(err, TARN_ERR_LIMIT, shown, TARN_NO_OFFSET,
                             "the headers of the response have more than %d bytes",
                             TARN__HTTP_HEAD_MAX);
    switch (http->result) {
    case CURLE_OUT_OF_MEMORY: /* also what libcurl calls a line of more than 100 KB */
        if (!http->connected || http->head_ended) return tarn__fail_memory(err);
        return tarn__fail_at(err, TARN_ERR_LIMIT, shown, TARN_NO_OFFSET,
                             "a header of the response is too long (the limit of libcurl "
                             "is 100 KB), or memory ran out");
    case CURLE_URL_MALFORMAT:
        return tarn__fail_at(err, TARN_ERR_USAGE, shown, TARN_NO_OFFSET,
                             "not a valid URL for a request");
    case CURLE_UNSUPPORTED_PROTOCOL:
        if (http->connected && !http->redirected)
            return tarn__fail_at(err, TARN_ERR_FORMAT, shown, TARN_NO_OFFSET,
                                 "the server does not speak HTTP (no status line)");
        return tarn__fail_at(err, TARN_ERR_UNSUPPORTED, shown, TARN_NO_OFFSET,
                             "refused a redirect to a URL that is neither http nor "
                             "https, or from https to http");
    case CURLE_TOO_MANY_REDIRECTS:
        return tarn__fail_at(err, TARN_ERR_UNSUPPORTED, shown, TARN_NO_OFFSET,
                             "more than %d redirects", MAX_REDIRECTS);
    default:
        /* The text may quote the server, for example a certificate. */
        text = http->error[0] ? http->error : http->curl->easy_strerror(http->result);
        tarn_printable(clean, sizeof clean, text, strlen(text));
        return tarn__fail_at(err, TARN_ERR_IO, shown, TARN_NO_OFFSET, "%s", clean);
    }
}

tarn_status tarn__http_fail_early(const tarn__http *http, tarn_error *err)
{
    return tarn__fail_at(err, TARN_ERR_IO, http->config.shown, TARN_NO_OFFSET,
                         "the server responded before it had received all data");
}

/* The text of <name> in a response of S3, truncated and escaped for a message. */
static void find_tag(const char *body, size_t len, const char *name, char *out,
                     size_t size)
{
    char tag[32];
    int n = snprintf(tag, sizeof tag, "<%s>", name);
    const char *from = memmem(body, len, tag, (size_t)n);
    out[0] = '\0';
    if (!from) return;
    from += n;
    const char *to = memchr(from, '<', (size_t)(body + len - from));
    if (to) tarn_printable(out, size, from, (size_t)(to - from));
}

static bool is_unsigned(const tarn__http *http)
{
    const char *shown = http->config.shown;
    if (strncmp(shown, "s3://", 5) != 0 && strncmp(shown, "gs://", 5) != 0) return false;
    for (const struct curl_slist *line = http->headers; line; line = line->next)
        if (strncasecmp(line->data, "authorization:", 14) == 0) return false;
    return true;
}

tarn_status tarn__http_fail_status(const tarn__http *http, const char *body, size_t len,
                                   tarn_error *err)
{
    long status = http->head.status;
    char code[64], message[256], text[400] = "", place[300], region[400] = "";
    find_tag(body, len, "Code", code, sizeof code);
    find_tag(body, len, "Message", message, sizeof message);
    if (code[0]) snprintf(text, sizeof text, " (%s: %s)", code, message);
    tarn_printable(place, sizeof place, http->head.region, strlen(http->head.region));
    if (place[0]) snprintf(region, sizeof region, "; the bucket is in region %s", place);
    tarn_status kind = status == 404 || status == 410 ? TARN_ERR_NO_FILE
                       : status == 412 || strcmp(code, "BlobAlreadyExists") == 0
                           ? TARN_ERR_EXISTS
                           : TARN_ERR_IO;
    const char *meaning = status == 401 ? ": credentials are required"
                          : status == 403 && is_unsigned(http)
                              ? ": access is denied, and no credentials were found, so "
                                "the request was not signed"
                          : status == 403 ? ": access is denied"
                          : status == 404 ? ": no such object"
                          : status == 405 || status == 501
                              ? ": it does not allow this request; uploads "
                                "need a server that accepts PUT"
                          : status == 412 ? ": the object already exists"
                                          : "";
    return tarn__fail_at(err, kind, http->config.shown, TARN_NO_OFFSET,
                         "the server responded with status %ld%s%s%s", status, meaning,
                         text, region);
}
