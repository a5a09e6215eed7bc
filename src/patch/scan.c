/* SPDX-License-Identifier: MIT */
#include "patch/scan.h"

#if defined(__x86_64__)
#include <string.h>
#include <sys/mman.h>

#include "base/atomic.h"
#include "base/loader.h"
#include "base/lock.h"
#include "base/sys.h"
#include "patch/decode.h"
#include "patch/named.h"
#include "patch/patch.h"

enum {
	OBJECTS_MAX = 2048,
	NR_WORDS = UAIO_OWN_CALLS_MAX / 64,
	FUNCTIONS_MAX = 128,   /* with calls, of an object */
	ENTRIES_MAX = 256,     /* into these functions */
	STRAYS_MAX = 64,       /* bytes in no function */
	STRAY_REACH = 1 << 16, /* from where code may come to them */
	FUNCTION_BYTES_MAX = 1 << 20,
	PASSES_MAX = 32,
	NEAR_JUMP = 0xe9,
	NEAR_CALL = 0xe8,
	LEA = 0x8d,
};

/* The bytes of instructions by which a program enters the kernel. */
static const uint8_t syscall_bytes[2] = { 0x0f, 0x05 };
static const uint8_t other_bytes[][2] = {
	{ 0x0f, 0x34 }, /* sysenter */
	{ 0xcd, 0x80 }, /* int $0x80 */
};

/* A function that has a syscall instruction. */
struct function {
	uintptr_t start, end;
};

/* Bytes in no function, and where the code that may lead to them begins. */
struct stray {
	uintptr_t addr, low;
	uint64_t *
		seen; /* a bit for each address from low on that was looked at */
};

/* An object, as far as it has been scanned. */
struct scan {
	const struct dl_phdr_info *object;
	struct uaio_own_calls *calls;
	struct function functions[FUNCTIONS_MAX];
	size_t nr_functions;
	/* Addresses inside of the functions to which other code branches. */
	uintptr_t entries[ENTRIES_MAX];
	size_t nr_entries;
	struct stray strays[STRAYS_MAX];
	size_t nr_strays;
	uintptr_t low,
		high; /* of the functions, and of what may lead to strays */
};

static void add_call(struct uaio_own_calls *calls, uint32_t nr)
{
	if (nr < UAIO_OWN_CALLS_MAX)
		calls->words[nr / 64] |= 1ul << nr % 64;
	else
		calls->has_any = true;
}

static void for_code(struct scan *scan,
		     void (*look)(struct scan *scan, const uint8_t *code,
				  size_t bytes))
{
	const struct dl_phdr_info *object = scan->object;

	for (unsigned i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &object->dlpi_phdr[i];
		const uint32_t flags = ph->p_flags & (PF_R | PF_W | PF_X);

		if (ph->p_type != PT_LOAD || !(flags & PF_X))
			continue;
		/* What is written meanwhile, or cannot be read, is not known. */
		if (flags != (PF_R | PF_X))
			scan->calls->has_any = true;
		if (scan->calls->has_any)
			return;
		look(scan, (const uint8_t *)(object->dlpi_addr + ph->p_vaddr),
		     ph->p_filesz);
	}
}

/*
 * Functions that enter the kernel
 */

enum boundary { IS_INSTRUCTION, IS_PART, IS_UNKNOWN };

/* Find out whether an instruction of the function starts at addr. */
static enum boundary look_for(uintptr_t start, uintptr_t end, uintptr_t addr)
{
	while (start < addr) {
		size_t length =
			uaio_insn_length((const uint8_t *)start, end - start);

		if (!length)
			return IS_UNKNOWN;
		start += length;
	}
	return start == addr ? IS_INSTRUCTION : IS_PART;
}

static void add_function(struct scan *scan, uintptr_t start, uintptr_t end)
{
	for (size_t i = 0; i < scan->nr_functions; i++)
		if (scan->functions[i].start == start)
			return;
	if (scan->nr_functions == FUNCTIONS_MAX) {
		scan->calls->has_any = true;
		return;
	}
	scan->functions[scan->nr_functions++] =
		(struct function){ .start = start, .end = end };
}

static void add_stray(struct scan *scan, uintptr_t addr)
{
	struct stray stray = { .addr = addr, .low = addr - STRAY_REACH };
	uintptr_t start, end;

	if (scan->nr_strays == STRAYS_MAX) {
		scan->calls->has_any = true;
		return;
	}
	/* Code that is no function does not begin before one that it is behind. */
	if (uaio_find_last_function(scan->object, addr, &start, &end) &&
	    end <= addr && end > stray.low)
		stray.low = end;
	scan->strays[scan->nr_strays++] = stray;
}

/* The bytes of an instruction that enters the kernel are at addr. */
static void judge(struct scan *scan, uintptr_t addr, bool is_syscall)
{
	uintptr_t start, end;

	if (!uaio_find_function(scan->object, addr, &start, &end)) {
		add_stray(scan, addr);
		return;
	}
	switch (look_for(start, end, addr)) {
	case IS_PART: return;
	case IS_INSTRUCTION:
		if (is_syscall) {
			add_function(scan, start, end);
			return;
		}
		break;
	default: break;
	}
	scan->calls->has_any = true;
}

/* Look for the second byte, as the first one is frequent. */
static void find_bytes(struct scan *scan, const uint8_t *code, size_t bytes,
		       const uint8_t *entry)
{
	const uint8_t *at = code + 1, *end = code + bytes;

	while (!scan->calls->has_any && at < end &&
	       (at = memchr(at, entry[1], (size_t)(end - at)))) {
		if (at[-1] == entry[0])
			judge(scan, (uintptr_t)at - 1, entry == syscall_bytes);
		at++;
	}
}

static void find_functions(struct scan *scan, const uint8_t *code, size_t bytes)
{
	find_bytes(scan, code, bytes, syscall_bytes);
	for (size_t i = 0; i < sizeof(other_bytes) / sizeof(other_bytes[0]);
	     i++)
		find_bytes(scan, code, bytes, other_bytes[i]);
}

/*
 * Where code may come from. A part of a function that is seldom executed lies elsewhere,
 * and branches into the function. Bytes in no function are code if something leads there:
 * a branch, a call, the computation of an address, or a name. Each four bytes that may be
 * the distance of such an instruction are taken for one.
 */

static const struct function *function_of(const struct scan *scan,
					  uintptr_t addr)
{
	for (size_t i = 0; i < scan->nr_functions; i++)
		if (addr - scan->functions[i].start <
		    scan->functions[i].end - scan->functions[i].start)
			return &scan->functions[i];
	return NULL;
}

static void add_entry(struct scan *scan, uintptr_t from, uintptr_t target)
{
	const struct function *function = function_of(scan, target);

	if (!function || target == function->start ||
	    function_of(scan, from) == function)
		return;
	if (scan->nr_entries == ENTRIES_MAX)
		scan->calls->has_any = true;
	else
		scan->entries[scan->nr_entries++] = target;
}

/*
 * Something leads to start. A stray that instructions lead to from there makes any call;
 * where an instruction is not known, it is data. What was looked at before leads nowhere.
 */
static bool leads_to(const struct stray *stray, uintptr_t start)
{
	while (start < stray->addr) {
		const size_t at = start - stray->low;
		const size_t length = uaio_insn_length((const uint8_t *)start,
						       stray->addr + 2 - start);

		if (!length || stray->seen[at / 64] >> at % 64 & 1)
			return false;
		stray->seen[at / 64] |= 1ul << at % 64;
		start += length;
	}
	return start == stray->addr;
}

static void see_start(void *data, uintptr_t start, bool is_code)
{
	struct scan *scan = data;

	(void)is_code;
	for (size_t i = 0; i < scan->nr_strays; i++) {
		const struct stray *stray = &scan->strays[i];

		if (start >= stray->low && start <= stray->addr &&
		    leads_to(stray, start))
			scan->calls->has_any = true;
	}
}

static void set_range(struct scan *scan)
{
	scan->low = UINTPTR_MAX;
	scan->high = 0;
	for (size_t i = 0; i < scan->nr_functions; i++) {
		const struct function *function = &scan->functions[i];

		scan->low = function->start < scan->low ? function->start
							: scan->low;
		scan->high =
			function->end > scan->high ? function->end : scan->high;
	}
	for (size_t i = 0; i < scan->nr_strays; i++) {
		const struct stray *stray = &scan->strays[i];

		scan->low = stray->low < scan->low ? stray->low : scan->low;
		scan->high = stray->addr + 1 > scan->high ? stray->addr + 1
							  : scan->high;
	}
}

/* Return: whether the four bytes may be the distance of a branch; or of more. */
static bool is_branch(const uint8_t *distance)
{
	return distance[-1] == NEAR_JUMP ||
	       (distance[-2] == 0x0f && (distance[-1] & 0xf0) == 0x80);
}

static bool is_leading(const uint8_t *distance)
{
	return distance[-1] == NEAR_CALL ||
	       (distance[-2] == LEA && (distance[-1] & 0xc7) == 5);
}

static void find_entries(struct scan *scan, const uint8_t *code, size_t bytes)
{
	for (size_t i = 2; i + 4 <= bytes && !scan->calls->has_any; i++) {
		const bool has_branch = is_branch(code + i);
		uintptr_t from = (uintptr_t)code + i, target;
		int32_t distance;

		if (!has_branch && !is_leading(code + i))
			continue;
		memcpy(&distance, code + i, sizeof(distance));
		target = from + 4 + (uintptr_t)(intptr_t)distance;
		if (target - scan->low >= scan->high - scan->low)
			continue;
		if (has_branch)
			add_entry(scan, from, target);
		see_start(scan, target, false);
	}
}

/*
 * What is in eax at each syscall instruction of a function: constants are followed
 * through registers and branches, until nothing new is found.
 */

/* What is known of the registers before an instruction. */
struct regs {
	bool is_reached;
	uint16_t constant; /* a bit for each that is in value */
	uint32_t value[UAIO_INSN_NR_REGS];
};

struct flow {
	const struct scan *scan;
	uintptr_t start, end;
	/* For each byte of the function: 0, or 1 + which of the joins is there. */
	uint32_t *join_at;
	struct regs *joins; /* where branches lead to */
	uint32_t nr_joins, nr_met;
	bool has_changed;
};

/* Both may be the case. */
static void meet(struct flow *flow, struct regs *join, const struct regs *regs)
{
	uint16_t constant = regs->constant;

	if (!join->is_reached) {
		*join = *regs;
		flow->has_changed = true;
		return;
	}
	for (unsigned i = 0; i < UAIO_INSN_NR_REGS; i++)
		if (join->value[i] != regs->value[i])
			constant &= (uint16_t) ~(1u << i);
	flow->has_changed |= (join->constant & constant) != join->constant;
	join->constant &= constant;
}

static bool is_inside(const struct flow *flow, uintptr_t addr)
{
	return addr - flow->start < flow->end - flow->start;
}

/* Return: what is known where a branch leads to, or NULL if none does. */
static struct regs *join_of(const struct flow *flow, uintptr_t addr)
{
	uint32_t which =
		is_inside(flow, addr) ? flow->join_at[addr - flow->start] : 0;

	return which ? &flow->joins[which - 1] : NULL;
}

static bool has_target(enum uaio_insn_flow kind)
{
	return kind == UAIO_FLOW_BRANCH || kind == UAIO_FLOW_JUMP ||
	       kind == UAIO_FLOW_CALL;
}

/* The instruction changes what is known. */
static void execute(struct regs *regs, const uint8_t *code, size_t length)
{
	uint16_t writes = uaio_insn_writes(code, length);
	unsigned from, reg = 0;
	uintptr_t target = 0;
	uint32_t value = 0;
	bool is_set = true;

	if (uaio_insn_copies(code, length, &from, &reg)) {
		value = regs->value[from];
		is_set = regs->constant >> from & 1;
	} else if (!uaio_insn_sets(code, length, &reg, &value)) {
		/* A mov to eax that was changed is a jump to a trampoline. */
		is_set = *code == NEAR_JUMP &&
			 uaio_insn_flow(code, length, &target) ==
				 UAIO_FLOW_JUMP &&
			 uaio_patch_number_of(target, &value);
	}
	regs->constant &= (uint16_t)~writes;
	if (is_set) {
		regs->constant |= (uint16_t)(1u << reg);
		regs->value[reg] = value;
	}
}

/* Return: whether the jump is to a trampoline, which comes back behind it. */
static bool comes_back(uintptr_t target)
{
	uint32_t nr;

	return uaio_patch_number_of(target, &nr);
}

/* Registers of which nothing is known. */
static const struct regs nothing = { .is_reached = true };

/* Go through the function once; calls: NULL, or where calls are noted. */
static void pass_through(struct flow *flow, struct uaio_own_calls *calls)
{
	struct regs regs = nothing;
	uintptr_t at = flow->start;
	bool has_ended = false; /* nothing leads here from the one before */

	flow->has_changed = false;
	flow->nr_met = 0;
	while (at < flow->end) {
		const uint8_t *code = (const uint8_t *)at;
		size_t length = uaio_insn_length(code, flow->end - at);
		struct regs *join = join_of(flow, at), *to;
		enum uaio_insn_flow kind;
		uintptr_t target = 0;

		if (join) {
			flow->nr_met++;
			if (regs.is_reached && !has_ended)
				meet(flow, join, &regs);
			regs = *join;
		} else if (has_ended && uaio_insn_is_nop(code, length)) {
			at += length;
			continue;
		} else if (has_ended) {
			/* Whoever comes here, nothing is known of them. */
			regs = nothing;
		}
		if (calls && length == 2 && !memcmp(code, syscall_bytes, 2)) {
			if (regs.is_reached && regs.constant & UAIO_INSN_RAX)
				add_call(calls, regs.value[0]);
			else
				calls->has_any = true;
		}
		kind = uaio_insn_flow(code, length, &target);
		if (regs.is_reached)
			execute(&regs, code, length);
		to = has_target(kind) ? join_of(flow, target) : NULL;
		if (to && regs.is_reached)
			meet(flow, to, &regs);
		has_ended = kind == UAIO_FLOW_END ||
			    (kind == UAIO_FLOW_JUMP && !comes_back(target));
		at += length;
	}
}

static void add_join(struct flow *flow, uintptr_t addr)
{
	if (is_inside(flow, addr) && !flow->join_at[addr - flow->start])
		flow->join_at[addr - flow->start] = ++flow->nr_joins;
}

/* Return: false if not all is known of where branches lead to. */
static bool find_joins(struct flow *flow)
{
	uintptr_t at = flow->start, target;

	while (at < flow->end) {
		const uint8_t *code = (const uint8_t *)at;
		size_t length = uaio_insn_length(code, flow->end - at);
		enum uaio_insn_flow kind;

		if (!length)
			return false;
		kind = uaio_insn_flow(code, length, &target);
		if (kind == UAIO_FLOW_INDIRECT)
			return false;
		if (has_target(kind))
			add_join(flow, target);
		at += length;
	}
	return true;
}

/* Return: false if not all is known. */
static bool follow(struct flow *flow, struct uaio_own_calls *calls)
{
	unsigned passes = 0;

	/* Nothing is known of those that come in from elsewhere. */
	for (size_t i = 0; i < flow->scan->nr_entries; i++) {
		struct regs *join = join_of(flow, flow->scan->entries[i]);

		if (join)
			*join = nothing;
	}
	do {
		if (++passes > PASSES_MAX)
			return false;
		pass_through(flow, NULL);
		/* A branch into an instruction is not understood. */
		if (flow->nr_met < flow->nr_joins)
			return false;
	} while (flow->has_changed);
	pass_through(flow, calls);
	return true;
}

/* What is no instruction only looks like an entry. */
static void add_entries(struct flow *flow)
{
	const struct scan *scan = flow->scan;

	for (size_t i = 0; i < scan->nr_entries; i++)
		if (is_inside(flow, scan->entries[i]) &&
		    look_for(flow->start, flow->end, scan->entries[i]) ==
			    IS_INSTRUCTION)
			add_join(flow, scan->entries[i]);
}

static void *allocate(size_t bytes)
{
	return sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS);
}

static bool follow_function(const struct scan *scan,
			    const struct function *function)
{
	size_t bytes = function->end - function->start, room;
	struct flow flow = { .scan = scan,
			     .start = function->start,
			     .end = function->end };
	bool is_known = false;

	if (bytes > FUNCTION_BYTES_MAX)
		return false;
	flow.join_at = allocate(bytes * sizeof(*flow.join_at));
	if (sys_is_map_error(flow.join_at))
		return false;
	if (find_joins(&flow)) {
		add_entries(&flow);
		room = (flow.nr_joins + 1) * sizeof(*flow.joins);
		flow.joins = allocate(room);
		if (!sys_is_map_error(flow.joins)) {
			is_known = follow(&flow, scan->calls);
			(void)sys_munmap(flow.joins, room);
		}
	}
	(void)sys_munmap(flow.join_at, bytes * sizeof(*flow.join_at));
	return is_known;
}

static void find_ways(struct scan *scan)
{
	const size_t bytes = STRAY_REACH / 8 + sizeof(uint64_t);
	uint8_t *seen = NULL;

	if (scan->nr_strays) {
		seen = allocate(scan->nr_strays * bytes);
		if (sys_is_map_error(seen)) {
			scan->calls->has_any = true;
			return;
		}
	}
	for (size_t i = 0; i < scan->nr_strays; i++)
		scan->strays[i].seen = (uint64_t *)(seen + i * bytes);
	set_range(scan);
	for_code(scan, find_entries);
	if (scan->nr_strays) {
		uaio_see_named(scan->object, see_start, scan);
		(void)sys_munmap(seen, scan->nr_strays * bytes);
	}
}

void uaio_scan_object(const struct dl_phdr_info *object,
		      struct uaio_own_calls *calls)
{
	struct scan scan = { .object = object, .calls = calls };

	for_code(&scan, find_functions);
	if (!calls->has_any && (scan.nr_functions || scan.nr_strays))
		find_ways(&scan);
	for (size_t i = 0; i < scan.nr_functions && !calls->has_any; i++)
		if (!follow_function(&scan, &scan.functions[i]))
			calls->has_any = true;
}

/*
 * All objects
 */

static struct {
	struct uaio_lock lock; /* held by the thread that scans */
	/* Atomic, relaxed. Only added to. */
	struct uaio_own_calls calls;
	uint64_t adds; /* atomic: objects loaded until the last scan */
	/* Under the lock: */
	uint64_t subs; /* objects unloaded until the last scan */
	const ElfW(Phdr) * known[OBJECTS_MAX]; /* headers of scanned objects */
	size_t nr_known;
} found;

/* One call of dl_iterate_phdr(). */
struct pass {
	bool has_begun; /* there is an object to scan, and this thread scans */
	bool is_busy;   /* another thread scans */
	uint64_t adds;
};

/* Beginnings of the names of objects that are not scanned. */
static const char *const passed_over[] = {
	"ld-linux",  "ld-musl",        "libc.so.",    "libc.musl-",
	"librt.so.", "libpthread.so.", "linux-vdso.",
};

static bool is_wanted(const struct dl_phdr_info *object)
{
	const char *name = uaio_base_name(object->dlpi_name);

	for (size_t i = 0; i < sizeof(passed_over) / sizeof(passed_over[0]);
	     i++)
		if (uaio_has_prefix(name, passed_over[i]))
			return false;
	return !uaio_patch_is_ours(object);
}

/* Return: whether the object has been scanned; it counts as scanned from now on. */
static bool is_known(const struct dl_phdr_info *object)
{
	for (size_t i = 0; i < found.nr_known; i++)
		if (found.known[i] == object->dlpi_phdr)
			return true;
	if (found.nr_known < OBJECTS_MAX)
		found.known[found.nr_known++] = object->dlpi_phdr;
	return false;
}

static void publish(const struct uaio_own_calls *calls)
{
	for (size_t i = 0; i < NR_WORDS; i++)
		or_relaxed(&found.calls.words[i], calls->words[i]);
	if (calls->has_any)
		store_relaxed(&found.calls.has_any, true);
}

/* Return: whether this thread is to scan. */
static bool begin(struct pass *pass, const struct dl_phdr_info *object)
{
	/* [MB:scan] acquire: what was found until then is seen. */
	if (load_acquire(&found.adds) == object->dlpi_adds)
		return false;
	pass->is_busy = !uaio_trylock(&found.lock, UAIO_RANK_SCAN);
	if (pass->is_busy)
		return false;
	pass->has_begun = true;
	pass->adds = object->dlpi_adds;
	/* The headers of a new object may lie where an old one's lay. */
	if (found.subs != object->dlpi_subs)
		found.nr_known = 0;
	found.subs = object->dlpi_subs;
	return true;
}

static int scan_new(struct dl_phdr_info *object, size_t bytes, void *data)
{
	struct pass *pass = data;
	struct uaio_own_calls calls = { 0 };

	(void)bytes;
	if (!pass->has_begun && !begin(pass, object))
		return 1;
	if (is_known(object) || !is_wanted(object))
		return 0;
	uaio_scan_object(object, &calls);
	publish(&calls);
	return 0;
}

static bool has_call(uint32_t first, uint32_t last)
{
	for (uint32_t nr = first; nr <= last && nr < UAIO_OWN_CALLS_MAX; nr++)
		if (load_relaxed(&found.calls.words[nr / 64]) >> nr % 64 & 1)
			return true;
	return false;
}

bool uaio_patch_may_call(const struct uaio_numbers *numbers, size_t nr)
{
	struct pass pass = { 0 };

	/* Nothing could add to that. */
	if (load_relaxed(&found.calls.has_any))
		return true;
	(void)dl_iterate_phdr(scan_new, &pass);
	if (pass.has_begun) {
		/* [MB:scan] release: pairs with begin(). */
		store_release(&found.adds, pass.adds);
		uaio_unlock(&found.lock, UAIO_RANK_SCAN);
	}
	if (pass.is_busy || load_relaxed(&found.calls.has_any))
		return true;
	for (size_t i = 0; i < nr; i++)
		if (has_call(numbers[i].first, numbers[i].last))
			return true;
	return false;
}

#else /* not x86-64 */

void uaio_scan_object(const struct dl_phdr_info *object,
		      struct uaio_own_calls *calls)
{
	(void)object;
	calls->has_any = true;
}

bool uaio_patch_may_call(const struct uaio_numbers *numbers, size_t nr)
{
	(void)numbers;
	(void)nr;
	return true;
}

#endif
