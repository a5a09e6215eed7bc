/* SPDX-License-Identifier: MIT */
#include "trap/thread.h"

#if defined(__x86_64__)
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/lock.h"
#include "base/sleep.h"
#include "base/sleepcall.h"
#include "base/sys.h"
#include "proc/identity.h"
#include "proc/thread.h"
#include "trap/call.h"
#include "trap/signal.h"
#include "trap/site.h"

enum {
	/* how many bytes of a donor's stack the donor thread (thread.h) itself uses */
	DONOR_BYTES = 16 << 10,
	SET_DISPATCH = 59, /* PR_SET_SYSCALL_USER_DISPATCH */
};

static const uint32_t TAKEN = UINT32_MAX;
/* CLONE_CLEAR_SIGHAND, which some headers lack */
static const uint64_t CLEAR_SIGHAND = 1ull << 32;

#define AT(member, offset)                                                   \
	static_assert(offsetof(struct uaio_trap_thread, member) == (offset), \
		      "the assembly has the same offset")
AT(self, T_SELF);
AT(served, T_SERVED);
AT(entry, T_ENTRY);
AT(rsp, T_RSP);
AT(fs, T_FS);
AT(stack, T_STACK);
AT(donor, T_DONOR);
AT(selector, T_SELECTOR);
AT(is_inside, T_IS_INSIDE);
AT(is_pending, T_IS_PENDING);
AT(is_off_alternate, T_IS_OFF_ALTERNATE);
AT(target, T_TARGET);
AT(mask, T_MASK);
AT(first_mask, T_FIRST_MASK);
AT(nr, T_NR);
AT(pass, T_PASS);
AT(ret, T_RET);
AT(child_mask, T_CHILD_MASK);
AT(dispatch, T_DISPATCH);
AT(offset, T_OFFSET);
AT(length, T_LENGTH);
AT(saved, T_SAVED);
AT(alternate_low, T_ALTERNATE_LOW);
AT(alternate_bytes, T_ALTERNATE_BYTES);
AT(entry_mask, T_ENTRY_MASK);

void uaio_trap_entry(void) __attribute__((visibility("hidden")));

static struct {
	struct uaio_lock lock; /* rank TRAP */
	/* under `lock`: the list of the records of all threads */
	struct uaio_trap_thread *first;
	/* atomic: how many threads the program has */
	uint32_t nr;
	int pid;
	/* atomic: exit code of the program's main thread */
	int leader_code;
} threads;

bool uaio_trap_is_alone(void)
{
	/*
	 * relaxed: if this thread is the only one, no other thread can create more
	 */
	return load_relaxed(&threads.nr) == 1;
}

int uaio_trap_pid(void)
{
	return threads.pid;
}

/*
 * Fill in the record *thread. The calling thread is its donor (thread.h). stack: the
 * top of the stack for the library.
 */
static void fill(struct uaio_trap_thread *thread, uintptr_t stack)
{
	thread->self = thread;
	thread->served = uaio_trap_served;
	thread->entry = uaio_trap_entry;
	thread->stack = thread->top = stack & ~63ull;
	thread->donor = (uintptr_t)pthread_self();
	thread->selector = DISPATCH_TRAP;
	thread->dispatch = 1;
	uaio_trap_code_range(&thread->offset, &thread->length);
}

static void *be_donor(void *arg)
{
	struct uaio_trap_thread *thread = arg;
	uint32_t never = 0;

	uaio_sleep_own();
	fill(thread, (uintptr_t)__builtin_frame_address(0) - DONOR_BYTES);
	/*
	 * [MB:donor] release: the donor has filled in the record. Pairs with
	 * new_thread().
	 */
	store_release(&thread->is_born, 1);
	uaio_wake(&thread->is_born, 1);
	for (;;)
		(void)uaio_sleep(&never, 0, UAIO_FOREVER);
	return NULL;
}

static void add(struct uaio_trap_thread *thread)
{
	uaio_lock(&threads.lock, UAIO_RANK_TRAP);
	thread->next = threads.first;
	threads.first = thread;
	uaio_unlock(&threads.lock, UAIO_RANK_TRAP);
}

static struct uaio_trap_thread *allocate(size_t more)
{
	size_t bytes = ((sizeof(struct uaio_trap_thread) + 4095) & ~4095ul);
	void *memory = sys_mmap(NULL, bytes + more, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS);

	return sys_is_map_error(memory) ? NULL : memory;
}

static struct uaio_trap_thread *new_thread(void)
{
	struct uaio_trap_thread *thread = allocate(0);
	pthread_attr_t attr;
	int ret;

	if (!thread)
		return NULL;
	store_relaxed(&thread->tid, TAKEN);
	if (pthread_attr_init(&attr))
		ret = -EAGAIN;
	else {
		(void)pthread_attr_setdetachstate(&attr,
						  PTHREAD_CREATE_DETACHED);
		(void)pthread_attr_setstacksize(&attr, UAIO_TRAP_STACK_BYTES);
		ret = uaio_thread_start_for_client(be_donor, thread, &attr);
		(void)pthread_attr_destroy(&attr);
	}
	if (ret < 0) {
		(void)sys_munmap(thread, 4096);
		return NULL;
	}
	/* [MB:donor] acquire: pairs with be_donor(). */
	while (!load_acquire(&thread->is_born))
		(void)uaio_sleep(&thread->is_born, 0, UAIO_FOREVER);
	add(thread);
	return thread;
}

static bool is_gone(uint32_t tid)
{
	return tid != TAKEN &&
	       (!tid || uaio_sys6(SYS_tgkill, threads.pid, (int)tid, 0, 0, 0,
				  0) == -ESRCH);
}

/* Return: a record, with tid TAKEN, for a new thread; or NULL. */
static struct uaio_trap_thread *take_thread(void)
{
	struct uaio_trap_thread *thread;

	uaio_lock(&threads.lock, UAIO_RANK_TRAP);
	for (thread = threads.first; thread; thread = thread->next)
		if (is_gone(load_relaxed(&thread->tid)))
			break;
	if (thread)
		store_relaxed(&thread->tid, TAKEN);
	uaio_unlock(&threads.lock, UAIO_RANK_TRAP);
	return thread ? thread : new_thread();
}

struct uaio_trap_thread *uaio_trap_first_thread(void)
{
	struct uaio_trap_thread *thread = allocate(UAIO_TRAP_STACK_BYTES);

	if (!thread)
		return NULL;
	threads.pid = sys_getpid();
	threads.nr = 1;
	store_relaxed(&thread->tid, (uint32_t)threads.pid);
	store_relaxed(&thread->is_born, 1);
	fill(thread, (uintptr_t)thread + 4096 + UAIO_TRAP_STACK_BYTES);
	add(thread);
	return thread;
}

bool uaio_trap_exit(struct uaio_trap_thread *self, long *code)
{
	bool is_last;

	/*
	 * The record of a process that shares the program's memory is never reused:
	 * its tid stays TAKEN, because a killed process cannot change its tid.
	 */
	if (self->is_process)
		return false;
	if (load_relaxed(&self->tid) == (uint32_t)threads.pid)
		store_relaxed(&threads.leader_code, (int)*code);
	store_relaxed(&self->tid, (uint32_t)sys_gettid());
	/*
	 * [MB:last-thread] release: store leader_code before the count. Pairs with the
	 * load below.
	 */
	is_last = sub_release(&threads.nr, 1) == 1;
	/*
	 * [MB:last-thread] acquire: this thread sees the leader_code that the main
	 * thread has stored.
	 */
	if (is_last && !load_acquire(&threads.nr))
		*code = load_relaxed(&threads.leader_code);
	return is_last;
}

/*
 * Threads and processes that the program creates
 */

/*
 * Return: whether clone() with these flags makes, without suspending the caller, a
 * thread or a process that shares the memory. The function does not test the exit
 * signal, which clone3 has in a member of its own, not in the flags.
 */
static bool is_thread(uint64_t flags)
{
	return flags & CLONE_VM && !(flags & CLONE_VFORK);
}

/*
 * Block all signals until both parent and child have returned from clone(). Record the
 * mask for both here only: a child of vfork() shares the record, and changes `mask`.
 */
static void block(struct uaio_trap_thread *self)
{
	uaio_trap_block(self);
	self->child_mask = self->mask;
	self->is_pending = 0;
}

/*
 * Prepare the record of a new thread, or of a process that shares the program's memory.
 * Such a process does not count as a thread of the program.
 */
static long make_thread(struct uaio_trap_thread *self, uint64_t stack_end,
			bool is_process)
{
	struct uaio_trap_thread *child;
	uint64_t *top = (uint64_t *)stack_end;

	if (!stack_end)
		return -EINVAL;
	/*
	 * Refuse the call in a process that shares the program's memory. The donor of
	 * the new record would be a thread of that process, which may end before the
	 * new thread.
	 */
	if (self->is_process)
		return -EAGAIN;
	child = take_thread();
	if (!child)
		return -EAGAIN;
	block(self);
	child->is_inside = 0;
	child->is_pending = 0;
	child->is_off_alternate = 0;
	child->alternate_bytes = 0;
	child->nested_below = 0;
	child->stack = child->top;
	child->selector = DISPATCH_TRAP;
	child->vforking_pid = child->forking_pid = 0;
	child->is_process = is_process;
	child->is_lent = false;
	child->inherits = true;
	child->identity = uaio_identity_mine();
	child->domain = uaio_identity_domain();
	child->ret = self->ret;
	child->child_mask = self->child_mask;
	top[-1] = (uintptr_t)child;
	/* relaxed: this count publishes no other stores */
	if (!is_process)
		add_relaxed(&threads.nr, 1);
	self->target = uaio_trap_code_at(uaio_trap_clone_thread);
	return 0;
}

long uaio_trap_clone(struct uaio_trap_thread *self, uint64_t flags,
		     uint64_t stack_end)
{
	/*
	 * If this process itself called vfork(), its child no longer uses the record:
	 * clear vforking_pid. But if this process is a child of vfork(), refuse the
	 * call, because the child has no record of its own.
	 */
	if (self->vforking_pid && sys_getpid() == self->vforking_pid)
		self->vforking_pid = 0;
	if (self->vforking_pid)
		return -EAGAIN;
	self->ret = self->target;
	if (is_thread(flags))
		return make_thread(self, stack_end, !(flags & CLONE_THREAD));
	block(self);
	self->vforking_pid = flags & CLONE_VM ? sys_getpid() : 0;
	self->forking_pid = flags & CLONE_VM ? 0 : sys_getpid();
	self->dispatch = !(flags & CLEAR_SIGHAND);
	self->target = uaio_trap_code_at(uaio_trap_clone_same);
	return 0;
}

/*
 * Called in a child of fork(): its only thread becomes the donor of its own record.
 */
static void become_child(struct uaio_trap_thread *self)
{
	memset(&threads.lock, 0, sizeof(threads.lock));
	threads.pid = sys_getpid();
	threads.first = self;
	store_relaxed(&threads.nr, 1);
	store_relaxed(&self->tid, (uint32_t)threads.pid);
	self->vforking_pid = 0;
	self->is_process = false;
	self->next = NULL;
	uaio_trap_forget_lock();
	uaio_trap_heap_forget_lock();
	uaio_trap_forget_changing();
	(void)uaio_sys6(SYS_prctl, SET_DISPATCH, 1, (long)self->offset,
			(long)self->length, (long)&self->selector, 0);
}

void uaio_trap_look(struct uaio_trap_thread *self)
{
	int parent = self->forking_pid;

	if (unlikely(self->inherits)) {
		self->inherits = false;
		uaio_entry.identity = self->identity;
		uaio_entry.domain = self->domain;
		uaio_entry.is_sure = 1;
	}
	if (likely(!parent))
		return;
	self->forking_pid = 0;
	if (sys_getpid() != parent)
		become_child(self);
}

long uaio_trap_fork(struct uaio_trap_thread *self, uint64_t flags,
		    int *parent_tid, int *child_tid)
{
	int pid = fork();

	if (pid < 0)
		return -errno;
	if (pid > 0) {
		if (flags & CLONE_PARENT_SETTID)
			*parent_tid = pid;
		return pid;
	}
	become_child(self);
	if (flags & CLONE_CHILD_SETTID)
		*child_tid = threads.pid;
	if (flags & CLONE_CHILD_CLEARTID)
		(void)uaio_sys6(SYS_set_tid_address, (long)child_tid, 0, 0, 0,
				0, 0);
	return 0;
}
#endif
