/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* L_timer: it keeps the watchdog off, answers the host's question whether it runs, and every fourth time does what waits
 * for time to pass. */
#include "ncp.h"

void start_timers(void)
{
	*reg(IT0) = L_TIMER_US;
#ifdef NCP_DETECTING
	*reg(IT1) = WATCHDOG_US;
	*reg(IMR) = ISR_IT1;
#endif
}

#ifdef NCP_DETECTING
/* Whether a buffer is being filled for a message that is said to be fetched. */
static u32 is_fetched(const struct send_token *token)
{
	for (u32 i = 0; i < 2; i++)
		if (ncp.send_buffers[i].token == token && ncp.send_buffers[i].state == BUFFER_FETCHING)
			return 1;
	return 0;
}
#endif

/* Sends again what nobody answered, and looks whether what is known of the port's messages fits together. */
static void retry(struct port *port, u32 now)
{
	struct send_token *oldest = 0;
	u32 queued = 0, is_damaged = 0;
	for (u32 i = 0; i < SEND_TOKENS; i++) {
		struct send_token *token = &port->sends[i];
#ifdef NCP_DETECTING
		queued += token->state == TOKEN_QUEUED;
		if (token->state == TOKEN_FETCHING && !is_fetched(token))
			is_damaged = 1;
#endif
		if (token->state == TOKEN_ON_THE_WAY && is_due(token->sent_us + RETRY_US, now) &&
		    (!oldest || (int)(token->order - oldest->order) < 0))
			oldest = token;
	}
#ifdef NCP_DETECTING
	if (is_damaged || queued != port->queued)
		*reg(HOST_INTERRUPT) = HOST_INTERRUPT_FATAL;
#else
	(void)queued, (void)is_damaged;
#endif
	if (!oldest)
		return;
	if (++oldest->tries >= SEND_TRIES_MAX)
		end_sends(port, oldest, oldest->sequence + SEND_TOKENS, 0, STATUS_TIMED_OUT);
	else
		send_again(port, oldest, oldest->sequence, 0, 0);
}

static void alarm(struct port *port, u32 now)
{
	if (!port->alarm_is_set || !is_due(port->alarm_at_us, now))
		return;
	struct waiting_event *event = new_event(port_number(port), EVENT_ALARM);
	if (!event)
		return;
	event->words[1] = port->alarm_token;
	port->alarm_is_set = 0;
}

void l_timer(void)
{
	u32 now = now_us();
	start_timers();
	*reg(PONG) = ~*reg(PING);
	if (++ncp.ticks % 4)
		return;
	for (u32 i = 0; i < PORTS; i++) {
		if (ncp.ports[i].state != PORT_OPEN)
			continue;
		retry(&ncp.ports[i], now);
		alarm(&ncp.ports[i], now);
	}
}
