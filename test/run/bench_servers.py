# SPDX-License-Identifier: MIT
"""uaio bench servers: that it runs, and that what it prints is what ran."""
import json
import os
import shutil
import subprocess
import sys

from benchmark import (bench_of, expect_form, expect_lines, expect_proofs,
                       import_of_bench, path_of, rows_of, tables_of)
from harness import case, expect, main

FIGURES = ("rate", "p50", "p99", "cpu", "memory", "clients")
# What the machine may not let us count.
COUNTS = ("switches", "calls")
COLUMNS = ["echo, 100", "echo, 1000", "HTTP, 100", "HTTP, 1000"]
VARIANTS = ("io_uring", "uaio", "epoll")


@case("uaio bench measures servers on Node and writes rows that can be read")
def _(tool):
    outcome, rows = bench_of(tool, "servers-node")
    outcome.expect(out=None)
    if shutil.which("node") is None and not rows[0]["subject_values"]:
        expect("node" in rows[0]["note"], True, rows[0]["note"])
        return
    expect_form(rows, "servers-node", lambda row: (row["title"], row["peer"]))
    expect([row["title"] for row in rows], [name for name in COLUMNS for _ in "ab"],
           "rows")
    tables = tables_of(tool)
    expect(set(tables), {f"servers-node.{name}" for name in (*FIGURES, *COUNTS)},
           "tables")
    expect("libuv" in tables["servers-node.rate"]["beside"][0], True, "its version")
    for name in FIGURES:
        table = tables[f"servers-node.{name}"]
        expect(table["columns"], COLUMNS, name)
        expect(table["notes"], {}, name)
        expect_lines(table, VARIANTS)
    expect(os.listdir(tool.scratch), ["rows.jsonl"], "files left behind")


@case("servers that are not built are missed in one line each")
def _(tool):
    path = tool.path("rows.jsonl")
    outcome = tool.exec(
        sys.executable, "-B", tool.args.source + "/bench/run.py", "--uaio",
        tool.uaio, "--helpers", tool.path("nowhere"), "--quick", "--dir",
        tool.scratch, "--json", path, "servers", env=path_of(tool, "python3"))
    outcome.expect(out=None)
    rows = rows_of(path)
    expect([row["name"] for row in rows],
           ["servers-tokio", "servers-netty", "servers-node"], "rows")
    for row, words in zip(rows, ("tools/fetch-crate", "openjdk", "nodejs")):
        expect(row["verdict"], "not measured", row["name"])
        expect(words in row["note"], True, row["note"])


def said_of(rings, ours, requests=1000):
    return {"rings": rings, "ours": ours, "requests": requests}


@case("a server on io_uring, on uaio and on epoll is proven by rings and answers")
def _(tool):
    servers = import_of_bench(tool, "servers")
    truths = {"io_uring": said_of(2, 0), "uaio": said_of(0, 2),
              "epoll": said_of(0, 0)}
    expect_proofs(sys.modules["proof"], servers.proof_of, truths, (
        *((name, truths[other]) for name in truths for other in truths
          if name != other),
        ("uaio", said_of(1, 1)), ("uaio", said_of(0, 1, 0))))


# A server that sends back what it hears, but for the byte that is asked for.
LIAR = """
import socket, sys
port = socket.create_server(("127.0.0.1", 0))
print(port.getsockname()[1], flush=True)
talk, _ = port.accept()
for number in range(10 ** 9):
    heard = talk.recv(64, socket.MSG_WAITALL)
    if len(heard) < 64:
        break
    if number == int(sys.argv[1]):
        heard = heard[:40] + bytes([heard[40] ^ 1]) + heard[41:]
    talk.sendall(heard)
"""


@case("clients of a server notice a byte that is not due")
def _(tool):
    crowd = os.path.join(os.path.dirname(tool.uaio), "bench", "crowd")
    # The first answer is heard, however slow the machine is.
    for wrong, status in (-1, 0), (0, 1):
        with subprocess.Popen([sys.executable, "-c", LIAR, str(wrong)],
                              stdout=subprocess.PIPE) as server:
            port = server.stdout.readline().strip().decode()
            outcome = tool.exec(crowd, "-m", "200", "-w", "20", "-c", "20", "echo",
                                port, str(server.pid), "1")
            server.kill()
        expect(outcome.status, status, outcome.story)
        expect("not due" in outcome.err, bool(status), outcome.story)
        if not status:
            expect(json.loads(outcome.out)["requests"] > 0, True, outcome.story)


if __name__ == "__main__":
    main()
