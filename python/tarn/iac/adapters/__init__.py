"""Formats of record-pack payloads: `text_pair`."""
