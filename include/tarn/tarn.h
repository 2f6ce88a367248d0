/* tarn.h: the whole library. A dataset (dataset.h) is samples in any of the files below;
 * order.h says which comes when, loader.h makes batches of them, image.h their pixels,
 * and members.h takes them out as they are stored. folds.h lists the folds of a folder,
 * index.h builds and saves their indexes, verify.h checks their bytes; pack.h makes folds
 * of files, write.h of samples, tar.h and samples.h read archives as they come, source.h
 * gets bytes by URL, codec.h turns fields into values. gnz.h holds named arrays, iac.h
 * and textpair.h records with Arrow tables. Each noun has the same four moves: options,
 * open, get, close. */
#ifndef TARN_TARN_H
#define TARN_TARN_H

#include <tarn/array.h>
#include <tarn/arrow.h>
#include <tarn/base.h>
#include <tarn/codec.h>
#include <tarn/dataset.h>
#include <tarn/folds.h>
#include <tarn/gnz.h>
#include <tarn/iac.h>
#include <tarn/image.h>
#include <tarn/index.h>
#include <tarn/loader.h>
#include <tarn/members.h>
#include <tarn/order.h>
#include <tarn/pack.h>
#include <tarn/samples.h>
#include <tarn/source.h>
#include <tarn/tar.h>
#include <tarn/textpair.h>
#include <tarn/verify.h>
#include <tarn/write.h>

#endif
