/* SPDX-License-Identifier: MIT */
/*
 * Whose io_uring a client gets: the kernel's, or ours
 *
 * All ways in meet here: syscall(2), liburing's functions and patched call sites.
 * --uring says what they get. With "auto", the default, the kernel is asked
 * first, by the client's own io_uring_setup(), and only what it refuses is ours.
 * A limit may refuse one ring and not the next, so a process may have rings of both
 * kinds (uring/tctx.c), and any ring may become ours. The kernel is not asked where a filter of system calls may end the process for it
 * (base/calls.h): there, too, ours is what the client gets.
 *
 * The other two calls go to whom the descriptor belongs. Calls on what is no ring
 * of ours are the kernel's, which has the right error for them; if it must not be
 * asked, or has no io_uring, ours has that error.
 *
 * Tested by test-whose.c and test/uring/uring.py.
 */
#include "host/host.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/calls.h"
#include "base/io_uring.h"
#include "base/sys.h"
#include "options/config.h"
#include "life/report.h"
#include "patch/patch.h"
#include "uring/uring.h"

/* Newer than some headers: the ring is one that the thread has registered. */
static const uint32_t REGISTER_REGISTERED = 1u << 31;
enum {
	REGISTER_BUFFERS2 = 15,
	REGISTER_BUFFERS_UPDATE = 16,
	REGISTER_RING_FDS = 20,
	UNREGISTER_RING_FDS = 21,
	REGISTER_QUERY = 35,
};

/* Return: whether the kernel may be asked. */
static bool may_ask(enum uaio_call call)
{
	if (uaio_config.uring == UAIO_URING_NEVER)
		return true;
	/* A program may call before we are loaded. */
	uaio_calls_load(secure_getenv(UAIO_CALLS_VARIABLE));
	return uaio_may_call(call);
}

/* Return: whether a result says that there is no io_uring for this process. */
static bool is_refusal(long ret)
{
	return ret == -EPERM || ret == -ENOSYS || ret == -EACCES;
}

/*
 * Return: whether a limit of the user or the process has refused this ring. io_uring
 * charges memory to RLIMIT_MEMLOCK (ENOMEM, before Linux 5.12 and since 6.14); a polling
 * thread counts as a process (EAGAIN).
 */
static bool is_limited(long ret)
{
	return ret == -ENOMEM || ret == -EAGAIN;
}

static bool has_memlock_limit(void)
{
	struct rlimit limit;

	return sys_getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
	       limit.rlim_cur != RLIM_INFINITY;
}

static const char *name_limit(long ret)
{
	if (ret == -EAGAIN)
		return "EAGAIN, a limit of threads";
	return has_memlock_limit() ? "RLIMIT_MEMLOCK" : "ENOMEM";
}

bool uaio_host_uring_is_ours(void)
{
	if (uaio_config.uring != UAIO_URING_AUTO)
		return uaio_config.uring == UAIO_URING_ALWAYS;
	/* The try has no effect; sysctl may refuse what filters let through. */
	return !may_ask(UAIO_CALL_URING_SETUP) ||
	       !uaio_call_try(UAIO_CALL_URING_SETUP);
}

/* The kernel has none for this process. */
static long setup_ours(long nr_entries, long params)
{
	long ret;

	uaio_host_prove_identity();
	ret = uaio_uring_setup((uint32_t)nr_entries,
			       (struct io_uring_params *)params);
	if (ret == -ENOSYS)
		uaio_report_unserved(
			"io_uring: a filter of system calls may refuse "
			"memfd_create: start the program by uaio run, or set "
			"UAIO_CALLS=all");
	return ret;
}

#if defined(__x86_64__)
#define RUN_TRAPPED "start it by uaio run --trap=always, "
#else
#define RUN_TRAPPED
#endif

/*
 * Return: whether the program makes a ring by a call that comes here, and would use it
 * by calls that are the kernel's. It had better know that it has none.
 */
static bool would_lose(const void *caller)
{
	if (!caller || !uaio_patch_has_left(caller))
		return false;
	uaio_report_unserved(
		uaio_config.is_patch_off
			? "io_uring: the program's own code calls it, and "
			  "--no-patch leaves that alone"
			: "io_uring: the program's own code calls it and "
			  "cannot be changed: " RUN_TRAPPED
			  "allow mprotect with PROT_EXEC "
			  "(MemoryDenyWriteExecute=no), or use a build with "
			  "liburing as a library");
	return true;
}

/* Return: the kernel's answer; -EPERM if it must not be asked. */
static long setup_kernels(long nr_entries, long params)
{
	if (uaio_config.uring == UAIO_URING_ALWAYS ||
	    !may_ask(UAIO_CALL_URING_SETUP))
		return -EPERM;
	return uaio_sys6(SYS_io_uring_setup, nr_entries, params, 0, 0, 0, 0);
}

/* Return: our ring; or the error that the kernel has for the client. */
static long setup_beyond(long error, long nr_entries, long params)
{
	long ret = setup_ours(nr_entries, params);

	if (ret < 0)
		return error;
	uaio_report_limited_ring(name_limit(error));
	return ret;
}

long uaio_host_uring_setup_from(const void *caller, long nr_entries,
				long params)
{
	const struct io_uring_params *asked = (struct io_uring_params *)params;
	long ret;

	if (uaio_config.uring != UAIO_URING_NEVER &&
	    uaio_uring_attaches_to_ours(asked))
		return setup_ours(nr_entries, params);
	ret = setup_kernels(nr_entries, params);
	if (uaio_config.uring == UAIO_URING_NEVER) {
		uaio_report_unserved("io_uring is the kernel's: --uring=never");
		return ret;
	}
	if (ret >= 0 && uaio_uring_note_kernels(ret, asked)) {
		uaio_report_kernels_ring(
			"io_uring is the kernel's, which is not "
			"refused here: --uring=always changes that");
		return ret;
	}
	if (ret < 0 && !is_refusal(ret) && !is_limited(ret))
		return ret;
	if (would_lose(caller))
		return ret < 0 ? ret : -ENOMEM;
	return is_limited(ret) ? setup_beyond(ret, nr_entries, params)
			       : setup_ours(nr_entries, params);
}

long uaio_host_uring_setup(long nr_entries, long params)
{
	return uaio_host_uring_setup_from(NULL, nr_entries, params);
}

static long enter_ours(const long a[6])
{
	return uaio_uring_enter((uint32_t)a[0], (uint32_t)a[1], (uint32_t)a[2],
				(uint32_t)a[3], (const void *)a[4],
				(size_t)a[5]);
}

long uaio_host_uring_enter(const long a[6])
{
	long ret = -ENOSYS;

	if (uaio_uring_owns((uint32_t)a[0],
			    a[3] & IORING_ENTER_REGISTERED_RING))
		return enter_ours(a);
	if (may_ask(UAIO_CALL_URING_ENTER))
		ret = uaio_sys6(SYS_io_uring_enter, a[0], a[1], a[2], a[3],
				a[4], a[5]);
	return ret == -ENOSYS && uaio_config.uring != UAIO_URING_NEVER
		       ? enter_ours(a)
		       : ret;
}

bool uaio_host_uring_may_complete(int fd, bool is_registered)
{
	return uaio_uring_may_complete((uint32_t)fd, is_registered);
}

static long register_ours(const long a[4])
{
	return uaio_uring_register((uint32_t)a[0], (uint32_t)a[1], (void *)a[2],
				   (uint32_t)a[3]);
}

/* Return: whether a call asks without a ring what there is; its rings are whose it is. */
static bool is_query(const long a[4])
{
	const uint32_t opcode = (uint32_t)a[1] & ~REGISTER_REGISTERED;

	return (uint32_t)a[0] == UINT32_MAX && opcode == REGISTER_QUERY &&
	       uaio_host_uring_is_ours();
}

static long register_kernels(const long a[4])
{
	const uint32_t opcode = (uint32_t)a[1] & ~REGISTER_REGISTERED;
	long ret;

	if (uaio_config.uring == UAIO_URING_AUTO &&
	    (opcode == REGISTER_RING_FDS || opcode == UNREGISTER_RING_FDS))
		return uaio_uring_register_kernels(a);
	ret = uaio_sys6(SYS_io_uring_register, a[0], a[1], a[2], a[3], 0, 0);
	/* The ring stays the kernel's, so its buffers cannot be ours. */
	if (ret == -ENOMEM && uaio_config.uring == UAIO_URING_AUTO &&
	    (opcode == IORING_REGISTER_BUFFERS || opcode == REGISTER_BUFFERS2 ||
	     opcode == REGISTER_BUFFERS_UPDATE) &&
	    has_memlock_limit())
		uaio_report_unserved(
			"RLIMIT_MEMLOCK refuses to register buffers with a "
			"ring of the kernel's: --uring=always locks no memory");
	return ret;
}

long uaio_host_uring_register(const long a[4])
{
	long ret = -ENOSYS;

	if (uaio_uring_owns((uint32_t)a[0], a[1] & REGISTER_REGISTERED) ||
	    uaio_uring_owns_message((uint32_t)a[0], (uint32_t)a[1],
				    (const void *)a[2]) ||
	    is_query(a))
		return register_ours(a);
	if (may_ask(UAIO_CALL_URING_REGISTER))
		ret = register_kernels(a);
	return ret == -ENOSYS && uaio_config.uring != UAIO_URING_NEVER
		       ? register_ours(a)
		       : ret;
}

/*
 * Calls by the program's own instruction
 */

static bool is_ours_at_load; /* immutable after load */

static long call_patched(long nr, const long a[6])
{
	switch (nr) {
	case SYS_io_uring_setup: return uaio_host_uring_setup(a[0], a[1]);
	case SYS_io_uring_enter: return uaio_host_uring_enter(a);
	default: return uaio_host_uring_register(a);
	}
}

static void report_patched(const char *name, size_t nr, size_t nr_left)
{
	char line[512];

	if (!uaio_config.is_verbose &&
	    !(uaio_config.says_lost && nr_left && is_ours_at_load))
		return;
	(void)snprintf(
		line, sizeof(line),
		"uaio: library: io_uring calls in %.300s: %zu come here, "
		"%zu cannot be changed%s\n",
		*name ? name : "the program", nr, nr_left,
		nr_left ? ", and are the kernel's: start the program by uaio "
			  "run --trap, or use a build with liburing as a "
			  "library"
			: "");
	uaio_report_say(line);
}

void uaio_host_load_uring(void)
{
	static const struct uaio_patch_ops ops = {
		.call = call_patched,
		.report = report_patched,
	};

	is_ours_at_load = uaio_host_uring_is_ours();
	/* A limit, or a filter that the program installs, may refuse later rings. */
	if (!uaio_config.is_patch_off &&
	    uaio_may_call(UAIO_CALL_MPROTECT_EXEC) &&
	    uaio_config.uring != UAIO_URING_NEVER)
		uaio_patch_load(&ops);
}
