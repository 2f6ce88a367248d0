/* What identifies a job: all tasks of it compute the same (tasks.h). The hash of the
 * sources covers the whole list that the tasks divide, so that no task works with another
 * list. How their paths are written does not count. */
#include "pack/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/names.h"
#include "base/text.h"
#include "io/manifest.h"
#include "io/url.h"
#include "tar/keys.h"

/* --- Options ------------------------------------------------------------------------ */

/* With its length, so that two texts are never taken for one. */
static tarn_status add_text(tarn__buf *b, const char *text, tarn_error *err)
{
    return tarn__buf_printf(b, err, "%zu:%s\n", text ? strlen(text) : 0,
                            text ? text : "");
}

static tarn_status add_texts(tarn__buf *b, const char *const *texts, size_t count,
                             tarn_error *err)
{
    TARN_TRY(tarn__buf_printf(b, err, "%zu\n", count));
    for (size_t i = 0; i < count; i++)
        TARN_TRY(add_text(b, texts[i], err));
    return TARN_OK;
}

static tarn_status add_numbers(tarn__buf *b, const tarn__pack_output *o, tarn_error *err)
{
    const tarn_pack_options *p = &o->options;
    const tarn_fold_writer_options *w = &o->writer;
    return tarn__buf_printf(
        b, err, "%llu %d %llu %d %d %u %d %llu %llu %d %u %llu %d %d\n",
        (unsigned long long)p->seed, p->shuffle, (unsigned long long)p->shuffle_seed,
        (int)p->keys, p->class_from_dir, p->class_level, (int)p->check,
        (unsigned long long)w->max_count, (unsigned long long)w->max_size, (int)w->roll,
        w->digits, (unsigned long long)w->start, (int)o->members.names, w->repeat_keys);
}

static tarn_status compose(const tarn__pack_output *o, tarn__buf *b, tarn_error *err)
{
    const tarn_pack_options *p = &o->options;
    TARN_TRY(add_text(b, p->job, err));
    TARN_TRY(add_numbers(b, o, err));
    TARN_TRY(add_texts(b, o->names, o->count, err));
    for (size_t i = 0; i + 1 < o->count; i++)
        TARN_TRY(tarn__buf_printf(b, err, "%.17g\n", o->fractions[i]));
    TARN_TRY(add_texts(b, p->include, p->n_include, err));
    TARN_TRY(add_texts(b, p->exclude, p->n_exclude, err));
    for (size_t i = 0; i < p->n_renames; i++) {
        TARN_TRY(add_text(b, p->renames[i].from, err));
        TARN_TRY(add_text(b, p->renames[i].to, err));
    }
    return TARN_OK;
}

/* --- Sources ------------------------------------------------------------------------ */

/* A hash of texts: that of the hash so far and the next text. */
typedef struct listing {
    uint64_t hash;
    tarn__buf text;
} listing;

static void take_in(listing *l)
{
    l->hash = tarn__key_hash(l->text.data, l->text.size);
    l->text.size = 0;
}

static tarn_status begin_text(listing *l, tarn_error *err)
{
    return tarn__buf_add(&l->text, &l->hash, sizeof l->hash, err);
}

/* The whole path of an existing file or folder; of others, what was given. */
static tarn_status add_path(listing *l, const char *path, bool size, tarn_error *err)
{
    struct stat st;
    bool local = !tarn__url_scheme(path);
    char *whole = local ? realpath(path, NULL) : NULL;
    TARN_TRY(begin_text(l, err));
    tarn_status status = add_text(&l->text, whole ? whole : path, err);
    if (status == TARN_OK && whole && size && stat(whole, &st) == 0)
        status = tarn__buf_printf(&l->text, err, "%llu", (unsigned long long)st.st_size);
    free(whole);
    take_in(l);
    return status;
}

/* The rows are part of the list. A copy of a manifest is as good, if its relative paths
 * start at the same folder. */
static tarn_status add_manifest(listing *l, const char *path, const char *root,
                                tarn_error *err)
{
    tarn__contents text;
    TARN_TRY(tarn__contents_open(&text, path, err));
    uint64_t hash = tarn__key_hash((const char *)text.data, (size_t)text.size);
    tarn__contents_close(&text);
    TARN_TRY(begin_text(l, err));
    TARN_TRY(tarn__buf_printf(&l->text, err, "%016llx", (unsigned long long)hash));
    take_in(l);
    if (root) return add_path(l, root, false, err);
    const char *name = tarn__base_name(path);
    char *folder = name == path ? strdup(".") : strndup(path, (size_t)(name - path));
    tarn_status status =
        folder ? add_path(l, folder, false, err) : tarn__fail_memory(err);
    free(folder);
    return status;
}

/* Files are known by their names: the folders are among the sources, and asking for the
 * size of each file would take longer than listing them. */
static tarn_status add_sample(void *context, unsigned part, const char *key,
                              const tarn_field *fields, size_t count, tarn_error *err)
{
    listing *l = context;
    TARN_TRY(begin_text(l, err));
    TARN_TRY(add_text(&l->text, key, err));
    TARN_TRY(tarn__buf_printf(&l->text, err, "%u %zu\n", part, count));
    for (size_t i = 0; i < count; i++) {
        const tarn_field *f = &fields[i];
        TARN_TRY(add_text(&l->text, f->name, err));
        if (f->path)
            TARN_TRY(add_text(&l->text, tarn__base_name(f->path), err));
        else
            TARN_TRY(tarn__buf_add(&l->text, f->data, f->size, err));
    }
    take_in(l);
    return TARN_OK;
}

static tarn_status list_files(listing *l, const tarn__pack_output *o,
                              const char *const *sources, size_t count,
                              tarn__collection *c, tarn_error *err)
{
    for (size_t i = 0; i < count; i++)
        TARN_TRY(tarn__is_manifest(sources[i])
                     ? add_manifest(l, sources[i], o->options.manifest_root, err)
                     : add_path(l, sources[i], false, err));
    return tarn__collection_list(c, add_sample, l, err);
}

static tarn_status list_archives(listing *l, const char *const *urls, size_t count,
                                 tarn_error *err)
{
    for (size_t i = 0; i < count; i++)
        TARN_TRY(add_path(l, urls[i], true, err));
    return TARN_OK;
}

static tarn_status list_feed(listing *l, const tarn__pack_output *o, tarn_error *err)
{
    TARN_TRY(add_text(&l->text, o->options.feed_source, err));
    take_in(l);
    return TARN_OK;
}

/* --- Starting ----------------------------------------------------------------------- */

static bool is_task(const tarn__pack_output *o)
{
    return o->options.tasks && !o->options.dry_run;
}

static tarn_status begin(tarn__pack_output *o, listing *l, uint64_t count, char unit,
                         tarn_error *err)
{
    l->text.size = 0;
    TARN_TRY(compose(o, &l->text, err));
    tarn__job_id id = {.options = tarn__key_hash(l->text.data, l->text.size),
                       .sources = l->hash,
                       .count = count,
                       .unit = unit};
    return tarn__pack_output_begin(o, &id, err);
}

tarn_status tarn__pack_begin_files(tarn__pack_output *o, const char *const *sources,
                                   size_t count, tarn__collection *c, tarn_error *err)
{
    listing l = {0};
    if (!is_task(o)) return TARN_OK;
    tarn__buf_init(&l.text, SIZE_MAX / 2);
    tarn_status status = list_files(&l, o, sources, count, c, err);
    if (status == TARN_OK) status = begin(o, &l, c->n_samples, TARN__UNIT_SAMPLE, err);
    tarn__buf_reset(&l.text);
    return status;
}

tarn_status tarn__pack_begin_archives(tarn__pack_output *o, const char *const *urls,
                                      size_t count, tarn_error *err)
{
    listing l = {0};
    if (!is_task(o)) return TARN_OK;
    tarn__buf_init(&l.text, SIZE_MAX / 2);
    tarn_status status = list_archives(&l, urls, count, err);
    if (status == TARN_OK) status = begin(o, &l, count, TARN__UNIT_ARCHIVE, err);
    tarn__buf_reset(&l.text);
    return status;
}

tarn_status tarn__pack_begin_feed(tarn__pack_output *o, tarn_error *err)
{
    listing l = {0};
    if (!is_task(o)) return TARN_OK;
    tarn__buf_init(&l.text, SIZE_MAX / 2);
    tarn_status status = list_feed(&l, o, err);
    if (status == TARN_OK)
        status = begin(o, &l, o->options.feed_samples, TARN__UNIT_SAMPLE, err);
    tarn__buf_reset(&l.text);
    return status;
}
