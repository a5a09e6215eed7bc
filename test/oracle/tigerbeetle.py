#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tigerbeetle.py: TigerBeetle's client, against a stand-in for its server.

The client is a library in Zig, which makes its own system calls. It connects, asks to be
registered, and does so once more when the stand-in has closed the connection. The package
has no server, and the stand-in does not answer: it compares what it was sent.
"""
import os
import socket
import struct
import threading

import tigerbeetle

TIMES = 2
DEADLINE = 120
HEADER_BYTES = 256
CLUSTER_AT, SIZE_AT, COMMAND_AT, CLIENT_AT, OPERATION_AT = 80, 96, 114, 160, 196
REQUEST, REGISTER = 5, 2


def receive(server):
    """Receive one message, then close the connection."""
    connection, _ = server.accept()
    with connection:
        connection.settimeout(DEADLINE)
        with connection.makefile("rb") as stream:
            header = stream.read(HEADER_BYTES)
            size, = struct.unpack_from("<I", header, SIZE_AT)
            return header + stream.read(size - HEADER_BYTES)


def ask(client):
    try:
        client.lookup_accounts([1])
    except tigerbeetle.ClientClosedError:
        pass


def main():
    cluster = int.from_bytes(os.urandom(16), "little") | 1
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(DEADLINE)
        client = tigerbeetle.ClientSync(
            cluster, f"127.0.0.1:{server.getsockname()[1]}")
        asking = threading.Thread(target=ask, args=(client,), daemon=True)
        asking.start()
        messages = [receive(server) for _ in range(TIMES)]
        try:
            client.close()
        except AssertionError:
            # It has ended the request, and asserts that the thread which asked has woken
            # up already. That thread may not have.
            pass
        asking.join(DEADLINE)
        assert not asking.is_alive()
    first = messages[0]
    assert first[CLUSTER_AT:CLUSTER_AT + 16] == cluster.to_bytes(16, "little")
    assert (first[COMMAND_AT], first[OPERATION_AT]) == (REQUEST, REGISTER)
    assert any(first[CLIENT_AT:CLIENT_AT + 16])
    assert all(message == first for message in messages), messages
    print(f"{TIMES} messages of {len(first)} bytes")


main()
