# Reads lines of PATTERN (a path, perhaps with *), then an empty line, then OFFSET and PATH of what has been read.
# The files of a pattern come in the order of the numbers in their names: attempt 2 before 11.
# Answers with a line of SIZE, START, LENGTH and PATH, then so many bytes, for each file that has more; then `end`.
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
