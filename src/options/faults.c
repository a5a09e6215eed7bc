/* SPDX-License-Identifier: MIT */
/*
 * The parser of the option --fault. Tested by test-fault.c and test/run/faults.py.
 */
#include "options/faults.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "options/names.h"

#define BIT(op) (UINT64_C(1) << (op))

static_assert(UAIO_NR_OPS <= 64, "a bit for each operation");

/*
 * The fault REORDER delays completions by at most this time, if the user gives none.
 */
static const int64_t REORDER_NS = 1000000;
/* The parser refuses a longer time, as it is probably a mistake of the user. */
static const uint64_t TIME_MAX_NS = UINT64_C(3600) * 1000000000;

const char *const uaio_fault_names[UAIO_NR_FAULT_KINDS] = {
	[UAIO_FAULT_ERROR] = "error", [UAIO_FAULT_SHORT] = "short",
	[UAIO_FAULT_DELAY] = "delay", [UAIO_FAULT_REORDER] = "reorder",
	[UAIO_FAULT_DEFER] = "defer",
};

/* A part of the text to parse. */
struct part {
	const char *at;
	size_t len;
};

/* The buffer for the part of an error message that says which values are valid. */
struct expected {
	char *text;
	size_t len;
};

static bool is_word(const struct part *part, const char *word)
{
	return part->len == strlen(word) && !memcmp(part->at, word, part->len);
}

/*
 * Take the text before the first separator: store this text in *ret_part, and remove
 * the text and the separator from *from.
 * Return: whether there was a separator; if not, *ret_part gets all text.
 */
static bool take(struct part *from, const char *separators,
		 struct part *ret_part)
{
	size_t len = 0;

	while (len < from->len && !strchr(separators, from->at[len]))
		len++;
	*ret_part = (struct part){ from->at, len };
	if (len == from->len) {
		*from = (struct part){ from->at + len, 0 };
		return false;
	}
	*from = (struct part){ from->at + len + 1, from->len - len - 1 };
	return true;
}

static int expect(const struct expected *expected, const char *what,
		  const struct part *instead)
{
	int shown = instead->len < 16 ? (int)instead->len : 16;

	if (!expected->len)
		return -EINVAL;
	(void)snprintf(expected->text, expected->len, "%s, not '%.*s'", what,
		       shown, instead->at);
	for (char *c = expected->text; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	return -EINVAL;
}

/* Parse decimal digits. Return: 0 or -EINVAL. */
static int read_number(const struct part *part, uint64_t max, uint64_t *ret)
{
	uint64_t number = 0;

	if (!part->len)
		return -EINVAL;
	for (size_t i = 0; i < part->len; i++) {
		unsigned digit = (unsigned)part->at[i] - '0';

		if (digit > 9 || digit > max || number > (max - digit) / 10)
			return -EINVAL;
		number = number * 10 + digit;
	}
	*ret = number;
	return 0;
}

/*
 * Parse a probability such as 0.01: more than 0, at most 1, up to nine decimal places.
 */
static int read_chance(struct part part, uint32_t *ret)
{
	uint64_t whole, places = 0;
	struct part before;
	bool has_point = take(&part, ".", &before);

	if (read_number(&before, 1, &whole) < 0 || part.len > 9 ||
	    (has_point &&
	     read_number(&part, UAIO_FAULT_CERTAIN - 1, &places) < 0))
		return -EINVAL;
	for (size_t i = part.len; i < 9; i++)
		places *= 10;
	places += whole * UAIO_FAULT_CERTAIN;
	if (!places || places > UAIO_FAULT_CERTAIN)
		return -EINVAL;
	*ret = (uint32_t)places;
	return 0;
}

/* Parse a time such as 5ms. */
static int read_time(const struct part *part, int64_t *ret)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {
		{ "ns", 1 },
		{ "us", 1000 },
		{ "ms", 1000000 },
		{ "s", 1000000000 },
	};
	struct part number = *part, unit;
	uint64_t value;

	number.len = 0;
	while (number.len < part->len &&
	       (unsigned)part->at[number.len] - '0' <= 9)
		number.len++;
	unit = (struct part){ part->at + number.len, part->len - number.len };
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (!is_word(&unit, units[i].name))
			continue;
		if (read_number(&number, TIME_MAX_NS / units[i].ns, &value) <
			    0 ||
		    !value)
			return -EINVAL;
		*ret = (int64_t)(value * units[i].ns);
		return 0;
	}
	return -EINVAL;
}

/*
 * The operation that no fault may name. A front-end (kernel AIO, io_uring or POSIX AIO)
 * uses this operation to execute a function of its own.
 */
static const uint64_t UNNAMED = BIT(UAIO_OP_CALLED);
static const uint64_t TIMERS = BIT(UAIO_OP_TIMER) | BIT(UAIO_OP_LINK_TIMER);

static const struct {
	const char *name;
	uint64_t ops;
} groups[] = {
	{ "read",
	  BIT(UAIO_OP_READ) | BIT(UAIO_OP_READV) | BIT(UAIO_OP_READ_SELECT) },
	{ "write", BIT(UAIO_OP_WRITE) | BIT(UAIO_OP_WRITEV) },
	{ "sync", BIT(UAIO_OP_FSYNC) | BIT(UAIO_OP_FDSYNC) |
			  BIT(UAIO_OP_SYNC_FILE_RANGE) },
	/*
	 * "any" contains only operations on open files and sockets. It omits close: the
	 * program would not close the file again, so an injected error would leak the
	 * file.
	 */
	{ "any", (BIT(UAIO_OP_NOP) - 1) | BIT(UAIO_OP_READ_SELECT) |
			 (BIT(UAIO_OP_MADVISE) - BIT(UAIO_OP_FALLOCATE)) },
};
enum { NR_GROUPS = sizeof(groups) / sizeof(groups[0]) };

/*
 * part: the name of an operation, or of a group of operations.
 * Return: a bit for each operation that the name stands for; 0: the name is unknown.
 */
static uint64_t ops_of(const struct part *part)
{
	for (int i = 0; i < NR_GROUPS; i++)
		if (is_word(part, groups[i].name))
			return groups[i].ops;
	for (unsigned op = 0; op < UAIO_NR_OPS; op++)
		if (is_word(part, uaio_op_names[op]))
			return BIT(op);
	return 0;
}

static int read_operation(const struct part *part, struct uaio_fault *fault,
			  const struct expected *expected)
{
	fault->ops = ops_of(part);
	if (fault->ops & TIMERS)
		return expect(expected, "an operation other than timers", part);
	if (!fault->ops || fault->ops & UNNAMED)
		return expect(expected,
			      "an operation such as read, write, fsync or any",
			      part);
	return 0;
}

static bool is_transfer(uint64_t ops)
{
	return ops &
	       (BIT(UAIO_OP_READ) | BIT(UAIO_OP_READV) | BIT(UAIO_OP_WRITE) |
		BIT(UAIO_OP_WRITEV) | BIT(UAIO_OP_SEND) | BIT(UAIO_OP_RECV));
}

/* Parse what a fault does, for example eio, short or delay=5ms. */
static int read_kind(struct part part, struct uaio_fault *fault,
		     const struct expected *expected)
{
	struct part word, all = part;
	bool has_value = take(&part, "=", &word);

	fault->time_ns = REORDER_NS;
	if (is_word(&word, "delay") || is_word(&word, "reorder") ||
	    is_word(&word, "defer")) {
		fault->kind = is_word(&word, "delay")   ? UAIO_FAULT_DELAY
			      : is_word(&word, "defer") ? UAIO_FAULT_DEFER
							: UAIO_FAULT_REORDER;
		if (!has_value && fault->kind == UAIO_FAULT_REORDER)
			return 0;
		return read_time(&part, &fault->time_ns) < 0
			       ? expect(expected,
					"a time such as delay=5ms, in ns, us, "
					"ms or s, up to 3600s",
					&all)
			       : 0;
	}
	if (is_word(&all, "short")) {
		fault->kind = UAIO_FAULT_SHORT;
		return is_transfer(fault->ops)
			       ? 0
			       : expect(expected,
					"short for pread, pwrite, preadv, "
					"pwritev, send or recv",
					&all);
	}
	fault->kind = UAIO_FAULT_ERROR;
	fault->error = uaio_error_of(all.at, all.len);
	return fault->error
		       ? 0
		       : expect(expected,
				"short, delay=TIME, defer=TIME, reorder or an "
				"error such as eio",
				&all);
}

static int read_path(const struct part *value, struct uaio_fault *fault)
{
	if (!value->len || value->len >= sizeof(fault->path))
		return -EINVAL;
	memcpy(fault->path, value->at, value->len);
	fault->path[value->len] = '\0';
	return 0;
}

/* Parse ranges of requests such as 3+17-20: the requests 3 and 17 to 20. */
static int read_only(struct part part, struct uaio_faults *faults,
		     struct uaio_fault *fault)
{
	struct part range, first;
	bool is_more = true;

	fault->only = faults->nr_ranges;
	while (is_more) {
		struct uaio_fault_range *ret =
			&faults->ranges[faults->nr_ranges];
		bool has_last;

		if (faults->nr_ranges == UAIO_FAULT_RANGES_MAX)
			return -EINVAL;
		is_more = take(&part, "+", &range);
		has_last = take(&range, "-", &first);
		if (read_number(&first, UINT64_MAX, &ret->first) < 0 ||
		    !ret->first)
			return -EINVAL;
		ret->last = ret->first;
		if (has_last &&
		    (read_number(&range, UINT64_MAX, &ret->last) < 0 ||
		     ret->last < ret->first))
			return -EINVAL;
		faults->nr_ranges++;
	}
	fault->nr_only = faults->nr_ranges - fault->only;
	return 0;
}

/*
 * Return: the member of *fault that this key sets, if its value is a number; NULL:
 * there is no such key.
 */
static uint64_t *number_of(struct uaio_fault *fault, const struct part *key)
{
	return is_word(key, "seed")    ? &fault->seed
	       : is_word(key, "after") ? &fault->after
	       : is_word(key, "every") ? &fault->every
	       : is_word(key, "count") ? &fault->count
	       : is_word(key, "min")   ? &fault->min_len
				       : NULL;
}

static int read_key(struct part part, struct uaio_faults *faults,
		    struct uaio_fault *fault, const struct expected *expected)
{
	struct part key, all = part;
	bool has_value = take(&part, "=", &key);
	uint64_t *number = number_of(fault, &key);

	if (has_value && is_word(&key, "path"))
		return read_path(&part, fault) < 0
			       ? expect(expected,
					"path= a pattern of up to 255 "
					"characters",
					&all)
			       : 0;
	if (has_value && is_word(&key, "p"))
		return read_chance(part, &fault->chance) < 0
			       ? expect(expected,
					"p= more than 0, at most 1, to nine "
					"places",
					&all)
			       : 0;
	if (has_value && is_word(&key, "only"))
		return read_only(part, faults, fault) < 0
			       ? expect(expected,
					"only= up to 256 numbers from 1, as "
					"in only=3+17-20",
					&all)
			       : 0;
	if (!has_value || !number)
		return expect(expected,
			      "p=, seed=, after=, every=, count=, only=, min= "
			      "or path= behind the @",
			      &all);
	/*
	 * Refuse every=0 and count=0, by which no request would ever get the fault.
	 */
	if (read_number(&part, UINT64_MAX, number) < 0 ||
	    (!*number && (number == &fault->every || number == &fault->count)))
		return expect(expected,
			      "a number, and for every= and count= 1 or more",
			      &all);
	return 0;
}

/* Parse one fault, and append it to *faults. */
static int read_fault(struct part part, struct uaio_faults *faults,
		      const struct expected *expected)
{
	struct uaio_fault *fault = &faults->faults[faults->nr];
	struct part operation, kind, key, all = part;
	bool has_keys;

	*fault =
		(struct uaio_fault){ .chance = UAIO_FAULT_CERTAIN, .every = 1 };
	if (!take(&part, ":", &operation))
		return expect(expected,
			      "OPERATION:FAULT, as in write:eio@p=0.01", &all);
	has_keys = take(&part, "@", &kind);
	if (read_operation(&operation, fault, expected) < 0 ||
	    read_kind(kind, fault, expected) < 0)
		return -EINVAL;
	while (has_keys) {
		has_keys = take(&part, ",", &key);
		if (read_key(key, faults, fault, expected) < 0)
			return -EINVAL;
	}
	return 0;
}

int uaio_faults_parse(const char *text, struct uaio_faults *ret, char *expected,
		      size_t len)
{
	const struct expected complaint = { expected, len };
	struct part all = { text, strlen(text) }, part;
	bool is_more = true;

	while (is_more) {
		is_more = take(&all, "; \t\n", &part);
		if (!part.len)
			continue;
		if (ret->nr == UAIO_FAULTS_MAX)
			return expect(&complaint, "at most 16 faults", &part);
		if (read_fault(part, ret, &complaint) < 0)
			return -EINVAL;
		ret->nr++;
	}
	part = (struct part){ text, strlen(text) };
	return ret->nr ? 0
		       : expect(&complaint,
				"OPERATION:FAULT, as in write:eio@p=0.01",
				&part);
}

int uaio_operations_parse(const char *text, uint64_t *ret_ops)
{
	struct part all = { text, strlen(text) }, part;
	uint64_t ops = 0, of_part = 1;
	bool is_more = true;

	while (is_more && of_part) {
		is_more = take(&all, ",", &part);
		of_part = ops_of(&part);
		ops |= of_part;
	}
	if (!of_part)
		return -EINVAL;
	*ret_ops = ops;
	return 0;
}

int uaio_time_parse(const char *text, int64_t *ret_ns)
{
	const struct part part = { text, strlen(text) };

	return read_time(&part, ret_ns);
}

bool uaio_fault_matches(const char *pattern, const char *text)
{
	const char *star = NULL, *tried = NULL;

	while (*text) {
		if (*pattern == '*') {
			star = pattern++;
			tried = text;
		} else if (*pattern == '?' || *pattern == *text) {
			pattern++;
			text++;
		} else if (star) {
			/*
			 * The rest of text does not match the rest of pattern. Let the
			 * last * match one more character, and try again.
			 */
			pattern = star + 1;
			text = ++tried;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}
