/* States of datasets: a state that can be resumed gives samples that exist, up to its
 * last position, and its own state resumes it again. In an input, the words DATA and
 * CHAIN stand for the values in the dataset's own state. */
#include <stdbool.h>

#include "folder.h"

#include <tarn/dataset.h>

enum { ROWS = 20, SETS = 5, MOST = 4096 };

static tarn_dataset *sets[SETS];

static void need(tarn_status status, const tarn_error *err)
{
    if (status != TARN_OK) fprintf(stderr, "%s\n", err->message);
    CHECK(status == TARN_OK);
}

static void put_rows(const char *path)
{
    static uint8_t file[4096 + ROWS] = {'G', 'N', 'Z', '1'};
    file[4] = (uint8_t)snprintf((char *)file + 8, 4000,
                                "{\"version\": 1, \"arrays\": {\"x\": {\"offset\": 4096, "
                                "\"shape\": [%d], \"dtype\": \"|u1\"}}}",
                                ROWS);
    put_file(path, file, sizeof file);
}

/* Rows in order, shuffled, a mix of both, the mix shuffled, and one rank of that. */
static void open_sets(void)
{
    char path[PATH_SIZE];
    tarn_error err;
    tarn_order_options o = TARN_ORDER_OPTIONS_INIT;
    tarn_mix_options mix = TARN_MIX_OPTIONS_INIT;
    bool made = make_folder();
    path_to(path, "rows.gnz");
    if (made) put_rows(path);
    need(tarn_dataset_open(path, NULL, &sets[0], &err), &err);
    o.kind = TARN_ORDER_SHUFFLE;
    o.seed = 7;
    need(tarn_dataset_order(sets[0], &o, &sets[1], &err), &err);
    mix.counts = (const uint64_t[]){11, 25};
    need(tarn_dataset_mix(sets, 2, &mix, &sets[2], &err), &err);
    need(tarn_dataset_order(sets[2], &o, &sets[3], &err), &err);
    need(tarn_dataset_split(sets[3], 1, 3, TARN_UNEVEN_PAD, &sets[4], &err), &err);
}

static void check_set(tarn_dataset *d)
{
    tarn_error err;
    tarn_text text = {0};
    tarn_dataset *again;
    uint64_t n = tarn_dataset_count(d), sample;
    uint64_t most = tarn_dataset_count(tarn_dataset_unordered(d));
    CHECK(n <= most);
    CHECK(tarn_dataset_sequence(d, n, 1, &sample, &err) == TARN_ERR_USAGE);
    for (uint64_t i = 0; i < n; i++) {
        CHECK(tarn_dataset_sequence(d, i, 1, &sample, &err) == TARN_OK);
        CHECK(sample < most);
        /* A mix of many epochs has too many samples. */
        tarn_status status = tarn_dataset_key(d, i, &text, &err);
        CHECK(status == TARN_OK || status == TARN_ERR_LIMIT);
    }
    need(tarn_dataset_state(d, 1, &text, &err), &err);
    tarn_status status = tarn_dataset_resume(d, text.data, text.size, &again, &err);
    CHECK(status == TARN_OK || status == TARN_ERR_LIMIT || status == TARN_ERR_FORMAT);
    if (status == TARN_OK) tarn_dataset_close(again);
    tarn_text_reset(&text);
}

/* The value after a name in a state, up to its delimiter. */
static void put_own(char *text, const char *word, const char *state, const char *name,
                    const char *end)
{
    char *at = strstr(text, word);
    const char *from = strstr(state, name);
    CHECK(from);
    from += strlen(name);
    const char *to = strstr(from, end);
    CHECK(to);
    if (!at || strlen(text) + (size_t)(to - from) >= 3 * MOST) return;
    memmove(at + (to - from), at + strlen(word), strlen(at + strlen(word)) + 1);
    memcpy(at, from, (size_t)(to - from));
}

static void try_set(tarn_dataset *d, const uint8_t *data, size_t size)
{
    tarn_error err;
    tarn_text own = {0};
    tarn_dataset *rest;
    static char text[3 * MOST];
    memset(text, 0, sizeof text);
    memcpy(text, data, size);
    need(tarn_dataset_state(d, 0, &own, &err), &err);
    if (strlen(text) == size) {
        bool mix = strstr(own.data, "\"counts\": ");
        put_own(text, "DATA", own.data,
                "\"data\": ", mix ? ", \"counts\"" : ", \"chain\"");
        put_own(text, "CHAIN", own.data, "\"chain\": ", ", \"epoch\"");
        size = strlen(text);
    }
    tarn_text_reset(&own);
    char *exact = exact_copy(text, size);
    if (tarn_dataset_resume(d, exact, size, &rest, &err) == TARN_OK) {
        check_set(rest);
        tarn_dataset_close(rest);
    } else {
        CHECK(err.code > TARN_END && err.message[0]);
    }
    free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    open_sets();
    if (size >= MOST) size = MOST;
    for (int i = 0; i < SETS; i++)
        try_set(sets[i], data, size);
    for (int i = 0; i < SETS; i++)
        tarn_dataset_close(sets[i]);
    return 0;
}
