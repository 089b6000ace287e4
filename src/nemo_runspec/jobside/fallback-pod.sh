# A pod where there is no Python: one node, no data on S3. The commands that come first, the job script, the last line.
nemotron_node=0 nemotron_child='' nemotron_phase=start nemotron_why='' nemotron_told='' nemotron_untold='' nemotron_log=$nemotron_root/logs/node-0.log
# CODE REASON REASON_CODE
nemotron_end() {
  local try
  trap '' TERM INT HUP USR1 USR2
  exec 1>&3 2>&3
  for ((try = 0; try < 100; try++)); do kill -0 "$nemotron_tee" 2> /dev/null || break; sleep 0.05; done
  [ "$nemotron_phase" = command ] || printf 'nemotron: %s (exit code %s)\n' "$2" "$1" | tee -a "$nemotron_log"
  printf 'nemotron-end: node=%s attempt=%s exit_code=%s signal= rank= oom=0 phase=%s received=%s lines=%s node_name=%s ended=%s reason_code=%s blames= reason=%s\n' \
    "$nemotron_node" "${NEMOTRON_POD_ATTEMPT:-0}" "$1" "$nemotron_phase" "$nemotron_told" "`wc -l < "$nemotron_log"`" \
    "${NEMOTRON_NODE_NAME:-$HOSTNAME}" "`date +%s`" "$3" "$2" | tee -a "$nemotron_log"
  exit "$1"
}
nemotron_tell() { # NAME: what is for the command is kept for the job script, which begins with what has come early
  nemotron_heard=1; case $nemotron_phase-$1 in start-USR?) nemotron_early+=" $1" && return ;; *-USR?) ;; *) nemotron_told=${nemotron_told:-$1} ;; esac
  nemotron_untold+=" $1" && nemotron_pass_on # what comes while a child is made waits until its number is known
}
nemotron_pass_on() { local name names; [ -n "$nemotron_child" ] || return 0; names=$nemotron_untold nemotron_untold=''; for name in $names; do kill -s "$name" -- "-$nemotron_child" 2> /dev/null || :; done; }
# COMMAND...: nemotron_code is its status, whatever signals come meanwhile (bash 5.2 may lose it as one comes).
nemotron_is_there() { kill -0 "$nemotron_child" 2> /dev/null || ! jobs -rp | grep -qx "$nemotron_child"; }
nemotron_do() {
  nemotron_child='' && [ -z "$nemotron_told" ] || nemotron_end $((128 + `kill -l "$nemotron_told"`)) "the job was told to stop (SIG$nemotron_told) before it had started" ''
  set -m; "$@" < /dev/null 3>&- & nemotron_child=$!; set +m; nemotron_pass_on
  while nemotron_heard='' && wait "$nemotron_child"; nemotron_code=$?; [ -n "$nemotron_heard" ] && nemotron_is_there; do :; done
}
mkdir -p -m 700 "$nemotron_root/logs" "$nemotron_root/status" && exec 3>&1
exec > >(trap '' TERM INT HUP && exec tee -a "$nemotron_log") 2>&1
nemotron_tee=$!
for nemotron_code in TERM INT HUP USR1 USR2; do trap "nemotron_tell $nemotron_code" "$nemotron_code"; done
nemotron_come=$nemotron_early nemotron_early=''; for nemotron_code in $nemotron_come; do nemotron_tell "$nemotron_code"; done
case $nemotron_values in *'"cloud_metadata": {'* | *'"data": ['*) nemotron_why='data on S3' ;; esac
case $nemotron_values in *'"nodes": 1,'*) ;; *) nemotron_why='a job of several nodes' nemotron_node=$nemotron_index ;; esac
[ -z "$nemotron_why" ] || nemotron_end 1 "the image has no python3 (3.6 or later), which $nemotron_why needs" image
nemotron_do bash -eo pipefail -c "${nemotron_prepare:-:}"
[ "$nemotron_code" -eq 0 ] || nemotron_end "$nemotron_code" 'a command of pre_launch_commands failed' pre_launch
nemotron_phase=command
nemotron_early=$nemotron_early nemotron_do bash "$nemotron_root/job.sh"
nemotron_why=`sed -n 's/.*"reason": "\([^"]*\)", "reason_code": "\([^"]*\)".*/\2=\1/p' "$nemotron_root/status/node-0"` # as fallback.sh has it
nemotron_end "$nemotron_code" "${nemotron_why#*=}" "${nemotron_why%%=*}"
