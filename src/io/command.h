/* A shell command with a pipe to it or from it. It runs in a process group of its own, so
 * that all of it can be ended; a handle that was started is always waited for or killed,
 * and no process or descriptor outlives it. */
#ifndef TARN_IO_COMMAND_H
#define TARN_IO_COMMAND_H

#include <sys/types.h>

#include <tarn/base.h>

typedef struct tarn__command {
    pid_t pid; /* 0: not running any more */
    int fd;    /* our end; -1 when closed */
} tarn__command;

/* Runs sh -c text. With reading, fd is its standard output and its standard input is
 * empty; otherwise fd is its standard input. */
TARN_CHECKED tarn_status tarn__command_start(tarn__command *c, const char *text,
                                             const char *shown, bool reading,
                                             tarn_error *err);

/* Closes our end and waits, however long; anything but exit status 0 is an error. */
TARN_CHECKED tarn_status tarn__command_wait(tarn__command *c, const char *shown,
                                            tarn_error *err);

/* Ends the command and all it started: asked first, then not asked. Before that our end
 * is closed if so told; a writer that gives up keeps it open, so that what it wrote does
 * not look complete. */
void tarn__command_kill(tarn__command *c, bool close_first);

#endif
