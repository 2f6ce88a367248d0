/* A server's response: header lines, and the body that explains a failure. The input is
 * the head, an empty line, and the body. */
#include "common.h"

#include "io/http.h"

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
    try_failure(&http, data + at, size - at);
    return 0;
}
