"""Decode, scale and sharpen pictures in a pool of threads: Pillow, which lets go of the interpreter lock."""

import io
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter, ImageOps

SETTINGS = json.loads(Path("settings.json").read_text())


def make_picture(seed):
    side = int(420 * SETTINGS["size"])
    noise = np.random.default_rng(seed).integers(0, 255, (side // 8, side // 8, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).resize((side, side)).save(buffer, "JPEG", quality=85)
    return buffer.getvalue()


def decode(data):
    return Image.open(io.BytesIO(data)).convert("RGB")


def sharpen(image):
    return image.filter(ImageFilter.UnsharpMask(3, 120, 2))


def scale(image):
    return ImageOps.fit(image, (128, 128), Image.Resampling.LANCZOS)


def signature(image):
    values = list(image.convert("L").resize((32, 32)).tobytes())
    mean = sum(values) / len(values)
    return "".join("1" if value > mean else "0" for value in values)


def thumbnail(data):
    return signature(scale(sharpen(decode(data))))


def main():
    pictures = [make_picture(seed) for seed in range(8)]
    with ThreadPoolExecutor(SETTINGS["threads"]) as pool:
        for _ in range(SETTINGS["work"]):
            list(pool.map(thumbnail, pictures))


main()
