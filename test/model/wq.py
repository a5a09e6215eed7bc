#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""wq.py FOLDER NAME: search the model of the work queue with Spin, in full.

NAME is a configuration, in which nothing may be wrong, or a fault, with which
something must be. A search that was cut short, by memory, depth or time, proves
nothing and fails. FOLDER is where a folder of its own is made and removed.
`wq.py FOLDER all` does everything, `wq.py --list` prints all names.
"""
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

SKIP = 77
MODEL = os.path.join(os.path.dirname(os.path.realpath(__file__)), "wq.pml")
MEMORY = 1 << 30
DEADLINE = 120
DEPTH = 10000

CONFIGURATIONS = {
    "growing": "NORMAL=1 WORKS=3 SUBMITTERS=2 REFUSES=1 TIMES_OUT=1 OTHER=1"
               " LONG_HELP=1",
    "two": "NORMAL=2 WORKS=3 BATCH=2 FOREVER=1 REFUSES=1 CANCELS=1",
    "limits": "NORMAL=1 WORKS=3 LIMITS=1 REFUSES=1 TIMES_OUT=1",
    "limits-of-two": "NORMAL=2 WORKS=2 LIMITS=1 REFUSES=1 TIMES_OUT=1",
    "raised": "NORMAL=2 WORKS=3 BATCH=2 LIMITS=2 REFUSES=1 TIMES_OUT=1",
    "list": "FIXED=1 NORMAL=1 WORKS=3 BATCH=3 FOREVER=1 CANCELS=1",
    "lists": "FIXED=2 NORMAL=0 WORKS=3 BATCH=2 FOREVER=1",
    "in-turn": "FIXED=1 NORMAL=1 WORKS=3 BATCH=3 FOREVER=1 REFUSES=1"
               " ROUND_ROBIN=1",
    "slow-owner": "FIXED=1 NORMAL=1 WORKS=3 STALE=1",
    "ring": "FIXED=1 NORMAL=0 WORKS=5 RING=1 CANCELS=1",
}

# Each in a configuration in which, without it, nothing is wrong.
FAULTS = {
    "NO_RECHECK": "list",
    "NO_HAND_OFF": "list",
    "NO_STEAL": "list",
    "CANCEL_WITHOUT_COMPARE": "ring",
    "TAKE_WITHOUT_EXCHANGE": "ring",
    "HEAD_BEFORE_EXCHANGE": "ring",
    "TAIL_BEFORE_SLOT": "ring",
    "WAKE_WITHOUT_CREDIT": "two",
    "CREDIT_WITHOUT_GOING_IDLE": "two",
    "LEAVE_WITH_CREDIT": "growing",
    "SEQUENCE_AFTER_UNLOCK": "two",
    "SLEEP_WITHOUT_COMPLETING": "list",
    "REFUSED_WITHOUT_ENSURE": "two",
    "WATCHER_NEVER_ARMED": "growing",
    "PROMISED_BEFORE_IT_EXISTS": "growing",
    "WAITS_FOR_THE_HELPER": "growing",
    "OTHERS_PROMISE": "raised",
    "NO_HELP_AT_ZERO": "limits",
    "GIVE_BACK_UNWATCHES": "raised",
}

# What pan says when it has not seen everything.
CUT_SHORT = re.compile(r"max search depth too small|out of memory|memory limit"
                       r"|hash.?table full|time limit", re.I)


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def run(*command, folder, **options):
    """Output of a command that must not fail."""
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.returncode}\n{done.stdout}")
    return done.stdout


def search(folder, configuration, fault):
    """What pan says of the model."""
    defines = ["-D" + define for define in configuration.split()]
    if fault:
        defines.append("-D" + fault)
    run("spin", "-a", *defines, MODEL, folder=folder)
    # What optimizing would save it costs.
    run("gcc", "-O0", "-w", "-DSAFETY", "-DNOFAIR",
        f"-DMEMLIM={MEMORY >> 20}", "-o", "pan", "pan.c", folder=folder)
    return run("./pan", f"-m{DEPTH}", "-w21", folder=folder, timeout=DEADLINE,
               preexec_fn=limit_memory)


def judge(output, is_faulty):
    """Returns what is wrong with the verdict, or None."""
    errors = re.findall(r"\berrors: (\d+)$", output, re.M)
    if len(errors) != 1 or "states, stored" not in output:
        return "no verdict"
    if CUT_SHORT.search(output):
        return "cut short"
    if is_faulty:
        if errors[0] != "1" or "assertion violated" not in output:
            return "the fault is not found"
        return None
    if errors[0] != "0" or "assertion violated (" in output:
        return "a counterexample: spin -t -p has its steps"
    if "Search not completed" in output:
        return "cut short"
    return None


def check(folder, name):
    """Returns whether the model is as it should be."""
    fault = name if name in FAULTS else None
    configuration = CONFIGURATIONS[FAULTS.get(name, name)]
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="wq-", dir=folder) as own:
        try:
            output = search(own, configuration, fault)
            wrong = judge(output, fault is not None)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            output, wrong = str(error), "no verdict"
    figure = re.search(r"(\d\S*) states, stored", output)
    memory = re.search(r"(\S+)\s+total actual memory", output)
    print(f"{'FAIL' if wrong else 'ok':4}  {name:26} "
          f"{figure[1] if figure else '?':>9} states "
          f"{memory[1] if memory else '?':>8} MB "
          f"{time.monotonic() - begun:5.1f} s", flush=True)
    if wrong:
        print(f"{wrong}, with {configuration} {fault or ''}\n{output}")
    return not wrong


def main():
    names = [*CONFIGURATIONS, *FAULTS]
    if sys.argv[1:] == ["--list"]:
        print("\n".join(names))
        return 0
    folder, name = sys.argv[1:]
    if name != "all" and name not in names:
        sys.exit(f"wq.py: no configuration and no fault is named {name}")
    if not shutil.which("spin"):
        print("skipped: spin is not installed")
        return SKIP
    os.makedirs(folder, exist_ok=True)
    if name != "all":
        return 0 if check(folder, name) else 1
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda each: check(folder, each), names))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
