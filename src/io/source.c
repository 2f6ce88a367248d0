/* Sources: the scheme selects an input, the first bytes select a filter, and this file
 * passes bytes from the input through the filter. Schemes and filters are named only in
 * its table. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/options.h"
#include "io/filter.h"
#include "io/input.h"
#include "io/object.h"
#include "io/url.h"

TARN__DEFINE_INIT(tarn_source_options, TARN_SOURCE_OPTIONS_INIT)

/* Up to this size, data may expand by any factor: small files of zeros are harmless. */
#define EXPANSION_FREE (UINT64_C(64) << 20)

size_t tarn__source_chunk = 256 << 10;

struct tarn_source {
    tarn__input *input;
    tarn_source_options options;
    char *url;
    const tarn__filter *filter; /* NULL: the bytes are not decoded */
    void *decoder;
    bool chosen;    /* the filter has been selected */
    bool between;   /* a member has ended; what follows is not known yet */
    bool ended;     /* there is no more output */
    bool raw_ended; /* there is no more input */
    unsigned char *buffer;
    size_t capacity;     /* of the buffer */
    size_t at, end;      /* the unused bytes in the buffer */
    uint64_t raw_offset; /* of buffer[at] */
    uint64_t given;      /* bytes returned */
    tarn_status failed;  /* a source that has failed stays failed */
    tarn_error error;
};

static const struct scheme {
    const char *name;
    tarn__input_open *open;
} schemes[] = {
    {"file", tarn__file_url_open},
    {"pipe", tarn__pipe_input_open},
};

static tarn__input_open *find_scheme(const char *url)
{
    if (strcmp(url, "-") == 0) return tarn__stdin_open;
    if (!tarn__url_scheme(url)) return tarn__file_input_open;
    if (tarn__is_remote(url)) return tarn__object_input_open;
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        if (tarn__url_scheme_is(url, schemes[i].name)) return schemes[i].open;
    return NULL;
}

static tarn_status open_input(tarn_source *source, char *shown, tarn_error *err)
{
    tarn__input_open *open =
        source->options.calls ? tarn__calls_input_open : find_scheme(source->url);
    if (!open)
        return tarn__fail_at(
            err, TARN_ERR_UNSUPPORTED, shown, TARN_NO_OFFSET,
            "unsupported URL for reading; supported are paths, -, file:, "
            "http://, https://, s3://, gs://, az://, hf:// and pipe:");
    TARN_TRY(open(source->url, shown, &source->options, &source->input, err));
    TARN__KNOWN(source->input);
    source->options.calls = NULL; /* the caller's struct may be gone after this call */
    source->input->shown = shown;
    return TARN_OK;
}

tarn_status tarn_source_open(const char *url, const tarn_source_options *options,
                             tarn_source **out, tarn_error *err)
{
    TARN__NEED(err, "url", url);
    TARN__NEED(err, "out", out);
    TARN__OPTIONS(tarn_source_options, o, TARN_SOURCE_OPTIONS_INIT, options, err);
    *out = NULL;
    if (!url[0]) return tarn__fail(err, TARN_ERR_USAGE, "the URL is empty");
    if (strlen(url) > TARN__MAX_URL)
        return tarn__fail(err, TARN_ERR_LIMIT, "the URL has more than %u bytes",
                          TARN__MAX_URL);
    if ((unsigned)o.filter > TARN_FILTER_ZSTD)
        return tarn__fail(err, TARN_ERR_USAGE, "unknown filter number %d", (int)o.filter);
    tarn_source *source = calloc(1, sizeof *source);
    if (!source) return tarn__fail_memory(err);
    source->options = o;
    source->url = strdup(url);
    source->capacity = tarn__source_chunk;
    source->buffer = malloc(source->capacity);
    char *shown = tarn__url_shown(url);
    tarn_status status = source->url && source->buffer && shown
                             ? open_input(source, shown, err)
                             : tarn__fail_memory(err);
    if (status == TARN_OK) {
        *out = source;
        return TARN_OK;
    }
    free(shown);
    tarn_source_close(source);
    return status;
}

void tarn_source_close(tarn_source *source)
{
    if (!source) return;
    if (source->decoder) source->filter->decoder_free(source->decoder);
    if (source->input) {
        char *shown = source->input->shown;
        source->input->ops->close(source->input);
        free(shown);
    }
    free(source->buffer);
    free(source->url);
    free(source);
}

int64_t tarn__source_modified_ns(const tarn_source *source)
{
    return source->input->modified_ns;
}

/* Reads until want bytes, or all remaining bytes, are in the buffer. */
static tarn_status fill_buffer(tarn_source *source, size_t want, tarn_error *err)
{
    if (source->at == source->end) source->at = source->end = 0;
    if (source->capacity - source->at < want) {
        memmove(source->buffer, source->buffer + source->at, source->end - source->at);
        source->end -= source->at;
        source->at = 0;
    }
    while (!source->raw_ended && source->end - source->at < want) {
        size_t got;
        TARN_TRY(source->input->ops->read(source->input, source->buffer + source->end,
                                          source->capacity - source->end, &got, err));
        source->end += got;
        source->raw_ended = got == 0;
    }
    return TARN_OK;
}

static void use_bytes(tarn_source *source, size_t n)
{
    source->at += n;
    source->raw_offset += n;
}

#define FAIL_HERE(source, err, code, ...)                                                \
    tarn__fail_at(err, code, (source)->input->shown, (source)->raw_offset, __VA_ARGS__)

static tarn_status fail_cut(tarn_source *source, const char *name, tarn_error *err)
{
    tarn_status status = FAIL_HERE(source, err, TARN_ERR_TRUNCATED,
                                   "the data ends inside a %s stream", name);
    if (err) err->offset += source->end - source->at;
    return status;
}

/* Data too short to be recognised counts as compressed if two bytes match or the name
 * says so. */
static tarn_status choose_by_magic(tarn_source *source, tarn_error *err)
{
    size_t size = source->end - source->at;
    const tarn__filter *cut, *promised;
    source->filter = tarn__filter_by_magic(source->buffer + source->at, size, &cut);
    if (source->filter || !cut) return TARN_OK;
    promised = tarn__filter_by_suffix(source->url, tarn__url_name_length(source->url));
    if (size >= 2) return fail_cut(source, cut->name, err);
    if (promised && promised->match(source->buffer, size) == TARN__MATCH_CUT)
        return fail_cut(source, promised->name, err);
    return TARN_OK;
}

static tarn_status demand_filter(tarn_source *source, tarn_error *err)
{
    size_t size = source->end - source->at;
    const tarn__filter *cut, *wanted = tarn__filter_by_id(source->options.filter);
    source->filter = tarn__filter_by_magic(source->buffer + source->at, size, &cut);
    if (source->filter && source->filter->id == wanted->id) return TARN_OK;
    source->filter = NULL;
    if (wanted->match(source->buffer + source->at, size) == TARN__MATCH_CUT)
        return fail_cut(source, wanted->name, err);
    return FAIL_HERE(source, err, TARN_ERR_FORMAT, "not %s data", wanted->name);
}

static tarn_status choose_filter(tarn_source *source, tarn_error *err)
{
    source->chosen = true;
    if (source->options.filter == TARN_FILTER_NONE) return TARN_OK;
    TARN_TRY(fill_buffer(source, TARN__MAGIC_MAX, err));
    if (source->options.filter == TARN_FILTER_AUTO)
        TARN_TRY(choose_by_magic(source, err));
    else
        TARN_TRY(demand_filter(source, err));
    if (!source->filter) return TARN_OK;
    return source->filter->decoder_new(&source->decoder, source->options.max_memory, err);
}

static tarn_status read_plain(tarn_source *source, unsigned char *buf, size_t len,
                              size_t *out_got, tarn_error *err)
{
    size_t held = source->end - source->at;
    if (held) {
        *out_got = held < len ? held : len;
        memcpy(buf, source->buffer + source->at, *out_got);
        use_bytes(source, *out_got);
        return TARN_OK;
    }
    *out_got = 0;
    if (!source->raw_ended)
        TARN_TRY(source->input->ops->read(source->input, buf, len, out_got, err));
    source->raw_offset += *out_got;
    source->raw_ended = source->ended = *out_got == 0;
    return TARN_OK;
}

static tarn_status skip_padding(tarn_source *source, tarn_error *err)
{
    uint64_t zeros = 0;
    if (source->filter->padding == TARN__PADDING_NONE) return fill_buffer(source, 1, err);
    for (;;) {
        TARN_TRY(fill_buffer(source, 1, err));
        if (source->at == source->end || source->buffer[source->at] != 0) break;
        use_bytes(source, 1);
        zeros++;
    }
    if (source->filter->padding == TARN__PADDING_FOURS && zeros % 4)
        return FAIL_HERE(source, err, TARN_ERR_FORMAT,
                         "%llu bytes of padding after a stream; only multiples of "
                         "four are allowed",
                         (unsigned long long)zeros);
    return TARN_OK;
}

/* What follows a member: nothing, padding, or another member. */
static tarn_status next_member(tarn_source *source, tarn_error *err)
{
    const tarn__filter *filter = source->filter;
    TARN_TRY(skip_padding(source, err));
    TARN_TRY(fill_buffer(source, TARN__MAGIC_MAX, err));
    size_t size = source->end - source->at;
    if (size == 0) {
        source->ended = true;
        return TARN_OK;
    }
    tarn__match match = filter->match(source->buffer + source->at, size);
    if (match == TARN__MATCH_CUT) return fail_cut(source, filter->name, err);
    if (match == TARN__MATCH_NO || filter->one_member)
        return FAIL_HERE(source, err, TARN_ERR_FORMAT,
                         "unknown data after the end of the %s data", filter->name);
    source->between = false;
    return filter->decode_next(source->decoder, err);
}

static tarn_status check_expansion(tarn_source *source, uint64_t made, tarn_error *err)
{
    uint64_t total = source->given + made, factor = source->options.max_expansion;
    if (factor == 0 || total <= EXPANSION_FREE) return TARN_OK;
    if ((total - EXPANSION_FREE) / factor <= source->raw_offset) return TARN_OK;
    return FAIL_HERE(
        source, err, TARN_ERR_LIMIT,
        "the data expands by more than max_expansion (%llu); raise it if you "
        "trust the data",
        (unsigned long long)factor);
}

static tarn_status read_decoded(tarn_source *source, unsigned char *buf, size_t len,
                                size_t *out_got, tarn_error *err)
{
    *out_got = 0;
    if (source->between) return next_member(source, err);
    TARN_TRY(fill_buffer(source, 1, err));
    size_t held = source->end - source->at;
    tarn__flow flow = {source->buffer + source->at, held, buf, len};
    bool member_ended = false;
    tarn_status status =
        source->filter->decode(source->decoder, &flow, &member_ended, err);
    size_t used = held - flow.in_size, made = len - flow.out_size;
    use_bytes(source, used);
    if (status != TARN_OK) {
        tarn__error_place(err, source->input->shown, source->raw_offset);
        return status;
    }
    source->between = member_ended;
    *out_got = made;
    if (used == 0 && made == 0 && !member_ended) {
        if (held) return FAIL_HERE(source, err, TARN_ERR_FORMAT, "damaged data");
        return fail_cut(source, source->filter->name, err);
    }
    return check_expansion(source, made, err);
}

static tarn_status read_some(tarn_source *source, unsigned char *buf, size_t len,
                             size_t *out_got, tarn_error *err)
{
    uint64_t left = source->options.max_size - source->given;
    if (!source->chosen) TARN_TRY(choose_filter(source, err));
    /* One byte past the limit is enough to detect it. Reading more could reach damage
     * after it, and then the error would depend on how the data is split into reads. */
    if (len > left) len = (size_t)left + 1;
    TARN_TRY(source->filter ? read_decoded(source, buf, len, out_got, err)
                            : read_plain(source, buf, len, out_got, err));
    if (*out_got > left)
        return FAIL_HERE(source, err, TARN_ERR_LIMIT,
                         "more than max_size (%llu) bytes of data",
                         (unsigned long long)source->options.max_size);
    source->given += *out_got;
    return TARN_OK;
}

tarn_status tarn_source_read(tarn_source *source, void *buf, size_t len, size_t *out_got,
                             tarn_error *err)
{
    TARN__NEED(err, "source", source);
    TARN__NEED(err, "buf", buf || !len);
    TARN__NEED(err, "out_got", out_got);
    size_t got = 0;
    while (got < len && !source->ended && source->failed == TARN_OK) {
        size_t n = 0;
        source->failed =
            read_some(source, (unsigned char *)buf + got, len - got, &n, &source->error);
        if (source->failed == TARN_OK) got += n;
    }
    *out_got = got;
    if (source->failed != TARN_OK && err) *err = source->error;
    return source->failed;
}
