# One submission of one job, alone. Answers with `found` (its id, it was there), `absent` (it is not, and `only_look` is
# set), `made` (sbatch's answer), `busy` and `unwritable` (nothing was done, and why), `dropped` (of several by its name, the later ones),
# and what exists where it is refused.

# What a login shell has set for sbatch and srun would win over the script's own lines, or reach the job's tasks: all of
# it goes, but what names the cluster, and what the script leaves open.
for variable in ${!SBATCH_@} ${!SLURM_@} ${!SRUN_@}; do
  case $variable in
    SLURM_CONF | SLURM_CONF_SERVER | SLURM_CLUSTERS | SLURM_JWT | SLURM_TIME_FORMAT | SBATCH_CLUSTERS) ;;
    SBATCH_ACCOUNT | SBATCH_PARTITION | SBATCH_QOS | SBATCH_CONSTRAINT | SBATCH_RESERVATION | SBATCH_WCKEY)
      option=${variable#SBATCH_}
      ! grep -q -i -- "^#SBATCH --$option\b" "$script" 2> /dev/null || unset "$variable"
      ;;
    *) unset "$variable" ;;
  esac
done
unset $hidden

# Its ids; fails where Slurm does not answer.
find_it() { cat "$job/.slurm_id" 2> /dev/null | grep . || find_named; }

# Its ids by its name. The file above is ours; a job that has begun has left its gates. What sbatch refuses may be listed
# nevertheless, as FAILED with the reason BadConstraints and no node: that is no job.
find_named() {
  local said gate
  said=$(timeout "$seconds" squeue --me --noheader --states=all --name="$name" --format='%F %r' 2>&1 < /dev/null 9>&-) || {
    section busy 1 "$said"
    return 1
  }
  said=$(printf '%s\n' "$said" | sed -n '/ BadConstraints$/d; s/ .*//p')
  if [ -z "$said" ]; then
    for gate in "$job"/status/gates-*; do said=${gate##*/gates-} said=${said%%-*}; break; done
  fi
  # Where none was ever begun in this directory, none has been forgotten by squeue.
  [ -z "$said" ] && { [ "$doubtful" ] || [ ! -d "$job" ] || [ -s "$job/.submit" ]; } &&
    said=$(timeout "$seconds" sacct --name="$name" --starttime=now-7days --allocations --noheader --parsable2 --format=JobID,State,NodeList 2> /dev/null < /dev/null 9>&- | sed '/|FAILED|None assigned$/d; s/|.*//')
  [ -z "$said" ] || printf '%s\n' "$said" | sed 's/_.*//' | sort -n -u
}

# A controller that answers again may still have in hand what an sbatch that was not heard of has sent.
find_it_twice() {
  local first
  first=$(find_it) || { printf '%s\n' "$first"; return 1; }
  if [ -z "$first" ] && { [ "$doubtful" ] || [ -s "$job/.submit" ]; }; then
    sleep "$grace"
    find_it
    return
  fi
  printf '%s' "$first"
}

keep_id() {
  { printf '%s\n' "$1" > "$job/.slurm_id.$$" && mv -f "$job/.slurm_id.$$" "$job/.slurm_id"; } 2> /dev/null ||
    rm -f "$job/.slurm_id.$$"
}

# Several by its name, as after an answer that was lost: the first one stays.
settle() {
  local first=$1
  shift
  [ $# -eq 0 ] || section dropped 0 "$(timeout "$seconds" scancel "$@" 2>&1 < /dev/null; echo "$*")"
  keep_id "$first"
  section found 0 "$first"
}

# One at a time, where the file system has locks.
lock() {
  type -P flock > /dev/null && { exec 9>> "$job/.submit"; } 2> /dev/null || return 0
  flock -w 60 9
  case $? in
    0) locked=yes ;;
    1) section busy 1 'another process submits this job' && return 1 ;;
  esac
}

say_what_exists() {
  section partitions 0 "$(timeout "$seconds" sinfo --noheader --summarize --format="%R$field%l$field%D$field%G$field%a$field%s" 2>&1 < /dev/null)"
  section accounts 0 "$(timeout "$seconds" sacctmgr --noheader --parsable2 show associations user="$(id -un)" format=account,partition,qos < /dev/null 2> /dev/null | tr '|' "$field")"
}

# What sbatch said and how it ended.
take_answer() {
  # Kept before it is said: where nobody listens any more, saying it ends this script.
  [ "$2" -ne 0 ] || keep_id "$(printf '%s\n' "$1" | grep -E -x '[0-9]+(;[^ ]+)?' | tail -n 1)"
  section made "$2" "$1"
  if [ "$2" -eq 0 ]; then
    # Where another may have done the same meanwhile, all of that name are counted.
    [ "$locked" ] && [ -z "$doubtful" ] || { ids=$(find_named) && [ "$ids" ] && settle $ids; }
  else
    shopt -s nocasematch
    [ "$2" -eq 124 ] || [ "$2" -eq 137 ] || [[ $1 =~ $busy ]] || : > .submit
    say_what_exists
  fi
}

locked=
if ! cd "$job" 2> /dev/null && [ -z "$only_look" ]; then
  section made 1 "the job's directory is gone: $job"
  exit 0
fi
lock || exit 0
ids=$(find_it_twice) || { printf '%s\n' "$ids"; exit 0; }
if [ "$ids" ]; then settle $ids; exit 0; fi
if [ "$only_look" ]; then section absent 0; exit 0; fi

# The lock goes with sbatch: it holds while sbatch lives, even where this script was killed. Who comes next sees by the
# lock's file that one was begun, and looks twice.
trouble=$({ echo begun >> .submit; } 2>&1) || { section unwritable 1 "${trouble##*: }"; exit 0; }
said=$(timeout 90 "${command[@]}" 2>&1 < /dev/null)
take_answer "$said" $?
