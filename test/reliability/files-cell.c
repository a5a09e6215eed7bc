/* SPDX-License-Identifier: MIT */
/*
 * The contents of cells (pieces of a file, files.h), and which thread owns each cell.
 */
#include "files.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { WORDS = CELL / 8 };

/*
 * Lengths of stripes (adjacent cells with one owner). In the half of the file with
 * buffered writes, a length is a number of cells, so that several owners share a page.
 * In the half with direct writes, a length is a number of pages.
 */
static const uint8_t buffered_lengths[] = { 5, 3, 37, 1, 18 };
static const uint8_t direct_lengths[] = { 1, 4, 2, 9 };

void cells_assign(void)
{
	unsigned nr_buffered = 0, nr_direct = 0, cell = 0;

	for (struct stripe *stripe = run.stripes; cell < NR_CELLS; stripe++) {
		unsigned index =
			is_direct_cell(cell) ? nr_direct++ : nr_buffered++;

		*stripe = (struct stripe){
			.first = (uint16_t)cell,
			.nr = is_direct_cell(cell)
				      ? direct_lengths[index % 4] * PAGE_CELLS
				      : buffered_lengths[index % 5],
			.owner = (uint8_t)((index + run.round) % NR_OWNERS),
		};
		memset(run.owners + cell, stripe->owner, stripe->nr);
		cell += stripe->nr;
	}
	if (nr_buffered + nr_direct != NR_STRIPES)
		fail("%u stripes", nr_buffered + nr_direct);
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static void make_words(uint64_t words[WORDS], unsigned cell, uint32_t version)
{
	uint64_t place = (uint64_t)cell << 32 | version;
	uint64_t key = mix(run.seed + mix(place + ((uint64_t)run.round << 56)));

	if (version == 0) {
		memset(words, 0, CELL);
		return;
	}
	words[0] = place;
	words[1] = (uint64_t)run.round << 8 | run.owners[cell];
	/*
	 * The words differ little from each other, so that a file system that
	 * compresses has something to compress.
	 */
	for (unsigned i = 2; i < WORDS; i++)
		words[i] = key + i;
}

void cell_fill(char *to, unsigned cell, uint32_t version)
{
	uint64_t words[WORDS];

	make_words(words, cell, version);
	memcpy(to, words, CELL);
}

static bool is_version(const char *bytes, unsigned cell, uint32_t version)
{
	uint64_t words[WORDS];

	make_words(words, cell, version);
	return !memcmp(bytes, words, CELL);
}

/*
 * Return: whether each byte equals the byte at the same place in one of the versions
 * `low` to `high`.
 */
static bool is_mixture(const char *bytes, unsigned cell, uint32_t low,
		       uint32_t high)
{
	uint64_t words[WORDS];
	bool is_known[CELL] = { false };

	for (uint32_t version = low; version <= high; version++) {
		make_words(words, cell, version);
		for (unsigned i = 0; i < CELL; i++)
			is_known[i] |= bytes[i] == ((const char *)words)[i];
	}
	return !memchr(is_known, false, CELL);
}

/* Write to `ret` what the bytes are: zeros, a version of a cell, or neither. */
static void describe(const char *bytes, char *ret, size_t ret_bytes)
{
	uint64_t words[WORDS];
	uint32_t version;
	unsigned cell;

	memcpy(words, bytes, CELL);
	version = (uint32_t)words[0];
	cell = (unsigned)(words[0] >> 32);
	if (is_version(bytes, 0, 0))
		snprintf(ret, ret_bytes, "zeros");
	else if (cell < NR_CELLS && is_version(bytes, cell, version))
		snprintf(ret, ret_bytes, "version %" PRIu32 " of cell %u",
			 version, cell);
	else
		snprintf(ret, ret_bytes,
			 "no whole cell, with words %#" PRIx64 ", %#" PRIx64
			 " and at last %#" PRIx64,
			 words[0], words[1], words[WORDS - 1]);
}

void cell_check(const char *bytes, unsigned cell, uint32_t low, uint32_t high,
		bool may_be_torn, const char *reader)
{
	char found[160];
	uint64_t word;

	memcpy(&word, bytes, sizeof(word));
	if ((uint32_t)word >= low && (uint32_t)word <= high &&
	    is_version(bytes, cell, (uint32_t)word))
		return;
	if (may_be_torn && low < high && is_mixture(bytes, cell, low, high))
		return;
	describe(bytes, found, sizeof(found));
	fail("%s finds %s in cell %u of owner %u, of which versions %" PRIu32
	     " to %" PRIu32 " may be there, in round %u",
	     reader, found, cell, run.owners[cell], low, high, run.round);
}
