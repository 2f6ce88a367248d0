"""Pictures for the benchmarks. They are drawn, but have detail at every scale like photographs, so that a JPEG
decoder has the same amount of work. Needs NumPy only.
"""
import numpy as np

WIDTH, HEIGHT = 500, 375
NOISE = 16
SCALES = (4, 8, 16, 32, 64, 128, 256)


def stretching(to, size):
    """The matrix that interpolates size values linearly to the wanted number."""
    at = np.linspace(0, size - 1, to)
    low = np.minimum(at.astype(int), size - 2)
    matrix = np.zeros((to, size), np.float32)
    matrix[np.arange(to), low] = 1 - (at - low)
    matrix[np.arange(to), low + 1] = at - low
    return matrix


def picture(rng, width=WIDTH, height=HEIGHT, noise=NOISE):
    """An array of RGB bytes. Noise decides the size of its JPEG: with 16 and quality 90 it has
    nearly the 91 KB of data set d2, with 3 half of that."""
    image = np.zeros((height, width, 3), np.float32)
    for size in SCALES:
        grain = rng.integers(0, 256, (3, size, size)).astype(np.float32)
        image += (stretching(height, size) @ grain @ stretching(width, size).T).transpose(
            1, 2, 0) * (30 / size ** 0.6)
    image = (image - image.min()) / (image.max() - image.min()) * 255
    return (image + rng.normal(0, noise, image.shape)).clip(0, 255).astype("u1")
