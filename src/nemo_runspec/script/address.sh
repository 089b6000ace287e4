# The address under which the other nodes reach this one.
nemotron_address() {
  local name address
  name=${SLURMD_NODENAME:-`cat /proc/sys/kernel/hostname`}
  for address in `{ getent ahostsv4 "$name" || hostname -I; } 2> /dev/null`; do
    case $address in
      127.*) ;;
      [0-9]*.*.*.*)
        printf '%s' "$address"
        return 0
        ;;
    esac
  done
  printf '%s' "$name"
}
