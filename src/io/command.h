/* A command with a pipe to it or from it. It runs in its own process group, so that
 * it can be ended with all processes it started. A started command is always waited for
 * or killed; no process or descriptor outlives the handle. */
#ifndef TARN_IO_COMMAND_H
#define TARN_IO_COMMAND_H

#include <sys/types.h>

#include <tarn/base.h>

typedef struct tarn__command {
    pid_t pid; /* 0: no longer running */
    int fd;    /* our end of the pipe; -1: closed */
} tarn__command;

/* Runs sh -c text. With reading, fd is its standard output and its standard input is
 * empty; otherwise fd is its standard input. */
TARN_CHECKED tarn_status tarn__command_start(tarn__command *c, const char *text,
                                             const char *shown, bool reading,
                                             tarn_error *err);

/* Runs a program without a shell, for reading. */
TARN_CHECKED tarn_status tarn__command_run(tarn__command *c, char *const *argv,
                                           const char *shown, tarn_error *err);

/* Closes our end and waits without a time limit; anything but exit status 0 is an
 * error. */
TARN_CHECKED tarn_status tarn__command_wait(tarn__command *c, const char *shown,
                                            tarn_error *err);

/* Ends the command and everything it started, with SIGTERM first and SIGKILL later.
 * close_first closes our end before that. A writer that gives up keeps it open, so that
 * the command does not take what was written for complete. */
void tarn__command_kill(tarn__command *c, bool close_first);

#endif
