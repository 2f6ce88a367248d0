/* IAC files for tests, and the check of their content. */
#include "packing.h"
#include "iac_help.h"

#include "iac/file.h"

tarn_error err;

void payload_of(unsigned i, unsigned char *out, size_t *size)
{
    *size = i * 37u % 211u;
    for (size_t k = 0; k < *size; k++)
        out[k] = (unsigned char)(i * 31u + k * 7u);
}

void one_slide(struct ArrowArrayStream *out)
{
    static const char *const columns[] = {"u8:slide_idx", "text:slide_id"};
    tarn_iac_rows *rows;
    OK(tarn_iac_rows_new(columns, 2, &rows, &err));
    OK(rows_number(rows, 0, 0, &err));
    OK(rows_text(rows, 1, "s0", 2, &err));
    OK(tarn_iac_rows_finish(rows, out, &err));
}

void index_table(struct ArrowArrayStream *out, unsigned n)
{
    static const char *const columns[] = {"text:name", "int:group"};
    tarn_iac_rows *rows;
    OK(tarn_iac_rows_new(columns, 2, &rows, &err));
    for (unsigned i = 0; i < n; i++) {
        char name[16];
        int len = snprintf(name, sizeof name, "n%u", i);
        OK(rows_text(rows, 0, name, (size_t)len, &err));
        if (i % 7 == 6)
            OK(tarn_iac_rows_add(rows, 1, NULL, &err));
        else
            OK(rows_number(rows, 1, (int64_t)(i % 5) - 2, &err));
    }
    OK(tarn_iac_rows_finish(rows, out, &err));
}

void make_pack(const char *path, const tarn_iac_write_options *o)
{
    struct ArrowArrayStream slides, index;
    tarn_iac_writer *w;
    unsigned char bytes[256];
    size_t size;
    one_slide(&slides);
    index_table(&index, ROWS);
    OK(tarn_iac_writer_open(path, &slides, &index, o, &w, &err));
    for (unsigned i = 0; i < ROWS; i++) {
        payload_of(i, bytes, &size);
        OK(tarn_iac_writer_add(w, bytes, size, &err));
    }
    OK(tarn_iac_writer_finish(w, &err));
}

void check_rows(tarn_iac *pack)
{
    unsigned char want[256], got[256];
    size_t size;
    for (unsigned i = 0; i < ROWS; i++) {
        tarn_view view;
        payload_of(i, want, &size);
        OK(tarn_iac_view(pack, i, false, &view, &err));
        assert_int_equal(view.size, size);
        assert_memory_equal(view.data, want, size);
        tarn_view_release(&view);
        OK(tarn__iac_copy(pack, i, got, sizeof got, &err));
        assert_memory_equal(got, want, size);
    }
}
