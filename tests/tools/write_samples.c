/* Writes samples from standard input with one of the writers, for tests in Python.
 *
 *   write_samples tar URL | shards PATTERN | fold DIR FOLD   [name=value ...]
 *
 * Standard input is a sequence of samples: the number of fields, the key, then name and
 * data of each field. Numbers are 32-bit little-endian, and text follows its length. A
 * count of 0xffffffff abandons the writer, 0xfffffffe suspends it. With "skip", samples
 * that a fold already has are skipped; with "stop", the first error suspends the writer,
 * with "drop" it abandons it (exit status 3). Prints what was written, or the error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tarn/tarn.h>

enum { MAX_FIELDS = 4096 };
#define ABANDON 0xffffffffu
#define SUSPEND 0xfffffffeu

static char *texts[2 * MAX_FIELDS + 2];
static size_t n_texts;

static void stop(const char *why)
{
    fprintf(stderr, "write_samples: %s\n", why);
    exit(2);
}

static int fail(const tarn_error *err)
{
    char text[4096];
    printf("%s: %s\n", tarn_status_name(err->code),
           tarn_error_text(err, text, sizeof text));
    return 1;
}

static int read_number(uint32_t *out)
{
    return fread(out, sizeof *out, 1, stdin) == 1;
}

static char *read_text(size_t *out_size)
{
    uint32_t size;
    if (!read_number(&size)) stop("input ends early");
    char *text = malloc((size_t)size + 1);
    if (!text || (size && fread(text, 1, size, stdin) != size)) stop("input ends early");
    text[size] = 0;
    *out_size = size;
    return texts[n_texts++] = text;
}

/* The next sample; 0 at the end. */
static int read_sample(char **key, tarn_field *fields, uint32_t *count)
{
    size_t ignored;
    while (n_texts)
        free(texts[--n_texts]);
    if (!read_number(count)) return 0;
    if (*count == ABANDON || *count == SUSPEND) return 1;
    if (*count > MAX_FIELDS) stop("too many fields");
    *key = read_text(&ignored);
    for (uint32_t i = 0; i < *count; i++) {
        fields[i] = (tarn_field){.name = read_text(&ignored)};
        fields[i].data = read_text(&fields[i].size);
    }
    return 1;
}

static void set_tar(tarn_tar_writer_options *o, tarn_sink_options *sink, const char *name,
                    const char *value)
{
    if (strcmp(name, "mtime") == 0) o->mtime = atoll(value);
    if (strcmp(name, "user") == 0) o->user = value;
    if (strcmp(name, "group") == 0) o->group = value;
    if (strcmp(name, "uid") == 0) o->uid = (uint32_t)atoll(value);
    if (strcmp(name, "mode") == 0) o->mode = (uint32_t)strtoul(value, NULL, 8);
    if (strcmp(name, "plain") == 0) o->names = TARN_NAMES_PLAIN;
    if (strcmp(name, "verbatim") == 0) o->rules = TARN_RULES_NONE;
    if (strcmp(name, "keep_order") == 0) o->keep_order = true;
    if (strcmp(name, "overwrite") == 0) sink->overwrite = true;
    if (strcmp(name, "no_sync") == 0) sink->no_sync = true;
}

static char *split_setting(char *setting)
{
    char *equals = strchr(setting, '=');
    if (!equals) return setting + strlen(setting);
    *equals = 0;
    return equals + 1;
}

static int finished(void *context, const char *url, uint64_t samples, uint64_t bytes)
{
    (void)context;
    printf("shard %s %llu %llu\n", url, (unsigned long long)samples,
           (unsigned long long)bytes);
    return 0;
}

static int write_tar(const char *url, char **settings, int count)
{
    tarn_tar_writer_options o = TARN_TAR_WRITER_OPTIONS_INIT;
    tarn_sink_options sink = TARN_SINK_OPTIONS_INIT;
    tarn_tar_writer *w;
    tarn_error err;
    tarn_field fields[MAX_FIELDS];
    char *key = NULL;
    uint32_t n;
    o.sink = &sink;
    for (int i = 0; i < count; i++) {
        char *value = split_setting(settings[i]);
        set_tar(&o, &sink, settings[i], value);
    }
    if (tarn_tar_writer_open(url, &o, &w, &err) != TARN_OK) return fail(&err);
    while (read_sample(&key, fields, &n)) {
        if (n == ABANDON) {
            tarn_tar_writer_abandon(w);
            return 0;
        }
        if (tarn_tar_writer_add(w, key, fields, n, &err) != TARN_OK) fail(&err);
    }
    return tarn_tar_writer_finish(w, NULL, 0, &err) == TARN_OK ? 0 : fail(&err);
}

static int write_shards(const char *pattern, char **settings, int count)
{
    tarn_shard_options o = TARN_SHARD_OPTIONS_INIT;
    tarn_tar_writer_options tar = TARN_TAR_WRITER_OPTIONS_INIT;
    tarn_sink_options sink = TARN_SINK_OPTIONS_INIT;
    tarn_tar_writer *w;
    tarn_error err;
    tarn_field fields[MAX_FIELDS];
    char *key = NULL;
    uint32_t n;
    o.hook = finished;
    tar.shards = &o;
    tar.sink = &sink;
    for (int i = 0; i < count; i++) {
        char *value = split_setting(settings[i]);
        set_tar(&tar, &sink, settings[i], value);
        if (strcmp(settings[i], "max_count") == 0) o.max_count = (uint64_t)atoll(value);
        if (strcmp(settings[i], "max_size") == 0) o.max_size = (uint64_t)atoll(value);
        if (strcmp(settings[i], "start") == 0) o.start = (uint64_t)atoll(value);
        if (strcmp(settings[i], "roll") == 0) o.roll = (tarn_roll)atoi(value);
    }
    if (tarn_tar_writer_open(pattern, &tar, &w, &err) != TARN_OK) return fail(&err);
    while (read_sample(&key, fields, &n)) {
        if (n == ABANDON) {
            tarn_tar_writer_abandon(w);
            return 0;
        }
        if (tarn_tar_writer_add(w, key, fields, n, &err) != TARN_OK) fail(&err);
    }
    return tarn_tar_writer_finish(w, NULL, 0, &err) == TARN_OK ? 0 : fail(&err);
}

static void set_fold(tarn_fold_writer_options *o, const char *name, const char *value)
{
    if (strcmp(name, "no_sync") == 0) o->no_sync = true;
    if (strcmp(name, "append") == 0) o->append = true;
    if (strcmp(name, "resume") == 0) o->resume = true;
    if (strcmp(name, "overwrite") == 0) o->overwrite = true;
    if (strcmp(name, "max_count") == 0) o->max_count = (uint64_t)atoll(value);
    if (strcmp(name, "max_size") == 0) o->max_size = (uint64_t)atoll(value);
    if (strcmp(name, "start") == 0) o->start = (uint64_t)atoll(value);
    if (strcmp(name, "digits") == 0) o->digits = (unsigned)atoi(value);
    if (strcmp(name, "roll") == 0) o->roll = (tarn_roll)atoi(value);
    if (strcmp(name, "threads") == 0) o->threads = (unsigned)atoi(value);
}

static int write_fold(const char *folder, const char *fold, char **settings, int count)
{
    tarn_fold_writer_options o = TARN_FOLD_WRITER_OPTIONS_INIT;
    tarn_tar_writer_options tar = TARN_TAR_WRITER_OPTIONS_INIT;
    tarn_sink_options ignored = TARN_SINK_OPTIONS_INIT;
    tarn_fold_writer *w;
    tarn_error err;
    tarn_field fields[MAX_FIELDS];
    char *key = NULL;
    uint32_t n;
    bool skip = false, stopping = false, dropping = false;
    o.writer = &tar;
    for (int i = 0; i < count; i++) {
        char *value = split_setting(settings[i]);
        set_fold(&o, settings[i], value);
        set_tar(&tar, &ignored, settings[i], value);
        if (strcmp(settings[i], "skip") == 0) skip = true;
        if (strcmp(settings[i], "stop") == 0) stopping = true;
        if (strcmp(settings[i], "drop") == 0) dropping = true;
    }
    if (tarn_fold_writer_open(folder, fold, &o, &w, &err) != TARN_OK) return fail(&err);
    while (read_sample(&key, fields, &n)) {
        bool there = false;
        if (n == ABANDON || n == SUSPEND) {
            if (n == ABANDON) tarn_fold_writer_abandon(w, false, NULL);
            if (n == SUSPEND) tarn_fold_writer_abandon(w, true, NULL);
            return 0;
        }
        if (skip && tarn_fold_writer_has(w, key, &there, &err) != TARN_OK) fail(&err);
        if (there || tarn_fold_writer_add(w, key, fields, n, &err) == TARN_OK) continue;
        fail(&err);
        if (dropping) {
            tarn_fold_writer_abandon(w, false, NULL);
            return 3;
        }
        if (!stopping) continue;
        tarn_fold_writer_abandon(w, true, NULL);
        return 1;
    }
    return tarn_fold_writer_finish(w, NULL, 0, &err) == TARN_OK ? 0 : fail(&err);
}

int main(int argc, char **argv)
{
    if (argc >= 4 && strcmp(argv[1], "fold") == 0)
        return write_fold(argv[2], argv[3], argv + 4, argc - 4);
    if (argc >= 3 && strcmp(argv[1], "tar") == 0)
        return write_tar(argv[2], argv + 3, argc - 3);
    if (argc >= 3 && strcmp(argv[1], "shards") == 0)
        return write_shards(argv[2], argv + 3, argc - 3);
    stop("usage: write_samples tar URL | shards PATTERN | fold DIR FOLD  [name=value "
         "...]");
}
