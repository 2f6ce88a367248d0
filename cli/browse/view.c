/* The dataset that a request is about: filters, then a sort or an order, then a step. It
 * is made once for the same arguments, and the last few are kept.
 *
 * browser.lock guards the list of views and their user counts. A view itself does not
 * change once it is in the list. Views are made without the lock, by one thread at a time
 * if samples are read for it (browser.heavy, taken first). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "browse.h"

/* The arguments that choose a view. */
static const char *const of_view[] = {"order", "seed",  "epoch", "by",     "rank",
                                      "world", "batch", "step",  "uneven", "batches",
                                      "sort",  "down",  "block", NULL};

static char *name_of(const browse_query *q)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out) cli_no_memory();
    for (int i = 0; of_view[i]; i++) {
        const char *value = browse_query_get(q, of_view[i]);
        if (value) fprintf(out, "%s\1%s\1", of_view[i], value);
    }
    for (size_t n = 0; browse_query_at(q, "f", n); n++)
        fprintf(out, "f\1%s\1", browse_query_at(q, "f", n));
    if (fclose(out) != 0 || !text) cli_no_memory();
    return text;
}

/* --- Errors --------------------------------------------------------------------------
 */

static tarn_status refuse(tarn_error *err, const char *what)
{
    *err = (tarn_error){.code = TARN_ERR_USAGE, .offset = TARN_NO_OFFSET};
    snprintf(err->message, sizeof err->message, "%s", what);
    return TARN_ERR_USAGE;
}

static tarn_status check_count(uint64_t count, tarn_error *err)
{
    if (count <= BROWSE_MAX_NUMBERS) return TARN_OK;
    return refuse(err, "there are too many samples to read this field of all of them; "
                       "filter by something else first");
}

static void replace(tarn_dataset **set, tarn_dataset *made)
{
    tarn_dataset_close(*set);
    *set = made;
}

/* --- Filters -------------------------------------------------------------------------
 */

/* Keeps the samples whose numbers are in a range. */
static tarn_status keep_between(tarn_dataset **set, const browse_filter *f,
                                tarn_error *err)
{
    uint32_t field;
    uint64_t count = tarn_dataset_count(*set);
    tarn_dataset *kept;
    tarn_condition c = TARN_CONDITION_INIT;
    TARN_TRY(tarn_dataset_field_find(*set, f->field, &field, err));
    TARN_TRY(check_count(count, err));
    double *numbers = malloc((size_t)(count + 1) * sizeof *numbers);
    bool *mask = malloc((size_t)count + 1);
    if (!numbers || !mask) cli_no_memory();
    tarn_status status =
        tarn_dataset_numbers(*set, field, TARN_NUMBERS_REAL, numbers, err);
    for (uint64_t i = 0; status == TARN_OK && i < count; i++)
        mask[i] = numbers[i] >= f->min && numbers[i] <= f->max;
    c.mask = mask;
    if (status == TARN_OK) status = tarn_dataset_filter(*set, &c, &kept, err);
    free(numbers);
    free(mask);
    if (status == TARN_OK) replace(set, kept);
    return status;
}

static tarn_status keep_problems(const browser *b, tarn_dataset **set, tarn_error *err)
{
    size_t missing;
    tarn_dataset *kept;
    tarn_condition c = TARN_CONDITION_INIT;
    c.kind = TARN_CONDITION_KEYS;
    c.names = b->problems.keys;
    c.n_names = b->problems.count;
    c.missing = &missing;
    TARN_TRY(tarn_dataset_filter(*set, &c, &kept, err));
    replace(set, kept);
    return TARN_OK;
}

static tarn_status keep(const browser *b, tarn_dataset **set, const browse_filter *f,
                        tarn_error *err)
{
    const char *names[] = {f->value ? f->value : f->field};
    tarn_dataset *kept;
    tarn_condition c = TARN_CONDITION_INIT;
    c.name = f->field;
    c.names = names;
    c.n_names = 1;
    c.min = f->min;
    c.max = f->max;
    switch (f->kind) {
    case BROWSE_SIZE:
        c.kind = TARN_CONDITION_SIZE;
        break;
    case BROWSE_HAS:
        c.kind = TARN_CONDITION_HAVING;
        break;
    case BROWSE_LACKS:
        c.kind = TARN_CONDITION_LACKING;
        break;
    case BROWSE_IS:
        c.kind = TARN_CONDITION_COLUMN;
        break;
    case BROWSE_BETWEEN:
        return keep_between(set, f, err);
    case BROWSE_PROBLEMS:
        return keep_problems(b, set, err);
    default:
        return TARN_OK; /* of pixels: later */
    }
    TARN_TRY(tarn_dataset_filter(*set, &c, &kept, err));
    replace(set, kept);
    return TARN_OK;
}

/* Whether a side of the image of a sample is in the range. */
static bool has_side(tarn_dataset *set, uint64_t i, uint32_t field,
                     const browse_filter *f)
{
    tarn_view v;
    uint32_t width, height;
    if (tarn_dataset_get(set, i, field, &v, NULL) != TARN_OK) return false;
    bool good = browse_measure(v.data, v.size, &width, &height);
    double side = f->kind == BROWSE_WIDTH ? width : height;
    tarn_view_release(&v);
    return good && side >= f->min && side <= f->max;
}

/* Of the first samples that are shown, keeps those with a side in the range. */
static tarn_status keep_sides(browse_view *v, const browse_filter *f, bool remote,
                              tarn_error *err)
{
    uint32_t field;
    tarn_dataset *kept;
    uint64_t n = remote ? BROWSE_FIRST_REMOTE : BROWSE_FIRST, found = 0;
    if (tarn_dataset_count(v->set) < n) n = tarn_dataset_count(v->set);
    TARN_TRY(tarn_dataset_field_find(v->set, f->field, &field, err));
    uint64_t *list = malloc((size_t)(n + 1) * sizeof *list);
    if (!list) cli_no_memory();
    for (uint64_t i = 0; i < n; i++)
        if (has_side(v->set, i, field, f)) list[found++] = i;
    tarn_status status = tarn_dataset_select(v->set, list, (size_t)found, &kept, err);
    free(list);
    if (status != TARN_OK) return status;
    replace(&v->set, kept);
    if (!v->first) v->first = n;
    return TARN_OK;
}

/* --- Orders --------------------------------------------------------------------------
 */

typedef struct ranked {
    double value;
    uint64_t sample;
} ranked;

/* NaN comes last. */
static int by_value(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    bool x_nan = isnan(x->value), y_nan = isnan(y->value);
    if (x_nan != y_nan) return x_nan - y_nan;
    if (!x_nan && x->value != y->value) return x->value < y->value ? -1 : 1;
    return (x->sample > y->sample) - (x->sample < y->sample);
}

/* Reads the numbers to sort by: sizes of a field that is not a number. */
static tarn_status read_numbers(tarn_dataset *set, uint32_t field, bool sizes,
                                ranked *list, uint64_t count, tarn_error *err)
{
    double *reals = malloc((size_t)(count + 1) * sizeof *reals);
    if (!reals) cli_no_memory();
    tarn_status status = tarn_dataset_numbers(
        set, field, sizes ? TARN_NUMBERS_SIZE : TARN_NUMBERS_REAL, reals, err);
    for (uint64_t i = 0; status == TARN_OK && i < count; i++) {
        uint64_t bytes;
        memcpy(&bytes, &reals[i], sizeof bytes);
        list[i] = (ranked){sizes ? (double)bytes : reals[i], i};
    }
    free(reals);
    return status;
}

/* sort=FIELD sorts by number, sort=size:FIELD by size; down=1 puts the largest first. */
static tarn_status sort(browse_view *v, const browse_query *q, tarn_error *err)
{
    const char *by = browse_query_get(q, "sort");
    uint64_t count = tarn_dataset_count(v->set);
    uint32_t field;
    tarn_dataset *sorted;
    bool sizes = strncmp(by, "size:", 5) == 0, down = browse_query_get(q, "down");
    TARN_TRY(check_count(count, err));
    TARN_TRY(tarn_dataset_field_find(v->set, by + (sizes ? 5 : 0), &field, err));
    ranked *list = malloc((size_t)(count + 1) * sizeof *list);
    uint64_t *samples = malloc((size_t)(count + 1) * sizeof *samples);
    if (!list || !samples) cli_no_memory();
    tarn_status status = read_numbers(v->set, field, sizes, list, count, err);
    if (status == TARN_OK) {
        for (uint64_t i = 0; down && i < count; i++)
            list[i].value = -list[i].value;
        qsort(list, (size_t)count, sizeof *list, by_value);
        for (uint64_t i = 0; i < count; i++)
            samples[i] = list[i].sample;
        status = tarn_dataset_select(v->set, samples, (size_t)count, &sorted, err);
    }
    free(list);
    free(samples);
    if (status == TARN_OK) replace(&v->set, sorted);
    return status;
}

static bool take_word(const browse_query *q, const char *name, const char *const *words,
                      int *out)
{
    const char *text = browse_query_get(q, name);
    for (int i = 0; text && words[i]; i++)
        if (strcmp(text, words[i]) == 0) {
            *out = i;
            return true;
        }
    return !text;
}

static tarn_status take_order(const browse_query *q, tarn_order_options *o,
                              tarn_error *err)
{
    static const char *const uneven[] = {"keep", "drop", "pad", NULL};
    int how = 0;
    const char *kind = browse_query_get(q, "order"), *seed = browse_query_get(q, "seed");
    if (kind) TARN_TRY(tarn_order_kind_find(kind, &o->kind, err));
    o->negative = seed && seed[0] == '-';
    if (seed) {
        char *end;
        o->seed = strtoull(seed + o->negative, &end, 10);
        if (*end || end == seed + o->negative || strspn(end - 1, "0123456789") == 0)
            return refuse(err, "the seed must be a whole number");
    }
    if (!browse_query_number(q, "epoch", INT64_MAX, &o->epoch) ||
        !browse_query_number(q, "rank", TARN_MAX_ORDER_RANKS, &o->rank) ||
        !browse_query_number(q, "world", TARN_MAX_ORDER_RANKS, &o->world_size) ||
        !browse_query_number(q, "block", TARN_MAX_ORDER, &o->block) ||
        !take_word(q, "uneven", uneven, &how))
        return refuse(err,
                      "epoch, rank and world must be whole numbers, such as rank 3 of "
                      "world 8, and uneven keep, drop or pad");
    o->uneven = (tarn_uneven)how;
    return TARN_OK;
}

static tarn_status order(browse_view *v, const browse_query *q, tarn_error *err)
{
    tarn_dataset *ordered;
    tarn_order_options o = TARN_ORDER_OPTIONS_INIT;
    const char *by = browse_query_get(q, "by");
    TARN_TRY(take_order(q, &o, err));
    if (o.kind >= TARN_ORDER_WEIGHTED && !by)
        return refuse(err, "this order needs a field");
    if (o.kind >= TARN_ORDER_WEIGHTED)
        TARN_TRY(check_count(tarn_dataset_count(v->set), err));
    TARN_TRY(cli_order_dataset(v->set, by, &o, &ordered, err));
    replace(&v->set, ordered);
    return TARN_OK;
}

/* The options of a run, for steps. */
static tarn_status take_schedule(const browse_query *q, tarn_schedule_options *o,
                                 tarn_error *err)
{
    static const char *const kinds[] = {"equal", "full", "short", NULL};
    int how = browse_query_get(q, "world") ? 0 : 2;
    o->batch = 64;
    if (!browse_query_number(q, "batch", TARN_MAX_LOADER_BATCH, &o->batch) ||
        !take_word(q, "batches", kinds, &how) || o->batch == 0)
        return refuse(err, "batch must be a whole number, 1 or more");
    o->equal_batches = how == 0;
    o->drop_last = how == 1;
    return TARN_OK;
}

static tarn_status go_to_step(browse_view *v, const browse_query *q, tarn_error *err)
{
    uint64_t step = 0;
    tarn_turn turn;
    tarn_dataset *batch;
    tarn_schedule_options o = TARN_SCHEDULE_OPTIONS_INIT;
    TARN_TRY(take_schedule(q, &o, err));
    if (!browse_query_number(q, "step", INT64_MAX, &step))
        return refuse(err, "step must be a whole number");
    TARN_TRY(tarn_dataset_step(v->set, step, &o, &batch, &turn, sizeof turn, err));
    replace(&v->set, batch);
    v->has_step = true;
    v->step = turn.step;
    v->epoch = turn.epoch;
    return TARN_OK;
}

/* --- Making --------------------------------------------------------------------------
 */

static tarn_status take_filters(const browse_query *q, browse_filter *out, size_t *out_n,
                                tarn_error *err)
{
    const char *text;
    for (*out_n = 0; (text = browse_query_at(q, "f", *out_n)); ++*out_n) {
        if (*out_n == BROWSE_MAX_FILTERS) return refuse(err, "too many filters");
        if (!browse_filter_parse(text, &out[*out_n]))
            return refuse(err, "a filter is malformed");
    }
    return TARN_OK;
}

/* A mix has other samples in each epoch; those of the requested one are filtered. */
static tarn_status start(const browser *b, const browse_query *q, browse_view *v,
                         tarn_error *err)
{
    if (!browse_query_number(q, "epoch", INT64_MAX, &v->epoch))
        return refuse(err, "epoch must be a whole number");
    return tarn_dataset_at_epoch(b->all, v->epoch, &v->set, err);
}

static tarn_status make(const browser *b, const browse_query *q, browse_view *v,
                        tarn_error *err)
{
    browse_filter filters[BROWSE_MAX_FILTERS] = {{0}};
    size_t n;
    TARN_TRY(start(b, q, v, err));
    tarn_status status = take_filters(q, filters, &n, err);
    for (size_t i = 0; i < n && status == TARN_OK; i++)
        status = keep(b, &v->set, &filters[i], err);
    if (status == TARN_OK)
        status = browse_query_get(q, "sort") ? sort(v, q, err) : order(v, q, err);
    if (status == TARN_OK && browse_query_get(q, "step")) status = go_to_step(v, q, err);
    for (size_t i = 0; i < n && status == TARN_OK; i++)
        if (filters[i].kind == BROWSE_WIDTH || filters[i].kind == BROWSE_HEIGHT)
            status = keep_sides(v, &filters[i], b->info.remote != 0, err);
    for (size_t i = 0; i < BROWSE_MAX_FILTERS; i++)
        browse_filter_free(&filters[i]);
    if (status == TARN_OK) v->count = tarn_dataset_count(v->set);
    return status;
}

/* --- The list of views ---------------------------------------------------------------
 */

static void view_free(browse_view *v)
{
    if (!v) return;
    tarn_dataset_close(v->set);
    free(v->name);
    free(v);
}

/* The view with a name, for one more user; or NULL. */
static browse_view *find(browser *b, const char *name)
{
    browse_view *found = NULL;
    pthread_mutex_lock(&b->lock);
    for (int i = 0; i < BROWSE_VIEWS && !found; i++)
        if (b->views[i] && strcmp(b->views[i]->name, name) == 0) found = b->views[i];
    if (found) {
        found->users++;
        found->used = ++b->clock;
    }
    pthread_mutex_unlock(&b->lock);
    return found;
}

/* Puts a view into the list, in place of the one that was not used for longest. */
static void add(browser *b, browse_view *v)
{
    int slot = 0;
    browse_view *old = NULL;
    pthread_mutex_lock(&b->lock);
    for (int i = 1; i < BROWSE_VIEWS && b->views[slot]; i++)
        if (!b->views[i] || b->views[i]->used < b->views[slot]->used) slot = i;
    old = b->views[slot];
    b->views[slot] = v;
    v->users = 2; /* the list and the caller */
    v->used = ++b->clock;
    bool unused = old && --old->users == 0;
    pthread_mutex_unlock(&b->lock);
    if (unused) view_free(old);
}

bool browse_view_open(browser *b, const browse_query *q, browse_view **out,
                      browse_answer *a)
{
    char *name = name_of(q);
    tarn_error err;
    if ((*out = find(b, name))) {
        free(name);
        return true;
    }
    pthread_mutex_lock(&b->heavy);
    *out = find(b, name); /* another request may have made it meanwhile */
    if (!*out) {
        browse_view *v = calloc(1, sizeof *v);
        if (!v) cli_no_memory();
        v->name = name;
        name = NULL;
        if (make(b, q, v, &err) == TARN_OK) {
            add(b, v);
            *out = v;
        } else {
            browse_fail_as(a, &err);
            view_free(v);
        }
    }
    pthread_mutex_unlock(&b->heavy);
    free(name);
    return *out != NULL;
}

void browse_view_close(browser *b, browse_view *v)
{
    if (!v) return;
    pthread_mutex_lock(&b->lock);
    bool unused = --v->users == 0;
    pthread_mutex_unlock(&b->lock);
    if (unused) view_free(v);
}

void browse_views_free(browser *b)
{
    for (int i = 0; i < BROWSE_VIEWS; i++)
        browse_view_close(b, b->views[i]);
}

/* --- When a sample is seen -----------------------------------------------------------
 */

/* The view without its step. */
static tarn_status find_turns(browser *b, const browse_query *q, const char *key,
                              uint64_t epochs, tarn_turn *out, size_t room,
                              size_t *out_count, tarn_error *err)
{
    browse_view v = {0};
    tarn_schedule_options o = TARN_SCHEDULE_OPTIONS_INIT;
    TARN_TRY(take_schedule(q, &o, err));
    o.epochs = epochs;
    tarn_status status = start(b, q, &v, err);
    if (status == TARN_OK) status = order(&v, q, err);
    if (status == TARN_OK)
        status = tarn_dataset_when(v.set, key, &o, out, room, out_count, err);
    tarn_dataset_close(v.set);
    return status;
}

void browse_when(browser *b, const browse_query *q, browse_answer *a)
{
    enum { ROOM = 64 };
    tarn_turn turns[ROOM];
    size_t count;
    uint64_t epochs = 3;
    tarn_error err;
    const char *key = browse_query_get(q, "key");
    if (!key || !browse_query_number(q, "epochs", 1000, &epochs)) {
        browse_fail(a, 400, "key and epochs are needed");
        return;
    }
    if (find_turns(b, q, key, epochs, turns, ROOM, &count, &err) != TARN_OK) {
        browse_fail_as(a, &err);
        return;
    }
    cli_json j = browse_json_begin(a);
    cli_json_number(&j, "count", count);
    cli_json_open(&j, "turns", '[');
    for (size_t i = 0; i < count && i < ROOM; i++) {
        cli_json_open(&j, NULL, '{');
        cli_json_number(&j, "epoch", turns[i].epoch);
        cli_json_number(&j, "step", turns[i].step);
        cli_json_number(&j, "rank", turns[i].rank);
        cli_json_number(&j, "place", turns[i].place);
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    browse_json_end(&j, a);
}
