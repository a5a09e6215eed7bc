/* SPDX-License-Identifier: MIT */
/*
 * Queries, compares and sets those attributes of a thread that can be queried: ids,
 * groups, capabilities, I/O priority (identity.h). Tested by test-identity.c.
 */
#include "proc/identity.h"

#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/mman.h>

#include "base/asked.h"
#include "base/lock.h"
#include "base/sys.h"

/* The header of capget(2) and capset(2). */
struct header {
	uint32_t version;
	int pid;
};

static const struct header of_this_thread = { 0x20080522, 0 };

/*
 * Indexes in caps of struct uaio_attributes: the words for capabilities 0 to 31. The
 * word at index + HIGH is for capabilities from 32 on.
 */
enum { EFFECTIVE, PERMITTED, INHERITABLE, HIGH };

enum {
	/*
	 * How many different long lists of groups the library keeps. The attributes of
	 * a thread with yet another long list are not compared.
	 */
	NR_LISTS = 256,
};

/*
 * A long list: more than UAIO_GROUPS_MAX groups. A list that is kept is immutable and
 * never freed.
 */
struct uaio_groups {
	uint32_t nr;
	gid_t ids[];
};

static struct {
	struct uaio_lock lock; /* rank IDENTITY */

	/*
	 * under lock: the kept lists, then NULL. No two lists are equal, so attributes
	 * are compared by their pointers.
	 */
	const struct uaio_groups *lists[NR_LISTS];
} kept;

void uaio_attributes_forget(void)
{
	kept.lock = (struct uaio_lock){ 0 };
}

static bool are_same(const struct uaio_groups *a, const struct uaio_groups *b)
{
	return a->nr == b->nr &&
	       memcmp(a->ids, b->ids, a->nr * sizeof(a->ids[0])) == 0;
}

/*
 * Return: the kept list with the groups of *mine, which is *mine itself if no other list
 * has these groups; NULL if there is no room for it.
 */
static const struct uaio_groups *keep(const struct uaio_groups *mine)
{
	const struct uaio_groups *ret = NULL;
	unsigned i = 0;

	uaio_lock(&kept.lock, UAIO_RANK_IDENTITY);
	while (i < NR_LISTS && kept.lists[i] && !are_same(kept.lists[i], mine))
		i++;
	if (i < NR_LISTS) {
		if (!kept.lists[i])
			kept.lists[i] = mine;
		ret = kept.lists[i];
	}
	uaio_unlock(&kept.lock, UAIO_RANK_IDENTITY);
	return ret;
}

/*
 * Query the groups of the calling thread, which has more than UAIO_GROUPS_MAX.
 * Return: the kept list; NULL if the groups cannot be compared.
 */
static const struct uaio_groups *ask_many(void)
{
	const struct uaio_groups *ret = NULL;
	struct uaio_groups *mine;
	int nr = sys_getgroups(0, NULL);
	size_t bytes;

	if (nr <= UAIO_GROUPS_MAX)
		return NULL;
	bytes = sizeof(*mine) + (size_t)nr * sizeof(mine->ids[0]);
	mine = sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS);
	if (sys_is_map_error(mine))
		return NULL;
	mine->nr = (uint32_t)nr;
	/* If the number differs, another thread has just changed the groups. */
	if (sys_getgroups(nr, mine->ids) == nr)
		ret = keep(mine);
	if (ret != mine)
		(void)sys_munmap(mine, bytes);
	return ret;
}

/* Return: whether the groups can be compared. */
static bool ask_groups(struct uaio_attributes *ret)
{
	int nr = sys_getgroups(UAIO_GROUPS_MAX, ret->groups);

	if (nr >= 0)
		ret->nr_groups = (uint32_t)nr;
	else if (nr == -EINVAL)
		ret->many_groups = ask_many();
	return nr >= 0 || ret->many_groups;
}

bool uaio_attributes_ask(struct uaio_attributes *ret)
{
	struct header header = of_this_thread;
	long fsuid = sys_getfsuid(), fsgid = sys_getfsgid();

	memset(ret, 0, sizeof(*ret));
	if (fsuid < 0 || fsgid < 0 || sys_getresuid(ret->uids) < 0 ||
	    sys_getresgid(ret->gids) < 0 ||
	    sys_capget(&header, ret->caps) < 0 || !ask_groups(ret))
		return false;
	ret->uids[3] = (uid_t)fsuid;
	ret->gids[3] = (gid_t)fsgid;
	/*
	 * If the kernel refuses this query, store the error instead of the priority. A
	 * kernel that refuses the query does not let threads change their priority
	 * either, so all threads compare as equal.
	 */
	ret->ioprio = sys_ioprio_get();
	return true;
}

bool uaio_attributes_are_equal(const struct uaio_attributes *a,
			       const struct uaio_attributes *b)
{
	/* Comparing all bytes is right, since unused bytes of *a and *b are 0. */
	return memcmp(a, b, sizeof(*a)) == 0;
}

static bool are_all(const uint32_t ids[4])
{
	return ids[0] == ids[1] && ids[0] == ids[2] && ids[0] == ids[3];
}

bool uaio_attributes_may_change(const struct uaio_attributes *attributes)
{
	return attributes->caps[PERMITTED] ||
	       attributes->caps[PERMITTED + HIGH] ||
	       !are_all(attributes->uids) || !are_all(attributes->gids);
}

bool uaio_attributes_have_all(const struct uaio_attributes *attributes)
{
	const uint32_t *caps = attributes->caps;
	const uint32_t on_files = 1u << CAP_CHOWN | 1u << CAP_DAC_OVERRIDE |
				  1u << CAP_FOWNER | 1u << CAP_FSETID;

	return !attributes->uids[3] && caps[EFFECTIVE] == caps[PERMITTED] &&
	       caps[EFFECTIVE + HIGH] == caps[PERMITTED + HIGH] &&
	       (caps[EFFECTIVE] & on_files) == on_files;
}

static bool have_same_groups(const struct uaio_attributes *a,
			     const struct uaio_attributes *b)
{
	return a->nr_groups == b->nr_groups &&
	       a->many_groups == b->many_groups &&
	       memcmp(a->groups, b->groups, sizeof(a->groups)) == 0;
}

bool uaio_attributes_are_within(const struct uaio_attributes *a,
				const struct uaio_attributes *b)
{
	return a->uids[3] == b->uids[3] && a->gids[3] == b->gids[3] &&
	       have_same_groups(a, b) &&
	       !(a->caps[EFFECTIVE] & ~b->caps[EFFECTIVE]) &&
	       !(a->caps[EFFECTIVE + HIGH] & ~b->caps[EFFECTIVE + HIGH]);
}

/* Make the wanted capabilities effective, as far as they are permitted. */
static void take_capabilities(const uint32_t wanted[2])
{
	struct header header = of_this_thread;
	uint32_t caps[6];

	if (sys_capget(&header, caps) < 0)
		return;
	caps[EFFECTIVE] = caps[PERMITTED] & wanted[0];
	caps[EFFECTIVE + HIGH] = caps[PERMITTED + HIGH] & wanted[1];
	(void)sys_capset(&header, caps);
}

void uaio_attributes_take(const struct uaio_attributes *wanted)
{
	static const uint32_t all[2] = { ~0u, ~0u };
	const struct uaio_groups *many = wanted->many_groups;
	const uint32_t effective[2] = { wanted->caps[EFFECTIVE],
					wanted->caps[EFFECTIVE + HIGH] };

	/*
	 * First make all permitted capabilities effective: the thread may need them to
	 * set the ids.
	 */
	take_capabilities(all);
	(void)sys_setgroups(many ? many->nr : wanted->nr_groups,
			    many ? many->ids : wanted->groups);
	sys_setfsgid(wanted->gids[3]);
	sys_setfsuid(wanted->uids[3]);
	take_capabilities(effective);
}
