"""The time zone of this machine, by name, so that its daylight-saving rules are known and not only today's offset."""

from __future__ import annotations

import os
from datetime import datetime, timezone, tzinfo

from gitstate.core.signal import zone_named

_LINK = "/etc/localtime"
_FOLDER = "zoneinfo/"


def local_zone() -> tzinfo:
    """The machine's zone; where its name cannot be found out, the offset that holds now."""
    name = os.environ.get("TZ", "").lstrip(":")
    if not name:
        name = os.path.realpath(_LINK).rpartition(_FOLDER)[2]
    return zone_named(name) or datetime.now(timezone.utc).astimezone().tzinfo or timezone.utc
