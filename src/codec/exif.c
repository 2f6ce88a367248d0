/* Finds the orientation in an image's EXIF data, and turns pixels upright. Every offset
 * comes from the file and is checked. EXIF data that cannot be read is ignored, as in
 * other programs: it is not needed to decode the pixels. */
#include <string.h>

#include "codec/codec.h"
#include "codec/pixels.h"

enum { ORIENTATION = 0x0112, TYPE_SHORT = 3, TYPE_LONG = 4, ENTRY_SIZE = 12 };

/* Some bytes of the file; size 0 if there are none. */
typedef struct span {
    const unsigned char *data;
    size_t size;
} span;

static uint32_t number(const unsigned char *p, unsigned bytes, bool big)
{
    uint32_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value |= (uint32_t)p[i] << 8 * (big ? bytes - 1 - i : i);
    return value;
}

/* --- The TIFF data ------------------------------------------------------------------ */

/* The value of an entry of the directory if it is an orientation, otherwise 0. */
static unsigned entry_orientation(const unsigned char *entry, bool big)
{
    uint32_t type = number(entry + 2, 2, big), value = 0;
    if (number(entry, 2, big) != ORIENTATION || number(entry + 4, 4, big) != 1) return 0;
    if (type == TYPE_SHORT) value = number(entry + 8, 2, big);
    if (type == TYPE_LONG) value = number(entry + 8, 4, big);
    return value >= 1 && value <= 8 ? value : 0;
}

static unsigned tiff_orientation(span tiff)
{
    enum { HEAD = 8 };
    const unsigned char *p = tiff.data;
    if (tiff.size < HEAD) return 1;
    bool big = memcmp(p, "MM\0\x2a", 4) == 0;
    if (!big && memcmp(p, "II\x2a\0", 4) != 0) return 1;
    size_t at = number(p + 4, 4, big);
    if (at > tiff.size - 2) return 1;
    size_t entries = number(p + at, 2, big);
    unsigned found = 1;
    for (at += 2; entries && tiff.size - at >= ENTRY_SIZE; at += ENTRY_SIZE, entries--) {
        unsigned value = entry_orientation(p + at, big);
        if (value) found = value;
    }
    return found;
}

/* --- Where the formats keep it ------------------------------------------------------ */

static span skip_name(span found)
{
    static const char name[] = "Exif\0";
    if (found.size < sizeof name || memcmp(found.data, name, sizeof name) != 0)
        return found;
    return (span){found.data + sizeof name, found.size - sizeof name};
}

/* The first EXIF segment before the pixels. */
static span find_in_jpeg(span file)
{
    enum { APP1 = 0xe1, SOS = 0xda, LENGTH = 2, EXIF_NAME = 6 };
    size_t at = 2;
    while (file.size - at >= 2 + LENGTH && file.data[at] == 0xff) {
        unsigned marker = file.data[at + 1];
        if (marker == 0xff) { /* a byte of padding */
            at++;
            continue;
        }
        size_t length = number(file.data + at + 2, 2, true);
        if (marker == SOS || length < LENGTH || length > file.size - at - 2) break;
        span body = {file.data + at + 2 + LENGTH, length - LENGTH};
        if (marker == APP1 && body.size > EXIF_NAME &&
            memcmp(body.data, "Exif\0\0", EXIF_NAME) == 0)
            return body;
        at += 2 + length;
    }
    return (span){NULL, 0};
}

/* The chunk with this name. In PNG the length is before the name and a checksum after the
 * data; in WebP the length follows the name, and odd lengths are padded. */
static span find_chunk(span file, size_t at, const char *name, bool png)
{
    enum { HEAD = 8, CHECKSUM = 4 };
    while (at <= file.size && file.size - at >= HEAD) {
        const unsigned char *p = file.data + at;
        size_t size = number(png ? p : p + 4, 4, png), left = file.size - at - HEAD;
        if (size > left) break;
        if (memcmp(png ? p + 4 : p, name, 4) == 0) return (span){p + HEAD, size};
        at += HEAD + size + (png ? CHECKSUM : size % 2);
    }
    return (span){NULL, 0};
}

unsigned tarn__exif_orientation(const void *data, size_t size)
{
    enum { PNG_CHUNKS = 8, RIFF_CHUNKS = 12 };
    span file = {data, size}, found = {NULL, 0};
    switch (tarn__image_format(data, size)) {
    case TARN_IMAGE_JPEG:
        found = find_in_jpeg(file);
        break;
    case TARN_IMAGE_PNG:
        found = find_chunk(file, PNG_CHUNKS, "eXIf", true);
        break;
    case TARN_IMAGE_WEBP:
        found = find_chunk(file, RIFF_CHUNKS, "EXIF", false);
        break;
    case TARN_IMAGE_PPM:
    case TARN_IMAGE_JXL: /* turned by libjxl */
        break;
    }
    return tiff_orientation(skip_name(found));
}

/* --- Turning ------------------------------------------------------------------------ */

/* An upright image is the stored one with its sides exchanged (5 to 8), and then read
 * from the right or from below. */
static bool from_right(unsigned orientation)
{
    return orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
}

static bool from_below(unsigned orientation)
{
    return orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
}

void tarn__exif_turn_size(unsigned orientation, uint32_t *width, uint32_t *height)
{
    uint32_t had = *width;
    if (orientation < 5) return;
    *width = *height;
    *height = had;
}

void tarn__exif_shift(unsigned orientation, uint32_t over_x, uint32_t over_y,
                      uint32_t *left, uint32_t *top)
{
    if (from_right(orientation)) *left += over_x;
    if (from_below(orientation)) *top += over_y;
}

tarn__area tarn__exif_stored_area(unsigned orientation, uint32_t width, uint32_t height,
                                  const tarn__area *upright)
{
    tarn__area a = *upright;
    if (from_right(orientation)) {
        a.left = width - upright->right;
        a.right = width - upright->left;
    }
    if (from_below(orientation)) {
        a.top = height - upright->bottom;
        a.bottom = height - upright->top;
    }
    return orientation < 5 ? a : (tarn__area){a.top, a.left, a.bottom, a.right};
}

void tarn__exif_turn(unsigned orientation, const tarn__image *from, const tarn__image *to)
{
    size_t n = to->channels;
    ptrdiff_t right = (ptrdiff_t)n, down = (ptrdiff_t)from->stride;
    if (orientation >= 5) {
        right = (ptrdiff_t)from->stride;
        down = (ptrdiff_t)n;
    }
    const unsigned char *corner = from->data;
    if (from_right(orientation)) {
        corner += (ptrdiff_t)(to->width - 1) * right;
        right = -right;
    }
    if (from_below(orientation)) {
        corner += (ptrdiff_t)(to->height - 1) * down;
        down = -down;
    }
    for (uint32_t y = 0; y < to->height; y++) {
        const unsigned char *p = corner + (ptrdiff_t)y * down;
        unsigned char *out = to->data + y * to->stride;
        for (uint32_t x = 0; x < to->width; x++, p += right, out += n)
            for (size_t c = 0; c < n; c++)
                out[c] = p[c];
    }
}
