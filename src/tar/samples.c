/* Groups members into samples. One member is always read ahead: a sample is complete when
 * the next member has another key. */
#include <tarn/samples.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/hashes.h"
#include "base/names.h"
#include "base/options.h"
#include "io/beneath.h"
#include "tar/keys.h"
#include "tar/reader.h"

TARN__DEFINE_INIT(tarn_samples_options, TARN_SAMPLES_OPTIONS_INIT)

/* Names and keys of one sample. */
#define MAX_TEXT (64u << 20)
/* Number of keys remembered for one archive, to detect samples that appear in two
 * places. */
#define MAX_KEYS (1u << 20)
/* Payload is read in pieces, so that memory grows with the data, not with the claimed
 * size. */
#define PIECE (4u << 20)
/* Bytes between two calls of the progress callback. */
#define PROGRESS_STEP (16u << 20)
/* How many members or samples are reported by name for each kind of problem. */
#define MAX_NOTICES 100u

/* A field of the current sample; its texts and bytes are offsets in growing buffers. */
typedef struct part {
    uint64_t hash;
    size_t name, name_len, member, member_len, data;
    uint64_t size, offset;
} part;

struct tarn_samples {
    tarn_samples_options options;
    char **urls;
    size_t n_urls, shard; /* the current shard is the one before this */
    tarn_tar tar;
    bool open;
    uint64_t passed, reported; /* bytes of archives that were read, and that were
                                  reported */
    tarn_samples_report report;
    tarn__splitter splitter;

    /* The member read ahead. */
    bool ahead, torn; /* there was damage before it */
    tarn__member member;
    tarn__buf member_name;
    tarn__key key;

    /* The current sample. */
    tarn__buf text, bytes; /* the key is the first text */
    size_t key_len, sample_shard;
    part *parts;
    tarn_samples_field *fields;
    size_t count, capacity, field_capacity;
    bool wanted, damaged, bad;
    bool unfinished; /* some of its members were not read yet */

    tarn__hashes keys; /* of the current archive */
    bool keys_full;
    uint64_t noticed_unkeyed, noticed_scattered, noticed_duplicates, noticed_dropped;
};

/* --- Reporting ---------------------------------------------------------------------- */

static void report_by_name(const tarn_samples *s, uint64_t *noticed, tarn_status code,
                           uint64_t offset, const char *fmt, const char *name, size_t len)
{
    tarn_error what;
    if (!s->options.notice || (*noticed)++ >= MAX_NOTICES) return;
    tarn__error_set(&what, code, s->tar.file.path, offset, "%s %s", TARN__SHOW(name, len),
                    fmt);
    s->options.notice(s->options.notice_context, &what);
}

static tarn_status fail_member(const tarn_samples *s, tarn_status code, const char *what,
                               tarn_error *err)
{
    return tarn__fail_at(err, code, s->tar.file.path, s->member.offset, "member %s: %s",
                         TARN__SHOW(s->member_name.data, s->member_name.size), what);
}

static tarn_status report_progress(tarn_samples *s, tarn_error *err)
{
    uint64_t done = s->passed + s->tar.at;
    if (!s->options.progress || done - s->reported < PROGRESS_STEP) return TARN_OK;
    s->reported = done;
    if (!s->options.progress(s->options.progress_context, done, 0)) return TARN_OK;
    return tarn__fail(err, TARN_ERR_CANCELLED, "stopped");
}

/* --- Archives ---------------------------------------------------------------------- */

static tarn_status open_next(tarn_samples *s, tarn_error *err)
{
    tarn_tar_options o = TARN_TAR_OPTIONS_INIT;
    o.lenient = s->options.lenient;
    o.notice = s->options.notice;
    o.notice_context = s->options.notice_context;
    o.allow_pipe = s->options.allow_pipe;
    o.source = s->options.source;
    if (s->shard == s->n_urls) return TARN_END;
    tarn__window_use use = s->options.sizes_only ? TARN__WINDOW_HOP : TARN__WINDOW_ALL;
    TARN_TRY(tarn__tar_open_url(&s->tar, s->urls[s->shard], &o, use, err));
    s->shard++;
    s->open = true;
    s->keys_full = false;
    tarn__hashes_clear(&s->keys);
    return TARN_OK;
}

static void report_links(const tarn_samples *s)
{
    tarn_error what;
    uint64_t links = s->tar.counts.links;
    if (!s->options.notice || !links) return;
    tarn__error_set(&what, TARN_ERR_UNSUPPORTED, s->tar.file.path, TARN_NO_OFFSET,
                    "skipped %llu link%s: a link contains no data",
                    (unsigned long long)links, links == 1 ? "" : "s");
    s->options.notice(s->options.notice_context, &what);
}

static void close_shard(tarn_samples *s)
{
    const tarn_tar_counts *c = &s->tar.counts;
    tarn_samples_report *r = &s->report;
    r->shards++;
    r->directories += c->directories;
    r->links += c->links;
    r->devices += c->devices;
    r->damages += c->damages;
    r->lost_bytes += c->lost_bytes;
    report_links(s);
    s->passed += s->tar.file.size;
    tarn__tar_close(&s->tar);
    s->open = false;
}

/* --- Reading ahead ----------------------------------------------------------------- */

static tarn_status split_name(tarn_samples *s, tarn_error *err)
{
    const char *name = s->member_name.data;
    size_t len = s->member_name.size;
    if (s->options.grouping == TARN_GROUP_WEBDATASET)
        return tarn__split_webdataset(&s->splitter, name, len, &s->key, err);
    tarn_keys rule =
        s->options.grouping == TARN_GROUP_PATH ? TARN_KEYS_PATH : TARN_KEYS_BASE;
    return tarn__split(&s->splitter, rule, name, len, &s->key, err);
}

static void pass_unkeyed(tarn_samples *s)
{
    const char *name = s->member_name.data;
    size_t len = s->member_name.size;
    bool metadata = s->options.grouping == TARN_GROUP_WEBDATASET
                        ? tarn__is_webdataset_metadata(name, len)
                        : tarn__is_metadata(name, len);
    if (metadata) {
        s->report.metadata++;
        return;
    }
    s->report.unkeyed++;
    report_by_name(s, &s->noticed_unkeyed, TARN_ERR_FORMAT, s->member.offset,
                   "does not belong to a sample: its name has no key or no field", name,
                   len);
}

/* In lenient mode a member with an unusable name is skipped like damage. */
static tarn_status forgive_member(tarn_samples *s, tarn_error *err)
{
    tarn__error_place(err, s->tar.file.path, s->member.offset);
    if (!s->options.lenient) return TARN_ERR_FORMAT;
    if (s->options.notice) s->options.notice(s->options.notice_context, err);
    s->tar.counts.damages++;
    s->tar.counts.lost_bytes += s->member.size;
    return TARN_END;
}

/* Reads the next member that belongs to a sample. TARN_END after the last one of an
 * archive, which is then closed. */
static tarn_status read_ahead(tarn_samples *s, tarn_error *err)
{
    tarn_error why;
    uint64_t damages = s->tar.counts.damages;
    s->ahead = false;
    for (;;) {
        TARN_TRY(report_progress(s, err));
        tarn_status status = tarn__tar_next(&s->tar, &s->member, err);
        s->torn = s->torn || s->tar.counts.damages != damages;
        if (status == TARN_END) close_shard(s);
        TARN_TRY(status);
        if (s->member.kind != TARN__REGULAR) continue;
        s->member_name.size = 0;
        TARN_TRY(tarn__buf_add(&s->member_name, s->member.name, s->member.name_len, err));
        status = split_name(s, &why);
        if (status == TARN_END) {
            pass_unkeyed(s);
            continue;
        }
        if (status == TARN_ERR_FORMAT) status = forgive_member(s, &why);
        if (status == TARN_END) continue;
        if (status != TARN_OK && err) *err = why;
        TARN_TRY(status);
        s->ahead = true;
        return TARN_OK;
    }
}

/* --- The current sample ------------------------------------------------------------ */

static tarn_status add_text(tarn_samples *s, const char *text, size_t len, size_t *out,
                            tarn_error *err)
{
    *out = s->text.size;
    TARN_TRY(tarn__buf_add(&s->text, text, len, err));
    return tarn__buf_add(&s->text, "", 1, err);
}

static bool is_selected(const tarn_samples *s, const char *name, size_t len)
{
    if (!s->options.n_fields) return true;
    for (size_t i = 0; i < s->options.n_fields; i++)
        if (strlen(s->options.fields[i]) == len &&
            memcmp(s->options.fields[i], name, len) == 0)
            return true;
    return false;
}

static const part *find_part(const tarn_samples *s, uint64_t hash)
{
    const tarn__key *key = &s->key;
    for (size_t i = 0; i < s->count; i++) {
        const part *p = &s->parts[i];
        if (p->hash == hash && p->name_len == key->field_len &&
            memcmp(s->text.data + p->name, key->field, key->field_len) == 0)
            return p;
    }
    return NULL;
}

/* Names that WebDataset's dictionary uses itself. */
static bool is_reserved(const tarn_samples *s)
{
    static const char *const names[] = {"__key__", "__url__", "__local_path__"};
    if (s->options.grouping != TARN_GROUP_WEBDATASET) return false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (s->key.field_len == strlen(names[i]) &&
            memcmp(s->key.field, names[i], s->key.field_len) == 0)
            return true;
    return false;
}

/* If the payload is truncated, the next step ends the archive and reports it; here the
 * member is only left out. */
static tarn_status read_payload(tarn_samples *s, part *p, tarn_error *err)
{
    p->data = s->bytes.size;
    if (p->size > s->options.max_sample_bytes - s->bytes.size)
        return tarn__fail_at(
            err, TARN_ERR_LIMIT, s->tar.file.path, p->offset,
            "with %llu bytes of this member the sample exceeds the %llu bytes that "
            "max_sample_bytes allows",
            (unsigned long long)p->size, (unsigned long long)s->options.max_sample_bytes);
    for (uint64_t done = 0; done < p->size;) {
        uint64_t left = p->size - done;
        size_t n = left < PIECE ? (size_t)left : PIECE;
        TARN_TRY(tarn__buf_reserve(&s->bytes, n, err));
        TARN_TRY(tarn__tar_payload(&s->tar, &s->member, done,
                                   s->bytes.data + s->bytes.size, n, err));
        s->bytes.size += n;
        done += n;
        TARN_TRY(report_progress(s, err));
    }
    return TARN_OK;
}

static tarn_status add_part(tarn_samples *s, uint64_t hash, tarn_error *err)
{
    part p = {.hash = hash,
              .name_len = s->key.field_len,
              .member_len = s->member_name.size,
              .size = s->member.size,
              .offset = s->member.offset};
    if (s->count == TARN_MAX_FIELDS)
        return fail_member(s, TARN_ERR_LIMIT, "its sample has too many fields", err);
    TARN_TRY(tarn__grow(&s->parts, sizeof *s->parts, s->count, &s->capacity, err));
    size_t text = s->text.size, bytes = s->bytes.size;
    TARN_TRY(add_text(s, s->key.field, s->key.field_len, &p.name, err));
    TARN_TRY(add_text(s, s->member_name.data, s->member_name.size, &p.member, err));
    if (s->wanted && !s->options.sizes_only &&
        is_selected(s, s->key.field, s->key.field_len)) {
        tarn_error why;
        tarn_status status = read_payload(s, &p, &why);
        if (s->options.lenient && s->tar.source &&
            (status == TARN_ERR_TRUNCATED || s->tar.window.failed) &&
            tarn__tar_is_damage(&s->tar, status)) {
            s->text.size = text;
            s->bytes.size = bytes;
            s->damaged = true;
            return TARN_OK;
        }
        if (status != TARN_OK && err) *err = why;
        TARN_TRY(status);
    }
    s->parts[s->count++] = p;
    return TARN_OK;
}

static tarn_status fail_twice(tarn_samples *s, tarn_error *err)
{
    bool in_folder = memchr(s->member_name.data, '/', s->member_name.size);
    return fail_member(s, TARN_ERR_FORMAT,
                       in_folder && s->options.grouping == TARN_GROUP_BASE
                           ? "the sample already has this field; keys that keep the "
                             "folder (--keys path) distinguish samples of two folders"
                           : "the sample already has this field",
                       err);
}

/* Adds the member that was read ahead to the current sample. */
static tarn_status take_ahead(tarn_samples *s, tarn_error *err)
{
    static const char bad[] = "__bad__";
    uint64_t hash = tarn__name_hash(s->key.field, s->key.field_len);
    s->report.members++;
    s->report.bytes += s->member.size;
    if (s->torn) s->damaged = true;
    s->torn = false;
    if (is_reserved(s))
        return fail_member(s, TARN_ERR_FORMAT,
                           "WebDataset reserves this field name, so it could not "
                           "read the sample",
                           err);
    if (find_part(s, hash)) {
        s->report.duplicates++;
        if (!s->options.keep_first) return fail_twice(s, err);
        report_by_name(s, &s->noticed_duplicates, TARN_ERR_FORMAT, s->member.offset,
                       "is skipped: the sample already has this field",
                       s->member_name.data, s->member_name.size);
        return TARN_OK;
    }
    if (s->options.grouping == TARN_GROUP_WEBDATASET && s->member.size &&
        s->key.field_len == sizeof bad - 1 &&
        memcmp(s->key.field, bad, sizeof bad - 1) == 0)
        s->bad = true;
    return add_part(s, hash, err);
}

/* Reports a key that appeared before; the sample is returned all the same. */
static tarn_status note_key(tarn_samples *s, tarn_error *err)
{
    bool there = false;
    if (s->keys_full) return TARN_OK;
    tarn_status status = tarn__hashes_add(
        &s->keys, tarn__name_hash(s->key.stem, s->key.stem_len), NULL, &there, err);
    if (status == TARN_END) {
        uint64_t noticed = 0;
        s->keys_full = true;
        report_by_name(s, &noticed, TARN_ERR_LIMIT, s->member.offset,
                       "and later samples are not checked for repeated keys: the archive "
                       "has too many keys",
                       s->key.stem, s->key.stem_len);
        return TARN_OK;
    }
    TARN_TRY(status);
    if (!there) return TARN_OK;
    s->report.scattered++;
    report_by_name(
        s, &s->noticed_scattered, TARN_ERR_AMBIGUOUS, s->member.offset,
        "was already a sample in this archive: its members are not consecutive, and "
        "each part is a separate sample",
        s->key.stem, s->key.stem_len);
    return TARN_OK;
}

static tarn_status begin_sample(tarn_samples *s, tarn_error *err)
{
    size_t at;
    s->text.size = s->bytes.size = s->count = 0;
    s->damaged = s->bad = false;
    s->unfinished = true;
    s->key_len = s->key.stem_len;
    TARN_TRY(note_key(s, err));
    TARN_TRY(add_text(s, s->key.stem, s->key.stem_len, &at, err));
    s->wanted = !s->options.want ||
                s->options.want(s->options.want_context, s->text.data, s->key_len);
    return TARN_OK;
}

static bool continues_sample(const tarn_samples *s)
{
    return s->key.stem_len == s->key_len &&
           memcmp(s->key.stem, s->text.data, s->key_len) == 0;
}

static tarn_status collect_sample(tarn_samples *s, tarn_error *err)
{
    tarn_status status;
    TARN_TRY(begin_sample(s, err));
    do {
        TARN_TRY(take_ahead(s, err));
        status = read_ahead(s, err);
        if (s->torn) s->damaged = true;
    } while (status == TARN_OK && continues_sample(s));
    if (status == TARN_END) status = TARN_OK;
    if (status == TARN_OK) s->unfinished = false;
    return status;
}

/* Keeps the selected fields; false if the sample is not to be returned. */
static bool is_complete(tarn_samples *s)
{
    size_t kept = 0;
    if (s->bad) {
        s->report.dropped++;
        report_by_name(s, &s->noticed_dropped, TARN_ERR_FORMAT, s->parts[0].offset,
                       "is dropped because it has a field __bad__", s->text.data,
                       s->key_len);
        return false;
    }
    for (size_t i = 0; i < s->count; i++)
        if (is_selected(s, s->text.data + s->parts[i].name, s->parts[i].name_len))
            s->parts[kept++] = s->parts[i];
    s->count = kept;
    bool all = s->wanted && (!s->options.n_fields || kept == s->options.n_fields);
    s->report.passed_over += !all;
    return all && kept;
}

static tarn_status show_item(tarn_samples *s, tarn_samples_item *out, tarn_error *err)
{
    if (s->count > s->field_capacity) {
        tarn_samples_field *grown = realloc(s->fields, s->capacity * sizeof *grown);
        if (!grown) return tarn__fail_memory(err);
        s->fields = grown;
        s->field_capacity = s->capacity;
    }
    for (size_t i = 0; i < s->count; i++) {
        const part *p = &s->parts[i];
        static const unsigned char none[1];
        const unsigned char *data = (const unsigned char *)s->bytes.data;
        s->fields[i] = (tarn_samples_field){.name = s->text.data + p->name,
                                            .name_len = p->name_len,
                                            .data = s->options.sizes_only ? NULL
                                                    : p->size             ? data + p->data
                                                                          : none,
                                            .size = p->size,
                                            .offset = p->offset,
                                            .member = s->text.data + p->member,
                                            .member_len = p->member_len};
    }
    size_t shard = s->sample_shard;
    *out = (tarn_samples_item){.key = s->text.data,
                               .key_len = s->key_len,
                               .url = s->urls[shard],
                               .shard = shard,
                               .fields = s->fields,
                               .count = s->count,
                               .damaged = s->damaged};
    s->report.samples++;
    return TARN_OK;
}

tarn_status tarn_samples_next(tarn_samples *s, tarn_samples_item *out, tarn_error *err)
{
    TARN__NEED(err, "samples", s);
    TARN__NEED(err, "out", out);
    for (;;) {
        while (!s->ahead) {
            if (!s->open) {
                s->torn = false;
                TARN_TRY(open_next(s, err));
            }
            tarn_status status = read_ahead(s, err);
            if (status != TARN_OK && status != TARN_END) return status;
        }
        s->sample_shard = s->shard - 1;
        TARN_TRY(collect_sample(s, err));
        if (is_complete(s)) return show_item(s, out, err);
    }
}

tarn_status tarn_samples_unfinished(tarn_samples *s, tarn_samples_item *out,
                                    tarn_error *err)
{
    TARN__NEED(err, "samples", s);
    TARN__NEED(err, "out", out);
    if (!s->unfinished) return TARN_END;
    s->unfinished = false;
    return is_complete(s) ? show_item(s, out, err) : TARN_END;
}

/* --- Opening and closing ----------------------------------------------------------- */

tarn_status tarn_samples_open(const char *const *urls, size_t count,
                              const tarn_samples_options *options, tarn_samples **out,
                              tarn_error *err)
{
    TARN__NEED(err, "urls", urls || !count);
    TARN__NEED(err, "out", out);
    TARN__OPTIONS(tarn_samples_options, taken, TARN_SAMPLES_OPTIONS_INIT, options, err);
    if ((unsigned)taken.grouping > TARN_GROUP_BASE)
        return tarn__fail(err, TARN_ERR_USAGE, "unknown grouping number %d",
                          (int)taken.grouping);
    tarn_samples *s = calloc(1, sizeof *s);
    if (!s) return tarn__fail_memory(err);
    s->options = taken;
    tarn__splitter_init(&s->splitter);
    tarn__buf_init(&s->member_name, TARN_MAX_EXTENDED);
    tarn__buf_init(&s->text, MAX_TEXT);
    tarn__buf_init(&s->bytes, SIZE_MAX / 2);
    s->keys.max = MAX_KEYS;
    s->urls = calloc(count + 1, sizeof *s->urls);
    tarn_status status = s->urls ? TARN_OK : tarn__fail_memory(err);
    for (; status == TARN_OK && s->n_urls < count; s->n_urls++)
        if (!(s->urls[s->n_urls] = strdup(urls[s->n_urls])))
            status = tarn__fail_memory(err);
    if (status == TARN_OK)
        *out = s;
    else
        tarn_samples_close(s);
    return status;
}

void tarn_samples_close(tarn_samples *s)
{
    if (!s) return;
    if (s->open) tarn__tar_close(&s->tar);
    for (size_t i = 0; s->urls && i < s->n_urls; i++)
        free(s->urls[i]);
    free(s->urls);
    tarn__splitter_reset(&s->splitter);
    tarn__buf_reset(&s->member_name);
    tarn__buf_reset(&s->text);
    tarn__buf_reset(&s->bytes);
    tarn__hashes_reset(&s->keys);
    free(s->parts);
    free(s->fields);
    free(s);
}

void tarn_samples_report_get(const tarn_samples *s, tarn_samples_report *out, size_t size)
{
    if (!s) {
        TARN__FILL_ZERO(out, size);
        return;
    }
    tarn_samples_report report = s->report;
    if (s->open) {
        report.directories += s->tar.counts.directories;
        report.links += s->tar.counts.links;
        report.devices += s->tar.counts.devices;
        report.damages += s->tar.counts.damages;
        report.lost_bytes += s->tar.counts.lost_bytes;
    }
    TARN__FILL_OUT(out, size, report);
}

tarn_status tarn_samples_extract(const tarn_samples_item *item, const char *folder,
                                 bool overwrite, uint64_t *out_files, tarn_error *err)
{
    TARN__NEED(err, "item", item);
    TARN__NEED(err, "folder", folder);
    TARN__NEED(err, "out_files", out_files);
    int root;
    TARN_TRY(tarn__open_folder(folder, &root, err));
    tarn_status status = TARN_OK;
    for (size_t i = 0; status == TARN_OK && i < item->count; i++) {
        const tarn_samples_field *f = &item->fields[i];
        if (!f->data) {
            status = tarn__fail(err, TARN_ERR_USAGE,
                                "the sample was read without its payloads");
            break;
        }
        tarn__payload payload = {.data = f->data, .size = (size_t)f->size};
        status = tarn__write_beneath(root, folder, f->member, f->member_len, overwrite,
                                     &payload, err);
        *out_files += status == TARN_OK;
    }
    close(root);
    return status;
}
