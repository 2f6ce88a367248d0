/* Walks an archive header by header. A step either returns a member or an error;
 * recover.c handles errors in lenient mode. */
#include "tar/reader.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/options.h"
#include "io/guard.h"
#include "tar/digest.h"

TARN__DEFINE_INIT(tarn_tar_options, TARN_TAR_OPTIONS_INIT)

static tarn_status fail(const tarn_tar *tar, tarn_error *err, tarn_status code,
                        const char *what)
{
    return tarn__fail_at(err, code, tar->file.path, tar->at, "%s", what);
}

bool tarn__tar_passed_zeros(const tarn_tar *tar, uint64_t offset, size_t len)
{
    return tar->source && offset >= tar->zeros && len <= TARN__BLOCK &&
           tarn__range_in(offset, len, tar->zeros_end);
}

const unsigned char tarn__zero_block[TARN__BLOCK];

/* Lenient readers do not read on, either. */
static tarn_status fail_endless(tarn_tar *tar, uint64_t began, tarn_error *err)
{
    tarn_error *why = &tar->window.failure;
    tar->window.failed = true;
    tarn_status status = tarn__fail_at(
        why, TARN_ERR_LIMIT, tar->file.path, began,
        "more than %u MiB of zeros (TARN_MAX_END_ZEROS); if this is the end "
        "of the archive, remove the zeros",
        TARN_MAX_END_ZEROS >> 20);
    if (err) *err = *why;
    return status;
}

tarn_status tarn__tar_skip_zeros(tarn_tar *tar, uint64_t from, uint64_t *out,
                                 tarn_error *err)
{
    uint64_t kept = tar->window.keep, began = from;
    if (tarn__tar_passed_zeros(tar, from, 1)) from = tar->zeros_end;
    for (;;) {
        const unsigned char *data;
        size_t len;
        /* The first byte that is not zero may be inside a block that is a header. */
        if (kept == TARN_NO_OFFSET)
            tarn__window_keep(&tar->window, from & ~(uint64_t)(TARN__BLOCK - 1));
        tarn_status status =
            tarn__window_some(&tar->window, from, TARN__SIZE_UNKNOWN, &data, &len, err);
        if (status == TARN_END) break;
        TARN_TRY(status);
        size_t zeros = tarn__zero_span(data, len);
        from += zeros;
        if (zeros < len) break;
        if (tar->source && from - began > TARN_MAX_END_ZEROS) {
            tarn__window_keep(&tar->window, kept);
            return fail_endless(tar, began, err);
        }
    }
    tarn__window_keep(&tar->window, kept);
    *out = from;
    return TARN_OK;
}

/* At a zero block: everything after it must be zero too. */
static tarn_status check_end(tarn_tar *tar, tarn_error *err)
{
    uint64_t end = tar->at, rest;
    TARN_TRY(tarn__tar_skip_zeros(tar, end, &rest, err));
    tar->zeros = end;
    tar->zeros_end = rest;
    if (rest == tar->file.size) {
        tar->ended = true;
        return TARN_END;
    }
    if (tar->file.size == TARN__SIZE_UNKNOWN)
        return tarn__fail_at(err, TARN_ERR_FORMAT, tar->file.path, rest,
                             "bytes follow the end of the archive at offset %llu",
                             (unsigned long long)end);
    return tarn__fail_at(err, TARN_ERR_FORMAT, tar->file.path, rest,
                         "%llu bytes follow the end of the archive at offset %llu",
                         (unsigned long long)(tar->file.size - rest),
                         (unsigned long long)end);
}

/* A stream has ended inside the member that was returned last. */
static tarn_status fail_cut(const tarn_tar *tar, tarn_error *err)
{
    const tarn__extent *m = &tar->current;
    return tarn__fail_at(
        err, TARN_ERR_TRUNCATED, tar->file.path, m->offset,
        "the file ends inside member %s: %llu bytes are missing",
        TARN__SHOW(tar->name.data, tar->name.size),
        (unsigned long long)(m->offset + TARN__BLOCK + m->size - tar->file.size));
}

static bool is_cut(const tarn_tar *tar)
{
    const tarn__extent *m = &tar->current;
    return m->size && tar->file.size < m->offset + TARN__BLOCK + m->size;
}

/* Moves the reader back before that member, as if the end had been known in advance. */
static void take_back(tarn_tar *tar)
{
    tar->at = tar->current.offset;
    tar->group = tar->current.start;
    tar->counts.members--;
}

/* The header block at tar->at, or an error if there is none. */
static tarn_status get_block(tarn_tar *tar, const unsigned char **out, tarn_error *err)
{
    tarn_status status = tarn__tar_get(tar, tar->at, TARN__BLOCK, out, err);
    if (status == TARN_OK)
        return tarn__block_is_zero(*out) ? check_end(tar, err) : TARN_OK;
    if (status != TARN_END) return status;
    uint64_t size = tar->file.size;
    if (is_cut(tar)) {
        take_back(tar);
        return fail_cut(tar, err);
    }
    if (size == 0) return fail(tar, err, TARN_ERR_TRUNCATED, "the file is empty");
    if (tar->at > size)
        return tarn__fail_at(err, TARN_ERR_TRUNCATED, tar->file.path, size,
                             "the file ends in the padding of its last member; the "
                             "end of the archive is missing");
    if (tar->at == size)
        return fail(tar, err, TARN_ERR_TRUNCATED,
                    "the end of the archive is missing: no zero block before the end of "
                    "the file");
    bool page =
        tar->at == 0 && tarn__tar_get(tar, 0, 1, out, NULL) == TARN_OK && **out == '<';
    return tarn__fail_at(err, TARN_ERR_TRUNCATED, tar->file.path, tar->at,
                         "the file ends %llu bytes into a header%s",
                         (unsigned long long)(size - tar->at),
                         page ? TARN__WEB_PAGE : "");
}

/* Fetches an extended header with its records and moves past it. */
static tarn_status get_extended(tarn_tar *tar, const tarn__header *header,
                                const char **out, tarn_error *err)
{
    const unsigned char *data;
    if (header->size > TARN_MAX_EXTENDED)
        return tarn__fail_at(err, TARN_ERR_LIMIT, tar->file.path, tar->at,
                             "an extended header has %llu bytes (the limit is %u)",
                             (unsigned long long)header->size, TARN_MAX_EXTENDED);
    size_t whole = (size_t)(tarn__member_end(tar->at, header->size) - tar->at);
    tarn_status status = tarn__tar_get(tar, tar->at, whole, &data, err);
    if (status == TARN_END)
        return fail(tar, err, TARN_ERR_TRUNCATED,
                    "the file ends inside an extended header");
    TARN_TRY(status);
    /* Some programs continue to read records or a name in the padding. */
    size_t used = TARN__BLOCK + (size_t)header->size;
    if (tarn__zero_span(data + used, whole - used) < whole - used)
        return fail(tar, err, TARN_ERR_UNSUPPORTED,
                    "data in the padding of an extended header: tar programs disagree "
                    "about its meaning");
    tar->digest = tarn__digest_extended(tar->digest, data, header->size);
    *out = (const char *)data + TARN__BLOCK;
    return TARN_OK;
}

static tarn_status keep_path(tarn_tar *tar, const char *path, size_t len, tarn_error *err)
{
    tar->path.size = 0;
    TARN_TRY(tarn__buf_add(&tar->path, path, len, err));
    tar->extended.has_path = true;
    return TARN_OK;
}

static tarn_status take_pax(tarn_tar *tar, const tarn__header *header,
                            const char *records, tarn_error *err)
{
    tarn__pax pax;
    tarn__extended *x = &tar->extended;
    if (x->pax || x->gnu_name || x->gnu_link)
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "two extended headers before one member: tar programs disagree "
                          "about which one applies");
    TARN_TRY(tarn__pax_parse(records, header->size, &pax, err));
    x->pax = true;
    x->has_size = pax.has_size;
    x->size = pax.size;
    x->has_mtime = pax.has_mtime;
    x->mtime = pax.mtime;
    x->mtime_ns = pax.mtime_ns;
    return pax.path ? keep_path(tar, pax.path, pax.path_len, err) : TARN_OK;
}

static tarn_status take_global(tarn_tar *tar, const tarn__header *header,
                               const char *records, tarn_error *err)
{
    tarn__pax pax;
    if (tar->extended.pax || tar->extended.gnu_name || tar->extended.gnu_link)
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "a global header between an extended header and its member");
    TARN_TRY(tarn__pax_parse(records, header->size, &pax, err));
    if (pax.has_size || pax.path)
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "a %s in a global pax header: tar programs disagree about "
                          "its meaning",
                          pax.has_size ? "size" : "path");
    if (pax.has_mtime) tar->global = pax;
    return TARN_OK;
}

static tarn_status take_gnu(tarn_tar *tar, const tarn__header *header, const char *text,
                            tarn_error *err)
{
    tarn__extended *x = &tar->extended;
    bool again = header->kind == TARN__GNU_NAME ? x->gnu_name : x->gnu_link;
    if (x->pax || again)
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "two extended headers before one member: tar programs disagree "
                          "about which one applies");
    if (header->kind == TARN__GNU_LINK) {
        x->gnu_link = true;
        return TARN_OK;
    }
    size_t len = strnlen(text, header->size);
    if (len == 0 || len > TARN_MAX_NAME)
        return tarn__fail(err, TARN_ERR_FORMAT,
                          "a GNU long name has an invalid length: %zu bytes", len);
    if (tarn__zero_span((const unsigned char *)text + len, header->size - len) <
        header->size - len)
        return tarn__fail(err, TARN_ERR_FORMAT, "a GNU long name contains a NUL");
    x->gnu_name = true;
    return keep_path(tar, text, len, err);
}

/* Reads an extended header and moves past it. */
static tarn_status take_extended(tarn_tar *tar, const tarn__header *header,
                                 tarn_error *err)
{
    const char *text;
    tarn__header h = *header; /* its name points into the window, its numbers do not */
    tar->saw_extended = true;
    TARN_TRY(get_extended(tar, &h, &text, err));
    tarn_status status = h.kind == TARN__PAX          ? take_pax(tar, &h, text, err)
                         : h.kind == TARN__PAX_GLOBAL ? take_global(tar, &h, text, err)
                                                      : take_gnu(tar, &h, text, err);
    if (status != TARN_OK) {
        tarn__error_place(err, tar->file.path, tar->at);
        return status;
    }
    tar->at = tarn__member_end(tar->at, h.size);
    return TARN_OK;
}

static tarn_status join_name(tarn_tar *tar, const tarn__header *header, tarn__member *out,
                             tarn_error *err)
{
    if (tar->extended.has_path) {
        out->name = tar->path.data;
        out->name_len = tar->path.size;
    } else if (header->prefix_len) {
        tar->joined.size = 0;
        TARN_TRY(tarn__buf_add(&tar->joined, header->prefix, header->prefix_len, err));
        TARN_TRY(tarn__buf_add(&tar->joined, "/", 1, err));
        TARN_TRY(tarn__buf_add(&tar->joined, header->name, header->name_len, err));
        out->name = tar->joined.data;
        out->name_len = tar->joined.size;
    } else {
        out->name = header->name;
        out->name_len = header->name_len;
    }
    if (out->name_len) return TARN_OK;
    return fail(tar, err, TARN_ERR_FORMAT, "a member has no name");
}

static bool ends_in_slash(const char *name, size_t len)
{
    return len > 0 && name[len - 1] == '/';
}

/* Some programs take a name that ends with a slash for a directory, others do not. With
 * the old type all programs do, if the header's own name and the final name agree. */
static tarn_status settle_kind(const tarn_tar *tar, const tarn__header *header,
                               tarn__member *m, tarn_error *err)
{
    bool slash = ends_in_slash(m->name, m->name_len);
    if (m->kind == TARN__REGULAR) {
        bool own_slash = ends_in_slash(header->name, header->name_len);
        size_t slashes = 0;
        while (slashes < m->name_len && m->name[slashes] == '/')
            slashes++;
        if (m->type == '\0' ? slash != own_slash || slashes == m->name_len : slash)
            return fail(tar, err, TARN_ERR_UNSUPPORTED,
                        "a regular file whose name ends with a slash: tar programs "
                        "disagree about it");
        if (slash) {
            m->kind = TARN__DIRECTORY;
            m->type = '5';
        } else {
            m->type = '0';
        }
    }
    if (m->kind != TARN__REGULAR && (m->size || header->size))
        return fail(tar, err, TARN_ERR_UNSUPPORTED,
                    "a directory, link or device with a size: tar programs disagree "
                    "about where the next member begins");
    return TARN_OK;
}

/* The next header is needed as soon as the caller has finished with this member, so its
 * cache lines are loaded meanwhile. */
static void prefetch_header(const tarn_tar *tar)
{
    const tarn__window *w = &tar->window;
    if (tar->at < w->start || tar->at + TARN__BLOCK > w->end) return;
    const unsigned char *block = w->data + (tar->at - w->start);
    for (unsigned line = 0; line < TARN__BLOCK; line += 64)
        __builtin_prefetch(block + line);
}

/* In a stream, values of a member that may be requested later must be kept. */
static tarn_status keep_member(tarn_tar *tar, tarn__member *m, tarn_error *err)
{
    tar->name.size = 0;
    TARN_TRY(tarn__buf_add(&tar->name, m->name, m->name_len, err));
    m->name = tar->name.data;
    tar->current = (tarn__extent){m->start, m->offset, m->size};
    tar->read_to = 0;
    return TARN_OK;
}

static tarn_status take_member(tarn_tar *tar, const tarn__header *header,
                               tarn__member *out, tarn_error *err)
{
    out->kind = header->kind;
    out->type = header->type;
    out->start = tar->group;
    out->offset = tar->at;
    out->size = tar->extended.has_size ? tar->extended.size : header->size;
    TARN_TRY(join_name(tar, header, out, err));
    TARN_TRY(settle_kind(tar, header, out, err));
    uint64_t room = tar->file.size - (tar->at + TARN__BLOCK);
    if (out->size > room) {
        return tarn__fail_at(err, TARN_ERR_TRUNCATED, tar->file.path, tar->at,
                             "the file ends inside member %s: %llu bytes are missing",
                             TARN__SHOW(out->name, out->name_len),
                             (unsigned long long)(out->size - room));
    }
    if (tar->source) TARN_TRY(keep_member(tar, out, err));
    tar->at = tarn__member_end(tar->at, out->size);
    prefetch_header(tar);
    return TARN_OK;
}

static void count_member(tarn_tar *tar, tarn__kind kind)
{
    tarn_tar_counts *c = &tar->counts;
    if (kind == TARN__REGULAR)
        c->members++;
    else if (kind == TARN__DIRECTORY)
        c->directories++;
    else if (kind == TARN__LINK)
        c->links++;
    else
        c->devices++;
}

/* One step without recovery; after a failure tar->at is still the header's offset. */
static tarn_status read_step(tarn_tar *tar, tarn__member *out, tarn_error *err)
{
    tar->extended = (tarn__extended){0};
    tar->group = tar->at;
    bool after_global = false;
    for (;;) {
        const unsigned char *block = NULL;
        tarn__header header;
        tarn_status status = get_block(tar, &block, err);
        if (status == TARN_END && (tar->at != tar->group || after_global)) {
            tar->ended = false;
            return tarn__fail_at(err, TARN_ERR_FORMAT, tar->file.path, tar->group,
                                 "no member follows an extended header");
        }
        TARN_TRY(status);
        status = tarn__header_parse(block, &header, err);
        if (status != TARN_OK) {
            tarn__error_place(err, tar->file.path, tar->at);
            return status;
        }
        if (header.kind < TARN__PAX) {
            tar->digest = tarn__digest_header(tar->digest, block);
            return take_member(tar, &header, out, err);
        }
        TARN_TRY(take_extended(tar, &header, err));
        /* A global header is complete by itself: a new group begins after it. */
        after_global = header.kind == TARN__PAX_GLOBAL;
        if (after_global) tar->group = tar->at;
    }
}

bool tarn__tar_is_damage(const tarn_tar *tar, tarn_status status)
{
    if (tar->window.failed)
        return status == TARN_ERR_FORMAT || status == TARN_ERR_TRUNCATED ||
               status == TARN_ERR_CHECKSUM;
    return status != TARN_ERR_MEMORY && status != TARN_ERR_IO;
}

/* Lost pages of a mapped file read as zeros, which look like the end of an archive. */
static tarn_status check_map(const tarn_tar *tar, tarn_error *err)
{
    if (!tarn__map_is_torn(tar->window.map)) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_TRUNCATED, tar->file.path, tar->at,
                         "the file was truncated while it was read");
}

tarn_status tarn__tar_next(tarn_tar *tar, tarn__member *out, tarn_error *err)
{
    if (tar->ended) return TARN_END;
    for (;;) {
        tarn_error why;
        tarn_status status = read_step(tar, out, tar->options.lenient ? &why : err);
        if (status == TARN_OK || status == TARN_END) TARN_TRY(check_map(tar, err));
        if (status == TARN_OK) {
            count_member(tar, out->kind);
            return TARN_OK;
        }
        if (status == TARN_END) return TARN_END;
        if (!tar->options.lenient || !tarn__tar_is_damage(tar, status)) {
            if (tar->options.lenient && err) *err = why;
            return status;
        }
        TARN_TRY(tarn__tar_recover(tar, &why, err));
    }
}

tarn_status tarn_tar_open(const char *path, const tarn_tar_options *options,
                          tarn_tar **out, tarn_error *err)
{
    TARN__NEED(err, "path", path);
    TARN__NEED(err, "out", out);
    TARN__OPTIONS(tarn_tar_options, taken, TARN_TAR_OPTIONS_INIT, options, err);
    tarn_tar *tar = malloc(sizeof *tar);
    if (!tar) return tarn__fail_memory(err);
    tarn_status status = tarn__tar_open_url(tar, path, &taken, TARN__WINDOW_HOP, err);
    if (status == TARN_OK)
        *out = tar;
    else
        free(tar);
    return status;
}

void tarn_tar_close(tarn_tar *tar)
{
    if (!tar) return;
    tarn__tar_close(tar);
    free(tar);
}

static void fill_times(tarn_tar *tar, tarn_member *out, const unsigned char *block)
{
    out->mode = tarn__header_mode(block);
    out->mtime = tarn__header_time(block);
    out->mtime_ns = 0;
    if (tar->extended.has_mtime) {
        out->mtime = tar->extended.mtime;
        out->mtime_ns = tar->extended.mtime_ns;
    } else if (tar->global.has_mtime) {
        out->mtime = tar->global.mtime;
        out->mtime_ns = tar->global.mtime_ns;
    }
}

tarn_status tarn_tar_next(tarn_tar *tar, tarn_member *out, tarn_error *err)
{
    TARN__NEED(err, "tar", tar);
    TARN__NEED(err, "out", out);
    tarn__member m;
    do
        TARN_TRY(tarn__tar_next(tar, &m, err));
    while (m.kind != TARN__REGULAR && !tar->options.all_types);
    *out = (tarn_member){.name = m.name,
                         .name_len = m.name_len,
                         .start = m.start,
                         .offset = m.offset,
                         .size = m.size,
                         .type = m.type};
    const unsigned char *block;
    /* The block is still in the window, so this neither fails nor moves the name. */
    TARN_TRY(tarn__window_get(&tar->window, m.offset, TARN__BLOCK, &block, err));
    fill_times(tar, out, block);
    return TARN_OK;
}

static tarn_status check_in_order(const tarn_tar *tar, uint64_t header, uint64_t offset,
                                  tarn_error *err)
{
    if (header == tar->current.offset && offset >= tar->read_to) return TARN_OK;
    return tarn__fail_at(
        err, TARN_ERR_USAGE, tar->file.path, header,
        "these bytes of the stream are gone: in a stream, only the member "
        "returned last can be read, from front to back");
}

tarn_status tarn__tar_payload(tarn_tar *tar, const tarn__member *member, uint64_t offset,
                              void *buf, size_t len, tarn_error *err)
{
    if (tar->source) TARN_TRY(check_in_order(tar, member->offset, offset, err));
    tarn_status status = tarn__window_read(
        &tar->window, member->offset + TARN__BLOCK + offset, buf, len, err);
    if (status == TARN_END) return fail_cut(tar, err);
    TARN_TRY(status);
    tar->read_to = offset + len;
    return TARN_OK;
}

tarn_status tarn_tar_read(tarn_tar *tar, const tarn_member *member, uint64_t offset,
                          void *buf, size_t len, tarn_error *err)
{
    TARN__NEED(err, "tar", tar);
    TARN__NEED(err, "member", member);
    TARN__NEED(err, "buf", buf || !len);
    if (!tarn__range_in(offset, len, member->size))
        return tarn__fail_at(err, TARN_ERR_USAGE, tar->file.path, member->offset,
                             "read past the end of the member");
    if (tar->source) {
        tarn__member m = {.offset = member->offset, .size = member->size};
        return tarn__tar_payload(tar, &m, offset, buf, len, err);
    }
    return tarn__read_exact(tar->file.fd, tar->file.path, buf, len,
                            member->offset + TARN__BLOCK + offset, err);
}

void tarn_tar_counts_get(const tarn_tar *tar, tarn_tar_counts *out, size_t size)
{
    if (!tar) {
        TARN__FILL_ZERO(out, size);
        return;
    }
    TARN__FILL_OUT(out, size, tar->counts);
}
