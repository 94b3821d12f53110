# Ring, barrier, allreduce and alltoall between machines, each a network namespace with a name of its own, whose ranks run on one
# core. Set before: nodes, cores (a word for each machine), seconds, source (the program in C). All of it ends with its processes.
# shellcheck shell=sh disable=SC2154
set -eu
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 TMPDIR=/tmp
mount -t tmpfs -o size=256m none /tmp
printf '%s' "$source" >/tmp/collectives.c
mpicc -O2 -o /tmp/collectives /tmp/collectives.c
ip link set lo up
ip link add switch type bridge
ip link set switch up
node=0
pids=
# shellcheck disable=SC2086 # the numbers are meant to be split
trap 'kill $pids' EXIT
for core in $cores; do
    node=$((node + 1))
    unshare --net --uts sh -c "hostname machine$node; exec sleep 86400" &
    pid=$!
    pids="$pids $pid"
    until [ "$(readlink "/proc/$pid/ns/uts")" != "$(readlink /proc/self/ns/uts)" ] &&
        [ "$(nsenter --target "$pid" --uts hostname)" = "machine$node" ]; do sleep 0.01; done
    echo "$pid $core" >"/tmp/machine$node"
    ip link add "port$node" type veth peer name eth0 netns "$pid"
    ip link set "port$node" master switch up
    nsenter --target "$pid" --net ip link set lo up
    nsenter --target "$pid" --net ip addr add "10.77.0.$node/24" dev eth0
    nsenter --target "$pid" --net ip link set eth0 up
    echo "10.77.0.$node slots=1" >>/tmp/machines
done
# Called as: agent ADDRESS COMMAND...
cat >/tmp/agent <<'AGENT'
#!/bin/sh
read -r pid core <"/tmp/machine${1##*.}"
shift
exec nsenter --target "$pid" --net --uts taskset -c "$core" sh -c "$*"
AGENT
chmod 700 /tmp/agent
read -r pid core </tmp/machine1
nsenter --target "$pid" --net --uts taskset -c "$core" \
    mpirun --bind-to none --map-by node --oversubscribe --hostfile /tmp/machines --mca plm_rsh_agent /tmp/agent \
    --mca plm_rsh_no_tree_spawn 1 --mca btl tcp,self --mca btl_tcp_if_include 10.77.0.0/24 \
    --mca oob_tcp_if_include 10.77.0.0/24 --mca mpi_yield_when_idle 1 -np "$nodes" /tmp/collectives "$seconds"
