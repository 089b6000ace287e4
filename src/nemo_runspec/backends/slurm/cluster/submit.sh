# One submission of one job, alone. Answers with `found` (its id, it was there), `absent` (it is not, and `only_find` is
# set), `made` (sbatch's answer), `busy` and `unwritable` (nothing was done, and why), `dropped` (of several by its name, the later ones),
# and what exists where it is refused.

heed "$(cat -- "$script" 2> /dev/null)"
unset $hidden

# WORD: whether it is a job's id, in a federation with its cluster.
is_id() { [[ $1 =~ ^[0-9]+(;[^[:space:]]+)?$ ]]; }

# Its ids; fails where Slurm does not answer. A note that holds no id is none.
find_it() {
  local noted=
  ! read -r noted 2> /dev/null < "$job/.slurm_id" || ! is_id "$noted" || { printf '%s\n' "$noted"; return; }
  find_named
}

# Its ids as squeue lists them. What sbatch refuses may be listed nevertheless, as FAILED with the reason BadConstraints
# and no node: that is no job.
list_named() {
  local said errors id known reason
  hear timeout "$seconds" squeue --me --noheader --states=all --name="$name" --format=$'%F\037%j\037%r' < /dev/null 9>&- || {
    section busy 1 "$said" "$errors"
    return 1
  }
  while IFS=$'\037' read -r id known reason; do
    [[ $id =~ ^[0-9]+$ && $known == "$name" && $reason != BadConstraints ]] && printf '%s\n' "$id"
  done <<< "$said" | sort -n -u
}

# Its ids by its name. The file above is ours; a job that has begun has left its gates.
find_named() {
  local said gate number
  said=$(list_named) || { printf '%s\n' "$said"; return 1; }
  if [ -z "$said" ]; then
    for gate in "$job"/status/gates-*; do
      number=${gate##*/gates-} number=${number%%-*}
      ! is_id "$number" || { said=$number; break; }
    done
  fi
  # Where none was ever begun in this directory, none has been forgotten by squeue.
  [ -z "$said" ] && { [ "$doubtful" ] || [ ! -d "$job" ] || [ -s "$job/.submit" ]; } &&
    said=$(timeout "$seconds" sacct --name="$name" --starttime=now-7days --allocations --noheader --parsable2 --format=JobID,State,NodeList 2> /dev/null < /dev/null 9>&- | sed -n '/|FAILED|None assigned$/d; s/^\([0-9][0-9]*\)\(_[^|]*\)\{0,1\}|.*/\1/p' | sort -n -u)
  [ -z "$said" ] || printf '%s\n' "$said"
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

# Several by its name, as after an answer that was lost: the first one stays. Nothing but an id is ever cancelled.
settle() {
  local first=$1 id others=() said errors
  shift
  for id; do ! is_id "$id" || others+=("$id"); done
  if [ "${#others[@]}" -gt 0 ]; then
    hear timeout "$seconds" scancel "${others[@]}" < /dev/null
    section dropped 0 "${others[*]}" "$errors"
  fi
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
  ask partitions sinfo --noheader --summarize --format="%R$field%l$field%D$field%G$field%a$field%s"
  show_accounts
}

# ANSWER: the id in what sbatch said. A site's wrapper may print numbers of its own: that of a job by this name is meant.
# Where none was said, a job by this name is. Fails where several were said, and Slurm does not say which it is: another
# number may be that of another job.
id_in() {
  local line named ids=()
  named=$(list_named) || named=
  while read -r line; do
    is_id "$line" || continue
    ! grep -q -x -F -e "${line%%;*}" <<< "$named" || { printf '%s\n' "$line"; return; }
    [ "$line" = "${ids[0]-}" ] || ids+=("$line")
  done <<< "$1"
  [ "$named" ] || [ "${#ids[@]}" -le 1 ] || return 1
  printf '%s\n' "${named:-${ids[0]-}}" | head -n 1
}

# CODE: how sbatch ended; it is in `said` what it said.
take_answer() {
  local id=
  [ "$1" -ne 0 ] || id=$(id_in "$said") || {
    section busy 1 'sbatch said several numbers, and squeue does not say which of them the job has'
    return
  }
  # Kept before it is said: where nobody listens any more, saying it ends this script.
  [ -z "$id" ] || keep_id "$id"
  section made "$1" "${id:-$said}" "$errors"
  if [ "$id" ]; then
    # Where another may have done the same meanwhile, all of that name are counted.
    [ "$locked" ] && [ -z "$doubtful" ] || { ids=$(find_named) && [ "$ids" ] && settle $ids; }
  elif [ "$1" -ne 0 ]; then
    shopt -s nocasematch
    [ "$1" -eq 124 ] || [ "$1" -eq 137 ] || [[ $said$errors =~ $busy ]] || : > .submit
    say_what_exists
  fi
}

locked=
if ! cd "$job" 2> /dev/null && [ -z "$only_find" ]; then
  section made 1 "the job's directory is gone: $job"
  exit 0
fi
lock || exit 0
ids=$(find_it_twice) || { printf '%s\n' "$ids"; exit 0; }
if [ "$ids" ]; then settle $ids; exit 0; fi
if [ "$only_find" ]; then section absent 0; exit 0; fi

# The lock goes with sbatch: it holds while sbatch lives, even where this script was killed. Who comes next sees by the
# lock's file that one was begun, and looks twice.
trouble=$({ echo begun >> .submit; } 2>&1) || { section unwritable 1 "${trouble##*: }"; exit 0; }
hear timeout 90 "${command[@]}" < /dev/null
take_answer $?
