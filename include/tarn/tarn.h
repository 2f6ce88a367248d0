/* tarn.h: the whole library. A fold is opened (fold.h), its index built and saved
 * (index.h), its bytes checked (verify.h); single archives are read with tar.h; named
 * arrays are in gnz.h. Each noun has the same four moves: options, open, get, close. */
#ifndef TARN_TARN_H
#define TARN_TARN_H

#include <tarn/array.h>
#include <tarn/base.h>
#include <tarn/codec.h>
#include <tarn/fold.h>
#include <tarn/gnz.h>
#include <tarn/index.h>
#include <tarn/tar.h>
#include <tarn/verify.h>

#endif
