/* The parts of the fetcher that need no network: the order of jobs, the number of
 * transfers at once, and whether a response is what was asked for. tests/interop has the
 * rest. */
#include "support.h"

#include "io/fetch_judge.h"
#include "io/fetch_pace.h"
#include "io/fetch_queue.h"

static tarn_error err;

/* --- The queue -------------------------------------------------------------------- */

enum { JOBS = 500 };

static unsigned draw(void)
{
    static unsigned state = 1;
    state = state * 1103515245 + 12345;
    return state >> 16;
}

static void jobs_come_by_rank_and_then_as_submitted(void **state)
{
    (void)state;
    tarn__queue queue = {0};
    tarn__queued jobs[JOBS], *last = NULL;
    OK(tarn__queue_reserve(&queue, JOBS, &err));
    assert_null(tarn__queue_first(&queue));
    for (unsigned i = 0; i < JOBS; i++) {
        jobs[i] = (tarn__queued){.rank = draw() % 20, .order = i};
        tarn__queue_push(&queue, &jobs[i]);
    }
    for (unsigned i = 0; i < JOBS; i++) {
        tarn__queued *first = tarn__queue_first(&queue);
        if (last) assert_true(tarn__queue_before(last, first));
        tarn__queue_remove(&queue, first);
        last = first;
    }
    assert_null(tarn__queue_first(&queue));
    tarn__queue_reset(&queue);
}

static void any_job_can_be_removed(void **state)
{
    (void)state;
    tarn__queue queue = {0};
    tarn__queued jobs[JOBS], *last = NULL;
    size_t left = 0;
    OK(tarn__queue_reserve(&queue, JOBS, &err));
    for (unsigned i = 0; i < JOBS; i++) {
        jobs[i] = (tarn__queued){.rank = draw(), .order = i};
        tarn__queue_push(&queue, &jobs[i]);
    }
    for (unsigned i = 0; i < JOBS; i += 1 + draw() % 3, left++)
        tarn__queue_remove(&queue, &jobs[i]);
    for (left = JOBS - left; left; left--) {
        tarn__queued *first = tarn__queue_first(&queue);
        if (last) assert_true(tarn__queue_before(last, first));
        tarn__queue_remove(&queue, first);
        last = first;
    }
    assert_int_equal(queue.count, 0);
    tarn__queue_reset(&queue);
}

/* --- Transfers at once ------------------------------------------------------------- */

/* A server whose transfers take latency_ms each, and that sends at most a number of bytes
 * per millisecond in all. */
typedef struct line {
    tarn__pace pace;
    int64_t now_ms;
    unsigned latency_ms;
    double most;
    double owed; /* parts of transfers that ended */
} line;

enum { SIZE = 100000 };

static void run_line(line *l, unsigned ms, unsigned wanted)
{
    for (unsigned i = 0; i < ms; i++) {
        unsigned active = wanted < l->pace.limit ? wanted : l->pace.limit;
        double bytes = (double)active * SIZE / l->latency_ms;
        if (bytes > l->most) bytes = l->most;
        l->owed += bytes / SIZE;
        unsigned ended = (unsigned)l->owed;
        l->owed -= ended;
        tarn__pace_note(&l->pace, ++l->now_ms, (uint64_t)bytes, ended,
                        wanted > l->pace.limit);
    }
}

static line make_line(unsigned latency_ms, double most)
{
    line l = {.latency_ms = latency_ms, .most = most};
    tarn__pace_init(&l.pace, 256);
    return l;
}

static void the_limit_grows_while_that_brings_more(void **state)
{
    (void)state;
    line l = make_line(50, 1e9); /* only the latency counts */
    assert_int_equal(l.pace.limit, TARN__PACE_START);
    run_line(&l, 20000, 1000);
    assert_int_equal(l.pace.limit, 256);
}

static void the_limit_stays_where_the_line_is_full(void **state)
{
    (void)state;
    line l = make_line(50, 64.0 * SIZE / 50); /* 64 transfers fill it */
    run_line(&l, 60000, 1000);
    assert_in_range(l.pace.limit, 54, 122); /* one step below, or while one is tried */
    unsigned highest = 0;
    for (int i = 0; i < 1000; i++) {
        run_line(&l, 50, 1000);
        if (l.pace.limit > highest) highest = l.pace.limit;
    }
    assert_in_range(highest, 64, 182);
}

static void a_limit_that_nobody_reaches_does_not_grow(void **state)
{
    (void)state;
    line l = make_line(50, 1e9);
    run_line(&l, 20000, 16);
    assert_int_equal(l.pace.limit, TARN__PACE_START);
}

static void a_far_server_gets_a_larger_limit_before_its_first_byte(void **state)
{
    (void)state;
    line far = make_line(50, 1e9), near = far;
    for (int64_t ms = 0; ms < TARN__PACE_NEAR_MS; ms++)
        tarn__pace_note(&far.pace, ms, 0, 0, true);
    assert_int_equal(far.pace.limit, TARN__PACE_START);
    assert_int_equal(tarn__pace_due(&far.pace), TARN__PACE_NEAR_MS);
    tarn__pace_note(&far.pace, TARN__PACE_NEAR_MS, 0, 0, true);
    assert_int_equal(far.pace.limit, TARN__PACE_FAR);
    assert_true(tarn__pace_due(&far.pace) == INT64_MAX);
    tarn__pace_note(&near.pace, 0, 0, 0, true);
    tarn__pace_note(&near.pace, TARN__PACE_NEAR_MS - 1, 1, 0, true);
    tarn__pace_note(&near.pace, TARN__PACE_NEAR_MS + 9, 0, 0, true);
    assert_int_equal(near.pace.limit, TARN__PACE_START);
}

static void a_busy_server_halves_the_limit_once_per_round(void **state)
{
    (void)state;
    line l = make_line(50, 1e9);
    run_line(&l, 20000, 1000);
    int64_t began = l.now_ms;
    run_line(&l, 10, 1000);
    assert_true(tarn__pace_slow(&l.pace, l.now_ms, began));
    for (int i = 0; i < 100; i++) /* those that ran at the same time */
        assert_false(tarn__pace_slow(&l.pace, l.now_ms + 1, began + i % 10));
    assert_int_equal(l.pace.limit, 128);
    assert_true(tarn__pace_slow(&l.pace, l.now_ms + 60, l.now_ms + 10));
    assert_int_equal(l.pace.limit, 64);
    for (int64_t i = 1; i < 20; i++)
        tarn__pace_slow(&l.pace, l.now_ms + 100 * i, l.now_ms + 100 * i - 1);
    assert_int_equal(l.pace.limit, 4);
    l.now_ms += 3000;
    run_line(&l, 30000, 1000);
    assert_int_equal(l.pace.limit, 256);
}

static void the_limit_respects_what_is_allowed_at_most(void **state)
{
    (void)state;
    for (unsigned most = 0; most < 40; most++) {
        line l = make_line(50, 1e9);
        tarn__pace_init(&l.pace, most);
        run_line(&l, 5000, 1000);
        assert_int_equal(l.pace.limit, most ? most : 1);
        tarn__pace_slow(&l.pace, l.now_ms, l.now_ms);
        assert_in_range(l.pace.limit, 1, most ? most : 1);
    }
}

/* --- Responses --------------------------------------------------------------------- */

/* The verdict on a response of header lines that are separated by newlines. */
static tarn__judgement judge(const tarn__asked *asked, const char *lines)
{
    tarn__http_head head = {0};
    while (*lines) {
        size_t len = strcspn(lines, "\n");
        tarn__http_head_line(&head, lines, len);
        lines += len + (lines[len] != 0);
    }
    err = (tarn_error){0};
    return tarn__fetch_judge(&head, asked, &err);
}

static const tarn__object_id known = {1000, "\"tag\"", "Mon, 01 Jan 2024 00:00:00 GMT"};
static const tarn__object_id unknown = {.size = UINT64_MAX};

/* Bytes 100 to 199. */
static tarn__asked part(const tarn__object_id *id)
{
    return (tarn__asked){.shown = "http://h/x", .first = 100, .size = 100, .id = id};
}

#define PART "HTTP/1.1 206 OK\nContent-Range: bytes 100-199/1000\nContent-Length: 100\n"
#define TAG  "ETag: \"tag\"\n"
#define DATE "Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT\n"

static void assert_accepts(const tarn__object_id *id, const char *lines, uint64_t skip)
{
    tarn__asked asked = part(id);
    tarn__judgement j = judge(&asked, lines);
    if (j.verdict != TARN__ACCEPTED) fail_msg("%s: %s", lines, err.message);
    assert_int_equal(j.skip, skip);
}

static void assert_refuses(const tarn__object_id *id, const char *lines,
                           tarn_status status, const char *text)
{
    tarn__asked asked = part(id);
    tarn__judgement j = judge(&asked, lines);
    if (j.verdict != TARN__REFUSED || err.code != status || !strstr(err.message, text))
        fail_msg("%s: verdict %d, status %d, %s", lines, j.verdict, err.code,
                 err.message);
    assert_string_equal(err.path, "http://h/x");
}

static void the_requested_part_is_accepted(void **state)
{
    (void)state;
    assert_accepts(&known, PART TAG DATE, 0);
    assert_accepts(&known, PART TAG, 0);
    assert_accepts(&known, PART DATE, 0);
    assert_accepts(&known, PART, 0);
    assert_accepts(&unknown, PART TAG, 0);
    assert_accepts(&known, PART "ETag: W/\"weak\"\n" DATE, 0);
    assert_accepts(&known, PART "Content-Encoding: identity\n" TAG, 0);
    assert_accepts(&known, PART "Content-Encoding: aws-chunked\n" TAG, 0);
    assert_accepts(&known, "HTTP/2 206\nContent-Range: bytes 100-199/*\n" TAG, 0);
}

static void another_part_is_refused(void **state)
{
    (void)state;
    static const char *const parts[] = {"100-198", "101-199", "0-99", "100-200", "0-999"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char lines[200];
        snprintf(lines, sizeof lines,
                 "HTTP/1.1 206 OK\nContent-Range: bytes %s/1000\n" TAG, parts[i]);
        assert_refuses(&known, lines, TARN_ERR_FORMAT, parts[i]);
    }
    static const char *const bad[] = {"",
                                      "bytes 100-199",
                                      "bytes 100-/1000",
                                      "bytes -199/1000",
                                      "lines 100-199/1000",
                                      "bytes 99999999999999999999-199/1000",
                                      "bytes 100-99999999999999999999/1000",
                                      "bytes */1000"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char lines[200];
        snprintf(lines, sizeof lines, "HTTP/1.1 206 OK\nContent-Range: %s\n" TAG, bad[i]);
        assert_refuses(&known, lines, TARN_ERR_FORMAT, "without a valid Content-Range");
    }
    assert_refuses(&known, "HTTP/1.1 206 OK\n" TAG, TARN_ERR_FORMAT, "Content-Range");
    assert_refuses(&known,
                   "HTTP/1.1 206 OK\nContent-Range: bytes 100-199/1000\n"
                   "Content-Length: 99\n",
                   TARN_ERR_FORMAT, "found 99, expected 100");
    assert_refuses(&unknown, "HTTP/1.1 206 OK\nContent-Range: bytes 100-199/150\n",
                   TARN_ERR_FORMAT, "bytes 100-199 of an object of 150 bytes");
}

static void another_object_is_refused(void **state)
{
    (void)state;
    assert_refuses(&known, PART "ETag: \"other\"\n" DATE, TARN_ERR_STALE,
                   "found the ETag \"other\", expected \"tag\"");
    assert_refuses(&known, PART "Last-Modified: Tue, 02 Jan 2024 00:00:00 GMT\n",
                   TARN_ERR_STALE, "last modified Tue");
    assert_refuses(&known, "HTTP/1.1 206 OK\nContent-Range: bytes 100-199/1001\n" TAG,
                   TARN_ERR_STALE, "found 1001 bytes, expected 1000");
    assert_refuses(&known, "HTTP/1.1 412 Precondition Failed\n", TARN_ERR_STALE,
                   "no longer has the ETag");
    assert_refuses(&known, "HTTP/1.1 416 X\nContent-Range: bytes */50\n", TARN_ERR_STALE,
                   "should have 1000 bytes");
}

static void compressed_bytes_are_refused(void **state)
{
    (void)state;
    assert_refuses(&known, PART "Content-Encoding: gzip\n" TAG, TARN_ERR_UNSUPPORTED,
                   "Content-Encoding: gzip");
    assert_refuses(&known, "HTTP/1.1 200 OK\nContent-Encoding: br\n" TAG,
                   TARN_ERR_UNSUPPORTED, "Content-Encoding: br");
    assert_refuses(&known, PART "Content-Encoding: gzip, identity\n" TAG,
                   TARN_ERR_UNSUPPORTED, "gzip, identity");
}

static void a_whole_object_is_accepted_if_little_is_discarded(void **state)
{
    (void)state;
    tarn__object_id large = {.size = 200 + TARN__FETCH_WASTE};
    assert_accepts(&known, "HTTP/1.1 200 OK\nContent-Length: 1000\n" TAG, 100);
    assert_refuses(&known, "HTTP/1.1 200 OK\nContent-Length: 1001\n" TAG, TARN_ERR_STALE,
                   "found 1001");
    assert_refuses(&unknown, "HTTP/1.1 200 OK\nContent-Length: 150\n", TARN_ERR_STALE,
                   "no such bytes");
    assert_refuses(&unknown, "HTTP/1.1 200 OK\n", TARN_ERR_UNSUPPORTED, "range requests");
    assert_accepts(&unknown, "HTTP/1.1 200 OK\nContent-Length: 1048676\n", 100);
    assert_refuses(&large, "HTTP/1.1 200 OK\nContent-Length: 1048776\n",
                   TARN_ERR_UNSUPPORTED, "does not support range requests");
}

static void other_statuses_are_left_to_their_body(void **state)
{
    (void)state;
    static const int statuses[] = {0, 100, 204, 302, 304, 400, 403, 404, 500, 503, 999};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        char lines[200];
        tarn__asked asked = part(&known);
        snprintf(lines, sizeof lines, "HTTP/1.1 %d X\n" TAG, statuses[i]);
        assert_int_equal(judge(&asked, lines).verdict, TARN__BAD_STATUS);
    }
}

static void the_first_response_gives_the_identity(void **state)
{
    (void)state;
    tarn__asked asked = {
        .shown = "http://h/x", .size = 1, .id = &unknown, .identify = true};
    tarn__judgement j =
        judge(&asked, "HTTP/1.1 206 OK\nContent-Range: bytes 0-0/1000\n" TAG DATE);
    assert_int_equal(j.verdict, TARN__ACCEPTED);
    assert_int_equal(j.id.size, 1000);
    assert_string_equal(j.id.etag, "\"tag\"");
    assert_string_equal(j.id.modified, known.modified);
    j = judge(&asked, "HTTP/1.1 200 OK\nContent-Length: 5000000000\n");
    assert_int_equal(j.verdict, TARN__ACCEPTED);
    assert_int_equal(j.id.size, UINT64_C(5000000000));
    j = judge(&asked, "HTTP/1.1 416 X\nContent-Range: bytes */0\n" TAG);
    assert_int_equal(j.verdict, TARN__ACCEPTED);
    assert_int_equal(j.id.size, 0);
    j = judge(&asked, "HTTP/1.1 206 OK\nContent-Range: bytes 0-0/*\n" TAG);
    assert_int_equal(j.verdict, TARN__REFUSED);
    assert_int_equal(err.code, TARN_ERR_UNSUPPORTED);
    asked.id = &known;
    j = judge(&asked, "HTTP/1.1 416 X\nContent-Range: bytes */0\n" TAG);
    assert_int_equal(j.verdict, TARN__REFUSED);
    assert_int_equal(err.code, TARN_ERR_STALE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_come_by_rank_and_then_as_submitted),
        cmocka_unit_test(any_job_can_be_removed),
        cmocka_unit_test(the_limit_grows_while_that_brings_more),
        cmocka_unit_test(the_limit_stays_where_the_line_is_full),
        cmocka_unit_test(a_limit_that_nobody_reaches_does_not_grow),
        cmocka_unit_test(a_far_server_gets_a_larger_limit_before_its_first_byte),
        cmocka_unit_test(a_busy_server_halves_the_limit_once_per_round),
        cmocka_unit_test(the_limit_respects_what_is_allowed_at_most),
        cmocka_unit_test(the_requested_part_is_accepted),
        cmocka_unit_test(another_part_is_refused),
        cmocka_unit_test(another_object_is_refused),
        cmocka_unit_test(compressed_bytes_are_refused),
        cmocka_unit_test(a_whole_object_is_accepted_if_little_is_discarded),
        cmocka_unit_test(other_statuses_are_left_to_their_body),
        cmocka_unit_test(the_first_response_gives_the_identity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
