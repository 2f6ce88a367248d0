/* tarn_pack: chooses how the sources are packed, by their kinds and the target's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tarn/codec.h>

#include "base/error.h"
#include "base/options.h"
#include "base/text.h"
#include "io/manifest.h"
#include "itar/collection.h"
#include "pack/output.h"
#include "pack/records.h"

typedef struct packing {
    const char *const *sources;
    size_t count;
    tarn__pack_output out;
    tarn__collection *c; /* the files, if files are packed */
    tarn_pack_report report;
} packing;

/* A URL or a list of URLs may fail with ENAMETOOLONG. */
static tarn_status is_folder(const char *path, bool *out, tarn_error *err)
{
    struct stat st;
    *out = false;
    if (stat(path, &st) == 0)
        *out = S_ISDIR(st.st_mode);
    else if (errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG)
        return tarn__fail_errno(err, path, errno, "cannot stat");
    return TARN_OK;
}

/* --- Class names -------------------------------------------------------------------- */

/* Class numbers are useless without the names. classes.txt has one name on each line. */
static tarn_status classes_path(const char *folder, tarn__buf *out, tarn_error *err)
{
    static const char name[] = "/classes.txt";
    TARN_TRY(tarn__buf_add(out, folder, strlen(folder), err));
    return tarn__buf_add(out, name, sizeof name, err);
}

static tarn_status add_classes(packing *p, const tarn__contents *text, tarn_error *err)
{
    const char *at = (const char *)text->data, *end = at + text->size;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((stop ? stop : end) - at);
        size_t name = len && at[len - 1] == '\r' ? len - 1 : len;
        if (name) TARN_TRY(tarn__collection_add_class(p->c, at, name, err));
        at += len + 1;
    }
    return TARN_OK;
}

/* Classes keep the numbers they have in existing folds. */
static tarn_status read_classes(packing *p, const char *path, tarn_error *err)
{
    tarn__contents text;
    if (access(path, F_OK) != 0) return TARN_OK;
    TARN_TRY(tarn__contents_open(&text, path, err));
    tarn_status status = add_classes(p, &text, err);
    tarn__contents_close(&text);
    if (status != TARN_OK) tarn__error_place(err, path, TARN_NO_OFFSET);
    return status;
}

static tarn_status write_classes(packing *p, const char *path, tarn_error *err)
{
    const tarn__names *names = &p->c->classes;
    tarn_sink_options o = TARN_SINK_OPTIONS_INIT;
    tarn_sink *sink;
    o.overwrite = true;
    TARN_TRY(tarn_sink_open(path, &o, &sink, err));
    tarn_status status = TARN_OK;
    for (size_t i = 0; status == TARN_OK && i < names->count; i++) {
        tarn__name name = tarn__names_get(names, i);
        status = tarn_sink_write(sink, name.data, name.size, err);
        if (status == TARN_OK) status = tarn_sink_write(sink, "\n", 1, err);
    }
    if (status == TARN_OK) return tarn_sink_finish(sink, err);
    tarn_sink_abandon(sink);
    return status;
}

static tarn_status with_classes(packing *p, const char *folder,
                                tarn_status (*act)(packing *, const char *, tarn_error *),
                                tarn_error *err)
{
    tarn__buf path;
    if (!p->out.options.class_from_dir || !folder) return TARN_OK;
    tarn__buf_init(&path, SIZE_MAX / 2);
    tarn_status status = classes_path(folder, &path, err);
    if (status == TARN_OK) status = act(p, path.data, err);
    tarn__buf_reset(&path);
    return status;
}

/* --- Files -------------------------------------------------------------------------- */

static tarn_status add_source(packing *p, const char *source, tarn_error *err)
{
    bool folder;
    TARN_TRY(is_folder(source, &folder, err));
    if (folder) return tarn__collection_add_folder(p->c, source, err);
    if (tarn__is_manifest(source))
        return tarn__collection_add_manifest(p->c, source, err);
    return tarn__collection_add_file(p->c, source, err);
}

static bool has_globs(const tarn_pack_options *o)
{
    return o->n_include || o->n_exclude;
}

static tarn__globs globs_of(const tarn_pack_options *o)
{
    return (tarn__globs){o->include, o->exclude, o->n_include, o->n_exclude};
}

static tarn_status fail_globs(const packing *p, tarn_error *err)
{
    return tarn__fail(err, TARN_ERR_USAGE,
                      "include and exclude apply to files in folders; %s is not a folder",
                      p->sources[0]);
}

/* A field without a codec is valid as it is. */
static tarn_status decode_field(const char *field, const void *data, size_t size,
                                tarn_error *err)
{
    tarn_value value = TARN_VALUE_INIT;
    TARN_TRY(tarn_decode(field, data, size, NULL, &value, err));
    tarn_value_release(&value);
    return TARN_OK;
}

static tarn_status fail_empty(const packing *p, tarn_error *err)
{
    const tarn_pack_options *o = &p->out.options;
    bool chosen = has_globs(o);
    return tarn__fail_at(
        err, TARN_ERR_NOT_FOUND, p->sources[0], TARN_NO_OFFSET, "no samples found%s%s",
        chosen ? "; no file matches the patterns of include and exclude" : "",
        o->class_from_dir && !chosen
            ? "; class_from_dir needs files in sub-folders of the source"
            : "");
}

/* Whether a field has this name, or has it as its last dotted part. */
static bool has_field(const tarn__names *fields, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < fields->count; i++) {
        tarn__name f = tarn__names_get(fields, i);
        if (f.size < n || memcmp(f.data + f.size - n, name, n) != 0) continue;
        if (f.size == n || f.data[f.size - n - 1] == '.') return true;
    }
    return false;
}

/* A new name that no field got is a mistake in the old ones. */
static tarn_status check_renamed(const packing *p, tarn_error *err)
{
    const tarn_pack_options *o = &p->out.options;
    for (size_t i = 0; i < o->n_renames; i++)
        if (!has_field(&p->c->fields, o->renames[i].to))
            return tarn__fail(err, TARN_ERR_NOT_FOUND,
                              "rename: no file has a field %s, so none becomes %s",
                              o->renames[i].from, o->renames[i].to);
    return TARN_OK;
}

/* The part of a task: a range of all samples, in their order. */
static tarn_status take_part(packing *p, tarn_error *err)
{
    uint64_t first, end;
    if (!p->out.options.tasks) return TARN_OK;
    tarn__pack_output_part(&p->out, p->c->n_samples, &first, &end);
    return tarn__collection_slice(p->c, (size_t)first, (size_t)end, err);
}

static tarn_status collect_files(packing *p, tarn_error *err)
{
    const tarn_pack_options *o = &p->out.options;
    tarn__collection_options c = {.keys = o->keys,
                                  .class_from_dir = o->class_from_dir,
                                  .class_level = o->class_level,
                                  .root = o->manifest_root,
                                  .globs = globs_of(o),
                                  .renames = o->renames,
                                  .n_renames = o->n_renames,
                                  .check = o->check ? decode_field : NULL,
                                  .skip_bad = o->check == TARN_CHECK_SKIP,
                                  .notice = o->notice,
                                  .notice_context = o->notice_context,
                                  .output =
                                      p->out.folder ? p->out.folder : p->out.target};
    TARN_TRY(tarn__collection_new(&c, &p->c, err));
    TARN_TRY(with_classes(p, p->out.folder, read_classes, err));
    for (size_t i = 0; i < p->count; i++)
        TARN_TRY(add_source(p, p->sources[i], err));
    TARN_TRY(tarn__collection_group(p->c, err));
    TARN_TRY(tarn__collection_split(p->c, p->out.fractions, o->n_splits, o->seed, err));
    if (o->shuffle) TARN_TRY(tarn__collection_shuffle(p->c, o->shuffle_seed, err));
    if (!p->c->n_samples) return fail_empty(p, err);
    TARN_TRY(check_renamed(p, err));
    TARN_TRY(tarn__pack_begin_files(&p->out, p->sources, p->count, p->c, err));
    return take_part(p, err);
}

static tarn_status count_sample(void *context, unsigned part, const char *key,
                                const tarn_field *fields, size_t count, tarn_error *err)
{
    packing *p = context;
    const tarn_pack_options *o = &p->out.options;
    p->out.written[part].samples++;
    p->out.written[part].members += count;
    return o->sample ? o->sample(o->sample_context, part, key, fields, count, err)
                     : TARN_OK;
}

static int on_progress(void *context, uint64_t done, uint64_t total)
{
    const packing *p = context;
    const tarn_pack_options *o = &p->out.options;
    return o->progress(o->progress_context, done, total,
                       tarn__pack_output_bytes(&p->out));
}

static tarn_walk_options walk_options(packing *p)
{
    const tarn_pack_options *o = &p->out.options;
    tarn_walk_options w = TARN_WALK_OPTIONS_INIT;
    w.threads = o->threads;
    w.progress = o->progress ? on_progress : NULL;
    w.progress_context = p;
    return w;
}

static tarn_status check_only(void *context, unsigned part, const char *key,
                              const tarn_field *fields, size_t count, tarn_error *err)
{
    (void)context, (void)part, (void)key, (void)fields, (void)count, (void)err;
    return TARN_OK;
}

/* Reads all files once, so that nothing is written if one of them is bad. */
static tarn_status check_files(packing *p, tarn_error *err)
{
    tarn_walk_options w = walk_options(p);
    TARN_TRY(tarn__collection_walk(p->c, &w, check_only, NULL, err));
    p->c->options.check = NULL;
    return TARN_OK;
}

/* Resuming needs the numbers of the classes. So if shards are kept after a failure, the
 * classes are written first; otherwise last, so that a failure leaves nothing. */
static tarn_status write_files(packing *p, tarn_error *err)
{
    const tarn_pack_options *o = &p->out.options;
    bool early = o->keep_finished || p->out.writer.resume;
    tarn_walk_options w = walk_options(p);
    TARN_TRY(tarn__pack_output_open(&p->out, err));
    TARN_TRY(tarn__collection_filter(p->c, tarn__pack_output_keep, &p->out, err));
    if (o->check == TARN_CHECK_STOP) TARN_TRY(check_files(p, err));
    if (early) TARN_TRY(with_classes(p, p->out.place, write_classes, err));
    TARN_TRY(tarn__collection_walk(p->c, &w, tarn__pack_output_write, &p->out, err));
    if (!early) TARN_TRY(with_classes(p, p->out.place, write_classes, err));
    return tarn__pack_output_finish(&p->out, err);
}

/* Lists the samples. Files are read only to check them. */
static tarn_status count_files(packing *p, tarn_error *err)
{
    tarn_walk_options w = walk_options(p);
    if (!p->out.options.check) return tarn__collection_list(p->c, count_sample, p, err);
    return tarn__collection_walk(p->c, &w, count_sample, p, err);
}

static tarn_status pack_files(packing *p, tarn_error *err)
{
    tarn_status status = collect_files(p, err);
    if (status == TARN_OK)
        status = p->out.options.dry_run ? count_files(p, err) : write_files(p, err);
    if (!p->c) return status;
    p->report.bad = p->c->bad;
    p->report.files = p->c->files;
    p->report.values = p->c->values;
    p->report.skipped = p->c->skipped;
    p->report.fields = (uint32_t)p->c->fields.count;
    p->report.classes = (uint32_t)p->c->classes.count;
    tarn__collection_free(p->c);
    return status;
}

/* --- Streams, feeds and records ----------------------------------------------------- */

/* The caller may still stop before anything is published. */
static tarn_status finish_output(packing *p, tarn_error *err)
{
    uint64_t samples = p->out.samples;
    if (p->out.options.progress && on_progress(p, samples, samples))
        return tarn__fail(err, TARN_ERR_CANCELLED, "stopped");
    return tarn__pack_output_finish(&p->out, err);
}

static tarn_status pack_streams(packing *p, tarn_error *err)
{
    const tarn_pack_options *o = &p->out.options;
    if (o->class_from_dir || o->shuffle || o->dry_run || o->check || o->n_renames)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "class_from_dir, shuffle, dry_run, check and rename need files "
                          "as sources, not tar streams");
    TARN_TRY(tarn__pack_streams(&p->out, p->sources, p->count, err));
    return finish_output(p, err);
}

static tarn_status pack_feed(packing *p, tarn_error *err)
{
    const tarn_pack_options *o = &p->out.options;
    TARN_TRY(tarn__pack_begin_feed(&p->out, err));
    TARN_TRY(tarn__pack_output_open(&p->out, err));
    TARN_TRY(o->feed(o->feed_context, &p->out, err));
    return finish_output(p, err);
}

static int on_record(void *context, uint64_t done, uint64_t total, uint64_t bytes)
{
    packing *p = context;
    const tarn_pack_options *o = &p->out.options;
    p->out.written[0].payload = bytes;
    return o->progress ? o->progress(o->progress_context, done, total, bytes) : 0;
}

static tarn_status pack_records(packing *p, tarn_error *err)
{
    const tarn_pack_options *o = &p->out.options;
    bool folder;
    if (o->shuffle || o->dry_run || o->class_from_dir || o->number || o->feed ||
        o->check || o->n_renames || o->keys != TARN_KEYS_BASE || p->count != 1)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "%s: an IAC file is made from one folder or manifest, without "
                          "options for samples",
                          p->out.target);
    tarn_iac_write_options usual = TARN_IAC_WRITE_OPTIONS_INIT;
    usual.overwrite = p->out.writer.overwrite;
    usual.no_sync = p->out.writer.no_sync || p->out.sink.no_sync;
    tarn__records_options records = {o->records ? o->records : &usual,
                                     globs_of(o),
                                     o->types,
                                     o->n_types,
                                     o->manifest_root,
                                     on_record,
                                     p};
    TARN_TRY(is_folder(p->sources[0], &folder, err));
    if (!folder && has_globs(o)) return fail_globs(p, err);
    return (folder ? tarn__records_from_folder : tarn__records_from_manifest)(
        p->out.target, p->sources[0], &records, &p->out.written[0].samples, err);
}

static tarn_status pack_sources(packing *p, tarn_error *err)
{
    size_t archives = 0, files = 0;
    if (p->out.target && p->out.kind == TARN_TARGET_RECORDS) return pack_records(p, err);
    if (p->out.options.n_types)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "types are for the columns of record packs (x.iac)");
    if (p->out.options.feed) return pack_feed(p, err);
    for (size_t i = 0; i < p->count; i++) {
        bool folder;
        TARN_TRY(is_folder(p->sources[i], &folder, err));
        archives += !folder && tarn__is_archive(p->sources[i]);
        files += folder ||
                 (!tarn__is_manifest(p->sources[i]) && !tarn__is_archive(p->sources[i]));
    }
    if (!files && has_globs(&p->out.options)) return fail_globs(p, err);
    if (archives && archives < p->count)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "cannot pack tar archives and other files in one call");
    if (archives) return pack_streams(p, err);
    const tarn_pack_options *o = &p->out.options;
    if (o->number || o->samples || o->first || o->end != UINT64_MAX)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "selecting samples by key or number needs tar streams as "
                          "sources, not files");
    return pack_files(p, err);
}

/* --- The call ----------------------------------------------------------------------- */

static tarn_status check_texts(const char *what, const char *const *texts, size_t count,
                               tarn_error *err)
{
    for (size_t i = 0; i < count; i++)
        if (!texts || !texts[i] || !*texts[i])
            return tarn__fail(err, TARN_ERR_USAGE, "%s: pattern number %zu is empty",
                              what, i);
    return TARN_OK;
}

/* Fields are in lower case when they are renamed. */
static tarn_status check_renames(const tarn_pack_options *o, tarn_error *err)
{
    for (size_t i = 0; i < o->n_renames; i++) {
        const tarn_pack_rename *r = o->renames ? &o->renames[i] : NULL;
        if (!r || !r->from || !r->to || !*r->from || !*r->to)
            return tarn__fail(err, TARN_ERR_USAGE, "rename: name number %zu is empty", i);
        for (const char *at = r->from; *at; at++)
            if (*at >= 'A' && *at <= 'Z')
                return tarn__fail(err, TARN_ERR_USAGE,
                                  "rename: fields are in lower case, so %s never occurs",
                                  r->from);
        if (strpbrk(r->to, "/\n") || *r->to == '.' || tarn__ends_with(r->to, "."))
            return tarn__fail(err, TARN_ERR_USAGE,
                              "rename: %s is not the name of a field", r->to);
    }
    return TARN_OK;
}

static tarn_status check_arguments(const packing *p, const char *target,
                                   const tarn_pack_options *o, tarn_error *err)
{
    for (size_t i = 0; i < p->count; i++)
        if (!p->sources[i])
            return tarn__fail(err, TARN_ERR_USAGE, "source number %zu is NULL", i);
    if (!p->count != (o->feed != NULL))
        return tarn__fail(err, TARN_ERR_USAGE, "%s",
                          p->count ? "use sources or feed, not both"
                                   : "at least one source is needed");
    if (o->n_splits && !o->splits)
        return tarn__fail(err, TARN_ERR_USAGE, "splits is NULL");
    if (o->class_level && !o->class_from_dir)
        return tarn__fail(err, TARN_ERR_USAGE, "class_level needs class_from_dir");
    TARN_TRY(check_texts("include", o->include, o->n_include, err));
    TARN_TRY(check_texts("exclude", o->exclude, o->n_exclude, err));
    TARN_TRY(check_renames(o, err));
    if (!target && !o->dry_run)
        return tarn__fail(err, TARN_ERR_USAGE, "a target is needed");
    if (target && !*target) return tarn__fail(err, TARN_ERR_USAGE, "the target is empty");
    if (target && tarn__ends_with(target, ".gnz"))
        return tarn__fail(err, TARN_ERR_USAGE,
                          "%s: array files are made from arrays (tarn/gnz.h), not from "
                          "samples",
                          target);
    return TARN_OK;
}

static void fill_report(packing *p, tarn_pack_report *out, size_t size)
{
    const tarn__pack_output *o = &p->out;
    tarn_pack_report *r = &p->report;
    r->skipped += o->skipped;
    r->kept = o->kept;
    r->folder_len = o->folder ? strlen(o->folder) : o->target ? strlen(o->target) : 0;
    r->n_folds = o->count;
    for (size_t i = 0; i < o->count; i++) {
        bool folds = !o->target || o->kind == TARN_TARGET_FOLDER;
        const tarn_written *w = &o->written[i];
        r->folds[i] = (tarn_pack_fold){folds ? o->names[i] : NULL,
                                       w->samples,
                                       w->members,
                                       w->payload,
                                       w->bytes,
                                       w->shards};
    }
    TARN__FILL_OUT(out, size, *r);
}

TARN__DEFINE_INIT(tarn_pack_options, TARN_PACK_OPTIONS_INIT)

tarn_status tarn_pack(const char *const *sources, size_t count, const char *target,
                      const tarn_pack_options *options, tarn_pack_report *out,
                      size_t size, tarn_error *err)
{
    TARN__NEED(err, "sources", sources || !count);
    TARN__OPTIONS(tarn_pack_options, taken, TARN_PACK_OPTIONS_INIT, options, err);
    packing p = {.sources = sources, .count = count};
    tarn_status status = check_arguments(&p, target, &taken, err);
    if (status == TARN_OK) status = tarn__pack_output_init(&p.out, target, &taken, err);
    if (status == TARN_OK) status = pack_sources(&p, err);
    p.report.existed = status == TARN_END;
    if (status == TARN_END) status = TARN_OK;
    if (status != TARN_OK) tarn__pack_output_stop(&p.out);
    if (out) fill_report(&p, out, size);
    tarn__pack_output_reset(&p.out);
    return status;
}
