#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""checked.py BUILD KNOWN SCRIPT [ARGUMENT...]: a client, as `uaio check` runs it.

Runs SCRIPT BUILD ARGUMENT..., one of this folder, with its requests checked. No program
here has an error but those in KNOWN: KIND:THREAD, where THREAD begins the name of the
thread that makes it; or "none". Each of these is found.
"""
import collections
import os
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # leave the source tree clean


def reports_of(folder):
    """Yields (kind, thread, text) of each report, and the sum of checked requests."""
    reports, checked = [], 0
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), errors="replace") as file:
            lines = [line.rstrip("\n").split("\t") for line in file]
        for i, fields in enumerate(lines):
            if fields[0] == "summary":
                checked += int(fields[2].split()[1])
            elif fields[0] == "report":
                thread = next((f[2] for f in lines[i:] if f[0] == "thread"), "?")
                reports.append((fields[1], thread, "\n".join(
                    "\t".join(f) for f in lines[i:i + 30])))
    return reports, checked


def main():
    build, known, script, *arguments = sys.argv[1:]
    known = [] if known == "none" else known.split(",")
    # Programs of other users write there, and some see another /tmp.
    folder = tempfile.mkdtemp(dir=build, prefix="checked-")
    os.chmod(folder, 0o1777)
    try:
        status = subprocess.run(
            [sys.executable, script, build, *arguments],
            env={**os.environ, "UAIO_CHECK": folder,
                 "LD_PRELOAD": os.path.join(build, "libuaio-check.so")}).returncode
        reports, checked = reports_of(folder)
    finally:
        shutil.rmtree(folder)
    if status:
        sys.exit(status)
    found = collections.Counter()
    for kind, thread, text in reports:
        name = next((k for k in known if k.split(":")[0] == kind and
                     thread.startswith(k.split(":")[1])), None)
        if not name:
            sys.exit(f"a report that is not known:\n{text}")
        found[name] += 1
    missing = [k for k in known if not found[k]]
    if missing:
        sys.exit(f"not reported: {', '.join(missing)}")
    if not checked:
        sys.exit("no request was checked")
    print(f"{checked} requests checked, reported: {dict(found) or 'nothing'}")


if __name__ == "__main__":
    main()
