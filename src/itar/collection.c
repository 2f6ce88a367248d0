/* Collections: adding, grouping, ordering, splitting. */
#include "itar/collection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/utf8.h"
#include "itar/chance.h"
#include "tar/keys.h"

tarn_status tarn__collection_new(const tarn__collection_options *options,
                                 tarn__collection **out, tarn_error *err)
{
    tarn__collection *c = calloc(1, sizeof *c);
    if (!c) return tarn__fail_memory(err);
    if (options) c->options = *options;
    c->tree.globs = c->options.globs;
    tarn__tree_output(&c->tree, c->options.output);
    tarn__names_init(&c->keys);
    tarn__names_init(&c->fields);
    tarn__names_init(&c->folders);
    tarn__names_init(&c->classes);
    tarn__buf_init(&c->texts, SIZE_MAX / 2);
    *out = c;
    return TARN_OK;
}

void tarn__collection_free(tarn__collection *c)
{
    if (!c) return;
    tarn__names_reset(&c->keys);
    tarn__names_reset(&c->fields);
    tarn__names_reset(&c->folders);
    tarn__names_reset(&c->classes);
    tarn__buf_reset(&c->texts);
    free(c->entries);
    free(c->class_of);
    free(c->samples);
    free(c);
}

tarn_status tarn__collection_add_class(tarn__collection *c, const char *name, size_t len,
                                       tarn_error *err)
{
    uint32_t id;
    if (c->n_entries || c->samples)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "classes must be numbered before files are added");
    TARN_TRY(tarn__names_add(&c->classes, name, len, &id, err));
    if (id == c->n_fixed) {
        c->n_fixed++;
        return TARN_OK;
    }
    return tarn__fail(err, TARN_ERR_FORMAT, "the class %s is listed twice",
                      TARN__SHOW(name, len));
}

/* --- Adding ------------------------------------------------------------------------ */

/* Gives a field, or its last dotted part, its new name. */
static tarn_status rename_field(const tarn__collection *c, tarn__buf *field,
                                tarn_error *err)
{
    const char *dot = field->size ? memrchr(field->data, '.', field->size) : NULL;
    size_t last = dot ? (size_t)(dot - field->data) + 1 : 0;
    for (size_t i = 0; i < c->options.n_renames; i++) {
        const tarn_pack_rename *r = &c->options.renames[i];
        size_t n = strlen(r->from);
        bool whole = n == field->size && memcmp(field->data, r->from, n) == 0;
        if (!whole && (n != field->size - last || !n ||
                       memcmp(field->data + last, r->from, n) != 0))
            continue;
        field->size = whole ? 0 : last;
        return tarn__buf_add(field, r->to, strlen(r->to), err);
    }
    return TARN_OK;
}

/* Fields are stored in lower case, so that fields that differ only in case are
 * detected. */
static tarn_status number_field(tarn__collection *c, const char *field, size_t len,
                                uint32_t *out, tarn_error *err)
{
    tarn__buf lower;
    tarn__buf_init(&lower, 4 * TARN_MAX_NAME);
    tarn_status status = tarn__utf8_is_valid(field, len)
                             ? tarn__utf8_lower(&lower, field, len, err)
                             : tarn__buf_add(&lower, field, len, err);
    if (status == TARN_OK) status = rename_field(c, &lower, err);
    if (status == TARN_OK)
        status = tarn__names_add(&c->fields, lower.size ? lower.data : "", lower.size,
                                 out, err);
    tarn__buf_reset(&lower);
    return status;
}

static tarn_status add_entry(tarn__collection *c, tarn__entry *e, const char *text,
                             size_t len, tarn_error *err)
{
    if (c->samples)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "nothing can be added to a collection after grouping");
    if (c->n_entries >= UINT32_MAX)
        return tarn__fail(err, TARN_ERR_LIMIT, "more than %u files in one collection",
                          UINT32_MAX);
    TARN_TRY(tarn__grow(&c->entries, sizeof *c->entries, c->n_entries, &c->entry_capacity,
                        err));
    e->text = c->texts.size;
    TARN_TRY(tarn__buf_add(&c->texts, text, len, err));
    TARN_TRY(tarn__buf_add(&c->texts, "", 1, err));
    c->entries[c->n_entries++] = *e;
    return TARN_OK;
}

tarn_status tarn__collect_file(tarn__collection *c, const char *key, size_t key_len,
                               const char *field, size_t field_len, const char *folder,
                               const char *name, uint32_t *out_key, tarn_error *err)
{
    tarn__entry e = {0};
    TARN_TRY(tarn__names_add(&c->keys, key, key_len, &e.sample, err));
    TARN_TRY(number_field(c, field, field_len, &e.field, err));
    TARN_TRY(tarn__names_add(&c->folders, folder, strlen(folder), &e.folder, err));
    c->files++;
    if (out_key) *out_key = e.sample;
    return add_entry(c, &e, name, strlen(name), err);
}

tarn_status tarn__collect_value(tarn__collection *c, const char *key, size_t key_len,
                                const char *field, size_t field_len, const char *value,
                                size_t value_len, tarn_error *err)
{
    tarn__entry e = {.folder = TARN__NAME_NONE, .size = (uint32_t)value_len};
    if (value_len > UINT32_MAX)
        return tarn__fail(err, TARN_ERR_LIMIT, "a value of more than 4 GiB");
    TARN_TRY(tarn__names_add(&c->keys, key, key_len, &e.sample, err));
    TARN_TRY(number_field(c, field, field_len, &e.field, err));
    c->values++;
    return add_entry(c, &e, value, value_len, err);
}

tarn_status tarn__entry_path(const tarn__collection *c, const tarn__entry *e,
                             tarn__buf *out, tarn_error *err)
{
    tarn__name folder = tarn__names_get(&c->folders, e->folder);
    const char *name = c->texts.data + e->text;
    out->size = 0;
    TARN_TRY(tarn__buf_add(out, folder.data, folder.size, err));
    if (folder.size && folder.data[folder.size - 1] != '/')
        TARN_TRY(tarn__buf_add(out, "/", 1, err));
    return tarn__buf_add(out, name, strlen(name) + 1, err);
}

/* --- Grouping ---------------------------------------------------------------------- */

static tarn_status fail_twice(const tarn__collection *c, const tarn__entry *a,
                              const tarn__entry *b, tarn_error *err)
{
    tarn__buf one, two;
    char shown[4][256];
    tarn__name key = tarn__names_get(&c->keys, a->sample),
               field = tarn__names_get(&c->fields, a->field);
    tarn__buf_init(&one, SIZE_MAX / 2);
    tarn__buf_init(&two, SIZE_MAX / 2);
    const char *texts[2] = {"a value", "a value"};
    const tarn__entry *entries[2] = {a, b};
    tarn__buf *bufs[2] = {&one, &two};
    for (int i = 0; i < 2; i++)
        if (entries[i]->folder != TARN__NAME_NONE &&
            tarn__entry_path(c, entries[i], bufs[i], NULL) == TARN_OK)
            texts[i] = tarn_printable(shown[i], sizeof shown[i], bufs[i]->data,
                                      bufs[i]->size - 1);
    tarn_status status = tarn__fail(
        err, TARN_ERR_AMBIGUOUS, "sample %s has the field \"%s\" twice: %s and %s%s",
        tarn_printable(shown[2], sizeof shown[2], key.data, key.size),
        tarn_printable(shown[3], sizeof shown[3], field.data, field.size), texts[0],
        texts[1],
        c->options.keys == TARN_KEYS_BASE && a->folder != b->folder
            ? "; keys from the whole path (--keys path) would distinguish them"
            : "");
    tarn__buf_reset(&one);
    tarn__buf_reset(&two);
    return status;
}

/* Only manifests have samples without a folder. */
static tarn_status fail_classless(const tarn__name *key, tarn_error *err)
{
    char shown[256];
    return tarn__fail(
        err, TARN_ERR_USAGE,
        "sample %s comes from a manifest, so no sub-folder is its class; add "
        "a column cls to the manifest instead of using class_from_dir",
        tarn_printable(shown, sizeof shown, key->data, key->size));
}

/* Whether all new classes have names that folds usually have. */
static bool are_folds(const tarn__collection *c)
{
    static const char *const usual[] = {"train",      "training", "val",     "valid",
                                        "validation", "test",     "testing", "eval",
                                        "dev",        "holdout"};
    for (size_t i = c->n_fixed; i < c->classes.count; i++) {
        bool found = false;
        for (size_t k = 0; k < sizeof usual / sizeof *usual; k++)
            found |= strcasecmp(tarn__names_get(&c->classes, i).data, usual[k]) == 0;
        if (!found) return false;
    }
    return c->classes.count > c->n_fixed;
}

static tarn_status check_classes(const tarn__collection *c, tarn_error *err)
{
    if (!c->options.class_from_dir || c->options.class_level || !are_folds(c))
        return TARN_OK;
    const char *name = tarn__names_get(&c->classes, c->n_fixed).data;
    return tarn__fail(
        err, TARN_ERR_USAGE,
        "the classes would be \"%s\"%s, which are names of folds; pack each of "
        "these folders into its own fold, or use class_level 2 (--class-level "
        "2) for the folders below them, or 1 if they are the classes",
        name, c->classes.count > c->n_fixed + 1 ? " etc." : "");
}

/* Adds the class of each sample as a value. */
static tarn_status add_classes(tarn__collection *c, tarn_error *err)
{
    char text[16];
    size_t keys = c->keys.count;
    for (size_t i = 0; c->options.class_from_dir && i < keys; i++) {
        uint32_t class = i < c->class_capacity ? c->class_of[i] : TARN__NAME_NONE;
        tarn__name key = tarn__names_get(&c->keys, i);
        if (class == TARN__NAME_NONE) return fail_classless(&key, err);
        int len = snprintf(text, sizeof text, "%u", class);
        TARN_TRY(
            tarn__collect_value(c, key.data, key.size, "cls", 3, text, (size_t)len, err));
    }
    return TARN_OK;
}

static int compare_names(const void *left, const void *right, void *names)
{
    const uint32_t *a = left, *b = right;
    return strcmp(tarn__names_get(names, *a).data, tarn__names_get(names, *b).data);
}

/* Classes were numbered in the order they were found. Now they are numbered by name,
 * after the classes with a fixed number. */
static tarn_status sort_classes(tarn__collection *c, tarn_error *err)
{
    size_t n = c->classes.count;
    uint32_t *order = malloc((n + 1) * sizeof *order),
             *place = malloc((n + 1) * sizeof *place), id;
    tarn__names sorted;
    tarn__names_init(&sorted);
    tarn_status status = order && place ? TARN_OK : tarn__fail_memory(err);
    for (uint32_t i = 0; status == TARN_OK && i < n; i++)
        order[i] = i;
    if (status == TARN_OK && n > c->n_fixed)
        qsort_r(order + c->n_fixed, n - c->n_fixed, sizeof *order, compare_names,
                &c->classes);
    for (uint32_t i = 0; status == TARN_OK && i < n; i++) {
        tarn__name name = tarn__names_get(&c->classes, order[i]);
        place[order[i]] = i;
        status = tarn__names_add(&sorted, name.data, name.size, &id, err);
    }
    for (size_t i = 0; status == TARN_OK && i < c->class_capacity; i++)
        if (c->class_of[i] != TARN__NAME_NONE) c->class_of[i] = place[c->class_of[i]];
    free(order);
    free(place);
    if (status == TARN_OK) {
        tarn__names_reset(&c->classes);
        c->classes = sorted;
    } else {
        tarn__names_reset(&sorted);
    }
    return status;
}

/* Afterwards the entries of a sample are consecutive, in the order they were added.
 * Samples are in the order of their first entry, which is the number of their key. */
static tarn_status sort_entries(tarn__collection *c, tarn_error *err)
{
    size_t n = c->keys.count;
    c->samples = calloc(n + 1, sizeof *c->samples);
    tarn__entry *sorted = malloc((c->n_entries + 1) * sizeof *sorted);
    if (!c->samples || !sorted) {
        free(sorted);
        return tarn__fail_memory(err);
    }
    for (size_t i = 0; i < c->n_entries; i++)
        c->samples[c->entries[i].sample].count++;
    uint32_t at = 0;
    for (size_t i = 0; i < n; i++) {
        c->samples[i].key = (uint32_t)i;
        c->samples[i].first = at;
        at += c->samples[i].count;
        c->samples[i].count = 0;
    }
    for (size_t i = 0; i < c->n_entries; i++) {
        tarn__collected *s = &c->samples[c->entries[i].sample];
        sorted[s->first + s->count++] = c->entries[i];
    }
    free(c->entries);
    c->entries = sorted;
    c->n_samples = n;
    return TARN_OK;
}

/* A few fields are compared pairwise; many fields are checked with one mark per field. */
static tarn_status check_fields(const tarn__collection *c, const tarn__collected *s,
                                uint32_t *seen_at, tarn_error *err)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const tarn__entry *e = &c->entries[s->first + i];
        uint32_t *seen = &seen_at[e->field];
        if (*seen >= s->first && *seen < s->first + i)
            return fail_twice(c, &c->entries[*seen], e, err);
        *seen = s->first + i;
    }
    return TARN_OK;
}

tarn_status tarn__collection_group(tarn__collection *c, tarn_error *err)
{
    if (c->samples) return TARN_OK;
    TARN_TRY(check_classes(c, err));
    TARN_TRY(sort_classes(c, err));
    TARN_TRY(add_classes(c, err));
    TARN_TRY(sort_entries(c, err));
    uint32_t *seen = malloc((c->fields.count + 1) * sizeof *seen);
    if (!seen) return tarn__fail_memory(err);
    memset(seen, 0xff, (c->fields.count + 1) * sizeof *seen);
    tarn_status status = TARN_OK;
    for (size_t i = 0; status == TARN_OK && i < c->n_samples; i++)
        status = check_fields(c, &c->samples[i], seen, err);
    free(seen);
    return status;
}

/* --- Order and parts --------------------------------------------------------------- */

static tarn_status check_grouped(const tarn__collection *c, tarn_error *err)
{
    if (c->samples) return TARN_OK;
    return tarn__fail(err, TARN_ERR_USAGE, "the collection is not grouped yet");
}

static void hash_keys(tarn__collection *c, tarn__chance_use use, uint64_t seed)
{
    for (size_t i = 0; i < c->n_samples; i++) {
        tarn__name key = tarn__names_get(&c->keys, c->samples[i].key);
        c->samples[i].hash = tarn__chance(tarn__key_hash(key.data, key.size), use, seed);
    }
}

/* By hash, and by key if the hashes are equal. Nothing else may have an influence. */
static int compare_hashes(const void *left, const void *right, void *keys)
{
    const tarn__collected *a = left, *b = right;
    if (a->hash != b->hash) return a->hash < b->hash ? -1 : 1;
    return strcmp(tarn__names_get(keys, a->key).data, tarn__names_get(keys, b->key).data);
}

tarn_status tarn__collection_shuffle(tarn__collection *c, uint64_t seed, tarn_error *err)
{
    TARN_TRY(check_grouped(c, err));
    hash_keys(c, TARN__CHANCE_SHUFFLE, seed);
    qsort_r(c->samples, c->n_samples, sizeof *c->samples, compare_hashes, &c->keys);
    return TARN_OK;
}

tarn_status tarn__collection_split(tarn__collection *c, const double *fractions,
                                   size_t count, uint64_t seed, tarn_error *err)
{
    TARN_TRY(check_grouped(c, err));
    TARN_TRY(tarn__check_fractions(fractions, count, err));
    hash_keys(c, TARN__CHANCE_SPLIT, seed);
    tarn__collected *sorted = malloc((c->n_samples + 1) * sizeof *sorted);
    if (!sorted) return tarn__fail_memory(err);
    for (size_t i = 0; i < c->n_samples; i++) {
        sorted[i] = c->samples[i];
        sorted[i].part = (uint32_t)i; /* the original position */
        c->samples[i].part = 0;
    }
    qsort_r(sorted, c->n_samples, sizeof *sorted, compare_hashes, &c->keys);
    size_t at = 0;
    for (size_t k = 0; k < count; k++) {
        size_t want = (size_t)(fractions[k] * (double)c->n_samples + 0.5);
        for (; want && at < c->n_samples; want--)
            c->samples[sorted[at++].part].part = (uint32_t)k + 1;
    }
    free(sorted);
    return TARN_OK;
}

tarn_status tarn__collection_filter(tarn__collection *c, tarn__keep keep, void *context,
                                    tarn_error *err)
{
    size_t kept = 0;
    TARN_TRY(check_grouped(c, err));
    for (size_t i = 0; i < c->n_samples; i++) {
        bool stays = true;
        tarn__collected s = c->samples[i];
        TARN_TRY(
            keep(context, tarn__names_get(&c->keys, s.key).data, s.part, &stays, err));
        if (stays) c->samples[kept++] = s;
    }
    c->n_samples = kept;
    return TARN_OK;
}

tarn_status tarn__collection_slice(tarn__collection *c, size_t first, size_t end,
                                   tarn_error *err)
{
    TARN_TRY(check_grouped(c, err));
    if (end > c->n_samples) end = c->n_samples;
    if (first > end) first = end;
    memmove(c->samples, c->samples + first, (end - first) * sizeof *c->samples);
    c->n_samples = end - first;
    return TARN_OK;
}

const char *tarn__collection_key(const tarn__collection *c, uint64_t number,
                                 unsigned *out_part)
{
    if (!c->samples || number >= c->n_samples) return NULL;
    if (out_part) *out_part = c->samples[number].part;
    return tarn__names_get(&c->keys, c->samples[number].key).data;
}
