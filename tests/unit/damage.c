/* The tools of the damage sweeps: intact folds, ways to damage files, and readers that
 * compare everything with the content of the intact file. */
#include "damage.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static tarn_error err;

/* --- Making intact folds ------------------------------------------------------------ */

/* Key and field by the base rule for a name with one dot. */
static void note_member(golden *g, unsigned shard, const char *name, uint64_t start,
                        uint64_t offset, uint64_t size)
{
    assert_true(g->count < MAX_MEMBERS);
    member *m = &g->members[g->count];
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    const char *dot = strchr(base, '.');
    *m = (member){.shard = shard, .start = start, .offset = offset, .size = size};
    snprintf(m->name, sizeof m->name, "%s", name);
    snprintf(m->key, sizeof m->key, "%.*s", (int)(dot - base), base);
    snprintf(m->field, sizeof m->field, "%s", dot + 1);
    for (m->sample = 0; m->sample < g->samples; m->sample++)
        for (size_t i = 0; i < g->count; i++)
            if (g->members[i].sample == m->sample && !strcmp(g->members[i].key, m->key))
                goto found;
    g->samples++;
found:
    g->count++;
}

static void add(golden *g, unsigned shard, tarball *t, const char *name, const void *data,
                size_t size)
{
    note_member(g, shard, name, t->size, t->size, size);
    tarball_header(t, name, '0', size);
    tarball_payload(t, data, size);
}

static void add_text(golden *g, unsigned shard, tarball *t, const char *name,
                     const char *text)
{
    add(g, shard, t, name, text, strlen(text));
}

/* With the name in a pax or a GNU header. */
static void add_long(golden *g, tarball *t, char type, const char *name, const char *text)
{
    uint64_t start = t->size;
    if (type == 'x')
        tarball_pax(t, 'x', "path", name);
    else
        tarball_extended(t, 'L', name, strlen(name) + 1);
    add_text(g, 0, t, name, text);
    g->members[g->count - 1].start = start;
}

/* With the size in a pax header only, as programs write it for very large members. */
static void add_pax_size(golden *g, tarball *t, const char *name)
{
    char payload[512], size[8] = "512";
    uint64_t start = t->size;
    memset(payload, 's', sizeof payload);
    tarball_pax(t, 'x', "size", size);
    note_member(g, 0, name, start, t->size, sizeof payload);
    tarball_header(t, name, '0', 0);
    tarball_payload(t, payload, sizeof payload);
}

/* An archive as a payload, with a member that looks like the fold's first one and is one
 * flipped bit of an offset away from it. */
static void add_nest(golden *g, tarball *t, const char *name, bool with_end)
{
    tarball nest = {0};
    char fill[600];
    memset(fill, 'f', sizeof fill);
    tarball_header(&nest, "fill.bin", '0', sizeof fill);
    tarball_payload(&nest, fill, sizeof fill);
    tarball_file(&nest, "kiwi.txt", "not this kiwi");
    if (with_end) tarball_end(&nest);
    add(g, 0, t, name, nest.data, nest.size);
    tarball_reset(&nest);
}

void golden_publish(golden *g, const char *name, const tarball *shard,
                    const tarball *other)
{
    static const char *const files[] = {"f_0.tar", "f_1.tar", "f.taridx", "f.tarsum"};
    const char *shards[] = {g->file[SHARD], g->file[OTHER]};
    tarn_index *index;
    tarn_index_options o = TARN_INDEX_OPTIONS_INIT;
    snprintf(g->folder, sizeof g->folder, "%s", scratch_path(name));
    snprintf(g->path, sizeof g->path, "%s:f", g->folder);
    mkdir(g->folder, 0755);
    for (int i = 0; i < 4; i++)
        snprintf(g->file[i], sizeof g->file[i], "%s/%s", g->folder, files[i]);
    save_tar(shard, g->file[SHARD]);
    save_tar(other, g->file[OTHER]);
    o.sums = true;
    o.threads = 1;
    OK(tarn_index_build(shards, 2, &o, NULL, &index, NULL, 0, &err));
    OK(tarn_index_save(index, g->file[INDEX], &err));
    tarn_index_free(index);
    for (int i = 0; i < 4; i++) {
        g->bytes[i] = read_file(g->file[i], &g->size[i]);
        g->fd[i] = open(g->file[i], O_WRONLY | O_CLOEXEC);
        assert_true(g->fd[i] >= 0);
    }
}

void golden_drop(golden *g)
{
    for (int i = 0; i < 4; i++) {
        free(g->bytes[i]);
        close(g->fd[i]);
    }
}

static void finish(golden *g, const char *name, tarball *shard)
{
    tarball other = {0};
    tarball_end(shard);
    add_text(g, 1, &other, "tui.txt", "the tui");
    add_text(g, 1, &other, "tui.cls", "9");
    tarball_end(&other);
    golden_publish(g, name, shard, &other);
    tarball_reset(shard);
    tarball_reset(&other);
}

/* Contiguous, with every way to store a member's name and size. */
void make_birds(golden *g)
{
    tarball t = {0};
    *g = (golden){0};
    add_text(g, 0, &t, "kiwi.txt", "the true kiwi");
    add_text(g, 0, &t, "kiwi.cls", "0");
    add_nest(g, &t, "nest.tar", true);
    add_text(g, 0, &t, "nest.cls", "1");
    add_long(g, &t, 'x', DEEP "moa.txt", "a moa");
    add_long(g, &t, 'x', DEEP "moa.cls", "2");
    add_long(g, &t, 'L', DEEP "emu.txt", "an emu");
    add_long(g, &t, 'L', DEEP "emu.cls", "3");
    add_text(g, 0, &t, TWIN_ONE ".txt", "one");
    add_text(g, 0, &t, TWIN_ONE ".cls", "4");
    add_text(g, 0, &t, TWIN_TWO ".txt", "two");
    add_text(g, 0, &t, TWIN_TWO ".cls", "5");
    add_pax_size(g, &t, "rhea.bin");
    add_text(g, 0, &t, "rhea.cls", "6");
    finish(g, "birds", &t);
    assert_int_equal(g->members[0].offset, 0);
    assert_memory_equal(g->bytes[SHARD] + 4096, "kiwi.txt", 9);
}

/* Samples whose members are not contiguous. */
void make_mixed(golden *g)
{
    tarball t = {0};
    *g = (golden){0};
    add_text(g, 0, &t, "a.txt", "text of a");
    add_text(g, 0, &t, "b.txt", "text of b");
    add_text(g, 0, &t, TWIN_ONE ".txt", "text of one");
    add_text(g, 0, &t, "a.cls", "1");
    add_text(g, 0, &t, TWIN_TWO ".txt", "text of two");
    add_text(g, 0, &t, "b.cls", "2");
    add_text(g, 0, &t, TWIN_ONE ".cls", "3");
    add_text(g, 0, &t, TWIN_TWO ".cls", "4");
    finish(g, "mixed", &t);
}

/* Members with one key and field: their index rows differ only in the offset. */
void make_doubles(golden *g)
{
    tarball t = {0};
    *g = (golden){0};
    add_text(g, 0, &t, "left/x.txt", "the left one ");
    add_text(g, 0, &t, "right/x.txt", "the right one");
    add_text(g, 0, &t, "x.cls", "1");
    finish(g, "doubles", &t);
}

/* The end of the nested archive coincides with the end of the shard. */
void make_nest_last(golden *g)
{
    tarball t = {0};
    *g = (golden){0};
    add_text(g, 0, &t, "kiwi.txt", "the true kiwi");
    add_text(g, 0, &t, "nest.cls", "1");
    add_nest(g, &t, "nest.tar", true);
    finish(g, "nest_last", &t);
}

/* The nested archive has no end: its members are followed by those of the shard. */
void make_nest_open(golden *g)
{
    tarball t = {0};
    *g = (golden){0};
    add_text(g, 0, &t, "kiwi.txt", "the true kiwi");
    add_nest(g, &t, "nest.tar", false);
    add_text(g, 0, &t, "nest.cls", "1");
    finish(g, "nest_open", &t);
}

/* --- Counting --------------------------------------------------------------------- */

bool damage_is_full(void)
{
    const char *how = getenv("TARN_DAMAGE");
    return how && strcmp(how, "full") == 0;
}

bool sweep_takes(sweep *s, size_t one_in)
{
    return damage_is_full() ? ++s->seen : s->seen++ % one_in == 0;
}

void sweep_judge(sweep *s, const char *why)
{
    s->cases++;
    if (!why) return;
    if (s->broken < SHOWN)
        snprintf(s->shown[s->broken], sizeof s->shown[0], "%s: %s", s->what, why);
    s->broken++;
}

void sweep_end(const sweep *s, const char *title)
{
    assert_true(s->cases > 0);
    for (size_t i = 0; i < s->broken && i < SHOWN; i++)
        print_message("# %s\n", s->shown[i]);
    if (s->broken || damage_is_full())
        print_message("# damage: %s: %zu cases, %zu broken\n", title, s->cases,
                      s->broken);
    assert_int_equal(s->broken, 0);
}

const uint64_t extremes[EXTREMES_COUNT] = {0,
                                           1,
                                           512,
                                           0x7fffffff,
                                           0x80000000,
                                           0xffffffff,
                                           UINT64_C(0x100000000),
                                           UINT64_C(1) << 60,
                                           INT64_MAX,
                                           UINT64_C(1) << 63,
                                           UINT64_MAX - 511,
                                           UINT64_MAX};

/* --- Damaging files --------------------------------------------------------------- */

void golden_put(const golden *g, int file, uint64_t at, const void *data, size_t size)
{
    assert_int_equal(pwrite(g->fd[file], data, size, (off_t)at), size);
}

void golden_flip(const golden *g, int file, uint64_t at, unsigned bit)
{
    unsigned char c = g->bytes[file][at] ^ (unsigned char)(1u << bit);
    golden_put(g, file, at, &c, 1);
}

void golden_restore(const golden *g, int file, uint64_t at)
{
    golden_put(g, file, at, g->bytes[file] + at, 1);
}

void golden_restore_all(const golden *g, int file)
{
    golden_put(g, file, 0, g->bytes[file], g->size[file]);
}

void golden_cut(const golden *g, int file, uint64_t size)
{
    assert_int_equal(ftruncate(g->fd[file], (off_t)size), 0);
}

static void try_bytes(sweep *s, const unsigned char *bytes, size_t size,
                      damage_check check, void *context)
{
    unsigned char *exact = malloc(size ? size : 1);
    assert_non_null(exact);
    if (size) memcpy(exact, bytes, size);
    sweep_judge(s, check(context, exact, size));
    free(exact);
}

static void sweep_lengths(sweep *s, unsigned char *copy, size_t size, size_t one_in,
                          damage_check check, void *context)
{
    for (size_t at = 0; at < size; at++) {
        if (sweep_takes(s, one_in)) {
            snprintf(s->what, sizeof s->what, "cut to %zu", at);
            try_bytes(s, copy, at, check, context);
        }
        if (sweep_takes(s, one_in)) {
            unsigned char gone = copy[at];
            snprintf(s->what, sizeof s->what, "without byte %zu", at);
            memmove(copy + at, copy + at + 1, size - at - 1);
            try_bytes(s, copy, size - 1, check, context);
            memmove(copy + at + 1, copy + at, size - at - 1);
            copy[at] = gone;
        }
    }
}

static void sweep_values(sweep *s, unsigned char *copy, const unsigned char *bytes,
                         size_t size, size_t one_in, damage_check check, void *context)
{
    for (size_t at = 0; at < size; at++)
        for (unsigned bit = 0; bit < 8; bit++) {
            if (!sweep_takes(s, one_in)) continue;
            snprintf(s->what, sizeof s->what, "bit %u of byte %zu", bit, at);
            copy[at] ^= (unsigned char)(1u << bit);
            try_bytes(s, copy, size, check, context);
            copy[at] = bytes[at];
        }
    for (size_t at = 0; at + 4 <= size; at += 4)
        for (size_t i = 0; i < EXTREMES_COUNT; i++)
            for (size_t width = i < SHORT_EXTREMES ? 4 : 8; width <= 8; width += 4) {
                if (at + width > size || at % width || !sweep_takes(s, one_in)) continue;
                snprintf(s->what, sizeof s->what, "%zu bytes at %zu set to %llx", width,
                         at, (unsigned long long)extremes[i]);
                memcpy(copy + at, &extremes[i], width);
                try_bytes(s, copy, size, check, context);
                memcpy(copy + at, bytes + at, width);
            }
}

void sweep_bytes(sweep *s, const unsigned char *bytes, size_t size, size_t one_in,
                 damage_check check, void *context)
{
    unsigned char *copy = malloc(size);
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    sweep_lengths(s, copy, size, one_in, check, context);
    sweep_values(s, copy, bytes, size, one_in, check, context);
    assert_memory_equal(copy, bytes, size);
    free(copy);
}

/* --- Reading everything ----------------------------------------------------------- */

static bool is_payload(const golden *g, const member *m, const tarn_view *v)
{
    return v->size == m->size &&
           memcmp(v->data, g->bytes[m->shard] + m->offset + 512, v->size) == 0;
}

/* The bytes of rows from to to - 1 are those of their members, or reading fails. */
const char *check_bytes(const golden *g, tarn__fold *fold, size_t from, size_t to)
{
    bool good = true;
    tarn_view view;
    for (size_t i = from; good && i < to && i < g->count; i++) {
        if (tarn__fold_view(fold, i, false, &view, NULL) != TARN_OK) continue;
        good = is_payload(g, &g->members[i], &view);
        tarn_view_release(&view);
    }
    return good ? NULL : "a row gives bytes that are not its member's";
}

/* The same for the names. */
static const char *check_names(const golden *g, tarn__fold *fold)
{
    bool good = true;
    tarn_text key = {0}, name = {0};
    for (size_t i = 0; good && i < g->count; i++) {
        const member *m = &g->members[i];
        if (tarn__fold_names(fold, i, &key, &name, NULL) != TARN_OK) continue;
        good = strcmp(key.data, m->key) == 0 &&
               (g->folders_unsure || strcmp(name.data, m->name) == 0);
    }
    tarn_text_reset(&key);
    tarn_text_reset(&name);
    return good ? NULL : "a row gives another name";
}

/* The rows of a sample, all of them and no others. */
static bool is_sample(const golden *g, unsigned sample, const tarn__sample_rows *s)
{
    uint32_t k = 0;
    for (size_t i = 0; i < g->count; i++) {
        if (g->members[i].sample != sample) continue;
        if (k == s->count || tarn__rows_at(s, k) != i) return false;
        k++;
    }
    return k == s->count;
}

tarn__sample_rows rows_of(const tarn__fold *fold, uint64_t sample)
{
    uint64_t from = tarn__fold_start(fold, sample);
    return (tarn__sample_rows){(uint32_t)tarn__fold_n_rows(fold, sample), (uint32_t)from,
                               fold->rows ? fold->rows + from : NULL};
}

tarn_status row_of_field(tarn__fold *fold, const char *key, const char *field,
                         uint64_t *out)
{
    uint64_t sample;
    uint32_t id = 0;
    const char *name;
    TARN_TRY(tarn__fold_count(fold, &sample, NULL));
    TARN_TRY(tarn__fold_find(fold, key, &sample, NULL));
    while ((name = tarn_index_field(fold->index, id)) && strcmp(name, field) != 0)
        id++;
    return name ? tarn__fold_row_of(fold, sample, id, out, NULL) : TARN_ERR_NO_FIELD;
}

static const char *check_positions(const golden *g, tarn__fold *fold)
{
    uint64_t samples;
    if (tarn__fold_count(fold, &samples, NULL) != TARN_OK) return NULL;
    if (samples != g->samples) return "another number of samples";
    for (unsigned i = 0; i < g->samples; i++) {
        tarn__sample_rows s = rows_of(fold, i);
        if (!is_sample(g, i, &s)) return "a sample of other rows, by position";
    }
    return NULL;
}

static const char *check_field(const golden *g, tarn__fold *fold, const member *m)
{
    uint64_t row;
    tarn_view view;
    if (row_of_field(fold, m->key, m->field, &row) != TARN_OK) return NULL;
    const member *got = &g->members[row < g->count ? row : 0];
    if (row >= g->count || got->sample != m->sample || strcmp(got->field, m->field) != 0)
        return "another member's row, by key and field";
    if (tarn__fold_view(fold, row, false, &view, NULL) != TARN_OK) return NULL;
    bool good = is_payload(g, got, &view);
    tarn_view_release(&view);
    return good ? NULL : "other bytes, by key and field";
}

static const char *check_keys(const golden *g, tarn__fold *fold)
{
    tarn__sample_rows s;
    for (size_t i = 0; i < g->count; i++) {
        const member *m = &g->members[i];
        if (tarn__fold_find_rows(fold, m->key, &s, NULL) != TARN_OK) continue;
        if (!is_sample(g, m->sample, &s)) return "a sample of other rows, by key";
        const char *why = check_field(g, fold, m);
        if (why) return why;
    }
    return tarn__fold_find_rows(fold, "absent", &s, NULL) == TARN_OK
               ? "a key that is not there"
               : NULL;
}

const char *check_open(const golden *g, tarn__fold *fold)
{
    const char *why = check_positions(g, fold);
    if (!why) why = check_bytes(g, fold, 0, g->count);
    if (!why) why = check_names(g, fold);
    if (!why) why = check_keys(g, fold);
    return why;
}

tarn__fold *open_fold(const golden *g, bool check, tarn_io io)
{
    tarn__fold *fold;
    tarn__fold_options o = {0};
    o.check = check;
    o.io = io;
    err = (tarn_error){0};
    if (tarn__fold_open(g->path, &o, &fold, &err) == TARN_OK) return fold;
    assert_true(err.code > TARN_END && err.message[0]);
    return NULL;
}

/* The whole fold, opened again. */
const char *check_fold(const golden *g, bool check)
{
    tarn__fold *fold = open_fold(g, check, TARN_IO_AUTO);
    if (!fold) return NULL;
    const char *why = check_open(g, fold);
    tarn__fold_close(fold);
    return why;
}

/* --- Kind of a byte ----------------------------------------------------------------- */

bool is_header(const golden *g, uint64_t at)
{
    for (size_t i = 0; i < g->count; i++)
        if (g->members[i].shard == 0 && at >= g->members[i].start &&
            at < g->members[i].offset + 512)
            return true;
    return false;
}

bool is_record(const golden *g, uint64_t at)
{
    for (size_t i = 0; i < g->count; i++)
        if (g->members[i].shard == 0 && at >= g->members[i].start + 512 &&
            at < g->members[i].offset)
            return true;
    return false;
}
