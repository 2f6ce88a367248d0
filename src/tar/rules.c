/* Rules for names. Messages name the sample, so that one among millions can be found. */
#include "tar/rules.h"

#include <string.h>

#include "base/error.h"
#include "base/names.h"
#include "base/utf8.h"

/* Up to this many fields are compared with each other; more use a table. */
enum { FEW = 16 };

typedef char shown_name[120];

static const char *show_name(shown_name out, const char *name)
{
    return tarn_printable(out, sizeof(shown_name), name, strlen(name));
}

static bool has_control(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) return true;
    return false;
}

/* Whether a folder is not a valid name: empty, "." or "..". */
static bool odd_folder(const char *key)
{
    for (const char *slash; (slash = strchr(key, '/')); key = slash + 1) {
        size_t len = (size_t)(slash - key);
        if (len == 0 || (len == 1 && key[0] == '.') ||
            (len == 2 && key[0] == '.' && key[1] == '.'))
            return true;
    }
    return false;
}

tarn_status tarn__check_key(tarn_name_rules rules, const char *key, size_t len,
                            tarn_error *err)
{
    shown_name shown;
    if (len == 0) return tarn__fail(err, TARN_ERR_USAGE, "a sample has no key");
    if (rules == TARN_RULES_NONE) return TARN_OK;
    const char *slash = strrchr(key, '/'), *base = slash ? slash + 1 : key;
    const char *wrong = NULL;
    if (!*base)
        wrong = "ends with a slash";
    else if (strchr(base, '.'))
        wrong = "contains a dot, after which readers expect the field";
    else if (has_control(key, len))
        wrong = "contains a control character";
    else if (slash && odd_folder(key))
        wrong = "contains a folder that is empty, \".\" or \"..\"";
    if (!wrong) return TARN_OK;
    return tarn__fail(err, TARN_ERR_USAGE, "the key %s %s", show_name(shown, key), wrong);
}

static const char *wrong_field(const char *name, size_t len)
{
    if (len == 0) return "is empty";
    if (strchr(name, '/')) return "contains a slash";
    if (name[0] == '_') return "begins with _, which is reserved for fields of readers";
    if (has_control(name, len)) return "contains a control character";
    return NULL;
}

static tarn_status fail_field(const char *key, const char *field, const char *wrong,
                              tarn_error *err)
{
    shown_name shown_key, shown_field;
    return tarn__fail(err, TARN_ERR_USAGE, "sample %s: the field \"%s\" %s",
                      show_name(shown_key, key), show_name(shown_field, field), wrong);
}

static bool is_lower_ascii(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text >= 0x80 || (*text >= 'A' && *text <= 'Z')) return false;
    return true;
}

static tarn_status add_lower(tarn__names *seen, tarn__buf *lower, const char *name,
                             bool *out_new, tarn_error *err)
{
    size_t len = strlen(name), before = seen->count;
    uint32_t id;
    lower->size = 0;
    if (tarn__utf8_is_valid(name, len))
        TARN_TRY(tarn__utf8_lower(lower, name, len, err));
    else
        TARN_TRY(tarn__buf_add(lower, name, len, err));
    TARN_TRY(tarn__names_add(seen, lower->data, lower->size, &id, err));
    *out_new = seen->count > before;
    return TARN_OK;
}

static tarn_status check_by_table(const char *key, const tarn_field *fields, size_t count,
                                  tarn_error *err)
{
    tarn__names seen;
    tarn__buf lower;
    tarn__names_init(&seen);
    tarn__buf_init(&lower, 4 * TARN_MAX_NAME);
    tarn_status status = TARN_OK;
    for (size_t i = 0; status == TARN_OK && i < count; i++) {
        bool new = true;
        status = add_lower(&seen, &lower, fields[i].name, &new, err);
        if (status == TARN_OK && !new)
            status = fail_field(key, fields[i].name,
                                "is a duplicate (readers ignore case)", err);
    }
    tarn__names_reset(&seen);
    tarn__buf_reset(&lower);
    return status;
}

/* A few fields in plain lower case, as in nearly all samples, need no table. */
static bool all_different(const tarn_field *fields, size_t count)
{
    if (count > FEW) return false;
    for (size_t i = 0; i < count; i++) {
        if (!is_lower_ascii(fields[i].name)) return false;
        for (size_t k = 0; k < i; k++)
            if (strcmp(fields[i].name, fields[k].name) == 0) return false;
    }
    return true;
}

static tarn_status check_field(tarn_name_rules rules, const char *key,
                               const tarn_field *field, tarn_error *err)
{
    size_t len = strlen(field->name);
    if (len > TARN_MAX_NAME) return fail_field(key, "...", "is too long", err);
    const char *wrong = rules == TARN_RULES_NONE ? len == 0 ? "is empty" : NULL
                                                 : wrong_field(field->name, len);
    return wrong ? fail_field(key, field->name, wrong, err) : TARN_OK;
}

tarn_status tarn__check_fields(tarn_name_rules rules, const char *key,
                               const tarn_field *fields, size_t count, tarn_error *err)
{
    shown_name shown;
    if (count == 0 && rules == TARN_RULES_STRICT)
        return tarn__fail(err, TARN_ERR_USAGE, "sample %s has no field",
                          show_name(shown, key));
    if (count > TARN_MAX_FIELDS)
        return tarn__fail(err, TARN_ERR_LIMIT, "sample %s has more than %u fields",
                          show_name(shown, key), TARN_MAX_FIELDS);
    for (size_t i = 0; i < count; i++)
        TARN_TRY(check_field(rules, key, &fields[i], err));
    if (rules == TARN_RULES_NONE || all_different(fields, count)) return TARN_OK;
    return check_by_table(key, fields, count, err);
}
