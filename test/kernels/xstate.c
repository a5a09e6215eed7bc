/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into User-mode Linux: ptrace(2) with a short buffer for the registers
 *
 * User-mode Linux up to 6.12 was built for processors whose extended state has 2696 bytes
 * or fewer. The host's kernel demands a buffer for the whole state, which is 11 008 bytes
 * where the processor has AMX, and returns EFAULT for less. So read all of it, change the
 * part that User-mode Linux knows, and write all of it.
 *
 * Built for any C library: it uses none but syscall(2), errno and memcpy(3).
 */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
	PEEKTEXT = 1,
	PEEKUSER = 3,
	SETREGSET = 0x4205,
	GETREGSET = 0x4204,
	XSTATE = 0x202, /* NT_X86_XSTATE */
	MOST = 1 << 16,
};

long ptrace(int request, ...);

static long set_state(long pid, const struct iovec *known)
{
	static char all[MOST] __attribute__((aligned(64)));
	struct iovec iov = { all, sizeof(all) };

	if (syscall(SYS_ptrace, GETREGSET, pid, XSTATE, &iov) < 0)
		return -1;
	memcpy(all, known->iov_base,
	       known->iov_len < iov.iov_len ? known->iov_len : iov.iov_len);
	return syscall(SYS_ptrace, SETREGSET, pid, XSTATE, &iov);
}

long ptrace(int request, ...)
{
	long pid, addr, data, word, ret;
	va_list args;

	va_start(args, request);
	pid = va_arg(args, int);
	addr = va_arg(args, long);
	data = va_arg(args, long);
	va_end(args);

	if (request == SETREGSET && addr == XSTATE)
		return set_state(pid, (const struct iovec *)data);
	if (request < PEEKTEXT || request > PEEKUSER)
		return syscall(SYS_ptrace, request, pid, addr, data);
	/* As in the C library, return the word itself. */
	ret = syscall(SYS_ptrace, request, pid, addr, &word);
	if (ret < 0)
		return ret;
	errno = 0;
	return word;
}
