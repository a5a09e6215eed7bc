/* SPDX-License-Identifier: MIT */
#include "tool/run/suggest.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "options/options.h"

/*
 * option: the last flag before the command, without its optional value.
 * Return: whether the word, which was run as the command, could be meant as this value.
 */
static bool is_value_of(const struct uaio_option *option, const char *word)
{
	uint64_t value;

	return option && !uaio_option_parse(option, word, &value);
}

void uaio_suggest(const char *name, const struct uaio_option *before,
		  char ret_suggestion[UAIO_SUGGESTION_MAX])
{
	ret_suggestion[0] = '\0';
	if (is_value_of(before, name))
		snprintf(ret_suggestion, UAIO_SUGGESTION_MAX,
			 " (if that is the value of --%s: --%s=%s)",
			 before->name, before->name, name);
	else if (strpbrk(name, "|&;<>()$`\"'\\*?"))
		snprintf(ret_suggestion, UAIO_SUGGESTION_MAX,
			 " (if that is for the shell: uaio run -- sh -c "
			 "'...')");
	else if (strpbrk(name, " \t\n"))
		snprintf(ret_suggestion, UAIO_SUGGESTION_MAX,
			 " (without quotes: uaio run -- %s)", name);
}
