/* SPDX-License-Identifier: MIT */
/*
 * Client requests of valgrind: a program calls valgrind by an instruction sequence that
 * has no effect outside valgrind (see valgrind's manual, The Client Request mechanism).
 * The requests have the same numbers as in <valgrind/valgrind.h>, memcheck.h,
 * helgrind.h and drd.h.
 */
#ifndef UAIO_CHECK_VALGRIND_H
#define UAIO_CHECK_VALGRIND_H

#include <stdint.h>

enum {
	UAIO_RUNNING_ON_VALGRIND = 0x1001,

	/* The numbers of a tool's client requests begin here. */
	UAIO_OF_MEMCHECK = 'M' << 24 | 'C' << 16,
	UAIO_OF_HELGRIND = 'H' << 24 | 'G' << 16,
	UAIO_OF_DRD = 'D' << 24 | 'R' << 16,

	/*
	 * for helgrind and drd: what one thread did before HAPPENS_BEFORE is ordered
	 * before what another thread does after HAPPENS_AFTER with the same address
	 */
	UAIO_HAPPENS_BEFORE = UAIO_OF_HELGRIND | (256 + 33),
	UAIO_HAPPENS_AFTER = UAIO_OF_HELGRIND | (256 + 34),

	/* client requests of helgrind */
	UAIO_HELGRIND_UNTRACK = UAIO_OF_HELGRIND | (256 + 39),
	UAIO_HELGRIND_TRACK = UAIO_OF_HELGRIND | (256 + 40),
	UAIO_HELGRIND_GET_ABITS = UAIO_OF_HELGRIND | (256 + 46),

	/* client requests of drd; FORGET has a number in helgrind's range */
	UAIO_DRD_FORGET = UAIO_OF_HELGRIND | 0,
	UAIO_DRD_THREAD_ID = UAIO_OF_DRD | 1,
	UAIO_DRD_UNTRACK = UAIO_OF_DRD | 2,
};

/*
 * Make a client request.
 * Return: the tool's answer; 0 if the process does not run under valgrind, or the tool
 * does not know the request.
 */
static inline uintptr_t uaio_valgrind_ask(uintptr_t request, uintptr_t at,
					  uintptr_t bytes, uintptr_t more)
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

#endif /* UAIO_CHECK_VALGRIND_H */
