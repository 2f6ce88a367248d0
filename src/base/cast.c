/* The casts: one kernel for each pair of numeric types, made from two rows of macros
 * (sources that are integers, sources that have a fraction), and byte order around them.
 * Kernels see native byte order only. */
#include "base/cast.h"

#include <string.h>

#include "base/array.h"
#include "base/error.h"

/* --- Half precision --------------------------------------------------------------- */

static uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint64_t double_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

enum { HALF_INFINITY = 0x7c00, HALF_SIGN = 0x8000 };

/* The upper bits of a NaN's payload stay; one that loses all of them stays a NaN. */
static uint16_t half_nan(unsigned sign, unsigned payload)
{
    return (uint16_t)(sign | HALF_INFINITY | (payload ? payload : 1));
}

uint16_t tarn__half_from_float(float value)
{
    uint32_t bits = float_bits(value), magnitude = bits & 0x7fffffff;
    unsigned sign = bits >> 16 & HALF_SIGN;
    if (magnitude > 0x7f800000) return half_nan(sign, magnitude >> 13 & 0x3ff);
    if (magnitude >= float_bits(65536.0f)) return (uint16_t)(sign | HALF_INFINITY);
    /* Added to 0.5, a number below 2^-14 has its last bit where a subnormal half has it,
     * and the addition rounds. */
    if (magnitude < float_bits(0x1p-14f))
        return (uint16_t)(sign |
                          (float_bits(float_of(magnitude) + 0.5f) - float_bits(0.5f)));
    magnitude += 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | (magnitude - (112u << 23)) >> 13);
}

static uint16_t half_from_double(double value)
{
    uint64_t bits = double_bits(value), magnitude = bits & INT64_MAX;
    unsigned sign = (unsigned)(bits >> 48) & HALF_SIGN;
    if (magnitude > double_bits(__builtin_inf()))
        return half_nan(sign, (unsigned)(magnitude >> 42) & 0x3ff);
    if (magnitude >= double_bits(65536.0)) return (uint16_t)(sign | HALF_INFINITY);
    if (magnitude < double_bits(0x1p-14))
        return (uint16_t)(sign | (double_bits(double_of(magnitude) + 0x1p28) -
                                  double_bits(0x1p28)));
    magnitude += (UINT64_C(1) << 41) - 1 + (magnitude >> 42 & 1);
    return (uint16_t)(sign | (magnitude - (UINT64_C(1008) << 52)) >> 42);
}

static float half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & HALF_SIGN) << 16, rest = half & 0x7fffu;
    if (rest >= HALF_INFINITY) return float_of(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    if (rest < 0x400) return float_of(sign | float_bits((float)rest * 0x1p-24f));
    return float_of(sign | ((rest << 13) + (112u << 23)));
}

static double half_to_double(uint16_t half)
{
    uint64_t sign = (uint64_t)(half & HALF_SIGN) << 48, rest = half & 0x7fffu;
    if (rest >= HALF_INFINITY)
        return double_of(sign | double_bits(__builtin_inf()) | (rest & 0x3ff) << 42);
    if (rest < 0x400) return double_of(sign | double_bits((double)rest * 0x1p-24));
    return double_of(sign | ((rest << 42) + (UINT64_C(1008) << 52)));
}

/* --- Floats to integers ----------------------------------------------------------- */

/* What the machine's cvttsd2si gives: the smallest integer for all that does not fit. */
static int32_t to_i32(double x)
{
    return x > -2147483649.0 && x < 2147483648.0 ? (int32_t)x : INT32_MIN;
}

static int64_t to_i64(double x)
{
    return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
}

/* Two signed ranges side by side, so 2^64 and more becomes 0. */
static uint64_t to_u64(double x)
{
    const uint64_t top = UINT64_C(1) << 63;
    return x >= 0x1p63 ? (uint64_t)to_i64(x - 0x1p63) ^ top : (uint64_t)to_i64(x);
}

/* --- Kernels ---------------------------------------------------------------------- */

#define ANYWHERE __attribute__((aligned(1), may_alias))
typedef uint8_t b1;
typedef int8_t i1;
typedef uint8_t u1;
typedef int16_t i2 ANYWHERE;
typedef uint16_t u2 ANYWHERE;
typedef int32_t i4 ANYWHERE;
typedef uint32_t u4 ANYWHERE;
typedef int64_t i8 ANYWHERE;
typedef uint64_t u8 ANYWHERE;
typedef uint16_t f2 ANYWHERE;
typedef float f4 ANYWHERE;
typedef double f8 ANYWHERE;
typedef struct __attribute__((packed, may_alias)) c8 {
    float re, im;
} c8;
typedef struct __attribute__((packed, may_alias)) c16 {
    double re, im;
} c16;

#define KERNEL(s, d, result)                                                             \
    static void s##_to_##d(void *to, const void *from, size_t count)                     \
    {                                                                                    \
        d *restrict out = to;                                                            \
        const s *restrict in = from;                                                     \
        for (size_t k = 0; k < count; k++) {                                             \
            const s v = in[k];                                                           \
            out[k] = result;                                                             \
        }                                                                                \
    }

/* x is the value as a C integer. */
#define INTEGER_ROW(s, x)                                                                \
    KERNEL(s, b1, (b1)((x) != 0))                                                        \
    KERNEL(s, i1, (i1)(x))                                                               \
    KERNEL(s, u1, (u1)(x))                                                               \
    KERNEL(s, i2, (int16_t)(x))                                                          \
    KERNEL(s, u2, (uint16_t)(x))                                                         \
    KERNEL(s, i4, (int32_t)(x))                                                          \
    KERNEL(s, u4, (uint32_t)(x))                                                         \
    KERNEL(s, i8, (int64_t)(x))                                                          \
    KERNEL(s, u8, (uint64_t)(x))                                                         \
    KERNEL(s, f2, tarn__half_from_float((float)(x)))                                     \
    KERNEL(s, f4, (float)(x))                                                            \
    KERNEL(s, f8, (double)(x))                                                           \
    KERNEL(s, c8, ((c8){(float)(x), 0}))                                                 \
    KERNEL(s, c16, ((c16){(double)(x), 0}))

/* x is the real part as a float or double; the others say how it becomes a half, what
 * counts as true, and the value as float, double and the imaginary part. */
#define FRACTION_ROW(s, x, half, truth, single, wide, imag)                              \
    KERNEL(s, b1, (b1)(truth))                                                           \
    KERNEL(s, i1, (i1)to_i32(x))                                                         \
    KERNEL(s, u1, (u1)to_i32(x))                                                         \
    KERNEL(s, i2, (int16_t)to_i32(x))                                                    \
    KERNEL(s, u2, (uint16_t)to_i32(x))                                                   \
    KERNEL(s, i4, to_i32(x))                                                             \
    KERNEL(s, u4, (uint32_t)to_i64(x))                                                   \
    KERNEL(s, i8, to_i64(x))                                                             \
    KERNEL(s, u8, to_u64(x))                                                             \
    KERNEL(s, f2, half)                                                                  \
    KERNEL(s, f4, single)                                                                \
    KERNEL(s, f8, wide)                                                                  \
    KERNEL(s, c8, ((c8){single, (float)(imag)}))                                         \
    KERNEL(s, c16, ((c16){wide, (double)(imag)}))

INTEGER_ROW(b1, v != 0)
INTEGER_ROW(i1, v)
INTEGER_ROW(u1, v)
INTEGER_ROW(i2, v)
INTEGER_ROW(u2, v)
INTEGER_ROW(i4, v)
INTEGER_ROW(u4, v)
INTEGER_ROW(i8, v)
INTEGER_ROW(u8, v)
FRACTION_ROW(f2, half_to_float(v), v, (v & 0x7fff) != 0, half_to_float(v),
             half_to_double(v), 0)
FRACTION_ROW(f4, v, tarn__half_from_float(v), v != 0, v, (double)v, 0)
FRACTION_ROW(f8, v, half_from_double(v), v != 0, (float)v, v, 0)
FRACTION_ROW(c8, v.re, tarn__half_from_float(v.re), v.re != 0 || v.im != 0, v.re,
             (double)v.re, v.im)
FRACTION_ROW(c16, v.re, half_from_double(v.re), v.re != 0 || v.im != 0, (float)v.re, v.re,
             v.im)

enum { TYPES = 14 };

#define TABLE_ROW(s)                                                                     \
    {                                                                                    \
        s##_to_b1, s##_to_i1, s##_to_u1, s##_to_i2, s##_to_u2, s##_to_i4, s##_to_u4,     \
            s##_to_i8, s##_to_u8, s##_to_f2, s##_to_f4, s##_to_f8, s##_to_c8, s##_to_c16 \
    }

static const tarn__cast_kernel kernels[TYPES][TYPES] = {
    TABLE_ROW(b1), TABLE_ROW(i1), TABLE_ROW(u1), TABLE_ROW(i2), TABLE_ROW(u2),
    TABLE_ROW(i4), TABLE_ROW(u4), TABLE_ROW(i8), TABLE_ROW(u8), TABLE_ROW(f2),
    TABLE_ROW(f4), TABLE_ROW(f8), TABLE_ROW(c8), TABLE_ROW(c16)};

/* A type's place in the table, -1 for text. */
static int type_number(tarn_dtype dtype)
{
    static const char names[TYPES][4] = {"b1", "i1", "u1", "i2", "u2", "i4", "u4",
                                         "i8", "u8", "f2", "f4", "f8", "c8", "c16"};
    char text[TARN_DTYPE_TEXT_MAX];
    tarn_dtype_text(dtype, text);
    for (int i = 0; i < TYPES; i++)
        if (strcmp(text + 1, names[i]) == 0) return i;
    return -1;
}

/* --- Running ---------------------------------------------------------------------- */

tarn_status tarn__cast_init(tarn__cast *cast, tarn_dtype from, tarn_dtype to,
                            tarn_error *err)
{
    char have[TARN_DTYPE_TEXT_MAX], want[TARN_DTYPE_TEXT_MAX];
    bool same = from.kind == to.kind && from.size == to.size;
    *cast = (tarn__cast){.from = from, .to = to};
    cast->swap_from = from.order == '>';
    cast->swap_to = to.order == '>';
    if (same) return TARN_OK;
    int s = type_number(from), d = type_number(to);
    if (s < 0 || d < 0)
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "cannot write %s as %s: text is kept as it is",
                          tarn_dtype_text(from, have), tarn_dtype_text(to, want));
    cast->kernel = kernels[s][d];
    return TARN_OK;
}

static void run_kernel(const tarn__cast *cast, char *to, const char *from, size_t count)
{
    enum { BLOCK = 8192 };
    char native[BLOCK];
    size_t at_once = BLOCK / cast->from.size;
    while (count) {
        size_t n = count < at_once ? count : at_once;
        memcpy(native, from, n * cast->from.size);
        tarn__swap_bytes(native, cast->from, n);
        cast->kernel(to, native, n);
        to += n * cast->to.size;
        from += n * cast->from.size;
        count -= n;
    }
}

void tarn__cast_run(const tarn__cast *cast, void *to, const void *from, size_t count)
{
    if (!cast->kernel) {
        if (count && cast->to.size) memcpy(to, from, count * cast->to.size);
        if (cast->swap_from != cast->swap_to) tarn__swap_bytes(to, cast->to, count);
        return;
    }
    if (cast->swap_from)
        run_kernel(cast, to, from, count);
    else
        cast->kernel(to, from, count);
    if (cast->swap_to) tarn__swap_bytes(to, cast->to, count);
}
