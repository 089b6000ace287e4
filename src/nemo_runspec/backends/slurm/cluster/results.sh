# Reads lines of PATTERN (a path, perhaps with *), then an empty line, then OFFSET and PATH of what has been read.
# The files of a pattern come in the order of the numbers in their names: attempt 2 before 11.
# Answers with a line of SIZE, START, LENGTH and PATH, then so many bytes, for each file that has more; then `end`.
read_logs() {
  patterns=() paths=()
  while IFS= read -r pattern && [ -n "$pattern" ]; do patterns+=("$pattern"); done
  declare -A offsets=()
  while IFS=$'\037' read -r offset path; do offsets[$path]=$offset; done

  IFS= # a path may hold a space
  for pattern in "${patterns[@]}"; do
    case $pattern in
      *\**)
        while IFS= read -r path; do paths+=("$path"); done < <(printf '%s\n' $pattern | sort -V)
        ;;
      *) paths+=("$pattern") ;;
    esac
  done
  for path in "${paths[@]}"; do
    [ -f "$path" ] || continue
    size=$(stat -L -c %s -- "$path") || continue
    start=${offsets[$path]:-0}
    [ "$start" -le "$size" ] || start=0
    length=$((size - start))
    [ "$length" -le "$limit" ] || length=$limit
    [ "$length" -gt 0 ] || continue
    printf '\036%s\037%s\037%s\037%s\n' "$size" "$start" "$length" "$path"
    limit=$((limit - length))
    tail -c "+$((start + 1))" -- "$path" | head -c "$length"
  done
  printf '\036end\n'
}

encoded() { base64 -w 0; echo; }

# DIRECTORY NAME ID: sets `files` to the logs of its last attempt's tasks.
find_logs() {
  local last attempt
  files=("$1/log-$2_$3"_*.out)
  [ "${#files[@]}" -gt 0 ] || files=("$1"/log-*_"$3"_*.out)
  last=$(printf '%s\n' "${files[@]}" | sort -V | tail -n 1) # attempt 10 comes after 9
  [ -n "$last" ] || { files=() && return 0; }
  attempt=${last#*"_$3_"}
  last=${last%"$attempt"}${attempt%%[_.]*}
  files=("$last".out* "$last"_*.out) # one of all tasks, or one of each
}

# LINES BYTES: how many of the lines that ranks have written are not in `files`, where these are too small for all. What
# begins with a carriage return is none: it tells of a line that was not whole yet.
show_lost() {
  local there
  local file there=0
  for file in "${files[@]}"; do there=$((there + $(stat -Lc %s -- "$file"))) || return 0; done
  [ "${#files[@]}" -gt 0 ] && [ "$there" -lt "$2" ] || return 0
  there=$(cat -- "${files[@]}" | grep -a -c '^\[rank')
  [ "$there" -gt 0 ] || there=$(cat -- "${files[@]}" | grep -a -c -v -e '^nemotron' -e $'^\r') # of one rank alone, which has no number
  [ "$there" -ge "$1" ] || printf 'lost\037%s\n' "$(($1 - there))"
}

# DIRECTORY NAME ID: the end of `files`, and of what its batch script wrote.
show_ends() {
  local file
  if [ "${#files[@]}" -gt 0 ]; then
    printf 'log\037'
    for file in "${files[@]}"; do tail -c "$((262144 / ${#files[@]}))" -- "$file"; done | encoded
  fi
  file=$1/sbatch_$2_$3.out
  [ ! -f "$file" ] || { printf 'batch\037'; tail -c 32768 -- "$file" | encoded; }
}

# FILE: a small one as it is; of a large one every metric's last value and its curve, or, where there is no python3 to
# find them, up to 16 MiB of its end.
show_metrics() {
  local found size
  size=$(wc -c < "$1") || return 0
  if [ "$size" -gt 65536 ] && found=$(python3 -I -S -c "$downsample" "$1" 2> /dev/null | encoded; exit "${PIPESTATUS[0]}"); then
    printf 'metrics\037%s\n' "$found"
  else
    printf 'metrics-file\037'
    tail -c 16777216 -- "$1" | encoded
  fi
}

# DIRECTORY PATH: what a job has made becomes the newest version of its artifact, unless another has become that since
# the job has ended.
point_at() {
  local folder=${2%/*} name=${2##*/} ended=("$1"/status/node-*)
  [ -d "$2" ] || return 0
  if [ -L "$folder/latest" ]; then
    [ "${#ended[@]}" -gt 0 ] || return 0
    ended=$(ls -t -d -- "${ended[@]}" | head -n 1)
    [ -z "$(find "$folder/latest" -maxdepth 0 -newer "$ended")" ] || return 0
  fi
  ln -sfn -- "$name" "$folder/.latest.$name" && mv -f -T -- "$folder/.latest.$name" "$folder/latest"
}

# Reads lines of NUMBER, DIRECTORY, NAME, ID, FAILED, SUCCEEDED and the LINES and BYTES its ranks have written, each
# followed by lines of `output` PATH and `version` PATH, and an empty line. Removes the secrets of each job; answers with
# what is left of it.
collect() {
  while IFS=$'\037' read -r number folder name id failed succeeded lines bytes; do
    section "results;$number" 0
    rm -f -- "$folder/secrets.env"
    while IFS=$'\037' read -r kind path && [ -n "$kind" ]; do
      case $kind in
        output) [ ! -e "$path" ] || printf 'output\037%s\n' "$path" ;;
        version) [ -z "$succeeded" ] || point_at "$folder" "$path" 2> /dev/null ;;
      esac
    done
    for file in "$folder"/status/input-*; do
      [ ! -f "$file" ] || printf 'input\037%s\037%s\n' "${file##*/input-}" "$(sed -n 's/^path=//p' "$file")"
    done
    [ ! -f "$folder/status/wandb" ] || { printf 'wandb\037' && encoded < "$folder/status/wandb"; }
    [ ! -s "$folder/metrics.jsonl" ] || show_metrics "$folder/metrics.jsonl"
    find_logs "$folder" "$name" "$id"
    [ "$lines" -eq 0 ] || show_lost "$lines" "$bytes"
    [ -z "$failed" ] || show_ends "$folder" "$name" "$id"
  done
}
