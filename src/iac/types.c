/* The meaning of format strings of the Arrow C data interface: how the values of a column
 * are stored in its buffers, the type in an IPC schema, and the name of the type. */
#include <string.h>

#include "base/error.h"
#include "base/number.h"
#include "iac/ipc.h"

#define FIXED(width, number)                                                             \
    {                                                                                    \
        SHAPE_FIXED, width, 2, true, false, number                                       \
    }
#define TEXT(shape, width, buffers, is_text)                                             \
    {                                                                                    \
        shape, width, buffers, true, is_text, 0                                          \
    }
#define SHAPED(shape, width, buffers, validity)                                          \
    {                                                                                    \
        shape, width, buffers, validity, false, 0                                        \
    }

/* Formats without parameters, the most common ones first, because a lookup of a value
 * searches this list. */
static const tarn__type types[] = {
    {"u", "string", TYPE_UTF8, 0, 0, TEXT(SHAPE_VAR, 4, 3, true)},
    {"l", "int64", TYPE_INT, 64, 1, FIXED(8, 'i')},
    {"L", "uint64", TYPE_INT, 64, 0, FIXED(8, 'u')},
    {"i", "int32", TYPE_INT, 32, 1, FIXED(4, 'i')},
    {"I", "uint32", TYPE_INT, 32, 0, FIXED(4, 'u')},
    {"s", "int16", TYPE_INT, 16, 1, FIXED(2, 'i')},
    {"S", "uint16", TYPE_INT, 16, 0, FIXED(2, 'u')},
    {"c", "int8", TYPE_INT, 8, 1, FIXED(1, 'i')},
    {"C", "uint8", TYPE_INT, 8, 0, FIXED(1, 'u')},
    {"e", "halffloat", TYPE_FLOAT, 0, 0, FIXED(2, 'f')},
    {"f", "float", TYPE_FLOAT, 1, 0, FIXED(4, 'f')},
    {"g", "double", TYPE_FLOAT, 2, 0, FIXED(8, 'f')},
    {"n", "null", TYPE_NULL, 0, 0, SHAPED(SHAPE_NULL, 0, 0, false)},
    {"b", "bool", TYPE_BOOL, 0, 0, SHAPED(SHAPE_BITS, 0, 2, true)},
    {"z", "binary", TYPE_BINARY, 0, 0, TEXT(SHAPE_VAR, 4, 3, false)},
    {"Z", "large_binary", TYPE_LARGE_BINARY, 0, 0, TEXT(SHAPE_VAR, 8, 3, false)},
    {"U", "large_string", TYPE_LARGE_UTF8, 0, 0, TEXT(SHAPE_VAR, 8, 3, true)},
    {"vz", "binary_view", TYPE_BINARY_VIEW, 0, 0, TEXT(SHAPE_VIEW, 16, 2, false)},
    {"vu", "string_view", TYPE_UTF8_VIEW, 0, 0, TEXT(SHAPE_VIEW, 16, 2, true)},
    {"tdD", "date32[day]", TYPE_DATE, 0, 0, FIXED(4, 'i')},
    {"tdm", "date64[ms]", TYPE_DATE, 1, 0, FIXED(8, 'i')},
    {"tts", "time32[s]", TYPE_TIME, 0, 32, FIXED(4, 'i')},
    {"ttm", "time32[ms]", TYPE_TIME, 1, 32, FIXED(4, 'i')},
    {"ttu", "time64[us]", TYPE_TIME, 2, 64, FIXED(8, 'i')},
    {"ttn", "time64[ns]", TYPE_TIME, 3, 64, FIXED(8, 'i')},
    {"tDs", "duration[s]", TYPE_DURATION, 0, 0, FIXED(8, 'i')},
    {"tDm", "duration[ms]", TYPE_DURATION, 1, 0, FIXED(8, 'i')},
    {"tDu", "duration[us]", TYPE_DURATION, 2, 0, FIXED(8, 'i')},
    {"tDn", "duration[ns]", TYPE_DURATION, 3, 0, FIXED(8, 'i')},
    {"tiM", "month_interval", TYPE_INTERVAL, 0, 0, FIXED(4, 0)},
    {"tiD", "day_time_interval", TYPE_INTERVAL, 1, 0, FIXED(8, 0)},
    {"tin", "month_day_nano_interval", TYPE_INTERVAL, 2, 0, FIXED(16, 0)},
    {"+l", "list", TYPE_LIST, 0, 0, SHAPED(SHAPE_LIST, 4, 2, true)},
    {"+L", "large_list", TYPE_LARGE_LIST, 0, 0, SHAPED(SHAPE_LIST, 8, 2, true)},
    {"+vl", "list_view", TYPE_LIST_VIEW, 0, 0, SHAPED(SHAPE_LISTVIEW, 4, 3, true)},
    {"+vL", "large_list_view", TYPE_LARGE_LIST_VIEW, 0, 0,
     SHAPED(SHAPE_LISTVIEW, 8, 3, true)},
    {"+s", "struct", TYPE_STRUCT, 0, 0, SHAPED(SHAPE_STRUCT, 0, 1, true)},
    {"+m", "map", TYPE_MAP, 0, 0, SHAPED(SHAPE_LIST, 4, 2, true)},
    {"+r", "run_end_encoded", TYPE_RUN_END, 0, 0, SHAPED(SHAPE_RUNEND, 0, 0, false)}};

enum { TYPES = sizeof types / sizeof types[0] };

const tarn__type *tarn__type_of(const char *format)
{
    for (int i = 0; i < TYPES; i++)
        if (types[i].format[0] == format[0] && strcmp(types[i].format, format) == 0)
            return &types[i];
    return NULL;
}

const tarn__type *tarn__type_numbered(int number, int a, int b)
{
    for (int i = 0; i < TYPES; i++)
        if (types[i].number == number && types[i].a == a && types[i].b == b)
            return &types[i];
    return NULL;
}

tarn__type_fields tarn__type_fields_of(int number)
{
    static const tarn__type_fields fields[] = {
        [TYPE_INT] = {{4, 1}, {0, 0}},       /* bits, signed */
        [TYPE_FLOAT] = {{2, 0}, {0, 0}},     /* precision */
        [TYPE_DATE] = {{2, 0}, {1, 0}},      /* unit */
        [TYPE_TIME] = {{2, 4}, {1, 32}},     /* unit, bits */
        [TYPE_INTERVAL] = {{2, 0}, {0, 0}},  /* unit */
        [TYPE_DURATION] = {{2, 0}, {1, 0}}}; /* unit */
    return number > 0 && number <= TYPE_DURATION ? fields[number] : fields[0];
}

/* --- Layouts ---------------------------------------------------------------------- */

/* Decimal digits of a number of at most 31 bits. */
static bool digits(const char *text, uint32_t *out)
{
    uint64_t value;
    if (!tarn__digits(text, strlen(text), INT32_MAX, &value)) return false;
    *out = (uint32_t)value;
    return true;
}

/* The bits of a decimal: the third number, or 128 if there is none. */
static bool decimal_bits(const char *f, uint32_t *out)
{
    const char *comma = strchr(f, ','), *second = comma ? strchr(comma + 1, ',') : NULL;
    *out = 128;
    if (!comma || (second && !digits(second + 1, out))) return false;
    return *out == 32 || *out == 64 || *out == 128 || *out == 256;
}

bool tarn__layout_get(const char *f, tarn__layout *out)
{
    uint32_t n = 0;
    const tarn__type *type = tarn__type_of(f);
    if (type)
        *out = type->layout;
    else if (strncmp(f, "ts", 2) == 0 && f[2] && strchr("smun", f[2]) && f[3] == ':')
        *out = (tarn__layout)FIXED(8, 'i');
    else if (strncmp(f, "d:", 2) == 0 && decimal_bits(f, &n))
        *out = (tarn__layout)FIXED(n / 8, 0);
    else if (strncmp(f, "w:", 2) == 0 && digits(f + 2, &n))
        *out = (tarn__layout)FIXED(n, 0);
    else if (strncmp(f, "+w:", 3) == 0 && digits(f + 3, &n))
        *out = (tarn__layout)SHAPED(SHAPE_FIXEDLIST, n, 1, true);
    else if (strncmp(f, "+us:", 4) == 0)
        *out = (tarn__layout)SHAPED(SHAPE_SPARSE, 1, 1, false);
    else if (strncmp(f, "+ud:", 4) == 0)
        *out = (tarn__layout)SHAPED(SHAPE_DENSE, 1, 2, false);
    else
        return false;
    return true;
}

/* --- Names ------------------------------------------------------------------------ */

static tarn_status say(tarn__buf *out, const char *text, tarn_error *err)
{
    return tarn__buf_add(out, text, strlen(text), err);
}

/* Names of types with parameters. */
static tarn_status say_made(tarn__buf *out, const char *f, tarn_error *err)
{
    const char *word = f[0] == 't'   ? "timestamp["
                       : f[0] == 'w' ? "fixed_size_binary["
                       : f[0] == 'd' ? "decimal("
                       : f[1] == 'w' ? "fixed_size_list["
                       : f[2] == 's' ? "sparse_union["
                                     : "dense_union[";
    TARN_TRY(say(out, word, err));
    if (f[0] == 't') {
        TARN_TRY(tarn__buf_add(out, f + 2, 1, err));
        if (f[2] != 's') TARN_TRY(say(out, "s", err));
        if (f[4]) TARN_TRY(say(out, ", tz=", err));
    }
    TARN_TRY(say(out, strchr(f, ':') + 1, err));
    return say(out, f[0] == 'd' ? ")" : "]", err);
}

tarn_status tarn__type_text(tarn__buf *out, const struct ArrowSchema *schema,
                            tarn_error *err)
{
    const tarn__type *type = tarn__type_of(schema->format);
    if (schema->dictionary) TARN_TRY(say(out, "dictionary<values=", err));
    if (schema->dictionary) TARN_TRY(tarn__type_text(out, schema->dictionary, err));
    if (schema->dictionary) TARN_TRY(say(out, ", indices=", err));
    TARN_TRY(type ? say(out, type->word, err) : say_made(out, schema->format, err));
    if (schema->dictionary) return say(out, ">", err);
    if (!schema->n_children) return TARN_OK;
    TARN_TRY(say(out, "<", err));
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (i) TARN_TRY(say(out, ", ", err));
        TARN_TRY(say(out, schema->children[i]->name, err));
        TARN_TRY(say(out, ": ", err));
        TARN_TRY(tarn__type_text(out, schema->children[i], err));
    }
    return say(out, ">", err);
}
