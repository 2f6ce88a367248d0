/* Decoding a header block. The numeric fields of nearly every archive look alike (digits
 * to the last byte, then NUL), so that shape is recognised with a few vector compares;
 * all others take the general path, which decides alone what is accepted. */
#include "tar/header.h"

#include <string.h>

#include "base/bytes.h"
#include "base/error.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum {
    NAME_AT = 0,
    NAME_LEN = 100,
    MODE_AT = 100,
    UID_AT = 108,
    GID_AT = 116,
    SHORT_LEN = 8,
    SIZE_AT = 124,
    SIZE_LEN = 12,
    MTIME_AT = 136,
    SUM_AT = 148,
    SUM_LEN = 8,
    TYPE_AT = 156,
    MAGIC_AT = 257,
    MAJOR_AT = 329,
    MINOR_AT = 337,
    PREFIX_AT = 345,
    PREFIX_LEN = 155
};

bool tarn__header_number(const unsigned char *field, size_t len, uint64_t *out)
{
    uint64_t value = 0;
    size_t i = 0;
    if (field[0] == 0x80) {
        for (i = 1; i < len; i++) {
            if (value >> 55) return false;
            value = value << 8 | field[i];
        }
        *out = value;
        return true;
    }
    while (i < len && field[i] == ' ')
        i++;
    for (; i < len && field[i] >= '0' && field[i] <= '7'; i++)
        value = value << 3 | (uint64_t)(field[i] - '0');
    for (; i < len; i++)
        if (field[i] != ' ' && field[i] != 0) return false;
    *out = value;
    return true;
}

static bool is_blank(const unsigned char *field, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (field[i] != ' ' && field[i] != 0) return false;
    return true;
}

static unsigned unsigned_sum(const unsigned char *block)
{
#if defined(__SSE2__)
    __m128i zero = _mm_setzero_si128(), a = zero, b = zero;
    for (size_t i = 0; i < TARN__BLOCK; i += 32) {
        const __m128i *p = (const __m128i *)(const void *)(block + i);
        a = _mm_add_epi64(a, _mm_sad_epu8(_mm_loadu_si128(p), zero));
        b = _mm_add_epi64(b, _mm_sad_epu8(_mm_loadu_si128(p + 1), zero));
    }
    a = _mm_add_epi64(a, b);
    a = _mm_add_epi64(a, _mm_unpackhi_epi64(a, a));
    return (unsigned)_mm_cvtsi128_si32(a);
#else
    unsigned sum = 0;
    for (size_t i = 0; i < TARN__BLOCK; i++)
        sum += block[i];
    return sum;
#endif
}

/* The checksum counts its own field as eight blanks. */
static unsigned expected_sum(const unsigned char *block)
{
    unsigned sum = unsigned_sum(block) + ' ' * SUM_LEN;
    for (size_t i = 0; i < SUM_LEN; i++)
        sum -= block[SUM_AT + i];
    return sum;
}

/* Some old programs added the bytes up as signed chars. */
static unsigned expected_signed_sum(const unsigned char *block)
{
    int sum = ' ' * SUM_LEN;
    for (size_t i = 0; i < TARN__BLOCK; i++)
        if (i < SUM_AT || i >= SUM_AT + SUM_LEN) sum += (signed char)block[i];
    return (unsigned)sum;
}

static bool sum_is(const unsigned char *block, uint64_t stored)
{
    return stored == expected_sum(block) || stored == expected_signed_sum(block);
}

bool tarn__header_sum_matches(const unsigned char *block)
{
    uint64_t stored;
    return !is_blank(block + SUM_AT, SUM_LEN) &&
           tarn__header_number(block + SUM_AT, SUM_LEN, &stored) && sum_is(block, stored);
}

bool tarn__header_has_magic(const unsigned char *block)
{
    return memcmp(block + MAGIC_AT, "ustar\0", 6) == 0 ||
           memcmp(block + MAGIC_AT, "ustar  ", 8) == 0;
}

#if defined(__SSE2__)
/* Digits in mode, uid, gid, size, mtime up to their last byte and in the first six of the
 * checksum, as bits from byte 100 on. */
#define USUAL_DIGITS                                                                     \
    (UINT64_C(0x7f) | UINT64_C(0x7f) << 8 | UINT64_C(0x7f) << 16 |                       \
     UINT64_C(0x7ff) << 24 | UINT64_C(0x7ff) << 36 | UINT64_C(0x3f) << 48)
#define FIELD_BITS ((UINT64_C(1) << 56) - 1)

static bool has_usual_numbers(const unsigned char *block)
{
    const __m128i high = _mm_set1_epi8((char)0xf8), zero = _mm_set1_epi8('0');
    const __m128i nul = _mm_setzero_si128(), blank = _mm_set1_epi8(' ');
    uint64_t digits = 0, ends = 0;
    for (int i = 0; i < 4; i++) {
        __m128i v =
            _mm_loadu_si128((const __m128i *)(const void *)(block + MODE_AT + 16 * i));
        __m128i d = _mm_cmpeq_epi8(_mm_and_si128(v, high), zero);
        __m128i e = _mm_or_si128(_mm_cmpeq_epi8(v, nul), _mm_cmpeq_epi8(v, blank));
        digits |= (uint64_t)(unsigned)_mm_movemask_epi8(d) << (16 * i);
        ends |= (uint64_t)(unsigned)_mm_movemask_epi8(e) << (16 * i);
    }
    return (digits & FIELD_BITS) == USUAL_DIGITS &&
           ((digits | ends) & FIELD_BITS) == FIELD_BITS;
}
#else
static bool has_usual_numbers(const unsigned char *block)
{
    (void)block;
    return false;
}
#endif

/* Both device fields zero, written as NULs or as digits. */
static bool has_usual_device(const unsigned char *block)
{
    uint64_t major = tarn__get64(block + MAJOR_AT), minor = tarn__get64(block + MINOR_AT);
    uint64_t zeros = tarn__get64("0000000");
    return major == minor && (major == 0 || major == zeros);
}

static uint64_t octal(const unsigned char *digits, int count)
{
    uint64_t value = 0;
    for (int i = 0; i < count; i++)
        value = value << 3 | (digits[i] & 7u);
    return value;
}

/* Fields this library makes nothing of still decide whether every program can read the
 * header. A negative base-256 time or owner is fine with all of them. */
static bool is_tolerable(const unsigned char *field, size_t len)
{
    uint64_t ignored;
    return field[0] == 0xff || field[0] == 0x80 ||
           tarn__header_number(field, len, &ignored);
}

static tarn_status check_fields(const unsigned char *block, tarn_error *err)
{
    static const struct {
        const char *name;
        unsigned short at, len;
    } fields[] = {{"mode", MODE_AT, SHORT_LEN},    {"owner", UID_AT, SHORT_LEN},
                  {"group", GID_AT, SHORT_LEN},    {"time", MTIME_AT, SIZE_LEN},
                  {"device", MAJOR_AT, SHORT_LEN}, {"device", MINOR_AT, SHORT_LEN}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (!is_tolerable(block + fields[i].at, fields[i].len))
            return tarn__fail(err, TARN_ERR_FORMAT, "the %s field is not a number",
                              fields[i].name);
    return TARN_OK;
}

static tarn_status fail_size(const unsigned char *block, tarn_error *err)
{
    char shown[64];
    tarn__printable(shown, sizeof shown, (const char *)block + SIZE_AT, SIZE_LEN);
    return tarn__fail(err, TARN_ERR_FORMAT, "the size field is no acceptable number: %s",
                      shown);
}

static tarn_status parse_numbers(const unsigned char *block, uint64_t *out_size,
                                 tarn_error *err)
{
    uint64_t sum;
    if (has_usual_numbers(block) && has_usual_device(block)) {
        *out_size = octal(block + SIZE_AT, SIZE_LEN - 1);
        sum = octal(block + SUM_AT, 6);
    } else {
        if (is_blank(block + SUM_AT, SUM_LEN) ||
            !tarn__header_number(block + SUM_AT, SUM_LEN, &sum))
            return tarn__fail(err, TARN_ERR_FORMAT,
                              "not a tar header: its checksum field is not a number");
        if (!sum_is(block, sum)) goto mismatch;
        TARN_TRY(check_fields(block, err));
        if (!tarn__header_number(block + SIZE_AT, SIZE_LEN, out_size))
            return fail_size(block, err);
    }
    if (*out_size >= TARN_MAX_MEMBER_SIZE) return fail_size(block, err);
    if (sum_is(block, sum)) return TARN_OK;
mismatch:
    return tarn__fail(err, TARN_ERR_FORMAT,
                      "header checksum does not match (stored %06llo, computed %06o)",
                      (unsigned long long)sum, expected_sum(block));
}

static size_t text_length(const unsigned char *field, size_t len)
{
    const unsigned char *nul = memchr(field, 0, len);
    return nul ? (size_t)(nul - field) : len;
}

static tarn_status parse_name(const unsigned char *block, tarn__header *out,
                              tarn_error *err)
{
    out->name = (const char *)block + NAME_AT;
    out->name_len = text_length(block + NAME_AT, NAME_LEN);
    out->prefix = (const char *)block + PREFIX_AT;
    out->prefix_len = 0;
    if (block[PREFIX_AT] == 0) return TARN_OK;
    if (memcmp(block + MAGIC_AT, "ustar\0", 6) != 0)
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "bytes in the prefix field without the ustar magic: tar "
                          "programs disagree about this member's name");
    out->prefix_len = text_length(block + PREFIX_AT, PREFIX_LEN);
    return TARN_OK;
}

static tarn_status kind_of(char type, tarn__kind *out, tarn_error *err)
{
    switch (type) {
    case '0':
    case '\0':
    case '7':
        *out = TARN__REGULAR;
        return TARN_OK;
    case '1':
    case '2':
        *out = TARN__LINK;
        return TARN_OK;
    case '3':
    case '4':
    case '6':
        *out = TARN__DEVICE;
        return TARN_OK;
    case '5':
        *out = TARN__DIRECTORY;
        return TARN_OK;
    case 'x':
        *out = TARN__PAX;
        return TARN_OK;
    case 'g':
        *out = TARN__PAX_GLOBAL;
        return TARN_OK;
    case 'L':
        *out = TARN__GNU_NAME;
        return TARN_OK;
    case 'K':
        *out = TARN__GNU_LINK;
        return TARN_OK;
    case 'S':
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "sparse member: its bytes are not stored as they are; pack it "
                          "without --sparse");
    default:
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "member of unknown type 0x%02x: tar programs disagree about it",
                          (unsigned char)type);
    }
}

tarn_status tarn__header_parse(const unsigned char *block, tarn__header *out,
                               tarn_error *err)
{
    TARN_TRY(parse_numbers(block, &out->size, err));
    out->type = (char)block[TYPE_AT];
    TARN_TRY(kind_of(out->type, &out->kind, err));
    return parse_name(block, out, err);
}

size_t tarn__zero_span(const unsigned char *data, size_t len)
{
    size_t i = 0;
    while (i + 8 <= len && tarn__get64(data + i) == 0)
        i += 8;
    while (i < len && data[i] == 0)
        i++;
    return i;
}

bool tarn__block_is_zero(const unsigned char *block)
{
    return block[0] == 0 && tarn__zero_span(block, TARN__BLOCK) == TARN__BLOCK;
}
