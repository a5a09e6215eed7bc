# SPDX-License-Identifier: MIT
"""A program does not notice that the library is loaded."""
import os
import statistics
import time

from shared import (case, debian_libaio, environment, expect, main, parts_of_libc,
                   run)

# Loading must cost a few milliseconds at most. What is measured here is
# printed; the bound only tells a hang from a busy machine.
LOAD_MS_MAX = 20 * 5
ROUNDS = 200


def preloaded(args, **more):
    return environment(LD_PRELOAD=args.library, **more)


def census(*command, env=None):
    """The lines of the census, without the variables that load the library."""
    lines = run(*command, env=env).splitlines()
    return [line for line in lines
            if not line.startswith(("env LD_PRELOAD=", "env LD_LIBRARY_PATH=",
                                "env ASAN_OPTIONS=", "env TSAN_OPTIONS=",
                                "env UAIO_RUN_PID="))]


def plain_census(args):
    """The census of a program with the whole C library: with libpthread two signals are
    handled."""
    return census(args.census, env=environment(
        LD_PRELOAD=" ".join(parts_of_libc())))


def expect_no_difference(plain, loaded):
    assert len(plain) > 50, plain  # the program prints something
    different = sorted(set(plain) ^ set(loaded))
    if different:
        raise AssertionError("these differ:\n  " + "\n  ".join(different))


@case("a preloaded program has the threads, signals, limits, descriptors, "
      "environment of one that is not")
def _(args):
    expect_no_difference(plain_census(args),
                         census(args.census, env=preloaded(args)))


@case("a program under uaio run notices nothing else either")
def _(args):
    expect_no_difference(plain_census(args),
                         census(args.uaio, "run", args.census))


@case("contexts that were made and destroyed leave no descriptor and no signal "
      "behind")
def _(args):
    expect_no_difference(
        census(args.census, env=preloaded(args)),
        census(args.census, "after-setup", env=preloaded(args)))


def milliseconds_of(env):
    start = time.perf_counter()
    pid = os.posix_spawn("/bin/true", ["true"], env)
    _, status = os.waitpid(pid, 0)
    expect(status, 0, "status of true")
    return (time.perf_counter() - start) * 1000


@case("loading the library takes a program no time to speak of")
def _(args):
    without, with_it = environment(), preloaded(args)
    times = {"without": [], "with": []}
    for _ in range(ROUNDS):
        times["without"].append(milliseconds_of(without))
        times["with"].append(milliseconds_of(with_it))
    medians = {name: statistics.median(list_)
               for name, list_ in times.items()}
    cost = medians["with"] - medians["without"]
    print(f"fork and exec of true: {medians['without']:.3f} ms without, "
          f"{medians['with']:.3f} ms with the library: {cost:.3f} ms "
          f"(medians of {ROUNDS})")
    assert cost < LOAD_MS_MAX, f"{cost} ms"


@case("the machine's own libaio, opened by its path, is on uaio all the same")
def _(args):
    print(run(args.elsewhere, debian_libaio(), env=preloaded(args)), end="")


@case("libaio.so.1 and libaio.so.1t64 are links to one file")
def _(args):
    folder = os.path.dirname(args.library)
    for name in ("libaio.so.1", "libaio.so.1t64"):
        expect(os.readlink(os.path.join(folder, name)), "libuaio.so.0", name)


@case("both names of libaio open one engine, preloaded or not")
def _(args):
    folder = os.path.dirname(args.library)
    for env in (environment(LD_LIBRARY_PATH=folder),
                preloaded(args, LD_LIBRARY_PATH=folder)):
        print(run(args.links, env=env), end="")


main()
