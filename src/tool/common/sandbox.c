/* SPDX-License-Identifier: MIT */
/* Tries system calls under seccomp filters. Tested by test/sandbox/filters.py. */
#include "tool/common/children.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void try_call(void *memory, unsigned call)
{
	if (uaio_call_try((enum uaio_call)call))
		uaio_call_set_add(memory, call);
}

int uaio_sandbox_try(struct uaio_call_set *ret_calls)
{
	static const struct uaio_tries tries = {
		.nr = UAIO_NR_CALLS,
		.make = try_call,
	};
	struct uaio_call_set *calls = uaio_shared_new(sizeof(*calls));
	int ret = calls ? uaio_tries_make(&tries, calls) : -ENOMEM;

	if (!ret)
		*ret_calls = *calls;
	uaio_shared_free(calls, sizeof(*calls));
	return ret;
}

int uaio_sandbox_set_variable(void)
{
	const char *word = getenv(UAIO_CALLS_VARIABLE);
	int nr_filters = uaio_calls_nr_filters();
	char text[UAIO_CALLS_WORD_MAX];
	struct uaio_call_set calls;
	int ret;

	if (nr_filters <= 0 || (word && !strcmp(word, "all")))
		return 0;
	ret = uaio_sandbox_try(&calls);
	if (ret)
		return ret == -ENOMEM ? ret : 0;
	uaio_calls_word(nr_filters, &calls, text);
	return setenv(UAIO_CALLS_VARIABLE, text, 1) < 0 ? -errno : 0;
}
