/* The answers about samples: what the dataset is, a page of samples, one sample in full,
 * and samples by key. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "browse.h"

/* --- Answers -------------------------------------------------------------------------
 */

cli_json browse_json_begin(browse_answer *a)
{
    *a = (browse_answer){.status = 200, .type = "application/json"};
    a->out = open_memstream(&a->body, &a->size);
    if (!a->out) cli_no_memory();
    cli_json j = {.out = a->out};
    cli_json_open(&j, NULL, '{');
    return j;
}

void browse_json_end(cli_json *j, browse_answer *a)
{
    cli_json_close(j, '}');
    if (fclose(a->out) != 0 || !a->body) cli_no_memory();
    a->out = NULL;
}

void browse_fail(browse_answer *a, unsigned status, const char *message)
{
    cli_json j = browse_json_begin(a);
    a->status = status;
    snprintf(a->why, sizeof a->why, "%s", message);
    cli_json_text(&j, "error", message);
    browse_json_end(&j, a);
}

/* The address of a file is part of the message: the page is its owner's. */
void browse_fail_as(browse_answer *a, const tarn_error *err)
{
    char text[TARN_ERROR_PATH_MAX + TARN_ERROR_MESSAGE_MAX + 64];
    unsigned status = err->code == TARN_ERR_USAGE    ? 400
                      : tarn_is_not_found(err->code) ? 404
                      : err->code == TARN_ERR_LIMIT  ? 413
                      : err->code == TARN_ERR_MEMORY ? 503
                                                     : 422;
    browse_fail(a, status, tarn_error_text(err, text, sizeof text));
}

void browse_json_bytes(cli_json *j, const char *key, const void *data, size_t size)
{
    char *text = malloc(3 * size + 1), *out = text;
    if (!text) cli_no_memory();
    for (const char *c = data, *end = c + size; c < end; c++) {
        if (*c)
            *out++ = *c;
        else /* U+FFFD */
            memcpy(out, "\xef\xbf\xbd", 3), out += 3;
    }
    *out = '\0';
    cli_json_text(j, key, text);
    free(text);
}

void browse_json_real(cli_json *j, const char *key, double value)
{
    char text[40];
    int len = snprintf(text, sizeof text, "%.9g", value);
    cli_json_raw(j, key, isfinite(value) ? text : "null",
                 isfinite(value) ? (size_t)len : 4);
}

/* --- The dataset ---------------------------------------------------------------------
 */

static tarn_field_form form_of(tarn_dataset *set, uint64_t i, uint32_t field)
{
    tarn_field_form form = {.form = TARN_FORM_NAMED};
    if (i >= tarn_dataset_count(set) ||
        tarn_dataset_form(set, i, field, &form, sizeof form, NULL) != TARN_OK) {
        form = (tarn_field_form){.form = TARN_FORM_NAMED};
        form.codec = tarn_dataset_field(set, field);
    }
    return form;
}

void browse_info(browser *b, const browse_query *q, browse_answer *a)
{
    (void)q;
    static const char *const kinds[] = {"fold", "gnz", "iac", "mix"};
    cli_json j = browse_json_begin(a);
    cli_json_text(&j, "title", b->title);
    cli_json_text(&j, "version", tarn_version());
    cli_json_text(&j, "kind", kinds[b->info.kind]);
    cli_json_number(&j, "samples", tarn_dataset_count(b->all));
    cli_json_number(&j, "shards", b->info.shards);
    cli_json_bool(&j, "remote", b->info.remote != 0);
    cli_json_bool(&j, "checksums", b->has_checksums);
    cli_json_number(&j, "problems", b->problems.count);
    cli_json_open(&j, "fields", '[');
    for (uint32_t f = 0; f < b->info.fields; f++) {
        tarn_field_form form = form_of(b->all, 0, f);
        cli_json_open(&j, NULL, '{');
        cli_json_text(&j, "name", tarn_dataset_field(b->all, f));
        cli_json_text(&j, "kind", browse_kind_name(browse_kind_of(&form)));
        cli_json_bool(&j, "column", form.form >= TARN_FORM_JSON);
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_open(&j, "sources", '[');
    for (size_t k = 0; k < b->sources.n; k++)
        cli_json_text(&j, NULL, cli_base_name(b->sources.parts[k].path));
    cli_json_close(&j, ']');
    browse_json_end(&j, a);
}

void browse_problem_list(browser *b, const browse_query *q, browse_answer *a)
{
    enum { SHOWN = 1000 };
    (void)q;
    cli_json j = browse_json_begin(a);
    cli_json_number(&j, "count", b->problems.count);
    cli_json_open(&j, "problems", '[');
    for (size_t i = 0; i < b->problems.count && i < SHOWN; i++) {
        cli_json_open(&j, NULL, '{');
        cli_json_text(&j, "key", b->problems.items[i].key);
        cli_json_text(&j, "message", b->problems.items[i].message);
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    browse_json_end(&j, a);
}

/* --- Values --------------------------------------------------------------------------
 */

enum { SHORT_VALUE = 240 };

static void put_array_number(cli_json *j, const char *key, const tarn_field_form *form,
                             const tarn_view *v)
{
    tarn_array array;
    double value;
    if (tarn_array_init(&array, (void *)(uintptr_t)v->data, form->dtype, form->ndim,
                        form->shape, NULL) == TARN_OK &&
        tarn_array_bytes(&array) == v->size && browse_element(&array, 0, &value))
        browse_json_real(j, key, value);
    else
        cli_json_text(j, key, NULL);
}

/* A short value for tiles and tables. */
static void put_value(cli_json *j, tarn_dataset *set, uint64_t i, uint32_t field)
{
    tarn_view v;
    tarn_field_form form = form_of(set, i, field);
    browse_kind kind = browse_kind_of(&form);
    const char *name = tarn_dataset_field(set, field);
    if (kind < BROWSE_TEXT || kind > BROWSE_NUMBER) return;
    if (tarn_dataset_get(set, i, field, &v, NULL) != TARN_OK) return;
    if (form.form == TARN_FORM_ARRAY)
        put_array_number(j, name, &form, &v);
    else
        browse_json_bytes(j, name, v.data, v.size < SHORT_VALUE ? v.size : SHORT_VALUE);
    tarn_view_release(&v);
}

static void put_problem(const browser *b, cli_json *j, const char *key)
{
    const browse_problem *p = browse_problem_of(&b->problems, key);
    if (p) cli_json_text(j, "problem", p->message);
}

/* --- A page of samples ---------------------------------------------------------------
 */

static tarn_status put_sample(const browser *b, cli_json *j, tarn_dataset *set,
                              cli_fold *room, tarn_text *key, uint64_t i, tarn_error *err)
{
    TARN_TRY(tarn_dataset_key(set, i, key, err));
    TARN_TRY(cli_members_of(room, set, i, err));
    cli_json_open(j, NULL, '{');
    cli_json_number(j, "i", i);
    browse_json_bytes(j, "key", key->data, key->size);
    put_problem(b, j, key->data);
    cli_json_open(j, "sizes", '{');
    for (size_t k = 0; k < room->count; k++)
        cli_json_number(j, tarn_dataset_field(set, room->members[k].field),
                        room->members[k].bytes);
    cli_json_close(j, '}');
    cli_json_open(j, "values", '{');
    for (size_t k = 0; k < room->count; k++)
        put_value(j, set, i, room->members[k].field);
    cli_json_close(j, '}');
    cli_json_close(j, '}');
    return TARN_OK;
}

/* What is wrong with one sample is shown at its place, and the others are shown. */
static void put_samples(const browser *b, cli_json *j, tarn_dataset *set, uint64_t from,
                        uint64_t count)
{
    cli_fold room = {0};
    tarn_text key = {0};
    for (uint64_t i = from; i < from + count; i++) {
        tarn_error err;
        char text[TARN_ERROR_PATH_MAX + TARN_ERROR_MESSAGE_MAX + 64];
        if (put_sample(b, j, set, &room, &key, i, &err) == TARN_OK) continue;
        cli_json_open(j, NULL, '{');
        cli_json_number(j, "i", i);
        cli_json_text(j, "key", "");
        cli_json_text(j, "problem", tarn_error_text(&err, text, sizeof text));
        cli_json_close(j, '}');
    }
    tarn_text_reset(&key);
    free(room.members);
}

/* Of remote samples, keys and the values of tiles are fetched with many requests at once.
 * A problem shows up when a sample is read. */
static void fetch_ahead(const browser *b, tarn_dataset *set, uint64_t from,
                        uint64_t count, bool values)
{
    uint32_t n = 0;
    tarn_error ignored;
    if (!b->info.remote || count == 0) return;
    uint64_t *list = malloc((size_t)count * sizeof *list);
    uint32_t *fields = malloc((b->info.fields + 1) * sizeof *fields);
    if (!list || !fields) cli_no_memory();
    for (uint64_t i = 0; i < count; i++)
        list[i] = from + i;
    for (uint32_t f = 0; values && f < b->info.fields; f++) {
        browse_kind kind = browse_kind_at(set, from, f);
        if (kind >= BROWSE_TEXT && kind <= BROWSE_NUMBER) fields[n++] = f;
    }
    tarn_status status =
        tarn_dataset_prefetch(set, list, (size_t)count, fields, n, &ignored);
    (void)status;
    free(list);
    free(fields);
}

void browse_page(browser *b, const browse_query *q, browse_answer *a)
{
    browse_view *view;
    uint64_t from = 0, count = 60;
    if (!browse_query_number(q, "from", UINT64_MAX, &from) ||
        !browse_query_number(q, "count", BROWSE_MAX_PAGE, &count)) {
        browse_fail(a, 400, "from and count must be whole numbers, count at most 400");
        return;
    }
    if (!browse_view_open(b, q, &view, a)) return;
    if (from > view->count) from = view->count;
    if (count > view->count - from) count = view->count - from;
    cli_json j = browse_json_begin(a);
    cli_json_number(&j, "count", view->count);
    if (view->first) cli_json_number(&j, "first", view->first);
    if (view->has_step) {
        cli_json_number(&j, "epoch", view->epoch);
        cli_json_number(&j, "step", view->step);
    }
    fetch_ahead(b, view->set, from, count, true);
    cli_json_open(&j, "samples", '[');
    put_samples(b, &j, view->set, from, count);
    cli_json_close(&j, ']');
    browse_json_end(&j, a);
    browse_view_close(b, view);
}

/* --- One sample ----------------------------------------------------------------------
 */

static void put_numbers(cli_json *j, const tarn_array *array)
{
    char type[TARN_DTYPE_TEXT_MAX];
    uint64_t n = 1;
    double low = INFINITY, high = -INFINITY, sum = 0, value;
    cli_json_text(j, "dtype", tarn_dtype_text(array->dtype, type));
    cli_json_open(j, "shape", '[');
    for (unsigned d = 0; d < array->ndim; d++) {
        cli_json_number(j, NULL, array->shape[d]);
        n *= array->shape[d];
    }
    cli_json_close(j, ']');
    cli_json_bool(j, "picture", browse_is_picture(array));
    if (n == 0 || !browse_element(array, 0, &value)) return;
    cli_json_open(j, "values", '[');
    for (uint64_t i = 0; i < n && i < BROWSE_MAX_VALUES; i++) {
        (void)browse_element(array, i, &value);
        browse_json_real(j, NULL, value);
        if (value < low) low = value;
        if (value > high) high = value;
        sum += value;
    }
    cli_json_close(j, ']');
    uint64_t seen = n < BROWSE_MAX_VALUES ? n : BROWSE_MAX_VALUES;
    cli_json_number(j, "elements", n);
    cli_json_number(j, "measured", seen);
    browse_json_real(j, "min", low);
    browse_json_real(j, "max", high);
    browse_json_real(j, "mean", sum / (double)seen);
}

static void put_hex(cli_json *j, const tarn_view *v)
{
    enum { SHOWN = 2048 };
    char text[2 * SHOWN + 1];
    size_t n = v->size < SHOWN ? v->size : SHOWN;
    for (size_t i = 0; i < n; i++)
        snprintf(text + 2 * i, 3, "%02x", v->data[i]);
    text[2 * n] = '\0';
    cli_json_text(j, "hex", text);
}

/* Decodes a member that contains arrays; only the first one is shown. */
static bool put_decoded(cli_json *j, const char *codec, const tarn_view *v)
{
    tarn_value value;
    tarn_decode_options o = TARN_DECODE_OPTIONS_INIT;
    o.max_size = BROWSE_MAX_IMAGE;
    if (v->size > BROWSE_MAX_IMAGE ||
        tarn_decode(codec, v->data, v->size, &o, &value, NULL) != TARN_OK)
        return false;
    bool arrays = (value.kind == TARN_VALUE_ARRAY || value.kind == TARN_VALUE_ARRAYS) &&
                  value.count;
    if (arrays) {
        cli_json_number(j, "arrays", value.count);
        if (value.names) cli_json_text(j, "array", value.names[0]);
        put_numbers(j, &value.arrays[0]);
    }
    tarn_value_release(&value);
    return arrays;
}

/* The bytes as they are shown. Bytes that a browser can show are fetched by their
 * address. */
static void put_content(cli_json *j, const tarn_field_form *form, const tarn_view *v)
{
    tarn_array array;
    uint32_t width, height;
    browse_kind kind = browse_kind_of(form);
    const char *type = browse_sniff(v->data, v->size);
    bool image = browse_measure(v->data, v->size, &width, &height);
    if (image) kind = BROWSE_IMAGE;
    if (type && kind == BROWSE_BYTES)
        kind = type[0] == 'a'   ? BROWSE_AUDIO
               : type[0] == 'v' ? BROWSE_VIDEO
                                : BROWSE_IMAGE;
    cli_json_text(j, "kind", browse_kind_name(kind));
    cli_json_text(j, "type", type);
    if (image) {
        cli_json_number(j, "width", width);
        cli_json_number(j, "height", height);
    }
    if (form->form == TARN_FORM_ARRAY) {
        if (tarn_array_init(&array, (void *)(uintptr_t)v->data, form->dtype, form->ndim,
                            form->shape, NULL) == TARN_OK &&
            tarn_array_bytes(&array) == v->size)
            put_numbers(j, &array);
    } else if (kind >= BROWSE_TEXT && kind <= BROWSE_NUMBER) {
        browse_json_bytes(j, "text", v->data,
                          v->size < BROWSE_MAX_TEXT ? v->size : BROWSE_MAX_TEXT);
        cli_json_bool(j, "cut", v->size > BROWSE_MAX_TEXT);
    } else if (kind == BROWSE_ARRAY) {
        if (!put_decoded(j, form->codec, v)) put_hex(j, v);
    } else if (kind == BROWSE_BYTES || (!image && !type)) {
        put_hex(j, v);
    }
}

/* Whether the bytes of a member are those of its checksum: "ok", "wrong" or NULL, for not
 * known. */
static const char *check_member(browser *b, uint64_t row, const char *field)
{
    tarn_error err;
    tarn_view v;
    uint32_t number;
    tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
    if (!b->has_checksums) return NULL;
    o.check = o.scan = true;
    pthread_mutex_lock(&b->lock);
    if (!b->checked &&
        tarn_dataset_open(b->sources.parts[0].path, &o, &b->checked, NULL) != TARN_OK)
        b->checked = NULL;
    tarn_dataset *checked = b->checked;
    pthread_mutex_unlock(&b->lock);
    if (!checked || row >= tarn_dataset_count(checked) ||
        tarn_dataset_field_find(checked, field, &number, NULL) != TARN_OK)
        return NULL;
    tarn_status status = tarn_dataset_get(checked, row, number, &v, &err);
    if (status == TARN_OK) tarn_view_release(&v);
    return status == TARN_OK ? "ok" : status == TARN_ERR_CHECKSUM ? "wrong" : NULL;
}

static void put_place(cli_json *j, const tarn_place *place)
{
    cli_json_text(j, "shard", cli_base_name(place->path));
    if (place->offset != TARN_NO_OFFSET) cli_json_number(j, "offset", place->offset);
}

static void put_field(browser *b, cli_json *j, tarn_dataset *set, uint64_t i,
                      uint32_t field)
{
    tarn_error err;
    tarn_view v;
    tarn_place place;
    char text[TARN_ERROR_PATH_MAX + TARN_ERROR_MESSAGE_MAX + 64];
    tarn_field_form form = form_of(set, i, field);
    cli_json_open(j, NULL, '{');
    cli_json_text(j, "name", tarn_dataset_field(set, field));
    tarn_status status = tarn_dataset_locate(set, i, field, &place, sizeof place, &err);
    if (status == TARN_OK) {
        put_place(j, &place);
        if (b->info.kind == TARN_DATASET_FOLD)
            cli_json_text(j, "check",
                          check_member(b, place.row, tarn_dataset_field(set, field)));
        status = tarn_dataset_get(set, i, field, &v, &err);
    }
    if (status == TARN_OK) {
        cli_json_number(j, "size", v.size);
        put_content(j, &form, &v);
        status = tarn_dataset_release(set, i, &v, 1, &err);
    }
    if (status != TARN_OK)
        cli_json_text(j, "error", tarn_error_text(&err, text, sizeof text));
    cli_json_close(j, '}');
}

static void put_origin(cli_json *j, tarn_dataset *set, uint64_t i)
{
    tarn_place place;
    uint64_t number;
    if (tarn_dataset_sequence(set, i, 1, &number, NULL) == TARN_OK)
        cli_json_number(j, "number", number);
    if (tarn_dataset_locate(set, i, TARN_NO_FIELD, &place, sizeof place, NULL) != TARN_OK)
        return;
    cli_json_number(j, "row", place.row);
    char path[2 * TARN_ERROR_PATH_MAX];
    cli_json_text(j, "path", tarn_hide_secrets(path, sizeof path, place.path, true));
    cli_json_number(j, "source", place.source);
}

void browse_sample(browser *b, const browse_query *q, browse_answer *a)
{
    browse_view *view;
    uint64_t i = 0;
    tarn_error err;
    tarn_text key = {0};
    cli_fold room = {0};
    if (!browse_query_number(q, "i", UINT64_MAX, &i)) {
        browse_fail(a, 400, "i must be a whole number");
        return;
    }
    if (!browse_view_open(b, q, &view, a)) return;
    tarn_dataset *set = view->set;
    if (i >= view->count) {
        browse_fail(a, 404, "there is no such sample");
    } else if (tarn_dataset_key(set, i, &key, &err) != TARN_OK ||
               cli_members_of(&room, set, i, &err) != TARN_OK) {
        browse_fail_as(a, &err);
    } else {
        cli_json j = browse_json_begin(a);
        cli_json_number(&j, "i", i);
        cli_json_number(&j, "count", view->count);
        browse_json_bytes(&j, "key", key.data, key.size);
        put_problem(b, &j, key.data);
        put_origin(&j, set, i);
        cli_json_open(&j, "fields", '[');
        for (size_t k = 0; k < room.count; k++)
            put_field(b, &j, set, i, room.members[k].field);
        cli_json_close(&j, ']');
        browse_json_end(&j, a);
    }
    tarn_text_reset(&key);
    free(room.members);
    browse_view_close(b, view);
}

/* --- Samples by key ------------------------------------------------------------------
 */

/* Lists the first samples whose key contains the text. */
static uint64_t search(const browser *b, cli_json *j, const browse_view *view,
                       const char *text)
{
    enum { SHOWN = 50 };
    tarn_text key = {0};
    uint64_t most = b->info.remote ? BROWSE_FIRST_REMOTE : BROWSE_FIRST, found = 0;
    if (view->count < most) most = view->count;
    fetch_ahead(b, view->set, 0, most, false);
    for (uint64_t i = 0; i < most && found < SHOWN; i++) {
        if (tarn_dataset_key(view->set, i, &key, NULL) != TARN_OK ||
            !strcasestr(key.data, text))
            continue;
        found++;
        cli_json_open(j, NULL, '{');
        cli_json_number(j, "i", i);
        browse_json_bytes(j, "key", key.data, key.size);
        cli_json_close(j, '}');
    }
    tarn_text_reset(&key);
    return most;
}

/* The sample with a key in the index; without one, those of the first samples whose keys
 * contain the text. */
void browse_find(browser *b, const browse_query *q, browse_answer *a)
{
    browse_view *view;
    uint64_t at;
    size_t missing = 0;
    tarn_error err;
    const char *key = browse_query_get(q, "key");
    if (!key || !*key) {
        browse_fail(a, 400, "key is needed");
        return;
    }
    if (!browse_view_open(b, q, &view, a)) return;
    tarn_status status = tarn_dataset_find(view->set, &key, 1, &at, &missing, &err);
    if (status != TARN_OK) {
        browse_fail_as(a, &err);
    } else {
        cli_json j = browse_json_begin(a);
        if (!missing) cli_json_number(&j, "i", at);
        cli_json_open(&j, "like", '[');
        uint64_t searched = missing ? search(b, &j, view, key) : 0;
        cli_json_close(&j, ']');
        cli_json_number(&j, "searched", searched);
        browse_json_end(&j, a);
    }
    browse_view_close(b, view);
}
