/* Reads and writes .tarsum files. */
#include "itar/sums.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/checked.h"
#include "base/crc.h"
#include "base/error.h"
#include "base/text.h"
#include "io/file.h"
#include "io/publish.h"
#include "itar/regular.h"
#include "itar/row.h"

enum {
    HEADER_SIZE = 128,
    STAMP_SIZE = 32,
    SELF_CRC_AT = 124,
    HAS_ORDER = 1,
    HAS_CHECKSUMS = 2,
    KEYS_PATH = 4,
    KNOWN_FLAGS = HAS_ORDER | HAS_CHECKSUMS | KEYS_PATH,
    PAGE = TARN__SUMS_PAGE
};

/* Bytes per element of a part. */
static const size_t element[TARN__PARTS] = {32, 4, 4};

static const char magic[8] = "TARSUM";

tarn__sums *tarn__sums_new(void)
{
    tarn__sums *s = calloc(1, sizeof *s);
    if (s) tarn__names_init(&s->names);
    return s;
}

void tarn__sums_free(tarn__sums *s)
{
    if (!s) return;
    if (!s->contents.data) {
        free(s->order);
        free(s->checksums);
    }
    if (!s->contents.data) free(s->pages);
    free(s->checked);
    if (s->mender) s->mender->free(s->mender);
    tarn__contents_close(&s->contents);
    tarn__names_reset(&s->names);
    free(s->stamps);
    free(s->path);
    free(s);
}

char *tarn__sums_path(const char *index_path)
{
    static const char from[] = ".taridx", to[] = ".tarsum";
    size_t len = strlen(index_path);
    char *path = malloc(len + sizeof to);
    if (!path) return NULL;
    memcpy(path, index_path, len + 1);
    if (len >= sizeof from - 1 && strcmp(path + len - (sizeof from - 1), from) == 0)
        len -= sizeof from - 1;
    memcpy(path + len, to, sizeof to);
    return path;
}

char *tarn__sums_waiting_path(const char *index_path)
{
    char *path = tarn__sums_path(index_path), *waiting;
    if (!path) return NULL;
    const char *name = tarn__base_name(path);
    int folder = (int)(name - path);
    if (asprintf(&waiting, "%.*s.%s.next", folder, path, name) < 0) waiting = NULL;
    free(path);
    return waiting;
}

size_t tarn__sums_element(tarn__part part)
{
    return element[part];
}

uint64_t tarn__sums_page_count(const tarn__sums *s, tarn__part part)
{
    TARN__KNOWN(part < TARN__PARTS);
    if (part == TARN__PART_ORDER && !s->order) return 0;
    if (part == TARN__PART_CHECKSUMS && !s->checksums) return 0;
    return (s->n_rows * element[part] + PAGE - 1) / PAGE;
}

static uint64_t all_pages(const tarn__sums *s)
{
    uint64_t pages = 0;
    for (int part = 0; part < TARN__PARTS; part++)
        pages += tarn__sums_page_count(s, (tarn__part)part);
    return pages;
}

tarn_status tarn__sums_head(const tarn__sums *s, tarn__buf *out, tarn_error *err)
{
    unsigned char head[HEADER_SIZE] = {0}, stamp[STAMP_SIZE];
    TARN_TRY(tarn__buf_add(out, head, sizeof head, err));
    for (size_t i = 0; i < s->n_shards; i++) {
        memset(stamp, 0, sizeof stamp);
        tarn__put64(stamp, s->stamps[i].size);
        tarn__put64(stamp + 8, (uint64_t)s->stamps[i].mtime_ns);
        tarn__put32(stamp + 16, s->stamps[i].rows);
        tarn__put32(stamp + 20, s->stamps[i].digest);
        TARN_TRY(tarn__buf_add(out, stamp, sizeof stamp, err));
    }
    uint64_t names_at = out->size;
    TARN_TRY(tarn__names_join(&s->names, out, err));
    uint64_t names_size = out->size - names_at;
    while (out->size % 8)
        TARN_TRY(tarn__buf_add(out, "", 1, err));
    uint64_t pages_at = out->size, n_pages = all_pages(s);
    TARN_TRY(tarn__buf_add(out, s->pages, n_pages * sizeof *s->pages, err));
    uint64_t block = 4 * s->n_rows, at = out->size;
    uint64_t order_at = s->order ? at : 0, checksums_at = 0;
    if (s->order) at += block;
    if (s->checksums) {
        checksums_at = at;
        at += block;
    }
    memcpy(head, magic, sizeof magic);
    tarn__put16(head + 8, 1);
    tarn__put16(head + 12, HEADER_SIZE);
    tarn__put16(head + 14, STAMP_SIZE);
    tarn__put64(head + 16, s->n_rows);
    tarn__put32(head + 24, (uint32_t)s->n_shards);
    tarn__put32(head + 28, (s->order ? HAS_ORDER : 0u) |
                               (s->checksums ? HAS_CHECKSUMS : 0u) |
                               (s->keys == TARN_KEYS_PATH ? KEYS_PATH : 0u));
    tarn__put64(head + 32, names_at);
    tarn__put64(head + 40, names_size);
    tarn__put64(head + 48, pages_at);
    tarn__put64(head + 56, order_at);
    tarn__put64(head + 64, checksums_at);
    tarn__put64(head + 72, at);
    tarn__put64(head + 80, s->index_size);
    tarn__put32(head + 88, s->index_head);
    tarn__put32(head + 92, s->stride);
    uint32_t self = tarn__crc32c(0, head, SELF_CRC_AT);
    self = tarn__crc32c(self, out->data + HEADER_SIZE, out->size - HEADER_SIZE);
    tarn__put32(head + SELF_CRC_AT, self);
    memcpy(out->data, head, sizeof head);
    return TARN_OK;
}

tarn_status tarn__sums_write(const tarn__sums *s, tarn__publish *p, tarn_error *err)
{
    tarn__buf head;
    tarn__buf_init(&head, SIZE_MAX / 2);
    tarn_status status = tarn__sums_head(s, &head, err);
    if (status == TARN_OK) status = tarn__publish_write(p, head.data, head.size, err);
    if (status == TARN_OK && s->order)
        status = tarn__publish_write(p, s->order, 4 * s->n_rows, err);
    if (status == TARN_OK && s->checksums)
        status = tarn__publish_write(p, s->checksums, 4 * s->n_rows, err);
    tarn__buf_reset(&head);
    return status;
}

static tarn_status damaged(const char *path, const char *what, tarn_error *err)
{
    return tarn__fail_at(err, TARN_ERR_FORMAT, path, TARN_NO_OFFSET,
                         "damaged: %s; delete it, or run tarn index again", what);
}

static tarn_status split_names(tarn__sums *s, const char *names, size_t size,
                               tarn_error *err)
{
    const char *wrong;
    size_t where;
    TARN_TRY(tarn__names_split(&s->names, names, size, s->n_shards, &wrong, &where, err));
    for (size_t i = 0; i < s->names.count && !wrong; i++)
        if (tarn__names_get(&s->names, i).size == 0) wrong = "a shard has no name";
    return wrong ? damaged(s->path, wrong, err) : TARN_OK;
}

static tarn_status take_stamps(tarn__sums *s, const unsigned char *at, tarn_error *err)
{
    uint64_t rows = 0;
    s->stamps = malloc((s->n_shards + 1) * sizeof *s->stamps);
    if (!s->stamps) return tarn__fail_memory(err);
    for (size_t i = 0; i < s->n_shards; i++, at += STAMP_SIZE) {
        s->stamps[i] = (tarn__stamp){tarn__get64(at), (int64_t)tarn__get64(at + 8),
                                     tarn__get32(at + 16), tarn__get32(at + 20)};
        rows += s->stamps[i].rows;
    }
    if (rows != s->n_rows) return damaged(s->path, "shards do not add up to rows", err);
    return TARN_OK;
}

/* Checks positions and sizes before any data they refer to is read. */
static tarn_status check_layout(const tarn__sums *s, const unsigned char *h,
                                uint64_t *out_head_end, tarn_error *err)
{
    uint32_t flags = tarn__get32(h + 28);
    uint64_t block = 4 * s->n_rows;
    uint64_t pages = (32 * s->n_rows + PAGE - 1) / PAGE;
    if (flags & HAS_ORDER) pages += (block + PAGE - 1) / PAGE;
    if (flags & HAS_CHECKSUMS) pages += (block + PAGE - 1) / PAGE;
    uint64_t at = HEADER_SIZE + (uint64_t)s->n_shards * STAMP_SIZE;
    bool good = tarn__get64(h + 32) == at && tarn__add(at, tarn__get64(h + 40), &at) &&
                tarn__align_up(at, 8, &at) && tarn__get64(h + 48) == at &&
                tarn__add(at, 4 * pages, &at) && at <= s->contents.size;
    *out_head_end = at;
    /* The file's size, and blocks of at most 4 * TARN_MAX_ROWS bytes: the sums fit. */
    if (good && flags & HAS_ORDER) {
        good = tarn__get64(h + 56) == at;
        at += block;
    }
    if (good && flags & HAS_CHECKSUMS) {
        good = tarn__get64(h + 64) == at;
        at += block;
    }
    if (!good || at != s->contents.size || tarn__get64(h + 72) != s->contents.size)
        return damaged(s->path, "its parts do not add up to its size", err);
    return TARN_OK;
}

/* Sets the pointers to the parts, after the layout was checked. The parts are aligned:
 * the map is, and their offsets are multiples of 4. */
static tarn_status take_parts(tarn__sums *s, const unsigned char *h, tarn_error *err)
{
    uint32_t flags = tarn__get32(h + 28);
    unsigned char *base = s->contents.data;
    s->keys = flags & KEYS_PATH ? TARN_KEYS_PATH : TARN_KEYS_BASE;
    s->pages = (void *)(base + tarn__get64(h + 48));
    if (flags & HAS_ORDER) s->order = (void *)(base + tarn__get64(h + 56));
    if (flags & HAS_CHECKSUMS) s->checksums = (void *)(base + tarn__get64(h + 64));
    s->data[TARN__PART_ORDER] = s->order;
    s->data[TARN__PART_CHECKSUMS] = s->checksums;
    s->index_size = tarn__get64(h + 80);
    s->index_head = tarn__get32(h + 88);
    s->checked = calloc(all_pages(s) + 1, sizeof *s->checked);
    return s->checked ? TARN_OK : tarn__fail_memory(err);
}

static tarn_status parse(tarn__sums *s, tarn_error *err)
{
    const unsigned char *h = s->contents.data;
    uint64_t head_end;
    if (s->contents.size < HEADER_SIZE || memcmp(h, magic, sizeof magic) != 0)
        return damaged(s->path, "not a tarsum file", err);
    if (tarn__get16(h + 8) != 1 || tarn__get16(h + 12) != HEADER_SIZE ||
        tarn__get16(h + 14) != STAMP_SIZE || tarn__get32(h + 28) & ~(uint32_t)KNOWN_FLAGS)
        return tarn__fail_at(
            err, TARN_ERR_UNSUPPORTED, s->path, TARN_NO_OFFSET,
            "unknown tarsum version or feature; update tarn, or run tarn index again");
    s->n_rows = tarn__get64(h + 16);
    s->n_shards = tarn__get32(h + 24);
    s->stride = tarn__get32(h + 92);
    if (s->n_rows > TARN_MAX_ROWS || s->n_shards > TARN_MAX_SHARDS ||
        s->stride > TARN__MAX_STRIDE || (s->stride && s->n_rows % s->stride))
        return damaged(s->path, "impossible count", err);
    TARN_TRY(check_layout(s, h, &head_end, err));
    uint32_t self = tarn__crc32c(0, h, SELF_CRC_AT);
    self = tarn__crc32c(self, h + HEADER_SIZE, head_end - HEADER_SIZE);
    if (self != tarn__get32(h + SELF_CRC_AT))
        return damaged(s->path, "its own checksum does not match", err);
    TARN_TRY(take_parts(s, h, err));
    TARN_TRY(take_stamps(s, h + HEADER_SIZE, err));
    return split_names(s, (const char *)h + tarn__get64(h + 32), tarn__get64(h + 40),
                       err);
}

tarn_status tarn__sums_load(const char *path, tarn__sums **out, tarn_error *err)
{
    tarn__sums *s = tarn__sums_new();
    if (!s) return tarn__fail_memory(err);
    tarn_status status = tarn__contents_open(&s->contents, path, err);
    if (status == TARN_OK && !(s->path = strdup(path))) status = tarn__fail_memory(err);
    if (status == TARN_OK) status = parse(s, err);
    if (status == TARN_OK)
        *out = s;
    else
        tarn__sums_free(s);
    return status;
}

/* If pages are used from front to back, announces those after the next few, because the
 * system may read several MB at the first access to a page before it returns. */
static void read_ahead(const tarn__sums *s, tarn__part part, uint64_t page,
                       uint64_t number)
{
    enum { STEP = 16 };
    uint64_t size = s->n_rows * element[part], from = (page + STEP) * PAGE;
    if (page % STEP || page == 0 || from >= size) return;
    if (!atomic_load_explicit(&s->checked[number - 1], memory_order_relaxed)) return;
    uint64_t len = size - from < STEP * PAGE ? size - from : STEP * PAGE;
    tarn__map_will_need((const unsigned char *)s->data[part] + from, len);
}

static bool is_regular(const tarn__sums *s, tarn__part part, uint64_t at, size_t len)
{
    return part != TARN__PART_ROWS || !s->stride ||
           tarn__regular_part(s->data[part], s->stride, at / TARN__ROW_SIZE,
                              len / TARN__ROW_SIZE);
}

/* Fetches a damaged page of a copy again. TARN_END if that is not possible, because the
 * index is not a copy, or because the original is damaged as well. */
static tarn_status mend(const tarn__sums *s, tarn__part part, uint64_t at, size_t len,
                        uint32_t crc, tarn_error *err)
{
    const unsigned char *data = s->data[part];
    uint64_t start = part == TARN__PART_ROWS
                         ? s->index_size - s->n_rows * TARN__ROW_SIZE
                         : (uint64_t)(data - (unsigned char *)s->contents.data);
    if (!s->mender) return TARN_END;
    TARN_TRY(
        s->mender->mend(s->mender, part != TARN__PART_ROWS, start + at, len, crc, err));
    if (tarn__crc32c(0, data + at, len) == crc) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_STALE, s->path, TARN_NO_OFFSET,
                         "its copy in the cache was damaged, and was replaced; open the "
                         "dataset again");
}

tarn_status tarn__sums_check_page(tarn__sums *s, tarn__part part, uint64_t page,
                                  tarn_error *err)
{
    static const char *const names[TARN__PARTS] = {
        "the rows of its index", "the key order", "the member checksums"};
    uint64_t number = page;
    TARN__KNOWN(part < TARN__PARTS);
    for (int before = 0; before < (int)part; before++)
        number += tarn__sums_page_count(s, (tarn__part)before);
    if (atomic_load_explicit(&s->checked[number], memory_order_relaxed)) return TARN_OK;
    uint64_t size = s->n_rows * element[part], at = page * PAGE;
    read_ahead(s, part, page, number);
    size_t len = size - at < PAGE ? (size_t)(size - at) : PAGE;
    const unsigned char *data = s->data[part];
    bool good = tarn__crc32c(0, data + at, len) == s->pages[number];
    if (!good) {
        tarn_status status = mend(s, part, at, len, s->pages[number], err);
        if (status != TARN_OK && status != TARN_END) return status;
        good = status == TARN_OK;
    }
    if (!good || !is_regular(s, part, at, len))
        return tarn__fail_at(
            err, TARN_ERR_FORMAT, s->path, TARN_NO_OFFSET,
            "%s: damaged in page %llu, or changed since; run tarn index again",
            names[part], (unsigned long long)page);
    atomic_store_explicit(&s->checked[number], 1, memory_order_relaxed);
    return TARN_OK;
}

tarn_status tarn__sums_check_all(tarn__sums *s, tarn__part part, tarn_error *err)
{
    if (!s || !s->checked) return TARN_OK;
    uint64_t pages = tarn__sums_page_count(s, part);
    for (uint64_t i = 0; i < pages; i++)
        TARN_TRY(tarn__sums_check_page(s, part, i, err));
    return TARN_OK;
}
