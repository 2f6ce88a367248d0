/* Ranges of one object for bench/remote.py: the fetcher of src/io, compared with a plain
 * loop of libcurl-multi over the same ranges with as many connections as the fetcher
 * uses. Contestants take turns in one process, with connections that stay open.
 *
 *     remote_work URL SIZE RANGE COUNT random|order CONNECTIONS ROUNDS
 *
 * CONNECTIONS: of the plain loop; 0: the limit that the fetcher has found; 1: both
 * request one range at a time. Prints a line for each: name, ranges per second,
 * microseconds of CPU time per range (medians), transfers at once. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <curl/curl.h>
#include <tarn/tarn.h>

#include "clock.h"
#include "io/fetch.h"

enum { MOST_ROUNDS = 99, MOST_AT_ONCE = 256, WINDOW = 512 /* ranges of the fetcher */ };

static struct {
    const char *url;
    uint64_t size, range, *offsets;
    size_t count;
} job;

static void die(const char *what)
{
    fprintf(stderr, "remote_work: %s\n", what);
    exit(1);
}

static double cpu(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void *take_memory(size_t size)
{
    void *memory = malloc(size);
    if (!memory) die("out of memory");
    memset(memory, 1, size);
    return memory;
}

static void choose_offsets(bool random)
{
    uint64_t state = 7, places = job.size / job.range;
    job.offsets = take_memory(job.count * sizeof *job.offsets);
    for (size_t i = 0; i < job.count; i++) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
        job.offsets[i] = (random ? (state >> 33) : i) % places * job.range;
    }
}

/* --- The plain loop --------------------------------------------------------------- */

typedef struct slot {
    CURL *easy;
    char *data;
    size_t got;
} slot;

static slot slots[MOST_AT_ONCE];
static CURLM *multi;

static size_t take(char *data, size_t one, size_t len, void *context)
{
    slot *s = context;
    if (len > job.range - s->got) die("the plain loop got too much");
    memcpy(s->data + s->got, data, len);
    s->got += len * one;
    return len;
}

static void ask(slot *s, uint64_t offset)
{
    char range[64];
    snprintf(range, sizeof range, "%llu-%llu", (unsigned long long)offset,
             (unsigned long long)(offset + job.range - 1));
    s->got = 0;
    curl_easy_setopt(s->easy, CURLOPT_RANGE, range);
    curl_multi_add_handle(multi, s->easy);
}

static void make_slot(slot *s)
{
    const char *ca = getenv("CURL_CA_BUNDLE");
    s->easy = curl_easy_init();
    s->data = take_memory(job.range);
    curl_easy_setopt(s->easy, CURLOPT_URL, job.url);
    if (ca) curl_easy_setopt(s->easy, CURLOPT_CAINFO, ca);
    curl_easy_setopt(s->easy, CURLOPT_BUFFERSIZE, 64L << 10);
    curl_easy_setopt(s->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(s->easy, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(s->easy, CURLOPT_WRITEDATA, s);
    curl_easy_setopt(s->easy, CURLOPT_PRIVATE, s);
}

static void run_plain(unsigned at_once)
{
    size_t next = 0, done = 0;
    int running, left;
    CURLMsg *message;
    if (!multi) multi = curl_multi_init();
    for (unsigned i = 0; i < at_once && next < job.count; i++) {
        if (!slots[i].easy) make_slot(&slots[i]);
        ask(&slots[i], job.offsets[next++]);
    }
    while (done < job.count) {
        curl_multi_perform(multi, &running);
        while ((message = curl_multi_info_read(multi, &left))) {
            slot *s;
            if (message->data.result != CURLE_OK) die("the plain loop failed");
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&s);
            if (s->got != job.range) die("the plain loop got too little");
            curl_multi_remove_handle(multi, s->easy);
            if (next < job.count) ask(s, job.offsets[next++]);
            done++;
        }
        if (done < job.count) curl_multi_poll(multi, NULL, 0, 1000, NULL);
    }
}

/* --- The fetcher ------------------------------------------------------------------ */

static tarn__fetched *object;
static tarn__fetch fetches[WINDOW];
static size_t next_range, over_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_over = PTHREAD_COND_INITIALIZER;
static tarn_error err;

static void fail(void)
{
    char text[4096];
    die(tarn_error_text(&err, text, sizeof text));
}

/* Begins the next range in the memory of the one that is over. */
static void on_over(tarn__fetch *f)
{
    if (f->status != TARN_OK) {
        err = f->error;
        fail();
    }
    pthread_mutex_lock(&lock);
    bool more = next_range < job.count;
    if (more) f->rank = next_range++;
    if (++over_count == job.count) pthread_cond_signal(&all_over);
    pthread_mutex_unlock(&lock);
    f->offset = job.offsets[f->rank];
    if (more && tarn__fetch_begin(&f, 1, &err) != TARN_OK) fail();
}

static void open_object(void)
{
    tarn__object where;
    tarn__fetch_limits limits = {30, 60, 5, 0};
    if (tarn__object_init(&where, job.url, &err) != TARN_OK ||
        tarn__fetched_open(&where, NULL, &limits, &object, &err) != TARN_OK)
        fail();
    size_t window = WINDOW;
    if (window * job.range > UINT64_C(512) << 20) window = (512u << 20) / job.range;
    if (window > job.count) window = job.count;
    for (size_t i = 0; i < window; i++) {
        fetches[i] = (tarn__fetch){.object = object, .size = job.range, .over = on_over};
        fetches[i].to = take_memory(job.range);
    }
}

static unsigned run_fetcher(void)
{
    tarn__fetch *list[WINDOW];
    tarn__fetch_stats stats;
    size_t n = 0;
    if (!object) open_object();
    over_count = 0;
    for (; n < WINDOW && fetches[n].to; n++) {
        fetches[n].rank = n;
        fetches[n].offset = job.offsets[n];
        list[n] = &fetches[n];
    }
    next_range = n;
    if (tarn__fetch_begin(list, n, &err) != TARN_OK) fail();
    pthread_mutex_lock(&lock);
    while (over_count < job.count)
        pthread_cond_wait(&all_over, &lock);
    pthread_mutex_unlock(&lock);
    tarn__fetch_stats_get(&stats);
    return stats.limit;
}

static unsigned run_one_by_one(void)
{
    if (!object) open_object();
    tarn__fetch f = {.object = object, .size = job.range, .to = fetches[0].to}, *one = &f;
    for (size_t i = 0; i < job.count; i++) {
        f.offset = job.offsets[i];
        if (tarn__fetch_begin(&one, 1, &err) != TARN_OK ||
            tarn__fetch_wait(&one, 1, &err) != TARN_OK)
            fail();
    }
    return 1;
}

/* --- Turns ------------------------------------------------------------------------ */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, unsigned count)
{
    qsort(values, count, sizeof *values, by_value);
    return count % 2 ? values[count / 2]
                     : (values[count / 2 - 1] + values[count / 2]) / 2;
}

int main(int argc, char **argv)
{
    double times[2][MOST_ROUNDS], work[2][MOST_ROUNDS];
    if (argc != 8) die("wrong arguments");
    job.url = argv[1];
    job.size = strtoull(argv[2], NULL, 10);
    job.range = strtoull(argv[3], NULL, 10);
    job.count = strtoull(argv[4], NULL, 10);
    unsigned asked = (unsigned)atoi(argv[6]), rounds = (unsigned)atoi(argv[7]), limit = 0;
    if (rounds < 1 || rounds > MOST_ROUNDS || asked > MOST_AT_ONCE) die("too many");
    choose_offsets(strcmp(argv[5], "random") == 0);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    for (unsigned i = 0; i <= rounds; i++)
        for (unsigned way = 0; way < 2; way++) {
            double began = now(), used = cpu();
            if (way == 0)
                limit = asked == 1 ? run_one_by_one() : run_fetcher();
            else
                run_plain(asked ? asked : limit);
            if (i == 0) continue; /* opens connections */
            times[way][i - 1] = now() - began;
            work[way][i - 1] = cpu() - used;
        }
    for (unsigned way = 0; way < 2; way++)
        printf("%s %.1f %.2f %u\n", way ? "plain" : "fetcher",
               (double)job.count / median(times[way], rounds),
               median(work[way], rounds) / (double)job.count * 1e6,
               way && asked ? asked : limit);
    return 0;
}
