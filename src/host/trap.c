/* SPDX-License-Identifier: MIT */
/*
 * Programs that the library is not loaded into (trap/trap.h)
 *
 * `uaio run --trap` executes itself with the library, which then becomes the program.
 *
 * Tested by test/trap.
 */
#include "trap/trap.h"

#include <sys/syscall.h>

#include "base/symver.h"
#include "host/host.h"
#include "ready/attend.h"
#include "uring/bell.h"
#include "uring/uring.h"

static bool polls(void)
{
	return uaio_uring_has_bells() || uaio_uring_has_rings() ||
	       uaio_attend_may();
}

UAIO_EXPORT const char *uaio_trap_program(const char *path, char **argv,
					  char **envp);

/*
 * path, argv and envp are those of the process, and stay where they are; but envp may
 * be another array.
 * Return: only if it cannot be, why.
 */
const char *uaio_trap_program(const char *path, char **argv, char **envp)
{
	static const struct uaio_trap_ops ops = {
		.call = uaio_host_answer,
		.polls = polls,
		.exiting = uaio_host_exiting,
	};
	const struct uaio_trap_start start = {
		.path = path,
		.argv = argv,
		.envp = envp,
		.ops = &ops,
	};

	return uaio_trap_become(&start);
}
