"""The report that a bug in gitstate leaves behind, ready to paste."""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
import traceback
from collections.abc import Sequence

from gitstate import __version__


def write(arguments: Sequence[str], error: BaseException) -> str:
    """Write the report to a new file in the system's folder for temporary files; returns its path."""
    try:
        git = subprocess.run(("git", "--version"), capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        git = "git not found"
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    # The name of the home folder is nobody's business.
    trace = trace.replace(os.path.expanduser("~"), "~")
    text = (
        f"gitstate {__version__}, Python {platform.python_version()}, {git}, {platform.platform()}\n"
        f"arguments: {' '.join(arguments)}\n\n{trace}"
    )
    handle, path = tempfile.mkstemp(prefix="gitstate-report-", suffix=".txt")
    with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
    return path
