/* tarn pack: writes files, manifests and tar streams into shards with an index, with
 * tarn_pack. */
#include <stdlib.h>
#include <string.h>

#include "arrays.h"
#include "feed.h"

typedef struct packing {
    const cli_args *args;
    cli_out out;
    tarn_pack_split splits[2];
    tarn_samples_options stream;
    cli_list fields; /* of a dry run, in order of appearance */
    char keys[3][200];
    unsigned parts[3]; /* of the first samples */
    size_t n_keys;
} packing;

/* --- Options ----------------------------------------------------------------------- */

static int take_splits(packing *p)
{
    const char *const names[] = {"val", "test"};
    tarn_pack_options *o = &p->out.options;
    o->fold = cli_value(p->args, "fold");
    o->splits = p->splits;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        tarn_pack_split *split = &p->splits[o->n_splits];
        if (!cli_fraction(p->args, names[i], &split->fraction)) return CLI_USAGE;
        if (!cli_has(p->args, names[i])) continue;
        split->fold = names[i];
        o->n_splits++;
    }
    return CLI_OK;
}

/* Archives have one more key rule than files. */
static bool take_keys(packing *p)
{
    tarn_pack_options *o = &p->out.options;
    const char *value = cli_value(p->args, "keys");
    bool archives =
        cli_is_archive(p->args->words[0]) && !cli_is_folder(p->args->words[0]);
    bool folds = p->out.target && cli_out_is_folder(p->out.target);
    p->stream.grouping = folds ? TARN_GROUP_BASE : TARN_GROUP_PATH;
    o->stream = &p->stream;
    if (archives) return cli_stream_options(p->args, &p->stream);
    return !value || cli_keys(p->args, &o->keys);
}

static int take_options(packing *p)
{
    static const char *const foreign[] = {
        "as",  "metadata", "checksums", "header-pages", "reserve",
        "add", "codec",    "version",   "header",       NULL};
    tarn_pack_options *o = &p->out.options;
    int status = cli_refuse(p->args, "samples", foreign);
    if (status == CLI_OK) status = cli_out_init(&p->out, p->args, p->out.target);
    if (status == CLI_OK) status = take_splits(p);
    if (status != CLI_OK) return status;
    o->shuffle = cli_has(p->args, "shuffle");
    o->class_from_dir = cli_has(p->args, "class-from-dir");
    o->dry_run = cli_has(p->args, "dry-run");
    return cli_seed(p->args, "seed", &o->seed) &&
                   cli_seed(p->args, "shuffle", &o->shuffle_seed) && take_keys(p)
               ? CLI_OK
               : CLI_USAGE;
}

/* --- A dry run --------------------------------------------------------------------- */

static void note_field(packing *p, const char *name)
{
    for (size_t i = 0; i < p->fields.count; i++)
        if (strcmp(p->fields.items[i], name) == 0) return;
    const char **grown =
        realloc(p->fields.items, (p->fields.count + 1) * sizeof *p->fields.items);
    if (!grown) cli_no_memory();
    p->fields.items = grown;
    p->fields.items[p->fields.count++] = strdup(name);
}

static tarn_status note_sample(void *context, unsigned part, const char *key,
                               const tarn_field *fields, size_t count, tarn_error *err)
{
    packing *p = context;
    (void)err;
    for (size_t i = 0; i < count; i++)
        note_field(p, fields[i].name);
    if (p->n_keys == sizeof p->keys / sizeof p->keys[0]) return TARN_OK;
    p->parts[p->n_keys] = part;
    tarn_printable(p->keys[p->n_keys++], sizeof p->keys[0], key, strlen(key));
    return TARN_OK;
}

static void show_plan(const packing *p)
{
    const tarn_pack_report *r = &p->out.report;
    uint64_t samples = 0;
    char shown[200];
    for (size_t i = 0; i < r->n_folds; i++)
        samples += r->folds[i].samples;
    printf("%s from %s and %s; nothing written\n", cli_count(samples, "sample"),
           cli_count(r->files, "file"), cli_count(r->values, "value"));
    for (size_t i = 0; i < r->n_folds; i++)
        printf("  fold %s: %s\n", r->folds[i].fold,
               cli_count(r->folds[i].samples, "sample"));
    printf("  fields:");
    for (size_t i = 0; i < p->fields.count; i++)
        printf("%s %s", i ? "," : "",
               tarn_printable(shown, sizeof shown, p->fields.items[i],
                              strlen(p->fields.items[i])));
    printf("\n");
    for (size_t i = 0; i < p->n_keys; i++)
        printf("  %s -> %s\n", p->keys[i], r->folds[p->parts[i]].fold);
    if (r->classes) printf("  classes: %u\n", r->classes);
}

/* --- The command ------------------------------------------------------------------- */

int cli_pack_files(const cli_args *args, const char *target)
{
    packing p = {.args = args, .out.target = target, .stream = TARN_SAMPLES_OPTIONS_INIT};
    int status = take_options(&p);
    if (status != CLI_OK) return status;
    if (target) p.out.hint = cli_stream_hint(target);
    p.out.options.sample = note_sample;
    p.out.options.sample_context = &p;
    status = cli_out_run(&p.out, args->words, (size_t)args->n_words);
    if (status == CLI_OK && p.out.options.dry_run) show_plan(&p);
    for (size_t i = 0; i < p.fields.count; i++)
        free((char *)(uintptr_t)p.fields.items[i]);
    free(p.fields.items);
    return status;
}

static int run(const cli_args *args)
{
    const char *target = cli_value(args, "output");
    if (target && cli_kind_of(target) == CLI_GNZ) return cli_arrays_pack(args, target);
    if (target && cli_is_pack_name(target)) return cli_iac_pack(args, target);
    return cli_pack_files(args, target);
}

static const cli_option options[] = {
    CLI_OUT_OPTIONS,
    {"fold", 0, "NAME", "name of the fold to write (default train)"},
    {"val", 0, "FRACTION", "put this fraction of the samples into fold val"},
    {"test", 0, "FRACTION", "put this fraction of the samples into fold test"},
    {"seed", 0, "N", "seed for choosing the val and test samples (default 0)"},
    {"shuffle", 0, "SEED", "write the samples in random order, derived from SEED"},
    {"class-from-dir", 0, NULL,
     "add field cls: the sub-folder's number in classes.txt (existing numbers stay)"},
    {"keys", 0, "RULE",
     "base: a/b/x.jpg is sample x (default); path: a-b-x, folders joined by -"},
    {"pax", 0, NULL,
     "allow names over 100 bytes and files over 8 GiB in shards; glzn cannot read these"},
    {"threads", 'j', "N", "number of reader threads (default: all cores)"},
    {"dry-run", 'n', NULL, "show what would be written"},
    {"lenient", 0, NULL, "tar streams: skip damaged parts"},
    CLI_ALLOW_PIPE,
    {"as", 0, "LIST", ".gnz: cast to a type (<f2), or NAME=TYPE,..."},
    {"metadata", 0, "JSON", ".gnz: store a JSON object, or @FILE with one"},
    {"checksums", 0, NULL, ".gnz: store a CRC-32C of each array for tarn verify"},
    {"header-pages", 0, "N", ".gnz: reserve at least N pages for the header"},
    {"reserve", 0, "N", ".gnz: reserve room for N rows in each array"},
    {"add", 0, NULL, ".gnz: add arrays to an existing file"},
    CLI_IAC_OPTIONS,
    {"json", 0, NULL, "print the summary as JSON"},
    {"quiet", 'q', NULL, "no progress bar and no summary"},
    {NULL, 0, NULL, NULL}};

static const cli_example examples[] = {
    {"tarn pack pictures --class-from-dir -o data/birds",
     "pictures/kiwi/07.jpg etc., with the sub-folder as class"},
    {"tarn pack images labels -o data/birds --val 0.1 --test 0.1 --seed 7",
     "images/x.jpg and labels/x.txt form one sample; three folds"},
    {"tarn pack list.csv -o data/birds --max-size 500M",
     "a manifest: key,jpg,cls with a path and a value on each line"},
    {"curl -s https://host/x.tar.zst | tarn pack - -o data/birds",
     "convert a tar stream into shards with an index"},
    {"tarn pack pictures -o 's3://bucket/birds_%06d.tar'",
     "write shards to an object store"},
    {"tarn pack a.npy b.npz -o x.gnz",
     "array a, and the arrays of b.npz under their names"},
    {"tarn pack part1.npz --append -o x.gnz", "append rows"},
    {"tarn pack tiles --codec zstd -o tiles.iac", "one record per file of a folder"},
    {NULL, NULL}};

const cli_command cli_pack = {
    .name = "pack",
    .words = "SOURCE...",
    .min_words = 1,
    .max_words = 1 << 20,
    .summary = "pack files into shards with an index, a .gnz or an .iac",
    .text =
        "A SOURCE is a folder, a file, a manifest (.csv, .tsv, .jsonl), or a tar archive "
        "or stream. A file's name up to the first dot is the key of its sample, and the "
        "rest is the field: x.jpg and x.cls are two fields of sample x.\n\nIn a "
        "manifest, the column \"key\" holds the sample's key, and each other column is a "
        "field. For fields that hold text (txt, json, cls, ...), the value itself is "
        "stored. For all other fields, the value is the path of a file, relative to the "
        "manifest's folder. \"@PATH\" refers to a file in any field. In JSON lines, "
        "values other than strings are stored as JSON.\n\nIn a folder, shards and index "
        "get their final names only after everything is complete. If a run is killed, "
        "readers see the folder unchanged, and --resume continues after the finished "
        "shards. During the final renames of --overwrite the fold is briefly absent: "
        "readers get an error that says to try again or, if the writer was killed just "
        "then, to resume it. --val and --test select their exact "
        "fraction of the files, by key and seed only; for tar streams, whose length is "
        "unknown, approximately.\n\nIf the output is a .gnz, the sources are .npy, .npz "
        "and .gnz files. The array of a .npy is named after its file, or with NAME=FILE. "
        "--add and --append change a .gnz in place: --add can use the header space that "
        "was reserved with --header-pages, --append the rows that were reserved with "
        "--reserve.\n\nIf the output is an .iac, the source is one folder, with a record "
        "per file, or one manifest, in which the column \"file\" holds the path of the "
        "record's file and all other columns become columns of the record pack.",
    .options = options,
    .examples = examples,
    .run = run,
};
