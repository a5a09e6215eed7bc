/* SPDX-License-Identifier: MIT */
/*
 * Suggestions for a command that cannot be found
 *
 * Tested by test/run/typed.py.
 */
#ifndef UAIO_TOOL_RUN_SUGGEST_H
#define UAIO_TOOL_RUN_SUGGEST_H

#include <limits.h>

struct uaio_option;

enum { UAIO_SUGGESTION_MAX = PATH_MAX };

/*
 * Write to @ret_suggestion what to type instead, as " (if that is ...)"; or an empty
 * text. @name is the command. @before is the option directly before the command, if the
 * option has an optional value and none was given; else NULL.
 */
void uaio_suggest(const char *name, const struct uaio_option *before,
		  char ret_suggestion[UAIO_SUGGESTION_MAX]);

#endif /* UAIO_TOOL_RUN_SUGGEST_H */
