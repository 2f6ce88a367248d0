/* tarn convert: one kind of file into another. */
#include "arrays.h"

static int run(const cli_args *args)
{
    cli_arrays list = {0};
    const char *from = args->words[0], *to = args->words[1];
    if (cli_kind_of(from) == CLI_OTHER || cli_kind_of(to) == CLI_OTHER)
        return cli_usage(args->command, "converts between .npy, .npz and .gnz");
    int status = cli_arrays_load(&list, from);
    if (status == CLI_OK) status = cli_arrays_save(args, &list, to);
    cli_arrays_free(&list);
    return status;
}

static const cli_option options[] = {
    {"as", 0, "LIST", "into .gnz: cast to a type (<f2), or NAME=TYPE,..."},
    {"metadata", 0, "JSON", "into .gnz: one JSON object, or @FILE with one"},
    {"checksums", 0, NULL, "into .gnz: keep a CRC-32C of each array"},
    {"header-pages", 0, "N", "into .gnz: reserve at least N pages for the header"},
    {"reserve", 0, "N", "into .gnz: reserve room for N rows in each array"},
    {"compress", 'z', NULL, "into .npz: deflate, as np.savez_compressed does"},
    {"overwrite", 'f', NULL, "replace a file that is there"},
    {"quiet", 'q', NULL, "no progress bar"},
    {NULL, 0, NULL, NULL}};

static const cli_example examples[] = {
    {"tarn convert data.npz data.gnz", "arrays that can be mapped"},
    {"tarn convert data.gnz data.npz", "and back"},
    {"tarn convert old.gnz new.gnz --checksums --header-pages 4", "rewritten"},
    {NULL, NULL}};

const cli_command cli_convert = {
    .name = "convert",
    .words = "FROM TO",
    .min_words = 2,
    .max_words = 2,
    .summary = "turn one kind of file into another",
    .text = "Between .npy, .npz and .gnz, by the ends of the names. Metadata of a .gnz "
            "goes along into a .gnz; the others have no place for it. A .npy takes one "
            "array. Files of NumPy are made in memory.",
    .options = options,
    .examples = examples,
    .run = run,
};
