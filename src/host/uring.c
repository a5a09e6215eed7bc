/* SPDX-License-Identifier: MIT */
/*
 * Decides whether a program gets an io_uring of the kernel or of the library
 *
 * A program may make the three system calls of io_uring by syscall(2), by liburing's
 * functions or by patched instructions; all these calls reach this file. The option
 * --uring decides. With "auto", the default, io_uring_setup() goes to the kernel first;
 * if the kernel refuses it, the library makes the ring. Because of a limit, the kernel
 * may refuse one ring and not the next, so a process may have rings of both kinds
 * (uring/tctx.c). If a seccomp filter may kill the process for the call (base/calls.h),
 * the library makes the ring without trying the kernel first.
 *
 * io_uring_enter() and io_uring_register() go to the library if it has made the ring.
 * Otherwise they go to the kernel, which returns the right error for a wrong
 * descriptor. If a sandbox forbids the system call, or the kernel has no io_uring, the
 * library executes the call, and returns the error for a wrong descriptor.
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

/* The value of IORING_REGISTER_USE_REGISTERED_RING, which older headers lack. */
static const uint32_t REGISTER_REGISTERED = 1u << 31;
enum {
	REGISTER_BUFFERS2 = 15,
	REGISTER_BUFFERS_UPDATE = 16,
	REGISTER_RING_FDS = 20,
	UNREGISTER_RING_FDS = 21,
	REGISTER_QUERY = 35,
};

/* Return: whether a system call of io_uring may be passed to the kernel. */
static bool may_ask(enum uaio_call call)
{
	if (uaio_config.uring == UAIO_URING_NEVER)
		return true;
	/*
	 * The program may make this call before the library's constructor has run. So
	 * read here which calls are allowed.
	 */
	uaio_calls_load(secure_getenv(UAIO_CALLS_VARIABLE));
	return uaio_may_call(call);
}

/*
 * Return: whether the result ret means that the process may not use the kernel's
 * io_uring.
 */
static bool is_refusal(long ret)
{
	return ret == -EPERM || ret == -ENOSYS || ret == -EACCES;
}

/*
 * Return: whether the kernel has refused this ring because of a limit of the user or
 * process. ENOMEM: io_uring charges memory to RLIMIT_MEMLOCK (before Linux 5.12 and
 * since 6.14). EAGAIN: the thread that polls submissions (SQPOLL) counts as a process
 * (RLIMIT_NPROC).
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
	 * Even if no filter refuses io_uring, the sysctl kernel.io_uring_disabled may.
	 * So also try io_uring_setup(), with arguments that create no ring.
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
 * `caller`: an address in the code that calls io_uring_setup().
 * Return: whether the object (program or shared library) at this address contains
 * io_uring_enter() instructions that could not be patched. For a ring of the library,
 * these instructions would enter the kernel, which does not know the ring. So the
 * program must get an error now.
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

/*
 * Return: the result of the kernel's io_uring_setup(); -EPERM if the call must not be
 * made.
 */
static long setup_kernels(long nr_entries, long params)
{
	if (uaio_config.uring == UAIO_URING_ALWAYS ||
	    !may_ask(UAIO_CALL_URING_SETUP))
		return -EPERM;
	return uaio_sys6(SYS_io_uring_setup, nr_entries, params, 0, 0, 0, 0);
}

/*
 * The kernel has refused a ring with this error.
 * Return: a ring of the library; or error if the library fails, too.
 */
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
 * Return: whether this call queries features without a ring (IORING_REGISTER_QUERY),
 * and the library would make new rings. If so, the library answers the call.
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
	/*
	 * The library cannot register the buffers in the kernel's place, as a kernel
	 * ring could not use them. So only report that RLIMIT_MEMLOCK has refused them.
	 */
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

/* io_uring system calls by patched instructions of the program */

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
	 * Patch even if the kernel makes rings now: because of a limit or a filter it
	 * may refuse a later one.
	 */
	if (!uaio_config.is_patch_off &&
	    uaio_may_call(UAIO_CALL_MPROTECT_EXEC) &&
	    uaio_config.uring != UAIO_URING_NEVER)
		uaio_patch_load(&ops);
}
