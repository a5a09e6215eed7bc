/* SPDX-License-Identifier: MIT */
#include "base/uaddr.h"

#include <string.h>
#include <sys/auxv.h>

#include "base/sys.h"

enum {
	/*
	 * No machine has smaller pages. If pages are larger, a page is probed several
	 * times, which is needless but harmless.
	 */
	PAGE = 4096,
	WORD = 8,
};

size_t uaio_page_known;

size_t uaio_page_find(void)
{
	const size_t bytes = getauxval(AT_PAGESZ);

	store_relaxed(&uaio_page_known, bytes ? bytes : PAGE);
	return load_relaxed(&uaio_page_known);
}

/*
 * Call `probe` for one word in each page of the range.
 * Return: whether `probe` returned true for each page.
 */
static bool each_page(uint64_t addr, uint64_t bytes, bool (*probe)(uint64_t))
{
	uint64_t last = (addr + bytes - 1) & ~(uint64_t)(WORD - 1);

	for (addr &= ~(uint64_t)(WORD - 1); (addr | (PAGE - 1)) < last;
	     addr = (addr | (PAGE - 1)) + 1)
		if (!probe(addr))
			return false;
	return probe(last);
}

static bool probe_read(uint64_t addr)
{
	return sys_can_read8((const void *)(uintptr_t)addr);
}

static bool probe_write(uint64_t addr)
{
	return sys_can_write4((void *)(uintptr_t)addr);
}

bool uaio_can_read(uint64_t addr, uint64_t bytes)
{
	return !bytes || each_page(addr, bytes, probe_read);
}

bool uaio_can_write(uint64_t addr, uint64_t bytes)
{
	return !bytes || each_page(addr, bytes, probe_write);
}

bool uaio_store_zero(uint64_t addr)
{
	if (!sys_overwrite8((void *)(uintptr_t)addr))
		return false;
	memset((void *)(uintptr_t)addr, 0, sizeof(uint64_t));
	return true;
}
