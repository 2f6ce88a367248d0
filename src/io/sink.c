/* Sinks: the scheme selects an output, the suffix or an option selects a filter, and this
 * file passes bytes through the filter to the output. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/options.h"
#include "io/filter.h"
#include "io/output.h"
#include "io/url.h"

TARN__DEFINE_INIT(tarn_sink_options, TARN_SINK_OPTIONS_INIT)

enum { BUFFER = 256 << 10 };

struct tarn_sink {
    tarn__output *output;
    const tarn__filter *filter; /* NULL: the bytes are not encoded */
    void *encoder;
    unsigned char *buffer;
    tarn_status failed; /* a sink that has failed cannot be finished */
    tarn_error error;
};

static const struct scheme {
    const char *name;
    tarn__output_open *open;
} schemes[] = {
    {"file", tarn__file_url_create},   {"http", tarn__http_output_open},
    {"https", tarn__http_output_open}, {"pipe", tarn__pipe_output_open},
    {"s3", tarn__s3_output_open},      {"gs", tarn__http_output_open},
    {"az", tarn__az_output_open},
};

static tarn__output_open *find_scheme(const char *url)
{
    if (strcmp(url, "-") == 0) return tarn__stdout_open;
    if (!tarn__url_scheme(url)) return tarn__file_output_open;
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        if (tarn__url_scheme_is(url, schemes[i].name)) return schemes[i].open;
    return NULL;
}

static tarn_status choose_filter(tarn_sink *sink, const char *url,
                                 const tarn_sink_options *options, tarn_error *err)
{
    if ((unsigned)options->filter > TARN_FILTER_ZSTD)
        return tarn__fail(err, TARN_ERR_USAGE, "unknown filter number %d",
                          (int)options->filter);
    bool by_name =
        options->filter == TARN_FILTER_AUTO && !tarn__url_scheme_is(url, "pipe");
    const tarn__filter *filter =
        by_name ? tarn__filter_by_suffix(url, tarn__url_name_length(url))
                : tarn__filter_by_id(options->filter);
    if (!filter) return TARN_OK;
    if (!filter->encode)
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "%s can be read but not written; use xz or zstd", filter->name);
    int level = options->level ? options->level : filter->level_default;
    if (level < filter->level_min || level > filter->level_max)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "invalid level for %s (expected %d to %d, found %d)",
                          filter->name, filter->level_min, filter->level_max, level);
    sink->buffer = malloc(BUFFER);
    if (!sink->buffer) return tarn__fail_memory(err);
    sink->filter = filter;
    return filter->encoder_new(&sink->encoder, level, err);
}

static tarn_status open_output(tarn_sink *sink, const char *url, char *shown,
                               const tarn_sink_options *options, tarn_error *err)
{
    tarn__output_open *open = options->calls ? tarn__calls_output_open : find_scheme(url);
    if (!open)
        return tarn__fail_at(err, TARN_ERR_UNSUPPORTED, shown, TARN_NO_OFFSET,
                             "unsupported URL for writing; supported are paths, -, "
                             "file:, http://, https://, s3://, gs://, az:// and pipe:");
    TARN_TRY(open(url, shown, options, &sink->output, err));
    sink->output->shown = shown;
    return TARN_OK;
}

/* Frees everything but the output, which finish and abandon free. */
static void free_sink(tarn_sink *sink)
{
    if (sink->filter && sink->encoder) sink->filter->encoder_free(sink->encoder);
    free(sink->buffer);
    free(sink);
}

tarn_status tarn_sink_open(const char *url, const tarn_sink_options *options,
                           tarn_sink **out, tarn_error *err)
{
    TARN__NEED(err, "url", url);
    TARN__NEED(err, "out", out);
    TARN__OPTIONS(tarn_sink_options, o, TARN_SINK_OPTIONS_INIT, options, err);
    *out = NULL;
    if (!url[0]) return tarn__fail(err, TARN_ERR_USAGE, "the URL is empty");
    if (strlen(url) > TARN__MAX_URL)
        return tarn__fail(err, TARN_ERR_LIMIT, "the URL has more than %u bytes",
                          TARN__MAX_URL);
    tarn_sink *sink = calloc(1, sizeof *sink);
    char *shown = tarn__url_shown(url);
    if (!sink || !shown) {
        free(sink);
        free(shown);
        return tarn__fail_memory(err);
    }
    tarn_status status = choose_filter(sink, url, &o, err);
    if (status != TARN_OK)
        tarn__error_place(err, shown, TARN_NO_OFFSET);
    else
        status = open_output(sink, url, shown, &o, err);
    if (status != TARN_OK) {
        free(shown);
        free_sink(sink);
        return status;
    }
    *out = sink;
    return TARN_OK;
}

/* Runs the encoder until it has consumed all input and, with last, has written all
 * output. */
static tarn_status encode_bytes(tarn_sink *sink, const void *data, size_t len, bool last,
                                tarn_error *err)
{
    tarn__flow flow = {data, len, NULL, 0};
    bool ended = false;
    while (flow.in_size || (last && !ended)) {
        flow.out = sink->buffer;
        flow.out_size = BUFFER;
        TARN_TRY(sink->filter->encode(sink->encoder, &flow, last, &ended, err));
        size_t made = BUFFER - flow.out_size;
        if (made)
            TARN_TRY(sink->output->ops->write(sink->output, sink->buffer, made, err));
    }
    return TARN_OK;
}

static tarn_status remember_failure(tarn_sink *sink, tarn_status status, tarn_error *err)
{
    sink->failed = status;
    if (status != TARN_OK && err) *err = sink->error;
    return status;
}

tarn_status tarn_sink_write(tarn_sink *sink, const void *data, size_t len,
                            tarn_error *err)
{
    TARN__NEED(err, "sink", sink);
    TARN__NEED(err, "data", data || !len);
    tarn_status status = sink->failed;
    if (status == TARN_OK && len)
        status = sink->filter
                     ? encode_bytes(sink, data, len, false, &sink->error)
                     : sink->output->ops->write(sink->output, data, len, &sink->error);
    return remember_failure(sink, status, err);
}

tarn_status tarn_sink_finish(tarn_sink *sink, tarn_error *err)
{
    TARN__NEED(err, "sink", sink);
    tarn_status status = sink->failed;
    if (status == TARN_OK && sink->filter)
        status = encode_bytes(sink, "", 0, true, &sink->error);
    if (status != TARN_OK) {
        (void)remember_failure(sink, status, err);
        tarn_sink_abandon(sink);
        return status;
    }
    char *shown = sink->output->shown;
    status = sink->output->ops->finish(sink->output, err);
    free(shown);
    free_sink(sink);
    return status;
}

void tarn_sink_abandon(tarn_sink *sink)
{
    if (!sink) return;
    char *shown = sink->output->shown;
    sink->output->ops->abandon(sink->output);
    free(shown);
    free_sink(sink);
}
