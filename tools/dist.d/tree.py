# SPDX-License-Identifier: MIT
"""What the files of a release are made from: a release, and an installed tree as a
list of files, the same whatever machine it was made on."""
import dataclasses
import hashlib
import io
import os
import tarfile


@dataclasses.dataclass
class Release:
    version: str
    commit: str
    date: int    # of the commit, in seconds
    source: str  # a folder
    work: str
    out: str


@dataclasses.dataclass
class Entry:
    """A file, or a symbolic link, by its path from the tree's top."""
    path: str
    data: bytes = b""
    executable: bool = False
    link: str = ""

    @property
    def mode(self):
        return 0o755 if self.executable else 0o644


def read(top):
    """The entries below folder `top`, sorted by their paths."""
    entries = []
    for folder, folders, names in os.walk(top):
        for name in names + [name for name in folders if
                             os.path.islink(os.path.join(folder, name))]:
            path = os.path.join(folder, name)
            at = os.path.relpath(path, top)
            if os.path.islink(path):
                entries.append(Entry(at, link=os.readlink(path)))
                continue
            with open(path, "rb") as file:
                entries.append(Entry(at, file.read(),
                                     bool(os.stat(path).st_mode & 0o100)))
    return sorted(entries, key=lambda entry: entry.path)


def find(entries, path):
    return next(entry for entry in entries if entry.path == path)


def tar(entries, date, prefix=""):
    """A tar file's bytes."""
    buffer = io.BytesIO()
    made = set()

    def add(name, **fields):
        info = tarfile.TarInfo(name)
        info.mtime = date
        data = fields.pop("data", b"")
        for field, value in fields.items():
            setattr(info, field, value)
        info.size = len(data)
        out.addfile(info, io.BytesIO(data))

    def add_folders(path):
        folder = os.path.dirname(path)
        if folder and folder not in made:
            add_folders(folder)
            made.add(folder)
            add(folder, type=tarfile.DIRTYPE, mode=0o755)

    with tarfile.open(fileobj=buffer, mode="w",
                      format=tarfile.GNU_FORMAT) as out:
        for entry in entries:
            path = prefix + entry.path
            add_folders(path)
            if entry.link:
                add(path, type=tarfile.SYMTYPE, linkname=entry.link,
                    mode=0o777)
            else:
                add(path, data=entry.data, mode=entry.mode)
    return buffer.getvalue()


def file_sha256(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()
