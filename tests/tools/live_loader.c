/* A process with a live loader, for tests/faults/test_processes.py.
 *
 *   live_loader make FOLDER         the data
 *   live_loader fork FOLDER COUNT   forks at any moment; parent and child continue
 * loading live_loader exit FOLDER SEED    exits while the loader's threads are working
 *   live_loader wait FOLDER         prints a line and loads until SIGINT, then exits 130
 *
 * Every sample is checked. A process that hangs is ended by an alarm (SIGALRM). */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../unit/mixed.h"

enum { WATCHDOG = 300, INTERRUPTED = 130 };

static tarn_error err;
static mixed data;
static volatile sig_atomic_t stop;

static int fail(const char *what)
{
    char text[4096];
    fprintf(stderr, "live_loader: %s: %s\n", what,
            tarn_error_text(&err, text, sizeof text));
    return 1;
}

static void on_signal(int number)
{
    (void)number;
    stop = 1;
}

static tarn_loader *start(const char *folder, unsigned threads)
{
    tarn_loader_options o = mixed_loader(threads, 8);
    tarn_loader *loader;
    if (mixed_open(&data, folder, TARN_IO_AUTO, &err) != TARN_OK ||
        tarn_loader_open(data.shuffled, &o, &loader, &err) != TARN_OK)
        exit(fail("open"));
    return loader;
}

static int take(tarn_loader *loader, unsigned batches)
{
    tarn_batch *batch;
    while (batches) {
        tarn_status status = tarn_loader_next(loader, TARN_NO_TIMEOUT, &batch, &err);
        if (status == TARN_END) continue;
        if (status != TARN_OK) return fail("next");
        if (mixed_wrong(&data, batch) != TARN_NO_SAMPLE) return fail("wrong sample");
        tarn_batch_release(batch);
        batches--;
    }
    return 0;
}

/* A child either closes everything or just exits; both must work. */
static int in_child(tarn_loader *loader, unsigned turn)
{
    alarm(WATCHDOG);
    int status = take(loader, 1 + turn % 5);
    if (status == 0 && turn % 2) {
        tarn_loader_close(loader);
        mixed_close(&data);
    }
    return status;
}

static int fork_often(const char *folder, unsigned count)
{
    tarn_loader *loader = start(folder, 4);
    for (unsigned turn = 0; turn < count; turn++) {
        alarm(WATCHDOG);
        if (take(loader, turn % 4)) return 1;
        if (turn % 3 == 0) usleep(turn * 37 % 2000);
        pid_t child = fork();
        if (child < 0) return fail("fork");
        if (child == 0) _exit(in_child(loader, turn));
        int status;
        if (take(loader, turn % 2)) return 1;
        if (waitpid(child, &status, 0) != child || status != 0) {
            fprintf(stderr, "live_loader: child %u ended with %d\n", turn, status);
            return 1;
        }
    }
    tarn_loader_close(loader);
    mixed_close(&data);
    return 0;
}

static int exit_alive(const char *folder, unsigned seed)
{
    static tarn_loader *loader; /* not leaked, only not closed */
    loader = start(folder, 1 + seed % 8);
    alarm(WATCHDOG);
    if (take(loader, seed % 7)) return 1;
    usleep(seed * 131 % 3000);
    return 0;
}

static int wait_for_signal(const char *folder)
{
    struct sigaction action = {.sa_handler = on_signal};
    tarn_loader *loader = start(folder, 4);
    tarn_batch *batch;
    sigaction(SIGINT, &action, NULL);
    alarm(WATCHDOG);
    printf("ready\n");
    fflush(stdout);
    while (!stop) {
        tarn_status status = tarn_loader_next(loader, 20, &batch, &err);
        if (status == TARN_OK)
            tarn_batch_release(batch);
        else if (status != TARN_END)
            return fail("next");
    }
    tarn_loader_close(loader);
    mixed_close(&data);
    return INTERRUPTED;
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    unsigned number = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 0;
    if (!strcmp(what, "make")) return mixed_make(argv[2]), 0;
    if (!strcmp(what, "fork")) return fork_often(argv[2], number);
    if (!strcmp(what, "exit")) return exit_alive(argv[2], number);
    if (!strcmp(what, "wait")) return wait_for_signal(argv[2]);
    fprintf(stderr, "usage: live_loader make|fork|exit|wait FOLDER [NUMBER]\n");
    return 2;
}
