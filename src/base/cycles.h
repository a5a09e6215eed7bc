/* SPDX-License-Identifier: MIT */
/*
 * The processor's cheap clock, for timing single system calls
 *
 * Reading it costs a few nanoseconds, where clock_gettime() costs over twenty.
 * Two readings are never compared if the thread has slept in between. A wrong
 * value harms no data: it makes the policy choose another of two correct ways
 * of reading a file, and makes the statistics inexact.
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

/* In a loop that spins: let the other hardware thread of the core run. */
static inline void uaio_cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#else
	__asm__ volatile("yield");
#endif
}

/*
 * Measure the clock's rate. uaio_cycles_start() is called once, when the engine
 * comes up; uaio_cycles_per_us() whenever the rate is needed.
 *
 * Return: cycles per microsecond, or 0 during the first millisecond, while the
 * rate is not known yet.
 */
void uaio_cycles_start(void);
uint64_t uaio_cycles_per_us(void);

#endif /* UAIO_BASE_CYCLES_H */
