# Reads lines of ID, CLUSTER, DIRECTORY, and the id to ask Slurm for, which tasks of an array share. Answers: what squeue
# says of all; what sacct says of those that squeue does not show as alive; what those have left in their directories.
# Associative arrays need keys: an empty one is no key. No here-documents: bash keeps long ones in files of /tmp.
declare -A listed=() alive=() waits=() partitions=() in_array=() again=() folders=() wanted=() noted=()
asked=()

# WORD: succeeds the first time that it is said.
is_new() { [[ -z ${noted["$1"]-} ]] && noted["$1"]=1; }

# CLUSTER IDS: the queue. One id is asked for by itself; of several, the controller sends this user's jobs only.
ask_queue() {
  local said errors me=--me id array task state partition reason status restarts rest
  [[ $2 == *,* ]] || me=
  ask "queue;$1" squeue ${1:+--clusters="$1"} --noheader --array $me --states=all --jobs="$2" --Format="$queue_fields"
  while IFS=$'\037' read -r id array task state partition reason status restarts rest; do
    [[ $id$array =~ ^[0-9]+$ && -n $state ]] || continue # something else was said
    [[ $task == N/A ]] && array=$id || in_array["$array;$1"]=1
    [[ ! $state =~ ^($unsettled)$ ]] || alive["$array;$1"]=1 alive["${array}_$task;$1"]=1
    [[ ! $restarts =~ ^[1-9] ]] || again["$array;$1"]=1 again["${array}_$task;$1"]=1
    [[ $state == PENDING ]] || continue
    ! is_new "waits $array@$1" || waits["@$1"]+=,$array
    ! is_new "partition $partition@$1" || partitions["@$1"]+=,$partition
  done < <(printf '%s\n' "$said")
}

# CLUSTER IDS
ask_accounts() {
  ask "accounts;$1" sacct ${1:+--clusters="$1"} --noheader --parsable2 --delimiter=$'\037' --allocations --duplicates \
    --jobs="$2" --format="$account_fields"
}

# CLUSTER PARTITIONS IDS: the places of these jobs among all that wait in their partitions, arrays counted once.
ask_places() {
  local said errors
  hear timeout "$seconds" squeue ${1:+--clusters="$1"} --noheader --states=PENDING --partition="$2" --sort=-p,i --format=$'%F\037%P' < /dev/null
  section "places;$1" "$?"
  printf '%s\n' "$said" | awk -F '\037' -v ids="$3" '
    BEGIN { split(ids, list, ","); for (i in list) wanted[list[i]] }
    NF == 2 && !seen[$1]++ {
      place = 0
      for (i = split($2, names, ","); i > 0; i--) {
        waiting[names[i]]++
        if (!place || waiting[names[i]] < place) place = waiting[names[i]]
      }
      if ($1 in wanted) print $1 FS place
    }'
}

# DIRECTORY: what its batch script wrote last of what became of it.
show_fate() { [ ! -s "$1/status/attempts" ] || printf 'fate\037%s\n' "$(tail -n 1 -- "$1/status/attempts")"; }

# KEY DIRECTORY. A network file system looks again when the folder is read, which a pattern does.
show_remains() {
  local file gate lines begun=-1 id=${1%%;*}
  [[ $id != *_* ]] || id='*' # to itself, a task of an array is a job with an id of its own
  if [ ! -d "$2" ]; then section "remains;$1" 1; return; fi
  section "remains;$1" 0
  for gate in "$2"/status/gates-$id-*; do
    [[ ! ${gate##*-} =~ ^[0-9]+$ || ${gate##*-} -le $begun ]] || begun=${gate##*-}
  done
  printf 'begun\037%s\n' "$begun"
  show_fate "$2"
  for file in "$2"/status/node-* "$2"/status/cancelled; do
    [[ -f $file && $file != *.tmp ]] || continue
    mapfile -t lines < "$file"
    printf "${file##*/}"'\037%s\n' "${lines[@]}"
  done
}

# How far those are that run: the first line of their metrics and the last ones, and when they were written. A job writes
# there what it likes, so that no separator of ours may come from it. Two processes, however many jobs there are.
show_metrics() {
  local key first file files=()
  section metrics 0
  for key in "${asked[@]}"; do
    file=${folders[$key]}/metrics.jsonl first=
    [[ -n ${alive[$key]-} && -n ${folders[$key]} && -s $file && -r $file ]] || continue
    IFS= read -r -n 2000 first < "$file"
    printf '%s\037%s\037%s\n' "$key" "$file" "${first//[$'\035\036\037']/}"
    files+=("$file")
  done
  [ "${#files[@]}" -gt 0 ] || return 0
  stat -c '%Y %n' -- "${files[@]}" 2> /dev/null
  tail -v -c 2000 -- "${files[@]}" 2> /dev/null | tr -d '\035\036\037'
  echo
}

section slurm 0 "$(slurm_name)"
while IFS=$'\037' read -r id cluster folder ask _; do
  ! is_new "queue $ask@$cluster" || listed["@$cluster"]+=,$ask
  folders["$id;$cluster"]=$folder
  wanted["$id;$cluster"]=$ask
  asked+=("$id;$cluster")
done
for cluster in "${!listed[@]}"; do ask_queue "${cluster#@}" "${listed[$cluster]#,}"; done
listed=()
for key in "${asked[@]}"; do
  [[ -z ${alive[$key]-} || -n ${in_array[$key]-} ]] && is_new "accounts ${wanted[$key]}@${key#*;}" || continue
  listed["@${key#*;}"]+=,${wanted[$key]}
done
for cluster in "${!listed[@]}"; do ask_accounts "${cluster#@}" "${listed[$cluster]#,}"; done
for key in "${asked[@]}"; do
  [[ -n ${folders[$key]} ]] || continue
  if [[ -z ${alive[$key]-} ]]; then show_remains "$key" "${folders[$key]}"
  elif [[ -n ${again[$key]-} ]]; then section "before;$key" 0 "$(show_fate "${folders[$key]}")"; fi
done
[ -z "$places" ] || for cluster in "${!waits[@]}"; do
  ask_places "${cluster#@}" "${partitions[$cluster]#,}" "${waits[$cluster]#,}"
done
[ -z "$places" ] || show_metrics
