"""JPEG to 224 x 224 by Pillow, and the classes for torch's DataLoader. torch is imported late,
because not every environment has it."""
import io
import json

SIDE = 224


def decode(jpg, draft=False):
    """An array of bytes; draft lets the decoder skip detail that resizing would drop anyway."""
    import numpy as np
    import PIL.Image
    image = PIL.Image.open(io.BytesIO(jpg))
    if draft:
        image.draft("RGB", (SIDE, SIDE))
    return np.asarray(image.convert("RGB").resize((SIDE, SIDE), PIL.Image.Resampling.BILINEAR))


def pair(jpg, text, draft=False):
    """The result for a sample of d2."""
    return decode(jpg, draft), json.loads(bytes(text))["label"]


def stack(pairs):
    import numpy as np
    return np.stack([p[0] for p in pairs]), [p[1] for p in pairs]


def loader(dataset, batch, workers, **more):
    """torch's DataLoader: persistent workers, which also collate the batches."""
    import torch.utils.data
    torch.set_num_threads(1)
    more = {"shuffle": True, "collate_fn": stack, "persistent_workers": True, **more}
    return torch.utils.data.DataLoader(dataset, batch_size=batch, num_workers=workers, **more)
