/* Writing to Azure: data that fits in one block is one request, anything larger is sent
 * in blocks, which become a blob at finish. Azure deletes blocks that never do after a
 * week. One block is in memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "io/object.h"
#include "io/output.h"

/* 50,000 blocks are the most that Azure allows: blobs of up to 390 GiB. */
enum { BLOCK = 8 << 20, MAX_BLOCKS = 50000, ID = 12 };

typedef struct az_output {
    tarn__output out;
    tarn__http http;
    tarn__object object;
    bool overwrite;
    char *block;
    size_t used;
    unsigned blocks; /* number of blocks sent */
    tarn__http_reply reply;
} az_output;

static const char *const only_new[] = {"If-None-Match: *", NULL};

/* Names of blocks are base64 of the same length: digits are. */
static void block_id(char out[ID + 1], unsigned number)
{
    snprintf(out, ID + 1, "%0*u", ID, number);
}

static tarn_status put(az_output *a, const char *query, const void *body, size_t len,
                       bool creates, tarn_error *err)
{
    const char *base = a->object.url;
    size_t size = strlen(base) + strlen(query) + 2;
    char *url = malloc(size);
    if (!url) return tarn__fail_memory(err);
    snprintf(url, size, "%s%s%s", base,
             !query[0]           ? ""
             : strchr(base, '?') ? "&"
                                 : "?",
             query);
    tarn__http_request request = {
        .method = "PUT",
        .url = url,
        .headers = creates && !a->overwrite ? only_new : NULL,
        .body = body,
        .body_size = len,
    };
    tarn_status status = tarn__http_exchange(&a->http, &request, &a->reply, err);
    free(url);
    TARN_TRY(status);
    if (a->http.head.status >= 200 && a->http.head.status < 300) return TARN_OK;
    return tarn__http_fail_status(&a->http, a->reply.body, a->reply.size, err);
}

static tarn_status send_block(az_output *a, tarn_error *err)
{
    char query[64], id[ID + 1];
    if (a->blocks == MAX_BLOCKS)
        return tarn__fail_at(err, TARN_ERR_LIMIT, a->object.shown, TARN_NO_OFFSET,
                             "more than %d blocks of %d MiB", MAX_BLOCKS, BLOCK >> 20);
    block_id(id, a->blocks);
    snprintf(query, sizeof query, "comp=block&blockid=%s", id);
    TARN_TRY(put(a, query, a->block, a->used, false, err));
    a->blocks++;
    a->used = 0;
    return TARN_OK;
}

static tarn_status az_write(tarn__output *out, const void *data, size_t len,
                            tarn_error *err)
{
    az_output *a = (az_output *)out;
    while (len) {
        if (a->used == BLOCK) TARN_TRY(send_block(a, err));
        size_t room = BLOCK - a->used, n = len < room ? len : room;
        memcpy(a->block + a->used, data, n);
        a->used += n;
        data = (const char *)data + n;
        len -= n;
    }
    return TARN_OK;
}

static tarn_status join_blocks(az_output *a, tarn_error *err)
{
    tarn__buf list;
    char id[ID + 1];
    TARN_TRY(send_block(a, err));
    tarn__buf_init(&list, 4 << 20);
    tarn_status status = tarn__buf_printf(&list, err, "<BlockList>");
    for (unsigned i = 0; i < a->blocks && status == TARN_OK; i++) {
        block_id(id, i);
        status = tarn__buf_printf(&list, err, "<Latest>%s</Latest>", id);
    }
    if (status == TARN_OK) status = tarn__buf_printf(&list, err, "</BlockList>");
    if (status == TARN_OK)
        status = put(a, "comp=blocklist", list.data, list.size, true, err);
    tarn__buf_reset(&list);
    return status;
}

static void az_abandon(tarn__output *out)
{
    az_output *a = (az_output *)out;
    tarn__http_reset(&a->http);
    tarn__object_reset(&a->object);
    free(a->block);
    free(a);
}

static tarn_status az_finish(tarn__output *out, tarn_error *err)
{
    az_output *a = (az_output *)out;
    tarn_status status =
        a->blocks ? join_blocks(a, err) : put(a, "", a->block, a->used, true, err);
    az_abandon(out);
    return status;
}

static const tarn__output_ops ops = {az_write, az_finish, az_abandon};

static tarn_status start_output(az_output *a, const char *url,
                                const tarn_sink_options *options, tarn_error *err)
{
    a->overwrite = options->overwrite;
    a->block = malloc(BLOCK);
    if (!a->block) return tarn__fail_memory(err);
    TARN_TRY(tarn__object_init(&a->object, url, err));
    tarn__http_config config = tarn__object_http(&a->object);
    config.connect_seconds = options->connect_seconds;
    config.stall_seconds = options->stall_seconds;
    config.retries = options->retries;
    TARN_TRY(tarn__http_init(&a->http, &config, err));
    return a->overwrite ? TARN_OK : tarn__http_check_absent(&a->http, a->object.url, err);
}

tarn_status tarn__az_output_open(const char *url, const char *shown,
                                 const tarn_sink_options *options, tarn__output **out,
                                 tarn_error *err)
{
    az_output *a = calloc(1, sizeof *a);
    if (!a) return tarn__fail_memory(err);
    a->out.ops = &ops;
    tarn_status status = start_output(a, url, options, err);
    if (status != TARN_OK) {
        az_abandon(&a->out);
        return status;
    }
    *out = &a->out;
    return TARN_OK;
}
