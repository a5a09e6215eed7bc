/* SPDX-License-Identifier: MIT */
/*
 * The heap (brk) of the program
 *
 * The kernel gives a process one heap (brk), and malloc() of the library's C library
 * uses it. If the program used the same heap, the program and this malloc() would
 * truncate each other's memory. So the program gets a heap of its own, in reserved
 * memory.
 *
 * Tested by test/trap.
 */
#include "trap/call.h"

#if defined(__x86_64__)
#include <string.h>
#include <sys/mman.h>

#include "base/lock.h"
#include "base/sys.h"

enum { PAGE = 4096 };

static struct {
	struct uaio_lock lock; /* rank TRAP */
	uint64_t start, end, limit;
} heap;

void uaio_trap_heap_begin(void)
{
	for (uint64_t bytes = 64ull << 30; bytes >= 1 << 20; bytes /= 2) {
		void *memory =
			sys_mmap(NULL, bytes, PROT_NONE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);

		if (sys_is_map_error(memory))
			continue;
		heap.start = heap.end = (uintptr_t)memory;
		heap.limit = heap.start + bytes;
		return;
	}
}

void uaio_trap_heap_forget_lock(void)
{
	memset(&heap.lock, 0, sizeof(heap.lock));
}

static uint64_t page_behind(uint64_t addr)
{
	return (addr + PAGE - 1) & ~(PAGE - 1ull);
}

/*
 * Make the pages [from, to) usable, or return them to the kernel.
 * Return: whether that succeeded.
 */
static bool set_use(uint64_t from, uint64_t to, bool is_used)
{
	void *memory;

	if (from == to)
		return true;
	if (is_used)
		return uaio_sys6(SYS_mprotect, (long)from, (long)(to - from),
				 PROT_READ | PROT_WRITE, 0, 0, 0) == 0;
	memory = sys_mmap((void *)from, to - from, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
				  MAP_FIXED);
	return !sys_is_map_error(memory);
}

uint64_t uaio_trap_brk(uint64_t end)
{
	uint64_t old, new;

	uaio_lock(&heap.lock, UAIO_RANK_TRAP);
	old = page_behind(heap.end);
	new = page_behind(end);
	if (end >= heap.start && end <= heap.limit &&
	    (new > old ? set_use(old, new, true) : set_use(new, old, false)))
		heap.end = end;
	end = heap.end;
	uaio_unlock(&heap.lock, UAIO_RANK_TRAP);
	return end;
}
#endif
