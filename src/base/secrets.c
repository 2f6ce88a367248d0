/* Removes secrets from URLs that are shown. */
#include <string.h>
#include <strings.h>

#include <tarn/base.h>

#include "base/secrets.h"

typedef struct target {
    char *out;
    size_t size, used;
} target;

static void put(target *t, const char *text, size_t len)
{
    size_t room = t->size ? t->size - 1 - t->used : 0;
    if (len > room) len = room;
    if (len) memcpy(t->out + t->used, text, len);
    t->used += len;
    if (t->size) t->out[t->used] = '\0';
}

/* The first word of a command is shown, unless it is a variable, which may hold a
 * secret. */
static size_t command_shown(const char *command)
{
    size_t n = strcspn(command, " \t\n;|&<>()$`\"'");
    return memchr(command, '=', n) ? 0 : n;
}

/* One URL within a text. */
typedef struct url {
    const char *host; /* after the scheme's slashes; NULL: there is no URL */
    const char *end;
    bool http; /* what follows a ? is never part of a name */
} url;

static bool ends_with(const char *text, const char *end, const char *scheme)
{
    size_t n = strlen(scheme);
    return (size_t)(end - text) >= n && strncasecmp(end - n, scheme, n) == 0;
}

/* A URL in running text ends at a space or at the mark that closes what was opened before
 * it. */
static const char *find_end(const char *text, const char *scheme, const char *host)
{
    static const char open[] = "'\"`(<[", close[] = "'\"`)>]";
    char ends[] = " \t\r\n\0";
    while (scheme > text && !strchr(" \t\r\n'\"`(<[=,", scheme[-1]))
        scheme--;
    const char *mark = scheme > text ? strchr(open, scheme[-1]) : NULL;
    if (mark) ends[4] = close[mark - open];
    const char *end = host + strcspn(host, ends);
    while (end > host && strchr(":,;.)", end[-1]))
        end--;
    return end;
}

static bool has_password(const char *host)
{
    size_t n = strcspn(host, "/?#");
    const char *colon = memchr(host, ':', n);
    return colon && memchr(colon, '@', (size_t)(host + n - colon));
}

/* The next URL. Paths that were made absolute have only one of the slashes left. */
static url next_url(const char *text, bool is_url)
{
    for (const char *at = strstr(text, ":/"); at; at = strstr(at + 2, ":/")) {
        url u = {.host = at + 1 + strspn(at + 1, "/")};
        u.http = ends_with(text, at, "http") || ends_with(text, at, "https");
        if (at[2] != '/' && !u.http && !ends_with(text, at, "s3") &&
            !has_password(u.host))
            continue;
        u.end = is_url ? u.host + strlen(u.host) : find_end(text, at, u.host);
        return u;
    }
    return (url){0};
}

/* Whether something other than a host and a port is between a scheme and the next slash:
 * a password with a slash in it, or an open brace. */
static bool is_odd(const char *user, const char *host, const char *end)
{
    const char *open = memchr(user, '{', (size_t)(end - user));
    if (open && !memchr(open, '}', (size_t)(end - open))) return true;
    const char *port = *host == '[' ? NULL : memchr(host, ':', (size_t)(end - host));
    return port && port + 1 + strspn(port + 1, "0123456789{},.") < end;
}

/* What follows the last @ before end. */
static const char *after_at(const char *from, const char *end)
{
    const char *at = memrchr(from, '@', (size_t)(end - from));
    return at ? at + 1 : from;
}

/* What follows the user and the password. */
static const char *skip_user(const url *u)
{
    const char *end = u->host + strcspn(u->host, "/?#");
    if (end > u->end) end = u->end;
    const char *host = after_at(u->host, end);
    return is_odd(u->host, host, end) ? after_at(host, u->end) : host;
}

static const char *find_query(const url *u, const char *from)
{
    const char *query = from + strcspn(from, u->http ? "?#" : "?");
    if (query >= u->end) return NULL;
    return u->http || memchr(query, '=', (size_t)(u->end - query)) ? query : NULL;
}

char *tarn_hide_secrets(char *out, size_t size, const char *text, bool is_url)
{
    target t = {out, size, 0};
    url u = {0};
    put(&t, "", 0);
    if (is_url && strncasecmp(text, "pipe:", 5) == 0) {
        size_t n = 5 + command_shown(text + 5);
        put(&t, text, n);
        if (text[n]) put(&t, "...", 3);
        return out;
    }
    for (;;) {
        const char *query = u.host ? find_query(&u, text) : NULL;
        url next = next_url(text, is_url);
        if (query && (!next.host || query < next.host)) {
            put(&t, text, (size_t)(query + 1 - text));
            text = u.end;
            if (strncmp(text, "...", 3) != 0) put(&t, "...", 3); /* hidden before */
            u.host = NULL;
            continue;
        }
        if (!next.host) break;
        next.http |= is_url && u.http; /* a URL within a URL */
        u = next;
        put(&t, text, (size_t)(u.host - text));
        text = skip_user(&u);
    }
    put(&t, text, strlen(text));
    return out;
}

bool tarn__may_hold_secrets(const char *text)
{
    return strstr(text, ":/") || strncasecmp(text, "pipe:", 5) == 0;
}
