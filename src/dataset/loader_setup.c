/* Decides how each field is loaded, when a loader is opened, from the names of the fields
 * and the options. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/options.h"
#include "dataset/dataset.h"
#include "dataset/loader.h"

enum { MOST_CHUNKS = 16, LEAST_CHUNK = 1, MOST_CHUNK = 32 };

/* --- Shapes ------------------------------------------------------------------------ */

static tarn__shape *shape_new(tarn_dtype dtype, unsigned ndim, const uint64_t *lengths,
                              uint64_t bytes)
{
    tarn__shape *shape = malloc(sizeof *shape + ndim * sizeof *lengths);
    if (!shape) return NULL;
    uint64_t *copy = (uint64_t *)(shape + 1);
    if (ndim) memcpy(copy, lengths, ndim * sizeof *copy);
    *shape = (tarn__shape){dtype, ndim, bytes, copy};
    return shape;
}

static bool add_hint(tarn__load_column *c, tarn__shape *shape)
{
    if (!shape) return false;
    c->hints[c->n_hints++] = shape;
    atomic_store_explicit(&c->hint, shape, memory_order_release);
    return true;
}

/* Earlier hints are kept, because windows point to them. */
void tarn__setup_hint(tarn__load_column *c, const tarn__shape *shape)
{
    const tarn__shape *now = atomic_load_explicit(&c->hint, memory_order_relaxed);
    if (now && tarn__shape_same(now, shape)) return;
    for (unsigned i = 0; i < c->n_hints; i++)
        if (tarn__shape_same(c->hints[i], shape)) {
            atomic_store_explicit(&c->hint, c->hints[i], memory_order_release);
            return;
        }
    if (c->n_hints == TARN__MAX_HINTS) return;
    (void)add_hint(c, shape_new(shape->dtype, shape->ndim, shape->lengths, shape->bytes));
}

void tarn__setup_hint_longest(tarn__load_column *c, const tarn__piece *pieces,
                              size_t count)
{
    const tarn__shape *now = atomic_load_explicit(&c->hint, memory_order_relaxed);
    const tarn__shape *longest = pieces[0].shape;
    for (size_t i = 1; i < count; i++)
        if (pieces[i].shape->bytes > longest->bytes) longest = pieces[i].shape;
    bool small = longest->bytes <= TARN__EARLY_BYTES;
    if (!now || small != (now->bytes <= TARN__EARLY_BYTES)) tarn__setup_hint(c, longest);
}

static tarn_status hint_plan(tarn__load_column *c, const tarn_image_steps *steps,
                             tarn_error *err)
{
    static const tarn_dtype dtypes[] = {
        [TARN_IMAGE_U8] = {'|', 'u', 1},
        [TARN_IMAGE_F32] = {'<', 'f', 4},
        [TARN_IMAGE_F16] = {'<', 'f', 2},
    };
    uint64_t hwc[] = {steps->height, steps->width, steps->channels};
    uint64_t chw[] = {steps->channels, steps->height, steps->width};
    tarn__shape *shape =
        shape_new(dtypes[steps->type], 3, steps->layout == TARN_IMAGE_CHW ? chw : hwc,
                  tarn__image_plan_size(c->plan));
    return add_hint(c, shape) ? TARN_OK : tarn__fail_memory(err);
}

static tarn_status hint_integer(tarn__load_column *c, tarn_error *err)
{
    tarn__shape *shape = shape_new((tarn_dtype){'<', 'i', 8}, 0, NULL, 8);
    return add_hint(c, shape) ? TARN_OK : tarn__fail_memory(err);
}

/* --- Columns ----------------------------------------------------------------------- */

/* The class of the codecs of all names that a field has in the file. */
static tarn__codec_class class_of_field(const tarn_dataset *d, uint32_t field)
{
    const char *name = tarn_dataset_field_stored(d, field, 0);
    tarn__codec_class first = tarn__codec_class_of(name);
    for (uint32_t i = 1; (name = tarn_dataset_field_stored(d, field, i)); i++)
        if (tarn__codec_class_of(name) != first) return TARN__CODEC_OTHER;
    return first;
}

/* The class of the fields that a template may select: those with its ending. */
static tarn__codec_class class_of_template(const tarn_dataset *d, const char *template)
{
    const char *ending = strrchr(template, '.');
    bool any = false;
    tarn__codec_class first = tarn__codec_class_of(template);
    for (uint32_t i = 0; ending && i < d->n_fields; i++) {
        const char *dot = strrchr(d->names[i], '.');
        if (!dot || strcmp(dot, ending) != 0) continue;
        tarn__codec_class one = class_of_field(d, i);
        if (any && one != first) return TARN__CODEC_OTHER;
        first = one;
        any = true;
    }
    return first;
}

/* Sets the name that selects the codec of a column: the field's own, or the codec that an
 * IAC file names for its payloads; and the class of the codec, OTHER if samples have
 * different ones. *by_name is set if the name decides, at least for the first sample. */
static tarn_status name_codec(const tarn__load_setup *s, tarn__load_column *c,
                              bool *by_name, tarn_error *err)
{
    tarn_field_form form = {.form = TARN_FORM_NAMED};
    tarn_dataset *d = s->dataset;
    /* The first sample of a mix may not have the field. */
    if (!s->o.views && d->count &&
        tarn_dataset_form(d, 0, c->field, &form, sizeof form, NULL) != TARN_OK)
        form.form = TARN_FORM_NAMED;
    *by_name = form.form == TARN_FORM_NAMED || form.form == TARN_FORM_BYTES;
    const char *given = s->o.codecs ? s->o.codecs[c - s->columns] : NULL;
    c->codec_given = given != NULL;
    if (given && !*by_name)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "codec %s for field %s, which is not stored as bytes", given,
                          c->name);
    if (given && !tarn__codec_decodes(given))
        return tarn__fail(
            err, TARN_ERR_USAGE,
            "%s: there is no codec %s for this field (codecs have the names of "
            "extensions that tarn decodes, such as png, json or npy)",
            c->name, given);
    const char *first = s->o.views ? NULL : tarn_dataset_field_stored(d, c->field, 0);
    c->codec = strdup(given                          ? given
                      : form.form == TARN_FORM_BYTES ? form.codec
                      : first                        ? first
                                                     : c->name);
    if (!c->codec) return tarn__fail_memory(err);
    c->decoder = given || form.form != TARN_FORM_NAMED ? tarn__codec_class_of(c->codec)
                 : s->o.views                          ? class_of_template(d, c->name)
                                                       : class_of_field(d, c->field);
    return TARN_OK;
}

/* Name i of those that select the codec of a column, or NULL. A field with alternatives
 * has several. */
static const char *codec_name(const tarn__load_setup *s, const tarn__load_column *c,
                              uint32_t i)
{
    if (i == 0) return c->codec;
    if (s->o.views || c->codec_given) return NULL;
    return tarn_dataset_field_stored(s->dataset, c->field, i);
}

/* Whether all samples have images, in the same compression. */
static bool is_image(const tarn__load_setup *s, tarn__load_column *c)
{
    const char *name;
    tarn__squeeze other;
    c->squeeze = TARN__PLAIN;
    if (c->decoder == TARN__CODEC_IMAGE) return true; /* also for templates */
    if (!tarn__codec_is_image(c->codec, &c->squeeze)) return false;
    for (uint32_t i = 1; (name = codec_name(s, c, i)); i++)
        if (!tarn__codec_is_image(name, &other) || other != c->squeeze) return false;
    return true;
}

/* Whether some samples have label maps. */
static bool is_labels(const tarn__load_setup *s, const tarn__load_column *c)
{
    const char *name;
    for (uint32_t i = 0; (name = codec_name(s, c, i)); i++)
        if (tarn__codec_is_labels(name)) return true;
    return false;
}

static bool are_arrays(const tarn__load_setup *s, const tarn__load_column *c)
{
    const char *name;
    for (uint32_t i = 0; (name = codec_name(s, c, i)); i++)
        if (!tarn__codec_is_array(name)) return false;
    return true;
}

static tarn_status set_mask(const tarn__load_setup *s, tarn__load_column *c,
                            const tarn_image_steps *steps, bool by_name, tarn_error *err)
{
    if (!steps)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "field %s is loaded as a mask, but there are no image steps",
                          c->name);
    if (!by_name || !are_arrays(s, c))
        return tarn__fail(err, TARN_ERR_USAGE,
                          "field %s cannot be a mask (expected a label map, npy, rle or "
                          "an image)",
                          c->name);
    c->way = TARN__LOAD_MASK;
    c->image = c->decoder == TARN__CODEC_IMAGE;
    return tarn__image_plan_new(steps, &c->plan, err);
}

static tarn_status set_way(const tarn__load_setup *s, tarn__load_column *c,
                           const tarn_image_steps *steps, bool by_name, tarn_error *err)
{
    bool image = by_name && is_image(s, c);
    bool labels = by_name && c->as == TARN_LOAD_AUTO && is_labels(s, c);
    if (c->as == TARN_LOAD_MASK || (labels && steps))
        return set_mask(s, c, steps, by_name, err);
    c->image = image && c->squeeze == TARN__PLAIN && c->as == TARN_LOAD_AUTO;
    c->way = TARN__LOAD_VALUE;
    if (c->as == TARN_LOAD_BYTES ||
        (by_name && c->as == TARN_LOAD_AUTO && c->decoder == TARN__CODEC_NONE))
        c->way = TARN__LOAD_READ;
    if (c->as == TARN_LOAD_VIEWS) c->way = TARN__LOAD_VIEW;
    if (c->as == TARN_LOAD_INTEGER || (by_name && c->decoder == TARN__CODEC_NUMBER))
        TARN_TRY(hint_integer(c, err));
    if (!steps || c->as != TARN_LOAD_AUTO || !image) return TARN_OK;
    c->way = TARN__LOAD_STEPS;
    c->image = true;
    TARN_TRY(tarn__image_plan_new(steps, &c->plan, err));
    return hint_plan(c, steps, err);
}

/* Without a list of fields, the columns are all fields, or all templates, in order. */
static tarn_status find_field(const tarn__load_setup *s, tarn__load_column *c,
                              tarn_error *err)
{
    c->field = (uint32_t)(c - s->columns);
    if (!s->o.fields) return TARN_OK;
    if (!s->o.views) return tarn_dataset_field_find(s->dataset, c->name, &c->field, err);
    for (uint32_t i = 0; tarn__views_template(s->o.views, i); i++)
        if (strcmp(tarn__views_template(s->o.views, i), c->name) == 0) {
            c->field = i;
            return TARN_OK;
        }
    return tarn__fail(err, TARN_ERR_NO_FIELD, "the views have no template %s", c->name);
}

static tarn_status set_column(tarn__load_setup *s, tarn__load_column *c,
                              const tarn_load_field *f, tarn_error *err)
{
    if (!f->field) return tarn__fail(err, TARN_ERR_USAGE, "a field has no name");
    if ((unsigned)f->as > TARN_LOAD_MASK)
        return tarn__fail(err, TARN_ERR_USAGE, "unknown way to load a field: %d",
                          (int)f->as);
    if (!(c->name = strdup(f->field))) return tarn__fail_memory(err);
    TARN_TRY(find_field(s, c, err));
    c->as = f->as;
    bool by_name;
    TARN_TRY(name_codec(s, c, &by_name, err));
    c->by_name = by_name;
    bool image = is_image(s, c) || is_labels(s, c);
    if (f->image && f->as != TARN_LOAD_MASK && (!image || f->as != TARN_LOAD_AUTO))
        return tarn__fail(err, TARN_ERR_USAGE,
                          "image steps for field %s, which is not decoded as an image",
                          c->name);
    TARN_TRY(set_way(s, c, f->image ? f->image : s->o.image, by_name, err));
    c->image = c->image && s->o.fallback;
    s->decodes |= tarn__load_decodes(c) && !tarn__is_early(c, atomic_load(&c->hint));
    return TARN_OK;
}

/* --- Padding ----------------------------------------------------------------------- */

static bool has_column(const tarn__load_setup *s, const char *name)
{
    for (size_t i = s->first; i < s->n_columns; i++)
        if (strcmp(s->columns[i].name, name) == 0) return true;
    for (size_t i = 0; i < s->n_extra; i++)
        if (strcmp(s->extra[i], name) == 0) return true;
    return false;
}

/* Adds a column of the batch that is not a field, and stores its number in *out. */
static tarn_status add_extra(tarn__load_setup *s, const char *field, const char *ending,
                             size_t *out, tarn_error *err)
{
    size_t size = strlen(field) + strlen(ending) + 1;
    char *name = malloc(size);
    if (!name) return tarn__fail_memory(err);
    snprintf(name, size, "%s%s", field, ending);
    if (has_column(s, name)) {
        free(name);
        return tarn__fail(
            err, TARN_ERR_USAGE,
            "the %s of field %s would have the name of another field, %s%s; "
            "give that field another name",
            ending + 1, field, field, ending);
    }
    *out = s->n_columns + s->n_extra;
    s->extra[s->n_extra++] = name;
    return TARN_OK;
}

static tarn_status set_collate(tarn__load_setup *s, tarn__load_column *c,
                               const tarn_collate_options *o, tarn_error *err)
{
    tarn__collate how;
    TARN_TRY(tarn__collate_take(o, &how, err));
    if (how.kind == TARN_COLLATE_STACK)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "field %s: a loader stacks arrays of one shape without collate",
                          c->name);
    bool arrays = c->way == TARN__LOAD_MAP ||
                  (c->way == TARN__LOAD_VALUE && c->as != TARN_LOAD_INTEGER &&
                   !atomic_load(&c->hint) && (!c->by_name || are_arrays(s, c)));
    if (!arrays)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "field %s cannot be padded or joined: it is not loaded as "
                          "arrays of different shapes",
                          c->name);
    if (!(c->collate = malloc(sizeof *c->collate))) return tarn__fail_memory(err);
    *c->collate = how;
    if (how.mask) TARN_TRY(add_extra(s, c->name, "_mask", &c->mask, err));
    if (how.lengths) TARN_TRY(add_extra(s, c->name, "_lengths", &c->lengths, err));
    return TARN_OK;
}

static tarn_status set_collates(tarn__load_setup *s, const tarn_loader_options *o,
                                tarn_error *err)
{
    s->extra = calloc(2 * s->n_columns + 1, sizeof *s->extra);
    if (!s->extra) return tarn__fail_memory(err);
    const tarn_collate_options *const *list = o->collate;
    for (size_t i = s->first; list && i < s->n_columns; i++)
        if (list[i - s->first])
            TARN_TRY(set_collate(s, &s->columns[i], list[i - s->first], err));
    return TARN_OK;
}

/* --- The caller's function --------------------------------------------------------- */

/* Adds the columns that it makes; batches begin with them. */
static tarn_status set_map(tarn__load_setup *s, tarn_error *err)
{
    const tarn_loader_options *o = &s->o;
    if (!o->map) return TARN_OK;
    s->first = s->n_columns;
    s->decodes = true;
    for (size_t i = 0; i < o->n_map_fields; i++) {
        const char *name = o->map_fields[i];
        if (!name || !*name || has_column(s, name))
            return tarn__fail(err, TARN_ERR_USAGE,
                              "name %zu of map_fields is missing or occurs twice (%s)", i,
                              name ? name : "NULL");
        tarn__load_column *c = &s->columns[s->n_columns];
        if (!(c->name = strdup(name))) return tarn__fail_memory(err);
        c->way = TARN__LOAD_MAP;
        s->n_columns++;
    }
    return TARN_OK;
}

/* --- All columns ---------------------------------------------------------------------
 */

/* Whether a field is an image that a mask with this plan can follow; without a plan, any
 * image. */
static bool has_image(const tarn__load_setup *s, const tarn__image_plan *plan)
{
    for (size_t i = 0; i < s->n_columns; i++)
        if (s->columns[i].way == TARN__LOAD_STEPS &&
            (!plan || tarn__image_plans_agree(s->columns[i].plan, plan)))
            return true;
    return false;
}

/* Options that would have no effect are errors. */
static tarn_status check_images(const tarn__load_setup *s, tarn_error *err)
{
    for (size_t i = 0; i < s->n_columns; i++) {
        const tarn__load_column *c = &s->columns[i];
        if (c->way == TARN__LOAD_MASK && !has_image(s, c->plan))
            return tarn__fail(err, TARN_ERR_USAGE,
                              "field %s is a mask, but no other field is an image%s; "
                              "load it as bytes, or without image steps",
                              c->name,
                              has_image(s, NULL) ? " with the same crop and flip" : "");
    }
    if (!s->o.image || has_image(s, NULL)) return TARN_OK;
    return tarn__fail(err, TARN_ERR_USAGE,
                      "image steps (resize) have no effect: none of the %zu fields is "
                      "decoded as an image by its name or its codec",
                      s->n_columns);
}

static tarn_status set_columns(tarn__load_setup *s, tarn_error *err)
{
    const tarn_loader_options *o = &s->o;
    size_t count = o->fields ? o->n_fields : s->dataset->n_fields;
    if (!o->fields && o->views)
        for (count = 0; tarn__views_template(o->views, count);)
            count++;
    if ((count == 0 && !o->fields) || count > TARN_MAX_DATASET_FIELDS)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "cannot load %zu fields (expected 1 to %u)", count,
                          (unsigned)TARN_MAX_DATASET_FIELDS);
    s->columns = calloc(count + o->n_map_fields + 1, sizeof *s->columns);
    if (!s->columns) return tarn__fail_memory(err);
    for (; s->n_columns < count; s->n_columns++) {
        uint32_t i = (uint32_t)s->n_columns;
        tarn_load_field f = {o->views ? tarn__views_template(o->views, i)
                                      : tarn_dataset_field(s->dataset, i),
                             TARN_LOAD_AUTO, NULL};
        if (o->fields) f = o->fields[i];
        tarn_status status = set_column(s, &s->columns[i], &f, err);
        if (status != TARN_OK) {
            s->n_columns++;
            return status;
        }
    }
    return TARN_OK;
}

/* --- Setup ------------------------------------------------------------------------- */

tarn_status tarn__setup_check(const tarn_loader_options *o, tarn_error *err)
{
    if (o->batch == 0 || o->batch > TARN_MAX_LOADER_BATCH)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "batch size %llu is out of range (1 to %u)",
                          (unsigned long long)o->batch, TARN_MAX_LOADER_BATCH);
    if (o->threads > TARN_MAX_LOADER_THREADS || o->prefetch > TARN_MAX_LOADER_AHEAD)
        return tarn__fail(
            err, TARN_ERR_USAGE,
            "%u threads and %u batches of prefetch exceed the limits of %u and %u",
            o->threads, o->prefetch, TARN_MAX_LOADER_THREADS, TARN_MAX_LOADER_AHEAD);
    if ((unsigned)o->on_error > TARN_ON_ERROR_REPLACE)
        return tarn__fail(err, TARN_ERR_USAGE, "unknown on_error: %d", (int)o->on_error);
    if (o->codecs && !o->fields)
        return tarn__fail(err, TARN_ERR_USAGE, "codecs need a list of fields");
    if (!o->map != !o->map_fields || !o->map != !o->n_map_fields ||
        o->n_map_fields > TARN_MAX_DATASET_FIELDS)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "map and map_fields (1 to %u names) must be set together",
                          (unsigned)TARN_MAX_DATASET_FIELDS);
    if (o->collate && !o->fields && !o->map)
        return tarn__fail(err, TARN_ERR_USAGE, "collate needs a list of fields");
    if (!o->alloc != !o->free)
        return tarn__fail(err, TARN_ERR_USAGE, "alloc and free must be set together");
    return TARN_OK;
}

static size_t chunk_size(size_t batch)
{
    size_t chunk = (batch + MOST_CHUNKS - 1) / MOST_CHUNKS;
    return chunk < LEAST_CHUNK ? LEAST_CHUNK : chunk > MOST_CHUNK ? MOST_CHUNK : chunk;
}

tarn_status tarn__setup_new(tarn_dataset *dataset, const tarn_loader_options *o,
                            uint64_t seed, tarn__load_setup **out, tarn_error *err)
{
    tarn__load_setup *s = calloc(1, sizeof *s);
    if (!s) return tarn__fail_memory(err);
    atomic_init(&s->users, 1);
    s->o = *o;
    s->dataset = dataset;
    atomic_fetch_add(&dataset->users, 1);
    s->staged = dataset->source->cold;
    s->remote = tarn__may_be_away(dataset->source);
    s->batch = (size_t)o->batch;
    s->chunk = chunk_size(s->batch);
    s->seed = seed;
    s->decode = (tarn_decode_options)TARN_DECODE_OPTIONS_INIT;
    tarn_status status = tarn__options_take(&s->decode, sizeof s->decode, o->decode, err);
    if (status == TARN_OK) status = set_columns(s, err);
    if (status == TARN_OK) status = check_images(s, err);
    if (status == TARN_OK) status = set_map(s, err);
    if (status == TARN_OK) status = set_collates(s, o, err);
    /* The caller's lists may be freed after this call. */
    s->o.decode = NULL;
    s->o.fields = NULL;
    s->o.codecs = NULL;
    s->o.collate = NULL;
    s->o.map_fields = NULL;
    s->o.image = NULL;
    s->o.state = NULL;
    if (status == TARN_OK)
        *out = s;
    else
        tarn__setup_release(s);
    return status;
}

void tarn__setup_release(tarn__load_setup *s)
{
    if (!s || atomic_fetch_sub(&s->users, 1) != 1) return;
    for (size_t i = 0; i < s->n_columns; i++) {
        tarn__load_column *c = &s->columns[i];
        for (unsigned k = 0; k < c->n_hints; k++)
            free(c->hints[k]);
        tarn__image_plan_free(c->plan);
        free(c->collate);
        free(c->codec);
        free(c->name);
    }
    for (size_t i = 0; i < s->n_extra; i++)
        free(s->extra[i]);
    free(s->extra);
    free(s->columns);
    tarn_dataset_close(s->dataset);
    free(s);
}
