/* Fetches both files of an index, or asks whether the copies in the cache are still
 * right. The lock of the folder of an index only avoids that several processes fetch the
 * same version: a process that does not get it in time fetches the index too. */
#include "itar/remote_index.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/crc.h"
#include "base/error.h"
#include "base/pool.h"
#include "io/cache_index.h"
#include "io/object.h"
#include "io/url.h"
#include "itar/remote_mend.h"
#include "itar/remote_place.h"
#include "tar/keys.h"

enum {
    INDEX = TARN__VERSION_INDEX,
    SUMS = TARN__VERSION_SUMS,
    COPY_SIZE = 256 << 10,
    TRIES = 3,        /* while both files are replaced on the server */
    LOCK_STEPS = 200, /* of 50 ms, that another process is waited for */
};

static const char *const magics[TARN__VERSION_FILES] = {"TARIDX\0", "TARSUM\0"};

typedef enum state { MISSING, SAME, FETCHED } state;

typedef struct part {
    const char *url;
    const tarn__object_id *known; /* NULL: fetch it in any case */
    char *path;                   /* where it is written */
    bool sums;
    state state;
    tarn__object_id id;
    uint32_t crc; /* CRC-32C of what was fetched */
    tarn_error error;
} part;

/* --- Fetching ----------------------------------------------------------------------- */

/* The first bytes show whether a server sent something else, such as a login page. */
static tarn_status check_magic(const part *p, const char *shown, const char *data,
                               size_t len, tarn_error *err)
{
    if (len >= 8 && memcmp(data, magics[p->sums], 8) == 0) return TARN_OK;
    bool page = len && data[0] == '<';
    return tarn__fail_at(err, TARN_ERR_FORMAT, shown, 0, "not a %s file%s",
                         p->sums ? "tarsum" : "taridx",
                         page ? ": the server sent a web page; is the URL right, and "
                                "does it need a login?"
                              : "");
}

/* Reads until the buffer is full, or to the end. */
static tarn_status fill(tarn__input *in, char *buffer, size_t *out_got, tarn_error *err)
{
    size_t n;
    *out_got = 0;
    do {
        TARN_TRY(in->ops->read(in, buffer + *out_got, COPY_SIZE - *out_got, &n, err));
        *out_got += n;
    } while (n && *out_got < COPY_SIZE);
    return TARN_OK;
}

static tarn_status copy_body(part *p, tarn__input *in, const char *shown, int fd,
                             tarn_error *err)
{
    size_t got;
    char *buffer = malloc(COPY_SIZE);
    if (!buffer) return tarn__fail_memory(err);
    tarn_status status = fill(in, buffer, &got, err);
    if (status == TARN_OK) status = check_magic(p, shown, buffer, got, err);
    p->id.size = 0;
    p->crc = 0;
    while (status == TARN_OK && got) {
        p->id.size += got;
        p->crc = tarn__crc32c(p->crc, buffer, got);
        if (p->id.size > TARN__REMOTE_INDEX_MAX)
            status = tarn__fail_at(err, TARN_ERR_LIMIT, shown, TARN_NO_OFFSET,
                                   "more than %llu bytes",
                                   (unsigned long long)TARN__REMOTE_INDEX_MAX);
        if (status == TARN_OK)
            status = tarn__version_write(fd, p->path, buffer, got, err);
        if (status == TARN_OK) status = fill(in, buffer, &got, err);
    }
    free(buffer);
    return status;
}

static tarn_status save_body(part *p, tarn__input *in, const char *shown, tarn_error *err)
{
    tarn__http_head head;
    tarn__http_read_head(in, &head);
    memcpy(p->id.etag, head.etag, sizeof p->id.etag);
    memcpy(p->id.modified, head.modified, sizeof p->id.modified);
    int fd = open(p->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) return tarn__fail_errno(err, p->path, errno, "cannot create");
    tarn_status status = copy_body(p, in, shown, fd, err);
    if (close(fd) != 0 && status == TARN_OK)
        status = tarn__fail_errno(err, p->path, errno, "cannot write");
    return status;
}

static tarn_status open_part(const part *p, tarn__object *object, tarn__input **out,
                             tarn_error *err)
{
    tarn_source_options o = TARN_SOURCE_OPTIONS_INIT;
    tarn__http_config config = {.shown = object->shown,
                                .connect_seconds = o.connect_seconds,
                                .stall_seconds = o.stall_seconds,
                                .retries = o.retries,
                                .min_speed = o.min_speed,
                                .follow = object->follow,
                                .sign = object->sign,
                                .renew = object->renew,
                                .signer = object->signer};
    if (p->known) {
        config.known_etag = p->known->etag;
        config.known_modified = p->known->modified;
    }
    object->signer = NULL; /* belongs to the input */
    return tarn__http_read(object->url, &config, out, err);
}

static tarn_status fetch_part(void *context, size_t number)
{
    part *p = (part *)context + number;
    tarn_error *err = &p->error;
    tarn__object object;
    tarn__input *in;
    TARN_TRY(tarn__object_init(&object, p->url, err));
    tarn_status status = open_part(p, &object, &in, err);
    if (status == TARN_OK) {
        p->state = FETCHED;
        status = save_body(p, in, object.shown, err);
        in->ops->close(in);
    } else if (status == TARN_END) {
        p->state = SAME;
        p->id = *p->known;
        status = TARN_OK;
    } else if (status == TARN_ERR_NO_FILE && p->sums) {
        status = TARN_OK;
    }
    tarn__object_reset(&object);
    return status;
}

/* Both at the same time: one round trip. The index alone decides whether there is one. */
static tarn_status fetch_parts(part *parts, tarn_error *err)
{
    size_t failed;
    tarn_status status = tarn__parallel(TARN__VERSION_FILES, TARN__VERSION_FILES,
                                        fetch_part, parts, &failed);
    if (status != TARN_OK && err) *err = parts[failed].error;
    return status;
}

/* --- One attempt -------------------------------------------------------------------- */

typedef struct attempt {
    const char *urls[TARN__VERSION_FILES];
    char *shown[TARN__VERSION_FILES];
    char *entry;              /* of the fold in the cache; NULL: no cache */
    bool renew;               /* replaces the version in the cache, which is unusable */
    const char *sums_urls[2]; /* of the sums, and of those that wait for their index */
} attempt;

static void replace_in(char *text, size_t size, const char *from, const char *to)
{
    char *at = strstr(text, from), rest[TARN_ERROR_MESSAGE_MAX];
    if (!at) return;
    snprintf(rest, sizeof rest, "%s", at + strlen(from));
    snprintf(at, size - (size_t)(at - text), "%s%s", to, rest);
}

/* Users know the URLs, not the paths of the copies. */
static void show_urls(const attempt *a, const char *folder, tarn_error *err)
{
    for (int i = 0; err && i < TARN__VERSION_FILES; i++) {
        char *path = tarn__version_file(folder, tarn__version_names[i]);
        if (!path) return;
        replace_in(err->path, sizeof err->path, path, a->shown[i]);
        replace_in(err->message, sizeof err->message, path, a->shown[i]);
        free(path);
    }
}

static tarn_status load(const attempt *a, const char *folder, tarn_index **out,
                        tarn_error *err)
{
    char *path = tarn__version_file(folder, tarn__version_names[INDEX]);
    if (!path) return tarn__fail_memory(err);
    tarn_status status = tarn__index_load(path, TARN__LOAD_TRUSTING, out, err);
    free(path);
    if (status == TARN_OK)
        status = tarn__index_show(*out, a->shown[INDEX], a->shown[SUMS], err);
    else
        show_urls(a, folder, err);
    return status;
}

/* Whether the bytes in memory are those that were fetched. A mapped part with checksums
 * of its pages is checked page by page, on first use. */
static bool is_intact(const tarn__contents *c, bool has_pages, uint32_t crc)
{
    return (c->mapped && has_pages) || tarn__crc32c(0, c->data, (size_t)c->size) == crc;
}

/* TARN_END if the copy is damaged. */
static tarn_status use_known(const attempt *a, const tarn__version *v,
                             tarn__index_copy *out, tarn_error *err)
{
    out->path = tarn__version_file(v->folder, tarn__version_names[INDEX]);
    if (!out->path) return tarn__fail_memory(err);
    TARN_TRY(load(a, v->folder, &out->index, err));
    tarn__sums *sums = out->index->sums;
    if (!is_intact(&out->index->contents, sums, v->crcs[INDEX]) ||
        (sums && !is_intact(&sums->contents, true, v->crcs[SUMS])))
        return TARN_END;
    return tarn__mend_attach(out->index, a->urls, v, err);
}

/* Takes over staging. */
static tarn_status use_fetched(const attempt *a, const part *parts, char *staging,
                               bool kept, tarn__index_copy *out, tarn_error *err)
{
    tarn__version v = {0};
    for (int i = 0; i < TARN__VERSION_FILES; i++) {
        v.has[i] = parts[i].state == FETCHED;
        v.ids[i] = parts[i].id;
        v.crcs[i] = parts[i].crc;
    }
    tarn_status status = load(a, staging, &out->index, err);
    char *folder =
        status == TARN_OK && kept
            ? tarn__version_publish(a->entry, a->shown[INDEX], &v, staging, a->renew)
            : NULL;
    if (status == TARN_OK) {
        out->path =
            tarn__version_file(folder ? folder : staging, tarn__version_names[INDEX]);
        if (!out->path) status = tarn__fail_memory(err);
    }
    if (folder) {
        v.folder = folder;
        if (status == TARN_OK) status = tarn__mend_attach(out->index, a->urls, &v, err);
        free(folder);
        free(staging);
    } else {
        out->temporary = staging;
    }
    return status;
}

/* TARN_END: what the cache has cannot be used. */
static tarn_status fetch_into(const attempt *a, const tarn__version *known, char *staging,
                              bool kept, tarn__index_copy *out, tarn_error *err)
{
    part parts[TARN__VERSION_FILES] = {0};
    tarn_status status = TARN_OK;
    for (int i = 0; i < TARN__VERSION_FILES; i++) {
        parts[i].url = a->urls[i];
        parts[i].sums = i == SUMS;
        parts[i].known = known->folder && known->has[i] ? &known->ids[i] : NULL;
        parts[i].path = tarn__version_file(staging, tarn__version_names[i]);
        if (!parts[i].path) status = tarn__fail_memory(err);
    }
    if (status == TARN_OK) status = fetch_parts(parts, err);
    bool same = known->folder && parts[INDEX].state == SAME &&
                parts[SUMS].state == (known->has[SUMS] ? SAME : MISSING);
    bool mixed = parts[INDEX].state == SAME || parts[SUMS].state == SAME;
    if (status == TARN_OK && !same && !mixed) {
        status = use_fetched(a, parts, staging, kept, out, err);
    } else {
        tarn__version_remove(staging);
        free(staging);
        if (status == TARN_OK) status = same ? use_known(a, known, out, err) : TARN_END;
        if (same && status != TARN_OK && status != TARN_ERR_MEMORY) status = TARN_END;
    }
    for (int i = 0; i < TARN__VERSION_FILES; i++)
        free(parts[i].path);
    return status;
}

/* Waits while another process fetches the first version. Returns a lock, or -1. */
static int await_first(const char *entry, tarn__version *known)
{
    int fd = entry ? open(entry, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    for (int i = 0; fd >= 0 && !known->folder && i < LOCK_STEPS; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
            tarn__version_find(entry, known);
            return fd;
        }
        if (errno != EWOULDBLOCK && errno != EINTR) break;
        nanosleep(&(struct timespec){0, 50000000}, NULL);
        tarn__version_find(entry, known);
    }
    if (fd >= 0) close(fd);
    return -1;
}

static tarn_status fetch_once(const attempt *a, tarn__index_copy *out, tarn_error *err)
{
    tarn__version known = {0};
    char *staging;
    bool kept;
    *out = (tarn__index_copy){0};
    if (!a->renew) tarn__version_find(a->entry, &known);
    int lock = a->renew ? -1 : await_first(a->entry, &known);
    tarn_status status = tarn__version_stage(a->entry, &staging, &kept, err);
    if (status == TARN_OK) status = fetch_into(a, &known, staging, kept, out, err);
    if (status != TARN_OK) tarn__index_copy_reset(out);
    if (lock >= 0) close(lock);
    tarn__version_reset(&known);
    return status;
}

/* If the disk of the cache is full, the files are fetched into a temporary folder. */
static tarn_status fetch_somewhere(attempt *a, tarn__index_copy *out, tarn_error *err)
{
    tarn_error why = {.sys_errno = 0};
    tarn_status status = fetch_once(a, out, &why);
    if (status != TARN_OK && a->entry &&
        (why.sys_errno == ENOSPC || why.sys_errno == EDQUOT)) {
        free(a->entry);
        a->entry = NULL;
        status = fetch_once(a, out, &why);
    }
    if (status != TARN_OK && err) *err = why;
    return status;
}

/* Sums that are missing there are no reason to do without. */
static tarn_status fetch_ahead(attempt *a, tarn__index_copy *out, tarn_error *err)
{
    a->urls[SUMS] = a->sums_urls[1];
    tarn_status status = fetch_somewhere(a, out, err);
    a->urls[SUMS] = a->sums_urls[0];
    if (status != TARN_OK || out->index->sums) return status;
    tarn__index_copy_reset(out);
    return TARN_ERR_STALE;
}

/* The files may be replaced between the two requests, one after the other. Between these
 * two steps of a commit, the sums of the new index have their waiting name. */
static tarn_status fetch(attempt *a, tarn__index_copy *out, tarn_error *err)
{
    tarn_status status;
    tarn_error first;
    for (unsigned i = 1;; i++) {
        status = fetch_somewhere(a, out, &first);
        if (status == TARN_ERR_STALE) {
            a->renew = true;
            status = fetch_ahead(a, out, NULL);
            if (status != TARN_OK) status = TARN_ERR_STALE;
        }
        if (status != TARN_END && status != TARN_ERR_STALE) break;
        if (i > TRIES) break;
        if (status == TARN_ERR_STALE) tarn__http_back_off(i);
        a->renew = true;
    }
    if (status != TARN_OK && status != TARN_END && err) *err = first;
    if (status != TARN_END) return status;
    return tarn__fail_at(err, TARN_ERR_STALE, a->shown[INDEX], TARN_NO_OFFSET,
                         "the index is being replaced; try again");
}

static char *sums_url_of(const char *index_url, bool waiting)
{
    char *url;
    size_t len = tarn__remote_bare(index_url), name = len;
    while (index_url[name - 1] != '/')
        name--;
    if (asprintf(&url, "%.*s%s%.*s.tarsum%s%s", (int)name, index_url, waiting ? "." : "",
                 (int)(len - name - strlen(".taridx")), index_url + name,
                 waiting ? ".next" : "", index_url + len) < 0)
        return NULL;
    return url;
}

tarn_status tarn__index_fetch(const char *index_url, const char *cache,
                              tarn__index_copy *out, tarn_error *err)
{
    char *sums_url = sums_url_of(index_url, false);
    char *waiting_url = sums_url_of(index_url, true);
    *out = (tarn__index_copy){0};
    attempt a = {.urls = {index_url, sums_url},
                 .sums_urls = {sums_url, waiting_url},
                 .shown = {tarn__url_shown(index_url),
                           sums_url ? tarn__url_shown(sums_url) : NULL}};
    bool complete = waiting_url && a.shown[0] && a.shown[1];
    tarn_status status = complete ? TARN_OK : tarn__fail_memory(err);
    if (status == TARN_OK && cache) {
        uint64_t hash = tarn__key_hash(a.shown[INDEX], strlen(a.shown[INDEX]));
        if (asprintf(&a.entry, "%s/index/%016llx", cache, (unsigned long long)hash) < 0)
            status = tarn__fail_memory(err);
        else
            tarn__version_folders(a.entry);
    }
    if (status == TARN_OK) status = fetch(&a, out, err);
    free(a.entry);
    free(sums_url);
    free(waiting_url);
    free(a.shown[0]);
    free(a.shown[1]);
    return status;
}

void tarn__index_copy_reset(tarn__index_copy *copy)
{
    if (copy->temporary) tarn__version_remove(copy->temporary);
    free(copy->temporary);
    free(copy->path);
    tarn_index_free(copy->index);
    *copy = (tarn__index_copy){0};
}
