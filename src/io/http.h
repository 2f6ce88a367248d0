/* One HTTP client: requests one after the other over a connection that is kept, driven a
 * step at a time so that the caller decides when bytes flow. The only place, with http.c,
 * that knows libcurl's options. TLS is always verified, and redirects stay within http
 * and https. */
#ifndef TARN_IO_HTTP_H
#define TARN_IO_HTTP_H

#include "io/curl.h"
#include "io/input.h"
#include "io/output.h"

/* The headers of an answer that anybody asks for; "" or false where they are missing. */
typedef struct tarn__http_head {
    long status;
    bool has_length, has_range;
    uint64_t length;
    uint64_t range_first, range_total; /* UINT64_MAX: not told */
    char etag[256];
    char modified[64];
    char region[64]; /* where S3 says the bucket is */
} tarn__http_head;

/* Takes in one line; a status line begins anew, as after a redirect. */
void tarn__http_head_line(tarn__http_head *head, const char *line, size_t len);

typedef struct tarn__http_request {
    const char *method;
    const char *url;
    const char *const *headers; /* "Name: value", ends with NULL; or NULL */
    const void *body;           /* PUT and POST */
    uint64_t body_size;         /* UINT64_MAX: known when it ends */
    const char *digest;         /* SHA-256 of the body in hex, where it is signed */
} tarn__http_request;

typedef struct tarn__http tarn__http;

/* Adds headers that prove who asks. */
typedef tarn_status tarn__http_sign(void *signer, const tarn__http_request *request,
                                    tarn__http *http, tarn_error *err);

typedef struct tarn__http_config {
    const char *shown; /* for messages; outlives the client */
    unsigned connect_seconds, stall_seconds, retries;
    bool follow; /* redirects */
    tarn__http_sign *sign;
    void *signer;
} tarn__http_config;

struct tarn__http {
    tarn__http_config config;
    const tarn__curl *curl;
    CURLM *multi;
    CURL *easy;
    struct curl_slist *headers;
    tarn__http_head head;
    bool running;   /* a request is on its way */
    bool connected; /* it has reached the server */
    bool stalled;
    CURLcode result;
    uint64_t moved;     /* counts everything that came or went */
    bool began_inside;  /* all addresses tried before a redirect are of this machine */
    bool redirected;    /* the addresses that come now are the server's choice */
    bool kept_out;      /* one was refused */
    const char *body;   /* of the request; what is left to send */
    uint64_t body_size; /* all of it */
    uint64_t body_sent;
    char error[CURL_ERROR_SIZE];
};

TARN_CHECKED tarn_status tarn__http_init(tarn__http *http,
                                         const tarn__http_config *config,
                                         tarn_error *err);
void tarn__http_reset(tarn__http *http);

/* Who gets the body of the answer, and who gives that of the request (NULL: it is in the
 * request). As libcurl's callbacks; both may pause. */
typedef struct tarn__http_flow {
    curl_write_callback take;
    curl_read_callback give;
    void *context;
} tarn__http_flow;

/* Adds "Name: value" to the request that is being made. */
TARN_CHECKED tarn_status tarn__http_add_header(tarn__http *http, const char *line,
                                               tarn_error *err);

/* Sends a request; what happens next happens in pump. */
TARN_CHECKED tarn_status tarn__http_begin(tarn__http *http,
                                          const tarn__http_request *request,
                                          const tarn__http_flow *flow, tarn_error *err);

/* Goes on until something has moved, the request is over (running is false), or nothing
 * has moved for as long as the configuration says (over too, and stalled). */
void tarn__http_pump(tarn__http *http);

/* Whether what went wrong may go right the next time. */
bool tarn__http_may_retry(const tarn__http *http);

/* Sleeps a little longer before each attempt; attempts are counted from 1. */
void tarn__http_back_off(unsigned attempt);

/* The failure of a request that got no answer, or not all of it. */
tarn_status tarn__http_fail(const tarn__http *http, tarn_error *err);

/* The failure of a request that was granted before all of its body was taken: a server
 * that closes the connection with it ends the request, and libcurl finds nothing wrong.
 */
tarn_status tarn__http_fail_early(const tarn__http *http, tarn_error *err);

/* The failure that an answer's status is. body is what the answer says about it. */
tarn_status tarn__http_fail_status(const tarn__http *http, const char *body, size_t len,
                                   tarn_error *err);

/* --- Whole requests -------------------------------------------------------------- */

enum { TARN__HTTP_REPLY_MAX = 64 << 10 };

typedef struct tarn__http_reply {
    char body[TARN__HTTP_REPLY_MAX]; /* NUL-terminated, cut to fit */
    size_t size;
} tarn__http_reply;

/* Sends a request whose body is in memory, again where that may help, until it has an
 * answer. http->head and reply hold it, whatever its status. */
TARN_CHECKED tarn_status tarn__http_exchange(tarn__http *http,
                                             const tarn__http_request *request,
                                             tarn__http_reply *reply, tarn_error *err);

/* What overwrite=false needs to know: TARN_ERR_EXISTS if there is something at url. A
 * server that will not say is believed to have nothing; the condition that goes with the
 * write is then all there is. */
TARN_CHECKED tarn_status tarn__http_check_absent(tarn__http *http, const char *url,
                                                 tarn_error *err);

/* --- Resources as sources --------------------------------------------------------- */

/* The object at url, read with resumption. The input frees signer with free(). */
TARN_CHECKED tarn_status tarn__http_read(const char *url, const tarn__http_config *config,
                                         tarn__input **out, tarn_error *err);

#endif
