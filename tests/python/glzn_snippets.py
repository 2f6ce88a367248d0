"""Programs for glzn.data, as functions of a random generator and an empty folder.

glzn_behaviour.py runs them with glzn.data and, after it has replaced that name, with tarn.itar, and
describes what they return and print. Those with torch, images or mat in their names need torch,
Pillow or SciPy.
"""
import json
import pickle
import warnings

import numpy as np
from glzn_behaviour import attempt, public

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def word(rng, least=1, most=9):
    return "".join(rng.choices(LETTERS, k=rng.randint(least, most)))


def words(rng, count):
    """Returns different keys."""
    return [f"{word(rng)}{number}" for number in range(count)]


def samples_of(rng, count=None):
    count = rng.randint(9, 30) if count is None else count
    return {key: {"txt": word(rng), "cls": rng.randint(-3, 9), "json": {"n": rng.random()}}
            for key in words(rng, count)}


def write(folder, samples, name="d", fold="train", **options):
    from glzn.data.writer import iTarDatasetWriter

    with iTarDatasetWriter(name, folder, folds=[fold], **options) as out:
        for key, sample in samples.items():
            out.fold(fold).write(key, sample)
    return samples


def opened(rng, folder, extensions=("txt", "cls", "_stem"), count=None, **options):
    """Writes samples into several shards and opens them."""
    from glzn.data.dataset import iTarDataset

    write(folder, samples_of(rng, count), shard_maxfiles=rng.randint(3, 7))
    return iTarDataset("d", folder, "train", extensions, **options)


def bytes_of(folder):
    """Returns the payloads in the shards of a folder, and the bytes of its indexes."""
    import tarfile

    told = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".tar":
            with tarfile.open(path) as tar:
                told[path.name] = [(each.name, each.mode, each.uname, each.gname,
                                    tar.extractfile(each).read()) for each in tar]
        elif path.suffix == ".taridx":
            told[path.name] = path.read_bytes()
    return told


# --- Attributes ---------------------------------------------------------------------------------


def show_attributes_of_all_classes_torch_images(rng, folder):
    from glzn.data import dataset, encoders, maptrafo, sampler, writer
    from glzn.data.itar import entry, fold, utils

    folds = writer.iTarDatasetWriter("d", folder, folds=["train"])
    folds.fold("train").write("a", {"cls": 1, "txt": "x"})
    made = [folds, folds.fold("train")]
    folds.close()
    ds = dataset.iTarDataset("d", folder, "train")
    made += [ds, fold.iTarFold(folder / "d"), fold.iTarDirectory(folder / "d"),
             fold.iTarRetriever(ds.fold.full_paths), utils.StemHelper("a"),
             entry.iTarState.load(folder / "d/train.taridx"),
             maptrafo.Map(len), maptrafo.MapTuple([len]), maptrafo.MapAll(len),
             maptrafo.MapGrouped(len, [0]), maptrafo.DefaultIdentity(), sampler.IdentitySampler(3),
             sampler.FeistelSampler(3), sampler.MultiFeistelSampler([3]),
             encoders.EncoderDecoder("encode")]
    made += [getattr(encoders, name)("decode") for name in (
        "PIL", "CLS", "JSON", "TXT", "NPY", "RLE", "MAT", "PKL", "SEG8", "SEG16", "SEG24", "SEG32",
        "PseudoExtension")]
    return {type(each).__name__: public(each) for each in made}


# --- Samplers -----------------------------------------------------------------------------------


def show_identity_sampler(rng, folder):
    from glzn.data.sampler import IdentitySampler

    size = rng.randint(1, 50)
    sampler = IdentitySampler(size)
    return [len(sampler), list(sampler), sampler.randperm(), sampler[size - 1], sampler(0),
            sampler.refesh_keys(3), attempt(sampler.__getitem__, size),
            attempt(sampler.__getitem__, -1), attempt(IdentitySampler, 0),
            attempt(IdentitySampler, -2), public(sampler)]


def show_feistel_sampler(rng, folder):
    from glzn.data.sampler import FeistelSampler

    told = []
    for _ in range(8):
        size, rounds, seed = rng.randint(1, 300), rng.randint(1, 7), rng.randint(-9, 2**40)
        sampler = FeistelSampler(size, rounds, seed)
        at = rng.randrange(size)
        told += [list(sampler), sampler.randperm(), sampler[at], sampler(at), len(sampler),
                 sampler.N, sampler.rounds, sampler.half, sampler.mask, sampler.keys]
    return told


def show_feistel_sampler_with_another_seed(rng, folder):
    from glzn.data.sampler import FeistelSampler

    sampler = FeistelSampler(rng.randint(20, 90), init_seed=rng.randrange(99))
    before = list(sampler)
    result = sampler.refesh_keys(rng.randrange(99))
    return [before, result, list(sampler), sampler.keys, public(sampler)]


def show_feistel_sampler_without_samples(rng, folder):
    from glzn.data.sampler import FeistelSampler

    return [attempt(FeistelSampler, 0), attempt(FeistelSampler, -5), attempt(FeistelSampler),
            attempt(FeistelSampler(5).__getitem__, -1), list(FeistelSampler(1))]


def show_feistel_functions(rng, folder):
    from glzn.data.sampler import FeistelSampler, feistel, feistelvec

    size = rng.randint(2, 99)
    own = FeistelSampler(size, rng.randint(1, 6), rng.randrange(2**60))
    keys = np.array([rng.getrandbits(own.half) for _ in range(4)], dtype=np.uint64)
    where = np.array(rng.sample(range(size), size // 2), dtype=np.int64)
    return [[feistel(i, size, own.half, own.mask, keys) for i in range(size)],
            feistelvec(np.arange(size), size, own.half, own.mask, keys),
            feistelvec(where, size, own.half, own.mask, own.keys),
            feistelvec(np.arange(0), size, own.half, own.mask, keys)]


def show_multi_feistel_sampler(rng, folder):
    from glzn.data.sampler import MultiFeistelSampler

    told = []
    for _ in range(6):
        sizes = [rng.randint(1, 40) for _ in range(rng.randint(1, 8))]
        sampler = MultiFeistelSampler(sizes, rng.randint(1, 6), rng.randrange(2**50))
        at = rng.randrange(sum(sizes))
        told += [list(sampler), sampler.randperm(), sampler[at], sampler(at), len(sampler),
                 sampler.Ns, sampler.cums, sampler.num_Ns, sampler.rounds, sampler.half,
                 sampler.mask, sampler.keys, list(sampler.bucket_order)]
    return told


def show_multi_feistel_sampler_with_shuffled_buckets(rng, folder):
    from glzn.data.sampler import MultiFeistelSampler

    sizes = [rng.randint(2, 9)] * rng.randint(2, 9)
    sampler = MultiFeistelSampler(sizes, init_seed=rng.randrange(99), shuffle_outer=True)
    first = [list(sampler), sampler.randperm(), list(sampler.bucket_order)]
    sampler.refesh_keys(rng.randrange(99))
    unequal = MultiFeistelSampler([rng.randint(1, 9) for _ in range(5)], 3, 7, True)
    return [first, list(sampler), sampler.randperm(), unequal.randperm(), public(sampler),
            public(sampler.bucket_order)]


def show_multi_feistel_sampler_outside_its_range(rng, folder):
    from glzn.data.sampler import MultiFeistelSampler

    sampler = MultiFeistelSampler([rng.randint(1, 9), 3])
    return [attempt(sampler.__getitem__, -1), attempt(sampler.__getitem__, len(sampler)),
            attempt(sampler, len(sampler) + 5), attempt(MultiFeistelSampler, [3, 0]),
            attempt(MultiFeistelSampler, [3, -1]), public(sampler)]


def show_samplers_accept_numbers_of_numpy(rng, folder):
    from glzn.data.sampler import FeistelSampler, MultiFeistelSampler

    one, many = FeistelSampler(40), MultiFeistelSampler([9, 9])
    return [one[np.int64(7)], one[np.uint64(7)], many[np.int32(7)], many(np.int64(3)),
            type(one[3]).__name__, type(next(iter(many))).__name__]


def show_samplers_are_pickled(rng, folder):
    from glzn.data.sampler import FeistelSampler, IdentitySampler, MultiFeistelSampler

    made = [IdentitySampler(4), FeistelSampler(9, 2, 5), MultiFeistelSampler([4, 4], 2, 8, True)]
    return [list(pickle.loads(pickle.dumps(each))) for each in made]


# --- Transforms ---------------------------------------------------------------------------------


def show_map_objects(rng, folder):
    from glzn.data.maptrafo import DefaultIdentity, Map, MapAll, MapGrouped, MapTuple

    fields = [word(rng), rng.randint(0, 9), rng.random()]
    return [Map(lambda *all: list(all))(fields), Map(lambda a, b, c: {a: b})(tuple(fields)),
            MapTuple([len, abs, str])(fields), MapTuple((len, abs))(fields),
            MapAll(str)(tuple(fields)), MapGrouped(lambda a, b: (b, a), [0, 2])(fields),
            MapGrouped(len, [0])(tuple(fields)), DefaultIdentity()(3), DefaultIdentity()(3, 4),
            DefaultIdentity()()]


def show_map_attributes(rng, folder):
    from glzn.data.maptrafo import DefaultIdentity, Map, MapAll, MapGrouped, MapTuple

    grouped = MapGrouped(len, [2, 0])
    return [public(each) for each in (Map(len), MapTuple([len]), MapAll(len), grouped,
                                      DefaultIdentity())] + [
        grouped.indices, MapTuple([len, len]).maps == [len, len], Map(len).mapping is len]


def show_map_errors(rng, folder):
    from glzn.data.maptrafo import Map, MapAll, MapGrouped, MapTuple

    return [attempt(Map, 3), attempt(MapTuple, [len, None]), attempt(MapAll, "x"),
            attempt(MapGrouped, len, ["a"]), attempt(MapGrouped, None, [0]),
            attempt(MapGrouped(lambda a: (a, a), [0]), [1]),
            attempt(MapGrouped(lambda a, b: [a, b], [0, 1]), [1, 2]),
            attempt(MapGrouped(len, [3]), ["a"]), attempt(Map(len), [1, 2])]


def show_fnapply_of_a_subclass(rng, folder):
    from glzn.data.maptrafo import MapTuple

    class Twice(MapTuple):
        def fnapply(self, fn, x):
            return fn(fn(x))

    return [Twice([lambda x: x + 1, str.upper])((rng.randint(0, 9), word(rng)))]


# --- Formats ------------------------------------------------------------------------------------


def show_text_formats(rng, folder):
    from glzn.data.encoders import CLS, JSON, TXT

    tree = {word(rng): [rng.randint(-9, 9), None, rng.random(), {"é": "ü"}], "b": True}
    told = []
    for each, value in ((TXT, word(rng) + "äöü"), (CLS, rng.randint(-99, 99)), (JSON, tree)):
        data = each.encoder()(value)
        told += [data, each.decoder()(data), public(each.encoder()), public(each.decoder())]
    return told + [CLS.encoder()(True), CLS.encoder()("7"), CLS.decoder()(b" 12\n"),
                   attempt(CLS.decoder(), b"x"), attempt(TXT.encoder(), b"x"),
                   attempt(TXT.decoder(), b"\xff"), attempt(JSON.encoder(), {1, 2}),
                   attempt(JSON.decoder(), b"{"), JSON.decoder()(b"[NaN]")[0] != 0]


def show_npy(rng, folder):
    from glzn.data.encoders import NPY

    told = []
    for kind in ("u1", "i8", "<f4", ">i2", "f8", "bool", "c16", "<U5", "S3", "f2", "M8[s]"):
        shape = [rng.randint(0, 4) for _ in range(rng.randint(0, 3))]
        array = np.zeros(shape, kind)
        if array.size and array.dtype.kind in "iuf":
            array.flat = [rng.randint(0, 99) for _ in range(array.size)]
        data = NPY.encoder()(array)
        told += [data, NPY.decoder()(data)]
    fields = np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")])
    return told + [NPY.decoder()(NPY.encoder()(fields)), NPY.encoder()([1, 2, 3]),
                   NPY.encoder()(np.asfortranarray(np.arange(6).reshape(2, 3))),
                   attempt(NPY.decoder(), b"nothing"), attempt(NPY.decoder(), b""),
                   attempt(NPY.decoder(), NPY.encoder()(np.array([{}, 1], object))),
                   public(NPY.decoder())]


def show_rle(rng, folder):
    from glzn.data.encoders import RLE

    told = []
    for kind in ("u1", "i1", "u2", "<i4", "u4", "i8", "u8"):
        shape = [rng.randint(1, 9) for _ in range(rng.randint(1, 3))]
        array = np.array([rng.randint(0, 2) for _ in range(int(np.prod(shape)))], kind)
        data = RLE.encoder()(array.reshape(shape))
        told += [data, RLE.decoder()(data)]
    return told + [public(RLE.decoder())]


def show_seg8_images(rng, folder):
    from glzn.data.encoders import SEG8

    labels = np.array([[rng.randint(0, 255) for _ in range(7)] for _ in range(5)], np.uint8)
    return [SEG8.decoder()(SEG8.encoder()(labels)), public(SEG8.decoder()),
            attempt(SEG8.encoder(), labels.astype("i8")), attempt(SEG8.decoder(), b"x")]


def show_labels_in_other_images(rng, folder):
    from glzn.data.encoders import SEG8, SEG16

    return [attempt(each.decoder(), png(rng, mode)) for each in (SEG8, SEG16)
            for mode in ("L", "LA", "RGB", "RGBA")] + [
        attempt(each.decoder(), b"x") for each in (SEG8, SEG16)]


def show_seg_errors_images(rng, folder):
    from glzn.data.encoders import SEG16, SEG24, SEG32

    labels = np.zeros((2, 2), np.uint8)
    return [attempt(each.encoder(), labels) for each in (SEG16, SEG24, SEG32)] + [
        public(each.encoder()) for each in (SEG16, SEG24, SEG32)]


def picture(rng, mode="RGB", size=None):
    import PIL.Image

    size = size or (rng.randint(2, 9), rng.randint(2, 9))
    data = bytes(rng.randrange(256) for _ in range(size[0] * size[1] * len(mode)))
    return PIL.Image.frombytes(mode, size, data)


def png(rng, mode="RGB", size=None):
    import io

    out = io.BytesIO()
    picture(rng, mode, size).save(out, format="PNG")
    return out.getvalue()


def show_images(rng, folder):
    from glzn.data.encoders import PIL

    colour, grey, clear = (png(rng, mode) for mode in ("RGB", "L", "RGBA"))
    decode, keep = PIL.decoder(), PIL("decode", None)
    again = PIL.encoder()(keep(grey))
    return [decode(colour), decode(grey), decode(clear), keep(grey), keep(clear),
            PIL("decode", convert_to="L")(colour), keep(again), keep(again).format,
            decode(colour).format, attempt(PIL.encoder(), picture(rng)),
            attempt(decode, b"not an image"), decode.convert_to, keep.convert_to,
            decode.supports("a/b.png"), decode.supports("a.txt"), public(decode)]


def show_mat(rng, folder):
    from glzn.data.encoders import MAT

    data = MAT.encoder()({"x": np.arange(rng.randint(1, 5)), "y": rng.random()})
    told = MAT.decoder()(data)
    return [told["x"], told["y"], sorted(told), public(MAT.decoder())]


def show_pickles_are_written(rng, folder):
    from glzn.data.encoders import PKL

    tree = {word(rng): (1, {2}), "a": b"x"}
    return [pickle.loads(PKL.encoder()(tree)), public(PKL.encoder())]


def show_tables_of_formats_and_images(rng, folder):
    from glzn.data.encoders import DEFAULT_DECODERS, DEFAULT_ENCODERS

    own = ["cls", "json", "mat", "npy", "pkl", "rle", "seg16", "seg24", "seg32", "seg8", "txt"]
    return [type(DEFAULT_DECODERS).__name__, sorted(DEFAULT_DECODERS), sorted(DEFAULT_ENCODERS),
            [type(DEFAULT_DECODERS[name]).__name__ for name in [*own, "_idx", "_stem"]],
            [type(DEFAULT_ENCODERS[name]).__name__ for name in own],
            [DEFAULT_DECODERS[name]._default_to_identity for name in [*own, "_idx", "jpg"]],
            [DEFAULT_DECODERS[name]._default_tv for name in [*own, "_idx", "jpg"]],
            DEFAULT_DECODERS["jpg"] is DEFAULT_DECODERS["png"], "_idx" in DEFAULT_ENCODERS]


def show_pseudo_extensions(rng, folder):
    from glzn.data.encoders import PseudoExtension

    return [PseudoExtension._valid_pseudo_extensions, attempt(PseudoExtension.encoder),
            sorted(PseudoExtension.decoder().supported_extensions),
            public(PseudoExtension.decoder()), attempt(PseudoExtension.decoder(), b"x")]


def show_a_format_of_the_program(rng, folder):
    from glzn.data.encoders import EncoderDecoder

    class Reversed(EncoderDecoder):
        def __init__(self, mode, extra=3):
            super().__init__(mode, default_to_identity=True)
            self.supported_extensions = {".rev": "reversed"}
            self.extra = extra

        def _encode(self, obj):
            return obj[::-1].encode()

        def _decode(self, data):
            return data.decode()[::-1]

    text = word(rng)
    return [Reversed.decoder()(Reversed.encoder()(text)), Reversed("encode", 5).extra,
            Reversed.decoder().supports("x.rev"), Reversed.decoder().supports("rev"),
            public(Reversed.decoder()), attempt(Reversed, "frob"), attempt(Reversed)]


def show_an_abstract_format(rng, folder):
    from glzn.data.encoders import EncoderDecoder

    plain = EncoderDecoder("encode")
    return [attempt(plain, 1), attempt(EncoderDecoder("decode"), b""), public(plain),
            attempt(plain.supports, "a.b"), attempt(EncoderDecoder, "other"),
            (plain._mode, plain._bit8, plain._bit16, plain._bit24, plain._default_to_identity)]


def show_formats_added_to_the_tables(rng, folder):
    from glzn.data.dataset import iTarDataset
    from glzn.data.encoders import DEFAULT_DECODERS, DEFAULT_ENCODERS

    DEFAULT_ENCODERS["hex"], DEFAULT_DECODERS["hex"] = lambda x: hex(x).encode(), lambda x: int(x, 16)
    try:
        write(folder, {key: {"hex": rng.randrange(999), "a.hex": 1} for key in words(rng, 5)},
              override_encoders=[("a.hex", lambda x: b"0x1")], username="u")
        return [list(iTarDataset("d", folder, "train")), bytes_of(folder)]
    finally:
        del DEFAULT_ENCODERS["hex"], DEFAULT_DECODERS["hex"]


# --- Names --------------------------------------------------------------------------------------


def show_stems(rng, folder):
    from glzn.data.itar.utils import StemHelper

    told = []
    for name in ("a.jpg", "x/y.b/owl.Left.JPG", "none", ".hidden", "a..b", "dir/", "", "é.tXt"):
        each = StemHelper(name)
        told += [each.stem, each.suffix, each.suffix_no_dot, str(each), repr(each), each.rawstr]
    one = StemHelper("a.b")
    header = b"auk.jpg\0" + bytes(rng.randrange(256) for _ in range(99))
    return told + [one == StemHelper("a.b"), hash(one) == hash(StemHelper("a.b")),
                   StemHelper.from_hdr(header), str(StemHelper.from_hdr(header)),
                   str(StemHelper.from_hdr(b"x" * 120)), attempt(setattr, one, "rawstr", "c"),
                   str(StemHelper.from_hdr(b"\xff.a\0")), public(one),
                   str(pickle.loads(pickle.dumps(one)))]


def show_stripext(rng, folder):
    from glzn.data.itar.utils import stripext

    return [stripext(name) for name in (".jpg", "jpg", "..jpg", "", ".", "a.b", ".a.b")]


def show_braceexpand(rng, folder):
    from glzn.data.itar.utils import braceexpand

    first = rng.randint(0, 90)
    return [braceexpand(f"train_{{{first:03}..{first + 4}}}.tar", "/x"), braceexpand("{1..0}", "r"),
            attempt(braceexpand, "plain", "x"),
            attempt(braceexpand, "{a..b}", "x")]


# --- Writers ------------------------------------------------------------------------------------


def show_written_bytes(rng, folder):
    write(folder, samples_of(rng), username="me", shard_maxfiles=rng.randint(2, 9))
    return bytes_of(folder)


def show_the_index_of_a_writer(rng, folder):
    from glzn.data.writer import iTarFoldWriter

    out = iTarFoldWriter(folder, "train")
    for key, sample in samples_of(rng, 6).items():
        out.write(key, sample)
    out.close()
    return [out.state.arr, out.state[1:3], out.state.n_stems, out.state.is_contiguous]


def show_options_of_writers(rng, folder):
    write(folder, samples_of(rng, 12), username="u", groupname="g", mode=0o600, start=7,
          shard_pattern="%02d", delimiter="-", shard_maxsize=rng.randint(2000, 9000))
    write(folder, samples_of(rng, 4), name="e", username="u", shard_pattern="part%03d")
    return bytes_of(folder)


def show_override_encoders(rng, folder):
    upper = [(".TXT", lambda text: text.upper().encode()), ("raw", bytes)]
    write(folder, {key: {"txt": word(rng), ".RAW": [1, 2]} for key in words(rng, 4)},
          username="u", override_encoders=upper)
    from glzn.data.writer import iTarFoldWriter

    made = [attempt(iTarFoldWriter, folder, "x", override_encoders=wrong)
            for wrong in ([("txt", 3)], [("", len)])]
    return [bytes_of(folder), made]


def show_attributes_of_writers(rng, folder):
    from glzn.data.writer import iTarDatasetWriter, iTarFoldWriter

    with iTarDatasetWriter("d", folder, folds=["a", "b"], username="me") as out:
        fold = out.fold("a")
        told = [out.folds, fold is out.fold("a"), type(out.fold("c")) is iTarFoldWriter, out.folds,
                out.loc, out.root, out.dataset_name, out.override_encoders, fold.root, fold.fold,
                fold.total_count, fold.taridx_path, "txt" in fold.encoders, fold.username,
                fold.mode, fold.shard_maxsize, fold.shard_maxfiles, out.enforce_contiguous]
        for key in words(rng, 3):
            told.append(fold.write(key, {"cls": 1}))
        told.append(fold.total_count)
    return told + [sorted(path.name for path in out.root.iterdir() if path.suffix != ".tarsum")]


def show_samples_as_dicts(rng, folder):
    from glzn.data.writer import iTarFoldWriter

    with iTarFoldWriter(folder, "train", username="u") as out:
        out.write({"__key__": word(rng), "txt": word(rng), "cls": 3})
        out.write({"__key__": rng.randint(0, 99), "txt": "", "cls": rng.random()})
        out.write(key="given", sample={"cls": 5, ".txt": "dot"})
        told = [attempt(out.write, {"cls": 3}), attempt(out.write, {"__key__": "x"}, {"cls": 1}),
                attempt(out.write, {"__key__": "x"})]
    return [told, bytes_of(folder)]


def show_writes_that_fail(rng, folder):
    from glzn.data.writer import iTarFoldWriter

    out = iTarFoldWriter(folder, "train", username="u")
    told = [attempt(out.write, *given) for given in (
        ("a",), ("", {"cls": 1}), ("a/b", {"cls": 1}), ("a\\b", {"cls": 1}), ("a.b", {"cls": 1}),
        ("a", {}), ("k", {"frob": 1}), ("l", {"": 1}), ("m" * 120, {"cls": 1}))]
    out.close()
    return told + [attempt(out.write, "a", {"cls": 1}), out.close()]


def show_keys_of_other_types(rng, folder):
    from glzn.data.writer import iTarFoldWriter

    with iTarFoldWriter(folder, "train", username="u") as out:
        return [attempt(out.write, key, {"cls": 1}) for key in (5, None, 2.5)]


def show_writers_that_cannot_be_made(rng, folder):
    from glzn.data.writer import iTarDatasetWriter, iTarFoldWriter

    return [attempt(iTarFoldWriter, folder, *given[:1], **given[1]) for given in (
        ("a_b", {}), ("a/b", {}), ("a", {"delimiter": ""}), ("a", {"delimiter": "__"}),
        ("a-b", {"delimiter": "-"}))] + [
        attempt(iTarDatasetWriter, "d", folder / "none", folds=["a"]),
        attempt(iTarDatasetWriter, "d", folder), attempt(iTarDatasetWriter, "d", folder, ["a"]),
        attempt(iTarFoldWriter, folder, "a", "%04d")]


def show_closed_writers(rng, folder):
    from glzn.data.writer import iTarDatasetWriter

    out = iTarDatasetWriter("d", folder, folds=["a"], username="u")
    out.fold("a").write("x", {"cls": 1})
    return [out.close(), out.close(), attempt(out.fold, "b"), attempt(out.fold, "a"), out.folds,
            attempt(out.__enter__) is out, bytes_of(folder)]


def show_a_context_returns_the_writer(rng, folder):
    from glzn.data.writer import iTarFoldWriter

    out = iTarFoldWriter(folder, "train")
    with out as inner:
        inner.write("x", {"cls": 1})
    return [inner is out, out.__exit__(None, exc_value=None, traceback=None)]


def show_a_fold_without_samples(rng, folder):
    write(folder, {})
    return sorted(path.name for path in (folder / "d").iterdir())


def show_keys_in_several_parts(rng, folder):
    from glzn.data.dataset import iTarDataset
    from glzn.data.writer import iTarFoldWriter

    keys = words(rng, 6)
    with iTarFoldWriter(folder / "d", "train", username="u", enforce_contiguous=False) as out:
        for key in keys:
            out.write(key, {"txt": word(rng)})
        for key in rng.sample(keys, 6):
            out.write(key, {"cls": rng.randint(0, 9)})
    both = iTarDataset("d", folder, "train", ["cls", "txt", "_stem"], enforce_contiguous=True)
    return [attempt(iTarDataset, "d", folder, "train"), list(both), len(both), bytes_of(folder),
            both.fold.state.is_contiguous,
            [stem for _, stem in iTarDataset("d", folder, "train", ["txt", "_stem"])]]


def show_formats_are_written_and_read(rng, folder):
    from glzn.data.dataset import iTarDataset

    write(folder, {key: {"txt": word(rng), "npy": np.array([rng.random(), 2]), "cls": 3,
                         "rle": np.array([[0, rng.randint(1, 9)]], "i4"), "json": [word(rng)]}
                   for key in words(rng, 5)})
    return list(iTarDataset("d", folder, "train"))


def show_images_are_written_and_read(rng, folder):
    import io

    import PIL.Image
    from glzn.data.dataset import iTarDataset

    write(folder, {key: {"png": PIL.Image.open(io.BytesIO(png(rng))),
                         "seg8": np.full((2, 3), rng.randint(0, 99), np.uint8)}
                   for key in words(rng, 4)})
    return list(iTarDataset("d", folder, "train", ["seg8", "png", "_stem"]))


# --- Datasets -----------------------------------------------------------------------------------


def show_samples(rng, folder):
    ds = opened(rng, folder)
    return [len(ds), list(ds), ds[0], ds[-1], ds[-len(ds)], ds[np.int64(2)], ds[True],
            attempt(ds.__getitem__, len(ds)), attempt(ds.__getitem__, -len(ds) - 1)]


def show_subscripts_that_are_not_positions(rng, folder):
    ds = opened(rng, folder)
    return [attempt(ds.__getitem__, index) for index in (slice(0, 2), "a", None, [0, 1])]


def show_all_extensions(rng, folder):
    ds = opened(rng, folder, extensions=None)
    return [ds.extensions, list(ds)]


def show_pseudo_extensions_of_samples(rng, folder):
    ds = opened(rng, folder, ["_idx", ".cls", "_fid", "_name", "_stem"])
    return [ds.extensions, list(ds), list(ds.set_shuffle()),
            [type(field).__name__ for field in ds[0]]]


def show_an_extension_twice(rng, folder):
    return list(opened(rng, folder, ["cls", "txt", "cls", "_idx", "_idx"]))


def show_datasets_that_cannot_be_opened(rng, folder):
    from glzn.data.dataset import iTarDataset

    opened(rng, folder)
    return [attempt(iTarDataset, *given) for given in (
        ("none", folder, "train"), ("d", folder, "val"), ("d", folder, "train", ["frob"]),
        ("d", folder, "train", ["_idx"]), ("d", folder, "train", []), ("d", folder))] + [
        attempt(iTarDataset, "d", folder, "train", idxext="frob")]


def show_unknown_options_of_a_dataset(rng, folder):
    from glzn.data.dataset import iTarDataset

    write(folder, samples_of(rng, 5))
    kept = len(iTarDataset("d", str(folder), "train", verbose=False, anything=3))
    (folder / "d/train.taridx").unlink()
    return [kept, attempt(iTarDataset, "d", folder, "train"),
            attempt(iTarDataset, "d", folder, "train", parse_if_missing=True, anything=3),
            len(iTarDataset("d", folder, "train", parse_if_missing=True, verbose=False,
                            bufsize=4096))]


def show_a_missing_index(rng, folder):
    from glzn.data.dataset import iTarDataset

    samples = write(folder, samples_of(rng))
    path = folder / "d/train.taridx"
    before = path.read_bytes()
    path.unlink()
    told = [list(iTarDataset("d", folder, "train", parse_if_missing=True, serialize=False,
                             verbose=False)), path.exists()]
    iTarDataset("d", folder, "train", parse_if_missing=True, verbose=False)
    return [told, path.read_bytes() == before, len(samples)]


def show_another_name_of_the_index(rng, folder):
    from glzn.data.dataset import iTarDataset

    write(folder, samples_of(rng, 5))
    (folder / "d/train.taridx").rename(folder / "d/train.idx")
    return list(iTarDataset("d", folder, "train", idxext="idx", prefer_mmap=True))


def show_orders(rng, folder):
    told = []
    ds = opened(rng, folder, internal_seed=rng.randrange(2**30),
                buckets_per_shard=rng.randint(1, 4))
    for mixing in (False, True):
        for rounds in (1, 3, rng.randint(4, 9)):
            ds.set_shuffle(shard_mixing=mixing, rounds=rounds)
            for epoch in (0, 1, rng.randrange(2**30)):
                ds.set_epoch(epoch)
                told.append([stem for _, _, stem in ds])
    ds.set_shuffle(False)
    return [told, list(ds), ds.buckets_per_shard, ds.shard_bincount]


def show_ranks(rng, folder):
    told = []
    ds = opened(rng, folder)
    for world in (1, 2, 3, 40):
        for drop in (False, True):
            for rank in {0, 1 % world, world - 1}:
                for shuffled in (False, True):
                    ds.set_shuffle(shuffled, rounds=4).set_epoch(rng.randrange(9))
                    ds.set_distributed(rank, world, drop_last=drop)
                    told.append([len(ds), [stem for _, _, stem in ds], attempt(ds.__getitem__, -1),
                                 attempt(ds.__getitem__, len(ds))])
    return told


def show_settings_that_are_refused(rng, folder):
    ds = opened(rng, folder)
    return [attempt(ds.set_distributed, 2, 2), attempt(ds.set_distributed, -1, 2),
            attempt(ds.set_distributed, 0, 0), attempt(ds.set_epoch, -1),
            attempt(ds.set_shuffle, True, rounds=0), attempt(ds.set_shuffle, True, True), list(ds)]


def show_methods_return_the_dataset(rng, folder):
    ds = opened(rng, folder)
    stem = ds[1][2]
    return [result is ds for result in (
        ds.set_epoch(1), ds.set_shuffle(), ds.set_distributed(0, 1), ds.load_state_dict({}),
        ds.filter_extensions(["cls", "txt"]), ds.filter_stems([stem]), ds.map_all(str),
        ds.map_tuple(str, str), ds.map_group(str, [1]), ds.map(lambda a, b: a))]


def show_states(rng, folder):
    from glzn.data.dataset import iTarDataset

    ds = opened(rng, folder, internal_seed=rng.randrange(99)).set_shuffle(rounds=5)
    ds.set_epoch(rng.randrange(99)).set_distributed(1, 2)
    state = ds.state_dict()
    other = iTarDataset("d", folder, "train", ["txt", "cls", "_stem"], buckets_per_shard=5)
    other.load_state_dict(json.loads(json.dumps(state)))
    again = other.state_dict()
    other.set_distributed(1, 2)
    return [state, again, list(ds), list(other), other.buckets_per_shard,
            other.load_state_dict({"rank": 3, "frob": 1, "epoch": 4}).state_dict(),
            attempt(other.load_state_dict, {"epoch": -1}), other.state_dict()]


def show_shufflecontext(rng, folder):
    ds = opened(rng, folder, internal_seed=3)
    told = []
    with ds.shufflecontext():
        told.append(list(ds))
    with ds.shufflecontext(seed=rng.randrange(99), rounds=rng.randint(2, 6)):
        told.append(list(ds))
    ds.set_shuffle()
    with ds.shufflecontext(shard_mixing=True):
        told.append(list(ds))
    return [told, list(ds), ds.state_dict()]


def show_shufflecontext_after_an_exception(rng, folder):
    ds = opened(rng, folder)

    def leave():
        with ds.shufflecontext(seed=3):
            raise KeyError(ds[0][1])

    return [attempt(leave), list(ds), ds.state_dict()["epoch"]]


def show_maps(rng, folder):
    ds = opened(rng, folder)
    ds.map_all(str).map_tuple(str.upper, int, len).map_group(lambda a, c: (c, a), [0, 2])
    told = [list(ds), [type(each).__name__ for each in ds.transforms]]
    ds.map(lambda a, b, c: {"a": a, "b": [b, c]})
    return [told, list(ds), [type(each).__name__ for each in ds.transforms],
            [type(ds[0]).__name__]]


def show_maps_of_one_field(rng, folder):
    ds = opened(rng, folder, ["txt"])
    return [list(ds), list(ds.map_tuple(len)), list(ds.map_group(str, (0,))), list(ds.map(repr))]


def show_results_of_map(rng, folder):
    from glzn.data.dataset import iTarDataset

    opened(rng, folder)
    told = []
    for function in (lambda *fields: fields, lambda a, b: [a, b], lambda a, b: a,
                     lambda a, b: None, lambda a, b, /: (a,)):
        told.append(iTarDataset("d", folder, "train", ["txt", "cls"]).map(function)[1])
    return told


def show_maps_that_are_refused(rng, folder):
    ds = opened(rng, folder)
    first = [attempt(ds.map, 3), attempt(ds.map_all, None), attempt(ds.map_tuple, len, 3, len),
             attempt(ds.map_tuple, len), attempt(ds.map_group, len, []),
             attempt(ds.map_group, len, [3]), attempt(ds.map_group, len, [-1]),
             attempt(ds.map_group, 3, [0]), attempt(ds.map, lambda a: a),
             attempt(ds.map, lambda a, b, c, d: a), attempt(ds.map_tuple)]
    ds.map(lambda a, b, c: a)
    return first + [attempt(ds.map, lambda a, b, c: a), attempt(ds.map_all, str),
                    attempt(ds.map_tuple, str, str, str), attempt(ds.map_group, str, [0])]


def show_functions_that_map_cannot_inspect(rng, folder):
    ds = opened(rng, folder, ["txt", "cls"])
    return [attempt(ds.map, lambda a, b=3: (a, b)) is ds, attempt(ds.map, int)]


def show_mapped_functions_that_raise(rng, folder):
    ds = opened(rng, folder, ["txt", "cls"]).map_tuple(int, str)
    return [attempt(ds.__getitem__, 0), attempt(list, ds)]


def show_schema_after_maps(rng, folder):
    ds = opened(rng, folder).map_all(str)
    stems = [stem for _, _, stem in ds]
    chosen = rng.sample(stems, 3)
    return [attempt(ds.filter_extensions, ["cls"]), attempt(ds.add_grouping, ["{0}.txt"]),
            list(ds.filter_stems(chosen)), ds.extensions]


def show_filter_stems(rng, folder):
    ds = opened(rng, folder)
    stems = [stem for _, _, stem in ds]
    chosen = rng.sample(stems, 6)
    told = [list(ds.filter_stems(chosen + ["none"])), len(ds), ds.shard_bincount,
            len(ds.fold.state.arr), list(ds.filter_stems([])), ds.fold.state.pos]
    ds.set_shuffle(shard_mixing=True)  # glzn cannot shuffle shards without samples
    return [told, list(ds.filter_stems(chosen[:4])), list(ds.filter_extensions(["_stem", "txt"]))]


def show_filter_stems_by_json(rng, folder):
    ds = opened(rng, folder)
    stems = rng.sample([stem for _, _, stem in ds], 4)
    path = folder / "chosen.json"
    path.write_text(json.dumps([f"x/{stems[0]}.jpg", *stems[1:]]))
    told = [list(ds.filter_stems_by_json(str(path)))]
    for text in ("{", "{}", "[1]"):
        path.write_text(text)
        told.append(attempt(ds.filter_stems_by_json, path))
    return told + [attempt(ds.filter_stems_by_json, folder / "none.json")]


def show_filter_extensions(rng, folder):
    from glzn.data.dataset import iTarDataset

    samples = samples_of(rng)
    for key in rng.sample(list(samples), 4):
        del samples[key]["cls"]
    write(folder, samples)
    ds = iTarDataset("d", folder, "train", ["txt", "_stem"])
    told = [len(ds), list(iTarDataset("d", folder, "train", ["cls", "txt"]))]
    both = iTarDataset("d", folder, "train", ["txt", "cls", "json"])
    return told + [list(both.filter_extensions([".json", "_stem"])), both.extensions,
                   attempt(both.filter_extensions, ["frob"]), len(both),
                   attempt(both.filter_extensions, ["_idx"])]


def show_lookup_stems(rng, folder):
    ds = opened(rng, folder, ["txt", "_idx", "cls"])
    stems = rng.sample([stem for stem in ds.lookup_stems(_stems(ds))], 3)
    path = folder / "chosen.json"
    path.write_text(json.dumps(stems))
    return [ds.lookup_stems(stems), ds.lookup_stems([*stems, "none"], [".CLS"]),
            ds.lookup_stems(path), ds.lookup_stems(str(path), ["txt"]), ds.lookup_stems([]),
            ds.lookup_stems(stems, []), ds.lookup_stems([f"x/{stems[0]}.jpg"]),
            ds.lookup_stems(["none"]), attempt(ds.lookup_stems, stems, ["frob"]),
            attempt(ds.lookup_stems, [3]), attempt(ds.lookup_stems, 5),
            ds.lookup_stems(tuple(stems), ("json",))]


def _stems(ds):
    return [ds.retriever.hdrname(row) for row in ds.fold.state.arr]


def views(rng, folder, count=12):
    from glzn.data.dataset import iTarDataset

    write(folder, {key: {f"{view}.{ext}": rng.randint(0, 99) for view in ("left", "mid", "right")
                         for ext in ("cls", "txt")} for key in words(rng, count)},
          override_encoders=[(f"{view}.{ext}", lambda x: str(x).encode())
                             for view in ("left", "mid", "right") for ext in ("cls", "txt")])
    return iTarDataset("d", folder, "train")


def show_groups(rng, folder):
    from glzn.data.dataset import iTarDataset

    views(rng, folder)
    told = []
    for templates, options in ((["{0}.cls", "{0}.txt"], {}), (["{0}.cls", "{1}.cls", "{2}.cls"], {}),
                               (("{0}.cls", "{1}.cls"), {"grouping_replace": True}),
                               (["{1}.txt", "{0}.txt"], {"grouping_seed": rng.randrange(2**40)})):
        ds = iTarDataset("d", folder, "train", internal_seed=7)
        told.append([ds.grouping, ds.grouping_replace, ds.add_grouping(templates, **options) is ds,
                     ds.grouping, ds.grouping_replace, ds.extensions, list(ds),
                     list(ds.set_epoch(rng.randrange(99)).set_shuffle()), ds.state_dict()])
    return told


def show_groups_and_maps(rng, folder):
    ds = views(rng, folder).add_grouping(["{0}.cls", "{1}.cls"])
    told = [attempt(ds.map_tuple, str), attempt(ds.map_group, str, [2])]
    ds.map_tuple(str, float).map(lambda a, b: a)
    return [told, list(ds), attempt(ds.filter_extensions, ["left.cls"]),
            attempt(ds.filter_stems_by_json, folder / "x"), len(ds.filter_stems([_stems(ds)[0]]))]


def show_groups_that_are_refused(rng, folder):
    from glzn.data.dataset import iTarDataset

    told = [attempt(views(rng, folder).add_grouping, *given) for given in (
        ([],), (["left.cls"],), (["{0}.frob"],), (["{0}"],), (["{a}.cls"],), (["{1}.cls"],),
        (["{0}.cls", "{1}.txt"],), (["{0}.cls", "{1}.cls", "{2}.cls", "{3}.cls"],), (["{0}.a.b"],))]
    pseudo = iTarDataset("d", folder, "train", ["left.cls", "_idx"])
    write(folder, samples_of(rng), name="e")
    plain = iTarDataset("e", folder, "train")
    return told + [attempt(pseudo.add_grouping, ["{0}.cls"]),
                   attempt(plain.add_grouping, ["{0}.cls"])]


def show_attributes_of_a_dataset(rng, folder):
    ds = opened(rng, folder)
    decode = ds.decoders[ds.fold.state.ext2id["txt"]]
    return [ds.loc, ds.root, ds.dataset, ds.extensions, ds.transforms, ds.grouping,
            ds.grouping_replace, ds.shard_bincount, ds.buckets_per_shard, decode(b"x"),
            sorted(ds.decoders), type(ds.fold).__name__, type(ds.retriever).__name__,
            ds.fold.full_paths, type(ds.shard_bincount).__name__]


def show_decoders_of_a_dataset(rng, folder):
    ds = opened(rng, folder, ["txt", "cls"])
    ids = ds.fold.state.ext2id
    ds.decoders[ids["txt"]] = len
    told = list(ds)
    ds.decoders = {**ds.decoders, ids["cls"]: str}
    return [told, list(ds), list(ds.set_shuffle().set_epoch(3))]


def show_the_bytes_of_a_dataset(rng, folder):
    ds = opened(rng, folder)
    rows = ds.fold.state.arr
    return [rows, [(ds.retriever.hdrname(row), bytes(ds.retriever.from_row(row))) for row in rows],
            rows.dtype.names, type(ds.retriever.from_row(rows[0])).__name__]


class Longer:
    """Overrides __getitem__ of a dataset."""

    def __getitem__(self, index):
        return (index, *super().__getitem__(index))


def longer(rng, folder, **options):
    from glzn.data.dataset import iTarDataset

    class Mine(Longer, iTarDataset):
        pass

    write(folder, samples_of(rng))
    return Mine("d", folder, "train", ["cls", "txt"], **options)


def show_a_subclass_of_a_dataset(rng, folder):
    ds = longer(rng, folder)
    return [list(ds), ds[-1], len(ds), list(ds.set_shuffle().map(lambda a, b: [a]))]


def show_torch_sees_a_dataset(rng, folder):
    import torch.utils.data as data

    ds = opened(rng, folder, ["cls", "_idx"])
    (folder / "x").mkdir()
    both = ds + longer(rng, folder / "x")
    return [isinstance(ds, data.Dataset), isinstance(ds, data.IterableDataset), len(both), both[0],
            both[-1], both[len(ds)], type(both).__name__,
            list(data.Subset(ds, [2, 0])), type(ds.supports_tv_tensor()).__name__]


def show_torch_loaders(rng, folder):
    import torch.utils.data as data

    ds = opened(rng, folder, ["cls", "_idx", "txt"]).set_shuffle()
    told = []
    for workers in (0, 2):
        loader = data.DataLoader(ds, batch_size=4, num_workers=workers)
        for epoch in (0, 3):
            ds.set_epoch(epoch)
            told.append([len(loader), list(loader)])
    return told


def show_torch_loaders_of_a_subclass(rng, folder):
    import torch.utils.data as data

    ds = longer(rng, folder).set_distributed(1, 2)
    return [list(data.DataLoader(ds, batch_size=3, num_workers=workers, drop_last=drop))
            for workers, drop in ((0, False), (2, True))]


def show_torch_persistent_workers_follow_the_epoch(rng, folder):
    from glzn.data.loader import build_dataloader

    ds = opened(rng, folder, ["_idx", "cls"]).set_shuffle()
    loader = build_dataloader(ds, batch_size=5, num_workers=1, drop_last=False,
                              persistent_workers=True, prefetch_factor=2)
    return [list(loader), len(ds.set_epoch(7)), list(loader)]


def show_torch_build_dataloader(rng, folder):
    from glzn.data.loader import build_dataloader

    ds = opened(rng, folder, ["_idx", "cls"])
    loader = build_dataloader(ds, batch_size=4, num_workers=0, drop_last=True, collate_fn=list,
                              persistent_workers=True, prefetch_factor=3)
    return [list(loader), loader.num_workers, loader.persistent_workers, loader.prefetch_factor,
            loader.pin_memory, loader.drop_last,
            attempt(build_dataloader, ds, batch_size=0, num_workers=0, drop_last=True),
            attempt(build_dataloader, ds, batch_size=1, num_workers=-1, drop_last=True),
            attempt(build_dataloader, ds, batch_size=1)]


def show_torch_move_to_device(rng, folder):
    import collections

    import torch
    from glzn.data.loader import move_to_device

    class Movable:
        def to(self, device, non_blocking=False):
            return "moved"

    value = {"a": [torch.tensor([rng.random()]), ("b", torch.tensor(3))], "c": None, 4: "text"}
    return [move_to_device(value, "cpu", non_blocking=False),
            move_to_device(collections.OrderedDict(a=1), "cpu", non_blocking=True),
            move_to_device({1, 2}, "cpu", non_blocking=True),
            type(move_to_device(Movable(), "cpu", non_blocking=True)).__name__,
            attempt(move_to_device, 1, "cpu")]


# --- More of datasets ---------------------------------------------------------------------------


def show_numbers_as_classes(rng, folder):
    from glzn.data.dataset import iTarDataset

    write(folder, {key: {"cls": kind(rng.randint(0, 9))} for key, kind in zip(
        words(rng, 5), (int, np.int64, np.uint8, str, np.float32))}, username="u")
    ds = iTarDataset("d", folder, "train")
    return [ds[0], ds[1], ds[2], ds[3], attempt(ds.__getitem__, 4), bytes_of(folder)]


def show_seeds_that_are_negative(rng, folder):
    from glzn.data.dataset import iTarDataset

    views(rng, folder)
    ds = iTarDataset("d", folder, "train", internal_seed=-rng.randint(1, 99)).set_shuffle(rounds=4)
    told = [list(ds)]
    ds.add_grouping(["{0}.cls", "{1}.cls"])
    return [told, list(ds), list(ds.set_epoch(200)), ds.state_dict()]


def show_extensions_of_other_types(rng, folder):
    from glzn.data.dataset import iTarDataset

    opened(rng, folder)
    return [list(iTarDataset("d", folder, "train", given)) for given in (
        ("cls", ".txt"), iter(["txt", "cls"]), {"cls": 1}.keys())] + [
        attempt(iTarDataset, "d", folder, "train", ["CLS"]),
        attempt(iTarDataset, "d", folder, "train", ["..cls"])]


def show_stems_of_other_types(rng, folder):
    ds = opened(rng, folder)
    stems = [stem for _, _, stem in ds]
    return [list(ds.filter_stems(set(stems[:7]))), list(ds.filter_stems(tuple(stems[:5]))),
            list(ds.filter_stems(dict.fromkeys(stems[:3])))]


def show_filters_that_empty_the_last_shards(rng, folder):
    ds = opened(rng, folder, buckets_per_shard=2)
    ds.filter_stems([stem for _, _, stem in ds][:5]).set_shuffle(rounds=4)
    told = [ds.shard_bincount, list(ds), ds.fold.bincount]
    return [told, list(ds.set_shuffle(shard_mixing=True)), ds.state_dict()]


def show_states_change_the_buckets(rng, folder):
    ds = opened(rng, folder, count=30).set_shuffle(shard_mixing=True, rounds=4)
    told = []
    for buckets in (1, 3, rng.randint(4, 9)):
        ds.load_state_dict({"buckets_per_shard": buckets, "shuffle_enabled": 1, "seed": "5"})
        told.append([list(ds), ds.buckets_per_shard, ds.state_dict()])
    return told


def show_orders_of_samples_that_are_not_contiguous(rng, folder):
    from glzn.data.dataset import iTarDataset
    from glzn.data.writer import iTarFoldWriter

    keys = words(rng, 9)
    with iTarFoldWriter(folder / "d", "train", enforce_contiguous=False) as out:
        for ext in ("cls", "txt"):
            for key in rng.sample(keys, 9):
                out.write(key, {ext: key})
    one = iTarDataset("d", folder, "train", ["txt", "_stem", "_fid"])
    both = iTarDataset("d", folder, "train", ["txt", "_stem"], enforce_contiguous=True)
    return [list(one), list(one.set_shuffle(rounds=4)), attempt(one.set_shuffle, shard_mixing=True),
            list(both), list(both.set_shuffle(shard_mixing=True, rounds=4)), both.shard_bincount,
            both.lookup_stems(keys[:3]), list(both.filter_stems(keys[:4]))]


def show_groups_of_ranks(rng, folder):
    ds = views(rng, folder).add_grouping(["{0}.cls", "{1}.txt", "{1}.cls", "{0}.txt"])
    told = []
    for rank in range(3):
        ds.set_distributed(rank, 3).set_epoch(rng.randrange(9)).set_shuffle(rounds=4)
        told.append(list(ds))
    return told


COLLIDING = ["aaaaaaaaaaaaaaaaA)zKdZq_bbbbbbbbbbbbbbbbbbbbbbbb72(Yy0Zvcccccccc",
             "aaaaaaaaaaaaaaaa2HX(pc-Lbbbbbbbbbbbbbbbbbbbbbbbb@jE351C)cccccccc",
             "aaaaaaaaaaaaaaaaOLAnM4(wbbbbbbbbbbbbbbbbbbbbbbbb-N}y74{9cccccccc"]


def show_stems_with_the_same_hash(rng, folder):
    from glzn.data.dataset import iTarDataset
    from glzn.data.itar.entry import iTarState

    stems = list(COLLIDING)
    rng.shuffle(stems)
    write(folder, {key: {"cls": number, "txt": word(rng)} for number, key in enumerate(
        [*words(rng, 3), *stems, *words(rng, 2)])}, username="u", shard_maxfiles=3)
    ds = iTarDataset("d", folder, "train", ["_stem", "txt", "cls"])
    state = iTarState.load(folder / "d/train.taridx")
    return [list(ds), state.crashstem, state.next_crash, bytes_of(folder), ds.lookup_stems(stems),
            list(ds.filter_stems(stems[:2]))]


def show_images_with_other_decoders(rng, folder):
    from glzn.data.dataset import iTarDataset
    from glzn.data.encoders import DEFAULT_DECODERS, PIL

    pictures(rng, folder)
    before = DEFAULT_DECODERS["png"]
    DEFAULT_DECODERS["png"] = PIL("decode", convert_to="L")
    try:
        return list(iTarDataset("d", folder, "train", ["png", "cls"]))
    finally:
        DEFAULT_DECODERS["png"] = before


def show_a_subclass_with_attributes(rng, folder):
    from glzn.data.dataset import iTarDataset

    class Mine(iTarDataset):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.rank, self.epoch, self.world_size, self.seed, self.order = 3, 4, 5, 6, 7
            self.transforms = []
            self.names, self.handle, self.reader, self.maps, self.index = 1, 2, 3, 4, 5

    write(folder, samples_of(rng))
    ds = Mine("d", folder, "train", ["cls", "txt"]).set_shuffle().map_all(str)
    return [list(ds), ds.rank, ds.epoch, len(ds.transforms), ds.state_dict()]


def show_a_subclass_with_another_length(rng, folder):
    from glzn.data.dataset import iTarDataset

    class Few(iTarDataset):
        def __len__(self):
            return 4

    write(folder, samples_of(rng))
    ds = Few("d", folder, "train", ["cls", "txt"])
    return [list(ds), len(ds), ds[0], ds[3]]


def show_a_subclass_that_overrides_other_methods(rng, folder):
    from glzn.data.dataset import iTarDataset

    class Mine(iTarDataset):
        def set_epoch(self, epoch):
            self.last = epoch
            return super().set_epoch(epoch)

        def map_all(self, mapping):
            return super().map_all(lambda field: mapping(str(field)))

    write(folder, samples_of(rng))
    ds = Mine("d", folder, "train", ["cls", "txt"]).set_shuffle().set_epoch(3).map_all(len)
    with ds.shufflecontext():
        told = list(ds)
    return [told, ds.last, list(ds), isinstance(ds, iTarDataset), type(ds).__name__]


def show_paths_as_text(rng, folder):
    from glzn.data.dataset import iTarDataset
    from glzn.data.itar.fold import iTarDirectory, iTarFold
    from glzn.data.writer import iTarDatasetWriter

    text = str(folder)
    with iTarDatasetWriter("d", text, folds=("train",), override_encoders=(("txt", bytes),)) as out:
        out.fold("train").write("a", {"cls": 1, "txt": [65]})
    ds = iTarDataset("d", text, "train", ["cls"])
    fold = iTarFold(text + "/d", "train")
    return [ds.loc, ds.root, list(ds), out.root, out.loc, type(out.override_encoders).__name__,
            iTarDirectory(text + "/d").root, fold.root, fold.full_paths, fold.path_from_idx(0),
            iTarDirectory(folder / "d").root]


# --- Folds --------------------------------------------------------------------------------------


def show_folds(rng, folder):
    from glzn.data.itar.fold import iTarFold

    write(folder, samples_of(rng), shard_maxfiles=5)
    fold = iTarFold(folder / "d", "train")
    told = [fold.state.arr, fold.bincount, fold.full_paths, fold.path_from_idx(0), fold.root,
            fold.fold, fold.delimiter, fold.extension, fold.idxext, fold.state.ext2id,
            fold._pseudoextensions]
    return told + [fold.filter_extensions(["cls", "_idx"]) is fold, fold.state.arr, fold.bincount,
                   fold.state.pos, fold.filter_extensions([]) is fold,
                   fold.filter_extensions(None) is fold, len(fold.state.arr),
                   attempt(fold.filter_extensions, ["frob"])]


def show_filters_of_folds(rng, folder):
    from glzn.data.itar.fold import iTarFold

    samples = write(folder, samples_of(rng))
    stems = rng.sample(list(samples), 5)
    fold = iTarFold(folder / "d", "train", filter_extensions=["txt", "cls"])
    return [fold.filter_stems([*stems, "none"]) is fold, fold.state.arr, fold.filter_stems([]) is fold,
            fold.filter_stems(tuple(stems[:2])).state.arr, fold.filter_stems(set(stems[:1])).state.pos,
            attempt(fold.filter_stems, ["none"], strict=True)]


def show_folds_that_cannot_be_opened(rng, folder):
    from glzn.data.itar.fold import iTarFold

    write(folder, samples_of(rng, 3))
    told = [attempt(iTarFold, folder / "d", "val"), attempt(iTarFold, folder / "none"),
            attempt(iTarFold, folder / "d", "train", filter_extensions=["frob"]),
            attempt(iTarFold, folder / "d", "train", idxext="frob")]
    (folder / "d/train.taridx").write_bytes(b"not an index")
    return told + [attempt(iTarFold, folder / "d")]


def show_folders(rng, folder):
    from glzn.data.itar.fold import iTarDirectory

    for fold in ("train", "val"):
        write(folder, samples_of(rng, 6), fold=fold, shard_maxfiles=2)
    each = iTarDirectory(folder / "d")
    parsed = each.parse_folder()
    told = [sorted(each.folds), each.nfolds, each.get_fold("train"), each.get_fold("x"),
            each.has_taridx("taridx"), each.has_taridx("frob"), each.root, each.delimiter,
            each.extension, sorted(parsed), parsed["val"].arr, parsed["val"].n_stems,
            each.parse_folder(serialize=True, idxext="again"), each.has_taridx("again"),
            (folder / "d/val.again").read_bytes() == (folder / "d/val.taridx").read_bytes()]
    return told + [attempt(iTarDirectory, folder / "none"),
                   attempt(iTarDirectory, folder / "d", delimiter="0")]


def show_retrievers(rng, folder):
    from glzn.data.itar.fold import iTarFold, iTarRetriever

    write(folder, samples_of(rng), shard_maxfiles=4)
    fold = iTarFold(folder / "d")
    told = []
    for mapped in (True, False):
        reader = iTarRetriever(fold.full_paths, prefer_mmap=mapped)
        for row in fold.state.arr[:9]:
            told.append([reader.hdrname(row), reader.from_row(row), reader.get(0, 257, 5)])
    return told + [attempt(iTarRetriever, [folder / "none.tar"]),
                   attempt(reader.get, 99, 0, 5)]


# --- Indexes ------------------------------------------------------------------------------------


def show_parse_tar(rng, folder):
    from glzn.data.itar.entry import parse_tar

    write(folder, samples_of(rng, 20), shard_maxfiles=6)
    state = None
    for number in range(4):
        state = parse_tar(folder / f"d/train_{number:04}.tar", state=state, bufsize=4096)
    told = [state.pos, state.ext2id, state.n_stems, state.is_contiguous, state.next_crash,
            len(state.seen_stems), len(state.hashinfo), int(state.next_fid)]
    done = state.finalize()
    done.save(folder / "again")
    return told + [done.arr, done.n_stems, done.is_contiguous, done.hashinfo, done.seen_stems,
                   done.pos, bytes(done), done._fields,
                   (folder / "again").read_bytes() == (folder / "d/train.taridx").read_bytes(),
                   attempt(parse_tar, folder / "none.tar")]


def show_an_empty_state(rng, folder):
    from glzn.data.itar.entry import iTarState

    rows = rng.randint(1, 9)
    state = iTarState.empty(rows)
    grown = state.ensure(rows + 5)
    return [len(state.arr), state.arr.dtype.descr, state[1:], len(grown.arr), len(grown.ensure(2).arr),
            state.ensure(rows - 1) is state, len(iTarState.empty().arr),
            attempt(bytes, state), state.finalize().n_stems, len(state.finalize().arr),
            bytes(state.finalize())]


def show_states_of_files(rng, folder):
    from glzn.data.itar.entry import iTarState

    write(folder, samples_of(rng))
    path = folder / "d/train.taridx"
    state = iTarState.load(path)
    told = [state.arr, state[1:], state._asdict() is not None, bytes(state) == path.read_bytes(),
            iTarState.load(str(path)).pos, state.finalize().n_stems is None,
            state.enforce_contiguous() is state]
    path.write_bytes(b"WRONG" + path.read_bytes()[5:])
    return told + [attempt(iTarState.load, path), attempt(iTarState.load, folder / "none")]


def show_a_state_that_is_not_contiguous(rng, folder):
    from glzn.data.itar.entry import iTarState
    from glzn.data.writer import iTarFoldWriter

    keys = words(rng, 7)
    with iTarFoldWriter(folder, "train", enforce_contiguous=False, username="u") as out:
        for ext in ("cls", "txt"):
            for key in rng.sample(keys, 7):
                out.write(key, {ext: key})
    state = iTarState.load(folder / "train.taridx")
    made = state.enforce_contiguous()
    return [state.is_contiguous, state.arr, made.is_contiguous, made.arr, bytes(made)]


def show_a_state_made_by_the_program(rng, folder):
    from glzn.data.itar.entry import iTarState

    rows = np.zeros(4, iTarState.empty(1).arr.dtype)
    rows["keyhash"], rows["extid"] = [5, 5, 6, 6], [0, 1, 0, 1]
    rows["size"] = [rng.randrange(99) for _ in range(4)]
    state = iTarState(rows, 4, {"a": 0, "b": 1}, {}, {}, 0, 2, set(), True)
    return [bytes(state), state._replace(pos=3).pos, iTarState(*state)[1:] == state[1:],
            int(state.next_fid), attempt(iTarState, rows)]


# --- Browser ------------------------------------------------------------------------------------


def pictures(rng, folder, extensions=("png", "cls", "_stem"), **options):
    from glzn.data.dataset import iTarDataset

    write(folder, {key: {"png": png(rng, size=(3, 2)), "cls": rng.randint(0, 3), "txt": word(rng)}
                   for key in words(rng, 9)}, override_encoders=[("png", bytes)])
    return iTarDataset("d", folder, "train", extensions, **options)


def items_of(ds, *args):
    from glzn.data import dataset

    made = getattr(dataset, "_BrowserWrapper", None) or dataset.BrowserWrapper
    return made(ds, *args)


class Widgets:
    """What a user does with glzn's widgets: the same methods as Browser of tarn.itar."""

    def __init__(self, items, **options):
        from glzn.data import imgbrowser

        self.shown, self.items = [], items
        imgbrowser.display = lambda *things: self.shown.extend(things)
        imgbrowser.browse_dataset(items, **options)
        (_, _, _, _, self.counter, _, _), (self.out, self.load, _, self.upload, self.link) = (
            box.children for box in self.shown[-1].children[:2])
        self.status = self.shown[-1].children[2]

    def toggles(self):
        return [card.children[-1] for card in self.shown[0].children]

    def labels(self):
        return [card.children[1].value if len(card.children) == 3 else None
                for card in self.shown[0].children]

    def select(self, positions, selected=True):
        for position in positions:
            self.toggles()[position].value = selected

    def export_json(self):
        import base64

        self.out.click()
        return base64.b64decode(self.link.value.partition("base64,")[2].partition('"')[0]).decode()

    def import_json(self, text):
        import re

        self.upload.value = ({"name": "x", "type": "", "size": len(text), "content": text.encode(),
                              "last_modified": __import__("datetime").datetime.now()},)
        self.load.click()
        counts = re.findall(r"\d+", self.status.value)
        return tuple(map(int, (counts + ["0", "0"])[:2]))


def browser_of(items, **options):
    from glzn.data import imgbrowser

    if hasattr(imgbrowser, "Browser"):
        return imgbrowser.browse_dataset(items, **options)
    return Widgets(items, **options)


def labels_of(browser):
    """Returns the labels on the first page."""
    if isinstance(browser, Widgets):
        return browser.labels()
    return [None if label is None else str(label) for _, label, _ in browser.page(0)]


def show_images_of_a_browser(rng, folder):
    ds = pictures(rng, folder)
    items = items_of(ds, "png", "cls", {0: "zero", 1: "one"})
    told = [len(items), [items[i] for i in range(9)], items[-1], attempt(items.__getitem__, 9),
            items.img_ext, items.lab_ext]
    ds.set_shuffle().set_epoch(rng.randrange(9))
    return [told, [items[i] for i in range(9)], labels_of(browser_of(items, page_size=4))]


def show_images_of_a_browser_with_transforms(rng, folder):
    ds = pictures(rng, folder, ("cls", "_fid", "png", "_idx", "_name"))
    ds.map_tuple(lambda label: label + 1, int, lambda image: image.rotate(90, expand=True), int, str)
    items = items_of(ds, ".PNG", ".cls", {1: "one"})
    ds.set_shuffle()
    return [[items[i] for i in range(9)], labels_of(browser_of(items))]


def show_images_without_labels_in_a_browser(rng, folder):
    ds = pictures(rng, folder, ("png",))
    return [[items_of(ds, "png")[i] for i in range(3)], labels_of(browser_of(items_of(ds, "png")))]


def show_images_that_a_browser_refuses(rng, folder):
    ds = pictures(rng, folder)
    return [attempt(items_of, ds, "jpg"), attempt(items_of, ds, "txt"), attempt(ds.browse),
            attempt(browser_of, [3]), attempt(browser_of, [()]), attempt(browser_of, [(3, 4)])]


def show_images_in_other_sequences(rng, folder):
    items = [(picture(rng), "a", "stem0"), picture(rng), (picture(rng), 5, {"stem": "stem2"}),
             (picture(rng),), (picture(rng), None, None, 7, 8), (picture(rng), "<b>", "a")]
    browser = browser_of(items, page_size=10)
    browser.select(range(6))
    told = [labels_of(browser), browser.export_json()]
    browser.select([0, 2], False)
    return [told, browser.export_json()]


def show_images_selected_in_a_browser(rng, folder):
    ds = pictures(rng, folder)
    browser = browser_of(items_of(ds, "png"))
    chosen = rng.sample(range(9), 4)
    browser.select(chosen)
    first = browser.export_json()
    browser.select(chosen[:1], False)
    (folder / "chosen.json").write_text(first)
    told = [first, browser.export_json(), browser.import_json('["none", " ", "none"]'),
            browser.export_json(), browser.import_json(first), browser.export_json(),
            browser.import_json("[]"), browser.export_json()]
    return [told, [stem for _, _, stem in ds.filter_stems_by_json(folder / "chosen.json")]]


# --- Differences: docs/compat.md has the reasons ------------------------------------------------


def differ_a_writer_after_an_exception(rng, folder):
    from glzn.data.writer import iTarFoldWriter

    def leave():
        with iTarFoldWriter(folder, "train") as out:
            out.write(word(rng), {"cls": 1})
            raise KeyError

    return [attempt(leave), sorted(path.name for path in folder.iterdir())]


def differ_a_repeated_key(rng, folder):
    from glzn.data.writer import iTarFoldWriter

    out = iTarFoldWriter(folder, "train")
    return [out.write("a", {"cls": 1}), out.write("b", {"cls": 1}),
            attempt(out.write, "a", {"cls": 1})]


def differ_the_index_of_an_open_writer(rng, folder):
    from glzn.data.writer import iTarFoldWriter

    with iTarFoldWriter(folder, "train") as out:
        out.write("a", {"cls": 1})
        return [getattr(attempt(lambda: out.state), "pos", None)]


def differ_bytes_are_written_unchanged(rng, folder):
    from glzn.data.writer import iTarFoldWriter

    with iTarFoldWriter(folder, "train") as out:
        return [attempt(out.write, "a", {"txt": b"x"}), attempt(out.write, "b", {"frob": b"x"})]


def differ_filter_stems_without_a_match(rng, folder):
    return [attempt(opened(rng, folder).filter_stems, ["none"])]


def differ_mapped_functions_that_raise_index_error(rng, folder):
    ds = opened(rng, folder, ["cls"]).map_tuple(lambda label: [0][label])
    return [attempt(list, ds)]


def differ_numbers_with_fractions(rng, folder):
    return [attempt(opened(rng, folder).set_epoch, 1.5)]


def differ_shufflecontext_has_a_value(rng, folder):
    with opened(rng, folder).shufflecontext() as value:
        return [value]


def differ_a_dataset_is_pickled(rng, folder):
    return [attempt(pickle.dumps, opened(rng, folder))]


def differ_pickles_are_refused(rng, folder):
    from glzn.data.encoders import PKL

    return [attempt(PKL.decoder(), PKL.encoder()(3))]


def differ_progress_is_printed(rng, folder):
    from glzn.data.dataset import iTarDataset

    write(folder, samples_of(rng))
    (folder / "d/train.taridx").unlink()
    return [len(iTarDataset("d", folder, "train", parse_if_missing=True))]


def differ_ranges_in_braces(rng, folder):
    from glzn.data.itar.utils import braceexpand

    return [attempt(braceexpand, "a{1..2}b{3..4}", "")]


def differ_torch_named_tuples_are_moved(rng, folder):
    import collections

    from glzn.data.loader import move_to_device

    pair = collections.namedtuple("pair", "a b")
    return [move_to_device(pair(1, 2), "cpu", non_blocking=True)]


def differ_images_cut_short(rng, folder):
    from glzn.data.encoders import SEG8

    return [attempt(SEG8.decoder(), png(rng, "L")[:-12])]


def differ_images_selected_without_stems(rng, folder):
    browser = browser_of(items_of(pictures(rng, folder, ["png"]), "png"))
    browser.select([3])
    return [browser.export_json()]


def differ_images_selected_again_after_a_shuffle(rng, folder):
    browser = browser_of(items_of(pictures(rng, folder).set_shuffle(rounds=4), "png"))
    browser.select([0, 1])
    chosen = browser.export_json()
    return [browser.import_json(chosen), browser.export_json() == chosen]


def differ_images_of_browse(rng, folder):
    from glzn.data import imgbrowser

    imgbrowser.display = lambda *things: None
    return [type(pictures(rng, folder).browse("png")).__name__]
