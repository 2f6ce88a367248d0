/* Packs archives: samples are written in the order in which they are read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/source.h>
#include <tarn/tar.h>

#include "base/error.h"
#include "base/names.h"
#include "base/options.h"
#include "base/text.h"
#include "itar/chance.h"
#include "pack/output.h"

typedef struct streams {
    tarn__pack_output *o;
    tarn_samples_options options;
    tarn_samples *samples;
    const char **urls;
    size_t count, capacity;
    tarn_urls **lists; /* own the texts of urls */
    tarn_field *fields;
    size_t n_fields, field_capacity;
    tarn__names wanted;
    bool *found; /* for each of wanted */
} streams;

/* --- Archives ----------------------------------------------------------------------- */

bool tarn__is_archive(const char *path)
{
    return tarn_tar_is_stream(path) || tarn_urls_is_list(path) ||
           tarn__ends_with(path, ".tar");
}

static tarn_status add_url(streams *s, const char *url, tarn_error *err)
{
    TARN_TRY(tarn__grow(&s->urls, sizeof *s->urls, s->count, &s->capacity, err));
    s->urls[s->count++] = url;
    return TARN_OK;
}

static tarn_status expand_sources(streams *s, const char *const *sources, size_t count,
                                  tarn_error *err)
{
    s->lists = calloc(count + 1, sizeof *s->lists);
    if (!s->lists) return tarn__fail_memory(err);
    for (size_t i = 0; i < count; i++) {
        if (!tarn_urls_is_list(sources[i])) {
            TARN_TRY(add_url(s, sources[i], err));
            continue;
        }
        TARN_TRY(tarn_urls_expand(sources[i], &s->lists[i], err));
        for (size_t k = 0; k < s->lists[i]->count; k++)
            TARN_TRY(add_url(s, s->lists[i]->urls[k], err));
    }
    return TARN_OK;
}

/* The part of a task: a range of the archives. */
static tarn_status take_part(streams *s, tarn_error *err)
{
    const tarn_pack_options *p = &s->o->options;
    uint64_t first, end;
    if (!p->tasks) return TARN_OK;
    if (p->samples || p->number || p->first || p->end != UINT64_MAX)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "a task reads some of the archives, so samples of all of them "
                          "cannot be numbered or selected; convert them to a fold first");
    tarn__pack_output_part(s->o, s->count, &first, &end);
    memmove(s->urls, s->urls + first, (size_t)(end - first) * sizeof *s->urls);
    s->count = (size_t)(end - first);
    return TARN_OK;
}

/* --- Samples ------------------------------------------------------------------------ */

static int on_progress(void *context, uint64_t done, uint64_t total)
{
    const streams *s = context;
    const tarn_pack_options *p = &s->o->options;
    (void)total;
    return p->progress(p->progress_context, s->o->samples, 0, done);
}

static tarn_status open_samples(streams *s, tarn_error *err)
{
    const tarn_pack_options *p = &s->o->options;
    tarn_samples_options *o = &s->options;
    if (!p->stream)
        o->grouping = p->keys == TARN_KEYS_PATH || s->o->kind != TARN_TARGET_FOLDER
                          ? TARN_GROUP_PATH
                          : TARN_GROUP_BASE;
    if (!o->notice) {
        o->notice = p->notice;
        o->notice_context = p->notice_context;
    }
    if (p->progress) {
        o->progress = on_progress;
        o->progress_context = s;
    }
    return tarn_samples_open(s->urls, s->count, o, &s->samples, err);
}

static tarn_status put_item(streams *s, const tarn_samples_item *it, uint64_t number,
                            tarn_error *err)
{
    const tarn_pack_options *p = &s->o->options;
    bool check = s->count > 1 && !p->number;
    char numbered[32];
    const char *key = it->key;
    snprintf(numbered, sizeof numbered, "%09llu", (unsigned long long)number);
    /* Hidden members keep their key, so that they are skipped. */
    if (p->number && it->key_len && it->key[it->key_len - 1] != '/') key = numbered;
    for (s->n_fields = 0; s->n_fields < it->count; s->n_fields++) {
        const tarn_samples_field *f = &it->fields[s->n_fields];
        TARN_TRY(tarn__grow(&s->fields, sizeof *s->fields, s->n_fields,
                            &s->field_capacity, err));
        s->fields[s->n_fields] = (tarn_field){f->name, f->data, (size_t)f->size, NULL};
    }
    const char *flat;
    TARN_TRY(tarn__pack_output_key(s->o, key, &flat, err));
    unsigned part = tarn__part_of(flat, s->o->fractions, s->o->count - 1, p->seed);
    return tarn__pack_output_put(s->o, part, key, s->fields, it->count, it->url,
                                 check ? (uint32_t)it->shard : TARN__NO_ORIGIN, err);
}

/* --- Selected keys ------------------------------------------------------------------ */

static bool is_wanted(void *context, const char *key, size_t len)
{
    streams *s = context;
    uint32_t number = tarn__names_find(&s->wanted, key, len);
    if (number == TARN__NAME_NONE) return false;
    s->found[number] = true;
    return true;
}

static tarn_status take_wanted(streams *s, tarn_error *err)
{
    const tarn_pack_options *p = &s->o->options;
    uint32_t number;
    if (!p->samples) return TARN_OK;
    for (size_t i = 0; i < p->n_samples; i++)
        TARN_TRY(tarn__names_add(&s->wanted, p->samples[i], strlen(p->samples[i]),
                                 &number, err));
    s->found = calloc(s->wanted.count + 1, sizeof *s->found);
    s->options.want = is_wanted;
    s->options.want_context = s;
    return s->found ? TARN_OK : tarn__fail_memory(err);
}

static tarn_status check_found(const streams *s, tarn_error *err)
{
    for (size_t i = 0; i < s->wanted.count; i++) {
        tarn__name key = tarn__names_get(&s->wanted, i);
        if (s->found[i]) continue;
        return tarn__fail(err, TARN_ERR_NOT_FOUND, "no sample with key %s in %s",
                          TARN__SHOW(key.data, key.size), s->urls[0]);
    }
    return TARN_OK;
}

/* --- Packing ------------------------------------------------------------------------ */

/* Reads on after the last number if keys are selected, to check that all exist. */
static tarn_status put_all(streams *s, tarn_error *err)
{
    const tarn_pack_options *p = &s->o->options;
    tarn_samples_item it;
    for (uint64_t i = 0; i < p->end || p->samples; i++) {
        tarn_status status = tarn_samples_next(s->samples, &it, err);
        if (status == TARN_END) return check_found(s, err);
        TARN_TRY(status);
        if (i >= p->first && i < p->end) TARN_TRY(put_item(s, &it, i, err));
    }
    return TARN_OK;
}

static void count_skipped(const streams *s)
{
    tarn_samples_report r;
    tarn_samples_report_get(s->samples, &r, sizeof r);
    s->o->skipped += r.unkeyed + r.dropped + r.duplicates + r.links + r.devices;
}

tarn_status tarn__pack_streams(tarn__pack_output *o, const char *const *sources,
                               size_t count, tarn_error *err)
{
    TARN__OPTIONS(tarn_samples_options, options, TARN_SAMPLES_OPTIONS_INIT,
                  o->options.stream, err);
    streams s = {.o = o, .options = options};
    tarn__names_init(&s.wanted);
    tarn_status status = expand_sources(&s, sources, count, err);
    if (status == TARN_OK) status = tarn__pack_begin_archives(o, s.urls, s.count, err);
    if (status == TARN_OK) status = take_part(&s, err);
    if (status == TARN_OK) status = tarn__pack_output_open(o, err);
    if (status == TARN_OK) status = take_wanted(&s, err);
    if (status == TARN_OK && s.count) status = open_samples(&s, err);
    if (status == TARN_OK && s.count) {
        status = put_all(&s, err);
        count_skipped(&s);
        tarn_samples_close(s.samples);
    }
    for (size_t i = 0; s.lists && i < count; i++)
        tarn_urls_free(s.lists[i]);
    free(s.lists);
    free(s.urls);
    free(s.fields);
    free(s.found);
    tarn__names_reset(&s.wanted);
    return status;
}
