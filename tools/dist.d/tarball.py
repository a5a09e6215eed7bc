# SPDX-License-Identifier: MIT
"""A tarball, to be unpacked anywhere: tar -C /usr/local --strip-components=1 -xf"""
import gzip
import os

from tree import Entry, tar

PAGES = ("CHANGELOG.md", "LICENSE", "README.md", "SECURITY.md")


def make(release, arch, entries):
    name = f"uaio-{release.version}-{arch}"
    pages = []
    for page in PAGES:
        with open(os.path.join(release.source, page), "rb") as file:
            pages.append(Entry(f"share/doc/uaio/{page}", file.read()))
    entries = sorted(entries + pages, key=lambda entry: entry.path)
    with open(os.path.join(release.out, name + ".tar.gz"), "wb") as file:
        file.write(gzip.compress(tar(entries, release.date, name + "/"),
                                 mtime=0))
