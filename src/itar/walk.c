/* Walks over a collection: any free thread reads the next group of samples, and checks
 * its fields if that is asked for. Groups are passed on in order (base/turns.h). */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/options.h"
#include "base/turns.h"
#include "io/file.h"
#include "itar/collection.h"

enum {
    GROUP = 64,           /* samples read before the first of them is passed on */
    SMALL = 256 << 10,    /* larger files are read while they are written */
    GROUP_BYTES = 8 << 20 /* after this many bytes, the other files of a group as well */
};

/* A field that the check rejected. */
typedef struct bad_field {
    size_t sample; /* number in the collection */
    tarn_error why;
} bad_field;

typedef struct loaded {
    bad_field *bad;
    size_t n_bad, bad_capacity, n_told; /* n_told: the first ones were reported */
    tarn__buf bytes;                    /* of all small files of the group */
    tarn__buf paths;                    /* of all large files, each terminated by NUL */
    tarn__buf path;
    tarn_field *fields;
    size_t *places; /* offset in bytes or paths; fields are set once all is read */
    size_t n_fields, field_capacity, place_capacity;
} loaded;

typedef struct walk {
    tarn__collection *c;
    tarn_walk_options options;
    tarn_put put;
    void *context;
    tarn_error first_bad;
} walk;

/* --- Reading files ----------------------------------------------------------------- */

static tarn_status add_field(loaded *l, const char *name, size_t place, size_t size,
                             bool is_path, tarn_error *err)
{
    TARN_TRY(
        tarn__grow(&l->fields, sizeof *l->fields, l->n_fields, &l->field_capacity, err));
    TARN_TRY(
        tarn__grow(&l->places, sizeof *l->places, l->n_fields, &l->place_capacity, err));
    l->fields[l->n_fields] = (tarn_field){name, NULL, size, is_path ? name : NULL};
    l->places[l->n_fields++] = place;
    return TARN_OK;
}

/* Appends a whole file to bytes. A read that returns at least one byte less than
 * requested has reached the end. */
static tarn_status read_small(loaded *l, int fd, const char *path, size_t size,
                              tarn_error *err)
{
    TARN_TRY(tarn__buf_reserve(&l->bytes, size + 1, err));
    size_t got = 0;
    for (;;) {
        ssize_t n = read(fd, l->bytes.data + l->bytes.size + got, size + 1 - got);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return tarn__fail_errno(err, path, errno, "cannot read");
        got += (size_t)n;
        if (n == 0 || got == size) break;
        if (got > size) break;
    }
    if (got != size)
        return tarn__fail_at(err, TARN_ERR_STALE, path, got,
                             "the size of the file changed while it was read");
    l->bytes.size += size;
    return TARN_OK;
}

static tarn_status load_open(loaded *l, int fd, const char *name, tarn_error *err)
{
    struct stat st;
    const char *path = l->path.data;
    if (fstat(fd, &st) != 0) return tarn__fail_errno(err, path, errno, "cannot stat");
    if (!S_ISREG(st.st_mode))
        return tarn__fail_at(err, TARN_ERR_UNSUPPORTED, path, TARN_NO_OFFSET,
                             "not a regular file");
    if (st.st_size > SMALL || l->bytes.size > GROUP_BYTES) {
        TARN_TRY(add_field(l, name, l->paths.size, 0, true, err));
        return tarn__buf_add(&l->paths, path, l->path.size, err);
    }
    TARN_TRY(add_field(l, name, l->bytes.size, (size_t)st.st_size, false, err));
    return read_small(l, fd, path, (size_t)st.st_size, err);
}

static tarn_status load_entry(const tarn__collection *c, loaded *l, const tarn__entry *e,
                              tarn_error *err)
{
    const char *name = tarn__names_get(&c->fields, e->field).data;
    if (e->folder == TARN__NAME_NONE) {
        TARN_TRY(add_field(l, name, l->bytes.size, e->size, false, err));
        return e->size ? tarn__buf_add(&l->bytes, c->texts.data + e->text, e->size, err)
                       : TARN_OK;
    }
    TARN_TRY(tarn__entry_path(c, e, &l->path, err));
    int fd = open(l->path.data, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return tarn__fail_errno(err, l->path.data, errno, "cannot open");
    tarn_status status = load_open(l, fd, name, err);
    close(fd);
    return status;
}

/* --- Checking ---------------------------------------------------------------------- */

static tarn_status check_field(const tarn__collection *c, const tarn_field *f,
                               tarn_error *err)
{
    tarn__contents file;
    if (!f->path) return c->options.check(f->name, f->data, f->size, err);
    TARN_TRY(tarn__contents_open(&file, f->path, err));
    tarn_status status = c->options.check(f->name, file.data, (size_t)file.size, err);
    tarn__contents_close(&file);
    return status;
}

/* Names the file of the field, or else the sample. */
static tarn_status place_bad(const tarn__collection *c, loaded *l, const tarn__entry *e,
                             bad_field *bad, tarn_error *err)
{
    char message[TARN_ERROR_MESSAGE_MAX], key[256];
    tarn__name name = tarn__names_get(&c->keys, e->sample);
    bad->why.code = TARN_ERR_FORMAT; /* also for variants that are not supported */
    if (e->folder != TARN__NAME_NONE) {
        TARN_TRY(tarn__entry_path(c, e, &l->path, err));
        tarn__error_place(&bad->why, l->path.data, TARN_NO_OFFSET);
        return TARN_OK;
    }
    memcpy(message, bad->why.message, sizeof message);
    tarn__error_set(&bad->why, bad->why.code, NULL, TARN_NO_OFFSET,
                    "sample %s: field %s: %s",
                    tarn_printable(key, sizeof key, name.data, name.size),
                    tarn__names_get(&c->fields, e->field).data, message);
    return TARN_OK;
}

static tarn_status check_group(const tarn__collection *c, loaded *l, size_t from,
                               size_t to, tarn_error *err)
{
    const tarn_field *field = l->fields;
    bad_field bad;
    for (size_t i = from; i < to; i++)
        for (uint32_t k = 0; k < c->samples[i].count; k++) {
            tarn_status status = check_field(c, field++, &bad.why);
            if (status == TARN_OK) continue;
            if (status == TARN_ERR_MEMORY) return tarn__fail_memory(err);
            TARN_TRY(place_bad(c, l, &c->entries[c->samples[i].first + k], &bad, err));
            TARN_TRY(
                tarn__grow(&l->bad, sizeof *l->bad, l->n_bad, &l->bad_capacity, err));
            bad.sample = i;
            l->bad[l->n_bad++] = bad;
        }
    return TARN_OK;
}

/* Reports the bad fields of a sample, and decides whether the sample is written. Groups
 * are passed on by one thread at a time, so the counts need no lock. */
static bool is_written(walk *w, loaded *l, size_t sample)
{
    tarn__collection *c = w->c;
    bool good = true;
    for (; l->n_told < l->n_bad && l->bad[l->n_told].sample == sample; l->n_told++) {
        tarn_error *why = &l->bad[l->n_told].why;
        if (c->bad++ == 0) w->first_bad = *why;
        if (c->options.notice) c->options.notice(c->options.notice_context, why);
        good = false;
    }
    return good;
}

static tarn_status fail_bad(const walk *w, tarn_error *err)
{
    const tarn_error *first = &w->first_bad;
    if (w->c->bad == 1)
        return tarn__fail_at(err, first->code, first->path, TARN_NO_OFFSET, "%s",
                             first->message);
    return tarn__fail_at(err, first->code, first->path, TARN_NO_OFFSET,
                         "%s (the first of %llu bad fields)", first->message,
                         (unsigned long long)w->c->bad);
}

/* --- Reading a group --------------------------------------------------------------- */

static tarn_status load_group(const tarn__collection *c, loaded *l, size_t from,
                              size_t to, tarn_error *err)
{
    l->bytes.size = l->paths.size = l->n_fields = l->n_bad = l->n_told = 0;
    for (size_t i = from; i < to; i++)
        for (uint32_t k = 0; k < c->samples[i].count; k++)
            TARN_TRY(load_entry(c, l, &c->entries[c->samples[i].first + k], err));
    for (size_t i = 0; i < l->n_fields; i++) {
        if (l->fields[i].path)
            l->fields[i].path = l->paths.data + l->places[i];
        else
            l->fields[i].data = l->fields[i].size ? l->bytes.data + l->places[i] : "";
    }
    return c->options.check ? check_group(c, l, from, to, err) : TARN_OK;
}

/* --- Passing on -------------------------------------------------------------------- */

static tarn_status pass_samples(walk *w, loaded *l, size_t from, size_t to,
                                tarn_error *err)
{
    const tarn_field *fields = l->fields;
    for (size_t i = from; i < to; i++) {
        const tarn__collected *s = &w->c->samples[i];
        const char *key = tarn__names_get(&w->c->keys, s->key).data;
        if (is_written(w, l, i))
            TARN_TRY(w->put(w->context, s->part, key, fields, s->count, err));
        fields += s->count;
        /* After each sample, because a group of large files takes minutes. */
        if (w->options.progress &&
            w->options.progress(w->options.progress_context, i + 1, w->c->n_samples))
            return tarn__fail(err, TARN_ERR_CANCELLED, "stopped");
    }
    return TARN_OK;
}

static void *new_loaded(void)
{
    loaded *l = calloc(1, sizeof *l);
    if (!l) return NULL;
    tarn__buf_init(&l->bytes, SIZE_MAX / 2);
    tarn__buf_init(&l->paths, SIZE_MAX / 2);
    tarn__buf_init(&l->path, SIZE_MAX / 2);
    return l;
}

static void free_loaded(void *desk)
{
    loaded *l = desk;
    tarn__buf_reset(&l->bytes);
    tarn__buf_reset(&l->paths);
    tarn__buf_reset(&l->path);
    free(l->bad);
    free(l->fields);
    free(l->places);
    free(l);
}

static size_t group_end(const walk *w, size_t group)
{
    size_t end = (group + 1) * GROUP;
    return end < w->c->n_samples ? end : w->c->n_samples;
}

static tarn_status load_turn(void *context, void *desk, size_t group, tarn_error *err)
{
    const walk *w = context;
    return load_group(w->c, desk, group * GROUP, group_end(w, group), err);
}

static tarn_status pass_group(void *context, void *desk, size_t group, tarn_error *err)
{
    walk *w = context;
    return pass_samples(w, desk, group * GROUP, group_end(w, group), err);
}

tarn_status tarn__collection_walk(tarn__collection *c, const tarn_walk_options *options,
                                  tarn_put put, void *context, tarn_error *err)
{
    static const tarn__turns_work work = {new_loaded, free_loaded, load_turn, pass_group};
    TARN__OPTIONS(tarn_walk_options, taken, TARN_WALK_OPTIONS_INIT, options, err);
    if (!c->samples)
        return tarn__fail(err, TARN_ERR_USAGE, "the collection is not grouped yet");
    walk w = {.c = c, .options = taken, .put = put, .context = context};
    TARN_TRY(tarn__turns_run(&work, &w, taken.threads, (c->n_samples + GROUP - 1) / GROUP,
                             err));
    return c->bad && !c->options.skip_bad ? fail_bad(&w, err) : TARN_OK;
}

static tarn_status list_sample(const tarn__collection *c, const tarn__collected *s,
                               loaded *l, tarn_error *err)
{
    l->paths.size = l->n_fields = 0;
    for (uint32_t k = 0; k < s->count; k++) {
        const tarn__entry *e = &c->entries[s->first + k];
        const char *name = tarn__names_get(&c->fields, e->field).data;
        bool is_file = e->folder != TARN__NAME_NONE;
        TARN_TRY(add_field(l, name, l->paths.size, e->size, is_file, err));
        if (!is_file) {
            l->fields[k].data = c->texts.data + e->text;
            continue;
        }
        TARN_TRY(tarn__entry_path(c, e, &l->path, err));
        TARN_TRY(tarn__buf_add(&l->paths, l->path.data, l->path.size, err));
    }
    for (size_t k = 0; k < l->n_fields; k++)
        if (l->fields[k].path) l->fields[k].path = l->paths.data + l->places[k];
    return TARN_OK;
}

tarn_status tarn__collection_list(tarn__collection *c, tarn_put put, void *context,
                                  tarn_error *err)
{
    loaded *l = new_loaded();
    tarn_status status = l ? TARN_OK : tarn__fail_memory(err);
    for (size_t i = 0; status == TARN_OK && i < c->n_samples; i++) {
        const tarn__collected *s = &c->samples[i];
        status = list_sample(c, s, l, err);
        if (status == TARN_OK)
            status = put(context, s->part, tarn__names_get(&c->keys, s->key).data,
                         l->fields, s->count, err);
    }
    if (l) free_loaded(l);
    return status;
}
