/* Fills in the public error struct. Knows nothing about files or formats: callers say
 * which path and offset a failure belongs to. */
#ifndef TARN_BASE_ERROR_H
#define TARN_BASE_ERROR_H

#include <tarn/base.h>

#define TARN__PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* Each macro fills err (if not NULL) and evaluates to the failure's status, so that
 * reporting a failure is one return statement. They are macros so that the compiler sees
 * that the status is not TARN_OK. */
#define tarn__fail(err, code, ...)                                                       \
    (tarn__error_set(err, code, NULL, TARN_NO_OFFSET, __VA_ARGS__), (tarn_status)(code))
#define tarn__fail_at(err, code, path, offset, ...)                                      \
    (tarn__error_set(err, code, path, offset, __VA_ARGS__), (tarn_status)(code))

/* For a system call that failed with errno number e; ": strerror" is appended to the
 * text. */
#define tarn__fail_errno(err, path, e, ...)                                              \
    (tarn__failure(tarn__error_set_errno(err, path, e, __VA_ARGS__)))

void tarn__error_set(tarn_error *err, tarn_status code, const char *path, uint64_t offset,
                     const char *fmt, ...) TARN__PRINTF(5, 6);
tarn_status tarn__error_set_errno(tarn_error *err, const char *path, int e,
                                  const char *fmt, ...) TARN__PRINTF(4, 5);

static inline tarn_status tarn__failure(tarn_status status)
{
    if (status == TARN_OK) __builtin_unreachable();
    return status;
}

static inline tarn_status tarn__fail_memory(tarn_error *err)
{
    return tarn__fail(err, TARN_ERR_MEMORY, "out of memory");
}

/* Rejects a call whose required argument is NULL; name is the argument's name in the
 * public header. */
#define TARN__NEED(err, name, given)                                                     \
    do {                                                                                 \
        if (!(given)) return tarn__fail(err, TARN_ERR_USAGE, name " is NULL");           \
    } while (0)

/* A name from a file or a caller, of len bytes, as it is shown in a message. */
#define TARN__SHOW(name, len) tarn_printable((char[200]){0}, 200, name, len)

/* Adds path and offset to a failure that was reported without them. */
void tarn__error_place(tarn_error *err, const char *path, uint64_t offset);

/* The same for a line of a text file, counted from 1. */
void tarn__error_line(tarn_error *err, tarn_status code, const char *path, uint64_t line);

#endif
