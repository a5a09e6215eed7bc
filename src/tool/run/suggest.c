/* SPDX-License-Identifier: MIT */
#include "tool/run/suggest.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "options/options.h"

/*
 * Return: whether the word could be the option's value. The word after an option with
 * an optional value is always the command.
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
