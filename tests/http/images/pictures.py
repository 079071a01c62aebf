"""Small images in each format, made where they are used."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from typing import Any

from PIL import Image

__all__ = ["data_url", "encoded", "image_of", "png_header"]


def image_of(width: int = 4, height: int = 3, colour: Any = (200, 30, 60), mode: str = "RGB") -> Image.Image:
    return Image.new(mode, (width, height), colour)


def encoded(image: Image.Image | None = None, format: str = "PNG", **options: Any) -> bytes:
    target = io.BytesIO()
    (image or image_of()).save(target, format, **options)
    return target.getvalue()


def data_url(data: bytes, kind: str = "png") -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def png_header(width: int, height: int) -> bytes:
    """A PNG that says how large it is and then holds next to nothing."""
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = b"IDAT" + zlib.compress(b"\0" * 16)
    chunks = [
        struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) for chunk in (head, body)
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
