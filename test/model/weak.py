#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""weak.py MODEL FOLDER: search a model of weak.pml with Spin, in full.

MODEL is litmus, or names a .pml of this folder and the .py beside it. In such a
model each access of the code has a name and its order, at(NAME, ORDER). The model
is searched as it is, and nothing may be wrong. Then it is searched again with each
order made weaker, and something must be wrong. NEEDS in the .py names the accesses
that can do with a weaker order in the model, with that order and why the code has a
stronger one; the model is searched with the weaker one, too. broken(NAME) is a fault
that must be found. FOLDER is where a folder of its own is made and removed.
"""
import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

import search

SKIP = 77
ORDERS = {"RLX": 0, "ACQ": 1, "REL": 2, "ACQ_REL": 3, "SEQ_LOAD": 5,
          "SEQ_STORE": 6, "SEQ_RMW": 7}
# The orders that are next below each.
BELOW = {0: (), 1: (0,), 2: (0,), 3: (1, 2), 5: (1,), 6: (2,), 7: (3,)}
NAMES = {number: name for name, number in ORDERS.items()}


class Search:
    """A model, compiled once."""

    def __init__(self, name, folder):
        self.folder = folder
        self.states = None  # of the last search
        self.path = os.path.join(search.HERE, name + ".pml")
        with open(self.path, encoding="utf-8") as file:
            text = file.read()
        self.accesses = dict(re.findall(r"\bat\((\w+), (\w+)\)", text))
        self.faults = [*dict.fromkeys(re.findall(r"\bbroken\((\w+)\)", text))]
        self.sites = {site: number for number, site in
                      enumerate([*self.accesses, *self.faults])}
        search.run("spin", "-a", *(f"-D{site}={number}" for site, number
                                   in self.sites.items()),
                   self.path, folder=folder)
        search.run("gcc", "-O0", "-w", "-DSAFETY", "-DNOFAIR",
                   f"-DMEMLIM={search.MEMORY >> 20}", "-o", "pan", "pan.c",
                   folder=folder)

    def output(self, **environment):
        """What pan says."""
        done = subprocess.run(
            ["./pan", "-m100000", "-w19"], cwd=self.folder,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=search.DEADLINE, preexec_fn=search.limit_memory,
            env={**os.environ, **environment})
        if done.returncode:
            raise RuntimeError(f"pan: {done.returncode}\n{done.stdout}")
        return done.stdout

    def is_wrong(self, site=None, order=0):
        """Whether something is wrong, with the order of an access or a fault."""
        output = self.output(SITE=str(self.sites[site]) if site else "255",
                             KEPT=str(order))
        verdict = search.judge(output, is_faulty=False)
        self.states = re.search(r"(\d\S*) states, stored", output)[1]
        if verdict is None:
            return False
        if search.judge(output, is_faulty=True) is None:
            return True
        raise RuntimeError(f"{site}: {verdict}\n{output}")


def check_litmus(model, machine):
    """Returns what is wrong with the machine."""
    wrong = []
    for name, threads, outcome, is_allowed in model.TESTS:
        output = machine.output(LITMUS=model.program(threads))
        if search.judge(output, is_faulty=False):
            raise RuntimeError(f"{name}\n{output}")
        expected = is_allowed != (name in model.OTHERWISE)
        seen = model.is_seen(outcome, output)
        if seen != expected:
            wrong.append(f"{name}: {threads}: {outcome} is "
                         f"{'' if seen else 'not '}seen")
    print(f"{len(model.TESTS)} litmus tests")
    return wrong


def check_protocol(model, machine):
    """Returns what is wrong with the protocol, or with its faults."""
    wrong, found = [], 0
    if machine.is_wrong():
        print(machine.output(SITE="255"))
        return ["a counterexample, with the orders of the code: pan -r has its "
                "steps"]
    states = machine.states
    for site in set(model.NEEDS) - set(machine.accesses):
        wrong.append(f"{site}: no such access")
    for site, order in machine.accesses.items():
        needed = model.NEEDS[site][0] if site in model.NEEDS else order
        if needed != order and machine.is_wrong(site, ORDERS[needed]):
            wrong.append(f"{site}: {needed} is not enough")
        for weaker in BELOW[ORDERS[needed]]:
            if machine.is_wrong(site, weaker):
                found += 1
            else:
                wrong.append(f"{site}: {NAMES[weaker]} is enough")
    for site in machine.faults:
        if machine.is_wrong(site):
            found += 1
        else:
            wrong.append(f"{site} is not found")
    print(f"{states} states, {len(machine.accesses)} accesses, {found} faults found, "
          f"{len(model.NEEDS)} accesses that need less")
    return wrong


def main():
    name, folder = sys.argv[1:]
    if not shutil.which("spin"):
        print("skipped: spin is not installed")
        return SKIP
    sys.path.insert(0, search.HERE)
    model = importlib.import_module(name)
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="model-", dir=folder) as own:
        machine = Search(name, own)
        check = check_litmus if name == "litmus" else check_protocol
        wrong = check(model, machine)
    for line in wrong:
        print("FAIL", line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main())
