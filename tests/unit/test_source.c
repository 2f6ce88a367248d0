/* Sources and sinks on this machine: paths, file:, standard input and output, and the
 * filters in both directions. Servers are in tests/interop. */
#include "support.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "io/url.h"

static tarn_error err;

static const char *const suffixes[] = {".gz", ".bz2", ".xz", ".zst"};
enum { SUFFIXES = 4 };

typedef struct bytes {
    unsigned char *data;
    size_t size;
} bytes;

static void drop(bytes *b)
{
    free(b->data);
    *b = (bytes){0};
}

/* Text that compresses, but not to nothing. */
static bytes make_text(size_t size)
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

/* Reads all in pieces of the given size; the failure's status if there is one. */
static tarn_status slurp_with(const char *url, const tarn_source_options *options,
                              size_t piece, bytes *out)
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

static tarn_status slurp(const char *url, bytes *out)
{
    return slurp_with(url, NULL, 4096, out);
}

/* Whether it fails, whatever came before. */
static tarn_status try_read(const char *url, const tarn_source_options *options)
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

static void spill_with(const char *url, const tarn_sink_options *options,
                       const void *data, size_t size)
{
    tarn_sink *sink;
    OK(tarn_sink_open(url, options, &sink, &err));
    OK(tarn_sink_write(sink, data, size / 3, &err));
    OK(tarn_sink_write(sink, (const char *)data + size / 3, size - size / 3, &err));
    OK(tarn_sink_finish(sink, &err));
}

static void spill(const char *url, const void *data, size_t size)
{
    tarn_sink_options o = TARN_SINK_OPTIONS_INIT;
    o.overwrite = true;
    o.no_sync = true;
    spill_with(url, &o, data, size);
}

static void assert_reads(const char *url, const void *data, size_t size)
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

static void whatever_is_written_is_read_back(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 5000, 3 << 20};
    for (int s = 0; s < 4; s++) {
        bytes text = make_text(sizes[s]);
        for (int i = 0; i <= SUFFIXES; i++) {
            char name[64];
            snprintf(name, sizeof name, "round%s", i < SUFFIXES ? suffixes[i] : ".tar");
            spill(scratch_path(name), text.data, text.size);
            assert_reads(scratch_path(name), text.data, text.size);
        }
        drop(&text);
    }
}

static void suffixes_choose_the_filter_on_writing(void **state)
{
    (void)state;
    static const struct {
        const char *name, *magic;
    } cases[] = {{"a.gz", "\x1f\x8b"},
                 {"a.tgz", "\x1f\x8b"},
                 {"a.bz2", "BZh9"},
                 {"a.tbz", "BZh9"},
                 {"a.tbz2", "BZh9"},
                 {"a.xz", "\xfd"
                          "7zXZ"},
                 {"a.txz", "\xfd"
                           "7zXZ"},
                 {"a.zst", "\x28\xb5\x2f\xfd"},
                 {"a.tzst", "\x28\xb5\x2f\xfd"},
                 {"a.TAR.ZSTD", "\x28\xb5\x2f\xfd"},
                 {"a.tar", "text"},
                 {"gz", "text"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t size;
        spill(scratch_path(cases[i].name), "text", 4);
        unsigned char *data = read_file(scratch_path(cases[i].name), &size);
        assert_memory_equal(data, cases[i].magic, strlen(cases[i].magic));
        free(data);
    }
}

static void equal_data_give_equal_files(void **state)
{
    (void)state;
    bytes text = make_text(100000);
    for (int i = 0; i < SUFFIXES; i++) {
        char one[32], two[32];
        size_t a_size, b_size;
        snprintf(one, sizeof one, "one%s", suffixes[i]);
        snprintf(two, sizeof two, "two%s", suffixes[i]);
        spill(scratch_path(one), text.data, text.size);
        spill(scratch_path(two), text.data, text.size);
        unsigned char *a = read_file(scratch_path(one), &a_size);
        unsigned char *b = read_file(scratch_path(two), &b_size);
        assert_int_equal(a_size, b_size);
        assert_memory_equal(a, b, a_size);
        if (i == 0) assert_memory_equal(a + 3, "\0\0\0\0\0", 5); /* no name, no time */
        free(a);
        free(b);
    }
    drop(&text);
}

static void option_overrules_the_suffix_and_levels_count(void **state)
{
    (void)state;
    bytes text = make_text(200000);
    size_t fast, best;
    tarn_sink_options o = TARN_SINK_OPTIONS_INIT;
    o.no_sync = true;
    o.filter = TARN_FILTER_ZSTD;
    o.level = 1;
    spill_with(scratch_path("fast.gz"), &o, text.data, text.size);
    o.level = 19;
    spill_with(scratch_path("best.gz"), &o, text.data, text.size);
    unsigned char *a = read_file(scratch_path("fast.gz"), &fast);
    unsigned char *b = read_file(scratch_path("best.gz"), &best);
    assert_memory_equal(a, "\x28\xb5\x2f\xfd", 4);
    assert_true(best < fast);
    o.filter = TARN_FILTER_NONE;
    spill_with(scratch_path("plain.gz"), &o, text.data, text.size);
    assert_reads(scratch_path("plain.gz"), text.data, text.size);
    tarn_sink *sink;
    o.filter = TARN_FILTER_GZIP;
    FAILS(TARN_ERR_USAGE, "levels 1 to 9",
          tarn_sink_open(scratch_path("never.gz"), &o, &sink, &err));
    free(a);
    free(b);
    drop(&text);
}

static void cut_anywhere_is_an_error(void **state)
{
    (void)state;
    bytes text = make_text(1000);
    for (int i = 0; i < SUFFIXES; i++) {
        char whole[32], cut[32];
        size_t size;
        snprintf(whole, sizeof whole, "whole%s", suffixes[i]);
        snprintf(cut, sizeof cut, "cut%s", suffixes[i]);
        spill(scratch_path(whole), text.data, text.size);
        unsigned char *data = read_file(scratch_path(whole), &size);
        for (size_t n = 0; n < size; n++) {
            write_file(scratch_path(cut), data, n);
            assert_int_equal(try_read(scratch_path(cut), NULL), TARN_ERR_TRUNCATED);
            assert_int_equal(err.offset, n);
            if (n < 2) continue;
            write_file(scratch_path("cut.bin"), data, n);
            assert_int_equal(try_read(scratch_path("cut.bin"), NULL), TARN_ERR_TRUNCATED);
        }
        free(data);
    }
    drop(&text);
}

static void flipped_bits_are_an_error(void **state)
{
    (void)state;
    bytes text = make_text(150);
    for (int i = 0; i < SUFFIXES; i++) {
        char whole[32];
        size_t size;
        snprintf(whole, sizeof whole, "flip%s", suffixes[i]);
        spill(scratch_path(whole), text.data, text.size);
        unsigned char *data = read_file(scratch_path(whole), &size);
        tarn_source_options o = TARN_SOURCE_OPTIONS_INIT;
        o.filter = (tarn_filter)(TARN_FILTER_GZIP + i);
        for (size_t bit = 0; bit < 8 * size; bit++) {
            bytes b;
            data[bit / 8] ^= (unsigned char)(1 << bit % 8);
            write_file(scratch_path("flipped"), data, size);
            tarn_status status = slurp_with(scratch_path("flipped"), &o, 4096, &b);
            data[bit / 8] ^= (unsigned char)(1 << bit % 8);
            /* Bits that mean nothing (gzip's time, a reserved field) are harmless. */
            if (status == TARN_OK) {
                assert_int_equal(b.size, text.size);
                assert_memory_equal(b.data, text.data, text.size);
            }
            drop(&b);
        }
        free(data);
    }
    drop(&text);
}

static void append_file(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "ab");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    fclose(f);
}

/* One member, then something, then perhaps another member. */
static tarn_status read_joined(int filter, const char *between, size_t len, bool second,
                               bytes *out)
{
    char name[32];
    size_t size;
    snprintf(name, sizeof name, "joined%s", suffixes[filter]);
    spill(scratch_path(name), "first ", 6);
    unsigned char *member = read_file(scratch_path(name), &size);
    append_file(scratch_path(name), between, len);
    if (second) append_file(scratch_path(name), member, size);
    free(member);
    return slurp(scratch_path(name), out);
}

static void all_members_are_read(void **state)
{
    (void)state;
    for (int i = 0; i < SUFFIXES; i++) {
        bytes b;
        OK(read_joined(i, "", 0, true, &b));
        assert_int_equal(b.size, 12);
        assert_memory_equal(b.data, "first first ", 12);
        drop(&b);
    }
}

static void padding_is_passed_over_where_the_format_has_it(void **state)
{
    (void)state;
    static const char zeros[300000] = {0};
    bytes b;
    OK(read_joined(0, zeros, 1, false, &b));
    drop(&b);
    OK(read_joined(0, zeros, sizeof zeros, false, &b));
    drop(&b);
    OK(read_joined(0, zeros, 513, true, &b));
    assert_int_equal(b.size, 12);
    drop(&b);
    OK(read_joined(2, zeros, 8, true, &b));
    assert_int_equal(b.size, 12);
    drop(&b);
    FAILS(TARN_ERR_FORMAT, "multiples of four", read_joined(2, zeros, 6, true, &b));
    drop(&b);
    FAILS(TARN_ERR_FORMAT, "does not belong", read_joined(1, zeros, 64, false, &b));
    drop(&b);
    FAILS(TARN_ERR_FORMAT, "does not belong", read_joined(3, zeros, 64, false, &b));
    drop(&b);
}

static void garbage_behind_the_end_is_an_error(void **state)
{
    (void)state;
    for (int i = 0; i < SUFFIXES; i++) {
        bytes b;
        FAILS(TARN_ERR_FORMAT, "does not belong",
              read_joined(i, "garbage garbage garbage", 23, false, &b));
        drop(&b);
        FAILS(TARN_ERR_FORMAT, "does not belong", read_joined(i, "x", 1, false, &b));
        drop(&b);
    }
}

static void skippable_frames_are_skipped(void **state)
{
    (void)state;
    static const char skippable[] = "\x53\x2a\x4d\x18\x03\0\0\0abc";
    const char *path = scratch_path("skip.zst");
    bytes b;
    OK(read_joined(3, skippable, 11, true, &b));
    assert_int_equal(b.size, 12);
    drop(&b);
    write_file(path, skippable, 11);
    OK(slurp(path, &b));
    assert_int_equal(b.size, 0);
    drop(&b);
    write_file(path, skippable, 10);
    FAILS(TARN_ERR_TRUNCATED, "end inside a zstd stream", slurp(path, &b));
    drop(&b);
}

static void bombs_are_refused(void **state)
{
    (void)state;
    static char zeros[1 << 20];
    tarn_source_options o = TARN_SOURCE_OPTIONS_INIT;
    tarn_sink_options so = TARN_SINK_OPTIONS_INIT;
    tarn_sink *sink;
    so.no_sync = true;
    so.level = 1;
    for (int i = 2; i < SUFFIXES; i++) {
        char name[32];
        snprintf(name, sizeof name, "bomb%s", suffixes[i]);
        OK(tarn_sink_open(scratch_path(name), &so, &sink, &err));
        for (int n = 0; n < 96; n++)
            OK(tarn_sink_write(sink, zeros, sizeof zeros, &err));
        OK(tarn_sink_finish(sink, &err));
        o.max_expansion = 1000;
        o.max_size = UINT64_MAX;
        FAILS(TARN_ERR_LIMIT, "max_expansion (1000)", try_read(scratch_path(name), &o));
        o.max_expansion = 0;
        OK(try_read(scratch_path(name), &o));
        o.max_size = 96 << 20;
        OK(try_read(scratch_path(name), &o));
        o.max_size--;
        FAILS(TARN_ERR_LIMIT, "max_size (100663295)", try_read(scratch_path(name), &o));
    }
}

static void window_past_the_memory_allowed_is_refused(void **state)
{
    (void)state;
    /* A frame header that asks for a window of 2^31 bytes, and an empty last block. */
    static const char huge[] = "\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00";
    const char *path = scratch_path("window.zst");
    tarn_source_options o = TARN_SOURCE_OPTIONS_INIT;
    write_file(path, huge, 9);
    FAILS(TARN_ERR_LIMIT, "max_memory", try_read(path, &o));
    bytes text = make_text(100000);
    spill(scratch_path("window.xz"), text.data, text.size);
    o.max_memory = 1 << 20;
    FAILS(TARN_ERR_LIMIT, "max_memory", try_read(scratch_path("window.xz"), &o));
    drop(&text);
}

static void named_filter_is_demanded(void **state)
{
    (void)state;
    tarn_source_options o = TARN_SOURCE_OPTIONS_INIT;
    o.filter = TARN_FILTER_GZIP;
    write_file(scratch_path("text"), "just text, longer than magic", 28);
    FAILS(TARN_ERR_FORMAT, "no gzip data", try_read(scratch_path("text"), &o));
    write_file(scratch_path("text"), "", 0);
    FAILS(TARN_ERR_TRUNCATED, "inside a gzip", try_read(scratch_path("text"), &o));
    spill(scratch_path("text.zst"), "x", 1);
    FAILS(TARN_ERR_FORMAT, "no gzip data", try_read(scratch_path("text.zst"), &o));
    o.filter = TARN_FILTER_NONE;
    bytes b;
    OK(slurp_with(scratch_path("text.zst"), &o, 100, &b));
    assert_memory_equal(b.data, "\x28\xb5\x2f\xfd", 4);
    drop(&b);
}

static void short_and_misleading_data_are_plain(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "", "B", "(", "]", "BZh9 is", "BZhello, this is text", "]\0\0\0\0"};
    for (int i = 0; i < 7; i++) {
        size_t size = i == 6 ? 512 : strlen(texts[i]);
        char data[512] = {0};
        memcpy(data, texts[i], strlen(texts[i]));
        write_file(scratch_path("plain"), data, size);
        assert_reads(scratch_path("plain"), data, size);
    }
}

static void file_urls_are_decoded(void **state)
{
    (void)state;
    char url[1024];
    write_file(scratch_path("odd name%41"), "odd", 3);
    snprintf(url, sizeof url, "file://%s/odd%%20name%%2541", scratch());
    assert_reads(url, "odd", 3);
    snprintf(url, sizeof url, "FILE:%s/odd%%20name%%2541", scratch());
    assert_reads(url, "odd", 3);
    snprintf(url, sizeof url, "file://localhost%s/odd%%20name%%2541", scratch());
    assert_reads(url, "odd", 3);
    FAILS(TARN_ERR_USAGE, "of this machine", try_read("file://elsewhere/x", NULL));
    FAILS(TARN_ERR_USAGE, "two hex digits", try_read("file:/tmp/100%", NULL));
    FAILS(TARN_ERR_USAGE, "two hex digits", try_read("file:/tmp/%4g", NULL));
    FAILS(TARN_ERR_USAGE, "%00", try_read("file:/tmp/a%00b", NULL));
    FAILS(TARN_ERR_USAGE, "names no file", try_read("file:", NULL));
    snprintf(url, sizeof url, "file:%s/new%%20file.gz", scratch());
    spill(url, "bytes", 5);
    assert_reads(scratch_path("new file.gz"), "bytes", 5);
}

static void what_cannot_be_opened_says_why(void **state)
{
    (void)state;
    FAILS(TARN_ERR_NOT_FOUND, "cannot open", try_read(scratch_path("missing"), NULL));
    FAILS(TARN_ERR_UNSUPPORTED, "folder", try_read(scratch(), NULL));
    FAILS(TARN_ERR_UNSUPPORTED, "known are", try_read("ftp://host/x", NULL));
    FAILS(TARN_ERR_UNSUPPORTED, "known are", try_read("gs://bucket/x", NULL));
    FAILS(TARN_ERR_USAGE, "empty", try_read("", NULL));
    write_file(scratch_path("c:olon"), "x", 1);
    OK(chdir(scratch()) ? TARN_ERR_IO : TARN_OK);
    assert_reads("c:olon", "x", 1);
    tarn_sink *sink;
    FAILS(TARN_ERR_UNSUPPORTED, "folder", tarn_sink_open(scratch(), NULL, &sink, &err));
    FAILS(TARN_ERR_UNSUPPORTED, "known are",
          tarn_sink_open("ftp://host/x", NULL, &sink, &err));
}

static void existing_file_is_kept_unless_told_otherwise(void **state)
{
    (void)state;
    const char *path = scratch_path("kept");
    tarn_sink *sink;
    size_t size;
    write_file(path, "old", 3);
    FAILS(TARN_ERR_EXISTS, "there already", tarn_sink_open(path, NULL, &sink, &err));
    /* Also when it comes while the sink is open. */
    unlink(path);
    OK(tarn_sink_open(path, NULL, &sink, &err));
    OK(tarn_sink_write(sink, "new", 3, &err));
    assert_int_not_equal(access(path, F_OK), 0);
    write_file(path, "old", 3);
    FAILS(TARN_ERR_EXISTS, "cannot rename", tarn_sink_finish(sink, &err));
    unsigned char *data = read_file(path, &size);
    assert_memory_equal(data, "old", 3);
    free(data);
    spill(path, "new", 3);
    assert_reads(path, "new", 3);
}

static void link_to_a_file_stays_a_link(void **state)
{
    (void)state;
    struct stat st;
    write_file(scratch_path("target"), "old", 3);
    unlink(scratch_path("link"));
    assert_int_equal(symlink("target", scratch_path("link")), 0);
    spill(scratch_path("link"), "new", 3);
    assert_int_equal(lstat(scratch_path("link"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_reads(scratch_path("target"), "new", 3);
}

static void devices_are_written_and_not_replaced(void **state)
{
    (void)state;
    struct stat st;
    spill("/dev/null", "bytes", 5);
    assert_int_equal(stat("/dev/null", &st), 0);
    assert_true(S_ISCHR(st.st_mode));
    tarn_sink *sink;
    OK(tarn_sink_open("/dev/full", NULL, &sink, &err));
    FAILS(TARN_ERR_IO, "No space left", tarn_sink_write(sink, "x", 1, &err));
    FAILS(TARN_ERR_IO, "No space left", tarn_sink_finish(sink, &err));
}

static void abandoned_sink_leaves_nothing(void **state)
{
    (void)state;
    char folder[512], path[600];
    tarn_sink *sink;
    snprintf(folder, sizeof folder, "%s", scratch_path("abandoned"));
    snprintf(path, sizeof path, "%s/x.gz", folder);
    mkdir(folder, 0755);
    OK(tarn_sink_open(path, NULL, &sink, &err));
    OK(tarn_sink_write(sink, "bytes", 5, &err));
    tarn_sink_abandon(sink);
    assert_int_equal(rmdir(folder), 0);
}

/* Runs with fd replaced by one end of a pipe; gives the other. */
static int replace_fd(int fd, int *out_saved)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(stdout);
    *out_saved = dup(fd);
    dup2(ends[fd == 1 ? 1 : 0], fd);
    close(ends[fd == 1 ? 1 : 0]);
    return ends[fd == 1 ? 0 : 1];
}

static void standard_input_and_output_are_streams(void **state)
{
    (void)state;
    int saved, other = replace_fd(0, &saved);
    bytes b;
    assert_int_equal(write(other, "from stdin", 10), 10);
    close(other);
    OK(slurp("-", &b));
    dup2(saved, 0);
    close(saved);
    assert_int_equal(b.size, 10);
    assert_memory_equal(b.data, "from stdin", 10);
    drop(&b);

    char buf[32];
    other = replace_fd(1, &saved);
    spill("-", "to stdout", 9);
    dup2(saved, 1);
    close(saved);
    assert_int_equal(read(other, buf, sizeof buf), 9);
    close(other);
    assert_memory_equal(buf, "to stdout", 9);
}

/* Whoever made them so: a terminal's descriptors are shared. */
static void descriptors_that_do_not_block_are_waited_for(void **state)
{
    (void)state;
    int saved, other = replace_fd(1, &saved);
    bytes b;
    fcntl(1, F_SETFL, O_NONBLOCK);
    pid_t child = fork();
    if (child == 0) {
        bytes text = make_text(1 << 20);
        tarn_sink *sink;
        bool good = tarn_sink_open("-", NULL, &sink, &err) == TARN_OK &&
                    tarn_sink_write(sink, text.data, text.size, &err) == TARN_OK &&
                    tarn_sink_finish(sink, &err) == TARN_OK;
        _exit(good ? 0 : 1);
    }
    dup2(saved, 1);
    close(saved);
    int saved_in = dup(0), status;
    dup2(other, 0);
    close(other);
    fcntl(0, F_SETFL, O_NONBLOCK);
    tarn_status outcome = slurp("-", &b);
    dup2(saved_in, 0);
    close(saved_in);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    OK(outcome);
    assert_int_equal(b.size, 1 << 20);
    drop(&b);
}

static void closed_pipe_is_an_error_and_no_signal(void **state)
{
    (void)state;
    int saved, other = replace_fd(1, &saved);
    tarn_sink *sink;
    sigset_t pending;
    close(other);
    OK(tarn_sink_open("-", NULL, &sink, &err));
    tarn_status status = tarn_sink_write(sink, "x", 1, &err);
    tarn_sink_abandon(sink);
    dup2(saved, 1);
    close(saved);
    assert_int_equal(status, TARN_ERR_IO);
    assert_non_null(strstr(err.message, "Broken pipe"));
    sigpending(&pending);
    assert_int_equal(sigismember(&pending, SIGPIPE), 0);
}

static void *read_many(void *arg)
{
    const char *path = arg;
    tarn_source_options o = TARN_SOURCE_OPTIONS_INIT;
    char *buf = malloc(300000);
    bool good = buf != NULL;
    o.retries = 0;
    for (int i = 0; i < 20 && good; i++) {
        tarn_source *source;
        tarn_urls *urls;
        size_t got;
        good = tarn_source_open(path, &o, &source, NULL) == TARN_OK &&
               tarn_source_read(source, buf, 300000, &got, NULL) == TARN_OK &&
               got == 200000 && tarn_urls_expand("{0..9}", &urls, NULL) == TARN_OK;
        if (good) tarn_urls_free(urls);
        if (good) tarn_source_close(source);
        /* Nobody listens there; all threads load libcurl at once. */
        if (good)
            good = tarn_source_open("http://127.0.0.1:1/", &o, &source, NULL) != TARN_OK;
    }
    free(buf);
    return good ? arg : NULL;
}

static void threads_have_sources_of_their_own(void **state)
{
    (void)state;
    bytes text = make_text(200000);
    char path[512];
    snprintf(path, sizeof path, "%s", scratch_path("threads.gz"));
    spill(path, text.data, text.size);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_many, path), 0);
    for (int i = 0; i < 4; i++) {
        void *good;
        pthread_join(threads[i], &good);
        assert_non_null(good);
    }
    drop(&text);
}

static void shown_urls_hold_no_secrets(void **state)
{
    (void)state;
    static const struct {
        const char *url, *shown;
    } cases[] = {
        {"https://user:secret@host/x.tar", "https://host/x.tar"},
        {"https://a@b:secret@host/x", "https://host/x"},
        {"http://host/x?X-Amz-Signature=secret", "http://host/x?..."},
        {"http://u:s@host?secret@x", "http://host?..."},
        {"HTTP://u:s@host", "HTTP://host"},
        {"s3://bucket/a?b", "s3://bucket/a?b"},
        {"s3://key:secret@bucket/a", "s3://bucket/a"},
        {"pipe:curl -H secret", "pipe:curl..."},
        {"pipe:TOKEN=secret curl", "pipe:..."},
        {"pipe:true", "pipe:true"},
        {"/tmp/a@b?c", "/tmp/a@b?c"},
        {"a\nb\x1b[0m", "a\\x0ab\\x1b[0m"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *shown = tarn__url_shown(cases[i].url);
        assert_string_equal(shown, cases[i].shown);
        free(shown);
    }
}

static tarn_status read_pipe(const char *url, bytes *out)
{
    tarn_source_options o = TARN_SOURCE_OPTIONS_INIT;
    o.allow_pipe = true;
    return slurp_with(url, &o, 4096, out);
}

static tarn_status write_pipe(const char *url, size_t size)
{
    tarn_sink_options o = TARN_SINK_OPTIONS_INIT;
    tarn_sink *sink;
    o.allow_pipe = true;
    TARN_TRY(tarn_sink_open(url, &o, &sink, &err));
    tarn_status status = TARN_OK;
    for (size_t i = 0; i < size && status == TARN_OK; i += 8)
        status = tarn_sink_write(sink, "8 bytes\n", 8, &err);
    if (status == TARN_OK) return tarn_sink_finish(sink, &err);
    tarn_sink_abandon(sink);
    return status;
}

static int count_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) != -1;
    return n;
}

static void commands_run_only_when_allowed(void **state)
{
    (void)state;
    char url[600];
    tarn_sink *sink;
    snprintf(url, sizeof url, "pipe:touch %s", scratch_path("touched"));
    FAILS(TARN_ERR_UNSUPPORTED, "not allowed", try_read(url, NULL));
    FAILS(TARN_ERR_UNSUPPORTED, "not allowed", tarn_sink_open(url, NULL, &sink, &err));
    assert_int_not_equal(access(scratch_path("touched"), F_OK), 0);
}

static void command_that_fails_is_an_error_though_its_data_are_whole(void **state)
{
    (void)state;
    bytes b;
    OK(read_pipe("pipe:printf data | cat", &b));
    assert_int_equal(b.size, 4);
    drop(&b);
    OK(read_pipe("pipe:cat", &b)); /* its input is empty, not the terminal */
    assert_int_equal(b.size, 0);
    drop(&b);
    FAILS(TARN_ERR_IO, "exit status 3", read_pipe("pipe:printf data; exit 3", &b));
    drop(&b);
    FAILS(TARN_ERR_IO, "signal 15", read_pipe("pipe:printf data; kill $$", &b));
    drop(&b);
    FAILS(TARN_ERR_IO, "exit status 127", read_pipe("pipe:no-such-command 2>&-", &b));
    drop(&b);
    FAILS(TARN_ERR_IO, "exit status 4", read_pipe("pipe:printf data | gzip; exit 4", &b));
    drop(&b);
    OK(write_pipe("pipe:cat >/dev/null", 800000));
    FAILS(TARN_ERR_IO, "exit status 5", write_pipe("pipe:cat >/dev/null; exit 5", 800));
    FAILS(TARN_ERR_IO, "exit status 6", write_pipe("pipe:exit 6", 800000));
    FAILS(TARN_ERR_IO, "Broken pipe", write_pipe("pipe:exit 0", 800000));
}

/* Whether a process has ended; one that nobody has waited for yet has. */
static bool has_ended(int pid)
{
    char path[64], state = 'Z';
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    for (int i = 0; i < 1000; i++) {
        FILE *f = fopen(path, "r");
        if (!f) return true;
        int n = fscanf(f, "%*d (%*[^)]) %c", &state);
        fclose(f);
        if (n != 1 || state == 'Z' || state == 'X') return true;
        usleep(1000);
    }
    return false;
}

static void command_that_is_given_up_leaves_no_process(void **state)
{
    (void)state;
    tarn_source_options o = TARN_SOURCE_OPTIONS_INIT;
    tarn_sink_options so = TARN_SINK_OPTIONS_INIT;
    tarn_source *source;
    tarn_sink *sink;
    char text[64] = "", url[1200];
    size_t got;
    int before = count_descriptors();
    o.allow_pipe = so.allow_pipe = true;
    OK(tarn_source_open("pipe:sleep 1000 & printf '%019d\\n' $!; wait", &o, &source,
                        &err));
    OK(tarn_source_read(source, text, 20, &got, &err));
    tarn_source_close(source);
    assert_true(atoi(text) > 1);
    assert_true(has_ended(atoi(text)));
    assert_int_equal(count_descriptors(), before);

    /* A writer that gives up must not look like the end of the data. */
    snprintf(url, sizeof url, "pipe:cat >/dev/null && touch %s", scratch_path("done"));
    OK(tarn_sink_open(url, &so, &sink, &err));
    OK(tarn_sink_write(sink, "half", 4, &err));
    tarn_sink_abandon(sink);
    assert_int_not_equal(access(scratch_path("done"), F_OK), 0);
    assert_int_equal(count_descriptors(), before);
}

/* Python, for one, ignores SIGPIPE; a child that inherits that would not end. */
static void command_has_ordinary_signals(void **state)
{
    (void)state;
    bytes b;
    void (*old)(int) = signal(SIGPIPE, SIG_IGN);
    OK(read_pipe("pipe:yes | head -c 3", &b));
    signal(SIGPIPE, old);
    assert_int_equal(b.size, 3);
    drop(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_is_written_is_read_back),
        cmocka_unit_test(suffixes_choose_the_filter_on_writing),
        cmocka_unit_test(equal_data_give_equal_files),
        cmocka_unit_test(option_overrules_the_suffix_and_levels_count),
        cmocka_unit_test(cut_anywhere_is_an_error),
        cmocka_unit_test(flipped_bits_are_an_error),
        cmocka_unit_test(all_members_are_read),
        cmocka_unit_test(padding_is_passed_over_where_the_format_has_it),
        cmocka_unit_test(garbage_behind_the_end_is_an_error),
        cmocka_unit_test(skippable_frames_are_skipped),
        cmocka_unit_test(bombs_are_refused),
        cmocka_unit_test(window_past_the_memory_allowed_is_refused),
        cmocka_unit_test(named_filter_is_demanded),
        cmocka_unit_test(short_and_misleading_data_are_plain),
        cmocka_unit_test(file_urls_are_decoded),
        cmocka_unit_test(what_cannot_be_opened_says_why),
        cmocka_unit_test(existing_file_is_kept_unless_told_otherwise),
        cmocka_unit_test(link_to_a_file_stays_a_link),
        cmocka_unit_test(devices_are_written_and_not_replaced),
        cmocka_unit_test(abandoned_sink_leaves_nothing),
        cmocka_unit_test(standard_input_and_output_are_streams),
        cmocka_unit_test(descriptors_that_do_not_block_are_waited_for),
        cmocka_unit_test(closed_pipe_is_an_error_and_no_signal),
        cmocka_unit_test(threads_have_sources_of_their_own),
        cmocka_unit_test(shown_urls_hold_no_secrets),
        cmocka_unit_test(commands_run_only_when_allowed),
        cmocka_unit_test(command_that_fails_is_an_error_though_its_data_are_whole),
        cmocka_unit_test(command_that_is_given_up_leaves_no_process),
        cmocka_unit_test(command_has_ordinary_signals),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
