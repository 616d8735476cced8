"""Where the files that gitstate carries beside its code lie: hooks and templates."""

from __future__ import annotations

import os

from gitstate.errors import NeedsHuman


def folder(name: str) -> str:
    """The absolute path of the folder `name`: in the installed package, or at the top of a source checkout.

    Raises NeedsHuman where an installation is not whole.
    """
    package = os.path.dirname(os.path.abspath(__file__))
    for place in (os.path.join(package, "_data", name), os.path.join(os.path.dirname(package), name)):
        if os.path.isdir(place):
            return place
    raise NeedsHuman(f"This installation of gitstate lacks its folder {name!r}.", "Install gitstate again.")
