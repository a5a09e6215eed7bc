/* SPDX-License-Identifier: MIT */
/*
 * The processor's cycle counter, which measures the time of single system calls
 *
 * Reading the counter costs a few nanoseconds; clock_gettime() costs over twenty. The
 * library compares two values of the counter only if the thread has not slept in between.
 * A wrong difference harms no data. Such a difference only makes statistics inexact, or
 * makes the library choose the slower of two correct ways to read a file.
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

/*
 * Called in a loop that spins: lets the processor core's other hardware thread run.
 */
static inline void uaio_cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#else
	__asm__ volatile("yield");
#endif
}

/*
 * Measure the counter's rate. uaio_cycles_start() is called once, when the library
 * starts.
 * Return: cycles per microsecond; 0 during the first millisecond, while the rate is
 * unknown.
 */
void uaio_cycles_start(void);
uint64_t uaio_cycles_per_us(void);

#endif /* UAIO_BASE_CYCLES_H */
