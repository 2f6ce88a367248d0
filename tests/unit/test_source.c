/* Local sources and sinks: paths, file:, standard input and output, and commands. Filters
 * are in test_filters.c, servers in tests/interop. */
#include "sourcing.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/url.h"

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
    FAILS(TARN_ERR_USAGE, "on this machine", try_read("file://elsewhere/x", NULL));
    FAILS(TARN_ERR_USAGE, "two hex digits", try_read("file:/tmp/100%", NULL));
    FAILS(TARN_ERR_USAGE, "two hex digits", try_read("file:/tmp/%4g", NULL));
    FAILS(TARN_ERR_USAGE, "%00", try_read("file:/tmp/a%00b", NULL));
    FAILS(TARN_ERR_USAGE, "does not name a file", try_read("file:", NULL));
    snprintf(url, sizeof url, "file:%s/new%%20file.gz", scratch());
    spill(url, "bytes", 5);
    assert_reads(scratch_path("new file.gz"), "bytes", 5);
}

static void what_cannot_be_opened_says_why(void **state)
{
    (void)state;
    FAILS(TARN_ERR_NO_FILE, "cannot open", try_read(scratch_path("missing"), NULL));
    FAILS(TARN_ERR_UNSUPPORTED, "folder", try_read(scratch(), NULL));
    FAILS(TARN_ERR_UNSUPPORTED, "supported are", try_read("ftp://host/x", NULL));
    FAILS(TARN_ERR_USAGE, "empty", try_read("", NULL));
    write_file(scratch_path("c:olon"), "x", 1);
    OK(chdir(scratch()) ? TARN_ERR_IO : TARN_OK);
    assert_reads("c:olon", "x", 1);
    tarn_sink *sink;
    FAILS(TARN_ERR_UNSUPPORTED, "folder", tarn_sink_open(scratch(), NULL, &sink, &err));
    FAILS(TARN_ERR_UNSUPPORTED, "supported are",
          tarn_sink_open("ftp://host/x", NULL, &sink, &err));
}

static void existing_file_is_kept_unless_overwriting(void **state)
{
    (void)state;
    const char *path = scratch_path("kept");
    tarn_sink *sink;
    size_t size;
    write_file(path, "old", 3);
    FAILS(TARN_ERR_EXISTS, "already exists", tarn_sink_open(path, NULL, &sink, &err));
    /* Also when it appears while the sink is open. */
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

/* Runs with fd replaced by one end of a pipe; returns the other. */
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

/* Whichever process set the flag: a terminal's descriptors are shared. */
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
        /* There is no server at this address; all threads load libcurl at once. */
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

/* Waits until a process, which need not be a child, has ended. Returns false if it does
 * not end. */
static bool has_ended(int pid)
{
    struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
    if (end.fd < 0) return errno == ESRCH;
    bool ended = poll(&end, 1, HANG_SECONDS * 1000) == 1;
    close(end.fd);
    return ended;
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

    /* A writer that abandons must not look like the end of the data. */
    snprintf(url, sizeof url, "pipe:cat >/dev/null && touch %s", scratch_path("done"));
    OK(tarn_sink_open(url, &so, &sink, &err));
    OK(tarn_sink_write(sink, "half", 4, &err));
    tarn_sink_abandon(sink);
    assert_int_not_equal(access(scratch_path("done"), F_OK), 0);
    assert_int_equal(count_descriptors(), before);
}

/* Python, for example, ignores SIGPIPE; a child that inherits that would not end. */
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
        cmocka_unit_test(file_urls_are_decoded),
        cmocka_unit_test(what_cannot_be_opened_says_why),
        cmocka_unit_test(existing_file_is_kept_unless_overwriting),
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
