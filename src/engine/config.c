/* SPDX-License-Identifier: MIT */
#include "engine/config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/options.h"
#include "base/sys.h"

struct uaio_config uaio_config;

static void say(char *line)
{
	size_t len = strlen(line);

	line[len] = '\n';
	(void)sys_write(STDERR_FILENO, line, len + 1);
}

/* Nonsense is said once, and the default stands: the host goes on. */
static uint64_t value_of(enum uaio_option_id id)
{
	const struct uaio_option *option = &uaio_options[id];
	const char *text = secure_getenv(option->variable);
	char line[UAIO_OPTION_COMPLAINT_MAX + 1];
	uint64_t value = 0;

	if (text && uaio_option_parse(option, text, &value) < 0) {
		uaio_option_complaint(option, option->variable, text, line,
				      UAIO_OPTION_COMPLAINT_MAX);
		say(line);
	}
	return value;
}

void uaio_config_load(void)
{
	uaio_config = (struct uaio_config){
		.max_nr = value_of(UAIO_OPTION_MAX_NR),
		.never_block = value_of(UAIO_OPTION_NEVER_BLOCK),
		.force_worker = value_of(UAIO_OPTION_FORCE_WORKER),
		.is_strict = value_of(UAIO_OPTION_STRICT),
		.is_verbose = value_of(UAIO_OPTION_VERBOSE),
		.has_stats = value_of(UAIO_OPTION_STATS) |
			     value_of(UAIO_OPTION_STATS_JSON),
	};
	if (uaio_config.is_verbose) {
		char line[] = "uaio: library: libaio, the six AIO calls of "
			      "syscall(2) and what moves rings or closes "
			      "descriptors are interposed\0";
		say(line);
	}
}
