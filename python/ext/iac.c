/* iac.c: record packs (tarn/iac.h) for tarn.iac. */
#include "tarnpy.h"

int tarnpy_add_iac(PyObject *module)
{
    return 0;
}
