#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""glibc.py BUILD tests WAY: glibc's own tests of POSIX AIO, fetched and built by
tools/fetch-glibc. Each must pass. Ways: PosixClient in ways.py.
"""
import os
import sys

sys.dont_write_bytecode = True  # leave the source tree clean
import ways  # noqa: E402

def tests(client):
    folder = client.fetched("glibc")
    names = sorted(name for name in os.listdir(folder)
                   if name.startswith("tst-aio"))
    if not names:
        raise ways.Failed("there are no tests")
    failed = []
    for name in names:
        try:
            client.run(os.path.join(folder, name))
            # Some ask for what never completes.
            client.prove(name, 1, count="accepted")
        except ways.Failed as why:
            print(why, flush=True)
            failed.append(name)
    print(f"{len(names) - len(failed)} of {len(names)} pass")
    if failed:
        raise ways.Failed(f"failed: {' '.join(failed)}")


if __name__ == "__main__":
    sys.exit(ways.main(__doc__, {"tests": tests}, ways.PosixClient))
