/* Lenient reading. After a damaged header it is not certain where the next one is: the
 * size field may be damaged, and what looks like a header may be inside the payload of
 * the damaged member (an archive in an archive). The reader must never invent a member,
 * so it makes two guesses and accepts only what both agree on:
 *
 *   A  the offset that the size field of the damaged header gives;
 *   B  the first block after it that looks like a header. A complete archive in
 *      between, with its end and more bytes after that, is skipped first.
 *
 * Each guess starts a chain of headers. If A and B are equal, that is the place. If they
 * differ, the place is the first header that is on both chains. If there is nothing at A,
 * the place is B. But a B directly after the damaged header may be inside a payload, and
 * then A may be too: its whole chain is skipped.
 *
 * A real header may also have lost the extended header that names it. If that is
 * possible, the first member after the damage is skipped.
 *
 * A stream is read ahead only up to a limit, and everything read is kept. Bytes beyond
 * the limit are unseen: they end a chain. If any other conclusion than "both guesses are
 * equal" would depend on unseen bytes, the rest of the stream is given up. */
#include "tar/reader.h"

#include <string.h>

#include "base/checked.h"
#include "base/error.h"

/* Limit of the steps for finding where two chains meet, for a whole archive. A file
 * crafted to need more loses more members. */
#define MEETING_STEPS (1u << 20)

/* Remembers a read that failed: unreadable data is not damage, and nothing may be
 * concluded from it. */
static void note_trouble(tarn_tar *tar, tarn_status status, const tarn_error *why)
{
    bool too_far = status == TARN_ERR_LIMIT && !tar->window.failed;
    if (tar->source && (too_far || tarn__tar_is_damage(tar, status)))
        tar->unseen = true;
    else if (tar->trouble.code == TARN_OK)
        tar->trouble = *why;
}

/* Bytes inside the file, or NULL. */
static const unsigned char *bytes_at(tarn_tar *tar, uint64_t offset, size_t len)
{
    const unsigned char *data;
    tarn_error why;
    tarn_status status = tarn__tar_get(tar, offset, len, &data, &why);
    if (status == TARN_OK) return data;
    if (status != TARN_END) note_trouble(tar, status, &why);
    return NULL;
}

static const unsigned char *block_at(tarn_tar *tar, uint64_t offset)
{
    return bytes_at(tar, offset, TARN__BLOCK);
}

/* Whether the data reaches up to end, as far as is known. */
static bool reaches(tarn_tar *tar, uint64_t end)
{
    if (tar->file.size == TARN__SIZE_UNKNOWN) (void)bytes_at(tar, end - 1, 1);
    return end <= tar->file.size;
}

/* The end of the zeros that start at offset. */
static uint64_t zeros_end(tarn_tar *tar, uint64_t offset)
{
    uint64_t rest = offset;
    tarn_error why;
    tarn_status status = tarn__tar_skip_zeros(tar, offset, &rest, &why);
    if (status != TARN_OK) note_trouble(tar, status, &why);
    return rest;
}

/* Whether there is a header at offset, and the offset that follows from its own size.
 * Here and below, sizes are less than TARN_MAX_MEMBER_SIZE and offsets are those of a
 * file, so their sums fit. */
static bool peek_header(tarn_tar *tar, uint64_t offset, tarn__header *out,
                        uint64_t *out_next)
{
    const unsigned char *block = block_at(tar, offset);
    if (!block || tarn__header_parse(block, out, NULL) != TARN_OK) return false;
    if (!reaches(tar, offset + TARN__BLOCK + out->size)) return false;
    *out_next = tarn__member_end(offset, out->size);
    return true;
}

static bool is_header(tarn_tar *tar, uint64_t offset)
{
    tarn__header header;
    uint64_t next;
    return peek_header(tar, offset, &header, &next);
}

/* The size that the pax header at offset, with header->size bytes of records, sets. */
static bool peek_pax_size(tarn_tar *tar, uint64_t offset, const tarn__header *header,
                          uint64_t *out)
{
    tarn__pax pax;
    size_t size = (size_t)header->size;
    if (header->size > TARN_MAX_EXTENDED) return false;
    const unsigned char *data = bytes_at(tar, offset + TARN__BLOCK, size);
    if (!data || tarn__pax_parse((const char *)data, size, &pax, NULL) != TARN_OK)
        return false;
    *out = pax.size;
    return pax.has_size;
}

/* One step along a chain: past a member with its extended headers. False at its end. */
static bool step_chain(tarn_tar *tar, uint64_t *offset)
{
    tarn__header header;
    uint64_t next, pax_size = 0, at = *offset;
    bool has_pax_size = false;
    for (;;) {
        if (!peek_header(tar, at, &header, &next)) return false;
        if (header.kind < TARN__PAX) break;
        if (header.kind == TARN__PAX)
            has_pax_size = peek_pax_size(tar, at, &header, &pax_size);
        at = next;
    }
    if (has_pax_size && header.kind == TARN__REGULAR) {
        if (!reaches(tar, at + TARN__BLOCK + pax_size)) return false;
        next = tarn__member_end(at, pax_size);
    }
    *offset = next;
    return true;
}

/* Follows a chain to its end. True if that is the end of the file or more damage. False
 * if the chain is a complete archive with more bytes after it; then *out_end is after
 * it. */
static bool walk_chain(tarn_tar *tar, uint64_t offset, uint64_t *out_end)
{
    while (step_chain(tar, &offset))
        continue;
    *out_end = offset;
    const unsigned char *block = block_at(tar, offset);
    if (!block || !tarn__block_is_zero(block)) return true;
    uint64_t rest = zeros_end(tar, offset);
    *out_end = rest & ~(uint64_t)(TARN__BLOCK - 1);
    return rest == tar->file.size;
}

/* --- The two guesses --------------------------------------------------------------- */

/* Guess A: TARN_OK with the offset of a header, TARN_END if the end of the archive is
 * there, any other status if there is neither. */
static tarn_status guess_by_size(tarn_tar *tar, uint64_t damage, uint64_t *out)
{
    uint64_t size;
    const unsigned char *block = block_at(tar, damage);
    if (!block || !tarn__header_number(block + 124, 12, &size) ||
        size >= TARN_MAX_MEMBER_SIZE || !reaches(tar, damage + TARN__BLOCK + size))
        return TARN_ERR_NOT_FOUND;
    *out = tarn__member_end(damage, size);
    if (is_header(tar, *out)) return TARN_OK;
    block = block_at(tar, *out);
    bool ends =
        block && tarn__block_is_zero(block) && zeros_end(tar, *out) == tar->file.size;
    return ends ? TARN_END : TARN_ERR_NOT_FOUND;
}

/* Guess B, starting at an offset. */
static bool guess_by_look(tarn_tar *tar, uint64_t from, uint64_t *out)
{
    const unsigned char *block;
    uint64_t end;
    while ((block = block_at(tar, from))) {
        if (!tarn__header_sum_matches(block) || !is_header(tar, from)) {
            from += TARN__BLOCK;
        } else if (walk_chain(tar, from, &end)) {
            *out = from;
            return true;
        } else {
            from = end; /* after from, where there is no zero block */
        }
    }
    return false;
}

/* The first header on both chains. */
static bool meet_chains(tarn_tar *tar, uint64_t a, uint64_t b, uint64_t *out)
{
    while (a != b) {
        if (tar->meeting_steps++ >= MEETING_STEPS) return false;
        if (!step_chain(tar, a < b ? &a : &b)) return false;
    }
    *out = a;
    return is_header(tar, a);
}

static bool is_intact(tarn_tar *tar, uint64_t offset)
{
    const unsigned char *block = block_at(tar, offset);
    return block && tarn__header_sum_matches(block);
}

/* The place where reading can certainly continue: a header, or the end of the archive. */
static bool next_place(tarn_tar *tar, uint64_t damage, uint64_t *out)
{
    uint64_t a = 0, b, end;
    tarn_status by_size = guess_by_size(tar, damage, &a);
    *out = a;
    if (by_size == TARN_END) return true;
    /* The size in an intact header is correct, even if the header is rejected. */
    if (is_intact(tar, damage)) return by_size == TARN_OK;
    if (!guess_by_look(tar, damage + TARN__BLOCK, &b)) return false;
    *out = b;
    if (by_size == TARN_OK && a == b && b != damage + TARN__BLOCK) return true;
    if (b == damage + TARN__BLOCK) /* search again after the end of this chain */
        return walk_chain(tar, b, &end) && !tar->unseen &&
               guess_by_look(tar, end + TARN__BLOCK, out) && !tar->unseen;
    return !tar->unseen && (by_size != TARN_OK || meet_chains(tar, a, b, out));
}

/* --- Members that may have lost their name ----------------------------------------- */

/* Whether data, which ends at a header, contains an extended header that reaches up to
 * that header. */
static bool ends_extended(const unsigned char *data, size_t len)
{
    tarn__header header;
    for (size_t at = 0; at + TARN__BLOCK < len; at += TARN__BLOCK)
        if (tarn__header_sum_matches(data + at) &&
            tarn__header_parse(data + at, &header, NULL) == TARN_OK &&
            header.kind >= TARN__PAX && tarn__member_end(at, header.size) == len)
            return true;
    return false;
}

/* Whether the bytes between the damage and a header are an extended header, or look like
 * the records or the long name of one. */
static bool looks_extended(tarn_tar *tar, uint64_t damage, uint64_t header)
{
    uint64_t from = damage + TARN__BLOCK;
    if (header <= from || header - from > TARN_MAX_EXTENDED) return false;
    size_t len = (size_t)(header - from);
    const unsigned char *data = bytes_at(tar, from, len);
    if (!data) return false;
    size_t text = strnlen((const char *)data, len);
    tarn__pax pax;
    if (text > 0 && tarn__pax_parse((const char *)data, text, &pax, NULL) == TARN_OK)
        return true;
    return (text >= 100 && len - text <= TARN__BLOCK) || ends_extended(data, len);
}

/* Whether the damaged header is, or was, an extended one. */
static bool is_extended(tarn_tar *tar, uint64_t damage)
{
    const unsigned char *block = block_at(tar, damage);
    return block && block[TARN__TYPE_AT] && strchr("xgXLK", block[TARN__TYPE_AT]);
}

/* Whether the member with the header at offset may have had its name in the lost data. */
static bool is_doubtful(tarn_tar *tar, uint64_t damage, uint64_t offset,
                        const tarn__header *header)
{
    return header->kind < TARN__PAX &&
           (tar->saw_extended || header->name_len == 100 || is_extended(tar, damage) ||
            looks_extended(tar, damage, offset));
}

static void report_notice(const tarn_tar *tar, const tarn_error *what)
{
    if (tar->options.notice) tar->options.notice(tar->options.notice_context, what);
}

static void report_doubt(const tarn_tar *tar, uint64_t offset)
{
    tarn_error what;
    tarn__error_set(&what, TARN_ERR_FORMAT, tar->file.path, offset,
                    "member skipped: the extended header that may name it is lost");
    report_notice(tar, &what);
}

/* --- Continuing -------------------------------------------------------------------- */

static void count_loss(tarn_tar *tar, uint64_t from, uint64_t to)
{
    if (!reaches(tar, to)) to = tar->file.size; /* padding may be missing */
    tar->counts.damages++;
    tar->counts.lost_bytes += to - from;
}

/* For a file with at least one whole block. */
static bool ends_in_zeros(tarn_tar *tar)
{
    uint64_t size = tar->file.size & ~(uint64_t)(TARN__BLOCK - 1);
    const unsigned char *block = block_at(tar, size - TARN__BLOCK);
    return block && tarn__block_is_zero(block);
}

/* A stream that is given up is still read to its end, to count the lost bytes. */
static void read_to_end(tarn_tar *tar)
{
    tarn_error why;
    const unsigned char *data;
    size_t len;
    tarn_status status = TARN_OK;
    tarn__window_keep(&tar->window, TARN_NO_OFFSET);
    for (uint64_t at = tar->window.end; status == TARN_OK; at += len)
        status =
            tarn__window_some(&tar->window, at, TARN__SIZE_UNKNOWN, &data, &len, &why);
    if (status == TARN_END) return;
    if (tarn__tar_is_damage(tar, status))
        report_notice(tar, &why);
    else
        note_trouble(tar, status, &why);
    tar->file.size = tar->window.end;
}

static tarn_status give_up(tarn_tar *tar, uint64_t from)
{
    if (tar->file.size == TARN__SIZE_UNKNOWN) read_to_end(tar);
    count_loss(tar, from < tar->file.size ? from : tar->file.size, tar->file.size);
    tar->at = tar->file.size;
    tar->ended = true;
    return TARN_END;
}

/* The archive is torn: complete up to keep, and useless from cut on. */
static tarn_status give_up_torn(tarn_tar *tar, uint64_t keep, uint64_t cut)
{
    tar->torn_at = keep < tar->file.size ? keep : tar->file.size;
    tar->cut_at = cut < tar->file.size ? cut : tar->file.size;
    return give_up(tar, cut);
}

static void report_unseen(const tarn_tar *tar, uint64_t offset)
{
    tarn_error what;
    tarn__error_set(&what, TARN_ERR_LIMIT, tar->file.path, offset,
                    "the rest is skipped: the next %u MiB do not show where the next "
                    "member is; copy the stream to a file to recover more",
                    TARN__LOOK_AHEAD >> 20);
    report_notice(tar, &what);
}

static tarn_status give_up_stream(tarn_tar *tar, uint64_t from)
{
    if (tar->unseen) report_unseen(tar, from);
    return give_up(tar, from);
}

/* After the end of the archive: a header directly after the zeros begins another archive;
 * anything else is searched for headers. */
static tarn_status resume_after_end(tarn_tar *tar, uint64_t rest)
{
    uint64_t found, after_end = rest & ~(uint64_t)(TARN__BLOCK - 1);
    if (rest == tar->file.size) return give_up(tar, rest);
    if (is_header(tar, after_end))
        found = after_end;
    else if (!guess_by_look(tar, after_end, &found) || tar->unseen)
        return tar->source ? give_up_stream(tar, after_end)
                           : give_up_torn(tar, tar->at, after_end);
    count_loss(tar, after_end, found);
    tar->at = found;
    return TARN_OK;
}

static tarn_status resume_after_damage(tarn_tar *tar, const tarn_error *why)
{
    tarn__header header;
    uint64_t damage = tar->at, found, next;
    if (tar->window.failed) tar->file.size = tar->window.end; /* as far as it goes */
    if (tar->source && (why->code == TARN_ERR_TRUNCATED || tar->window.failed))
        return give_up(tar, tar->group);
    const unsigned char *block = block_at(tar, damage);
    if (block && tarn__block_is_zero(block) && damage == tar->group)
        return resume_after_end(tar, zeros_end(tar, damage));
    if (!next_place(tar, damage, &found)) {
        if (tar->source) return give_up_stream(tar, tar->group);
        /* A file without a whole block is truncated. */
        if (why->code == TARN_ERR_TRUNCATED || !ends_in_zeros(tar))
            return give_up_torn(tar, tar->group, tar->group);
        return give_up(tar, tar->group);
    }
    count_loss(tar, tar->group, found);
    tar->at = found;
    if (peek_header(tar, found, &header, &next) &&
        is_doubtful(tar, damage, found, &header)) {
        report_doubt(tar, found);
        count_loss(tar, found, next);
        tar->at = next;
    }
    return TARN_OK;
}

tarn_status tarn__tar_recover(tarn_tar *tar, const tarn_error *why, tarn_error *err)
{
    report_notice(tar, why);
    tar->unseen = false;
    tarn__window_keep(&tar->window, tar->at);
    tarn_status status = resume_after_damage(tar, why);
    tarn__window_keep(&tar->window, TARN_NO_OFFSET);
    if (tar->trouble.code == TARN_OK) return status;
    if (err) *err = tar->trouble;
    return tar->trouble.code;
}

tarn_status tarn__tar_find_tear(const char *path, uint64_t *out_keep, uint64_t *out_cut,
                                tarn_error *err)
{
    tarn_tar tar;
    tarn__member member;
    tarn_tar_options options = TARN_TAR_OPTIONS_INIT;
    options.lenient = true;
    TARN_TRY(tarn__tar_open(&tar, path, &options, TARN__WINDOW_HOP, err));
    tarn_status status;
    do
        status = tarn__tar_next(&tar, &member, err);
    while (status == TARN_OK);
    if (status == TARN_END && tar.torn_at != TARN_NO_OFFSET) {
        *out_keep = tar.torn_at;
        *out_cut = tar.cut_at;
        status = TARN_OK;
    }
    tarn__tar_close(&tar);
    return status;
}
