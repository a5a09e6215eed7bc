# SPDX-License-Identifier: MIT
"""What the tests of `uaio bench` share."""
import json
import os
import shutil
import sys

from harness import expect

VERDICTS = ("no goal", "unproven", "too few pairs", "not measured", "met",
            "missed")  # a count has a verdict after one round
TABLE_KEYS = {"kind", "name", "title", "unit", "across", "columns", "lines",
              "proofs", "notes", "plot", "logarithmic", "beside",
              "file_system", "is_disproved", "machine", "words"}
KEYS = {"kind", "name", "title", "figure", "unit", "subject", "peer", "pairs",
        "subject_values", "peer_values", "ratio", "control", "goal", "verdict",
        "proofs", "cpu_s_per_io", "note", "file_system", "machine"}


def results_of(path):
    """Return: what was written, by kind."""
    with open(path) as file:
        results = [json.loads(line) for line in file]
    return {kind: [each for each in results if each["kind"] == kind]
            for kind in ("row", "table")}


def rows_of(path):
    return results_of(path)["row"]


def tables_of(tool):
    """Return: the tables that were written, by name. Their form must be right."""
    tables = results_of(tool.path("rows.jsonl"))["table"]
    named = {table["name"]: table for table in tables}
    expect(len(named), len(tables), "tables that differ in their names")
    for name, table in named.items():
        expect(set(table), TABLE_KEYS, name)
        expect(set(table["proofs"]), set(table["lines"]), name)
        for variant, columns in table["lines"].items():
            expect(len(columns), len(table["columns"]), f"{name}: {variant}")
    return named


def expect_lines(table, variants, may_be_none=False):
    """Check that each variant was measured once in each column, and that its figures are
    above 0 unless they may be 0."""
    for variant in variants:
        for values in table["lines"][variant]:
            expect(len(values), 1, f"{table['name']}: {variant}")
            expect(may_be_none or values[0] > 0, True,
                   f"{table['name']}: {variant}: {values}")


def stood_still(results):
    """Whether a measurement made no progress in all of its time."""
    values = [value for row in results["row"] if row["unit"].endswith("/s")
              for value in row["subject_values"] + row["peer_values"]]
    for table in results["table"]:
        if table["unit"].endswith("/s"):
            values += [value for columns in table["lines"].values()
                       for column in columns for value in column]
    return 0 in values


def disproved_of(rows):
    """The subjects of rows that measured something else than their names say."""
    return {row["subject"] for row in rows if row["verdict"] == "disproved"
            and not row["title"].startswith("best, ")}


def bench_of(tool, row, excused=()):
    """Run a row as quickly as possible. Return: its outcome, and what it wrote.

    On a busy machine a measurement may make no progress, and a variant may be kept from
    its work, so that its counters disprove it. Unless the variant is excused, the test
    only believes either when it has happened three times."""
    path = tool.path("rows.jsonl")
    for _ in range(3):
        outcome = tool.exec(tool.uaio, "bench", "--quick", "--pairs", "1",
                            "--dir", tool.scratch, "--json", path, row)
        rows = rows_of(path)
        if not stood_still(results_of(path)) and \
                disproved_of(rows) <= set(excused):
            break
    return outcome, rows


def expect_form(rows, name, key):
    """Rows with every key, each one of a verdict, told apart by `key`."""
    expect(len({key(row) for row in rows}), len(rows), "rows that differ")
    for row in rows:
        expect(set(row), KEYS, row["title"])
        expect(row["name"], name, row["title"])
        expect(row["verdict"] in VERDICTS, True,
               f"{row['title']}: {row['verdict']} {row['note']}")


def expect_proofs(module, proof_of, truths, lies):
    """Check that true counters prove a variant, and that each of the lies does not.
    Truths by variant; lies are pairs of a variant and the counters that it reports
    instead."""
    for name, said in truths.items():
        expect(bool(proof_of(name, said)), True, f"proof of {name}")
    for name, lie in lies:
        try:
            proof = proof_of(name, truths[name] | lie)
        except module.Disproved:
            continue
        raise AssertionError(f"{name} with {lie}: {proof}")


def import_of_bench(tool, name):
    """A module of the benchmark, which has a harness of its own."""
    sys.path.insert(0, tool.args.source + "/bench")
    del sys.modules["harness"]
    return __import__(name)


def path_of(tool, *programs):
    """An environment in which these are the only programs on the path."""
    folder = tool.path("path")
    os.makedirs(folder)
    for program in programs:
        # A python3 on the path may be a script that needs others.
        os.symlink(sys.executable if program == "python3"
                   else shutil.which(program), os.path.join(folder, program))
    return {"PATH": folder}


def bench_on_answers(tool, name, key, answers, env=None):
    """Run the row `name` with a stand-in for the program of that name, which prints
    prepared answers: answers by key, where a key is the arguments in the shell's
    words."""
    for words, said in answers.items():
        tool.write(f"said/{words}", json.dumps(said))
    tool.write(f"helpers/{name}",
               f'#!/bin/sh\nexec cat "{tool.path("said")}/{key}"\n')
    path = tool.path("rows.jsonl")
    outcome = tool.exec(
        sys.executable, "-B", tool.args.source + "/bench/run.py", "--uaio",
        tool.uaio, "--helpers", tool.path("helpers"), "--quick", "--pairs",
        "1", "--dir", tool.scratch, "--json", path, name, env=env)
    return outcome, rows_of(path)
