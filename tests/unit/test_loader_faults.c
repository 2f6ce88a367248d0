/* What a loader makes of samples that cannot be had and of memory that is not there:
 * nothing that was not delivered is lost, whatever went wrong in between. */
#include "loading.h"

/* --- Memory ------------------------------------------------------------------------ */

static void *fail_at(void *context, size_t size)
{
    size_t *left = context;
    return (*left)-- == 0 ? NULL : aligned_alloc(64, size);
}

static void free_it(void *context, void *memory, size_t size)
{
    (void)context;
    (void)size;
    free(memory);
}

/* Takes an epoch and goes on after the first failure. That of memory for a batch that is
 * put together is over then; whether it was one. */
static bool goes_on(tarn_loader *l, const tarn_bytes *want)
{
    tarn_bytes got = TARN_BYTES_INIT;
    tarn_batch *b;
    tarn_status status;
    bool failed = false;
    while ((status = tarn_loader_next(l, &b, &err)) != TARN_END) {
        if (status == TARN_OK) {
            add_batch(&got, b);
            tarn_batch_release(b);
            continue;
        }
        assert_int_equal(status, TARN_ERR_MEMORY);
        if (failed) break;
        failed = true;
    }
    if (status == TARN_END)
        same(want, &got);
    else
        tarn_bytes_release(&got);
    return failed && status == TARN_END;
}

static void views_are_still_there_after_memory_was_not(void **state)
{
    (void)state;
    tarn_dataset *d = open_path(fold_path(7));
    tarn_loader_options o = loader_options();
    tarn_load_field fields[] = {{"txt", TARN_LOAD_VIEWS, NULL},
                                {"png", TARN_LOAD_AUTO, NULL},
                                {"bin", TARN_LOAD_BYTES, NULL}};
    size_t left, went_on = 0;
    o.fields = fields;
    o.n_fields = 3;
    o.on_error = TARN_ON_ERROR_SKIP;
    tarn_bytes want = epochs_of(d, &o, 1);
    o.alloc = fail_at;
    o.free = free_it;
    o.memory_context = &left;
    for (size_t at = 0;; at++) {
        tarn_loader *l;
        left = at;
        OK(tarn_loader_open(d, &o, &l, &err));
        went_on += goes_on(l, &want);
        tarn_loader_close(l);
        if (left <= at) break; /* it never came so far */
    }
    assert_true(went_on > 0);
    tarn_bytes_release(&want);
    tarn_dataset_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_are_still_there_after_memory_was_not),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
