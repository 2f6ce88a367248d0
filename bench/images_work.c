/* Contestants of bench/images.py: images/s of one way to decode a folder's images.
 *
 *     images_work WAY THREADS SECONDS FILE...
 *
 * WAY: turbo   TurboJPEG alone, a handle per thread, RGB
 *      libpng  libpng alone, RGB
 *      decode  tarn_image_run at full size, RGB
 *      steps   random crop, 224 x 224, flip, float, planes; JPEGs reduced where possible
 *      exact   the same with JPEGs decoded at full size
 *      bytes   the same as steps, as bytes, pixel by pixel
 *      stretch the whole image, 224 x 224, bytes
 *      centre  the shorter side to 256, the centre 224 x 224, float, planes */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <png.h>
#include <turbojpeg.h>

#include <tarn/tarn.h>

#define SIDE  224
#define BATCH 64 /* results go to several buffers in turn, as in batches */

typedef struct file {
    unsigned char *data;
    size_t size;
} file;

static file *files;
static size_t file_count;
static const char *way;
static double seconds;
static tarn_image_steps steps = TARN_IMAGE_STEPS_INIT;

/* CPU time of this thread: other processes on the machine do not count. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fail(const char *what)
{
    fprintf(stderr, "images_work: %s\n", what);
    exit(1);
}

static file load(const char *path)
{
    FILE *in = fopen(path, "rb");
    file f = {malloc(64u << 20), 0};
    if (!in || !f.data) fail(path);
    f.size = fread(f.data, 1, 64u << 20, in);
    fclose(in);
    f.data = realloc(f.data, f.size);
    return f;
}

typedef struct worker {
    pthread_t thread;
    size_t number;
    tjhandle turbo;
    tarn_image_decoder *decoder;
    unsigned char *pixels;
    size_t capacity;
    float *batch;
    size_t done;
    double took;
} worker;

static void turbo(worker *w, const file *f)
{
    int width, height, sampling, space;
    if (tjDecompressHeader3(w->turbo, f->data, f->size, &width, &height, &sampling,
                            &space))
        fail("header");
    if ((size_t)width * (size_t)height * 3 > w->capacity) fail("too large");
    if (tjDecompress2(w->turbo, f->data, f->size, w->pixels, width, 0, height, TJPF_RGB,
                      0))
        fail("pixels");
}

typedef struct reader {
    const unsigned char *data;
    size_t left;
} reader;

static void give(png_structp png, png_bytep out, png_size_t size)
{
    reader *r = png_get_io_ptr(png);
    if (size > r->left) png_error(png, "end");
    memcpy(out, r->data, size);
    r->data += size;
    r->left -= size;
}

/* Row by row into place, as a program with its own buffer does it. */
static void libpng(worker *w, const file *f)
{
    reader r = {f->data, f->size};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    if (setjmp(png_jmpbuf(png))) fail("libpng");
    png_set_read_fn(png, &r, give);
    png_read_info(png, info);
    size_t row = png_get_rowbytes(png, info), height = png_get_image_height(png, info);
    if (row * height > w->capacity) fail("too large");
    for (size_t y = 0; y < height; y++)
        png_read_row(png, w->pixels + y * row, NULL);
    png_read_end(png, NULL);
    png_destroy_read_struct(&png, &info, NULL);
}

static void one(worker *w, const file *f, size_t i)
{
    tarn_error err;
    tarn_status status = TARN_OK;
    if (!strcmp(way, "turbo")) {
        turbo(w, f);
    } else if (!strcmp(way, "libpng")) {
        libpng(w, f);
    } else if (!strcmp(way, "decode")) {
        tarn_image_info info;
        tarn_image_steps whole = TARN_IMAGE_STEPS_INIT;
        status = tarn_image_probe(w->decoder, f->data, f->size, &info, sizeof info, &err);
        whole.width = info.width;
        whole.height = info.height;
        if (status == TARN_OK)
            status = tarn_image_run(w->decoder, &whole, f->data, f->size,
                                    (tarn_image_draw){0}, w->pixels, w->capacity, &err);
    } else {
        tarn_image_draw draw = {7, 0, i};
        status = tarn_image_run(w->decoder, &steps, f->data, f->size, draw,
                                w->batch + i % BATCH * (3 * SIDE * SIDE),
                                sizeof(float) * 3 * SIDE * SIDE, &err);
    }
    if (status != TARN_OK) fail(err.message);
}

/* Whole rounds over all files, so that every contestant does the same work. */
static void *work(void *context)
{
    worker *w = context;
    double begin = now();
    for (size_t round = 0; now() - begin < seconds; round++)
        for (size_t i = 0; i < file_count; i++, w->done++)
            one(w, &files[i], round * file_count + i);
    w->took = now() - begin;
    return NULL;
}

static void prepare(worker *w)
{
    w->turbo = tjInitDecompress();
    w->capacity = 64u << 20;
    w->pixels = malloc(w->capacity);
    w->batch = aligned_alloc(64, sizeof(float) * BATCH * 3 * SIDE * SIDE);
    if (!w->turbo || !w->pixels || !w->batch ||
        tarn_image_decoder_new(NULL, &w->decoder, NULL) != TARN_OK)
        fail("no memory");
    memset(w->batch, 0, sizeof(float) * BATCH * 3 * SIDE * SIDE);
}

static tarn_image_steps make_steps(void)
{
    tarn_image_steps s = TARN_IMAGE_STEPS_INIT;
    s.width = s.height = SIDE;
    s.fit = TARN_IMAGE_FIT_RANDOM;
    s.flip = 0.5;
    s.type = TARN_IMAGE_F32;
    s.layout = TARN_IMAGE_CHW;
    if (!strcmp(way, "exact")) s.reduce = 0;
    if (!strcmp(way, "centre")) {
        s.fit = TARN_IMAGE_FIT_CENTRE;
        s.shorter = 256;
        s.flip = 0;
    }
    if (!strcmp(way, "stretch") || !strcmp(way, "bytes")) {
        s.type = TARN_IMAGE_U8;
        s.layout = TARN_IMAGE_HWC;
    }
    if (!strcmp(way, "stretch")) {
        s.fit = TARN_IMAGE_FIT_STRETCH;
        s.flip = 0;
    }
    return s;
}

int main(int argc, char **argv)
{
    if (argc < 5) fail("usage: images_work WAY THREADS SECONDS FILE...");
    way = argv[1];
    size_t threads = (size_t)atoi(argv[2]);
    seconds = atof(argv[3]);
    file_count = (size_t)argc - 4;
    files = calloc(file_count, sizeof *files);
    worker *workers = calloc(threads, sizeof *workers);
    if (!files || !workers) fail("no memory");
    for (size_t i = 0; i < file_count; i++)
        files[i] = load(argv[4 + i]);
    steps = make_steps();
    double rate = 0;
    for (size_t i = 0; i < threads; i++)
        prepare(&workers[i]);
    for (size_t i = 0; i < threads; i++)
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i])) fail("thread");
    for (size_t i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        rate += (double)workers[i].done / workers[i].took;
    }
    printf("%.3f\n", rate);
    return 0;
}
