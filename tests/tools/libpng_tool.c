/* The judge of PNGs: decodes images with libpng, as RGBA of 8 bits. Each image on
 * standard input is its size in 8 bytes and its bytes. The answer is a byte, 1 if libpng
 * accepted the image, and then width and height in 4 bytes each and the pixels. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

typedef struct bytes {
    const unsigned char *data;
    size_t left;
} bytes;

static void give(png_structp png, png_bytep out, png_size_t size)
{
    bytes *b = png_get_io_ptr(png);
    if (size > b->left) png_error(png, "end");
    memcpy(out, b->data, size);
    b->data += size;
    b->left -= size;
}

static void ignore(png_structp png, png_const_charp text)
{
    (void)png, (void)text;
}

static void jump(png_structp png, png_const_charp text)
{
    (void)text;
    png_longjmp(png, 1);
}

static unsigned char *pixels;
static png_bytep *rows;

static int read_image(png_structp png, png_infop info, uint32_t size[2])
{
    if (setjmp(png_jmpbuf(png))) return 0;
    png_read_info(png, info);
    size[0] = png_get_image_width(png, info);
    size[1] = png_get_image_height(png, info);
    png_set_expand(png);
    png_set_strip_16(png);
    png_set_gray_to_rgb(png);
    png_set_add_alpha(png, 255, PNG_FILLER_AFTER);
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
    pixels = calloc(size[1], (size_t)size[0] * 4);
    rows = malloc(size[1] * sizeof *rows);
    if (!pixels || !rows || png_get_rowbytes(png, info) != (size_t)size[0] * 4) return 0;
    for (uint32_t y = 0; y < size[1]; y++)
        rows[y] = pixels + (size_t)y * size[0] * 4;
    png_read_image(png, rows);
    png_read_end(png, info);
    return 1;
}

static void one(const unsigned char *data, size_t size)
{
    bytes b = {data, size};
    uint32_t sides[2] = {0, 0};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, jump, ignore);
    png_infop info = png_create_info_struct(png);
    png_set_read_fn(png, &b, give);
    pixels = NULL;
    rows = NULL;
    int good = read_image(png, info, sides);
    putchar(good);
    if (good) {
        fwrite(sides, 4, 2, stdout);
        fwrite(pixels, 4, (size_t)sides[0] * sides[1], stdout);
    }
    free(pixels);
    free(rows);
    png_destroy_read_struct(&png, &info, NULL);
}

int main(void)
{
    uint64_t size;
    while (fread(&size, sizeof size, 1, stdin) == 1) {
        unsigned char *data = malloc(size ? size : 1);
        if (!data || fread(data, 1, size, stdin) != size) return 1;
        one(data, size);
        free(data);
    }
    return 0;
}
