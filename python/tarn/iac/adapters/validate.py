"""`tarn.iac.validate` where iatro-iac-adapters 0.1 has it."""

from ..validate import decode_jxl, main, validate_package

__all__ = ["decode_jxl", "main", "validate_package"]

if __name__ == "__main__":
    main()
