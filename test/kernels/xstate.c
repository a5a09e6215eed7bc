/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into User-mode Linux: makes ptrace(2) work with a buffer that is too short
 * for the processor's registers
 *
 * User-mode Linux up to 6.12 was built for processors whose extended state has at most
 * 2696 bytes. The host's kernel demands a buffer for the whole state and returns EFAULT
 * for less; with AMX, the state has 11 008 bytes. So this ptrace() reads the whole
 * state, replaces the part that User-mode Linux knows, and writes the whole state.
 *
 * This ptrace() works with any C library: it uses only syscall(2), errno and memcpy(3).
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
	/*
	 * Like the C library's ptrace(), return the word that was read, not the status.
	 */
	ret = syscall(SYS_ptrace, request, pid, addr, &word);
	if (ret < 0)
		return ret;
	errno = 0;
	return word;
}
