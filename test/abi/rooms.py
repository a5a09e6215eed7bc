#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""rooms.py --build DIR --source DIR: what each room of src/ can include.

The table of src/README.md says which rooms each may use. The compiler is asked
with the very include directories that the room is built with, and has to find
the headers of those rooms, and no other.
"""
import argparse
import json
import os
import re
import shlex
import subprocess
import sys

ROW = re.compile(r"^\| `([\w/]+)/` \|[^|]*\|([^|]*)\|", re.M)
HEADER = re.compile(r"`([\w/.]+?)/?`")
# A room's own objects; tests compile its sources with other directories.
PRODUCT = re.compile(r"(?:^|/)(?:libroom-\w+\.a|libuaio\.so\.0|uaio)\.p/")


def documented(source):
    """Return: {module: the modules that it may use, including itself}"""
    with open(os.path.join(source, "src/README.md"), encoding="utf-8") as file:
        return {room: {room, *HEADER.findall(uses)}
                for room, uses in ROW.findall(file.read())}


def headers_of(source):
    """Return: all headers, as #include names them."""
    names = ["uaio.h"]
    for folder, _, files in os.walk(os.path.join(source, "src")):
        names += [os.path.relpath(os.path.join(folder, name),
                                  os.path.join(source, "src"))
                  for name in files if name.endswith(".h")]
    return sorted(names)


def commands(build, source, rooms):
    """Return: {module: the compiler with the module's include directories}"""
    found = {}
    with open(os.path.join(build, "compile_commands.json"),
              encoding="utf-8") as file:
        entries = json.load(file)
    for entry in entries:
        path = os.path.relpath(os.path.join(entry["directory"], entry["file"]),
                               os.path.join(source, "src"))
        room = room_of(path)
        args = shlex.split(entry["command"])
        if room in rooms and path.endswith(".c") and PRODUCT.search(
                entry.get("output", args[args.index("-o") + 1])):
            compiler = args[:next(i for i, arg in enumerate(args)
                                  if arg.startswith("-"))]
            found.setdefault(room, (entry["directory"], compiler + [
                arg for arg in args if arg.startswith(("-I", "-iquote"))]))
    return found


def run(command, extra, text):
    folder, args = command
    return subprocess.run([*args, *extra, "-x", "c", "-"], cwd=folder,
                          input=text, capture_output=True, text=True)


def room_of(header):
    return header.split("/")[0]


def check_room(room, uses, command, headers):
    """Return: what is wrong, or None."""
    probe = "".join(f'#if __has_include("{name}")\nfound {name}\n#endif\n'
                    for name in headers)
    # Without the system's headers, of which one is a file/file.h.
    done = run(command, ["-E", "-P", "-nostdinc"], probe)
    if done.returncode:
        return [f"{room}: {done.stderr}"]
    found = {line.split()[1] for line in done.stdout.splitlines()
             if line.startswith("found ")}
    allowed = {name for name in headers if room_of(name) in uses}
    wrong = [f'{room} can include "{name}", which src/README.md does not allow'
             for name in sorted(found - allowed)]
    wrong += [f'{room} cannot include "{name}", which src/README.md allows'
              for name in sorted(allowed - found)]
    return wrong


def check_compiler(command, header, is_allowed):
    """Check that the compiler really fails if a header is not found."""
    done = run(command, ["-D_GNU_SOURCE", "-fsyntax-only"],
               f'#include "{header}"\n')
    if (done.returncode == 0) != is_allowed:
        return [f'"{header}" in a room that may{"" if is_allowed else " not"} '
                f"use it: {done.stderr or 'was compiled'}"]
    return []


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--source", required=True)
    args = parser.parse_args()
    rooms = documented(args.source)
    headers = headers_of(args.source)
    compilers = commands(args.build, args.source, rooms)
    folders = {room_of(name) for name in headers} - {"uaio.h"}
    wrong = [f"src/{folder} is not in the table of src/README.md"
             for folder in sorted(folders - set(rooms))]
    for room, uses in rooms.items():
        if room in compilers:
            wrong += check_room(room, uses, compilers[room], headers)
        else:
            wrong.append(f"{room}: nothing is compiled of it")
    if not wrong:
        wrong += check_compiler(compilers["base"], "base/lock.h", True)
        wrong += check_compiler(compilers["base"], "op/op.h", False)
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
