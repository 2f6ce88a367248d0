/* Journals of writers: the input is a journal, used as it is and with its first line and
 * checksum corrected. Whatever it says, it can only name shards of the fold in its own
 * folder, and a valid journal says the same when it is written again. */
#include "common.h"

#include "base/crc.h"
#include "folder.h"
#include "itar/folder.h"
#include "itar/journal.h"

static char path[PATH_SIZE], index_path[PATH_SIZE];

static tarn__journal_state load(tarn__names *coming, tarn__names *going)
{
    tarn__journal_state state;
    tarn__names_init(coming);
    tarn__names_init(going);
    CHECK(tarn__journal_load(path, "train", index_path, coming, going, &state, NULL) ==
          TARN_OK);
    return state;
}

static void check_names(const tarn__names *names)
{
    for (size_t i = 0; i < names->count; i++) {
        tarn__name name = tarn__names_get(names, i);
        CHECK(!memchr(name.data, '/', name.size) && name.data[0] != '.');
        CHECK(name.size > 4 && strcmp(name.data + name.size - 4, ".tar") == 0);
        CHECK(tarn__is_shard_of("train", name.data));
    }
}

static void check_same(const tarn__names *a, const tarn__names *b)
{
    CHECK(a->count == b->count);
    for (size_t i = 0; i < a->count; i++)
        CHECK(strcmp(tarn__names_get(a, i).data, tarn__names_get(b, i).data) == 0);
}

static void write_again(const tarn__names *coming, const tarn__names *going)
{
    const char **names = calloc(coming->count + 1, sizeof *names);
    tarn__names coming_again, going_again;
    CHECK(names);
    for (size_t i = 0; i < coming->count; i++)
        names[i] = tarn__names_get(coming, i).data;
    tarn__journal journal = {NULL, names, coming->count, going};
    CHECK(tarn__journal_write(&journal, path, true, NULL) == TARN_OK);
    CHECK(load(&coming_again, &going_again) == TARN__JOURNAL_LIVE);
    check_same(coming, &coming_again);
    check_same(going, &going_again);
    tarn__names_reset(&coming_again);
    tarn__names_reset(&going_again);
    free(names);
}

static void try_text(const void *text, size_t size)
{
    tarn__names coming, going;
    put_file(path, text, size);
    tarn__journal_state state = load(&coming, &going);
    CHECK(state != TARN__JOURNAL_NONE);
    check_names(&coming);
    check_names(&going);
    if (state == TARN__JOURNAL_LIVE)
        write_again(&coming, &going);
    else
        CHECK(!coming.count && !going.count);
    tarn__names_reset(&coming);
    tarn__names_reset(&going);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char begin[] = "tarn commit 1\n";
    size_t front = sizeof begin - 1;
    if (make_folder()) {
        path_to(path, ".train.journal");
        path_to(index_path, "no-such.taridx");
    }
    try_text(data, size);
    char *text = malloc(front + size + 16);
    CHECK(text);
    memcpy(text, begin, front);
    memcpy(text + front, data, size);
    snprintf(text + front + size, 16, "%08x\n", tarn__crc32c(0, text, front + size));
    try_text(text, front + size + 9);
    free(text);
    CHECK(unlink(path) == 0);
    return 0;
}
