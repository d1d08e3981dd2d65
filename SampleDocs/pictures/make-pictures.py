#!/usr/bin/env python3
"""Computes the pictures of the Notes sample, or covers for the Library sample. Nothing but Python is needed; the same bytes
come out each time.

Usage: make-pictures.py [FOLDER]
       make-pictures.py FOLDER COVERS    writes 1.png, 2.png … as many as COVERS says
"""
import os
import struct
import sys
import zlib


def png(path, width, height, colour):
    """Writes an RGB picture whose pixels the function colour(x, y) gives."""
    rows = bytearray()
    for y in range(height):
        rows.append(0)
        for x in range(width):
            rows += bytes(colour(x, y))

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        file.write(chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)))
        file.write(chunk(b"IDAT", zlib.compress(bytes(rows), 9)))
        file.write(chunk(b"IEND", b""))


def escape_time(cx, cy, x, y, limit):
    """The number of steps until the point (x, y) leaves the circle of radius 2."""
    for step in range(limit):
        if x * x + y * y > 4:
            return step
        x, y = x * x - y * y + cx, 2 * x * y + cy
    return limit


def mandelbrot(width, height):
    def colour(px, py):
        # A valley full of spirals at the edge of the set, where neighbouring points differ.
        x = -0.7463 + (px - width / 2) * 0.0065 / width
        y = 0.1102 + (py - height / 2) * 0.0065 / width
        steps = escape_time(x, y, 0.0, 0.0, 600)
        if steps == 600:
            return (12, 12, 40)
        return (steps * 7 % 256, steps * 3 % 256, 255 - steps * 5 % 256)

    return colour


def julia(width, height):
    def colour(px, py):
        x = (px - width / 2) * 3.2 / width
        y = (py - height / 2) * 3.2 / width
        steps = escape_time(-0.8, 0.156, x, y, 64)
        return (255 - steps * 4 + 1 if steps else 255, 250 - steps * 3, 240 - steps * 2)

    return colour


def chessboard(px, py):
    return (238, 217, 181) if (px // 20 + py // 20) % 2 == 0 else (148, 97, 62)


def cover(number):
    """A cloth binding with a label, and an ornament that the number decides about."""
    hue = number * 47 % 96
    cloth = (60 + hue, 40 + hue * 3 % 80, 50 + hue * 7 % 100)
    ink = (235, 225, 200)
    size = 6 + number % 7

    def colour(x, y):
        if x < 4:
            return tuple(part // 2 for part in cloth)
        if 10 <= y < 22 and 10 <= x < 42:
            return ink
        dx, dy = abs(x - 26), abs(y - 48)
        shape = (dx + dy, max(dx, dy), dx * dx // size + dy * dy // size)[number % 3]
        return ink if shape == size or shape == size // 2 else cloth

    return colour


folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
if len(sys.argv) > 2:
    for number in range(1, int(sys.argv[2]) + 1):
        png(os.path.join(folder, f"{number}.png"), 48, 72, cover(number))
else:
    png(os.path.join(folder, "mandelbrot.png"), 512, 340, mandelbrot(512, 340))
    png(os.path.join(folder, "julia.png"), 120, 80, julia(120, 80))
    png(os.path.join(folder, "chessboard.png"), 160, 160, chessboard)
