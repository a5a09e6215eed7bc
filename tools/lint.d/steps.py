# SPDX-License-Identifier: MIT
"""The models and the code have the same steps.

Each is named where it is made, as [step: NAME] in a comment: what one of the
two does and the other does not is either missing there or not proved.
"""
import re

from tree import Finding, is_test

MODELS = ["test/model/wq.pml", "test/model/ready.pml", "test/model/park.pml"]
STEP = re.compile(r"\[step: ([A-Z_]+)\]")


def _steps_of(tree, paths):
    """{name: where it is first}"""
    steps = {}
    for path in paths:
        for number, line in enumerate(tree.read(path).splitlines(), 1):
            for name in STEP.findall(line):
                steps.setdefault(name, (path, number))
    return steps


def check(tree):
    code = _steps_of(tree, [path for path in tree.c_files("src")
                            if not is_test(path)])
    model = _steps_of(tree, [path for path in MODELS if tree.exists(path)])
    findings = [Finding(*code[name], f"no model has a step {name}: add it, or "
                        "drop the name")
                for name in sorted(code.keys() - model.keys())]
    findings += [Finding(*model[name], f"no comment in src says [step: {name}]:"
                         " say where it is made, or drop it")
                 for name in sorted(model.keys() - code.keys())]
    return findings
