/* Opens datasets and reads single samples. */
#include "dataset/dataset.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <tarn/iac.h>

#include "base/error.h"
#include "base/number.h"
#include "base/options.h"
#include "base/text.h"
#include "dataset/order.h"
#include "gnz/reader.h"
#include "iac/file.h"
#include "io/file.h"
#include "io/remote.h"
#include "io/url.h"
#include "itar/fold_read.h"

/* Bytes that the cache leaves free on its file system. */
#define CACHE_MIN_FREE (UINT64_C(1) << 30)

/* --- Sources ----------------------------------------------------------------------- */

tarn_status tarn__storage_new(const tarn__storage_kind *kind, const char *path,
                              tarn__storage **out, tarn_error *err)
{
    tarn__storage *s = calloc(1, sizeof *s);
    if (!s) return tarn__fail_memory(err);
    s->kind = kind;
    atomic_init(&s->users, 1);
    tarn__forklock_init(&s->lock, TARN__LOCK_INNERMOST);
    tarn__names_init(&s->fields);
    if (path && !(s->path = strdup(path))) {
        tarn__storage_release(s);
        return tarn__fail_memory(err);
    }
    *out = s;
    return TARN_OK;
}

void tarn__storage_release(tarn__storage *s)
{
    if (!s || atomic_fetch_sub(&s->users, 1) != 1) return;
    tarn__files_reset(&s->files);
    if (s->state) s->kind->close(s->state);
    if (s->cache) tarn__cachedir_close(s->cache);
    free(s->cache_problem);
    tarn__prefetched_release(s->prefetched);
    tarn__forklock_destroy(&s->lock);
    tarn__names_reset(&s->fields);
    free(atomic_load(&s->text));
    free(s->path);
    free(s);
}

static bool begins_with(const char *path, const char *magic, size_t len)
{
    tarn__file file;
    char bytes[8] = "";
    size_t got;
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) return false;
    if (tarn__file_open(&file, path, NULL) != TARN_OK) return false;
    bool is = tarn__read_at(file.fd, path, bytes, len, 0, &got, NULL) == TARN_OK &&
              got == len && memcmp(bytes, magic, len) == 0;
    tarn__file_close(&file);
    return is;
}

static bool has_ending(const char *path, const char *ending)
{
    struct stat st;
    size_t len = strlen(path), n = strlen(ending);
    return len > n && strcmp(path + len - n, ending) == 0 &&
           !(stat(path, &st) == 0 && S_ISDIR(st.st_mode));
}

/* The kind of a remote file, by its URL. */
static const tarn__storage_kind *kind_of_url(const char *url)
{
    size_t len = strcspn(url, "?#");
    if (len > 4 && strncmp(url + len - 4, ".gnz", 4) == 0) return &tarn__kind_gnz;
    if (len > 4 && strncmp(url + len - 4, ".iac", 4) == 0) return &tarn__kind_iac;
    return &tarn__kind_fold;
}

static const tarn__storage_kind *kind_of(const char *path)
{
    if (tarn__is_remote(path)) return kind_of_url(path);
    if (has_ending(path, ".gnz") || begins_with(path, "GNZ1", 4)) return &tarn__kind_gnz;
    if (has_ending(path, ".iac") || begins_with(path, "IATROC", 7))
        return &tarn__kind_iac;
    return &tarn__kind_fold;
}

/* The folder of the cache, or NULL. */
static const char *cache_folder(const char *given)
{
    const char *folder = given ? given : getenv("TARN_CACHE");
    return folder && folder[0] ? folder : NULL;
}

TARN__DEFINE_INIT(tarn_verify_options, TARN_VERIFY_OPTIONS_INIT)

tarn_status tarn_verify(const char *path, const tarn_verify_options *options,
                        tarn_verify_report *report, size_t size, tarn_error *err)
{
    TARN__NEED(err, "path", path);
    TARN__NEED(err, "report", report);
    tarn_verify_report found = {0};
    TARN__FILL_OUT(report, size, found);
    TARN__OPTIONS(tarn_verify_options, o, TARN_VERIFY_OPTIONS_INIT, options, err);
    o.cache = cache_folder(o.cache);
    tarn_dataset_kind kind = o.as == TARN_VERIFY_ARRAYS    ? TARN_DATASET_GNZ
                             : o.as == TARN_VERIFY_RECORDS ? TARN_DATASET_IAC
                                                           : kind_of(path)->kind;
    tarn_status status =
        (kind == TARN_DATASET_GNZ   ? tarn__gnz_verify
         : kind == TARN_DATASET_IAC ? tarn__iac_verify
                                    : tarn__fold_verify)(path, &o, &found, err);
    TARN__FILL_OUT(report, size, found);
    return status;
}

static tarn_status open_cache(tarn__storage *source, const tarn_dataset_options *o,
                              tarn_error *err)
{
    tarn__cache_limits limits = {.max_bytes = o->cache_limit};
    if (!o->cache) return TARN_OK;
    TARN_TRY(tarn__cachedir_open(o->cache, &limits, &source->cache, err));
    tarn__cachedir_keep_free(source->cache, CACHE_MIN_FREE);
    source->cache_problem = tarn__cachedir_problem(source->cache);
    return TARN_OK;
}

/* Hides the secrets of a URL, which is not needed any more. */
static tarn_status show_path(tarn__storage *source, tarn_error *err)
{
    char *shown = tarn__url_shown(source->path);
    if (!shown) return tarn__fail_memory(err);
    free(source->path);
    source->path = shown;
    return TARN_OK;
}

static tarn_status open_source(const char *path, tarn_dataset_options *o,
                               tarn__storage **out, tarn_error *err)
{
    const tarn__storage_kind *kind = o->shards ? &tarn__kind_fold : kind_of(path);
    bool remote = tarn__is_remote(o->shards && o->shards[0] ? o->shards[0] : path);
    if (o->index_path && (!remote || o->shards || kind != &tarn__kind_fold))
        return tarn__fail_at(err, TARN_ERR_USAGE, path, TARN_NO_OFFSET,
                             "index_path is for remote folds only");
    o->cache = remote ? cache_folder(o->cache) : NULL;
    TARN_TRY(tarn__storage_new(kind, path, out, err));
    tarn_status status = open_cache(*out, o, err);
    if (status == TARN_OK)
        status = kind == &tarn__kind_gnz   ? tarn__open_gnz(*out, o, err)
                 : kind == &tarn__kind_iac ? tarn__open_iac(*out, o, err)
                                           : tarn__open_fold(*out, o, err);
    if (status == TARN_OK && tarn__is_remote(path)) status = show_path(*out, err);
    if (status != TARN_OK) tarn__storage_release(*out);
    return status;
}

tarn_status tarn__row_key(uint64_t row, tarn_text *out, tarn_error *err)
{
    char text[24];
    int len = snprintf(text, sizeof text, "%llu", (unsigned long long)row);
    return tarn__text_set(out, text, (size_t)len, err);
}

bool tarn__find_row(const char *key, uint64_t from, uint64_t count, uint64_t *out)
{
    if (key[0] == '0' && key[1]) return false;
    return tarn__digits(key, strlen(key), UINT64_MAX, out) && *out >= from &&
           *out < count;
}

/* --- Fields of the samples ---------------------------------------------------------- */

static void set_fieldset(tarn_dataset *d, tarn__fieldset *f)
{
    d->fieldset = f;
    d->n_fields = f->count;
    d->ids = f->ids;
    d->first = f->first;
    d->names = f->names;
}

/* Adds a set of samples to the counts of the fields that they lack. */
static tarn_status add_lacking(void *context, const uint32_t *fields, size_t n_fields,
                               uint64_t samples, uint64_t twice, tarn_error *err)
{
    const tarn_dataset *d = context;
    (void)twice;
    (void)err;
    for (uint32_t i = 0; i < d->n_fields; i++) {
        size_t count;
        bool has = tarn__is_pseudo(d->ids[i]);
        const uint32_t *ids = tarn__field_ids(d, i, &count);
        for (size_t k = 0; k < count; k++)
            for (size_t n = 0; n < n_fields && !has; n++)
                has = fields[n] == ids[k];
        if (!has) d->fieldset->lacking[i] += samples;
    }
    return TARN_OK;
}

/* Counts, for each field, the samples of the source that lack it. */
static tarn_status count_lacking(tarn_dataset *d, tarn_error *err)
{
    const tarn__storage *s = d->source;
    d->fieldset->lacking = calloc(d->n_fields + 1u, sizeof *d->fieldset->lacking);
    if (!d->fieldset->lacking) return tarn__fail_memory(err);
    return s->kind->sets(s->state, &d->chain, s->samples, add_lacking, d, err);
}

/* What the samples need: all listed fields. The caller frees fields and ends, also after
 * a failure. */
static tarn_status list_needs(const tarn_dataset *d, tarn__need *need, uint32_t **fields,
                              size_t **ends, tarn_error *err)
{
    size_t n = 0, count;
    *fields = malloc((d->n_fields + d->fieldset->n_choices + 1) * sizeof **fields);
    *ends = malloc((d->n_fields + 1u) * sizeof **ends);
    if (!*fields || !*ends) return tarn__fail_memory(err);
    for (uint32_t i = 0; i < d->n_fields; i++) {
        if (d->first[i] != i || tarn__is_pseudo(d->ids[i])) continue;
        const uint32_t *ids = tarn__field_ids(d, i, &count);
        memcpy(*fields + n, ids, count * sizeof *ids);
        (*ends)[need->count++] = n += count;
    }
    need->fields = *fields;
    need->ends = *ends;
    return TARN_OK;
}

/* Keeps the samples that have all listed fields; without a list, those in which no field
 * occurs twice. */
static tarn_status require_fields(tarn_dataset *d, bool listed, bool drop_ambiguous,
                                  tarn_dataset **out, tarn_error *err)
{
    const tarn__storage *s = d->source;
    tarn__need need = {
        .once = true, .may_lack = !listed, .drop_twice = drop_ambiguous, .whole = true};
    uint64_t kept = s->samples;
    uint32_t *fields = NULL;
    size_t *ends = NULL;
    unsigned char *marks = calloc((size_t)(s->samples / 8 + 1), 1);
    tarn_status status = marks ? TARN_OK : tarn__fail_memory(err);
    if (status == TARN_OK) status = list_needs(d, &need, &fields, &ends, err);
    if (status == TARN_OK)
        status = s->kind->keep(s->state, &need, &d->chain, s->samples, marks, &kept, err);
    if (status == TARN_OK && kept < s->samples)
        status = tarn__dataset_keep(d, marks, out, err);
    else if (status == TARN_OK)
        *out = tarn__dataset_use(d);
    if (status == TARN_OK) {
        (*out)->dropped = need.dropped;
        (*out)->left_out = s->samples - kept - need.dropped;
        if ((*out)->left_out) status = count_lacking(d, err);
        if (status != TARN_OK) tarn_dataset_close(*out);
    }
    free(ends);
    free(fields);
    free(marks);
    return status;
}

tarn_status tarn__dataset_new(tarn__storage *s, const char *const *fields,
                              bool drop_ambiguous, tarn_dataset **out, tarn_error *err)
{
    tarn__fieldset *f = NULL;
    tarn_dataset *d = calloc(1, sizeof *d);
    if (!d) return tarn__fail_memory(err);
    atomic_init(&d->users, 1);
    d->count = s->samples;
    d->live = s->kind == &tarn__kind_mix;
    tarn_status status =
        fields ? tarn__listed_fields(s, fields, &f, err) : tarn__plain_fields(s, &f, err);
    if (f) set_fieldset(d, f);
    if (status != TARN_OK) {
        tarn_dataset_close(d);
        return status;
    }
    d->source = s;
    /* The fields of a mix were checked for each part. */
    if (!s->kind->keep || d->live || (!fields && !drop_ambiguous)) {
        *out = d;
        return TARN_OK;
    }
    atomic_fetch_add(&s->users, 1); /* the caller keeps it on failure */
    status = require_fields(d, fields != NULL, drop_ambiguous, out, err);
    tarn_dataset_close(d);
    if (status == TARN_OK) tarn__storage_release(s);
    return status;
}

tarn_dataset *tarn__dataset_use(tarn_dataset *d)
{
    atomic_fetch_add(&d->users, 1);
    return d;
}

tarn_status tarn__dataset_like(tarn_dataset *from, tarn_dataset **out, tarn_error *err)
{
    tarn_dataset *d = calloc(1, sizeof *d);
    if (!d) return tarn__fail_memory(err);
    *d = (tarn_dataset){.count = from->count,
                        .epoch = from->epoch,
                        .live = from->live,
                        .dropped = from->dropped,
                        .left_out = from->left_out};
    atomic_init(&d->users, 1);
    tarn_status status = tarn__chain_copy(&d->chain, &from->chain, err);
    if (status != TARN_OK) {
        free(d);
        return status;
    }
    d->source = from->source;
    atomic_fetch_add(&d->source->users, 1);
    atomic_fetch_add(&from->fieldset->users, 1);
    set_fieldset(d, from->fieldset);
    *out = d;
    return TARN_OK;
}

tarn_status tarn__dataset_set_fields(tarn_dataset *d, const char *const *fields,
                                     tarn_error *err)
{
    tarn__fieldset *f = NULL;
    tarn_status status = tarn__listed_fields(d->source, fields, &f, err);
    if (status != TARN_OK) {
        tarn__fieldset_release(f);
        return status;
    }
    tarn__fieldset_release(d->fieldset);
    set_fieldset(d, f);
    return TARN_OK;
}

/* --- Opening ----------------------------------------------------------------------- */

TARN__DEFINE_INIT(tarn_dataset_options, TARN_DATASET_OPTIONS_INIT)

tarn_status tarn_dataset_open(const char *path, const tarn_dataset_options *options,
                              tarn_dataset **out, tarn_error *err)
{
    TARN__NEED(err, "path", path);
    TARN__NEED(err, "out", out);
    tarn__storage *source;
    TARN__OPTIONS(tarn_dataset_options, o, TARN_DATASET_OPTIONS_INIT, options, err);
    const char *const *fields = o.fields;
    const char **stored;
    TARN_TRY(tarn__stored_names(fields, &stored, err));
    o.fields = stored;
    tarn_status status = open_source(path, &o, &source, err);
    free(stored);
    TARN_TRY(status);
    source->cold = o.cold;
    status = tarn__dataset_new(source, fields, o.drop_ambiguous, out, err);
    if (status != TARN_OK) tarn__storage_release(source);
    return status;
}

void tarn_dataset_close(tarn_dataset *d)
{
    if (!d || atomic_fetch_sub(&d->users, 1) != 1) return;
    tarn_dataset_close(d->base);
    tarn_order_close(d->order);
    tarn__chain_reset(&d->chain);
    tarn__storage_release(d->source);
    tarn__fieldset_release(d->fieldset);
    free(d);
}

static tarn_dataset_info info_of(const tarn_dataset *d)
{
    tarn_dataset_info info = {.kind = d->source->kind->kind,
                              .samples = d->count,
                              .fields = d->n_fields,
                              .in_file = d->source->samples,
                              .dropped = d->dropped,
                              .left_out = d->left_out,
                              .remote = d->source->remote,
                              .cache_problem = d->source->cache_problem,
                              .shards = d->source->shards,
                              .numbered = d->source->numbered,
                              .in_order = !d->order && tarn__chain_ascends(&d->chain),
                              .epoch = d->epoch,
                              .world_size = 1};
    if (!d->order) return info;
    const tarn_order_options *o = tarn__order_options(d->order);
    info.whole = tarn__order_is_whole(d->order);
    info.seed = o->seed;
    info.rank = o->rank;
    info.world_size = o->world_size;
    return info;
}

void tarn_dataset_info_get(const tarn_dataset *d, tarn_dataset_info *out, size_t size)
{
    tarn_dataset_info info = {0};
    if (d) info = info_of(d);
    TARN__FILL_OUT(out, size, info);
}

uint64_t tarn_dataset_count(const tarn_dataset *d)
{
    return d ? d->count : 0;
}

const char *tarn_dataset_field(const tarn_dataset *d, uint32_t field)
{
    return d && field < d->n_fields ? d->names[field] : NULL;
}

const char *tarn_dataset_file_field(const tarn_dataset *d, uint32_t number)
{
    if (!d) return NULL;
    const tarn__names *fields = &d->source->fields;
    return number < fields->count ? tarn__names_get(fields, number).data : NULL;
}

tarn_status tarn_dataset_field_find(const tarn_dataset *d, const char *name,
                                    uint32_t *out, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "name", name);
    TARN__NEED(err, "out", out);
    for (uint32_t i = 0; i < d->n_fields; i++)
        if (strcmp(d->names[i], name) == 0) {
            *out = i;
            return TARN_OK;
        }
    return tarn__fail_field(d->source, name, err);
}

/* --- One sample -------------------------------------------------------------------- */

tarn_status tarn__resolve(tarn_dataset **dataset, uint64_t *sample, tarn_error *err)
{
    tarn_dataset *d = *dataset;
    if (*sample >= d->count)
        return tarn__fail_at(err, TARN_ERR_NO_SAMPLE, d->source->path, TARN_NO_OFFSET,
                             "no sample %llu; the dataset has %llu",
                             (unsigned long long)*sample, (unsigned long long)d->count);
    if (!d->order) return TARN_OK;
    tarn__order_map(d->order, sample, 1);
    *dataset = d->base;
    return TARN_OK;
}

tarn_status tarn__check_field(const tarn_dataset *d, uint32_t field, tarn_error *err)
{
    if (field < d->n_fields) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_NO_FIELD, d->source->path, TARN_NO_OFFSET,
                         "no field number %u; the dataset has %u", field, d->n_fields);
}

static tarn_status text_view(const char *text, size_t size, tarn_view *out,
                             tarn_error *err)
{
    char *copy = malloc(size + 1);
    if (!copy) return tarn__fail_memory(err);
    memcpy(copy, text, size);
    copy[size] = '\0';
    *out = (tarn_view){(unsigned char *)copy, size, copy};
    return TARN_OK;
}

static tarn_status number_view(uint64_t number, tarn_view *out, tarn_error *err)
{
    char text[24];
    int len = snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    return text_view(text, (size_t)len, out, err);
}

tarn_status tarn__pseudo(tarn_dataset *d, uint64_t sample, uint32_t id, tarn_view *out,
                         tarn_error *err)
{
    tarn_text text = {0};
    if (id == TARN__FIELD_IDX) return number_view(sample, out, err);
    if (id != TARN__FIELD_KEY) {
        tarn_place place;
        TARN_TRY(tarn__dataset_place(d, sample, &place, err));
        if (id == TARN__FIELD_SOURCE) return number_view(place.source, out, err);
        if (id == TARN__FIELD_FID) return number_view(place.shard, out, err);
        const char *name = tarn__base_name(place.path);
        return text_view(name, strlen(name), out, err);
    }
    TARN_TRY(tarn_dataset_key(d, sample, &text, err));
    *out = (tarn_view){(unsigned char *)text.data, text.size, text.data};
    return TARN_OK;
}

static tarn_status view_field(tarn_dataset *d, uint64_t sample, uint32_t field,
                              tarn_view *out, tarn_error *err)
{
    uint32_t id = d->ids[field];
    if (tarn__is_pseudo(id)) return tarn__pseudo(d, sample, id, out, err);
    tarn__storage *s = d->source;
    sample = tarn__dataset_at(d, sample);
    TARN_TRY(tarn__field_of_row(d, sample, &id, err));
    TARN_TRY(tarn__leaf(&s, &sample, &id, err));
    return s->kind->view(s->state, sample, id, out, err);
}

tarn_status tarn_dataset_get(tarn_dataset *d, uint64_t sample, uint32_t field,
                             tarn_view *out, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "out", out);
    *out = (tarn_view)TARN_VIEW_INIT;
    TARN_TRY(tarn__resolve(&d, &sample, err));
    TARN_TRY(tarn__check_field(d, field, err));
    if (!d->source->remote || tarn__has_supply())
        return view_field(d, sample, field, out, err);
    tarn__supply supply;
    tarn__supply_prefetched(&supply, d);
    tarn_status status = view_field(d, sample, field, out, err);
    tarn__supply_end(&supply);
    return status;
}

uint64_t tarn_dataset_lacking(const tarn_dataset *d, uint32_t field)
{
    return d && field < d->n_fields && d->fieldset->lacking ? d->fieldset->lacking[field]
                                                            : 0;
}

/* A view of a field that is listed twice; the first view owns the bytes. */
static tarn_view borrow_view(const tarn_view *first)
{
    return (tarn_view){first->data, first->size, NULL};
}

/* Views the fields that the source did not return in one call: all, or pseudo and
 * repeated ones. */
static tarn_status get_rest(tarn_dataset *d, uint64_t sample, bool all, tarn_view *out,
                            tarn_error *err)
{
    tarn_error why;
    for (uint32_t i = 0; i < d->n_fields; i++) {
        if (d->first[i] != i) out[i] = borrow_view(&out[d->first[i]]);
        if (d->first[i] != i || !(all || tarn__is_pseudo(d->ids[i]))) continue;
        tarn_status status = view_field(d, sample, i, &out[i], &why);
        if (status == TARN_OK || status == TARN_ERR_NO_FIELD) continue;
        if (err) *err = why;
        return status;
    }
    return TARN_OK;
}

/* Views the real fields of a number, and its key. */
static tarn_status get_whole(const tarn_dataset *d, uint64_t number, tarn_view *out,
                             tarn_text *key, tarn_error *err)
{
    enum { FEW = 64 };
    const tarn__storage *s = d->source;
    uint64_t row = tarn__dataset_at(d, number);
    uint32_t few[FEW], *picked = few;
    if (!d->fieldset->choices)
        return s->kind->whole(s->state, row, d->ids, d->first, d->n_fields, out, key,
                              err);
    if (d->n_fields > FEW && !(picked = malloc(d->n_fields * sizeof *picked)))
        return tarn__fail_memory(err);
    memcpy(picked, d->ids, d->n_fields * sizeof *picked);
    tarn_status status = TARN_OK;
    for (uint32_t i = 0; i < d->n_fields && status == TARN_OK; i++)
        status = tarn__field_of_row(d, row, &picked[i], err);
    if (status == TARN_OK)
        status =
            s->kind->whole(s->state, row, picked, d->first, d->n_fields, out, key, err);
    if (picked != few) free(picked);
    return status;
}

/* sample is a number of a dataset without an order. */
static tarn_status get_all(tarn_dataset *d, uint64_t sample, tarn_view *out,
                           tarn_text *key, tarn_error *err)
{
    tarn_status status = TARN_OK;
    bool whole = key && d->source->kind->whole;
    if (whole) status = get_whole(d, sample, out, key, err);
    if (status == TARN_OK) status = get_rest(d, sample, !whole, out, err);
    if (status == TARN_OK && key && !whole)
        status = tarn_dataset_key(d, sample, key, err);
    for (uint32_t i = 0; status != TARN_OK && i < d->n_fields; i++)
        tarn_view_release(&out[i]);
    return status;
}

tarn_status tarn_dataset_get_all(tarn_dataset *d, uint64_t sample, tarn_view *out,
                                 tarn_text *key, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "out", out);
    for (uint32_t i = 0; i < d->n_fields; i++)
        out[i] = (tarn_view)TARN_VIEW_INIT;
    TARN_TRY(tarn__resolve(&d, &sample, err));
    if (!d->source->remote) return get_all(d, sample, out, key, err);
    tarn__supply supply;
    TARN_TRY(tarn__supply_begin(&supply, d, sample, true, key != NULL, err));
    tarn_status status = get_all(d, sample, out, key, err);
    tarn__supply_end(&supply);
    return status;
}

tarn_status tarn_dataset_release(tarn_dataset *d, uint64_t sample, tarn_view *views,
                                 size_t count, tarn_error *err)
{
    for (size_t i = 0; views && i < count; i++)
        tarn_view_release(&views[i]);
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "views", views || !count);
    TARN_TRY(tarn__resolve(&d, &sample, err));
    return tarn__settle(d, sample, err);
}
