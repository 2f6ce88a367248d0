/* tarn convert: the table, and who does the work. Kinds of files that have a converter of
 * their own are told by their endings and come first; all else is samples. */
#include "convert.h"

static int run(const cli_args *args)
{
    return cli_convert_samples(args);
}

static const cli_option options[] = {
    {"fields", 'f', "LIST", "only samples that have all of these, and only these"},
    {"samples", 's', "LIST", "only these keys, in the source's order: a,b or @FILE"},
    {"range", 0, "A:B", "of what is left, samples number A to B - 1"},
    {"shuffle", 0, "SEED", "in an order made from SEED; exact, so not for streams"},
    CLI_ROLL_OPTIONS,
    {"level", 0, "N", "of compression, where the target's name ends in .gz and so on"},
    {"files", 0, NULL, "the target is a folder of plain files"},
    CLI_FOLD_OPTIONS,
    {"check", 0, NULL, "compare the bytes with the checksums in the .tarsum"},
    CLI_KEYS,
    {"lenient", 0, NULL, "where there is no index: pass over damage"},
    CLI_ALLOW_PIPE,
    CLI_MAX_SAMPLE,
    {"threads", 'j', "N", "that read (default: all cores)"},
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
    {NULL, NULL}};

const cli_command cli_convert = {
    .name = "convert",
    .words = "SOURCE... TARGET",
    .min_words = 2,
    .max_words = 1 << 20,
    .summary = "write samples anew: other shards, fewer samples, another order",
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
        "interruption. The source stays as it is.",
    .options = options,
    .examples = examples,
    .run = run,
};
