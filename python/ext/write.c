/* write.c: the writers of tar archives, shards and datasets (tarn/write.h). */
#include "tarnpy.h"

int tarnpy_add_write(PyObject *module)
{
    return 0;
}
