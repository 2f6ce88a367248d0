/* image.c: thumbnails of images (tarn/image.h) for notebooks. */
#include "tarnpy.h"

#include <stdlib.h>

/* The largest size with the same aspect ratio that fits into a square. */
static void fit(const tarn_image_info *info, unsigned side, uint32_t *width,
                uint32_t *height)
{
    uint32_t longer = info->width > info->height ? info->width : info->height;
    *width = (uint32_t)((uint64_t)info->width * side / longer);
    *height = (uint32_t)((uint64_t)info->height * side / longer);
    if (*width == 0) *width = 1;
    if (*height == 0) *height = 1;
}

static tarn_status shrink(tarn_image_decoder *decoder, const void *data, size_t size,
                          unsigned side, tarn_bytes *out, tarn_error *err)
{
    tarn_image_info info;
    tarn_image_steps steps = TARN_IMAGE_STEPS_INIT;
    tarn_image_draw draw = {0, 0, 0};
    tarn_array array;
    tarn_dtype byte = {'|', 'u', 1};
    TARN_TRY(tarn_image_probe(decoder, data, size, &info, sizeof info, err));
    fit(&info, side, &steps.width, &steps.height);
    size_t bytes = (size_t)steps.width * steps.height * 3;
    void *pixels = malloc(bytes);
    uint64_t shape[] = {steps.height, steps.width, 3};
    tarn_status status = pixels ? TARN_OK : TARN_ERR_MEMORY;
    if (status == TARN_OK)
        status = tarn_image_run(decoder, &steps, data, size, draw, pixels, bytes, err);
    if (status == TARN_OK) status = tarn_array_init(&array, pixels, byte, 3, shape, err);
    if (status == TARN_OK) {
        tarn_value value = {.kind = TARN_VALUE_ARRAY, .arrays = &array, .count = 1};
        tarn_encode_options o = TARN_ENCODE_OPTIONS_INIT;
        o.jpeg_quality = 80;
        status = tarn_encode("jpg", &value, &o, out, err);
    }
    free(pixels);
    return status;
}

static tarn_status thumbnail_of(const void *data, size_t size, unsigned side,
                                tarn_bytes *out, tarn_error *err)
{
    tarn_image_decoder *decoder;
    TARN_TRY(tarn_image_decoder_new(NULL, &decoder, err));
    tarn_status status = shrink(decoder, data, size, side, out, err);
    tarn_image_decoder_free(decoder);
    return status;
}

PyDoc_STRVAR(thumbnail_doc, "thumbnail(data, side)\n--\n\nScales an image to fit into a "
                            "square and returns it as JPEG bytes.");

static PyObject *thumbnail(PyObject *module, PyObject *args)
{
    Py_buffer data;
    unsigned side;
    tarn_bytes out = TARN_BYTES_INIT;
    tarn_error err = {.code = TARN_ERR_MEMORY, .offset = TARN_NO_OFFSET};
    tarn_status status;
    if (!PyArg_ParseTuple(args, "y*I:thumbnail", &data, &side)) return NULL;
    TARNPY_UNLOCKED(status, thumbnail_of(data.buf, (size_t)data.len, side, &out, &err));
    PyBuffer_Release(&data);
    PyObject *result =
        status == TARN_OK
            ? PyBytes_FromStringAndSize((const char *)out.data, (Py_ssize_t)out.size)
            : tarnpy_raise(tarnpy_module_state(module), &err);
    tarn_bytes_release(&out);
    return result;
}

PyDoc_STRVAR(image_known_doc, "image_known(data)\n--\n\nWhether the library decodes "
                              "images of this format.");

static PyObject *image_known(PyObject *module, PyObject *object)
{
    Py_buffer data;
    tarn_image_decoder *decoder = NULL;
    tarn_image_info info;
    tarn_error err;
    if (PyObject_GetBuffer(object, &data, PyBUF_SIMPLE) != 0) return NULL;
    tarn_status status = tarn_image_decoder_new(NULL, &decoder, &err);
    if (status == TARN_OK)
        status = tarn_image_probe(decoder, data.buf, (size_t)data.len, &info, sizeof info,
                                  &err);
    tarn_image_decoder_free(decoder);
    PyBuffer_Release(&data);
    if (status == TARN_ERR_MEMORY) return tarnpy_raise(tarnpy_module_state(module), &err);
    return PyBool_FromLong(info.format && status != TARN_ERR_UNSUPPORTED);
}

PyDoc_STRVAR(jxl_encode_doc,
             "jxl_encode(array, lossless, distance, effort, container)\n--\n\nReturns "
             "JPEG XL bytes.");

static PyObject *jxl_encode(PyObject *module, PyObject *args)
{
    PyObject *array, *result = NULL;
    int lossless, container;
    tarn_bytes out = TARN_BYTES_INIT;
    tarn_encode_options o = TARN_ENCODE_OPTIONS_INIT;
    if (!PyArg_ParseTuple(args, "Opdip:jxl_encode", &array, &lossless, &o.jxl_distance,
                          &o.jxl_effort, &container))
        return NULL;
    o.jxl_lossless = lossless;
    o.jxl_container = container;
    if (tarnpy_encode(tarnpy_module_state(module), "jxl", array, &o, &out) == 0)
        result = PyBytes_FromStringAndSize((const char *)out.data, (Py_ssize_t)out.size);
    tarn_bytes_release(&out);
    return result;
}

static PyMethodDef functions[] = {
    {"image_known", image_known, METH_O, image_known_doc},
    {"jxl_encode", jxl_encode, METH_VARARGS, jxl_encode_doc},
    {"thumbnail", thumbnail, METH_VARARGS, thumbnail_doc},
    {NULL, NULL, 0, NULL},
};

int tarnpy_add_image(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
