"""Lines that break between a clone and its remote."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.clones import Clone

CUT = """#!{python}
# Forward what git-receive-pack says until its list of refs has ended, then drop the answer.
import subprocess, sys
server = subprocess.Popen(["git-receive-pack", *sys.argv[1:]], stdout=subprocess.PIPE)
while True:
    size = server.stdout.read(4)
    sys.stdout.buffer.write(size + (server.stdout.read(int(size, 16) - 4) if size != b"0000" else b""))
    if size == b"0000":
        break
sys.stdout.buffer.flush()
server.stdout.read()
server.wait()
sys.exit(1)
"""


def cut_the_answer(clone: Clone, folder: Path) -> None:
    """From now on the remote applies what is pushed, and its answer is lost."""
    script = folder / "cut"
    script.write_text(CUT.format(python=sys.executable))
    script.chmod(0o755)
    clone.git("config", "remote.origin.receivepack", str(script))
