/* Lenient reading. After damage, the next block that looks like a header may be one
 * inside the payload of the damaged member (an archive in an archive), and a true header
 * may have lost the extended header that names it. Neither may become a member:
 *
 * - a candidate is taken only if the chain of headers from it leads to the end of the
 *   file or to more damage. The chain inside a nested archive leads to that archive's
 *   end, with more bytes behind it, and is passed over whole;
 * - a first member that comes without an extended header of its own, where one may have
 *   been lost, is passed over too.
 *
 * Each stretch of the file is walked once to be trusted and once to be read. */
#include "tar/reader.h"

#include <string.h>

#include "base/checked.h"
#include "base/error.h"

/* Whether a header stands at offset, and how it chains on. */
static bool peek(tarn_tar *tar, uint64_t offset, bool need_magic, tarn__header *out,
                 uint64_t *out_next)
{
    const unsigned char *block;
    uint64_t end;
    if (!tarn__range_in(offset, TARN__BLOCK, tar->file.size) ||
        tarn__window_get(&tar->window, offset, TARN__BLOCK, &block, NULL) != TARN_OK)
        return false;
    if (need_magic && !tarn__header_has_magic(block)) return false;
    if (tarn__header_parse(block, out, NULL) != TARN_OK) return false;
    if (!tarn__add(offset + TARN__BLOCK, out->size, &end) || end > tar->file.size)
        return false;
    *out_next = tarn__member_end(offset, out->size);
    return true;
}

static bool is_zero_at(tarn_tar *tar, uint64_t offset)
{
    const unsigned char *block;
    return tarn__range_in(offset, TARN__BLOCK, tar->file.size) &&
           tarn__window_get(&tar->window, offset, TARN__BLOCK, &block, NULL) == TARN_OK &&
           tarn__block_is_zero(block);
}

/* Follows the chain of headers from offset. True if it ends with the file or at damage;
 * false, with *out_end set behind it, if it is a whole archive with more behind it. */
static bool walk(tarn_tar *tar, uint64_t offset, uint64_t *out_end)
{
    tarn__header header;
    uint64_t next, rest;
    /* A member after a pax header may have a size of 0 in its own header. */
    uint64_t pax_size = 0;
    bool has_pax_size = false;
    while (peek(tar, offset, false, &header, &next)) {
        if (header.kind == TARN__PAX && header.size <= TARN_MAX_EXTENDED) {
            const unsigned char *data;
            tarn__pax pax;
            if (tarn__window_get(&tar->window, offset + TARN__BLOCK, (size_t)header.size,
                                 &data, NULL) != TARN_OK ||
                tarn__pax_parse((const char *)data, (size_t)header.size, &pax, NULL) !=
                    TARN_OK)
                break;
            has_pax_size = pax.has_size;
            pax_size = pax.size;
        } else if (header.kind < TARN__PAX) {
            if (has_pax_size && header.kind == TARN__REGULAR) {
                if (!tarn__add(offset + TARN__BLOCK, pax_size, &rest) ||
                    rest > tar->file.size)
                    break;
                next = tarn__member_end(offset, pax_size);
            }
            has_pax_size = false;
        }
        offset = next;
    }
    *out_end = offset;
    if (!is_zero_at(tar, offset)) return true;
    if (tarn__tar_skip_zeros(tar, offset, &rest, NULL) != TARN_OK) return true;
    *out_end = rest & ~(uint64_t)(TARN__BLOCK - 1);
    return rest == tar->file.size;
}

/* The size the damaged header at offset claims, if that can be read. */
static bool claimed_next(tarn_tar *tar, uint64_t offset, uint64_t *out)
{
    const unsigned char *block;
    uint64_t size, end;
    if (!tarn__range_in(offset, TARN__BLOCK, tar->file.size) ||
        tarn__window_get(&tar->window, offset, TARN__BLOCK, &block, NULL) != TARN_OK ||
        !tarn__header_number(block + 124, 12, &size) || size >= TARN_MAX_MEMBER_SIZE ||
        !tarn__add(offset + TARN__BLOCK, size, &end) || end > tar->file.size)
        return false;
    *out = tarn__member_end(offset, size);
    return true;
}

/* Whether what lies between the damage and a header reads like the records or the long
 * name of an extended header. */
static bool looks_extended(tarn_tar *tar, uint64_t damage, uint64_t header)
{
    const unsigned char *data;
    uint64_t from = damage + TARN__BLOCK;
    if (header <= from || header - from > TARN_MAX_EXTENDED) return false;
    size_t len = (size_t)(header - from);
    if (tarn__window_get(&tar->window, from, len, &data, NULL) != TARN_OK) return false;
    size_t text = strnlen((const char *)data, len);
    tarn__pax pax;
    if (text > 0 && tarn__pax_parse((const char *)data, text, &pax, NULL) == TARN_OK)
        return true;
    return text >= 100 && len - text <= TARN__BLOCK;
}

/* Whether the member whose header is at offset may owe its name to what was lost. */
static bool is_doubtful(tarn_tar *tar, uint64_t damage, uint64_t offset,
                        const tarn__header *header)
{
    return header->kind < TARN__PAX && (tar->saw_extended || header->name_len == 100 ||
                                        looks_extended(tar, damage, offset));
}

static void tell(const tarn_tar *tar, const tarn_error *what)
{
    if (tar->options.notice) tar->options.notice(tar->options.notice_context, what);
}

static void tell_doubt(const tarn_tar *tar, uint64_t offset)
{
    tarn_error what;
    tarn__error_set(&what, TARN_ERR_FORMAT, tar->file.path, offset,
                    "member passed over: the extended header that may name it is lost");
    tell(tar, &what);
}

/* The next header at or after from that the chain test trusts. */
static bool find_trusted(tarn_tar *tar, uint64_t from, uint64_t *out)
{
    tarn__header header;
    uint64_t next, end;
    while (tarn__range_in(from, TARN__BLOCK, tar->file.size)) {
        if (!peek(tar, from, true, &header, &next)) {
            from += TARN__BLOCK;
            continue;
        }
        if (from < tar->trusted_to || walk(tar, from, &end)) {
            if (from >= tar->trusted_to) tar->trusted_to = end;
            *out = from;
            return true;
        }
        from = end > from ? end : from + TARN__BLOCK;
    }
    return false;
}

static bool next_header(tarn_tar *tar, uint64_t damage, uint64_t *out)
{
    tarn__header header;
    uint64_t claimed, next, end;
    if (claimed_next(tar, damage, &claimed) &&
        peek(tar, claimed, false, &header, &next) && walk(tar, claimed, &end)) {
        if (end > tar->trusted_to) tar->trusted_to = end;
        *out = claimed;
        return true;
    }
    return find_trusted(tar, damage + TARN__BLOCK, out);
}

static void lose(tarn_tar *tar, uint64_t from, uint64_t to)
{
    tar->counts.damages++;
    tar->counts.lost_bytes += to - from;
}

tarn_status tarn__tar_recover(tarn_tar *tar, const tarn_error *why, tarn_error *err)
{
    (void)err;
    tarn__header header;
    uint64_t damage = tar->at, found, next;
    if (damage < tar->file.size && is_zero_at(tar, damage) &&
        tarn__tar_skip_zeros(tar, damage, &found, NULL) == TARN_OK)
        damage = found & ~(uint64_t)(TARN__BLOCK - 1);
    tell(tar, why);
    bool after_end = damage != tar->at;
    bool there =
        after_end ? find_trusted(tar, damage, &found) : next_header(tar, damage, &found);
    if (!there) {
        tar->torn_at = after_end ? tar->at : tar->group;
        tar->cut_at = after_end ? damage : tar->group;
        lose(tar, damage < tar->file.size ? damage : tar->file.size, tar->file.size);
        tar->at = tar->file.size;
        tar->ended = true;
        return TARN_END;
    }
    if (found != damage) lose(tar, damage, found);
    tar->at = found;
    if (!after_end && peek(tar, found, false, &header, &next) &&
        is_doubtful(tar, damage, found, &header)) {
        tell_doubt(tar, found);
        lose(tar, found, next);
        tar->at = next;
    }
    return TARN_OK;
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
        *out_keep = tar.torn_at < tar.file.size ? tar.torn_at : tar.file.size;
        *out_cut = tar.cut_at < tar.file.size ? tar.cut_at : tar.file.size;
        status = TARN_OK;
    }
    tarn__tar_close(&tar);
    return status;
}
