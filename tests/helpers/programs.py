"""Files, and programs that stand for others."""


def write(path, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def program(directory, name, script="exit 0"):
    write(directory / name, f"#!/bin/sh\n{script}\n").chmod(0o755)
