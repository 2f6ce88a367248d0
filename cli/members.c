/* Converts a sample of any dataset to members of an archive. */
#include <stdlib.h>
#include <string.h>

#include "target.h"

static void make_room(cli_members *m, size_t count)
{
    if (count <= m->capacity) return;
    size_t before = m->capacity;
    m->capacity = 2 * count + 16;
    m->fields = realloc(m->fields, m->capacity * sizeof *m->fields);
    m->names = realloc(m->names, m->capacity * sizeof *m->names);
    m->bytes = realloc(m->bytes, m->capacity * sizeof *m->bytes);
    if (!m->fields || !m->names || !m->bytes) cli_no_memory();
    for (size_t i = before; i < m->capacity; i++) {
        m->names[i] = NULL;
        m->bytes[i] = (tarn_bytes)TARN_BYTES_INIT;
    }
}

void cli_members_free(cli_members *m)
{
    for (size_t i = 0; i < m->capacity; i++) {
        free(m->names[i]);
        tarn_bytes_release(&m->bytes[i]);
    }
    free(m->fields);
    free(m->names);
    free(m->bytes);
    free(m->json);
    *m = (cli_members){0};
}

tarn_status cli_piece_npy(const cli_piece *p, tarn_bytes *out, tarn_error *err)
{
    tarn_array array;
    TARN_TRY(tarn_array_init(&array, (void *)(uintptr_t)p->data, p->form.dtype,
                             p->form.ndim, p->form.shape, err));
    tarn_value value = {.kind = TARN_VALUE_ARRAY, .arrays = &array, .count = 1};
    out->size = 0;
    return tarn_encode("npy", &value, NULL, out, err);
}

static tarn_status add_row(cli_members *m, const cli_piece *p, tarn_error *err)
{
    size_t i = m->count++;
    bool named = cli_field_is(p->name, "npy");
    free(m->names[i]);
    if (asprintf(&m->names[i], "%s%s", p->name, named ? "" : ".npy") < 0) cli_no_memory();
    TARN_TRY(cli_piece_npy(p, &m->bytes[i], err));
    m->fields[i] = (tarn_field){m->names[i], m->bytes[i].data, m->bytes[i].size, NULL};
    return TARN_OK;
}

/* The columns of a record become one JSON object. */
static void add_columns(cli_members *m, const cli_record *r)
{
    size_t size = 0, columns = 0;
    for (size_t i = 0; i < r->count; i++)
        columns += cli_is_column(&r->pieces[i].form);
    if (columns == 0) return;
    free(m->json);
    m->json = NULL;
    FILE *text = open_memstream(&m->json, &size);
    cli_json j = {.out = text};
    if (!text) cli_no_memory();
    cli_json_open(&j, NULL, '{');
    for (size_t i = 0; i < r->count; i++)
        if (cli_is_column(&r->pieces[i].form))
            cli_json_raw(&j, r->pieces[i].name, (const char *)r->pieces[i].data,
                         r->pieces[i].size);
    cli_json_close(&j, '}');
    if (fclose(text) != 0) cli_no_memory();
    m->fields[m->count++] = (tarn_field){"json", m->json, size, NULL};
}

tarn_status cli_members_make(cli_members *m, const cli_record *r, tarn_error *err)
{
    make_room(m, r->count + 1);
    m->count = 0;
    for (size_t i = 0; i < r->count; i++) {
        const cli_piece *p = &r->pieces[i];
        if (p->form.form == TARN_FORM_ARRAY)
            TARN_TRY(add_row(m, p, err));
        else if (!cli_is_column(&p->form))
            m->fields[m->count++] =
                (tarn_field){p->form.form == TARN_FORM_BYTES ? p->form.codec : p->name,
                             p->data, p->size, NULL};
    }
    add_columns(m, r);
    return TARN_OK;
}
