/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* From the host's memory into a send buffer, a packet's worth at a time; and what becomes of a message on its way. */
#include "ncp.h"

void set_state(struct port *port, struct send_token *token, u32 state)
{
	u32 more = (state == TOKEN_QUEUED) - (token->state == TOKEN_QUEUED);
	port->queued += more;
	ncp.queued += more;
	token->state = state;
}

/* Whether a token's message belongs to the stream that the other one names. */
u32 is_of_stream(const struct send_token *token, const struct send_token *of)
{
	return token->state != TOKEN_FREE && token->stream == of->stream && token->generation == of->generation &&
	       ((token->service ^ of->service) >> 8 & 0xff) == 0 && (token->service & 0xff) != SERVICE_DATAGRAM;
}

/* Ends the messages of a stream up to a number; the host hears of all of them in one event. */
void end_sends(struct port *port, const struct send_token *of, u32 sequence, u32 proof, u32 status)
{
	u32 last = 0, last_token = 0, count = 0;
	if (events_are_full())
		return;
	for (u32 i = 0; i < SEND_TOKENS; i++) {
		struct send_token *token = &port->sends[i];
		if (!is_of_stream(token, of) || (int)(sequence - token->sequence) < 0)
			continue;
		if (!count++ || (int)(token->sequence - last) > 0) {
			last = token->sequence;
			last_token = token->token;
		}
		forget_packets(token);
		set_state(port, token, TOKEN_FREE);
	}
	struct waiting_event *event = count ? new_event(port_number(port), EVENT_SENT) : 0;
	if (!event)
		return;
	event->words[1] = last_token;
	event->words[2] = status;
	event->words[3] = of->stream;
	event->words[4] = of->service >> 8 & 0xff;
	event->words[5] = status == STATUS_OK ? sequence : last;
	event->words[6] = proof;
	event->words[7] = of->generation;
}

/* Sends a stream's messages again from a number and a byte on, at once or later. */
void send_again(struct port *port, const struct send_token *of, u32 sequence, u32 offset, u32 wait_us)
{
	for (u32 i = 0; i < SEND_TOKENS; i++) {
		struct send_token *token = &port->sends[i];
		if (!is_of_stream(token, of) || (int)(token->sequence - sequence) < 0)
			continue;
		forget_packets(token);
		token->next = token->sequence == sequence && offset < token->length ? offset : 0;
		token->not_before_us = now_us() + wait_us;
		set_state(port, token, TOKEN_QUEUED);
	}
}

/* The message of a port whose turn it is: of the higher priority first, the oldest first. */
static struct send_token *next_of(struct port *port, u32 now)
{
	struct send_token *best = 0;
	for (u32 i = 0; i < SEND_TOKENS; i++) {
		struct send_token *token = &port->sends[i];
		if (token->state != TOKEN_QUEUED || !is_due(token->not_before_us, now))
			continue;
		u32 is_higher = best && (token->service & 0x100) > (best->service & 0x100);
		u32 is_lower = best && (token->service & 0x100) < (best->service & 0x100);
		if (!best || is_higher || (!is_lower && (int)(token->order - best->order) < 0))
			best = token;
	}
	return best;
}

/* The next piece, up to the end of a page. */
static __attribute__((noinline)) void fetch_on(struct send_buffer *buffer)
{
	u32 at = buffer->from + buffer->fetched, bytes = buffer->wanted - buffer->fetched;
	u32 in_page = PAGE_BYTES - at % PAGE_BYTES;
	u32 bus = translate(buffer->port, at);
	if (bus == PAGE_MISS)
		return;
	if (bus == PAGE_BAD) {
		sdma_ended(buffer, 1);
		return;
	}
	ncp.dma_send = buffer;
	start_dma(DMA_OF_SDMA, bus, (u32)buffer->packet + PACKET_HEADER_BYTES + buffer->fetched,
		  bytes < in_page ? bytes : in_page, 0);
}

/* Makes the next packet's header in a free buffer, also while the DMA is at something else; whether there was one. */
static __attribute__((noinline)) u32 begin_packet(struct send_buffer *free)
{
	u32 now = now_us();
	for (u32 i = 0; i < PORTS; i++) {
		u32 number = (ncp.next_port + i) % PORTS;
		struct port *port = &ncp.ports[number];
		struct send_token *token = port->queued ? next_of(port, now) : 0;
		if (!token)
			continue;
		ncp.next_port = number + 1;
		services[service_of(token->service)].send_chunk(number, token, free);
		return 1;
	}
	return 0;
}

u32 sdma(void)
{
	struct send_buffer *free = 0, *begun = 0;
	for (u32 i = 0; i < 2; i++) {
		struct send_buffer *buffer = &ncp.send_buffers[i];
		if (buffer->state == BUFFER_FETCHING)
			begun = buffer;
		if (buffer->state == BUFFER_FREE)
			free = buffer;
	}
	/* One after the other: a message has one part at a time under way from the host. */
	u32 did = ncp.queued && !begun && free && !events_are_full() && begin_packet(free);
	if (did)
		begun = free->state == BUFFER_FETCHING ? free : 0;
	ncp.is_fetching = begun != 0;
	if (!begun || ncp.dma_of != DMA_IDLE)
		return did;
	fetch_on(begun);
	return 1;
}

/* A piece is there, or cannot be had. */
void sdma_ended(struct send_buffer *buffer, u32 is_fault)
{
	struct send_token *token = buffer->token;
	struct port *port = &ncp.ports[buffer->port];
	if (!token) {
		buffer->state = BUFFER_FREE;
		return;
	}
	if (is_fault) {
		/* The stream cannot go on without this message. */
		buffer->state = BUFFER_FREE;
		if ((token->service & 0xff) != SERVICE_DATAGRAM) {
			end_sends(port, token, token->sequence + SEND_TOKENS, 0, STATUS_BAD_ADDRESS);
			return;
		}
		buffer->token = 0;
		set_state(port, token, TOKEN_FREE);
		struct waiting_event *event = new_event(buffer->port, EVENT_REFUSED);
		if (event) {
			event->words[1] = token->token;
			event->words[2] = STATUS_BAD_ADDRESS;
		}
		return;
	}
	if (buffer->wanted)
		buffer->fetched += ncp.dma_bytes;
	if (buffer->fetched < buffer->wanted)
		return;
	buffer->state = BUFFER_READY;
	token->next += buffer->wanted;
	token->sent_us = now_us();
	if (token->next < token->length) {
		set_state(port, token, TOKEN_QUEUED);
	} else if ((token->service & 0xff) != SERVICE_DATAGRAM) {
		set_state(port, token, TOKEN_ON_THE_WAY);
	} else {
		/* Nobody answers a datagram: it is sent when it is on its way. */
		buffer->token = 0;
		set_state(port, token, TOKEN_FREE);
		struct waiting_event *event = new_event(buffer->port, EVENT_SENT);
		if (event) {
			event->words[1] = token->token;
			event->words[3] = token->stream;
			event->words[4] = token->service >> 8 & 0xff;
			event->words[7] = token->generation;
		}
	}
}
