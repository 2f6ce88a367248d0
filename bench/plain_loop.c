/* The plain loop of libcurl-multi that bench/cloud.py compares with: downloads ranges, a
 * number of them at once, into memory, or into files.
 *
 *     plain_loop CONNECTIONS UNTIMED [FOLDER] < RANGES
 *
 * Each line of RANGES is a URL, the first and the last byte. The files in FOLDER have the
 * last parts of the URLs as names. The first UNTIMED ranges open the connections and fill
 * the caches; of the others it prints seconds, seconds of CPU time, and the median of the
 * seconds of a range. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <curl/curl.h>

#include "clock.h"

enum { MOST = 256, TEXT = 1000 };

typedef struct range {
    char *url;
    unsigned long long first, last;
} range;

static range *ranges;
static size_t count, next_range;
static double *times;

typedef struct slot {
    CURL *easy;
    const range *range;
    char *data;
    size_t room, got;
} slot;

static const char *folder; /* or NULL */

static void die(const char *what)
{
    fprintf(stderr, "plain_loop: %s\n", what);
    exit(1);
}

static void read_ranges(void)
{
    char url[TEXT];
    unsigned long long first, last;
    while (scanf("%999s %llu %llu", url, &first, &last) == 3) {
        if ((count & (count - 1)) == 0)
            ranges = realloc(ranges, (count ? 2 * count : 1) * sizeof *ranges);
        if (!ranges) die("out of memory");
        ranges[count++] = (range){strdup(url), first, last};
    }
}

static size_t take(char *data, size_t one, size_t len, void *context)
{
    slot *s = context;
    if (one * len > s->room - s->got) die("too many bytes");
    memcpy(s->data + s->got, data, one * len);
    s->got += one * len;
    return one * len;
}

static void store(const slot *s)
{
    char path[2 * TEXT];
    snprintf(path, sizeof path, "%s%s", folder, strrchr(s->range->url, '/'));
    int fd = open(path, O_WRONLY | O_CREAT, 0666);
    if (fd < 0 || pwrite(fd, s->data, s->got, (off_t)s->range->first) != (ssize_t)s->got)
        die("cannot write");
    close(fd);
}

static void ask(CURLM *multi, slot *s)
{
    char text[64];
    const range *r = s->range = &ranges[next_range++];
    size_t size = r->last - r->first + 1;
    if (size > s->room && !(s->data = realloc(s->data, size))) die("out of memory");
    s->room = size;
    s->got = 0;
    snprintf(text, sizeof text, "%llu-%llu", r->first, r->last);
    curl_easy_setopt(s->easy, CURLOPT_URL, r->url);
    curl_easy_setopt(s->easy, CURLOPT_RANGE, text);
    curl_multi_add_handle(multi, s->easy);
}

static void make_slot(slot *s)
{
    const char *ca = getenv("CURL_CA_BUNDLE");
    s->easy = curl_easy_init();
    if (ca) curl_easy_setopt(s->easy, CURLOPT_CAINFO, ca);
    curl_easy_setopt(s->easy, CURLOPT_BUFFERSIZE, 64L << 10);
    curl_easy_setopt(s->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(s->easy, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(s->easy, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(s->easy, CURLOPT_WRITEDATA, s);
    curl_easy_setopt(s->easy, CURLOPT_PRIVATE, s);
}

/* The next ranges, up to number end. */
static void download(CURLM *multi, slot *slots, size_t at_once, size_t end)
{
    size_t done = next_range;
    int running, left;
    CURLMsg *message;
    for (size_t i = 0; i < at_once && next_range < end; i++)
        ask(multi, &slots[i]);
    while (done < end) {
        curl_multi_perform(multi, &running);
        while ((message = curl_multi_info_read(multi, &left))) {
            slot *s;
            if (message->data.result != CURLE_OK)
                die(curl_easy_strerror(message->data.result));
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&s);
            if (s->got != s->range->last - s->range->first + 1) die("too few bytes");
            if (folder) store(s);
            curl_easy_getinfo(s->easy, CURLINFO_TOTAL_TIME, &times[done]);
            curl_multi_remove_handle(multi, s->easy);
            if (next_range < end) ask(multi, s);
            done++;
        }
        if (done < end) curl_multi_poll(multi, NULL, 0, 1000, NULL);
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double cpu(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

int main(int argc, char **argv)
{
    static slot slots[MOST];
    size_t at_once = argc == 3 || argc == 4 ? (size_t)atoi(argv[1]) : 0;
    if (at_once < 1 || at_once > MOST)
        die("plain_loop CONNECTIONS UNTIMED [FOLDER] < RANGES");
    size_t untimed = (size_t)atoi(argv[2]);
    if (argc == 4) folder = argv[3];
    read_ranges();
    if (untimed >= count) die("no ranges");
    if (!(times = calloc(count, sizeof *times))) die("out of memory");
    curl_global_init(CURL_GLOBAL_DEFAULT);
    CURLM *multi = curl_multi_init();
    for (size_t i = 0; i < at_once; i++)
        make_slot(&slots[i]);
    download(multi, slots, at_once, untimed);
    double began = now(), used = cpu();
    download(multi, slots, at_once, count);
    double seconds = now() - began;
    used = cpu() - used;
    qsort(times + untimed, count - untimed, sizeof *times, by_value);
    printf("%.6f %.6f %.7f\n", seconds, used, times[untimed + (count - untimed) / 2]);
    return 0;
}
