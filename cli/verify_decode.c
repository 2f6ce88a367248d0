/* tarn verify --decode: finds the samples that cannot be decoded. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

typedef struct decoding {
    const cli_args *args;
    cli_json *json;
    cli_progress progress;
    FILE *keys;    /* --bad-keys */
    uint64_t last; /* the sample of the last problem */
    uint64_t undecodable, samples, decoded;
} decoding;

static void show_problem(void *context, const tarn_undecodable *what)
{
    decoding *x = context;
    char text[TARN_ERROR_PATH_MAX + TARN_ERROR_MESSAGE_MAX + 64], key[200], field[200];
    cli_progress_end(&x->progress);
    if (x->keys && what->sample != x->last) fprintf(x->keys, "%s\n", what->key);
    x->last = what->sample;
    if (x->json->out) {
        cli_json_open(x->json, NULL, '{');
        cli_json_text(x->json, "key", what->key);
        cli_json_text(x->json, "field", what->field);
        cli_json_text(x->json, "path", what->why->path);
        if (what->why->offset != TARN_NO_OFFSET)
            cli_json_number(x->json, "offset", what->why->offset);
        cli_json_text(x->json, "kind", tarn_status_name(what->why->code));
        cli_json_text(x->json, "message", what->why->message);
        cli_json_close(x->json, '}');
        return;
    }
    tarn_error named = *what->why;
    snprintf(named.message, sizeof named.message, "sample %s, field %s: %.600s",
             tarn_printable(key, sizeof key, what->key, strlen(what->key)),
             tarn_printable(field, sizeof field, what->field, strlen(what->field)),
             what->why->message);
    cli_print("%s\n", tarn_error_text(&named, text, sizeof text));
}

static int decode_one(decoding *x, const char *path)
{
    tarn_error err;
    tarn_dataset *set;
    tarn_verify_decode_options o = TARN_VERIFY_DECODE_OPTIONS_INIT;
    tarn_verify_decode_report report;
    if (!cli_number(x->args, "threads", &o.threads)) return CLI_USAGE;
    int opened = cli_dataset_open(x->args, path, TARN_KEYS_BASE, NULL, &set);
    if (opened != CLI_OK) return opened;
    x->last = UINT64_MAX;
    cli_progress_begin(&x->progress, "decoding", !cli_has(x->args, "quiet"));
    x->progress.samples = true;
    o.undecodable = show_problem;
    o.context = x;
    o.progress = cli_progress_step;
    o.progress_context = &x->progress;
    tarn_status status = tarn_verify_decode(set, &o, &report, sizeof report, &err);
    cli_progress_end(&x->progress);
    tarn_dataset_close(set);
    x->samples += report.samples;
    x->decoded += report.decoded;
    x->undecodable += report.undecodable;
    return status == TARN_OK ? CLI_OK : cli_fail(&err);
}

/* A folder may have several folds. */
static int decode_all(decoding *x, const char *path)
{
    tarn_folds *folds;
    int result = CLI_OK;
    if (tarn_folds_list(path, &folds, NULL) != TARN_OK) return decode_one(x, path);
    for (size_t i = 0; i < folds->count && result == CLI_OK; i++) {
        char *one;
        const char *colon = folds->count > 1 ? ":" : "";
        if (asprintf(&one, "%s%s%s", path, colon, *colon ? folds->folds[i]->name : "") <
            0)
            cli_no_memory();
        result = decode_one(x, one);
        free(one);
    }
    tarn_folds_free(folds);
    return result;
}

static void print_counts(const decoding *x)
{
    if (x->json->out) {
        cli_json_close(x->json, ']');
        cli_json_number(x->json, "decoded", x->decoded);
        cli_json_number(x->json, "undecodable_count", x->undecodable);
    } else if (x->undecodable) {
        cli_print("%llu of %s cannot be decoded\n", (unsigned long long)x->undecodable,
                  cli_count(x->samples, "sample"));
    } else {
        cli_print("%s decoded\n", cli_count(x->decoded, "field"));
    }
}

int cli_verify_decode(const cli_args *args, cli_json *json)
{
    decoding x = {.args = args, .json = json};
    const char *keys = cli_value(args, "bad-keys");
    if (keys) x.keys = fopen(keys, "w");
    if (keys && !x.keys) {
        cli_note("tarn: %s: cannot open: %s\n", keys, strerror(errno));
        return CLI_DATA;
    }
    if (json->out) cli_json_open(json, "undecodable", '[');
    int result = decode_all(&x, args->words[0]);
    print_counts(&x);
    if (x.keys && fclose(x.keys) != 0 && result == CLI_OK) {
        cli_note("tarn: %s: cannot write: %s\n", keys, strerror(errno));
        result = CLI_DATA;
    }
    return result == CLI_OK && x.undecodable ? CLI_DATA : result;
}
