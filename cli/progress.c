/* The progress bar and Ctrl-C. The signal handler sets a flag; the running work checks it
 * at its next step and stops cleanly. */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

void cli_catch_interrupt(void)
{
    struct sigaction act = {.sa_handler = on_interrupt, .sa_flags = SA_RESETHAND};
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    signal(SIGXFSZ, SIG_IGN); /* writing past the file size limit then fails with EFBIG */
}

bool cli_interrupted(void)
{
    return interrupted;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void cli_progress_begin(cli_progress *p, const char *what, bool wanted)
{
    *p = (cli_progress){.what = what, .began = now()};
    p->active = wanted && isatty(STDERR_FILENO);
    p->shown = p->began;
}

static void draw_bar(const cli_progress *p, uint64_t done, uint64_t total, double seconds)
{
    enum { WIDTH = 24 };
    char bar[WIDTH + 1];
    if (!total) {
        fprintf(stderr, "\r%s  %.1f MB  %.1f MB/s \033[K", p->what, (double)done / 1e6,
                (double)done / seconds / 1e6);
        return;
    }
    double part = (double)done / (double)total;
    if (part > 1) part = 1;
    int filled = (int)(part * WIDTH);
    for (int i = 0; i < WIDTH; i++)
        bar[i] = i < filled ? '#' : '.';
    bar[WIDTH] = '\0';
    double rate = (double)done / seconds;
    double left = rate > 0 ? ((double)total - (double)done) / rate : 0;
    fprintf(stderr, "\r%s [%s] %3d%%  %.1f %s  %.0f s left \033[K", p->what, bar,
            (int)(part * 100), p->samples ? rate / 1e3 : rate / 1e6,
            p->samples ? "k samples/s" : "MB/s", left > 0 ? left : 0);
}

int cli_progress_step(void *progress, uint64_t done, uint64_t total)
{
    cli_progress *p = progress;
    if (!p->active) return interrupted;
    double t = now();
    if (t - p->shown >= 0.1) {
        draw_bar(p, done, total, t - p->began);
        p->shown = t;
    }
    return interrupted;
}

void cli_progress_end(cli_progress *p)
{
    if (p->active && p->shown != p->began) fputs("\r\033[K", stderr);
}
