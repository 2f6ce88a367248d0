/* Lists the objects of a store, page by page. */
#include "io/listing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/number.h"
#include "base/utf8.h"
#include "base/xml.h"
#include "io/url.h"

enum { CONNECT = 30, STALL = 60, RETRIES = 5, MAX_MARK = 16 << 10 };

#define MAX_PAGE  (64u << 20) /* bytes of one answer */
#define MAX_TEXTS (1u << 30)  /* bytes of all names and ETags */

/* One object; names are positions in texts, which moves while it grows. */
typedef struct found {
    size_t url, etag;
    uint64_t size;
} found;

typedef struct lister lister;

typedef struct format {
    const char *scheme;
    tarn_status (*add_query)(lister *l, tarn__buf *url, tarn_error *err);
    tarn_status (*read_page)(lister *l, const char *page, size_t len, tarn_error *err);
} format;

struct lister {
    const format *format;
    char *url;          /* as given */
    const char *prefix; /* the part of it that names begin with */
    bool deep;
    tarn__object object;
    tarn__http http;
    char mark[MAX_MARK]; /* where the next page begins; "": at the start, or no more */
    tarn__buf texts;
    found *all;
    size_t count, capacity;
    /* The object being read, and what its page says about all of its names. */
    tarn__buf name, etag;
    uint64_t size;
    bool has_size, coded, more;
    size_t page_first;
};

/* --- Objects ----------------------------------------------------------------------- */

static tarn_status fail_page(lister *l, const char *why, tarn_error *err)
{
    return tarn__fail_at(err, TARN_ERR_FORMAT, l->object.shown, TARN_NO_OFFSET,
                         "the listing of the store %s", why);
}

static tarn_status add_text(lister *l, const char *text, size_t len, size_t *out,
                            tarn_error *err)
{
    *out = l->texts.size;
    TARN_TRY(tarn__buf_add(&l->texts, text, len, err));
    return tarn__buf_add(&l->texts, "", 1, err);
}

static bool is_listed(const lister *l, const char *name, size_t len)
{
    size_t n = strlen(l->prefix);
    if (len < n || memcmp(name, l->prefix, n) != 0 || name[len - 1] == '/') return false;
    return l->deep || !memchr(name + n, '/', len - n);
}

static tarn_status add_object(lister *l, const char *name, size_t len, const char *etag,
                              size_t etag_len, uint64_t size, tarn_error *err)
{
    if (len == 0 || memchr(name, '\0', len) || !tarn__utf8_is_valid(name, len))
        return fail_page(l, "has a name that no URL can have", err);
    if (!is_listed(l, name, len)) return TARN_OK;
    if (l->count == TARN__MAX_LISTED)
        return tarn__fail_at(err, TARN_ERR_LIMIT, l->object.shown, TARN_NO_OFFSET,
                             "more than %u objects", TARN__MAX_LISTED);
    TARN_TRY(tarn__grow(&l->all, sizeof *l->all, l->count, &l->capacity, err));
    found *f = &l->all[l->count];
    size_t base = (size_t)(l->prefix - l->url), ignored;
    f->size = size;
    TARN_TRY(add_text(l, etag, etag_len, &f->etag, err));
    f->url = l->texts.size;
    TARN_TRY(tarn__buf_add(&l->texts, l->url, base, err));
    TARN_TRY(add_text(l, name, len, &ignored, err));
    l->count++;
    return TARN_OK;
}

static tarn_status set_text(tarn__buf *out, const char *text, size_t len, tarn_error *err)
{
    out->size = 0;
    return tarn__buf_add(out, text, len, err);
}

static tarn_status set_mark(lister *l, const char *text, size_t len, tarn_error *err)
{
    if (len >= sizeof l->mark) return fail_page(l, "has a mark that is too long", err);
    memcpy(l->mark, text, len);
    l->mark[len] = '\0';
    return TARN_OK;
}

static void begin_object(lister *l)
{
    l->name.size = l->etag.size = 0;
    l->has_size = false;
}

static tarn_status end_object(lister *l, tarn_error *err)
{
    if (!l->name.size || !l->has_size)
        return fail_page(l, "has an object without a name or size", err);
    return add_object(l, l->name.data, l->name.size, l->etag.data, l->etag.size, l->size,
                      err);
}

static tarn_status set_size(lister *l, const char *text, size_t len, tarn_error *err)
{
    l->has_size = tarn__digits(text, len, INT64_MAX, &l->size);
    return l->has_size ? TARN_OK : fail_page(l, "has an invalid size", err);
}

static tarn_status add_pair(tarn__buf *url, const char *name, const char *value,
                            size_t len, tarn_error *err)
{
    TARN_TRY(tarn__buf_printf(
        url, err, "%c%s=", memchr(url->data, '?', url->size) ? '&' : '?', name));
    return tarn__url_encode(url, value, len, false, err);
}

static tarn_status add_value(tarn__buf *url, const char *name, const char *value,
                             tarn_error *err)
{
    return add_pair(url, name, value, strlen(value), err);
}

/* --- S3 and Google ----------------------------------------------------------------- */

/* In the order that signatures need. */
static tarn_status s3_query(lister *l, tarn__buf *url, tarn_error *err)
{
    if (l->mark[0]) TARN_TRY(add_value(url, "continuation-token", l->mark, err));
    if (!l->deep) TARN_TRY(add_value(url, "delimiter", "/", err));
    TARN_TRY(add_value(url, "encoding-type", "url", err));
    TARN_TRY(add_value(url, "list-type", "2", err));
    TARN_TRY(add_value(url, "max-keys", "1000", err));
    return add_value(url, "prefix", l->prefix, err);
}

/* Names are coded as in forms, so that they may have characters that XML does not. */
static tarn_status set_name(lister *l, const char *text, size_t len, tarn_error *err)
{
    l->name.size = 0;
    if (!l->coded) return tarn__buf_add(&l->name, text, len, err);
    TARN_TRY(tarn__url_decode(&l->name, text, len, err));
    size_t at = 0;
    for (size_t i = 0; i < len; i += text[i] == '%' ? 3 : 1, at++)
        if (text[i] == '+') l->name.data[at] = ' ';
    return TARN_OK;
}

/* Whether names are coded is said after them, so it is found first. */
static tarn_status s3_coding(void *context, const char *path, const char *text,
                             size_t len, tarn_error *err)
{
    lister *l = context;
    if (strcmp(path, "ListBucketResult/EncodingType") == 0)
        l->coded = len == 3 && memcmp(text, "url", 3) == 0;
    return TARN_OK;
}

static tarn_status s3_begin(void *context, const char *path, const char *text, size_t len,
                            tarn_error *err)
{
    if (strcmp(path, "ListBucketResult/Contents") == 0) begin_object(context);
    return TARN_OK;
}

static tarn_status s3_end(void *context, const char *path, const char *text, size_t len,
                          tarn_error *err)
{
    lister *l = context;
    if (strncmp(path, "ListBucketResult/", 17) != 0) return TARN_OK;
    path += 17;
    if (strcmp(path, "Contents/Key") == 0) return set_name(l, text, len, err);
    if (strcmp(path, "Contents/Size") == 0) return set_size(l, text, len, err);
    if (strcmp(path, "Contents/ETag") == 0) return set_text(&l->etag, text, len, err);
    if (strcmp(path, "Contents") == 0) return end_object(l, err);
    if (strcmp(path, "IsTruncated") == 0)
        l->more = len == 4 && memcmp(text, "true", 4) == 0;
    if (strcmp(path, "NextContinuationToken") == 0) return set_mark(l, text, len, err);
    return TARN_OK;
}

static tarn_status s3_page(lister *l, const char *page, size_t len, tarn_error *err)
{
    l->coded = l->more = false;
    TARN_TRY(tarn__xml_read(page, len, s3_coding, NULL, l, err));
    TARN_TRY(tarn__xml_read(page, len, s3_end, s3_begin, l, err));
    if (!memmem(page, len, "ListBucketResult", 16))
        return fail_page(l, "is not one of S3", err);
    if (!l->more) l->mark[0] = '\0';
    if (l->more && !l->mark[0])
        return fail_page(l, "is not complete, and does not say how it continues", err);
    return TARN_OK;
}

/* --- Azure ------------------------------------------------------------------------- */

static tarn_status az_query(lister *l, tarn__buf *url, tarn_error *err)
{
    TARN_TRY(add_value(url, "restype", "container", err));
    TARN_TRY(add_value(url, "comp", "list", err));
    TARN_TRY(add_value(url, "maxresults", "5000", err));
    if (!l->deep) TARN_TRY(add_value(url, "delimiter", "/", err));
    if (l->prefix[0]) TARN_TRY(add_value(url, "prefix", l->prefix, err));
    return l->mark[0] ? add_value(url, "marker", l->mark, err) : TARN_OK;
}

static tarn_status az_begin(void *context, const char *path, const char *text, size_t len,
                            tarn_error *err)
{
    if (strcmp(path, "EnumerationResults/Blobs/Blob") == 0) begin_object(context);
    return TARN_OK;
}

/* The listing has ETags without their quotes. */
static tarn_status set_bare_etag(lister *l, const char *text, size_t len, tarn_error *err)
{
    bool bare = len && text[0] != '"';
    l->etag.size = 0;
    if (bare) TARN_TRY(tarn__buf_add(&l->etag, "\"", 1, err));
    TARN_TRY(tarn__buf_add(&l->etag, text, len, err));
    return bare ? tarn__buf_add(&l->etag, "\"", 1, err) : TARN_OK;
}

static tarn_status az_end(void *context, const char *path, const char *text, size_t len,
                          tarn_error *err)
{
    lister *l = context;
    if (strcmp(path, "EnumerationResults/NextMarker") == 0)
        return set_mark(l, text, len, err);
    if (strncmp(path, "EnumerationResults/Blobs/Blob", 29) != 0) return TARN_OK;
    path += 29;
    if (strcmp(path, "/Name") == 0) return set_text(&l->name, text, len, err);
    if (strcmp(path, "/Properties/Content-Length") == 0)
        return set_size(l, text, len, err);
    if (strcmp(path, "/Properties/Etag") == 0) return set_bare_etag(l, text, len, err);
    return path[0] ? TARN_OK : end_object(l, err);
}

static tarn_status az_page(lister *l, const char *page, size_t len, tarn_error *err)
{
    l->mark[0] = '\0';
    TARN_TRY(tarn__xml_read(page, len, az_end, az_begin, l, err));
    return memmem(page, len, "EnumerationResults", 18)
               ? TARN_OK
               : fail_page(l, "is not one of Azure", err);
}

/* --- Hugging Face ------------------------------------------------------------------ */

/* The folder of the prefix is part of the path. */
static tarn_status hf_query(lister *l, tarn__buf *url, tarn_error *err)
{
    const char *slash = strrchr(l->prefix, '/');
    if (slash) {
        TARN_TRY(tarn__buf_add(url, "/", 1, err));
        TARN_TRY(
            tarn__url_encode(url, l->prefix, (size_t)(slash - l->prefix), true, err));
    }
    TARN_TRY(add_value(url, "recursive", l->deep ? "true" : "false", err));
    return l->mark[0] ? add_value(url, "cursor", l->mark, err) : TARN_OK;
}

static tarn_status hf_entry(lister *l, const tarn__json *v, tarn_error *err)
{
    const tarn__json *type = NULL, *path = NULL, *size = NULL;
    uint64_t bytes;
    if (v->kind == TARN__JSON_OBJECT) {
        type = tarn__json_find(v, "type");
        path = tarn__json_find(v, "path");
        size = tarn__json_find(v, "size");
    }
    if (type && tarn__json_is(type, "directory", 9)) return TARN_OK;
    if (!path || path->kind != TARN__JSON_STRING || !size ||
        !tarn__json_uint64(size, &bytes) || bytes > INT64_MAX)
        return fail_page(l, "has an object without a name or size", err);
    return add_object(l, path->u.text, path->size, "", 0, bytes, err);
}

/* The next page is in the header Link; only the value of its cursor is used, because the
 * server must not choose where the token goes. */
static tarn_status hf_next(lister *l, tarn_error *err)
{
    const char *next = l->http.head.next;
    const char *cursor = strstr(next, "?cursor=");
    tarn__buf text;
    l->mark[0] = '\0';
    if (!next[0]) return TARN_OK;
    if (!cursor) cursor = strstr(next, "&cursor=");
    if (!cursor) return fail_page(l, "has an unknown next page", err);
    cursor += 8;
    tarn__buf_init(&text, MAX_MARK);
    tarn_status status = tarn__url_decode(&text, cursor, strcspn(cursor, "&#"), err);
    if (status == TARN_OK)
        status = set_mark(l, text.data ? text.data : "", text.size, err);
    tarn__buf_reset(&text);
    return status;
}

static tarn_status hf_page(lister *l, const char *page, size_t len, tarn_error *err)
{
    tarn__json_doc doc;
    tarn__json_options options = TARN__JSON_OPTIONS_INIT;
    options.max_bytes = MAX_PAGE;
    options.last_wins = true;
    TARN_TRY(tarn__json_parse(&doc, page, len, &options, err));
    const tarn__json *root = tarn__json_root(&doc), *v = root + 1;
    tarn_status status =
        root->kind == TARN__JSON_LIST ? TARN_OK : fail_page(l, "is not a list", err);
    for (uint32_t i = 0; status == TARN_OK && i < root->size; i++, v = tarn__json_next(v))
        status = hf_entry(l, v, err);
    tarn__json_reset(&doc);
    return status == TARN_OK ? hf_next(l, err) : status;
}

/* --- All --------------------------------------------------------------------------- */

static const format formats[] = {
    {"s3", s3_query, s3_page},
    {"gs", s3_query, s3_page},
    {"az", az_query, az_page},
    {"hf", hf_query, hf_page},
};

static tarn_status read_one(lister *l, tarn__buf *url, tarn__buf *page, tarn_error *err)
{
    char before[MAX_MARK];
    memcpy(before, l->mark, sizeof before);
    TARN_TRY(tarn__buf_add(url, l->object.url, strlen(l->object.url), err));
    TARN_TRY(l->format->add_query(l, url, err));
    TARN_TRY(tarn__buf_add(url, "", 1, err));
    tarn__http_request request = {.method = "GET", .url = url->data};
    TARN_TRY(tarn__http_load(&l->http, &request, page, err));
    tarn_status status =
        l->format->read_page(l, page->size ? page->data : "", page->size, err);
    if (status != TARN_OK) {
        if (err && !err->path[0]) tarn__error_place(err, l->object.shown, err->offset);
        return status;
    }
    if (l->mark[0] && strcmp(before, l->mark) == 0)
        return fail_page(l, "continues with the page that it has just sent", err);
    return TARN_OK;
}

static tarn_status read_pages(lister *l, tarn_error *err)
{
    tarn__buf url, page;
    tarn_status status;
    do {
        tarn__buf_init(&url, 8 * TARN__MAX_URL);
        tarn__buf_init(&page, MAX_PAGE);
        status = read_one(l, &url, &page, err);
        tarn__buf_reset(&url);
        tarn__buf_reset(&page);
    } while (status == TARN_OK && l->mark[0]);
    return status;
}

static int compare_objects(const void *a, const void *b)
{
    return strcmp(((const tarn__listed *)a)->url, ((const tarn__listed *)b)->url);
}

/* Texts are complete now, so that positions become pointers. */
static tarn_status give_out(lister *l, tarn__listing *out, tarn_error *err)
{
    out->objects = malloc((l->count + !l->count) * sizeof *out->objects);
    if (!out->objects) return tarn__fail_memory(err);
    for (size_t i = 0; i < l->count; i++)
        out->objects[i] = (tarn__listed){l->texts.data + l->all[i].url,
                                         l->texts.data + l->all[i].etag, l->all[i].size};
    out->count = l->count;
    out->texts = l->texts.data;
    l->texts.data = NULL;
    qsort(out->objects, out->count, sizeof *out->objects, compare_objects);
    return TARN_OK;
}

static const format *find_format(const char *url)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (tarn__url_scheme_is(url, formats[i].scheme)) return &formats[i];
    return NULL;
}

bool tarn__has_listing(const char *url)
{
    return find_format(url) != NULL;
}

const char *tarn__listing_names(const char *url)
{
    const char *at = strstr(url, "://") + 3;
    unsigned parts = 1;
    if (tarn__url_scheme_is(url, "hf")) {
        bool model = strncmp(at, "datasets/", 9) != 0 && strncmp(at, "spaces/", 7) != 0;
        parts = model ? 2 : 3;
        const char *rev = strstr(at, "@refs/");
        const char *path = at;
        for (unsigned i = 0; i < parts && path; i++) {
            path = strchr(path, '/');
            if (path) path++;
        }
        if (rev && (!path || rev < path)) parts += 2;
    }
    while (parts--) {
        at += strcspn(at, "/");
        if (!*at) return at;
        at++;
    }
    return at;
}

static tarn_status list_all(lister *l, tarn__listing *out, tarn_error *err)
{
    TARN_TRY(tarn__object_init_list(&l->object, l->url, err));
    tarn__http_config config = tarn__object_http(&l->object);
    config.connect_seconds = CONNECT;
    config.stall_seconds = STALL;
    config.retries = RETRIES;
    config.min_speed = 1000;
    tarn_status status =
        l->format ? tarn__http_init(&l->http, &config, err)
                  : tarn__fail(err, TARN_ERR_UNSUPPORTED, "this store has no listing");
    if (status == TARN_OK) status = read_pages(l, err);
    if (status == TARN_OK) status = give_out(l, out, err);
    tarn__http_reset(&l->http);
    return status;
}

/* A URL without a slash after the bucket lists all of it. */
static tarn_status open_lister(lister **out, const char *prefix, bool deep,
                               tarn_error *err)
{
    size_t len = strlen(prefix);
    lister *l = calloc(1, sizeof *l);
    char *url = malloc(len + 2);
    if (!l || !url) {
        free(l);
        free(url);
        return tarn__fail_memory(err);
    }
    const char *rest = tarn__listing_names(prefix);
    bool whole = !*rest && rest[-1] != '/';
    snprintf(url, len + 2, "%s%s", prefix, whole ? "/" : "");
    l->url = url;
    l->prefix = tarn__listing_names(url);
    l->deep = deep;
    l->format = find_format(url);
    tarn__buf_init(&l->texts, MAX_TEXTS);
    tarn__buf_init(&l->name, MAX_PAGE);
    tarn__buf_init(&l->etag, MAX_PAGE);
    *out = l;
    return TARN_OK;
}

static void close_lister(lister *l)
{
    tarn__buf_reset(&l->texts);
    tarn__buf_reset(&l->name);
    tarn__buf_reset(&l->etag);
    tarn__object_reset(&l->object);
    free(l->all);
    free(l->url);
    free(l);
}

tarn_status tarn__listing_read(tarn__listing *out, const char *prefix, bool deep,
                               tarn_error *err)
{
    lister *l;
    *out = (tarn__listing){0};
    if (!tarn__is_remote(prefix))
        return tarn__fail(err, TARN_ERR_USAGE, "not the URL of a store");
    TARN_TRY(open_lister(&l, prefix, deep, err));
    tarn_status status = list_all(l, out, err);
    close_lister(l);
    return status;
}

tarn_status tarn__listing_parse(tarn__listing *out, const char *prefix, const char *page,
                                size_t len, tarn_error *err)
{
    lister *l;
    *out = (tarn__listing){0};
    TARN_TRY(open_lister(&l, prefix, true, err));
    tarn_status status = l->format->read_page(l, page, len, err);
    if (status == TARN_OK) status = give_out(l, out, err);
    close_lister(l);
    return status;
}

void tarn__listing_reset(tarn__listing *listing)
{
    free(listing->objects);
    free(listing->texts);
    *listing = (tarn__listing){0};
}
