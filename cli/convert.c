/* tarn convert: the table, and who does the work. Kinds of files that have a converter of
 * their own are told by their endings and come first; all else is samples. */
#include "convert.h"
#include "arrays.h"

static const char *const of_samples[] = {
    "fields", "samples", "range",      "shuffle",    "max-count", "max-size",
    "files",  "resume",  "append",     "check",      "keys",      "lenient",
    "json",   "threads", "max-sample", "allow-pipe", NULL};
static const char *const of_arrays[] = {
    "as", "metadata", "checksums", "header-pages", "reserve", "compress", NULL};
static const char *const of_packs[] = {"codec", "version", "header", "upgrade", NULL};

static int convert_arrays(const cli_args *args, const char *from, const char *to)
{
    cli_arrays list = {0};
    if (args->n_words != 2 || cli_kind_of(from) == CLI_OTHER ||
        cli_kind_of(to) == CLI_OTHER)
        return cli_usage(args->command, "converts between .npy, .npz and .gnz");
    int status = cli_refuse(args, "arrays", of_samples);
    if (status == CLI_OK) status = cli_refuse(args, "arrays", of_packs);
    if (status == CLI_OK) status = cli_arrays_load(&list, from);
    if (status == CLI_OK) status = cli_arrays_save(args, &list, to);
    cli_arrays_free(&list);
    return status;
}

/* Not for a pack on either side. */
static const char *const not_packs[] = {"range",      "shuffle",    "files", "lenient",
                                        "max-sample", "allow-pipe", NULL};

static const char *const not_from_packs[] = {
    "fields", "samples", "check", "keys", "codec", "version", "header", "upgrade", NULL};
static const char *const not_into_packs[] = {"max-count", "max-size", "resume", "append",
                                             "upgrade",   "key",      "json",   NULL};

static int convert_pack(const cli_args *args, const char *from, const char *to)
{
    if (args->n_words != 2)
        return cli_usage(args->command, "one pack, and one target or source");
    int status = cli_refuse(args, "packs", not_packs);
    if (status == CLI_OK) status = cli_refuse(args, "packs", of_arrays);
    if (status != CLI_OK) return status;
    if (!cli_is_pack(from)) {
        status = cli_refuse(args, "a pack as target", not_into_packs);
        return status == CLI_OK ? cli_convert_to_pack(args, from, to) : status;
    }
    if (cli_is_pack_name(to)) {
        status = cli_refuse(args, "packs", of_samples);
        return status == CLI_OK ? cli_iac_convert(args, from, to) : status;
    }
    status = cli_refuse(args, "a pack as source", not_from_packs);
    return status == CLI_OK ? cli_convert_from_pack(args, from, to) : status;
}

static int run(const cli_args *args)
{
    const char *from = args->words[0], *to = args->words[args->n_words - 1];
    if (cli_kind_of(from) != CLI_OTHER || cli_kind_of(to) != CLI_OTHER)
        return convert_arrays(args, from, to);
    if (cli_is_pack(from) || cli_is_pack_name(to)) return convert_pack(args, from, to);
    int status = cli_refuse(args, "samples", of_arrays);
    if (status == CLI_OK) status = cli_refuse(args, "samples", of_packs);
    return status == CLI_OK ? cli_convert_samples(args) : status;
}

static const cli_option options[] = {
    {"fields", 0, "LIST", "only samples that have all of these, and only these"},
    {"samples", 's', "LIST", "only these keys, in the source's order: a,b or @FILE"},
    {"range", 0, "A:B", "of what is left, samples number A to B - 1"},
    {"shuffle", 0, "SEED", "in an order made from SEED; exact, so not for streams"},
    CLI_ROLL_OPTIONS,
    {"files", 0, NULL, "the target is a folder of plain files"},
    CLI_FOLD_OPTIONS,
    {"check", 0, NULL, "compare the bytes with the checksums in the .tarsum"},
    CLI_KEYS,
    {"lenient", 0, NULL, "where there is no index: pass over damage"},
    CLI_ALLOW_PIPE,
    CLI_MAX_SAMPLE,
    {"threads", 'j', "N", "that read (default: all cores)"},
    {"as", 0, "LIST", "into .gnz: cast to a type (<f2), or NAME=TYPE,..."},
    {"metadata", 0, "JSON", "into .gnz: one JSON object, or @FILE with one"},
    {"checksums", 0, NULL, "into .gnz: keep a CRC-32C of each array"},
    {"header-pages", 0, "N", "into .gnz: reserve at least N pages for the header"},
    {"reserve", 0, "N", "into .gnz: reserve room for N rows in each array"},
    {"compress", 'z', NULL, "into .npz: deflate, as np.savez_compressed does"},
    CLI_IAC_OPTIONS,
    {"key", 0, "COLUMN", "of an .iac: the column that names the samples"},
    {"upgrade", 0, NULL, "into .iac: write the header anew, copy all else"},
    {"json", 0, NULL, "print the summary as JSON"},
    {"quiet", 'q', NULL, "no progress bar and no summary"},
    {NULL, 0, NULL, NULL}};

static const cli_example examples[] = {
    {"tarn convert data/birds:train 'out/birds_%06d.tar' --max-size 500M",
     "a fold into shards of another size"},
    {"tarn convert 'birds_{000000..000031}.tar.gz' data/birds:train",
     "compressed shards into a fold with an index"},
    {"tarn convert data/birds:train small:train --shuffle 7 --range 0:1000",
     "a thousand samples, chosen by the seed"},
    {"tarn convert data/birds:train labels.tar.zst --fields cls,json --level 19",
     "some fields, in one compressed archive"},
    {"tarn convert data/birds:train files --files", "a file for each member"},
    {"tarn convert data/birds:train data/birds:train --max-count 1000 --overwrite",
     "other shards in the place of the old ones"},
    {"tarn convert data.npz data.gnz", "arrays that can be mapped, and back"},
    {"tarn convert old.gnz new.gnz --checksums --header-pages 4", "rewritten"},
    {"tarn convert old.iac new.iac --codec zstd", "a pack with other payloads"},
    {"tarn convert data/birds:train birds.iac", "a record for each member, and back"},
    {NULL, NULL}};

const cli_command cli_convert = {
    .name = "convert",
    .words = "SOURCE... TARGET",
    .min_words = 2,
    .max_words = 1 << 20,
    .summary = "write samples, arrays or packs anew, in another form or order",
    .text =
        "A SOURCE is a fold (DIR, DIR:FOLD, FILE.taridx), or tar archives and streams: "
        "files, URLs, -, compressed or not, and lists of them. A folder without shards, "
        "and plain files, are packed as tarn pack does it.\n\n"
        "The TARGET is a folder (DIR or DIR:FOLD: shards with an index), x_%06d.tar for "
        "shards without one, or one archive; these two anywhere that can be written to, "
        "and compressed if the name ends in .gz, .bz2, .xz or .zst. With --files it is a "
        "folder of plain files, under the names the archive has.\n\n"
        "A fold is read in place: its payloads go from the mapped shards to the "
        "writer. --shuffle goes by seed and keys alone, so the same samples come in the "
        "same order whatever shards they are in. A stream has no index to choose from; a "
        "single plain .tar is looked through first.\n\n"
        "Keys with folders (a/b/x) become flat (a-b-x) in a fold if --keys path keeps "
        "them; without --keys, a fold gets x, and archives get a/b/x. Into a fold, "
        "nothing has its name before all is complete, and --resume goes on after an "
        "interruption. The source stays as it is.\n\n"
        "Arrays go between .npy, .npz and .gnz, by the ends of the names. Metadata of a "
        ".gnz goes along into a .gnz; the others have no place for it. A .npy takes one "
        "array. Files of NumPy are made in memory. \n\n"
        "A fold becomes a pack (.iac) with a record for each member and the columns key "
        "and field, and such a pack becomes the same fold again. Of any other pack, a "
        "record's payload and a JSON object of its columns are a sample; --key names the "
        "column with the keys, without it they are row numbers.",
    .options = options,
    .examples = examples,
    .run = run,
};
