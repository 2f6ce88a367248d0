# What nanoarrow 0.x does wrong where there is no memory: it crashes, or loses what it had.

# The buffers of an array are not checked.
/ArrowMalloc(sizeof(void\*) \* NANOARROW_MAX_FIXED_BUFFERS);/a\
  if (private_data->buffer_data == NULL) {\
    ArrowFree(private_data);\
    array->release = NULL;\
    return ENOMEM;\
  }

# A view that was made half is not given back.
s/NANOARROW_RETURN_NOT_OK(\(ArrowArrayViewInitFromSchema(&array_view, schema, error)\));/{ int code = \1; if (code != NANOARROW_OK) { ArrowArrayViewReset(\&array_view); return code; } }/
s/NANOARROW_RETURN_NOT_OK(\(ArrowArrayInitFromArrayView(array, &array_view, error)\));/{ int code = \1; if (code != NANOARROW_OK) { ArrowArrayViewReset(\&array_view); return code; } }/

# A stream is released before it was made, and the schema it took is lost.
s/^      ArrowBasicArrayStreamRelease(array_stream);/      ArrowSchemaMove(\&private_data->schema, schema);/

# Children are counted only when all of them are there, so the others are never released.
/^  memset(array->children, 0, n_children \* sizeof/a\
  array->n_children = n_children;

# A buffer that cannot grow is forgotten by its owner (ArrowBufferReserve).
s/^  return (uint8_t\*)ArrowRealloc(ptr, new_size);/  uint8_t* grown = (uint8_t*)ArrowRealloc(ptr, new_size);\
  if (grown == NULL \&\& new_size > 0) ArrowFree(ptr);\
  return grown;/
