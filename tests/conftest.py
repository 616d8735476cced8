"""What all tests share: git without the user's own settings, and property tests without time limits."""

from __future__ import annotations

import contextlib
import os
import signal

from hypothesis import HealthCheck, settings

# A busy machine is not a failure, and a run in CI must repeat.
settings.register_profile(
    "steady", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("steady")

os.environ.update(
    GIT_CONFIG_GLOBAL=os.devnull,
    GIT_CONFIG_NOSYSTEM="1",
    GIT_TERMINAL_PROMPT="0",
    NO_COLOR="1",
)
for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"):
    os.environ.pop(name, None)

# Who starts the tests may ignore signals (nohup, a job in the background), and what is ignored stays so in every child.
# A handler does not: here it ignores as before, and the processes under test get the signal.
for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT) if os.name == "posix" else ():
    if signal.getsignal(number) == signal.SIG_IGN:
        with contextlib.suppress(ValueError):  # not in the main thread
            signal.signal(number, lambda *_: None)
