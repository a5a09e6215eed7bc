/* SPDX-License-Identifier: MIT */
/*
 * Makes fork() safe in tests that run under AddressSanitizer.
 *
 * The AddressSanitizer of GCC before 14 does not take its own locks at a fork. If
 * another thread allocates, begins or ends at that moment, the child inherits a locked
 * lock, which nobody unlocks. The child then hangs when it starts a thread. So a thread
 * that forks takes these locks before, in the order in which the leak check takes them.
 * The functions have no C names, and only the static library of the sanitizer lets a
 * program call them.
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

/*
 * Registered before all other handlers of pthread_atfork(). So fork() calls lock() last,
 * and unlock() first.
 */
__attribute__((constructor(101))) static void set(void)
{
	if (pthread_atfork(lock, unlock, unlock))
		abort();
}
