"""Features of sensor recordings: filter, spectra, bands, and a covariance over all of them."""

import json
import sys

import numpy as np
from scipy import signal

RATE = 1000.0


def load_settings(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def make_recording(rng, channels, samples):
    """One recording: a hum, a drift, and noise."""
    time = np.arange(samples) / RATE
    hum = np.sin(2 * np.pi * 50 * time)
    drift = np.cumsum(rng.standard_normal((channels, samples)), axis=1) * 0.01
    return rng.standard_normal((channels, samples)) + hum + drift


def clean(recording):
    """Without the hum and the drift."""
    low, high = 1.0, 200.0
    sections = signal.butter(4, [low, high], "bandpass", fs=RATE, output="sos")
    notch = signal.iirnotch(50.0, 30.0, fs=RATE)
    return signal.lfilter(*notch, signal.sosfiltfilt(sections, recording, axis=1), axis=1)


def spectra(recording, window):
    """Power in each frequency, for each channel."""
    _, power = signal.welch(recording, fs=RATE, nperseg=window, axis=1)
    return power


def bands(power):
    """Power in ten bands."""
    return np.stack([part.sum(axis=1) for part in np.array_split(power, 10, axis=1)], axis=1)


def covariance(recording):
    """Between the channels."""
    centred = recording - recording.mean(axis=1, keepdims=True)
    return centred @ centred.T / recording.shape[1]


def main():
    settings = load_settings(sys.argv[1])
    rng = np.random.default_rng(4)
    features, together = [], 0.0
    for _ in range(settings["recordings"]):
        recording = clean(make_recording(rng, settings["channels"], settings["samples"]))
        features.append(bands(spectra(recording, settings["window"])))
        together = together + covariance(recording)
    loads = np.linalg.eigvalsh(together)
    print(f"{len(features)} recordings, first load {loads[-1] / loads.sum():.3f}")


if __name__ == "__main__":
    main()
