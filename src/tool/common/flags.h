/* SPDX-License-Identifier: MIT */
/*
 * getopt_long() that says itself, in one line, what it refuses, and where to look
 *
 * Tested by test/run/typed.py.
 */
#ifndef UAIO_TOOL_COMMON_FLAGS_H
#define UAIO_TOOL_COMMON_FLAGS_H

#include <getopt.h>

/*
 * @argv[0] is the subcommand. @letters has no ':' at its start, but behind a '+' if it
 * begins with one.
 *
 * Return: as getopt_long(); '?' if the flag is refused, which has been said then.
 */
int uaio_flags_next(int argc, char **argv, const char *letters,
		    const struct option *flags);

#endif /* UAIO_TOOL_COMMON_FLAGS_H */
