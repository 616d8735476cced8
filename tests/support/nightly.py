"""A provider with a quota window: closed from 23:10 to 04:00 of the night (see night.py). Every call is in the ledger.

Usage: nightly.py [silent]. It says when it opens, unless `silent`.
"""

import json
import os
import sys
import time
from datetime import datetime, timezone

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from night import now

CLOSES = datetime(2026, 8, 7, 23, 10, tzinfo=timezone.utc)
OPENS = datetime(2026, 8, 8, 4, 0, tzinfo=timezone.utc)

sys.stdin.read()
time.sleep(0.2)
moment = now()
closed = CLOSES <= moment < OPENS
line = {"slug": os.environ.get("GITSTATE_SLUG", ""), "at": moment.isoformat(), "closed": closed}
ledger = os.open(os.path.join(os.environ["PROVIDER_HOME"], "night"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(ledger, json.dumps(line).encode() + b"\n")
if closed:
    error = {"type": "usage_limit_reached", "message": "The usage limit has been reached"}
    if "silent" not in sys.argv:
        error["resets_at"] = int(OPENS.timestamp())
    print(json.dumps({"error": error}), file=sys.stderr)
    sys.exit(1)
print(f"An answer for {os.environ['GITSTATE_SLUG']}, long enough to be one.")
