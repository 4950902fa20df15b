#!/usr/bin/env python3
"""Small videos whose frames follow from a formula, coded without loss (ffmpeg 5.1.9, numpy 2.4.6).

Pixel (x, y) of frame k: blue 7k + 3x + 5y, green 11k + x, red 13k + 9y, each modulo 256.
turned*.mov say by how many degrees clockwise they are to be turned; this script checks that ffmpeg's own turn is what
tests/unit/video expects.
"""
import os, subprocess
import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
W, H, N = 10, 6, 13


def frames(n=N):
    k, y, x = np.meshgrid(np.arange(n), np.arange(H), np.arange(W), indexing="ij")
    return np.stack([7 * k + 3 * x + 5 * y, 11 * k + x, 13 * k + 9 * y], -1).astype(np.uint8)


def ffmpeg(*args, data=None):
    return subprocess.run(["ffmpeg", "-v", "error", "-y", "-bitexact", *args], input=data, stdout=subprocess.PIPE, check=True).stdout


def write(name, *how, n=N, rate="10"):
    ffmpeg("-f", "rawvideo", "-pix_fmt", "bgr24", "-s", f"{W}x{H}", "-r", rate, "-i", "-", *how, "-fflags", "+bitexact",
           f"{here}/{name}", data=frames(n).tobytes())


write("plain.mov", "-c:v", "png", "-pix_fmt", "rgb24")
write("counted.mkv", "-c:v", "ffv1", "-pix_fmt", "bgr0")
write("one.mkv", "-c:v", "ffv1", "-pix_fmt", "bgr0", n=1)
for degrees in (90, 180, 270):
    name = f"{here}/turned{degrees}.mov"
    ffmpeg("-i", f"{here}/plain.mov", "-frames:v", "2", "-c", "copy", "-metadata:s:v", f"rotate={360 - degrees}", name)
    shown = np.frombuffer(ffmpeg("-i", name, "-f", "rawvideo", "-pix_fmt", "bgr24", "-"), np.uint8)
    want = np.rot90(frames(2), -degrees // 90, (1, 2))
    assert (shown == want.ravel()).all(), degrees
