/* SPDX-License-Identifier: MIT */
/*
 * memcheck of valgrind: a program under it asks it by an instruction sequence that does
 * nothing elsewhere (valgrind's manual: The Client Request mechanism). The numbers of the
 * requests are those of <valgrind/valgrind.h> and <valgrind/memcheck.h>.
 *
 * valgrind sees the system calls that this library makes for a request, so what is in
 * flight needs no poison. Those of the kernel's threads it does not see.
 *
 * Tested by test/run/checkers.py.
 */
#include "check/checker.h"

enum {
	RUNNING_ON_VALGRIND = 0x1001,
	MEMCHECK = 'M' << 24 | 'C' << 16, /* where its own requests begin */
	CHECK_IS_ADDRESSABLE = MEMCHECK | 4,
	CHECK_IS_DEFINED = MEMCHECK | 5,
	GET_VBITS = MEMCHECK | 8,
};

static bool is_here;

/* Return: what the tool answers; 0: there is none, or it does not know the request. */
static uintptr_t ask(uintptr_t request, uintptr_t at, uintptr_t bytes,
		     uintptr_t more)
{
	const uintptr_t question[6] = { request, at, bytes, more };
	uintptr_t answer = 0;

#if defined(__x86_64__)
	__asm__ volatile("rolq $3, %%rdi; rolq $13, %%rdi\n\t"
			 "rolq $61, %%rdi; rolq $51, %%rdi\n\t"
			 "xchgq %%rbx, %%rbx"
			 : "+d"(answer)
			 : "a"(question), "m"(question)
			 : "cc", "memory");
#elif defined(__aarch64__)
	register const uintptr_t *asked __asm__("x4") = question;
	register uintptr_t answered __asm__("x3") = answer;

	__asm__ volatile("ror x12, x12, #3; ror x12, x12, #13\n\t"
			 "ror x12, x12, #51; ror x12, x12, #61\n\t"
			 "orr x10, x10, x10"
			 : "+r"(answered)
			 : "r"(asked), "m"(question)
			 : "cc", "memory");
	answer = answered;
#else
	(void)question;
#endif
	return answer;
}

void uaio_memcheck_init(void)
{
	char byte = 0, bits;

	/* Other tools do not know what only memcheck knows. */
	is_here = ask(RUNNING_ON_VALGRIND, 0, 0, 0) &&
		  ask(GET_VBITS, (uintptr_t)&byte, (uintptr_t)&bits, 1) == 1;
}

bool uaio_memcheck_is_here(void)
{
	return is_here;
}

enum uaio_memory uaio_memcheck_look(uintptr_t at, size_t bytes, bool is_written,
				    uintptr_t *ret_byte)
{
	*ret_byte = ask(CHECK_IS_ADDRESSABLE, at, bytes, 0);
	if (*ret_byte)
		return UAIO_MEMORY_UNADDRESSABLE;
	if (!is_written)
		*ret_byte = ask(CHECK_IS_DEFINED, at, bytes, 0);
	return *ret_byte ? UAIO_MEMORY_UNINITIALISED : UAIO_MEMORY_GOOD;
}
