/* Verification, lenient reading and repair of damaged shards: verification finds the
 * damage, the others invent nothing. */
#include "damage.h"

#include <ftw.h>
#include <sys/stat.h>

enum { ONE_IN = 5 }; /* cases of a short run */

static tarn_error err;

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

/* --- Verification ----------------------------------------------------------------- */

static const char *check_verify(const golden *g)
{
    tarn_verify_report report = {0};
    tarn_verify_options o = TARN_VERIFY_OPTIONS_INIT;
    o.threads = 1;
    if (tarn_verify(g->path, &o, &report, sizeof report, &err) != TARN_OK) return NULL;
    return report.problems ? NULL : "verification finds nothing";
}

/* Bytes that readers ignore: the padding of a payload, or the records before a member. */
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
            if (!sweep_takes(&s, ONE_IN)) continue;
            snprintf(s.what, sizeof s.what, "bit %u of byte %llu of file %d", bit,
                     (unsigned long long)at, file);
            golden_flip(&g, file, at, bit);
            sweep_judge(&s, check_verify(&g));
            golden_restore(&g, file, at);
        }
    golden_drop(&g);
    sweep_end(&s, __func__);
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

/* The kinds of damage of a lenient sweep. */
typedef enum harm { IN_SIZES, ELSEWHERE, CUT } harm;

/* Every bit of numbers and type; in a name or blank space, one bit for every two bytes.
 * The records of an extended header have no checksum: a flip in them is not detected, so
 * they are left out. */
static unsigned bits_to_flip(const golden *g, uint64_t at, harm what)
{
    uint64_t place = at % 512;
    bool in_size = place >= 124 && place < 136;
    if (!is_header(g, at) || is_record(g, at) || in_size != (what == IN_SIZES)) return 0;
    return damage_is_full() || (place >= 100 && place < 160) ? 8 : place % 2;
}

static void flip_leniently(const golden *g, sweep *s, harm what)
{
    for (uint64_t at = 0; at < g->size[SHARD]; at++)
        for (unsigned k = 0; k < bits_to_flip(g, at, what); k++) {
            unsigned bit = (unsigned)(at + k) % 8;
            if (!sweep_takes(s, ONE_IN)) continue;
            snprintf(s->what, sizeof s->what, "bit %u of byte %llu of the shard", bit,
                     (unsigned long long)at);
            golden_flip(g, SHARD, at, bit);
            sweep_judge(s, check_lenient(g));
            golden_restore(g, SHARD, at);
        }
}

/* Everywhere; in a short run, some of those at and just before every multiple of 512 and
 * everywhere in the last two KB. */
static void cut_leniently(const golden *g, sweep *s)
{
    for (uint64_t at = g->size[SHARD] - 1; at > 0; at--) {
        bool whole = at % 512 == 0 || at % 512 == 511 || at + 2048 >= g->size[SHARD];
        if (!damage_is_full() && !(whole && sweep_takes(s, ONE_IN))) continue;
        snprintf(s->what, sizeof s->what, "shard cut to %llu", (unsigned long long)at);
        golden_cut(g, SHARD, at);
        sweep_judge(s, check_lenient(g));
    }
}

static void sweep_leniently(const char *title, void (*make)(golden *), harm what)
{
    golden g;
    sweep s = {0};
    make(&g);
    if (what == CUT)
        cut_leniently(&g, &s);
    else
        flip_leniently(&g, &s, what);
    golden_drop(&g);
    sweep_end(&s, title);
}

#define LENIENT(name, make, what)                                                        \
    static void lenient_reading_of_##name##_invents_nothing(void **state)                \
    {                                                                                    \
        (void)state;                                                                     \
        sweep_leniently(#name, make, what);                                              \
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

/* What strict reading finds in the repaired shard existed before, byte for byte. */
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
            if (!sweep_takes(&s, 3)) continue;
            makers[i](&g);
            end = g.size[SHARD];
            snprintf(s.what, sizeof s.what, "shard cut to %llu", (unsigned long long)at);
            golden_cut(&g, SHARD, at);
            OK(tarn_verify(g.path, &o, &report, sizeof report, &err));
            sweep_judge(&s, report.remaining ? NULL : check_repaired(&g));
            golden_drop(&g);
            nftw(g.folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
        }
    sweep_end(&s, __func__);
}
int main(void)
{
    const struct CMUnitTest tests[] = {
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
    return cmocka_run_group_tests(tests, scratch_in_memory, scratch_remove);
}
