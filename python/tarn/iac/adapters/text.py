"""Record packs of clinical texts. One record is one patient with all documents, compressed with
Brotli, so that a patient is one random read.

    from tarn.iac.adapters.text import (ClinicalDoc, ClinicalTextReader, PatientText,
                                        build_clinical_text_pack, scan_institution_dir)

The classes are those of iatro-base-iac 0.0.2. Record packs of 0.1 can be read as well, and are
written with `style="0.1"`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from ... import _tarn
from ...errors import FormatError
from .._cache import Path as PackagePath
from .._read import Wrapped
from ..codecs import BrotliCodec
from ..packs import VariableRecordPack
from .text_pair import DEFAULT_CATEGORY

PAYLOAD_TYPE = "clinical_text"
TEXT_SCHEMA_VERSION = 1
EPISODE_GAP_DAYS = 3
DEFAULT_SKIP_DOC_TYPES = frozenset({"西京医院-病程记录"})
_FILE_NAME = re.compile(r"(.+?)(?:_(\d{8})_(\d{6}))?", re.DOTALL)
_STYLES = ("0.0.2", "0.1")


@dataclass(frozen=True)
class ClinicalDoc:
    """One document of a patient."""

    doc_id: str
    text: str
    doc_type: str = ""
    encounter: str = ""
    doc_category: str = DEFAULT_CATEGORY
    source: str = ""
    doc_timestamp: str = ""
    episode_index: int = -1


@dataclass
class PatientText:
    """All documents of one patient."""

    patient_id: str
    institution: str = ""
    docs: list[ClinicalDoc] = field(default_factory=list)


def _time_of(doc: ClinicalDoc) -> datetime | None:
    if not doc.doc_timestamp:
        return None
    try:
        return datetime.strptime(doc.doc_timestamp.ljust(14, "0")[:14], "%Y%m%d%H%M%S")
    except ValueError:
        return None


def assign_episodes(docs: Iterable[ClinicalDoc],
                    gap_days: int = EPISODE_GAP_DAYS) -> list[ClinicalDoc]:
    """Sorts documents by `doc_timestamp` and numbers the episodes: one begins `gap_days` after the
    document before it. Documents without a time come last, each with an episode of its own.

    >>> from tarn.iac.adapters.text import ClinicalDoc, assign_episodes
    >>> times = ("20200105", "20200101", "20200102")
    >>> [doc.episode_index for doc in assign_episodes(ClinicalDoc(t, "", doc_timestamp=t)
    ...                                               for t in times)]
    [0, 0, 1]
    """
    timed = [(_time_of(doc), doc) for doc in docs]
    timed.sort(key=lambda pair: (pair[0] is None, pair[0] or datetime.min, pair[1].doc_id))
    episode, before, out = -1, None, []
    for time, doc in timed:
        if before is None or time is None or (time - before).days >= gap_days:
            episode += 1
        out.append(replace(doc, episode_index=episode))
        before = time
    return out


# --- Folders ---------------------------------------------------------------------------------


def scan_patient_dir(patient_dir: PackagePath, *, institution: str = "",
                     doc_category: str = DEFAULT_CATEGORY,
                     relative_to: PackagePath | None = None,
                     skip_doc_types: Collection[str] = DEFAULT_SKIP_DOC_TYPES) -> PatientText:
    """Reads the text files `ENCOUNTER/TYPE_YYYYMMDD_HHMMSS.txt` below a folder; without a time in
    the name, the whole name is the type. `source` is the path from `relative_to`, by default the
    folder above."""
    folder = Path(patient_dir)
    base = folder.parent if relative_to is None else Path(relative_to)
    docs = []
    for path in sorted(folder.rglob("*.txt")):
        match = _FILE_NAME.fullmatch(path.stem)
        kind, day, time = match.groups() if match else (path.stem, None, None)
        if kind in skip_doc_types:
            continue
        source = path.relative_to(base) if path.is_relative_to(base) else path
        docs.append(ClinicalDoc(f"{folder.name}/{path.parent.name}/{path.stem}",
                                path.read_text(encoding="utf-8", errors="replace"), kind,
                                path.parent.name, doc_category, str(source),
                                f"{day}{time}" if day else ""))
    return PatientText(folder.name, institution, docs)


def scan_institution_dir(institution_dir: PackagePath, *,
                         doc_category: str = DEFAULT_CATEGORY) -> list[PatientText]:
    """Reads each folder in a folder as one patient; those without documents are left out."""
    folder = Path(institution_dir)
    patients = [scan_patient_dir(path, institution=folder.name, doc_category=doc_category,
                                 relative_to=folder.parent)
                for path in sorted(folder.iterdir()) if path.is_dir()]
    return [patient for patient in patients if patient.docs]


# --- Records ---------------------------------------------------------------------------------


def _encoded(patient: PatientText, style: str) -> bytes:
    """The length of the manifest, the manifest as JSON, and the texts."""
    docs = assign_episodes(patient.docs) if style == "0.0.2" else patient.docs
    texts = [doc.text.encode() for doc in docs]
    entries, at = [], 0
    for doc, text in zip(docs, texts):
        entry: dict[str, Any] = {name: value for name, value in vars(doc).items()
                                 if name != "text"}
        entries.append({**entry, "offset": at, "length": len(text)})
        at += len(text)
    manifest = json.dumps({"text_schema_version": TEXT_SCHEMA_VERSION,
                           "patient_id": patient.patient_id, "institution": patient.institution,
                           "docs": entries}, ensure_ascii=False, sort_keys=True).encode()
    return b"".join([len(manifest).to_bytes(4, "little"), manifest, *texts])


def _doc(entry: Mapping[str, Any], texts: memoryview) -> ClinicalDoc:
    begin, size = int(entry["offset"]), int(entry["length"])
    if begin < 0 or size < 0 or begin + size > len(texts):
        raise FormatError(f"clinical_text document {entry['doc_id']!r} has {size} bytes at "
                          f"{begin}, outside the texts of {len(texts)} bytes")
    return ClinicalDoc(entry["doc_id"], str(texts[begin:begin + size], "utf-8"),
                       entry.get("doc_type", ""), entry.get("encounter", ""),
                       entry.get("doc_category", DEFAULT_CATEGORY), entry.get("source", ""),
                       entry.get("doc_timestamp", ""), int(entry.get("episode_index", -1)))


def _decoded(payload: bytes) -> PatientText:
    if len(payload) < 4:
        raise FormatError("clinical_text payload too short for the length of its manifest: "
                          f"{len(payload)} bytes, expected at least 4")
    end = 4 + int.from_bytes(payload[:4], "little")
    if end > len(payload):
        raise FormatError(f"clinical_text manifest overruns payload: {end} > {len(payload)}")
    manifest = json.loads(payload[4:end].decode())
    texts = memoryview(payload)[end:]
    return PatientText(manifest.get("patient_id", ""), manifest.get("institution", ""),
                       [_doc(entry, texts) for entry in manifest.get("docs", ())])


def build_clinical_text_pack(output_path: PackagePath, patients: Iterable[PatientText], *,
                             quality: int = 11, overwrite: bool = False, streaming: bool = True,
                             style: str = "0.0.2") -> None:
    """Writes a record pack with one record for each patient. With `streaming`, one encoded patient
    is in memory at a time. `style="0.0.2"` numbers episodes with `assign_episodes`; `"0.1"` writes
    the documents as they are.

    >>> from tarn.iac.adapters.text import *
    >>> build_clinical_text_pack("texts.iac", [PatientText("p1", docs=[ClinicalDoc("d", "text")])],
    ...                          overwrite=True)
    >>> with ClinicalTextReader("texts.iac") as reader:
    ...     reader.read_patient("p1").docs[0].text
    'text'
    """
    if style not in _STYLES:
        raise ValueError(f"style must be one of {', '.join(_STYLES)}, not {style!r}")
    patients = list(patients)
    if not patients:
        raise ValueError("no patients to pack")
    slides = _tarn.iac_rows(["u8:slide_idx", "text:slide_id", "text:patient_id"],
                            ((0, PAYLOAD_TYPE, ""),))
    index = _tarn.iac_rows(["text:patient_id", "text:institution", "u32:num_docs"],
                           tuple((p.patient_id, p.institution, len(p.docs)) for p in patients))
    VariableRecordPack.build(
        output_path, payload_type=PAYLOAD_TYPE, slide_table=slides, index_table=index,
        objects=_records(patients, style), codec=BrotliCodec(quality), overwrite=overwrite,
        extra_header={"text_schema_version": TEXT_SCHEMA_VERSION}, streaming=streaming)


def _records(patients: Iterable[PatientText], style: str) -> Iterator[bytes]:
    for patient in patients:
        yield _encoded(patient, style)


class ClinicalTextReader(Wrapped):
    """Patients by their id; one read returns all documents of a patient."""

    _open = VariableRecordPack

    def __init__(self, package_path: PackagePath) -> None:
        super().__init__(package_path)
        self._rows: dict[str, int] | None = None

    def _by_id(self) -> dict[str, int]:
        if self._rows is None:
            kind = self.header.get("payload_type")
            if kind != PAYLOAD_TYPE:
                raise ValueError(f"not a clinical_text package: {kind}")
            ids = self._reader._reader.index["patient_id"]
            self._rows = {patient: row for row, patient in enumerate(ids)}
        return self._rows

    @property
    def patient_ids(self) -> list[str]:
        """Returns every id once, in file order."""
        return list(self._by_id())

    def read_patient_at(self, row: int) -> PatientText:
        """Returns the patient of a row."""
        return _decoded(self._reader.read(row))

    def read_patient(self, patient_id: str) -> PatientText:
        """Returns the patient with an id (the last one, if several rows have it)."""
        row = self._by_id().get(patient_id)
        if row is None:
            raise KeyError(f"patient not in package: {patient_id}")
        return self.read_patient_at(row)

    def close(self) -> None:
        """Closes the file; the next use opens it again."""
        super().close()
        self._rows = None
