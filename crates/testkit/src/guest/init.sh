#!/bin/busybox sh
# The first program of a guest: makes its file systems, loads its modules, runs /run, and turns it off.
export PATH=/bin
/bin/busybox --install -s /bin
mount -t devtmpfs devices /dev
mount -t proc processes /proc
mount -t sysfs system /sys
mount -t debugfs debugging /sys/kernel/debug
mkdir /dev/shm
mount -t tmpfs memory /dev/shm
mount -t tmpfs temporary /tmp
stty -F /dev/ttyS1 -opost
while read -r module; do
    insmod "$module" || echo "the module $module cannot be loaded" >/dev/ttyS1
done </modules/list
sh /run </dev/null >/dev/ttyS1 2>&1
code=$?
# What was written to a serial line is on its way until it is drained.
stty -F /dev/ttyS1 cooked
echo $code >/dev/ttyS2
stty -F /dev/ttyS2 cooked
poweroff -f
