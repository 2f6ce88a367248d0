/* tarn convert: its option tables, and the choice of how to convert. One path converts
 * any dataset into any target. Copies of whole files and samples that are passed on
 * unchanged take shorter paths. */
#include <string.h>
#include <unistd.h>

#include "arrays.h"
#include "convert.h"

/* Options grouped by purpose. */
static const char *const of_samples[] = {
    "fields",  "samples", "range",      "shuffle",    "max-count", "max-size", "files",
    "resume",  "append",  "check",      "keys",       "lenient",   "json",     "threads",
    "weights", "number",  "key",        "max-sample", "order",     "seed",     "epoch",
    "rank",    "uneven",  "by",         "block",      "chunk",     "window",   "rounds",
    "mix",     "payload", "allow-pipe", "without",    NULL};
/* Options that apply only to some targets. */
static const cli_applies of_targets[] = {
    {"max-size", CLI_TO_FOLD | CLI_TO_SHARDS, "folders and numbered archives"},
    {"resume", CLI_TO_FOLD, "folders"},
    {"append", CLI_TO_FOLD, "folders"},
    {"task", CLI_TO_FOLD, "folders"},
    {"as", CLI_TO_GNZ | CLI_TO_NPZ | CLI_TO_NPY, ".gnz, .npz and .npy"},
    {"metadata", CLI_TO_GNZ, ".gnz"},
    {"checksums", CLI_TO_GNZ, ".gnz"},
    {"header-pages", CLI_TO_GNZ, ".gnz"},
    {"reserve", CLI_TO_GNZ, ".gnz"},
    {"compress", CLI_TO_NPZ, ".npz"},
    {"codec", CLI_TO_IAC, ".iac"},
    {"level", CLI_TO_IAC | CLI_TO_SHARDS | CLI_TO_ARCHIVE,
     ".iac and compressed archives"},
    {"version", CLI_TO_IAC, ".iac"},
    {"header", CLI_TO_IAC, ".iac"},
    {"payload", CLI_TO_IAC, ".iac"},
    {"upgrade", CLI_TO_IAC, ".iac"},
    {"threads", CLI_TO_SAMPLES | CLI_TO_FILES, "folders and archives"},
    {NULL, 0, NULL}};

/* Options that select samples. With one of these, the target is not a plain copy. */
static const char *const choosing[] = {
    "fields", "samples", "range",  "order",     "seed",    "epoch",
    "rank",   "uneven",  "by",     "weights",   "key",     "mix",
    "block",  "payload", "number", "max-count", "without", NULL};

static bool has_any(const cli_args *args, const char *const *names)
{
    for (; *names; names++)
        if (cli_has(args, *names)) return true;
    return false;
}

static int convert_arrays(const cli_args *args, const char *from, const char *to)
{
    cli_arrays list = {0};
    if (args->n_words != 2 || cli_kind_of(from) == CLI_OTHER ||
        cli_kind_of(to) == CLI_OTHER)
        return cli_usage(args->command,
                         ".npy and .npz can be converted only to .gnz and back; convert "
                         "samples to .gnz first, then to .npz");
    int status = cli_refuse(args, "arrays", of_samples);
    if (status == CLI_OK) status = cli_arrays_load(&list, from);
    if (status == CLI_OK) status = cli_arrays_save(args, &list, to);
    cli_arrays_free(&list);
    return status;
}

static int copy_pack(const cli_args *args, const char *from, const char *to)
{
    int status = cli_refuse(args, "IAC files", of_samples);
    return status == CLI_OK ? cli_iac_convert(args, from, to) : status;
}

/* Whether samples must be accessible one by one, rather than as a stream. */
static bool is_dataset(const cli_args *args)
{
    const char *to = args->words[args->n_words - 1];
    int folds = 0, sources = args->n_words - 1;
    if (cli_is_pack_name(to) || cli_kind_of(to) == CLI_GNZ) return true;
    if (cli_has_order(args) || cli_has(args, "weights")) return true;
    bool numbers = cli_has(args, "number"), streams = false;
    for (int i = 0; i < sources; i++) {
        if (cli_is_gnz(args->words[i]) || cli_is_pack(args->words[i])) return true;
        streams |= cli_is_stream(args->words[i]);
        folds += !cli_is_archive(args->words[i]) && cli_is_fold(args->words[i]);
    }
    if (numbers && (!streams || cli_has(args, "files"))) return true;
    return folds && sources > 1;
}

static bool is_plain(const char *word)
{
    return access(word, F_OK) == 0 && !cli_is_gnz(word) && !cli_is_pack(word) &&
           !cli_is_archive(word) && !cli_is_fold(word);
}

static int convert_dataset(const cli_args *args)
{
    if (cli_has_order(args) && cli_has(args, "files"))
        return cli_usage(args->command, "--order and --files exclude each other");
    for (int i = 0; i + 1 < args->n_words; i++)
        if (cli_has_order(args) && is_plain(args->words[i]))
            return cli_usage(args->command,
                             "%s: --order needs a dataset; use tarn pack --shuffle SEED "
                             "to shuffle plain files",
                             args->words[i]);
    for (int i = 0; i + 1 < args->n_words; i++)
        if (cli_is_stream(args->words[i]))
            return cli_usage(args->command,
                             "%s is a stream and has no index to select from; convert it "
                             "into a folder first, then convert that folder",
                             args->words[i]);
    static const char *const never[] = {"max-sample", "allow-pipe", "files", "upgrade",
                                        NULL};
    int status = cli_refuse(args, "this source", never);
    return status == CLI_OK ? cli_convert_dataset(args) : status;
}

/* --shuffle SEED is short for --order shuffle --seed SEED. */
static int take_shuffle(const cli_args *args, cli_args *out)
{
    *out = *args;
    if (!cli_has(args, "shuffle")) return CLI_OK;
    if (cli_has(args, "order") || cli_has(args, "seed"))
        return cli_usage(args->command, "--shuffle SEED is short for --order shuffle "
                                        "--seed SEED; give only one of them");
    cli_set(out, "order", "shuffle");
    cli_set(out, "seed", cli_value(args, "shuffle"));
    return CLI_OK;
}

/* Kinds of sources. */
enum {
    FROM_STREAM = 1,
    FROM_FOLD = 2,
    FROM_FILES = 4,
    FROM_ARRAYS = 8,
    FROM_RECORDS = 16
};

static unsigned source_of(const char *word)
{
    if (cli_is_stream(word)) return FROM_STREAM;
    if (cli_kind_of(word) != CLI_OTHER || cli_is_gnz(word)) return FROM_ARRAYS;
    if (cli_is_pack(word)) return FROM_RECORDS;
    return is_plain(word) ? FROM_FILES : FROM_FOLD;
}

/* An option that applies to none of the sources is an error. */
static int refuse_idle(const cli_args *args, const char *to)
{
    static const cli_applies of_sources[] = {
        {"lenient", FROM_STREAM | FROM_FOLD, "folds and archives"},
        {"keys", FROM_STREAM | FROM_FOLD | FROM_FILES, "folds, archives and files"},
        {"max-sample", FROM_STREAM, "streams"},
        {"check", FROM_FOLD | FROM_RECORDS, "folds and record packs"},
        {"allow-pipe", FROM_STREAM, "streams"},
        {NULL, 0, NULL}};
    unsigned from = 0;
    for (int i = 0; i + 1 < args->n_words; i++)
        from |= source_of(args->words[i]);
    for (const cli_applies *a = of_sources; a->name; a++)
        if (cli_has(args, a->name) && !(a->targets & from) &&
            !(strcmp(a->name, "allow-pipe") == 0 && strncmp(to, "pipe:", 5) == 0))
            return cli_usage(args->command, "--%s applies to %s, not to the source %s",
                             a->name, a->those, args->words[0]);
    if (cli_has(args, "weights") && args->n_words == 2)
        return cli_usage(args->command, "--weights needs several sources");
    return CLI_OK;
}

static int run_ordered(const cli_args *args)
{
    const char *from = args->words[0], *to = args->words[args->n_words - 1];
    cli_kind kind = cli_kind_of(from), target = cli_kind_of(to);
    bool copy = args->n_words == 2 && !has_any(args, choosing) && !strchr(to, '%');
    int status = cli_refuse_foreign(args, of_targets, to);
    if (status == CLI_OK) status = refuse_idle(args, to);
    if (status != CLI_OK) return status;
    if (kind == CLI_NPY || kind == CLI_NPZ || target == CLI_NPY || target == CLI_NPZ ||
        (copy && kind == CLI_GNZ && target == CLI_GNZ))
        return convert_arrays(args, from, to);
    if (copy && cli_is_pack(from) && cli_is_pack_name(to))
        return copy_pack(args, from, to);
    if (is_dataset(args)) return convert_dataset(args);
    if (cli_has(args, "key"))
        return cli_usage(args->command,
                         "--key applies only to .iac and .gnz; a fold has keys");
    return cli_convert_samples(args);
}

static int run(const cli_args *args)
{
    cli_args ordered;
    int status = take_shuffle(args, &ordered);
    return status == CLI_OK ? run_ordered(&ordered) : status;
}

static const cli_option options[] = {
    CLI_HEADING("Selection"),
    CLI_FIELDS(0),
    {"samples", 's', "LIST", "only these keys, in the source's order: a,b or @FILE"},
    CLI_WITHOUT,
    {"range", 0, "A:B",
     "only numbers A to B - 1 of the selected samples, in the chosen order"},
    CLI_HEADING("Order"),
    {"shuffle", 0, "SEED", "short for --order shuffle --seed SEED"},
    CLI_ORDER,
    {"weights", 0, "LIST", "mix the sources evenly, by weights such as 3,1"},
    CLI_HEADING("Source"),
    {"key", 0, "COLUMN", ".iac, .gnz: column or array that holds the keys"},
    CLI_KEYS,
    {"check", 0, NULL, "compare the bytes with the checksums in the .tarsum"},
    {"lenient", 0, NULL, "without an index: skip damaged parts"},
    CLI_ALLOW_PIPE,
    CLI_MAX_SAMPLE,
    CLI_HEADING("Target"),
    {"files", 0, NULL, "the target is a folder of plain files"},
    {"number", 0, NULL, "use running numbers as keys"},
    CLI_ROLL_OPTIONS,
    CLI_FOLD_OPTIONS,
    CLI_HEADING("Target .gnz, .npz or .npy"),
    {"as", 0, "LIST", "cast to a type (<f2), or NAME=TYPE,..."},
    {"metadata", 0, "JSON", ".gnz: store a JSON object, or @FILE with one"},
    {"checksums", 0, NULL, ".gnz: store a CRC-32C of each array"},
    {"header-pages", 0, "N", ".gnz: reserve at least N pages for the header"},
    {"reserve", 0, "N", ".gnz: reserve room for N rows in each array"},
    {"compress", 'z', NULL, ".npz: compress with deflate, as np.savez_compressed does"},
    CLI_HEADING("Target .iac, and compression"),
    CLI_IAC_OPTIONS,
    {"payload", 0, "FIELD", ".iac: one record per sample, other fields as columns"},
    {"upgrade", 0, NULL, ".iac: rewrite the header, copy the rest"},
    CLI_HEADING("Running"),
    CLI_TASK,
    {"threads", 'j', "N", "number of reader threads (default: all cores)"},
    CLI_REMOTE,
    {"json", 0, NULL, "print the summary as JSON"},
    {"quiet", 'q', NULL, "no progress bar and no summary"},
    {NULL, 0, NULL, NULL}};

static const cli_example examples[] = {
    {"tarn convert data/birds:train 'out/birds_%06d.tar' --max-size 500M",
     "write a fold as shards of another size"},
    {"tarn convert 'birds_{000000..000031}.tar.gz' data/birds:train",
     "write compressed shards as a fold with an index"},
    {"tarn convert data/birds:train small:train --shuffle 7 --range 0:1000",
     "a thousand samples, selected by the seed"},
    {"tarn convert data/birds:train labels.tar.zst --fields cls,json --level 19",
     "some fields, in one compressed archive"},
    {"tarn convert data/birds:train files --files", "one file per member"},
    {"tarn convert data/birds:train data/birds:train --max-count 1000 --overwrite",
     "replace the shards by shards of another size"},
    {"tarn convert data.npz data.gnz", "arrays that can be mapped, and back"},
    {"tarn convert old.gnz new.gnz --checksums --header-pages 4",
     "rewrite with checksums and a larger header"},
    {"tarn convert old.iac new.iac --codec zstd", "change the codec of the payloads"},
    {"tarn convert data/birds:train birds.iac", "one record per member, and back"},
    {"tarn convert data/birds:train x.gnz --fields x.npy,cls --order shuffle --seed 7",
     "arrays x and cls, with rows in random order"},
    {"tarn convert tiles.iac few.iac --order balanced --by cls --range 0:1000",
     "some records, with the same number of each class"},
    {"tarn convert a.gnz b.iac data/c mixed --weights 2,1,1 --number",
     "three datasets, mixed evenly into a fold"},
    {NULL, NULL}};

const cli_command cli_convert = {
    .name = "convert",
    .words = "SOURCE... TARGET",
    .min_words = 2,
    .max_words = 1 << 20,
    .summary = "convert a dataset to another format or order",
    .text =
        "A SOURCE is a dataset: a fold (DIR, DIR:FOLD, FILE.taridx), a .tar, an array "
        "file (.gnz) or a record pack (.iac). Several sources are read in the given "
        "order, or mixed with --weights. A SOURCE can also be a stream: archives as "
        "files, URLs or -, compressed or not, and lists of them. A folder without "
        "shards, and plain files, are packed as by tarn pack.\n\nThe TARGET is a folder "
        "(DIR or DIR:FOLD: shards with an index), x_%06d.tar for shards without an "
        "index, or one archive. Shards and archives can be written to any URL that is "
        "writable, and are compressed if the name ends in .gz, .bz2, .xz or .zst. A "
        "target that ends in .gnz or .iac is written in that format; x_%04d.gnz stands "
        "for several files of --max-count samples each. With --files, the target is a "
        "folder of plain files with the names used in the archive.\n\n--order writes the "
        "samples of any dataset in the order that tarn ls --order shows. A stream has no "
        "index and cannot be reordered. A single plain .tar is first indexed in "
        "memory.\n\nFor a .gnz target, each field becomes an array with one row per "
        "sample (x.npy becomes array x). Fields can be arrays, images or bytes of one "
        "shape, numbers, or text, which is stored as wide as the longest one. The array "
        "_key holds the keys. Fields whose shape differs between samples are an error. "
        "With a .gnz source, each row becomes a .npy member; keys are taken from _key, "
        "from the array given with --key, or from row numbers.\n\nFor an .iac target, "
        "each member becomes a record with the columns key and field; converting such a "
        "file back gives the same samples. With --payload, each sample becomes one "
        "record, and its other fields become integer, real or text columns. With any "
        "other .iac source, a sample consists of a record's payload and a JSON object of "
        "its columns; --key names the column that holds the keys, and without it row "
        "numbers are used. From .iac to .iac, records keep their columns and, without "
        "--codec, their codec.\n\nWithout --keys, sample a/b/x gets the key x in a fold "
        "and the key a/b/x in archives. With --keys path, it gets the key a-b-x in a "
        "fold. A duplicate key is an error; --number uses running numbers as keys. In a "
        "fold, no file gets its final name before everything is complete, and --resume "
        "continues after an interruption. The source is not changed.\n\nArrays are "
        "converted whole between .npy, .npz and .gnz. Metadata of a .gnz is copied to a "
        ".gnz; the other formats cannot store it. A .npy holds one array. .npy and .npz "
        "files are built in memory.",
    .options = options,
    .examples = examples,
    .run = run,
};
