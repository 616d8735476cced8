"""The fake paid provider: every call is written down outside the repository before and after it answers.

Answers from its prompt alone, unless orders say otherwise. It finds ledger and orders by $PROVIDER_HOME.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time


def note(event: str) -> None:
    """One line in the ledger; whole, whoever else writes, because it is one write to the end of the file."""
    work = {name: os.environ.get("GITSTATE_" + name.upper(), "") for name in ("slug", "stage", "attempt_id")}
    key = os.environ.get("GITSTATE_IDEMPOTENCY_KEY", "")
    line = json.dumps({"event": event, **work, "key": key, "time": time.time(), "arguments": sys.argv[1:]})
    ledger = os.open(os.path.join(home, "ledger"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(ledger, line.encode() + b"\n")
    os.close(ledger)


def orders() -> dict:
    """What this call was told to do: for this work, for this slug, or for all, the nearest one."""
    slug, stage = os.environ["GITSTATE_SLUG"].replace("/", "%"), os.environ["GITSTATE_STAGE"]
    for name in (f"{slug}@{stage}", f"{slug}@", f"@{stage}", "@"):
        path = os.path.join(home, "orders", name)
        try:
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
            if found.get("once"):
                os.rename(path, taken := f"{path}.{os.getpid()}")  # of two calls at once one gets it
                os.unlink(taken)
        except FileNotFoundError:
            continue
        return found
    return {}


def wait_for(path: str) -> None:
    """Wait until somebody makes a file; give up when nobody ever will."""
    until = time.time() + 120
    while not os.path.exists(path) and time.time() < until:
        time.sleep(0.005)


def shell(command: str) -> None:
    """Do something else in the middle of a call, as a user at another terminal would."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GITSTATE_")}
    subprocess.run(command, shell=True, check=True, env=clean, stdout=subprocess.DEVNULL)


def runner() -> int:
    """The pid of the gitstate that this call was made by: the nearest such ancestor."""
    pid = os.getppid()
    while pid > 1:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            if b"gitstate\0run" in file.read():
                return pid
        with open(f"/proc/{pid}/stat", "rb") as file:
            pid = int(file.read().rpartition(b")")[2].split()[1])
    raise SystemExit("no gitstate to kill")


home = os.environ["PROVIDER_HOME"]
prompt = sys.stdin.read()
order = orders()  # (before it is known that it was asked: whoever waits for that may give the next order)
note("asked")
if "before" in order:
    shell(order["before"])
if "wait" in order:
    wait_for(order["wait"])
time.sleep(order.get("sleep", 0))
if "hang" in order:
    time.sleep(3600)
said = hashlib.sha256(prompt.encode()).hexdigest()[:16]
answer = order.get(
    "answer", f"# {os.environ['GITSTATE_SLUG']} {os.environ['GITSTATE_STAGE']}\n\nanswered {said}\n"
)
if "half" in order:
    sys.stdout.write(answer[: len(answer) // 2])
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
for number, text in enumerate(order.get("outputs", []), 1):
    with open(os.environ[f"GITSTATE_OUTPUT_{number}"], "w", encoding="utf-8") as file:
        file.write(text)
if "usage" in order:
    with open(os.environ["GITSTATE_USAGE"], "w", encoding="utf-8") as file:
        json.dump(order["usage"], file)
if "link" in order:
    os.symlink(order["link"], os.environ["GITSTATE_OUTPUT"])
elif "outputs" not in order:
    sys.stdout.write(answer)
    sys.stdout.flush()
sys.stderr.write(order.get("stderr", ""))
note("answered")
if "after" in order:
    shell(order["after"])
if "kill_runner" in order:
    os.kill(runner(), signal.SIGKILL)
sys.exit(order.get("exit", 0))
