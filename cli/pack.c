/* tarn pack: files into one. */
#include "arrays.h"

static int pack_arrays(const cli_args *args, const char *output)
{
    cli_arrays list = {0};
    int status = CLI_OK;
    bool update = cli_has(args, "add") || cli_has(args, "append");
    for (int i = 0; i < args->n_words && status == CLI_OK; i++)
        status = cli_arrays_load(&list, args->words[i]);
    if (status == CLI_OK)
        status = update ? cli_arrays_update(args, &list, output)
                        : cli_arrays_save(args, &list, output);
    cli_arrays_free(&list);
    return status;
}

static int run(const cli_args *args)
{
    const char *output = cli_value(args, "output");
    if (!output) return cli_usage(args->command, "-o is missing");
    if (cli_kind_of(output) != CLI_GNZ)
        return cli_usage(args->command, "%s: -o names a .gnz", output);
    if (cli_has(args, "add") && cli_has(args, "append"))
        return cli_usage(args->command, "--add or --append, not both");
    return pack_arrays(args, output);
}

static const cli_option options[] = {
    {"output", 'o', "FILE", "the .gnz to write"},
    {"as", 0, "LIST", "cast: a type for all arrays (<f2), or NAME=TYPE,..."},
    {"metadata", 0, "JSON", "one JSON object, or @FILE with one"},
    {"checksums", 0, NULL, "keep a CRC-32C of each array for tarn verify"},
    {"header-pages", 0, "N", "reserve at least N pages of 4096 bytes for the header"},
    {"reserve", 0, "N", "reserve room for N rows in each array"},
    {"add", 0, NULL, "add the arrays to the .gnz that is there"},
    {"append", 0, NULL, "append rows to its arrays of the same names"},
    {"overwrite", 'f', NULL, "replace a file that is there"},
    {"quiet", 'q', NULL, "no progress bar"},
    {NULL, 0, NULL, NULL}};

static const cli_example examples[] = {
    {"tarn pack a.npy b.npz -o x.gnz", "array a, and the arrays of b.npz by their names"},
    {"tarn pack emb=features.npy --as '<f2' --checksums -o x.gnz", "renamed, cast"},
    {"tarn pack part0.npz --reserve 1000000 -o x.gnz", "with room to grow"},
    {"tarn pack part1.npz --append -o x.gnz", "the next rows"},
    {NULL, NULL}};

const cli_command cli_pack = {
    .name = "pack",
    .words = "FILE...",
    .min_words = 1,
    .max_words = 1000000,
    .summary = "put arrays into one .gnz",
    .text = "Takes .npy, .npz and .gnz files. A .npy is named after its file, or with "
            "NAME=FILE. Nothing has the name of the output before it is complete.\n\n"
            "--add and --append change a .gnz in place and leave what is there where it "
            "is: --add as far as the space for the header goes (--header-pages when it "
            "was made), --append as far as rows were reserved (--reserve).",
    .options = options,
    .examples = examples,
    .run = run,
};
