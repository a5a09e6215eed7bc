/* SPDX-License-Identifier: MIT */
/*
 * Suggests what the user may have meant if a command is not found
 *
 * Tested by test/run/typed.py.
 */
#ifndef UAIO_TOOL_RUN_SUGGEST_H
#define UAIO_TOOL_RUN_SUGGEST_H

#include <limits.h>

struct uaio_option;

enum { UAIO_SUGGESTION_MAX = PATH_MAX };

/*
 * Write to @ret_suggestion what to type instead of the command, such as " (if that is
 * ...)"; or an empty text. @name is the command that was not found. @before is the last
 * flag before the command, if this flag's value is optional and not given; else NULL.
 */
void uaio_suggest(const char *name, const struct uaio_option *before,
		  char ret_suggestion[UAIO_SUGGESTION_MAX]);

#endif /* UAIO_TOOL_RUN_SUGGEST_H */
