"""Images and masks in loaders: labels follow their images, real files come out as in Pillow, other
formats go through a fallback, and options without effect are errors."""
import io
import pickle
import re

import numpy as np
import pytest

import tarn
import tarn.iac

Image = pytest.importorskip("PIL.Image")
ImageOps = pytest.importorskip("PIL.ImageOps")


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def picture(width, height, seed=0, channels=3):
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, channels), "u1")
    return Image.fromarray(pixels[..., 0] if channels == 1 else pixels)


def coded(width, height):
    """An image whose pixels are their positions: red is the column, green the row."""
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([x, y, x * 0], -1).astype("u1")


def pack(tmp_path, samples):
    with tarn.DatasetWriter(tmp_path / "d", "train") as out:
        for i, sample in enumerate(samples):
            out.write({"__key__": f"s{i}", **sample})
    return tmp_path / "d"


def positions(batch, field):
    """The pixels of a lossless image of positions as labels."""
    return batch[field][..., 0].astype("u4") + np.uint32(1000) * batch[field][..., 1]


# --- Masks -----------------------------------------------------------------------------------


def labelled(width, height, dtype="u2"):
    image = coded(width, height)
    return image, (image[..., 0] + np.uint32(1000) * image[..., 1]).astype(dtype)


SIZES = [(50, 40), (64, 33), (40, 40), (90, 61)] * 2


def segmented(tmp_path):
    samples = []
    for width, height in SIZES:
        image, labels = labelled(width, height, "u4")
        samples.append({"png": image, "seg32": labels, "seg8": image[..., 0].copy(),
                        "seg16": labels.astype("u2"), "depth.npy": labels.astype("f4"),
                        "m.png": saved(Image.fromarray(image[..., 0]), "PNG")})
    return pack(tmp_path, samples)


def test_masks_are_cropped_and_flipped_like_their_image(tmp_path):
    ds = tarn.open(segmented(tmp_path), "train")
    # A crop that is not resized: the image itself says where each pixel comes from.
    loader = ds.loader(8, resize=(30, 32), fit="center", flip=0.5, seed=3, threads=2,
                       masks=["m.png", "depth.npy"])
    batch = next(iter(loader))
    want = positions(batch, "png")
    assert batch["seg32"].dtype == "u4" and (batch["seg32"] == want).all()
    assert batch["seg16"].dtype == "u2" and (batch["seg16"] == want.astype("u2")).all()
    assert batch["seg8"].dtype == "u1" and (batch["seg8"] == batch["png"][..., 0]).all()
    assert (batch["m.png"] == batch["seg8"]).all()
    assert batch["depth.npy"].dtype == "f4" and (batch["depth.npy"] == want).all()
    flipped = want[:, 0, 0] > want[:, 0, -1]
    assert flipped.any() and not flipped.all()


def test_masks_get_the_random_crop_and_the_nearest_label(tmp_path):
    ds = tarn.open(segmented(tmp_path), "train")
    loader = ds.loader(8, resize=(24, 20), fit="random", flip=0.5, seed=3, dtype="float32",
                       mean=[0.5], std=[2.0], layout="CHW")
    batch = next(iter(loader))
    assert batch["png"].shape == (8, 3, 24, 20) and batch["png"].dtype == "f4"
    assert batch["seg32"].shape == (8, 24, 20)
    pixels = (batch["png"] * np.float32([2.0, 1, 1])[:, None, None]
              + np.float32([0.5, 0, 0])[:, None, None]) * 255
    column, row = batch["seg32"] % 1000, batch["seg32"] // 1000
    # The mean of neighbours is within about a pixel of the nearest one, in both directions.
    assert np.abs(pixels[:, 0] - column).max() <= 4 and np.abs(pixels[:, 1] - row).max() <= 4
    for labels, (width, height) in zip(batch["seg32"], SIZES):
        assert (labels % 1000 < width).all() and (labels // 1000 < height).all()


def test_stretched_masks_equal_pillow_nearest(tmp_path):
    ds = tarn.open(segmented(tmp_path), "train", fields=["png", "seg8"])
    for size in (17, 100):
        batch = next(iter(ds.loader(8, resize=(size, 33), threads=0)))
        for i in range(8):
            want = Image.fromarray(ds[i]["seg8"]).resize((33, size), Image.Resampling.NEAREST)
            assert (batch["seg8"][i] == np.asarray(want)).all()


def test_a_mask_with_a_palette_gives_its_indices(tmp_path):
    labels = np.arange(24 * 20, dtype="u1").reshape(20, 24) % 21
    mask = Image.fromarray(labels, "L").convert("P")
    mask.putpalette(bytes(range(255, 255 - 63, -1)))
    for bits in ({}, {"bits": 8}):
        data = saved(mask, "PNG", **bits)
        ds = tarn.open(pack(tmp_path / str(len(bits)), [{"jpg": saved(picture(24, 20), "JPEG"), "mask.png": data}]), "train")
        batch = next(iter(ds.loader(1, resize=(20, 24), fit="exact", masks="mask.png")))
        assert (batch["mask.png"][0] == labels).all()
        assert ds[0]["mask.png"].shape == (20, 24, 3)
    two = Image.fromarray((labels % 2).astype("u1"), "L").convert("P")
    two.putpalette([0, 0, 0, 255, 0, 0])
    ds = tarn.open(pack(tmp_path / "two", [{"png": np.asarray(picture(24, 20)), "mask.png": saved(two, "PNG", bits=1)}]), "train")
    batch = next(iter(ds.loader(1, resize=(20, 24), fit="exact", masks=("mask.png",))))
    assert (batch["mask.png"][0] == labels % 2).all()


def test_a_16_bit_mask_and_one_with_channels_keep_their_values(tmp_path):
    rng = np.random.default_rng(1)
    deep = rng.integers(0, 65536, (30, 40), "u2")
    colours = rng.integers(0, 256, (30, 40, 3), "u1")
    ds = tarn.open(pack(tmp_path, [{"jpg": picture(40, 30), "deep.png": deep, "ids.png": colours}]
                        if False else [{"png": np.asarray(picture(40, 30)), "deep.png": deep, "ids.png": colours}]), "train")
    batch = next(iter(ds.loader(1, resize=(15, 20), masks=["deep.png", "ids.png"], layout="CHW")))
    assert batch["deep.png"].dtype == "u2" and (batch["deep.png"][0] == deep[1::2, 1::2]).all()
    assert (batch["ids.png"][0] == colours[1::2, 1::2]).all()


def test_each_mask_follows_an_image_of_its_size(tmp_path):
    small, big = labelled(30, 20), labelled(60, 50)
    ds = tarn.open(pack(tmp_path, [{"a.png": small[0], "a.seg16": small[1], "b.png": big[0], "b.seg16": big[1]}] * 4), "train")
    batch = next(iter(ds.loader(4, resize=(10, 12), fit="center", flip=0.5, seed=5)))
    for name in "ab":
        assert (batch[f"{name}.seg16"] == positions(batch, f"{name}.png")).all()


def test_a_mask_of_another_size_is_an_error_that_names_the_sample_and_both_sizes(tmp_path):
    ds = tarn.open(pack(tmp_path, [{"png": coded(30, 20), "seg8": np.zeros((10, 15), "u1")}]), "train")
    with pytest.raises(tarn.FormatError, match=r"\(s0\), field seg8: mask of 15 x 10 pixels, but the image "
                                               r"\(field png\) has 30 x 20; a mask must have"):
        next(iter(ds.loader(1, resize=8)))


def test_a_mask_that_cannot_follow_is_an_error_of_the_loader(tmp_path):
    ds = tarn.open(pack(tmp_path, [{"png": coded(30, 20), "seg8": np.zeros((20, 30), "u1"), "txt": "a",
                                    "json": "{}"}]), "train")
    for masks, options, message in ((["png"], {"resize": 8}, "field png is a mask, but no other field is an image"),
                                    (["seg8"], {}, "masks: only with resized images"),
                                    (["nope"], {"resize": 8}, "masks: no field nope; available: "),
                                    (["txt"], {"resize": 8}, "masks: field txt is not an array"),
                                    (3, {"resize": 8}, "masks must be a list of str")):
        with pytest.raises(tarn.UsageError, match=message):
            ds.loader(1, masks=masks, **options)
    with pytest.raises(tarn.UsageError, match="field seg8 is a mask, but no other field is an image"):
        tarn.open(tmp_path / "d", "train", fields=["seg8"]).loader(1, resize=8)
    decoders = {"seg8": lambda data: data}
    with pytest.raises(tarn.UsageError, match="masks: field seg8 has a decoder of its own"):
        tarn.open(tmp_path / "d", "train", decoders=decoders).loader(1, resize=8, masks="seg8")


def test_masks_do_not_depend_on_threads_and_survive_pickling(tmp_path):
    ds = tarn.open(segmented(tmp_path), "train")
    options = {"resize": 16, "fit": "random", "flip": 0.5, "shuffle": True, "seed": 2, "masks": ["m.png"]}
    first = [batch["m.png"].tolist() for batch in ds.loader(3, threads=0, **options)]
    assert first == [batch["m.png"].tolist() for batch in ds.loader(3, threads=3, **options)]
    again = pickle.loads(pickle.dumps(ds.loader(3, threads=1, **options)))
    assert first == [batch["m.png"].tolist() for batch in again]
    cold = tarn.open(tmp_path / "d", "train", cold=True)
    assert first == [batch["m.png"].tolist() for batch in cold.loader(3, threads=2, **options)]


# --- Options without effect ------------------------------------------------------------------


def test_image_options_without_an_image_are_errors(tmp_path):
    path = pack(tmp_path, [{"png": coded(30, 20), "cls": 1}])
    only = tarn.open(path, "train", fields=["cls"])
    with pytest.raises(tarn.UsageError, match=r"image steps \(resize\) have no effect: none of the 1 fields"):
        only.loader(1, resize=8)
    for options in ({"flip": 0.5}, {"dtype": "float32"}, {"layout": "CHW"}, {"mean": [0.5]}, {"channels": 1},
                    {"fit": "exact"}):
        with pytest.raises(tarn.UsageError, match=f"{next(iter(options))}: only with resized images"):
            tarn.open(path, "train").loader(1, **options)
    for decode in (False, "bytes"):
        with pytest.raises(tarn.UsageError, match="resize has no effect: the dataset was opened with decode="):
            tarn.open(path, "train", decode=decode).loader(1, resize=8)
    with pytest.raises(tarn.UsageError, match="have no effect"):
        tarn.open(path, "train", decoders={"png": len}).loader(1, resize=8)
    for option in ({"exif": True}, {"fallback": len}):
        with pytest.raises(tarn.UsageError, match=f"{next(iter(option))} has no effect with decode=False"):
            tarn.open(path, "train", decode=False, **option)


def test_resize_takes_any_sequence_and_fit_both_spellings(tmp_path):
    class Listed:  # like the lists of OmegaConf
        def __iter__(self):
            return iter((8, 9))

    ds = tarn.open(pack(tmp_path, [{"png": coded(30, 20)}]), "train")
    for resize in ((8, 9), [8, 9], np.array([8, 9]), Listed(), range(8, 10)):
        for fit in ("center", "centre"):
            assert next(iter(ds.loader(1, resize=resize, fit=fit)))["png"].shape == (1, 8, 9, 3)
    assert next(iter(ds.loader(1, resize=np.int64(8))))["png"].shape == (1, 8, 8, 3)
    for wrong in ((1, 2, 3), "ab", 2.5, (1.5, 2)):
        with pytest.raises(tarn.UsageError, match="resize must be"):
            ds.loader(1, resize=wrong)


def test_compressed_images_get_the_same_steps(tmp_path):
    image = coded(30, 20)
    ds = tarn.open(pack(tmp_path, [{"a.png": image, "b.png.gz": image}]), "train")
    batch = next(iter(ds.loader(1, resize=(10, 11), fit="random", flip=1.0)))
    assert (batch["a.png"] == batch["b.png.gz"]).all()


# --- Real files ------------------------------------------------------------------------------


def inked(width=40, height=30):
    pixels = np.random.default_rng(4).integers(0, 256, (height, width, 4), "u1")
    return saved(Image.frombytes("CMYK", (width, height), pixels.tobytes()), "JPEG", quality=95)


def test_cmyk_jpegs_are_rgb_as_in_pillow(tmp_path):
    plain = inked()
    at = plain.index(b"Adobe") + 11
    ycck = plain[:at] + b"\2" + plain[at + 1:]
    ds = tarn.open(pack(tmp_path, [{"jpg": plain}, {"jpg": ycck}]), "train")
    for i, data in enumerate((plain, ycck)):
        want = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
        assert (ds[i]["jpg"] == want).all()
        loaded = next(iter(ds[i:i + 1].loader(1, resize=(30, 40), fit="exact")))["jpg"][0]
        assert (loaded == want).all()


ORIENTED = [("JPEG", {"quality": 95}), ("PNG", {}), ("WEBP", {"lossless": True})]


@pytest.mark.parametrize("kind,options", ORIENTED)
def test_exif_turns_images_upright_as_pillow_does(tmp_path, kind, options):
    samples = []
    for orientation in range(10):
        exif = Image.Exif()
        exif[0x0112] = orientation
        samples.append({"jpg": saved(picture(37, 26, orientation), kind, exif=exif, **options)})
    path = pack(tmp_path, samples)
    ds, as_stored = tarn.open(path, "train", exif=True), tarn.open(path, "train")
    loaded = next(iter(ds.loader(10)))["jpg"]
    for i, sample in enumerate(samples):
        stored = Image.open(io.BytesIO(sample["jpg"]))
        upright = ImageOps.exif_transpose(stored)
        assert (ds[i]["jpg"] == np.asarray(upright)).all()
        assert (loaded[i] == np.asarray(upright)).all()
        assert (as_stored[i]["jpg"] == np.asarray(stored)).all()
        batch = next(iter(ds[i:i + 1].loader(1, resize=(20, 20), fit="center", reduce=0)))
        left, top = round((upright.width - 20) / 2), round((upright.height - 20) / 2)
        want = np.asarray(upright.crop((left, top, left + 20, top + 20)))
        assert (batch["jpg"][0] == want).all()


def test_a_mask_belongs_to_the_upright_image(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    image, labels = labelled(37, 26, "u2")
    data = saved(Image.fromarray(image), "PNG", exif=exif)
    upright = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))))
    turned = (upright[..., 0] + 1000 * upright[..., 1].astype("u4")).astype("u2")
    ds = tarn.open(pack(tmp_path, [{"png": data, "seg16": turned}]), "train", exif=True)
    batch = next(iter(ds.loader(1, resize=(30, 20), fit="center", flip=1.0)))
    assert (batch["seg16"] == positions(batch, "png").astype("u2")).all()
    wrong = tarn.open(pack(tmp_path / "w", [{"png": data, "seg16": labels}]), "train", exif=True)
    with pytest.raises(tarn.FormatError, match="37 x 26 pixels, but the image .* has 26 x 37 when it is upright"):
        next(iter(wrong.loader(1, resize=10)))


def test_deep_pngs_keep_16_bits_unless_they_are_resized(tmp_path):
    deep = np.random.default_rng(2).integers(0, 65536, (9, 8, 3), "u2")
    ds = tarn.open(pack(tmp_path, [{"png": deep}]), "train")
    assert (ds[0]["png"] == deep).all()
    assert (next(iter(ds.loader(1)))["png"][0] == deep).all()
    assert (next(iter(ds.loader(1, resize=(9, 8), fit="exact")))["png"][0] == deep >> 8).all()


# --- Fallback --------------------------------------------------------------------------------


def foreign(tmp_path):
    """A fold with formats that tarn decodes and others: the images have the same pixels."""
    samples = []
    for i, kind in enumerate(("PNG", "BMP", "TIFF", "GIF", "PNG", "TGA")):
        image = picture(40, 30, i)
        samples.append({"img": saved(image.convert("P") if kind == "GIF" else image, kind)})
    return pack(tmp_path, samples), samples


def test_other_formats_go_through_pillow_and_the_same_steps(tmp_path):
    path, samples = foreign(tmp_path)
    ds = tarn.open(path, "train", fallback="pillow")
    images = [Image.open(io.BytesIO(sample["img"])).convert("RGB") for sample in samples]
    same = tarn.open(pack(tmp_path / "png", [{"img": saved(image, "PNG")} for image in images]), "train")
    for i, image in enumerate(images):
        assert (ds[i]["img"] == np.asarray(image)).all()
    assert all((one == np.asarray(image)).all() for one, image in zip(next(iter(ds.loader(6)))["img"], images))
    for options in ({"fit": "random", "flip": 0.5}, {"fit": "center", "shorter": 24, "dtype": "float16"}, {}):
        for threads in (0, 2):
            loader = ds.loader(4, resize=(20, 22), seed=1, threads=threads, **options)
            for got, want in zip(loader, same.loader(4, resize=(20, 22), seed=1, **options), strict=True):
                assert (got["img"] == want["img"]).all()
            assert loader.stats()["fallbacks"] == 4
    cold = tarn.open(path, "train", fallback="pillow", cold=True)
    assert (next(iter(cold.loader(6, resize=8)))["img"] == next(iter(same.loader(6, resize=8)))["img"]).all()
    again = pickle.loads(pickle.dumps(ds))
    assert (next(iter(again.loader(6, resize=8)))["img"] == next(iter(same.loader(6, resize=8)))["img"]).all()


def test_without_a_fallback_the_error_names_it(tmp_path):
    path, _ = foreign(tmp_path)
    ds = tarn.open(path, "train")
    for read in (lambda: ds[1], lambda: next(iter(ds.loader(6))), lambda: next(iter(ds.loader(6, resize=8)))):
        with pytest.raises(tarn.FormatError, match=r's1.*field img: .*fallback="pillow"'):
            read()


def test_fields_named_after_other_formats_are_images_with_a_fallback(tmp_path):
    image = picture(40, 30)
    mask = np.arange(1200, dtype="u2").reshape(30, 40)
    path = pack(tmp_path, [{"bmp": saved(image, "BMP"), "mask.tif": saved(Image.fromarray(mask), "TIFF")}])
    assert isinstance(tarn.open(path, "train")[0]["bmp"], bytes)
    ds = tarn.open(path, "train", fallback="pillow")
    assert (ds[0]["bmp"] == np.asarray(image)).all() and (ds[0]["mask.tif"] == mask).all()
    batch = next(iter(ds.loader(1, resize=(15, 20), fit="center", flip=1.0, masks=["mask.tif"])))
    assert (batch["bmp"][0] == np.asarray(image)[7:22, 10:30][:, ::-1]).all() or (
        batch["bmp"][0] == np.asarray(image)[8:23, 10:30][:, ::-1]).all()
    top = 7 if (batch["bmp"][0] == np.asarray(image)[7:22, 10:30][:, ::-1]).all() else 8
    assert batch["mask.tif"].dtype == "u2" and (batch["mask.tif"][0] == mask[top:top + 15, 10:30][:, ::-1]).all()


def test_a_function_can_be_the_fallback_and_its_failures_are_those_of_samples(tmp_path):
    called = []

    def decode(data):
        called.append(data[:4])
        if data == b"nothing":
            raise ValueError("no such picture")
        return np.full((5, 6, 3), 7, "u1")

    path = pack(tmp_path, [{"jpg": b"something"}, {"jpg": b"nothing"}, {"jpg": saved(picture(6, 5), "PNG")}])
    ds = tarn.open(path, "train", fallback=decode)
    assert (ds[0]["jpg"] == 7).all() and (ds[2]["jpg"] == np.asarray(picture(6, 5))).all()
    loader = ds.loader(3, resize=4, on_error="skip", threads=2)
    batch = next(iter(loader))
    assert batch["__key__"] == ["s0", "s2"] and (batch["jpg"][0] == 7).all()
    [(_, number, key, reason)] = loader.skipped()
    assert number == 1 and key == "s1" and "fallback: ValueError('no such picture')" in reason
    with pytest.raises(tarn.FormatError, match="field jpg: fallback: ValueError"):
        next(iter(ds.loader(3, resize=4)))
    assert set(called) == {b"some", b"noth"}
    for wrong in (np.zeros((4, 4, 2), "u1"), np.zeros((4, 4), "f4"), np.zeros(3, "u1"), "text"):
        bad = tarn.open(path, "train", fallback=lambda data, wrong=wrong: wrong)
        with pytest.raises(tarn.FormatError, match="fallback"):
            next(iter(bad.loader(1, resize=4)))


@pytest.mark.parametrize("field, data, how, reason", [
    ("bmp", b"no picture", "pillow", r"fallback: UnidentifiedImageError\(.*\)"),
    ("gif", b"GIF89a no picture", "pillow", r"fallback: UnidentifiedImageError\(.*\)"),
    ("jpg", b"no picture", lambda data: 1 / 0, r"fallback: ZeroDivisionError\('division by zero'\)"),
    ("jpg", b"\xff\xd8\xff\xe0", "pillow", "JPEG: Premature end of JPEG file")])
def test_an_image_that_cannot_be_decoded_is_the_same_error_in_a_sample_and_a_batch(tmp_path, field, data, how, reason):
    path = pack(tmp_path, [{field: saved(picture(6, 5), "PNG")}, {field: data}])
    ds = tarn.open(path, "train", fallback=how)
    with pytest.raises(tarn.FormatError if "fallback" in reason else tarn.TruncatedError) as single:
        ds[1]
    with pytest.raises(type(single.value)) as loaded:
        next(iter(ds.loader(2)))
    assert re.search(f"sample s1: field {field}: {reason}$", str(single.value))
    assert re.search(f"s1.*, field {field}: {reason}", str(loaded.value))
    for name in ("path", "offset", "code"):
        assert getattr(single.value, name) == getattr(loaded.value, name) is not None
    cause = single.value.__cause__
    assert (cause is None) == ("fallback" not in reason), cause


def test_damage_in_a_known_format_does_not_reach_the_fallback(tmp_path):
    data = saved(picture(40, 30), "PNG")
    path = pack(tmp_path, [{"png": data[:-40]}])

    def never(data):
        raise AssertionError("called")

    ds = tarn.open(path, "train", fallback=never)
    for read in (lambda: ds[0], lambda: next(iter(ds.loader(1))), lambda: next(iter(ds.loader(1, resize=8)))):
        with pytest.raises(tarn.errors.Error, match="truncated|incomplete"):
            read()


def test_an_interrupt_in_the_fallback_ends_the_call_and_loses_no_batch(tmp_path):
    state = {"interrupt": True}

    def decode(data):
        if state["interrupt"]:
            raise KeyboardInterrupt
        return np.full((5, 6, 3), 7, "u1")

    ds = tarn.open(pack(tmp_path, [{"jpg": b"x%d" % i, "cls": i} for i in range(4)]), "train", fallback=decode)
    batches = iter(ds.loader(2, resize=4, threads=1))
    with pytest.raises(KeyboardInterrupt):
        next(batches)
    state["interrupt"] = False
    assert [batch["cls"].tolist() for batch in batches] == [[0, 1], [2, 3]]


def test_an_animation_needs_the_fallback(tmp_path):
    frames = [picture(9, 9, i) for i in range(2)]
    data = saved(frames[0], "WEBP", save_all=True, append_images=frames[1:], lossless=True)
    path = pack(tmp_path, [{"webp": data}])
    with pytest.raises(tarn.errors.Error, match="animations need a fallback"):
        tarn.open(path, "train")[0]
    ds = tarn.open(path, "train", fallback="pillow")
    want = np.asarray(Image.open(io.BytesIO(data)).convert("RGBA"))
    assert (ds[0]["webp"][..., :3] == want[..., :3]).all()
    assert next(iter(ds.loader(1, resize=9)))["webp"].shape == (1, 9, 9, 3)


def test_without_pillow_the_error_names_the_package(tmp_path, monkeypatch):
    import importlib.util

    from tarn import _images

    _images.need_pillow.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(tarn.UsageError, match="needs the package Pillow: pip install pillow"):
        tarn.open(pack(tmp_path, [{"jpg": b"x"}]), "train", fallback="pillow")
    with pytest.raises(tarn.UsageError, match='fallback must be "pillow" or a function'):
        tarn.open(tmp_path / "d", "train", fallback="pil")


# --- Record packs ----------------------------------------------------------------------------


def tiles(tmp_path):
    images = [picture(12, 10, i) for i in range(5)]
    tarn.iac.build_pack(tmp_path / "t.iac", {"payload_type": "raw_bytes", "codec": "none"},
                        {"slide_idx": [0], "slide_id": ["s"], "patient_id": ["p"]},
                        {"item_id": [f"k{i}" for i in range(5)]}, [saved(image, "PNG") for image in images])
    return tmp_path / "t.iac", np.stack([np.asarray(image) for image in images])


def test_payloads_of_a_pack_without_a_codec_are_decoded_when_asked(tmp_path):
    path, images = tiles(tmp_path)
    assert isinstance(tarn.open(path)[0]["payload"], bytes)
    ds = tarn.open(path, decoders={"payload": "png"})
    assert (ds[1]["payload"] == images[1]).all()
    assert (next(iter(ds.loader(5)))["payload"] == images).all()
    for asked in (ds, tarn.open(path)):
        batch = next(iter(asked.loader(5, resize=(10, 12), fit="exact")))
        assert (batch["payload"] == images).all()
        assert next(iter(asked.loader(5, resize=8)))["payload"].shape == (5, 8, 8, 3)


@pytest.mark.parametrize("codec, data", [("png", lambda a: saved(Image.fromarray(a), "PNG")),
                                         ("jpeg", lambda a: saved(Image.fromarray(a), "JPEG")),
                                         ("jxl", lambda a: tarn.iac.encode_jxl_array(a, True, 0, 1))])
def test_payloads_of_a_pack_are_decoded_as_its_header_says(tmp_path, codec, data):
    """As the loader decodes them: alone and in loops, with all reading arguments."""
    images = [np.full((6, 7, 3), 40 * i, "u1") for i in range(3)]
    tarn.iac.build_pack(tmp_path / "c.iac", {"payload_type": "tile", "codec": codec}, {"slide_id": ["s"]},
                        {"n": [0, 1, 2]}, [data(image) for image in images])
    ds = tarn.open(tmp_path / "c.iac")
    loaded = next(iter(ds.loader(3)))["payload"]
    assert loaded.shape == (3, 6, 7, 3) and loaded.dtype == "u1"
    for found in ([sample["payload"] for sample in ds], [ds[i]["payload"] for i in range(3)],
                  [sample["payload"] for sample in ds.shuffle(1).select([2, 1, 0]).shard(0, 1) if sample["n"] >= 0]):
        assert sorted(image[0, 0, 0] for image in found) == sorted(loaded[:, 0, 0, 0])
        assert all(image.shape == (6, 7, 3) and image.dtype == "u1" for image in found)
    raw = tarn.open(tmp_path / "c.iac", decode="bytes")[1]["payload"]
    assert raw == data(images[1])
    assert bytes(tarn.open(tmp_path / "c.iac", decode=False)[1]["payload"]) == raw
    assert tarn.open(tmp_path / "c.iac", decoders={"payload": len})[1]["payload"] == len(raw)
    assert tarn.open(tmp_path / "c.iac", decoders={"payload": "bytes"})[1]["payload"] == raw
    assert tarn.open(tmp_path / "c.iac", images="pil")[1]["payload"].size == (7, 6)
    for options in ({"fallback": "pillow"}, {"exif": True}):
        assert (tarn.open(tmp_path / "c.iac", **options)[1]["payload"] == loaded[1]).all()


def test_a_payload_that_is_not_what_the_header_says_is_an_error_with_its_place(tmp_path):
    for codec in ("png", "jxl"):
        tarn.iac.build_pack(tmp_path / "c.iac", {"payload_type": "tile", "codec": codec}, {"slide_id": ["s"]},
                            {"n": [0]}, [b"no image"], overwrite=True)
        ds = tarn.open(tmp_path / "c.iac")
        for read in (lambda: ds[0], lambda: next(iter(ds.loader(1)))):
            with pytest.raises(tarn.FormatError, match="c.iac.*sample 0.*field payload: .* not a .*JPEG XL or binary PPM"):
                read()
    for codec in ("jpeg2000", "jpegls", "none"):  # the library has no decoder for these
        tarn.iac.build_pack(tmp_path / "c.iac", {"payload_type": "tile", "codec": codec}, {"slide_id": ["s"]},
                            {"n": [0]}, [b"no image"], overwrite=True)
        assert tarn.open(tmp_path / "c.iac")[0]["payload"] == b"no image"


def test_decoders_take_the_names_of_codecs(tmp_path):
    ds = tarn.open(pack(tmp_path, [{"a": b"5", "b": b'{"x": 1}', "c": saved(picture(6, 5), "PNG")}]), "train",
                   decoders={"a": "cls", "b": "json", "c": "png"})
    assert ds[0]["a"] == 5 and ds[0]["b"] == {"x": 1} and (ds[0]["c"] == np.asarray(picture(6, 5))).all()
    batch = next(iter(ds.loader(1, resize=4)))
    assert batch["a"].tolist() == [5] and batch["b"] == [{"x": 1}] and batch["c"].shape == (1, 4, 4, 3)
    with pytest.raises(tarn.UsageError, match=r"decoders\['a'\] must be a function, one of .* or the name of a codec"):
        tarn.open(tmp_path / "d", "train", decoders={"a": "nope"})
