#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Whether compare.py finds what it must, on rows made up for it."""
import sys

sys.dont_write_bytecode = True  # leave the source tree clean

import compare  # noqa: E402

MEANT = [("a=1", "a=2"), ("ring.*", "ring.*")]

# The kernel's fields, uaio's, what is meant to differ, and the verdict.
CASES = {
    "equal rows are equal":
        (["a=1", "b=2"], ["a=1", "b=2"], None, "same"),
    "a value that is another is found":
        (["a=1", "b=2"], ["a=1", "b=3"], None, "DIFFERS"),
    "a field that is missing is found":
        (["a=1", "b=2"], ["a=1"], None, "DIFFERS"),
    "a field too many is found":
        (["a=1"], ["a=1", "ring.tail=1"], None, "DIFFERS"),
    "a row that is missing is found":
        (["a=1"], [], None, "DIFFERS"),
    "a crash is found":
        (["a=1", "b=2"], ["a=1", "ended=SIGSEGV"], None, "DIFFERS"),
    "what is meant to differ may":
        (["a=1", "b=2", "ring.tail=1"], ["a=2", "b=2", "ring.tail=0"], MEANT,
         "differs on purpose"),
    "what is meant to differ must":
        (["a=1", "b=2", "ring.tail=1"], ["a=1", "b=2", "ring.tail=1"], MEANT,
         "NO LONGER DIFFERS"),
    "all of what is meant to differ must":
        (["a=1", "ring.tail=1"], ["a=2", "ring.tail=1"], MEANT,
         "NO LONGER DIFFERS"),
    "what is meant to differ must do so as it is said":
        (["a=1", "ring.tail=1"], ["a=3", "ring.tail=0"], MEANT,
         "DIFFERS OTHERWISE"),
    "what is meant to differ hides nothing else":
        (["a=1", "b=2", "ring.tail=1"], ["a=2", "b=3", "ring.tail=0"], MEANT,
         "DIFFERS OTHERWISE"),
    "a crash is not what is meant to differ":
        (["a=1", "ring.tail=1"], ["ended=SIGSEGV"], MEANT,
         "DIFFERS OTHERWISE"),
    "a crash may be meant":
        (["a=1", "b=2"], ["ended=SIGSEGV"], [("a=1", "ended=SIGSEGV")],
         "differs on purpose"),
    "a row the machine cannot run is skipped":
        (["a=1", "skip=needs-root"], ["a=2"], MEANT, "skipped"),
    "a row that fails on the kernel proves nothing":
        (["a=1", "broken=open(EMFILE)"], ["a=1", "broken=open(EMFILE)"], None,
         "BROKEN"),
    "a row that hangs on the kernel proves nothing":
        (["a=1", "ended=deadline"], ["a=1", "ended=deadline"], None, "BROKEN"),
}


def main():
    failed = 0
    for sentence, (kernel, uaio, patterns, expected) in CASES.items():
        verdict, _ = compare.judge(kernel, uaio, patterns)
        if verdict != expected:
            print(f"{sentence}: {verdict}, not {expected}")
            failed += 1
    # Elsewhere than on the usual file system, and with a setting.
    if compare.judge(["a=1"], ["a=1"], MEANT, True)[0] != "same":
        print("a difference must show on every file system")
        failed += 1
    print(f"{len(CASES) + 1 - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
