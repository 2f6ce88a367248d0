/* pipe: URLs, for reading and writing. A command runs only if the caller allowed it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "io/command.h"
#include "io/input.h"
#include "io/output.h"
#include "io/sigpipe.h"

static tarn_status check_allowed(bool allowed, const char *url, const char *shown,
                                 tarn_error *err)
{
    if (!allowed)
        return tarn__fail_at(err, TARN_ERR_UNSUPPORTED, shown, TARN_NO_OFFSET,
                             "pipe: URLs run a shell command, which is not allowed "
                             "(allow_pipe)");
    if (!url[strlen("pipe:")])
        return tarn__fail_at(err, TARN_ERR_USAGE, shown, TARN_NO_OFFSET,
                             "the pipe: URL has no command");
    return TARN_OK;
}

typedef struct pipe_input {
    tarn__input in;
    tarn__command command;
    uint64_t at;
} pipe_input;

static tarn_status pipe_read(tarn__input *in, void *buf, size_t len, size_t *out_got,
                             tarn_error *err)
{
    pipe_input *p = (pipe_input *)in;
    ssize_t n;
    do
        n = read(p->command.fd, buf, len);
    while (n < 0 && errno == EINTR);
    if (n < 0) return tarn__fail_errno(err, in->shown, errno, "cannot read");
    *out_got = (size_t)n;
    p->at += (uint64_t)n;
    if (n > 0) return TARN_OK;
    tarn_status status = tarn__command_wait(&p->command, in->shown, err);
    if (status != TARN_OK && err) err->offset = p->at;
    return status;
}

static void pipe_close(tarn__input *in)
{
    pipe_input *p = (pipe_input *)in;
    tarn__command_kill(&p->command, true);
    free(p);
}

static const tarn__input_ops input_ops = {pipe_read, pipe_close};

tarn_status tarn__pipe_input_open(const char *url, const char *shown,
                                  const tarn_source_options *options, tarn__input **out,
                                  tarn_error *err)
{
    TARN_TRY(check_allowed(options->allow_pipe, url, shown, err));
    pipe_input *p = calloc(1, sizeof *p);
    if (!p) return tarn__fail_memory(err);
    p->in.ops = &input_ops;
    tarn_status status =
        tarn__command_start(&p->command, url + strlen("pipe:"), shown, true, err);
    if (status != TARN_OK) {
        free(p);
        return status;
    }
    *out = &p->in;
    return TARN_OK;
}

typedef struct pipe_output {
    tarn__output out;
    tarn__command command;
    uint64_t at;
} pipe_output;

/* A command that no longer reads has ended, or will soon. Its exit status says more than
 * the broken pipe. */
static tarn_status explain_end(pipe_output *p, int e, tarn_error *err)
{
    tarn_status status = TARN_OK;
    if (e == EPIPE) status = tarn__command_wait(&p->command, p->out.shown, err);
    if (status == TARN_OK)
        status = tarn__fail_errno(err, p->out.shown, e,
                                  "the command does not accept more data");
    if (err) err->offset = p->at;
    return status;
}

static tarn_status pipe_write(tarn__output *out, const void *data, size_t len,
                              tarn_error *err)
{
    pipe_output *p = (pipe_output *)out;
    tarn__sigpipe guard;
    int e = 0;
    tarn__sigpipe_block(&guard);
    while (len && !e) {
        ssize_t n = write(p->command.fd, data, len);
        if (n < 0) {
            if (errno != EINTR) e = errno;
            continue;
        }
        data = (const char *)data + n;
        len -= (size_t)n;
        p->at += (uint64_t)n;
    }
    tarn__sigpipe_restore(&guard);
    return e ? explain_end(p, e, err) : TARN_OK;
}

static tarn_status pipe_finish(tarn__output *out, tarn_error *err)
{
    pipe_output *p = (pipe_output *)out;
    tarn_status status = tarn__command_wait(&p->command, out->shown, err);
    free(p);
    return status;
}

static void pipe_abandon(tarn__output *out)
{
    pipe_output *p = (pipe_output *)out;
    tarn__command_kill(&p->command, false);
    free(p);
}

static const tarn__output_ops output_ops = {pipe_write, pipe_finish, pipe_abandon};

tarn_status tarn__pipe_output_open(const char *url, const char *shown,
                                   const tarn_sink_options *options, tarn__output **out,
                                   tarn_error *err)
{
    TARN_TRY(check_allowed(options->allow_pipe, url, shown, err));
    pipe_output *p = calloc(1, sizeof *p);
    if (!p) return tarn__fail_memory(err);
    p->out.ops = &output_ops;
    tarn_status status =
        tarn__command_start(&p->command, url + strlen("pipe:"), shown, false, err);
    if (status != TARN_OK) {
        free(p);
        return status;
    }
    *out = &p->out;
    return TARN_OK;
}
