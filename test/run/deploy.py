# SPDX-License-Identifier: MIT
"""What doc/deploy.md says is typed and printed, and the files of examples/deploy.

There is no container engine: container.py executes the lines of a Dockerfile in a
root that debootstrap made, and runs commands there under a filter that refuses
what Docker's does.
"""
import os
import shutil
import sys

from debs import debs
from harness import Skip, case, expect, main

HERE = os.path.dirname(os.path.realpath(__file__))


def inside(tool, part):
    """Runs a part of container.py, in namespaces that end with this process."""
    if os.geteuid():
        raise Skip("only root can make the root of a container")
    base = tool.exec(os.path.join(tool.args.source, "tools/check-fresh"),
                     "--base", tool.args.build)
    expect(base.status, 0, base.story)
    outcome = tool.exec(
        "unshare", "--mount", "--pid", "--fork", "--kill-child",
        sys.executable, "-B", os.path.join(HERE, "container.py"), part,
        base.out.split()[-1], debs(tool), tool.args.build, tool.args.source,
        tool.scratch)
    print(outcome.story)
    expect(outcome.status, 0, "status")


@case("what doc/deploy.md says is typed prints what it says")
def _(tool):
    inside(tool, "document")


@case("the example for Compose runs its service on uaio")
def _(tool):
    inside(tool, "compose")


@case("the example for Kubernetes brings the library to an image without it")
def _(tool):
    inside(tool, "kubernetes")


@case("the drop-in for systemd is valid and its service runs on uaio")
def _(tool):
    if not shutil.which("systemd-analyze"):
        raise Skip("systemd is not installed")
    inside(tool, "systemd")


main()
