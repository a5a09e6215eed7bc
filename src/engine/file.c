/* SPDX-License-Identifier: MIT */
#include "engine/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/sys.h"
#include "engine/order.h"
#include "engine/ready.h"

enum {
	LEAF_BITS = 14,
	LEAF_FDS = 1 << LEAF_BITS,
	ROOT_LEAVES = 1 << 16, /* 2^30 descriptors, more than a kernel has */
	/* Duplicates start here, out of the way of what clients count on. */
	PRIVATE_FD_MIN = 512,
};

static struct {
	/* both levels atomic: filled under the lock, never freed */
	struct uaio_file ***leaves; /* owns */
	uint32_t nr_leaves;         /* leaves made are below this */

	struct uaio_lock lock;
	struct uaio_slab slab;
} files;

int uaio_files_init(void)
{
	void *leaves = sys_mmap(NULL, ROOT_LEAVES * sizeof(*files.leaves),
				PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);

	if (sys_is_map_error(leaves))
		return -ENOMEM;
	files.lock = (struct uaio_lock){ 0 };
	store_relaxed(&files.nr_leaves, 0);
	uaio_slab_init(&files.slab, sizeof(struct uaio_file), 16384);
	files.leaves = leaves;
	return 0;
}

static struct uaio_file **slot_of(int fd)
{
	unsigned leaf = (unsigned)fd >> LEAF_BITS;
	struct uaio_file **slots;

	if (unlikely(leaf >= ROOT_LEAVES))
		return NULL;
	/* [MB:leaf] acquire: zeroed slots. Pairs with make_slot_locked(). */
	slots = load_acquire(&files.leaves[leaf]);
	return slots ? &slots[(unsigned)fd % LEAF_FDS] : NULL;
}

struct uaio_file *uaio_file_find(int fd)
{
	struct uaio_file **slot = slot_of(fd);

	/* [MB:file] acquire: its members. Pairs with publish(). */
	return slot ? load_acquire(slot) : NULL;
}

static struct uaio_file **make_slot_locked(int fd)
{
	unsigned leaf = (unsigned)fd >> LEAF_BITS;
	struct uaio_file **slots;

	if (leaf >= ROOT_LEAVES)
		return NULL;
	/* relaxed: leaves are made under the lock */
	if (!load_relaxed(&files.leaves[leaf])) {
		slots = sys_mmap(NULL, LEAF_FDS * sizeof(*slots),
				 PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
		if (sys_is_map_error(slots))
			return NULL;
		/* [MB:leaf] release: pairs with slot_of(). */
		store_release(&files.leaves[leaf], slots);
		if (leaf >= load_relaxed(&files.nr_leaves))
			store_relaxed(&files.nr_leaves, leaf + 1);
	}
	return slot_of(fd);
}

static bool is_memory_fs(int fd)
{
	struct statfs fs;

	if (sys_fstatfs(fd, &fs) < 0)
		return false;
	return fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC ||
	       fs.f_type == HUGETLBFS_MAGIC;
}

/* The kernel has no other sign of an eventfd than its name. */
static bool is_eventfd(int fd)
{
	static const char name[] = "anon_inode:[eventfd]";
	char path[32] = "/proc/self/fd/", link[sizeof(name)];
	char digits[12];
	int nr = 0, at = 14;

	do
		digits[nr++] = (char)('0' + fd % 10);
	while (fd /= 10);
	while (nr)
		path[at++] = digits[--nr];
	path[at] = '\0';
	return sys_readlinkat(AT_FDCWD, path, link, sizeof(link)) ==
		       sizeof(name) - 1 &&
	       !memcmp(link, name, sizeof(name) - 1);
}

static uint32_t flags_of(int open_flags)
{
	uint32_t flags = 0;
	int access = open_flags & O_ACCMODE;

	if (open_flags & O_PATH)
		return UAIO_FILE_F_PATH;
	if (access == O_RDONLY || access == O_RDWR)
		flags |= UAIO_FILE_F_READ;
	if (access == O_WRONLY || access == O_RDWR)
		flags |= UAIO_FILE_F_WRITE;
	if (open_flags & O_NONBLOCK)
		flags |= UAIO_FILE_F_NONBLOCK;
	if (open_flags & O_APPEND)
		flags |= UAIO_FILE_F_APPEND;
	if (open_flags & O_DSYNC) /* a bit of O_SYNC too */
		flags |= UAIO_FILE_F_SYNC;
	return flags;
}

static void classify_stream(struct uaio_file *file, mode_t mode)
{
	file->kind = S_ISCHR(mode) ? UAIO_KIND_DEVICE : UAIO_KIND_STREAM;
	if (sys_lseek(file->fd, 0, SEEK_CUR) == -ESPIPE)
		file->flags |= UAIO_FILE_F_STREAM;
	/* An eventfd's inode is anonymous: it has no type at all. */
	if (!(mode & S_IFMT) && is_eventfd(file->fd))
		file->flags |= UAIO_FILE_F_EVENTFD;
}

/* Fill in all but the references. Return: 0, -EBADF, -ENOMEM. */
static int classify(struct uaio_file *file, int fd)
{
	struct stat st;
	int open_flags = sys_fcntl(fd, F_GETFL, 0);

	if (open_flags < 0 || sys_fstat(fd, &st) < 0)
		return -EBADF;
	file->fd = fd;
	file->flags = flags_of(open_flags);
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode) &&
	    !S_ISDIR(st.st_mode)) {
		classify_stream(file, st.st_mode);
		return 0;
	}
	file->kind =
		open_flags & O_DIRECT ? UAIO_KIND_DIRECT : UAIO_KIND_CACHED;
	if (S_ISDIR(st.st_mode))
		file->flags |= UAIO_FILE_F_NO_RW;
	if (S_ISBLK(st.st_mode))
		file->flags |= UAIO_FILE_F_BLOCKDEV;
	else if (is_memory_fs(fd))
		file->kind = UAIO_KIND_MEMORY;
	file->inode = S_ISBLK(st.st_mode)
			      ? uaio_inode_get(UINT64_MAX, st.st_rdev)
			      : uaio_inode_get(st.st_dev, st.st_ino);
	return file->inode ? 0 : -ENOMEM;
}

static struct uaio_file *new_file(int fd, int *ret_error)
{
	struct uaio_file *file = uaio_slab_get(&files.slab);

	if (!file) {
		*ret_error = -ENOMEM;
		return NULL;
	}
	/* relaxed: a reader that still holds a stale entry takes any advice */
	file->inode = NULL;
	file->owns_fd = false;
	file->lock = (struct uaio_lock){ 0 };
	store_relaxed(&file->nr_using, 0);
	file->nr_parked[0] = file->nr_parked[1] = 0;
	store_relaxed(&file->hit_streak, 0);
	store_relaxed(&file->nowait_refused, 0);
	store_relaxed(&file->is_closing, 0);
	*ret_error = classify(file, fd);
	if (*ret_error < 0) {
		uaio_slab_put(&files.slab, file);
		return NULL;
	}
	return file;
}

static void free_file(struct uaio_file *file)
{
	if (file->owns_fd && file->fd >= 0)
		(void)sys_close(file->fd);
	if (file->inode)
		uaio_inode_put(file->inode);
	uaio_slab_put(&files.slab, file);
}

int uaio_file_open(int fd, struct uaio_file **ret_file)
{
	struct uaio_file *file, *old = NULL, **slot;
	int error;

	if (fd < 0)
		return -EBADF;
	file = new_file(fd, &error);
	if (!file)
		return error;
	uaio_lock(&files.lock, UAIO_RANK_FILES);
	slot = make_slot_locked(fd);
	if (slot) {
		/* relaxed: slots are written under the lock */
		old = load_relaxed(slot);
		if (!old) {
			store_relaxed(&file->refs, 1);
			/* [MB:file] release: members before slot. Pairs with
			 * uaio_file_find(). */
			store_release(slot, file);
		}
	}
	uaio_unlock(&files.lock, UAIO_RANK_FILES);
	if (!slot || old)
		free_file(file);
	if (!slot)
		return -ENOMEM;
	*ret_file = old ? old : file;
	return 0;
}

static bool try_get(struct uaio_file *file)
{
	uint32_t refs = load_relaxed(&file->refs);

	do {
		if (!refs)
			return false;
	} while (!__atomic_compare_exchange_n(&file->refs, &refs, refs + 1,
					      false, __ATOMIC_SEQ_CST,
					      __ATOMIC_RELAXED));
	return true;
}

int uaio_file_get(int fd, struct uaio_file **ret_file)
{
	for (;;) {
		struct uaio_file *file = uaio_file_find(fd);

		if (!file) {
			int ret = uaio_file_open(fd, &file);

			if (ret < 0)
				return ret;
		}
		/*
		 * [MB:file-ref] seq_cst: reference before slot. Pairs with
		 * uaio_file_closing(), which empties the slot before it counts
		 * references: one of us sees the other.
		 */
		if (try_get(file)) {
			if (load_seq_cst(slot_of(fd)) == file) {
				*ret_file = file;
				return 0;
			}
			uaio_file_put(file);
		}
	}
}

void uaio_file_put(struct uaio_file *file)
{
	/*
	 * [MB:file-ref] seq_cst: reference before flag. Pairs with
	 * wait_for_requests().
	 */
	uint32_t refs = __atomic_fetch_sub(&file->refs, 1, __ATOMIC_SEQ_CST);

	UAIO_CHECK(refs > 0);
	if (refs == 1)
		free_file(file);
	else if (refs == 2 && load_seq_cst(&file->is_closing))
		uaio_wake(&file->refs, 1);
}

int uaio_file_use(struct uaio_file *file)
{
	int fd;

	if (file->kind < UAIO_KIND_STREAM)
		return file->fd;
	uaio_lock(&file->lock, UAIO_RANK_FILE);
	add_relaxed(&file->nr_using, 1);
	fd = file->fd;
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
	return fd;
}

void uaio_file_unuse(struct uaio_file *file)
{
	if (file->kind < UAIO_KIND_STREAM)
		return;
	/* [MB:file-use] release: the call is over. Pairs with
	 * uaio_file_make_private(). */
	if (sub_release(&file->nr_using, 1) == 1)
		uaio_wake(&file->nr_using, 1);
}

/* The closer holds the table's reference; all others are requests. */
static void wait_for_requests(struct uaio_file *file)
{
	uint32_t refs;

	/* [MB:file-ref] seq_cst: flag before count. Pairs with put(). */
	store_seq_cst(&file->is_closing, 1);
	while ((refs = load_seq_cst(&file->refs)) > 1)
		(void)uaio_sleep(&file->refs, refs, UAIO_FOREVER);
}

void uaio_file_make_private(struct uaio_file *file)
{
	int own = -1;
	uint32_t nr;

	uaio_lock(&file->lock, UAIO_RANK_FILE);
	if (!file->owns_fd) {
		own = sys_fcntl(file->fd, F_DUPFD_CLOEXEC, PRIVATE_FD_MIN);
		if (own < 0)
			own = sys_fcntl(file->fd, F_DUPFD_CLOEXEC, 3);
		/* Without one the requests complete with -EBADF. */
		file->fd = own < 0 ? -1 : own;
		file->owns_fd = true;
	}
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
	if (own < 0)
		return;
	uaio_ready_kick();
	/*
	 * Calls on the old number do not block.
	 * [MB:file-use] acquire: pairs with uaio_file_unuse().
	 */
	while ((nr = load_acquire(&file->nr_using)))
		(void)uaio_sleep(&file->nr_using, nr, UAIO_FOREVER);
}

void uaio_file_closing(int fd)
{
	struct uaio_file *file, **slot;

	/* relaxed: what another thread submits meanwhile is unordered */
	if (!files.leaves || fd < 0 || !(slot = slot_of(fd)) ||
	    !load_relaxed(slot))
		return;
	uaio_lock(&files.lock, UAIO_RANK_FILES);
	file = load_relaxed(slot);
	/* [MB:file-ref] seq_cst: pairs with uaio_file_get(). */
	store_seq_cst(slot, NULL);
	uaio_unlock(&files.lock, UAIO_RANK_FILES);
	if (!file)
		return;
	if (load_seq_cst(&file->refs) > 1) {
		if (file->kind < UAIO_KIND_STREAM)
			wait_for_requests(file);
		else
			uaio_file_make_private(file);
	}
	uaio_file_put(file);
}

void uaio_file_closing_range(unsigned first, unsigned last)
{
	/* relaxed: as above */
	uint32_t nr_leaves = files.leaves ? load_relaxed(&files.nr_leaves) : 0;
	uint64_t end = (uint64_t)nr_leaves << LEAF_BITS;

	for (uint64_t fd = first; fd <= last && fd < end; fd++) {
		if (!load_relaxed(&files.leaves[fd >> LEAF_BITS]))
			fd |= LEAF_FDS - 1;
		else
			uaio_file_closing((int)fd);
	}
}
