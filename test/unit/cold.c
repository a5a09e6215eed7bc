/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include "cold.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <unistd.h>

enum { EXT4 = 0xef53 };

struct cold cold = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
};

/*
 * Return: how many bytes, starting at offset `off`, are in the simulated page cache.
 */
static size_t bytes_there_locked(uint64_t off)
{
	uint64_t page = off / PAGE;

	while (page < NR_PAGES && cold.is_there & cold_bit((unsigned)page))
		page++;
	if (page == NR_PAGES)
		return SIZE_MAX;
	return page * PAGE > off ? page * PAGE - off : 0;
}

static long read_there(const long args[6], size_t bytes)
{
	const struct iovec *iov = (const struct iovec *)args[1];
	struct iovec cut[4];
	int nr;

	assert_in_range(args[2], 1, NR_ELEMENTS(cut));
	for (nr = 0; nr < args[2] && bytes; nr++) {
		cut[nr] = iov[nr];
		if (cut[nr].iov_len > bytes)
			cut[nr].iov_len = bytes;
		bytes -= cut[nr].iov_len;
	}
	if (!nr)
		return -EAGAIN;
	return uaio_sys_raw(SYS_preadv2, args[0], (long)cut, nr, args[3], 0, 0);
}

static long answer_try(const long args[6])
{
	unsigned page = (unsigned)(args[3] / PAGE);
	size_t bytes;

	pthread_mutex_lock(&cold.lock);
	cold.nr_tries++;
	while ((int)page == cold.held_try) {
		cold.is_trying = true;
		pthread_cond_broadcast(&cold.changed);
		pthread_cond_wait(&cold.changed, &cold.lock);
	}
	bytes = bytes_there_locked((uint64_t)args[3]);
	pthread_mutex_unlock(&cold.lock);
	return read_there(args, bytes);
}

/*
 * Wait while the test holds plain reads (reads without RWF_NOWAIT) of this page.
 * Return: 0, or the error with which the read must fail.
 */
static int begin_plain(uint64_t off)
{
	unsigned page = (unsigned)(off / PAGE);
	int error;

	pthread_mutex_lock(&cold.lock);
	cold.order[cold.nr_plain++ % NR_PAGES] = page;
	cold.nr_blocked++;
	cold.reader = (uint32_t)gettid();
	if (cold.nr_blocked > cold.most_blocked)
		cold.most_blocked = cold.nr_blocked;
	pthread_cond_broadcast(&cold.changed);
	while (cold.is_held & cold_bit(page))
		pthread_cond_wait(&cold.changed, &cold.lock);
	cold.nr_blocked--;
	error = cold.read_error;
	pthread_mutex_unlock(&cold.lock);
	return -error;
}

static bool answer(long nr, const long args[6], long *ret_res)
{
	if (nr == SYS_statx) {
		*ret_res = -ENOSYS;
		return true;
	}
	if (nr == SYS_fstatfs || nr == SYS_fstat) {
		*ret_res = uaio_sys_raw(nr, args[0], args[1], 0, 0, 0, 0);
		if (nr == SYS_fstatfs)
			((struct statfs *)args[1])->f_type =
				load_relaxed(&cold.fs_type);
		else
			((struct stat *)args[1])->st_dev =
				load_relaxed(&cold.device);
		return true;
	}
	if ((int)args[0] != load_relaxed(&cold.fd))
		return false;
	if (nr == SYS_fadvise64) {
		assert_int_equal(args[3], POSIX_FADV_WILLNEED);
		pthread_mutex_lock(&cold.lock);
		cold.nr_advised++;
		*ret_res = -cold.advice_error;
		pthread_mutex_unlock(&cold.lock);
		return true;
	}
	if (nr == SYS_preadv2 && args[5] & RWF_NOWAIT) {
		*ret_res = answer_try(args);
		return true;
	}
	if (nr != SYS_pread64 && nr != SYS_preadv && nr != SYS_preadv2)
		return false;
	/* The library asks whether the file takes an offset. */
	if (nr == SYS_preadv && args[2] == 0)
		return false;
	*ret_res = begin_plain((uint64_t)args[3]);
	return *ret_res < 0;
}

static void reset_locked(void)
{
	cold.advice_error = cold.read_error = 0;
	cold.is_there = cold.is_held = 0;
	cold.held_try = -1;
	cold.is_trying = false;
	cold.nr_advised = cold.nr_plain = cold.nr_tries = 0;
	cold.nr_blocked = cold.most_blocked = 0;
}

int cold_start(void **state)
{
	int ret = unit_setup(state);
	char block[PAGE];

	pthread_mutex_lock(&cold.lock);
	reset_locked();
	pthread_mutex_unlock(&cold.lock);
	store_relaxed(&cold.fs_type, EXT4);
	store_relaxed(&cold.fd, unit_file(true));
	add_relaxed(&cold.device, 1);
	for (unsigned i = 0; i < NR_PAGES; i++) {
		memset(block, (int)i + 1, PAGE);
		if (pwrite(cold.fd, block, PAGE, i * PAGE) != PAGE)
			return -1;
	}
	unit_hook(answer);
	return ret;
}

int cold_stop(void **state)
{
	if (cold.fd >= 0)
		unit_close(cold.fd);
	unit_hook(NULL);
	return unit_teardown(state);
}

void cold_hold(uint64_t pages)
{
	pthread_mutex_lock(&cold.lock);
	cold.is_held |= pages;
	pthread_mutex_unlock(&cold.lock);
}

void cold_let(uint64_t pages)
{
	pthread_mutex_lock(&cold.lock);
	cold.is_held &= ~pages;
	pthread_cond_broadcast(&cold.changed);
	pthread_mutex_unlock(&cold.lock);
}

void cold_come(uint64_t pages)
{
	pthread_mutex_lock(&cold.lock);
	cold.is_there |= pages;
	pthread_mutex_unlock(&cold.lock);
}

void cold_await_blocked(unsigned nr)
{
	pthread_mutex_lock(&cold.lock);
	while (cold.nr_blocked != nr)
		pthread_cond_wait(&cold.changed, &cold.lock);
	pthread_mutex_unlock(&cold.lock);
}

unsigned cold_count(const unsigned *count)
{
	unsigned nr;

	pthread_mutex_lock(&cold.lock);
	nr = *count;
	pthread_mutex_unlock(&cold.lock);
	return nr;
}

void cold_go(void)
{
	pthread_mutex_lock(&cold.lock);
	cold.is_there = 0;
	pthread_mutex_unlock(&cold.lock);
}

void cold_hold_try(int page)
{
	pthread_mutex_lock(&cold.lock);
	cold.held_try = page;
	pthread_cond_broadcast(&cold.changed);
	pthread_mutex_unlock(&cold.lock);
}

void cold_await_try(void)
{
	pthread_mutex_lock(&cold.lock);
	while (!cold.is_trying)
		pthread_cond_wait(&cold.changed, &cold.lock);
	pthread_mutex_unlock(&cold.lock);
}
