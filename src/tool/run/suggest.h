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
 * Write what to type instead into @ret_suggestion, as " (if that is ...)"; or nothing.
 * @name is the command. @before is the option directly before it, if that has an
 * optional value and none was given; else NULL.
 */
void uaio_suggest(const char *name, const struct uaio_option *before,
		  char ret_suggestion[UAIO_SUGGESTION_MAX]);

#endif /* UAIO_TOOL_RUN_SUGGEST_H */
