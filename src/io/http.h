/* One HTTP client: consecutive requests over a connection that is kept open, advanced in
 * small steps so that the caller decides when bytes are transferred. Only this module
 * knows libcurl's options. TLS is always verified, and redirects stay within http and
 * https. */
#ifndef TARN_IO_HTTP_H
#define TARN_IO_HTTP_H

#include "base/buf.h"
#include "io/curl.h"
#include "io/input.h"
#include "io/output.h"
#include "io/reach.h"

/* Bytes in the headers of a response, together with those of the redirects to it. */
enum { TARN__HTTP_HEAD_MAX = 256 << 10 };

/* The headers of a response that the library uses; "" or false if missing. */
typedef struct tarn__http_head {
    long status;
    bool has_length, has_range;
    uint64_t length;
    uint64_t range_first, range_last, range_total; /* UINT64_MAX: unknown */
    uint64_t retry_after;                          /* seconds; 0: unknown */
    char etag[256];
    char modified[64];
    char region[64]; /* the region of the bucket, as reported by S3 */
    char mark[64];   /* TARN__S3_MARK of the object */
    char next[1024]; /* the URL of the next page, from Link */
    char encoding[64];
} tarn__http_head;

/* Parses one header line; a status line resets everything, as after a redirect. */
void tarn__http_head_line(tarn__http_head *head, const char *line, size_t len);

/* The name of a value that S3 keeps with an object, by which a writer knows its own. */
#define TARN__S3_MARK "x-amz-meta-tarn-write"

typedef struct tarn__http_request {
    const char *method;
    const char *url;
    const char *const *headers; /* "Name: value", ends with NULL; or NULL */
    const void *body;           /* PUT and POST */
    uint64_t body_size;         /* UINT64_MAX: known only at the end */
    const char *mark;           /* TARN__S3_MARK of the object to be; or NULL */
} tarn__http_request;

typedef struct tarn__http tarn__http;

/* Adds headers that authenticate the request. */
typedef tarn_status tarn__http_sign(void *signer, const tarn__http_request *request,
                                    tarn__http *http, tarn_error *err);

/* Whether a request that was refused (with this status and body) may succeed if it is
 * signed again, because its credentials had expired or the clocks differ. Asked once for
 * each request. May contact the servers that give credentials. */
typedef bool tarn__http_renew(void *signer, long status, const char *body, size_t len);

typedef struct tarn__http_config {
    const char *shown; /* for messages; must outlive the client */
    unsigned connect_seconds, stall_seconds, retries;
    unsigned min_speed; /* bytes per second that a response must have; 0: any */
    bool follow;        /* follow redirects */
    bool direct;        /* without a proxy */
    tarn__http_sign *sign;
    tarn__http_renew *renew;
    void *signer;
    /* For tarn__http_read: the response is not wanted if the object is still this one.
     * "" or NULL: unknown. */
    const char *known_etag, *known_modified;
} tarn__http_config;

struct tarn__http {
    tarn__http_config config;
    const tarn__curl *curl;
    CURLM *multi;
    CURL *easy;
    struct curl_slist *headers;
    tarn__http_head head;
    bool running;   /* a request is in progress */
    bool connected; /* the request has reached the server */
    bool stalled;
    CURLcode result;
    uint64_t moved;     /* changes with every byte received or sent */
    uint64_t received;  /* bytes of responses */
    uint64_t head_size; /* bytes of the headers of this request */
    bool head_too_long;
    bool head_ended;
    bool slow;
    int64_t waited_ms; /* since received was slow_from */
    uint64_t slow_from;
    tarn__reach origin;  /* the farthest address tried before a redirect */
    tarn__reach through; /* the farthest address of this request */
    bool redirected;     /* further addresses are chosen by the server */
    bool kept_out;       /* an address was refused */
    const char *body;    /* of the request; the part that is left to send */
    uint64_t body_size;  /* size of the whole body */
    uint64_t body_sent;
    char error[CURL_ERROR_SIZE];
};

TARN_CHECKED tarn_status tarn__http_init(tarn__http *http,
                                         const tarn__http_config *config,
                                         tarn_error *err);
void tarn__http_reset(tarn__http *http);

/* A client for prepared requests only, whose transfers the caller runs. */
TARN_CHECKED tarn_status tarn__http_init_shared(tarn__http *http,
                                                const tarn__http_config *config,
                                                tarn_error *err);

/* Callbacks for the body of the response (take) and of the request (give; NULL: the body
 * is in the request). They have the types of libcurl's callbacks, and both may pause. */
typedef struct tarn__http_flow {
    curl_write_callback take;
    curl_read_callback give;
    void *context;
} tarn__http_flow;

/* Adds "Name: value" to the request that is being prepared. */
TARN_CHECKED tarn_status tarn__http_add_header(tarn__http *http, const char *line,
                                               tarn_error *err);

/* Prepares http->easy for a request. Flags and counters of the client are set while it is
 * transferred; result is the caller's task. */
TARN_CHECKED tarn_status tarn__http_prepare(tarn__http *http,
                                            const tarn__http_request *request,
                                            const tarn__http_flow *flow, tarn_error *err);

/* Sends a request; tarn__http_pump does the rest. */
TARN_CHECKED tarn_status tarn__http_begin(tarn__http *http,
                                          const tarn__http_request *request,
                                          const tarn__http_flow *flow, tarn_error *err);

/* To be called by take with the size of its data. */
void tarn__http_received(tarn__http *http, size_t len);

/* Runs until data was transferred, the request is over (running is false), or nothing was
 * transferred for the configured time (then it is over too, and stalled is set), or the
 * response was too slow over that time (slow is set). */
void tarn__http_pump(tarn__http *http);

/* Whether a retry may succeed. */
bool tarn__http_may_retry(const tarn__http *http);

/* How long to wait before an attempt; longer before each. Attempts are counted from 1. */
unsigned tarn__http_pause_ms(unsigned attempt);
void tarn__http_back_off(unsigned attempt); /* sleeps */

/* The failure of a request that got no response, or only a part of it. */
tarn_status tarn__http_fail(const tarn__http *http, tarn_error *err);

/* The failure of a request that the server accepted before it had read the whole body: if
 * the server then closes the connection, the request ends and libcurl reports no
 * error. */
tarn_status tarn__http_fail_early(const tarn__http *http, tarn_error *err);

/* The failure that the status of a response means. body is the body of the response. */
tarn_status tarn__http_fail_status(const tarn__http *http, const char *body, size_t len,
                                   tarn_error *err);

/* --- Whole requests -------------------------------------------------------------- */

enum { TARN__HTTP_REPLY_MAX = 64 << 10 };

typedef struct tarn__http_reply {
    char body[TARN__HTTP_REPLY_MAX]; /* NUL-terminated */
    size_t size;
} tarn__http_reply;

/* Keeps bytes of a reply; returns fewer if it is too long, which ends the request. */
size_t tarn__http_take_reply(tarn__http *http, tarn__http_reply *reply, const char *data,
                             size_t len);
/* Whether a request that is over got its reply. The reply to a request that failed may be
 * cut. */
TARN_CHECKED tarn_status tarn__http_check_reply(const tarn__http *http,
                                                const tarn__http_reply *reply,
                                                tarn_error *err);

/* Sends a request whose body is in memory, with retries, until there is a response.
 * http->head and reply hold the response, whatever its status. */
TARN_CHECKED tarn_status tarn__http_exchange(tarn__http *http,
                                             const tarn__http_request *request,
                                             tarn__http_reply *reply, tarn_error *err);

/* The same for responses of up to body->max bytes; any status but 200 is an error. */
TARN_CHECKED tarn_status tarn__http_load(tarn__http *http,
                                         const tarn__http_request *request,
                                         tarn__buf *body, tarn_error *err);

/* The check for overwrite=false: TARN_ERR_EXISTS if url exists. If a server does not
 * answer the question, the object is assumed not to exist; then only the condition sent
 * with the write protects it. */
TARN_CHECKED tarn_status tarn__http_check_absent(tarn__http *http, const char *url,
                                                 tarn_error *err);

/* --- Resources as sources --------------------------------------------------------- */

/* Opens the object at url for reading, with resumption. The input releases signer with
 * free(), also after a failure. TARN_END if the object is the known one. */
TARN_CHECKED tarn_status tarn__http_read(const char *url, const tarn__http_config *config,
                                         tarn__input **out, tarn_error *err);

/* When an object was changed, since 1970; 0: unknown. */
int64_t tarn__http_modified_ns(const tarn__http *http, const tarn__http_head *head);

/* The headers of the first response to an input that tarn__http_read opened: its length,
 * ETag and date. */
void tarn__http_read_head(const tarn__input *in, tarn__http_head *out);

#endif
