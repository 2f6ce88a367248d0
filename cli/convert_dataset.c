/* Converts any dataset into any target: opens the sources, computes the order of the
 * samples, and passes them to the target in one loop. */
#include <stdlib.h>
#include <string.h>

#include "arrays.h"
#include "convert.h"
#include "target.h"

typedef struct conversion {
    cli_args args; /* the words are the sources */
    const char *target;
    cli_sources sources;
    uint64_t *order, count;
    uint64_t first; /* number of the first of these among those of all tasks */
    char *metadata; /* of a .gnz that is the only source */
    cli_progress progress;
    uint64_t done;
    uint64_t nameless; /* skipped members without a field in their name */
} conversion;

/* --- Order of the samples ---------------------------------------------------------- */

static int take_order(conversion *c)
{
    cli_order_part part = {0};
    int status = cli_range(&c->args, &part.from, &part.to);
    if (status == CLI_OK && !cli_task(&c->args, &part.part)) status = CLI_USAGE;
    if (status == CLI_OK) status = cli_order(&c->args, &c->sources, &part, &c->order);
    c->first = part.first;
    c->count = part.end - part.first;
    return status;
}

/* --- One sample -------------------------------------------------------------------- */

/* Buffers for one sample, reused for all samples. */
typedef struct desk {
    cli_piece *pieces;
    tarn_view *views;
    uint64_t *offsets;
    size_t room, held;
    tarn_text key;
    char number[32];
} desk;

static void make_room(desk *d, size_t count)
{
    if (count <= d->room) return;
    d->room = 2 * count + 16;
    d->pieces = realloc(d->pieces, d->room * sizeof *d->pieces);
    d->views = realloc(d->views, d->room * sizeof *d->views);
    d->offsets = realloc(d->offsets, d->room * sizeof *d->offsets);
    if (!d->pieces || !d->views || !d->offsets) cli_no_memory();
}

static void clear_desk(desk *d)
{
    for (size_t i = 0; i < d->held; i++)
        tarn_view_release(&d->views[i]);
    d->held = 0;
}

static void free_desk(desk *d)
{
    clear_desk(d);
    free(d->pieces);
    free(d->views);
    free(d->offsets);
    tarn_text_reset(&d->key);
}

/* Inserts a piece in order of file offset, so that members keep their order. */
static void add_piece(desk *d, cli_piece piece, tarn_view view, uint64_t offset)
{
    size_t at = d->held++;
    for (; at > 0 && d->offsets[at - 1] != TARN_NO_OFFSET && d->offsets[at - 1] > offset;
         at--) {
        d->pieces[at] = d->pieces[at - 1];
        d->views[at] = d->views[at - 1];
        d->offsets[at] = d->offsets[at - 1];
    }
    d->pieces[at] = piece;
    d->views[at] = view;
    d->offsets[at] = offset;
}

enum { AHEAD = 256 };

static tarn_status fetch(const cli_source *part, uint64_t number, desk *d,
                         uint64_t *nameless, tarn_error *err)
{
    make_room(d, part->visible);
    for (uint32_t f = 0; f < part->visible; f++) {
        tarn_view view;
        cli_piece p = {.name = tarn_dataset_field(part->dataset, f)};
        tarn_place place = {.offset = TARN_NO_OFFSET};
        tarn_status status = tarn_dataset_get(part->dataset, number, f, &view, err);
        if (status == TARN_ERR_NO_FIELD) continue;
        TARN_TRY(status);
        if (!p.name[0]) { /* a file such as LICENSE */
            tarn_view_release(&view);
            ++*nameless;
            continue;
        }
        status = tarn_dataset_form(part->dataset, number, f, &p.form, sizeof p.form, err);
        if (status == TARN_OK && p.form.form == TARN_FORM_NAMED)
            status =
                tarn_dataset_locate(part->dataset, number, f, &place, sizeof place, err);
        p.data = view.data;
        p.size = view.size;
        add_piece(d, p, view, place.offset);
        TARN_TRY(status);
    }
    return TARN_OK;
}

static tarn_status hand_on(conversion *c, uint64_t i, uint64_t number, desk *d,
                           cli_put_record put, void *state, tarn_error *err)
{
    uint64_t at;
    const cli_source *part = cli_sources_at(&c->sources, c->order[i], &at);
    cli_record r = {.number = number};
    TARN_TRY(cli_sources_key(&c->sources, c->order[i], &d->key, err));
    snprintf(d->number, sizeof d->number, "%09llu", (unsigned long long)(c->first + i));
    r.key = cli_has(&c->args, "number") ? d->number : d->key.data;
    TARN_TRY(fetch(part, at, d, &c->nameless, err));
    r.pieces = d->pieces;
    r.count = d->held;
    return put(state, &r, err);
}

/* Of remote sources, many samples at a time. */
static void look_ahead(const conversion *c, uint64_t i, uint64_t to)
{
    uint64_t numbers[AHEAD];
    size_t n = 0;
    const cli_source *part = cli_sources_at(&c->sources, c->order[i], &numbers[0]);
    if (!part->info.remote) return;
    for (; n < AHEAD && i + n < to; n++)
        if (cli_sources_at(&c->sources, c->order[i + n], &numbers[n]) != part) break;
    cli_remote_ahead(part->dataset, numbers, n, part->visible);
}

/* --- All of them ------------------------------------------------------------------- */

static tarn_status walk(conversion *c, uint64_t from, uint64_t to, cli_put_record put,
                        void *state, uint64_t total, tarn_error *err)
{
    desk d = {0};
    tarn_status status = TARN_OK;
    for (uint64_t i = from; i < to && status == TARN_OK; i++) {
        if ((i - from) % AHEAD == 0) look_ahead(c, i, to);
        status = hand_on(c, i, i - from, &d, put, state, err);
        clear_desk(&d);
        if (cli_progress_step(&c->progress, ++c->done, total) != 0 && status == TARN_OK)
            status = cli_error(err, TARN_ERR_CANCELLED, "interrupted");
    }
    free_desk(&d);
    return status;
}

static int feed(conversion *c, cli_target *t, uint64_t from, uint64_t to)
{
    tarn_error err;
    tarn_status status = TARN_OK;
    uint64_t total = c->count * (t->look ? 2 : 1);
    if (t->look) {
        uint64_t before = c->nameless;
        status = walk(c, from, to, t->look, t->state, total, &err);
        c->nameless = before; /* the second pass counts them */
    }
    if (status == TARN_OK && t->begin) status = t->begin(t->state, &err);
    if (status == TARN_OK) status = walk(c, from, to, t->put, t->state, total, &err);
    if (status == TARN_OK) {
        cli_progress_end(&c->progress);
        return t->end(t->state);
    }
    cli_progress_end(&c->progress);
    /* Without a message, a usage error was already printed. */
    int result = err.message[0] ? cli_fail(&err) : CLI_USAGE;
    t->stop(t->state);
    return result;
}

static tarn_status walk_all(void *context, cli_put_record put, void *state,
                            tarn_error *err)
{
    conversion *c = context;
    tarn_status status = walk(c, 0, c->count, put, state, c->count, err);
    cli_progress_end(&c->progress);
    return status;
}

/* All tasks must divide the same samples, so they compare what the sources contain. */
static int describe_sources(const conversion *c, tarn_text *out)
{
    tarn_error err;
    tarn_text one = {0};
    int status = CLI_OK;
    for (size_t i = 0; status == CLI_OK && i < c->sources.n; i++) {
        char *both;
        if (tarn_dataset_state(c->sources.parts[i].dataset, 0, &one, &err) != TARN_OK) {
            status = cli_fail(&err);
            break;
        }
        if (asprintf(&both, "%s%s\n", out->data ? out->data : "", one.data) < 0)
            cli_no_memory();
        tarn_text_reset(out);
        out->data = both;
    }
    tarn_text_reset(&one);
    return status;
}

static int write_samples(conversion *c, const char *path)
{
    tarn_text source = {0};
    int status = cli_has(&c->args, "task") ? describe_sources(c, &source) : CLI_OK;
    if (status == CLI_OK)
        status =
            cli_samples_write(&c->args, path, source.data, c->sources.count, walk_all, c);
    tarn_text_reset(&source);
    return status;
}

static int one_target(conversion *c, const char *path, uint64_t from, uint64_t to)
{
    cli_target t;
    int status;
    bool is_pack = cli_is_pack_name(path);
    if (is_pack && cli_can_copy_records(&c->args, &c->sources))
        return cli_copy_records(&c->args, &c->sources, c->order + from, to - from, path);
    if (is_pack)
        status = cli_target_iac(&c->args, path, &c->sources, &t);
    else if (cli_kind_of(path) == CLI_GNZ)
        status = cli_target_gnz(&c->args, path, c->metadata, to - from, &t);
    else
        return write_samples(c, path);
    return status == CLI_OK ? feed(c, &t, from, to) : status;
}

/* Replaces the number in "x_%04d.gnz". */
static char *numbered(const char *pattern, uint64_t number)
{
    const char *percent = strchr(pattern, '%'), *d = percent + 1;
    unsigned width = 0;
    while (*d >= '0' && *d <= '9' && width < 100)
        width = 10 * width + (unsigned)(*d++ - '0');
    char *path = NULL;
    if (*d != 'd' || width > 20 || strchr(d, '%')) return NULL;
    if (asprintf(&path, "%.*s%0*llu%s", (int)(percent - pattern), pattern, (int)width,
                 (unsigned long long)number, d + 1) < 0)
        cli_no_memory();
    return path;
}

static int several_targets(conversion *c)
{
    uint64_t most = 100000, number = 0;
    int status = CLI_OK;
    if (!cli_size(&c->args, "max-count", &most)) return CLI_USAGE;
    if (most == 0) most = UINT64_MAX;
    for (uint64_t from = 0; status == CLI_OK && (from < c->count || number == 0);) {
        uint64_t to = c->count - from < most ? c->count : from + most;
        char *path = numbered(c->target, number++);
        if (!path)
            return cli_usage(c->args.command,
                             "%s: the number must be %%d or, with leading zeros, %%04d",
                             c->target);
        status = one_target(c, path, from, to);
        free(path);
        from = to;
    }
    return status;
}

static int all_targets(conversion *c)
{
    bool is_file = cli_is_pack_name(c->target) || cli_kind_of(c->target) == CLI_GNZ;
    if (is_file && strchr(c->target, '%')) return several_targets(c);
    if (is_file && cli_has(&c->args, "max-count"))
        return cli_usage(c->args.command,
                         "--max-count needs a name with a number, such as x_%%04d%s",
                         strrchr(c->target, '.'));
    return one_target(c, c->target, 0, c->count);
}

/* If an array file is the only source, its metadata is kept. Warns about arrays that are
 * not part of the samples. */
static int look_into_gnz(conversion *c)
{
    tarn_error err;
    tarn_gnz *gnz;
    tarn_gnz_info whole;
    tarn_gnz_array info;
    const cli_source *part = &c->sources.parts[0];
    if (c->sources.n != 1 || part->info.kind != TARN_DATASET_GNZ) return CLI_OK;
    if (tarn_gnz_open(part->path, NULL, &gnz, &err) != TARN_OK) return cli_fail(&err);
    tarn_gnz_info_get(gnz, &whole, sizeof whole);
    if (!(c->metadata = strdup(whole.metadata))) cli_no_memory();
    for (size_t i = 0; !cli_has(&c->args, "fields") && i < whole.arrays; i++) {
        if (tarn_gnz_array_get(gnz, i, &info, sizeof info, NULL) != TARN_OK) continue;
        if (info.ndim && info.shape[0] == part->info.in_file) continue;
        cli_note("tarn: warning: %s: skipped array %s: it does not have one row for each "
                 "of %s\n",
                 part->path, info.name, cli_count(part->info.in_file, "sample"));
    }
    tarn_gnz_close(gnz);
    return CLI_OK;
}

int cli_convert_dataset(const cli_args *args)
{
    conversion c = {.args = *args, .target = args->words[args->n_words - 1]};
    tarn_keys keys = cli_out_is_folder(c.target) ? TARN_KEYS_BASE : TARN_KEYS_PATH;
    c.args.n_words--;
    int status = cli_sources_open(&c.args, keys, &c.sources);
    if (status != CLI_OK) return status;
    cli_progress_begin(&c.progress, "writing", !cli_has(args, "quiet"));
    c.progress.samples = true;
    status = look_into_gnz(&c);
    if (status == CLI_OK) status = take_order(&c);
    if (status == CLI_OK) status = all_targets(&c);
    cli_progress_end(&c.progress);
    if (c.nameless)
        cli_note("tarn: warning: skipped %s: their names have no field (no text after a "
                 "dot)\n",
                 cli_count(c.nameless, "member"));
    free(c.order);
    free(c.metadata);
    cli_sources_close(&c.sources);
    return status;
}
