# iperf3 between two nodes, each a network namespace whose work and received packets are on one core, over a link of 1 Gbit/s.
# Set before: sender_core, receiver_core, sender_mask, receiver_mask (of these cores), seconds, options (of iperf3), ring (yes: whatever the
# receiver has not taken waits in a ring of 256 packets, as in a network card, and what finds it full is lost). The first node is this
# namespace; all of it ends with its processes.
# shellcheck shell=sh disable=SC2154
set -eu
mount -t sysfs none /sys
ip link set lo up
unshare --net --mount sh -c 'mount -t sysfs none /sys; exec sleep 86400' >/dev/null &
peer=$!
trap 'kill "$peer"' EXIT
until [ "$(readlink "/proc/$peer/ns/net")" != "$(readlink /proc/self/ns/net)" ] &&
    [ "$(cat "/proc/$peer/comm")" = sleep ]; do sleep 0.01; done
in_peer() {
    nsenter --target "$peer" --net --mount "$@"
}
if [ "$ring" = yes ]; then
    # A sender whose packets are queued would be told that the ring is full; a port of a switch has no queue. Packets of one segment, as
    # on a wire: the ring would hold 256 large ones.
    ip link add switch0 type bridge
    ip link add node0 type veth peer name port0
    ip link add port1 type veth peer name node1 netns "$peer"
    for port in port0 port1; do ip link set "$port" master switch0 up; done
    ip link set switch0 up
    ip link set node0 gso_max_segs 1
else
    ip link add node0 type veth peer name node1 netns "$peer"
fi
ip addr add 10.77.0.1/24 dev node0
ip link set node0 up
in_peer ip link set lo up
in_peer ip addr add 10.77.0.2/24 dev node1
in_peer ip link set node1 up
tc qdisc add dev node0 root tbf rate 1gbit burst 256k latency 10ms
in_peer tc qdisc add dev node1 root tbf rate 1gbit burst 256k latency 10ms
echo "$sender_mask" >/sys/class/net/node0/queues/rx-0/rps_cpus
in_peer sh -c "echo $receiver_mask >/sys/class/net/node1/queues/rx-0/rps_cpus"
if [ "$ring" = yes ]; then
    # With GRO a veth has such a ring, and a thread of the kernel that empties it: on the receiver's core.
    in_peer ethtool -K node1 gro on
    threads() { grep -l '^napi/node1-' /proc/[0-9]*/comm 2>/dev/null | cut -d / -f 3; }
    before=" $(threads | tr '\n' ' ') "
    in_peer sh -c 'echo 1 >/sys/class/net/node1/threaded'
    # Those of the kernel that have come with this device alone: others may have one of the same name, and so may programs.
    for thread in $(threads); do
        case "$before" in *" $thread "*) continue ;; esac
        grep -q '^PPid:[[:space:]]*2$' "/proc/$thread/status" 2>/dev/null || continue
        taskset -pc "$receiver_core" "$thread" >/dev/null
        found=yes
    done
    : "${found:?no thread empties the ring}"
fi
in_peer taskset -c "$receiver_core" nice -n -15 iperf3 -s -1 >/dev/null &
# Port 5201 is listened to.
until grep -q ':1451 ' "/proc/$peer/net/tcp" "/proc/$peer/net/tcp6" 2>/dev/null; do sleep 0.02; done
# shellcheck disable=SC2086 # the options are meant to be split
taskset -c "$sender_core" nice -n -15 iperf3 -c 10.77.0.2 -t "$seconds" -J $options
