"""`tarn.iac.manifests` where iatro-iac-adapters 0.1 has it."""

from ..manifests import (REQUIRED_TILE_COLUMNS, TILE_COLUMNS, TileRecord, read_tile_manifest,
                         write_tile_manifest)

__all__ = ["REQUIRED_TILE_COLUMNS", "TILE_COLUMNS", "TileRecord", "read_tile_manifest",
           "write_tile_manifest"]
