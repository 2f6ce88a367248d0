/* Writes a dataset of numbers and texts, as a program that produces data would, and reads
 * one sample back. If it is killed at any moment, the folder stays as it was.
 *
 *     cc writer.c $(pkg-config --cflags --libs tarn) -o writer
 *     ./writer numbers 1000
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/tarn.h>

static int fail(const tarn_error *err)
{
    char text[2200];
    fprintf(stderr, "%s\n", tarn_error_text(err, text, sizeof text));
    return 1;
}

static tarn_status add_number(tarn_fold_writer *out, unsigned number, tarn_error *err)
{
    char key[16], text[64], class[16];
    snprintf(key, sizeof key, "n%06u", number);
    snprintf(text, sizeof text, "number %u, squared %llu", number,
             (unsigned long long)number * number);
    snprintf(class, sizeof class, "%u", number % 10);
    tarn_field fields[] = {{"txt", text, strlen(text), NULL},
                           {"cls", class, strlen(class), NULL}};
    return tarn_fold_writer_add(out, key, fields, 2, err);
}

static tarn_status write_all(const char *folder, unsigned count, tarn_written *written,
                             tarn_error *err)
{
    tarn_fold_writer *out;
    tarn_fold_writer_options o = TARN_FOLD_WRITER_OPTIONS_INIT;
    o.max_count = 400;
    o.overwrite = true;
    TARN_TRY(tarn_fold_writer_open(folder, "train", &o, &out, err));
    for (unsigned i = 0; i < count; i++) {
        tarn_status status = add_number(out, i, err);
        if (status != TARN_OK) {
            tarn_fold_writer_abandon(out, false, NULL);
            return status;
        }
    }
    /* The fold exists once this returns. */
    return tarn_fold_writer_finish(out, written, sizeof *written, err);
}

int main(int argc, char **argv)
{
    tarn_error err;
    tarn_written written;
    tarn_dataset *fold;
    uint64_t sample;
    uint32_t txt;
    tarn_view view;
    if (argc != 3) {
        fprintf(stderr, "usage: writer FOLDER COUNT\n");
        return 2;
    }
    unsigned count = (unsigned)strtoul(argv[2], NULL, 10);
    if (write_all(argv[1], count, &written, &err) != TARN_OK) return fail(&err);
    printf("%llu samples in %llu shards\n", (unsigned long long)written.samples,
           (unsigned long long)written.shards);

    if (tarn_dataset_open(argv[1], NULL, &fold, &err) != TARN_OK) return fail(&err);
    const char *key = "n000012";
    if (tarn_dataset_find(fold, &key, 1, &sample, NULL, &err) != TARN_OK ||
        tarn_dataset_field_find(fold, "txt", &txt, &err) != TARN_OK ||
        tarn_dataset_get(fold, sample, txt, &view, &err) != TARN_OK)
        return fail(&err);
    printf("%.*s\n", (int)view.size, (const char *)view.data);
    tarn_view_release(&view);
    tarn_dataset_close(fold);
    return 0;
}
