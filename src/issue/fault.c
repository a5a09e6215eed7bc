/* SPDX-License-Identifier: MIT */
#include "issue/fault.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/sys.h"
#include "trace/ring.h"
#include "options/config.h"
#include "options/faults.h"
#include "options/names.h"
#include "proc/append.h"
#include "file/file.h"
#include "op/op.h"
#include "check/check.h"
#include "req/req.h"
#include "req/stats.h"
#include "split/align.h"

enum { RWF_ATOMIC_ = 0x40 }; /* RWF_ATOMIC, which older headers lack */
enum { VALUE_MAX = 48, NAMED_MAX = 16 };

static struct {
	struct uaio_lock lock; /* rank FAULT */

	/*
	 * for each fault, under the lock: to how many requests it has applied, and how
	 * many of these have got it
	 */
	uint64_t nr_seen[UAIO_FAULTS_MAX];
	uint64_t nr_made[UAIO_FAULTS_MAX];
} counts;

void uaio_fault_init(void)
{
	counts = (typeof(counts)){ .nr_seen = { 0 } };
}

/*
 * Return: a pseudo-random number that depends on the three arguments. use: what the
 * number decides. (This is the last step of SplitMix64, whose outputs for consecutive
 * numbers are independent enough for statistics.)
 */
static uint64_t hash(uint64_t seed, uint64_t n, uint64_t use)
{
	uint64_t x = seed * UINT64_C(0xd1342543de82ef95) +
		     (n * 3 + use) * UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/*
 * Return: a number from 0 to bound - 1. All are equally probable if `random` is uniformly
 * distributed.
 */
static uint64_t scaled(uint64_t random, uint64_t bound)
{
	return (uint64_t)((unsigned __int128)random * bound >> 64);
}

enum use { WHETHER, HOW_SHORT, HOW_LATE };

/* Which requests a fault applies to */

/*
 * Return: how many bytes a read, write, send or receive is to transfer; 0 for any other
 * operation.
 */
static uint64_t bytes_of(const struct uaio_sqe *sqe)
{
	switch (sqe->op) {
	case UAIO_OP_READ:
	case UAIO_OP_READV:
	case UAIO_OP_WRITE:
	case UAIO_OP_WRITEV:
	case UAIO_OP_READ_SELECT:
	case UAIO_OP_SEND:
	case UAIO_OP_SEND_ZC:
	case UAIO_OP_RECV: return uaio_sqe_bytes(sqe);
	default: return 0;
	}
}

/*
 * Get the path of the request's file.
 * Return: whether the path is known.
 */
static bool read_path(const struct uaio_sqe *sqe, char ret_path[PATH_MAX])
{
	char link[32];
	int len;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", sqe->fd);
	len = sys_readlinkat(AT_FDCWD, link, ret_path, PATH_MAX - 1);
	if (len < 0)
		return false;
	ret_path[len] = '\0';
	return true;
}

static bool is_at_path(const char *pattern, const struct uaio_sqe *sqe)
{
	char path[PATH_MAX];

	return !uaio_optab[sqe->op].has_no_file && read_path(sqe, path) &&
	       uaio_fault_matches(pattern, path);
}

static bool is_for(const struct uaio_fault *fault, const struct uaio_sqe *sqe)
{
	return fault->ops >> sqe->op & 1 &&
	       (!fault->min_len || bytes_of(sqe) >= fault->min_len) &&
	       (!fault->path[0] || is_at_path(fault->path, sqe));
}

/*
 * Return: whether the option only= allows the fault for request number n; true if the
 * fault has no such option.
 */
static bool is_among(const struct uaio_fault *fault, uint64_t n)
{
	const struct uaio_fault_range *ranges =
		&uaio_faults.ranges[fault->only];

	for (unsigned i = 0; i < fault->nr_only; i++)
		if (n >= ranges[i].first && n <= ranges[i].last)
			return true;
	return !fault->nr_only;
}

/*
 * Return: whether the fault's options select the n-th request to which the fault
 * applies. nr_made: how many earlier requests the options have selected. The lock is
 * held.
 */
static bool has_locked(const struct uaio_fault *fault, uint64_t n,
		       uint64_t nr_made)
{
	return n > fault->after && (n - fault->after) % fault->every == 0 &&
	       (!fault->count || nr_made < fault->count) &&
	       is_among(fault, n) &&
	       scaled(hash(fault->seed, n, WHETHER), UAIO_FAULT_CERTAIN) <
		       fault->chance;
}

/*
 * Give the next number to a request to which fault i applies.
 * Return: the number if the request gets the fault; otherwise 0.
 */
static uint64_t draw(unsigned i)
{
	const struct uaio_fault *fault = &uaio_faults.faults[i];
	uint64_t n;
	bool has;

	uaio_lock(&counts.lock, UAIO_RANK_FAULT);
	n = ++counts.nr_seen[i];
	has = has_locked(fault, n, counts.nr_made[i]);
	counts.nr_made[i] += has;
	uaio_unlock(&counts.lock, UAIO_RANK_FAULT);
	return has ? n : 0;
}

/* Short transfers */

/*
 * Return: whether the kernel might transfer fewer bytes than requested on a stream.
 * Only then may the fault "short" shorten the transfer.
 */
static bool may_stream_be_short(const struct uaio_file *file,
				const struct uaio_sqe *sqe, uint64_t bytes)
{
	struct stat st;

	if (uaio_file_has(file, UAIO_FILE_F_SOCKET))
		return uaio_file_has(file, UAIO_FILE_F_SOCK_STREAM);
	/* A write of at most PIPE_BUF bytes to a pipe is atomic, and so never short. */
	return sys_fstat(sqe->fd, &st) == 0 && S_ISFIFO(st.st_mode) &&
	       (uaio_optab[sqe->op].class == UAIO_CLASS_READ ||
		bytes > PIPE_BUF);
}

static bool may_be_short(const struct uaio_file *file,
			 const struct uaio_sqe *sqe, uint64_t bytes)
{
	switch (sqe->op) {
	case UAIO_OP_READ:
	case UAIO_OP_READV:
	case UAIO_OP_WRITE:
	case UAIO_OP_WRITEV:
		/* A write with RWF_ATOMIC is never short. */
		if (sqe->rw_flags & RWF_ATOMIC_)
			return false;
		break;
	case UAIO_OP_SEND:
	case UAIO_OP_RECV:
		if (sqe->call_flags & (MSG_WAITALL | MSG_PEEK | MSG_OOB))
			return false;
		break;
	default: return false;
	}
	if (bytes < 2 || sqe->is_multishot || sqe->by_door)
		return false;
	return uaio_file_kind(file) < UAIO_KIND_STREAM ||
	       may_stream_be_short(file, sqe, bytes);
}

/* Return: the alignment that a shortened length must have, in bytes; 0: not known. */
static uint64_t unit_of(struct uaio_file *file, const struct uaio_sqe *sqe)
{
	struct uaio_alignment alignment;

	if (uaio_file_kind(file) != UAIO_KIND_DIRECT)
		return 1;
	if (!uaio_file_try_get(file))
		return 0;
	uaio_alignment_of(file, sqe->fd, &alignment);
	uaio_file_put(file);
	return alignment.offset;
}

/*
 * The vectors belong to the client and must not change. So drop the last vectors; or, if
 * even the first vector has more than `bytes` bytes, use only part of that vector.
 */
static bool cut_vectors(struct uaio_sqe *sqe, uint64_t bytes)
{
	struct iovec iov = { .iov_len = 0 };
	uint64_t sum = 0, nr = 0;

	for (; nr < sqe->len; nr++) {
		iov = uaio_sqe_iov(sqe, nr);
		if (sum + iov.iov_len > bytes)
			break;
		sum += iov.iov_len;
	}
	if (sum) {
		sqe->len = nr;
		return true;
	}
	sqe->op = sqe->op == UAIO_OP_READV ? UAIO_OP_READ : UAIO_OP_WRITE;
	sqe->buf = iov.iov_base;
	sqe->len = bytes;
	return true;
}

/*
 * Reduce the length of sqe by a random amount.
 * Return: false if no shorter length is possible.
 */
static bool cut(struct uaio_file *file, struct uaio_sqe *sqe, uint64_t random)
{
	uint64_t bytes = bytes_of(sqe), unit, nr_units;

	if (!may_be_short(file, sqe, bytes))
		return false;
	unit = unit_of(file, sqe);
	nr_units = unit ? (bytes - 1) / unit : 0;
	if (!nr_units)
		return false;
	bytes = (1 + scaled(random, nr_units)) * unit;
	if (uaio_optab[sqe->op].is_vectored)
		return cut_vectors(sqe, bytes);
	sqe->len = bytes;
	return true;
}

/* Deferring */

/*
 * Return: whether the kernel might start the request some time after its submission, and
 * not in order with other requests of its file. The kernel does so if one of its workers
 * executes the request, or if the request waits for a stream.
 */
static bool may_begin_later(struct uaio_file *file, const struct uaio_sqe *sqe)
{
	const struct uaio_op_def *op = &uaio_optab[sqe->op];
	bool is_read = op->class == UAIO_CLASS_READ;

	if (sqe->door != UAIO_RULES_OF_URING || op->has_no_file ||
	    op->has_ends || op->sleeps || op->is_closing || sqe->by_door ||
	    sqe->is_multishot || sqe->polls_first ||
	    sqe->op == UAIO_OP_READ_SELECT)
		return false;
	if (uaio_file_kind(file) == UAIO_KIND_STREAM)
		return is_read || op->class == UAIO_CLASS_WRITE;
	return (is_read || op->class == UAIO_CLASS_SYNC) &&
	       (!is_read || sqe->off != UAIO_OFF_POSITION);
}

/* The plan */

static bool add_to_plan(const struct uaio_fault *fault, uint64_t n,
			struct uaio_file *file, struct uaio_sqe *sqe,
			struct uaio_fault_plan *plan)
{
	switch (fault->kind) {
	case UAIO_FAULT_ERROR:
		if (plan->error)
			return false;
		plan->error = -fault->error;
		return true;
	case UAIO_FAULT_SHORT:
		if (plan->error || plan->is_short ||
		    !cut(file, sqe, hash(fault->seed, n, HOW_SHORT)))
			return false;
		plan->is_short = true;
		return true;
	case UAIO_FAULT_DELAY: plan->delay_ns += fault->time_ns; return true;
	case UAIO_FAULT_DEFER:
		if (plan->error || !may_begin_later(file, sqe))
			return false;
		plan->defer_ns += fault->time_ns;
		return true;
	case UAIO_FAULT_REORDER:
		plan->delay_ns +=
			1 + (int64_t)scaled(hash(fault->seed, n, HOW_LATE),
					    (uint64_t)fault->time_ns);
		return true;
	default: return false;
	}
}

static void count(enum uaio_fault_kind kind)
{
	struct uaio_live_block *stats = uaio_stats_mine();

	if (stats)
		uaio_stats_add(stats, &stats->nr_faults[kind], 1);
}

/* Logging changes */

/*
 * Replace control characters: a tab or newline would be read as the end of a field or line.
 */
static void clean(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

static void format_value(const struct uaio_fault *fault,
			 const struct uaio_sqe *asked,
			 const struct uaio_sqe *sqe, int64_t late_ns,
			 char ret_text[VALUE_MAX])
{
	const char *name = uaio_error_name(fault->error);

	if (fault->kind == UAIO_FAULT_ERROR)
		(void)snprintf(ret_text, VALUE_MAX, "%s", name ? name : "?");
	else if (fault->kind == UAIO_FAULT_SHORT)
		(void)snprintf(ret_text, VALUE_MAX, "%" PRIu64 " of %" PRIu64,
			       uaio_sqe_bytes(sqe), bytes_of(asked));
	else
		(void)snprintf(ret_text, VALUE_MAX, "%" PRId64, late_ns);
}

/*
 * For `uaio check`: append a line to the log (fault.h, I3), which says that fault i has
 * changed request n from `asked` to sqe. If the line cannot be written, the change is still
 * made.
 */
static __attribute__((noinline)) void log_change(unsigned i, uint64_t n,
						 const struct uaio_sqe *asked,
						 const struct uaio_sqe *sqe,
						 int64_t late_ns)
{
	const struct uaio_fault *fault = &uaio_faults.faults[i];
	bool has_file = !uaio_optab[asked->op].has_no_file;
	char to[UAIO_CHECK_DIRECTORY_MAX + 32], value[VALUE_MAX], fd[16] = "-";
	char line[PATH_MAX + 256];
	size_t len;

	if (has_file && !asked->is_fixed)
		(void)snprintf(fd, sizeof(fd), "%d", asked->fd);
	format_value(fault, asked, sqe, late_ns, value);
	len = (size_t)snprintf(line, sizeof(line) - PATH_MAX,
			       "change\t%u\t%" PRIu64 "\t%s\t%s\t%s\t%s\t",
			       i + 1, n, uaio_fault_names[fault->kind], value,
			       uaio_op_names[asked->op], fd);
	if (!has_file || !read_path(asked, line + len))
		(void)strcpy(line + len, "-");
	clean(line + len);
	len += strlen(line + len);
	line[len] = '\n';
	(void)snprintf(to, sizeof(to), "%s/%d.changes", uaio_check_directory,
		       sys_getpid());
	(void)uaio_append(to, line, len + 1);
}

/*
 * Return: whether the option only= contains n, as a single number or in a range of at
 * most NAMED_MAX numbers.
 */
static bool is_named(const struct uaio_fault *fault, uint64_t n)
{
	const struct uaio_fault_range *ranges =
		&uaio_faults.ranges[fault->only];

	for (unsigned i = 0; i < fault->nr_only; i++)
		if (n >= ranges[i].first && n <= ranges[i].last &&
		    ranges[i].last - ranges[i].first < NAMED_MAX)
			return true;
	return false;
}

static void report_place(unsigned i, uint64_t n, uint32_t record)
{
	char name[VALUE_MAX];

	(void)snprintf(name, sizeof(name), "%u %" PRIu64, i + 1, n);
	uaio_check_say_made(record, name);
}

void uaio_fault_plan(struct uaio_file *file, struct uaio_sqe *sqe,
		     uint32_t record, struct uaio_fault_plan *ret)
{
	/* the request as the program submitted it, because a fault may shorten sqe */
	const struct uaio_sqe asked = *sqe;

	*ret = (struct uaio_fault_plan){ .record = record };
	for (unsigned i = 0; i < uaio_faults.nr; i++) {
		const struct uaio_fault *fault = &uaio_faults.faults[i];
		uint64_t n = is_for(fault, &asked) ? draw(i) : 0;
		int64_t late_ns = ret->delay_ns + ret->defer_ns;

		if (!n || !add_to_plan(fault, n, file, sqe, ret))
			continue;
		count(fault->kind);
		if (likely(!uaio_check_directory[0]))
			continue;
		log_change(i, n, &asked, sqe,
			   ret->delay_ns + ret->defer_ns - late_ns);
		if (is_named(fault, n))
			report_place(i, n, record);
	}
}

void uaio_fault_keep(struct uaio_req *req, const struct uaio_fault_plan *plan)
{
	bool is_later = plan->delay_ns || plan->defer_ns || plan->record;

	req->fault = plan->is_short ? UAIO_REQ_SHORTER
		     : is_later     ? UAIO_REQ_LATER
				    : UAIO_REQ_SOUND;
	req->late.record = plan->record;
	req->late.delay_ns = plan->delay_ns;
	req->late.by = UAIO_NR_BYS;
	req->late.file = 0;
}
