# SPDX-License-Identifier: MIT
"""nixlfiles.py SOURCE TARGET: copy a file by NIXL's POSIX backend, by POSIX AIO.

Blocks are read from the source and written to the target in transfers of many at a
time; then the target is read again, into other memory.
"""
import ctypes
import os
import sys

from nixl import nixl_agent, nixl_agent_config

BLOCK = 16 << 10
AT_ONCE = 64  # fewer than a backend takes
BACKEND = "POSIX"


def make_agent():
    # No other backend, and no thread of NIXL's.
    agent = nixl_agent("copy", nixl_agent_config(
        enable_prog_thread=False, backends=[]))
    agent.create_backend(BACKEND, {"use_posix_aio": "true"})
    return agent


def transfer(agent, way, memory, fd, length):
    """All of it, that many blocks at a time."""
    address = ctypes.addressof(memory)
    for start in range(0, length, AT_ONCE * BLOCK):
        offsets = range(start, min(length, start + AT_ONCE * BLOCK), BLOCK)
        request = agent.initialize_xfer(
            way,
            agent.get_xfer_descs([(address + at, BLOCK, 0)
                                  for at in offsets], "DRAM"),
            agent.get_xfer_descs([(at, BLOCK, fd) for at in offsets], "FILE"),
            "copy")
        state = agent.transfer(request)
        while state == "PROC":
            state = agent.check_xfer_state(request)
        if state != "DONE":
            sys.exit(f"{way}: {state}")
        agent.release_xfer_handle(request)


def main():
    source, target = sys.argv[1:]
    length = os.stat(source).st_size
    first, second = ((ctypes.c_char * length)() for _ in range(2))
    fds = (os.open(source, os.O_RDONLY),
           os.open(target, os.O_RDWR | os.O_CREAT, 0o600))
    agent = make_agent()
    registered = [
        *(agent.register_memory([(ctypes.addressof(memory), length, 0, "")],
                                "DRAM", [BACKEND])
          for memory in (first, second)),
        *(agent.register_memory([(0, length, fd, "")], "FILE", [BACKEND])
          for fd in fds)]
    transfer(agent, "READ", first, fds[0], length)
    transfer(agent, "WRITE", first, fds[1], length)
    transfer(agent, "READ", second, fds[1], length)
    for each in registered:
        agent.deregister_memory(each)
    if second.raw != first.raw:
        sys.exit("what was read again is not what was written")


main()
