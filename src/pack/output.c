/* Opens a target, writes samples to it, and publishes it. */
#include "pack/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <tarn/commit.h>

#include "base/error.h"
#include "base/names.h"
#include "base/options.h"
#include "base/text.h"
#include "itar/chance.h"
#include "itar/writer.h"

/* --- Kinds of target ---------------------------------------------------------------- */

static bool is_archive_target(const char *target)
{
    static const char *const endings[] = {".tar",     ".tar.gz", ".tgz",     ".tar.bz2",
                                          ".tbz2",    ".tbz",    ".tar.xz",  ".txz",
                                          ".tar.zst", ".tzst",   ".tar.zstd"};
    if (strcmp(target, "-") == 0 || strncmp(target, "pipe:", 5) == 0) return true;
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
        if (tarn__ends_with(target, endings[i])) return true;
    return false;
}

static bool has_number(const char *target)
{
    for (const char *at = strchr(target, '%'); at; at = strchr(at + 2, '%')) {
        if (at[1] != '%') return true;
        if (!at[2]) break;
    }
    return false;
}

tarn_target tarn_target_kind(const char *target)
{
    if (!target) return TARN_TARGET_FOLDER;
    if (tarn__ends_with(target, ".iac")) return TARN_TARGET_RECORDS;
    if (has_number(target)) return TARN_TARGET_SHARDS;
    return is_archive_target(target) ? TARN_TARGET_ARCHIVE : TARN_TARGET_FOLDER;
}

/* --- Names and conflicts ------------------------------------------------------------ */

/* Splits "DIR:FOLD", unless that is the name of an existing file or folder. */
static tarn_status split_target(tarn__pack_output *o, tarn_error *err)
{
    struct stat st;
    const char *colon = strrchr(o->target, ':');
    bool cut =
        colon && colon != o->target && !strchr(colon, '/') && stat(o->target, &st) != 0;
    if (strstr(o->target, "://") && !o->options.tasks)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "%s: a URL is a folder only for tasks (task 0 of 1, and then a "
                          "commit); use x_%%06d.tar for shards or x.tar for one archive",
                          o->target);
    if (strstr(o->target, ".tar."))
        return tarn__fail(
            err, TARN_ERR_USAGE,
            "%s: unknown kind of archive (expected .tar, .tar.gz, .tar.bz2, "
            ".tar.xz or .tar.zst)",
            o->target);
    if (cut && (o->count > 1 || o->options.fold))
        return tarn__fail(err, TARN_ERR_USAGE,
                          "%s: the target names a fold, but the options name folds, too",
                          o->target);
    if (cut) o->names[0] = colon + 1;
    o->folder = strndup(o->target, cut ? (size_t)(colon - o->target) : strlen(o->target));
    return o->folder ? TARN_OK : tarn__fail_memory(err);
}

static tarn_status check_task(const tarn__pack_output *o, tarn_error *err)
{
    const tarn_fold_writer_options *w = &o->writer;
    if (!o->options.tasks && !o->options.task) return TARN_OK;
    if (o->kind != TARN_TARGET_FOLDER)
        return tarn__fail(
            err, TARN_ERR_USAGE,
            "%s: tasks need a folder as target, which is committed when all "
            "are complete",
            o->target);
    if (w->append || w->overwrite || w->resume)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "append, overwrite and resume do not apply to a task: give "
                          "append or overwrite to the commit (tarn commit --append); a "
                          "task that was interrupted "
                          "starts again");
    if (o->options.task < o->options.tasks && o->options.tasks <= TARN_MAX_TASKS)
        return TARN_OK;
    return tarn__fail(err, TARN_ERR_USAGE,
                      "task %u of %u: tasks are numbered from 0, and there can be %u",
                      o->options.task, o->options.tasks, TARN_MAX_TASKS);
}

static tarn_status check_folds(const tarn__pack_output *o, tarn_error *err)
{
    const tarn_fold_writer_options *w = &o->writer;
    if (w->overwrite && (w->append || w->resume))
        return tarn__fail(err, TARN_ERR_USAGE,
                          "overwrite cannot be combined with append or resume");
    if (o->sink.level)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "the shards of a fold are not compressed; use level with a "
                          "compressed target such as x.tar.gz");
    return TARN_OK;
}

static tarn_status check_archives(const tarn__pack_output *o, tarn_error *err)
{
    static const tarn_fold_writer_options usual = TARN_FOLD_WRITER_OPTIONS_INIT;
    const tarn_fold_writer_options *w = &o->writer;
    if (o->count > 1 || o->options.fold || w->append || w->resume)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "%s: folds, append and resume need a folder as target",
                          o->target);
    if (o->kind != TARN_TARGET_SHARDS &&
        (w->max_count != usual.max_count || w->max_size != usual.max_size))
        return tarn__fail(err, TARN_ERR_USAGE, "%s is one %s; use x_%%06d.tar for shards",
                          o->target, o->kind == TARN_TARGET_ARCHIVE ? "archive" : "file");
    return TARN_OK;
}

static tarn_status take_splits(tarn__pack_output *o, tarn_error *err)
{
    const tarn_pack_options *p = &o->options;
    if (p->n_splits >= TARN_PACK_MAX_FOLDS)
        return tarn__fail(err, TARN_ERR_LIMIT, "too many folds: %zu (limit %d)",
                          p->n_splits + 1, TARN_PACK_MAX_FOLDS);
    o->names[0] = p->fold ? p->fold : "train";
    o->count = 1 + p->n_splits;
    for (size_t i = 0; i < p->n_splits; i++) {
        if (!p->splits[i].fold)
            return tarn__fail(err, TARN_ERR_USAGE, "a split has no fold name");
        o->names[i + 1] = p->splits[i].fold;
        o->fractions[i] = p->splits[i].fraction;
        for (size_t k = 0; k <= i; k++)
            if (strcmp(o->names[k], o->names[i + 1]) == 0)
                return tarn__fail(err, TARN_ERR_USAGE, "fold %s is named twice",
                                  o->names[k]);
    }
    return tarn__check_fractions(o->fractions, p->n_splits, err);
}

tarn_status tarn__pack_output_init(tarn__pack_output *o, const char *target,
                                   const tarn_pack_options *options, tarn_error *err)
{
    TARN__OPTIONS(tarn_fold_writer_options, writer, TARN_FOLD_WRITER_OPTIONS_INIT,
                  options->writer, err);
    TARN__OPTIONS(tarn_tar_writer_options, members, TARN_TAR_WRITER_OPTIONS_INIT,
                  writer.writer, err);
    TARN__OPTIONS(tarn_sink_options, sink, TARN_SINK_OPTIONS_INIT, members.sink, err);
    *o = (tarn__pack_output){.options = *options,
                             .writer = writer,
                             .members = members,
                             .sink = sink,
                             .target = target,
                             .task = {.lock = -1},
                             .seen = {.numbered = true}};
    tarn__buf_init(&o->flat, TARN_MAX_NAME);
    o->writer.exact_fields = true; /* the names of sources were already split */
    if (options->threads) o->writer.threads = options->threads;
    TARN_TRY(take_splits(o, err));
    if (!target) return TARN_OK;
    o->kind = tarn_target_kind(target);
    TARN_TRY(check_task(o, err));
    if (o->kind != TARN_TARGET_FOLDER) return check_archives(o, err);
    TARN_TRY(check_folds(o, err));
    TARN_TRY(split_target(o, err));
    o->place = o->folder;
    return TARN_OK;
}

void tarn__pack_output_reset(tarn__pack_output *o)
{
    free(o->folder);
    free(o->fields);
    tarn__hashes_reset(&o->seen);
    tarn__buf_reset(&o->flat);
}

/* --- Opening ------------------------------------------------------------------------ */

tarn_status tarn__pack_output_begin(tarn__pack_output *o, const tarn__job_id *job,
                                    tarn_error *err)
{
    o->options.keep_finished = false; /* a part appears complete or not at all */
    tarn_status status =
        tarn__task_begin(&o->task, o->folder, o->names[0], o->options.task,
                         o->options.tasks, job, o->writer.no_sync, err);
    if (status == TARN_END) tarn__task_abandon(&o->task);
    if (status != TARN_OK) return status;
    o->place = o->task.folder;
    return TARN_OK;
}

void tarn__pack_output_part(const tarn__pack_output *o, uint64_t n, uint64_t *out_first,
                            uint64_t *out_end)
{
    uint64_t tasks = o->options.tasks, task = o->options.task;
    *out_first = tasks ? n / tasks * task + n % tasks * task / tasks : 0;
    *out_end = tasks ? n / tasks * (task + 1) + n % tasks * (task + 1) / tasks : n;
}

tarn_status tarn__pack_output_open(tarn__pack_output *o, tarn_error *err)
{
    if (o->kind == TARN_TARGET_FOLDER) {
        o->members.sink = NULL; /* fold writers open their own sinks */
        o->writer.writer = &o->members;
        o->writer.no_sync |= o->sink.no_sync;
        for (size_t i = 0; i < o->count; i++) {
            TARN_TRY(tarn_fold_writer_open(o->place, o->names[i], &o->writer,
                                           &o->folds[i], err));
            if (o->task.url) tarn__writer_send_to(o->folds[i], o->task.url);
            o->complete[i] = o->writer.resume && !o->writer.append &&
                             tarn__writer_found_all(o->folds[i]);
        }
        return TARN_OK;
    }
    o->members.names = TARN_NAMES_PAX; /* only indexes need plain names */
    o->members.sink = &o->sink;
    o->sink.overwrite = o->writer.overwrite;
    o->sink.no_sync |= o->writer.no_sync;
    const tarn_fold_writer_options *w = &o->writer;
    tarn_shard_options s = TARN_SHARD_OPTIONS_INIT;
    s.start = w->start;
    s.max_count = w->max_count;
    s.max_size = w->max_size;
    s.roll = w->roll;
    o->members.shards = o->kind == TARN_TARGET_SHARDS ? &s : NULL;
    return tarn_tar_writer_open(o->target, &o->members, &o->tar, err);
}

/* --- Writing ------------------------------------------------------------------------ */

uint64_t tarn__pack_output_bytes(const tarn__pack_output *o)
{
    uint64_t bytes = o->written[0].payload;
    tarn_written w;
    tarn_tar_writer_written(o->tar, &w, sizeof w);
    bytes += w.payload;
    for (size_t i = 0; i < o->count; i++) {
        if (!o->folds[i]) continue;
        tarn_fold_writer_written(o->folds[i], &w, sizeof w);
        bytes += w.payload;
    }
    return bytes;
}

/* Resuming a run that was completed skips everything. What is new belongs to another run.
 */
static tarn_status refuse_more(const tarn__pack_output *o, unsigned part,
                               const char *what, tarn_error *err)
{
    return tarn__fail_at(
        err, TARN_ERR_EXISTS, o->folder, TARN_NO_OFFSET,
        "fold %s is complete, so there is nothing to resume, but it does "
        "not have %s; use append (--append) to add to it",
        o->names[part], what);
}

static tarn_status write_sample(tarn__pack_output *o, unsigned part, const char *key,
                                const tarn_field *fields, size_t count, tarn_error *err)
{
    if (o->kind == TARN_TARGET_FOLDER && o->complete[part]) {
        char what[160];
        snprintf(what, sizeof what, "sample %s", TARN__SHOW(key, strlen(key)));
        return refuse_more(o, part, what, err);
    }
    if (o->kind == TARN_TARGET_FOLDER)
        return tarn_fold_writer_add(o->folds[part], key, fields, count, err);
    return tarn_tar_writer_add(o->tar, key, fields, count, err);
}

tarn_status tarn__pack_output_write(void *output, unsigned part, const char *key,
                                    const tarn_field *fields, size_t count,
                                    tarn_error *err)
{
    tarn__pack_output *o = output;
    if (part >= o->count)
        return tarn__fail(err, TARN_ERR_USAGE, "no part %u; there are %zu", part,
                          o->count);
    tarn_status status = write_sample(o, part, key, fields, count, err);
    o->samples += status == TARN_OK;
    /* Options were checked before, so a name that cannot be written is an error in the
     * data. */
    if (status != TARN_ERR_USAGE) return status;
    if (err) err->code = TARN_ERR_FORMAT;
    return TARN_ERR_FORMAT;
}

tarn_status tarn__pack_output_keep(void *output, const char *key, unsigned part,
                                   bool *out_keep, tarn_error *err)
{
    tarn__pack_output *o = output;
    bool exists = false;
    if (o->kind == TARN_TARGET_FOLDER && o->writer.resume)
        TARN_TRY(tarn_fold_writer_has(o->folds[part], key, &exists, err));
    *out_keep = !exists;
    return TARN_OK;
}

tarn_status tarn__pack_output_key(tarn__pack_output *o, const char *key, const char **out,
                                  tarn_error *err)
{
    *out = key;
    if (o->kind != TARN_TARGET_FOLDER || !strchr(key, '/')) return TARN_OK;
    o->flat.size = 0;
    TARN_TRY(tarn__buf_add(&o->flat, key, strlen(key) + 1, err));
    for (char *at = o->flat.data; (at = strchr(at, '/'));)
        *at = '-';
    *out = o->flat.data;
    return TARN_OK;
}

/* Counts a skipped member and reports it: "skipped KEY" and why. */
static void skip_member(tarn__pack_output *o, const char *where, const char *key,
                        const char *why)
{
    tarn_error what;
    o->skipped++;
    if (!o->options.notice) return;
    tarn__error_set(&what, TARN_ERR_FORMAT, where, TARN_NO_OFFSET, "skipped %s%s",
                    TARN__SHOW(key, strlen(key)), why);
    o->options.notice(o->options.notice_context, &what);
}

/* Takes the fields that have a name. A file such as LICENSE has none, and cannot be
 * stored in shards. */
static tarn_status take_fields(tarn__pack_output *o, const tarn_field *fields,
                               size_t count, size_t *out_count, tarn_error *err)
{
    *out_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (!fields[i].name[0]) continue;
        TARN_TRY(
            tarn__grow(&o->fields, sizeof *o->fields, *out_count, &o->capacity, err));
        o->fields[(*out_count)++] = fields[i];
    }
    return TARN_OK;
}

/* Checks that a key is new. Folds check their keys themselves. */
static tarn_status check_new(tarn__pack_output *o, const char *key, const char *where,
                             uint32_t origin, tarn_error *err)
{
    bool seen;
    uint32_t first = origin;
    if (o->kind == TARN_TARGET_FOLDER || origin == TARN__NO_ORIGIN) return TARN_OK;
    /* Only hashes are compared. With a million keys, about one run in ten million reports
     * a false duplicate. */
    uint64_t hash = tarn__name_hash(key, strlen(key));
    TARN_TRY(tarn__hashes_add(&o->seen, hash, &first, &seen, err));
    if (!seen || (first == origin && origin != TARN__ANY_ORIGIN)) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_EXISTS, where, TARN_NO_OFFSET,
                         "sample %s occurs twice; readers would merge the two",
                         TARN__SHOW(key, strlen(key)));
}

tarn_status tarn__pack_output_put(tarn__pack_output *o, unsigned part, const char *key,
                                  const tarn_field *fields, size_t count,
                                  const char *where, uint32_t origin, tarn_error *err)
{
    size_t len = strlen(key), kept;
    bool keep;
    if (part >= o->count)
        return tarn__fail(err, TARN_ERR_USAGE, "no part %u; there are %zu", part,
                          o->count);
    if (!len || key[len - 1] == '/') { /* a hidden file, such as .DS_Store */
        skip_member(o, where, "", "a member whose name begins with a dot");
        return TARN_OK;
    }
    TARN_TRY(tarn__pack_output_key(o, key, &key, err));
    TARN_TRY(tarn__pack_output_keep(o, key, part, &keep, err));
    if (!keep) return TARN_OK;
    TARN_TRY(take_fields(o, fields, count, &kept, err));
    if (kept < count)
        skip_member(o, where, key, ": its name has no field (no text after a dot)");
    if (!kept) return TARN_OK;
    TARN_TRY(check_new(o, key, where, origin, err));
    return tarn__pack_output_write(o, part, key, o->fields, kept, err);
}

tarn_status tarn_pack_put(void *output, unsigned part, const char *key,
                          const tarn_field *fields, size_t count, tarn_error *err)
{
    TARN__NEED(err, "output", output);
    TARN__NEED(err, "key", key);
    TARN__NEED(err, "fields", fields || !count);
    tarn__pack_output *o = output;
    const tarn_pack_options *p = &o->options;
    TARN_TRY(
        tarn__pack_output_put(o, part, key, fields, count, NULL, TARN__ANY_ORIGIN, err));
    if (p->progress &&
        p->progress(p->progress_context, o->samples, 0, tarn__pack_output_bytes(o)))
        return tarn__fail(err, TARN_ERR_CANCELLED, "stopped");
    return TARN_OK;
}

tarn_status tarn_pack_adopt(void *output, unsigned part, tarn_dataset *from,
                            const uint32_t *shards, size_t count, tarn_adopt how,
                            tarn_error *err)
{
    TARN__NEED(err, "output", output);
    TARN__NEED(err, "from", from);
    tarn__pack_output *o = output;
    if (o->kind != TARN_TARGET_FOLDER || part >= o->count)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "%s: cannot add shards: there is no fold number %u", o->target,
                          part);
    tarn_written written;
    TARN_TRY(tarn_fold_writer_adopt(o->folds[part], from, shards, count, how, err));
    tarn_fold_writer_written(o->folds[part], &written, sizeof written);
    if (o->complete[part] && written.shards)
        return refuse_more(o, part, "these shards", err);
    return TARN_OK;
}

/* --- Publishing --------------------------------------------------------------------- */

static bool fold_exists(const tarn__pack_output *o, const char *fold)
{
    tarn_folds *there;
    bool found = false;
    if (tarn_folds_list(o->folder, &there, NULL) != TARN_OK) return false;
    for (size_t i = 0; i < there->count; i++)
        found |= strcmp(there->folds[i]->name, fold) == 0;
    tarn_folds_free(there);
    return found;
}

/* A fold without samples is not published. With overwrite the old fold would then stay
 * and look like a new one, so this is an error. */
static tarn_status check_replaced(tarn__pack_output *o, tarn_error *err)
{
    tarn_written w;
    for (size_t i = 0; o->writer.overwrite && i < o->count; i++) {
        tarn_fold_writer_written(o->folds[i], &w, sizeof w);
        if (w.samples || !fold_exists(o, o->names[i])) continue;
        o->options.keep_finished = false;
        return tarn__fail_at(
            err, TARN_ERR_NOT_FOUND, o->folder, TARN_NO_OFFSET,
            "no samples for fold %s, which already exists; nothing was replaced. Remove "
            "that fold, or choose other samples",
            o->names[i]);
    }
    return TARN_OK;
}

tarn_status tarn__pack_output_finish(tarn__pack_output *o, tarn_error *err)
{
    if (o->kind == TARN_TARGET_FOLDER) TARN_TRY(check_replaced(o, err));
    for (size_t i = 0; o->kind == TARN_TARGET_FOLDER && i < o->count; i++) {
        tarn_fold_writer *w = o->folds[i];
        o->folds[i] = NULL;
        TARN_TRY(tarn_fold_writer_finish(w, &o->written[i], sizeof o->written[i], err));
    }
    if (o->task.folder) return tarn__task_finish(&o->task, err);
    if (!o->tar) return TARN_OK;
    tarn_tar_writer *w = o->tar;
    o->tar = NULL;
    return tarn_tar_writer_finish(w, &o->written[0], sizeof o->written[0], err);
}

void tarn__pack_output_stop(tarn__pack_output *o)
{
    bool keep = o->options.keep_finished || o->writer.resume;
    uint64_t kept = 0;
    for (size_t i = 0; i < o->count; i++) {
        if (!o->folds[i]) continue;
        tarn_fold_writer_written(o->folds[i], &o->written[i], sizeof o->written[i]);
        tarn_fold_writer_abandon(o->folds[i], keep && !o->complete[i], &kept);
        o->folds[i] = NULL;
        o->kept += kept;
    }
    if (o->tar) tarn_tar_writer_written(o->tar, &o->written[0], sizeof o->written[0]);
    tarn_tar_writer_abandon(o->tar);
    o->tar = NULL;
    tarn__task_abandon(&o->task);
}
