# What of a job is on its way to a cluster: functions, of which one is called.
#
# The pool: code packages and programs of ours, by their digests. A job has copies of its own, or links that stay.
# `programs`: a line for each, as sha256sum writes it: DIGEST  NAME. `days`: how long what nobody asks for is kept.
#
# COMMAND...: runs it; where it fails, its last words are the answer.
must() {
  local said
  said=`"$@" 2>&1` || { section end 1 "`printf '%s\n' "$said" | tail -n 3`"; exit 0; }
}

prune() { find "$pool" -maxdepth 1 -type f -mtime "+$days" -delete 2> /dev/null; }

# FILE: it is a file of mine, no link to one: what belongs to somebody else may be changed while a job waits.
mine() { [ -f "$1" ] && [ ! -L "$1" ] && [ -O "$1" ] && [ -r "$1" ]; }

# They are all in the pool, by their names. What is in them is looked at where they are taken.
have_programs() {
  local digest name files=()
  [ "$programs" ] || return
  while read -r digest name; do
    mine "$pool/$digest" || return
    files+=("$pool/$digest")
  done <<< "$programs"
  touch -c "${files[@]}"
} 2> /dev/null

# Those in the new directory are what their digests say.
are_right() { (cd "$scratch" && sha256sum -c <<< "$programs") > /dev/null 2>&1; }

# FILE NAME: a second name for it, else a copy, where the file system has none.
also() {
  ln "$1" "$2" && mine "$2" && return
  rm -f "$2"
  cp -p "$1" "$2"
} 2> /dev/null

# From the pool to the new directory.
take_programs() {
  local digest name
  while read -r digest name; do
    also "$pool/$digest" "$scratch/$name" && mine "$scratch/$name" || return
  done <<< "$programs"
  are_right
}

# From the new directory to the pool, in the place of what may be there. Without a pool the next job brings them again.
keep_programs() {
  local digest name new
  [ -d "$pool" ] && are_right || return
  while read -r digest name; do
    new=$pool/.$digest.$$.$RANDOM
    also "$scratch/$name" "$new" && mv -fT "$new" "$pool/$digest" || { rm -f "$new"; return 1; }
  done <<< "$programs"
  prune
} 2> /dev/null

# What this login node is, and what of a job is there already: its package, our programs, its directory.
probe() {
  package_there=no programs_there=no job_there=no
  if [ -n "$package" ] && [ -f "$package" ]; then package_there=yes; touch -c "$package"; fi
  if have_programs; then programs_there=yes; fi
  [ ! -d "$job" ] || job_there=yes
  section found 0
  printf '%s\037%s\037%s\037%s\037%s\n' "$HOME" "$package_there" "$programs_there" "$job_there" "`slurm_name`"
}

receive() {
  cat > "$scratch" || return
  [ "`wc -c < "$scratch"`" -eq "$size" ] || { echo 'the package did not arrive whole'; return 1; }
}

# Takes a code package from its input: whole, or not at all.
receive_package() {
  scratch=$pool/.${package##*/}.$$.$RANDOM
  must mkdir -p "$pool"
  umask 077
  trap 'rm -f "$scratch"' EXIT
  trap 'exit 1' HUP INT TERM
  must receive
  must mv -f "$scratch" "$package"
  prune
  section end 0
}

# PARENT PAUSE ROUNDS, in a shell of its own: stays on the login node while a job below that folder has a file of
# secrets, and removes the files of jobs that Slurm has no more: a job that is cancelled while it waits never runs a line
# that could. One for each folder. A job is over where Slurm answers twice without it, ROUNDS times PAUSE seconds apart.
# One that was never submitted has a day.
watch_secrets() {
  parent=$1 pause=$2 rounds=$3 round=0
  cd / || exit
  exec 9< "$parent" || exit
  flock -n 9 2> /dev/null
  case $? in
    0) last='' ;;
    1) exit ;; # another one is here
    *) last=1440 ;; # a file system without locks: not for ever then
  esac
  declare -A absent=()
  shopt -s nullglob

  # Its ids in the queue; fails where Slurm does not answer.
  queue() { timeout 60 squeue --me --noheader --format='|%F|%j|' 2> /dev/null < /dev/null; }

  # FOLDER FILE: whether the job of this folder is still in the queue, or may come into it.
  is_wanted() {
    local id=
    read -r id 2> /dev/null < "$1/.slurm_id"
    id=${id%%;*}
    case $id in
      '' | *[!0-9]*) [[ $queue == *"${1##*/}|"* ]] || [ -z "`find "$2" -mmin +1440 2> /dev/null`" ] ;;
      *) [[ $queue == *"|$id|"* ]] ;;
    esac
  }

  while [ -d "$parent" ]; do
    files=("$parent"/*/secrets.env "$parent"/*/members/*/secrets.env)
    [ "${#files[@]}" -gt 0 ] || exit 0
    [ -z "$last" ] || [ "$round" -lt "$last" ] || exit 0
    if [ $((round % rounds)) -eq 0 ] && queue=`queue`; then
      for file in "${files[@]}"; do
        folder=${file%/secrets.env} folder=${folder%/members/*}
        if is_wanted "$folder" "$file"; then
          unset "absent[$file]"
        elif [ "${absent[$file]-}" ]; then
          rm -f -- "$file" || : > "$file"
        else
          absent[$file]=yes
        fi
      done
    fi
    sleep "$pause"
    round=$((round + 1))
  done
}

# Whoever waits for the jobs' secrets to be of no more use: it outlives this connection, and holds nothing of it.
keep_secrets() {
  [ "$secrets" ] || return 0
  setsid nohup bash -c "`declare -f watch_secrets`"$'\nwatch_secrets "$@"' nemotron-secrets "$parent" "$pause" "$rounds" \
    < /dev/null > /dev/null 2>&1 &
}

# FILE...: wiped away since it was looked for: whoever sends this is told, and sends it too.
missing() {
  section missing 0 "$*"
  exit 0
}

whole() { rm "$scratch/.whole" 2> /dev/null || { echo "they did not arrive whole"; return 1; }; }

move() { mv -T "$scratch" "$job" || [ -d "$job" ]; }

# Makes the job directory: package and programs from the pool, everything else from the input. Whole, or not at all.
make_job() {
  parent=${job%/*} name=${job##*/}
  if [ -d "$job" ]; then section end 0; exit 0; fi
  [ -z "$store" ] || must mkdir -p -- "$store"
  must mkdir -p "$parent"
  [ -z "$sent" ] || mkdir -p "$pool" 2> /dev/null
  umask 077
  rm -rf -- "$parent/.$name."*   # of a submission that was cut off
  scratch=$parent/.$name.$$.$RANDOM
  trap 'rm -rf "$scratch"' EXIT
  trap 'exit 1' HUP INT TERM
  must mkdir "$scratch" "$scratch/code"
  [ -z "$package" ] || [ -f "$package" ] || missing "$package"
  [ -z "$package" ] || must tar -x -z -p -o -f "$package" -C "$scratch/code"
  must tar -x -p -o -m -f - -C "$scratch" # times are this machine's, whatever clock the sender has
  must whole
  if [ "$sent" ]; then keep_programs; else take_programs || missing programs; fi
  must move
  keep_secrets
  section end 0
}

# The job's directory goes.
remove_job() {
  job=${job//$home/"$HOME"}
  # First what is still being sent for a client that was killed: it becomes the job's directory once it is whole.
  rm -rf -- "${job%/*}/.${job##*/}."*
  rm -rf -- "$job"
}

# Whether what a job reads is there: `paths`.
look_for_inputs() {
  for ((number = 0; number < ${#paths[@]}; number++)); do
    path=${paths[number]//$home/"$HOME"}
    top=${path#/} top=/${top%%/*}
    if [ -e "$path" ]; then said=there; elif [ -d "$top" ]; then said=missing; else said=unseen; fi
    section "input;$number" 0
    printf '%s\037%s\n' "$said" "$path"
  done
}
