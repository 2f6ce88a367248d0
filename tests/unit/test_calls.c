/* Sources and sinks with the caller's functions, and archives through them. */
#include "support.h"

static tarn_error err;

/* Memory that is read and written through callbacks, in pieces of any size. */
typedef struct memory {
    unsigned char data[1 << 16];
    size_t size, at, piece;
    size_t fails_at; /* SIZE_MAX: never */
    unsigned closed, begun, finished, abandoned;
    bool silent; /* a failure sets no message */
} memory;

static tarn_status give(void *context, void *buf, size_t len, size_t *out_got,
                        tarn_error *why)
{
    memory *m = context;
    size_t n = m->size - m->at;
    if (m->at >= m->fails_at) {
        if (!m->silent) snprintf(why->message, sizeof why->message, "gave up");
        return TARN_ERR_IO;
    }
    if (n > len) n = len;
    if (n > m->piece) n = m->piece;
    memcpy(buf, m->data + m->at, n);
    m->at += n;
    *out_got = n;
    return TARN_OK;
}

static void close_memory(void *context)
{
    ((memory *)context)->closed++;
}

static tarn_status take(void *context, const void *data, size_t len, tarn_error *why)
{
    memory *m = context;
    if (m->size + len > m->fails_at) {
        if (!m->silent) snprintf(why->message, sizeof why->message, "no room");
        return TARN_ERR_LIMIT;
    }
    assert_true(m->size + len <= sizeof m->data);
    memcpy(m->data + m->size, data, len);
    m->size += len;
    return TARN_OK;
}

static tarn_status finish_memory(void *context, tarn_error *why)
{
    memory *m = context;
    (void)why;
    m->finished++;
    return m->silent ? TARN_END : TARN_OK;
}

static void abandon_memory(void *context)
{
    ((memory *)context)->abandoned++;
}

static tarn_status begin_memory(void *context, const char *url, tarn_error *why)
{
    memory *m = context;
    (void)why;
    m->begun++;
    return strcmp(url, "refused") == 0 ? TARN_ERR_EXISTS : TARN_OK;
}

static memory *new_memory(void)
{
    memory *m = calloc(1, sizeof *m);
    assert_non_null(m);
    m->piece = m->fails_at = SIZE_MAX;
    return m;
}

static tarn_sink_calls into(memory *m)
{
    return (tarn_sink_calls){
        sizeof(tarn_sink_calls), m, begin_memory, take, finish_memory, abandon_memory};
}

static tarn_source_calls from(memory *m)
{
    return (tarn_source_calls){sizeof(tarn_source_calls), m, give, close_memory};
}

static void write_archive(memory *m, tarn_filter filter)
{
    tarn_sink_calls calls = into(m);
    tarn_tar_writer_options o = TARN_TAR_WRITER_OPTIONS_INIT;
    tarn_tar_writer *w;
    tarn_field fields[] = {{"txt", "hello", 5, NULL}, {"cls", "3", 1, NULL}};
    tarn_sink_options sink = TARN_SINK_OPTIONS_INIT;
    sink.calls = &calls;
    sink.filter = filter;
    o.sink = &sink;
    OK(tarn_tar_writer_open("a file of mine", &o, &w, &err));
    OK(tarn_tar_writer_add(w, "a", fields, 2, &err));
    OK(tarn_tar_writer_add(w, "b", fields, 2, &err));
    OK(tarn_tar_writer_finish(w, NULL, 0, &err));
    assert_int_equal(m->finished, 1);
    assert_int_equal(m->abandoned, 0);
}

static void archives_go_through_callbacks(void **state)
{
    (void)state;
    static const size_t pieces[] = {1, 511, SIZE_MAX};
    for (unsigned filter = TARN_FILTER_AUTO; filter <= TARN_FILTER_ZSTD; filter++)
        for (size_t i = 0; i < 3; i++) {
            memory *m = new_memory();
            write_archive(m, (tarn_filter)filter);
            tarn_source_calls calls = from(m);
            tarn_source_options source = TARN_SOURCE_OPTIONS_INIT;
            tarn_samples_options o = TARN_SAMPLES_OPTIONS_INIT;
            const char *url = "a file of mine";
            tarn_samples *in;
            tarn_samples_item it;
            m->piece = pieces[i];
            source.calls = &calls;
            o.source = &source;
            OK(tarn_samples_open(&url, 1, &o, &in, &err));
            OK(tarn_samples_next(in, &it, &err));
            assert_string_equal(it.key, "a");
            assert_string_equal(it.url, "a file of mine");
            assert_int_equal(it.count, 2);
            assert_memory_equal(it.fields[1].data, "hello", 5);
            OK(tarn_samples_next(in, &it, &err));
            assert_int_equal(tarn_samples_next(in, &it, &err), TARN_END);
            tarn_samples_close(in);
            assert_int_equal(m->closed, 1);
            free(m);
        }
}

static void failing_callback_is_an_error_with_its_message(void **state)
{
    (void)state;
    unsigned char buf[100];
    size_t got;
    for (int silent = 0; silent < 2; silent++) {
        memory *m = new_memory();
        tarn_source_calls calls = from(m);
        tarn_source_options o = TARN_SOURCE_OPTIONS_INIT;
        tarn_source *source;
        m->size = 50;
        m->piece = 10;
        m->fails_at = 20;
        m->silent = silent;
        o.filter = TARN_FILTER_NONE;
        o.calls = &calls;
        OK(tarn_source_open("mine", &o, &source, &err));
        FAILS(TARN_ERR_IO, silent ? "a callback failed" : "gave up",
              tarn_source_read(source, buf, sizeof buf, &got, &err));
        assert_int_equal(got, 20);
        assert_string_equal(err.path, "mine");
        tarn_source_close(source);
        assert_int_equal(m->closed, 1);
        free(m);
    }
}

static void sink_that_failed_is_abandoned(void **state)
{
    (void)state;
    memory *m = new_memory();
    tarn_sink_calls calls = into(m);
    tarn_sink_options o = TARN_SINK_OPTIONS_INIT;
    tarn_sink *sink;
    m->fails_at = 8;
    o.calls = &calls;
    OK(tarn_sink_open("mine", &o, &sink, &err));
    OK(tarn_sink_write(sink, "12345", 5, &err));
    FAILS(TARN_ERR_LIMIT, "no room", tarn_sink_write(sink, "12345", 5, &err));
    FAILS(TARN_ERR_LIMIT, "no room", tarn_sink_finish(sink, &err));
    assert_int_equal(m->finished, 0);
    assert_int_equal(m->abandoned, 1);
    m->fails_at = SIZE_MAX;
    OK(tarn_sink_open("mine", &o, &sink, &err));
    tarn_sink_abandon(sink);
    assert_int_equal(m->abandoned, 2);
    m->silent = true; /* finish returns TARN_END, which must not count as success */
    OK(tarn_sink_open("mine", &o, &sink, &err));
    FAILS(TARN_ERR_USAGE, "TARN_END", tarn_sink_finish(sink, &err));
    FAILS(TARN_ERR_EXISTS, "a callback failed",
          tarn_sink_open("refused", &o, &sink, &err));
    free(m);
}

static void each_shard_begins_with_its_name(void **state)
{
    (void)state;
    memory *m = new_memory();
    tarn_sink_calls calls = into(m);
    tarn_shard_options o = TARN_SHARD_OPTIONS_INIT;
    tarn_tar_writer *w;
    tarn_field field = {"txt", "hello", 5, NULL};
    tarn_tar_writer_options tar = TARN_TAR_WRITER_OPTIONS_INIT;
    tarn_sink_options sink = TARN_SINK_OPTIONS_INIT;
    sink.calls = &calls;
    tar.sink = &sink;
    tar.shards = &o;
    o.max_count = 1;
    OK(tarn_tar_writer_open("mine-%d", &tar, &w, &err));
    OK(tarn_tar_writer_add(w, "a", &field, 1, &err));
    OK(tarn_tar_writer_add(w, "b", &field, 1, &err));
    OK(tarn_tar_writer_finish(w, NULL, 0, &err));
    assert_int_equal(m->begun, 2);
    assert_int_equal(m->finished, 2);
    assert_int_equal(m->size, 2 * 10240);
    free(m);
}

static void time_with_a_fraction_is_in_a_pax_header(void **state)
{
    (void)state;
    memory *m = new_memory();
    tarn_sink_calls calls = into(m);
    tarn_tar_writer_options o = TARN_TAR_WRITER_OPTIONS_INIT;
    tarn_tar_writer *w;
    tarn_sink_options sink = TARN_SINK_OPTIONS_INIT;
    sink.calls = &calls;
    o.sink = &sink;
    o.mtime = 2;
    o.mtime_text = "1.5";
    tarn_field field = {"a.txt", "x", 1, NULL};
    OK(tarn_tar_writer_open("mine", &o, &w, &err));
    OK(tarn_tar_writer_add(w, NULL, &field, 1, &err));
    OK(tarn_tar_writer_finish(w, NULL, 0, &err));
    assert_memory_equal(m->data + 512, "13 mtime=1.5\n\0", 14);
    assert_memory_equal(m->data + 1024 + 136, "00000000002", 11);
    static const char *const bad[] = {"", "1.5\n9 path=b", "inf", "e", "1 2"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        o.mtime_text = bad[i];
        FAILS(TARN_ERR_USAGE, "not a decimal number",
              tarn_tar_writer_open("mine", &o, &w, &err));
    }
    o.mtime_text = "1.5";
    o.names = TARN_NAMES_PLAIN;
    FAILS(TARN_ERR_USAGE, "plain header", tarn_tar_writer_open("mine", &o, &w, &err));
    free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(archives_go_through_callbacks),
        cmocka_unit_test(failing_callback_is_an_error_with_its_message),
        cmocka_unit_test(sink_that_failed_is_abandoned),
        cmocka_unit_test(each_shard_begins_with_its_name),
        cmocka_unit_test(time_with_a_fraction_is_in_a_pax_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
