#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""search.py MODEL FOLDER NAME: search a model with Spin, in full.

MODEL names a .pml of this folder, and the .py beside it, which has its
configurations and faults. NAME is a configuration, in which nothing may be
wrong, or a fault, with which something must be. A search that was cut short, by
memory, depth or time, proves nothing and fails. FOLDER is where a folder of its
own is made and removed. With "all" for NAME everything is searched.
"""
import importlib
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

SKIP = 77
HERE = os.path.dirname(os.path.realpath(__file__))
MEMORY = 1 << 30
DEADLINE = 500

# What pan says when it has not seen everything.
CUT_SHORT = re.compile(r"max search depth too small|out of memory|memory limit"
                       r"|hash.?table full|time limit", re.I)


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def run(*command, folder, **options):
    """Output of a command that must not fail."""
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.returncode}\n{done.stdout}")
    return done.stdout


def search(folder, model, configuration, fault):
    """Return: what Spin's verifier (pan) reports about the model."""
    defines = ["-D" + define for define in configuration.split()]
    if fault:
        defines.append("-D" + fault)
    run("spin", "-a", *defines, model.__file__.removesuffix(".py") + ".pml",
        folder=folder)
    # What optimizing would save it costs.
    run("gcc", "-O0", "-w", "-DSAFETY", "-DNOFAIR",
        f"-DMEMLIM={MEMORY >> 20}", "-o", "pan", "pan.c", folder=folder)
    return run("./pan", *model.FLAGS, "-w21", folder=folder, timeout=DEADLINE,
               preexec_fn=limit_memory)


def judge(output, is_faulty):
    """Return: what is wrong with the verdict, or None."""
    errors = re.findall(r"\berrors: (\d+)$", output, re.M)
    if len(errors) != 1 or "states, stored" not in output:
        return "no verdict"
    if CUT_SHORT.search(output):
        return "cut short"
    if is_faulty:
        if errors[0] != "1" or "assertion violated" not in output:
            return "the fault is not found"
        return None
    if errors[0] != "0" or "assertion violated (" in output:
        return "a counterexample: spin -t -p has its steps"
    if "Search not completed" in output:
        return "cut short"
    return None


def check(folder, model, name):
    """Return: whether the search ended as it should."""
    fault = name if name in model.FAULTS else None
    configuration = model.CONFIGURATIONS[model.FAULTS.get(name, name)]
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="model-", dir=folder) as own:
        try:
            output = search(own, model, configuration, fault)
            wrong = judge(output, fault is not None)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            output, wrong = str(error), "no verdict"
    figure = re.search(r"(\d\S*) states, stored", output)
    memory = re.search(r"(\S+)\s+total actual memory", output)
    print(f"{'FAIL' if wrong else 'ok':4}  {name:26} "
          f"{figure[1] if figure else '?':>9} states "
          f"{memory[1] if memory else '?':>8} MB "
          f"{time.monotonic() - begun:5.1f} s", flush=True)
    if wrong:
        print(f"{wrong}, with {configuration} {fault or ''}\n{output}")
    return not wrong


def main():
    model_name, folder, name = sys.argv[1:]
    sys.path.insert(0, HERE)
    model = importlib.import_module(model_name)
    names = [*model.CONFIGURATIONS, *model.FAULTS]
    if name != "all" and name not in names:
        sys.exit(f"search.py: no configuration and no fault is named {name}")
    if not shutil.which("spin"):
        print("skipped: spin is not installed")
        return SKIP
    os.makedirs(folder, exist_ok=True)
    if name != "all":
        return 0 if check(folder, model, name) else 1
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda each: check(folder, model, each),
                                names))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main())
