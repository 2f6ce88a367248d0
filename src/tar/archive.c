/* One archive: its members, headers and end, and samples written completely or not at
 * all. */
#include "tar/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/crc.h"
#include "base/error.h"
#include "base/options.h"
#include "io/filter.h"
#include "io/url.h"
#include "tar/rules.h"

TARN__DEFINE_INIT(tarn_tar_writer_options, TARN_TAR_WRITER_OPTIONS_INIT)

tarn_status tarn__archive_init(tarn__archive *a, const tarn_tar_writer_options *options,
                               tarn_name_style names, tarn_error *err)
{
    *a = (tarn__archive){.out.file.fd = -1};
    tarn__buf_init(&a->name, 2 * TARN_MAX_NAME + 2);
    TARN__OPTIONS(tarn_tar_writer_options, taken, TARN_TAR_WRITER_OPTIONS_INIT, options,
                  err);
    TARN__OPTIONS(tarn_sink_options, sink, TARN_SINK_OPTIONS_INIT, taken.sink, err);
    if (taken.names == TARN_NAMES_AUTO) taken.names = names;
    a->given_sink = taken.sink;
    taken.sink = NULL;
    a->options = taken;
    a->sink = sink;
    return tarn__composer_init(&a->composer, &a->options, err);
}

void tarn__archive_reset(tarn__archive *a)
{
    tarn__out_reset(&a->out);
    tarn__composer_reset(&a->composer);
    tarn__buf_reset(&a->name);
}

/* A new file, or one to be replaced, on a local path without compression. The sink
 * decides about devices, pipes and links. */
static bool is_plain_file(const char *url, const tarn_sink_options *o)
{
    struct stat st;
    if (o->calls || tarn__url_scheme(url) || strcmp(url, "-") == 0) return false;
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
    if (is_plain_file(url, options))
        return tarn__out_file(&a->out, url, options, a->swept, err);
    tarn_sink *sink;
    TARN_TRY(tarn_sink_open(url, options, &sink, err));
    return tarn__out_sink(&a->out, sink, err);
}

/* Sets a->name to "key.field" as the member's name; without a key, to the field alone. */
static tarn_status set_name(tarn__archive *a, const char *key, size_t key_len,
                            const char *field, tarn_error *err)
{
    size_t len = strlen(field);
    a->name.size = 0;
    if (!key) return tarn__buf_add(&a->name, field, len, err);
    TARN_TRY(tarn__buf_reserve(&a->name, key_len + len + 1, err));
    memcpy(a->name.data, key, key_len);
    a->name.data[key_len] = '.';
    memcpy(a->name.data + key_len + 1, field, len);
    a->name.size = key_len + 1 + len;
    return TARN_OK;
}

/* The number of bytes that the member a->name would add. */
static tarn_status cost_of(tarn__archive *a, uint64_t size, uint64_t *out,
                           tarn_error *err)
{
    TARN_TRY(
        tarn__compose_size(&a->composer, a->name.data, a->name.size, size, out, err));
    *out += size + tarn__block_padding(size);
    return TARN_OK;
}

/* A failure while bytes are written leaves a gap, after which nothing more can be
 * written. */
static tarn_status broken_if(tarn__archive *a, tarn_status status)
{
    if (status != TARN_OK) a->broken = true;
    return status;
}

static tarn_status put_member(tarn__archive *a, const void *data, size_t size,
                              uint64_t *out_offset, tarn_error *err)
{
    TARN_TRY(tarn__compose(&a->composer, a->name.data, a->name.size, size, &a->out,
                           out_offset, err));
    TARN_TRY(tarn__out_write(&a->out, data, size, err));
    return tarn__out_zeros(&a->out, tarn__block_padding(size), err);
}

/* Adds the member a->name. *out_offset is the offset of its own header. */
static tarn_status add_member(tarn__archive *a, const void *data, size_t size,
                              uint64_t *out_offset, tarn_error *err)
{
    return broken_if(a, put_member(a, data, size, out_offset, err));
}

tarn_status tarn__archive_finish(tarn__archive *a, int64_t *out_mtime_ns, tarn_error *err)
{
    tarn_status status = TARN_OK;
    if (a->broken)
        status = tarn__fail(err, TARN_ERR_IO, "an earlier write failed; nothing is kept");
    if (status == TARN_OK)
        status = tarn__out_zeros(&a->out, tarn__end_size(tarn__out_size(&a->out)), err);
    if (status != TARN_OK) {
        tarn__out_abandon(&a->out);
        return status;
    }
    return tarn__out_finish(&a->out, out_mtime_ns, err);
}

/* --- Files as members -------------------------------------------------------------- */

static tarn_status stat_file(const char *path, uint64_t *out_size, tarn_error *err)
{
    struct stat st;
    if (stat(path, &st) != 0) return tarn__fail_errno(err, path, errno, "cannot stat");
    if (!S_ISREG(st.st_mode))
        return tarn__fail_at(err, TARN_ERR_UNSUPPORTED, path, TARN_NO_OFFSET,
                             "not a regular file");
    *out_size = (uint64_t)st.st_size;
    return TARN_OK;
}

/* Reads exactly size bytes of fd into the archive. */
static tarn_status copy_bytes(tarn__archive *a, int fd, const char *path, uint64_t size,
                              uint32_t *crc, tarn_error *err)
{
    for (uint64_t left = size; left;) {
        unsigned char *space;
        size_t len;
        TARN_TRY(broken_if(a, tarn__out_space(&a->out, &space, &len, err)));
        if (len > left) len = (size_t)left;
        ssize_t got = read(fd, space, len);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return tarn__fail_errno(err, path, errno, "cannot read");
        if (got == 0)
            return tarn__fail_at(err, TARN_ERR_TRUNCATED, path, size - left,
                                 "the file was truncated while it was read");
        *crc = tarn__crc32c(*crc, space, (size_t)got);
        a->out.used += (size_t)got;
        left -= (uint64_t)got;
    }
    return TARN_OK;
}

/* Some files have more bytes than their size says (in /proc, for example); only reading
 * finds them. */
static tarn_status check_end(int fd, const char *path, uint64_t size, tarn_error *err)
{
    unsigned char more;
    ssize_t got;
    do
        got = read(fd, &more, 1);
    while (got < 0 && errno == EINTR);
    if (got < 0) return tarn__fail_errno(err, path, errno, "cannot read");
    if (got == 0) return TARN_OK;
    return tarn__fail_at(
        err, TARN_ERR_STALE, path, size,
        "the file has more bytes than its reported size; it changed while "
        "it was read, or its size is unavailable");
}

static tarn_status copy_file(tarn__archive *a, const char *path, tarn__planned *m,
                             tarn_error *err)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return tarn__fail_errno(err, path, errno, "cannot open");
    tarn_status status = copy_bytes(a, fd, path, m->size, &m->crc, err);
    if (status == TARN_OK) status = check_end(fd, path, m->size, err);
    close(fd);
    return status;
}

/* --- Samples ----------------------------------------------------------------------- */

/* By name as bytes, which for UTF-8 is the order of code points. */
static int compare_members(const void *left, const void *right, void *fields)
{
    const tarn__planned *a = left, *b = right;
    const tarn_field *f = fields;
    return strcmp(f[a->field].name, f[b->field].name);
}

static void sort_members(tarn__planned *members, const tarn_field *fields, size_t count)
{
    enum { FEW = 8 };
    if (count > FEW) {
        qsort_r(members, count, sizeof *members, compare_members,
                (void *)(uintptr_t)fields);
        return;
    }
    for (size_t i = 1; i < count; i++)
        for (size_t k = i; k && strcmp(fields[members[k].field].name,
                                       fields[members[k - 1].field].name) < 0;
             k--) {
            tarn__planned swap = members[k];
            members[k] = members[k - 1];
            members[k - 1] = swap;
        }
}

static tarn_status plan_field(tarn__sample_plan *plan, tarn__archive *a, const char *key,
                              const tarn_field *field, tarn__planned *member,
                              tarn_error *err)
{
    uint64_t cost;
    TARN__NEED(err, "name", field->name);
    TARN__NEED(err, "data", field->data || field->path || !field->size);
    member->size = field->size;
    if (field->path) TARN_TRY(stat_file(field->path, &member->size, err));
    TARN_TRY(set_name(a, key, plan->key_len, field->name, err));
    TARN_TRY(cost_of(a, member->size, &cost, err));
    if (!tarn__add(plan->bytes, cost, &plan->bytes))
        return tarn__fail(err, TARN_ERR_LIMIT, "the sample has more than 2^64 bytes");
    plan->payload += member->size;
    return TARN_OK;
}

tarn_status tarn__plan_sample(tarn__sample_plan *plan, tarn__archive *a, const char *key,
                              const tarn_field *fields, size_t count, tarn_error *err)
{
    const tarn_tar_writer_options *options = &a->options;
    plan->key_len = key ? strlen(key) : 0;
    plan->bytes = plan->payload = 0;
    if (key) TARN_TRY(tarn__check_key(options->rules, key, plan->key_len, err));
    if (key) TARN_TRY(tarn__check_fields(options->rules, key, fields, count, err));
    while (plan->capacity < count)
        TARN_TRY(tarn__grow(&plan->members, sizeof *plan->members, plan->capacity,
                            &plan->capacity, err));
    for (size_t i = 0; i < count; i++) {
        plan->members[i] = (tarn__planned){.field = (uint32_t)i};
        TARN_TRY(plan_field(plan, a, key, &fields[i], &plan->members[i], err));
    }
    if (!options->keep_order) sort_members(plan->members, fields, count);
    return TARN_OK;
}

static tarn_status write_field(tarn__archive *a, const tarn_field *field,
                               tarn__planned *m, tarn_error *err)
{
    if (!field->path) {
        m->crc = tarn__crc32c(0, field->data, field->size);
        return add_member(a, field->data, field->size, &m->offset, err);
    }
    m->crc = 0;
    TARN_TRY(broken_if(a, tarn__compose(&a->composer, a->name.data, a->name.size, m->size,
                                        &a->out, &m->offset, err)));
    TARN_TRY(copy_file(a, field->path, m, err));
    return broken_if(a, tarn__out_zeros(&a->out, tarn__block_padding(m->size), err));
}

static tarn_status write_fields(tarn__archive *a, tarn__sample_plan *plan,
                                const char *key, const tarn_field *fields, size_t count,
                                tarn_error *err)
{
    for (size_t i = 0; i < count; i++) {
        tarn__planned *m = &plan->members[i];
        const tarn_field *f = &fields[m->field];
        TARN_TRY(set_name(a, key, plan->key_len, f->name, err));
        TARN_TRY(write_field(a, f, m, err));
    }
    return TARN_OK;
}

tarn_status tarn__write_sample(tarn__archive *a, tarn__sample_plan *plan, const char *key,
                               const tarn_field *fields, size_t count, tarn_error *err)
{
    uint64_t size = tarn__out_size(&a->out), digest = a->composer.digest;
    tarn_status status = write_fields(a, plan, key, fields, count, err);
    if (status == TARN_OK || a->broken) return status;
    /* A file could not be read: remove what was written of the sample. */
    a->composer.digest = digest;
    if (tarn__out_rewind(&a->out, size, NULL) != TARN_OK) a->broken = true;
    return status;
}

tarn_status tarn__check_unbroken(const tarn__archive *a, tarn_error *err)
{
    if (!a->broken) return TARN_OK;
    return tarn__fail(err, TARN_ERR_IO,
                      "an earlier write failed; this writer can only be abandoned");
}
