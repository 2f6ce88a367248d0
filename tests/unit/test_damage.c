/* The damage sweep: small folds are damaged in every way that can be enumerated
 * (truncated everywhere, every bit flipped, bytes removed, numbers set to extremes), and
 * everything is read again. Each read must give an error or what the sound fold gives. */
#include "support.h"

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

/* Two keys with one XXH64. */
#define REST     "________________________"
#define TWIN_ONE "twin_one" REST "twin_one" REST
#define TWIN_TWO "ezbdywnd" REST "rQ#FS-y!" REST

#define TEN(c) c c c c c c c c c c
#define DEEP   TEN("long/long/") "folder/"

enum { MAX_MEMBERS = 32, SHOWN = 4 };

typedef struct member {
    char name[256], key[80], field[16];
    unsigned shard;
    uint64_t start, offset, size;
    unsigned sample;
} member;

/* A sound fold, on disk and as it should be. */
typedef struct golden {
    char folder[256], path[300];
    char file[4][300]; /* shard 0, shard 1, index, sums */
    int fd[4];         /* to damage them */
    unsigned char *bytes[4];
    size_t size[4];
    member members[MAX_MEMBERS];
    size_t count;
    unsigned samples;
    bool folders_unsure; /* the damage may lie in the folder of a long name */
} golden;

enum { SHARD, OTHER, INDEX, SUMS };

static tarn_error err;

/* --- Making sound folds ----------------------------------------------------------- */

/* Key and field are what the base rule makes of a name with one dot. */
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

/* An archive as a payload, with a member that looks like the fold's first one and lies
 * one flipped bit of an offset away from it. */
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

static void publish(golden *g, const char *name, const tarball *shard,
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
    OK(tarn_index_build(shards, 2, &o, &index, NULL, &err));
    OK(tarn_index_save(index, g->file[INDEX], &err));
    tarn_index_free(index);
    for (int i = 0; i < 4; i++) {
        g->bytes[i] = read_file(g->file[i], &g->size[i]);
        g->fd[i] = open(g->file[i], O_WRONLY | O_CLOEXEC);
        assert_true(g->fd[i] >= 0);
    }
}

static void drop(golden *g)
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
    publish(g, name, shard, &other);
    tarball_reset(shard);
    tarball_reset(&other);
}

/* Contiguous, with all the ways in which a member can say its name and size. */
static void make_birds(golden *g)
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

/* Samples whose members do not stand together. */
static void make_mixed(golden *g)
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

/* Members with one key and field: they differ in nothing an index row says but place. */
static void make_doubles(golden *g)
{
    tarball t = {0};
    *g = (golden){0};
    add_text(g, 0, &t, "left/x.txt", "the left one ");
    add_text(g, 0, &t, "right/x.txt", "the right one");
    add_text(g, 0, &t, "x.cls", "1");
    finish(g, "doubles", &t);
}

/* The nested archive's end runs into the end of the shard. */
static void make_nest_last(golden *g)
{
    tarball t = {0};
    *g = (golden){0};
    add_text(g, 0, &t, "kiwi.txt", "the true kiwi");
    add_text(g, 0, &t, "nest.cls", "1");
    add_nest(g, &t, "nest.tar", true);
    finish(g, "nest_last", &t);
}

/* The nested archive has no end: its members lead on to those of the shard. */
static void make_nest_open(golden *g)
{
    tarball t = {0};
    *g = (golden){0};
    add_text(g, 0, &t, "kiwi.txt", "the true kiwi");
    add_nest(g, &t, "nest.tar", false);
    add_text(g, 0, &t, "nest.cls", "1");
    finish(g, "nest_open", &t);
}

/* --- Counting --------------------------------------------------------------------- */

typedef struct sweep {
    size_t cases, broken;
    char what[128]; /* the damage at hand */
    char shown[SHOWN][256];
} sweep;

/* why is NULL if all is as it should be. */
static void judge(sweep *s, const char *why)
{
    s->cases++;
    if (!why) return;
    if (s->broken < SHOWN)
        snprintf(s->shown[s->broken], sizeof s->shown[0], "%s: %s", s->what, why);
    s->broken++;
}

static void conclude(const sweep *s)
{
    assert_true(s->cases > 0);
    for (size_t i = 0; i < s->broken && i < SHOWN; i++)
        print_message("# %s\n", s->shown[i]);
    if (s->broken) print_message("# %zu of %zu broken\n", s->broken, s->cases);
    assert_int_equal(s->broken, 0);
}

/* --- Damaging files --------------------------------------------------------------- */

static void put(const golden *g, int file, uint64_t at, const void *data, size_t size)
{
    assert_int_equal(pwrite(g->fd[file], data, size, (off_t)at), size);
}

static void flip(const golden *g, int file, uint64_t at, unsigned bit)
{
    unsigned char c = g->bytes[file][at] ^ (unsigned char)(1u << bit);
    put(g, file, at, &c, 1);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

static void restore(const golden *g, int file, uint64_t at)
{
    put(g, file, at, g->bytes[file] + at, 1);
}

static void restore_all(const golden *g, int file)
{
    put(g, file, 0, g->bytes[file], g->size[file]);
}

static void cut(const golden *g, int file, uint64_t size)
{
    assert_int_equal(ftruncate(g->fd[file], (off_t)size), 0);
}

/* --- Reading everything ----------------------------------------------------------- */

static bool is_payload(const golden *g, const member *m, const tarn_view *v)
{
    return v->size == m->size &&
           memcmp(v->data, g->bytes[m->shard] + m->offset + 512, v->size) == 0;
}

/* The bytes of rows from to to - 1 are those of their members, or an error. */
static const char *check_bytes(const golden *g, tarn_fold *fold, size_t from, size_t to)
{
    bool good = true;
    tarn_view view;
    for (size_t i = from; good && i < to && i < g->count; i++) {
        if (tarn_fold_view(fold, i, &view, NULL) != TARN_OK) continue;
        good = is_payload(g, &g->members[i], &view);
        tarn_view_release(&view);
    }
    return good ? NULL : "a row gives bytes that are not its member's";
}

/* So are the names. */
static const char *check_names(const golden *g, tarn_fold *fold)
{
    bool good = true;
    tarn_text key = {0}, name = {0};
    for (size_t i = 0; good && i < g->count; i++) {
        const member *m = &g->members[i];
        if (tarn_fold_names(fold, i, &key, &name, NULL) != TARN_OK) continue;
        good = strcmp(key.data, m->key) == 0 &&
               (g->folders_unsure || strcmp(name.data, m->name) == 0);
    }
    tarn_text_reset(&key);
    tarn_text_reset(&name);
    return good ? NULL : "a row gives another name";
}

/* The rows of a sample, all of them and no others. */
static bool is_sample(const golden *g, unsigned sample, const tarn_sample *s)
{
    uint32_t k = 0;
    for (size_t i = 0; i < g->count; i++) {
        if (g->members[i].sample != sample) continue;
        if (k == s->count || tarn_sample_row(s, k) != i) return false;
        k++;
    }
    return k == s->count;
}

static const char *check_positions(const golden *g, tarn_fold *fold)
{
    tarn_fold_info info;
    tarn_sample s;
    if (tarn_fold_info_get(fold, &info, NULL) != TARN_OK) return NULL;
    if (info.samples != g->samples) return "another number of samples";
    for (unsigned i = 0; i < g->samples; i++)
        if (tarn_fold_sample(fold, i, &s, NULL) == TARN_OK && !is_sample(g, i, &s))
            return "a sample of other rows, by position";
    return NULL;
}

static const char *check_field(const golden *g, tarn_fold *fold, const tarn_sample *s,
                               const member *m)
{
    uint64_t row;
    tarn_view view;
    if (tarn_fold_pick(fold, s, m->field, &row, NULL) != TARN_OK) return NULL;
    const member *got = &g->members[row < g->count ? row : 0];
    if (row >= g->count || got->sample != m->sample || strcmp(got->field, m->field) != 0)
        return "another member's row, by key and field";
    if (tarn_fold_view(fold, row, &view, NULL) != TARN_OK) return NULL;
    bool good = is_payload(g, got, &view);
    tarn_view_release(&view);
    return good ? NULL : "other bytes, by key and field";
}

static const char *check_keys(const golden *g, tarn_fold *fold)
{
    tarn_sample s;
    for (size_t i = 0; i < g->count; i++) {
        const member *m = &g->members[i];
        if (tarn_fold_find(fold, m->key, &s, NULL) != TARN_OK) continue;
        if (!is_sample(g, m->sample, &s)) return "a sample of other rows, by key";
        const char *why = check_field(g, fold, &s, m);
        if (why) return why;
    }
    return tarn_fold_find(fold, "absent", &s, NULL) == TARN_OK ? "a key that is not there"
                                                               : NULL;
}

static const char *check_open(const golden *g, tarn_fold *fold)
{
    const char *why = check_positions(g, fold);
    if (!why) why = check_bytes(g, fold, 0, g->count);
    if (!why) why = check_names(g, fold);
    if (!why) why = check_keys(g, fold);
    return why;
}

static tarn_fold *open_fold(const golden *g, bool check, tarn_io io)
{
    tarn_fold *fold;
    tarn_fold_options o = TARN_FOLD_OPTIONS_INIT;
    o.check = check;
    o.io = io;
    err = (tarn_error){0};
    if (tarn_fold_open(g->path, &o, &fold, &err) == TARN_OK) return fold;
    assert_true(err.code > TARN_END && err.message[0]);
    return NULL;
}

/* The whole fold, opened anew. */
static const char *check_fold(const golden *g, bool check)
{
    tarn_fold *fold = open_fold(g, check, TARN_IO_AUTO);
    if (!fold) return NULL;
    const char *why = check_open(g, fold);
    tarn_fold_close(fold);
    return why;
}

static void sound_folds_are_read_whole(void **state)
{
    golden g;
    void (*const makers[])(golden *) = {make_birds, make_mixed, make_doubles,
                                        make_nest_last, make_nest_open};
    (void)state;
    for (size_t i = 0; i < sizeof makers / sizeof makers[0]; i++) {
        makers[i](&g);
        tarn_fold *fold = open_fold(&g, true, TARN_IO_AUTO);
        tarn_view view;
        assert_non_null(fold);
        assert_null(check_open(&g, fold));
        for (size_t k = 0; k < g.count; k++)
            OK(tarn_fold_view(fold, k, &view, &err));
        tarn_fold_close(fold);
        drop(&g);
    }
}

/* --- Damaged shards --------------------------------------------------------------- */

/* An index made of the damaged shard has the true rows, or is not made. */
static const char *check_rebuilt(const golden *g)
{
    const char *shards[] = {g->file[SHARD], g->file[OTHER]}, *why = NULL;
    tarn_index *index;
    tarn_index_info info;
    tarn_row row;
    tarn_index_options o = TARN_INDEX_OPTIONS_INIT;
    o.threads = 1;
    if (tarn_index_build(shards, 2, &o, &index, NULL, &err) != TARN_OK) return NULL;
    tarn_index_info_get(index, &info);
    if (info.rows != g->count) why = "an index of another number of members";
    for (size_t i = 0; !why && i < g->count; i++) {
        OK(tarn_index_row(index, i, &row, &err));
        if (row.offset != g->members[i].offset || row.size != g->members[i].size)
            why = "an index with another row";
    }
    tarn_index_free(index);
    return why;
}

/* Every multiple of 512, and every byte of the last few. */
static uint64_t next_cut(const golden *g, uint64_t at, uint64_t last)
{
    return at + 512 < g->size[SHARD] - last ? at + 512 : at + 1;
}

static void truncated_shard_is_noticed_or_harmless(void **state)
{
    golden g;
    sweep s = {0};
    (void)state;
    make_birds(&g);
    for (int with_sums = 1; with_sums >= 0; with_sums--) {
        if (!with_sums) unlink(g.file[SUMS]);
        for (uint64_t at = 0; at < g.size[SHARD]; at = next_cut(&g, at, 2048)) {
            snprintf(s.what, sizeof s.what, "shard cut to %llu", (unsigned long long)at);
            cut(&g, SHARD, at);
            judge(&s, check_fold(&g, with_sums));
            if (with_sums) judge(&s, check_rebuilt(&g));
            restore_all(&g, SHARD);
        }
    }
    drop(&g);
    conclude(&s);
}

static void shard_truncated_under_an_open_fold_is_noticed_or_harmless(void **state)
{
    golden g;
    sweep s = {0};
    (void)state;
    make_birds(&g);
    for (uint64_t at = 0; at < g.size[SHARD]; at = next_cut(&g, at, 512)) {
        for (int io = TARN_IO_MAP; io <= TARN_IO_READ; io++) {
            tarn_fold *fold = open_fold(&g, false, (tarn_io)io);
            assert_non_null(fold);
            assert_null(check_bytes(&g, fold, 0, g.count));
            snprintf(s.what, sizeof s.what, "cut to %llu", (unsigned long long)at);
            cut(&g, SHARD, at);
            judge(&s, check_open(&g, fold));
            tarn_fold_close(fold);
            restore_all(&g, SHARD);
        }
    }
    drop(&g);
    conclude(&s);
}

/* Whether a byte lies in a header block, or in the records of an extended header. */
static bool is_header(const golden *g, uint64_t at)
{
    for (size_t i = 0; i < g->count; i++)
        if (g->members[i].shard == 0 && at >= g->members[i].start &&
            at < g->members[i].offset + 512)
            return true;
    return false;
}

static bool is_record(const golden *g, uint64_t at)
{
    for (size_t i = 0; i < g->count; i++)
        if (g->members[i].shard == 0 && at >= g->members[i].start + 512 &&
            at < g->members[i].offset)
            return true;
    return false;
}

/* The member a byte belongs to, or the one before it. */
static size_t row_at(const golden *g, uint64_t at)
{
    size_t i = g->count;
    while (i > 1 && (g->members[i - 1].shard || g->members[i - 1].start > at))
        i--;
    return i - 1;
}

/* The rows around the damage, mapped, for every case; everything, read, for one bit of
 * every fourth byte. The folder of a long name stands in no header with a checksum, and
 * the index does not hold it: only verification can tell that it changed. */
static void flipped_shard_bit_is_noticed_or_harmless(void **state)
{
    golden g;
    sweep s = {0};
    (void)state;
    make_birds(&g);
    tarn_fold *mapped = open_fold(&g, true, TARN_IO_MAP);
    tarn_fold *read = open_fold(&g, true, TARN_IO_READ);
    assert_true(mapped && read);
    for (uint64_t at = 0; at < g.size[SHARD]; at++) {
        unsigned step = is_header(&g, at) ? 1 : 8;
        size_t row = row_at(&g, at);
        g.folders_unsure = is_record(&g, at);
        for (unsigned bit = (unsigned)(at % step); bit < 8; bit += step) {
            snprintf(s.what, sizeof s.what, "bit %u of byte %llu of the shard", bit,
                     (unsigned long long)at);
            flip(&g, SHARD, at, bit);
            judge(&s, check_bytes(&g, mapped, row ? row - 1 : 0, row + 3));
            if (bit == at % 8 && at % 4 == 0) judge(&s, check_open(&g, read));
            restore(&g, SHARD, at);
        }
    }
    tarn_fold_close(mapped);
    tarn_fold_close(read);
    drop(&g);
    conclude(&s);
}

/* --- Damaged indexes and sums ----------------------------------------------------- */

enum { FLIPS = 1, CUTS = 2, HOLES = 4, EXTREMES = 8 };

/* Two keys have one hash, and only the crash number in a row tells which of the two it
 * means. Without sums nothing in the index says that the number is wrong. */
static bool is_crash_of_twin(const golden *g, uint64_t at, size_t width)
{
    for (size_t i = 0; i < g->count; i++) {
        uint64_t crash = g->size[INDEX] - 32 * (g->count - i) + 20;
        if (strlen(g->members[i].key) == 64 && at < crash + 4 && crash < at + width)
            return true;
    }
    return false;
}

/* Reads with the damaged file as it is now on disk. */
static void judge_fold(sweep *s, const golden *g, bool with_sums)
{
    judge(s, check_fold(g, false));
    if (with_sums) judge(s, check_fold(g, true));
}

static void sweep_flips(sweep *s, const golden *g, int file, bool with_sums)
{
    for (uint64_t at = 0; at < g->size[file]; at++)
        for (unsigned bit = 0; bit < 8; bit++) {
            if (!with_sums && is_crash_of_twin(g, at, 1)) continue;
            snprintf(s->what, sizeof s->what, "bit %u of byte %llu", bit,
                     (unsigned long long)at);
            flip(g, file, at, bit);
            judge_fold(s, g, with_sums);
            restore(g, file, at);
        }
}

static void sweep_cuts(sweep *s, const golden *g, int file, bool with_sums)
{
    for (uint64_t at = 0; at < g->size[file]; at++) {
        snprintf(s->what, sizeof s->what, "cut to %llu", (unsigned long long)at);
        cut(g, file, at);
        judge_fold(s, g, with_sums);
        restore_all(g, file);
    }
}

/* Every byte taken out, the rest moved up. */
static void sweep_holes(sweep *s, const golden *g, int file, bool with_sums)
{
    for (uint64_t at = 0; at < g->size[file]; at++) {
        snprintf(s->what, sizeof s->what, "without byte %llu", (unsigned long long)at);
        put(g, file, at, g->bytes[file] + at + 1, g->size[file] - at - 1);
        cut(g, file, g->size[file] - 1);
        judge_fold(s, g, with_sums);
        restore_all(g, file);
    }
}

/* Every even place as a number of 4 and of 8 bytes. */
static void sweep_extremes(sweep *s, const golden *g, int file, bool with_sums)
{
    static const uint64_t numbers[] = {0,
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
    for (uint64_t at = 0; at + 8 <= g->size[file]; at += 2)
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
            for (size_t width = i < 6 ? 4 : 8; width <= 8; width += 4) {
                if (!with_sums && is_crash_of_twin(g, at, width)) continue;
                snprintf(s->what, sizeof s->what, "%zu bytes at %llu set to %llx", width,
                         (unsigned long long)at, (unsigned long long)numbers[i]);
                put(g, file, at, &numbers[i], width);
                judge_fold(s, g, with_sums);
                put(g, file, at, g->bytes[file] + at, width);
            }
}

static void sweep_file(void (*make)(golden *), int file, bool with_sums, unsigned kinds)
{
    golden g;
    sweep s = {0};
    make(&g);
    if (!with_sums) unlink(g.file[SUMS]);
    if (kinds & FLIPS) sweep_flips(&s, &g, file, with_sums);
    if (kinds & CUTS) sweep_cuts(&s, &g, file, with_sums);
    if (kinds & HOLES) sweep_holes(&s, &g, file, with_sums);
    if (kinds & EXTREMES) sweep_extremes(&s, &g, file, with_sums);
    drop(&g);
    conclude(&s);
}

#define SWEEP(name, make, file, with_sums, kinds)                                        \
    static void name##_is_noticed_or_harmless(void **state)                              \
    {                                                                                    \
        (void)state;                                                                     \
        sweep_file(make, file, with_sums, kinds);                                        \
    }

SWEEP(flipped_index_bit, make_birds, INDEX, true, FLIPS)
SWEEP(flipped_index_bit_without_sums, make_birds, INDEX, false, FLIPS)
SWEEP(flipped_bit_in_mixed_index, make_mixed, INDEX, true, FLIPS)
SWEEP(flipped_bit_in_mixed_index_without_sums, make_mixed, INDEX, false, FLIPS)
SWEEP(flipped_bit_in_index_of_doubles, make_doubles, INDEX, true, FLIPS)
SWEEP(flipped_bit_in_index_of_doubles_without_sums, make_doubles, INDEX, false, FLIPS)
SWEEP(cut_index, make_birds, INDEX, true, CUTS | HOLES)
SWEEP(cut_index_without_sums, make_birds, INDEX, false, CUTS | HOLES)
SWEEP(cut_mixed_index_without_sums, make_mixed, INDEX, false, CUTS | HOLES)
SWEEP(extreme_number_in_index, make_birds, INDEX, true, EXTREMES)
SWEEP(extreme_number_in_index_without_sums, make_birds, INDEX, false, EXTREMES)
SWEEP(flipped_sums_bit, make_birds, SUMS, true, FLIPS)
SWEEP(flipped_bit_in_mixed_sums, make_mixed, SUMS, true, FLIPS)
SWEEP(cut_sums, make_birds, SUMS, true, CUTS | HOLES)
SWEEP(extreme_number_in_sums, make_mixed, SUMS, true, EXTREMES)

/* With sums beside it, an index need never deny what the shards have: a key or a field
 * that is there, a sample that has all the fields asked for. */
static const char *check_denials(const golden *g)
{
    const char *why = NULL, *fields[] = {"cls"};
    tarn_fold_info info;
    tarn_sample s;
    uint64_t row;
    tarn_fold *fold = open_fold(g, false, TARN_IO_AUTO);
    if (!fold) return NULL;
    for (size_t i = 0; !why && i < g->count; i++) {
        const member *m = &g->members[i];
        tarn_status status = tarn_fold_find(fold, m->key, &s, NULL);
        if (status == TARN_ERR_NOT_FOUND) why = "a key is called missing";
        if (status != TARN_OK) continue;
        if (tarn_fold_pick(fold, &s, m->field, &row, NULL) == TARN_ERR_NOT_FOUND)
            why = "a field is called missing";
    }
    if (!why && tarn_fold_require(fold, fields, 1, NULL) == TARN_OK &&
        tarn_fold_info_get(fold, &info, NULL) == TARN_OK && info.samples != g->samples)
        why = "a sample is filtered out that has the field";
    tarn_fold_close(fold);
    return why;
}

static void damage_beside_sums_is_not_called_missing(void **state)
{
    golden g;
    sweep s = {0};
    (void)state;
    make_birds(&g);
    for (int file = INDEX; file <= SUMS; file++)
        for (uint64_t at = 0; at < g.size[file]; at++)
            for (unsigned bit = 0; bit < 8; bit++) {
                snprintf(s.what, sizeof s.what, "bit %u of byte %llu of the %s", bit,
                         (unsigned long long)at, file == INDEX ? "index" : "sums");
                flip(&g, file, at, bit);
                judge(&s, check_denials(&g));
                restore(&g, file, at);
            }
    drop(&g);
    conclude(&s);
}

/* --- Pages ------------------------------------------------------------------------ */

/* Sums are checked a page at a time: 128 rows, or 1024 places in the order. These many
 * samples of two members have both borders inside. */
enum { MANY = 520, ROW_BORDER = 128, ORDER_BORDER = 1024 };

static void make_many(golden *g)
{
    tarball t = {0}, other = {0};
    char name[32];
    *g = (golden){0};
    for (unsigned i = 0; i < 2 * MANY; i++) {
        snprintf(name, sizeof name, "s%03u.%s", i / 2, i % 2 ? "cls" : "txt");
        tarball_file(&t, name, name);
    }
    tarball_end(&t);
    tarball_end(&other);
    publish(g, "many", &t, &other);
    tarball_reset(&t);
    tarball_reset(&other);
}

/* A sample has its two rows, and they hold their own names; or there is an error. */
static bool is_one_of_many(tarn_fold *fold, unsigned number, const tarn_sample *s)
{
    char name[32];
    tarn_view view;
    bool good = s->count == 2;
    for (uint32_t k = 0; good && k < 2; k++) {
        uint64_t row = tarn_sample_row(s, k);
        snprintf(name, sizeof name, "s%03u.%s", number, k ? "cls" : "txt");
        good = row == 2 * number + k;
        if (!good || tarn_fold_view(fold, row, &view, NULL) != TARN_OK) continue;
        good = view.size == strlen(name) && memcmp(view.data, name, view.size) == 0;
        tarn_view_release(&view);
    }
    return good;
}

static const char *check_some_of_many(const golden *g, bool check)
{
    static const unsigned numbers[] = {0, 62, 63, 64, 65, 255, 511, 512, 513, MANY - 1};
    const char *why = NULL;
    char key[16];
    tarn_sample s;
    tarn_fold_info info;
    tarn_fold *fold = open_fold(g, check, TARN_IO_AUTO);
    for (size_t i = 0; fold && i < sizeof numbers / sizeof numbers[0]; i++) {
        snprintf(key, sizeof key, "s%03u", numbers[i]);
        tarn_status status = tarn_fold_find(fold, key, &s, NULL);
        if (status == TARN_ERR_NOT_FOUND) why = "a key is called missing";
        if (status == TARN_OK && !is_one_of_many(fold, numbers[i], &s))
            why = "another sample, by key";
        if (tarn_fold_sample(fold, numbers[i], &s, NULL) == TARN_OK &&
            !is_one_of_many(fold, numbers[i], &s))
            why = "another sample, by position";
    }
    if (fold && tarn_fold_info_get(fold, &info, NULL) == TARN_OK && info.samples != MANY)
        why = "another number of samples";
    tarn_fold_close(fold);
    return why;
}

static void flip_many(sweep *s, const golden *g, int file, uint64_t from, uint64_t to)
{
    for (uint64_t at = from; at < to; at++)
        for (unsigned bit = 0; bit < 8; bit++) {
            snprintf(s->what, sizeof s->what, "bit %u of byte %llu of file %d", bit,
                     (unsigned long long)at, file);
            flip(g, file, at, bit);
            judge(s, check_some_of_many(g, file == SUMS));
            restore(g, file, at);
        }
}

/* Rows, key order and checksums on both sides of the border between two pages. */
static void flipped_bit_beside_the_border_of_a_page_is_noticed(void **state)
{
    golden g;
    sweep s = {0};
    (void)state;
    make_many(&g);
    assert_null(check_some_of_many(&g, true));
    uint64_t rows = g.size[INDEX] - 32 * 2 * MANY;
    uint64_t checksums = g.size[SUMS] - 4 * 2 * MANY, order = checksums - 4 * 2 * MANY;
    flip_many(&s, &g, INDEX, rows + 32 * (ROW_BORDER - 2), rows + 32 * (ROW_BORDER + 2));
    flip_many(&s, &g, SUMS, order + 4 * (ORDER_BORDER - 2),
              order + 4 * (ORDER_BORDER + 2));
    flip_many(&s, &g, SUMS, checksums + 4 * (ORDER_BORDER - 2),
              checksums + 4 * (ORDER_BORDER + 2));
    flip_many(&s, &g, SUMS, order - 48, order);
    drop(&g);
    conclude(&s);
}

/* --- Verification ----------------------------------------------------------------- */

static const char *check_verify(const golden *g)
{
    tarn_verify_report report = {0};
    tarn_verify_options o = TARN_VERIFY_OPTIONS_INIT;
    o.threads = 1;
    if (tarn_verify(g->path, &o, &report, &err) != TARN_OK) return NULL;
    return report.problems ? NULL : "verification finds nothing";
}

/* Bytes that no reader looks at: what pads a payload, or the records before a member. */
static bool is_padding(const golden *g, uint64_t at)
{
    for (size_t i = 0; i < g->count; i++) {
        const member *m = &g->members[i];
        uint64_t end = m->offset + 512 + m->size;
        if (m->shard) continue;
        if (at >= end && at < (end + 511) / 512 * 512) return true;
        if (m->start == m->offset) continue;
        const char *size = (const char *)g->bytes[SHARD] + m->start + 124;
        if (at >= m->start + 512 + strtoul(size, NULL, 8) && at < m->offset) return true;
    }
    return false;
}

static void verification_finds_flipped_bits(void **state)
{
    golden g;
    sweep s = {0};
    (void)state;
    make_birds(&g);
    assert_non_null(check_verify(&g));
    for (int file = 0; file < 4; file++)
        for (uint64_t at = 0; file != OTHER && at < g.size[file]; at++) {
            if (file == SHARD && is_padding(&g, at)) continue;
            unsigned bit = (unsigned)(at / 2 % 8);
            if (file == SHARD && at % 2) continue;
            snprintf(s.what, sizeof s.what, "bit %u of byte %llu of file %d", bit,
                     (unsigned long long)at, file);
            flip(&g, file, at, bit);
            judge(&s, check_verify(&g));
            restore(&g, file, at);
        }
    drop(&g);
    conclude(&s);
}

/* --- Lenient reading -------------------------------------------------------------- */

static bool is_true_member(const golden *g, const tarn_member *m)
{
    for (size_t i = 0; i < g->count; i++) {
        const member *t = &g->members[i];
        if (t->shard == 0 && t->offset == m->offset && t->size == m->size &&
            strlen(t->name) == m->name_len && memcmp(t->name, m->name, m->name_len) == 0)
            return true;
    }
    return false;
}

static const char *check_lenient(const golden *g)
{
    static char why[200];
    tarn_tar *tar;
    tarn_member m;
    tarn_tar_options o = TARN_TAR_OPTIONS_INIT;
    tarn_status status;
    bool good = true;
    o.lenient = true;
    OK(tarn_tar_open(g->file[SHARD], &o, &tar, &err));
    while (good && (status = tarn_tar_next(tar, &m, &err)) == TARN_OK)
        good = is_true_member(g, &m);
    if (!good)
        snprintf(why, sizeof why, "a member that is none: %.*s, %llu bytes, at %llu",
                 (int)(m.name_len < 60 ? m.name_len : 60), m.name,
                 (unsigned long long)m.size, (unsigned long long)m.offset);
    tarn_tar_close(tar);
    return good ? NULL : why;
}

/* Which damage a lenient sweep makes. */
typedef enum harm { IN_SIZES, ELSEWHERE, CUT } harm;

/* Numbers and type get every bit; a name or blank space, one for every two bytes. The
 * records of an extended header have no checksum: a flip in them is believed, and left
 * out. */
static unsigned bits_to_flip(const golden *g, uint64_t at, harm what)
{
    uint64_t place = at % 512;
    bool in_size = place >= 124 && place < 136;
    if (!is_header(g, at) || is_record(g, at) || in_size != (what == IN_SIZES)) return 0;
    return place >= 100 && place < 160 ? 8 : place % 2;
}

static void flip_leniently(const golden *g, sweep *s, harm what)
{
    for (uint64_t at = 0; at < g->size[SHARD]; at++)
        for (unsigned k = 0; k < bits_to_flip(g, at, what); k++) {
            unsigned bit = (unsigned)(at + k) % 8;
            snprintf(s->what, sizeof s->what, "bit %u of byte %llu of the shard", bit,
                     (unsigned long long)at);
            flip(g, SHARD, at, bit);
            judge(s, check_lenient(g));
            restore(g, SHARD, at);
        }
}

/* At and just before every multiple of 512, and everywhere in the last two KB. */
static void cut_leniently(const golden *g, sweep *s)
{
    for (uint64_t at = g->size[SHARD] - 1; at > 0; at--) {
        if (at % 512 && at % 512 != 511 && at + 2048 < g->size[SHARD]) continue;
        snprintf(s->what, sizeof s->what, "shard cut to %llu", (unsigned long long)at);
        cut(g, SHARD, at);
        judge(s, check_lenient(g));
    }
}

static void sweep_leniently(void (*make)(golden *), harm what)
{
    golden g;
    sweep s = {0};
    make(&g);
    if (what == CUT)
        cut_leniently(&g, &s);
    else
        flip_leniently(&g, &s, what);
    drop(&g);
    conclude(&s);
}

#define LENIENT(name, make, what)                                                        \
    static void lenient_reading_of_##name##_invents_nothing(void **state)                \
    {                                                                                    \
        (void)state;                                                                     \
        sweep_leniently(make, what);                                                     \
    }

LENIENT(flipped_headers, make_birds, ELSEWHERE)
LENIENT(flipped_sizes, make_birds, IN_SIZES)
LENIENT(truncated_shard, make_birds, CUT)
LENIENT(flipped_headers_and_a_nest_at_the_end, make_nest_last, ELSEWHERE)
LENIENT(flipped_sizes_and_a_nest_at_the_end, make_nest_last, IN_SIZES)
LENIENT(truncated_nest_at_the_end, make_nest_last, CUT)
LENIENT(flipped_headers_and_an_open_nest, make_nest_open, ELSEWHERE)
LENIENT(flipped_sizes_and_an_open_nest, make_nest_open, IN_SIZES)
LENIENT(truncated_open_nest, make_nest_open, CUT)

/* --- Repair ----------------------------------------------------------------------- */

/* What strict reading finds in the repaired shard was there before, byte for byte. */
static const char *check_repaired(const golden *g)
{
    tarn_tar *tar;
    tarn_member m;
    unsigned char payload[8192];
    tarn_status status;
    const char *why = NULL;
    OK(tarn_tar_open(g->file[SHARD], NULL, &tar, &err));
    while (!why && (status = tarn_tar_next(tar, &m, &err)) == TARN_OK) {
        assert_true(m.size <= sizeof payload);
        OK(tarn_tar_read(tar, &m, 0, payload, m.size, &err));
        if (!is_true_member(g, &m))
            why = "a member that is none";
        else if (memcmp(payload, g->bytes[SHARD] + m.offset + 512, m.size) != 0)
            why = "a member that was torn is whole, with other bytes";
    }
    tarn_tar_close(tar);
    return why;
}

static void repaired_shard_has_no_bytes_that_were_not_there(void **state)
{
    golden g;
    sweep s = {0};
    tarn_verify_report report;
    tarn_verify_options o = TARN_VERIFY_OPTIONS_INIT;
    void (*const makers[])(golden *) = {make_birds, make_nest_last, make_nest_open};
    (void)state;
    o.repair = true;
    o.threads = 1;
    for (size_t i = 0; i < sizeof makers / sizeof makers[0]; i++)
        for (uint64_t at = 256, end = 512; at < end; at += 256) {
            makers[i](&g);
            end = g.size[SHARD];
            snprintf(s.what, sizeof s.what, "shard cut to %llu", (unsigned long long)at);
            cut(&g, SHARD, at);
            OK(tarn_verify(g.path, &o, &report, &err));
            judge(&s, report.remaining ? NULL : check_repaired(&g));
            drop(&g);
            nftw(g.folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
        }
    conclude(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_folds_are_read_whole),
        cmocka_unit_test(truncated_shard_is_noticed_or_harmless),
        cmocka_unit_test(shard_truncated_under_an_open_fold_is_noticed_or_harmless),
        cmocka_unit_test(flipped_shard_bit_is_noticed_or_harmless),
        cmocka_unit_test(flipped_index_bit_is_noticed_or_harmless),
        cmocka_unit_test(flipped_index_bit_without_sums_is_noticed_or_harmless),
        cmocka_unit_test(flipped_bit_in_mixed_index_is_noticed_or_harmless),
        cmocka_unit_test(flipped_bit_in_mixed_index_without_sums_is_noticed_or_harmless),
        cmocka_unit_test(flipped_bit_in_index_of_doubles_is_noticed_or_harmless),
        cmocka_unit_test(
            flipped_bit_in_index_of_doubles_without_sums_is_noticed_or_harmless),
        cmocka_unit_test(cut_index_is_noticed_or_harmless),
        cmocka_unit_test(cut_index_without_sums_is_noticed_or_harmless),
        cmocka_unit_test(cut_mixed_index_without_sums_is_noticed_or_harmless),
        cmocka_unit_test(extreme_number_in_index_is_noticed_or_harmless),
        cmocka_unit_test(extreme_number_in_index_without_sums_is_noticed_or_harmless),
        cmocka_unit_test(flipped_sums_bit_is_noticed_or_harmless),
        cmocka_unit_test(flipped_bit_in_mixed_sums_is_noticed_or_harmless),
        cmocka_unit_test(cut_sums_is_noticed_or_harmless),
        cmocka_unit_test(extreme_number_in_sums_is_noticed_or_harmless),
        cmocka_unit_test(damage_beside_sums_is_not_called_missing),
        cmocka_unit_test(flipped_bit_beside_the_border_of_a_page_is_noticed),
        cmocka_unit_test(verification_finds_flipped_bits),
        cmocka_unit_test(lenient_reading_of_flipped_headers_invents_nothing),
        cmocka_unit_test(lenient_reading_of_flipped_sizes_invents_nothing),
        cmocka_unit_test(lenient_reading_of_truncated_shard_invents_nothing),
        cmocka_unit_test(
            lenient_reading_of_flipped_headers_and_a_nest_at_the_end_invents_nothing),
        cmocka_unit_test(
            lenient_reading_of_flipped_sizes_and_a_nest_at_the_end_invents_nothing),
        cmocka_unit_test(lenient_reading_of_truncated_nest_at_the_end_invents_nothing),
        cmocka_unit_test(
            lenient_reading_of_flipped_headers_and_an_open_nest_invents_nothing),
        cmocka_unit_test(
            lenient_reading_of_flipped_sizes_and_an_open_nest_invents_nothing),
        cmocka_unit_test(lenient_reading_of_truncated_open_nest_invents_nothing),
        cmocka_unit_test(repaired_shard_has_no_bytes_that_were_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
