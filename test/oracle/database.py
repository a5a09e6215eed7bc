#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""database.py BUILD SCENARIO WAY: MariaDB on uaio keeps what it is given.

    rows            100 000 rows with blobs are loaded, changed and, by other
                    runs, read back and checked
    few-rows        the same with 10 000 rows
    crash-direct    clients change accounts while the server is killed, again
    crash-fsync     and again; every transaction whose COMMIT returned is there
                    afterwards, whole, and no other but the one in flight. The
                    pages are written by O_DIRECT, or buffered and by fsync.
    crash-once      crash-direct, killed once

The expected content of the tables is computed here, without a database. Ways: ways.py.
In uring-rows and uring-crash-direct the server is left to what it uses by itself.
"""
import hashlib
import os
import random
import re
import subprocess
import sys
import time
import zlib

sys.dont_write_bytecode = True  # leave the source tree clean
import mariadb  # noqa: E402
import ways  # noqa: E402


def md5(text):
    return hashlib.md5(str(text).encode()).hexdigest()


def numbers(digits):
    """SQL: the numbers 1 to 10^digits."""
    places = [f"{10 ** i} * d{i}.d" for i in range(digits)]
    tables = [f"digit AS d{i}" for i in range(digits)]
    return (f"(SELECT 1 + {' + '.join(places)} AS id "
            f"FROM {', '.join(tables)}) AS number")


BASE = [
    "CREATE DATABASE test", "USE test",
    "CREATE TABLE digit (d INT PRIMARY KEY) ENGINE=InnoDB",
    "INSERT INTO digit VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)",
]

# --- rows -----------------------------------------------------------------------

DIGITS, FEW_DIGITS = 5, 4  # of the number of rows


def load(digits):
    return [
        """CREATE TABLE item (id INT UNSIGNED PRIMARY KEY, v BIGINT UNSIGNED,
           pad VARBINARY(400), b BLOB, KEY (v)) ENGINE=InnoDB""",
        f"""INSERT INTO item SELECT id, CONV(LEFT(MD5(id), 15), 16, 10),
            REPEAT(MD5(id), 8), REPEAT(UNHEX(MD5(id + 1)), id MOD 40)
            FROM {numbers(digits)}""",
        """UPDATE item SET v = v + 1, b = REPEAT(UNHEX(MD5(id + 2)), id MOD 300)
           WHERE id MOD 7 = 0"""]


def items(nr):
    """What load() leaves in the table."""
    for number in range(1, nr + 1):
        v = int(md5(number)[:15], 16)
        b = bytes.fromhex(md5(number + 1)) * (number % 40)
        if number % 7 == 0:
            v += 1
            b = bytes.fromhex(md5(number + 2)) * (number % 300)
        yield number, v, (md5(number) * 8).encode(), b


def read_back(client, database, nr):
    """Read back by the rows themselves, and by the index of their values."""
    results = client.path("rows"), client.path("values")
    database.bootstrap([
        "USE test",
        f"""SELECT COUNT(*), SUM(CRC32(CONCAT_WS('|', id, v, pad, b)))
            INTO OUTFILE '{results[0]}' FROM item""",
        f"""SELECT COUNT(*), SUM(v) INTO OUTFILE '{results[1]}'
            FROM item FORCE INDEX (v)"""])
    crcs = values = 0
    for number, v, pad, b in items(nr):
        crcs += zlib.crc32(b"%d|%d|%b|%b" % (number, v, pad, b))
        values += v
    for path, total in zip(results, (crcs, values)):
        with open(path) as file:
            found = file.read()
        if found != f"{nr}\t{total}\n":
            raise ways.Failed(f"{path}: {found}, not {nr}\t{total}")


def rows(client, digits=DIGITS):
    database = mariadb.Database(client)
    nr = 10 ** digits
    at_least = nr // 50  # few rows nearly fit into the server's memory
    database.bootstrap([*BASE, *load(digits)])
    client.prove("mariadbd", at_least)
    read_back(client, database, nr)
    client.prove("mariadbd", at_least)
    server = database.start()
    server.check_tables("test.item", "test.digit")
    server.shut_down()
    client.prove("mariadbd", at_least)
    client.prove_backend()
    database.check_pages()


# --- crash ----------------------------------------------------------------------

NR_CLIENTS = 4
NR_ROUNDS = 3
ROUND_S = 3
ROUND_COMMITS = 50  # of each client, at least
ROUND_DEADLINE_S = 300
SCRIPT_COMMITS = 20_000  # more than a round has time for

NR_ACCOUNTS = 10_000
PAD_BYTES = 3000
AT_START = 1_000_000

LOST_SERVER = re.compile(r"^ERROR (2006|2013) ", re.M)

ACCOUNTS = [
    f"""CREATE TABLE account (id INT PRIMARY KEY, balance BIGINT,
        pad VARBINARY({PAD_BYTES})) ENGINE=InnoDB""",
    f"""INSERT INTO account SELECT id, {AT_START}, REPEAT('x', {PAD_BYTES})
        FROM {numbers(4)}""",
    """CREATE TABLE done (client INT, n INT, pad BLOB, PRIMARY KEY (client, n))
       ENGINE=InnoDB""",
    "CREATE TABLE last (client INT PRIMARY KEY, n INT) ENGINE=InnoDB",
    "INSERT INTO last VALUES " + ", ".join(
        f"({client}, 0)" for client in range(NR_CLIENTS)),
]


def transfer(client, n):
    """The n-th transaction of a client: account, account, amount."""
    chance = random.Random(f"{client}-{n}")
    # In the order of their ids, so that no two clients wait for each other.
    one, other = sorted(chance.sample(range(1, NR_ACCOUNTS + 1), 2))
    return one, other, chance.randint(-1000, 1000)


def transactions(client, first):
    """Each transaction prints its number once its COMMIT has returned."""
    yield "USE test;\n"
    for n in range(first, first + SCRIPT_COMMITS):
        one, other, amount = transfer(client, n)
        yield f"""BEGIN;
INSERT INTO done VALUES ({client}, {n},
  REPEAT(MD5('{client}-{n}'), 1 + {n} MOD 60));
UPDATE account SET balance = balance - {amount} WHERE id = {one};
UPDATE account SET balance = balance + {amount} WHERE id = {other};
UPDATE last SET n = {n} WHERE client = {client};
COMMIT;
SELECT {n}, COUNT(*), SUM(LENGTH(pad)) FROM account
  WHERE id BETWEEN {other} - 20 AND {other};
"""


class Teller:
    """One client of the server, and the commits that the server confirmed."""

    def __init__(self, place, server, number, first):
        self.number, self.first = number, first
        self.path = os.path.join(place, f"teller-{number}.")
        with open(self.path + "sql", "w") as file:
            file.writelines(transactions(number, first))
        with open(self.path + "sql") as script, \
                open(self.path + "out", "w") as output, \
                open(self.path + "err", "w") as errors:
            self.shell = server.shell(stdin=script, stdout=output,
                                      stderr=errors)

    # Opened anew: where the client writes next is not to be moved.
    def lines(self):
        with open(self.path + "out") as output:
            return output.read().splitlines()

    def complaint(self):
        with open(self.path + "err") as errors:
            return errors.read()

    def last_commit(self):
        """Wait for the client, which ends when the server does. Return: the last number
        that it was told. All transactions before that one must be there, too."""
        self.shell.wait(ROUND_DEADLINE_S)
        if not LOST_SERVER.search(self.complaint()):
            raise ways.Failed(f"client {self.number}: {self.complaint()}")
        n = self.first - 1
        for line in self.lines():
            n += 1
            told, count, length = map(int, line.split("\t"))
            if told != n or length != count * PAD_BYTES:
                raise ways.Failed(f"client {self.number} is told {line}")
        return n


def work_and_kill(client, server, firsts):
    """Return: the number of the last commit confirmed to each client."""
    tellers = [Teller(client.place, server, number, first)
               for number, first in enumerate(firsts)]
    start = time.monotonic()
    while time.monotonic() < start + ROUND_S or any(
            len(teller.lines()) < ROUND_COMMITS for teller in tellers):
        if any(teller.shell.poll() is not None for teller in tellers) or \
                time.monotonic() > start + ROUND_DEADLINE_S:
            said = [teller.complaint() or teller.lines()[-1:]
                    for teller in tellers]
            raise ways.Failed(f"the clients come to rest: {said}\n"
                              f"{server.log()}")
        time.sleep(0.05)
    server.kill()
    return [teller.last_commit() for teller in tellers]


def survivors(server, told):
    """Compare what clients were told with the tables; a transaction in flight may be
    there or not.

    Return: the last transaction of each client that is there."""
    last = [int(n) for _, n in
            server.query("SELECT * FROM test.last ORDER BY client")]
    for number, (there, known) in enumerate(zip(last, told)):
        if not known <= there <= known + 1:
            raise ways.Failed(f"client {number} was told {known}, "
                              f"{there} is there")
    return last


def check_survivors(server, last):
    """Check that every transaction up to these is there completely, and no other."""
    found = server.query(
        """SELECT client, MIN(n), MAX(n), COUNT(*), SUM(pad =
           REPEAT(MD5(CONCAT(client, '-', n)), 1 + n MOD 60))
           FROM test.done GROUP BY client ORDER BY client""")
    expected = [tuple(map(str, (number, 1, n, n, n)))
                for number, n in enumerate(last)]
    if found != expected:
        raise ways.Failed(f"done: {found}, not {expected}")
    balances = dict.fromkeys(range(1, NR_ACCOUNTS + 1), AT_START)
    for number, n in enumerate(last):
        for each in range(1, n + 1):
            one, other, amount = transfer(number, each)
            balances[one] -= amount
            balances[other] += amount
    crcs = sum(zlib.crc32(b"%d|%d|%b" % (*pair, b"x" * PAD_BYTES))
               for pair in balances.items())
    found = server.query("SELECT COUNT(*), SUM(CRC32(CONCAT_WS('|', id, "
                         "balance, pad))) FROM test.account")
    if found != [(str(NR_ACCOUNTS), str(crcs))]:
        raise ways.Failed(f"account: {found}, not {crcs}")
    server.check_tables("test.account", "test.done", "test.last")


def crash(client, flush_method="O_DIRECT", nr_rounds=NR_ROUNDS):
    database = mariadb.Database(client, flush_method)
    database.bootstrap([*BASE, *ACCOUNTS])
    client.prove("mariadbd", NR_ACCOUNTS // 20)
    last = [0] * NR_CLIENTS
    server = database.start()
    for _ in range(nr_rounds):
        told = work_and_kill(client, server, [n + 1 for n in last])
        server = database.start()
        last = survivors(server, told)
        check_survivors(server, last)
        print(f"transactions: {sum(last)}, of which told: {sum(told)}",
              flush=True)
    server.shut_down()
    client.prove("mariadbd", NR_ACCOUNTS // 20)
    if flush_method == "O_DIRECT":
        client.prove_backend()
    database.check_pages()


SCENARIOS = {
    "rows": rows,
    "few-rows": lambda client: rows(client, FEW_DIGITS),
    "crash-direct": crash,
    "crash-fsync": lambda client: crash(client, "fsync"),
    "crash-once": lambda client: crash(client, nr_rounds=1),
}
URING_SCENARIOS = {
    "uring-rows": rows,
    "uring-crash-direct": crash,
}

if __name__ == "__main__":
    if sys.argv[2:3] and sys.argv[2] in URING_SCENARIOS:
        sys.exit(ways.main(__doc__, URING_SCENARIOS, ways.UringClient))
    sys.exit(ways.main(__doc__, SCENARIOS))
