/* SPDX-License-Identifier: MIT */
/*
 * Runs a program into which the library cannot be loaded (trap/trap.h)
 *
 * `uaio run --trap` executes the command uaio with the library loaded. The command
 * calls uaio_trap_program(). Then the library maps the program into this process, and
 * starts it.
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
 * Turn this process into the program at path. The array argv, and the strings of envp,
 * are those that the process was started with, and stay where they are. The array envp
 * may be a new one.
 * Return: only on failure, the reason.
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
