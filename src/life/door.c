/* SPDX-License-Identifier: MIT */
#include "life/door.h"

#include <errno.h>
#include <stddef.h>

/*
 * The linker defines these symbols: the first element of the section uaio_doors, and
 * its end. If no front-end is linked, both are NULL.
 */
extern const struct uaio_door *const __start_uaio_doors[]
	__attribute__((weak, visibility("hidden")));
extern const struct uaio_door *const __stop_uaio_doors[]
	__attribute__((weak, visibility("hidden")));

#define for_each_door(pos)                                              \
	for (const struct uaio_door *const *(pos) = __start_uaio_doors; \
	     (pos) != __stop_uaio_doors; (pos)++)

void uaio_doors_load(void)
{
	for_each_door (door)
		(*door)->load();
}

int uaio_doors_start(void)
{
	int ret = 0;

	for_each_door (door)
		if (ret == 0)
			ret = (*door)->start();
	return ret;
}

void uaio_doors_count(struct uaio_counters *counters)
{
	for_each_door (door)
		(*door)->count(counters);
}

void uaio_doors_closed(unsigned first, unsigned last)
{
	for_each_door (door)
		if ((*door)->closed)
			(*door)->closed(first, last);
}

void uaio_doors_fork(void)
{
	for_each_door (door)
		if ((*door)->forks)
			(*door)->forks();
}

int uaio_doors_yield(int fd)
{
	int ret = -ENOENT;

	for_each_door (door)
		if (ret == -ENOENT && (*door)->yield)
			ret = (*door)->yield(fd);
	return ret;
}

bool uaio_doors_have_ring(uint64_t dev, uint64_t ino)
{
	for_each_door (door)
		if ((*door)->has_ring && (*door)->has_ring(dev, ino))
			return true;
	return false;
}

const char *uaio_door_first_call(unsigned n)
{
	for_each_door (door)
		if (n-- == 0)
			return (*door)->first_call;
	return NULL;
}
