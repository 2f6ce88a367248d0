/* Starts, waits for and ends commands. */
#include "io/command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"

enum { GRACE_MS = 2000 }; /* between SIGTERM and SIGKILL */

extern char **environ;

/* Resets the signals to those of a new process: Python ignores SIGPIPE, and its child
 * processes would inherit that. */
static int set_attributes(posix_spawnattr_t *attributes)
{
    sigset_t none, usual;
    sigemptyset(&none);
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    sigaddset(&usual, SIGINT);
    sigaddset(&usual, SIGTERM);
    int e = posix_spawnattr_setsigmask(attributes, &none);
    if (!e) e = posix_spawnattr_setsigdefault(attributes, &usual);
    if (!e) e = posix_spawnattr_setpgroup(attributes, 0);
    if (!e)
        e = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK |
                                                     POSIX_SPAWN_SETSIGDEF |
                                                     POSIX_SPAWN_SETPGROUP);
    return e;
}

static int spawn(pid_t *pid, const char *program, char *const *argv, int theirs,
                 bool reading)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int e = posix_spawn_file_actions_init(&actions);
    if (e) return e;
    e = posix_spawnattr_init(&attributes);
    if (e) {
        posix_spawn_file_actions_destroy(&actions);
        return e;
    }
    e = posix_spawn_file_actions_adddup2(&actions, theirs, reading ? 1 : 0);
    if (!e && reading)
        e = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (!e) e = set_attributes(&attributes);
    if (!e) e = posix_spawnp(pid, program, &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return e;
}

static tarn_status start(tarn__command *c, const char *program, char *const *argv,
                         const char *shown, bool reading, tarn_error *err)
{
    int ends[2];
    *c = (tarn__command){.fd = -1};
    if (pipe2(ends, O_CLOEXEC) != 0)
        return tarn__fail_errno(err, shown, errno, "cannot create a pipe");
    int ours = ends[reading ? 0 : 1], theirs = ends[reading ? 1 : 0];
    int e = spawn(&c->pid, program, argv, theirs, reading);
    close(theirs);
    if (e) {
        close(ours);
        c->pid = 0;
        return tarn__fail_errno(err, shown, e, "cannot start %s", program);
    }
    c->fd = ours;
    return TARN_OK;
}

tarn_status tarn__command_start(tarn__command *c, const char *text, const char *shown,
                                bool reading, tarn_error *err)
{
    char *argv[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c",
                    (char *)(uintptr_t)text, NULL};
    return start(c, "/bin/sh", argv, shown, reading, err);
}

tarn_status tarn__command_run(tarn__command *c, char *const *argv, const char *shown,
                              tarn_error *err)
{
    return start(c, argv[0], argv, shown, true, err);
}

static void close_end(tarn__command *c)
{
    if (c->fd >= 0) close(c->fd);
    c->fd = -1;
}

tarn_status tarn__command_wait(tarn__command *c, const char *shown, tarn_error *err)
{
    int status;
    pid_t got;
    close_end(c);
    if (c->pid == 0) return TARN_OK;
    do
        got = waitpid(c->pid, &status, 0);
    while (got < 0 && errno == EINTR);
    c->pid = 0;
    if (got < 0)
        return tarn__fail_errno(err, shown, errno,
                                "cannot get the exit status of the command");
    if (WIFSIGNALED(status))
        return tarn__fail_at(err, TARN_ERR_IO, shown, TARN_NO_OFFSET,
                             "the command was killed by signal %d (%s)", WTERMSIG(status),
                             sigdescr_np(WTERMSIG(status)) ? sigdescr_np(WTERMSIG(status))
                                                           : "unknown");
    if (WEXITSTATUS(status))
        return tarn__fail_at(err, TARN_ERR_IO, shown, TARN_NO_OFFSET,
                             "the command failed with exit status %d",
                             WEXITSTATUS(status));
    return TARN_OK;
}

/* Waits until the command has ended, with a time limit, without reaping it. */
static void wait_a_while(pid_t pid)
{
    struct pollfd p = {.fd = pidfd_open(pid, 0), .events = POLLIN};
    if (p.fd < 0) return; /* an old kernel: no grace period */
    while (poll(&p, 1, GRACE_MS) < 0 && errno == EINTR) {
    }
    close(p.fd);
}

/* The group is killed before the leader is reaped, while the group's number cannot be
 * reused. */
void tarn__command_kill(tarn__command *c, bool close_first)
{
    if (close_first) close_end(c);
    if (c->pid) {
        kill(-c->pid, SIGTERM);
        wait_a_while(c->pid);
        if (kill(-c->pid, SIGKILL) != 0) kill(c->pid, SIGKILL);
        while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR) {
        }
        c->pid = 0;
    }
    close_end(c);
}
