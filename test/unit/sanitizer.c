/* SPDX-License-Identifier: MIT */
/*
 * A child of fork() under AddressSanitizer.
 *
 * Until GCC 13, GCC's AddressSanitizer forks without its own locks. If another
 * thread allocates, starts or ends at that moment, the child finds a lock taken
 * that nobody releases, and hangs when it starts a thread. So a thread that
 * forks takes these locks, in the order in which the leak check takes them.
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

/* Registered first, so called last before a fork, and first after a fork. */
__attribute__((constructor(101))) static void set(void)
{
	if (pthread_atfork(lock, unlock, unlock))
		abort();
}
