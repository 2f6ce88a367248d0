/* Repairs the copy of a remote index in a cache while it is in use: a page that does not
 * have its checksum is fetched again and written into the file, which the process has
 * mapped. Any number of threads and processes may do that at once, because all of them
 * write the same bytes. */
#include "itar/remote_mend.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crc.h"
#include "base/error.h"
#include "io/fetch.h"
#include "io/remote.h"

typedef struct mender {
    tarn__mender base; /* first */
    char *urls[TARN__VERSION_FILES];
    char *paths[TARN__VERSION_FILES];
    tarn__object_id ids[TARN__VERSION_FILES];
} mender;

static void free_mender(tarn__mender *base)
{
    mender *m = (mender *)base;
    for (int i = 0; i < TARN__VERSION_FILES; i++) {
        free(m->urls[i]);
        free(m->paths[i]);
    }
    free(m);
}

static tarn_status fetch(const mender *m, int file, uint64_t offset, unsigned char *to,
                         size_t size, tarn_error *err)
{
    tarn__object object;
    tarn__fetched *fetched;
    tarn__fetch_limits limits = TARN__FETCH_LIMITS;
    TARN_TRY(tarn__object_init(&object, m->urls[file], err));
    TARN_TRY(tarn__fetched_open(&object, &m->ids[file], &limits, &fetched, err));
    tarn__fetch range = {.object = fetched, .offset = offset, .size = size, .to = to};
    tarn__fetch *one = &range;
    tarn_status status = tarn__fetch_begin(&one, 1, err);
    if (status == TARN_OK) status = tarn__fetch_wait(&one, 1, err);
    tarn__fetched_close(fetched);
    return status;
}

static tarn_status write_page(const char *path, uint64_t offset,
                              const unsigned char *data, size_t size, tarn_error *err)
{
    int fd = open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return tarn__fail_errno(err, path, errno, "cannot open");
    tarn_status status = tarn__write_at(fd, path, data, size, offset, err);
    close(fd);
    return status;
}

/* Bytes from the server that do not have the checksum are not written: then its files are
 * the damaged ones, and the caller says so. */
static tarn_status mend(tarn__mender *base, bool sums, uint64_t offset, size_t size,
                        uint32_t crc, tarn_error *err)
{
    const mender *m = (const mender *)base;
    int file = sums ? TARN__VERSION_SUMS : TARN__VERSION_INDEX;
    char text[TARN_ERROR_PATH_MAX + TARN_ERROR_MESSAGE_MAX + 64];
    unsigned char data[TARN__SUMS_PAGE];
    tarn_error why;
    if (size > sizeof data)
        return tarn__fail(err, TARN_ERR_USAGE, "a page of %zu bytes", size);
    tarn_status status = fetch(m, file, offset, data, size, &why);
    if (status == TARN_OK && tarn__crc32c(0, data, size) != crc) return TARN_END;
    if (status == TARN_OK) status = write_page(m->paths[file], offset, data, size, &why);
    if (status == TARN_OK || status == TARN_ERR_MEMORY) return status;
    return tarn__fail_at(err, status, m->paths[file], offset,
                         "this file of the cache is damaged, and cannot be repaired: %s; "
                         "open the dataset again, or remove the file",
                         tarn_error_text(&why, text, sizeof text));
}

tarn_status tarn__mend_attach(tarn_index *index,
                              const char *const urls[TARN__VERSION_FILES],
                              const tarn__version *version, tarn_error *err)
{
    if (!index->sums) return TARN_OK;
    mender *m = calloc(1, sizeof *m);
    if (!m) return tarn__fail_memory(err);
    m->base = (tarn__mender){mend, free_mender};
    index->sums->mender = &m->base;
    for (int i = 0; i < TARN__VERSION_FILES; i++) {
        m->ids[i] = version->ids[i];
        m->urls[i] = strdup(urls[i]);
        m->paths[i] = tarn__version_file(version->folder, tarn__version_names[i]);
        if (!m->urls[i] || !m->paths[i]) return tarn__fail_memory(err);
    }
    return TARN_OK;
}
