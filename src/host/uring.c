/* SPDX-License-Identifier: MIT */
/*
 * Decides whether a client gets an io_uring of the kernel or of the library
 *
 * All ways to make the three calls end here: syscall(2), liburing's functions and patched call
 * sites. The option --uring decides. With "auto", the default, the client's own
 * io_uring_setup() goes to the kernel first; if the kernel refuses it, the library makes the
 * ring. Because of a limit, the kernel may refuse one ring and not the next, so a process may
 * have rings of both kinds (uring/tctx.c). If a seccomp filter may kill the process for the
 * call (base/calls.h), the library makes the ring without trying the kernel first.
 *
 * io_uring_enter() and io_uring_register() go to the owner of the ring. If the descriptor is
 * no ring of the library, they go to the kernel, which returns the right error. If the system
 * call is not allowed, or the kernel has no io_uring, the library itself returns this error.
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

/* IORING_REGISTER_USE_REGISTERED_RING, which older headers lack. */
static const uint32_t REGISTER_REGISTERED = 1u << 31;
enum {
	REGISTER_BUFFERS2 = 15,
	REGISTER_BUFFERS_UPDATE = 16,
	REGISTER_RING_FDS = 20,
	UNREGISTER_RING_FDS = 21,
	REGISTER_QUERY = 35,
};

/* Return: whether the library may make this system call. */
static bool may_ask(enum uaio_call call)
{
	if (uaio_config.uring == UAIO_URING_NEVER)
		return true;
	/* The program may call before the library's constructor has run. */
	uaio_calls_load(secure_getenv(UAIO_CALLS_VARIABLE));
	return uaio_may_call(call);
}

/* Return: whether ret means that the process may not use the kernel's io_uring. */
static bool is_refusal(long ret)
{
	return ret == -EPERM || ret == -ENOSYS || ret == -EACCES;
}

/*
 * Return: whether a limit of the user or the process has refused this ring. io_uring charges
 * memory to RLIMIT_MEMLOCK (ENOMEM, before Linux 5.12 and since 6.14); a thread that polls
 * submissions (SQPOLL) counts as a process (EAGAIN).
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
	/*
	 * Try a call that has no effect, as the sysctl kernel.io_uring_disabled may refuse the
	 * call, too.
	 */
	return !may_ask(UAIO_CALL_URING_SETUP) ||
	       !uaio_call_try(UAIO_CALL_URING_SETUP);
}

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
 * Return: whether the program would make a ring of the library by the call at caller, but use
 * it by call sites that could not be patched, whose calls would go to the kernel and fail.
 * Such a program must get an error now.
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

/* Return: the result of the kernel's io_uring_setup(); -EPERM if it may not be called. */
static long setup_kernels(long nr_entries, long params)
{
	if (uaio_config.uring == UAIO_URING_ALWAYS ||
	    !may_ask(UAIO_CALL_URING_SETUP))
		return -EPERM;
	return uaio_sys6(SYS_io_uring_setup, nr_entries, params, 0, 0, 0, 0);
}

/* Return: a ring of the library; if that fails, error, with which the kernel refused the ring. */
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

/*
 * Return: whether the call queries features without a ring (IORING_REGISTER_QUERY), and new
 * rings would be the library's; then the library answers.
 */
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
	/* A ring of the kernel cannot use buffers of the library, so only report the limit. */
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
 * Calls by patched instructions of the program
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
	/*
	 * Patch even if the kernel makes the rings now: a limit or a filter may refuse later
	 * ones.
	 */
	if (!uaio_config.is_patch_off &&
	    uaio_may_call(UAIO_CALL_MPROTECT_EXEC) &&
	    uaio_config.uring != UAIO_URING_NEVER)
		uaio_patch_load(&ops);
}
