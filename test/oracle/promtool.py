# SPDX-License-Identifier: MIT
"""promtool.py BUILD: Prometheus' own linter finds nothing in what scrapers read.

It reads the older text of Prometheus, in which a counter's description has the name
of its samples; OpenMetrics leaves out _total there. Nothing else is changed.
"""
import os
import re
import subprocess
import sys
import tempfile
import time

SOURCE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../..")
PATIENCE_S = 120


def promtool(build):
    return subprocess.run(
        [os.path.join(SOURCE, "tools/fetch-promtool"),
         os.path.join(build, "test/oracle/promtool")],
        check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def older(text):
    for name in re.findall(r"^# TYPE (\w+) counter$", text, re.M):
        text = re.sub(rf"^(# \w+ {name}) ", r"\1_total ", text, flags=re.M)
    return text


def lint(tool, text):
    """Return: what promtool complains about, or ""."""
    done = subprocess.run([tool, "check", "metrics"], input=text, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if bool(done.returncode) != bool(done.stdout):
        sys.exit(f"promtool: status {done.returncode}: {done.stdout}")
    return done.stdout


def metrics(build):
    """Return: the metrics of a fio that makes requests meanwhile."""
    uaio = os.path.join(build, "uaio")
    with tempfile.TemporaryDirectory() as place, subprocess.Popen(
            [uaio, "run", "--", "fio", "--name=try", "--ioengine=libaio",
             "--thread", "--rw=randrw", "--size=1m", "--time_based",
             "--runtime=3600", "--output=/dev/null"], cwd=place) as fio:
        end = time.monotonic() + PATIENCE_S
        try:
            while time.monotonic() < end and fio.poll() is None:
                done = subprocess.run(
                    [uaio, "stat", "--openmetrics", str(fio.pid)], text=True,
                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                if "uaio_requests_total{" in done.stdout:
                    return done.stdout
                time.sleep(0.01)
            sys.exit("fio has no counts")
        finally:
            fio.kill()


def main():
    build = os.path.abspath(sys.argv[1])
    tool = promtool(build)
    text = older(metrics(build))
    found = lint(tool, text)
    if found:
        sys.exit(f"{found}in\n{text}")
    if not lint(tool, re.sub(r"^# HELP uaio_threads .*\n", "", text, flags=re.M)):
        sys.exit("what has no help is not found")


main()
