/* SPDX-License-Identifier: MIT */
#include "patch/flow.h"

#include <sys/mman.h>

#include "base/sys.h"
#include "patch/decode.h"
#include "patch/find.h"
#include "patch/code.h"

enum {
	FUNCTION_BYTES_MAX = 1 << 20,
	PASSES_MAX = 32,
#if defined(__x86_64__)
	NEAR_JUMP = 0xe9,
#endif
};

enum uaio_boundary uaio_flow_look_for(uintptr_t start, uintptr_t end,
				      uintptr_t addr)
{
	while (start < addr) {
		size_t length =
			uaio_insn_length((const uint8_t *)start, end - start);

		if (!length)
			return UAIO_IS_UNKNOWN;
		start += length;
	}
	return start == addr ? UAIO_IS_INSTRUCTION : UAIO_IS_PART;
}

#if defined(__x86_64__)
bool uaio_flow_may_branch(const uint8_t *distance)
{
	return distance[-1] == NEAR_JUMP ||
	       (distance[-2] == 0x0f && (distance[-1] & 0xf0) == 0x80);
}
#endif

/* The registers whose values are known before an instruction. */
struct regs {
	bool is_reached;
	/* bitmap; set: the value of the register is known */
	uaio_insn_regs constant;
	uint32_t value[UAIO_INSN_NR_REGS];
};

struct uaio_flow {
	/* addresses to which other code branches */
	const uintptr_t *entries;
	size_t nr_entries;
	uintptr_t start, end;
	/*
	 * For each byte of the function: the index of the join at this byte, plus 1; 0:
	 * no join. A join is an address to which a branch leads.
	 */
	uint32_t *join_at;
	/*
	 * for each join (address to which a branch leads): which registers have a known
	 * value there
	 */
	struct regs *joins;
	uint32_t nr_joins, nr_met;
	bool has_changed;
};

/*
 * A path with the values in regs leads to the join (an address to which branches lead).
 * Keep only the values that all paths found so far have in common.
 */
static void meet(struct uaio_flow *flow, struct regs *join,
		 const struct regs *regs)
{
	uaio_insn_regs constant = regs->constant;

	if (!join->is_reached) {
		*join = *regs;
		flow->has_changed = true;
		return;
	}
	for (unsigned i = 0; i < UAIO_INSN_NR_REGS; i++)
		if (join->value[i] != regs->value[i])
			constant &= (uaio_insn_regs) ~(1u << i);
	flow->has_changed |= (join->constant & constant) != join->constant;
	join->constant &= constant;
}

static bool is_inside(const struct uaio_flow *flow, uintptr_t addr)
{
	return addr - flow->start < flow->end - flow->start;
}

/* Return: the known registers at addr; NULL if no branch leads to addr. */
static struct regs *join_of(const struct uaio_flow *flow, uintptr_t addr)
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

/*
 * Return: whether the instruction is a jump to a trampoline, by which a patch has
 * replaced a mov to eax (patch.h). *ret_value: the number that this mov loaded.
 */
static bool sets_by_trampoline(const uint8_t *code, size_t length,
			       uint32_t *ret_value)
{
#if defined(__x86_64__)
	uintptr_t target = 0;

	return *code == NEAR_JUMP &&
	       uaio_insn_flow(code, length, &target) == UAIO_FLOW_JUMP &&
	       uaio_region_number_of(target, ret_value);
#else
	/* On aarch64 a patch replaces only the system call, not a mov. */
	(void)code;
	(void)length;
	(void)ret_value;
	return false;
#endif
}

/* Update the known registers: apply the effects of one instruction. */
static void execute(struct regs *regs, const uint8_t *code, size_t length)
{
	uaio_insn_regs writes = uaio_insn_writes(code, length);
	unsigned from, reg = 0;
	uint32_t value = 0;
	bool is_set = true;

	if (uaio_insn_copies(code, length, &from, &reg)) {
		value = regs->value[from];
		is_set = regs->constant >> from & 1;
	} else if (!uaio_insn_sets(code, length, &reg, &value)) {
		is_set = sets_by_trampoline(code, length, &value);
	}
	regs->constant &= (uaio_insn_regs)~writes;
	if (is_set) {
		regs->constant |= (uaio_insn_regs)(1u << reg);
		regs->value[reg] = value;
	}
}

/*
 * Return: whether a jump to target leads to a trampoline, which returns to the code
 * after the jump.
 */
static bool comes_back(uintptr_t target)
{
	uint32_t nr;

	return uaio_region_number_of(target, &nr);
}

/* The instruction is reached, and no register has a known value. */
static const struct regs nothing = { .is_reached = true };

/* Decode the whole function once. see: called for each system call; may be NULL. */
static void pass_through(struct uaio_flow *flow, uaio_flow_see_fn *see,
			 void *arg)
{
	struct regs regs = nothing;
	uintptr_t at = flow->start;
	/*
	 * the processor never continues from the previous instruction to this one
	 */
	bool has_ended = false;

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
			/*
			 * No known code leads to this instruction, so unknown code
			 * does. So the values of all registers are unknown.
			 */
			regs = nothing;
		}
		if (see && uaio_insn_is_syscall(code, length)) {
			const struct uaio_flow_call call = {
				.addr = at,
				.is_known = regs.is_reached &&
					    regs.constant & UAIO_INSN_NUMBER,
				.nr = regs.value[UAIO_INSN_NUMBER_REG],
			};

			see(arg, flow, &call);
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

static void add_join(struct uaio_flow *flow, uintptr_t addr)
{
	if (is_inside(flow, addr) && !flow->join_at[addr - flow->start])
		flow->join_at[addr - flow->start] = ++flow->nr_joins;
}

/*
 * Find all joins: the addresses to which branches lead.
 * Return: false if such an address cannot be found out, or an instruction is unknown.
 */
static bool find_joins(struct uaio_flow *flow)
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

/*
 * Find which registers have a known value before each instruction. Then call see() for
 * each system call.
 * Return: false if a branch leads into the middle of an instruction, or if PASSES_MAX
 * passes are not enough.
 */
static bool follow(struct uaio_flow *flow, uaio_flow_see_fn *see, void *arg)
{
	unsigned passes = 0;

	/*
	 * Code outside the function may branch to an entry. Then any register may have
	 * any value.
	 */
	for (size_t i = 0; i < flow->nr_entries; i++) {
		struct regs *join = join_of(flow, flow->entries[i]);

		if (join)
			*join = nothing;
	}
	do {
		if (++passes > PASSES_MAX)
			return false;
		pass_through(flow, NULL, NULL);
		/*
		 * If no instruction begins at some join, a branch leads into the middle
		 * of an instruction: give up.
		 */
		if (flow->nr_met < flow->nr_joins)
			return false;
	} while (flow->has_changed);
	pass_through(flow, see, arg);
	return true;
}

/*
 * Other code may branch to an entry, so treat the entry as a join. But ignore an entry
 * at which no instruction begins: the bytes that looked like a branch were no branch.
 */
static void add_entries(struct uaio_flow *flow)
{
	for (size_t i = 0; i < flow->nr_entries; i++)
		if (is_inside(flow, flow->entries[i]) &&
		    uaio_flow_look_for(flow->start, flow->end,
				       flow->entries[i]) == UAIO_IS_INSTRUCTION)
			add_join(flow, flow->entries[i]);
}

static void *allocate(size_t bytes)
{
	return sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS);
}

bool uaio_flow_follow(const struct uaio_function *function,
		      const uintptr_t *entries, size_t nr_entries,
		      uaio_flow_see_fn *see, void *arg)
{
	size_t bytes = function->end - function->start, room;
	struct uaio_flow flow = { .entries = entries,
				  .nr_entries = nr_entries,
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
			is_known = follow(&flow, see, arg);
			(void)sys_munmap(flow.joins, room);
		}
	}
	(void)sys_munmap(flow.join_at, bytes * sizeof(*flow.join_at));
	return is_known;
}

bool uaio_flow_is_target(const struct uaio_flow *flow, uintptr_t addr)
{
	return join_of(flow, addr) != NULL;
}
