/* SPDX-License-Identifier: MIT */
/*
 * MemorySanitizer: it does not see what the kernel writes, which it would take for
 * uninitialised, nor that the kernel reads what is. It has to be told of each transfer.
 *
 * Tested by test/run/checkers.py.
 */
#include "check/checker.h"

#include <dlfcn.h>
#include <sys/types.h>

#include "check/checkint.h"

/* The sanitizer's functions, of its <msan_interface.h>; NULL: it is not here. */
static struct {
	/* Return: where the first byte is that was not initialised, or -1. */
	ssize_t (*find)(const void *at, size_t bytes);
	void (*initialised)(const void *at, size_t bytes);
	/* Report it, if there is one, and mostly end the process. */
	void (*report)(const void *at, size_t bytes);
} msan;

void uaio_msan_init(void)
{
	if (msan.find)
		return;
	*(void **)&msan.initialised = dlsym(RTLD_DEFAULT, "__msan_unpoison");
	*(void **)&msan.report =
		dlsym(RTLD_DEFAULT, "__msan_check_mem_is_initialized");
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
