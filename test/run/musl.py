# SPDX-License-Identifier: MIT
"""Programs in a root that has musl and no other C library, as Alpine has.

They run behind a filter that refuses the kernel's AIO and io_uring, with the library that
was built for glibc, and with the one that is built for musl here.
"""
import os

from harness import case, expect, main
from musl_root import Root, built_for_musl


def preloaded(tool):
    """A root for each of the two builds of the library, which is preloaded."""
    root = Root(tool)
    for library in (tool.library,
                    os.path.join(built_for_musl(tool), "libuaio.so.0")):
        root.put(library, "lib")
        yield root, ("LD_PRELOAD=/lib/libuaio.so.0", "UAIO_CALLS=all")


@case("in a root with musl alone, each interface is served by both builds")
def _(tool):
    for root, preload in preloaded(tool):
        outcome = root.run_stranger(*preload, "UAIO_STATS=1")
        # Of each program and its child; the first ends by execv().
        expect(outcome.err.count("5 requests in 5 calls"), 2, outcome.err)
    # Without it, the filter refuses them.
    expect("served" in root.run("/bin/stranger").out.partition("aio_read")[0], False,
           "whether the kernel serves them")


@case("in a root with musl alone, uaio run starts programs for musl, and no others")
def _(tool):
    root = Root(tool)
    where = built_for_musl(tool)
    root.put(os.path.join(where, "libuaio.so.0"), "bin")
    root.put(os.path.join(where, "uaio"), "bin")
    root.run_stranger("UAIO_CALLS=all", "/bin/uaio", "run")
    root.put(tool.args.target, "bin")
    name = os.path.basename(tool.args.target)
    root.run("/bin/uaio", "run", f"/bin/{name}").expect_refusal(
        2, name, "ld-linux", "a build for musl")


@case("in a root with musl alone, the doctor says that each interface is served")
def _(tool):
    root = Root(tool)
    where = built_for_musl(tool)
    root.put(os.path.join(where, "uaio"), "bin")
    for library in tool.library, os.path.join(where, "libuaio.so.0"):
        root.put(library, "bin")
        root.run_doctor("/bin/uaio")
    with open(os.path.join(root.path, "bin/libuaio.so.0"), "w"):
        pass
    outcome = root.run("/bin/uaio", "doctor")
    if "FAIL  library           cannot be loaded: " not in outcome.out:
        raise AssertionError(outcome.story)


@case("in a root with musl alone, fio reads back what it wrote by each interface")
def _(tool):
    for root, preload in preloaded(tool):
        root.put_fio()
        for engine in ("libaio", "posixaio", "io_uring"):
            root.run_fio(engine, *preload, "UAIO_STATS=1")


main()
