/* The map file of an object in the cache: a head that says which object it is, and one
 * entry for each block. Any bytes may be in it: the head has a checksum, and an entry is
 * used only if its tag or its checksum proves it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/crc.h"
#include "base/error.h"
#include "base/json.h"
#include "io/cache_inside.h"
#include "io/file.h"

/* The head: a JSON text and zeros, then the checksum of all that, the number of the
 * format, and whole. */
enum { CRC_AT = TARN__CACHE_HEAD - 16, FORMAT_AT = CRC_AT + 4, WHOLE_AT = CRC_AT + 8 };
enum { FORMAT = 1 };

uint64_t tarn__cache_blocks(uint64_t size)
{
    return size / TARN__CACHE_BLOCK + (size % TARN__CACHE_BLOCK != 0);
}

uint64_t tarn__cache_map_size(uint64_t size)
{
    return TARN__CACHE_HEAD + tarn__cache_blocks(size) * sizeof(tarn__cache_entry);
}

size_t tarn__cache_block_size(uint64_t size, uint64_t block)
{
    uint64_t left = size - block * TARN__CACHE_BLOCK;
    return left < TARN__CACHE_BLOCK ? (size_t)left : TARN__CACHE_BLOCK;
}

/* Without the system's number, any number is safe: then blocks are compared with their
 * checksums by each process. */
uint32_t tarn__cache_boot(void)
{
    char text[64];
    uint32_t chance = 0;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text) : -1;
    if (fd >= 0) close(fd);
    if (n > 0) return tarn__crc32c(0, text, (size_t)n);
    if (getrandom(&chance, sizeof chance, GRND_NONBLOCK) < 0)
        chance = (uint32_t)getpid() ^ (uint32_t)tarn__coarse_time();
    return chance;
}

uint32_t tarn__cache_tag(uint32_t boot, int fd)
{
    unsigned char text[28] = {0};
    struct statx st;
    tarn__put32(text, boot);
    if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &st) == 0) {
        tarn__put64(text + 4, (uint64_t)st.stx_dev_major << 32 | st.stx_dev_minor);
        tarn__put64(text + 12, st.stx_ino);
        if (st.stx_mask & STATX_BTIME)
            tarn__put64(text + 20, (uint64_t)st.stx_btime.tv_sec * 1000000000 +
                                       st.stx_btime.tv_nsec);
    }
    uint32_t tag = tarn__crc32c(0, text, sizeof text);
    return tag > TARN__CACHE_DURABLE ? tag : tag + 2;
}

static tarn_status compose(tarn__buf *out, const tarn__cache_head *head, tarn_error *err)
{
    tarn__json_writer w;
    tarn__json_begin(&w, out);
    tarn__json_open(&w, '{');
    tarn__json_key_text(&w, "url");
    tarn__json_put_text(&w, head->url);
    tarn__json_key_text(&w, "size");
    tarn__json_put_uint(&w, head->size);
    tarn__json_key_text(&w, "etag");
    tarn__json_put_text(&w, head->etag);
    tarn__json_key_text(&w, "modified");
    tarn__json_put_text(&w, head->modified);
    tarn__json_key_text(&w, "file");
    tarn__json_put_text(&w, head->data);
    tarn__json_key_text(&w, "key");
    tarn__json_put_text(&w, head->key);
    tarn__json_close(&w, '}');
    TARN_TRY(tarn__json_end(&w, err));
    return tarn__buf_add(out, "\n", 1, err);
}

tarn_status tarn__cache_head_write(int fd, const char *path, const tarn__cache_head *head,
                                   tarn_error *err)
{
    unsigned char block[TARN__CACHE_HEAD] = {0};
    tarn__buf text;
    tarn__buf_init(&text, CRC_AT);
    tarn_status status = compose(&text, head, err);
    if (status == TARN_OK) {
        memcpy(block, text.data, text.size);
        tarn__put32(block + CRC_AT, tarn__crc32c(0, block, CRC_AT));
        tarn__put32(block + FORMAT_AT, FORMAT);
        tarn__put32(block + WHOLE_AT, head->whole);
        status = tarn__write_at(fd, path, block, sizeof block, 0, err);
    }
    tarn__buf_reset(&text);
    return status;
}

static bool take_text(char *out, size_t room, const tarn__json *root, const char *key)
{
    const tarn__json *v = tarn__json_find(root, key);
    if (!v || v->kind != TARN__JSON_STRING || v->size >= room) return false;
    memcpy(out, v->u.text, v->size);
    out[v->size] = '\0';
    return strlen(out) == v->size;
}

static bool take_head(tarn__cache_head *out, const tarn__json *root)
{
    const tarn__json *size;
    return root->kind == TARN__JSON_OBJECT && (size = tarn__json_find(root, "size")) &&
           tarn__json_uint64(size, &out->size) && out->size <= TARN__MAX_CACHED &&
           take_text(out->url, sizeof out->url, root, "url") &&
           take_text(out->etag, sizeof out->etag, root, "etag") &&
           take_text(out->modified, sizeof out->modified, root, "modified") &&
           take_text(out->data, sizeof out->data, root, "file") &&
           take_text(out->key, sizeof out->key, root, "key") && !strchr(out->data, '/') &&
           out->data[0] != '.' && out->data[0] && !tarn__cache_is_map(out->data);
}

tarn_status tarn__cache_head_read(int fd, const char *path, tarn__cache_head *out,
                                  tarn_error *err)
{
    static const tarn__json_options limits = {
        .max_bytes = CRC_AT, .max_depth = 2, .max_values = 32};
    unsigned char block[TARN__CACHE_HEAD];
    tarn__json_doc doc;
    size_t got;
    *out = (tarn__cache_head){0};
    TARN_TRY(tarn__read_at(fd, path, block, sizeof block, 0, &got, err));
    if (got < sizeof block ||
        tarn__get32(block + CRC_AT) != tarn__crc32c(0, block, CRC_AT))
        return tarn__fail_at(err, TARN_ERR_FORMAT, path, 0,
                             "the head of this map is damaged (its checksum does not "
                             "match); the copy is fetched again when it is used");
    if (tarn__get32(block + FORMAT_AT) != FORMAT)
        return tarn__fail_at(err, TARN_ERR_UNSUPPORTED, path, FORMAT_AT,
                             "this map has format %u, and this version of tarn knows "
                             "format %u; use another cache folder",
                             tarn__get32(block + FORMAT_AT), (unsigned)FORMAT);
    TARN_TRY(tarn__json_parse(&doc, (char *)block, strnlen((char *)block, CRC_AT),
                              &limits, err));
    bool good = take_head(out, tarn__json_root(&doc));
    tarn__json_reset(&doc);
    out->whole = tarn__get32(block + WHOLE_AT);
    if (good) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_FORMAT, path, 0,
                         "the head of this map lacks a member, or one is out of range");
}

tarn_status tarn__cache_set_whole(int fd, const char *path, uint32_t whole,
                                  tarn_error *err)
{
    return tarn__write_at(fd, path, &whole, sizeof whole, WHOLE_AT, err);
}

static uint64_t entry_at(uint64_t block)
{
    return TARN__CACHE_HEAD + block * sizeof(tarn__cache_entry);
}

tarn_status tarn__cache_entries_read(int fd, const char *path, tarn__cache_entry *entries,
                                     uint64_t first, size_t count, tarn_error *err)
{
    size_t got, want = count * sizeof *entries;
    TARN_TRY(tarn__read_at(fd, path, entries, want, entry_at(first), &got, err));
    memset((unsigned char *)entries + got, 0, want - got);
    return TARN_OK;
}

tarn_status tarn__cache_entries_write(int fd, const char *path,
                                      const tarn__cache_entry *entries, uint64_t first,
                                      size_t count, tarn_error *err)
{
    return tarn__write_at(fd, path, entries, count * sizeof *entries, entry_at(first),
                          err);
}

size_t tarn__cache_right(const tarn__cache_entry *entries, uint64_t first, size_t count,
                         uint64_t size, const unsigned char *data)
{
    for (size_t i = 0; i < count; i++) {
        size_t len = tarn__cache_block_size(size, first + i);
        if (tarn__crc32c(0, data + i * TARN__CACHE_BLOCK, len) != entries[i].crc)
            return i;
    }
    return count;
}
