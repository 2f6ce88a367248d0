/* The answers of stores to listings. The first byte chooses the store. What is listed is
 * sorted text that begins with the prefix. */
#include "common.h"

#include "base/utf8.h"
#include "base/xml.h"
#include "io/listing.h"

static const char *const prefixes[] = {"s3://bucket/", "gs://bucket/a", "az://container/",
                                       "hf://datasets/org/name/"};

typedef struct walk {
    unsigned open;
    size_t seen;
} walk;

static tarn_status on_begin(void *context, const char *path, const char *text, size_t len,
                            tarn_error *err)
{
    walk *w = context;
    CHECK(path[0] && len == 0);
    CHECK(++w->open <= TARN__XML_MAX_DEPTH);
    return TARN_OK;
}

static tarn_status on_end(void *context, const char *path, const char *text, size_t len,
                          tarn_error *err)
{
    walk *w = context;
    CHECK(w->open-- > 0 && strlen(path) < TARN__XML_MAX_PATH);
    CHECK(strlen(text) == len && tarn__utf8_is_valid(text, len));
    w->seen += len;
    return TARN_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tarn__listing found;
    tarn_error err;
    walk w = {0};
    if (size == 0) return 0;
    const char *prefix = prefixes[data[0] % 4];
    char *page = exact_copy(data + 1, size - 1);
    if (tarn__xml_read(page, size - 1, on_end, on_begin, &w, &err) == TARN_OK)
        CHECK(w.open == 0 && w.seen < size);
    if (tarn__listing_parse(&found, prefix, page, size - 1, &err) == TARN_OK) {
        for (size_t i = 0; i < found.count; i++) {
            CHECK(strncmp(found.objects[i].url, prefix, strlen(prefix)) == 0);
            CHECK(strlen(found.objects[i].etag) < size + 2);
            CHECK(found.objects[i].size <= INT64_MAX);
            CHECK(i == 0 || strcmp(found.objects[i - 1].url, found.objects[i].url) <= 0);
        }
    } else {
        CHECK(err.code > TARN_END && !found.objects);
    }
    tarn__listing_reset(&found);
    free(page);
    return 0;
}
