"""Stands for a slow, paid model: picks a text's key sentences by how frequent their words are.

Reads the prompt on standard input ("Keep N sentences", dashes, title, author, text) and prints Markdown.
Where LEDGER names a file, every call leaves a line there when it begins and one when it has its answer: that
is what a provider would put on the bill, and how the demo proves what was paid for.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections import Counter

SECONDS = 0.3  # how long a call takes
PRICE = 0.02  # US dollars a call, as reported to gitstate

COMMON = """
a about above after all an and are as at be been before but by can could do for from had has have he her
him his how i if in into is it its me more most mr mrs my no not of on one only or our out over own
shall she should so some such than that the their them then there these they this those to up upon very
was we were what when where which who will with would you your
"""
IGNORED = frozenset(COMMON.split())


def bill(event: str) -> None:
    """Leave a line in the ledger, in one write."""
    path = os.environ.get("LEDGER")
    if path:
        line = f"{event} {os.environ.get('GITSTATE_SLUG', '-')} {os.getpid()}\n"
        with open(path, "ab", buffering=0) as ledger:
            ledger.write(line.encode())


def words(text: str) -> list[str]:
    return re.findall(r"[a-z]+(?:['’][a-z]+)?", text.lower())


def sentences(text: str) -> list[str]:
    """The sentences of a text; the dots of Mr., Mrs. and initials end none."""
    text = re.sub(r"\b(Mrs?|Dr|St|[A-Z])\.", "\\1\0", " ".join(text.split()))
    found = re.findall(r".+?(?:[.!?][”\"’]?(?=\s|$)|$)", text)
    return [sentence.strip().replace("\0", ".") for sentence in found if sentence.strip()]


def digest(prompt: str) -> str:
    """The answer to a prompt: the sentences with the most frequent words, in the text's order."""
    order, _, text = prompt.partition("\n---\n")
    found = re.search(r"\d+", order)
    title, author, *body = text.strip().splitlines()
    passage = "\n".join(body)
    counts = Counter(word for word in words(passage) if word not in IGNORED)

    def weight(sentence: str) -> float:
        tokens = words(sentence)
        return sum(counts[word] for word in tokens) / (len(tokens) + 12)

    said = sentences(passage)
    best = sorted(said, key=weight, reverse=True)[: int(found.group()) if found else 1]
    kept = "\n>\n".join(f"> {sentence}" for sentence in said if sentence in best)
    frequent = ", ".join(word for word, _ in counts.most_common(5))
    return f"# {title}\n\n{author}\n\n{kept}\n\n{len(words(passage))} words. The most frequent: {frequent}.\n"


def main() -> None:
    bill("called")
    answer = digest(sys.stdin.read())
    time.sleep(SECONDS)
    usage = os.environ.get("GITSTATE_USAGE")
    if usage:
        with open(usage, "w", encoding="utf-8") as file:
            json.dump({"usd": PRICE, "model": "key-sentences-1"}, file)
    bill("answered")
    sys.stdout.buffer.write(answer.encode())


main()
