/* Heads of maps in the cache of remote files: the input is a map, used as it is and with
 * its checksum and format corrected. Whatever it says, names stay in their folder, sizes
 * are limited, and a head that is written again says the same. Entries may have any
 * bytes.
 */
#include "common.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "folder.h"
#include "io/cache_inside.h"

enum { CRC_AT = TARN__CACHE_HEAD - 16 };

static char path[PATH_SIZE];

static bool ends(const char *text, size_t room)
{
    return memchr(text, '\0', room) != NULL;
}

static void check_head(int fd, const tarn__cache_head *head)
{
    tarn__cache_head again;
    CHECK(head->size <= TARN__MAX_CACHED && !strchr(head->data, '/'));
    CHECK(head->data[0] && head->data[0] != '.' && !tarn__cache_is_map(head->data));
    CHECK(ends(head->url, sizeof head->url) && ends(head->etag, sizeof head->etag));
    CHECK(ends(head->modified, sizeof head->modified));
    CHECK(tarn__cache_map_size(head->size) >= TARN__CACHE_HEAD);
    if (tarn__cache_head_write(fd, path, head, NULL) != TARN_OK) return; /* not UTF-8 */
    CHECK(tarn__cache_head_read(fd, path, &again, NULL) == TARN_OK);
    CHECK(strcmp(again.url, head->url) == 0 && strcmp(again.etag, head->etag) == 0);
    CHECK(strcmp(again.data, head->data) == 0 && strcmp(again.key, head->key) == 0);
    CHECK(again.size == head->size && again.whole == head->whole);
}

static void check_entries(int fd, const tarn__cache_head *head)
{
    static unsigned char zeros[4 * TARN__CACHE_BLOCK];
    tarn__cache_entry entries[4];
    uint64_t blocks = tarn__cache_blocks(head->size), first = blocks / 2;
    size_t n = blocks - first < 4 ? (size_t)(blocks - first) : 4;
    CHECK(tarn__cache_entries_read(fd, path, entries, first, n, NULL) == TARN_OK);
    CHECK(tarn__cache_right(entries, first, n, head->size, zeros) <= n);
}

static void try_map(const void *data, size_t size)
{
    tarn__cache_head head;
    put_file(path, data, size);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    if (tarn__cache_head_read(fd, path, &head, NULL) == TARN_OK) {
        check_entries(fd, &head);
        check_head(fd, &head);
    }
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (make_folder()) path_to(path, "map");
    try_map(data, size);
    size_t whole = size < TARN__CACHE_HEAD ? TARN__CACHE_HEAD : size;
    unsigned char *copy = calloc(1, whole);
    CHECK(copy);
    if (size) memcpy(copy, data, size);
    tarn__put32(copy + CRC_AT, tarn__crc32c(0, copy, CRC_AT));
    tarn__put32(copy + CRC_AT + 4, 1);
    try_map(copy, whole);
    free(copy);
    CHECK(unlink(path) == 0);
    return 0;
}
