"""Reads one bibliographic reference on standard input, prints its fields as JSON.

A call to a model could stand here just as well. What cannot be read is an error, never an empty answer.
"""

from __future__ import annotations

import json
import re
import sys

REFERENCE = re.compile(
    r"(?P<last>[^,]+), (?P<first>[^.]+)\. (?P<title>.+)\. "
    r"(?P<place>[^:.]+): (?P<publisher>.+), (?P<year>\d{4})\."
)


def main() -> None:
    found = REFERENCE.fullmatch(sys.stdin.read().strip())
    if found is None:
        sys.exit("This is not a reference of the kind AUTHOR. TITLE. PLACE: PUBLISHER, YEAR.")
    fields = {
        "author": f"{found['first']} {found['last']}",
        "title": found["title"],
        "place": found["place"],
        "publisher": found["publisher"],
        "year": int(found["year"]),
    }
    print(json.dumps(fields, indent=2, ensure_ascii=False))


main()
