/* SPDX-License-Identifier: MIT */
/*
 * Informs MemorySanitizer of each transfer. The sanitizer does not see that the kernel
 * writes memory, and would report this memory as uninitialised. Nor does the sanitizer
 * see that the kernel reads uninitialised memory.
 *
 * Tested by test/run/checkers.py.
 */
#include "check/checker.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/types.h>

#include "base/uaddr.h"
#include "op/args.h"
#include "op/op.h"
#include "check/checkint.h"

/*
 * Functions of the sanitizer, from <msan_interface.h>; NULL if the process runs without
 * the sanitizer.
 */
static struct {
	/*
	 * Return: the offset of the first uninitialised byte of the memory; -1: there
	 * is none.
	 */
	ssize_t (*find)(const void *at, size_t bytes);
	void (*initialised)(const void *at, size_t bytes);
	/* Report an uninitialised byte, if there is one; this usually ends the process. */
	void (*report)(const void *at, size_t bytes);
	/*
	 * Mark the first nr arguments of the next function call as initialised. NULL:
	 * this version of the sanitizer lacks the function.
	 */
	void (*arguments)(size_t nr);
} msan;

void uaio_msan_init(void)
{
	if (msan.find)
		return;
	*(void **)&msan.initialised = dlsym(RTLD_DEFAULT, "__msan_unpoison");
	*(void **)&msan.report =
		dlsym(RTLD_DEFAULT, "__msan_check_mem_is_initialized");
	*(void **)&msan.arguments =
		dlsym(RTLD_DEFAULT, "__msan_unpoison_param");
	if (msan.initialised && msan.report)
		*(void **)&msan.find =
			dlsym(RTLD_DEFAULT, "__msan_test_shadow");
}

bool uaio_msan_is_here(void)
{
	return msan.find;
}

uintptr_t uaio_msan_find(uintptr_t at, size_t bytes)
{
	ssize_t offset = msan.find((const void *)at, bytes);

	return offset < 0 ? 0 : at + (size_t)offset;
}

void uaio_msan_report(uintptr_t at, size_t bytes)
{
	msan.report((const void *)at, bytes);
}

void uaio_msan_initialised(uintptr_t at, size_t bytes)
{
	if (msan.find)
		msan.initialised((const void *)at, bytes);
}

void uaio_msan_call(size_t nr)
{
	if (msan.arguments)
		msan.arguments(nr);
}

void uaio_check_written(uintptr_t at, size_t bytes)
{
	if (at)
		uaio_msan_initialised(at, bytes);
}

static void expect(const void *at, size_t bytes)
{
	if (uaio_can_write((uintptr_t)at, bytes))
		uaio_msan_initialised((uintptr_t)at, bytes);
}

/*
 * The kernel's accept() writes the peer's address: mark this memory as initialised, up
 * to the size that the program has passed.
 */
static void expect_peer(const struct uaio_sqe *sqe)
{
	const uint32_t *bytes = (const uint32_t *)(uintptr_t)sqe->len;

	if (sqe->buf && uaio_can_read((uintptr_t)bytes, sizeof(*bytes)))
		expect(sqe->buf, *bytes);
}

void uaio_msan_submit(const struct uaio_sqe *sqe)
{
	switch (sqe->op) {
	case UAIO_OP_ACCEPT: expect_peer(sqe); break;
	case UAIO_OP_PIPE: expect(sqe->buf, 2 * sizeof(int)); break;
	case UAIO_OP_SOCKET_CMD:
		expect(sqe->args->out, sqe->args->out_bytes);
		break;
	case UAIO_OP_EPOLL_WAIT:
		expect(sqe->buf, sqe->len * sizeof(struct epoll_event));
		break;
	case UAIO_OP_WAITID: expect(sqe->args->out, sizeof(siginfo_t)); break;
	default: break;
	}
}
