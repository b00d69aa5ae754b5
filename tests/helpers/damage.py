"""Damage to files."""

from pathlib import Path


def flip_a_bit(path: Path, place: int | None = None) -> None:
    """Change a bit of a file, in the byte at a place; by default, after two thirds of it."""
    content = bytearray(path.read_bytes())
    content[2 * len(content) // 3 if place is None else place] ^= 0x10
    path.write_bytes(content)
