"""The order of the stages: what a stage needs comes before it, and nothing may need itself, however far around."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from gitstate.core.plan import Stage
from gitstate.core.problems import nearest, quoted
from gitstate.core.schema import At, Reader


def stage_order(reader: Reader, stages: Sequence[Stage]) -> tuple[int, ...]:
    """Indexes with needs before needers, as declared where needs leave it open."""
    needs = _needs(reader, stages)
    needers: list[list[int]] = [[] for _ in stages]
    for number, wanted in enumerate(needs):
        for need in wanted:
            needers[need].append(number)
    waiting = [len(wanted) for wanted in needs]
    ready = [number for number, count in enumerate(waiting) if not count]
    order: list[int] = []
    while ready:
        order.append(heapq.heappop(ready))
        for needer in needers[order[-1]]:
            waiting[needer] -= 1
            if not waiting[needer]:
                heapq.heappush(ready, needer)
    if len(order) < len(stages):
        _name_circles(reader, stages, needs, set(range(len(stages))) - set(order))
    return tuple(order)


def _needs(reader: Reader, stages: Sequence[Stage]) -> list[set[int]]:
    """For each stage the indexes of those that it needs; notes names that no other stage has."""
    index = {stage.name: number for number, stage in enumerate(stages)}
    needs: list[set[int]] = []
    for stage in stages:
        at: At = ("stages", stage.name, "needs")
        for need in stage.needs:
            if need == stage.name:
                reader.wrong(at, f"The stage {quoted(need)} needs itself.")
            elif need not in index:
                hint = nearest(need, (name for name in index if name != stage.name))
                reader.wrong(at, f"There is no stage {quoted(need)} for {quoted(stage.name)} to need.", hint)
        needs.append({index[need] for need in stage.needs if need in index and need != stage.name})
    return needs


def _name_circles(reader: Reader, stages: Sequence[Stage], needs: Sequence[set[int]], left: set[int]) -> None:
    """Say which stages need each other in a circle; `left` holds them and what waits for them."""
    seen: set[int] = set()
    for start in sorted(left):
        walk: dict[int, int] = {}
        step = start
        while step not in seen and step not in walk:
            walk[step] = len(walk)
            step = min(needs[step] & left)
        if step in walk:
            circle = [*list(walk)[walk[step] :], step]
            words = " → ".join(stages[number].name for number in circle)
            reader.wrong(
                ("stages", stages[step].name, "needs"),
                f"Stages need each other in a circle: {words}.",
                "Remove one of these needs.",
            )
        seen.update(walk)
