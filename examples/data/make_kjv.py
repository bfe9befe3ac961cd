"""Make kjv-train.txt and kjv-valid.txt from Debian's packages of the King James Bible.

    apt-get install bible-kjv             # the reader, which brings its text
    python make_kjv.py [FOLDER]

The reader prints a verse a line behind its reference (`Ge1:1 In the beginning ...`). References
are dropped; a blank line stands between chapters, books follow each other in order. Training text:
Genesis to Leviticus and the four gospels. Validation text: Acts 1-14. Plain ASCII, about 1 MB.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

TRAIN = ("Genesis 1:1-Leviticus 27:34", "Matthew 1:1-John 21:25")
VALID = ("Acts 1:1-14:28",)
VERSE = re.compile(r"^\S+?(\d+):(\d+) (.*)$")


def text_of(passage: str) -> str:
    """A passage as text, a line a verse."""
    printed = subprocess.run(
        ["bible", "-f", passage], check=True, capture_output=True, text=True, encoding="latin-1"
    ).stdout
    lines: list[str] = []
    for line in printed.splitlines():
        found = VERSE.match(line)
        if found is None:
            raise ValueError(f"not a verse: {line!r}")
        _, verse, words = found.groups()
        if verse == "1" and lines:
            lines.append("")
        lines.append(words.strip())
    return "\n".join(lines) + "\n"


def main(folder: Path) -> None:
    for name, passages in (("train", TRAIN), ("valid", VALID)):
        data = "\n".join(text_of(passage) for passage in passages).encode("ascii")
        path = folder / f"kjv-{name}.txt"
        path.write_bytes(data)
        print(f"{path.name}: {len(data)} bytes, {len(set(data))} of them distinct")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
