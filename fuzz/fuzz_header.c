/* One header block, then the records of a pax header: 512 bytes and the rest. */
#include "common.h"

#include "tar/header.h"
#include "tar/pax.h"

static int is_inside(const char *p, size_t len, const unsigned char *from, size_t size)
{
    const unsigned char *at = (const unsigned char *)p;
    return at >= from && len <= size && (size_t)(at - from) <= size - len;
}

static void check_header(const unsigned char *block)
{
    tarn__header h;
    tarn_error err;
    uint64_t size;
    if (tarn__header_parse(block, &h, &err) != TARN_OK) {
        CHECK(err.code > TARN_END && memchr(err.message, 0, sizeof err.message));
        return;
    }
    CHECK(tarn__header_sum_matches(block));
    CHECK(h.size < TARN_MAX_MEMBER_SIZE);
    CHECK(tarn__header_number(block + 124, 12, &size) && size == h.size);
    CHECK(h.type == (char)block[156] && h.kind <= TARN__GNU_LINK);
    CHECK(is_inside(h.name, h.name_len, block, 100) && !memchr(h.name, 0, h.name_len));
    CHECK(is_inside(h.prefix, h.prefix_len, block + 345, 155));
    CHECK(!memchr(h.prefix, 0, h.prefix_len));
    CHECK(h.prefix_len == 0 || memcmp(block + 257, "ustar", 5) == 0);
}

/* Parsed as it is, and with a correct checksum, so that the code after the check is
 * reached. */
static void try_header(const uint8_t *data)
{
    unsigned char *block = exact_copy(data, TARN__BLOCK);
    check_header(block);
    CHECK(tarn__block_is_zero(block) == (tarn__zero_span(block, TARN__BLOCK) == 512));
    fix_tar_checksum(block);
    check_header(block);
    free(block);
}

static void try_pax(const uint8_t *data, size_t size)
{
    tarn__pax pax;
    tarn_error err;
    char *records = exact_copy(data, size);
    const unsigned char *from = (const unsigned char *)records;
    if (tarn__pax_parse(records, size, &pax, &err) == TARN_OK) {
        CHECK(!pax.has_size || pax.size < TARN_MAX_MEMBER_SIZE);
        CHECK(!pax.has_mtime || pax.mtime_ns < 1000000000);
        CHECK(!pax.path || is_inside(pax.path, pax.path_len, from, size));
        CHECK(!pax.path || (pax.path_len > 0 && pax.path_len <= TARN_MAX_NAME));
        CHECK(!pax.path || !memchr(pax.path, 0, pax.path_len));
        CHECK(size == 0 || records[size - 1] == '\n');
    }
    free(records);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < TARN__BLOCK) {
        try_pax(data, size);
        return 0;
    }
    try_header(data);
    try_pax(data + TARN__BLOCK, size - TARN__BLOCK);
    return 0;
}
