/* SPDX-License-Identifier: MIT */
#include "proc/attributes.h"

#include <string.h>

#include "base/asked.h"
#include "base/sys.h"

bool uaio_attributes_ask(struct uaio_attributes *ret)
{
	struct {
		uint32_t version;
		int pid;
	} header = { 0x20080522, 0 };
	long fsuid = sys_getfsuid(), fsgid = sys_getfsgid();
	int nr_groups;

	memset(ret, 0, sizeof(*ret));
	if (fsuid < 0 || fsgid < 0 || sys_getresuid(ret->uids) < 0 ||
	    sys_getresgid(ret->gids) < 0 || sys_capget(&header, ret->caps) < 0)
		return false;
	nr_groups = sys_getgroups(UAIO_GROUPS_MAX, ret->groups);
	if (nr_groups < 0)
		return false;
	ret->uids[3] = (uid_t)fsuid;
	ret->gids[3] = (gid_t)fsgid;
	ret->nr_groups = (uint32_t)nr_groups;
	/* Where it is refused, no thread can have changed it. */
	ret->ioprio = sys_ioprio_get();
	return true;
}

bool uaio_attributes_are_equal(const struct uaio_attributes *a,
			       const struct uaio_attributes *b)
{
	/* All of both was set to 0 first. */
	return memcmp(a, b, sizeof(*a)) == 0;
}

static bool are_all(const uint32_t ids[4])
{
	return ids[0] == ids[1] && ids[0] == ids[2] && ids[0] == ids[3];
}

bool uaio_attributes_may_change(const struct uaio_attributes *attributes)
{
	enum { PERMITTED = 1, PERMITTED_HIGH = 4 };

	return attributes->caps[PERMITTED] ||
	       attributes->caps[PERMITTED_HIGH] || !are_all(attributes->uids) ||
	       !are_all(attributes->gids);
}
