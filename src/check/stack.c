/* SPDX-License-Identifier: MIT */
/*
 * Stacks: finds the call stack of a thread in the program
 *
 * The unwinder of the C compiler needs microseconds to walk a stack. So the library
 * keeps the result of each walk: the return addresses, and where on the stack each of
 * them is stored. A kept result is found by two keys: the place in the library that
 * calls the walk, and the stack pointer. If all return addresses of the result are
 * still stored where they were, the result still holds. (Only on x86-64: elsewhere it
 * is not known where a return address is stored.)
 *
 * Equal call stacks have the same number. Numbers and their stacks are kept until the
 * process ends.
 *
 *   S1  The current stack is compared with a kept one from the innermost frame
 *       outwards, up to the first difference. If all inner return addresses are
 *       unchanged, the next frame still exists. So only memory of the thread's stack is
 *       read.
 *
 * The library loads libgcc_s, which contains the unwinder. Without libgcc_s, reports
 * have no call stacks.
 *
 * Tested by test-check.c.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unwind.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/sys.h"
#include "check/checker.h"
#include "check/checkint.h"

enum {
	KEPT = 4096,
	OWNERS = 1024,
	TRIES = 16,
	/*
	 * Slots of the hash table of call stacks. Once half of the slots are used, a
	 * new call stack gets no number.
	 */
	STACKS = 16384,
};

struct kept {
	uintptr_t place, sp;
	/* if walk.number is 0, this entry is empty */
	struct uaio_check_walk walk;
};

struct known {
	uint64_t hash;
	struct uaio_check_stack stack;
};

/* The bounds of one thread's own stack, if they are known. */
struct owner {
	uintptr_t thread;
	/*
	 * how often the library searched /proc/self/maps for the bounds. A search fails
	 * while the thread runs on another stack. After TRIES searches the library
	 * searches only if the stack may have grown.
	 */
	uint32_t nr_tries;
	/* if `end` is 0, the bounds are not known */
	struct uaio_check_span stack;
};

static struct {
	struct uaio_lock lock; /* rank STACKS */

	/* immutable after init */
	/*
	 * Address ranges of this library, and of AddressSanitizer, which calls this
	 * library when the program frees memory. Stack frames with return addresses in
	 * these ranges are not the program's.
	 */
	struct uaio_check_span ours[2];
	/* Functions of the unwinder; NULL if libgcc_s is not there. */
	_Unwind_Reason_Code (*backtrace)(_Unwind_Trace_Fn, void *);
	_Unwind_Word (*get_cfa)(struct _Unwind_Context *);
	_Unwind_Ptr (*get_ip)(struct _Unwind_Context *);

	/* under the lock; mapped once, and never unmapped */
	struct kept *kept;
	/* the index is the number of the stack; index 0 is not used */
	struct known *known;
	uint32_t nr_known;
	struct owner owners[OWNERS]; /* by thread */
} stacks;

struct search {
	uintptr_t at;
	/*
	 * address range of the library that contains `at`; end is 0 if there is none
	 */
	struct uaio_check_span found;
};

static int find_library(struct dl_phdr_info *object, size_t bytes, void *arg)
{
	struct search *search = arg;
	uintptr_t begin = UINTPTR_MAX, end = 0;

	(void)bytes;
	/* Skip the program, which is no library; dl_iterate_phdr() names it "". */
	if (!object->dlpi_name || !*object->dlpi_name)
		return 0;
	for (unsigned i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
		uintptr_t at = object->dlpi_addr + segment->p_vaddr;

		if (segment->p_type != PT_LOAD)
			continue;
		begin = at < begin ? at : begin;
		end = at + segment->p_memsz > end ? at + segment->p_memsz : end;
	}
	if (search->at < begin || search->at >= end)
		return 0;
	search->found = (struct uaio_check_span){ begin, end };
	return 1;
}

static struct uaio_check_span library_of(uintptr_t at)
{
	struct search search = { .at = at };

	(void)dl_iterate_phdr(find_library, &search);
	return search.found;
}

static void *map(size_t bytes)
{
	void *memory = sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);

	return sys_is_map_error(memory) ? NULL : memory;
}

static void load_unwinder(void)
{
	void *library = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return;
	*(void **)&stacks.get_cfa = dlsym(library, "_Unwind_GetCFA");
	*(void **)&stacks.get_ip = dlsym(library, "_Unwind_GetIP");
	*(void **)&stacks.backtrace = dlsym(library, "_Unwind_Backtrace");
}

void uaio_check_stacks_load(void)
{
	if (stacks.kept)
		return;
	stacks.kept = map(KEPT * sizeof(*stacks.kept));
	stacks.known = map(STACKS * sizeof(*stacks.known));
	stacks.ours[0] = library_of((uintptr_t)&find_library);
	stacks.ours[1] = library_of(uaio_asan_function());
	load_unwinder();
}

void uaio_check_stacks_init(void)
{
	stacks.lock = (struct uaio_lock){ 0 };
}

static _Unwind_Reason_Code take_frame(struct _Unwind_Context *context,
				      void *arg)
{
	struct uaio_check_walk *walk = arg;

	if (walk->nr == UAIO_CHECK_DEPTH)
		return _URC_END_OF_STACK;
	walk->frames[walk->nr++] = (struct uaio_check_frame){
		.pc = stacks.get_ip(context),
		.sp = stacks.get_cfa(context),
	};
	return _URC_NO_REASON;
}

static bool is_in(const struct uaio_check_span *span, uintptr_t at)
{
	return at >= span->begin && at < span->end;
}

static bool is_ours(uintptr_t pc)
{
	return is_in(&stacks.ours[0], pc) || is_in(&stacks.ours[1], pc);
}

static struct uaio_check_stack programs_part(const struct uaio_check_walk *walk)
{
	struct uaio_check_stack stack = { .nr = 0 };

	for (uint32_t i = walk->first;
	     i < walk->nr && stack.nr < UAIO_CHECK_FRAMES_MAX; i++)
		if (walk->frames[i].pc)
			stack.pcs[stack.nr++] = walk->frames[i].pc;
	return stack;
}

static uint64_t hash_of(const struct uaio_check_stack *stack)
{
	uint64_t hash = stack->nr;

	for (uint32_t i = 0; i < stack->nr; i++)
		hash = (hash ^ stack->pcs[i]) * UINT64_C(0x9e3779b97f4a7c15) ^
		       hash >> 29;
	return hash;
}

/*
 * The caller holds the lock.
 * Return: the number of this call stack; 0: too many stacks are kept.
 */
static uint32_t number_locked(const struct uaio_check_stack *stack)
{
	uint64_t hash = hash_of(stack);

	for (uint32_t i = 0; i < STACKS; i++) {
		uint32_t number = (uint32_t)((hash + i) % STACKS);
		struct known *known = &stacks.known[number];

		if (!number)
			continue;
		if (known->stack.nr && known->hash == hash &&
		    !memcmp(&known->stack, stack,
			    offsetof(struct uaio_check_stack, pcs) +
				    stack->nr * sizeof(stack->pcs[0])))
			return number;
		if (known->stack.nr)
			continue;
		if (stacks.nr_known >= STACKS / 2)
			return 0;
		stacks.nr_known++;
		known->hash = hash;
		known->stack = *stack;
		return number;
	}
	return 0;
}

/*
 * The caller holds the lock.
 * Return: whether the thread's current stack is the kept one (S1).
 */
static bool is_same(const struct kept *kept, uintptr_t place, uintptr_t sp)
{
#if defined(__x86_64__)
	const struct uaio_check_walk *walk = &kept->walk;

	if (!walk->number || kept->place != place || kept->sp != sp)
		return false;
	for (uint32_t i = 0; i < walk->nr; i++)
		if (((const uintptr_t *)walk->frames[i].sp)[-1] !=
		    walk->frames[i].pc)
			return false;
	return true;
#else
	(void)kept;
	(void)place;
	(void)sp;
	return false;
#endif
}

static struct kept *kept_for(uintptr_t place, uintptr_t sp)
{
	uint64_t hash = (place ^ sp >> 4) * UINT64_C(0x9e3779b97f4a7c15);

	return &stacks.kept[hash >> 32 & (KEPT - 1)];
}

/*
 * Remove the frames of this file itself, which are below sp, and entries without an
 * address.
 */
static void tidy(struct uaio_check_walk *walk, uintptr_t sp)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < walk->nr; i++) {
		if (walk->frames[i].sp <= sp || !walk->frames[i].pc)
			continue;
		walk->is_mixed |=
			nr && walk->frames[i].sp <= walk->frames[nr - 1].sp;
		walk->frames[nr++] = walk->frames[i];
	}
	walk->nr = nr;
	while (walk->first < nr && is_ours(walk->frames[walk->first].pc))
		walk->first++;
	if (walk->first == nr)
		walk->nr = walk->first = 0;
}

static void walk_slowly(uintptr_t place, uintptr_t sp,
			struct uaio_check_walk *ret)
{
	struct kept *kept = kept_for(place, sp);
	struct uaio_check_stack stack;

	(void)stacks.backtrace(take_frame, ret);
	tidy(ret, sp);
	stack = programs_part(ret);
	uaio_msan_initialised((uintptr_t)&stack, sizeof(stack));
	if (!stack.nr)
		return;
	uaio_lock(&stacks.lock, UAIO_RANK_STACKS);
	ret->number = number_locked(&stack);
	kept->place = place;
	kept->sp = sp;
	kept->walk = *ret;
	uaio_unlock(&stacks.lock, UAIO_RANK_STACKS);
}

/* Must not be inlined, as it uses its own frame address. */
__attribute__((noinline)) void uaio_check_walk_now(struct uaio_check_walk *ret)
{
	uintptr_t sp = (uintptr_t)__builtin_frame_address(0);
	uintptr_t place = (uintptr_t)__builtin_return_address(0);
	struct kept *kept = kept_for(place, sp);
	bool is_known;

	ret->number = ret->nr = ret->first = 0;
	ret->is_mixed = false;
	if (!stacks.backtrace || !stacks.kept || !stacks.known)
		return;
	uaio_lock(&stacks.lock, UAIO_RANK_STACKS);
	is_known = is_same(kept, place, sp);
	if (is_known) {
		ret->number = kept->walk.number;
		ret->nr = kept->walk.nr;
		ret->first = kept->walk.first;
		ret->is_mixed = kept->walk.is_mixed;
		memcpy(ret->frames, kept->walk.frames,
		       ret->nr * sizeof(ret->frames[0]));
	}
	uaio_unlock(&stacks.lock, UAIO_RANK_STACKS);
	if (!is_known)
		walk_slowly(place, sp, ret);
}

uint32_t uaio_check_here(void)
{
	struct uaio_check_walk walk;

	uaio_check_walk_now(&walk);
	return walk.number;
}

bool uaio_check_find_holder(const struct uaio_check_walk *walk, uintptr_t at,
			    struct uaio_check_frame *ret)
{
	for (uint32_t i = walk->first + 1; i < walk->nr; i++) {
		if (walk->frames[i].sp <= at)
			continue;
		*ret = walk->frames[i];
		return at >= walk->frames[walk->first].sp;
	}
	return false;
}

bool uaio_check_has_returned(const struct uaio_check_walk *walk,
			     const struct uaio_check_frame *holder)
{
	for (uint32_t i = 0; i < walk->nr; i++) {
		if (walk->frames[i].sp > holder->sp)
			return true;
		if (walk->frames[i].sp == holder->sp)
			return walk->frames[i].pc != holder->pc;
	}
	/*
	 * The frame may still exist, because the walk may have ended before it reached
	 * this frame.
	 */
	return false;
}

bool uaio_check_stack_get(uint32_t number, struct uaio_check_stack *ret)
{
	if (!number)
		return false;
	uaio_lock(&stacks.lock, UAIO_RANK_STACKS);
	*ret = stacks.known[number].stack;
	uaio_unlock(&stacks.lock, UAIO_RANK_STACKS);
	return ret->nr;
}

/* Finding the bounds of the calling thread's own stack */

/*
 * Return: whether a line of /proc/self/maps is the calling thread's stack. The first
 * thread's stack is named [stack]. In any other thread the mapping of the stack also
 * contains the thread-local data, which the C library puts above the stack.
 */
static bool is_stack(const char *line, const struct uaio_check_span *span)
{
	return strstr(line, "[stack]") || is_in(span, uaio_check_me());
}

/*
 * Limit `span` to the thread's own stack, as the program may have placed the stack inside
 * a larger mapping.
 */
static void cut_to_own(struct uaio_check_span *span)
{
	pthread_attr_t attr;
	size_t bytes;
	void *begin;

	if (pthread_getattr_np(pthread_self(), &attr))
		return;
	if (pthread_attr_getstack(&attr, &begin, &bytes) == 0 &&
	    (uintptr_t)begin > span->begin)
		span->begin = (uintptr_t)begin;
	(void)pthread_attr_destroy(&attr);
}

static bool read_line(const char *line, uintptr_t sp,
		      struct uaio_check_span *ret)
{
	char *end;

	ret->begin = strtoul(line, &end, 16);
	if (*end != '-')
		return false;
	ret->end = strtoul(end + 1, &end, 16);
	return is_in(ret, sp) && is_stack(line, ret);
}

static void find_span(uintptr_t sp, struct uaio_check_span *ret)
{
	enum { ROOM = 4096 };
	char buf[ROOM + 1];
	size_t has = 0;
	ssize_t got;
	int fd = sys_openat(AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC,
			    0);

	if (fd < 0)
		return;
	while ((got = sys_read(fd, buf + has, ROOM - has)) > 0) {
		char *line = buf, *end;

		has += (size_t)got;
		buf[has] = '\0';
		uaio_msan_initialised((uintptr_t)buf, sizeof(buf));
		for (; (end = strchr(line, '\n')); line = end + 1) {
			struct uaio_check_span span;

			*end = '\0';
			if (read_line(line, sp, &span))
				*ret = span;
		}
		has -= (size_t)(line - buf);
		memmove(buf, line, has);
		if (has == ROOM)
			break;
	}
	(void)sys_close(fd);
	/*
	 * The range of the first thread's stack needs no cut: /proc/self/maps has a line
	 * for exactly this stack. A range that contains thread-local data belongs to some
	 * other thread.
	 */
	if (is_in(ret, uaio_check_me()))
		cut_to_own(ret);
}

/*
 * Return: whether sp may be in the first thread's stack. The stack may have grown
 * downwards since its bounds were looked up.
 */
static bool is_below(const struct uaio_check_span *span, uintptr_t sp)
{
	enum { NEAR = 1 << 23 };

	return sp < span->begin && span->begin - sp < NEAR;
}

/*
 * Return: the entry for the calling thread. Two threads may have the same entry; then
 * the bounds of the other thread's stack are forgotten.
 */
static struct owner *owner_locked(void)
{
	uintptr_t me = uaio_check_me();
	struct owner *owner =
		&stacks.owners[me * UINT64_C(0x9e3779b97f4a7c15) >> 54];

	if (owner->thread != me)
		*owner = (struct owner){ .thread = me };
	return owner;
}

static bool is_on_alternate(void)
{
	stack_t now = { .ss_flags = 0 };

	return sys_sigaltstack(NULL, &now) == 0 && now.ss_flags & SS_ONSTACK;
}

struct uaio_check_span uaio_check_my_stack(uintptr_t sp)
{
	struct uaio_check_span span;
	struct owner *owner;
	bool is_over;

	uaio_lock(&stacks.lock, UAIO_RANK_STACKS);
	owner = owner_locked();
	span = owner->stack;
	is_over = is_in(&span, sp) ||
		  (!is_below(&span, sp) && owner->nr_tries++ >= TRIES);
	uaio_unlock(&stacks.lock, UAIO_RANK_STACKS);
	if (!is_over) {
		find_span(sp, &span);
		uaio_lock(&stacks.lock, UAIO_RANK_STACKS);
		owner_locked()->stack = span;
		uaio_unlock(&stacks.lock, UAIO_RANK_STACKS);
	}
	/*
	 * The alternate stack of a signal handler may lie inside the thread's own
	 * stack, but does not count as this stack.
	 */
	return is_in(&span, sp) && !is_on_alternate()
		       ? span
		       : (struct uaio_check_span){ .end = 0 };
}
