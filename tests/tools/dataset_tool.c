/* Driven by the interop tests and the benchmark: one command on each line of standard
 * input, words separated by tabs, and one line back: "ok" followed by words, or "!status
 * message". Datasets have numbers, bytes are in hexadecimal, "-" is an empty list; lists
 * are separated by commas.
 *
 *   open N PATH FIELDS FLAGS    (by_hash, drop_ambiguous, read, stored, check, records,
 *                                key=COLUMN)
 *   close N       count N        fields N      key N SAMPLE     find N KEY
 *   get N SAMPLE FIELD           shard N SAMPLE                 sample N SAMPLE
 *   batch N SAMPLES FIELDS       lookup N NAME...               sets N
 *   keys NEW N KEY...            keys? NEW N KEY...             json NEW N PATH
 *   slice NEW N START STRIDE COUNT                              samples NEW N NUMBERS
 *   having NEW N FIELD...
 *   size NEW N FIELD MIN MAX     column NEW N NAME VALUE...     between NEW N NAME A B
 *   lacking NEW N FIELD          shards N       sizes N FIELD    integers N FIELD
 *   numbers N FIELD              form N SAMPLE FIELD             where N SAMPLE FIELD
 *   mix NEW SOURCES WEIGHTS COUNTS TOTAL END FIELDS
 *   at N SAMPLE                  position N SOURCE TURN
 *   views N REPLACE SEED TEMPLATE...                            choose EPOCH SAMPLE */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/tarn.h>

#include "../unit/asking.h"
#include "dataset/dataset.h"
#include "dataset/mix.h"

enum { MAX_WORDS = 4096, MAX_SETS = 64 };

static tarn_dataset *sets[MAX_SETS];
static tarn_views *views;
static size_t n_templates;
static tarn_error err;
static char *words[MAX_WORDS];
static int n_words;

static void die(const char *what)
{
    fprintf(stderr, "dataset_tool: %s\n", what);
    exit(3);
}

static const char *word(int i)
{
    if (i >= n_words) die("too few words");
    return words[i];
}

static uint64_t number(int i)
{
    return strtoull(word(i), NULL, 10);
}

static tarn_dataset **slot(int i)
{
    uint64_t n = number(i);
    if (n >= MAX_SETS) die("dataset number");
    return &sets[n];
}

static tarn_dataset *set(int i)
{
    if (!*slot(i)) die("no such dataset");
    return *slot(i);
}

/* Splits at commas, in place; ends with NULL. "-" is NULL. */
static const char **list(int i, size_t *out_count)
{
    static const char *lists[4][MAX_WORDS];
    static int next;
    const char **out = lists[next++ % 4];
    size_t n = 0;
    char *text = (char *)(uintptr_t)word(i);
    *out_count = 0;
    if (strcmp(text, "-") == 0) return NULL;
    for (char *p = strtok(text, ","); p && n + 1 < MAX_WORDS; p = strtok(NULL, ","))
        out[n++] = p;
    out[n] = NULL;
    *out_count = n;
    return out;
}

static uint64_t *numbers(int i, size_t *out_count)
{
    static uint64_t values[2][MAX_WORDS];
    static int next;
    uint64_t *out = values[next++ % 2];
    const char **texts = list(i, out_count);
    for (size_t k = 0; k < *out_count; k++)
        out[k] = strtoull(texts[k], NULL, 10);
    return texts ? out : NULL;
}

static void put_hex(const unsigned char *data, size_t size)
{
    putchar('\t');
    for (size_t i = 0; i < size; i++)
        printf("%02x", data[i]);
}

static bool flag(const char *name)
{
    return strstr(word(4), name) != NULL;
}

static tarn_status do_open(void)
{
    size_t n;
    tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
    o.fields = list(3, &n);
    o.by_hash = flag("by_hash");
    o.drop_ambiguous = flag("drop_ambiguous");
    o.decompress = !flag("stored");
    o.check = flag("check");
    o.records = flag("records");
    o.scan = true;
    if (flag("read")) o.io = TARN_IO_READ;
    const char *key = strstr(word(4), "key=");
    o.key_column = key ? key + 4 : NULL;
    return tarn_dataset_open(word(2), &o, slot(1), &err);
}

static tarn_status do_get(void)
{
    tarn_view v;
    tarn_status status =
        tarn_dataset_get(set(1), number(2), (uint32_t)number(3), &v, &err);
    if (status != TARN_OK) return status;
    printf("ok");
    put_hex(v.data, v.size);
    tarn_view_release(&v);
    return TARN_OK;
}

static tarn_status do_sample(void)
{
    tarn_view v[256];
    tarn_dataset_info info;
    tarn_dataset_info_get(set(1), &info, sizeof info);
    if (info.fields > 256) die("fields");
    tarn_status status = tarn_dataset_get_all(set(1), number(2), v, NULL, &err);
    if (status != TARN_OK) return status;
    printf("ok");
    for (uint32_t i = 0; i < info.fields; i++)
        if (v[i].data)
            put_hex(v[i].data, v[i].size);
        else
            printf("\t-");
    return tarn_dataset_release(set(1), number(2), v, info.fields, &err);
}

static tarn_status do_batch(void)
{
    static tarn_dataset_batch batch;
    size_t n_samples, n_fields;
    uint32_t fields[256];
    uint64_t *samples = numbers(2, &n_samples), *f = numbers(3, &n_fields);
    for (size_t i = 0; i < n_fields && i < 256; i++)
        fields[i] = (uint32_t)f[i];
    tarn_status status = tarn_dataset_read(set(1), samples, n_samples, f ? fields : NULL,
                                           n_fields, &batch, &err);
    if (status != TARN_OK) return status;
    printf("ok");
    for (size_t i = 0; i < batch.count; i++)
        put_hex(batch.data + batch.offsets[i],
                (size_t)(batch.offsets[i + 1] - batch.offsets[i]));
    tarn_dataset_batch_reset(&batch);
    return TARN_OK;
}

static tarn_status do_key(void)
{
    tarn_text text = {0};
    tarn_status status = tarn_dataset_key(set(1), number(2), &text, &err);
    if (status == TARN_OK) printf("ok\t%s", text.data);
    tarn_text_reset(&text);
    return status;
}

static tarn_status do_lookup(void)
{
    static uint64_t found[MAX_WORDS];
    static const char *keys[MAX_WORDS];
    size_t n = 0, missing;
    tarn_status status = TARN_OK;
    for (int i = 2; i < n_words && status == TARN_OK; i++) {
        tarn_text text = {0};
        status = tarn__key_of_name(set(1), word(i), &text, &err);
        keys[n++] = text.data;
    }
    if (status == TARN_OK)
        status = tarn_dataset_find(set(1), keys, n, found, &missing, &err);
    if (status == TARN_OK) printf("ok\t%zu", missing);
    for (size_t i = 0; i < n; i++) {
        if (status == TARN_OK) printf("\t%s=%lld", keys[i], (long long)found[i]);
        free((void *)(uintptr_t)keys[i]);
    }
    return status;
}

static tarn_status do_sets(void)
{
    tarn_field_sets *s;
    tarn_status status = tarn_dataset_field_sets(set(1), &s, &err);
    if (status != TARN_OK) return status;
    printf("ok");
    for (size_t i = 0; i < s->count; i++) {
        printf("\t%llu:%llu:", (unsigned long long)s->sets[i]->samples,
               (unsigned long long)s->sets[i]->twice);
        for (size_t k = 0; k < s->sets[i]->n_fields; k++)
            printf("%s%s", k ? "," : "", s->sets[i]->fields[k]);
    }
    tarn_field_sets_free(s);
    return TARN_OK;
}

static tarn_status do_keys(bool strict)
{
    static bool found[MAX_WORDS];
    size_t n = (size_t)n_words - 3;
    return keep_keys(set(2), (const char *const *)words + 3, n, strict ? NULL : found,
                     slot(1), &err);
}

static tarn_status do_slice(void)
{
    return tarn_dataset_slice(set(2), number(3), strtoll(word(4), NULL, 10), number(5),
                              slot(1), &err);
}

static tarn_status do_mix(void)
{
    size_t n, n_weights, n_fields;
    double weights[MAX_SETS];
    tarn_dataset *parts[MAX_SETS];
    tarn_mix_options o = TARN_MIX_OPTIONS_INIT;
    uint64_t *which = numbers(2, &n);
    for (size_t i = 0; i < n; i++)
        parts[i] = sets[which[i]];
    const char **w = list(3, &n_weights);
    for (size_t i = 0; i < n_weights; i++)
        weights[i] = strtod(w[i], NULL);
    o.weights = w ? weights : NULL;
    o.counts = numbers(4, &n_weights);
    o.total = number(5);
    o.end = (tarn_mix_end)number(6);
    o.fields = list(7, &n_fields);
    return tarn_dataset_mix(parts, n, &o, slot(1), &err);
}

static tarn_status do_views(void)
{
    tarn_views_options o = TARN_VIEWS_OPTIONS_INIT;
    o.replace = number(2) != 0;
    o.seed = number(3);
    tarn_views_free(views);
    views = NULL;
    n_templates = (size_t)n_words - 4;
    return tarn_views_new(set(1), (const char *const *)words + 4, n_templates, &o, &views,
                          &err);
}

static tarn_status do_choose(void)
{
    static uint32_t fields[MAX_WORDS];
    tarn_status status = tarn_views_choose(views, number(1), number(2), fields, &err);
    if (status != TARN_OK) return status;
    printf("ok");
    for (size_t i = 0; i < n_templates; i++)
        printf("\t%u", fields[i]);
    return TARN_OK;
}

static uint64_t part_length(uint32_t source)
{
    uint64_t ignored;
    return tarn__mix_part(set(1)->source, source, &ignored)->count;
}

static tarn_status do_at(void)
{
    tarn_place p;
    tarn_status status = mix_at(set(1), number(2), &p, &err);
    if (status == TARN_OK)
        printf("ok\t%u\t%llu\t%llu", p.source,
               (unsigned long long)(p.pass * part_length(p.source) + p.sample),
               (unsigned long long)p.sample);
    return status;
}

/* Position of a turn of a source. */
static uint64_t position_in_mix(const tarn__storage *source)
{
    uint64_t counts[MAX_SETS], total = 0;
    size_t n = tarn__mix_parts(source);
    if (n > MAX_SETS) die("sources");
    for (size_t k = 0; k < n; k++) {
        (void)tarn__mix_part(source, k, &counts[k]);
        total += counts[k];
    }
    tarn__mixing m = {counts, n, total};
    return tarn__mixing_position(&m, (uint32_t)number(2), number(3));
}

/* One number for each sample, or shard. */
static tarn_status do_measure(const char *verb)
{
    tarn_dataset_info info;
    tarn_dataset_info_get(set(1), &info, sizeof info);
    uint64_t n = info.samples > info.shards ? info.samples : info.shards;
    uint64_t *values = calloc(n + 1, sizeof *values);
    if (!values) die("memory");
    tarn_status status;
    n = info.samples;
    if (strcmp(verb, "shards") == 0) {
        status = tarn_dataset_shard_counts(set(1), values, &err);
        n = info.shards;
    } else if (strcmp(verb, "sizes") == 0) {
        status = tarn_dataset_numbers(set(1), (uint32_t)number(2), TARN_NUMBERS_SIZE,
                                      values, &err);
    } else if (strcmp(verb, "numbers") == 0) {
        double *numbers = (double *)values;
        status = tarn_dataset_numbers(set(1), (uint32_t)number(2), TARN_NUMBERS_REAL,
                                      numbers, &err);
        if (status == TARN_OK) printf("ok");
        for (uint64_t i = 0; status == TARN_OK && i < n; i++)
            printf("\t%.17g", numbers[i]);
        n = 0;
    } else {
        status = tarn_dataset_numbers(set(1), (uint32_t)number(2), TARN_NUMBERS_INTEGER,
                                      values, &err);
    }
    if (status == TARN_OK && strcmp(verb, "numbers") != 0) printf("ok");
    for (uint64_t i = 0; status == TARN_OK && i < n; i++)
        printf("\t%lld", (long long)values[i]);
    free(values);
    return status;
}

static tarn_status do_form(void)
{
    tarn_field_form f;
    char type[TARN_DTYPE_TEXT_MAX];
    tarn_status status =
        tarn_dataset_form(set(1), number(2), (uint32_t)number(3), &f, sizeof f, &err);
    if (status != TARN_OK) return status;
    printf("ok\t%d\t%s", f.form, f.codec ? f.codec : tarn_dtype_text(f.dtype, type));
    for (unsigned i = 0; i < f.ndim; i++)
        printf("\t%llu", (unsigned long long)f.shape[i]);
    return TARN_OK;
}

static tarn_status do_where(void)
{
    tarn_place place;
    tarn_status status = tarn_dataset_locate(set(1), number(2), (uint32_t)number(3),
                                             &place, sizeof place, &err);
    if (status == TARN_OK) printf("ok\t%s\t%lld", place.path, (long long)place.offset);
    return status;
}

static tarn_status put_number(tarn_status status, uint64_t value)
{
    if (status == TARN_OK) printf("ok\t%llu", (unsigned long long)value);
    return status;
}

static tarn_status made(tarn_status status)
{
    if (status == TARN_OK)
        printf("ok\t%llu", (unsigned long long)tarn_dataset_count(set(1)));
    return status;
}

static tarn_status do_fields(void)
{
    printf("ok");
    for (uint32_t i = 0; tarn_dataset_field(set(1), i); i++)
        printf("\t%s", tarn_dataset_field(set(1), i));
    return TARN_OK;
}

static tarn_status look(const char *verb)
{
    uint64_t value = 0;
    tarn_place place = {0};
    tarn_status status;
    if (strcmp(verb, "count") == 0)
        return put_number(TARN_OK, tarn_dataset_count(set(1)));
    if (strcmp(verb, "fields") == 0) return do_fields();
    if (strcmp(verb, "get") == 0) return do_get();
    if (strcmp(verb, "sample") == 0) return do_sample();
    if (strcmp(verb, "batch") == 0) return do_batch();
    if (strcmp(verb, "key") == 0) return do_key();
    if (strcmp(verb, "lookup") == 0) return do_lookup();
    if (strcmp(verb, "sets") == 0) return do_sets();
    if (strcmp(verb, "at") == 0) return do_at();
    if (strcmp(verb, "choose") == 0) return do_choose();
    if (strcmp(verb, "shards") == 0 || strcmp(verb, "sizes") == 0 ||
        strcmp(verb, "integers") == 0 || strcmp(verb, "numbers") == 0)
        return do_measure(verb);
    if (strcmp(verb, "form") == 0) return do_form();
    if (strcmp(verb, "where") == 0) return do_where();
    if (strcmp(verb, "find") == 0) {
        status = find_key(set(1), word(2), &value, &err);
        return put_number(status, value);
    }
    if (strcmp(verb, "shard") == 0) {
        status = mix_at(set(1), number(2), &place, &err);
        return put_number(status, place.shard);
    }
    if (strcmp(verb, "position") == 0) {
        return put_number(TARN_OK, position_in_mix(set(1)->source));
    }
    die(verb);
    return TARN_OK;
}

static tarn_status run(const char *verb)
{
    size_t n;
    if (strcmp(verb, "open") == 0) return made(do_open());
    if (strcmp(verb, "mix") == 0) return made(do_mix());
    if (strcmp(verb, "keys") == 0) return made(do_keys(true));
    if (strcmp(verb, "keys?") == 0) return made(do_keys(false));
    if (strcmp(verb, "slice") == 0) return made(do_slice());
    if (strcmp(verb, "json") == 0)
        return made(keep_name(set(2), TARN_CONDITION_JSON, word(3), 0, 0, slot(1), &err));
    if (strcmp(verb, "samples") == 0) {
        uint64_t *chosen = numbers(3, &n);
        return made(tarn_dataset_select(set(2), chosen, n, slot(1), &err));
    }
    if (strcmp(verb, "having") == 0)
        return made(keep_having(set(2), (const char *const *)words + 3,
                                (size_t)n_words - 3, slot(1), &err));
    if (strcmp(verb, "lacking") == 0)
        return made(
            keep_name(set(2), TARN_CONDITION_LACKING, word(3), 0, 0, slot(1), &err));
    if (strcmp(verb, "size") == 0)
        return made(keep_name(set(2), TARN_CONDITION_SIZE, word(3), (double)number(4),
                              (double)number(5), slot(1), &err));
    if (strcmp(verb, "column") == 0)
        return made(keep_column(set(2), word(3), (const char *const *)words + 4,
                                (size_t)n_words - 4, slot(1), &err));
    if (strcmp(verb, "between") == 0)
        return made(keep_name(set(2), TARN_CONDITION_BETWEEN, word(3),
                              strtod(word(4), NULL), strtod(word(5), NULL), slot(1),
                              &err));
    if (strcmp(verb, "views") == 0) {
        tarn_status status = do_views();
        if (status == TARN_OK) printf("ok");
        return status;
    }
    if (strcmp(verb, "close") == 0) {
        tarn_dataset_close(*slot(1));
        *slot(1) = NULL;
        printf("ok");
        return TARN_OK;
    }
    return look(verb);
}

int main(void)
{
    char *line = NULL, text[3000];
    size_t capacity = 0;
    ssize_t len;
    while ((len = getline(&line, &capacity, stdin)) > 0) {
        char *rest = line;
        line[strcspn(line, "\n")] = '\0';
        for (n_words = 0; rest && n_words < MAX_WORDS; n_words++)
            words[n_words] = strsep(&rest, "\t");
        tarn_status status = run(words[0]);
        if (status != TARN_OK)
            printf("!%s %s", tarn_status_name(status),
                   tarn_error_text(&err, text, sizeof text));
        putchar('\n');
        fflush(stdout);
    }
    for (int i = 0; i < MAX_SETS; i++)
        tarn_dataset_close(sets[i]);
    tarn_views_free(views);
    free(line);
    return 0;
}
