/* Reads and writes journals. */
#include "itar/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc.h"
#include "base/error.h"
#include "io/file.h"
#include "io/publish.h"
#include "itar/folder.h"
#include "itar/taridx.h"

static const char journal_begin[] = "tarn commit 1\n";
#define NO_INDEX    "-"
#define JOURNAL_MAX (64u << 20)
enum { IDENTITY = 2 * TARIDX_HEADER_SIZE, CRC_LINE = 9 };

/* Identifies an index by its header, in hexadecimal. Whether the index exists must be
 * certain, because a journal that is considered past is removed. */
static tarn_status identify_index(const char *index_path, char out[IDENTITY + 1],
                                  tarn_error *err)
{
    unsigned char head[TARIDX_HEADER_SIZE] = {0};
    size_t got;
    memcpy(out, NO_INDEX, sizeof NO_INDEX);
    if (!index_path) return TARN_OK;
    int fd = open(index_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) return TARN_OK;
    if (fd < 0) return tarn__fail_errno(err, index_path, errno, "cannot open");
    tarn_status status = tarn__read_at(fd, index_path, head, sizeof head, 0, &got, err);
    close(fd);
    for (size_t i = 0; i < sizeof head; i++)
        snprintf(out + 2 * i, 3, "%02x", head[i]);
    return status;
}

/* --- Writing ----------------------------------------------------------------------- */

static tarn_status add_line(tarn__buf *out, const char *mark, const char *name,
                            tarn_error *err)
{
    TARN_TRY(tarn__buf_add(out, mark, strlen(mark), err));
    TARN_TRY(tarn__buf_add(out, name, strlen(name), err));
    return tarn__buf_add(out, "\n", 1, err);
}

static tarn_status compose(const tarn__journal *j, tarn__buf *out, tarn_error *err)
{
    char identity[IDENTITY + 1], crc[16];
    TARN_TRY(identify_index(j->index_path, identity, err));
    TARN_TRY(tarn__buf_add(out, journal_begin, sizeof journal_begin - 1, err));
    TARN_TRY(add_line(out, "", identity, err));
    for (size_t i = 0; i < j->count; i++)
        TARN_TRY(add_line(out, "+", j->coming[i], err));
    for (size_t i = 0; i < j->going->count; i++)
        TARN_TRY(add_line(out, "-", tarn__names_get(j->going, i).data, err));
    snprintf(crc, sizeof crc, "%08x\n", tarn__crc32c(0, out->data, out->size));
    return tarn__buf_add(out, crc, CRC_LINE, err);
}

tarn_status tarn__journal_write(const tarn__journal *j, const char *path, bool no_sync,
                                tarn_error *err)
{
    tarn__publish p;
    tarn__buf text;
    tarn__buf_init(&text, JOURNAL_MAX);
    TARN_TRY(tarn__publish_begin(&p, path, err));
    p.no_sync = no_sync;
    tarn_status status = compose(j, &text, err);
    if (status == TARN_OK) status = tarn__publish_write(&p, text.data, text.size, err);
    if (status == TARN_OK)
        status = tarn__publish_finish(&p, err);
    else
        tarn__publish_abandon(&p);
    tarn__buf_reset(&text);
    return status;
}

/* --- Reading ----------------------------------------------------------------------- */

/* Whether the text is complete and unchanged since it was written; removes its end. */
static bool is_whole(char *text, size_t size)
{
    const size_t begin = sizeof journal_begin - 1;
    char crc[16];
    if (size < begin + CRC_LINE || memcmp(text, journal_begin, begin) != 0 ||
        memchr(text, 0, size))
        return false;
    snprintf(crc, sizeof crc, "%08x\n", tarn__crc32c(0, text, size - CRC_LINE));
    if (memcmp(text + size - CRC_LINE, crc, CRC_LINE) != 0) return false;
    text[size - CRC_LINE] = 0;
    return true;
}

/* Adds the name in a line; *out_good is false if the name is not allowed. */
static tarn_status take_line(const char *line, const char *fold, tarn__names *coming,
                             tarn__names *going, bool *out_good, tarn_error *err)
{
    uint32_t id;
    *out_good = (*line == '+' || *line == '-') && tarn__is_shard_of(fold, line + 1);
    if (!*out_good) return TARN_OK;
    return tarn__names_add(*line == '+' ? coming : going, line + 1, strlen(line + 1), &id,
                           err);
}

static tarn_status parse(char *text, size_t size, const char *fold, const char *identity,
                         tarn__names *coming, tarn__names *going,
                         tarn__journal_state *out, tarn_error *err)
{
    *out = TARN__JOURNAL_DAMAGED;
    if (!is_whole(text, size)) return TARN_OK;
    char *rest = text + sizeof journal_begin - 1, *line = strsep(&rest, "\n");
    if (strcmp(line, identity) != 0) {
        *out = TARN__JOURNAL_PAST;
        return TARN_OK;
    }
    bool good = true;
    while (good && (line = strsep(&rest, "\n")) && *line)
        TARN_TRY(take_line(line, fold, coming, going, &good, err));
    if (good) *out = TARN__JOURNAL_LIVE;
    return TARN_OK;
}

static tarn_status load_open(int fd, const char *path, const char *fold,
                             const char *index_path, tarn__names *coming,
                             tarn__names *going, tarn__journal_state *out,
                             tarn_error *err)
{
    struct stat st;
    char identity[IDENTITY + 1];
    *out = TARN__JOURNAL_DAMAGED;
    if (fstat(fd, &st) != 0) return tarn__fail_errno(err, path, errno, "cannot stat");
    if (!S_ISREG(st.st_mode) || st.st_size > (off_t)JOURNAL_MAX) return TARN_OK;
    TARN_TRY(identify_index(index_path, identity, err));
    size_t size = (size_t)st.st_size;
    char *text = malloc(size + 1);
    if (!text) return tarn__fail_memory(err);
    tarn_status status = tarn__read_exact(fd, path, text, size, 0, err);
    if (status == TARN_OK)
        status = parse(text, size, fold, identity, coming, going, out, err);
    free(text);
    return status;
}

static void empty(tarn__names *names)
{
    tarn__names_reset(names);
    tarn__names_init(names);
}

tarn_status tarn__journal_load(const char *path, const char *fold, const char *index_path,
                               tarn__names *coming, tarn__names *going,
                               tarn__journal_state *out, tarn_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    *out = fd < 0 && errno == ENOENT ? TARN__JOURNAL_NONE : TARN__JOURNAL_DAMAGED;
    if (fd < 0 && (errno == ENOENT || errno == ELOOP)) return TARN_OK;
    if (fd < 0) return tarn__fail_errno(err, path, errno, "cannot open");
    tarn_status status = load_open(fd, path, fold, index_path, coming, going, out, err);
    close(fd);
    if (status != TARN_OK || *out != TARN__JOURNAL_LIVE) {
        empty(coming);
        empty(going);
    }
    return status;
}
