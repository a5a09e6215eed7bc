/* SPDX-License-Identifier: MIT */
#include "file/inode.h"

#include <assert.h>

#include "base/check.h"
#include "base/sleep.h"

enum { NR_BUCKETS = 1024 };

static struct {
	struct uaio_lock lock;                  /* rank INODES */
	struct uaio_inode *buckets[NR_BUCKETS]; /* under lock */
	struct uaio_slab slab;
} inodes;

void uaio_inodes_init(void)
{
	inodes.lock = (struct uaio_lock){ 0 };
	for (unsigned i = 0; i < NR_BUCKETS; i++)
		inodes.buckets[i] = NULL;
	uaio_slab_init(&inodes.slab, sizeof(struct uaio_inode), 16384);
}

static struct uaio_inode **bucket_of(uint64_t dev, uint64_t ino)
{
	uint64_t hash = (ino ^ dev << 32) * 0x9e3779b97f4a7c15;

	return &inodes.buckets[hash >> 54]; /* 10 bits */
}

static_assert(NR_BUCKETS == 1 << 10, "bucket_of() takes ten bits");

struct uaio_inode *uaio_inode_get(uint64_t dev, uint64_t ino)
{
	struct uaio_inode **bucket = bucket_of(dev, ino), *inode;

	uaio_lock(&inodes.lock, UAIO_RANK_INODES);
	for (inode = *bucket; inode; inode = inode->next)
		if (inode->dev == dev && inode->ino == ino)
			break;
	if (!inode) {
		inode = uaio_slab_get(&inodes.slab);
		if (!inode)
			goto out;
		/*
		 * relaxed: a thread without a reference uses these values only as a
		 * hint (inode.h, I2)
		 */
		store_relaxed(&inode->dev, dev);
		store_relaxed(&inode->ino, ino);
		inode->refs = 0;
		list_init(&inode->requests);
		/* relaxed: no other thread has a reference yet */
		store_relaxed(&inode->in_way, 0);
		store_relaxed(&inode->nr_direct, 0);
		store_relaxed(&inode->nr_held_up, 0);
		inode->nr_writes = 0;
		store_relaxed(&inode->nr_slow, 0);
		store_relaxed(&inode->slow_until_ns, 0);
		uaio_trust_forget(&inode->trust);
		inode->next = *bucket;
		*bucket = inode;
	}
	inode->refs++;
out:
	uaio_unlock(&inodes.lock, UAIO_RANK_INODES);
	return inode;
}

void uaio_inode_put(struct uaio_inode *inode)
{
	struct uaio_inode **link;
	bool is_last;

	uaio_lock(&inodes.lock, UAIO_RANK_INODES);
	is_last = --inode->refs == 0;
	if (is_last) {
		UAIO_CHECK(list_is_empty(&inode->requests));
		link = bucket_of(inode->dev, inode->ino);
		while (*link != inode)
			link = &(*link)->next;
		*link = inode->next;
	}
	uaio_unlock(&inodes.lock, UAIO_RANK_INODES);
	if (is_last)
		uaio_slab_put(&inodes.slab, inode);
}

enum {
	/*
	 * After two slow writes, workers execute the file's writes for SLOW_WRITES_NS.
	 * During the first slow write, the thread may only have been preempted. So the
	 * second slow write counts only if the thread slept in it.
	 */
	SLOW_WRITES = 2,
	SLOW_WRITES_NS = 100000000,
};

void uaio_inode_judge_slow(struct uaio_inode *inode, bool has_slept)
{
	/* relaxed, all: advice */
	uint32_t nr_slow = load_relaxed(&inode->nr_slow);

	if (nr_slow && !has_slept) {
		store_relaxed(&inode->nr_slow, 0);
		return;
	}
	store_relaxed(&inode->nr_slow, nr_slow + 1);
	if (nr_slow + 1 >= SLOW_WRITES)
		store_relaxed(&inode->slow_until_ns,
			      uaio_now_ns() + SLOW_WRITES_NS);
}

bool uaio_inode_is_slow(struct uaio_inode *inode)
{
	/* relaxed, all: advice */
	int64_t until = load_relaxed(&inode->slow_until_ns);

	if (likely(!until))
		return false;
	if (uaio_now_ns() < until)
		return true;
	store_relaxed(&inode->slow_until_ns, 0);
	store_relaxed(&inode->nr_slow, 0);
	return false;
}
