/* SPDX-License-Identifier: MIT */
/*
 * Readiness, inside: what ready.c (lanes), run.c (trying), watch.c (the epoll),
 * commons.c and standby.c share. Nobody else includes this.
 */
#ifndef UAIO_ENGINE_READYINT_H
#define UAIO_ENGINE_READYINT_H

#include "base/check.h"
#include "file/file.h"
#include "engine/ready.h"
#include "engine/req.h"

enum uaio_watch_place {
	UAIO_WATCH_IDLE,
	UAIO_WATCH_KICKED,
	UAIO_WATCH_FRESH,
	UAIO_WATCH_UNARMED,
	UAIO_WATCH_REFUSED,
};

struct uaio_watch {
	struct uaio_slab_node node;

	struct uaio_file *file;   /* atomic; borrows: goes with it */
	struct uaio_group *group; /* atomic; borrows: goes with it */
	uint32_t generation;      /* atomic: which use of this memory */

	/* under the file's lock */
	struct list in_file;
	uint32_t armed; /* EPOLL*: what the epoll tells; 0: it knows nothing */

	/* under the lock of the group's struct uaio_ready */
	struct list in_group;
	struct list
		in_list; /* of that place; idle: of personal ones, or none */
	enum uaio_watch_place place;
	uint32_t lanes;      /* bits: which are to be run */
	bool is_unarmed;     /* something was parked that armed may not cover */
	bool is_untried;     /* or whose edge may be over */
	uint32_t nr_fresh;   /* how often something was parked */
	uint32_t seen_fresh; /* at the last look for what is stale */
};

extern struct uaio_ready_tuning uaio_ready_tuning;
extern struct uaio_ready_counters uaio_ready_counters; /* atomic, relaxed */

static inline void uaio_ready_add(uint64_t *counter, uint64_t nr)
{
	add_relaxed(counter, nr);
}

static inline enum uaio_lane_id uaio_lane_id_of(const struct uaio_req *req)
{
	switch (uaio_optab[req->sqe.op].class) {
	case UAIO_CLASS_POLL: return UAIO_LANE_POLL;
	case UAIO_CLASS_WRITE: return UAIO_LANE_WRITE;
	default: return UAIO_LANE_READ;
	}
}

/* What the epoll has to tell for a request. */
uint32_t uaio_ready_events_of(const struct uaio_req *req);

/*
 * Note that the epoll has said events of file, whose lock is held, of which it
 * would say those of armed. Return: which lanes are to be run.
 */
uint32_t uaio_file_note_edge_locked(struct uaio_file *file, uint32_t armed,
				    uint32_t events);

/* Return: the watch of group on file, whose lock is held; or NULL. */
struct uaio_watch *uaio_watch_find_locked(const struct uaio_group *group,
					  const struct uaio_file *file);

/*
 * Lanes of the watch are to be run. is_armed: what is parked in them is known to
 * the epoll. Its file's lock is held.
 */
void uaio_watch_kick(struct uaio_watch *watch, uint32_t lanes, bool is_armed);

/*
 * A call said it would have to wait. Return: whether the file, whose number is
 * fd, is ready all the same: then no edge may come.
 */
bool uaio_ready_is_doubtful(const struct uaio_req *req, int fd);

/* Lanes are doubtful: they are tried again after a while. File locked. */
void uaio_watch_doubt(struct uaio_watch *watch, uint32_t lanes);

/* Return: whether the epoll would tell what a request waits for; file locked. */
static inline bool uaio_watch_tells_locked(const struct uaio_watch *watch,
					   uint32_t events)
{
	return watch->armed && (watch->armed & events) == events;
}

/*
 * Return: whether the epoll was told of the file before the request was tried,
 * and may have nothing more to tell: some files poll ready though a call would
 * have to wait.
 */
static inline bool uaio_watch_may_not_tell_locked(const struct uaio_req *req)
{
	return !(req->file->flags & UAIO_FILE_F_CERTAIN) &&
	       uaio_watch_tells_locked(req->watch, uaio_ready_events_of(req));
}

/*
 * A lane of file, whose lock is held, is to be run for the oldest in it: by the
 * standby thread, unless that is of the group that runs.
 */
void uaio_lane_kick_locked(struct uaio_file *file, enum uaio_lane_id id,
			   const struct uaio_group *runs);

/*
 * Requests were parked in it that nobody has looked at. is_untried: nor tried
 * since the latest edge, which will not be told again.
 */
void uaio_watch_freshen(struct uaio_watch *watch, uint32_t lanes,
			bool is_untried);

/*
 * Take the next that is to be run; with_fresh: also one that was parked since
 * anybody looked, which is noted as unarmed then.
 * Return: its file, with a reference, and lanes; or NULL.
 */
struct uaio_file *uaio_watch_pop_locked(struct uaio_ready *ready,
					bool with_fresh, uint32_t *ret_lanes,
					bool *ret_was_fresh);

/* One that is neither parked nor being tried any more. */
static inline void uaio_lane_count_out(struct uaio_lane *lane,
				       struct uaio_req *req)
{
	/* relaxed, both: submitters peek; others look after locks */
	store_relaxed(&lane->nr, load_relaxed(&lane->nr) - 1);
	sub_relaxed(&uaio_ready_home(&req->group->ready)->ready.nr_parked, 1);
}

/*
 * Kick what may be ready for who calls, and was not for who was told: the epoll
 * asks a file for the thread that sleeps there.
 */
void uaio_ready_kick_personal(struct uaio_ready *ready);

/* watch.c */
void uaio_watches_init(void);
/* The group goes away, and no request of it is left. */
void uaio_watches_leave(struct uaio_group *group);

#endif /* UAIO_ENGINE_READYINT_H */
