# SPDX-License-Identifier: MIT
"""A wheel: `pip install uaio` installs the command and its library.

A wheel cannot have links, and copies of the library would be loaded beside each other.
So libaio's names are not there: a program has the system's libaio, which the library
stands before.
"""
import base64
import hashlib
import io
import os
import time
import zipfile

from tree import Entry, find

PLATFORMS = ("manylinux_2_17_{arch}", "manylinux2014_{arch}",
             "musllinux_1_2_{arch}")

METADATA = """Metadata-Version: 2.1
Name: uaio
Version: {version}
Summary: The Linux asynchronous I/O subsystem in user space
License: MIT
Classifier: License :: OSI Approved :: MIT License
Classifier: Operating System :: POSIX :: Linux
Description-Content-Type: text/markdown

{readme}"""

WHEEL = """Wheel-Version: 1.0
Generator: uaio
Root-Is-Purelib: false
"""


def record(entries, info):
    lines = []
    for entry in entries:
        digest = base64.urlsafe_b64encode(hashlib.sha256(entry.data).digest())
        lines.append(f"{entry.path},sha256={digest.decode().rstrip('=')},"
                     f"{len(entry.data)}\n")
    path = info + "/RECORD"
    return Entry(path, ("".join(lines) + f"{path},,\n").encode())


def platforms(arch):
    return [name.format(arch=arch) for name in PLATFORMS]


def contents(release, arch, tree):
    name = f"uaio-{release.version}"
    info, data = name + ".dist-info", name + ".data"
    with open(os.path.join(release.source, "README.md")) as file:
        readme = file.read()
    with open(os.path.join(release.source, "LICENSE"), "rb") as file:
        licence = file.read()
    library = find(tree, "lib/libuaio.so.0")
    entries = [
        Entry(f"{data}/scripts/uaio", find(tree, "bin/uaio").data, True),
        Entry(f"{data}/data/lib/uaio/libuaio.so.0", library.data, True),
    ]
    for entry in tree:
        if entry.path.startswith(("share/man/man1/", "share/man/man5/",
                                  "share/man/man7/", "share/uaio/",
                                  "lib/uaio/")) and not entry.link:
            entries.append(Entry(f"{data}/data/{entry.path}", entry.data,
                                 entry.executable))
    entries += [
        Entry(f"{info}/LICENSE", licence),
        Entry(f"{info}/METADATA", METADATA.format(
            version=release.version, readme=readme).encode()),
        Entry(f"{info}/WHEEL", (WHEEL + "".join(
            f"Tag: py3-none-{name}\n" for name in platforms(arch))).encode()),
    ]
    return [*entries, record(entries, info)]


def make(release, arch, tree):
    date = time.gmtime(release.date)[:6]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as out:
        for entry in contents(release, arch, tree):
            info = zipfile.ZipInfo(entry.path, date)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3  # Unix
            info.external_attr = (0o100000 | entry.mode) << 16
            out.writestr(info, entry.data)
    with open(os.path.join(release.out, f"uaio-{release.version}-py3-none-"
                           f"{'.'.join(platforms(arch))}.whl"), "wb") as file:
        file.write(buffer.getvalue())
