/* SPDX-License-Identifier: MIT */
/* Parses flags, and reports refused ones. Tested by test/run/typed.py. */
#include "tool/tool.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "options/names.h"
#include "options/options.h"

enum { WORD_MAX = 64 };

static const struct option *find_flag(const struct option *flags, int val)
{
	for (; flags->name; flags++)
		if (flags->val == val)
			return flags;
	return NULL;
}

/*
 * @word is "--name" or "--name=value".
 * Return: whether the name is an option of `uaio run`.
 */
static bool is_of_run(const char *word)
{
	size_t len = strcspn(word, "=");

	for (int id = 0; id < UAIO_NR_OPTIONS; id++)
		if (strlen(uaio_options[id].name) + 2 == len &&
		    !strncmp(uaio_options[id].name, word + 2, len - 2))
			return true;
	return false;
}

/* Return: the long flag whose name is most similar to @word, or NULL. */
static const char *like_of(const char *word, const struct option *flags)
{
	char name[WORD_MAX];
	struct uaio_like like = { .name = name };
	size_t len;

	if (strncmp(word, "--", 2))
		return NULL;
	word += 2;
	len = strcspn(word, "=");
	if (len >= sizeof(name))
		return NULL;
	memcpy(name, word, len);
	name[len] = '\0';
	for (; flags->name; flags++)
		uaio_like_compare(&like, flags->name);
	return like.best;
}

static void say_unknown(const char *command, const char *word,
			const struct option *flags)
{
	const char *like = like_of(word, flags);
	const char *before = !strcmp(command, "trace")   ? "trace -- uaio run "
			     : !strcmp(command, "check") ? "check -- uaio run "
							 : "run ";

	if (strcmp(command, "run") && !strncmp(word, "--", 2) &&
	    is_of_run(word))
		(void)uaio_diag(0,
				"%s: %s: no such option (it is one of uaio "
				"run: uaio %s%s ...); see uaio %s --help",
				command, word, before, word, command);
	else if (like)
		(void)uaio_diag(0, "%s: %s: no such option; did you mean --%s?",
				command, word, like);
	else
		(void)uaio_diag(0, "%s: %s: no such option; see uaio %s --help",
				command, word, command);
}

/*
 * Report a flag that getopt() refused. @word is the argument before optind: a long
 * flag, or short flags in one word.
 */
static void say_refused(int c, const char *command, const char *word,
			const struct option *flags)
{
	const struct option *flag = optopt ? find_flag(flags, optopt) : NULL;
	bool is_long = !strncmp(word, "--", 2) && (!optopt || flag);
	char letter[] = { '-', (char)optopt, '\0' };

	if (c == ':')
		(void)uaio_diag(0,
				"%s: %s: its value is missing; see uaio %s "
				"--help",
				command, is_long ? word : letter, command);
	else if (is_long && flag && strchr(word, '='))
		(void)uaio_diag(0,
				"%s: %s: --%s takes no value; see uaio %s "
				"--help",
				command, word, flag->name, command);
	else
		say_unknown(command, optopt ? letter : word, flags);
}

int uaio_flags_next(int argc, char **argv, const char *letters,
		    const struct option *flags)
{
	/*
	 * If the letters begin with a colon, getopt() returns ':' for a missing value
	 * and '?' for an unknown flag.
	 */
	char all[WORD_MAX];
	int c;

	(void)snprintf(all, sizeof(all), "%s:%s", *letters == '+' ? "+" : "",
		       letters + (*letters == '+'));
	opterr = 0;
	c = getopt_long(argc, argv, all, flags, NULL);
	if (c != '?' && c != ':')
		return c;
	say_refused(c, argv[0], argv[optind - 1], flags);
	return '?';
}
