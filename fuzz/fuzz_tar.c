/* An archive: read strictly and leniently, indexed, and every member fetched through its
 * row. The input is the archive. */
#include "common.h"

#include <sys/mman.h>
#include <unistd.h>

#include <tarn/tar.h>
#include <tarn/verify.h>

#include "itar/fold.h"
#include "tar/reader.h"

typedef struct found {
    uint64_t offset, size;
    char *name;
    size_t name_len;
    char type;
} found;

typedef struct list {
    found *items;
    size_t count, capacity;
    tarn_status end;
    tarn_tar_counts counts;
    size_t notices;
} list;

/* The input, and where the library finds it. */
static const uint8_t *input;
static size_t input_size;
static char path[64];

static void put_input(const uint8_t *data, size_t size)
{
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("fuzz.tar", MFD_CLOEXEC);
        CHECK(fd >= 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    CHECK(ftruncate(fd, 0) == 0);
    CHECK(size == 0 || pwrite(fd, data, size, 0) == (ssize_t)size);
    input = data;
    input_size = size;
}

/* --- Members ---------------------------------------------------------------------- */

static void check_member(const list *l, const tarn_member *m)
{
    CHECK(m->offset % 512 == 0 && m->start % 512 == 0 && m->start <= m->offset);
    CHECK(m->offset + 512 <= input_size && m->size <= input_size - m->offset - 512);
    CHECK(m->name_len > 0 && m->name_len <= TARN_MAX_NAME);
    CHECK(!memchr(m->name, 0, m->name_len));
    CHECK(m->mtime_ns < 1000000000);
    if (l->count == 0) return;
    const found *last = &l->items[l->count - 1];
    CHECK(m->start >= last->offset + 512 + last->size);
}

static void check_payload(tarn_tar *tar, const tarn_member *m)
{
    char *payload = malloc(m->size ? m->size : 1);
    CHECK(payload);
    CHECK(tarn_tar_read(tar, m, 0, payload, m->size, NULL) == TARN_OK);
    CHECK(memcmp(payload, input + m->offset + 512, m->size) == 0);
    CHECK(tarn_tar_read(tar, m, m->size, payload, 1, NULL) == TARN_ERR_USAGE);
    free(payload);
}

static void add(list *l, const tarn_member *m)
{
    CHECK(l->count < l->capacity);
    found *f = &l->items[l->count++];
    *f = (found){m->offset, m->size, exact_copy(m->name, m->name_len), m->name_len,
                 m->type};
}

static void count_notice(void *context, const tarn_error *what)
{
    CHECK(what->code > TARN_END && strcmp(what->path, path) == 0);
    ++*(size_t *)context;
}

static void walk(list *l, bool lenient)
{
    tarn_tar *tar;
    tarn_member m;
    tarn_error err;
    tarn_tar_options o = TARN_TAR_OPTIONS_INIT;
    o.lenient = lenient;
    o.all_types = true;
    o.notice = count_notice;
    o.notice_context = &l->notices;
    *l = (list){.capacity = input_size / 512 + 1};
    l->items = calloc(l->capacity, sizeof *l->items);
    CHECK(l->items);
    CHECK(tarn_tar_open(path, &o, &tar, &err) == TARN_OK);
    while ((l->end = tarn_tar_next(tar, &m, &err)) == TARN_OK) {
        check_member(l, &m);
        check_payload(tar, &m);
        add(l, &m);
    }
    tarn_tar_counts_get(tar, &l->counts, sizeof l->counts);
    tarn_tar_close(tar);
    if (l->end != TARN_END) CHECK(!lenient && err.code == l->end && err.message[0]);
    CHECK(l->counts.lost_bytes <= input_size);
}

static void drop(list *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->items[i].name);
    free(l->items);
}

static int same(const found *a, const found *b)
{
    return a->offset == b->offset && a->size == b->size && a->type == b->type &&
           a->name_len == b->name_len && memcmp(a->name, b->name, a->name_len) == 0;
}

/* What strict reading gives, lenient reading gives too; and damage is reported exactly
 * when strict reading fails. */
static void compare(const list *strict, const list *lenient)
{
    CHECK(lenient->count >= strict->count);
    for (size_t i = 0; i < strict->count; i++)
        CHECK(same(&strict->items[i], &lenient->items[i]));
    CHECK(strict->notices == 0 && strict->counts.damages == 0);
    if (strict->end == TARN_END) {
        CHECK(lenient->count == strict->count && lenient->notices == 0);
        CHECK(lenient->counts.damages == 0 && lenient->counts.lost_bytes == 0);
    } else {
        CHECK(lenient->notices > 0);
    }
}

/* --- Rows ------------------------------------------------------------------------- */

static const found *member_at(const list *l, uint64_t offset)
{
    for (size_t i = 0; i < l->count; i++)
        if (l->items[i].offset == offset && l->items[i].type == '0') return &l->items[i];
    return NULL;
}

/* Every scanned member can be fetched again: bytes and full name. */
static void check_row(tarn__fold *fold, uint64_t number, const list *l)
{
    tarn_row row;
    tarn_view view;
    tarn_text member = {0};
    tarn_error err;
    CHECK(tarn_index_row(fold->index, number, &row, NULL) == TARN_OK);
    const found *m = member_at(l, row.offset);
    CHECK(m && m->size == row.size);
    CHECK(tarn__fold_view(fold, number, false, &view, &err) == TARN_OK);
    CHECK(view.size == m->size &&
          memcmp(view.data, input + m->offset + 512, m->size) == 0);
    tarn_view_release(&view);
    CHECK(tarn__fold_names(fold, number, NULL, &member, &err) == TARN_OK);
    CHECK(member.size == m->name_len && memcmp(member.data, m->name, m->name_len) == 0);
    tarn_text_reset(&member);
}

static size_t regular_count(const list *l)
{
    size_t n = 0;
    for (size_t i = 0; i < l->count; i++)
        n += l->items[i].type == '0';
    return n;
}

/* Returns whether the archive could be indexed; *out_duplicates counts collisions. */
static int check_fold(const list *l, tarn_keys keys, bool lenient,
                      uint64_t *out_duplicates)
{
    tarn__fold *fold;
    tarn_error err;
    tarn__fold_options o = {0};
    tarn_index_options scan = TARN_INDEX_OPTIONS_INIT;
    tarn_index_info index;
    scan.keys = keys;
    scan.lenient = lenient;
    scan.threads = 1;
    o.index = &scan;
    if (tarn__fold_open(path, &o, &fold, &err) != TARN_OK) return 0;
    const tarn_index_report *report = &fold->report;
    uint64_t samples;
    CHECK(tarn__fold_count(fold, &samples, &err) == TARN_OK);
    tarn_index_info_get(fold->index, &index, sizeof index);
    uint64_t rows = index.rows;
    CHECK(rows + report->unkeyed <= regular_count(l));
    if (!lenient) CHECK(rows + report->unkeyed == regular_count(l));
    for (uint64_t i = 0; i < rows; i++)
        check_row(fold, i, l);
    *out_duplicates = report->duplicates;
    tarn__fold_close(fold);
    return 1;
}

/* Verification finds nothing exactly when the archive can be indexed strictly and no two
 * members collide. */
static void check_verify(int good)
{
    tarn_verify_report report = {0};
    tarn_verify_options o = TARN_VERIFY_OPTIONS_INIT;
    o.threads = 1;
    CHECK(tarn_verify(path, &o, &report, sizeof report, NULL) == TARN_OK);
    CHECK((report.problems == 0) == good && report.remaining == report.problems);
}

static void check_tear(const list *strict)
{
    uint64_t keep = 0, cut = 0;
    tarn_status status = tarn__tar_find_tear(path, &keep, &cut, NULL);
    CHECK(status == TARN_OK || status == TARN_END);
    CHECK(keep <= cut && cut <= input_size);
    if (strict->end == TARN_END) CHECK(status == TARN_END);
}

/* A file in a compression format that cannot be read is refused when it is opened, strict
 * or lenient. */
static bool is_refused_at_once(void)
{
    tarn_tar *tar;
    tarn_error err;
    tarn_status status = tarn_tar_open(path, NULL, &tar, &err);
    if (status == TARN_OK) tarn_tar_close(tar);
    CHECK(status == TARN_OK || status == TARN_ERR_UNSUPPORTED);
    return status != TARN_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    list strict, lenient;
    uint64_t duplicates = 0, ignored;
    put_input(data, size);
    if (tarn_tar_is_stream(path)) return 0; /* compressed: fuzz_samples.c reads those */
    if (is_refused_at_once()) {
        check_verify(0);
        return 0;
    }
    walk(&strict, false);
    walk(&lenient, true);
    compare(&strict, &lenient);
    int indexed = check_fold(&strict, TARN_KEYS_BASE, false, &duplicates);
    CHECK(!indexed || strict.end == TARN_END);
    if (strict.end == TARN_END)
        check_fold(&strict, TARN_KEYS_PATH, false, &ignored);
    else
        check_fold(&lenient, TARN_KEYS_BASE, true, &ignored);
    check_verify(indexed && duplicates == 0);
    check_tear(&strict);
    drop(&strict);
    drop(&lenient);
    return 0;
}

/* A header without a correct checksum gets nowhere, and mutations never hit it. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
    size = LLVMFuzzerMutate(data, size, max);
    for (size_t at = 0; seed % 4 && at + 512 <= size; at += 512)
        if (memcmp(data + at + 257, "ustar", 5) == 0) fix_tar_checksum(data + at);
    return size;
}
