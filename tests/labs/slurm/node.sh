#!/usr/bin/env bash
# The first process of a node, in namespaces of its own below the lab's: plugs the node in. Killing it is a power cut.
#
#   node.sh BASE NAME ADDRESS GATEWAY
set -euo pipefail
base=$1 name=$2 address=$3 gateway=$4

hostname "$name"
mount --bind "$base/nodes/$name/local" "$base/local"
ip link set lo up
# After a power cut the kernel takes the old cable away when it gets round to it.
nsenter --net="$base/run/login.net" ip link delete "$name" 2>/dev/null || true
ip link add eth0 type veth peer name "$name" netns "$base/run/login.net"
nsenter --net="$base/run/login.net" ip link set "$name" master br0 up
ip address add "$address/24" dev eth0
ip link set eth0 up
ip route add default via "$gateway"

touch "$base/nodes/$name/up"
# bash also buries every process whose parent has ended.
while :; do sleep 3600; done
