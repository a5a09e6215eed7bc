/* SPDX-License-Identifier: MIT */
/*
 * A child of fork() under AddressSanitizer.
 *
 * The library that came with GCC until GCC 13 forks without its own locks. If another
 * thread allocates just then, or begins, or ends, the child finds a lock taken that
 * nobody gives back, and hangs at its first thread. So a thread that forks takes these
 * locks, in the order in which that library itself takes them when it looks for leaks.
 * They have no names in C, and none outside of the static library.
 */
#include <pthread.h>
#include <stdlib.h>

void lock_threads(void) __asm__("_ZN6__lsan18LockThreadRegistryEv");
void unlock_threads(void) __asm__("_ZN6__lsan20UnlockThreadRegistryEv");
void lock_allocator(void) __asm__("_ZN6__lsan13LockAllocatorEv");
void unlock_allocator(void) __asm__("_ZN6__lsan15UnlockAllocatorEv");
void lock_stacks(void) __asm__("_ZN11__sanitizer17StackDepotLockAllEv");
void unlock_stacks(void) __asm__("_ZN11__sanitizer19StackDepotUnlockAllEv");

static void lock(void)
{
	lock_threads();
	lock_allocator();
	lock_stacks();
}

static void unlock(void)
{
	unlock_stacks();
	unlock_allocator();
	unlock_threads();
}

/* First of all: what is set first is called last before a fork, and first after it. */
__attribute__((constructor(101))) static void set(void)
{
	if (pthread_atfork(lock, unlock, unlock))
		abort();
}
