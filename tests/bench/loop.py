"""The floor of `run`: a plain loop that does each work by the same command and puts its output in place durably,
and remembers nothing. Usage: loop.py FOLDER START END
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from repos import COMMAND, item, slugs


def main(folder: str, start: int, end: int) -> None:
    """Do the works from `start` up to `end` below `folder`, one after another."""
    for slug in slugs(start, end):
        fields = item(slug)
        prompt = f"Write about {fields['topic']} for {fields['reader']}.\n".encode()
        place = os.path.join(folder, "out", fields["shard"])
        os.makedirs(place, exist_ok=True)
        with tempfile.TemporaryFile() as stdin, open(os.path.join(place, slug + ".tmp"), "wb") as file:
            stdin.write(prompt)
            stdin.seek(0)
            subprocess.run(("/bin/sh", "-c", COMMAND), stdin=stdin, stdout=file, check=True)
            os.fsync(file.fileno())
        os.rename(file.name, os.path.join(place, slug + ".md"))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
