/* Filling in the public error struct. Knows nothing about files or formats: callers say
 * which path and offset a failure belongs to. */
#ifndef TARN_BASE_ERROR_H
#define TARN_BASE_ERROR_H

#include <tarn/base.h>

#define TARN__PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* Each fills err (if any) and is the failure's status, so that a failure is one return
 * statement. They are macros so that the compiler sees that the status is not TARN_OK. */
#define tarn__fail(err, code, ...)                                                       \
    (tarn__error_set(err, code, NULL, TARN_NO_OFFSET, __VA_ARGS__), (tarn_status)(code))
#define tarn__fail_at(err, code, path, offset, ...)                                      \
    (tarn__error_set(err, code, path, offset, __VA_ARGS__), (tarn_status)(code))

/* For a system call that failed with errno number e: the text gets ": strerror". */
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

/* Refuses a call whose argument is NULL where something is required; name is the one that
 * the public header gives it. */
#define TARN__NEED(err, name, given)                                                     \
    do {                                                                                 \
        if (!(given)) return tarn__fail(err, TARN_ERR_USAGE, name " is NULL");           \
    } while (0)

/* Says where a failure that was reported without a place happened. */
void tarn__error_place(tarn_error *err, const char *path, uint64_t offset);

/* The same for a line of a text file, counted from 1. */
void tarn__error_line(tarn_error *err, tarn_status code, const char *path, uint64_t line);

#endif
