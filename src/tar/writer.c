/* Writing one archive. */
#include "tar/writer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/options.h"
#include "io/filter.h"
#include "io/url.h"
#include "tar/rules.h"

tarn_status tarn__archive_init(tarn__archive *a, const tarn_tar_writer_options *options,
                               tarn_error *err)
{
    *a = (tarn__archive){.out.file.fd = -1};
    tarn__buf_init(&a->name, 2 * TARN_MAX_NAME + 2);
    return tarn__composer_init(&a->composer, options, err);
}

void tarn__archive_reset(tarn__archive *a)
{
    tarn__out_reset(&a->out);
    tarn__composer_reset(&a->composer);
    tarn__buf_reset(&a->name);
}

/* A new file, or one to be replaced, on a local path without compression. Devices, pipes
 * and links are for the sink to judge. */
static bool is_plain_file(const char *url, const tarn_sink_options *o)
{
    struct stat st;
    if (tarn__url_scheme(url) || strcmp(url, "-") == 0) return false;
    if (o->filter != TARN_FILTER_NONE &&
        (o->filter != TARN_FILTER_AUTO || tarn__filter_by_suffix(url, strlen(url))))
        return false;
    if (lstat(url, &st) != 0) return true;
    return S_ISREG(st.st_mode) && o->overwrite;
}

tarn_status tarn__archive_begin(tarn__archive *a, const char *url,
                                const tarn_sink_options *options, tarn_error *err)
{
    a->composer.digest = 0;
    a->broken = false;
    if (is_plain_file(url, options)) return tarn__out_file(&a->out, url, options, err);
    tarn_sink *sink;
    TARN_TRY(tarn_sink_open(url, options, &sink, err));
    return tarn__out_sink(&a->out, sink, err);
}

tarn_status tarn__archive_name(tarn__archive *a, const char *key, size_t key_len,
                               const char *field, tarn_error *err)
{
    a->name.size = 0;
    TARN_TRY(tarn__buf_add(&a->name, key, key_len, err));
    TARN_TRY(tarn__buf_add(&a->name, ".", 1, err));
    return tarn__buf_add(&a->name, field, strlen(field), err);
}

tarn_status tarn__archive_cost(tarn__archive *a, uint64_t size, uint64_t *out,
                               tarn_error *err)
{
    TARN_TRY(
        tarn__compose_size(&a->composer, a->name.data, a->name.size, size, out, err));
    *out += size + tarn__block_padding(size);
    return TARN_OK;
}

/* From here on bytes may have gone out that cannot be called back. */
static tarn_status broken_if(tarn__archive *a, tarn_status status)
{
    if (status != TARN_OK) a->broken = true;
    return status;
}

tarn_status tarn__archive_header(tarn__archive *a, uint64_t size, uint64_t *out_offset,
                                 tarn_error *err)
{
    return broken_if(a, tarn__compose(&a->composer, a->name.data, a->name.size, size,
                                      &a->out, out_offset, err));
}

tarn_status tarn__archive_bytes(tarn__archive *a, const void *data, size_t size,
                                tarn_error *err)
{
    return broken_if(a, tarn__out_write(&a->out, data, size, err));
}

tarn_status tarn__archive_pad(tarn__archive *a, uint64_t size, tarn_error *err)
{
    return broken_if(a, tarn__out_zeros(&a->out, tarn__block_padding(size), err));
}

tarn_status tarn__archive_member(tarn__archive *a, const void *data, size_t size,
                                 uint64_t *out_offset, tarn_error *err)
{
    TARN_TRY(tarn__archive_header(a, size, out_offset, err));
    TARN_TRY(tarn__archive_bytes(a, data, size, err));
    return tarn__archive_pad(a, size, err);
}

tarn_status tarn__archive_finish(tarn__archive *a, int64_t *out_mtime_ns, tarn_error *err)
{
    tarn_status status = TARN_OK;
    if (a->broken)
        status = tarn__fail(err, TARN_ERR_IO, "writing failed before; nothing is kept");
    if (status == TARN_OK)
        status = tarn__out_zeros(&a->out, tarn__end_size(tarn__out_size(&a->out)), err);
    if (status != TARN_OK) {
        tarn__out_abandon(&a->out);
        return status;
    }
    return tarn__out_finish(&a->out, out_mtime_ns, err);
}

/* --- Samples -------------------------------------------------------------------------
 */

/* As bytes, which for UTF-8 is by code point. */
static int compare_fields(const void *left, const void *right, void *fields)
{
    const tarn_field *f = fields;
    return strcmp(f[*(const uint32_t *)left].name, f[*(const uint32_t *)right].name);
}

void tarn__order_fields(const tarn_field *fields, size_t count, bool keep,
                        uint32_t *order)
{
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    if (!keep && count > 1)
        qsort_r(order, count, sizeof *order, compare_fields, (void *)(uintptr_t)fields);
}

struct tarn_tar_writer {
    tarn__archive archive;
    tarn_tar_writer_options options;
    tarn__sample_plan plan;
};

tarn_status tarn__plan_sample(tarn__sample_plan *plan, tarn__archive *a,
                              const tarn_tar_writer_options *options, const char *key,
                              const tarn_field *fields, size_t count, tarn_error *err)
{
    plan->key_len = strlen(key);
    plan->bytes = plan->payload = 0;
    TARN_TRY(tarn__check_key(options->rules, key, plan->key_len, err));
    TARN_TRY(tarn__check_fields(options->rules, key, fields, count, err));
    while (plan->capacity < count)
        TARN_TRY(tarn__grow(&plan->order, sizeof *plan->order, plan->capacity,
                            &plan->capacity, err));
    tarn__order_fields(fields, count, options->keep_order, plan->order);
    for (size_t i = 0; i < count; i++) {
        uint64_t cost;
        TARN_TRY(tarn__archive_name(a, key, plan->key_len, fields[i].name, err));
        TARN_TRY(tarn__archive_cost(a, fields[i].size, &cost, err));
        plan->bytes += cost;
        plan->payload += fields[i].size;
    }
    return TARN_OK;
}

tarn_status tarn__write_sample(tarn__archive *a, const tarn__sample_plan *plan,
                               const char *key, const tarn_field *fields, size_t count,
                               tarn_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const tarn_field *f = &fields[plan->order[i]];
        uint64_t offset;
        TARN_TRY(tarn__archive_name(a, key, plan->key_len, f->name, err));
        TARN_TRY(tarn__archive_member(a, f->data, f->size, &offset, err));
    }
    return TARN_OK;
}

tarn_status tarn__check_unbroken(const tarn__archive *a, tarn_error *err)
{
    if (!a->broken) return TARN_OK;
    return tarn__fail(err, TARN_ERR_IO,
                      "writing failed before; this writer can only be abandoned");
}

tarn_status tarn_tar_writer_open(const char *url, const tarn_tar_writer_options *options,
                                 tarn_tar_writer **out, tarn_error *err)
{
    TARN__OPTIONS(tarn_tar_writer_options, taken, TARN_TAR_WRITER_OPTIONS_INIT, options,
                  err);
    tarn_tar_writer *w = calloc(1, sizeof *w);
    if (!w) return tarn__fail_memory(err);
    w->options = taken;
    tarn_status status = tarn__archive_init(&w->archive, &w->options, err);
    if (status == TARN_OK)
        status = tarn__archive_begin(&w->archive, url, &w->options.sink, err);
    if (status != TARN_OK) {
        tarn_tar_writer_abandon(w);
        return status;
    }
    *out = w;
    return TARN_OK;
}

tarn_status tarn_tar_writer_add(tarn_tar_writer *w, const char *key,
                                const tarn_field *fields, size_t count,
                                uint64_t *out_payload, tarn_error *err)
{
    TARN_TRY(tarn__check_unbroken(&w->archive, err));
    TARN_TRY(
        tarn__plan_sample(&w->plan, &w->archive, &w->options, key, fields, count, err));
    TARN_TRY(tarn__write_sample(&w->archive, &w->plan, key, fields, count, err));
    if (out_payload) *out_payload = w->plan.payload;
    return TARN_OK;
}

tarn_status tarn_tar_writer_member(tarn_tar_writer *w, const char *name, const void *data,
                                   size_t size, tarn_error *err)
{
    uint64_t cost, offset;
    TARN_TRY(tarn__check_unbroken(&w->archive, err));
    w->archive.name.size = 0;
    TARN_TRY(tarn__buf_add(&w->archive.name, name, strlen(name), err));
    TARN_TRY(tarn__archive_cost(&w->archive, size, &cost, err));
    return tarn__archive_member(&w->archive, data, size, &offset, err);
}

uint64_t tarn_tar_writer_size(const tarn_tar_writer *w)
{
    return tarn__out_size(&w->archive.out);
}

tarn_status tarn_tar_writer_finish(tarn_tar_writer *w, tarn_error *err)
{
    tarn_status status = tarn__archive_finish(&w->archive, NULL, err);
    tarn_tar_writer_abandon(w);
    return status;
}

void tarn_tar_writer_abandon(tarn_tar_writer *w)
{
    if (!w) return;
    tarn__archive_reset(&w->archive);
    free(w->plan.order);
    free(w);
}
