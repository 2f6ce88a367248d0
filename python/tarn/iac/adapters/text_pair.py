"""Record packs of clinical text pairs. One record is one patient with all documents, each a source
text and a compressed text, so that a patient is one random read.

    from tarn.iac.adapters.text_pair import (ClinicalTextPairDoc, ClinicalTextPairReader,
                                             PatientTextPairs, build_clinical_text_pair_pack)

The classes are those of iatro-base-iac 0.0.2. Record packs of 0.1 can be read as well, and are
written with `style="0.1"`.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field
from typing import Any

from ... import _tarn
from .._cache import Path
from .._read import Wrapped

PAYLOAD_TYPE = "clinical_text_pair"
PAIR_SCHEMA_VERSION = 1
DEFAULT_CATEGORY = "病案文书"
_STYLES = {"0.0.2": 1, "0.1": 0}


@dataclass(frozen=True)
class ClinicalTextPairDoc:
    """One document: a source text and a compressed text."""

    doc_id: str
    source_text: str
    compressed_text: str
    doc_type: str = ""
    encounter: str = ""
    doc_category: str = DEFAULT_CATEGORY
    source: str = ""
    doc_timestamp: str = ""
    episode_index: int = -1
    old_doc_id: str = ""
    old_doc_type: str = ""
    old_encounter: str = ""
    old_source: str = ""


@dataclass
class PatientTextPairs:
    """All documents of one patient."""

    patient_id: str
    institution: str = ""
    docs: list[ClinicalTextPairDoc] = field(default_factory=list)


def build_clinical_text_pair_pack(output_path: Path, patients: Iterable[PatientTextPairs], *,
                                  quality: int = 11, overwrite: bool = False,
                                  extra_header: Mapping[str, Any] | None = None,
                                  style: str = "0.0.2") -> None:
    """Writes a record pack with one record for each patient, compressed with Brotli.

    >>> from tarn.iac.adapters.text_pair import *
    >>> doc = ClinicalTextPairDoc("d1", "the source text", "the text")
    >>> build_clinical_text_pair_pack("pairs.iac", [PatientTextPairs("p1", docs=[doc])],
    ...                               overwrite=True)
    >>> with ClinicalTextPairReader("pairs.iac") as reader:
    ...     reader.read_patient("p1").docs[0].compressed_text
    'the text'
    """
    if style not in _STYLES:
        raise ValueError(f"style must be one of {', '.join(_STYLES)}, not {style!r}")
    if not 0 <= quality <= 11:
        raise ValueError(f"quality must be from 0 to 11, not {quality}")
    everyone = tuple((p.patient_id, p.institution, tuple(map(astuple, p.docs)))
                     for p in patients)
    if not everyone:
        raise ValueError("no patients to pack")
    output_path = pathlib.Path(output_path)
    if output_path.exists() and not overwrite:
        raise FileExistsError(f"pack already exists: {output_path}")
    output_path.parent.mkdir(parents=True, exist_ok=True)
    header = json.dumps(dict(extra_header), sort_keys=True) if extra_header else None
    _tarn.textpair_build(output_path, everyone, _STYLES[style], max(quality, 1), header,
                         overwrite)


class ClinicalTextPairReader(Wrapped):
    """Patients by their id; one read returns all documents of a patient."""

    def __init__(self, package_path: Path) -> None:
        super().__init__(package_path)
        self._checked = False

    def _check(self) -> None:
        if self._checked:
            return
        payload_type = self.header.get("payload_type")
        if payload_type != PAYLOAD_TYPE:
            raise ValueError(f"not a clinical_text_pair package: {payload_type}")
        self._checked = True

    @property
    def patient_ids(self) -> list[str]:
        """Returns every id once, in file order."""
        self._check()
        return list(dict.fromkeys(self._reader.index["patient_id"]))

    def read_patient_at(self, row: int) -> PatientTextPairs:
        """Returns the patient of a row; negative rows count from the end."""
        patient_id, institution, docs = _tarn.textpair_read(self._reader, row)
        return PatientTextPairs(patient_id, institution,
                                [ClinicalTextPairDoc(*doc) for doc in docs])

    def read_patient(self, patient_id: str) -> PatientTextPairs:
        """Returns the patient with an id (the last one, if several rows have it)."""
        self._check()
        try:
            if not isinstance(patient_id, str):
                raise KeyError(patient_id)
            row = self._reader._find("patient_id", patient_id, 0, True)
        except (KeyError, UnicodeEncodeError):
            raise KeyError(f"patient not in package: {patient_id}") from None
        return self.read_patient_at(row)
