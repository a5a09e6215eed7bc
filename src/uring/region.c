/* SPDX-License-Identifier: MIT */
#include "uring/region.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/sys.h"
#include "base/uaddr.h"
#include "uring/abi.h"
#include "uring/calls.h"
#include "uring/ring.h"
#include "uring/table.h"

void uaio_uring_region_init(struct uaio_uring_region *region)
{
	*region = (struct uaio_uring_region){ .is_set = false };
}

void uaio_uring_region_fini(struct uaio_uring_region *region)
{
	if (region->map)
		(void)sys_munmap(region->map, region->bytes);
	uaio_uring_region_init(region);
}

/* Return: 0, or why this cannot be a region, in the kernel's order. */
static int check(const struct uaio_uring_region_desc *desc)
{
	const size_t page = uaio_page_bytes();
	const bool is_given = desc->flags & UAIO_URING_REGION_GIVEN;
	uint64_t end;

	for (unsigned i = 0; i < 4; i++)
		if (desc->resv[i])
			return -EINVAL;
	if (desc->flags & ~(uint32_t)UAIO_URING_REGION_GIVEN)
		return -EINVAL;
	if (is_given != (desc->addr != 0))
		return -EFAULT;
	if (!desc->bytes || desc->map_offset || desc->id)
		return -EINVAL;
	if (desc->bytes / page > INT_MAX)
		return -E2BIG;
	if ((desc->addr | desc->bytes) % page)
		return -EINVAL;
	if (__builtin_add_overflow(desc->addr, desc->bytes, &end))
		return -EOVERFLOW;
	if (!is_given)
		return 0;
	return uaio_is_accessible(desc->addr, desc->bytes) &&
			       uaio_can_write(desc->addr, desc->bytes)
		       ? 0
		       : -EFAULT;
}

/* Map what the client is to map. Return: 0 or -ENOMEM. */
static int map(struct uaio_uring *ring, struct uaio_uring_region_desc *desc)
{
	struct uaio_uring_region *region = &ring->region;
	int fd = uaio_uring_tab_number(ring);

	if (fd < 0)
		return -ENOMEM;
	region->map = uaio_uring_mem_map_region(&ring->mem, fd, desc->bytes);
	if (!region->map)
		return -ENOMEM;
	region->bytes = desc->bytes;
	desc->map_offset = UAIO_URING_OFF_REGION;
	return 0;
}

/* Let waits find it. */
static void publish(struct uaio_uring_region *region,
		    const struct uaio_uring_region_desc *desc)
{
	/*
	 * relaxed, both: the client orders its own calls, and who sees only one of
	 * them finds no memory
	 */
	store_relaxed(&region->wait_at,
		      region->map ? (uintptr_t)region->map : desc->addr);
	store_relaxed(&region->wait_bytes, desc->bytes);
}

/* Read what the client gives. Return: 0 or -errno. */
static int read_args(const struct uaio_uring *ring, const void *arg,
		     struct uaio_uring_region_reg *ret_reg,
		     struct uaio_uring_region_desc *ret_desc)
{
	if (uaio_uring_copy_in(ret_reg, (uintptr_t)arg, sizeof(*ret_reg)) < 0 ||
	    uaio_uring_copy_in(ret_desc, ret_reg->desc, sizeof(*ret_desc)) < 0)
		return -EFAULT;
	if (ret_reg->resv[0] | ret_reg->resv[1] ||
	    ret_reg->flags & ~(uint64_t)UAIO_URING_REGION_WAITS)
		return -EINVAL;
	/* relaxed: the client orders its own calls */
	return ret_reg->flags & UAIO_URING_REGION_WAITS &&
			       !load_relaxed(&ring->is_disabled)
		       ? -EINVAL
		       : 0;
}

long uaio_uring_register_region(struct uaio_uring *ring, const void *arg,
				uint32_t nr)
{
	struct uaio_uring_region *region = &ring->region;
	struct uaio_uring_region_desc desc;
	struct uaio_uring_region_reg reg;
	int ret;

	if (!arg || nr != 1)
		return -EINVAL;
	if (region->is_set)
		return -EBUSY;
	ret = read_args(ring, arg, &reg, &desc);
	if (ret == 0)
		ret = check(&desc);
	if (ret == 0 && !(desc.flags & UAIO_URING_REGION_GIVEN))
		ret = map(ring, &desc);
	if (ret < 0)
		return ret;
	if (uaio_uring_copy_out(reg.desc, &desc, sizeof(desc)) < 0) {
		uaio_uring_region_fini(region);
		return -EFAULT;
	}
	region->is_set = true;
	if (reg.flags & UAIO_URING_REGION_WAITS)
		publish(region, &desc);
	return 0;
}

int uaio_uring_region_read(const struct uaio_uring_region *region,
			   uint64_t offset,
			   struct uaio_uring_reg_wait *ret_wait)
{
	/* relaxed, both: see publish() */
	const uint64_t bytes = load_relaxed(&region->wait_bytes);
	const uint64_t at = load_relaxed(&region->wait_at);
	uint64_t end;

	if (offset % sizeof(long) ||
	    __builtin_add_overflow(offset, sizeof(*ret_wait), &end) ||
	    end > bytes)
		return -EFAULT;
	return uaio_uring_copy_in(ret_wait, at + offset, sizeof(*ret_wait));
}
