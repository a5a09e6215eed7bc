#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""uring-abi.py --source DIR [--self-test] -- COMPILER...: our copies of the kernel's ABI.

Each constant of base/io_uring.h and base/newer.h, and each member of their structs, is
compared with the installed headers of the kernel and the C library. Names that these
lack are not compared; headers as new as ours have to have them all.

--self-test plants mistakes, one at a time, and demands that each is found.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

OURS = ["base/io_uring.h", "base/newer.h"]
# Ours are complete up to this version. (Debian's headers have the version of the kernel.)
COMPLETE = (6, 18)
# The kernel keeps this name to itself.
NOT_IN_HEADERS = {"IORING_TIMEOUT_CLOCK_MASK", "IORING_TIMEOUT_UPDATE_MASK"}
# Of Linux 7.1.
OF_LATER = {"io_uring_buf_reg.min_left"}

THEIRS = """
#define _GNU_SOURCE
#include <asm/unistd.h>
#include <linux/io_uring.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <linux/mman.h>
#include <linux/stat.h>
#include <linux/version.h>
#include <linux/wait.h>
"""
# System headers that ours may have included here: none whose constants ours replace.
KEPT = ["<linux/time_types.h>", "<stddef.h>", "<stdint.h>"]

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+\S", re.M)
ENUM = re.compile(r"\benum\b[^{;]*\{([^}]*)\}")
STRUCT = re.compile(r"\bstruct\s+(\w+)\s*\{")
DECLARED = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*;")
# The names and sizes of these change whenever a member is added, so do not compare them.
RESERVED = re.compile(r"(?:__)?(?:resv|reserved|pad|unused|empty)(?:\d|_end)?$")
ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)")


def constants_of(text):
    """The names of all constants."""
    names = DEFINE.findall(text)
    for body in ENUM.findall(text):
        names += re.findall(r"(?:^|,)\s*(\w+)", body)
    return names


def structs_of(text):
    """{struct: its members}, those of unnamed structs and unions in it included."""
    found = {}
    for match in STRUCT.finditer(text):
        depth, end = 1, match.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        found[match.group(1)] = DECLARED.findall(
            ATTRIBUTE.sub("", text[match.end():end - 1]))
    return found


def system_name(name):
    """Return: the system's name of what has a name of our own, which avoids conflicts
    with some headers. The C library may be older than the kernel's headers, which have
    the numbers by these names."""
    if name.startswith("SYS_"):
        return "__NR_" + name[len("SYS_"):]
    if name.startswith(("UAIO_", "uaio_")):
        return name[len("UAIO_"):]
    return name


def system_member(struct, member):
    if struct == "uaio_statx":
        return "stx_" + member
    return member


def our_text(source):
    """Our headers without those of the system's that have the same constants."""
    text = ""
    for name in OURS:
        with open(os.path.join(source, "src", name), encoding="utf-8") as file:
            text += file.read()
    return "".join(line for line in text.splitlines(True)
                   if not line.startswith("#include")
                   or any(name in line for name in KEPT))


class Compiler:
    def __init__(self, command, scratch):
        self.command = command
        self.scratch = scratch

    def run(self, args, text):
        done = subprocess.run([*self.command, *args, "-x", "c", "-"],
                              input=text, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(self.command)}: {done.stderr}")
        return done.stdout

    def values(self, head, expressions):
        """{name: value}"""
        rows = "".join(f'\tprintf("%s %lld\\n", "{name}", (long long)({value}));\n'
                       for name, value in expressions.items())
        program = os.path.join(self.scratch, "values")
        self.run(["-w", "-o", program],
                 f"{head}\n#include <stddef.h>\n#include <stdio.h>\n"
                 f"int main(void)\n{{\n{rows}\treturn 0;\n}}\n")
        # The library that the tests' runner may have for the loader has no part in it.
        said = subprocess.run([program], check=True, capture_output=True,
                              text=True, env={}).stdout
        return {name: int(value)
                for name, value in (line.split() for line in said.splitlines())}


def compare(compiler, ours):
    """Return: what differs, what the installed headers lack, how many were compared."""
    text = COMMENT.sub(" ", ours)
    constants = [name for name in constants_of(text) if not name.endswith("_H")]
    theirs = compiler.run(["-E", "-dD"], THEIRS)
    known = set(re.findall(r"\w+", theirs))
    known_structs = structs_of(theirs)

    in_ours, in_theirs, lacking = {}, {}, []

    def add(name, our_value, their_value, is_known):
        if is_known:
            in_ours[name], in_theirs[name] = our_value, their_value
        else:
            lacking.append(name)

    for name in constants:
        add(name, name, system_name(name), system_name(name) in known)
    for struct, members in structs_of(text).items():
        system = system_name(struct)
        add(struct, f"sizeof(struct {struct})", f"sizeof(struct {system})",
            system in known_structs)
        for member in members:
            if RESERVED.match(member):
                continue
            their = system_member(struct, member)
            add(f"{struct}.{member}", f"offsetof(struct {struct}, {member})",
                f"offsetof(struct {system}, {their})",
                their in known_structs.get(system, ()))
            if not is_open_array(text, member):
                add(f"{struct}.{member}:size",
                    f"sizeof(((struct {struct} *)0)->{member})",
                    f"sizeof(((struct {system} *)0)->{their})",
                    their in known_structs.get(system, ()))

    ours_are = compiler.values("#define _GNU_SOURCE\n" + ours, in_ours)
    theirs_are = compiler.values(THEIRS, in_theirs)
    wrong = [f"{name} is {ours_are[name]} in ours, {theirs_are[name]} in theirs"
             for name in ours_are if ours_are[name] != theirs_are[name]]
    return wrong, lacking, len(ours_are)


def is_open_array(text, member):
    return re.search(rf"\b{member}\s*\[0?\]", text)


def version(compiler):
    code = compiler.values("#include <linux/version.h>",
                           {"code": "LINUX_VERSION_CODE"})["code"]
    return code >> 16, code >> 8 & 255


def check(compiler, ours):
    wrong, lacking, number = compare(compiler, ours)
    newest = version(compiler)
    lacking = {name.removesuffix(":size") for name in lacking} - NOT_IN_HEADERS
    if newest < (7, 1):
        lacking -= OF_LATER
    print(f"{number} constants, sizes and offsets compared with the headers of Linux "
          f"{newest[0]}.{newest[1]}, which lack {len(lacking)} names")
    if newest >= COMPLETE:
        wrong += [f"{name} is only in ours" for name in sorted(lacking)]
    return wrong


# Planted mistakes: the text to replace, its replacement, and the name that must be reported.
MISTAKES = [
    ("#define IOSQE_ASYNC (1u << 4)", "#define IOSQE_ASYNC (1u << 3)", "IOSQE_ASYNC"),
    ("IORING_OP_SPLICE = 30", "IORING_OP_SPLICE = 31", "IORING_OP_SPLICE"),
    ("uint32_t sq_thread_cpu;\n\tuint32_t sq_thread_idle;",
     "uint32_t sq_thread_idle;\n\tuint32_t sq_thread_cpu;",
     "io_uring_params.sq_thread_cpu"),
    ("\tuint16_t personality;\n\tunion", "\tuint8_t personality;\n\tunion",
     "io_uring_sqe.personality:size"),
    ("uint64_t resv2;\n\tuint64_t data", "uint64_t data",
     "io_uring_rsrc_register"),
    ("#define SYS_close_range 436", "#define SYS_close_range 437", "SYS_close_range"),
]


def self_test(compiler, ours):
    wrong = []
    for before, after, name in MISTAKES:
        if ours.count(before) != 1:
            wrong.append(f"{before!r} is there {ours.count(before)} times")
            continue
        found = compare(compiler, ours.replace(before, after))[0]
        if not any(line.startswith(f"{name} is ") for line in found):
            wrong.append(f"{after!r} was not found: {found}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("compiler", nargs="+")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        compiler = Compiler(args.compiler, scratch)
        ours = our_text(args.source)
        wrong = (self_test if args.self_test else check)(compiler, ours)
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
