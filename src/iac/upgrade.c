/* Version 1 to 2: only the fixed header differs, and both have the same size, so all that
 * lies behind it is copied by the kernel, which shares the blocks where the file system
 * can. The old pack stays whole until the new one has its name. */
#include <stdlib.h>
#include <sys/stat.h>

#include "base/error.h"
#include "iac/pack.h"
#include "io/publish.h"

static tarn_status make_header(const tarn__iac_header *old, unsigned char *out,
                               tarn_error *err)
{
    enum { MAX_TEXT = 1 << 20 };
    tarn__iac_header h = *old;
    tarn__json_writer w;
    tarn__buf text;
    h.version = 2;
    tarn__buf_init(&text, MAX_TEXT);
    tarn__json_begin(&w, &text);
    tarn__json_open(&w, '{');
    tarn_status status = tarn__iac_header_carry(&w, old, true, err);
    tarn__json_close(&w, '}');
    if (status == TARN_OK) status = tarn__json_end(&w, err);
    tarn__iac_caller c = {.text = text.data, .length = text.size, .in_order = true};
    if (status == TARN_OK) status = tarn__iac_header_make(out, &h, &c, err);
    tarn__buf_reset(&text);
    return status;
}

static tarn_status upgrade_into(tarn__publish *file, const tarn_iac *p, tarn_error *err)
{
    const tarn__iac_header *h = &p->header;
    unsigned char *bytes = malloc(TARN_IAC_HEADER_BYTES);
    if (!bytes) return tarn__fail_memory(err);
    tarn_status status = make_header(h, bytes, err);
    if (status == TARN_OK)
        status = tarn__publish_write(file, bytes, TARN_IAC_HEADER_BYTES, err);
    free(bytes);
    if (status != TARN_OK) return status;
    uint64_t end = h->data_offset + h->data_length;
    return tarn__publish_copy(file, p->file->fd, p->file->path, TARN_IAC_HEADER_BYTES,
                              end - TARN_IAC_HEADER_BYTES, err);
}

tarn_status tarn_iac_upgrade(const char *from, const char *to, bool overwrite,
                             tarn_error *err)
{
    TARN__NEED(err, "from", from);
    TARN__NEED(err, "to", to);
    tarn_iac *p;
    struct stat st;
    tarn__publish file;
    if (!overwrite && lstat(to, &st) == 0)
        return tarn__fail_at(err, TARN_ERR_EXISTS, to, TARN_NO_OFFSET,
                             "the pack exists already; overwrite replaces it");
    TARN_TRY(tarn_iac_open(from, NULL, &p, err));
    tarn_status status = tarn__publish_begin(&file, to, err);
    if (status == TARN_OK) {
        file.keep_existing = !overwrite;
        status = upgrade_into(&file, p, err);
        if (status == TARN_OK)
            status = tarn__publish_finish(&file, err);
        else
            tarn__publish_abandon(&file);
    }
    tarn_iac_close(p);
    return status;
}
