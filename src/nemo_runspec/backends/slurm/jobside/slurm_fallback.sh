# The batch script on a node without Python: step, signals, exit code, record, removal of secrets. What takes more than
# that (nemotron_needs) ends the job, with that as its reason.
nemotron_id=$SLURM_JOB_ID nemotron_restarts=${SLURM_RESTART_COUNT:-0} nemotron_shared=${SLURM_ARRAY_TASK_ID-}
[ -z "$nemotron_shared" ] || nemotron_id=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
[ "$nemotron_own" = "$nemotron_root" ] || nemotron_shared='' # tasks that share a directory share secrets and versions
nemotron_gates=$nemotron_own/status/gates-$SLURM_JOB_ID-$nemotron_restarts nemotron_phase=begin nemotron_reason=''
nemotron_began=`date +%s` && (umask 077 && mkdir -p "$nemotron_gates")

nemotron_end() { # CODE
  local code=$1 fate=over reason=$nemotron_reason reason_code=${nemotron_reason:+python} starts='' path file
  trap - EXIT && trap '' TERM INT HUP USR1 USR2
  file=$nemotron_own/status/cancelled
  [ "$code" -eq 0 ] || starts=`timeout 20 squeue -h --states=all --jobs="$nemotron_id" --Format=RestartCnt | tr -dc 0-9`
  if [ "${starts:-0}" -gt "$nemotron_restarts" ]; then fate=slurm reason='Slurm starts the job again'
  elif [ -f "$file" ]; then reason="cancelled by `head -n 1 "$file"`" reason_code=cancelled
  elif [ "$nemotron_phase$reason" = begin ]; then
    reason='setup_lines ended the batch script before its command' reason_code=setup_lines code=$((code ? code : 1))
  elif [ "$code" -eq 0 ]; then reason='done' reason_code='done'; else reason=${reason:-exit code $code}; fi
  [ "$nemotron_phase$nemotron_shared" != begin ] || printf '{"node": 0, "host": "%s", "phase": "start", "exit_code": %s,
    "attempt": %s, "reason": "%s", "reason_code": "%s", "started": %s, "ended": %s}' "${SLURMD_NODENAME-}" "$code" \
    "$nemotron_restarts" "$reason" "$reason_code" "$nemotron_began" "`date +%s`" | tr -d '\n' > "${file%/*}/node-0"
  printf 'attempt=%s exit_code=%s fate=%s ended=%s reason_code=%s reason=%s\n' "$nemotron_restarts" "$code" "$fate" \
    "`date +%s`" "$reason_code" "$reason" >> "$nemotron_own/status/attempts${nemotron_shared:+-$nemotron_shared}"
  printf 'nemotron: attempt %s: %s\n' "$((nemotron_restarts + 1))" "$reason"
  [ "$fate" = over ] || exit "$code"
  [ -z "$nemotron_shared" ] || { : > "${file%/*}/over-$nemotron_shared" && set -- "${file%/*}"/over-* && [ $# -ge "${SLURM_ARRAY_TASK_COUNT:-1}" ]; } || exit "$code"
  rm -f "$nemotron_own/secrets.env" && nemotron_versions=()
  [ "$code$nemotron_shared" != 0 ] || [ ! -f "$nemotron_own/versions.sh" ] || . "$nemotron_own/versions.sh"
  for path in "${nemotron_versions[@]}"; do
    [ -d "$path" ] && file=${path%/*}/latest && ln -sfn -- "${path##*/}" "$file.new" && mv -fT -- "$file.new" "$file"
  done
  exit "$code"
}
nemotron_tell() { # NAME: for the command, on every node
  local number=1
  while [ -e "$nemotron_gates/told.$number" ]; do number=$((number + 1)); done
  printf %s "$1" > "$nemotron_gates/.told" && mv "$nemotron_gates/.told" "$nemotron_gates/told.$number"
}
srun() { # WORD...: as main.py and job.py have those of the job's own step
  local root=${!#} word words=() code=0
  case $root in */"$nemotron_script") ;; *) command srun "$@" || return "$?" && return ;; esac
  root=${root%"/$nemotron_script"} nemotron_phase=step TORCHX_MAX_RETRIES=0
  for word; do
    case $word in
      "$root/code" | "$root/$nemotron_script") word=$root${nemotron_own#"$nemotron_root"}${word#"$root"} ;;
      "$nemotron_root"/log-*.out)
        [ "$nemotron_own" = "$nemotron_root" ] || { word=$nemotron_own/${word##*/} && word=${word/\%j/$nemotron_id}; }
        [ "${SLURM_NTASKS:-1}${SLURM_NNODES:-1}" = 11 ] || word=${word%.out}_%t.out ;;
    esac
    words+=("$word")
  done
  rm -f "$nemotron_gates/.code" # bash 5.2 may lose a status as a signal comes: so it is written down
  (trap : INT HUP USR1 USR2 && trap '' TERM && { command srun "${words[@]}" || code=$?; } && echo "$code" > "$nemotron_gates/.code") &
  while kill -0 "$!" 2> /dev/null; do wait "$!" || code=$?; done
  [ ! -s "$nemotron_gates/.code" ] || read -r code < "$nemotron_gates/.code"
  return "$code"
}
trap '{ nemotron_end "$?"; } 2> /dev/null' EXIT
for nemotron_word in TERM INT HUP USR1 USR2; do
  trap "{ nemotron_tell $nemotron_word; } 2> /dev/null" "$nemotron_word"
done
for nemotron_word in $nemotron_early; do nemotron_tell "$nemotron_word"; done
[ -z "$nemotron_needs" ] || { nemotron_reason="the node has no python3 (3.6 or later) for $nemotron_needs" && exit 1; }
