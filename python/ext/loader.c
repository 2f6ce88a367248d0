/* loader.c: the native loader (tarn/loader.h). */
#include "tarnpy.h"

int tarnpy_add_loader(PyObject *module)
{
    return 0;
}
