# SPDX-License-Identifier: MIT
"""What kernels.py and arm-system.py share: the tests that a guest runs, its orders, its
disk, and what came of it.
"""
import json
import os
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # leave the source tree clean
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "oracle"))
import guest  # noqa: E402
import sandbox  # noqa: E402

DISK = 3 << 30  # sparse
CONSOLE_LINES = 25
DOCTOR_DEADLINE = 60


def chosen(build, wanted):
    """The tests of these sentences and suites, as Meson runs them."""
    with open(os.path.join(build, "meson-info", "intro-tests.json")) as file:
        tests = json.load(file)
    found = []
    for each in wanted:
        of_it = [test for test in tests if test["name"] == each or
                 any("@" + suite.split(":")[-1] == each for suite in test["suite"])]
        if not of_it:
            sys.exit(f"no test {each}")
        found += [test for test in of_it if test not in found]
    return found


def doctor(build, status=0):
    """The tool's own judgement, and the status that it ends with."""
    return {
        "name": "uaio doctor",
        "cmd": ["sh", "-c", '"$0" doctor; test $? -eq "$1"',
                os.path.join(build, "uaio"), str(status)],
        "env": {}, "workdir": None, "timeout": DOCTOR_DEADLINE, "is_parallel": True,
    }


def give(folder, orders):
    """Give the guest its orders, and a file for its results."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, guest.ORDERS), "w") as file:
        json.dump(orders, file)
    open(os.path.join(folder, guest.RESULTS), "w").close()


def make_disk(path):
    with open(path, "wb") as file:
        file.truncate(DISK)
    subprocess.run(["mkfs.ext4", "-q", "-F", path], check=True)


def run_to_end(emulator, deadline, folder, env=None):
    """Return: the lines of its results, and its console."""
    _, console = sandbox.run(emulator, deadline, env=env)
    with open(os.path.join(folder, guest.RESULTS)) as lines:
        return [json.loads(line) for line in lines], console


def report(results, tests):
    """Say what did not succeed. Return: how many tests failed, and were skipped."""
    failed = skipped = 0
    for test in tests:
        result = results.get(test["name"])
        if result is None:
            print(f"failed: {test['name']}: has no result")
            failed += 1
        elif result["status"] == sandbox.SKIP:
            lines = result["output"].splitlines() or [""]
            said = [line for line in lines if line.startswith("skipped: ")] or lines
            print(f"skipped: {test['name']}: {said[-1].removeprefix('skipped: ')}")
            skipped += 1
        elif result["status"] != 0:
            ending = "hangs" if result["status"] is None else \
                f"ends with {result['status']}"
            print(f"failed: {test['name']}: {ending}\n{result['output']}")
            failed += 1
    return failed, skipped


def report_console(lines, results, console):
    """Say how far the guest came, and what it said last."""
    for line in lines:
        if "begins" in line and line["begins"] not in results:
            print(f"the guest did not come to the end of: {line['begins']}")
    print("the guest did not come to its end; its console's last lines:\n" +
          "\n".join(console.splitlines()[-CONSOLE_LINES:]))


def conclude(kernel, tests, lines, console, start):
    """Say what came of the tests. Return: the status to end with."""
    results = {line["name"]: line for line in lines if "name" in line}
    failed, skipped = report(results, tests)
    if not lines or "ends" not in lines[-1]:
        report_console(lines, results, console)
        failed += 1
    for result in sorted(results.values(), key=lambda each: -each["seconds"]):
        print(f"{result['seconds']:6} s  {result['name']}")
    print(f"{kernel}: {len(tests)} tests, {skipped} skipped, {failed} failed, in "
          f"{time.monotonic() - start:.0f} s")
    return 1 if failed else 0
