"""Count and measure cells in microscope images, in a pool of processes: scikit-image."""

import contextlib
import json
import multiprocessing
from pathlib import Path

import numpy as np
from scipy import ndimage
from skimage import filters, measure, morphology, segmentation

SETTINGS = json.loads(Path("settings.json").read_text())
TURN = multiprocessing.get_context("fork").Lock() if SETTINGS.get("serial") else contextlib.nullcontext()


def make_slide(seed):
    side = int(320 * SETTINGS["size"])
    rng = np.random.default_rng(seed)
    points = np.zeros((side, side))
    points[tuple(rng.integers(0, side, (2, 120)))] = 1
    return filters.gaussian(points, 6) * 200 + rng.normal(0, 0.05, (side, side))


def foreground(slide):
    smooth = filters.gaussian(slide, 2)
    return morphology.opening(smooth > filters.threshold_otsu(smooth), morphology.disk(3))


def split(mask):
    distance = ndimage.distance_transform_edt(mask)
    seeds = measure.label(distance > 0.6 * distance.max())
    return segmentation.watershed(-distance, seeds, mask=mask)


def outline_length(cell):
    edge = cell.image ^ ndimage.binary_erosion(cell.image)
    return int(edge.sum())


def describe(cells, slide):
    found = measure.regionprops(cells, slide)
    return [(cell.area, cell.eccentricity, cell.intensity_mean, outline_length(cell)) for cell in found]


def process(seed):
    slide = make_slide(seed)
    with TURN:
        return describe(split(foreground(slide)), slide)


def main():
    with multiprocessing.get_context("fork").Pool(SETTINGS["workers"]) as pool:
        tables = pool.map(process, range(SETTINGS["work"]), chunksize=1)
        pool.close()
        pool.join()
    np.concatenate([np.array(table).reshape(-1, 4) for table in tables]).mean(axis=0)


main()
