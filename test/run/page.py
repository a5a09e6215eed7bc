# SPDX-License-Identifier: MIT
"""doc/deploy.md as commands and what they print, and the image that it starts from."""
import functools
import os
import re
import shutil
import subprocess

ANY_LINES = "..."


def typed(text):
    """The commands of the document, each with what it prints."""
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.M | re.S):
        block = block.replace("\\\n", "")
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, printed = part.partition("\n")
            yield command, printed


def pattern(line):
    """Return: a pattern for the text. Figures may differ, and so may the width of their
    column. Three dots stand for any text."""
    gap = r"\d+(?:\.\d+)*|-(?= |$)|\s+"
    pieces = [re.escape(piece) for piece in re.split(gap, line)]
    made = pieces[0]
    for found, piece in zip(re.findall(gap, line), pieces[1:]):
        made += (r"\s+" if found.isspace() else r"(?:\d+(?:\.\d+)*|-)") + piece
    return re.compile(made.replace(r"\.\.\.", ".*") + r"\s*")


def is_printed(document, *streams):
    """Return: whether the streams contain what the document shows. A container engine
    keeps the order of lines within a stream, but not between two streams. Three dots
    alone stand for any lines."""
    wanted = [line.strip() == ANY_LINES or pattern(line)
              for line in document.splitlines()]
    said = [stream.splitlines() for stream in streams]

    @functools.cache
    def matches(line, at):
        if line == len(wanted):
            return all(nr == len(lines) for nr, lines in zip(at, said))
        is_any = wanted[line] is True
        if is_any and matches(line + 1, at):
            return True
        for stream, lines in enumerate(said):
            nr = at[stream]
            if nr < len(lines) and (
                    is_any or wanted[line].fullmatch(lines[nr])):
                after = at[:stream] + (nr + 1,) + at[stream + 1:]
                if matches(line if is_any else line + 1, after):
                    return True
        return False

    return matches(0, (0,) * len(said))


def libraries_of(program):
    said = subprocess.run(["ldd", program], check=True, capture_output=True,
                          text=True).stdout
    return re.findall(r"(/\S+) \(0x", said)


def unpack_image(root, base):
    """`my-image`: a minimal Debian with fio, and nothing of uaio."""
    subprocess.run(
        ["tar", "-C", root, "-xf", base, "--exclude=./usr/share/doc",
         "--exclude=./usr/share/locale", "--exclude=./var/cache",
         "--exclude=./var/lib/apt/lists", "--exclude=./usr/lib/git-core"], check=True)
    fio = shutil.which("fio")
    for path in [fio, *libraries_of(fio)]:
        to = root + os.path.realpath(os.path.dirname(path))
        os.makedirs(to, exist_ok=True)
        if not os.path.exists(os.path.join(to, os.path.basename(path))):
            shutil.copy(path, to)
