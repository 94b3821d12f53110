# iperf3 between two nodes, each a network namespace whose work and received packets are on one core, over a link of 1 Gbit/s.
# Set before: sender_core, receiver_core, sender_mask, receiver_mask (of these cores), seconds, options (of iperf3). The first node is
# this namespace; all of it ends with its processes.
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
ip link add node0 type veth peer name node1 netns "$peer"
ip addr add 10.77.0.1/24 dev node0
ip link set node0 up
in_peer ip link set lo up
in_peer ip addr add 10.77.0.2/24 dev node1
in_peer ip link set node1 up
tc qdisc add dev node0 root tbf rate 1gbit burst 256k latency 10ms
in_peer tc qdisc add dev node1 root tbf rate 1gbit burst 256k latency 10ms
echo "$sender_mask" >/sys/class/net/node0/queues/rx-0/rps_cpus
in_peer sh -c "echo $receiver_mask >/sys/class/net/node1/queues/rx-0/rps_cpus"
in_peer taskset -c "$receiver_core" nice -n -15 iperf3 -s -1 >/dev/null &
# Port 5201 is listened to.
until grep -q ':1451 ' "/proc/$peer/net/tcp" "/proc/$peer/net/tcp6" 2>/dev/null; do sleep 0.02; done
# shellcheck disable=SC2086 # the options are meant to be split
taskset -c "$sender_core" nice -n -15 iperf3 -c 10.77.0.2 -t "$seconds" -J $options
