/* order.c: which sample comes when (tarn/order.h). */
#include "tarnpy.h"

int tarnpy_add_order(PyObject *module)
{
    return 0;
}
