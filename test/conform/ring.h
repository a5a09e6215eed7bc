/* SPDX-License-Identifier: MIT */
/*
 * The completion ring at the address a handle is, as clients read it.
 */
#ifndef CONFORM_RING_H
#define CONFORM_RING_H

#include <linux/aio_abi.h>

struct ring {
	unsigned int id;
	unsigned int nr;
	unsigned int head;
	unsigned int tail;
	unsigned int magic;
	unsigned int compat_features;
	unsigned int incompat_features;
	unsigned int header_length;
	struct io_event events[];
};

#endif
