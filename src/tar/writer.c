/* Writes samples to one archive, or to archives that roll over. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/options.h"
#include "tar/archive.h"
#include "tar/pattern.h"

TARN__DEFINE_INIT(tarn_shard_options, TARN_SHARD_OPTIONS_INIT)

struct tarn_tar_writer {
    tarn__archive archive;
    tarn__sample_plan plan;
    tarn_written written;
    bool open; /* an archive is open */

    /* For archives that roll over: */
    bool rolls;
    tarn_shard_options options;
    tarn__pattern pattern;
    tarn__buf url; /* of the current shard */
    uint64_t number;
    uint64_t samples, payload; /* in the current shard */
};

static tarn_status open_writer(tarn_tar_writer *w, const char *url,
                               const tarn_tar_writer_options *options, tarn_error *err)
{
    tarn__buf_init(&w->url, SIZE_MAX / 2);
    TARN_TRY(tarn__archive_init(&w->archive, options, TARN_NAMES_PAX, err));
    const tarn_shard_options *shards = w->archive.options.shards;
    w->archive.options.shards = NULL;
    TARN__OPTIONS(tarn_shard_options, taken, TARN_SHARD_OPTIONS_INIT, shards, err);
    w->options = taken;
    w->number = taken.start;
    w->rolls = shards;
    if (w->rolls) return tarn__pattern_take(&w->pattern, url, err);
    w->open = true;
    return tarn__archive_begin(&w->archive, url, &w->archive.sink, err);
}

tarn_status tarn_tar_writer_open(const char *url, const tarn_tar_writer_options *options,
                                 tarn_tar_writer **out, tarn_error *err)
{
    TARN__NEED(err, "url", url);
    TARN__NEED(err, "out", out);
    tarn_tar_writer *w = calloc(1, sizeof *w);
    if (!w) return tarn__fail_memory(err);
    tarn_status status = open_writer(w, url, options, err);
    if (status == TARN_OK)
        *out = w;
    else
        tarn_tar_writer_abandon(w);
    return status;
}

bool tarn__shard_is_full(const tarn__roll_state *s, uint64_t sample_bytes)
{
    if (s->samples == 0) return false;
    if (s->max_count && s->samples >= s->max_count) return true;
    if (!s->max_size) return false;
    switch (s->roll) {
    case TARN_ROLL_PAYLOAD:
        return s->payload >= s->max_size;
    case TARN_ROLL_ARCHIVE:
        return s->bytes >= s->max_size;
    default:
        break;
    }
    uint64_t end = s->bytes + sample_bytes;
    return end + tarn__end_size(end) > s->max_size;
}

tarn_status tarn__check_sample_fits(tarn_roll roll, uint64_t max_size,
                                    uint64_t sample_bytes, const char *key,
                                    tarn_error *err)
{
    uint64_t whole = sample_bytes + tarn__end_size(sample_bytes);
    if (roll != TARN_ROLL_FILE || !max_size || whole <= max_size) return TARN_OK;
    return tarn__fail(err, TARN_ERR_LIMIT,
                      "sample %s needs a shard of %" PRIu64 " bytes, but the "
                      "largest allowed size is %" PRIu64,
                      TARN__SHOW(key, strlen(key)), whole, max_size);
}

static tarn_status begin_shard(tarn_tar_writer *w, tarn_error *err)
{
    TARN_TRY(tarn__pattern_fill(&w->pattern, w->number, &w->url, err));
    TARN_TRY(tarn__archive_begin(&w->archive, w->url.data, &w->archive.sink, err));
    w->number++;
    w->open = true;
    w->samples = w->payload = 0;
    return TARN_OK;
}

static tarn_status end_shard(tarn_tar_writer *w, tarn_error *err)
{
    uint64_t bytes = tarn__out_size(&w->archive.out);
    bytes += tarn__end_size(bytes);
    w->open = false;
    tarn_status status = tarn__archive_finish(&w->archive, NULL, err);
    if (status != TARN_OK) {
        w->archive.broken = true;
        return status;
    }
    w->written.shards++;
    w->written.bytes += bytes;
    if (w->options.hook &&
        w->options.hook(w->options.hook_context, w->url.data, w->samples, bytes))
        return tarn__fail_at(err, TARN_ERR_CANCELLED, w->url.data, TARN_NO_OFFSET,
                             "stopped by the caller after this shard");
    return TARN_OK;
}

/* The archive for a sample. */
static tarn_status take_shard(tarn_tar_writer *w, const char *key, tarn_error *err)
{
    const tarn_shard_options *o = &w->options;
    if (!w->rolls) return TARN_OK;
    if (key)
        TARN_TRY(tarn__check_sample_fits(o->roll, o->max_size, w->plan.bytes, key, err));
    tarn__roll_state state = {o->roll,    o->max_count, o->max_size,
                              w->samples, w->payload,   tarn__out_size(&w->archive.out)};
    if (w->open && tarn__shard_is_full(&state, w->plan.bytes))
        TARN_TRY(end_shard(w, err));
    return w->open ? TARN_OK : begin_shard(w, err);
}

tarn_status tarn_tar_writer_add(tarn_tar_writer *w, const char *key,
                                const tarn_field *fields, size_t count, tarn_error *err)
{
    TARN__NEED(err, "writer", w);
    TARN__NEED(err, "fields", fields || !count);
    TARN_TRY(tarn__check_unbroken(&w->archive, err));
    TARN_TRY(tarn__plan_sample(&w->plan, &w->archive, key, fields, count, err));
    TARN_TRY(take_shard(w, key, err));
    TARN_TRY(tarn__write_sample(&w->archive, &w->plan, key, fields, count, err));
    w->samples += key != NULL;
    w->payload += w->plan.payload;
    w->written.samples += key != NULL;
    w->written.members += count;
    w->written.payload += w->plan.payload;
    return TARN_OK;
}

tarn_status tarn_tar_writer_next(tarn_tar_writer *w, tarn_error *err)
{
    TARN__NEED(err, "writer", w);
    if (!w->rolls)
        return tarn__fail(err, TARN_ERR_USAGE, "the writer has only one archive");
    TARN_TRY(tarn__check_unbroken(&w->archive, err));
    return w->open ? end_shard(w, err) : TARN_OK;
}

void tarn_tar_writer_written(const tarn_tar_writer *w, tarn_written *out, size_t size)
{
    tarn_written written = {0};
    if (w) written = w->written;
    if (w && !w->rolls) written.bytes = tarn__out_size(&w->archive.out);
    TARN__FILL_OUT(out, size, written);
}

tarn_status tarn_tar_writer_finish(tarn_tar_writer *w, tarn_written *out, size_t size,
                                   tarn_error *err)
{
    TARN__NEED(err, "writer", w);
    if (!w->rolls) w->written.bytes = tarn__out_size(&w->archive.out);
    tarn_status status = w->rolls ? tarn_tar_writer_next(w, err)
                                  : tarn__archive_finish(&w->archive, NULL, err);
    if (!w->rolls) w->written.shards = status == TARN_OK;
    TARN__FILL_OUT(out, size, w->written);
    tarn_tar_writer_abandon(w);
    return status;
}

void tarn_tar_writer_abandon(tarn_tar_writer *w)
{
    if (!w) return;
    tarn__archive_reset(&w->archive);
    tarn__pattern_reset(&w->pattern);
    tarn__buf_reset(&w->url);
    free(w->plan.members);
    free(w);
}
