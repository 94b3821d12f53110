#!/usr/bin/env python3
"""ZeroMQ between two processes over TCP on the loopback: half a round trip and bandwidth, as `surefoot-bench nic --clock wall`
takes them, for scale. Needs pyzmq.

    python3 bench/zeromq.py [--rounds 7] [--messages 300] [--sizes 64,2048,...]

One JSON line per length: medians of the rounds, lowest and highest; half a round trip is the median of a round.
"""
import argparse
import json
import multiprocessing
import statistics
import time

try:
    import zmq
except ModuleNotFoundError:
    raise SystemExit("zeromq.py: pyzmq is missing; install it first (Debian's package is python3-zmq)") from None

WARM_UP = 8
WINDOW = 8
STREAM_BYTES_MAX = 4 << 20
PATIENCE_MS = 60_000


def open_socket(context):
    socket = context.socket(zmq.PAIR)
    socket.setsockopt(zmq.RCVTIMEO, PATIENCE_MS)
    socket.setsockopt(zmq.SNDTIMEO, PATIENCE_MS)
    socket.setsockopt(zmq.LINGER, 0)
    return socket


def far(port_sent, trips, count):
    context = zmq.Context()
    socket = open_socket(context)
    port_sent.send(socket.bind_to_random_port("tcp://127.0.0.1"))
    for _ in range(trips):
        socket.send(socket.recv())
    for taken in range(1, count + 1):
        socket.recv()
        if taken % WINDOW == 0 or taken == count:
            socket.send(b"1")
    # Until the other end has it all.
    socket.recv()
    context.destroy()


def near(port, size, trips, count):
    context = zmq.Context()
    socket = open_socket(context)
    socket.connect(f"tcp://127.0.0.1:{port}")
    content = bytes(size)
    trip_ns = []
    for _ in range(trips):
        begun = time.perf_counter_ns()
        socket.send(content)
        socket.recv()
        trip_ns.append(time.perf_counter_ns() - begun)
    half_ns = statistics.median(trip_ns[WARM_UP:]) / 2
    for sent in range(1, count + 1):
        if sent == WARM_UP + 1:
            begun = time.perf_counter_ns()
        socket.send(content)
        if sent % WINDOW == 0 or sent == count:
            socket.recv()
    rate = (count - WARM_UP) * size * 1e9 / (time.perf_counter_ns() - begun)
    socket.send(b"")
    context.destroy(linger=1000)
    return half_ns, rate


def one_round(size, messages):
    trips = messages + WARM_UP
    count = min(messages, max(STREAM_BYTES_MAX // size, 1)) + WARM_UP
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=far, args=(theirs, trips, count))
    process.start()
    try:
        if not ours.poll(PATIENCE_MS / 1000):
            raise SystemExit("zeromq.py: the other process does not start")
        return near(ours.recv(), size, trips, count)
    finally:
        process.join(5)
        if process.is_alive():
            process.kill()
            process.join()


def numbers(text):
    sizes = [int(word) for word in text.split(",")]
    if not all(1 <= size <= 1 << 20 for size in sizes):
        raise argparse.ArgumentTypeError("lengths are 1 to 1048576 bytes")
    return sizes


def spread(values):
    return {"median": statistics.median(values), "minimum": min(values), "maximum": max(values)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--messages", type=int, default=300)
    parser.add_argument("--sizes", type=numbers, default="16,64,256,1024,2048,4096,8192,16384,32768")
    options = parser.parse_args()
    if options.rounds < 1 or options.messages < 1:
        parser.error("--rounds and --messages are 1 or more")
    found = {size: [] for size in options.sizes}
    for _ in range(options.rounds):
        for size in options.sizes:
            found[size].append(one_round(size, options.messages))
    for size, rounds in found.items():
        line = {
            "type": "figure",
            "clock": "wall",
            "stack": "zeromq_tcp",
            "version": zmq.zmq_version(),
            "message_bytes": size,
            "half_round_trip_ns": spread([half_ns for half_ns, _ in rounds]),
            "bytes_per_s": spread([rate for _, rate in rounds]),
        }
        print(json.dumps(line))


if __name__ == "__main__":
    main()
