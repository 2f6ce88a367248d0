/* Views of a sample. Fields are named PREFIX.SUFFIX. Templates have slots for prefixes,
 * which are filled with a random choice for each sample and epoch. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/names.h"
#include "base/options.h"
#include "base/random.h"
#include "dataset/dataset.h"

enum { MAX_SLOTS = 4096, MAX_TEMPLATE = 4096 };

/* A template: literal text and slots alternate; the last literal has the suffix. */
typedef struct template
{
    char *whole;    /* the caller's text */
    char *text;     /* the literals, each with a NUL after it */
    uint32_t *slot; /* after each literal except the last */
    size_t n_slots;
    uint32_t suffix;
}
template;

struct tarn_views {
    tarn_views_options options;
    tarn__names prefixes; /* those with every suffix, sorted */
    tarn__names fields;   /* all fields of the dataset */
    uint32_t *numbers;    /* of the fields in the dataset */
    tarn__names suffixes; /* used by templates */
    template *templates;
    size_t n_templates;
    size_t n_slots;
};

void tarn_views_free(tarn_views *v)
{
    if (!v) return;
    for (size_t i = 0; v->templates && i < v->n_templates; i++) {
        free(v->templates[i].whole);
        free(v->templates[i].text);
        free(v->templates[i].slot);
    }
    free(v->templates);
    free(v->numbers);
    tarn__names_reset(&v->prefixes);
    tarn__names_reset(&v->fields);
    tarn__names_reset(&v->suffixes);
    free(v);
}

/* --- Templates --------------------------------------------------------------------- */

static tarn_status bad_template(const char *text, const char *why, tarn_error *err)
{
    char shown[200];
    return tarn__fail(err, TARN_ERR_USAGE, "template %s: %s; a valid template is {0}.jpg",
                      tarn_printable(shown, sizeof shown, text, strlen(text)), why);
}

/* "{12}" at *p. */
static tarn_status parse_slot(const char *whole, const char **p, uint32_t *out,
                              tarn_error *err)
{
    const char *digits = ++*p;
    uint32_t value = 0;
    for (; **p >= '0' && **p <= '9'; ++*p) {
        value = value * 10 + (uint32_t)(**p - '0');
        if (value >= MAX_SLOTS)
            return bad_template(whole, "the slot number is too high", err);
    }
    if (*p == digits || **p != '}')
        return bad_template(whole, "a slot is a number in braces", err);
    ++*p;
    *out = value;
    return TARN_OK;
}

static tarn_status parse_template(template *t, const char *text, tarn_error *err)
{
    size_t len = strlen(text), used = 0, dots = 0;
    if (len > MAX_TEMPLATE) return bad_template(text, "it is too long", err);
    t->whole = strdup(text);
    t->text = calloc(len + 2, 1);
    t->slot = calloc(len + 1, sizeof *t->slot);
    if (!t->whole || !t->text || !t->slot) return tarn__fail_memory(err);
    for (const char *p = text; *p;) {
        bool doubled = (*p == '{' || *p == '}') && p[1] == *p;
        if (*p == '{' && !doubled) {
            if (dots) return bad_template(text, "slots must be before the dot", err);
            TARN_TRY(parse_slot(text, &p, &t->slot[t->n_slots], err));
            t->n_slots++;
            t->text[used++] = '\0';
            continue;
        }
        if (*p == '}' && !doubled)
            return bad_template(text, "a brace without its counterpart", err);
        dots += *p == '.';
        t->text[used++] = *p;
        p += doubled ? 2 : 1;
    }
    if (dots != 1) return bad_template(text, "it needs one dot", err);
    return t->n_slots ? TARN_OK : bad_template(text, "it has no slot", err);
}

/* The last literal, which has the dot. */
static const char *ending_of(const template *t)
{
    const char *p = t->text;
    for (size_t i = 0; i < t->n_slots; i++)
        p += strlen(p) + 1;
    return p;
}

/* All slots from 0 on must be used, each with the same suffixes. marks has one line for
 * each slot, with a mark for each suffix. */
static tarn_status check_slots(tarn_views *v, tarn_error *err)
{
    size_t n_suffixes = v->suffixes.count;
    unsigned char *marks = calloc(v->n_slots * n_suffixes + 1, 1);
    tarn_status status = marks ? TARN_OK : tarn__fail_memory(err);
    for (size_t i = 0; status == TARN_OK && i < v->n_templates; i++)
        for (size_t k = 0; k < v->templates[i].n_slots; k++)
            marks[v->templates[i].slot[k] * n_suffixes + v->templates[i].suffix] = 1;
    for (size_t slot = 0; status == TARN_OK && slot < v->n_slots; slot++) {
        const unsigned char *line = marks + slot * n_suffixes;
        if (!memchr(line, 1, n_suffixes))
            status =
                tarn__fail(err, TARN_ERR_USAGE,
                           "no template has slot {%zu}, but one has a higher slot", slot);
        else if (memcmp(line, marks, n_suffixes) != 0)
            status =
                tarn__fail(err, TARN_ERR_USAGE,
                           "slot {%zu} is used with other suffixes than slot {0}", slot);
    }
    free(marks);
    return status;
}

static tarn_status take_templates(tarn_views *v, const char *const *templates,
                                  size_t count, tarn_error *err)
{
    if (count == 0) return tarn__fail(err, TARN_ERR_USAGE, "the views have no templates");
    v->templates = calloc(count, sizeof *v->templates);
    if (!v->templates) return tarn__fail_memory(err);
    v->n_templates = count;
    for (size_t i = 0; i < count; i++) {
        template *t = &v->templates[i];
        TARN_TRY(parse_template(t, templates[i], err));
        const char *suffix = strchr(ending_of(t), '.') + 1;
        TARN_TRY(tarn__names_add(&v->suffixes, suffix, strlen(suffix), &t->suffix, err));
        for (size_t k = 0; k < t->n_slots; k++)
            if (t->slot[k] >= v->n_slots) v->n_slots = t->slot[k] + 1u;
    }
    return check_slots(v, err);
}

/* --- Prefixes ---------------------------------------------------------------------- */

static tarn_status take_fields(tarn_views *v, const tarn_dataset *d, tarn_error *err)
{
    v->numbers = calloc(d->n_fields + 1u, sizeof *v->numbers);
    if (!v->numbers) return tarn__fail_memory(err);
    for (uint32_t i = 0; i < d->n_fields; i++) {
        const char *name = d->names[i], *dot = strchr(name, '.');
        uint32_t id;
        size_t before = v->fields.count;
        if (tarn__is_pseudo(d->ids[i]) || !dot || strchr(dot + 1, '.'))
            return tarn__fail(err, TARN_ERR_USAGE,
                              "field %s: views need fields with one dot, such as f0.jpg",
                              name);
        TARN_TRY(tarn__names_add(&v->fields, name, strlen(name), &id, err));
        if (v->fields.count > before) v->numbers[id] = i;
    }
    return TARN_OK;
}

static bool has_field(const tarn_views *v, const char *prefix, size_t len,
                      tarn__name suffix, tarn__buf *text)
{
    text->size = 0;
    return tarn__buf_add(text, prefix, len, NULL) == TARN_OK &&
           tarn__buf_add(text, ".", 1, NULL) == TARN_OK &&
           tarn__buf_add(text, suffix.data, suffix.size, NULL) == TARN_OK &&
           tarn__names_find(&v->fields, text->data, text->size) != TARN__NAME_NONE;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Copies the prefixes that have all suffixes to list. */
static tarn_status list_prefixes(const tarn_views *v, char **list, size_t *out_count,
                                 tarn__buf *text, tarn_error *err)
{
    for (size_t i = 0; i < v->fields.count; i++) {
        tarn__name name = tarn__names_get(&v->fields, i);
        size_t len = (size_t)(strchr(name.data, '.') - name.data);
        bool all = true;
        for (size_t k = 0; all && k < v->suffixes.count; k++)
            all = has_field(v, name.data, len, tarn__names_get(&v->suffixes, k), text);
        if (!all) continue;
        if (!(list[*out_count] = strndup(name.data, len))) return tarn__fail_memory(err);
        ++*out_count;
    }
    return TARN_OK;
}

static tarn_status sort_prefixes(tarn_views *v, tarn_error *err)
{
    tarn__buf text;
    size_t n = 0;
    uint32_t id;
    char **list = calloc(v->fields.count + 1, sizeof *list);
    if (!list) return tarn__fail_memory(err);
    tarn__buf_init(&text, TARN_MAX_NAME * 4);
    tarn_status status = list_prefixes(v, list, &n, &text, err);
    if (status == TARN_OK && n) qsort(list, n, sizeof *list, by_name);
    for (size_t i = 0; status == TARN_OK && i < n; i++)
        status = tarn__names_add(&v->prefixes, list[i], strlen(list[i]), &id, err);
    for (size_t i = 0; i < n; i++)
        free(list[i]);
    free(list);
    tarn__buf_reset(&text);
    TARN_TRY(status);
    n = v->prefixes.count;
    if (n == 0 || (!v->options.replace && v->n_slots > n))
        return tarn__fail(err, TARN_ERR_USAGE,
                          "the templates have %zu slots, but %zu prefixes have all "
                          "suffixes",
                          v->n_slots, n);
    return TARN_OK;
}

TARN__DEFINE_INIT(tarn_views_options, TARN_VIEWS_OPTIONS_INIT)

tarn_status tarn_views_new(const tarn_dataset *d, const char *const *templates,
                           size_t count, const tarn_views_options *options,
                           tarn_views **out, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "templates", templates || !count);
    TARN__NEED(err, "out", out);
    TARN__OPTIONS(tarn_views_options, o, TARN_VIEWS_OPTIONS_INIT, options, err);
    tarn_views *v = calloc(1, sizeof *v);
    if (!v) return tarn__fail_memory(err);
    v->options = o;
    tarn__names_init(&v->prefixes);
    tarn__names_init(&v->fields);
    tarn__names_init(&v->suffixes);
    tarn_status status = take_fields(v, d, err);
    if (status == TARN_OK) status = take_templates(v, templates, count, err);
    if (status == TARN_OK) status = sort_prefixes(v, err);
    if (status == TARN_OK)
        *out = v;
    else
        tarn_views_free(v);
    return status;
}

const char *tarn__views_template(const tarn_views *v, size_t number)
{
    return number < v->n_templates ? v->templates[number].whole : NULL;
}

/* --- Choosing ---------------------------------------------------------------------- */

/* The field that a template gives with these prefixes in its slots. */
static tarn_status fill_template(const tarn_views *v, const template *t,
                                 const uint64_t *chosen, tarn__buf *text, uint32_t *out,
                                 tarn_error *err)
{
    const char *literal = t->text;
    text->size = 0;
    for (size_t i = 0; i < t->n_slots; i++) {
        tarn__name p = tarn__names_get(&v->prefixes, (size_t)chosen[t->slot[i]]);
        TARN_TRY(tarn__buf_add(text, literal, strlen(literal), err));
        TARN_TRY(tarn__buf_add(text, p.data, p.size, err));
        literal += strlen(literal) + 1;
    }
    TARN_TRY(tarn__buf_add(text, literal, strlen(literal) + 1, err));
    uint32_t id = tarn__names_find(&v->fields, text->data, text->size - 1);
    if (id == TARN__NAME_NONE)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "the templates give field %s, which the dataset does not have",
                          text->data);
    *out = v->numbers[id];
    return TARN_OK;
}

tarn_status tarn_views_choose(const tarn_views *v, uint64_t epoch, uint64_t sample,
                              uint32_t *out_fields, tarn_error *err)
{
    TARN__NEED(err, "views", v);
    TARN__NEED(err, "out_fields", out_fields);
    tarn__pcg64 rng;
    tarn__buf text;
    uint64_t few[64], *chosen = few;
    if (v->n_slots > sizeof few / sizeof *few &&
        !(chosen = malloc(v->n_slots * sizeof *chosen)))
        return tarn__fail_memory(err);
    tarn__buf_init(&text, SIZE_MAX / 4);
    tarn__pcg64_seed(&rng, v->options.seed + epoch + sample);
    tarn_status status = tarn__pcg64_choice(&rng, v->prefixes.count, v->n_slots,
                                            v->options.replace, chosen, err);
    for (size_t i = 0; status == TARN_OK && i < v->n_templates; i++)
        status = fill_template(v, &v->templates[i], chosen, &text, &out_fields[i], err);
    tarn__buf_reset(&text);
    if (chosen != few) free(chosen);
    return status;
}
