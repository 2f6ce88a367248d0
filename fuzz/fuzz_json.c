/* JSON texts: every text that can be read can be walked, written, and read again as the
 * same. */
#include "common.h"

#include "base/json.h"
#include "base/utf8.h"

static void check_tree(const tarn__json_doc *doc)
{
    const tarn__json *end = doc->values + doc->count;
    CHECK(doc->count && tarn__json_next(doc->values) == end);
    for (const tarn__json *v = doc->values; v < end; v++) {
        int64_t i;
        uint64_t u;
        double d;
        CHECK(v->kind <= TARN__JSON_OBJECT && tarn__json_next(v) <= end);
        if (v->kind == TARN__JSON_STRING) CHECK(v->u.text[v->size] == '\0');
        if (tarn__json_int64(v, &i) || tarn__json_uint64(v, &u))
            CHECK(v->kind == TARN__JSON_INTEGER);
        CHECK(tarn__json_double(v, &d) ==
              (v->kind == TARN__JSON_INTEGER || v->kind == TARN__JSON_REAL));
    }
}

static void write_it(const tarn__json_doc *doc, tarn__buf *out, int indent, bool ascii,
                     bool sort)
{
    tarn__json_writer w;
    tarn_error err;
    tarn__buf_init(out, SIZE_MAX);
    tarn__json_begin(&w, out);
    w.indent = indent;
    w.ascii = ascii;
    tarn__json_put_value(&w, tarn__json_root(doc), sort);
    CHECK(tarn__json_end(&w, &err) == TARN_OK);
}

/* Read, written, read and written again: the second text is the first one. */
static void check_round(const tarn__json_doc *doc, int indent, bool ascii, bool sort)
{
    tarn__buf first, second;
    tarn__json_doc again;
    tarn_error err;
    write_it(doc, &first, indent, ascii, sort);
    CHECK(tarn__utf8_is_valid(first.data, first.size));
    CHECK(tarn__json_parse(&again, first.data, first.size, NULL, &err) == TARN_OK);
    CHECK(again.count == doc->count);
    write_it(&again, &second, indent, ascii, sort);
    CHECK(first.size == second.size && !memcmp(first.data, second.data, first.size));
    tarn__json_reset(&again);
    tarn__buf_reset(&first);
    tarn__buf_reset(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tarn__json_doc doc;
    tarn_error err;
    char *text = exact_copy(data, size);
    tarn__json_options lenient = TARN__JSON_OPTIONS_INIT;
    lenient.last_wins = true;
    bool strict_ok = tarn__json_parse(&doc, text, size, NULL, &err) == TARN_OK;
    if (!strict_ok) CHECK(err.code > TARN_END && err.offset <= size && !doc.values);
    tarn__json_reset(&doc);
    if (tarn__json_parse(&doc, text, size, &lenient, &err) == TARN_OK) {
        check_tree(&doc);
        check_round(&doc, TARN__JSON_ONE_LINE, true, false);
        check_round(&doc, 1, false, true);
    } else {
        CHECK(!strict_ok);
    }
    tarn__json_reset(&doc);
    free(text);
    return 0;
}
