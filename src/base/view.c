/* Releases a view; a view that owns a copy of the bytes frees it. */
#include <stdlib.h>

#include <tarn/base.h>

void tarn_view_release(tarn_view *view)
{
    if (!view) return;
    free(view->owned);
    *view = (tarn_view)TARN_VIEW_INIT;
}
