#!/usr/bin/env python3
"""Writes what stands beside it.  make_audio.py REFERENCE, the folder of the reference fixtures' speech model.

numpy, transformers (without torch: its numpy path), soundfile, soxr and safetensors; versions are in ../README.md.
golden.safetensors holds, a case, every 17th number from a case's own first one on; cases.txt says of what.
"""
import json, os, shutil, struct, sys
import numpy as np, soundfile as sf, soxr
from safetensors.numpy import load_file, save_file
from transformers import WhisperFeatureExtractor

HERE = os.path.dirname(os.path.abspath(__file__))
REF = sys.argv[1]
STRIDE = 17
rng = np.random.default_rng(110)
tensors, lines, bad = {}, [], []


def path(name):
    return os.path.join(HERE, name)


def keep(name, x):
    first = len(tensors) % STRIDE
    tensors[name] = np.ascontiguousarray(x.astype(np.float32).reshape(-1)[first::STRIDE])
    return first


def sweep(rate, seconds, channels):
    t = np.arange(int(rate * seconds)) / rate
    out = []
    for c in range(channels):
        x = 0.4 * np.sin(2 * np.pi * (200 + 100 * c + 900 * t) * t) + 0.02 * rng.standard_normal(t.size)
        out.append(x * np.clip(np.minimum(t, t[-1] - t) * 20, 0, 1))
    return np.stack(out, 1)


def mono(name):
    x, rate = sf.read(path(name), dtype="float32", always_2d=True)
    return x.mean(axis=1, dtype=np.float64).astype(np.float32), rate


def decoded(name):
    x, rate = mono(name)
    lines.append(f"decode {name} {rate} {x.size} {keep(name, x)}")


def resampled(name, to):
    x, rate = mono(name)
    n = -(-x.size * to // rate)
    y = soxr.resample(x, rate, to, quality="HQ")[:n]
    y = np.pad(y, (0, n - y.size))
    key = f"{name}@{to}"
    lines.append(f"resample {name} {to} {n} {keep(key, y)}")


def features(name, config):
    """All stretches, each as the extractor makes it of its part alone."""
    fe = WhisperFeatureExtractor.from_dict(json.load(open(path(config))))
    x, rate = mono(name)
    if rate != fe.sampling_rate:
        n = -(-x.size * fe.sampling_rate // rate)
        x = soxr.resample(x, rate, fe.sampling_rate, quality="HQ")[:n]
        x = np.pad(x, (0, n - x.size))
    parts = [fe(x[i : i + fe.n_samples], sampling_rate=fe.sampling_rate)["input_features"][0]
             for i in range(0, x.size, fe.n_samples)]
    y = np.stack(parts)
    key = f"{name}+{config}"
    lines.append(f"features {name} {config} {y.shape[0]} {y.shape[1]} {y.shape[2]} {keep(key, y)}")


def write(name, data, rate, subtype, **how):
    sf.write(path(name), data, rate, subtype=subtype, **how)
    file = bytearray(raw(name))
    peak = file.find(b"PEAK")  # float files carry the time of writing
    if peak >= 0:
        file[peak + 12 : peak + 16] = b"\0" * 4
        open(path(name), "wb").write(file)


def config(name, **keys):
    json.dump({"feature_extractor_type": "WhisperFeatureExtractor", **keys}, open(path(name), "w"), indent=1)


def refused(verdict, name, data, words):
    with open(path(name), "wb") as f:
        f.write(data)
    bad.append(f"{verdict} {name} {words}")


def raw(name):
    return open(path(name), "rb").read()


# ---- recordings ----
for name in ("chirp.wav", "noise_tones.wav"):
    shutil.copyfile(os.path.join(REF, "golden", name), path(name))
shutil.copyfile(os.path.join(REF, "preprocessor_config.json"), path("short.json"))
write("s16_stereo_44k.wav", sweep(44100, 0.15, 2), 44100, "PCM_16")
write("s24_8k.wav", sweep(8000, 0.3, 1), 8000, "PCM_24")
write("s32_22k.wav", sweep(22050, 0.1, 1), 22050, "PCM_32")
write("u8_11k.wav", sweep(11025, 0.3, 1), 11025, "PCM_U8")
write("f32_3ch_48k.wav", 1.5 * sweep(48000, 0.05, 3), 48000, "FLOAT")
write("f64_16k.wav", sweep(16000, 0.1, 1), 16000, "DOUBLE")
write("ulaw_8k.wav", sweep(8000, 0.3, 1), 8000, "ULAW")
write("alaw_8k.wav", sweep(8000, 0.3, 1), 8000, "ALAW")
write("wavex_4ch.wav", sweep(16000, 0.05, 4), 16000, "PCM_16", format="WAVEX")
write("s16_stereo_48k.flac", sweep(48000, 0.2, 2), 48000, "PCM_16")
write("s24_32k.flac", sweep(32000, 0.15, 1), 32000, "PCM_24")
write("s8_16k.flac", sweep(16000, 0.3, 1), 16000, "PCM_S8")
write("one_sample.wav", np.array([[0.5]]), 16000, "PCM_16")
write("long_2k.wav", sweep(2000, 5.3, 1), 2000, "PCM_U8")
stream = bytearray(raw("s24_8k.wav"))
at = stream.find(b"data")
stream[4:8] = stream[at + 4 : at + 8] = b"\xff" * 4
open(path("stream_8k.wav"), "wb").write(stream)

config("real.json", feature_size=80, sampling_rate=16000, hop_length=160, chunk_length=30, n_fft=400)
config("large_v3.json", feature_size=128, chunk_length=1)
config("odd.json", feature_size=40, sampling_rate=11025, hop_length=131, chunk_length=1, n_fft=375, padding_value=0.25)
config("power2.json", feature_size=23, sampling_rate=8000, hop_length=80, chunk_length=2, n_fft=256)
config("prime.json", feature_size=20, hop_length=400, chunk_length=1, n_fft=2 * 3 * 7 * 11)
config("sparse.json", feature_size=200, sampling_rate=48000, hop_length=1000, chunk_length=1, n_fft=512)

# ---- what the references make of them ----
wavs = sorted(f for f in os.listdir(HERE) if f.endswith((".wav", ".flac")) and ".bad." not in f)
for f in wavs:
    decoded(f)
for f, to in (("s16_stereo_44k.wav", 16000), ("s24_8k.wav", 16000), ("f32_3ch_48k.wav", 16000), ("u8_11k.wav", 16000),
              ("s32_22k.wav", 16000), ("s24_32k.flac", 16000), ("chirp.wav", 11025), ("long_2k.wav", 48000),
              ("f32_3ch_48k.wav", 1000), ("one_sample.wav", 44100)):
    resampled(f, to)
for f, c in (("chirp.wav", "short.json"), ("noise_tones.wav", "short.json"), ("noise_tones.wav", "real.json"),
             ("chirp.wav", "large_v3.json"), ("chirp.wav", "odd.json"), ("long_2k.wav", "power2.json"),
             ("one_sample.wav", "large_v3.json"), ("s16_stereo_48k.flac", "prime.json"),
             ("s16_stereo_44k.wav", "sparse.json"), ("s16_stereo_44k.wav", "short.json")):
    features(f, c)
# The fixtures' own, which torch made.
for case in ("chirp", "noise_tones"):
    x = load_file(os.path.join(REF, "golden", case + ".safetensors"))["input_features"]
    lines.append(f"torch {case}.wav short.json 1 80 200 {keep('torch.' + case, x)}")
thirty = load_file(os.path.join(REF, "golden", "logmel30.safetensors"))
tensors["logmel30.index"] = thirty["sample_index"]
tensors["logmel30.sample"] = thirty["sample"]
tensors["mel_filters"] = thirty["mel_filters"]

# ---- refused ----
good, tone = raw("s16_stereo_44k.wav"), raw("s8_16k.flac")
data = good.find(b"data")


def wav(bits=16, channels=1, rate=16000, tag=1, body=b"\0" * 64, align=None):
    align = align if align is not None else channels * bits // 8
    fmt = struct.pack("<HHIIHH", tag, channels, rate, rate * align & 0xFFFFFFFF, align, bits)
    chunks = b"fmt " + struct.pack("<I", len(fmt)) + fmt + b"data" + struct.pack("<I", len(body)) + body
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def patched(x, at, with_):
    return x[:at] + with_ + x[at + len(with_) :]


refused("EFORMAT", "empty.bad.wav", b"", "empty (0 bytes)")
refused("EUNSUP", "text.bad.wav", b"once upon a time", "give WAV or FLAC")
refused("EUNSUP", "mp3.bad.wav", b"\xff\xfb\x90\x64" + b"\0" * 60, "this is MP3")
refused("EUNSUP", "id3.bad.flac", b"ID3\4\0\0\0\0\0\0", "ID3 tag")
refused("EUNSUP", "ogg.bad.wav", b"OggS" + b"\0" * 40, "this is Ogg")
refused("EUNSUP", "aiff.bad.wav", b"FORM\0\0\0\0AIFF", "this is AIFF")
refused("EUNSUP", "rf64.bad.wav", b"RF64" + good[4:100], "RF64")
refused("EUNSUP", "m4a.bad.wav", b"\0\0\0\x20ftypM4A ", "MP4 or M4A")
refused("EUNSUP", "aac.bad.wav", b"\xff\xf1\x50\x80", "this is AAC")
refused("EFORMAT", "cut.bad.wav", good[:5000], "bytes and 4956 are left")
refused("EFORMAT", "cut_head.bad.wav", good[:20], "declares 16 bytes and 0 are left")
refused("EFORMAT", "no_data.bad.wav", good[:data], "no data chunk")
refused("EFORMAT", "chunk_lies.bad.wav", patched(good, 16, b"\xf0\xff\xff\xff"), "declares 4294967280 bytes")
refused("EFORMAT", "no_fmt.bad.wav", b"RIFF\x2c\0\0\0WAVE" + good[data : data + 4] + b"\x20\0\0\0" + b"\0" * 32,
        "headers are damaged")
refused("EFORMAT", "no_samples.bad.wav", wav(body=b""), "holds no samples")
refused("EFORMAT", "channels0.bad.wav", wav(channels=0, align=2), "headers are damaged")
refused("ELIMIT", "channels200.bad.wav", wav(channels=200, body=b"\0" * 800), "200 channels: the limit is 32")
refused("ELIMIT", "rate5.bad.wav", wav(rate=5), "5 samples a second")
refused("ELIMIT", "rate2g.bad.wav", wav(rate=2**31 - 1), "2147483647 samples a second")
write("adpcm.bad.wav", sweep(8000, 0.05, 1), 8000, "IMA_ADPCM")
bad.append("EUNSUP adpcm.bad.wav IMA ADPCM coding is not read")
refused("EFORMAT", "nan.bad.wav", wav(bits=32, tag=3, body=struct.pack("<4f", 0, 0.5, float("nan"), 0)),
        "sample 2 of the WAV data is no number")
refused("EFORMAT", "inf.bad.wav", wav(bits=32, tag=3, body=struct.pack("<4f", 0, 0.5, 0, -float("inf"))),
        "sample 3 of the WAV data is no number")
refused("EFORMAT", "cut.bad.flac", tone[: len(tone) // 2], "FLAC data")
refused("EFORMAT", "cut_head.bad.flac", tone[:30], "its headers need 42")
refused("EFORMAT", "no_info.bad.flac", patched(tone, 4, b"\4"), "does not begin with its STREAMINFO")
refused("EUNSUP", "no_length.bad.flac", patched(tone, 21, bytes([tone[21] & 0xF0, 0, 0, 0, 0])),
        "does not say how many samples")
refused("ELIMIT", "bomb.bad.flac", patched(tone, 21, bytes([tone[21] | 0x0F]) + b"\xff" * 4), "the limit is 67108864")
refused("EFORMAT", "more.bad.flac", patched(tone, 21, bytes([tone[21] & 0xF0, 0, 0, 0xFF, 0xFF])), "FLAC data")
refused("EFORMAT", "damaged.bad.flac", patched(tone, len(tone) - 700, bytes(b ^ 0x5A for b in tone[-700:-600])),
        "FLAC data")

open(path("cases.txt"), "w").write("\n".join(lines) + "\n")
open(path("bad.txt"), "w").write("\n".join(bad) + "\n")
save_file(tensors, path("golden.safetensors"))
for f in os.listdir(HERE):
    os.chmod(path(f), 0o644)
