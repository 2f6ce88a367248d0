/* Archives, scratch folders and checks for the unit tests. */
#include "support.h"

#include <errno.h>
#include <ftw.h>
#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>

static size_t last_header;

static unsigned char *grow(tarball *t, size_t more)
{
    t->data = realloc(t->data, t->size + more);
    assert_non_null(t->data);
    memset(t->data + t->size, 0, more);
    t->size += more;
    return t->data + t->size - more;
}

void tarball_reset(tarball *t)
{
    free(t->data);
    *t = (tarball){0};
}

void tarball_sum(unsigned char *header)
{
    unsigned sum = 0;
    memset(header + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += header[i];
    snprintf((char *)header + 148, 8, "%06o", sum);
    header[155] = ' ';
}

void tarball_header(tarball *t, const char *name, char type, uint64_t size)
{
    unsigned char *h = grow(t, 512);
    last_header = t->size - 512;
    size_t len = strlen(name);
    memcpy(h, name, len < 100 ? len : 100);
    memcpy(h + 100, "0000644\0000000000\0000000000", 24);
    snprintf((char *)h + 124, 12, "%011llo", (unsigned long long)size);
    memcpy(h + 136, "00000000000", 12);
    h[156] = (unsigned char)type;
    memcpy(h + 257, "ustar\00000", 8);
    tarball_sum(h);
}

unsigned char *tarball_last(tarball *t)
{
    return t->data + last_header;
}

void tarball_payload(tarball *t, const void *data, size_t size)
{
    unsigned char *p = grow(t, (size + 511) / 512 * 512);
    if (size) memcpy(p, data, size);
}

void tarball_file(tarball *t, const char *name, const char *text)
{
    tarball_header(t, name, '0', strlen(text));
    tarball_payload(t, text, strlen(text));
}

void tarball_value(tarball *t, unsigned i, const char *field, const tarn_value *value)
{
    char name[64];
    tarn_bytes out = TARN_BYTES_INIT;
    tarn_error err;
    OK(tarn_encode(field, value, NULL, &out, &err));
    snprintf(name, sizeof name, "s%04u.%s", i, field);
    tarball_header(t, name, '0', out.size);
    tarball_payload(t, out.data, out.size);
    tarn_bytes_release(&out);
}

void tarball_extended(tarball *t, char type, const void *data, size_t size)
{
    tarball_header(t, type == 'x' || type == 'g' ? "pax" : "././@LongLink", type, size);
    tarball_payload(t, data, size);
}

void tarball_pax(tarball *t, char type, const char *key, const char *value)
{
    char record[4096];
    size_t body = strlen(key) + strlen(value) + 3, len = body + 1;
    while (len != body + (size_t)snprintf(NULL, 0, "%zu", len))
        len = body + (size_t)snprintf(NULL, 0, "%zu", len);
    snprintf(record, sizeof record, "%zu %s=%s\n", len, key, value);
    tarball_extended(t, type, record, len);
}

void tarball_end(tarball *t)
{
    grow(t, 1024);
}

static char folder[64] = "/tmp/tarn-test-XXXXXX";
static bool made;

const char *scratch(void)
{
    if (!made) assert_non_null(mkdtemp(folder));
    made = true;
    return folder;
}

int scratch_in_memory(void **state)
{
    (void)state;
    assert_false(made);
    if (access("/dev/shm", W_OK) == 0)
        snprintf(folder, sizeof folder, "/dev/shm/tarn-test-XXXXXX");
    return 0;
}

const char *scratch_path(const char *name)
{
    static char paths[4][512];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", scratch(), name);
    return path;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

int scratch_remove(void **state)
{
    (void)state;
    if (made) nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return 0;
}

void write_file(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

unsigned char *read_file(const char *path, size_t *out_size)
{
    FILE *f = fopen(path, "rb");
    if (!f) print_error("cannot open %s: %s\n", path, strerror(errno));
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *out_size = (size_t)ftell(f);
    rewind(f);
    unsigned char *data = malloc(*out_size + 1);
    assert_int_equal(fread(data, 1, *out_size, f), *out_size);
    fclose(f);
    return data;
}

void save_tar(const tarball *t, const char *path)
{
    write_file(path, t->data, t->size);
}

uint64_t publish_fold(const tarball *t, const char *where, const tarn_index_options *o)
{
    char shard[300], index_path[300];
    const char *shards[] = {shard};
    tarn_index *index;
    tarn_index_info info;
    tarn_error err;
    mkdir(where, 0755);
    snprintf(shard, sizeof shard, "%s/f_0.tar", where);
    snprintf(index_path, sizeof index_path, "%s/f.taridx", where);
    save_tar(t, shard);
    OK(tarn_index_build(shards, 1, o, NULL, &index, NULL, 0, &err));
    OK(tarn_index_save(index, index_path, &err));
    tarn_index_info_get(index, &info, sizeof info);
    tarn_index_free(index);
    return info.rows;
}

static bool has_comma(const char *locale)
{
    return setlocale(LC_ALL, locale) && strcmp(localeconv()->decimal_point, ",") == 0;
}

bool set_comma_locale(void)
{
    char command[600];
    if (has_comma("de_DE.UTF-8") || has_comma("de_DE") || has_comma("fr_FR.UTF-8"))
        return true;
    snprintf(command, sizeof command,
             "localedef -i de_DE -f UTF-8 '%s/de_DE.UTF-8' >/dev/null 2>&1", scratch());
    if (system(command) == 0 && setenv("LOCPATH", scratch(), 1) == 0 &&
        has_comma("de_DE.UTF-8"))
        return true;
    setlocale(LC_ALL, "C");
    print_message("no locale with a comma is installed, and none can be made\n");
    return false;
}

const char *data_path(const char *name)
{
    static char paths[4][512];
    static int next;
    const char *root = getenv("TARN_DATA");
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", root ? root : "tests/data", name);
    return path;
}

const char *corpus_path(const char *target)
{
    static char path[512];
    const char *root = getenv("TARN_CORPUS");
    snprintf(path, sizeof path, "%s/%s", root ? root : "build-corpus", target);
    return path;
}

/* TARN_TEST selects the tests to run, with * and ?. */
__attribute__((constructor)) static void choose_tests(void)
{
    if (getenv("TARN_TEST")) cmocka_set_test_filter(getenv("TARN_TEST"));
}

void check_ok(tarn_status status, const tarn_error *err, const char *file, int line)
{
    char text[2200];
    if (status == TARN_OK) return;
    print_error("%s:%d: %s: %s\n", file, line, tarn_status_name(status),
                status == TARN_END ? "" : tarn_error_text(err, text, sizeof text));
    fail();
}

void check_failed(tarn_status want, tarn_status got, const tarn_error *err,
                  const char *part, const char *file, int line)
{
    char text[2200] = "";
    if (got != TARN_OK && got != TARN_END) tarn_error_text(err, text, sizeof text);
    if (got == want && err->code == want && strstr(text, part)) return;
    print_error("%s:%d: %s (%s), and %s with \"%s\" was expected\n", file, line,
                tarn_status_name(got), text, tarn_status_name(want), part);
    fail();
}

void end_if_it_hangs(void)
{
    alarm(HANG_SECONDS);
}
