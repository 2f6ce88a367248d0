/* Names: splitting into key and field by both rules, cleaning and lower-casing, parsing a
 * shard's file name, and showing a name. The input is the name. */
#include "common.h"

#include "base/error.h"
#include "base/utf8.h"
#include "itar/folder.h"
#include "tar/keys.h"

static int has_control(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f) return 1;
    return 0;
}

/* In a key or a field, which may contain tabs. */
static int has_forbidden(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (s[i] != '\t' && has_control(s + i, 1)) return 1;
    return 0;
}

static int has_upper(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (s[i] >= 'A' && s[i] <= 'Z') return 1;
    return 0;
}

static void check_key(tarn_keys rule, const tarn__key *key)
{
    CHECK(tarn__utf8_is_valid(key->stem, key->stem_len));
    CHECK(tarn__utf8_is_valid(key->field, key->field_len));
    CHECK(!has_forbidden(key->stem, key->stem_len));
    CHECK(!has_forbidden(key->field, key->field_len));
    CHECK(!has_upper(key->field, key->field_len));
    CHECK(!memchr(key->field, '/', key->field_len));
    if (rule == TARN_KEYS_PATH) {
        CHECK(key->stem_len > 0);
    } else {
        CHECK(!memchr(key->stem, '/', key->stem_len));
        CHECK(!memchr(key->stem, '.', key->stem_len));
    }
}

/* "stem.field" must be split into stem and field again. */
static void check_again(tarn_keys rule, const tarn__key *key)
{
    tarn__splitter splitter;
    tarn__key again;
    size_t len = key->stem_len + 1 + key->field_len;
    char *name = malloc(len);
    CHECK(name);
    memcpy(name, key->stem, key->stem_len);
    name[key->stem_len] = '.';
    memcpy(name + key->stem_len + 1, key->field, key->field_len);
    tarn__splitter_init(&splitter);
    CHECK(tarn__split(&splitter, rule, name, len, &again, NULL) == TARN_OK);
    CHECK(again.stem_len == key->stem_len && again.field_len == key->field_len);
    CHECK(memcmp(again.stem, key->stem, key->stem_len) == 0);
    CHECK(memcmp(again.field, key->field, key->field_len) == 0);
    CHECK(tarn__key_hash(again.stem, again.stem_len) ==
          tarn__key_hash(key->stem, key->stem_len));
    tarn__splitter_reset(&splitter);
    free(name);
}

static void try_split(tarn_keys rule, const char *name, size_t len)
{
    tarn__splitter splitter;
    tarn__key key;
    tarn_error err;
    tarn__splitter_init(&splitter);
    tarn_status status = tarn__split(&splitter, rule, name, len, &key, &err);
    CHECK(status == TARN_OK || status == TARN_ERR_FORMAT ||
          (status == TARN_END && rule == TARN_KEYS_PATH));
    if (status == TARN_OK) {
        check_key(rule, &key);
        check_again(rule, &key);
    }
    if (status == TARN_ERR_FORMAT) CHECK(has_forbidden(name, len));
    tarn__splitter_reset(&splitter);
}

/* Cleaning and lower-casing are idempotent, and both give valid UTF-8. */
static void try_utf8(const char *text, size_t len)
{
    tarn__buf clean, lower, again;
    tarn__buf_init(&clean, 3 * len + 1);
    tarn__buf_init(&lower, 6 * len + 1);
    tarn__buf_init(&again, 9 * len + 1);
    CHECK(tarn__utf8_clean(&clean, text, len, NULL) == TARN_OK);
    CHECK(tarn__utf8_is_valid(clean.data, clean.size));
    if (tarn__utf8_is_valid(text, len))
        CHECK(clean.size == len && (!len || memcmp(clean.data, text, len) == 0));
    char *exact = exact_copy(clean.data, clean.size);
    CHECK(tarn__utf8_lower(&lower, exact, clean.size, NULL) == TARN_OK);
    CHECK(tarn__utf8_is_valid(lower.data, lower.size));
    CHECK(2 * lower.size <= 3 * clean.size);
    CHECK(tarn__utf8_lower(&again, lower.data, lower.size, NULL) == TARN_OK);
    CHECK(again.size == lower.size &&
          (!again.size || memcmp(again.data, lower.data, again.size) == 0));
    free(exact);
    tarn__buf_reset(&clean);
    tarn__buf_reset(&lower);
    tarn__buf_reset(&again);
}

static void check_parts(const char *name, const char *fold, size_t fold_len,
                        const char *suffix, size_t suffix_len)
{
    size_t len = strlen(name) - 4;
    CHECK(fold_len > 0 && suffix >= name && suffix + suffix_len == name + len);
    if (fold != name) {
        CHECK(fold_len == 4 && memcmp(fold, "data", 4) == 0 && suffix == name);
        return;
    }
    CHECK(suffix_len ? fold_len + 1 + suffix_len == len : fold_len == len);
}

static void try_shard_name(const char *data, size_t size)
{
    const char *fold, *suffix;
    size_t fold_len, suffix_len;
    char *name = malloc(size + 1);
    CHECK(name);
    memcpy(name, data, size);
    name[size] = 0;
    if (tarn__shard_name(name, &fold, &fold_len, &suffix, &suffix_len)) {
        CHECK(strcmp(name + strlen(name) - 4, ".tar") == 0 && name[0] != '.');
        check_parts(name, fold, fold_len, suffix, suffix_len);
    }
    free(name);
}

static void try_printable(const char *name, size_t len, size_t room)
{
    char *out = malloc(room);
    CHECK(out);
    CHECK(tarn_printable(out, room, name, len) == out);
    size_t shown = strnlen(out, room);
    CHECK(shown < room && !has_control(out, shown) && tarn__utf8_is_valid(out, shown));
    if (room >= 4 * len + 5) CHECK(shown >= len);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > TARN_MAX_NAME) return 0;
    char *name = exact_copy(data, size);
    try_split(TARN_KEYS_BASE, size ? name : NULL, size);
    try_split(TARN_KEYS_PATH, size ? name : NULL, size);
    try_utf8(name, size);
    try_shard_name(name, size);
    try_printable(name, size, 4 * size + 5);
    try_printable(name, size, 4 + (size ? data[0] : 0));
    free(name);
    return 0;
}
