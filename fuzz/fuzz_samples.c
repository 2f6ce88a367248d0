/* Any bytes, compressed or not, read as a stream: the members must be those that the
 * reader of plain files finds, with the same errors at the same offsets, and the samples
 * must be the same as well. The first two bytes are options. */
#include "common.h"

#include <sys/mman.h>
#include <unistd.h>

#include <tarn/samples.h>
#include <tarn/tar.h>

#include "io/filter.h"
#include "io/window.h"

enum { LENIENT = 4, KEEP_FIRST = 8, SIZES_ONLY = 16, ONE_FIELD = 32 };
enum { MAX_PLAIN = 1 << 20 };

typedef struct text {
    char *data;
    size_t size, capacity;
    size_t last; /* where the last member begins */
    bool cut;    /* an event was reported that ends inside a member */
} text;

static char given[64], url[80], plain[64];
static tarn_source_options source_options = TARN_SOURCE_OPTIONS_INIT;

static void add(text *t, const void *data, size_t size)
{
    while (t->size + size > t->capacity) {
        t->capacity = t->capacity ? t->capacity * 2 : 4096;
        t->data = realloc(t->data, t->capacity);
        CHECK(t->data);
    }
    if (size) memcpy(t->data + t->size, data, size);
    t->size += size;
}

static void add_numbers(text *t, uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t numbers[] = {a, b, c};
    add(t, numbers, sizeof numbers);
}

static void add_error(text *t, const tarn_error *what)
{
    CHECK(what->code > TARN_END && what->message[0]);
    if (strstr(what->message, "ends inside member")) t->cut = true;
    add_numbers(t, what->code, what->offset, 0);
}

static void add_notice(void *context, const tarn_error *what)
{
    add_error(context, what);
}

/* --- Both ways are the same --------------------------------------------------------- */

static text read_members(const char *from, bool lenient)
{
    text t = {0};
    tarn_tar *tar;
    tarn_member m;
    tarn_error err;
    tarn_tar_counts c;
    tarn_tar_options o = TARN_TAR_OPTIONS_INIT;
    o.lenient = lenient;
    o.all_types = true;
    o.notice = add_notice;
    o.notice_context = &t;
    o.source = &source_options;
    tarn_status status = tarn_tar_open(from, &o, &tar, &err);
    if (status == TARN_OK) {
        while ((status = tarn_tar_next(tar, &m, &err)) == TARN_OK) {
            t.last = t.size + 1;
            add_numbers(&t, m.start, m.offset, m.size);
            add_numbers(&t, (uint64_t)m.type, m.mode, (uint64_t)m.mtime);
            add(&t, m.name, m.name_len);
        }
        tarn_tar_counts_get(tar, &c, sizeof c);
        t.last = t.last ? t.last - 1 : t.size;
        tarn_tar_close(tar);
        add(&t, &c, sizeof c);
    }
    if (status != TARN_END) add_error(&t, &err);
    add_numbers(&t, status, 0, 0);
    return t;
}

/* A stream may have returned its last member before it detects that it is truncated. */
static bool same(const text *file, const text *stream)
{
    if (file->size == stream->size && memcmp(file->data, stream->data, file->size) == 0)
        return true;
    if (!file->cut || !stream->cut || stream->size < file->size) return false;
    size_t extra = stream->size - file->size, before = stream->last;
    return before <= file->size && memcmp(file->data, stream->data, before) == 0 &&
           memcmp(file->data + before, stream->data + before + extra,
                  file->size - before) == 0;
}

static void compare_members(bool lenient)
{
    text file = read_members(plain, lenient), stream = read_members(url, lenient);
    CHECK(same(&file, &stream));
    free(file.data);
    free(stream.data);
}

/* --- Samples ------------------------------------------------------------------------ */

static void check_item(text *t, const tarn_samples_item *item,
                       const tarn_samples_options *o)
{
    CHECK(item->count > 0 && item->shard == 0 && item->key[item->key_len] == '\0');
    add(t, item->key, item->key_len);
    for (size_t i = 0; i < item->count; i++) {
        const tarn_samples_field *f = &item->fields[i];
        CHECK(f->name[f->name_len] == '\0' && f->member[f->member_len] == '\0');
        CHECK(strlen(f->member) == f->member_len && (f->data == NULL) == o->sizes_only);
        for (size_t k = 0; k < i; k++)
            CHECK(strcmp(f->name, item->fields[k].name) != 0);
        add(t, f->name, f->name_len + 1);
        if (f->data) add(t, f->data, (size_t)f->size);
        add_numbers(t, f->size, f->offset, item->damaged);
    }
}

static text read_samples(const char *from, tarn_samples_options o)
{
    text t = {0};
    tarn_samples *samples;
    tarn_samples_item item;
    tarn_samples_report r;
    tarn_error err;
    o.notice = add_notice;
    o.notice_context = &t;
    o.source = &source_options;
    CHECK(tarn_samples_open(&from, 1, &o, &samples, &err) == TARN_OK);
    tarn_status status;
    size_t count = 0;
    while ((status = tarn_samples_next(samples, &item, &err)) == TARN_OK) {
        check_item(&t, &item, &o);
        count++;
    }
    tarn_samples_report_get(samples, &r, sizeof r);
    CHECK(r.samples == count);
    tarn_samples_close(samples);
    if (status != TARN_END) add_error(&t, &err);
    add_numbers(&t, status, r.damages, r.lost_bytes);
    return t;
}

/* Where no member is truncated, nothing may differ. */
static void compare_samples(const tarn_samples_options *o)
{
    text file = read_samples(plain, *o), stream = read_samples(url, *o);
    if (!file.cut && !stream.cut)
        CHECK(file.size == stream.size && memcmp(file.data, stream.data, file.size) == 0);
    free(file.data);
    free(stream.data);
}

/* --- The input ---------------------------------------------------------------------- */

static int scratch_file(char *path, size_t size)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    CHECK(fd >= 0);
    snprintf(path, size, "/proc/self/fd/%d", fd);
    return fd;
}

static void put(int fd, const uint8_t *data, size_t size)
{
    CHECK(ftruncate(fd, 0) == 0);
    CHECK(size == 0 || pwrite(fd, data, size, 0) == (ssize_t)size);
}

/* The input without its compression; false if it cannot be known. */
static bool unpack(int fd)
{
    static uint8_t buf[MAX_PLAIN + 1];
    tarn_source *source;
    size_t got = 0;
    CHECK(tarn_source_open(url, &source_options, &source, NULL) == TARN_OK);
    tarn_status status = tarn_source_read(source, buf, sizeof buf, &got, NULL);
    tarn_source_close(source);
    if (status != TARN_OK || got > MAX_PLAIN) return false;
    put(fd, buf, got);
    tarn_tar *tar; /* compressed again, or in a format that is refused */
    if (tarn_tar_is_stream(plain) || tarn_tar_open(plain, NULL, &tar, NULL) != TARN_OK)
        return false;
    tarn_tar_close(tar);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const fields[] = {"txt"};
    static int given_fd = -1, plain_fd;
    if (given_fd < 0) {
        given_fd = scratch_file(given, sizeof given);
        plain_fd = scratch_file(plain, sizeof plain);
        snprintf(url, sizeof url, "file:%s", given);
        source_options.max_size = 2 * MAX_PLAIN;
        source_options.max_memory = 32u << 20; /* libzstd accepts a little more */
    }
    if (size < 2) return 0;
    unsigned flags = data[0];
    tarn_samples_options o = TARN_SAMPLES_OPTIONS_INIT;
    o.grouping = (tarn_grouping)(flags % 4 % 3);
    o.lenient = flags & LENIENT;
    o.keep_first = flags & KEEP_FIRST;
    o.sizes_only = flags & SIZES_ONLY;
    o.fields = fields;
    o.n_fields = flags & ONE_FIELD ? 1 : 0;
    o.max_sample_bytes = MAX_PLAIN / 4;
    tarn__window_chunk = 1u + data[1] * 37u;
    tarn__source_chunk = TARN__MAGIC_MAX + data[1] * 41u;
    put(given_fd, data + 2, size - 2);
    if (unpack(plain_fd)) {
        compare_members(o.lenient);
        compare_samples(&o);
    } else {
        free(read_members(url, o.lenient).data);
        free(read_samples(url, o).data);
    }
    return 0;
}

/* As in fuzz_tar.c. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
    size = LLVMFuzzerMutate(data, size, max);
    for (size_t at = 2; seed % 4 && at + 512 <= size; at += 512)
        if (memcmp(data + at + 257, "ustar", 5) == 0) fix_tar_checksum(data + at);
    return size;
}
