# What a job script and a pod's own script (cloud/pod/) both read.

# FILE KEY: one value of a file of key=value lines.
nemotron_value() {
  local key value
  while IFS='=' read -r key value; do
    [ "$key" != "$2" ] || printf '%s' "$value"
  done < "$1"
}

# How many processes of this control group the kernel has killed for want of memory.
nemotron_oom_kills() {
  local line key count v1='' v2='' file
  while IFS= read -r line; do
    case $line in
      0::*) v2=${line#0::} ;;
      *:*memory*:*) v1=${line#*:*:} ;;
    esac
  done 2> /dev/null < /proc/self/cgroup || :
  for file in "/sys/fs/cgroup/memory${v1%/}/memory.oom_control" "/sys/fs/cgroup/memory/memory.oom_control" \
    "/sys/fs/cgroup${v2%/}/memory.events" "/sys/fs/cgroup/memory.events"; do
    [ -r "$file" ] || continue
    while read -r key count; do
      if [ "$key" = oom_kill ]; then
        printf '%s' "$count"
        return 0
      fi
    done < "$file"
  done
  printf '0'
}
