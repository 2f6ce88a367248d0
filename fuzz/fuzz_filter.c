/* Compressed data read through a source: one byte says how it is read, the rest is the
 * data. However input and output are divided into pieces, the bytes and the outcome must
 * be the same. For gzip data they must equal those of zlib. */
#include "common.h"

#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <tarn/source.h>

#include "io/filter.h"

enum { MOST = 1 << 20, EDGE = 8192 };

typedef struct result {
    uint8_t *data;
    size_t size;
    tarn_status status;
} result;

/* Between the first and the last few thousand bytes, small pieces only cost time. */
static size_t next_piece(size_t piece, size_t at)
{
    if (at < EDGE || at >= MOST - EDGE) return piece;
    size_t rest = MOST - EDGE - at;
    return rest < 65521 ? rest : 65521;
}

static void read_all(const char *path, tarn_filter filter, size_t piece, result *r)
{
    tarn_source_options o = TARN_SOURCE_OPTIONS_INIT;
    tarn_source *source;
    tarn_error err;
    size_t want = piece, got = piece;
    o.filter = filter;
    o.max_size = MOST;
    o.max_memory = 32 << 20;
    CHECK(tarn_source_open(path, &o, &source, &err) == TARN_OK);
    r->size = 0;
    r->status = TARN_OK;
    while (r->status == TARN_OK && got == want && r->size + piece <= MOST + 65536) {
        want = next_piece(piece, r->size);
        r->status = tarn_source_read(source, r->data + r->size, want, &got, &err);
        CHECK(got <= want);
        r->size += got;
    }
    CHECK(r->size <= MOST);
    if (r->status != TARN_OK) {
        CHECK(err.code == r->status && err.message[0] && r->status > TARN_END);
        CHECK(tarn_source_read(source, r->data + MOST, 1, &got, NULL) == r->status);
        CHECK(got == 0);
    }
    tarn_source_close(source);
}

/* Decompresses all members; false if zlib finds an error. */
static bool zlib_reads(const uint8_t *data, size_t size, uint8_t *out, size_t *out_size)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)size};
    int code = Z_STREAM_END;
    z.next_out = out;
    z.avail_out = MOST;
    CHECK(inflateInit2(&z, 31) == Z_OK);
    while (code == Z_STREAM_END && z.avail_in) {
        CHECK(inflateReset(&z) == Z_OK);
        code = inflate(&z, Z_FINISH);
    }
    *out_size = MOST - z.avail_out;
    inflateEnd(&z);
    return code == Z_STREAM_END && size > 0;
}

static void compare_with_zlib(const uint8_t *data, size_t size, const result *ours)
{
    static uint8_t out[MOST];
    size_t made;
    bool good = zlib_reads(data, size, out, &made);
    if (good) {
        CHECK(ours->status == TARN_OK);
        CHECK(ours->size == made && memcmp(ours->data, out, made) == 0);
    } else if (ours->status == TARN_OK && size && data[size - 1] != 0) {
        CHECK(false); /* zlib accepts everything but padding */
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t pieces[] = {1, 7, 4096, 65536};
    static const size_t chunks[] = {TARN__MAGIC_MAX, 19, 100, 1000, 4096};
    static uint8_t room[2][MOST + 65536 + 1]; /* too large to allocate every time */
    static char path[64];
    static int fd = -1;
    if (size < 1) return 0;
    if (fd < 0) {
        fd = memfd_create("fuzz", 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    CHECK(fd >= 0 && ftruncate(fd, 0) == 0);
    CHECK(pwrite(fd, data + 1, size - 1, 0) == (ssize_t)(size - 1));
    tarn_filter filter = (tarn_filter)(data[0] % 6);
    size_t piece = pieces[data[0] / 6 % 4], chunk = chunks[data[0] / 24 % 5];
    result one = {room[0], 0, TARN_OK}, two = {room[1], 0, TARN_OK};
    tarn__source_chunk = 64 << 10;
    read_all(path, filter, 65536, &one);
    tarn__source_chunk = chunk;
    read_all(path, filter, piece, &two);
    CHECK(one.status == two.status);
    if (one.status == TARN_OK)
        CHECK(one.size == two.size && memcmp(one.data, two.data, one.size) == 0);
    if (filter == TARN_FILTER_GZIP) compare_with_zlib(data + 1, size - 1, &one);
    return 0;
}
