/* Converts samples without changing them: from a fold, from streams or from plain files,
 * to any target for samples. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "convert.h"

typedef enum source_kind { FOLD, STREAMS, FILES } source_kind;

typedef struct conversion {
    cli_args sources; /* the words without the last */
    const char *target;
    uint64_t from, to;
    tarn_text source; /* with --task: what all tasks divide */
    cli_out out;
} conversion;

/* --- Options ----------------------------------------------------------------------- */

bool cli_is_fold(const char *word)
{
    tarn_folds *folds;
    if (cli_ends_with(word, ".taridx") || cli_is_remote_fold(word)) return true;
    if (!cli_is_folder(word)) {
        const char *colon = strrchr(word, ':');
        return colon && !strchr(colon, '/') && access(word, F_OK) != 0;
    }
    tarn_status status = tarn_folds_list(word, &folds, NULL);
    tarn_folds_free(folds);
    return !tarn_is_not_found(status);
}

static int find_kind(const cli_args *args, source_kind *out)
{
    int archives = 0, folds = 0, n = args->n_words;
    for (int i = 0; i < n; i++) {
        if (cli_is_archive(args->words[i]) && !cli_is_folder(args->words[i]))
            archives++;
        else if (cli_is_fold(args->words[i]))
            folds++;
    }
    if (archives && archives < n)
        return cli_usage(args->command,
                         "streams and other files cannot be mixed in one conversion");
    *out = folds ? FOLD : archives ? STREAMS : FILES;
    return CLI_OK;
}

static bool read_bound(const char **at, uint64_t *out)
{
    char *end;
    if (**at < '0' || **at > '9') return true;
    errno = 0;
    *out = strtoull(*at, &end, 10);
    *at = end;
    return errno == 0;
}

int cli_range(const cli_args *args, uint64_t *out_from, uint64_t *out_to)
{
    const char *text = cli_value(args, "range"), *at = text;
    *out_from = 0;
    *out_to = UINT64_MAX;
    if (!text) return CLI_OK;
    bool good = read_bound(&at, out_from) && *at++ == ':' && read_bound(&at, out_to);
    if (good && !*at && *out_from <= *out_to) return CLI_OK;
    return cli_usage(args->command, "--range takes two numbers, as in 0:1000, not %s",
                     text);
}

/* --- Folds, streams, plain files --------------------------------------------------- */

/* The fold keeps its name unless the target names another. */
static const char *name_of(const conversion *c, const char *name)
{
    const char *colon = strrchr(c->target, ':');
    bool named = colon && !strchr(colon, '/') && access(c->target, F_OK) != 0;
    if (tarn_target_kind(c->target) != TARN_TARGET_FOLDER || named) return NULL;
    return strpbrk(name, "_/\\.") ? NULL : name;
}

static int take_part(conversion *c, cli_fold *f, uint64_t *out_samples)
{
    tarn_error err;
    cli_part part;
    uint64_t first, end;
    if (!cli_task(&c->sources, &part)) return CLI_USAGE;
    if (tarn_dataset_state(f->set, 0, &c->source, &err) != TARN_OK) return cli_fail(&err);
    *out_samples = tarn_dataset_count(f->set);
    cli_part_range(&part, *out_samples, &first, &end);
    return cli_slice(f, first, end);
}

static int convert_fold(conversion *c)
{
    cli_fold f = {0};
    uint64_t samples = 0;
    tarn_keys keys = cli_out_is_folder(c->target) ? TARN_KEYS_BASE : TARN_KEYS_PATH;
    int status = cli_open_keys(&c->sources, c->sources.words[0], keys, &f);
    if (status == CLI_OK) status = cli_filter(&c->sources, &f);
    if (status == CLI_OK && cli_has(&c->sources, "range"))
        status = cli_slice(&f, c->from, c->to);
    if (status == CLI_OK && cli_has(&c->sources, "task"))
        status = take_part(c, &f, &samples);
    if (status == CLI_OK) status = cli_out_init(&c->out, &c->sources, c->target);
    if (status == CLI_OK) {
        c->out.options.fold = name_of(c, f.fold.name);
        c->out.options.feed_source = c->source.data;
        c->out.options.feed_samples = samples;
        status = cli_feed(&c->out, f.set, NULL);
    }
    tarn_text_reset(&c->source);
    cli_fold_close(&f);
    return status;
}

static int convert_streams(conversion *c)
{
    tarn_samples_options stream = TARN_SAMPLES_OPTIONS_INIT;
    cli_stream filters = {0};
    const cli_args *args = &c->sources;
    stream.grouping = cli_out_is_folder(c->target) ? TARN_GROUP_BASE : TARN_GROUP_PATH;
    if (!cli_stream_options(args, &stream)) return CLI_USAGE;
    int status = cli_out_init(&c->out, args, c->target);
    if (status == CLI_OK) status = cli_stream_filters(args, &filters, &stream);
    tarn_pack_options *o = &c->out.options;
    o->stream = &stream;
    o->number = cli_has(args, "number");
    o->first = c->from;
    o->end = c->to;
    o->samples = cli_has(args, "samples") ? filters.keys.items : NULL;
    o->n_samples = filters.keys.count;
    c->out.hint = cli_stream_hint(c->target);
    if (status == CLI_OK)
        status = cli_out_run(&c->out, args->words, (size_t)args->n_words);
    cli_stream_close(&filters);
    return status;
}

static int convert_files(conversion *c)
{
    static const char *const not_here[] = {"fields", "samples", "without", "range",
                                           "check"};
    if (cli_has(&c->sources, "files"))
        return cli_usage(c->sources.command,
                         "%s: the source already consists of plain files",
                         c->sources.words[0]);
    for (size_t i = 0; i < sizeof not_here / sizeof not_here[0]; i++)
        if (cli_has(&c->sources, not_here[i]))
            return cli_usage(c->sources.command,
                             "--%s applies to folds and archives only; plain files are "
                             "packed unchanged",
                             not_here[i]);
    return cli_pack_files(&c->sources, c->target);
}

static int convert_to_files(conversion *c)
{
    static const char *const not_here[] = {"range",   "max-count", "max-size", "append",
                                           "no-sync", "resume",    "level"};
    for (size_t i = 0; i < sizeof not_here / sizeof not_here[0]; i++)
        if (cli_has(&c->sources, not_here[i]))
            return cli_usage(c->sources.command, "--%s and --files exclude each other",
                             not_here[i]);
    if (!cli_out_is_folder(c->target))
        return cli_usage(c->sources.command, "--files needs a folder as target, not %s",
                         c->target);
    return cli_extract_to(&c->sources, c->target);
}

int cli_convert_samples(const cli_args *args)
{
    conversion c = {.sources = *args, .target = args->words[args->n_words - 1]};
    source_kind kind = FILES;
    c.sources.n_words--;
    int status = cli_range(args, &c.from, &c.to);
    if (status == CLI_OK) status = find_kind(&c.sources, &kind);
    if (status != CLI_OK) return status;
    if (kind == FILES) return convert_files(&c);
    if (cli_has(args, "files")) return convert_to_files(&c);
    return kind == FOLD ? convert_fold(&c) : convert_streams(&c);
}
