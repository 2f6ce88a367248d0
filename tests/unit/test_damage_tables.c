/* Damaged Arrow tables of every type, without the IAC file around them: a table is
 * refused with a proper error, or all of its values can be shown, within its bytes. (A
 * changed value cannot be detected: a table has no checksum.) */
#include "damage.h"

#include <dirent.h>

#include "iac/table.h"

static tarn_error err;

enum { PREFIX = 7, MOST = 16 << 20, MAX_ROWS = 64, ONE_IN = 11 };

/* Every value of every column as JSON. */
static const char *show_all(const tarn__table *t)
{
    for (uint64_t row = 0; row < t->rows && row < MAX_ROWS; row++) {
        uint64_t in_batch;
        const struct ArrowArray *batch =
            &t->batches[tarn__table_batch(t, row, &in_batch)];
        for (int64_t c = 0; c < t->schema.n_children; c++) {
            tarn__buf text;
            tarn__buf_init(&text, 1 << 16);
            tarn_status status =
                tarn__cell_json(&text, t->schema.children[c], batch->children[c],
                                (int64_t)in_batch, &err);
            bool good = status == TARN_OK || err.message[0];
            tarn__buf_reset(&text);
            if (!good) return "a value without words";
        }
    }
    return NULL;
}

static const char *check_table(void *context, const unsigned char *bytes, size_t size)
{
    tarn__table *t;
    (void)context;
    err.message[0] = '\0';
    tarn_status status = tarn__table_parse(bytes, size, MOST, &t, &err);
    if (status != TARN_OK) return err.message[0] ? NULL : "refused without words";
    const char *why = NULL;
    if (tarn__table_validate(t, &err) == TARN_OK)
        why = show_all(t);
    else if (!err.message[0])
        why = "invalid without words";
    tarn__table_unref(t);
    return why;
}

/* The index table of a seed of fuzz_iac: a byte of options, two lengths of three bytes,
 * the slide table, this one, data. */
static bool table_of(const unsigned char *seed, size_t size, size_t *at, size_t *len)
{
    if (size < PREFIX || seed[0] & 1) return false;
    size_t slides = (size_t)seed[1] | (size_t)seed[2] << 8 | (size_t)seed[3] << 16;
    *len = (size_t)seed[4] | (size_t)seed[5] << 8 | (size_t)seed[6] << 16;
    *at = PREFIX + slides;
    return slides <= size - PREFIX && *len <= size - *at;
}

static void sweep_seed(sweep *s, const char *path)
{
    size_t size, at, len;
    unsigned char *seed = read_file(path, &size);
    if (table_of(seed, size, &at, &len)) {
        unsigned char *copy = malloc(len ? len : 1);
        memcpy(copy, seed + at, len);
        const char *why = check_table(NULL, copy, len);
        if (why) fail_msg("%s: %s", path, why);
        sweep_bytes(s, copy, len, ONE_IN, check_table, NULL);
        free(copy);
    }
    free(seed);
}

static bool is_seed(const char *name)
{
    return name[0] != '.' && strncmp(name, "found-", 6) != 0 &&
           strncmp(name, "crash-", 6) != 0;
}

static void damaged_tables_are_refused_or_shown_in_bounds(void **state)
{
    (void)state;
    sweep s = {0};
    size_t seeds = 0;
    char folder[600], path[900];
    snprintf(folder, sizeof folder, "%s", corpus_path("iac"));
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    struct dirent *entry;
    while ((entry = readdir(dir))) {
        if (!is_seed(entry->d_name)) continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        sweep_seed(&s, path);
        seeds++;
    }
    closedir(dir);
    assert_true(seeds > 40);
    sweep_end(&s, "Arrow tables");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_tables_are_refused_or_shown_in_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
