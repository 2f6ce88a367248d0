/* Inputs and outputs that call functions which the library's caller supplied in the
 * options. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/options.h"
#include "io/input.h"
#include "io/output.h"

TARN__DEFINE_INIT(tarn_source_calls, TARN_SOURCE_CALLS_INIT)
TARN__DEFINE_INIT(tarn_sink_calls, TARN_SINK_CALLS_INIT)

/* A callback may fail without setting an error, but must not return TARN_END. */
static tarn_status callback_failed(tarn_status status, const char *shown, tarn_error *err,
                                   const tarn_error *why)
{
    if (status == TARN_END)
        return tarn__fail_at(err, TARN_ERR_USAGE, shown, TARN_NO_OFFSET,
                             "a callback returned TARN_END");
    if (err) *err = *why;
    if (err) err->code = status;
    if (err && !err->message[0])
        return tarn__fail_at(err, status, shown, TARN_NO_OFFSET, "a callback failed");
    if (err && !err->path[0]) tarn__error_place(err, shown, TARN_NO_OFFSET);
    return status;
}

typedef struct calls_input {
    tarn__input in;
    tarn_source_calls calls;
} calls_input;

static tarn_status calls_read(tarn__input *in, void *buf, size_t len, size_t *out_got,
                              tarn_error *err)
{
    calls_input *c = (calls_input *)in;
    tarn_error why = {.offset = TARN_NO_OFFSET};
    *out_got = 0;
    tarn_status status = c->calls.read(c->calls.context, buf, len, out_got, &why);
    if (status != TARN_OK) return callback_failed(status, in->shown, err, &why);
    if (*out_got > len)
        return tarn__fail_at(err, TARN_ERR_USAGE, in->shown, TARN_NO_OFFSET,
                             "a callback returned more bytes than requested");
    return TARN_OK;
}

static void calls_close(tarn__input *in)
{
    calls_input *c = (calls_input *)in;
    if (c->calls.close) c->calls.close(c->calls.context);
    free(c);
}

static const tarn__input_ops input_ops = {calls_read, calls_close};

tarn_status tarn__calls_input_open(const char *url, const char *shown,
                                   const tarn_source_options *options, tarn__input **out,
                                   tarn_error *err)
{
    (void)url;
    TARN__OPTIONS(tarn_source_calls, calls, TARN_SOURCE_CALLS_INIT, options->calls, err);
    if (!calls.read)
        return tarn__fail_at(err, TARN_ERR_USAGE, shown, TARN_NO_OFFSET,
                             "calls->read is NULL");
    calls_input *c = calloc(1, sizeof *c);
    if (!c) return tarn__fail_memory(err);
    c->in.ops = &input_ops;
    c->calls = calls;
    *out = &c->in;
    return TARN_OK;
}

typedef struct calls_output {
    tarn__output out;
    tarn_sink_calls calls;
} calls_output;

static tarn_status calls_write(tarn__output *out, const void *data, size_t len,
                               tarn_error *err)
{
    calls_output *c = (calls_output *)out;
    tarn_error why = {.offset = TARN_NO_OFFSET};
    tarn_status status = c->calls.write(c->calls.context, data, len, &why);
    return status == TARN_OK ? TARN_OK : callback_failed(status, out->shown, err, &why);
}

static tarn_status calls_finish(tarn__output *out, tarn_error *err)
{
    calls_output *c = (calls_output *)out;
    tarn_error why = {.offset = TARN_NO_OFFSET};
    tarn_status status = TARN_OK;
    if (c->calls.finish) status = c->calls.finish(c->calls.context, &why);
    if (status != TARN_OK) status = callback_failed(status, out->shown, err, &why);
    free(c);
    return status;
}

static void calls_abandon(tarn__output *out)
{
    calls_output *c = (calls_output *)out;
    if (c->calls.abandon) c->calls.abandon(c->calls.context);
    free(c);
}

static const tarn__output_ops output_ops = {calls_write, calls_finish, calls_abandon};

tarn_status tarn__calls_output_open(const char *url, const char *shown,
                                    const tarn_sink_options *options, tarn__output **out,
                                    tarn_error *err)
{
    TARN__OPTIONS(tarn_sink_calls, calls, TARN_SINK_CALLS_INIT, options->calls, err);
    if (!calls.write)
        return tarn__fail_at(err, TARN_ERR_USAGE, shown, TARN_NO_OFFSET,
                             "calls->write is NULL");
    calls_output *c = calloc(1, sizeof *c);
    if (!c) return tarn__fail_memory(err);
    c->out.ops = &output_ops;
    c->calls = calls;
    tarn_error why = {.offset = TARN_NO_OFFSET};
    tarn_status status = TARN_OK;
    if (c->calls.begin) status = c->calls.begin(c->calls.context, url, &why);
    if (status != TARN_OK) {
        free(c);
        return callback_failed(status, shown, err, &why);
    }
    *out = &c->out;
    return TARN_OK;
}
