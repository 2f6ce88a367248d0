"""Formats of record-pack payloads: `tiles`, `features`, `text` and `text_pair`."""

__all__: list[str] = []
