"""This very installation of gitstate as a command, and an environment in which it runs alike on every machine."""

from __future__ import annotations

import os
import re
import sys

# What would make git look at another repository, or at the settings of this session's user.
_FOREIGN = re.compile(r"GIT_|GITSTATE_|LEDGER$|EDITOR$")
_KEPT = ("GIT_SSH", "GIT_EXEC_PATH")  # where an unusual installation of git finds its own parts

# Not `python -m`, which would look for modules in the folder that the command runs in.
_PLACE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMMAND = (
    sys.executable,
    "-c",
    "import sys; sys.path[:1] == [''] and sys.path.pop(0); "
    f"sys.path.append({_PLACE!r}); from gitstate.__main__ import main; sys.exit(main())",
)
NO_SETTINGS = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
}


def environment(**more: str) -> dict[str, str]:
    """This process's environment without git's settings, the user's own included; `more` added."""
    env = {name: value for name, value in os.environ.items() if not _FOREIGN.search(name) or name in _KEPT}
    return {**env, **NO_SETTINGS, **more}
