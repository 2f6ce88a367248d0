"""What tarn.iac has for tiles, features, texts and images. JPEG XL is libjxl's; another module replaces
imagecodecs, and two tests read with Pillow if it is installed."""
import base64
import csv
import io
import pathlib
import pickle
import sys
import types

import numpy as np
import pytest

import tarn
import tarn.iac
from tarn.iac import Codec, TileRecord, validate
from tarn.iac.adapters import text


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def no_images(monkeypatch):
    monkeypatch.setitem(sys.modules, "imagecodecs", None)


@pytest.fixture
def images(monkeypatch):
    """A module in place of imagecodecs, whose images are their shape, type and bytes."""
    def encode(array, *_, **__):
        if array.ndim > 3:
            raise RuntimeError("too many dimensions")
        return repr((array.shape, array.dtype.name, array.tobytes())).encode()

    def decode(data, **_):
        try:
            shape, kind, values = eval(data)
        except (NameError, SyntaxError):
            raise RuntimeError("not an image") from None
        return np.frombuffer(values, kind).reshape(shape)

    names = ("jpeg", "jpeg2k", "htj2k", "jpegls")
    monkeypatch.setitem(sys.modules, "imagecodecs", types.SimpleNamespace(
        **{f"{name}_encode": encode for name in names}, **{f"{name}_decode": decode for name in names}))


def tiles(count=3, slides=1, **more):
    return [TileRecord(**{**dict(tile_id=f"t{i}", patient_id="p", slide_id=f"s{i % slides}",
                                 tile_path=pathlib.Path(f"t{i}.png"), x=8 * i, y=0, split="train"), **more})
            for i in range(count)]


def build(path="tiles.iac", records=None, payloads=None, **more):
    records = tiles() if records is None else records
    tarn.iac.build_tile_package_from_records(
        records, [b"x"] * len(records) if payloads is None else payloads, path,
        **{**dict(tile_width=8, tile_height=8), **more})


def test_wrong_tiles_are_refused_with_what_is_wrong():
    for records, message in [
            ([], "records are empty"), (tiles(2, tile_id="t"), "duplicate tile_id values: count=1 sample=t"),
            (tiles(256, 256), "too many slides: 256 > 255"), (tiles(x=-8), r"negative tile coordinate: t0 \(-8, 0\)"),
            (tiles(1, x=70000) + tiles(1, x=1, tile_id="u"), "exceed uint16: 70000 > 65535"),
            (tiles(1) + tiles(1, tile_id="u", patient_id="q"), "inconsistent patient_id for slide s0: p != q")]:
        with pytest.raises(ValueError, match=message):
            build(records=records)
    for more, message in [(dict(stride_x=5), r"not aligned to stride for t1: \(8, 0\) stride=\(5, 8\)"),
                          (dict(stride_y=0), r"stride must be positive, got \(8, 0\)"),
                          (dict(payloads=[b"x"]), "record/payload count mismatch: 3 != 1"),
                          (dict(style="0.2"), "style must be one of 0.0.2, 0.1, not '0.2'")]:
        with pytest.raises(ValueError, match=message):
            build(**more)
    assert not list(pathlib.Path().iterdir())


def test_tiles_are_read_by_row_and_by_name(no_images):
    arrays = [np.full((8, 8, 3), i, np.uint8) for i in range(3)]
    build(payloads=[tarn.iac.encode_jxl_array(array, True, 0, 1) for array in arrays])
    with pickle.loads(pickle.dumps(tarn.iac.TilePackageReader("tiles.iac"))) as reader:
        assert reader.record_count == 3 and reader.tile_id_at(2) == "t2"
        assert reader.record_table["tile_x"].to_pylist() == [0, 1, 2]
        for workers in (None, 2):
            assert [a[0, 0, 0] for a in reader.read_arrays_at([2, 0, 2], workers=workers)] == [2, 0, 2]
        for row in (3, -1):
            with pytest.raises(IndexError, match=f"tile row out of range: {row} of 3"):
                reader.read_array_at(row)
        with pytest.raises(ValueError, match="workers must be positive, got 0"):
            reader.read_arrays_at([0], workers=0)
        with pytest.raises(TypeError):
            reader.read_arrays_at([0], workers=True)
    build("wrong.iac", payloads=[tarn.iac.encode_jxl_array(arrays[0][:4], True, 0, 1)] * 3)
    with tarn.iac.TilePackageReader("wrong.iac") as reader:
        with pytest.raises(ValueError, match=r"invalid tile shape at row=1: expected=\(8, 8\) got=\(4, 8\)"):
            reader.read_array_at(1)
    with pytest.raises(ValueError, match=r"expected \(8, 8\) tile at row 0, got \(8, 4\)"):
        validate.validate_package("wrong.iac")
    assert validate.validate_package("tiles.iac", max_decode=2, max_crc=1) == {
        "type": "image_tiles", "records": 3, "codec": "jxl", "decoded": 2, "crc_checked": 1}


def test_tiles_are_made_from_image_files(no_images):
    image = pytest.importorskip("PIL.Image")
    for i in range(3):
        image.new("L", (8, 8), i * 9).save(f"t{i}.png")
    tarn.iac.write_tile_manifest("tiles.csv", [vars(tile) for tile in tiles()])
    assert tarn.iac.read_tile_manifest("tiles.csv") == tiles()
    for workers in (1, 2):
        tarn.iac.build_tile_package("tiles.csv", "tiles.iac", ".", workers=workers, overwrite=True)
        with tarn.iac.TilePackageReader("tiles.iac") as reader:
            assert reader.read_image("t2").getpixel((0, 0)) == (18, 18, 18)
            with pytest.raises(FileNotFoundError, match="missing packaged tile: t9"):
                reader.read_image("t9")
    assert [(r.tile_id, i.size) for r, i in tarn.iac.iter_package_tiles("tiles.iac")] == \
        [(f"t{i}", (8, 8)) for i in range(3)]
    image.new("L", (9, 8)).save("t1.png")
    with pytest.raises(ValueError, match=r"all packaged tiles must share one size, got \[\(8, 8\), \(9, 8\)\]"):
        tarn.iac.build_tile_package("tiles.csv", "other.iac", ".")


def test_a_manifest_with_a_wrong_line_is_refused_with_its_place():
    with open("m.csv", "w", newline="") as out:
        writer = csv.DictWriter(out, tarn.iac.manifests.TILE_COLUMNS)
        writer.writeheader()
        writer.writerow({**vars(tiles(1)[0]), "x": "1.5"})
    with pytest.raises(ValueError, match="m.csv: line 2: invalid literal"):
        tarn.iac.read_tile_manifest("m.csv")
    pathlib.Path("m.csv").write_text("tile_id,x\n")
    with pytest.raises(ValueError, match=r"missing columns: \['patient_id', 'slide_id', .*m.csv"):
        tarn.iac.read_tile_manifest("m.csv")


def test_without_the_package_for_images_the_error_names_it(no_images):
    for name in ("jpeg", "jpeg2000", "jpegls"):
        with pytest.raises(ImportError, match=r"the package imagecodecs \(pip install imagecodecs\)"):
            Codec.create(name).decode(b"x")


def test_features_are_read_by_row_and_by_name():
    matrix = np.arange(6, dtype="f2").reshape(3, 2)
    tarn.iac.build_teacher_feature_package_from_feature_map(
        tiles(), {f"t{i}": matrix[i] for i in range(3)}, "f.iac", "model", "float16")
    with pickle.loads(pickle.dumps(tarn.iac.FeatureCacheReader("f.iac"))) as reader:
        assert reader.read_features_at([2, 0]).tolist() == matrix[[2, 0]].tolist()
        assert reader.read_features_at([]).shape == (0, 2)
        assert reader.read_feature("t1").dtype == "float32" and reader.read_feature("t1").tolist() == [2, 3]
        for row in (3, -1):
            with pytest.raises(IndexError, match="feature row out of range"):
                reader.read_feature_at(row)
        with pytest.raises(FileNotFoundError, match="missing packaged teacher feature: t3"):
            reader.read_feature("t3")
    assert validate.validate_package("f.iac") == {"type": "teacher_features", "records": 3, "teacher": "model",
                                                  "dim": 2, "dtype": "float16", "rows_checked": 3}
    build()
    tarn.iac.build_teacher_feature_package_from_tile_package("tiles.iac", iter(matrix), "g.iac", "model")
    assert tarn.iac.read_feature_package_records("g.iac")[2].x == 16
    with pytest.raises(ValueError, match="not an image tile package"):
        tarn.iac.build_teacher_feature_package_from_tile_package("f.iac", matrix, "h.iac", "model")
    with pytest.raises(ValueError, match="not a teacher feature package: image_tiles"):
        tarn.iac.FeatureCacheReader("tiles.iac").read_feature("t0")


def test_wrong_features_are_refused_and_leave_no_file():
    for rows, more, message in [
            ([[1], [2]], {}, "feature count mismatch: features=2 records=3"),
            ([[1], [2], [3, 4]], {}, "inconsistent feature dim: got 2 expected 1"),
            ([[1], [2], [3]], {"feature_dim": 2}, "inconsistent feature dim: got 1 expected 2"),
            ([1, 2, 3], {}, r"teacher feature must be 1D, got \(\)"), ([], {}, "features are empty"),
            ([[1]] * 3, {"teacher_name": ""}, "teacher_name is required"),
            ([[1]] * 3, {"tile_width": 0}, r"tile size must be positive, got \(0, 1\)")]:
        with pytest.raises(ValueError, match=message):
            tarn.iac.build_teacher_feature_package(tiles(), rows, "f.iac", **{"teacher_name": "m", **more})
    with pytest.raises(FileNotFoundError, match="missing teacher feature: t0"):
        tarn.iac.build_teacher_feature_package_from_feature_map(tiles(), {}, "f.iac", "m")
    assert not list(pathlib.Path().iterdir())


def test_patients_are_read_from_folders():
    for name in ("XJ/b/2020/note_20200102_030405.txt", "XJ/a/2020/other.txt", "XJ/empty/x.md",
                 "XJ/b/2020/西京医院-病程记录_20200102_030405.txt"):
        path = pathlib.Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")
    patients = text.scan_institution_dir("XJ")
    assert [p.patient_id for p in patients] == ["a", "b"]
    [doc] = patients[1].docs
    assert (doc.doc_id, doc.doc_type, doc.doc_timestamp, doc.encounter, doc.source, patients[1].institution) == \
        ("b/2020/note_20200102_030405", "note", "20200102030405", "2020", "XJ/b/2020/note_20200102_030405.txt", "XJ")
    text.build_clinical_text_pack("t.iac", iter(patients))
    with pickle.loads(pickle.dumps(text.ClinicalTextReader("t.iac"))) as reader:
        assert reader.patient_ids == ["a", "b"] and reader.read_patient("b").docs[0].text == doc.source
        with pytest.raises(KeyError, match="patient not in package: c"):
            reader.read_patient("c")
    build()
    with pytest.raises(ValueError, match="not a clinical_text package: image_tiles"):
        text.ClinicalTextReader("tiles.iac").patient_ids


def test_damaged_texts_are_refused():
    good = text._encoded(text.PatientText("p", docs=[text.ClinicalDoc("d", "words")]), "0.1")
    for payload, message in [(good[:3], "too short for the length of its manifest: 3 bytes"),
                             (b"\xff\xff\0\0" + good[4:], "manifest overruns payload: 65539 >"),
                             (good[:-1], "'d' has 5 bytes at 0, outside the texts of 4 bytes"),
                             (good[:4] + b"x" + good[5:], "Expecting value")]:
        with pytest.raises(ValueError, match=message):
            text._decoded(payload)


def test_a_wrong_record_pack_is_not_valid():
    build("crc.iac")
    data = pathlib.Path("crc.iac").read_bytes()
    pathlib.Path("crc.iac").write_bytes(data[:-1] + b"y")
    with pytest.raises(ValueError, match="crc32 mismatch at row 2: expected=.* actual="):
        validate.validate_package("crc.iac")
    tarn.iac.build_pack("other.iac", {}, {"slide_id": ["s"]}, {"n": [1]}, [b"x"])
    with pytest.raises(ValueError, match="slide table missing columns: \\['slide_idx', 'patient_id'\\]"):
        validate.validate_package("other.iac")


def test_the_command_validates_a_folder(monkeypatch, capsys):
    tarn.iac.build_teacher_feature_package(tiles(), np.eye(3), "a/f.iac", "m")
    monkeypatch.setattr(sys, "argv", ["validate", "--input", "a"])
    validate.main()
    assert capsys.readouterr().out == \
        "package_valid type=teacher_features records=3 teacher=m dim=3 dtype=float32 rows_checked=3\n"
    build("a/b/t.iac")
    with pytest.raises(SystemExit, match="validation_failed count=1 sample=a/b/t.iac: "):
        validate.main()
    assert "validation_summary total=2 ok=1 failed=1" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["validate", "--input", "none"])
    with pytest.raises(FileNotFoundError, match="does not exist: none"):
        validate.main()


# --- Codecs ----------------------------------------------------------------------------------


def test_image_codecs_are_made_from_the_header(images):
    array = np.arange(12, dtype="u2").reshape(3, 4)
    for name, params in [("jpeg", {"lossless": True}), ("jpegls", {}),
                         ("jpeg2000", {"profile": "ht"}), ("jpeg2000", {"container": "jp2"})]:
        codec = Codec.create(name, **params)
        tarn.iac.VariableRecordPack.build(
            "i.iac", payload_type="image", slide_table={"slide_id": ["s"]}, index_table={"n": [1, 2]},
            objects=[array, array + 1], codec=codec, overwrite=True)
        assert tarn.iac.read_header("i.iac")["codec_params"] == codec.parameters()
        with tarn.iac.VariableRecordPack("i.iac") as pack:
            assert pack.read_many([1, 0], workers=1)[0].tolist() == (array + 1).tolist()
            with pytest.raises(ValueError, match="parallel batch decode is not supported"):
                pack.read_many([0, 1], workers=2)
            with pytest.raises(TypeError, match="byte-decoding codec"):
                pack.read_many_contiguous([0])
        with pytest.raises(tarn.FormatError, match="decode failed: not an image"):
            codec.decode(b"no image")
        with pytest.raises(ValueError, match="encode failed: too many"):
            codec.encode(np.zeros((1, 1, 1, 1), "u1"))
        with pytest.raises(ValueError, match="input must have dtype uint8, uint16.*, not int64"):
            codec.encode(np.zeros((2, 2), "i8"))


def test_jxl_codecs_are_made_from_the_header(no_images):
    for dtype in ("u1", "u2", "f2"):
        arrays = [np.full((3, 4), value, dtype) for value in (0, 1)]
        codec = Codec.create("jxl", lossless=True, effort=1, usecontainer=dtype == "u1")
        tarn.iac.VariableRecordPack.build(
            "i.iac", payload_type="image", slide_table={"slide_id": ["s"]}, index_table={"n": [1, 2]},
            objects=arrays, codec=codec, overwrite=True)
        with tarn.iac.VariableRecordPack("i.iac") as pack:
            assert [a.tolist() for a in pack.read_many([1, 0])] == [a.tolist() for a in arrays[::-1]]
            assert pack.read_many([0])[0].dtype == dtype
            assert pack._reader.read_payload(0).startswith(b"\0\0\0\x0cJXL" if dtype == "u1" else (b"\xff\n", b"\0"))


def test_wrong_jxl_payloads_and_images_are_refused(no_images):
    codec = Codec.create("jxl")
    good = codec.encode(np.zeros((4, 4), "u1"))
    for data, kind, message in [(b"", tarn.FormatError, "0 bytes that do not begin like a JPEG XL image"),
                                (b"\x89PNG\r\n\x1a\n", tarn.FormatError, "8 bytes that do not begin like"),
                                (good[:-3], tarn.TruncatedError, "the image is not complete")]:
        for reader in (codec, tarn.iac.JxlCodec()):
            with pytest.raises(kind, match=message):
                reader.decode(data)
    for shape, message in [((1, 1, 1, 1), "must be an array"), ((2, 2, 5), "must be an array"), ((0, 2), "is empty")]:
        with pytest.raises(ValueError, match=message):
            codec.encode(np.zeros(shape, "u1"))
    with pytest.raises(ValueError, match="input must have dtype uint8, uint16.*, not int64"):
        codec.encode(np.zeros((2, 2), "i8"))
    for params, message in [({"effort": 0}, "effort 0 is not from 1 to 10"), ({"effort": 11}, "effort 11"),
                            ({"distance": 0}, "distance 0.0 is not above 0 and at most 25"), ({"distance": 26}, "26.0 is")]:
        with pytest.raises(ValueError, match=message):
            Codec.create("jxl", **params).encode(np.zeros((2, 2), "u1"))
    # The first version takes the nearest value that is allowed, and effort 5 for None.
    image = np.arange(192, dtype="u1").reshape(8, 8, 3)
    for wrong, right in [((False, 99, 99), (False, 25, 10)), ((False, -1, -1), (False, 0, 1)), ((False, None, None), (False, 1, 5))]:
        assert tarn.iac.JxlCodec(*wrong).encode(image) == tarn.iac.JxlCodec(*right).encode(image)


def test_jpeg_payloads_whose_tables_are_in_the_header_are_refused():
    """As docs/compat.md says: iatro-base-iac 0.1 puts the tables in front of each payload."""
    image = pytest.importorskip("PIL.Image")
    out = io.BytesIO()
    image.new("L", (8, 8), 7).save(out, "JPEG")
    data, tables, rest, at = out.getvalue(), b"", b"", 2
    while data[at + 1] != 0xda:  # segments before the scan: DQT and DHT are tables
        end = at + 2 + int.from_bytes(data[at + 2:at + 4], "big")
        if data[at + 1] in (0xdb, 0xc4):
            tables += data[at:end]
        else:
            rest += data[at:end]
        at = end
    params = {"quality": 75, "tables_base64": base64.b64encode(data[:2] + tables + b"\xff\xd9").decode()}
    payload = data[:2] + rest + data[at:]
    tarn.iac.build_pack("t.iac", {"payload_type": "image", "codec": "jpeg", "codec_params": params},
                        {"slide_id": ["s"]}, {"n": [1]}, [payload])
    with tarn.iac.VariableRecordPack("t.iac") as pack:
        with pytest.raises(ValueError, match="unknown JPEG parameter: tables_base64"):
            pack.read(0)
        assert pack.read_bytes(0) == payload
    ds = tarn.open("t.iac")
    for read in (lambda: ds[0], lambda: next(iter(ds.loader(1)))):
        with pytest.raises(tarn.FormatError, match="JPEG: .*table .*not defined"):
            read()
    assert tarn._tarn.decode("jpg", data[:2] + tables + payload[2:]).tolist() == [[7] * 8] * 8


def test_progressive_jpeg_is_written_with_pillow(monkeypatch):
    codec = Codec.create("jpeg", progressive=True, subsampling="444", quality=95)
    with pytest.raises(tarn.UnsupportedError, match="progressive JPEG is written for uint8 only, not uint16"):
        codec.encode(np.zeros((2, 2), "u2"))
    pytest.importorskip("PIL.Image")
    image = np.add.outer(np.arange(40), np.arange(30)).astype("u1")
    data = codec.encode(image)
    assert b"\xff\xc2" in data and abs(tarn._tarn.decode("jpg", data).astype(int) - image).max() <= 3
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError, match=r"progressive JPEG need the package Pillow \(pip install Pillow\)"):
        codec.encode(image)


def test_the_jxl_codec_of_the_first_version_gives_three_channels(no_images):
    codec = tarn.iac.get_codec("jxl", {"lossless": True, "tile_color_space": "RGB"})
    assert isinstance(codec, tarn.iac.JxlCodec) and codec.lossless and codec.distance == 1.0
    for shape in ((2, 3), (2, 3, 3), (2, 3, 4)):
        assert codec.decode(codec.encode(np.zeros(shape, "u1"))).shape == (2, 3, 3)


def test_wrong_parameters_of_image_codecs_are_refused():
    for name, params, message in [
            ("jpeg", {"quality": 101}, "JPEG quality must be a whole number from 1 to 100, not 101"),
            ("jpeg", {"lossless": 1}, "JPEG lossless must be a bool, not 1"),
            ("jpeg", {"subsampling": 420}, "must be one of 444, 422, 420, not 420"),
            ("jpeg", {"typo": True}, "unknown JPEG parameter: typo .known: quality, "),
            ("jpeg2000", {"container": "j2k", "codestream": "jp2"}, "'j2k', but codestream 'jp2'"),
            ("jpegls", {"bits_per_sample": 99}, "from 2 to 16, not 99"),
            ("jxl", {"distance": "1"}, "JPEG XL distance must be a number"),
            ("jxl", {"lossless": 1}, "JPEG XL lossless must be a bool")]:
        with pytest.raises(ValueError, match=message):
            Codec.create(name, **params)


def test_many_payloads_are_decoded_in_threads_and_in_order():
    for name in ("none", "brotli", "zstd", "gzip"):
        codec = Codec.create(name)
        payloads = codec.encode_many([b"%d" % i for i in range(50)])
        for workers in (None, 1, 3):
            assert codec.decode_many(payloads, workers=workers) == [b"%d" % i for i in range(50)]
        for workers, kind in ((0, ValueError), (True, TypeError), ("2", TypeError)):
            with pytest.raises(kind, match="workers must be a positive integer or None"):
                codec.decode_many(payloads, workers=workers)


def test_the_switch_for_threads_sets_what_read_many_does(monkeypatch):
    used = []
    monkeypatch.setattr("tarn.iac.packs.in_threads", lambda work, rows, n: used.append(n) or list(map(work, rows)))
    tarn.iac.VariableRecordPack.build("v.iac", payload_type="t", slide_table={"slide_id": ["s"]},
                                      index_table={"n": [1, 2]}, objects=[b"a", b"b"])
    with tarn.iac.VariableRecordPack("v.iac") as pack:
        try:
            for call in (lambda: tarn.iac.set_parallel_decoding(True, workers=3),
                         lambda: tarn.iac.set_parallel_decoding(False)):
                call()
                assert pack.read_many([1, 0]) == [b"b", b"a"] and pack.read_many([0], workers=2) == [b"a"]
            assert used == [3, 2, 1, 2] and not tarn.iac.is_parallel_decoding_enabled()
            assert tarn.iac.get_parallel_workers() == 4
            with pytest.raises(ValueError):
                tarn.iac.set_parallel_decoding(True, 0)
        finally:
            tarn.iac.set_parallel_decoding(False)


def test_names_of_the_original_lead_to_the_same_things():
    from tarn.iac import _core, packs
    from tarn.iac.adapters import manifests, text_pair
    assert _core.PackReader is tarn.iac.PackReader and _core.MAGIC == tarn.iac.MAGIC == b"IATROC\0\2"
    assert packs.ContiguousRecordBatch is tarn.iac.ContiguousRecordBatch and packs.get_codec is tarn.iac.get_codec
    assert manifests.TileRecord is TileRecord and text_pair.PAYLOAD_TYPE == "clinical_text_pair"
    assert tarn.iac.__version__ == "0.1.4" and Codec.JXL == "jxl" and isinstance(Codec.create("zstd"), Codec)
    for wrong, kind in (({"header_enabled": 1}, TypeError), ({"header_max_entries": True}, TypeError),
                        ({"header_max_bytes": 0}, ValueError)):
        with pytest.raises(kind, match=next(iter(wrong))):
            tarn.iac.configure_cache(**wrong)
    tarn.iac.clear_caches()


def test_foreign_magic_and_versions_are_named():
    build()
    data = bytearray(pathlib.Path("tiles.iac").read_bytes())
    for place, value, message in ((0, 1, "bad magic"), (12, 99, "unsupported IatroCache version: 99 here"),
                                  (7, 9, "unsupported IatroCache version: 9")):
        wrong = data.copy()
        wrong[place] = value
        pathlib.Path("wrong.iac").write_bytes(wrong)
        with pytest.raises(ValueError, match=message):
            tarn.iac.read_header("wrong.iac")
