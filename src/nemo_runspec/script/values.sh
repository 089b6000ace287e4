# What a job script, a pod's own script and Slurm's batch shell share.
#
# All of them heed signals, so values are read with backquotes: what stands in $(...) bash reads each time it comes there,
# runs the traps of pending signals first, takes their text for a part of it ("unexpected EOF while looking for matching
# `)'"), and the signal is lost (5.2; each one that comes during the first of two in a command). What stands in backquotes
# is read by the process that runs it. <(...) and >(...) are like $(...): only for a single moment of a shell's life.
# A trap that is due as `continue` or `break` ends is skipped too: where they wait for long, they do without.

# From here on no signal changes anything. Slurm sends TERM to every process of a job that it ends, and at the time limit
# twice: the second would end the very mv or scontrol that says or does what the first one led to. What is ignored here
# is so in what is called from here.
nemotron_be_deaf() { trap '' TERM INT HUP USR1 USR2; }

# PID COUNTER: waits for a child and sets nemotron_ended to its status, whatever signals come meanwhile. COUNTER: the name
# of the variable in which their traps count them.
nemotron_await() {
  local nemotron_code nemotron_before
  nemotron_ended=127
  while :; do
    nemotron_before=${!2} nemotron_code=0
    wait "$1" 2> /dev/null || nemotron_code=$?
    [ "$nemotron_code" -eq 127 ] || nemotron_ended=$nemotron_code # 127: its status has been read before
    [ "$nemotron_before" -ne "${!2}" ] && ! nemotron_is_missed "$1" || return 0
  done
}

# PID: whether a child has ended and bash takes it for running. Where a signal comes as it ends, bash's `wait` loses its
# status (seen with 5.2: about one in seven, where the child sends the signal with its last breath), and the next `wait`
# would never end.
nemotron_is_missed() {
  ! kill -0 "$1" 2> /dev/null || return 1
  case $'\n'`jobs -rp`$'\n' in *$'\n'"$1"$'\n'*) ;; *) return 1 ;; esac
}

# Seconds since 1970, with a fraction where this bash or date has one.
nemotron_now() {
  local now=${EPOCHREALTIME-}
  now=${now/,/.}
  [ -n "$now" ] || now=`date +%s.%N`
  case $now in *[!0-9.]*) now=${now%%.*} ;; esac
  printf '%s' "$now"
}

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

# PATH...: versions of artifacts that a job has made, as it has ended well: those that are there become the newest of
# theirs. `latest` beside each is swapped for another link in one step: two jobs at once both succeed, a reader always
# finds one, and a job that is killed has changed nothing. Says a line for each that could not be.
nemotron_register() {
  local path folder name said
  for path; do
    folder=${path%/*} name=${path##*/}
    [ -d "$path" ] || continue
    said=`{ ln -sfn -- "$name" "$folder/.latest.$name" && mv -f -T -- "$folder/.latest.$name" "$folder/latest"; } 2>&1` ||
      printf '%s\n' "$folder/latest could not be set to $name: ${said##*: }"
  done
}
