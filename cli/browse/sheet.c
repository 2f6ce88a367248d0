/* A contact sheet: one HTML file with small pictures in it, without scripts. Texts come
 * from files and are escaped; its policy allows nothing but its own pictures and style.
 */
#include <stdlib.h>
#include <string.h>

#include "../target.h"
#include "browse.h"

enum { SIDE = 240, MOST = 10000 };

static const char head[] =
    "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
    "img-src data:; style-src 'unsafe-inline'\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n<style>\n"
    ":root{color-scheme:light dark;--bg:#f6f7f9;--card:#fff;--ink:#1b2430;--dim:#66717f;"
    "--line:#dfe3e8;--bad:#c22f2f}\n"
    "@media(prefers-color-scheme:dark){:root{--bg:#12161c;--card:#1b212a;--ink:#e6eaf0;"
    "--dim:#94a0ae;--line:#2c343f;--bad:#ff8a80}}\n"
    "body{margin:0;padding:24px;background:var(--bg);color:var(--ink);"
    "font:14px/1.45 system-ui,sans-serif}\n"
    "h1{font-size:20px;margin:0 0 4px}p{margin:0 0 20px;color:var(--dim)}\n"
    "main{display:grid;grid-template-columns:repeat(auto-fill,minmax(170px,1fr));"
    "gap:12px}\n"
    "figure{margin:0;background:var(--card);border:1px solid var(--line);"
    "border-radius:8px;overflow:hidden}\n"
    "figure>div{height:150px;display:flex;align-items:center;justify-content:center;"
    "overflow:hidden;color:var(--dim);font-size:12px;white-space:pre-wrap;"
    "overflow-wrap:anywhere}\n"
    "div>span{padding:8px}img{width:100%;height:100%;object-fit:contain}\n"
    "figcaption{padding:6px 8px;font-size:12px;overflow-wrap:anywhere}\n"
    "small{color:var(--dim)}.bad{color:var(--bad)}\n"
    "</style>\n";

/* Bytes that are not UTF-8 become U+FFFD, control characters spaces. */
static void put_text(FILE *out, const char *text, size_t size)
{
    uint32_t code;
    for (size_t n; size > 0; text += n, size -= n) {
        bool valid = (n = cli_utf8(text, size, &code)) > 0;
        if (!valid)
            n = 1, fputs("\xef\xbf\xbd", out);
        else if (code == '<')
            fputs("&lt;", out);
        else if (code == '>')
            fputs("&gt;", out);
        else if (code == '&')
            fputs("&amp;", out);
        else if (code == '"')
            fputs("&quot;", out);
        else if ((code < 0x20 && code != '\n') || (code >= 0x7f && code < 0xa0))
            fputc(' ', out);
        else
            fwrite(text, 1, n, out);
    }
}

static void put_string(FILE *out, const char *text)
{
    put_text(out, text, strlen(text));
}

static void put_base64(FILE *out, const unsigned char *data, size_t size)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        unsigned n = (unsigned)data[i] << 16;
        if (i + 1 < size) n |= (unsigned)data[i + 1] << 8;
        if (i + 2 < size) n |= data[i + 2];
        fputc(digits[n >> 18], out);
        fputc(digits[n >> 12 & 63], out);
        fputc(i + 1 < size ? digits[n >> 6 & 63] : '=', out);
        fputc(i + 2 < size ? digits[n & 63] : '=', out);
    }
}

/* A field as a picture; false if it is none. */
static bool put_picture(FILE *out, tarn_dataset *set, uint64_t i, uint32_t field)
{
    tarn_bytes jpeg = TARN_BYTES_INIT;
    tarn_error err;
    browse_kind kind = browse_kind_at(set, i, field);
    if (kind >= BROWSE_TEXT && kind <= BROWSE_NUMBER) return false;
    if (!browse_picture(set, i, field, SIDE, &jpeg, &err)) return false;
    fputs("<img alt=\"\" src=\"data:image/jpeg;base64,", out);
    put_base64(out, jpeg.data, jpeg.size);
    fputs("\">", out);
    tarn_bytes_release(&jpeg);
    return true;
}

/* The short texts and numbers of a sample. */
static void put_values(FILE *out, tarn_dataset *set, uint64_t i, const cli_fold *room)
{
    enum { SHOWN = 200 };
    for (size_t k = 0; k < room->count; k++) {
        tarn_view v;
        tarn_field_form form;
        uint32_t field = room->members[k].field;
        browse_kind kind = browse_kind_at(set, i, field);
        if (kind < BROWSE_TEXT || kind > BROWSE_NUMBER ||
            tarn_dataset_form(set, i, field, &form, sizeof form, NULL) != TARN_OK ||
            form.form == TARN_FORM_ARRAY ||
            tarn_dataset_get(set, i, field, &v, NULL) != TARN_OK)
            continue;
        fputs("<br><small>", out);
        put_string(out, tarn_dataset_field(set, field));
        fputs(":</small> ", out);
        put_text(out, (const char *)v.data, v.size < SHOWN ? v.size : SHOWN);
        if (v.size > SHOWN) fputs(" …", out);
        tarn_view_release(&v);
    }
}

static tarn_status put_sample(FILE *out, const browser *b, tarn_dataset *set, uint64_t i,
                              cli_fold *room, tarn_text *key, tarn_error *err)
{
    bool shown = false;
    TARN_TRY(tarn_dataset_key(set, i, key, err));
    TARN_TRY(cli_members_of(room, set, i, err));
    fputs("<figure><div>", out);
    for (size_t k = 0; k < room->count && !shown; k++)
        shown = put_picture(out, set, i, room->members[k].field);
    if (!shown) fprintf(out, "<span>%zu fields</span>", room->count);
    fputs("</div><figcaption><b>", out);
    put_text(out, key->data, key->size);
    fputs("</b>", out);
    put_values(out, set, i, room);
    const browse_problem *p = browse_problem_of(&b->problems, key->data);
    if (p) {
        fputs("<br><span class=\"bad\">problem: ", out);
        put_string(out, p->message);
        fputs("</span>", out);
    }
    fputs("</figcaption></figure>\n", out);
    return TARN_OK;
}

static tarn_status put_page(FILE *out, const browser *b, const browse_view *view,
                            uint64_t count, tarn_error *err)
{
    cli_fold room = {0};
    tarn_text key = {0};
    tarn_status status = TARN_OK;
    if (count > view->count) count = view->count;
    fputs(head, out);
    fputs("<title>", out);
    put_string(out, b->title);
    fputs("</title>\n<h1>", out);
    put_string(out, b->title);
    fprintf(out, "</h1>\n<p>%llu of %llu samples</p>\n<main>\n",
            (unsigned long long)count, (unsigned long long)view->count);
    for (uint64_t i = 0; i < count && status == TARN_OK; i++)
        status = put_sample(out, b, view->set, i, &room, &key, err);
    fputs("</main>\n</html>\n", out);
    tarn_text_reset(&key);
    free(room.members);
    return status;
}

int browse_sheet(browser *b, const char *text, const char *path, uint64_t count)
{
    tarn_error err;
    browse_query q;
    browse_view *view;
    browse_answer a;
    char *uri = NULL, *page = NULL;
    size_t size;
    if (count > MOST) return cli_usage(b->args->command, "--count is at most %d", MOST);
    if (asprintf(&uri, "/x/?%s", text) < 0) cli_no_memory();
    bool good = browse_query_parse(uri, &q) && browse_view_open(b, &q, &view, &a);
    free(uri);
    if (!good) return CLI_DATA; /* it was checked before */
    FILE *out = open_memstream(&page, &size);
    if (!out) cli_no_memory();
    tarn_status status = put_page(out, b, view, count, &err);
    if (fclose(out) != 0 || !page) cli_no_memory();
    int result = status == TARN_OK ? CLI_OK : cli_fail(&err);
    if (result == CLI_OK) {
        tarn_view all = {(const unsigned char *)page, size, NULL};
        result = cli_write_out(path, &all);
    }
    free(page);
    browse_view_close(b, view);
    browse_query_free(&q);
    return result;
}
