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


if __name__ == "__main__":
    main()
