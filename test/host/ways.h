/* SPDX-License-Identifier: MIT */
/*
 * All ways in which a program can make a descriptor refer to another file. After each
 * function, the descriptor `fd` refers to the file of the descriptor `other`.
 */
#ifndef HOST_WAYS_H
#define HOST_WAYS_H

enum { FAR = 300 }; /* higher than all descriptors that open() returns here */

struct host_way {
	const char *name;
	void (*replace)(int fd, int other);
};

extern const struct host_way host_ways[]; /* the last element has no name */

/* Return: a descriptor of a new file without a name. */
int host_nameless(void);
/* Move the open file of fd to the descriptor `number`, and close fd. */
void host_move(int fd, int number);
/* Check that the file consists of exactly this text. */
void host_check_text(int fd, const char *text);

#endif /* HOST_WAYS_H */
