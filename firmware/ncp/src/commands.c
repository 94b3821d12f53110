/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What ports ask for. A command that cannot be is answered with an event and changes nothing. */
#include "ncp.h"

static void refused(u32 port, const u32 *command, u32 status)
{
	struct waiting_event *event = new_event(port, EVENT_REFUSED);
	if (!event)
		return;
	event->words[1] = command[1];
	event->words[2] = status;
	event->words[3] = command[0];
}

/* What is written of this packet goes on being written, and is the last part of no message. */
static void disown(struct receive_buffer *buffer)
{
	buffer->stream = 0;
	buffer->place = 0;
	buffer->packet[HEADER_MESSAGE_BYTES] = ~0u;
}

static void open(u32 number, const u32 *command)
{
	struct port *port = &ncp.ports[number];
	for (u32 i = 0; i < SEND_TOKENS; i++) {
		forget_packets(&port->sends[i]);
		set_state(port, &port->sends[i], TOKEN_FREE);
	}
	for (u32 i = 0; i < RECEIVE_TOKENS; i++)
		port->receives[i].state = 0;
	forget_pages(number);
	port->alarm_is_set = 0;
	/* What arrived for whoever had the port before is none of its events, and acknowledges nothing. */
	for (u32 i = 0; i < 2; i++)
		if (ncp.receive_buffers[i].state == ARRIVED_WRITING && ncp.receive_buffers[i].port == number)
			disown(&ncp.receive_buffers[i]);
	for (u32 i = ncp.events_first; i != ncp.events_end; i++)
		if (ncp.events[i % EVENTS_WAITING].port == number)
			ncp.events[i % EVENTS_WAITING].stream = 0;
	port->generation = command[1];
	port->events_posted = port->events_consumed = command[2];
	port->verifies = command[3] & OPEN_VERIFIES;
	port->state = PORT_OPENING;
	/* Whoever had the port before has no streams any more. */
	for (u32 i = 0; i < STREAMS; i++)
		if (i / PRIORITIES % PORTS == number)
			ncp.streams[i].generation = ncp.streams[i].next = ncp.streams[i].buffer = 0;
}

static void ask_to_send(u32 number, const u32 *command)
{
	struct port *port = &ncp.ports[number];
	struct send_token *token = 0;
	u32 service = service_of(command[SEND_SERVICE]), target = command[SEND_TARGET];
	for (u32 i = 0; i < SEND_TOKENS && !token; i++)
		if (port->sends[i].state == TOKEN_FREE)
			token = &port->sends[i];
	u32 status = !token ? STATUS_NO_TOKEN
		     : service == SERVICES || target >> 8 >= NODES || (target & 0xff) >= PORTS ||
				     !ncp.routes[target >> 8]
			     ? STATUS_BAD_TARGET
			     : services[service].check(command);
	if (status != STATUS_OK) {
		refused(number, command, status);
		return;
	}
	token->token = command[SEND_TOKEN];
	token->address = command[SEND_ADDRESS];
	token->length = command[SEND_LENGTH];
	token->stream = ncp.node << 24 | number << 16 | (target >> 8) << 8 | (target & 0xff);
	token->service = command[SEND_SERVICE];
	token->checksum = command[SEND_CHECKSUM];
	token->remote = command[SEND_REMOTE];
	token->flags = command[SEND_FLAGS];
	token->generation = command[SEND_GENERATION];
	token->order = port->orders++;
	token->next = token->tries = 0;
	token->not_before_us = now_us();
	token->sequence = command[SEND_SEQUENCE];
#ifndef NCP_TOLERANT
	/* Its own count of the messages of this stream; lost with the interface. */
	if ((token->service & 0xff) != SERVICE_DATAGRAM) {
		u32 to = (target >> 8) * PORTS + (target & 0xff);
		token->sequence = ++ncp.numbers[(to * PORTS + number) * PRIORITIES + (token->service >> 8 & 1)];
	}
#endif
	set_state(port, token, TOKEN_QUEUED);
}

static void provide(u32 number, const u32 *command)
{
	struct port *port = &ncp.ports[number];
	if (command[3] > SIZE_CLASS_MAX || command[4] >= PRIORITIES || command[2] >= PORT_PAGES * PAGE_BYTES) {
		refused(number, command, STATUS_BAD_ADDRESS);
		return;
	}
	for (u32 i = 0; i < RECEIVE_TOKENS; i++) {
		struct receive_token *token = &port->receives[i];
		if (token->state)
			continue;
		token->token = command[1];
		token->address = command[2];
		token->size_class = (u16)command[3];
		token->priority = (u16)command[4];
		token->state = 1;
		return;
	}
	refused(number, command, STATUS_NO_TOKEN);
}

/* The stream that a command names, if it ends at this port. */
static struct stream *stream_at(u32 number, const u32 *command)
{
	u32 addresses = command[1];
	if (addresses >> 24 >= NODES || (addresses >> 16 & 0xff) >= PORTS || (addresses >> 8 & 0xff) != ncp.node ||
	    (addresses & 0xff) != number || command[2] >= PRIORITIES)
		return 0;
	return stream_of(addresses, command[2]);
}

/* From here on this message is expected, from its beginning; what was taken in of another one is given up. */
static void expect(u32 number, struct stream *stream, u32 next)
{
	if (stream->buffer)
		ncp.ports[number].receives[stream->buffer - 1].state = 1;
	stream->buffer = 0;
	stream->next = next;
	stream->offset = stream->nacked = 0;
}

static void change_stream(u32 number, const u32 *command)
{
	struct stream *stream = stream_at(number, command);
	if (!stream) {
		refused(number, command, STATUS_BAD_TARGET);
	} else if (command[0] == COMMAND_STREAM) {
		stream->generation = command[3];
		stream->next = command[4];
		stream->arrived = command[4] - 1;
		stream->proof = command[5];
		stream->offset = stream->buffer = stream->nacked = 0;
	} else if (stream->generation == command[3] && command[0] == COMMAND_ACCEPT) {
		stream->arrived = command[4];
		stream->proof = command[5];
		/* The library may have asked for it again while its event was on the way; then it comes no more. */
		if ((int)(command[4] - stream->next) >= 0)
			expect(number, stream, command[4] + 1);
		say(stream, CONTROL_ACK, 0);
	} else if (stream->generation == command[3] && stream->next != command[4]) {
		/* Where it is expected anyway, its sender sends it without being asked. */
		expect(number, stream, command[4]);
		say(stream, CONTROL_NACK, NACK_AGAIN);
	}
}

static void start_port(u32 number, const u32 *command)
{
	if (ncp.ports[number].state == PORT_OPENING)
		ncp.ports[number].state = PORT_OPEN;
	for (u32 i = 1; !number && i < PORTS; i++)
		if (!(command[1] >> i & 1) && ncp.ports[i].state == PORT_BACK_SOON)
			ncp.ports[i].state = PORT_SHUT;
}

static void close(u32 number)
{
	struct port *port = &ncp.ports[number];
	for (u32 i = 0; i < SEND_TOKENS; i++) {
		forget_packets(&port->sends[i]);
		set_state(port, &port->sends[i], TOKEN_FREE);
	}
	forget_pages(number);
	port->state = PORT_SHUT;
}

static void command_of(u32 number, const u32 *command)
{
	struct port *port = &ncp.ports[number];
	u32 is_open = port->state == PORT_OPEN || port->state == PORT_OPENING;
	if (command[0] == COMMAND_OPEN)
		open(number, command);
	else if (!is_open)
		return;
	else if (command[0] == COMMAND_CLOSE)
		close(number);
	else if (command[0] == COMMAND_SEND)
		ask_to_send(number, command);
	else if (command[0] == COMMAND_PROVIDE) {
		if (command[PROVIDE_ACCEPT] == COMMAND_ACCEPT)
			change_stream(number, command + PROVIDE_ACCEPT);
		provide(number, command);
	} else if (command[0] == COMMAND_CONSUMED)
		port->events_consumed = command[1];
	else if (command[0] == COMMAND_ALARM) {
		port->alarm_token = command[1];
		port->alarm_at_us = now_us() + command[2];
		port->alarm_is_set = command[2] != 0;
	} else if (command[0] == COMMAND_STREAM || command[0] == COMMAND_ACCEPT || command[0] == COMMAND_REJECT)
		change_stream(number, command);
	else if (command[0] == COMMAND_FORGET_PAGES)
		forget_pages(number);
	else if (command[0] == COMMAND_ROUTE && !number && command[1] < NODES)
		ncp.routes[command[1]] = command[2];
	else if (command[0] == COMMAND_START)
		start_port(number, command);
	else
		refused(number, command, STATUS_REFUSED);
}

/* Takes the first command of a port. By itself: inside of the loop below, the compiler makes ready for it at every port. */
static __attribute__((noinline)) void take_command(u32 number)
{
	u32 command[16];
	copy_words(command, reg(MAILBOX_WINDOW + 64 * number), 16);
	*reg(MAILBOX_POP) = number;
	command_of(number, command);
}

/* Some commands of each port, so that none keeps the others waiting. */
u32 commands(void)
{
	u32 ready = *reg(MAILBOX_READY);
	if (!ready || events_are_full())
		return 0;
	for (u32 number = 0; ready >> number; number++) {
		if (!(ready >> number & 1))
			continue;
		take_command(number);
		for (u32 i = 1; i < COMMANDS_AT_ONCE; i++) {
			engines();
			if (!(*reg(MAILBOX_READY) >> number & 1) || events_are_full())
				break;
			take_command(number);
		}
	}
	return 1;
}
