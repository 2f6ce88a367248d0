/* Writes a fold: adds samples to shards and maintains a scan of each shard, so that at
 * the end the index is built as if the shards had been scanned. */
#include "itar/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/options.h"
#include "base/utf8.h"
#include "itar/fold.h"
#include "itar/folder.h"
#include "tar/keys.h"

TARN__DEFINE_INIT(tarn_fold_writer_options, TARN_FOLD_WRITER_OPTIONS_INIT)

/* --- Shards, known by name and scan ------------------------------------------------ */

tarn_status tarn__writer_add_shard(tarn_fold_writer *w, char *name, char *path,
                                   tarn_error *err)
{
    tarn__build *b = &w->build;
    tarn_status status = name && path ? TARN_OK : tarn__fail_memory(err);
    if (status == TARN_OK && w->n_shards >= TARN_MAX_SHARDS)
        status = tarn__fail(err, TARN_ERR_LIMIT, "more than %u shards in one fold",
                            TARN_MAX_SHARDS);
    if (status == TARN_OK)
        status =
            tarn__grow(&w->names, sizeof *w->names, w->n_shards, &w->name_capacity, err);
    if (status == TARN_OK)
        status =
            tarn__grow(&b->paths, sizeof *b->paths, w->n_shards, &w->path_capacity, err);
    if (status == TARN_OK)
        status =
            tarn__grow(&b->scans, sizeof *b->scans, w->n_shards, &w->scan_capacity, err);
    if (status != TARN_OK) {
        free(name);
        free(path);
        return status;
    }
    w->names[w->n_shards] = name;
    ((const char **)(uintptr_t)b->paths)[w->n_shards] = path;
    b->scans[w->n_shards] = (tarn__scan){0};
    b->count = ++w->n_shards;
    return TARN_OK;
}

void tarn__writer_drop_shard(tarn_fold_writer *w)
{
    size_t last = --w->n_shards;
    w->build.count = last;
    tarn__scan_reset(&w->build.scans[last]);
    free(w->names[last]);
    free((void *)(uintptr_t)w->build.paths[last]);
}

/* --- Opening ----------------------------------------------------------------------- */

static tarn_status check_fold_name(const char *fold, tarn_error *err)
{
    size_t len = strlen(fold);
    bool good = len > 0 && len < 128 && !strpbrk(fold, "_/\\.:");
    for (size_t i = 0; i < len; i++)
        good = good && (unsigned char)fold[i] >= 0x20 && fold[i] != 0x7f;
    if (good && tarn__utf8_is_valid(fold, len)) return TARN_OK;
    return tarn__fail(err, TARN_ERR_USAGE,
                      "%s cannot be the name of a fold: it is part of the names of the "
                      "shards, so it must not contain _, /, \\, colon or dot",
                      TARN__SHOW(fold, len));
}

static tarn_status check_options(const tarn_fold_writer_options *o, tarn_error *err)
{
    if (o->overwrite && (o->append || o->resume))
        return tarn__fail(err, TARN_ERR_USAGE,
                          "overwrite cannot be combined with append or resume");
    if (o->digits < 1 || o->digits > 9)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "shard numbers must have 1 to 9 digits, not %u", o->digits);
    return TARN_OK;
}

static tarn_status begin_archive(tarn_fold_writer *w, tarn_error *err)
{
    TARN_TRY(tarn__archive_init(&w->archive, w->options.writer, TARN_NAMES_PLAIN, err));
    w->archive.swept = true; /* by stage_open */
    w->options.writer = NULL;
    if (w->archive.options.rules != TARN_RULES_STRICT)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "names in a fold must follow the strict rules, otherwise "
                          "readers could not find them");
    if (w->archive.given_sink)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "writer->sink must not be set for a fold; set no_sync and "
                          "overwrite of the fold instead");
    if (w->archive.options.shards)
        return tarn__fail(
            err, TARN_ERR_USAGE,
            "writer->shards must not be set for a fold, which has its own limits");
    return TARN_OK;
}

static tarn_status begin_writing(tarn_fold_writer *w, const char *folder,
                                 const char *fold, tarn_error *err)
{
    static const tarn_index_options scanning = TARN_INDEX_OPTIONS_INIT;
    w->scanning = scanning;
    w->scanning.sums = true;
    w->build.options = &w->scanning;
    w->build.hash = tarn__key_hash;
    pthread_mutex_init(&w->build.lock, NULL);
    tarn__buf_init(&w->lower, SIZE_MAX / 2);
    tarn__names_init(&w->known);
    w->stage.lock = -1;
    TARN_TRY(check_options(&w->options, err));
    TARN_TRY(check_fold_name(fold, err));
    w->number = w->options.start;
    w->digits = w->options.digits;
    if (asprintf(&w->prefix, "%s_", fold) < 0) return tarn__fail_memory(err);
    TARN_TRY(begin_archive(w, err));
    TARN_TRY(tarn__stage_open(&w->stage, folder, fold, w->options.no_sync, err));
    return tarn__writer_found(w, err);
}

static void close_writer(tarn_fold_writer *w)
{
    tarn__archive_reset(&w->archive);
    while (w->n_shards)
        tarn__writer_drop_shard(w);
    free(w->names);
    free((void *)(uintptr_t)w->build.paths);
    free(w->build.scans);
    pthread_mutex_destroy(&w->build.lock);
    tarn__fold_close(w->base);
    tarn__keyset_reset(&w->keys);
    tarn__buf_reset(&w->lower);
    tarn__names_reset(&w->known);
    tarn__stage_close(&w->stage);
    free(w->prefix);
    free(w->fields);
    free(w->guesses);
    free(w->plan.members);
    tarn__writer_reset_origins(w);
    free(w);
}

static tarn_status open_once(const char *folder, const char *fold,
                             const tarn_fold_writer_options *options,
                             tarn_fold_writer **out, bool *half_replaced, tarn_error *err)
{
    tarn_fold_writer *w = calloc(1, sizeof *w);
    if (!w) return tarn__fail_memory(err);
    w->options = *options;
    w->task.lock = -1;
    tarn_status status = begin_writing(w, folder, fold, err);
    *half_replaced = w->half_replaced;
    if (status == TARN_OK)
        *out = w;
    else
        close_writer(w);
    return status;
}

/* The fold is written to the folder of its part. */
static tarn_status open_part(const char *folder, const char *fold,
                             const tarn_fold_writer_options *o, tarn_fold_writer **out,
                             tarn_error *err)
{
    tarn__taskdir task;
    tarn__buf text;
    bool ignored;
    if (o->append || o->resume || o->overwrite)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "append, resume and overwrite do not apply to a task; give "
                          "append or overwrite to the commit");
    TARN_TRY(check_fold_name(fold, err));
    tarn__buf_init(&text, SIZE_MAX / 2);
    TARN_TRY(tarn__buf_printf(&text, err, "writer %s", o->job ? o->job : ""));
    tarn__job_id job = {.options = tarn__key_hash(text.data, text.size),
                        .unit = TARN__UNIT_NONE};
    tarn__buf_reset(&text);
    tarn_status status =
        tarn__task_begin(&task, folder, fold, o->task, o->tasks, &job, o->no_sync, err);
    if (status == TARN_END)
        status =
            tarn__fail_at(err, TARN_ERR_EXISTS, task.final, TARN_NO_OFFSET,
                          "the part of task %u of %u is complete", o->task, o->tasks);
    if (status == TARN_OK) status = open_once(task.folder, fold, o, out, &ignored, err);
    if (status == TARN_OK) {
        (*out)->task = task;
        tarn__writer_send_to(*out, task.url);
    } else
        tarn__task_abandon(&task);
    return status;
}

void tarn__writer_send_to(tarn_fold_writer *w, const char *url)
{
    w->url = url;
}

/* A writer that was interrupted while replacing a fold left a new fold that is complete
 * except for its names, and no old one. That fold is published first and then replaced,
 * because this run may be interrupted as well. */
tarn_status tarn_fold_writer_open(const char *folder, const char *fold,
                                  const tarn_fold_writer_options *options,
                                  tarn_fold_writer **out, tarn_error *err)
{
    TARN__NEED(err, "folder", folder);
    TARN__NEED(err, "fold", fold);
    TARN__NEED(err, "out", out);
    TARN__OPTIONS(tarn_fold_writer_options, taken, TARN_FOLD_WRITER_OPTIONS_INIT, options,
                  err);
    if (taken.tasks || taken.task) return open_part(folder, fold, &taken, out, err);
    bool half_replaced = false;
    tarn_status status = open_once(folder, fold, &taken, out, &half_replaced, err);
    if (!half_replaced) return status;
    tarn_fold_writer_options finish = taken;
    tarn_fold_writer *before;
    finish.overwrite = false;
    finish.resume = true;
    TARN_TRY(open_once(folder, fold, &finish, &before, &half_replaced, err));
    TARN_TRY(tarn_fold_writer_finish(before, NULL, 0, err));
    return open_once(folder, fold, &taken, out, &half_replaced, err);
}

/* --- The current shard ------------------------------------------------------------- */

static tarn_status name_shard(const tarn_fold_writer *w, char **out, tarn_error *err)
{
    return tarn__shard_compose(w->prefix, w->digits, w->number, w->stage.folder, out,
                               err);
}

/* Where a shard is written. */
static char *shard_path(const tarn_fold_writer *w, const char *name)
{
    char *url;
    if (!w->url) return tarn__stage_part(&w->stage, name);
    return asprintf(&url, "%s/%s", w->url, name) < 0 ? NULL : url;
}

static tarn_status begin_shard(tarn_fold_writer *w, tarn_error *err)
{
    char *name;
    TARN_TRY(name_shard(w, &name, err));
    char *part = shard_path(w, name);
    TARN_TRY(tarn__writer_add_shard(w, name, part, err));
    tarn_sink_options sink = TARN_SINK_OPTIONS_INIT;
    sink.no_sync = w->options.no_sync;
    sink.overwrite = true;
    sink.filter = TARN_FILTER_NONE;
    tarn_status status = tarn__scan_init(&w->build.scans[w->n_shards - 1], err);
    if (status == TARN_OK) status = tarn__archive_begin(&w->archive, part, &sink, err);
    if (status == TARN_OK) {
        status = tarn__keyset_next_scan(&w->keys, err);
        if (status != TARN_OK) tarn__out_abandon(&w->archive.out);
    }
    if (status != TARN_OK) {
        tarn__writer_drop_shard(w);
        return status;
    }
    w->number++;
    w->open = true;
    w->samples = w->payload = 0;
    return TARN_OK;
}

static tarn_status end_shard(tarn_fold_writer *w, tarn_error *err)
{
    tarn__scan *scan = &w->build.scans[w->n_shards - 1];
    uint64_t size = tarn__out_size(&w->archive.out);
    size += tarn__end_size(size);
    w->open = false;
    tarn_status status = tarn__archive_finish(&w->archive, &scan->stamp.mtime_ns, err);
    if (status != TARN_OK) {
        tarn__writer_drop_shard(w);
        w->archive.broken = true;
        return status;
    }
    scan->stamp.size = size;
    scan->stamp.rows = (uint32_t)scan->n_rows;
    scan->stamp.digest = (uint32_t)(w->archive.composer.digest >> 32);
    w->written.shards++;
    w->written.bytes += size;
    return TARN_OK;
}

/* --- Samples ----------------------------------------------------------------------- */

static tarn_status check_key(const char *key, tarn_error *err)
{
    size_t len = strlen(key);
    const char *wrong = NULL;
    if (strpbrk(key, "/\\"))
        wrong = "contains a slash or backslash; keys of a fold must be flat";
    else if (!tarn__utf8_is_valid(key, len))
        wrong = "is not UTF-8";
    if (!wrong) return TARN_OK;
    return tarn__fail(err, TARN_ERR_USAGE, "the key %s %s", TARN__SHOW(key, len), wrong);
}

static bool is_plain(const char *name)
{
    if (name[0] == '.') return false;
    for (; *name; name++)
        if ((unsigned char)*name >= 0x80 || (*name >= 'A' && *name <= 'Z')) return false;
    return true;
}

/* The name without its leading dot. A name with two leading dots is refused, because
 * readers would drop the second one. */
static tarn_status drop_dot(const tarn_fold_writer *w, const char **name, tarn_error *err)
{
    char shown[120];
    if (w->options.exact_fields || **name != '.') return TARN_OK;
    if (*++*name != '.') return TARN_OK;
    return tarn__fail(err, TARN_ERR_USAGE,
                      "the name of field %s begins with two dots, and would be read with "
                      "one; rename the field",
                      tarn_printable(shown, sizeof shown, *name - 1, strlen(*name) + 1));
}

/* Copies the names to w->lower, as they are written. Pointers are set at the end, because
 * the buffer moves. */
static tarn_status lower_names(tarn_fold_writer *w, const tarn_field *given, size_t count,
                               tarn_error *err)
{
    w->lower.size = 0;
    for (size_t i = 0; i < count; i++) {
        const char *name = given[i].name;
        TARN_TRY(drop_dot(w, &name, err));
        if (!tarn__utf8_is_valid(name, strlen(name)))
            return tarn__fail(err, TARN_ERR_USAGE, "the name of a field is not UTF-8");
        TARN_TRY(tarn__utf8_lower(&w->lower, name, strlen(name), err));
        TARN_TRY(tarn__buf_add(&w->lower, "", 1, err));
    }
    const char *at = w->lower.data;
    for (size_t i = 0; i < count; i++) {
        w->fields[i].name = at;
        at += strlen(at) + 1;
    }
    return TARN_OK;
}

static tarn_status take_fields(tarn_fold_writer *w, const tarn_field *given, size_t count,
                               const tarn_field **out, tarn_error *err)
{
    bool plain = true;
    for (size_t i = 0; i < count; i++)
        plain = plain && is_plain(given[i].name);
    *out = given;
    if (plain) return TARN_OK;
    while (w->field_capacity < count)
        TARN_TRY(tarn__grow(&w->fields, sizeof *w->fields, w->field_capacity,
                            &w->field_capacity, err));
    memcpy(w->fields, given, count * sizeof *given);
    *out = w->fields;
    return lower_names(w, given, count, err);
}

/* The scans whose keys are in the set. */
static const tarn__scan *own_scans(const tarn_fold_writer *w)
{
    return w->n_shards ? w->build.scans + w->n_base : NULL;
}

tarn_status tarn__writer_has(tarn_fold_writer *w, const char *key, size_t len,
                             uint64_t hash, bool *out, tarn_error *err)
{
    tarn__sample_rows ignored;
    tarn_error why;
    *out = tarn__keyset_has(&w->keys, own_scans(w), key, len, hash);
    if (*out || !w->base) return TARN_OK;
    tarn_status status = tarn__fold_find_rows(w->base, key, &ignored, &why);
    *out = status == TARN_OK;
    if (status == TARN_OK || status == TARN_ERR_NO_SAMPLE) return TARN_OK;
    if (err) *err = why;
    return status;
}

tarn_status tarn_fold_writer_has(tarn_fold_writer *w, const char *key, bool *out,
                                 tarn_error *err)
{
    TARN__NEED(err, "writer", w);
    TARN__NEED(err, "key", key);
    TARN__NEED(err, "out", out);
    TARN_TRY(tarn__check_unbroken(&w->archive, err));
    size_t len = strlen(key);
    return tarn__writer_has(w, key, len, tarn__keyset_hash(&w->keys, key, len), out, err);
}

static tarn_status check_new(tarn_fold_writer *w, const char *key, tarn_error *err)
{
    TARN_TRY(
        tarn__writer_has(w, key, w->plan.key_len, w->key_hash, &w->is_repeated, err));
    if (!w->is_repeated || w->options.repeat_keys) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_EXISTS, w->stage.folder, TARN_NO_OFFSET,
                         "the key %s already exists in fold %s",
                         TARN__SHOW(key, strlen(key)), w->stage.fold);
}

static tarn_status number_field(tarn_fold_writer *w, tarn__scan *scan, const char *name,
                                size_t position, uint32_t *out, tarn_error *err)
{
    size_t len = strlen(name);
    while (w->guess_capacity <= position) {
        size_t before = w->guess_capacity;
        TARN_TRY(
            tarn__grow(&w->guesses, sizeof *w->guesses, before, &w->guess_capacity, err));
        memset(w->guesses + before, 0, (w->guess_capacity - before) * sizeof *w->guesses);
    }
    uint32_t *guess = &w->guesses[position];
    if (*guess < scan->fields.count) {
        tarn__name known = tarn__names_get(&scan->fields, *guess);
        if (known.size == len && memcmp(known.data, name, len) == 0) {
            *out = *guess;
            return TARN_OK;
        }
    }
    uint32_t ignored;
    TARN_TRY(tarn__names_add(&w->known, name, len, &ignored, err));
    TARN_TRY(tarn__names_add(&scan->fields, name, len, out, err));
    *guess = *out;
    return TARN_OK;
}

/* Rejects data that an index cannot store now, not after everything was written. */
static tarn_status check_limits(const tarn_fold_writer *w, const tarn_field *fields,
                                size_t count, tarn_error *err)
{
    if (w->n_rows + count > TARN_MAX_ROWS)
        return tarn__fail(err, TARN_ERR_LIMIT, "more than %llu members in one fold",
                          (unsigned long long)TARN_MAX_ROWS);
    if (w->known.count + count <= TARN_MAX_FIELDS) return TARN_OK;
    size_t fresh = 0;
    for (size_t i = 0; i < count; i++)
        fresh += tarn__names_find(&w->known, fields[i].name, strlen(fields[i].name)) ==
                 TARN__NAME_NONE;
    if (w->known.count + fresh <= TARN_MAX_FIELDS) return TARN_OK;
    return tarn__fail(err, TARN_ERR_LIMIT, "more than %u different fields in one fold",
                      TARN_MAX_FIELDS);
}

/* Whether the last run of a scan has this key. */
static bool continues_run(const tarn__scan *scan, const char *key, size_t len)
{
    if (scan->n_runs == 0) return false;
    size_t from = scan->n_runs > 1 ? (size_t)scan->run_ends[scan->n_runs - 2] : 0;
    size_t end = (size_t)scan->run_ends[scan->n_runs - 1];
    return end - from == len && memcmp(scan->keys.data + from, key, len) == 0;
}

static tarn_status begin_run(tarn_fold_writer *w, tarn__scan *scan, const char *key,
                             uint64_t hash, tarn_error *err)
{
    if (w->is_repeated && continues_run(scan, key, w->plan.key_len)) return TARN_OK;
    TARN_TRY(w->is_repeated ? tarn__keyset_pass(&w->keys, err)
                            : tarn__keyset_add(&w->keys, own_scans(w), w->key_hash, err));
    return tarn__scan_begin_run(scan, key, w->plan.key_len, hash, err);
}

/* Adds the rows of a sample that was written to the archive. */
static tarn_status add_rows(tarn_fold_writer *w, const char *key,
                            const tarn_field *fields, size_t count, tarn_error *err)
{
    tarn__scan *scan = &w->build.scans[w->n_shards - 1];
    uint32_t id;
    uint64_t hash = tarn__key_hash(key, w->plan.key_len);
    TARN_TRY(begin_run(w, scan, key, hash, err));
    for (size_t i = 0; i < count; i++) {
        const tarn__planned *m = &w->plan.members[i];
        TARN_TRY(number_field(w, scan, fields[m->field].name, i, &id, err));
        TARN_TRY(tarn__grow(&scan->rows, TARN__ROW_SIZE, scan->n_rows,
                            &scan->row_capacity, err));
        TARN_TRY(tarn__grow(&scan->checksums, sizeof *scan->checksums, scan->n_rows,
                            &scan->checksum_capacity, err));
        tarn_row row = {.offset = m->offset,
                        .size = m->size,
                        .keyhash = hash,
                        .shard = (uint16_t)(w->n_shards - 1),
                        .field = (uint16_t)id};
        tarn__row_put(scan->rows + scan->n_rows * TARN__ROW_SIZE, &row);
        scan->checksums[scan->n_rows++] = m->crc;
    }
    return TARN_OK;
}

static tarn_status open_shard(tarn_fold_writer *w, const char *key, tarn_error *err)
{
    const tarn_fold_writer_options *o = &w->options;
    TARN_TRY(tarn__check_sample_fits(o->roll, o->max_size, w->plan.bytes, key, err));
    tarn__roll_state state = {o->roll,    o->max_count, o->max_size,
                              w->samples, w->payload,   tarn__out_size(&w->archive.out)};
    if (w->open && tarn__shard_is_full(&state, w->plan.bytes))
        TARN_TRY(end_shard(w, err));
    return w->open ? TARN_OK : begin_shard(w, err);
}

tarn_status tarn_fold_writer_add(tarn_fold_writer *w, const char *key,
                                 const tarn_field *given, size_t count, tarn_error *err)
{
    TARN__NEED(err, "writer", w);
    TARN__NEED(err, "key", key);
    TARN__NEED(err, "fields", given || !count);
    const tarn_field *fields;
    TARN_TRY(tarn__check_unbroken(&w->archive, err));
    w->key_hash = tarn__keyset_hash(&w->keys, key, strlen(key));
    TARN_TRY(check_key(key, err));
    TARN_TRY(take_fields(w, given, count, &fields, err));
    TARN_TRY(tarn__plan_sample(&w->plan, &w->archive, key, fields, count, err));
    TARN_TRY(check_new(w, key, err));
    TARN_TRY(check_limits(w, fields, count, err));
    TARN_TRY(open_shard(w, key, err));
    TARN_TRY(tarn__write_sample(&w->archive, &w->plan, key, fields, count, err));
    tarn_status status = add_rows(w, key, fields, count, err);
    if (status != TARN_OK) {
        w->archive.broken = true;
        return status;
    }
    w->n_rows += count;
    w->samples++;
    w->payload += w->plan.payload;
    w->written.samples++;
    w->written.members += count;
    w->written.payload += w->plan.payload;
    return TARN_OK;
}

void tarn_fold_writer_written(const tarn_fold_writer *w, tarn_written *out, size_t size)
{
    const tarn_written none = {0};
    tarn__fill_out(out, size, w ? &w->written : &none, sizeof none);
}

/* --- The end ----------------------------------------------------------------------- */

/* Builds the index of all shards. From here on the shards have their final names. */
static tarn_status make_index(tarn_fold_writer *w, tarn_index **out, tarn_error *err)
{
    tarn_index_report ignored;
    *out = w->build.index = tarn__index_new();
    if (!*out) return tarn__fail_memory(err);
    for (size_t i = w->n_base; i < w->n_shards; i++) {
        char *path = tarn__stage_path(&w->stage, w->names[i]);
        if (!path) return tarn__fail_memory(err);
        free((void *)(uintptr_t)w->build.paths[i]);
        ((const char **)(uintptr_t)w->build.paths)[i] = path;
    }
    return tarn__merge(&w->build, *out, &ignored, err);
}

/* Everything that takes space is on disk before the first name changes: see commit.h. */
static tarn_status commit(tarn_fold_writer *w, tarn_index *index, tarn_error *err)
{
    const char *const *names = (const char *const *)w->names + w->n_base;
    size_t count = w->n_shards - w->n_base;
    tarn__saving saving;
    TARN_TRY(
        tarn__index_prepare(index, w->stage.index_path, w->stage.no_sync, &saving, err));
    tarn_status status = TARN_OK;
    if (count && !w->url)
        status = tarn__stage_name(&w->stage, names, count, !w->base, err);
    if (status != TARN_OK) {
        tarn__saving_reset(&saving);
        return status;
    }
    TARN_TRY(tarn__index_publish(&saving, err));
    return tarn__stage_done(&w->stage, err);
}

tarn_status tarn_fold_writer_finish(tarn_fold_writer *w, tarn_written *out, size_t size,
                                    tarn_error *err)
{
    TARN__NEED(err, "writer", w);
    tarn_index *index = NULL;
    tarn_status status = tarn__check_unbroken(&w->archive, err);
    /* A fold consists of its shards: one without samples has an empty shard. */
    if (status == TARN_OK && !w->open && w->n_shards == 0) status = begin_shard(w, err);
    if (status == TARN_OK && w->open) status = end_shard(w, err);
    if (status == TARN_OK && w->n_shards > w->n_base) {
        status = make_index(w, &index, err);
        if (status == TARN_OK) status = commit(w, index, err);
    }
    tarn_index_free(index);
    TARN__FILL_OUT(out, size, w->written);
    tarn__taskdir task = w->task;
    close_writer(w);
    if (status == TARN_OK && task.folder) status = tarn__task_finish(&task, err);
    tarn__task_abandon(&task);
    return status;
}

void tarn_fold_writer_abandon(tarn_fold_writer *w, bool keep, uint64_t *out_kept)
{
    if (out_kept) *out_kept = 0;
    if (!w) return;
    if (w->open) tarn__writer_drop_shard(w);
    if (out_kept && keep) *out_kept = w->n_shards - w->n_base;
    if (!keep) (void)!tarn__stage_discard(&w->stage, NULL);
    tarn__taskdir task = w->task;
    close_writer(w);
    tarn__task_abandon(&task);
}

/* --- For adopt.c ------------------------------------------------------------------- */

tarn_status tarn__writer_end_shard(tarn_fold_writer *w, tarn_error *err)
{
    return w->open ? end_shard(w, err) : TARN_OK;
}

tarn_status tarn__writer_name_shard(const tarn_fold_writer *w, char **out,
                                    tarn_error *err)
{
    return name_shard(w, out, err);
}
