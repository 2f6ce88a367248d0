/* Reads a whole source, and writes a whole sink. */
#include "sourcing.h"

tarn_error err;

void drop(bytes *b)
{
    free(b->data);
    *b = (bytes){0};
}

bytes make_text(size_t size)
{
    bytes b = {malloc(size + 1), size};
    uint32_t x = 12345;
    assert_non_null(b.data);
    for (size_t i = 0; i < size; i++) {
        x = x * 1664525u + 1013904223u;
        b.data[i] = (unsigned char)("acgt"[x >> 30] ^ ((x >> 20 & 127) == 0));
    }
    return b;
}

tarn_status slurp_with(const char *url, const tarn_source_options *options, size_t piece,
                       bytes *out)
{
    tarn_source *source;
    *out = (bytes){0};
    tarn_status status = tarn_source_open(url, options, &source, &err);
    if (status != TARN_OK) return status;
    size_t got;
    do {
        out->data = realloc(out->data, out->size + piece);
        assert_non_null(out->data);
        status = tarn_source_read(source, out->data + out->size, piece, &got, &err);
        out->size += got;
    } while (status == TARN_OK && got == piece);
    if (status != TARN_OK) { /* a failed source stays failed */
        tarn_error again;
        unsigned char byte;
        assert_int_equal(tarn_source_read(source, &byte, 1, &got, &again), status);
        assert_int_equal(got, 0);
        assert_string_equal(again.message, err.message);
    }
    tarn_source_close(source);
    return status;
}

tarn_status slurp(const char *url, bytes *out)
{
    return slurp_with(url, NULL, 4096, out);
}

tarn_status try_read(const char *url, const tarn_source_options *options)
{
    static char piece[64 << 10];
    tarn_source *source;
    tarn_status status = tarn_source_open(url, options, &source, &err);
    size_t got = sizeof piece;
    while (status == TARN_OK && got == sizeof piece)
        status = tarn_source_read(source, piece, sizeof piece, &got, &err);
    tarn_source_close(source);
    return status;
}

void spill_with(const char *url, const tarn_sink_options *options, const void *data,
                size_t size)
{
    tarn_sink *sink;
    OK(tarn_sink_open(url, options, &sink, &err));
    OK(tarn_sink_write(sink, data, size / 3, &err));
    OK(tarn_sink_write(sink, (const char *)data + size / 3, size - size / 3, &err));
    OK(tarn_sink_finish(sink, &err));
}

void spill(const char *url, const void *data, size_t size)
{
    tarn_sink_options o = TARN_SINK_OPTIONS_INIT;
    o.overwrite = true;
    o.no_sync = true;
    spill_with(url, &o, data, size);
}

void assert_reads(const char *url, const void *data, size_t size)
{
    static const size_t pieces[] = {1, 7, 4096, 1 << 20};
    for (int i = 0; i < 4; i++) {
        bytes b;
        if (size > 100000 && pieces[i] < 100) continue;
        OK(slurp_with(url, NULL, pieces[i], &b));
        assert_int_equal(b.size, size);
        if (size) assert_memory_equal(b.data, data, size);
        drop(&b);
    }
}
