/* The requests of tarn browse: the address, filters and ranges. The input is the address,
 * and after a NUL the text of a Range header. */
#include "common.h"

#include <math.h>

#include "../cli/browse/query.c"

static void check_text(const char *text)
{
    CHECK(is_utf8(text));
    for (; *text; text++)
        CHECK((unsigned char)*text >= 0x20 && *text != 0x7f);
}

static void try_filter(const char *text)
{
    browse_filter f;
    if (!browse_filter_parse(text, &f)) {
        CHECK(!f.field && !f.value);
        return;
    }
    CHECK((f.kind == BROWSE_PROBLEMS) == !f.field);
    CHECK((f.kind == BROWSE_IS) == (f.value != NULL));
    CHECK(isfinite(f.min) && isfinite(f.max));
    if (f.kind == BROWSE_IS)
        CHECK(strlen(f.field) + strlen(f.value) < strlen(text));
    else if (f.field)
        CHECK(strlen(f.field) < strlen(text));
    browse_filter_free(&f);
}

static void try_query(const char *uri)
{
    browse_query q;
    uint64_t n = 77;
    if (!browse_query_parse(uri, &q)) {
        CHECK(!q.text);
        return;
    }
    CHECK(uri[0] == '/' && strlen(uri) <= BROWSE_MAX_URI && q.n_args <= BROWSE_MAX_ARGS);
    check_text(q.token);
    check_text(q.path);
    CHECK(!strchr(uri, '%') || strlen(q.token) + strlen(q.path) < strlen(uri));
    for (size_t i = 0; i < q.n_args; i++) {
        check_text(q.args[i].name);
        check_text(q.args[i].value);
        CHECK(browse_query_get(&q, q.args[i].name));
        if (browse_query_number(&q, q.args[i].name, 1000, &n)) CHECK(n <= 1000);
    }
    for (size_t i = 0; browse_query_at(&q, "f", i); i++)
        try_filter(browse_query_at(&q, "f", i));
    browse_query_free(&q);
    CHECK(!q.text);
}

static void try_range(const char *text, uint64_t size)
{
    uint64_t from = 0, count = 0;
    if (browse_range_parse(text, size, &from, &count) <= 0) return;
    CHECK(count > 0 && from < size && count <= size - from);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = exact_copy(data, size), *uri = malloc(size + 1);
    CHECK(uri);
    memcpy(uri, text, size);
    uri[size] = '\0';
    try_query(uri);
    try_filter(uri);
    size_t len = strlen(uri);
    const char *range = len < size ? uri + len + 1 : uri;
    static const uint64_t sizes[] = {0, 1, 1000, UINT64_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        try_range(range, sizes[i]);
    free(uri);
    free(text);
    return 0;
}
