"""Array files made from the format's specification, byte by byte; the writers are compared with them."""
import json
import struct

PAGE = 4096


def aligned(n):
    return (n + PAGE - 1) // PAGE * PAGE


def spec_bytes(arrays, metadata, pages=1):
    """The file with these arrays ({name: C-ordered array}, in file order)."""
    while True:
        entries, at = {}, pages * PAGE
        for name, array in arrays.items():
            entries[name] = {"offset": at, "shape": list(array.shape), "dtype": array.dtype.str,
                             "order": "C"}
            at = aligned(at + array.nbytes)
        header = json.dumps({"version": 1, "metadata": metadata, "arrays": entries},
                            sort_keys=True).encode()
        needed = aligned(8 + len(header)) // PAGE
        if needed <= pages:
            break
        pages = needed
    out = bytearray(at)
    out[:8 + len(header)] = b"GNZ1" + struct.pack("<I", len(header)) + header
    for name, array in arrays.items():
        begin = entries[name]["offset"]
        out[begin:begin + array.nbytes] = array.tobytes()
    return bytes(out)
