/* Gives the interop tests access to sources, sinks and lists:
 *   urlcat read [OPTION=VALUE...] URL      to standard output
 *   urlcat write [OPTION=VALUE...] URL     from standard input
 *   urlcat abandon [OPTION=VALUE...] URL   the same, abandoned at the end
 *   urlcat expand LIST...                  one URL per line, a NUL after each list, or
 *                                          a 1, the status and a NUL
 *   urlcat list [deep=1] PREFIX            size, ETag and URL of each object, with tabs
 * Exits 1 with "status: text" on standard error; with peak=1 its peak memory comes last.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "io/listing.h"

static char buffer[256 << 10];

static int fail(const tarn_error *err)
{
    char text[4096];
    fprintf(stderr, "%s: %s\n", tarn_status_name(err->code),
            tarn_error_text(err, text, sizeof text));
    return 1;
}

/* OPTION=VALUE, if the argument has that form. */
static int option(const char *arg, const char *name, unsigned long long *out)
{
    size_t n = strlen(name);
    if (strncmp(arg, name, n) != 0 || arg[n] != '=') return 0;
    *out = strtoull(arg + n + 1, NULL, 10);
    return 1;
}

#define OPTION(name)                                                                     \
    if (option(*arg, #name, &value)) o.name = value

static int run_read(char **arg)
{
    tarn_source_options o = TARN_SOURCE_OPTIONS_INIT;
    unsigned long long value, piece = sizeof buffer, filter;
    tarn_source *source;
    tarn_error err;
    size_t got;
    for (; arg[1]; arg++) {
        OPTION(allow_pipe);
        OPTION(max_expansion);
        OPTION(max_size);
        OPTION(max_memory);
#define UNSIGNED(name)                                                                   \
    if (option(*arg, #name, &value)) o.name = (unsigned)value
        UNSIGNED(connect_seconds);
        UNSIGNED(stall_seconds);
        UNSIGNED(retries);
        UNSIGNED(min_speed);
        option(*arg, "piece", &piece);
        if (option(*arg, "filter", &filter)) o.filter = (tarn_filter)filter;
    }
    if (piece > sizeof buffer) piece = sizeof buffer;
    if (tarn_source_open(*arg, &o, &source, &err) != TARN_OK) return fail(&err);
    do {
        tarn_status status = tarn_source_read(source, buffer, (size_t)piece, &got, &err);
        if (got && fwrite(buffer, 1, got, stdout) != got) return 3;
        if (status != TARN_OK) {
            fflush(stdout);
            tarn_source_close(source);
            return fail(&err);
        }
    } while (got == piece);
    tarn_source_close(source);
    return 0;
}

static int run_write(char **arg, int finish)
{
    tarn_sink_options o = TARN_SINK_OPTIONS_INIT;
    unsigned long long value, level, filter;
    tarn_sink *sink;
    tarn_error err;
    ssize_t got;
    for (; arg[1]; arg++) {
        OPTION(allow_pipe);
        OPTION(overwrite);
        OPTION(no_sync);
        UNSIGNED(connect_seconds);
        UNSIGNED(stall_seconds);
        UNSIGNED(retries);
        if (option(*arg, "level", &level)) o.level = (int)level;
        if (option(*arg, "filter", &filter)) o.filter = (tarn_filter)filter;
    }
    if (tarn_sink_open(*arg, &o, &sink, &err) != TARN_OK) return fail(&err);
    while ((got = read(0, buffer, sizeof buffer)) > 0)
        if (tarn_sink_write(sink, buffer, (size_t)got, &err) != TARN_OK) {
            tarn_sink_abandon(sink);
            return fail(&err);
        }
    if (!finish)
        tarn_sink_abandon(sink);
    else if (tarn_sink_finish(sink, &err) != TARN_OK)
        return fail(&err);
    return 0;
}

static int run_expand(char **lists)
{
    for (; *lists; lists++) {
        tarn_urls *urls;
        tarn_error err;
        if (tarn_urls_expand(*lists, &urls, &err) != TARN_OK) {
            printf("\1%s: %s", tarn_status_name(err.code), err.message);
        } else {
            for (size_t i = 0; i < urls->count; i++)
                puts(urls->urls[i]);
            tarn_urls_free(urls);
        }
        putchar('\0');
    }
    return 0;
}

static int run_list(char **arg)
{
    tarn__listing found;
    tarn_error err;
    unsigned long long deep = 0;
    for (; arg[1]; arg++)
        option(*arg, "deep", &deep);
    if (tarn__listing_read(&found, *arg, deep != 0, &err) != TARN_OK) return fail(&err);
    for (size_t i = 0; i < found.count; i++)
        printf("%llu\t%s\t%s\n", (unsigned long long)found.objects[i].size,
               found.objects[i].etag, found.objects[i].url);
    tarn__listing_reset(&found);
    return 0;
}

static void tell_peak(void)
{
    char line[256];
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "VmHWM:", 6) == 0) fputs(line, stderr);
    if (f) fclose(f);
}

int main(int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "peak=1") == 0) atexit(tell_peak);
    if (argc >= 3 && strcmp(argv[1], "expand") == 0) return run_expand(argv + 2);
    if (argc >= 3 && strcmp(argv[1], "list") == 0) return run_list(argv + 2);
    if (argc >= 3 && strcmp(argv[1], "read") == 0) return run_read(argv + 2);
    if (argc >= 3 && strcmp(argv[1], "write") == 0) return run_write(argv + 2, 1);
    if (argc >= 3 && strcmp(argv[1], "abandon") == 0) return run_write(argv + 2, 0);
    return 2;
}
