/* SPDX-License-Identifier: MIT */
/*
 * The processor's cheap clock, for timing single system calls
 *
 * Reading it costs a few nanoseconds where clock_gettime() costs twenty-odd.
 * It is never compared across a sleep. A wrong value harms no data: it moves a
 * file between two ways of reading that are both right, and statistics are off.
 */
#ifndef UAIO_BASE_CYCLES_H
#define UAIO_BASE_CYCLES_H

#include <stdint.h>

static inline uint64_t uaio_cycles(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#else
	uint64_t value;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
	return value;
#endif
}

/* In a loop that spins: leave the processor to its other half. */
static inline void uaio_cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#else
	__asm__ volatile("yield");
#endif
}

/*
 * Note the clock's rate; to be called once when the engine comes up, and
 * again whenever convenient until it returns something.
 *
 * Return: cycles per microsecond, or 0 while too little time has passed to
 * know (1 ms).
 */
void uaio_cycles_start(void);
uint64_t uaio_cycles_per_us(void);

#endif /* UAIO_BASE_CYCLES_H */
