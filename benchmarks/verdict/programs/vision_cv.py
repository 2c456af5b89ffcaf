"""Follow edges and corners over frames: OpenCV and its own threads."""

import json
from pathlib import Path

import cv2
import numpy as np

SETTINGS = json.loads(Path("settings.json").read_text())


def make_frame(number, side):
    rng = np.random.default_rng(number)
    frame = np.full((side, side, 3), 40, np.uint8)
    for _ in range(20):
        a, b = rng.integers(0, side, (2, 2)).tolist()
        cv2.rectangle(frame, a, b, rng.integers(0, 255, 3).tolist(), 3)
    return frame


def smooth(frame):
    return cv2.bilateralFilter(frame, 5, 40, 40)


def outlines(frame):
    return cv2.Canny(cv2.GaussianBlur(cv2.cvtColor(frame, cv2.COLOR_BGR2GRAY), (7, 7), 0), 40, 120)


def warp(frame, angle):
    side = len(frame)
    matrix = cv2.getRotationMatrix2D((side / 2, side / 2), angle, 1.1)
    return cv2.warpAffine(frame, matrix, (side, side), flags=cv2.INTER_CUBIC)


def histogram(edges):
    return np.bincount((edges > 0).nonzero()[0], minlength=len(edges))


def main():
    cv2.setNumThreads(SETTINGS["threads"])
    side = int(480 * SETTINGS["size"])
    for number in range(SETTINGS["work"]):
        frame = warp(make_frame(number, side), number % 30)
        histogram(outlines(smooth(frame)))


main()
