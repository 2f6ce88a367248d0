/* Handing samples on: from a fold as views into its shards, from streams as they come. */
#include "feed.h"
#include "seen.h"
#include "target.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

bool cli_is_archive(const char *path)
{
    return cli_is_stream(path) || cli_ends_with(path, ".tar");
}

/* What there is decides what is done with it: a folder that cannot be looked at must not
 * pass for something else. ENAMETOOLONG: a URL, or a list of them. */
bool cli_is_folder(const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0) return S_ISDIR(st.st_mode);
    if (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG) return false;
    fprintf(stderr, "tarn: %s: cannot stat: %s\n", path, strerror(errno));
    exit(CLI_DATA);
}

/* One sample on its way; its memory serves for all of them. */
typedef struct lot {
    tarn_field *fields;
    size_t capacity;
    char *flat;
    size_t flat_size;
    cli_seen seen; /* keys of streams, in an archive */
    char number[32];
} lot;

static void make_room(lot *l, size_t count)
{
    if (count <= l->capacity) return;
    l->capacity = 2 * count + 16;
    l->fields = realloc(l->fields, l->capacity * sizeof *l->fields);
    if (!l->fields) cli_no_memory();
}

static void lot_free(lot *l)
{
    free(l->fields);
    free(l->flat);
    cli_seen_free(&l->seen);
}

/* Folds have flat keys: folders become a part of the name. */
static const char *flat_key(lot *l, const cli_out *out, const char *key)
{
    if (!out->folds || !strchr(key, '/')) return key;
    size_t size = strlen(key) + 1;
    if (size > l->flat_size) {
        l->flat = realloc(l->flat, l->flat_size = 2 * size);
        if (!l->flat) cli_no_memory();
    }
    memcpy(l->flat, key, size);
    for (char *at = l->flat; *at; at++)
        if (*at == '/') *at = '-';
    return l->flat;
}

/* A hidden file, such as .DS_Store, is part of no sample. */
static bool is_hidden(const char *key, const char *where)
{
    size_t len = strlen(key);
    if (len && key[len - 1] != '/') return false;
    fprintf(stderr,
            "tarn: warning: %s: passed over a member whose name begins with a dot\n",
            where);
    return true;
}

/* A file such as LICENSE has no field in its name, and no place in shards. Moves the
 * fields that have one to the front, in the order they have. */
static size_t drop_nameless(tarn_field *fields, size_t count, const char *key,
                            const char *where)
{
    size_t kept = 0;
    char shown[200];
    for (size_t i = 0; i < count; i++)
        if (fields[i].name[0]) fields[kept++] = fields[i];
    if (kept < count)
        fprintf(
            stderr,
            "tarn: warning: %s: passed over %s: its name has no field, no text behind "
            "a dot\n",
            where, tarn_printable(shown, sizeof shown, key, strlen(key)));
    return kept;
}

/* --- A fold ------------------------------------------------------------------------ */

typedef struct walking {
    const cli_feed *feed;
    lot lot;
    uint64_t number;
} walking;

static tarn_status put_sample(void *context, unsigned part, const char *key,
                              const tarn_field *fields, size_t count, tarn_error *err)
{
    walking *w = context;
    const cli_feed *f = w->feed;
    bool keep;
    if (f->parts) part = f->parts[w->number];
    w->number++;
    if (is_hidden(key, f->args->words[0])) return TARN_OK;
    key = flat_key(&w->lot, f->out, key);
    TARN_TRY(cli_out_keep(f->out, key, part, &keep, err));
    make_room(&w->lot, count);
    memcpy(w->lot.fields, fields, count * sizeof *fields);
    count = drop_nameless(w->lot.fields, count, key, f->args->words[0]);
    if (!keep || !count) return TARN_OK;
    return cli_out_put(f->out, part, key, w->lot.fields, count, err);
}

int cli_feed_fold(const cli_feed *f, tarn_fold *fold)
{
    tarn_error err;
    cli_progress progress;
    walking w = {.feed = f};
    tarn_walk_options o = TARN_WALK_OPTIONS_INIT;
    if (!cli_number(f->args, "threads", &o.threads)) {
        cli_out_stop(f->out);
        return CLI_USAGE;
    }
    cli_progress_begin(&progress, "writing", !cli_has(f->args, "quiet"));
    progress.samples = true;
    o.progress = cli_progress_step;
    o.progress_context = &progress;
    tarn_status status = tarn_fold_walk(fold, &o, put_sample, &w, &err);
    cli_progress_end(&progress);
    lot_free(&w.lot);
    if (status == TARN_OK) return cli_out_finish(f->out);
    int result = cli_fail(&err);
    cli_out_stop(f->out);
    return result;
}

/* --- Streams ----------------------------------------------------------------------- */

/* A fold knows its keys. Parts of a sample in one archive are told by its reader. */
static tarn_status check_new(const cli_feed *f, lot *l, const tarn_samples_item *it,
                             tarn_error *err)
{
    uint64_t first;
    char shown[200];
    if (f->out->folds || !cli_seen_before(&l->seen, it->key, it->shard, &first) ||
        first == it->shard)
        return TARN_OK;
    cli_error(err, TARN_ERR_EXISTS,
              "sample %s was in an archive before this one, and the two would be one; "
              "tarn convert --number gives samples the numbers they come in as keys",
              tarn_printable(shown, sizeof shown, it->key, it->key_len));
    snprintf(err->path, sizeof err->path, "%s", it->url);
    return TARN_ERR_EXISTS;
}

static tarn_status put_item(const cli_feed *f, lot *l, const tarn_samples_item *it,
                            uint64_t number, bool several, tarn_error *err)
{
    bool keep, numbered = cli_has(f->args, "number");
    if (is_hidden(it->key, it->url)) return TARN_OK;
    snprintf(l->number, sizeof l->number, "%09llu", (unsigned long long)number);
    const char *key = numbered ? l->number : flat_key(l, f->out, it->key);
    unsigned part = tarn_part_of(key, f->fractions, f->n_fractions, f->seed);
    TARN_TRY(cli_out_keep(f->out, key, part, &keep, err));
    if (!keep) return TARN_OK;
    if (several && !numbered) TARN_TRY(check_new(f, l, it, err));
    make_room(l, it->count);
    for (size_t i = 0; i < it->count; i++)
        l->fields[i] = (tarn_field){it->fields[i].name, it->fields[i].data,
                                    (size_t)it->fields[i].size, NULL};
    size_t count = drop_nameless(l->fields, it->count, key, it->url);
    return count ? cli_out_put(f->out, part, key, l->fields, count, err) : TARN_OK;
}

/* Keys that were asked for may still come behind the last number. */
static tarn_status put_streams(const cli_feed *f, cli_stream *stream, lot *l,
                               tarn_error *err)
{
    tarn_samples_item it;
    bool to_end = f->to == UINT64_MAX || cli_has(f->args, "samples");
    for (uint64_t i = 0; to_end || i < f->to; i++) {
        tarn_status status = tarn_samples_next(stream->samples, &it, err);
        if (status == TARN_END) return TARN_OK;
        TARN_TRY(status);
        if (i >= f->from && i < f->to)
            TARN_TRY(put_item(f, l, &it, i, stream->archives > 1, err));
    }
    return TARN_OK;
}

int cli_feed_streams(const cli_feed *f)
{
    tarn_error err;
    cli_stream stream;
    lot l = {0};
    tarn_samples_options o = TARN_SAMPLES_OPTIONS_INIT;
    o.grouping = f->out->folds ? TARN_GROUP_BASE : TARN_GROUP_PATH;
    int result = cli_stream_open_all(f->args, &o, &stream);
    if (result == CLI_OK) {
        tarn_status status = put_streams(f, &stream, &l, &err);
        result = cli_stream_end(&stream, status, &err);
        if (status == TARN_ERR_EXISTS && f->out->folds && !cli_has(f->args, "append"))
            fprintf(
                stderr,
                "tarn: where the members of a sample do not stand together, index "
                "the archive and use tarn convert, which brings them together; where "
                "keys begin anew in every archive, tarn convert --number makes others\n");
        cli_stream_close(&stream);
    }
    lot_free(&l);
    if (result == CLI_OK) return cli_out_finish(f->out);
    cli_out_stop(f->out);
    return result;
}
