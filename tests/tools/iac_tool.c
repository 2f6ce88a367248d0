/* Reads and writes IAC files for the interop tests.
 *   copy IN OUT [VERSION]      both tables out through Arrow streams and in again
 *   segment IN OUT             the same with the data segment as one piece
 *   read IN [ROW...]           payloads as hexadecimal lines: all, or a batch of rows
 *   find IN COLUMN VALUE       the rows with the value
 *   pairs IN OUT STYLE         patients read and built again, style 00 or 01
 *   upgrade IN OUT
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/tarn.h>

#include "../unit/iac_help.h"

static tarn_error err;

static int fail(void)
{
    char text[TARN_ERROR_PATH_MAX + TARN_ERROR_MESSAGE_MAX + 64];
    fprintf(stderr, "%s: %s\n", tarn_status_name(err.code),
            tarn_error_text(&err, text, sizeof text));
    return 1;
}

static void hex(const unsigned char *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        printf("%02x", data[i]);
    putchar('\n');
}

static int export(tarn_iac *pack, struct ArrowArrayStream *slides,
                  struct ArrowArrayStream *index)
{
    if (tarn_iac_export(pack, TARN_IAC_SLIDES, slides, &err) != TARN_OK) return fail();
    if (tarn_iac_export(pack, TARN_IAC_INDEX, index, &err) == TARN_OK) return 0;
    slides->release(slides);
    return fail();
}

static int add_all(tarn_iac *pack, tarn_iac_writer *w, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        tarn_view view;
        if (tarn_iac_view(pack, i, false, &view, &err) != TARN_OK) return 1;
        tarn_status status = tarn_iac_writer_add(w, view.data, view.size, &err);
        tarn_view_release(&view);
        if (status != TARN_OK) return 1;
    }
    return 0;
}

static int copy(tarn_iac *pack, const char *to, unsigned version, bool segment)
{
    struct ArrowArrayStream slides, index;
    tarn_iac_write_options o = TARN_IAC_WRITE_OPTIONS_INIT;
    tarn_iac_info info;
    tarn_iac_writer *w;
    tarn_iac_info_get(pack, &info, sizeof info);
    o.header = info.header;
    o.version = version;
    o.overwrite = true;
    o.no_sync = true;
    if (export(pack, &slides, &index)) return 1;
    if (segment) {
        tarn_view data;
        if (tarn_iac_view_span(pack, 0, info.data_length, &data, &err) != TARN_OK ||
            iac_build_segment(to, &slides, &index, data.data, data.size, NULL, &o,
                              &err) != TARN_OK)
            return fail();
        tarn_view_release(&data);
        return 0;
    }
    if (tarn_iac_writer_open(to, &slides, &index, &o, &w, &err) != TARN_OK) return fail();
    if (add_all(pack, w, info.records)) {
        tarn_iac_writer_abandon(w);
        return fail();
    }
    return tarn_iac_writer_finish(w, &err) == TARN_OK ? 0 : fail();
}

static int read_rows(tarn_iac *pack, int n, char **rows)
{
    tarn_iac_info info;
    tarn_iac_batch batch = {0};
    tarn_iac_info_get(pack, &info, sizeof info);
    uint64_t count = n ? (uint64_t)n : info.records;
    uint64_t *list = calloc(count + 1, sizeof *list);
    for (uint64_t i = 0; list && i < count; i++)
        list[i] = n ? strtoull(rows[i], NULL, 10) : i;
    int status = 0;
    if (!list || tarn_iac_read(pack, list, count, &batch, &err) != TARN_OK)
        status = fail();
    for (size_t i = 0; i < batch.count; i++)
        hex(batch.data + batch.offsets[i], batch.offsets[i + 1] - batch.offsets[i]);
    free(list);
    tarn_iac_batch_reset(&batch);
    return status;
}

static int find(tarn_iac *pack, const char *column, const char *value)
{
    uint64_t row = 0, from = 0;
    tarn_status status;
    while ((status = tarn_iac_find(pack, column, value, strlen(value), from, &row,
                                   &err)) == TARN_OK) {
        printf("%llu\n", (unsigned long long)row);
        from = row + 1;
    }
    return status == TARN_ERR_NO_SAMPLE && from ? 0 : fail();
}

static int pairs(tarn_iac *pack, const char *to, const char *style)
{
    tarn_textpair_options o = TARN_TEXTPAIR_OPTIONS_INIT;
    tarn_iac_info info;
    o.style = strcmp(style, "00") == 0 ? TARN_TEXTPAIR_00 : TARN_TEXTPAIR_01;
    o.overwrite = true;
    tarn_iac_info_get(pack, &info, sizeof info);
    tarn_textpair_patient *patients = calloc(info.records + 1, sizeof *patients);
    int status = patients ? 0 : 1;
    for (uint64_t i = 0; i < info.records && !status; i++)
        if (tarn_textpair_read(pack, i, &patients[i], &err) != TARN_OK) status = fail();
    if (!status && tarn_textpair_build(to, patients, info.records, &o, &err) != TARN_OK)
        status = fail();
    for (uint64_t i = 0; i < info.records && patients; i++)
        tarn_textpair_reset(&patients[i]);
    free(patients);
    return status;
}

int main(int argc, char **argv)
{
    tarn_iac *pack;
    tarn_iac_options o = TARN_IAC_OPTIONS_INIT;
    if (argc < 3) return 2;
    o.check = true;
    o.no_map = getenv("NO_MAP") != NULL;
    if (strcmp(argv[1], "upgrade") == 0)
        return iac_upgrade(argv[2], argv[3], true, &err) == TARN_OK ? 0 : fail();
    if (tarn_iac_open(argv[2], &o, &pack, &err) != TARN_OK) return fail();
    int status = 2;
    if (strcmp(argv[1], "copy") == 0 && argc > 3)
        status = copy(pack, argv[3], argc > 4 ? (unsigned)atoi(argv[4]) : 2, false);
    else if (strcmp(argv[1], "segment") == 0 && argc > 3)
        status = copy(pack, argv[3], 2, true);
    else if (strcmp(argv[1], "read") == 0)
        status = read_rows(pack, argc - 3, argv + 3);
    else if (strcmp(argv[1], "find") == 0 && argc > 4)
        status = find(pack, argv[3], argv[4]);
    else if (strcmp(argv[1], "pairs") == 0 && argc > 4)
        status = pairs(pack, argv[3], argv[4]);
    tarn_iac_close(pack);
    return status;
}
