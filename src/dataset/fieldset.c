/* The fields of a dataset. A field of a list is written "jpg", "img=jpg" with another
 * name, or "jpg;png" with alternatives: the first one that a sample has. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "dataset/dataset.h"
#include "dataset/kind_mix.h"

/* --- Names ------------------------------------------------------------------------- */

char *tarn__list_names(const tarn__names *names, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < names->count && used < size; i++) {
        char shown[100];
        tarn__name n = tarn__names_get(names, i);
        int len = snprintf(out + used, size - used, "%s%s", i ? ", " : "",
                           used + 120 > size
                               ? "..."
                               : tarn_printable(shown, sizeof shown, n.data, n.size));
        if (len < 0 || used + 120 > size) break;
        used += (size_t)len;
    }
    return out;
}

static const struct {
    const char *name;
    uint32_t id;
} pseudo_fields[] = {
    {"_idx", TARN__FIELD_IDX},       {"_key", TARN__FIELD_KEY},
    {"_name", TARN__FIELD_KEY},      {"_stem", TARN__FIELD_KEY},
    {"_fid", TARN__FIELD_FID},       {"_shard", TARN__FIELD_SHARD},
    {"_source", TARN__FIELD_SOURCE},
};

static uint32_t find_exact(const tarn__storage *s, const char *name, size_t len)
{
    uint32_t id = tarn__names_find(&s->fields, name, len);
    if (id != TARN__NAME_NONE) return id;
    for (size_t i = 0; i < sizeof pseudo_fields / sizeof *pseudo_fields; i++)
        if (strlen(pseudo_fields[i].name) == len &&
            memcmp(pseudo_fields[i].name, name, len) == 0)
            return pseudo_fields[i].id;
    return TARN__FIELD_NONE;
}

/* Text without spaces around it. */
typedef struct piece {
    const char *data;
    size_t size;
} piece;

/* The number of a field. If the file does not have the name with its leading dot, the dot
 * is dropped. */
static uint32_t find_field(const tarn__storage *s, piece *name)
{
    uint32_t id = find_exact(s, name->data, name->size);
    if (id != TARN__FIELD_NONE || name->size < 2 || name->data[0] != '.') return id;
    name->data++;
    name->size--;
    return find_exact(s, name->data, name->size);
}

static const char *pseudo_name(uint32_t id)
{
    size_t i = 0;
    while (pseudo_fields[i].id != id)
        i++;
    return pseudo_fields[i].name;
}

tarn_status tarn__fail_field(const tarn__storage *s, const char *text, tarn_error *err)
{
    char names[600], shown[200];
    bool several = strchr(text, ';') != NULL;
    return tarn__fail_at(err, TARN_ERR_NO_FIELD, s->path, TARN_NO_OFFSET,
                         "%s %s; the fields are %s",
                         several ? "none of the fields" : "no field",
                         tarn_printable(shown, sizeof shown, text, strlen(text)),
                         tarn__list_names(&s->fields, names, sizeof names));
}

/* --- One entry of a list ------------------------------------------------------------ */

static tarn_status bad_entry(const char *text, const char *why, tarn_error *err)
{
    char shown[200];
    return tarn__fail(err, TARN_ERR_USAGE,
                      "the field \"%s\" %s; write a field as \"jpg\", with another name "
                      "as \"img=jpg\", and with alternatives as \"jpg;png\"",
                      tarn_printable(shown, sizeof shown, text, strlen(text)), why);
}

static piece trimmed(const char *from, const char *end)
{
    while (from < end && *from == ' ')
        from++;
    while (from < end && end[-1] == ' ')
        end--;
    return (piece){from, (size_t)(end - from)};
}

/* The next alternative at *p, which becomes the start of the one after it, or NULL. */
static piece next_piece(const char **p)
{
    const char *end = *p + strcspn(*p, ";");
    piece out = trimmed(*p, end);
    *p = *end ? end + 1 : NULL;
    return out;
}

static tarn_status add_id(tarn__alternatives *a, uint32_t id, tarn_error *err)
{
    TARN_TRY(tarn__grow(&a->ids, sizeof *a->ids, a->count, &a->capacity, err));
    a->ids[a->count++] = id;
    return TARN_OK;
}

static bool has_id(const tarn__alternatives *a, uint32_t id)
{
    for (size_t i = 0; i < a->count; i++)
        if (a->ids[i] == id) return true;
    return false;
}

static tarn_status set_name(tarn__alternatives *a, piece name, tarn_error *err)
{
    a->name = strndup(name.data, name.size);
    return a->name ? TARN_OK : tarn__fail_memory(err);
}

/* "a;b": adds the alternatives that the file has. */
static tarn_status add_pieces(const tarn__storage *s, const char *text, const char *from,
                              tarn__alternatives *a, tarn_error *err)
{
    bool several = strchr(from, ';') != NULL;
    for (const char *p = from; p;) {
        piece one = next_piece(&p);
        if (one.size == 0) return bad_entry(text, "has an empty name", err);
        if (memchr(one.data, '=', one.size))
            return bad_entry(text, "has a second =, or one after a ;", err);
        uint32_t id = find_field(s, &one);
        if (!a->name) TARN_TRY(set_name(a, one, err));
        if (id == TARN__FIELD_NONE) continue;
        if (tarn__is_pseudo(id) && several)
            return bad_entry(text, "has an alternative that every sample has", err);
        if (has_id(a, id)) return bad_entry(text, "lists a name twice", err);
        TARN_TRY(add_id(a, id, err));
    }
    return a->count ? TARN_OK : tarn__fail_field(s, text, err);
}

static tarn_status read_entry(const tarn__storage *s, const char *text,
                              tarn__alternatives *a, tarn_error *err)
{
    piece whole = {text, strlen(text)};
    uint32_t id = find_field(s, &whole);
    const char *equals = strchr(text, '=');
    if (id != TARN__FIELD_NONE) { /* also a name that contains = or ; */
        TARN_TRY(set_name(a, whole, err));
        return add_id(a, id, err);
    }
    if (!strpbrk(text, "=;")) return tarn__fail_field(s, text, err);
    if (equals && strcspn(text, ";") < (size_t)(equals - text)) equals = NULL;
    if (equals) {
        piece name = trimmed(text, equals);
        if (name.size == 0) return bad_entry(text, "has an empty name", err);
        if (name.data[0] == '_')
            return bad_entry(text, "has a name that begins with _, which is reserved",
                             err);
        a->named = true;
        TARN_TRY(set_name(a, name, err));
    }
    return add_pieces(s, text, equals ? equals + 1 : text, a, err);
}

tarn_status tarn__alternatives_read(const tarn__storage *s, const char *text,
                                    tarn__alternatives *out, tarn_error *err)
{
    out->count = 0;
    out->named = false;
    free(out->name);
    out->name = NULL;
    return read_entry(s, text, out, err);
}

void tarn__alternatives_reset(tarn__alternatives *a)
{
    free(a->name);
    free(a->ids);
    *a = (tarn__alternatives){0};
}

tarn_status tarn__stored_names(const char *const *fields, const char ***out,
                               tarn_error *err)
{
    size_t bytes = 0, count = 0;
    *out = NULL;
    for (size_t i = 0; fields && fields[i]; i++) {
        bytes += strlen(fields[i]) + 1;
        for (const char *p = fields[i]; *p; p++)
            count += *p == ';' || *p == '=';
        count += 2;
    }
    if (!fields) return TARN_OK;
    const char **list = malloc((count + 1) * sizeof *list + bytes);
    if (!list) return tarn__fail_memory(err);
    char *text = (char *)(list + count + 1);
    size_t n = 0;
    for (; *fields; fields++) {
        list[n++] = *fields;
        if (!strpbrk(*fields, ";=")) continue;
        const char *equals = strchr(*fields, '=');
        for (const char *p = equals ? equals + 1 : *fields; p;) {
            piece one = next_piece(&p);
            memcpy(text, one.data, one.size);
            text[one.size] = '\0';
            list[n++] = text;
            text += one.size + 1;
        }
    }
    list[n] = NULL;
    *out = list;
    return TARN_OK;
}

/* --- Sets of fields ----------------------------------------------------------------- */

void tarn__fieldset_release(tarn__fieldset *f)
{
    if (!f || atomic_fetch_sub(&f->users, 1) != 1) return;
    for (uint32_t i = 0; f->names && i < f->count; i++)
        free(f->names[i]);
    free(f->names);
    free(f->ids);
    free(f->first);
    free(f->named);
    free(f->choices);
    free(f->lacking);
    free(f);
}

static tarn_status fieldset_new(size_t count, tarn__fieldset **out, tarn_error *err)
{
    if (count > TARN_MAX_DATASET_FIELDS)
        return tarn__fail(err, TARN_ERR_LIMIT, "too many fields: %zu (limit %u)", count,
                          TARN_MAX_DATASET_FIELDS);
    tarn__fieldset *f = *out = calloc(1, sizeof *f);
    if (!f) return tarn__fail_memory(err);
    atomic_init(&f->users, 1);
    f->ids = calloc(count + 1, sizeof *f->ids);
    f->first = calloc(count + 1, sizeof *f->first);
    f->names = calloc(count + 1, sizeof *f->names);
    f->named = calloc(count + 1, sizeof *f->named);
    return f->ids && f->first && f->names && f->named ? TARN_OK : tarn__fail_memory(err);
}

tarn_status tarn__plain_fields(const tarn__storage *s, tarn__fieldset **out,
                               tarn_error *err)
{
    TARN_TRY(fieldset_new(s->n_plain, out, err));
    tarn__fieldset *f = *out;
    for (size_t i = 0; i < s->n_plain; i++) {
        if (!(f->names[i] = strdup(tarn__names_get(&s->fields, i).data)))
            return tarn__fail_memory(err);
        f->ids[i] = f->first[i] = (uint32_t)i;
        f->count++;
    }
    return TARN_OK;
}

/* The id of these alternatives: an existing one, or a new one. */
static tarn_status choice_of(tarn__fieldset *f, const tarn__alternatives *a,
                             uint32_t *out, tarn_error *err)
{
    uint32_t n = (uint32_t)a->count;
    for (size_t at = 0; at < f->n_choices; at += 1 + f->choices[at]) {
        *out = TARN__FIELD_CHOICE + (uint32_t)at;
        if (f->choices[at] == n &&
            memcmp(f->choices + at + 1, a->ids, n * sizeof *a->ids) == 0)
            return TARN_OK;
    }
    *out = TARN__FIELD_CHOICE + (uint32_t)f->n_choices;
    if (f->n_choices + n >= TARN__FIELD_IDX - TARN__FIELD_CHOICE)
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "the list of fields has too many "
                          "alternatives");
    uint32_t *grown = realloc(f->choices, (f->n_choices + n + 1) * sizeof *f->choices);
    if (!grown) return tarn__fail_memory(err);
    f->choices = grown;
    grown[f->n_choices++] = n;
    memcpy(grown + f->n_choices, a->ids, n * sizeof *a->ids);
    f->n_choices += n;
    return TARN_OK;
}

/* Takes the name of a. */
static tarn_status add_field(const tarn__storage *s, tarn__fieldset *f,
                             tarn__alternatives *a, tarn_error *err)
{
    uint32_t n = f->count, id = a->ids[0];
    if (a->count > 1 && s->kind->has) TARN_TRY(choice_of(f, a, &id, err));
    const char *stored = tarn__is_pseudo(id)   ? pseudo_name(id)
                         : tarn__is_choice(id) ? ""
                                               : tarn__names_get(&s->fields, id).data;
    bool renamed = a->named || strcmp(stored, a->name) != 0;
    f->renamed |= renamed && !tarn__is_pseudo(id);
    f->names[n] = a->name;
    a->name = NULL;
    f->named[n] = a->named;
    f->ids[n] = id;
    f->first[n] = 0;
    while (f->ids[f->first[n]] != id)
        f->first[n]++;
    f->count++;
    for (uint32_t i = 0; i < n && f->renamed; i++)
        if (f->ids[i] != id && strcmp(f->names[i], f->names[n]) == 0)
            return tarn__fail(err, TARN_ERR_USAGE,
                              "two different fields have the name %s; give one of them "
                              "another name, such as \"img=%s\"",
                              f->names[n], f->names[n]);
    return TARN_OK;
}

tarn_status tarn__listed_fields(const tarn__storage *s, const char *const *fields,
                                tarn__fieldset **out, tarn_error *err)
{
    size_t count = 0;
    bool real = false;
    tarn__alternatives a = {0};
    while (fields[count])
        count++;
    TARN_TRY(fieldset_new(count, out, err));
    tarn_status status = TARN_OK;
    for (size_t i = 0; i < count && status == TARN_OK; i++) {
        status = tarn__alternatives_read(s, fields[i], &a, err);
        if (status == TARN_OK) real |= !tarn__is_pseudo(a.ids[0]);
        if (status == TARN_OK) status = add_field(s, *out, &a, err);
    }
    tarn__alternatives_reset(&a);
    TARN_TRY(status);
    if (real || s->kind->kind != TARN_DATASET_FOLD) return TARN_OK;
    return tarn__fail(err, TARN_ERR_USAGE, "list at least one field that is in the file");
}

/* --- Alternatives --------------------------------------------------------------------
 */

tarn_status tarn__pick(const tarn_dataset *d, uint64_t row, uint32_t *id, tarn_error *err)
{
    const tarn__storage *s = d->source;
    const uint32_t *choice = d->fieldset->choices + (*id - TARN__FIELD_CHOICE);
    bool has = false;
    *id = choice[1]; /* if the sample has none: then reading reports that */
    for (uint32_t k = 1; k <= choice[0] && !has; k++) {
        TARN_TRY(s->kind->has(s->state, row, choice[k], &has, err));
        if (has) *id = choice[k];
    }
    return TARN_OK;
}

const uint32_t *tarn__field_ids(const tarn_dataset *d, uint32_t field, size_t *out_count)
{
    const uint32_t *id = &d->ids[field];
    *out_count = 1;
    if (!tarn__is_choice(*id)) return id;
    const uint32_t *choice = d->fieldset->choices + (*id - TARN__FIELD_CHOICE);
    *out_count = choice[0];
    return choice + 1;
}

/* Calls visit with each name of the file that a field may have, until it returns true. In
 * a mix, with those of all sources. */
static bool each_stored(const tarn_dataset *d, uint32_t field,
                        bool (*visit)(void *context, const char *name), void *context)
{
    size_t count;
    const uint32_t *ids = tarn__field_ids(d, field, &count);
    for (size_t i = 0; i < count; i++) {
        if (tarn__is_pseudo(ids[i]))
            return visit(context, d->fieldset->named[field] ? pseudo_name(ids[i])
                                                            : d->names[field]);
        if (d->source->kind != &tarn__kind_mix) {
            if (visit(context, tarn__names_get(&d->source->fields, ids[i]).data))
                return true;
            continue;
        }
        const tarn__mix *mix = d->source->state;
        for (size_t k = 0; k < mix->n; k++) {
            uint32_t number = mix->fields[k * mix->n_fields + ids[i]];
            if (number != TARN__FIELD_NONE &&
                each_stored(mix->parts[k].dataset, number, visit, context))
                return true;
        }
    }
    return false;
}

/* A search for a name, or for a name by number. */
typedef struct search {
    const tarn_dataset *dataset;
    uint32_t field;
    const char *name, *found;
    size_t visits, distinct, wanted;
} search;

static bool is_the_name(void *context, const char *name)
{
    search *s = context;
    s->visits++;
    return strcmp(name, s->name) == 0;
}

/* Counts a name at its first occurrence. */
static bool count_name(void *context, const char *name)
{
    search *s = context, first = {.name = name};
    s->visits++;
    each_stored(s->dataset, s->field, is_the_name, &first);
    if (first.visits < s->visits || s->distinct++ < s->wanted) return false;
    s->found = name;
    return true;
}

const char *tarn_dataset_field_stored(const tarn_dataset *d, uint32_t field,
                                      uint32_t number)
{
    search s = {.dataset = d, .field = field, .wanted = number};
    if (d && field < d->n_fields) each_stored(d, field, count_name, &s);
    return s.found;
}
