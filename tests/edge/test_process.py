"""Real processes: what they are given, what is taken from them, and that nothing of them stays."""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from gitstate.edge import group, process
from gitstate.edge.folder import TAIL
from gitstate.edge.process import Job, Result, execute

pytestmark = pytest.mark.skipif(os.name != "posix", reason="commands of a POSIX shell")

LONG = "exec sleep 300"
Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def nothing_stays(tmp_path: Path) -> Iterator[None]:
    """Every test gives its jobs a folder for their private folders, and ends with that folder empty."""
    (tmp_path / "parent").mkdir()
    yield
    assert list((tmp_path / "parent").iterdir()) == []


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def run(
        command: str | tuple[str, ...], cancel: threading.Event | None = None, **fields: object
    ) -> Result:
        job = Job(command, scratch_parent=str(tmp_path / "parent"))._replace(**fields)  # type: ignore[arg-type]
        return execute(job, cancel)

    return run


def gone(path: Path) -> bool:
    """Whether the process whose number stands in the file has ended, soon."""
    for _ in range(200):
        try:
            pid = int(path.read_text())
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.02)
    return False


def wait_for(path: Path) -> None:
    for _ in range(500):
        if path.exists() and path.read_text().endswith("\n"):
            return
        time.sleep(0.01)
    raise AssertionError(f"{path} did not come")


# -- what goes in and what comes out


def test_the_prompt_is_on_stdin_and_in_a_file_and_stdout_is_the_response(run: Run) -> None:
    prompt = "ünï\0\xff\n".encode("latin-1") * 100_000
    result = run('cat - "$GITSTATE_PROMPT"', stdin=prompt)
    assert result.outputs == (prompt + prompt,)
    assert result[:3] == ("exit", 0, None)
    assert result.missing == ()
    assert result.seconds > 0


def test_without_a_prompt_stdin_is_empty(run: Run) -> None:
    assert run('cat; wc -c < "$GITSTATE_PROMPT"').outputs[0].strip() == b"0"


def test_a_tuple_runs_without_a_shell(run: Run) -> None:
    assert run(("printf", "%s|", "$HOME;", "", "a b")).outputs == (b"$HOME;||a b|",)


def test_the_environment_is_ours_and_the_job_s_additions(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTER", "1")
    monkeypatch.setenv("GITSTATE_OUTPUT_2", "of an outer job")
    command = 'echo "$OUTER $GITSTATE_SLUG ${GITSTATE_OUTPUT_1-none} ${GITSTATE_OUTPUT_2-none}"'
    assert run(command, env={"GITSTATE_SLUG": "a/b"}).outputs == (b"1 a/b none none\n",)
    assert run('echo "${GITSTATE_OUTPUT-none}"', outputs=0).stdout == "none\n"


def test_the_private_folder_is_private_and_scratch_is_empty(run: Run, tmp_path: Path) -> None:
    result = run('cd "$GITSTATE_SCRATCH" && ls -A && stat -c %a .. 2>/dev/null || echo 700')
    assert result.outputs == (b"700\n",)
    assert run("pwd", cwd=str(tmp_path)).outputs == (f"{tmp_path}\n".encode(),)
    assert b"scratch" in run("pwd").outputs[0]
    assert run("exec 3>&1; ls /proc/self/fd | wc -l", cwd="/").code == 0


def test_a_relative_place_for_the_private_folder_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert execute(Job('cat "$GITSTATE_PROMPT"', b"a", scratch_parent="parent")).outputs == (b"a",)


def test_a_file_that_is_not_empty_wins_over_stdout(run: Run) -> None:
    assert run('echo noise; echo data > "$GITSTATE_OUTPUT"').outputs == (b"data\n",)
    assert run('echo data; : > "$GITSTATE_OUTPUT"').outputs == (b"data\n",)
    assert run("true").outputs == (b"",)


def test_several_outputs_must_all_come_and_stdout_may_be_the_first(run: Run) -> None:
    two = 'echo two > "$GITSTATE_OUTPUT_2"; '
    result = run(two + '[ "$GITSTATE_OUTPUT" = "$GITSTATE_OUTPUT_1" ] && echo one', outputs=2)
    assert (result.outputs, result.missing) == ((b"one\n", b"two\n"), ())
    result = run(two + ': > "$GITSTATE_OUTPUT_3"; echo one', outputs=4)
    assert (result.outputs, result.missing) == ((b"one\n", b"two\n", b"", b""), (3, 4))
    assert "$GITSTATE_OUTPUT_3 was not written" in result.stderr


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ('ln -s "$SECRET" "$GITSTATE_OUTPUT"', "symbolic link"),
        ('ln -s nowhere "$GITSTATE_OUTPUT"', "symbolic link"),
        ('mkdir "$GITSTATE_OUTPUT"', "not a regular file"),
        ('mkfifo "$GITSTATE_OUTPUT"', "not a regular file"),
    ],
)
def test_p7_what_is_no_regular_file_is_not_taken_and_stdout_does_not_stand_for_it(
    run: Run, tmp_path: Path, action: str, words: str
) -> None:
    (tmp_path / "secret").write_text("secret")
    result = run(f"echo noise; {action}", env={"SECRET": str(tmp_path / "secret")})
    assert (result.outputs, result.missing) == ((b"",), (1,))
    assert words in result.stderr


def test_p7_a_failed_command_has_no_outputs_but_its_words_are_kept(run: Run) -> None:
    result = run("echo half an answer; printf 'quota \\377\\n' >&2; exit 3")
    assert (result.ended_by, result.code, result.outputs) == ("exit", 3, ())
    assert result.stdout == "half an answer\n"
    assert result.stderr == "quota \ufffd\n"
    result = run("kill -9 $$")
    assert (result.ended_by, result.code, result.signal, result.outputs) == ("exit", None, 9, ())


def test_the_tails_are_bounded(run: Run) -> None:
    result = run("yes | head -c 1000000 >&2; echo end >&2; yes | head -c 1000000; exit 1")
    assert len(result.stderr) == len(result.stdout) == TAIL
    assert result.stderr.endswith("end\n")


def test_a_job_may_write_to_dev_stderr_by_name(run: Run) -> None:
    assert run("echo a; echo b | tee /dev/stderr").outputs == (b"a\nb\n",)


def test_binary_and_large_output_arrives_whole(run: Run) -> None:
    code = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 40000)"
    assert run((sys.executable, "-c", code)).outputs == (bytes(range(256)) * 40000,)


def test_stdout_closed_early_is_no_end(run: Run, tmp_path: Path) -> None:
    result = run('echo early; exec >&- 2>&-; sleep 0.2; echo late > "$GITSTATE_OUTPUT"')
    assert result.outputs == (b"late\n",)


# -- what cannot be started


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"command": ("gitstate-no-such-command",)}, "gitstate-no-such-command cannot be run"),
        ({"command": ("/",)}, "cannot be run"),
        ({"command": ("./plain",)}, "Permission denied"),
        ({"command": ("./noformat",)}, "cannot be run"),
        ({"command": ("./nointerpreter",)}, "cannot be run"),
        ({"command": ("true",), "cwd": "/nonexistent/x"}, "/nonexistent/x is not a folder"),
        ({"command": "true", "cwd": "./plain"}, "is not a folder"),
        ({"command": ()}, "empty command"),
        ({"command": ("a\0b",)}, "cannot be run"),
        ({"command": ("true", "x" * 10_000_000)}, "command line is too long"),
        ({"command": "true", "env": {"A": "x\0"}}, "cannot be run"),
        ({"command": "true", "env": {"A=B": "x"}}, "cannot be run"),
    ],
)
def test_what_cannot_be_started_is_a_result_with_words(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, object], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plain").write_text("x")
    for name, text in (("noformat", "\x7fELF"), ("nointerpreter", "#!/nonexistent/x\n")):
        Path(name).write_text(text)
        Path(name).chmod(0o755)
    result = run(**{"cwd": str(tmp_path), **fields})
    how = "too_long" if "too long" in words else "not_started"
    assert (result.ended_by, result.code, result.signal, result.outputs) == (how, None, None, ())
    assert words in result.stderr


def test_a_shell_says_itself_that_a_command_is_not_found(run: Run) -> None:
    result = run("gitstate-no-such-command")
    assert (result.ended_by, result.code) == ("exit", 127)
    assert "not found" in result.stderr


# -- how it is ended


def test_a_job_over_its_time_is_ended_with_its_grandchildren(run: Run, tmp_path: Path) -> None:
    command = f"(trap '' TERM; sh -c 'echo $PPID' > {tmp_path}/pid; while :; do sleep 1; done) & wait"
    result = run(command, timeout=2, grace=0.3)
    assert (result.ended_by, result.outputs) == ("wall", ())
    assert gone(tmp_path / "pid")


def test_a_job_that_ignores_term_is_killed_after_the_grace(run: Run) -> None:
    result = run("trap '' TERM; echo half; while :; do sleep 0.05; done", timeout=2, grace=0.2)
    assert (result.ended_by, result.code, result.signal) == ("wall", None, 9)
    assert result.stdout == "half\n"


def test_a_child_gets_its_grace_though_the_shell_above_it_has_gone(run: Run, tmp_path: Path) -> None:
    child = f"trap 'sleep 0.3; echo tidy > {tmp_path}/tidied; exit' TERM; echo x > {tmp_path}/ready; "
    child += "while :; do sleep 0.05; done"
    cancel = threading.Event()

    def stop() -> None:
        wait_for(tmp_path / "ready")
        cancel.set()

    threading.Thread(target=stop).start()
    result = run(f"trap 'exit 7' TERM; ({child}) & wait", cancel)
    assert (result.ended_by, result.code) == ("cancelled", 7)
    assert (tmp_path / "tidied").exists() or not Path("/proc/self/stat").exists()


def test_a_job_ends_early_when_it_is_cancelled_and_at_once_in_a_hurry(run: Run, tmp_path: Path) -> None:
    cancel = threading.Event()
    threading.Timer(1, cancel.set).start()
    result = run(LONG, cancel)
    assert (result.ended_by, result.signal) == ("cancelled", 15)
    job = Job(
        "trap '' TERM; while :; do sleep 0.05; done", grace=300, scratch_parent=str(tmp_path / "parent")
    )
    assert execute(job._replace(timeout=0.2), None, cancel)[:3] == ("wall", None, 9)
    assert execute(job, cancel)[:2] == ("cancelled", None)  # was set before: nothing is begun


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo half; exec sleep 300", "half\n"),
        (LONG, ""),
        ("trap '' TERM; echo half; while :; do sleep 0.05; done", "half\n"),
        ('echo half > "$GITSTATE_OUTPUT"; exec sleep 300', ""),
    ],
)
def test_p7_a_job_that_falls_silent_is_ended_and_its_half_answer_is_none(
    run: Run, command: str, said: str
) -> None:
    result = run(command, silence=2, grace=0.2)
    assert (result.ended_by, result.outputs, result.stdout) == ("silence", (), said)


@pytest.mark.parametrize("where", ["", ">&2", '>> "$GITSTATE_OUTPUT"', '> "$GITSTATE_OUTPUT"'])
def test_a_job_that_says_something_new_in_time_is_not_silent(run: Run, where: str) -> None:
    result = run(f"for n in $(seq 12); do sleep 0.3; echo a {where}; done", silence=3)
    assert result.ended_by == "exit"


def test_of_silence_and_timeout_the_first_counts(run: Run) -> None:
    assert run(LONG, silence=1, timeout=300).ended_by == "silence"
    assert run(LONG, silence=300, timeout=0.2).ended_by == "wall"


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="told by /proc")
@pytest.mark.parametrize(
    "escape", ["setsid -f", "setsid -f env -i PATH=$PATH", "setsid -f env - /bin/env A=b"]
)
def test_what_has_left_the_group_of_a_job_that_is_ended_early_ends_too(
    run: Run, tmp_path: Path, escape: str
) -> None:
    child = f"echo $$ > {tmp_path}/pid; trap '' TERM; while :; do sleep 0.05; done"
    result = run(f'{escape} sh -c "$CHILD"; exec sleep 300', env={"CHILD": child}, timeout=2, grace=0.3)
    assert result.ended_by == "wall"
    assert gone(tmp_path / "pid")


@pytest.mark.parametrize("where", ["", ">&2", '> "$GITSTATE_OUTPUT"'])
def test_a_flood_is_stopped(run: Run, where: str) -> None:
    result = run(f"exec cat /dev/zero {where}", max_bytes=1_000_000)
    assert (result.ended_by, result.outputs) == ("too_large", ())


@pytest.mark.parametrize("where", ["", ">&2", '> "$GITSTATE_OUTPUT"'])
@pytest.mark.parametrize("term", ["", "trap '' TERM; "], ids=["", "ignores TERM"])
def test_of_a_flood_of_a_gigabyte_little_reaches_the_disk_and_nothing_the_memory(
    tmp_path: Path, where: str, term: str
) -> None:
    most = []

    def look() -> None:
        while not ended.is_set():
            with contextlib.suppress(FileNotFoundError):
                files = [*(tmp_path / "parent").glob("*/std*"), *(tmp_path / "parent").glob("*/out-1")]
                most.append(sum(file.stat().st_size for file in files))
            time.sleep(0.002)

    ended = threading.Event()
    watcher = threading.Thread(target=look)
    watcher.start()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # A megabyte a write, a hundred a second at most: the bound does not depend on how fast the disk is.
    flood = f"i=0; while [ $i -lt 1024 ]; do head -c 1048576 /dev/zero; i=$((i+1)); sleep 0.01; done {where}"
    job = Job(term + flood, max_bytes=30_000_000, grace=60, scratch_parent=str(tmp_path / "parent"))
    result = execute(job)
    ended.set()
    watcher.join()
    assert (result.ended_by, result.outputs) == ("too_large", ())
    assert max(most) < 300_000_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # KiB


def test_a_quick_job_s_output_is_measured_too(run: Run) -> None:
    assert run("printf 123456", max_bytes=5).ended_by == "too_large"
    assert run("printf 12345", max_bytes=5).outputs == (b"12345",)
    assert run('printf 123456 > "$GITSTATE_OUTPUT_2"; echo', outputs=2, max_bytes=5).ended_by == "too_large"


def test_what_a_job_leaves_behind_in_its_group_is_killed(run: Run, tmp_path: Path) -> None:
    result = run(f"sleep 300 & echo $! > {tmp_path}/pid; echo done")
    assert result.outputs == (b"done\n",)
    assert gone(tmp_path / "pid")


def test_without_a_process_descriptor_waiting_works_too(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    assert run("sleep 0.1; echo a").outputs == (b"a\n",)
    assert run(LONG, timeout=1).ended_by == "wall"
    monkeypatch.delattr(os, "waitid", raising=False)
    assert run("sleep 0.1; echo a").outputs == (b"a\n",)
    assert run("exit 3").code == 3
    assert run(LONG, timeout=1)[:3] == ("wall", None, 15)


def test_where_there_was_no_job_no_process_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "listdir", lambda _: pytest.fail("there may be thousands"))
    group.kill({})


def test_without_process_groups_the_first_process_is_ended(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "killpg")
    assert run("echo a").outputs == (b"a\n",)
    assert run(LONG, timeout=1)[:3] == ("wall", None, 9)


def test_p7_where_the_kernel_reaps_children_a_failure_is_not_taken_for_success() -> None:
    code = (
        "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN);"
        "from gitstate.edge.process import *; r = execute(Job('echo a; exit 3'));"
        "assert (r.ended_by, r.code, r.outputs) == ('exit', None, ()), r"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_p7_a_machine_without_room_is_no_failure_of_the_work() -> None:
    with pytest.raises(OSError, match="nonexistent"):
        execute(Job("true", scratch_parent="/nonexistent/x"))


# -- the private folder, threads, other processes


def test_the_private_folder_goes_whatever_the_job_did_to_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("kept")
    mess = f'cd "$GITSTATE_SCRATCH" && mkdir -p a/b && ln -s {tmp_path} a/link && chmod 000 a/b a . ..'
    assert run(mess, cwd="/").code == 0
    assert (tmp_path / "kept").read_text() == "kept"
    assert run('echo x; rm -rf "${GITSTATE_SCRATCH%/scratch}"').outputs == (b"x\n",)


def test_the_group_ends_and_the_folder_goes_when_waiting_is_interrupted(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        wait_for(tmp_path / "pid")
        raise KeyboardInterrupt

    monkeypatch.setattr(process, "_wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(f"sleep 300 & echo $! > {tmp_path}/pid; wait")
    assert gone(tmp_path / "pid")


def test_no_descriptor_leaks(run: Run) -> None:
    run("true")
    before = len(os.listdir("/dev/fd"))
    for command in ("true", ("gitstate-no-such-command",), "exit 1"):
        run(command)
    assert len(os.listdir("/dev/fd")) == before


def test_jobs_in_many_threads_do_not_mix(run: Run) -> None:
    def one(number: int) -> bytes:
        return bytes(run('read x; echo "$x $N"', stdin=b"%d\n" % number, env={"N": str(number)}).outputs[0])

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, range(40))) == [b"%d %d\n" % (n, n) for n in range(40)]


def test_jobs_and_results_pickle_and_run_in_other_processes(tmp_path: Path) -> None:
    job = Job("cat; echo $N", stdin=b"a", env={"N": "1"}, scratch_parent=str(tmp_path / "parent"))
    assert pickle.loads(pickle.dumps(job)) == job
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        result = pool.submit(execute, job).result()
    assert isinstance(result, Result)
    assert result.outputs == (b"a1\n",)
