/* Decodes a header block. The numeric fields of nearly every archive have the same form
 * (digits up to the last byte, then NUL), which a few vector comparisons recognise. All
 * other blocks take the general path, which alone decides what is accepted. */
#include "tar/header.h"

#include <string.h>

#include "base/bytes.h"
#include "base/error.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

enum {
    NAME_AT = 0,
    NAME_LEN = TARN__NAME_SIZE,
    MODE_AT = 100,
    UID_AT = 108,
    GID_AT = 116,
    SHORT_LEN = 8,
    SIZE_AT = 124,
    SIZE_LEN = 12,
    MTIME_AT = 136,
    SUM_AT = 148,
    SUM_LEN = 8,
    MAGIC_AT = 257,
    MAJOR_AT = 329,
    MINOR_AT = 337,
    PREFIX_AT = TARN__PREFIX_AT,
    PREFIX_LEN = 155,
    SPARSE_AT = 386, /* the sparse map and real size of old GNU headers */
    SPARSE_LEN = 495 - SPARSE_AT
};

static bool parse_octal(const unsigned char *field, size_t len, uint64_t *out)
{
    uint64_t value = 0;
    size_t i = 0;
    while (i < len && field[i] == ' ')
        i++;
    /* GNU tar rejects a field that has only blanks and no NUL. */
    if (i == len) return false;
    for (; i < len && field[i] >= '0' && field[i] <= '7'; i++)
        value = value << 3 | (uint64_t)(field[i] - '0');
    for (; i < len; i++)
        if (field[i] != ' ' && field[i] != 0) return false;
    *out = value;
    return true;
}

static bool parse_base256(const unsigned char *field, size_t len, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 1; i < len; i++) {
        if (value >> 55) return false;
        value = value << 8 | field[i];
    }
    *out = value;
    return true;
}

bool tarn__header_number(const unsigned char *field, size_t len, uint64_t *out)
{
    return field[0] == 0x80 ? parse_base256(field, len, out)
                            : parse_octal(field, len, out);
}

int64_t tarn__header_time(const unsigned char *block)
{
    const unsigned char *field = block + MTIME_AT;
    uint64_t value = 0;
    if (field[0] == 0xff) { /* before 1970: two's complement in the low eight bytes */
        for (size_t i = SIZE_LEN - 8; i < SIZE_LEN; i++)
            value = value << 8 | field[i];
        return (int64_t)value;
    }
    return tarn__header_number(field, SIZE_LEN, &value) ? (int64_t)value : 0;
}

uint32_t tarn__header_mode(const unsigned char *block)
{
    uint64_t value;
    return tarn__header_number(block + MODE_AT, SHORT_LEN, &value) ? value & 07777 : 0;
}

static bool is_blank(const unsigned char *field, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (field[i] != ' ' && field[i] != 0) return false;
    return true;
}

/* The sum of all bytes of the block, including its own checksum field. */
#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2")))

AVX2 static __m256i sad32(const unsigned char *p)
{
    __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)p);
    return _mm256_sad_epu8(v, _mm256_setzero_si256());
}

AVX2 static unsigned sum_avx2(const unsigned char *block)
{
    __m256i a = _mm256_setzero_si256(), b = a;
    for (size_t i = 0; i < TARN__BLOCK; i += 128) {
        a = _mm256_add_epi64(a,
                             _mm256_add_epi64(sad32(block + i), sad32(block + i + 32)));
        b = _mm256_add_epi64(
            b, _mm256_add_epi64(sad32(block + i + 64), sad32(block + i + 96)));
    }
    a = _mm256_add_epi64(a, b);
    __m128i c = _mm_add_epi64(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    c = _mm_add_epi64(c, _mm_unpackhi_epi64(c, c));
    return (unsigned)_mm_cvtsi128_si32(c);
}
#endif

static unsigned sum_bytes(const unsigned char *block)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) return sum_avx2(block);
#endif
    unsigned sum = 0;
    for (size_t i = 0; i < TARN__BLOCK; i++)
        sum += block[i];
    return sum;
}

/* The checksum counts its own field as eight blanks. */
static unsigned expected_sum(const unsigned char *block)
{
    uint64_t own = tarn__get64(block + SUM_AT), even = own & UINT64_C(0x00ff00ff00ff00ff);
    uint64_t odd = own >> 8 & UINT64_C(0x00ff00ff00ff00ff);
    own = (even + odd) * UINT64_C(0x0001000100010001) >> 48; /* the sum of its eight
                                                                bytes */
    return sum_bytes(block) - (unsigned)own + ' ' * SUM_LEN;
}

/* Some old programs summed the bytes as signed chars. */
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
           parse_octal(block + SUM_AT, SUM_LEN, &stored) && sum_is(block, stored);
}

#if defined(__SSE2__)
/* D: a digit, E: the NUL or blank that ends a field. Masking with F8 gives 30 only for a
 * digit, and masking with DF gives 0 only for an end. */
#define D_MASK       0xf8
#define E_MASK       0xdf
#define D_LEFT       0x30
#define E_LEFT       0x00
#define SEVEN(D, E)  D, D, D, D, D, D, D, E
#define ELEVEN(D, E) D, D, D, D, D, D, D, D, D, D, D, E
#define NUMBERS(D, E)                                                                    \
    {                                                                                    \
        SEVEN(D, E), SEVEN(D, E), SEVEN(D, E), ELEVEN(D, E), ELEVEN(D, E), D, D, D, D,   \
            D, D, E, E                                                                   \
    }

enum { NUMBERS_LEN = SUM_AT + SUM_LEN - MODE_AT }; /* from mode to checksum */

static __m128i load_vector(const unsigned char *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

/* Whether mode, owner, group, size, time and checksum are digits up to their last byte
 * (the checksum up to its last two), and the device numbers are zero or missing. */
static bool has_usual_numbers(const unsigned char *block)
{
    static const unsigned char mask[NUMBERS_LEN] = NUMBERS(D_MASK, E_MASK);
    static const unsigned char left[NUMBERS_LEN] = NUMBERS(D_LEFT, E_LEFT);
    /* Four vectors; the last overlaps the third. */
    static const unsigned char at[4] = {0, 16, 32, NUMBERS_LEN - 16};
    __m128i device = load_vector(block + MAJOR_AT), zero = _mm_setzero_si128();
    const __m128i digits = load_vector((const unsigned char *)"0000000\0"
                                                              "0000000\0");
    __m128i good =
        _mm_or_si128(_mm_cmpeq_epi8(device, zero), _mm_cmpeq_epi8(device, digits));
    for (int i = 0; i < 4; i++) {
        __m128i v = _mm_and_si128(load_vector(block + MODE_AT + at[i]),
                                  load_vector(mask + at[i]));
        good = _mm_and_si128(good, _mm_cmpeq_epi8(v, load_vector(left + at[i])));
    }
    return _mm_movemask_epi8(good) == 0xffff;
}

/* The length of the text in a field of at least 16 bytes that need not end with a NUL. */
static size_t text_length(const unsigned char *field, size_t len)
{
    const __m128i zero = _mm_setzero_si128();
    for (size_t i = 0; i + 16 <= len; i += 16) {
        int nuls = _mm_movemask_epi8(_mm_cmpeq_epi8(load_vector(field + i), zero));
        if (nuls) return i + (size_t)__builtin_ctz((unsigned)nuls);
    }
    int nuls = _mm_movemask_epi8(_mm_cmpeq_epi8(load_vector(field + len - 16), zero));
    return nuls ? len - 16 + (size_t)__builtin_ctz((unsigned)nuls) : len;
}
#else
static bool has_usual_numbers(const unsigned char *block)
{
    (void)block;
    return false;
}

static size_t text_length(const unsigned char *field, size_t len)
{
    const unsigned char *nul = memchr(field, 0, len);
    return nul ? (size_t)(nul - field) : len;
}
#endif

/* Converts eight octal digits at once, the first in the lowest byte: in pairs, fours,
 * then all. */
static uint64_t octal8(uint64_t digits)
{
    digits &= UINT64_C(0x0707070707070707);
    digits = (digits << 3 | digits >> 8) & UINT64_C(0x003f003f003f003f);
    digits = (digits << 6 | digits >> 16) & UINT64_C(0x00000fff00000fff);
    return (digits << 12 | digits >> 32) & UINT64_C(0xffffff);
}

/* The size and the checksum of a header whose numbers have the usual form. */
static uint64_t usual_size(const unsigned char *block)
{
    const unsigned char *d = block + SIZE_AT;
    uint64_t high = (d[0] & 7u) << 6 | (d[1] & 7u) << 3 | (d[2] & 7u);
    return high << 24 | octal8(tarn__get64(d + 3));
}

static uint64_t usual_sum(const unsigned char *block)
{
    return octal8(tarn__get64(block + SUM_AT) << 16);
}

/* Fields that this library does not use still decide whether every program can read the
 * header. All programs accept a time before 1970 (base-256, negative). */
static bool is_tolerable(const unsigned char *field, size_t len, bool may_be_negative)
{
    uint64_t ignored;
    if (field[0] == 0xff) return may_be_negative;
    return field[0] == 0x80 || tarn__header_number(field, len, &ignored);
}

static tarn_status check_fields(const unsigned char *block, tarn_error *err)
{
    static const struct {
        const char *name;
        unsigned short at, len;
    } fields[] = {{"mode", MODE_AT, SHORT_LEN},    {"owner", UID_AT, SHORT_LEN},
                  {"group", GID_AT, SHORT_LEN},    {"time", MTIME_AT, SIZE_LEN},
                  {"device", MAJOR_AT, SHORT_LEN}, {"device", MINOR_AT, SHORT_LEN}};
    bool is_device = block[TARN__TYPE_AT] == '3' || block[TARN__TYPE_AT] == '4';
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const unsigned char *field = block + fields[i].at;
        if (fields[i].at >= MAJOR_AT && !is_device && is_blank(field, SHORT_LEN))
            continue;
        if (!is_tolerable(field, fields[i].len, fields[i].at == MTIME_AT))
            return tarn__fail(err, TARN_ERR_FORMAT, "the %s field is not a number",
                              fields[i].name);
    }
    return TARN_OK;
}

static tarn_status fail_size(const unsigned char *block, tarn_error *err)
{
    return tarn__fail(err, TARN_ERR_FORMAT, "the size field is not a valid number: %s",
                      TARN__SHOW((const char *)block + SIZE_AT, SIZE_LEN));
}

static tarn_status parse_numbers(const unsigned char *block, uint64_t *out_size,
                                 tarn_error *err)
{
    uint64_t sum;
    if (has_usual_numbers(block)) {
        *out_size = usual_size(block);
        sum = usual_sum(block);
    } else {
        if (is_blank(block + SUM_AT, SUM_LEN) ||
            !parse_octal(block + SUM_AT, SUM_LEN, &sum))
            return tarn__fail(err, TARN_ERR_FORMAT,
                              "not a tar header: the checksum field is not a number%s",
                              block[0] == '<' ? TARN__WEB_PAGE : "");
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

static tarn_status parse_name(const unsigned char *block, tarn__header *out,
                              tarn_error *err)
{
    out->name = (const char *)block + NAME_AT;
    out->name_len = text_length(block + NAME_AT, NAME_LEN);
    out->prefix = (const char *)block + PREFIX_AT;
    out->prefix_len = 0;
    if (memcmp(block + MAGIC_AT, "ustar  ", 8) == 0 &&
        tarn__zero_span(block + SPARSE_AT, SPARSE_LEN) < SPARSE_LEN)
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "sparse fields in a member of another type: tar programs "
                          "disagree about its bytes");
    if (block[PREFIX_AT] == 0) return TARN_OK;
    out->prefix_len = text_length(block + PREFIX_AT, PREFIX_LEN);
    if (memcmp(block + MAGIC_AT, "ustar\0", 6) == 0 && out->name_len > 0 &&
        block[PREFIX_AT + out->prefix_len - 1] != '/')
        return TARN_OK;
    return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                      "a prefix without the ustar magic or a name, or one that ends in a "
                      "slash: tar programs disagree about this member's name");
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
                          "sparse members are not supported; create the archive "
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
    out->type = (char)block[TARN__TYPE_AT];
    out->kind = TARN__REGULAR;
    if (out->type != '0') TARN_TRY(kind_of(out->type, &out->kind, err));
    return parse_name(block, out, err);
}

bool tarn__block_is_zero(const unsigned char *block)
{
    return block[0] == 0 && tarn__zero_span(block, TARN__BLOCK) == TARN__BLOCK;
}
