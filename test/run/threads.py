# SPDX-License-Identifier: MIT
"""The options that say where and how the library's threads run."""
import os

from harness import NOBODY, Skip, case, expect, main

# What the requests of the client need, and who adds workers.
OURS = {"uaio-bound", "uaio-manager", "uaio-ready"}
NICE_MAX = 19  # where the tester's own value may be already


def places(tool, *options, wrapped=(), **settings):
    """Each thread of the client: (name, nice value, processors)."""
    outcome = tool.exec(*wrapped, tool.uaio, "run", *options, "--",
                        tool.args.client, "places", **settings)
    outcome.expect(err=None)  # of processors that are not there
    lines = [line.split() for line in outcome.out.splitlines()]
    found = {name: (int(nice), cpus) for name, nice, cpus in lines}
    expect(set(found) - {"run-client"}, OURS, "threads")
    return found


def expect_places(found, main_place, place, what):
    for name in found:
        expect(found[name], place if name in OURS else main_place,
               f"{what}: {name}")


def listed(cpus):
    """As the kernel shows them: 0-2,5."""
    runs = []
    for cpu in sorted(cpus):
        if runs and runs[-1][1] == cpu - 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}"
                    for first, last in runs)


@case("threads of the library run where the list of processors says")
def _(tool):
    allowed = os.sched_getaffinity(0)
    if len(allowed) < 2:
        raise Skip("one processor only")
    nice, every = os.getpriority(os.PRIO_PROCESS, 0), listed(allowed)
    last = max(allowed)
    expect_places(places(tool), (nice, every), (nice, every), "no list")
    for given in (str(last), f"{last},{last}", f"{last}-8191"):
        expect_places(places(tool, f"--cpus={given}"), (nice, every),
                      (nice, str(last)), given)
    # What the process may use when it starts is the most there is.
    pinned = ("taskset", "-c", str(last))
    expect_places(places(tool, f"--cpus={every}", wrapped=pinned),
                  (nice, str(last)), (nice, str(last)), "pinned")


@case("a list of which the library may use no processor is no list to it")
def _(tool):
    allowed = os.sched_getaffinity(0)
    env = {"LD_PRELOAD": tool.library,
           "UAIO_CPUS": f"{max(allowed) + 1}-8191"}
    outcome = tool.exec(tool.args.client, "places", env=env).expect()
    for line in outcome.out.splitlines():
        expect(line.split()[2], listed(allowed), line)


@case("a SIGEV_THREAD function with attributes runs on the program's processors")
def _(tool):
    allowed = os.sched_getaffinity(0)
    if len(allowed) < 2:
        raise Skip("one processor only")
    every, last = listed(allowed), str(max(allowed))
    for options in ((), ("--posix=off",), (f"--cpus={last}",)):
        for wrapped, cpus in ((), every), (("taskset", "-c", last), last):
            tool.exec(*wrapped, tool.uaio, "run", *options, "--", tool.args.client,
                      "notified").expect(out=2 * f"{cpus}\n")


@case("threads of the library have the nice value that is asked for")
def _(tool):
    every = listed(os.sched_getaffinity(0))
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    nicer = min(nice + 3, NICE_MAX)
    for given in (min(nice + 1, NICE_MAX), NICE_MAX):
        expect_places(places(tool, f"--nice={given}"), (nice, every),
                      (given, every), given)
    expect_places(places(tool, wrapped=("nice", "-n", "3")),
                  (nicer, every), (nicer, every), "not asked for")


@case("a nice value that is refused leaves the threads as they are")
def _(tool):
    if os.getuid():
        user = {}
    else:
        user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    uaio = tool.copy_tool("all")
    client = tool.copy(tool.args.client, "all/run-client")
    outcome = tool.exec("nice", "-n", "3", uaio, "run", "--nice=-20", "--",
                        client, "places", cwd="/", **user).expect()
    nices = {line.split()[1] for line in outcome.out.splitlines()}
    nicer = min(os.getpriority(os.PRIO_PROCESS, 0) + 3, NICE_MAX)
    expect(nices, {str(nicer)}, "nice values")


main()
