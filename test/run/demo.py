# SPDX-License-Identifier: MIT
"""What `make demo` shows."""
import os
import re
import shutil
import sys

from harness import Skip, case, expect, main


@case("the demo shows what runs where kernel AIO and io_uring are refused")
def _(tool):
    demo = tool.args.source + "/bench/demo.py"
    deny = tool.args.build + "/bench/deny-aio"
    if not shutil.which("fio"):
        raise Skip("fio is not installed")
    if not os.path.exists(deny):
        raise Skip("deny-aio was not built: libseccomp-dev is missing")
    out = tool.exec(sys.executable, "-B", demo, "--build", tool.args.build,
                    "--pairs", "0").expect(out=None).out
    lines = {words[0]: words[1:] for words in
             (re.split(r"\s{2,}", line.strip()) for line in out.splitlines())}
    for what in ("kernel AIO forbidden", "io_uring refused"):
        expect(lines.get(f"with {what} (seccomp)"), ["fio fails", "runs"],
               f"with {what}\n{out}")


LINE_OF_POSIX_AIO = """
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
import demo

shown = demo.Demo(Path(sys.argv[2]), 1)
line = shown.posix()
print(line.title, line.kernel, line.uaio, line.ratio, sep="\\n")
sys.exit(shown.is_wrong)
"""


@case("the demo shows POSIX AIO beside glibc's")
def _(tool):
    if not shutil.which("fio"):
        raise Skip("fio is not installed")
    out = tool.exec(sys.executable, "-B", "-c", LINE_OF_POSIX_AIO,
                    tool.args.source + "/bench",
                    tool.args.build).expect(out=None).out
    title, *shown = out.splitlines()
    expect(title.startswith("POSIX AIO beside glibc's, "), True, title)
    for rate in shown[:2]:
        expect(bool(re.fullmatch(r"[\d.]+ ?[kM]?/s", rate)), True, rate)
    expect(bool(re.fullmatch(r"([\d.]+)x \(\1–\1\)", shown[2])), True, shown[2])


if __name__ == "__main__":
    main()
