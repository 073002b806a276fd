"""Kill runs at random moments, resume them, and compare with runs that nobody killed.

    python kill_harness.py KILLS SEED FOLDER

One process imports torch and stays without threads; it forks a child for each run, which takes
milliseconds, and kills it by SIGKILL. What it saw is printed as JSON.
"""

import json
import os
import random
import signal
import sys
import time
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path

from trust.kill_cases import all_cases, import_what_children_need, write_result

MOST_IN_A_ROW = 5


@dataclass
class Report:
    kills: int = 0
    in_a_write: int = 0  # kills that left a temporary file
    runs: int = 0  # that were killed at least once, and brought to their end
    losses: int = 0  # kills after which a file was damaged, or less of it there than before
    mismatches: int = 0  # ends that are not, bit for bit, those of a run that nobody killed
    leftovers: int = 0  # ends with a temporary file or a file of another name
    kills_by_case: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0


def start(case, folder, out):
    """Fork a child that runs the case; return its process id once it has begun."""
    began, begin = os.pipe()
    child = os.fork()
    if child:
        os.close(begin)
        os.read(began, 1)
        os.close(began)
        return child
    try:
        os.write(begin, b".")
        write_result(case, folder, out)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def finish(child):
    """Wait for a child; return whether it was killed, or raise if it failed."""
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return True
    if status != 0:
        raise RuntimeError(f"a run failed by itself, status {status}")
    return False


def files(folder):
    # Not by `rglob`, which fails where a folder goes in that moment.
    return [Path(place, name) for place, _, names in os.walk(folder) for name in names]


def is_temporary(path):
    return path.suffix == ".tmp"


def kill_until_done(case, folder, expected, duration, kills, draw, report):
    """Run a case with kills at random moments, then to its end, and compare."""
    folder.mkdir()
    out = folder.with_suffix(".result")
    before, killed, earlier = 0, True, report.kills
    while killed and kills > 0:
        child = start(case, folder, out)
        aimed = case.writes and draw.random() < 0.5
        # A single write is waited for from the start, or it would be over.
        time.sleep(0 if aimed and case.writes == 1 else draw.uniform(0, duration))
        if aimed:
            wait_for_a_write(child, folder)
        os.kill(child, signal.SIGKILL)
        killed = finish(child)
        if killed:
            kills -= 1
            report.kills += 1
            report.kills_by_case[case.name] = report.kills_by_case.get(case.name, 0) + 1
            report.in_a_write += any(map(is_temporary, files(folder)))
            before = look(case, folder, before, report)
    if killed:
        finish(start(case, folder, out))
    report.runs += report.kills > earlier
    report.mismatches += out.read_bytes() != expected
    names = {path.name for path in files(folder)}
    report.leftovers += names != case.files


def wait_for_a_write(child, folder):
    """Half of the kills are aimed: writing takes a small part of a run."""
    ended = os.WEXITED | os.WNOHANG | os.WNOWAIT
    while not any(map(is_temporary, files(folder))) and not os.waitid(os.P_PID, child, ended):
        time.sleep(1e-4)


def look(case, folder, before, report):
    """Count a loss if what was there is damaged or gone; return what is there."""
    try:
        now = case.progress(folder)
    except Exception:
        traceback.print_exc()
        now = -1
    report.losses += now < before
    return max(now, 0)


def threads():
    """The names of the threads of this process, but for one that forks well.

    pandas loads pyarrow where it is installed, and that an allocator with a thread of its own,
    which it stops before a fork and starts anew after it.
    """
    names = (path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm"))
    return [name for name in names if name != "jemalloc_bg_thd"]


def main(kills, seed, folder):
    began, draw, report = time.perf_counter(), random.Random(seed), Report()
    import_what_children_need()
    assert len(threads()) == 1, f"a process with threads must not fork: {threads()}"
    cases = []
    for number, case in enumerate(all_cases(folder)):
        whole = folder / f"whole-{number}"
        whole.mkdir()
        out = folder / "whole.result"
        finish(start(case, whole, out))
        clock, again = time.perf_counter(), folder / f"again-{number}"
        again.mkdir()
        finish(start(case, again, out))
        cases.append((case, out.read_bytes(), time.perf_counter() - clock))
        if len(cases) >= kills:
            break
    most = MOST_IN_A_ROW if kills > len(cases) else 1  # a few kills: one for each case
    turn, number = 0, 0
    while report.kills < kills:
        case, expected, duration = cases[turn % len(cases)]
        planned = min(draw.randint(1, most), kills - report.kills)
        earlier, number = report.kills, number + 1
        kill_until_done(case, folder / str(number), expected, duration, planned, draw, report)
        turn += report.kills > earlier  # else the run was over before it was killed
    report.seconds = round(time.perf_counter() - began, 1)
    return report


if __name__ == "__main__":
    seen = main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
    sys.stdout.write(json.dumps(asdict(seen)) + "\n")
