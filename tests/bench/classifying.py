"""How long `classify` takes for a captured signal, in turns with reading the same lines as JSON: prints both as JSON.

Arguments: how many rounds. Figures are CPU seconds of one signal, a number a round.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from gitstate.core.classify import classify
from gitstate.core.signal import parse

_SIGNALS = Path(__file__).parent.parent / "core" / "signals.jsonl"
_PASSES = 20  # over all signals in one round


def main() -> None:
    """Measure, and print {"ours": [...], "floor": [...]}."""
    lines = _SIGNALS.read_text("utf-8").splitlines()
    signals = [parse(json.loads(line)) for line in lines]

    def each(do: Callable[[], object]) -> float:
        start = time.process_time()
        for _ in range(_PASSES):
            do()
        return (time.process_time() - start) / _PASSES / len(lines)

    found: dict[str, list[float]] = {"ours": [], "floor": []}
    for _ in range(int(sys.argv[1])):
        found["ours"].append(each(lambda: [classify(signal) for signal in signals]))
        found["floor"].append(each(lambda: [json.loads(line) for line in lines]))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
