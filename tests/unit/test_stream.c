/* Archives as streams, compared with the reader of plain files: the same archive, read by
 * path and through a source, must give the same members, errors and offsets. */
#include "support.h"

#include <sys/stat.h>
#include <unistd.h>

#include "io/window.h"
#include "tar/reader.h"

static tarn_error err;
static tarball t;

/* --- Reading both ways ------------------------------------------------------------- */

typedef struct walked {
    char *text; /* a line for each member and notice, then the counts and the end */
    size_t size, last; /* the last line begins here, before the counts */
    tarn_status status;
    uint64_t offset;
} walked;

static void add(walked *w, const char *fmt, ...)
{
    char line[2048];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    w->text = realloc(w->text, w->size + (size_t)n + 1);
    memcpy(w->text + w->size, line, (size_t)n + 1);
    w->size += (size_t)n;
}

/* A stream does not count the bytes after the end. */
static const char *without_count(const char *message)
{
    const char *found = strstr(message, "bytes follow the end");
    return found ? found : message;
}

static void add_error(walked *w, const tarn_error *e)
{
    add(w, "%s at %llu: %s\n", tarn_status_name(e->code), (unsigned long long)e->offset,
        without_count(e->message));
}

static void add_notice(void *context, const tarn_error *what)
{
    add_error(context, what);
}

static void add_payload(walked *w, tarn_tar *tar, const tarn_member *m)
{
    unsigned char buf[100];
    uint64_t sum = 0;
    for (uint64_t at = 0; at < m->size; at += sizeof buf) {
        size_t n = m->size - at < sizeof buf ? (size_t)(m->size - at) : sizeof buf;
        if (tarn_tar_read(tar, m, at, buf, n, &err) != TARN_OK) {
            add(w, " cut");
            return;
        }
        for (size_t i = 0; i < n; i++)
            sum = sum * 31 + buf[i];
    }
    add(w, " %llx", (unsigned long long)sum);
}

static walked walk(const char *url, bool lenient, bool payloads)
{
    walked w = {0};
    tarn_tar *tar;
    tarn_member m;
    tarn_tar_counts c;
    tarn_tar_options o = TARN_TAR_OPTIONS_INIT;
    o.lenient = lenient;
    o.all_types = true;
    o.notice = add_notice;
    o.notice_context = &w;
    add(&w, "%s\n", lenient ? "lenient" : "strict");
    w.status = tarn_tar_open(url, &o, &tar, &err);
    if (w.status == TARN_OK) {
        while ((w.status = tarn_tar_next(tar, &m, &err)) == TARN_OK) {
            w.last = w.size;
            add(&w, "%.*s %c %llu %llu %llu %o %lld", (int)m.name_len, m.name, m.type,
                (unsigned long long)m.start, (unsigned long long)m.offset,
                (unsigned long long)m.size, m.mode, (long long)m.mtime);
            if (payloads) add_payload(&w, tar, &m);
            add(&w, "\n");
        }
        tarn_tar_counts_get(tar, &c, sizeof c);
        add(&w, "%llu %llu %llu %llu %llu %llu\n", (unsigned long long)c.members,
            (unsigned long long)c.directories, (unsigned long long)c.links,
            (unsigned long long)c.devices, (unsigned long long)c.damages,
            (unsigned long long)c.lost_bytes);
        tarn_tar_close(tar);
    }
    if (w.status != TARN_END) add_error(&w, &err);
    return w;
}

/* Removes the line of a member that was found to be truncated after it was returned. */
static void drop_cut(walked *w)
{
    if (!w->last || !strstr(w->text, "the file ends inside member")) return;
    char *line = w->text + w->last, *end = strchr(line, '\n') + 1;
    memmove(line, end, strlen(end) + 1);
}

static void differ(const walked *file, const walked *stream, size_t chunk)
{
    if (strcmp(file->text, stream->text) == 0) return;
    fail_msg("with chunks of %zu:\n--- file\n%s--- stream\n%s", chunk, file->text,
             stream->text);
}

static void same_both_ways(const tarball *a, bool lenient)
{
    static const size_t chunks[] = {1, 512, 700, 4096, 256 << 10};
    char url[512];
    const char *path = scratch_path("both.tar");
    write_file(path, a->data, a->size);
    snprintf(url, sizeof url, "file:%s", path);
    for (int payloads = 0; payloads < 2; payloads++) {
        walked file = walk(path, lenient, payloads);
        for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
            tarn__window_chunk = chunks[i];
            walked stream = walk(url, lenient, payloads);
            if (strcmp(file.text, stream.text) != 0) drop_cut(&stream);
            differ(&file, &stream, chunks[i]);
            free(stream.text);
        }
        free(file.text);
    }
    tarn__window_chunk = 256 << 10;
}

static void compare(const tarball *a)
{
    same_both_ways(a, false);
    same_both_ways(a, true);
}

/* --- Archives ---------------------------------------------------------------------- */

static void build(void)
{
    static char text[3000];
    char name[151];
    memset(text, 'p', sizeof text - 1);
    memset(name, 'n', 150);
    name[150] = '\0';
    tarball_reset(&t);
    tarball_file(&t, "a.txt", "hello");
    tarball_header(&t, "dir", '5', 0);
    tarball_pax(&t, 'x', "path", "long/b.jpg");
    tarball_file(&t, "b.jpg", text);
    tarball_header(&t, "link", '2', 0);
    tarball_extended(&t, 'L', name, 151);
    tarball_file(&t, "cut", "long name");
    tarball_pax(&t, 'g', "mtime", "17.5");
    tarball_file(&t, "empty.txt", "");
    tarball_file(&t, "z.bin", text);
    tarball_end(&t);
}

static void a_whole_archive_is_the_same_both_ways(void **state)
{
    (void)state;
    build();
    compare(&t);
    tarball_reset(&t);
}

static void every_cut_is_the_same_both_ways(void **state)
{
    (void)state;
    build();
    size_t whole = t.size;
    for (size_t size = 0; size <= whole; size += size % 512 == 0 ? 100 : 412) {
        t.size = size;
        compare(&t);
    }
    for (size_t size = 0; size <= whole; size += 512) {
        t.size = size;
        compare(&t);
    }
    t.size = whole;
    tarball_reset(&t);
}

static void every_damaged_header_is_the_same_both_ways(void **state)
{
    (void)state;
    static const size_t places[] = {0, 100, 124, 130, 148, 156, 257, 345};
    build();
    for (size_t at = 0; at + 512 <= t.size; at += 512)
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            t.data[at + places[i]] ^= 0x11;
            compare(&t);
            t.data[at + places[i]] ^= 0x11;
        }
    tarball_reset(&t);
}

static void a_damaged_size_with_a_right_checksum_is_the_same_both_ways(void **state)
{
    (void)state;
    static const char *const sizes[] = {"00000000001", "00000100000", "77777777777",
                                        "not a size."};
    build();
    for (size_t at = 0; at + 512 <= t.size; at += 512) {
        unsigned char saved[512];
        memcpy(saved, t.data + at, 512);
        if (memcmp(saved + 257, "ustar", 5) != 0) continue;
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            memcpy(t.data + at + 124, sizes[i], 11);
            tarball_sum(t.data + at);
            compare(&t);
            memcpy(t.data + at, saved, 512);
        }
    }
    tarball_reset(&t);
}

static void what_follows_the_end_is_the_same_both_ways(void **state)
{
    (void)state;
    tarball_reset(&t);
    tarball_file(&t, "a", "1");
    tarball_end(&t);
    tarball_end(&t);
    tarball_file(&t, "b", "2"); /* another archive */
    tarball_end(&t);
    tarball_payload(&t, "garbage", 7);
    tarball_payload(&t, "\0\0\0\0\0\0garbage", 13);
    compare(&t);
    tarball_file(&t, "c", "3");
    tarball_end(&t);
    compare(&t);
    tarball_reset(&t);
    tarball_pax(&t, 'x', "path", "lost");
    tarball_end(&t);
    compare(&t);
    tarball_file(&t, "c", "3");
    tarball_end(&t);
    compare(&t);
    tarball_reset(&t);
    tarball_pax(&t, 'g', "comment", "lost");
    tarball_end(&t);
    compare(&t);
    tarball_reset(&t);
}

/* --- Streams only ------------------------------------------------------------------- */

static void payloads_come_in_order_only(void **state)
{
    (void)state;
    tarn_tar *tar;
    tarn_member first, second;
    char buf[8], url[512];
    tarball_reset(&t);
    tarball_file(&t, "a", "12345");
    tarball_file(&t, "b", "67890");
    tarball_end(&t);
    save_tar(&t, scratch_path("order.tar"));
    tarball_reset(&t);
    snprintf(url, sizeof url, "file:%s", scratch_path("order.tar"));
    assert_true(tarn_tar_is_stream(url));
    assert_true(tarn_tar_is_stream("-"));
    assert_false(tarn_tar_is_stream(scratch_path("order.tar")));
    assert_false(tarn_tar_is_stream(scratch_path("missing.tar")));
    OK(tarn_tar_open(url, NULL, &tar, &err));
    OK(tarn_tar_next(tar, &first, &err));
    OK(tarn_tar_read(tar, &first, 1, buf, 2, &err));
    assert_memory_equal(buf, "23", 2);
    FAILS(TARN_ERR_USAGE, "are gone", tarn_tar_read(tar, &first, 2, buf, 1, &err));
    OK(tarn_tar_read(tar, &first, 4, buf, 1, &err));
    assert_memory_equal(buf, "5", 1);
    assert_memory_equal(first.name, "a", 1); /* the name stays valid during reads */
    OK(tarn_tar_next(tar, &second, &err));
    FAILS(TARN_ERR_USAGE, "are gone", tarn_tar_read(tar, &first, 4, buf, 1, &err));
    FAILS(TARN_ERR_USAGE, "past the end", tarn_tar_read(tar, &second, 4, buf, 2, &err));
    OK(tarn_tar_read(tar, &second, 0, buf, 5, &err));
    assert_memory_equal(buf, "67890", 5);
    assert_int_equal(tarn_tar_next(tar, &second, &err), TARN_END);
    assert_int_equal(tarn_tar_next(tar, &second, &err), TARN_END);
    tarn_tar_close(tar);
}

/* Data after the end may begin anywhere in a block, and the window may end there, too. */
static void garbage_after_the_end_may_begin_anywhere(void **state)
{
    (void)state;
    char block[512];
    for (size_t zeros = 0; zeros + 40 <= sizeof block; zeros += 59) {
        memset(block, 0, sizeof block);
        memset(block + zeros, 'g', 40);
        tarball_reset(&t);
        tarball_file(&t, "a", "1");
        tarball_end(&t);
        tarball_payload(&t, block, sizeof block);
        tarball_file(&t, "b", "2");
        tarball_end(&t);
        compare(&t);
    }
    tarball_reset(&t);
}

static void big_file(const char *path, uint64_t size)
{
    assert_int_equal(truncate(path, (off_t)size), 0);
}

/* Damage that extends beyond the look-ahead: a file's reader finds the next member, a
 * stream's gives up and reports it. Where both guesses agree, it continues. */
static void look_ahead_has_an_end(void **state)
{
    (void)state;
    char url[512];
    const char *path = scratch_path("far.tar");
    const uint64_t far = 40u << 20;
    snprintf(url, sizeof url, "file:%s", path);
    for (int near = 0; near < 2; near++) {
        tarball_reset(&t);
        tarball_file(&t, "a", "1");
        size_t damaged = t.size;
        tarball_header(&t, "broken", '0', near ? 5 : far);
        t.data[damaged + (near ? 0 : 130)] ^= 1;
        if (near) tarball_payload(&t, "12345", 5);
        write_file(path, t.data, t.size);
        tarball_reset(&t);
        tarball_header(&t, "big", '0', far);
        uint64_t at = near ? damaged + 1024 : damaged + 512;
        if (!near) at += far;
        FILE *f = fopen(path, "r+b");
        fseek(f, (long)at, SEEK_SET);
        fwrite(t.data, 1, 512, f);
        fclose(f);
        big_file(path, at + 512 + far);
        tarball_reset(&t);
        tarball_file(&t, "z", "2");
        tarball_end(&t);
        f = fopen(path, "ab");
        fwrite(t.data, 1, t.size, f);
        fclose(f);
        tarball_reset(&t);
        walked file = walk(path, true, false), stream = walk(url, true, false);
        assert_non_null(strstr(file.text, "\nz 0"));
        if (near) {
            assert_string_equal(file.text, stream.text);
        } else {
            assert_null(strstr(stream.text, "\nz 0"));
            assert_non_null(strstr(stream.text, "limit at "));
            assert_non_null(strstr(stream.text, "the rest is skipped"));
            assert_int_equal(stream.status, TARN_END);
        }
        free(file.text);
        free(stream.text);
    }
    unlink(path);
}

/* The size in the damaged header is useless, and the look-ahead is too short to show that
 * the headers after it are not an archive in its payload. */
static void nothing_is_concluded_from_what_is_unseen(void **state)
{
    (void)state;
    char url[512];
    const char *path = scratch_path("unseen.tar");
    const uint64_t far = 40u << 20;
    snprintf(url, sizeof url, "file:%s", path);
    tarball_reset(&t);
    tarball_file(&t, "a", "1");
    size_t damaged = t.size;
    tarball_file(&t, "broken", "12345");
    memset(t.data + damaged, '?', 512);
    tarball_file(&t, "b", "2");
    tarball_header(&t, "big", '0', far);
    write_file(path, t.data, t.size);
    big_file(path, t.size + far);
    tarball_reset(&t);
    tarball_file(&t, "z", "3");
    tarball_end(&t);
    FILE *f = fopen(path, "ab");
    fwrite(t.data, 1, t.size, f);
    fclose(f);
    tarball_reset(&t);
    walked file = walk(path, true, false), stream = walk(url, true, false);
    assert_non_null(strstr(file.text, "\nb 0"));
    assert_non_null(strstr(file.text, "\nz 0"));
    assert_null(strstr(stream.text, "\nb 0"));
    assert_null(strstr(stream.text, "\nz 0"));
    assert_non_null(strstr(stream.text, "the rest is skipped"));
    free(file.text);
    free(stream.text);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_archive_is_the_same_both_ways),
        cmocka_unit_test(every_cut_is_the_same_both_ways),
        cmocka_unit_test(every_damaged_header_is_the_same_both_ways),
        cmocka_unit_test(a_damaged_size_with_a_right_checksum_is_the_same_both_ways),
        cmocka_unit_test(what_follows_the_end_is_the_same_both_ways),
        cmocka_unit_test(payloads_come_in_order_only),
        cmocka_unit_test(garbage_after_the_end_may_begin_anywhere),
        cmocka_unit_test(look_ahead_has_an_end),
        cmocka_unit_test(nothing_is_concluded_from_what_is_unseen),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
