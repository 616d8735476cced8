"""Derived answers kept between commands: keyed by content, checked when read, disposable (P2).

A cache file that is missing, torn, of another version or about something else is as good as absent; nothing
else in gitstate may depend on one being there. So nothing here is fsynced, and no error of writing is raised.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import sys
from collections.abc import Iterable
from typing import Any, Optional

from blake3 import blake3

from gitstate import __version__

# What is kept, and in which form: a new number with every change to any of it.
_SHAPE = 9
# marshal reads ten times faster than json and, unlike pickle, runs nothing; its format belongs to one Python.
_MAGIC = f"gitstate cache {_SHAPE} {__version__} {sys.implementation.cache_tag}\n".encode()
_DIGEST = 32
_LENGTH = 8  # bytes before each part


class Cache:
    """Plain values (tuples, lists, dicts, text, bytes, numbers, None) by name in one folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def load(self, name: str) -> Optional[Any]:
        """The value last saved under `name`; None if there is none to be trusted."""
        parts = self.load_parts(name)
        return parts[0] if parts else None

    def save(self, name: str, value: Any) -> None:
        """Keep `value` under `name`, if that can be done."""
        self.save_parts(name, [value])

    def load_parts(self, name: str) -> Optional[list[Any]]:
        """The values last saved under `name` one by one; None if there are none to be trusted."""
        try:
            with open(os.path.join(self.folder, name), "rb") as file:
                content = memoryview(file.read())
        except OSError:
            return None
        start = len(_MAGIC) + _DIGEST
        if bytes(content[: len(_MAGIC)]) != _MAGIC or len(content) < start:
            return None
        # The checksum comes first: marshal must not be fed torn bytes.
        if blake3(content[start:]).digest() != bytes(content[len(_MAGIC) : start]):
            return None
        parts = []
        while start < len(content):
            end = start + _LENGTH + int.from_bytes(content[start : start + _LENGTH], "big")
            parts.append(marshal.loads(content[start + _LENGTH : end]))  # noqa: S302 (no code in it)
            start = end
        return parts

    def save_parts(self, name: str, parts: Iterable[Any]) -> None:
        """Keep some values under one name, holding only one of them at a time in its written form."""
        path = os.path.join(self.folder, name)
        temporary = f"{path}.{os.getpid()}.tmp"
        with contextlib.suppress(OSError):
            os.makedirs(self.folder, exist_ok=True)
            try:
                with open(temporary, "wb") as file:
                    file.write(_MAGIC + bytes(_DIGEST))
                    digest = blake3()
                    for part in parts:
                        payload = marshal.dumps(part)
                        for piece in (len(payload).to_bytes(_LENGTH, "big"), payload):
                            digest.update(piece)
                            file.write(piece)
                    file.seek(len(_MAGIC))
                    file.write(digest.digest())
                os.replace(temporary, path)
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
