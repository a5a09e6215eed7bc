/* SPDX-License-Identifier: MIT */
/*
 * The ways in which a program can make a descriptor refer to another file. Each
 * function gets an open descriptor and a second one; afterwards the first refers to the
 * second one's file.
 */
#ifndef HOST_WAYS_H
#define HOST_WAYS_H

enum { FAR = 300 }; /* a descriptor far above those that open() returns */

struct host_way {
	const char *name;
	void (*replace)(int fd, int other);
};

extern const struct host_way host_ways[]; /* ends with a row without a name */

/* Return: a new, unlinked file. */
int host_nameless(void);
/* Move fd's open file to the descriptor `number`. */
void host_move(int fd, int number);
/* Check that the file consists of exactly this text. */
void host_check_text(int fd, const char *text);

#endif /* HOST_WAYS_H */
