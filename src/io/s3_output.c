/* Writing to S3: data that fits in one part is one PUT, anything larger a multipart
 * upload. One part at a time is in memory. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "io/output.h"
#include "io/s3_upload.h"

/* An upload has at most 10,000 parts. Doubling the size of a part after every thousand
 * parts reaches the largest possible object (5 TiB) and keeps parts small for smaller
 * objects: 8 MiB up to 8 GB, 64 MiB up to 120 GB. */
enum { FIRST_PART = 8 << 20, PARTS_OF_A_SIZE = 1000 };

typedef struct s3_output {
    tarn__output out;
    tarn__s3_upload upload;
    char *part;
    size_t used, capacity;
} s3_output;

static tarn_status grow_part(s3_output *s, tarn_error *err)
{
    if (s->upload.parts % PARTS_OF_A_SIZE) return TARN_OK;
    free(s->part);
    s->capacity *= 2;
    s->part = malloc(s->capacity);
    return s->part ? TARN_OK : tarn__fail_memory(err);
}

static tarn_status send_part(s3_output *s, tarn_error *err)
{
    TARN_TRY(tarn__s3_upload_part(&s->upload, s->part, s->used, err));
    s->used = 0;
    return grow_part(s, err);
}

static tarn_status s3_write(tarn__output *out, const void *data, size_t len,
                            tarn_error *err)
{
    s3_output *s = (s3_output *)out;
    while (len) {
        if (s->used == s->capacity) TARN_TRY(send_part(s, err));
        size_t room = s->capacity - s->used, n = len < room ? len : room;
        memcpy(s->part + s->used, data, n);
        s->used += n;
        s->upload.total += n;
        data = (const char *)data + n;
        len -= n;
    }
    return TARN_OK;
}

static void s3_abandon(tarn__output *out)
{
    s3_output *s = (s3_output *)out;
    tarn__s3_upload_reset(&s->upload);
    free(s->part);
    free(s);
}

static tarn_status finish_upload(s3_output *s, tarn_error *err)
{
    if (!s->upload.id) return tarn__s3_upload_whole(&s->upload, s->part, s->used, err);
    if (s->used) TARN_TRY(send_part(s, err));
    return tarn__s3_upload_complete(&s->upload, err);
}

static tarn_status s3_finish(tarn__output *out, tarn_error *err)
{
    tarn_status status = finish_upload((s3_output *)out, err);
    s3_abandon(out);
    return status;
}

static const tarn__output_ops ops = {s3_write, s3_finish, s3_abandon};

static tarn_status start_output(s3_output *s, const char *url,
                                const tarn_sink_options *options, tarn_error *err)
{
    TARN_TRY(tarn__s3_upload_open(&s->upload, url, NULL, options, err));
    s->part = malloc(FIRST_PART);
    if (!s->part) return tarn__fail_memory(err);
    s->capacity = FIRST_PART;
    return TARN_OK;
}

/* condition: see s3_upload.h. */
static tarn_status open_output(const char *url, const char *condition, bool optional,
                               const tarn_sink_options *options, tarn__output **out,
                               tarn_error *err)
{
    s3_output *s = calloc(1, sizeof *s);
    if (!s) return tarn__fail_memory(err);
    s->out.ops = &ops;
    tarn_status status = start_output(s, url, options, err);
    s->upload.condition = condition;
    s->upload.optional = optional;
    if (status == TARN_OK && optional)
        status = tarn__http_check_absent(&s->upload.http, s->upload.object.url, err);
    if (status != TARN_OK) {
        s3_abandon(&s->out);
        return status;
    }
    *out = &s->out;
    return TARN_OK;
}

/* In a store without conditions, the check at the beginning is the only protection. */
tarn_status tarn__s3_output_open(const char *url, const char *shown,
                                 const tarn_sink_options *options, tarn__output **out,
                                 tarn_error *err)
{
    bool only_new = !options->overwrite;
    return open_output(url, only_new ? TARN__S3_ONLY_NEW : NULL, only_new, options, out,
                       err);
}

tarn_status tarn__s3_output_open_if(const char *url, const char *condition,
                                    const tarn_sink_options *options, tarn__output **out,
                                    tarn_error *err)
{
    return open_output(url, condition, false, options, out, err);
}
