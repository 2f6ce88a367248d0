/* Gives the interop tests access to the fetcher:
 *   fetch_tool [OPTION=VALUE...] URL [OFFSET+SIZE...]
 * writes the ranges, in order, to standard output; without ranges, the size, the ETag and
 * the date of the object as one line. All ranges are requested at once.
 *   size=N etag=TEXT modified=TEXT    what is known of the object
 *   connect_seconds= stall_seconds= retries= min_speed=
 *   calls=1      with functions that are called when ranges are over
 *   fork=1       a child of fork fetches, after the parent has begun; fork=2: and waits
 * for what the parent has begun cancel=N     cancels all when N are over (with calls=1)
 *   again=1      everything twice, in the same process
 *   pause=1      waits for a line on standard input before the ranges
 *   threads=N    that many threads ask for the identity
 *   idle=1       the thread ends between the passes of again=1
 *   reverse=1    the last range has the first rank
 *   most=N       at most N transfers at once
 *   stress=N     N threads fetch random ranges, and wait for them or cancel them;
 * file=PATH has the right bytes first=URL    identifies another object before everything
 * else token=1      signs requests with a token; an expired one is followed by the next
 *   leave=1      ends the process without waiting
 *   stats=1      the statistics on standard error, at the end
 * Exits 1 with "status: text" on standard error, for each range that failed. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "io/fetch_inside.h"

enum { MOST = 100000 };

static struct {
    unsigned long long size, calls, fork, cancel, again, pause, threads, leave, stats;
    unsigned long long connect_seconds, stall_seconds, retries, min_speed;
    unsigned long long token, idle, reverse, stress, most;
    const char *etag, *modified, *first, *file;
} o = {.size = UINT64_MAX, .connect_seconds = 30, .stall_seconds = 60, .retries = 5};

static tarn__fetch fetches[MOST], *list[MOST];
static size_t count;
static tarn__fetched *object;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static size_t over_count;

static int fail(const tarn_error *err)
{
    char text[4096];
    fprintf(stderr, "%s: %s\n", tarn_status_name(err->code),
            tarn_error_text(err, text, sizeof text));
    return 1;
}

static void on_over(tarn__fetch *fetch)
{
    (void)fetch;
    pthread_mutex_lock(&lock);
    over_count++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void await_calls(size_t n)
{
    pthread_mutex_lock(&lock);
    while (over_count < n)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static bool number(const char *arg, const char *name, unsigned long long *out)
{
    size_t n = strlen(name);
    if (strncmp(arg, name, n) != 0 || arg[n] != '=') return false;
    *out = strtoull(arg + n + 1, NULL, 10);
    return true;
}

static bool text(const char *arg, const char *name, const char **out)
{
    size_t n = strlen(name);
    if (strncmp(arg, name, n) != 0 || arg[n] != '=') return false;
    *out = arg + n + 1;
    return true;
}

static bool option(const char *arg)
{
#define NUMBER(name)                                                                     \
    if (number(arg, #name, &o.name)) return true
    NUMBER(size);
    NUMBER(calls);
    NUMBER(fork);
    NUMBER(cancel);
    NUMBER(again);
    NUMBER(pause);
    NUMBER(threads);
    NUMBER(token);
    NUMBER(idle);
    NUMBER(reverse);
    NUMBER(stress);
    NUMBER(most);
    NUMBER(leave);
    NUMBER(stats);
    NUMBER(connect_seconds);
    NUMBER(stall_seconds);
    NUMBER(retries);
    NUMBER(min_speed);
    return text(arg, "etag", &o.etag) || text(arg, "modified", &o.modified) ||
           text(arg, "first", &o.first) || text(arg, "file", &o.file);
}

static tarn_status sign(void *signer, const tarn__http_request *request, tarn__http *http,
                        tarn_error *err)
{
    char line[64];
    (void)request;
    snprintf(line, sizeof line, "Authorization: token %d", *(int *)signer);
    return tarn__http_add_header(http, line, err);
}

static bool renew(void *signer, long status, const char *body, size_t len)
{
    bool expired = status == 400 && memmem(body, len, "ExpiredToken", 12);
    if (expired) ++*(int *)signer;
    return expired;
}

static int open_object(const char *url)
{
    tarn__object where;
    tarn_error err;
    tarn__object_id known = {.size = o.size};
    tarn__fetch_limits limits = {(unsigned)o.connect_seconds, (unsigned)o.stall_seconds,
                                 (unsigned)o.retries, (unsigned)o.min_speed};
    if (o.etag) snprintf(known.etag, sizeof known.etag, "%s", o.etag);
    if (o.modified) snprintf(known.modified, sizeof known.modified, "%s", o.modified);
    if (tarn__object_init(&where, url, &err) != TARN_OK) return fail(&err);
    if (o.token) {
        where.sign = sign;
        where.renew = renew;
        where.signer = calloc(1, sizeof(int));
    }
    if (tarn__fetched_open(&where, &known, &limits, &object, &err) != TARN_OK)
        return fail(&err);
    if (o.most) tarn__pace_init(&object->host->pace, (unsigned)o.most);
    return 0;
}

static void *identify(void *context)
{
    tarn__object_id id;
    tarn_error err;
    if (tarn__fetched_identify(object, &id, &err) != TARN_OK) fail(&err);
    return context;
}

static int show_identity(void)
{
    tarn__object_id id;
    tarn_error err;
    pthread_t threads[64];
    if (o.threads > 64) return 2;
    for (size_t i = 0; i < o.threads; i++)
        if (pthread_create(&threads[i], NULL, identify, NULL) != 0) return 3;
    for (size_t i = 0; i < o.threads; i++)
        pthread_join(threads[i], NULL);
    if (tarn__fetched_identify(object, &id, &err) != TARN_OK) return fail(&err);
    printf("%llu %s %s\n", (unsigned long long)id.size, id.etag, id.modified);
    return 0;
}

static int parse_ranges(char **args)
{
    for (; *args; args++) {
        char *plus;
        if (count == MOST) return 2;
        tarn__fetch *f = &fetches[count];
        f->object = object;
        f->offset = strtoull(*args, &plus, 10);
        if (*plus != '+') return 2;
        f->size = strtoull(plus + 1, NULL, 10);
        f->to = malloc(f->size);
        f->rank = o.reverse ? MOST - count : count;
        if (o.calls) f->over = on_over;
        list[count++] = f;
    }
    return 0;
}

static int begin(void)
{
    tarn_error err;
    for (size_t i = 0; i < count; i++) {
        memset(fetches[i].to, 0xee, fetches[i].size);
        fetches[i].status = TARN_OK;
    }
    over_count = 0;
    return tarn__fetch_begin(list, count, &err) == TARN_OK ? 0 : fail(&err);
}

static int finish(void)
{
    int code = 0;
    tarn_error err;
    if (o.calls) {
        await_calls(o.cancel ? o.cancel : count);
        if (o.cancel) tarn__fetch_cancel(list, count);
    } else {
        tarn_status status = tarn__fetch_wait(list, count, &err);
        (void)status; /* each has its own */
    }
    for (size_t i = 0; i < count; i++) {
        if (fetches[i].status != TARN_OK)
            code = fail(&fetches[i].error);
        else if (fwrite(fetches[i].to, 1, fetches[i].size, stdout) != fetches[i].size)
            code = 3;
    }
    return fflush(stdout) == 0 ? code : 3;
}

static int fetch_all(void)
{
    int code = begin();
    return code ? code : finish();
}

/* The parent waits for its own ranges, and writes nothing. */
static int fetch_in_child(void)
{
    int code = begin(), status;
    if (code) return code;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) _exit(o.fork == 2 ? finish() : fetch_all());
    tarn_error err;
    code = tarn__fetch_wait(list, count, &err) == TARN_OK ? 0 : fail(&err);
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 3;
    return code ? code : WEXITSTATUS(status);
}

/* --- Stress --- */

enum { ROUNDS = 40, AT_ONCE = 12, LONGEST = 50000 };

static unsigned char *right;
static size_t right_size;
static atomic_int wrong;

static unsigned draw(unsigned *state, unsigned below)
{
    *state = *state * 1103515245 + 12345;
    return (*state >> 8) % below;
}

static void check_range(const tarn__fetch *f)
{
    bool over = f->status == TARN_OK || f->status == TARN_ERR_CANCELLED;
    if (!over) fail(&f->error);
    if (!over || (f->status == TARN_OK && memcmp(f->to, right + f->offset, f->size) != 0))
        wrong = 1;
}

static void *fetch_at_random(void *seed)
{
    unsigned state = (unsigned)(size_t)seed;
    tarn__fetch own[AT_ONCE], *all[AT_ONCE];
    unsigned char *memory = malloc((size_t)AT_ONCE * LONGEST);
    tarn_error err;
    for (int round = 0; memory && round < ROUNDS; round++) {
        size_t n = 1 + draw(&state, AT_ONCE);
        for (size_t i = 0; i < n; i++) {
            size_t size = 1 + draw(&state, LONGEST);
            own[i] =
                (tarn__fetch){.object = object, .size = size, .rank = draw(&state, 9)};
            own[i].offset = draw(&state, (unsigned)(right_size - size));
            own[i].to = memory + i * LONGEST;
            all[i] = &own[i];
        }
        if (tarn__fetch_begin(all, n, &err) != TARN_OK) wrong = 1;
        bool cancel = draw(&state, 3) == 0;
        if (cancel) tarn__fetch_cancel(all, n / 2);
        size_t from = cancel ? n / 2 : 0;
        tarn_status status = tarn__fetch_wait(all + from, n - from, &err);
        (void)status; /* each has its own */
        for (size_t i = 0; i < n; i++)
            check_range(&own[i]);
    }
    free(memory);
    return NULL;
}

static int stress(void)
{
    pthread_t threads[64];
    FILE *f = fopen(o.file, "rb");
    if (!f || o.stress > 64) return 2;
    right = malloc(64 << 20);
    right_size = fread(right, 1, 64 << 20, f);
    fclose(f);
    for (size_t i = 0; i < o.stress; i++)
        if (pthread_create(&threads[i], NULL, fetch_at_random, (void *)(i + 1)) != 0)
            return 3;
    for (size_t i = 0; i < o.stress; i++)
        pthread_join(threads[i], NULL);
    free(right);
    return wrong ? 1 : 0;
}

static void await_idle(void)
{
    tarn__fetcher *f = &tarn__fetcher_state;
    for (bool running = true; running;) {
        usleep(1000);
        pthread_mutex_lock(&f->lock.mutex);
        running = f->running;
        pthread_mutex_unlock(&f->lock.mutex);
    }
}

static int run(char **args)
{
    int code = parse_ranges(args);
    if (code) return code;
    if (o.stress) return stress();
    if (count == 0) return show_identity();
    if (o.pause) getchar();
    if (o.leave) {
        code = begin();
        if (code) return code;
        exit(0);
    }
    code = o.fork ? fetch_in_child() : fetch_all();
    if (o.again && !code) {
        if (o.idle) await_idle();
        if (o.pause) getchar();
        code = fetch_all();
    }
    return code;
}

static void show_stats(void)
{
    tarn__fetch_stats s;
    tarn__fetch_stats_get(&s);
    fprintf(stderr,
            "requests=%llu bytes=%llu retries=%llu slowdowns=%llu connections=%llu "
            "limit=%u\n",
            (unsigned long long)s.requests, (unsigned long long)s.bytes,
            (unsigned long long)s.retries, (unsigned long long)s.slowdowns,
            (unsigned long long)s.connections, s.limit);
}

int main(int argc, char **argv)
{
    char **arg = argv + 1;
    while (*arg && option(*arg))
        arg++;
    if (!*arg) return 2;
    int code = 0;
    if (o.first) {
        code = open_object(o.first);
        identify(NULL);
        tarn__fetched_close(object);
    }
    if (!code) code = open_object(*arg);
    if (o.idle) tarn__fetcher_state.idle_ms = 1;
    if (!code) code = run(arg + 1);
    if (o.stats) show_stats();
    for (size_t i = 0; i < count; i++)
        free(fetches[i].to);
    tarn__fetched_close(object);
    return code;
}
