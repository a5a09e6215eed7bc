# SPDX-License-Identifier: MIT
"""The files of a release in a root that has musl and no other C library.

They are the same files as for glibc: the library was built for it, and the command
without a C library.
"""
import glob
import os
import zipfile

import released
from harness import case, expect, main
from musl_root import Root


def served(root, prefix, library):
    """All interfaces, by the loader alone and by the command."""
    root.put_fio()
    for way in ((f"LD_PRELOAD={prefix}/{library}", "UAIO_STATS=1"),
                (f"{prefix}/bin/uaio", "run", "--stats")):
        root.run_stranger("UAIO_CALLS=all", *way)
        for engine in ("libaio", "posixaio", "io_uring"):
            root.run_fio(engine, "UAIO_CALLS=all", *way)
    root.run_doctor(f"{prefix}/bin/uaio")
    # The command is static: it starts also where nothing can load the library.
    for loader in glob.glob(f"{root.path}/lib/ld-musl-*"):
        os.unlink(loader)
    outcome = root.run(f"{prefix}/bin/uaio", "doctor")
    expect("cannot be loaded: no loader of glibc or musl" in outcome.out, True,
           outcome.story)


def file_of(tool, pattern):
    return released.find(released.release(tool.args.build, tool.args.source),
                         pattern)


@case("a release's tarball serves each interface, and fio, in a root with musl alone")
def _(tool):
    root = Root(tool)
    released.unpack(file_of(tool, "*-x86_64.tar.gz"), root.path + "/opt")
    served(root, "/opt", "lib/libuaio.so.0")


@case("a release's wheel serves each interface, and fio, in a root with musl alone")
def _(tool):
    root = Root(tool)
    # Where pip puts them, for there is none in the root.
    with zipfile.ZipFile(file_of(tool, "*musllinux*x86_64.whl")) as wheel:
        for entry in wheel.infolist():
            _, found, path = entry.filename.partition(".data/")
            if not found:
                continue
            folder, _, path = path.partition("/")
            path = os.path.join(root.path, "opt", "bin" if folder == "scripts"
                                else "", path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(wheel.read(entry))
            os.chmod(path, entry.external_attr >> 16 & 0o777)
    served(root, "/opt", "lib/uaio/libuaio.so.0")


main()
