/* SPDX-License-Identifier: MIT */
/*
 * Before the process exits or executes another program: finish accepted requests (gate.h), and
 * report (report.h)
 *
 * Tested by test/host/leaving*.c, where there is a process to end.
 */
#include "proc/process.h"
#include "live/live.h"
#include "flow/gate.h"
#include "life/life.h"
#include "life/report.h"

void uaio_engine_exiting(void)
{
	if (uaio_engine_is_ours())
		uaio_gate_end();
	uaio_report(false);
	if (uaio_engine_is_ours())
		uaio_live_remove();
}

bool uaio_engine_leave(void)
{
	if (!uaio_engine_is_ours() || !uaio_gate_leave())
		return false;
	uaio_report(true);
	/*
	 * Reporting may take so long that threads that wait at the gate time out (gate.h, I4).
	 */
	uaio_gate_leave_again();
	uaio_live_set_state(UAIO_LIVE_LEAVING);
	return true;
}

void uaio_engine_stay(void)
{
	uaio_live_set_state(UAIO_LIVE_ON);
	uaio_gate_stay();
}
