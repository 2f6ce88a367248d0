/* gnz.c: array files (tarn/gnz.h) for tarn.gnz. */
#include "tarnpy.h"

int tarnpy_add_gnz(PyObject *module)
{
    return 0;
}
