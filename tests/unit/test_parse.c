/* Parsers, with one table of inputs each: what is accepted with which result, and what is
 * refused with which message. The fuzz targets search for crashes; these tests check the
 * results. */
#include "iac_help.h"
#include "support.h"

#include "iac/ipc.h"
#include "io/filter.h"
#include "itar/collection.h"
#include "tar/pax.h"

static tarn_error err;

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* --- pax ---------------------------------------------------------------------------- */

/* "NN key=value\n", with a length that includes itself. */
static size_t record(char *out, size_t size, const char *key, const char *value)
{
    size_t rest = strlen(key) + strlen(value) + 3, len = rest + 1;
    char digits[24];
    while ((len = rest + (size_t)snprintf(digits, sizeof digits, "%zu", len)) !=
           strtoull(digits, NULL, 10))
        continue;
    return (size_t)snprintf(out, size, "%zu %s=%s\n", len, key, value);
}

static void pax_records_are_taken_or_refused_by_their_values(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value;
        tarn_status want;
        const char *part;
    } cases[] = {
        {"uid", "0", TARN_OK, NULL},
        {"gid", "4294967296", TARN_OK, NULL},
        {"uid", "", TARN_ERR_FORMAT, "uid is not a number"},
        {"gid", "12x", TARN_ERR_FORMAT, "gid is not a number"},
        {"gid", "-1", TARN_ERR_FORMAT, "gid is not a number"},
        {"mtime", "1700000000", TARN_OK, NULL},
        {"mtime", "-12.75", TARN_OK, NULL},
        {"atime", "1.5", TARN_OK, NULL},
        {"ctime", "", TARN_ERR_FORMAT, "ctime is not a number"},
        {"mtime", "-", TARN_ERR_FORMAT, "mtime is not a number"},
        {"mtime", ".5", TARN_ERR_FORMAT, "mtime is not a number"},
        {"mtime", "1.5s", TARN_ERR_FORMAT, "mtime is not a number"},
        {"mtime", "1e9", TARN_ERR_FORMAT, "mtime is not a number"},
        {"mtime", "1234567890123456789", TARN_ERR_FORMAT, "mtime is not a number"},
        {"size", "0", TARN_OK, NULL},
        {"size", "", TARN_ERR_FORMAT, "size is not a valid number"},
        {"size", "12345678901234567890", TARN_ERR_FORMAT, "size is not a valid number"},
        {"size", "9223372036854775807", TARN_ERR_FORMAT, "size is not a valid number"},
        {"size", "1 2", TARN_ERR_FORMAT, "size is not a valid number"},
        {"path", "", TARN_ERR_FORMAT, "path is empty"},
        {"hdrcharset", "BINARY", TARN_OK, NULL},
        {"hdrcharset", "ISO-IR 10646 2000 UTF-8", TARN_OK, NULL},
        {"hdrcharset", "ISO-IR 10646 2000 UTF-9", TARN_ERR_UNSUPPORTED, "hdrcharset"},
        {"hdrcharset", "BANANA", TARN_ERR_UNSUPPORTED, "hdrcharset"},
        {"GNU.sparse.map", "0,1", TARN_ERR_UNSUPPORTED, "sparse member"},
        {"SCHILY.realsize", "5", TARN_ERR_UNSUPPORTED, "sparse member"},
        {"SUN.holesdata", " 0 1", TARN_ERR_UNSUPPORTED, "sparse member"},
        {"GNU.sparsely", "x", TARN_OK, NULL},
        {"comment", "a=b=c", TARN_OK, NULL},
        {" path", "p", TARN_ERR_FORMAT, "begins with a blank"},
        {"\tpath", "p", TARN_ERR_FORMAT, "begins with a blank"},
        {"", "p", TARN_ERR_FORMAT, "the key is missing"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[128];
        tarn__pax pax = {0};
        size_t len = record(text, sizeof text, cases[i].key, cases[i].value);
        tarn_status got = tarn__pax_parse(text, len, &pax, &err);
        if (cases[i].want == TARN_OK)
            OK(got);
        else
            FAILS(cases[i].want, cases[i].part, got);
    }
}

static void pax_values_are_what_they_say(void **state)
{
    (void)state;
    tarn__pax pax = {0};
    static const char text[] = "22 mtime=-0000012.75\n"
                               "11 size=77\n";
    char good[64];
    size_t len = record(good, sizeof good, "mtime", "1700000000.250000001999");
    OK(tarn__pax_parse(good, len, &pax, &err));
    assert_true(pax.has_mtime && pax.mtime == 1700000000 && pax.mtime_ns == 250000001);
    assert_false(pax.has_size);
    len = record(good, sizeof good, "mtime", "-12.75");
    OK(tarn__pax_parse(good, len, &pax, &err));
    assert_true(pax.mtime == -12 && pax.mtime_ns == 0);
    /* The first of two records has a wrong length: nothing after it counts. */
    FAILS(TARN_ERR_FORMAT, "length", tarn__pax_parse(text, sizeof text - 1, &pax, &err));
}

static void pax_lengths_have_limits(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        tarn_status want;
        const char *part;
    } cases[] = {
        {"99999999999999999999 a=b\n", TARN_ERR_FORMAT, "does not begin with a length"},
        {"9999999 a=b\n", TARN_ERR_LIMIT, "a pax record has more than"},
        {"12", TARN_ERR_FORMAT, "does not begin with a length"},
        {"3 a", TARN_ERR_FORMAT, "its length 3 is wrong"},
        {"7 a=bcd", TARN_ERR_FORMAT, "its length 7 is wrong"},
        {"8 a=bcd\n8 a", TARN_ERR_FORMAT, "its length 8 is wrong"},
        {"7 abcd\n", TARN_ERR_FORMAT, "the key is missing"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        tarn__pax pax = {0};
        FAILS(cases[i].want, cases[i].part,
              tarn__pax_parse(cases[i].text, strlen(cases[i].text), &pax, &err));
    }
    static const char nul[] = "8 a\0b=c\n";
    tarn__pax pax = {0};
    FAILS(TARN_ERR_FORMAT, "NUL", tarn__pax_parse(nul, sizeof nul - 1, &pax, &err));
    size_t size = TARN_MAX_NAME + 64;
    char *name = malloc(size), *text = malloc(size + 64);
    memset(name, 'n', TARN_MAX_NAME + 1);
    name[TARN_MAX_NAME + 1] = 0;
    size_t len = record(text, size + 64, "path", name);
    FAILS(TARN_ERR_LIMIT, "a name has more than", tarn__pax_parse(text, len, &pax, &err));
    len = record(text, size + 64, "path", name + 1);
    OK(tarn__pax_parse(text, len, &pax, &err));
    assert_int_equal(pax.path_len, TARN_MAX_NAME);
    free(text);
    free(name);
}

/* --- Arrow's formats ---------------------------------------------------------------- */

static void formats_of_arrow_have_their_layouts(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        tarn__shape shape;
        uint32_t width;
        int buffers;
    } good[] = {
        {"n", SHAPE_NULL, 0, 0},         {"b", SHAPE_BITS, 0, 2},
        {"c", SHAPE_FIXED, 1, 2},        {"L", SHAPE_FIXED, 8, 2},
        {"e", SHAPE_FIXED, 2, 2},        {"g", SHAPE_FIXED, 8, 2},
        {"u", SHAPE_VAR, 4, 3},          {"Z", SHAPE_VAR, 8, 3},
        {"vu", SHAPE_VIEW, 16, 2},       {"vz", SHAPE_VIEW, 16, 2},
        {"w:3", SHAPE_FIXED, 3, 2},      {"w:0", SHAPE_FIXED, 0, 2},
        {"d:9,2", SHAPE_FIXED, 16, 2},   {"d:9,2,32", SHAPE_FIXED, 4, 2},
        {"d:9,2,64", SHAPE_FIXED, 8, 2}, {"d:40,2,256", SHAPE_FIXED, 32, 2},
        {"tdD", SHAPE_FIXED, 4, 2},      {"tdm", SHAPE_FIXED, 8, 2},
        {"tts", SHAPE_FIXED, 4, 2},      {"ttm", SHAPE_FIXED, 4, 2},
        {"ttu", SHAPE_FIXED, 8, 2},      {"ttn", SHAPE_FIXED, 8, 2},
        {"tDs", SHAPE_FIXED, 8, 2},      {"tDn", SHAPE_FIXED, 8, 2},
        {"tss:", SHAPE_FIXED, 8, 2},     {"tsn:UTC", SHAPE_FIXED, 8, 2},
        {"tiM", SHAPE_FIXED, 4, 2},      {"tiD", SHAPE_FIXED, 8, 2},
        {"tin", SHAPE_FIXED, 16, 2},     {"+l", SHAPE_LIST, 4, 2},
        {"+m", SHAPE_LIST, 4, 2},        {"+L", SHAPE_LIST, 8, 2},
        {"+vl", SHAPE_LISTVIEW, 4, 3},   {"+vL", SHAPE_LISTVIEW, 8, 3},
        {"+w:7", SHAPE_FIXEDLIST, 7, 1}, {"+s", SHAPE_STRUCT, 0, 1},
        {"+us:0,1", SHAPE_SPARSE, 1, 1}, {"+ud:5", SHAPE_DENSE, 1, 2},
        {"+r", SHAPE_RUNEND, 0, 0},
    };
    for (size_t i = 0; i < COUNT(good); i++) {
        tarn__layout l = {0};
        if (!tarn__layout_get(good[i].format, &l) || l.shape != good[i].shape ||
            l.width != good[i].width || l.buffers != good[i].buffers)
            fail_msg("%s: shape %d, width %u, %d buffers", good[i].format, (int)l.shape,
                     l.width, l.buffers);
    }
}

static void unknown_formats_of_arrow_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",    "x",   "cc",   "w",    "w:",   "w:1x",   "w:-1",     "w:4294967296",
        "W:3", "wx3", "d:",   "d9,2", "d:9",  "d:9,2,", "d:9,2,48", "d:9,2,x",
        "t",   "td",  "tdx",  "tdDD", "tsx:", "tss",    "tDs:",     "tDx",
        "ttx", "tix", "txs",  "+",    "+x",   "+w:",    "+w:x",     "+w:99999999999",
        "+vx", "+ll", "+u:0", "vx",   "vuu",  "tttt",
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        tarn__layout l;
        if (tarn__layout_get(bad[i], &l)) fail_msg("\"%s\" was taken", bad[i]);
    }
}

/* --- Manifests ---------------------------------------------------------------------- */

static tarn_status manifest(const char *name, const char *text, size_t size,
                            uint64_t *samples)
{
    tarn__collection *c;
    write_file(scratch_path(name), text, size);
    OK(tarn__collection_new(NULL, &c, &err));
    tarn_status status = tarn__collection_add_manifest(c, scratch_path(name), &err);
    if (status == TARN_OK) {
        OK(tarn__collection_group(c, &err));
        *samples = c->n_samples;
    }
    tarn__collection_free(c);
    return status;
}

static void manifests_are_read_to_the_letter(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text;
        uint64_t samples;
    } cases[] = {
        {"m.csv", "key,txt\na,x\nb,y", 2},
        {"m.csv", "key,txt\r\na,x\r\n\r\nb,\"y\"\r\n", 2},
        {"m.csv", "key,txt\r\na,x\r", 1},
        {"m.csv", "__key__,txt\na,\"say \"\"hi\"\"\nand on\"\n", 1},
        {"m.csv", "txt,key\n\"x\",\"a\"", 1},
        {"m.csv", "key,txt,cls\na,x,", 1},
        {"m.CSV", "\xef\xbb\xbfkey,txt\na,x\n", 1},
        {"m.csv", "key,txt\na,x\ry\n", 1},
        {"m.csv", "key,a.txt\na,x\n", 1},
        {"m.csv", "key,txt\na,@@x\n", 1},
        {"m.tsv", "key\ttxt\na\tx,y\n", 1},
        {"m.jsonl", "{\"__key__\": 5, \"txt\": \"x\"}", 1},
        {"m.ndjson", "\n  \r\n{\"key\": \"a\", \"txt\": 1.5, \"json\": [1]} \r\n", 1},
        {"m.jsonl", "{\"key\": \"a\", \"jpg\": \"/dev/null\"}\n", 1},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint64_t samples = 0;
        OK(manifest(cases[i].name, cases[i].text, strlen(cases[i].text), &samples));
        assert_int_equal(samples, cases[i].samples);
    }
}

static void invalid_manifests_are_reported_with_their_line(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text, *part;
    } cases[] = {
        {"m.csv", "", "line 1: no column named \"key\""},
        {"m.csv", "txt\nx\n", "line 1: no column named \"key\""},
        {"m.csv", "key,key\na,b\n", "line 1: two columns have the same name"},
        {"m.csv", "key,,x\na,b,c\n", "line 1: a column has no name"},
        {"m.csv", "key,txt\na\n", "line 2: the number of cells differs"},
        {"m.csv", "key,txt\n,x\n", "line 2: the key is empty"},
        {"m.csv", "key,txt\na,\"x", "line 2: a quoted cell is not closed"},
        {"m.csv", "key,txt\na,\"x\"y\n", "line 2: text after the closing quote"},
        {"m.csv", "key,jpg\na,x/\n", "line 2: a file path is empty or ends"},
        {"m.csv", "key,txt\na,@\n", "line 2: a file path is empty or ends"},
        {"m.jsonl", "[]\n", "line 1: not a JSON object"},
        {"m.jsonl", "\n{\"txt\": \"x\"}\n", "line 2: no column named \"key\""},
        {"m.jsonl", "{\"key\": 1.5}\n", "line 1: the key is neither text nor a whole"},
        {"m.jsonl", "{\"key\": \"\"}\n", "line 1: the key is neither text nor a whole"},
        {"m.jsonl", "{\"key\": \"a\\u0000\"}\n", "line 1: the key is neither text"},
        {"m.jsonl", "{\"key\": \"a\", \"t\\u0000\": 1}\n",
         "line 1: the name of a field contains a NUL"},
        {"m.jsonl", "{\"key\": \"a\"\n", "line 1: JSON"},
        {"m.txt", "key,txt\n", "the name of a manifest must end in .csv"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint64_t samples;
        tarn_status got =
            manifest(cases[i].name, cases[i].text, strlen(cases[i].text), &samples);
        assert_int_not_equal(got, TARN_OK);
        if (!strstr(err.message, cases[i].part))
            fail_msg("%s: %s", cases[i].part, err.message);
    }
}

/* --- Text pairs --------------------------------------------------------------------- */

/* An IAC file with one record of these bytes after the length of its manifest. */
static void pair_pack(const char *path, const char *json, size_t json_size,
                      const char *texts, uint32_t claimed)
{
    static const char *const columns[] = {"text:patient_id"};
    unsigned char bytes[600];
    struct ArrowArrayStream slides = {0}, index = {0};
    tarn_iac_rows *rows;
    tarn_iac_write_options o = TARN_IAC_WRITE_OPTIONS_INIT;
    size_t size = 4 + json_size + strlen(texts);
    const void *payload = bytes;
    for (int i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(claimed >> (8 * i));
    memcpy(bytes + 4, json, json_size);
    memcpy(bytes + 4 + json_size, texts, strlen(texts));
    o.overwrite = true;
    OK(tarn_iac_rows_new(columns, 1, &rows, &err));
    OK(tarn_iac_rows_finish(rows, &slides, &err));
    OK(tarn_iac_rows_new(columns, 1, &rows, &err));
    OK(rows_text(rows, 0, "p", 1, &err));
    OK(tarn_iac_rows_finish(rows, &index, &err));
    OK(iac_build(path, &slides, &index, &payload, &size, 1, &o, &err));
    if (slides.release) slides.release(&slides);
    if (index.release) index.release(&index);
}

#define PLACED                                                                           \
    "\"source_offset\": 0, \"source_length\": 3, \"compressed_offset\": 3, "             \
    "\"compressed_length\": 0"

static void text_pairs_are_taken_or_refused_by_their_manifest(void **state)
{
    (void)state;
    static const struct {
        const char *json, *part;
    } cases[] = {
        {"{}", NULL},
        {"{\"patient_id\": \"p\", \"docs\": []}", NULL},
        {"{\"docs\": [{" PLACED "}]}", NULL},
        {"{\"docs\": [{\"episode_index\": 7, " PLACED "}]}", NULL},
        {"[]", "not an object with a list of documents"},
        {"{\"docs\": {}}", "not an object with a list of documents"},
        {"{\"docs\": [5]}", "a document is not an object"},
        {"{\"patient_id\": 5}", "a field is not a string"},
        {"{\"institution\": \"a\\u0000\"}", "a field is not a string"},
        {"{\"docs\": [{\"doc_id\": [], " PLACED "}]}", "a field is not a string"},
        {"{\"docs\": [{\"episode_index\": \"x\", " PLACED "}]}", "episode_index is not"},
        {"{\"docs\": [{}]}", "the offset or length of a text is missing"},
        {"{\"docs\": [{\"source_offset\": 0}]}",
         "the offset or length of a text is missing"},
        {"{\"docs\": [{\"source_offset\": -1, \"source_length\": 1}]}",
         "missing or invalid"},
        {"{\"docs\": [{\"source_offset\": 0, \"source_length\": 1.5}]}",
         "missing or invalid"},
        {"{\"docs\": [{\"source_offset\": 2, \"source_length\": 2}]}",
         "outside the record"},
        {"{", "JSON"},
    };
    const char *path = strdup(scratch_path("pair.iac"));
    for (size_t i = 0; i < COUNT(cases); i++) {
        tarn_iac *pack;
        tarn_textpair_patient who;
        pair_pack(path, cases[i].json, strlen(cases[i].json), "abc",
                  (uint32_t)strlen(cases[i].json));
        OK(tarn_iac_open(path, NULL, &pack, &err));
        tarn_status got = tarn_textpair_read(pack, 0, &who, &err);
        if (cases[i].part && (got == TARN_OK || !strstr(err.message, cases[i].part)))
            fail_msg("%s: %s", cases[i].part, got == TARN_OK ? "taken" : err.message);
        if (!cases[i].part) OK(got);
        if (got == TARN_OK && who.count) {
            assert_int_equal(who.docs[0].source_size, 3);
            assert_memory_equal(who.docs[0].source_text, "abc", 3);
            assert_string_equal(who.docs[0].compressed_text, "");
        }
        if (got == TARN_OK) tarn_textpair_reset(&who);
        tarn_iac_close(pack);
    }
    tarn_iac *pack;
    tarn_textpair_patient who;
    pair_pack(path, "{}", 2, "", 3);
    OK(tarn_iac_open(path, NULL, &pack, &err));
    FAILS(TARN_ERR_FORMAT, "the manifest is truncated",
          tarn_textpair_read(pack, 0, &who, &err));
    FAILS(TARN_ERR_NO_SAMPLE, "1", tarn_textpair_read(pack, 1, &who, &err));
    tarn_iac_close(pack);
    free((char *)(uintptr_t)path);
}

static void fields_of_documents_are_texts(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "doc_id",        "doc_type",   "encounter",    "doc_category",  "source",
        "doc_timestamp", "old_doc_id", "old_doc_type", "old_encounter", "old_source"};
    char *path = strdup(scratch_path("fields.iac"));
    for (size_t i = 0; i < COUNT(keys); i++)
        for (int good = 0; good < 2; good++) {
            char json[300];
            tarn_iac *pack;
            tarn_textpair_patient who;
            snprintf(json, sizeof json, "{\"docs\": [{\"%s\": %s, " PLACED "}]}", keys[i],
                     good ? "\"five\"" : "5");
            pair_pack(path, json, strlen(json), "abc", (uint32_t)strlen(json));
            OK(tarn_iac_open(path, NULL, &pack, &err));
            tarn_status got = tarn_textpair_read(pack, 0, &who, &err);
            if (good) {
                OK(got);
                const tarn_textpair_doc *d = who.docs;
                const char *const found[] = {
                    d->doc_id,        d->doc_type,      d->encounter,  d->doc_category,
                    d->source,        d->doc_timestamp, d->old_doc_id, d->old_doc_type,
                    d->old_encounter, d->old_source};
                for (size_t k = 0; k < COUNT(keys); k++)
                    assert_string_equal(found[k], k == i ? "five" : "");
                tarn_textpair_reset(&who);
            } else {
                FAILS(TARN_ERR_FORMAT, "a field is not a string", got);
            }
            tarn_iac_close(pack);
        }
    free(path);
}

static void the_older_style_has_more_fields_and_a_category(void **state)
{
    (void)state;
    const tarn_textpair_doc docs[] = {
        {.doc_id = "d", .source_text = "s", .old_doc_id = "o", .old_source = "p"},
        {.doc_id = "e", .doc_category = "mine"}};
    const tarn_textpair_patient who = {.patient_id = "p", .docs = docs, .count = 2};
    char *path = strdup(scratch_path("style.iac"));
    for (int style = TARN_TEXTPAIR_01; style <= TARN_TEXTPAIR_00; style++) {
        bool old = style == TARN_TEXTPAIR_00;
        tarn_textpair_options o = TARN_TEXTPAIR_OPTIONS_INIT;
        tarn_textpair_patient got;
        tarn_iac *pack;
        o.style = (tarn_textpair_style)style;
        o.overwrite = true;
        OK(tarn_textpair_build(path, &who, 1, &o, &err));
        OK(tarn_iac_open(path, NULL, &pack, &err));
        OK(textpair_find(pack, "p", &got, &err));
        assert_string_equal(got.docs[0].old_doc_id, old ? "o" : "");
        assert_string_equal(got.docs[0].old_source, old ? "p" : "");
        assert_string_equal(got.docs[0].doc_category,
                            old ? "\u75c5\u6848\u6587\u4e66" : "");
        assert_string_equal(got.docs[1].doc_category, "mine");
        tarn_textpair_reset(&got);
        tarn_iac_close(pack);
    }
    free(path);
}

static void texts_that_are_not_utf8_are_not_packed(void **state)
{
    (void)state;
    char *path = strdup(scratch_path("utf8.iac"));
    for (int which = 0; which < 2; which++) {
        tarn_textpair_doc doc = {
            .doc_id = "d", .source_text = "s", .compressed_text = "c"};
        tarn_textpair_patient who = {.patient_id = "p", .docs = &doc, .count = 1};
        *(which ? &doc.compressed_text : &doc.source_text) = "\xff";
        FAILS(TARN_ERR_USAGE, "the text of a document is not UTF-8",
              tarn_textpair_build(path, &who, 1, NULL, &err));
        tarn_textpair_options o = TARN_TEXTPAIR_OPTIONS_INIT;
        o.size = 1;
        FAILS(TARN_ERR_USAGE, "initialiser",
              tarn_textpair_build(path, &who, 1, &o, &err));
    }
    free(path);
}

static void headers_of_text_pairs_keep_the_callers_fields(void **state)
{
    (void)state;
    static const tarn_textpair_doc doc = {.doc_id = "d", .source_text = "s"};
    static const tarn_textpair_patient who = {
        .patient_id = "p", .docs = &doc, .count = 1};
    const char *path = strdup(scratch_path("named.iac"));
    tarn_textpair_options o = TARN_TEXTPAIR_OPTIONS_INIT;
    tarn_iac_info info;
    tarn_iac *pack;
    o.header = "{\"made_by\": \"me\", \"payload_type\": \"other\", "
               "\"pair_schema_version\": 99}";
    o.overwrite = true;
    OK(tarn_textpair_build(path, &who, 1, &o, &err));
    OK(tarn_iac_open(path, NULL, &pack, &err));
    tarn_iac_info_get(pack, &info, sizeof info);
    assert_string_equal(info.payload_type, "clinical_text_pair");
    assert_non_null(strstr(info.header, "\"made_by\""));
    assert_null(strstr(info.header, "other"));
    tarn_iac_close(pack);
    o.header = "[]";
    FAILS(TARN_ERR_USAGE, "not a JSON object",
          tarn_textpair_build(path, &who, 1, &o, &err));
    o.header = "{";
    assert_int_not_equal(tarn_textpair_build(path, &who, 1, &o, &err), TARN_OK);
    free((char *)(uintptr_t)path);
}

/* --- Magic numbers of compressed data ----------------------------------------------- */

static void lzma_without_a_magic_is_known_by_its_header(void **state)
{
    (void)state;
    static const struct {
        uint8_t bytes[14];
        size_t size;
        int want; /* 1: yes, 2: truncated */
    } cases[] = {
        {{0x5d, 0, 0, 0x80, 0, 255, 255, 255, 255, 255, 255, 255, 255, 0}, 14, 1},
        {{0x5d, 0, 0, 0xc0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 0}, 14, 1},
        {{0x5d, 0, 0, 0x80, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0}, 14, 1},
        {{0x5d, 0, 0, 0xa0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0}, 14, 0},
        {{0x5d, 0, 8, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0}, 14, 0},
        {{0x5d, 0, 0, 0x80, 0, 9, 0, 0, 0, 0, 1, 0, 0, 0}, 14, 0},
        {{0x5d, 0, 0, 0x80, 0, 9, 0, 0, 0, 0, 0, 0, 0, 7}, 14, 0},
        {{0x5e, 0, 0, 0x80, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0}, 14, 0},
        {{0x5d, 0, 0}, 3, 0},
        {{0x5d, 0, 0, 0x80, 0, 9}, 6, 2},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        tarn__match got = tarn__filter_lzma.match(cases[i].bytes, cases[i].size);
        tarn__match want = cases[i].want == 1   ? TARN__MATCH_YES
                           : cases[i].want == 2 ? TARN__MATCH_CUT
                                                : TARN__MATCH_NO;
        if (got != want) fail_msg("case %zu gives %d", i, (int)got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pax_records_are_taken_or_refused_by_their_values),
        cmocka_unit_test(pax_values_are_what_they_say),
        cmocka_unit_test(pax_lengths_have_limits),
        cmocka_unit_test(formats_of_arrow_have_their_layouts),
        cmocka_unit_test(unknown_formats_of_arrow_are_refused),
        cmocka_unit_test(manifests_are_read_to_the_letter),
        cmocka_unit_test(invalid_manifests_are_reported_with_their_line),
        cmocka_unit_test(text_pairs_are_taken_or_refused_by_their_manifest),
        cmocka_unit_test(fields_of_documents_are_texts),
        cmocka_unit_test(the_older_style_has_more_fields_and_a_category),
        cmocka_unit_test(texts_that_are_not_utf8_are_not_packed),
        cmocka_unit_test(headers_of_text_pairs_keep_the_callers_fields),
        cmocka_unit_test(lzma_without_a_magic_is_known_by_its_header),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
