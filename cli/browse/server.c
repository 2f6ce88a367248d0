/* The HTTP server of tarn browse: libmicrohttpd, loaded when it is needed. It listens on
 * the loopback address only, answers GET and HEAD only, and only requests that have the
 * token in their path and this server's address as their Host. A pool of threads answers;
 * they share the browser, whose locks are described where it is declared.
 *
 * The main thread waits for a signal. It blocks SIGINT and SIGTERM before the threads are
 * started, so that they inherit the mask, and lets them through only while it waits. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "browse.h"

#ifndef TARN_HAVE_MICROHTTPD

int browse_serve(browser *b, const char *view, unsigned port, bool open_page,
                 bool until_eof)
{
    (void)view, (void)port, (void)open_page, (void)until_eof;
    cli_note(
        "tarn: this command was built without libmicrohttpd, which tarn browse needs "
        "to serve %s; install its header (Debian: libmicrohttpd-dev) and build tarn "
        "again, or write a page with -o FILE\n",
        b->title);
    return CLI_DATA;
}

#else

#include <microhttpd.h>

#include "browse_page.h"

enum { THREADS = 4, CONNECTIONS = 64, IDLE_SECONDS = 60, TOKEN_BYTES = 16 };

/* --- libmicrohttpd -------------------------------------------------------------------
 */

#define FUNCTIONS(X)                                                                     \
    X(start_daemon)                                                                      \
    X(stop_daemon)                                                                       \
    X(lookup_connection_value)                                                           \
    X(create_response_from_buffer)                                                       \
    X(create_response_from_callback)                                                     \
    X(add_response_header)                                                               \
    X(queue_response)                                                                    \
    X(destroy_response)

static struct {
#define MEMBER(name) __typeof__(MHD_##name) *name;
    FUNCTIONS(MEMBER)
#undef MEMBER
} mhd;

static bool find_function(void *library, const char *name, void *out)
{
    void *function = dlsym(library, name);
    memcpy(out, &function, sizeof function);
    return function != NULL;
}

static bool load(void)
{
    void *library = dlopen("libmicrohttpd.so.12", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        const char *why = dlerror();
        cli_note("tarn: tarn browse needs libmicrohttpd, which cannot be loaded: %s\n"
                 "Install it (Debian: libmicrohttpd12), or write a page with -o FILE.\n",
                 why ? why : "no reason given");
        return false;
    }
#define FIND(name)                                                                       \
    if (!find_function(library, "MHD_" #name, &mhd.name)) {                              \
        cli_note("tarn: libmicrohttpd lacks the function MHD_" #name "\n");              \
        return false;                                                                    \
    }
    FUNCTIONS(FIND)
#undef FIND
    return true;
}

/* --- Requests ------------------------------------------------------------------------
 */

typedef struct server {
    browser *b;
    char token[2 * TOKEN_BYTES + 1];
    char hosts[2][32]; /* 127.0.0.1:PORT and localhost:PORT */
    char policy[400];
} server;

/* Takes the same time wherever two texts of the same length differ. */
static bool is_token(const server *s, const char *given)
{
    unsigned char differs = 0;
    if (strnlen(given, sizeof s->token) != sizeof s->token - 1) return false;
    for (size_t i = 0; i < sizeof s->token - 1; i++)
        differs |= (unsigned char)(given[i] ^ s->token[i]);
    return differs == 0;
}

/* Another name that points to this address (DNS rebinding) is another Host. */
static bool is_host(const server *s, struct MHD_Connection *c)
{
    const char *host = mhd.lookup_connection_value(c, MHD_HEADER_KIND, "Host");
    return host && (strcmp(host, s->hosts[0]) == 0 || strcmp(host, s->hosts[1]) == 0);
}

static void set_file(browse_answer *a, const char *type, const unsigned char *data,
                     size_t size)
{
    *a = (browse_answer){.status = 200, .type = type, .data = {data, size, NULL}};
    a->size = (size_t)(a->total = size);
}

static bool answer_file(const char *path, browse_answer *a)
{
    if (!*path)
        set_file(a, "text/html; charset=utf-8", browse_html, sizeof browse_html);
    else if (strcmp(path, "browse.js") == 0)
        set_file(a, "text/javascript; charset=utf-8", browse_js, sizeof browse_js);
    else if (strcmp(path, "browse.css") == 0)
        set_file(a, "text/css; charset=utf-8", browse_css, sizeof browse_css);
    else if (strcmp(path, "icon.png") == 0)
        set_file(a, "image/png", icon_png, sizeof icon_png);
    else
        return false;
    return true;
}

/* Paths are compared with this list and never become names of files. */
static void answer(server *s, struct MHD_Connection *c, const browse_query *q,
                   browse_answer *a)
{
    static const struct {
        const char *path;
        browse_answerer *answer;
    } paths[] = {{"info", browse_info},     {"page", browse_page},
                 {"sample", browse_sample}, {"find", browse_find},
                 {"when", browse_when},     {"stats", browse_stats},
                 {"thumb", browse_thumb},   {"problems", browse_problem_list}};
    if (answer_file(q->path, a)) return;
    if (strcmp(q->path, "raw") == 0) {
        browse_raw_range(s->b, q,
                         mhd.lookup_connection_value(c, MHD_HEADER_KIND, "Range"), a);
        return;
    }
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (strcmp(q->path, paths[i].path) == 0) {
            paths[i].answer(s->b, q, a);
            return;
        }
    browse_fail(a, 404, "there is no such page");
}

/* --- Responses -----------------------------------------------------------------------
 */

/* Data that is sent piece by piece, from the file. */
typedef struct sending {
    browser *b;
    browse_answer answer;
} sending;

static ssize_t send_piece(void *context, uint64_t at, char *out, size_t room)
{
    const browse_answer *a = &((sending *)context)->answer;
    if (at >= a->size) return MHD_CONTENT_READER_END_OF_STREAM;
    size_t n = a->size - (size_t)at < room ? a->size - (size_t)at : room;
    memcpy(out, a->data.data + a->from + at, n);
    return (ssize_t)n;
}

static void end_sending(void *context)
{
    sending *s = context;
    tarn_view_release(&s->answer.data);
    browse_view_close(s->b, s->answer.view);
    free(s);
}

static struct MHD_Response *make_response(server *s, browse_answer *a)
{
    enum { BLOCK = 64 << 10 };
    if (!a->data.data)
        return mhd.create_response_from_buffer(a->size, a->body, MHD_RESPMEM_MUST_FREE);
    sending *context = malloc(sizeof *context);
    if (!context) cli_no_memory();
    *context = (sending){s->b, *a};
    return mhd.create_response_from_callback(a->size, BLOCK, send_piece, context,
                                             end_sending);
}

static void add(struct MHD_Response *r, const char *name, const char *value)
{
    (void)mhd.add_response_header(r, name, value);
}

static void add_headers(const server *s, struct MHD_Response *r, const browse_answer *a)
{
    char text[200];
    add(r, "Content-Security-Policy", s->policy);
    add(r, "X-Content-Type-Options", "nosniff");
    add(r, "Referrer-Policy", "no-referrer");
    add(r, "Cross-Origin-Resource-Policy", "same-origin");
    add(r, "Cross-Origin-Opener-Policy", "same-origin");
    add(r, "Cache-Control", a->cache ? "private, max-age=600" : "no-store");
    add(r, "Content-Type", a->type);
    if (a->attached) {
        snprintf(text, sizeof text, "attachment; filename=\"%s\"",
                 a->name[0] ? a->name : "data");
        add(r, "Content-Disposition", text);
    }
    if (a->view) add(r, "Accept-Ranges", "bytes");
    if (!a->partial) return;
    if (a->size)
        snprintf(text, sizeof text, "bytes %llu-%llu/%llu", (unsigned long long)a->from,
                 (unsigned long long)(a->from + a->size - 1),
                 (unsigned long long)a->total);
    else
        snprintf(text, sizeof text, "bytes */%llu", (unsigned long long)a->total);
    add(r, "Content-Range", text);
}

static enum MHD_Result respond(server *s, struct MHD_Connection *c, browse_answer *a)
{
    struct MHD_Response *r = make_response(s, a);
    if (!r) return MHD_NO;
    add_headers(s, r, a);
    enum MHD_Result result = mhd.queue_response(c, a->status, r);
    mhd.destroy_response(r);
    return result;
}

/* --- The daemon ----------------------------------------------------------------------
 */

/* The address as it was sent, so that it is decoded only by our own parser. */
typedef struct request {
    char *uri;
    bool begun; /* the handler was called once, with the headers only */
} request;

static void *keep_uri(void *context, const char *uri, struct MHD_Connection *c)
{
    (void)context, (void)c;
    request *r = malloc(sizeof *r);
    if (r) *r = (request){strndup(uri, BROWSE_MAX_URI + 1), false};
    return r;
}

static void drop_uri(void *context, struct MHD_Connection *c, void **kept,
                     enum MHD_RequestTerminationCode code)
{
    (void)context, (void)c, (void)code;
    request *r = *kept;
    if (r) free(r->uri);
    free(r);
    *kept = NULL;
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *c,
                                  const char *url, const char *method,
                                  const char *version, const char *upload,
                                  size_t *upload_size, void **kept)
{
    (void)url, (void)version, (void)upload;
    server *s = context;
    request *r = *kept;
    browse_query q;
    browse_answer a;
    if (!r || !r->uri) return MHD_NO;
    if (!r->begun || *upload_size) { /* a body is ignored */
        r->begun = true;
        *upload_size = 0;
        return MHD_YES;
    }
    if (!is_host(s, c)) {
        browse_fail(&a, 403, "the Host of the request is not this server's");
        return respond(s, c, &a);
    }
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        browse_fail(&a, 405, "only GET is allowed");
        return respond(s, c, &a);
    }
    if (!browse_query_parse(r->uri, &q)) {
        browse_fail(&a, 400, "the address is malformed or too long");
        return respond(s, c, &a);
    }
    if (is_token(s, q.token))
        answer(s, c, &q, &a);
    else
        browse_fail(&a, 403, "the token in the address is wrong");
    browse_query_free(&q);
    return respond(s, c, &a);
}

static bool make_token(server *s)
{
    unsigned char bytes[TOKEN_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
        cli_note("tarn: cannot get random bytes: %s\n", strerror(errno));
        return false;
    }
    for (size_t i = 0; i < TOKEN_BYTES; i++)
        snprintf(s->token + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

/* A socket on the loopback address. *port becomes the port that was chosen for 0. */
static int listen_on(unsigned *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)*port)};
    socklen_t size = sizeof at;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
        listen(fd, CONNECTIONS) == 0 &&
        getsockname(fd, (struct sockaddr *)&at, &size) == 0) {
        *port = ntohs(at.sin_port);
        return fd;
    }
    cli_note("tarn: cannot listen on 127.0.0.1, port %u: %s%s\n", *port, strerror(errno),
             *port ? "; choose another --port" : "");
    if (fd >= 0) close(fd);
    return -1;
}

/* The daemon closes the socket. */
static struct MHD_Daemon *start(server *s, int fd)
{
    struct MHD_Daemon *d = mhd.start_daemon(
        MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, on_request, s,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_THREAD_POOL_SIZE, (unsigned)THREADS,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)IDLE_SECONDS, MHD_OPTION_URI_LOG_CALLBACK, keep_uri, NULL,
        MHD_OPTION_NOTIFY_COMPLETED, drop_uri, NULL, MHD_OPTION_END);
    if (d) return d;
    cli_note("tarn: the server cannot be started: %s\n", strerror(errno));
    close(fd);
    return NULL;
}

/* The page is shown in no frame, except those of notebooks on this machine, if asked. */
static void set_names(server *s, unsigned port)
{
    snprintf(s->hosts[0], sizeof s->hosts[0], "127.0.0.1:%u", port);
    snprintf(s->hosts[1], sizeof s->hosts[1], "localhost:%u", port);
    snprintf(s->policy, sizeof s->policy,
             "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
             "media-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
             "frame-ancestors %s",
             s->b->frame ? s->b->frame : "'none'");
}

static void open_in_browser(const char *url)
{
    char program[] = "xdg-open", *argv[] = {program, (char *)(uintptr_t)url, NULL};
    posix_spawn_file_actions_t quiet;
    extern char **environ;
    pid_t pid;
    if (!getenv("DISPLAY") && !getenv("WAYLAND_DISPLAY")) return;
    posix_spawn_file_actions_init(&quiet);
    for (int fd = 0; fd <= 2; fd++)
        posix_spawn_file_actions_addopen(&quiet, fd, "/dev/null", O_RDWR, 0);
    (void)posix_spawnp(&pid, argv[0], &quiet, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&quiet);
}

/* Returns after Ctrl-C, SIGTERM or, if asked, the end of standard input. */
static void wait_for_end(const sigset_t *mask, bool until_eof)
{
    char ignored[256];
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    while (!cli_interrupted()) {
        int ready = ppoll(&input, until_eof ? 1 : 0, NULL, mask);
        if (ready < 0 && errno != EINTR) return;
        if (ready > 0 && read(STDIN_FILENO, ignored, sizeof ignored) <= 0) return;
    }
}

static void print_address(const server *s, const char *view, bool open_page)
{
    char url[BROWSE_MAX_URI + 128];
    snprintf(url, sizeof url, "http://%s/%s/%s%s", s->hosts[0], s->token,
             view[0] ? "#" : "", view);
    printf("%s\n", url);
    fflush(stdout);
    cli_note("tarn: press Ctrl-C to stop\n");
    if (open_page) open_in_browser(url);
}

int browse_serve(browser *b, const char *view, unsigned port, bool open_page,
                 bool until_eof)
{
    server s = {.b = b};
    sigset_t both, old;
    if (!load() || !make_token(&s)) return CLI_DATA;
    int fd = listen_on(&port);
    if (fd < 0) return CLI_DATA;
    set_names(&s, port);
    sigemptyset(&both);
    sigaddset(&both, SIGINT);
    sigaddset(&both, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &both, &old);
    struct MHD_Daemon *daemon = start(&s, fd);
    if (daemon) {
        print_address(&s, view, open_page);
        wait_for_end(&old, until_eof);
        mhd.stop_daemon(daemon);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return daemon ? CLI_OK : CLI_DATA;
}

#endif
