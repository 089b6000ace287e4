#!/usr/bin/env bash
# The first process of a lab: in namespaces of its own (pid, network, host name, mounts) it makes the cluster's network.
# It lives as long as standard input is open; then everything that runs in the lab dies with it, and its folder goes.
#
#   login.sh BASE HOST_NET    HOST_NET: the machine's network namespace, as a path
set -euo pipefail
base=$1 host_net=$2

end() {
    # One that is only dying still writes, and its folder cannot be removed.
    while others=(/proc/[0-9]*) && ((${#others[@]} > 1)); do
        kill -KILL -1 2>/dev/null || true
        sleep 0.05
    done
    umount --lazy "$base/small" "$base/run/login.net" 2>/dev/null || true
    rm -rf --one-file-system "$base"
}
trap end EXIT

hostname login
for file in hosts passwd group; do mount --bind "$base/etc/$file" "/etc/$file"; done
mount -t tmpfs -o size=4m,mode=1777 small "$base/small"
mount --bind /proc/self/ns/net "$base/run/login.net"

ip link set lo up
ip link add br0 type bridge
# The name of the machine's end of the cable is the claim to a subnet: a second lab cannot make the same one.
for subnet in $(seq 1 250); do
    if ip link add uplink type veth peer name "slurm-lab$subnet" netns "$host_net" 2>/dev/null; then break; fi
done
ip link set uplink master br0 up
ip address add "10.213.$subnet.2/24" dev br0
ip link set br0 up
ip route add default via "10.213.$subnet.1"
nsenter --net="$host_net" ip address add "10.213.$subnet.1/24" dev "slurm-lab$subnet"
nsenter --net="$host_net" ip link set "slurm-lab$subnet" up

echo "$subnet" >"$base/run/subnet.new"
mv "$base/run/subnet.new" "$base/run/subnet"
# bash also buries every process whose parent has ended.
while read -r _; do :; done
