# SPDX-License-Identifier: MIT
"""Points for tracers of the system, as notes in the library."""
import os
import platform
import re

from harness import Skip, build, case, expect, main

POINT = re.compile(r"Provider: uaio\n\s+Name: (\w+)\n\s+Location: 0x(\w+), .*\n"
                   r"\s+Arguments: (.*)")
REQUESTS = 20


def points(tool):
    notes = tool.exec("readelf", "-n", tool.library).expect(err=None).out
    return [(name, location, *arguments.split())
            for name, location, arguments in POINT.findall(notes)]


@case("the library tells tracers where requests begin and end")
def _(tool):
    found = points(tool)
    expect({point[0] for point in found}, {"submit", "issue", "complete"},
           "points")
    for point in found:
        expect(len(point), 5, point)


@case("a tracer sees each request submitted, tried and complete, once and in order")
def _(tool):
    if platform.machine() != "x86_64":
        raise Skip("the test sets breakpoints of x86-64")
    with open(os.path.join(os.path.dirname(__file__), "probed.c")) as file:
        program = build(tool, "probed", file.read())
    arguments = [word for point in points(tool) for word in point]
    # In its own thread: the library's threads block the signal of a breakpoint.
    outcome = tool.exec(program, str(REQUESTS), *arguments,
                        env={"LD_PRELOAD": tool.library}).expect(out=None)
    head, *lines = outcome.out.splitlines()
    fd = int(head.split()[1])
    wanted = []
    for data in range(1, REQUESTS + 1):
        wanted += [f"submit {data} 0 {fd}", f"issue {data} 0 {fd}",  # 0: pread
                   f"complete {data} 0 512"]
    expect(lines, wanted, "what is seen")


main()
