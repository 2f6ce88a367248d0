/* A server's response: header lines, whether it is the range that was asked for, and the
 * body that explains a failure. The input is the head, an empty line, and the body. */
#include "common.h"

#include "io/fetch_judge.h"

static void check_text(const char *text, size_t size)
{
    CHECK(memchr(text, 0, size));
}

static void try_failure(const tarn__http *http, const uint8_t *body, size_t size)
{
    tarn_error err = {0};
    char *copy = exact_copy(body, size);
    tarn_status status = tarn__http_fail_status(http, copy, size, &err);
    CHECK(status == TARN_ERR_IO || status == TARN_ERR_NO_FILE ||
          status == TARN_ERR_EXISTS);
    CHECK(err.code == status && memchr(err.message, 0, sizeof err.message));
    for (const char *c = err.message; *c; c++)
        CHECK((unsigned char)*c >= 0x20 && *c != 0x7f);
    free(copy);
}

/* Bytes 10 to 19 of an object of a known or unknown size. */
static void try_range(const tarn__http_head *head, uint64_t size, bool identify)
{
    tarn_error err = {0};
    tarn__object_id id = {.size = size};
    tarn__asked asked = {.shown = "http://host/x", .id = &id, .identify = identify};
    asked.first = identify ? 0 : 10;
    asked.size = identify ? 1 : 10;
    tarn__judgement j = tarn__fetch_judge(head, &asked, &err);
    CHECK(j.verdict != TARN__PENDING);
    CHECK((j.verdict == TARN__REFUSED) == (err.code != TARN_OK));
    check_text(err.message, sizeof err.message);
    if (j.verdict != TARN__ACCEPTED) return;
    CHECK(tarn__object_agrees(&id, &j.id));
    CHECK(j.skip == 0 || (j.skip == asked.first && head->status == 200));
    if (identify) CHECK(j.id.size != UINT64_MAX);
    if (!identify && j.id.size != UINT64_MAX) CHECK(j.id.size >= 20);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tarn__http http;
    size_t at = 0;
    memset(&http, 0, sizeof http);
    http.config.shown = "http://host/x";
    while (at < size && data[at] != '\n') {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        size_t len = end ? (size_t)(end - data) + 1 - at : size - at;
        char *line = exact_copy(data + at, len);
        tarn__http_head_line(&http.head, line, len);
        free(line);
        at += len;
    }
    CHECK(http.head.status >= 0 && http.head.status < 1000);
    check_text(http.head.etag, sizeof http.head.etag);
    check_text(http.head.modified, sizeof http.head.modified);
    check_text(http.head.region, sizeof http.head.region);
    check_text(http.head.encoding, sizeof http.head.encoding);
    for (int identify = 0; identify < 2; identify++) {
        try_range(&http.head, 1000, identify);
        try_range(&http.head, UINT64_MAX, identify);
    }
    try_failure(&http, data + at, size - at);
    return 0;
}
