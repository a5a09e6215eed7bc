/* SPDX-License-Identifier: MIT */
/*
 * getopt_long() with a message of one line for a flag that is refused
 *
 * Tested by test/run/typed.py.
 */
#ifndef UAIO_TOOL_COMMON_FLAGS_H
#define UAIO_TOOL_COMMON_FLAGS_H

#include <getopt.h>

/*
 * @argv[0] is the subcommand. @letters are as for getopt_long(), without the leading ':'.
 *
 * Return: as getopt_long(); '?' after a message that a flag is refused.
 */
int uaio_flags_next(int argc, char **argv, const char *letters,
		    const struct option *flags);

#endif /* UAIO_TOOL_COMMON_FLAGS_H */
