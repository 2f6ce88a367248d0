/* Keeps credentials for the process.
 *
 * Locks: list_lock guards the list; an entry's lock guards its members. Neither is held
 * while credentials are found, so that a fork does not wait for the network. finding says
 * which process is doing that: in a child of fork it is another one, whose thread is not
 * here, and then the child takes over. */
#include "io/cred.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/forklock.h"

extern char **environ;

enum { MAX_ENVIRONMENT = 1 << 20 };

/* --- The environment ------------------------------------------------------------- */

static bool is_wanted(const char *entry, const char *const *prefixes)
{
    if (strncmp(entry, "HOME=", 5) == 0) return true;
    for (; *prefixes; prefixes++)
        if (strncmp(entry, *prefixes, strlen(*prefixes)) == 0) return true;
    return false;
}

tarn_status tarn__env_take(tarn__env *env, const char *const *prefixes, tarn_error *err)
{
    tarn__buf_init(&env->text, MAX_ENVIRONMENT);
    TARN_TRY(tarn__buf_add(&env->text, "", 1, err)); /* never empty */
    for (char **e = environ; e && *e; e++)
        if (is_wanted(*e, prefixes))
            TARN_TRY(tarn__buf_add(&env->text, *e, strlen(*e) + 1, err));
    return TARN_OK;
}

void tarn__env_reset(tarn__env *env)
{
    if (env->text.data) explicit_bzero(env->text.data, env->text.size);
    tarn__buf_reset(&env->text);
}

const char *tarn__env_get(const tarn__env *env, const char *name)
{
    const char *at = env->text.data, *end = at + env->text.size;
    size_t n = strlen(name);
    for (; at < end; at += strlen(at) + 1)
        if (strncmp(at, name, n) == 0 && at[n] == '=')
            return at[n + 1] ? at + n + 1 : NULL;
    return NULL;
}

tarn_status tarn__env_note(tarn__env *env, const char *path, tarn_error *err)
{
    struct stat st = {0};
    if (stat(path, &st) != 0) st = (struct stat){0};
    TARN_TRY(tarn__buf_printf(&env->text, err, "?file=%lld.%ld.%lld.%llu",
                              (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec,
                              (long long)st.st_size, (unsigned long long)st.st_ino));
    return tarn__buf_add(&env->text, "", 1, err);
}

bool tarn__env_path(const tarn__env *env, const char *named, const char *in_home,
                    char *out, size_t size)
{
    const char *home = tarn__env_get(env, "HOME");
    int n = 0;
    if (named && strncmp(named, "~/", 2) == 0 && home)
        n = snprintf(out, size, "%s/%s", home, named + 2);
    else if (named)
        n = snprintf(out, size, "%s", named);
    else if (home)
        n = snprintf(out, size, "%s/%s", home, in_home);
    return n > 0 && (size_t)n < size;
}

/* --- The cache ------------------------------------------------------------------- */

struct tarn__cred {
    tarn__forklock lock;
    tarn__cred *next;
    tarn__env env;
    tarn__cred_find *find;
    pthread_cond_t found;
    pid_t finding; /* 0: nobody is */
    bool known;    /* value is set */
    bool refused;  /* a server says that it has expired */
    int64_t since; /* when it was found */
    int64_t again; /* not renewed before this time */
    tarn__cred_value value;
};

static tarn__forklock list_lock;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static tarn__cred *list;

static int64_t real_clock(void)
{
    return (int64_t)time(NULL);
}

int64_t (*tarn__cred_clock)(void) = real_clock;

static void init_list(void)
{
    tarn__forklock_init(&list_lock, TARN__LOCK_INNERMOST);
}

static tarn__cred *look_up(const tarn__env *env, tarn__cred_find *find)
{
    tarn__cred *c = list;
    while (c && !(c->find == find && c->env.text.size == env->text.size &&
                  memcmp(c->env.text.data, env->text.data, env->text.size) == 0))
        c = c->next;
    return c;
}

/* Adds an entry unless another thread has just added the same one. */
static tarn__cred *add_entry(tarn__cred *made)
{
    pthread_mutex_lock(&list_lock.mutex);
    tarn__cred *other = look_up(&made->env, made->find);
    if (!other) {
        made->next = list;
        list = made;
    }
    pthread_mutex_unlock(&list_lock.mutex);
    return other;
}

tarn_status tarn__cred_get(tarn__env *env, tarn__cred_find *find, tarn__cred **out,
                           tarn_error *err)
{
    pthread_once(&once, init_list);
    pthread_mutex_lock(&list_lock.mutex);
    *out = look_up(env, find);
    pthread_mutex_unlock(&list_lock.mutex);
    if (*out) {
        tarn__env_reset(env);
        return TARN_OK;
    }
    tarn__cred *made = calloc(1, sizeof *made);
    if (!made) {
        tarn__env_reset(env);
        return tarn__fail_memory(err);
    }
    tarn__forklock_init(&made->lock, TARN__LOCK_INNERMOST);
    pthread_cond_init(&made->found, NULL);
    made->env = *env;
    made->find = find;
    *out = add_entry(made);
    if (!*out) {
        *out = made;
        return TARN_OK;
    }
    pthread_cond_destroy(&made->found);
    tarn__forklock_destroy(&made->lock);
    tarn__env_reset(&made->env);
    free(made);
    return TARN_OK;
}

/* --- Finding --------------------------------------------------------------------- */

static bool is_expired(const tarn__cred *c, int64_t now)
{
    return c->value.expires <= now;
}

static bool is_due(const tarn__cred *c, int64_t now)
{
    if (!c->known || c->refused || is_expired(c, now)) return true;
    return c->value.expires != INT64_MAX && c->value.expires - TARN__CRED_EARLY <= now &&
           c->again <= now;
}

/* Finds credentials without the lock, and stores them with it. */
static tarn_status find_new(tarn__cred *c, tarn_error *err)
{
    tarn__cred_value *made = calloc(1, sizeof *made);
    bool had = c->known && (c->value.access[0] || c->value.token[0]);
    c->finding = getpid();
    pthread_mutex_unlock(&c->lock.mutex);
    tarn_status status = made ? TARN_OK : tarn__fail_memory(err);
    if (status == TARN_OK) {
        made->expires = INT64_MAX;
        status = c->find(&c->env, made, err);
    }
    if (status == TARN_OK && had && !made->access[0] && !made->token[0])
        status =
            tarn__fail(err, TARN_ERR_IO,
                       "the credentials have expired, and no provider gives new ones");
    pthread_mutex_lock(&c->lock.mutex);
    c->finding = 0;
    c->since = tarn__cred_clock();
    c->again = c->since + TARN__CRED_AGAIN;
    if (status == TARN_OK) {
        c->value = *made;
        c->known = true;
        c->refused = false;
    }
    pthread_cond_broadcast(&c->found);
    if (made) explicit_bzero(made, sizeof *made);
    free(made);
    return status;
}

static tarn_status use_locked(tarn__cred *c, tarn__cred_value *out, tarn_error *err)
{
    int64_t now = tarn__cred_clock();
    while (is_due(c, now)) {
        bool usable = c->known && !c->refused && !is_expired(c, now);
        if (c->finding && c->finding == getpid()) {
            if (usable) break;
            pthread_cond_wait(&c->found, &c->lock.mutex);
            continue;
        }
        if (c->finding)
            pthread_cond_init(&c->found, NULL); /* waiters were the parent's */
        tarn_error why = {0};
        tarn_status status = find_new(c, &why);
        if (status == TARN_OK || usable) break;
        if (err) *err = why;
        return status;
    }
    *out = c->value;
    return TARN_OK;
}

tarn_status tarn__cred_use(tarn__cred *cred, tarn__cred_value *out, tarn_error *err)
{
    pthread_mutex_lock(&cred->lock.mutex);
    tarn_status status = use_locked(cred, out, err);
    pthread_mutex_unlock(&cred->lock.mutex);
    return status;
}

bool tarn__cred_expire(tarn__cred *cred)
{
    pthread_mutex_lock(&cred->lock.mutex);
    bool some = cred->known && (cred->value.access[0] || cred->value.token[0]);
    if (tarn__cred_clock() > cred->since) cred->refused = true;
    pthread_mutex_unlock(&cred->lock.mutex);
    return some;
}
