/* source.c: bytes by URL (tarn/source.h) as file objects. */
#include "tarnpy.h"

int tarnpy_add_source(PyObject *module)
{
    return 0;
}
