/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Sends messages from a port of node 0 to one of node 1, and checks what arrives: exchange DIRECTORY MESSAGES.
 * Here one process has both ports, so that the example is one file; they are usually in two.
 */
#include "surefoot_nic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT 2
#define CLASS 10 /* buffers of 1024 bytes */
#define BYTES 700
#define SLOTS 4

static unsigned arrived, failed;

static void sent(surefoot_nic_port *port, void *context, int outcome)
{
	int *slot_is_free = context;
	(void)port;
	*slot_is_free = 1;
	if (outcome == SUREFOOT_NIC_ARRIVED)
		arrived++;
	else
		failed++;
}

static void must(int result, const char *what)
{
	if (result >= 0)
		return;
	fprintf(stderr, "exchange: %s: %s\n", what, surefoot_nic_error());
	exit(1);
}

int main(int count, char **words)
{
	surefoot_nic_port *here, *there;
	int slot_is_free[SLOTS] = { 1, 1, 1, 1 };
	unsigned messages, next = 0, delivered = 0;
	unsigned char bytes[BYTES];
	if (count != 3) {
		fprintf(stderr, "usage: exchange DIRECTORY MESSAGES; DIRECTORY is that of: surefoot nic run --serve --run DIRECTORY\n");
		return 2;
	}
	messages = (unsigned)strtoul(words[2], NULL, 10);
	must(surefoot_nic_open(words[1], 0, PORT, 4, &here), "open");
	must(surefoot_nic_open(words[1], 1, PORT, 4, &there), "open");
	for (unsigned slot = 0; slot < SLOTS; slot++)
		must(surefoot_nic_provide(there, slot, slot << CLASS, CLASS, 0), "provide");
	while (arrived + failed < messages || delivered < arrived) {
		struct surefoot_nic_event event;
		for (unsigned slot = 0; slot < SLOTS && next < messages; slot++) {
			if (!slot_is_free[slot])
				continue;
			memset(bytes, (int)(next & 0xff), BYTES);
			memcpy(bytes, &next, sizeof next);
			must(surefoot_nic_write(here, slot << CLASS, bytes, BYTES), "write");
			slot_is_free[slot] = 0;
			must(surefoot_nic_send(here, slot << CLASS, BYTES, CLASS, 1, PORT, 0, sent, &slot_is_free[slot]),
			     "send");
			next++;
		}
		must(surefoot_nic_receive(here, &event, 0), "receive");
		must(surefoot_nic_unknown(here, &event), "unknown");
		must(surefoot_nic_receive(there, &event, 1000000), "receive");
		if (event.kind == SUREFOOT_NIC_RECEIVED) {
			unsigned number;
			must(surefoot_nic_read(there, event.address, bytes, event.length), "read");
			memcpy(&number, bytes, sizeof number);
			if (number != delivered || event.length != BYTES || bytes[BYTES - 1] != (unsigned char)(number & 0xff)) {
				fprintf(stderr, "exchange: message %u came where %u was due\n", number, delivered);
				return 1;
			}
			delivered++;
			must(surefoot_nic_provide(there, event.token, event.address, CLASS, 0), "provide");
		} else {
			must(surefoot_nic_unknown(there, &event), "unknown");
		}
	}
	must(surefoot_nic_close(here), "close");
	must(surefoot_nic_close(there), "close");
	printf("%u sent, %u arrived, %u delivered\n", next, arrived, delivered);
	return failed != 0;
}
