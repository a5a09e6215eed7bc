# SPDX-License-Identifier: MIT
"""doc/deploy.md on container engines, under their own default profiles.

engine.py runs each engine, from Debian's packages in a root of their own. Where the
machine refuses what an engine needs to start, such as a mount, the test prints the
engine's own words and passes.
"""
import os
import subprocess
import sys

from debs import debs
from harness import Skip, case, expect, main

HERE = os.path.dirname(os.path.realpath(__file__))
NOT_STARTED = 3


def on_engine(tool, engine, suite, *packages):
    if os.geteuid():
        raise Skip("only root can start a container engine")
    tools = os.path.join(tool.args.source, "tools")
    base = tool.exec(f"{tools}/check-fresh", "--base", tool.args.build)
    expect(base.status, 0, base.story)
    root = tool.exec(f"{tools}/fetch-root", suite, *packages,
                     os.path.join(tool.args.build, "engines",
                                  f"{engine}-{suite}"))
    expect(root.status, 0, root.story)
    # engine.py removes its control group when this process ends, even killed.
    # Without our own library, which the tests' runner has for the loader.
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("UAIO_", "LD_"))}
    child = subprocess.Popen(
        ["unshare", "--mount", sys.executable, "-B",
         os.path.join(HERE, "engine.py"), engine, root.out.split()[-1],
         base.out.split()[-1], debs(tool), tool.args.build, tool.args.source,
         tool.scratch], env=env,
        stdin=subprocess.PIPE, start_new_session=True)
    status = child.wait()
    if status != NOT_STARTED:
        expect(status, 0, "status")


@case("doc/deploy.md is true of Docker 20.10, where that starts")
def _(tool):
    on_engine(tool, "docker", "bookworm", "docker.io", "mount")


@case("doc/deploy.md is true of Docker 26.1, where that starts")
def _(tool):
    on_engine(tool, "docker", "trixie", "docker.io", "docker-cli", "mount")


@case("doc/deploy.md is true of Podman 4.3, where that starts")
def _(tool):
    on_engine(tool, "podman", "bookworm", "podman", "runc", "mount")


@case("doc/deploy.md is true of Podman 5.4, where that starts")
def _(tool):
    on_engine(tool, "podman", "trixie", "podman", "runc", "mount")


main()
