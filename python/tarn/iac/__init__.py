"""Record packs (.iac, IatroCache): payloads in one file, with an Arrow table that describes them.

    import pyarrow as pa, tarn.iac

    tarn.iac.build_pack("tiles.iac", {"payload_type": "tile", "codec": "none"},
                        slide_table=pa.table({"slide_idx": pa.array([0], pa.uint8()),
                                              "slide_id": ["s0"], "patient_id": ["p0"]}),
                        index_table=pa.table({"tile_id": ["a", "b"]}),
                        payloads=[b"first", b"second"])

    with tarn.iac.open("tiles.iac") as pack:
        pack.read_payload(1)            # b"second"
        pack.find("tile_id", "b")       # 1
        pack.view(0)                    # a memoryview into the file
        pack.batch([1, 0, 1]).buffer    # several records, one C call, one buffer
        polars.DataFrame(pack.index)    # tables go to any Arrow library without a copy

`VariableRecordPack` reads records and undoes the header's codec; `FixedRecordPack` reads rows of a
matrix.

Functions and classes have the names, arguments and results of iatro-base-iac 0.0.2, with the
additions of 0.1; docs/compat.md lists the differences. Where iatro-base-iac returns a
`pyarrow.Table`, so does this package if pyarrow is installed. Otherwise it returns a `Table`,
which supports the same Arrow protocol.
"""

from __future__ import annotations

from ._read import (Batch, PackReader, RecordBatch, Report, Table, is_pack, iter_payloads, open,
                    read_payload, read_tables, verify)
from ._write import (PackWriter, build_pack, build_pack_data_segment,
                     build_pack_data_segment_from_file, build_pack_streaming, create, rewrite,
                     upgrade)
from ._core import (FORMAT_VERSION, HEADER_BYTES, MAGIC, clear_caches, configure_cache,
                    read_header)
from .codecs import BrotliCodec, Codec, GzipCodec, JxlCodec, RawCodec, ZstdCodec, get_codec
from .packs import (ContiguousRecordBatch, FixedRecordPack, VariableRecordPack,
                    get_parallel_workers, is_parallel_decoding_enabled, set_parallel_decoding)
from .manifests import TileRecord, read_tile_manifest, write_tile_manifest
from .adapters.tiles import (TilePackageReader, build_tile_package,
                             build_tile_package_from_records, decode_jxl, decode_jxl_array,
                             encode_jxl, encode_jxl_array, iter_package_tiles,
                             read_package_manifest, read_package_metadata)
from .adapters.features import (FeatureCacheReader, build_teacher_feature_package,
                                build_teacher_feature_package_from_feature_map,
                                build_teacher_feature_package_from_tile_package,
                                read_feature_package_records)
from .adapters.text_pair import (ClinicalTextPairDoc, ClinicalTextPairReader, PatientTextPairs,
                                 build_clinical_text_pair_pack)

__version__ = "0.1.4"  # of iatro-base-iac, whose interface this is

__all__ = [
    "Batch", "BrotliCodec", "ClinicalTextPairDoc", "ClinicalTextPairReader", "Codec",
    "ContiguousRecordBatch", "FORMAT_VERSION", "FeatureCacheReader", "FixedRecordPack",
    "GzipCodec", "HEADER_BYTES", "JxlCodec", "MAGIC", "PackReader", "PackWriter",
    "PatientTextPairs", "RawCodec", "RecordBatch", "Report", "Table", "TilePackageReader",
    "TileRecord", "VariableRecordPack", "ZstdCodec", "__version__",
    "build_clinical_text_pair_pack", "build_pack", "build_pack_data_segment",
    "build_pack_data_segment_from_file", "build_pack_streaming", "build_teacher_feature_package",
    "build_teacher_feature_package_from_feature_map",
    "build_teacher_feature_package_from_tile_package", "build_tile_package",
    "build_tile_package_from_records", "clear_caches", "configure_cache", "create", "decode_jxl",
    "decode_jxl_array", "encode_jxl", "encode_jxl_array", "get_codec", "get_parallel_workers",
    "is_pack", "is_parallel_decoding_enabled", "iter_package_tiles", "iter_payloads", "open",
    "read_feature_package_records", "read_header", "read_package_manifest",
    "read_package_metadata", "read_payload", "read_tables", "read_tile_manifest", "rewrite",
    "set_parallel_decoding", "upgrade", "verify", "write_tile_manifest",
]
