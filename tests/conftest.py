"""What all tests share: git without the user's own settings, and property tests without time limits."""

from __future__ import annotations

import os

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
