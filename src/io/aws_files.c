/* ~/.aws/credentials and ~/.aws/config. A setting in the first wins over one in the
 * second. */
#include "io/aws.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"

enum { MAX_FILE = 1 << 20 };

static char *trim_blanks(char *text)
{
    size_t len = strlen(text);
    while (len && (unsigned char)text[len - 1] <= ' ')
        text[--len] = '\0';
    while (*text && (unsigned char)*text <= ' ')
        text++;
    return text;
}

static char *trim_quotes(char *text)
{
    size_t len = strlen(text);
    if (len < 2 || (text[0] != '"' && text[0] != '\'') || text[len - 1] != text[0])
        return text;
    text[len - 1] = '\0';
    return text + 1;
}

typedef struct place {
    const char *kind, *name, *parent;
} place;

/* "[name]" and "[profile name]" are profiles, "[kind name]" is anything else. */
static void enter_section(place *at, char *line)
{
    char *end = strchr(line, ']');
    *at = (place){"", "", NULL};
    if (!end) return;
    *end = '\0';
    char *inside = trim_blanks(line + 1);
    size_t kind = strcspn(inside, " \t");
    if (!inside[kind]) {
        *at = (place){"profile", inside, NULL};
        return;
    }
    inside[kind] = '\0';
    *at = (place){inside, trim_quotes(trim_blanks(inside + kind + 1)), NULL};
}

static tarn_status add_setting(tarn__aws_files *files, const place *at, const char *key,
                               const char *parent, const char *value, tarn_error *err)
{
    TARN_TRY(tarn__grow(&files->settings, sizeof *files->settings, files->count,
                        &files->capacity, err));
    files->settings[files->count++] =
        (tarn__aws_setting){at->kind, at->name, key, parent, value};
    return TARN_OK;
}

static tarn_status take_line(tarn__aws_files *files, place *at, char *line,
                             tarn_error *err)
{
    if (line[0] == '[') {
        enter_section(at, line);
        return add_setting(files, at, "", NULL, "", err); /* the section exists */
    }
    if (!at->kind || line[0] == '#' || line[0] == ';') return TARN_OK;
    bool indented = line[0] == ' ' || line[0] == '\t';
    char *equals = strchr(line, '=');
    if (!equals) return TARN_OK;
    *equals = '\0';
    const char *key = trim_blanks(line), *value = trim_blanks(equals + 1);
    if (!indented) at->parent = key;
    return add_setting(files, at, key, indented ? at->parent : NULL, value, err);
}

static tarn_status read_lines(tarn__aws_files *files, char *text, tarn_error *err)
{
    place at = {0};
    while (text && *text) {
        char *end = strchr(text, '\n');
        if (end) *end++ = '\0';
        TARN_TRY(take_line(files, &at, text, err));
        text = end;
    }
    return TARN_OK;
}

bool tarn__aws_files_path(const tarn__env *env, bool config, char *out, size_t size)
{
    const char *named =
        tarn__env_get(env, config ? "AWS_CONFIG_FILE" : "AWS_SHARED_CREDENTIALS_FILE");
    return tarn__env_path(env, named, config ? ".aws/config" : ".aws/credentials", out,
                          size);
}

tarn_status tarn__aws_files_load(tarn__aws_files *files, const tarn__env *env,
                                 tarn_error *err)
{
    *files = (tarn__aws_files){0};
    for (int i = 0; i < 2; i++) {
        char path[4096];
        tarn_error why = {0};
        if (!tarn__aws_files_path(env, i == 1, path, sizeof path)) continue;
        tarn_status status = tarn__cred_read_file(&files->texts[i], path, MAX_FILE, &why);
        int e = why.sys_errno;
        if (status != TARN_OK && (e == ENOENT || e == ENOTDIR || e == EACCES)) continue;
        if (status == TARN_OK && strlen(files->texts[i].data) < files->texts[i].size)
            status = tarn__fail_at(&why, TARN_ERR_FORMAT, path, TARN_NO_OFFSET,
                                   "contains a zero byte");
        if (status == TARN_OK) status = read_lines(files, files->texts[i].data, &why);
        if (status == TARN_OK) continue;
        if (err) *err = why;
        tarn__aws_files_reset(files);
        return status;
    }
    return TARN_OK;
}

void tarn__aws_files_reset(tarn__aws_files *files)
{
    for (int i = 0; i < 2; i++) {
        if (files->texts[i].data)
            explicit_bzero(files->texts[i].data, files->texts[i].size);
        tarn__buf_reset(&files->texts[i]);
    }
    free(files->settings);
    *files = (tarn__aws_files){0};
}

static bool is_in(const tarn__aws_setting *s, const char *kind, const char *name)
{
    return strcmp(s->kind, kind) == 0 && strcmp(s->name, name) == 0;
}

bool tarn__aws_has(const tarn__aws_files *files, const char *kind, const char *name)
{
    for (size_t i = 0; i < files->count; i++)
        if (is_in(&files->settings[i], kind, name)) return true;
    return false;
}

static const char *get(const tarn__aws_files *files, const char *kind, const char *name,
                       const char *parent, const char *key)
{
    for (size_t i = 0; i < files->count; i++) {
        const tarn__aws_setting *s = &files->settings[i];
        if (!is_in(s, kind, name) || strcmp(s->key, key) != 0 || !s->value[0]) continue;
        if (parent ? s->parent && strcmp(s->parent, parent) == 0 : !s->parent)
            return s->value;
    }
    return NULL;
}

const char *tarn__aws_get(const tarn__aws_files *files, const char *kind,
                          const char *name, const char *key)
{
    return get(files, kind, name, NULL, key);
}

const char *tarn__aws_endpoint(const tarn__aws *aws, const char *service)
{
    char variable[64] = "AWS_ENDPOINT_URL_";
    size_t n = strlen(variable);
    for (const char *c = service; *c && n + 1 < sizeof variable; c++)
        variable[n++] = (char)(*c == '-' ? '_' : toupper((unsigned char)*c));
    variable[n] = '\0';
    const char *url = tarn__env_get(aws->env, variable);
    if (!url) url = tarn__env_get(aws->env, "AWS_ENDPOINT_URL");
    const char *ignore = tarn__env_get(aws->env, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");
    if (url || (ignore && strcasecmp(ignore, "true") == 0)) return url;
    const char *services =
        tarn__aws_get(&aws->files, "profile", aws->profile, "services");
    if (services) {
        char key[32];
        snprintf(key, sizeof key, "%s", service);
        for (char *c = key; *c; c++)
            if (*c == '-') *c = '_';
        url = get(&aws->files, "services", services, key, "endpoint_url");
    }
    return url ? url
               : tarn__aws_get(&aws->files, "profile", aws->profile, "endpoint_url");
}
