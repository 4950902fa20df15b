#!/usr/bin/env python3
"""Pictures and what a reference decoder makes of them.

    make_images.py FIXTURES     FIXTURES: folder of the reference fixtures' images/, copied as they are

Writes here: the pictures, pixels.txt (what to expect of each), bad.txt (what is refused, and how), and for
JPEG, whose decoders differ by a level or two, the reference pixels in *.rgb.
Made with pillow 13.0.0, numpy 2.4.6.
"""
import io, json, os, struct, sys, zlib
import numpy as np
from PIL import Image, ImageOps
from safetensors.numpy import load_file

here = os.path.dirname(os.path.abspath(__file__))
fixtures = sys.argv[1]
rows, bad = [], []


def put(name, data):
    with open(os.path.join(here, name), "wb") as f:
        f.write(data)


def expect(name, alpha, rgb):
    """alpha: composite, drop or any"""
    rgb = np.ascontiguousarray(rgb.astype(np.uint8))
    h, w, _ = rgb.shape
    lossy = name.endswith(".jpg")
    if lossy:
        put(name + ".rgb", rgb.tobytes())
    rows.append(f"{alpha:9} {w:4} {h:4} {zlib.crc32(rgb.tobytes()):08x} {'near' if lossy else 'same'} {name}")


def reference(data):
    """(over white, alpha dropped), both upright"""
    p = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    if p.mode == "I;16":
        g = (np.array(p) >> 8).astype(np.uint8)[..., None].repeat(3, 2)
        return g, g
    rgba = p.convert("RGBA")
    white = Image.alpha_composite(Image.new("RGBA", rgba.size, (255, 255, 255)), rgba).convert("RGB")
    return np.array(white), np.array(p.convert("RGB"))


def picture(name, data, pixels=None):
    put(name, data)
    white, drop = (pixels, pixels) if pixels is not None else reference(data)
    if (white == drop).all():
        expect(name, "any", white)
    else:
        expect(name, "composite", white)
        expect(name, "drop", drop)


def save(im, **kw):
    b = io.BytesIO()
    im.save(b, **kw)
    return b.getvalue()


# 1. The fixtures, against their own decoded pixels.
decoded = load_file(f"{fixtures}/golden/decoded.safetensors")
for case in json.load(open(f"{fixtures}/golden/manifest.json"))["images"]:
    f = case["file"]
    if f == "photo.jpg":
        continue  # 320 kB of pixels
    put(f, open(f"{fixtures}/{f}", "rb").read())
    def t(kind):
        a = decoded.get(f"{f}/{kind}")
        return a if a is None or a.ndim == 3 else a[..., None].repeat(3, 2)
    plain = t("rgb_exif_transposed")
    if plain is None:
        plain = t("rgb")
    if f == "gray16.png":
        plain = t("raw_I_16").astype(np.uint16) >> 8
    white = t("rgb_on_white")
    if white is None:
        expect(f, "any", plain)
    else:
        expect(f, "composite", white)
        expect(f, "drop", plain)

# 2. More kinds, small.
rng = np.random.default_rng(20)
def soft(w, h, c):
    return np.array(Image.fromarray(rng.integers(0, 256, (4, 4, 4), dtype=np.uint8), "RGBA").resize((w, h)))[..., :c]
for o in range(1, 9):
    e = Image.Exif()
    e[0x0112] = o
    im = Image.fromarray(soft(9, 6, 3))
    picture(f"turn{o}.png", save(im, format="PNG", exif=e))
    picture(f"turn{o}.webp", save(im, format="WEBP", lossless=True, exif=e))
    picture(f"turn{o}.jpg", save(im, format="JPEG", quality=90, exif=e))
a = soft(21, 14, 4)
a[:3, :3, 3] = 0
picture("lossy.webp", save(Image.fromarray(a[..., :3]), format="WEBP", quality=80))
picture("lossy_alpha.webp", save(Image.fromarray(a), format="WEBP", quality=80))
picture("lossless_alpha.webp", save(Image.fromarray(a), format="WEBP", lossless=True, exact=True))
clear = a.copy()
clear[..., 3] = 0
picture("clear.png", save(Image.fromarray(clear), format="PNG"))
p = Image.fromarray(a[..., :3]).quantize(200)
picture("palette8.png", save(p, format="PNG"))
picture("palette1.bmp", save(Image.fromarray(a[..., :3]).quantize(2), format="BMP"))
picture("palette8.bmp", save(p, format="BMP"))
picture("restart_420.jpg", save(Image.fromarray(soft(45, 33, 3)), format="JPEG", quality=70, subsampling=2,
                                restart_marker_blocks=2))
picture("strip_1x300.png", save(Image.fromarray(soft(1, 300, 3)), format="PNG"))


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(w, h, bits, color, raw_rows, extra=b"", lace=0):
    head = struct.pack(">IIBBBBB", w, h, bits, color, 0, 0, lace)
    body = zlib.compress(b"".join(b"\0" + r for r in raw_rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + extra + chunk(b"IDAT", body) + chunk(b"IEND", b"")


# 16 bits: the high byte, also under tRNS and alpha; 2- and 4-bit gray.
v = rng.integers(0, 65536, (5, 7, 4), dtype=np.uint16)
hi = (v >> 8).astype(np.uint8)
def over_white(c, al):
    t = c.astype(int) * al.astype(int) + 255 * (255 - al.astype(int)) + 128
    return ((t + (t >> 8)) >> 8).astype(np.uint8)
name = "rgba16.png"
put(name, png(7, 5, 16, 6, [r.astype(">u2").tobytes() for r in v]))
expect(name, "composite", over_white(hi[..., :3], hi[..., 3:]))
expect(name, "drop", hi[..., :3])
name = "gray16_trns.png"
g = v[..., 0]
put(name, png(7, 5, 16, 0, [r.astype(">u2").tobytes() for r in g], chunk(b"tRNS", struct.pack(">H", int(g[2, 3])))))
al = np.where(g == g[2, 3], 0, 255).astype(np.uint8)
expect(name, "composite", over_white(hi[..., :1], al[..., None]).repeat(3, 2))
expect(name, "drop", hi[..., :1].repeat(3, 2))
for bits in (2, 4):
    s = rng.integers(0, 1 << bits, (3, 8 // bits * 2), dtype=np.uint8)
    packed = [bytes(sum(int(x) << (8 - bits * (k + 1)) for k, x in enumerate(r[i:i + 8 // bits]))
                    for i in range(0, len(r), 8 // bits)) for r in s]
    name = f"gray{bits}.png"
    put(name, png(s.shape[1], 3, bits, 0, packed))
    expect(name, "any", (s * (255 // ((1 << bits) - 1)))[..., None].repeat(3, 2))
# A text bomb beside good pixels is never inflated; a colour profile changes nothing.
bomb = zlib.compress(b"\0" * (64 << 20), 9)
rgb = soft(6, 4, 3)
picture("text_bomb.png", png(6, 4, 8, 2, [r.tobytes() for r in rgb],
                             chunk(b"zTXt", b"k\0\0" + bomb) + chunk(b"gAMA", struct.pack(">I", 10000))), rgb)

# GIF, block by block: codes that are never joined, a clear before the table grows.
def gif_rows(indices, bits, end=True):
    codes, n, acc = [], 0, 0
    for k, v in enumerate(indices):
        codes += [1 << bits] * (k % ((1 << bits) - 2) == 0) + [int(v)]
    for c in codes + [(1 << bits) + 1] * end:
        acc |= c << n
        n += bits + 1
    raw = acc.to_bytes((n + 7) // 8, "little")
    return bytes([bits]) + b"".join(bytes([len(raw[i:i + 255])]) + raw[i:i + 255] for i in range(0, len(raw), 255)) + b"\0"


def gif_frame(x, y, w, h, indices, bits, colors=b"", laced=0, clear=None):
    control = b"" if clear is None else b"\x21\xf9\x04" + struct.pack("<BHBB", 1, 0, clear, 0)
    kind = laced << 6 | (0x80 | bits - 1 if colors else 0)
    return control + b"\x2c" + struct.pack("<HHHHB", x, y, w, h, kind) + colors + gif_rows(indices, bits)


def gif(w, h, colors, *frames, end=b"\x3b"):
    size = (len(colors) // 3 - 1).bit_length() - 1
    return b"GIF89a" + struct.pack("<HHBBB", w, h, 0x80 | size if colors else 0, 0, 0) + colors + b"".join(frames) + end


more = np.random.default_rng(150)
def dots(n, top):
    return more.integers(0, top, n)
def colors(n):
    return more.integers(0, 256, 3 * n, dtype=np.uint8).tobytes()
picture("laced.gif", save(p, format="GIF", interlace=1))
picture("small_frame.gif", gif(19, 13, colors(8), gif_frame(4, 3, 9, 7, dots(63, 16), 4, colors(16), clear=5)))
picture("beyond.gif", gif(6, 5, colors(4), b"\x21\xfe\x03few\0", gif_frame(3, 2, 11, 17, dots(187, 4), 2, laced=1),
                          gif_frame(0, 0, 2, 2, dots(4, 4), 2)))
picture("no_colors.gif", gif(9, 7, b"", gif_frame(0, 0, 9, 7, dots(63, 128), 7)))
picture("few_colors.gif", gif(8, 8, colors(4), gif_frame(0, 0, 8, 8, dots(64, 8), 3)))


# BMP: runs, channels of 5, 6 and 5 bits, channels in another order.
def bmp(w, h, bits, kind, palette, body, masks=b""):
    at = 54 + len(masks) + len(palette)
    return (b"BM" + struct.pack("<IIIIiiHHIIiiII", at + len(body), 0, at, 40, w, h, 1, bits, kind, len(body), 0, 0, 0, 0)
            + masks + palette + body)


def four(n):
    return more.integers(0, 256, 4 * n, dtype=np.uint8).tobytes()
eight = bytes([3, 7, 0, 4, 1, 2, 3, 4, 2, 9, 0, 0, 0, 3, 5, 6, 7, 0, 0, 2, 2, 1, 5, 8, 0, 0, 9, 1, 0, 0, 9, 250, 0, 1])
picture("runs8.bmp", bmp(9, 5, 8, 1, four(256), eight))
nibbles = bytes([5, 0x12, 0, 4, 0x34, 0x56, 0, 0, 0, 5, 0x9a, 0xbc, 0xd0, 0, 4, 0xef, 0, 0, 9, 0x77, 0, 1])
picture("runs4.bmp", bmp(9, 3, 4, 2, four(16), nibbles))
picture("five_six_five.bmp", bmp(5, 3, 16, 3, b"", more.integers(0, 256, 36, dtype=np.uint8).tobytes(),
                                 struct.pack("<III", 0xF800, 0x7E0, 0x1F)))


# 3. What is refused: verdict, file, words of the message.
def refuse(verdict, name, data, *words):
    put(name, data)
    bad.append(f"{verdict:8} {name:24} {' '.join(words)}")


def jpeg_of(w, h):
    d = bytearray(save(Image.new("RGB", (8, 8)), format="JPEG"))
    i = d.index(b"\xff\xc0")
    d[i + 5:i + 9] = struct.pack(">HH", h, w)
    return bytes(d)


refuse("EFORMAT", "empty.bad", b"", "0 bytes")
refuse("ELIMIT", "bomb.bad.png", png(20000, 20000, 8, 2, [])[:60], "20000 x 20000 = 400000000 pixels, the limit is 100000000")
refuse("ELIMIT", "bomb.bad.jpg", jpeg_of(65000, 65000), "65000 x 65000")
refuse("ELIMIT", "bomb.bad.webp", save(Image.new("RGB", (16383, 16383)), format="WEBP", lossless=True), "16383 x 16383")
refuse("ELIMIT", "bomb.bad.bmp", b"BM" + struct.pack("<IIIIiiHHIIiiII", 54, 0, 54, 40, 30000, 30000, 1, 24, 0, 0, 0, 0, 0, 0), "30000 x 30000")
refuse("EFORMAT", "short.bad.png", png(9000, 9000, 8, 2, []), "too short for the declared size")
refuse("EFORMAT", "short.bad.jpg", jpeg_of(9000, 9000), "too short for the declared size")
refuse("EFORMAT", "zero_wide.bad.png", png(0, 5, 8, 2, []), "0 x 5")
refuse("EFORMAT", "depth.bad.png", png(4, 4, 3, 2, [b"\0" * 12] * 4), "damaged")
refuse("EFORMAT", "no_header.bad.png", b"\x89PNG\r\n\x1a\n" + chunk(b"IDAT", b"") * 3, "header chunk")
refuse("EUNSUP", "packed.bad.bmp", b"BM" + struct.pack("<IIIIiiHHIIiiII", 54, 0, 54, 40, 4, 4, 1, 24, 5, 0, 0, 0, 0, 0), "compressed BMP")
refuse("EFORMAT", "runs.bad.bmp", bmp(9, 5, 8, 1, four(256), eight[:14]), "the BMP's runs end early: 1 of 5 rows")
refuse("EFORMAT", "down.bad.bmp", bmp(9, -5, 8, 1, four(256), eight), "rows run downwards")
flat = gif_frame(0, 0, 4, 4, dots(16, 4), 2)
refuse("EFORMAT", "cut.bad.gif", gif(4, 4, colors(4), flat, end=b""), "ends early")
refuse("EFORMAT", "codes.bad.gif", gif(4, 4, colors(4), gif_frame(0, 0, 4, 4, dots(9, 4), 2)), "damaged before byte")
refuse("EFORMAT", "block.bad.gif", gif(4, 4, colors(4), flat, b"\x99"), "no block begins with 99")
refuse("EFORMAT", "nothing.bad.gif", gif(4, 4, colors(4)), "holds no picture")
refuse("EFORMAT", "zero_wide.bad.gif", gif(4, 4, colors(4), gif_frame(0, 0, 0, 5, dots(1, 4), 2)), "0 x 5")
refuse("ELIMIT", "bomb.bad.gif", gif(20000, 20000, colors(4), flat), "20000 x 20000")
refuse("EFORMAT", "cut.bad.bmp", b"BM" + struct.pack("<IIIIiiHHIIiiII", 54, 0, 54, 40, 4, 4, 1, 24, 0, 0, 0, 0, 0, 0), "cut short")
frames = [Image.new("RGB", (8, 8), c) for c in ("red", "blue")]
refuse("EUNSUP", "moving.bad.webp", save(frames[0], format="WEBP", save_all=True, append_images=frames[1:]), "animated WebP")
one = Image.new("RGB", (3, 2), "red")
refuse("EUNSUP", "tiff.bad", save(one, format="TIFF"), "TIFF")
refuse("EUNSUP", "ppm.bad", save(one, format="PPM"), "PPM")
refuse("EUNSUP", "jp2.bad", b"\0\0\0\x0cjP  \r\n\x87\n" + bytes(20), "JPEG 2000")
refuse("EUNSUP", "jxl.bad", b"\xff\x0a" + bytes(20), "JPEG XL")
refuse("EUNSUP", "heic.bad", b"\0\0\0\x18ftypheic" + bytes(12), "HEIC")
refuse("EUNSUP", "avif.bad", b"\0\0\0\x18ftypavif" + bytes(12), "AVIF")
refuse("EUNSUP", "svg.bad", b"<?xml version='1.0'?>\n<svg xmlns='http://www.w3.org/2000/svg'/>", "SVG")
refuse("EUNSUP", "pdf.bad", b"%PDF-1.7\n", "PDF")
refuse("EUNSUP", "text.bad", b"not a picture\n", "plain text")
refuse("EUNSUP", "noise.bad", bytes(range(1, 33)), "no known picture format: the 32 bytes begin with 01 02")
# Scans without end: a progressive file whose first scan stands there 200 times.
d = save(Image.fromarray(soft(16, 16, 3)), format="JPEG", progressive=True)
first = d.index(b"\xff\xda")
end = first + 2
while not (d[end] == 0xff and d[end + 1] != 0):
    end += 1
refuse("ELIMIT", "scans.bad.jpg", d[:end] + d[first:end] * 200 + d[end:], "100 scans")

with open(os.path.join(here, "pixels.txt"), "w") as f:
    f.write("# alpha   w    h    crc32 of [h,w,3]  how  file   (make_images.py, do not edit)\n" + "\n".join(rows) + "\n")
with open(os.path.join(here, "bad.txt"), "w") as f:
    f.write("# verdict file   words of the message   (make_images.py, do not edit)\n" + "\n".join(bad) + "\n")
