/* Archives that are read sequentially: standard input, URLs, compressed files, and lists
 * of archives. The commands process samples of a stream as they arrive. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

bool cli_is_stream(const char *path)
{
    if (cli_is_remote_fold(path)) return false;
    return tarn_tar_is_stream(path) || tarn_urls_is_list(path);
}

static int compare_keys(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static bool is_wanted(void *context, const char *key, size_t len)
{
    cli_stream *s = context;
    const char **found =
        bsearch(&key, s->keys.items, s->keys.count, sizeof *s->keys.items, compare_keys);
    (void)len;
    if (found) s->found[found - s->keys.items] = true;
    return found != NULL;
}

/* --samples and --fields. */
int cli_stream_filters(const cli_args *args, cli_stream *s, tarn_samples_options *o)
{
    const char *samples = cli_value(args, "samples"), *fields = cli_value(args, "fields");
    if (samples && strcmp(samples, "@-") == 0 && strcmp(args->words[0], "-") == 0)
        return cli_usage(args->command, "- and @- both refer to standard input");
    if (cli_has(args, "without"))
        return cli_usage(args->command, "--without cannot be used with a stream: give a "
                                        "folder, a .tar or an .iac");
    if (fields && strpbrk(fields, ";="))
        return cli_usage(args->command,
                         "--fields %s: alternatives and other names cannot be used with "
                         "a stream; give a folder, a .tar or an .iac",
                         fields);
    if (samples && !cli_list_get(samples, &s->keys)) return CLI_DATA;
    if (fields) {
        if (!cli_list_get(fields, &s->fields)) return CLI_DATA;
        for (size_t i = 0; i < s->fields.count; i++)
            cli_lower((char *)(uintptr_t)s->fields.items[i]);
        o->fields = s->fields.items;
        o->n_fields = s->fields.count;
    }
    return CLI_OK;
}

static bool take_grouping(const cli_args *args, tarn_grouping *out)
{
    static const char *const words[] = {"base", "path", "webdataset"};
    static const tarn_grouping rules[] = {TARN_GROUP_BASE, TARN_GROUP_PATH,
                                          TARN_GROUP_WEBDATASET};
    int rule = -1;
    if (!cli_choice(args, "keys", words, 3, &rule)) return false;
    if (rule >= 0) *out = rules[rule];
    return true;
}

/* Opens all archives that the words refer to, in order. */
static tarn_status open_words(const char *const *words, int n_words,
                              const tarn_samples_options *o, cli_stream *s,
                              tarn_error *err)
{
    size_t count = 0, capacity = 0;
    const char **list = NULL;
    tarn_urls **expanded = calloc((size_t)n_words, sizeof *expanded);
    if (!expanded) cli_no_memory();
    tarn_status status = TARN_OK;
    for (int i = 0; status == TARN_OK && i < n_words; i++) {
        size_t more = 1;
        if (tarn_urls_is_list(words[i])) {
            status = tarn_urls_expand(words[i], &expanded[i], err);
            if (status != TARN_OK) break;
            more = expanded[i]->count;
        }
        if (count + more > capacity) {
            capacity = 2 * (count + more);
            list = realloc(list, capacity * sizeof *list);
            if (!list) cli_no_memory();
        }
        for (size_t k = 0; k < more; k++)
            list[count++] = expanded[i] ? expanded[i]->urls[k] : words[i];
    }
    if (status == TARN_OK) status = tarn_samples_open(list, count, o, &s->samples, err);
    for (int i = 0; i < n_words; i++)
        tarn_urls_free(expanded[i]);
    free(expanded);
    free(list);
    return status;
}

bool cli_stream_options(const cli_args *args, tarn_samples_options *o)
{
    unsigned megabytes = 0;
    o->lenient = o->keep_first = cli_has(args, "lenient");
    o->allow_pipe = cli_has(args, "allow-pipe");
    o->notice = cli_warn;
    if (!take_grouping(args, &o->grouping) || !cli_number(args, "max-sample", &megabytes))
        return false;
    if (megabytes) o->max_sample_bytes = (uint64_t)megabytes << 20;
    if (!cli_has(args, "check")) return true;
    cli_usage(args->command, "--check needs an index; a stream has none");
    return false;
}

/* Marks the keys that were seen. */
static void watch_keys(const cli_args *args, tarn_samples_options *o, cli_stream *s)
{
    if (!cli_has(args, "samples")) return;
    if (s->keys.count)
        qsort(s->keys.items, s->keys.count, sizeof *s->keys.items, compare_keys);
    s->found = calloc(s->keys.count + 1, sizeof *s->found);
    if (!s->found) cli_no_memory();
    o->want = is_wanted;
    o->want_context = s;
}

static int open_stream(const cli_args *args, int n_words, tarn_samples_options *o,
                       cli_stream *s)
{
    tarn_error err;
    *s = (cli_stream){.url = args->words[0]};
    o->progress = cli_progress_step;
    o->progress_context = &s->progress;
    if (!cli_stream_options(args, o)) return CLI_USAGE;
    int status = cli_stream_filters(args, s, o);
    if (status == CLI_OK) watch_keys(args, o, s);
    if (status == CLI_OK && open_words(args->words, n_words, o, s, &err) != TARN_OK)
        status = cli_fail(&err);
    if (status != CLI_OK) cli_stream_close(s);
    cli_progress_begin(&s->progress, "reading", !cli_has(args, "quiet"));
    return status;
}

int cli_stream_open(const cli_args *args, tarn_samples_options *o, cli_stream *s)
{
    o->grouping = TARN_GROUP_WEBDATASET;
    return open_stream(args, 1, o, s);
}

int cli_stream_open_all(const cli_args *args, tarn_samples_options *o, cli_stream *s)
{
    return open_stream(args, args->n_words, o, s);
}

/* Reports requested keys that were not found. */
static int check_found(const cli_stream *s)
{
    char shown[256];
    for (size_t i = 0; i < s->keys.count; i++) {
        const char *key = s->keys.items[i];
        if (s->found[i] || (i && strcmp(key, s->keys.items[i - 1]) == 0)) continue;
        cli_note("tarn: no sample with key %s in %s\n",
                 tarn_printable(shown, sizeof shown, key, strlen(key)), s->url);
        return CLI_DATA;
    }
    return CLI_OK;
}

int cli_stream_end(cli_stream *s, tarn_status status, const tarn_error *err)
{
    cli_progress_end(&s->progress);
    fflush(stdout);
    if (status == TARN_OK || status == TARN_END) return check_found(s);
    return cli_fail(err);
}

void cli_stream_close(cli_stream *s)
{
    tarn_samples_close(s->samples);
    cli_list_free(&s->keys);
    cli_list_free(&s->fields);
    free(s->found);
    *s = (cli_stream){0};
}
