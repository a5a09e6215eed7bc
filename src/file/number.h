/* SPDX-License-Identifier: MIT */
/*
 * The number that calls on an open file are made on: what file.c needs of
 * number.c besides file.h. At first it is the client's; if that goes while
 * requests wait, a duplicate of ours takes its place, or none. A terminal has one
 * more, for calls that are not to block (terminal.h).
 */
#ifndef UAIO_FILE_NUMBER_H
#define UAIO_FILE_NUMBER_H

struct uaio_file;
struct uaio_file_ops;

/* From nothing. */
void uaio_file_numbers_init(const struct uaio_file_ops *ops);

/* The file has a number of its own by now. */
void uaio_file_note_private(struct uaio_file *file);

/* The number goes and there is none to take its place: requests get -EBADF. */
void uaio_file_lose_number(struct uaio_file *file);

/*
 * What the number was is gone. Nothing is to be done on what it is now, not
 * even to take it out of an epoll.
 */
void uaio_file_forget_number(struct uaio_file *file);

/* The file goes: close what numbers of its own it has. */
void uaio_file_close_number(struct uaio_file *file);

#endif /* UAIO_FILE_NUMBER_H */
