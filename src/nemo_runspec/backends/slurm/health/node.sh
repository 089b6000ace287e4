# One node's part of the health check: it says on its output what it finds, a line for each, and judges nothing.
# Lines are "nemotron-health", the node, a word, and a text, with tabs between; what is said by others is no such line.
#
#   PROGRAM FOLDER NODES SECONDS
#
# PROGRAM is the text of health.py (net.py), FOLDER the check's own in the job's directory, as the job sees it. Told by:
# health_gpus (per node), health_torch, health_mounts (paths, with :ro where one is read only).

health_say() { printf 'nemotron-health\t%s\t%s\t%s\n' "$health_name" "$1" "$2"; }

# COMMAND...: its status, or 124 after 10 s. A path of a file server that is gone blocks for ever, and so would `timeout`.
health_within() {
  local pid tries=0
  "$@" > /dev/null 2>&1 < /dev/null &
  pid=$!
  while kill -0 "$pid" 2> /dev/null; do
    if [ "$tries" -ge 100 ]; then
      kill -KILL "$pid" 2> /dev/null
      return 124
    fi
    sleep 0.1
    tries=$((tries + 1))
  done
  wait "$pid"
}

# WHAT COMMAND...: says what is wrong where it fails.
health_must() {
  local what=$1 code=0
  shift
  health_within "$@" || code=$?
  case $code in
    0) ;;
    124) health_say bad "$what: no answer within 10 s" ;;
    *) health_say bad "$what" ;;
  esac
  return "$code"
}

health_write() { printf '%s\n' "$health_name" > "$1" && [ "$(cat "$1")" = "$health_name" ]; }
health_try_writing() { health_write "$1" && rm -f "$1"; }
health_read() { if [ -d "$1" ]; then ls "$1/"; else head -c 1 "$1"; fi; }
health_room() { [ "$(df -P -k "$1" | awk 'NR == 2 { print $4 }')" -ge 1024 ]; }
health_is_shared() { ls "$1" && [ -f "$1/begun" ]; }

# The job's directory: what the batch script has left there is seen here, and there is room for more.
health_job_dir() {
  health_say at "the job's directory"
  health_must "the job's directory is not there, or another one than elsewhere" health_is_shared "$health_folder" || return
  health_must "the job's directory cannot be written" health_write "$health_folder/here.$health_node" || return
  health_must "less than 1 MB is left in the job's directory" health_room "$health_folder"
}

# PATH[:FLAGS]...
health_look_at() {
  local mount path
  for mount in "$@"; do
    path=${mount%%:*}
    health_say at "mount $path"
    health_must "mount $path cannot be read" health_read "$path" || continue
    case $mount in *:ro | *:ro,* | *,ro | *,ro,*) continue ;; esac
    # A folder that this user may not write may well be meant so: only the file system itself is at fault.
    if [ -d "$path" ] && health_within test -w "$path"; then
      health_must "mount $path cannot be written" health_try_writing "${path%/}/.nemotron-health-$health_job-$health_node"
    fi
  done
}

# What this node has. A node that lacks what others have is the bad one; what none has is not asked for.
health_facts() {
  local program count
  health_say at 'python'
  for program in python python3; do
    if health_within "$program" -c ''; then health_python=$program; break; fi
  done
  health_say python "${health_python:+yes}"
  if [ -n "$health_torch" ] && [ -n "$health_python" ]; then
    health_say at 'import torch'
    "$health_python" -c 'import torch' > /dev/null 2>&1 < /dev/null && health_has_torch=yes
    health_say torch "$health_has_torch"
  fi
  [ "$health_gpus" -gt 0 ] || return 0
  health_say at 'GPUs (nvidia-smi)'
  if ! type -P nvidia-smi > /dev/null; then
    health_say gpus ''
    return 0
  fi
  count=$(nvidia-smi --query-gpu=uuid --format=csv,noheader 2>&1 < /dev/null) || {
    health_say bad "nvidia-smi fails: ${count##*$'\n'}"
    return 0
  }
  count=$(grep -c . <<< "$count")
  health_say gpus "$count"
  if [ "$count" -lt "$health_gpus" ]; then health_say bad "$count GPUs, and $health_gpus are asked for"; else
    health_gpus_here=$health_gpus
  fi
}

health_network() {
  local said
  [ "$health_nodes" -gt 1 ] || [ -n "$health_has_torch" ] || return 0
  health_say at 'the other nodes'
  if [ -z "$health_python" ]; then
    health_say unasked 'the network: there is no python'
  elif { said=$("$health_python" -u -c "$health_program" "$health_name" "$health_folder" "$health_node" "$health_nodes" \
    "$health_gpus_here" "$health_has_torch" "$health_seconds" 2>&1 >&3 < /dev/null); } 3>&1; then
    health_say network yes
  else
    health_say network ''
    health_say unasked "the network: ${said##*$'\n'}"
  fi
}

health_main() {
  health_program=$1 health_folder=$2 health_nodes=$3 health_seconds=$4
  health_name=${SLURMD_NODENAME:-$(cat /proc/sys/kernel/hostname)}
  health_node=${SLURM_NODEID:-0} health_job=${SLURM_JOB_ID-} health_python='' health_has_torch='' health_gpus_here=0
  health_say begun "$(date +%s)"
  health_job_dir || health_folder=''
  health_look_at "${health_mounts[@]}"
  health_facts
  [ -z "$health_folder" ] || health_network
  health_say done ''
}
