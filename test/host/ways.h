/* SPDX-License-Identifier: MIT */
/*
 * The ways in which a program gives a descriptor to another file. Each takes a
 * descriptor that is open, and a second one; after it, the first refers to the
 * second one's file.
 */
#ifndef HOST_WAYS_H
#define HOST_WAYS_H

enum { FAR = 300 }; /* a number out of the way of all others */

struct host_way {
	const char *name;
	void (*replace)(int fd, int other);
};

extern const struct host_way host_ways[]; /* the last has no name */

/* A new file without a name. */
int host_nameless(void);
/* Where fd was, at the number. */
void host_move(int fd, int number);
/* The file begins with the text, and has nothing else. */
void host_check_text(int fd, const char *text);

#endif /* HOST_WAYS_H */
