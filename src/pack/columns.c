/* Finds the types of columns, and converts values to them. Values are never changed to
 * fit: a value that its column cannot hold is an error. */
#include "pack/columns.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/number.h"
#include "base/utf8.h"

typedef tarn__column_type type;

/* By tarn__column_type: as users write them, and as tarn_iac_rows_new does. */
static const char *const words[] = {"null", "text", "int", "float", "bool", "timestamp"};
static const char *const kinds[] = {"int", "text", "int", "real", "bool", "time"};

enum { MAX_SHOWN = 120 };

static const char *column_name(const tarn__columns *c, size_t column, char *out)
{
    tarn__name name = tarn__names_get(&c->names, column);
    return tarn_printable(out, MAX_SHOWN, name.data, name.size);
}

static void describe(type t, bool list, char *out, size_t size)
{
    snprintf(out, size, list ? "list of %s" : "%s", words[t]);
}

/* --- Types ------------------------------------------------------------------------- */

static tarn_status find_type(const char *text, type *out, tarn_error *err)
{
    for (type t = TARN__COLUMN_TEXT; t <= TARN__COLUMN_TIME; t++)
        if (strcmp(text, words[t]) == 0) {
            *out = t;
            return TARN_OK;
        }
    return tarn__fail(
        err, TARN_ERR_USAGE,
        "unknown type of a column: %s; the types are text, int, float, bool "
        "and timestamp",
        text);
}

tarn_status tarn__columns_init(tarn__columns *c, const tarn_pack_type *types,
                               size_t n_types, tarn_error *err)
{
    tarn__names_init(&c->names);
    tarn__buf_init(&c->text, SIZE_MAX / 2);
    c->types = types;
    c->n_types = n_types;
    for (size_t i = 0; i < n_types; i++) {
        type ignored;
        if (!types || !types[i].column || !types[i].type)
            return tarn__fail(err, TARN_ERR_USAGE, "types: number %zu is empty", i);
        TARN_TRY(find_type(types[i].type, &ignored, err));
        for (size_t k = 0; k < i; k++)
            if (strcmp(types[i].column, types[k].column) == 0)
                return tarn__fail(err, TARN_ERR_USAGE, "types: column %s is named twice",
                                  types[i].column);
    }
    return TARN_OK;
}

void tarn__columns_reset(tarn__columns *c)
{
    tarn__names_reset(&c->names);
    tarn__buf_reset(&c->text);
    free(c->items);
    tarn_iac_rows_free(c->rows);
}

/* The type of a value that is not a list or an object. */
static type type_of(const tarn__json *v)
{
    switch (v->kind) {
    case TARN__JSON_STRING:
        return TARN__COLUMN_TEXT;
    case TARN__JSON_INTEGER:
        return TARN__COLUMN_INT;
    case TARN__JSON_REAL:
        return TARN__COLUMN_REAL;
    case TARN__JSON_TRUE:
    case TARN__JSON_FALSE:
        return TARN__COLUMN_BOOL;
    default:
        return TARN__COLUMN_NULL;
    }
}

/* Integers and other numbers have the type float in common. */
static bool join(type *a, type b)
{
    bool numbers = (*a == TARN__COLUMN_INT || *a == TARN__COLUMN_REAL) &&
                   (b == TARN__COLUMN_INT || b == TARN__COLUMN_REAL);
    if (*a == TARN__COLUMN_NULL)
        *a = b;
    else if (numbers && *a != b)
        *a = TARN__COLUMN_REAL;
    return b == TARN__COLUMN_NULL || *a == b || numbers;
}

static tarn_status fail_kind(const tarn__columns *c, size_t column, const char *what,
                             tarn_error *err)
{
    char name[MAX_SHOWN];
    return tarn__fail(err, TARN_ERR_FORMAT,
                      "column %s: %s, which no column can hold; use the type text "
                      "(--types %s=text) to store JSON",
                      column_name(c, column, name), what, name);
}

static tarn_status type_of_list(const tarn__columns *c, size_t column,
                                const tarn__json *v, type *out, tarn_error *err)
{
    const tarn__json *item = v + 1;
    *out = TARN__COLUMN_NULL;
    for (uint32_t i = 0; i < v->size; i++, item = tarn__json_next(item)) {
        if (item->kind == TARN__JSON_NULL || item->kind >= TARN__JSON_LIST)
            return fail_kind(c, column, "a list with null, a list or an object", err);
        if (!join(out, type_of(item)))
            return fail_kind(c, column, "a list with values of several types", err);
    }
    return TARN_OK;
}

static tarn_status learn_value(tarn__columns *c, size_t column, const tarn__json *v,
                               uint64_t line, tarn_error *err)
{
    tarn__column *k = &c->columns[column];
    bool list = v->kind == TARN__JSON_LIST;
    type t = type_of(v), before = k->type;
    char name[MAX_SHOWN], was[40], is[40];
    if (k->fixed || v->kind == TARN__JSON_NULL) return TARN_OK;
    if (v->kind == TARN__JSON_OBJECT) return fail_kind(c, column, "an object", err);
    if (list) TARN_TRY(type_of_list(c, column, v, &t, err));
    if ((!k->line || k->list == list) && join(&k->type, t)) {
        k->list = list;
        if (!k->line) k->line = line;
        return TARN_OK;
    }
    describe(before, k->list, was, sizeof was);
    describe(t, list, is, sizeof is);
    return tarn__fail(
        err, TARN_ERR_FORMAT,
        "column %s: the value is %s, but in line %llu it is %s; a column has "
        "one type: use text (--types %s=text)",
        column_name(c, column, name), is, (unsigned long long)k->line, was, name);
}

/* Gives a new column the type that the caller chose. */
static tarn_status fix_type(tarn__columns *c, size_t column, tarn_error *err)
{
    const char *name = tarn__names_get(&c->names, column).data;
    for (size_t i = 0; i < c->n_types; i++) {
        if (strcmp(c->types[i].column, name) != 0) continue;
        c->columns[column].fixed = true;
        return find_type(c->types[i].type, &c->columns[column].type, err);
    }
    return TARN_OK;
}

tarn_status tarn__columns_learn(tarn__columns *c, const char *name, size_t len,
                                const tarn__json *value, uint64_t line, tarn_error *err)
{
    uint32_t id;
    size_t before = c->names.count;
    if (memchr(name, 0, len) || !tarn__utf8_is_valid(name, len))
        return tarn__fail(err, TARN_ERR_FORMAT,
                          "a column's name is not valid UTF-8, or contains a NUL");
    TARN_TRY(tarn__names_add(&c->names, name, len, &id, err));
    if (id >= TARN__MAX_COLUMNS)
        return tarn__fail(err, TARN_ERR_LIMIT, "too many columns (limit %d)",
                          TARN__MAX_COLUMNS);
    if (id == before) TARN_TRY(fix_type(c, id, err));
    return learn_value(c, id, value, line, err);
}

static tarn_status check_found(const tarn__columns *c, tarn_error *err)
{
    for (size_t i = 0; i < c->n_types; i++)
        if (tarn__names_find(&c->names, c->types[i].column, strlen(c->types[i].column)) ==
            TARN__NAME_NONE)
            return tarn__fail(err, TARN_ERR_USAGE,
                              "types: the manifest has no column %s besides \"file\"",
                              c->types[i].column);
    return TARN_OK;
}

tarn_status tarn__columns_begin(tarn__columns *c, tarn_error *err)
{
    size_t n = c->names.count;
    TARN_TRY(check_found(c, err));
    char **columns = calloc(n + 1, sizeof *columns);
    tarn_status status = columns ? TARN_OK : tarn__fail_memory(err);
    for (size_t i = 0; i < n && status == TARN_OK; i++) {
        const tarn__column *k = &c->columns[i];
        if (asprintf(&columns[i], "%s%s:%s", kinds[k->type], k->list ? "s" : "",
                     tarn__names_get(&c->names, i).data) < 0) {
            columns[i] = NULL;
            status = tarn__fail_memory(err);
        }
    }
    if (status == TARN_OK)
        status = tarn_iac_rows_new((const char *const *)columns, n, &c->rows, err);
    for (size_t i = 0; columns && i < n; i++)
        free(columns[i]);
    free(columns);
    return status;
}

/* --- Values ------------------------------------------------------------------------ */

static tarn_status fail_value(const tarn__columns *c, size_t column, const char *why,
                              const tarn__json *v, tarn_error *err)
{
    char name[MAX_SHOWN], shown[MAX_SHOWN] = "a value of another type";
    if (v->kind >= TARN__JSON_INTEGER && v->kind <= TARN__JSON_STRING)
        tarn_printable(shown, sizeof shown, v->u.text, v->size);
    return tarn__fail(err, TARN_ERR_FORMAT,
                      "column %s: %s is not %s; use the type text (--types %s=text)",
                      column_name(c, column, name), shown, why, name);
}

/* Digits at *at, at most count of them. */
static bool digits(const char **at, int count, int *out)
{
    *out = 0;
    for (int i = 0; i < count; i++, ++*at) {
        if (**at < '0' || **at > '9') return false;
        *out = 10 * *out + (**at - '0');
    }
    return true;
}

/* Days since 1970-01-01 in the Gregorian calendar. */
static int64_t days_of(int year, int month, int day)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = (y >= 0 ? y : y - 399) / 400, in_era = y - era * 400;
    int64_t in_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    return era * 146097 + in_era * 365 + in_era / 4 - in_era / 100 + in_year - 719468;
}

static bool date(const char **at, int64_t *out_days)
{
    static const int lengths[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int year, month, day;
    if (!digits(at, 4, &year) || *(*at)++ != '-' || !digits(at, 2, &month) ||
        *(*at)++ != '-' || !digits(at, 2, &day))
        return false;
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if (month < 1 || month > 12 || day < 1 || day > lengths[month - 1] ||
        (month == 2 && day == 29 && !leap))
        return false;
    *out_days = days_of(year, month, day);
    return true;
}

/* "12:30", "12:30:05" or "12:30:05.25", in microseconds. */
static bool clock_time(const char **at, int64_t *out)
{
    int hours, minutes, seconds = 0;
    int64_t part = 0, unit = 1000000;
    if (!digits(at, 2, &hours) || *(*at)++ != ':' || !digits(at, 2, &minutes))
        return false;
    if (**at == ':') {
        ++*at;
        if (!digits(at, 2, &seconds)) return false;
        if (**at == '.' && (*at)[1] >= '0' && (*at)[1] <= '9')
            for (++*at; **at >= '0' && **at <= '9'; ++*at) {
                unit /= 10;
                part += unit * (**at - '0');
                if (unit == 0 && **at != '0') return false; /* finer than the column */
            }
    }
    *out = ((hours * 60LL + minutes) * 60 + seconds) * 1000000 + part;
    return hours < 24 && minutes < 60 && seconds < 60;
}

/* Nothing, "Z", "+02:00" or "+0200", in microseconds. */
static bool zone(const char **at, int64_t *out)
{
    int sign = **at == '-' ? -1 : 1, hours, minutes;
    *out = 0;
    if (!**at) return true;
    if (**at == 'Z' || **at == 'z') {
        ++*at;
        return true;
    }
    if (**at != '+' && **at != '-') return false;
    ++*at;
    if (!digits(at, 2, &hours)) return false;
    if (**at == ':') ++*at;
    if (!digits(at, 2, &minutes) || hours > 23 || minutes > 59) return false;
    *out = sign * (hours * 60LL + minutes) * 60 * 1000000;
    return true;
}

/* A date, or a date and a time, in microseconds since 1970. */
static bool read_time(const char *at, int64_t *out)
{
    int64_t days, time = 0, off = 0;
    if (!date(&at, &days)) return false;
    if (*at) {
        if (*at != 'T' && *at != 't' && *at != ' ') return false;
        at++;
        if (!clock_time(&at, &time) || !zone(&at, &off)) return false;
    }
    *out = days * 86400 * 1000000 + time - off;
    return !*at;
}

static bool read_bool(const tarn__json *v, int64_t *out)
{
    bool text = v->kind == TARN__JSON_STRING;
    *out = v->kind == TARN__JSON_TRUE ||
           (text && (strcasecmp(v->u.text, "true") == 0 || strcmp(v->u.text, "1") == 0));
    return *out || v->kind == TARN__JSON_FALSE ||
           (text && (strcasecmp(v->u.text, "false") == 0 || strcmp(v->u.text, "0") == 0));
}

/* Text is read like a number in JSON. */
static bool read_int(const tarn__json *v, int64_t *out)
{
    tarn__json number = *v;
    if (v->kind != TARN__JSON_STRING) return tarn__json_int64(v, out);
    size_t n = strspn(v->u.text + (v->u.text[0] == '-'), "0123456789");
    number.kind = TARN__JSON_INTEGER;
    return n && n + (v->u.text[0] == '-') == v->size && tarn__json_int64(&number, out);
}

/* False also for integers that a double cannot hold exactly. */
static bool read_real(const tarn__json *v, double *out)
{
    int64_t whole;
    if (v->kind == TARN__JSON_STRING) {
        const char *end = tarn__double_read(v->u.text, out);
        return end && end == v->u.text + v->size && v->size && v->u.text[0] > ' ';
    }
    if (v->kind != TARN__JSON_INTEGER) return tarn__json_double(v, out);
    return tarn__json_int64(v, &whole) && whole >= -(INT64_C(1) << 53) &&
           whole <= INT64_C(1) << 53 && tarn__json_double(v, out);
}

static tarn_status text_cell(tarn__columns *c, const tarn__json *v, tarn_iac_cell *out,
                             tarn_error *err)
{
    tarn__json_writer w;
    if (v->kind == TARN__JSON_STRING) {
        *out = (tarn_iac_cell){.kind = TARN_IAC_TEXT, .text = v->u.text, .size = v->size};
        return TARN_OK;
    }
    c->text.size = 0;
    tarn__json_begin(&w, &c->text);
    w.ascii = false;
    tarn__json_put_value(&w, v, false);
    TARN_TRY(tarn__json_end(&w, err));
    *out = (tarn_iac_cell){
        .kind = TARN_IAC_TEXT, .text = c->text.data, .size = c->text.size};
    return TARN_OK;
}

static tarn_status one_cell(tarn__columns *c, size_t column, const tarn__json *v,
                            tarn_iac_cell *out, tarn_error *err)
{
    *out = (tarn_iac_cell){.kind = TARN_IAC_INTEGER};
    switch (c->columns[column].type) {
    case TARN__COLUMN_TEXT:
        return text_cell(c, v, out, err);
    case TARN__COLUMN_REAL:
        out->kind = TARN_IAC_REAL;
        if (read_real(v, &out->real)) return TARN_OK;
        return fail_value(c, column, "a number that a double can hold exactly", v, err);
    case TARN__COLUMN_BOOL:
        if (read_bool(v, &out->integer)) return TARN_OK;
        return fail_value(c, column, "true or false", v, err);
    case TARN__COLUMN_TIME:
        if (v->kind == TARN__JSON_STRING && read_time(v->u.text, &out->integer))
            return TARN_OK;
        return fail_value(c, column, "a time such as 2024-05-31T12:00:00.5+02:00", v,
                          err);
    default:
        if (read_int(v, &out->integer)) return TARN_OK;
        return fail_value(c, column, "an integer of 64 bits", v, err);
    }
}

static tarn_status list_cell(tarn__columns *c, size_t column, const tarn__json *v,
                             tarn_iac_cell *out, tarn_error *err)
{
    const tarn__json *item = v + 1;
    for (uint32_t i = 0; i < v->size; i++, item = tarn__json_next(item)) {
        TARN_TRY(tarn__grow(&c->items, sizeof *c->items, i, &c->capacity, err));
        TARN_TRY(one_cell(c, column, item, &c->items[i], err));
    }
    *out = (tarn_iac_cell){.kind = TARN_IAC_LIST, .items = c->items, .size = v->size};
    return TARN_OK;
}

tarn_status tarn__columns_add(tarn__columns *c, size_t column, const tarn__json *v,
                              tarn_error *err)
{
    tarn_iac_cell cell;
    char name[MAX_SHOWN];
    if (!v || v->kind == TARN__JSON_NULL)
        return tarn_iac_rows_add(c->rows, column, NULL, err);
    TARN_TRY(c->columns[column].list ? list_cell(c, column, v, &cell, err)
                                     : one_cell(c, column, v, &cell, err));
    if (cell.kind == TARN_IAC_TEXT && !tarn__utf8_is_valid(cell.text, cell.size))
        return tarn__fail(err, TARN_ERR_FORMAT, "column %s: the text is not UTF-8",
                          column_name(c, column, name));
    return tarn_iac_rows_add(c->rows, column, &cell, err);
}
