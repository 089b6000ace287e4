# Reads lines of PATTERN (a path, perhaps with *), then an empty line, then OFFSET and PATH of what has been read.
# Answers with a line of SIZE, START, LENGTH and PATH, then so many bytes, for each file that has more; then `end`.
patterns=() paths=()
while IFS= read -r pattern && [ -n "$pattern" ]; do patterns+=("$pattern"); done
declare -A seen=()
while IFS=$'\037' read -r offset path; do seen[$path]=$offset; done

for pattern in "${patterns[@]}"; do
  case $pattern in
    *\**) paths+=($pattern) ;;
    *) paths+=("$pattern") ;;
  esac
done
for path in "${paths[@]}"; do
  [ -f "$path" ] || continue
  size=$(stat -L -c %s -- "$path") || continue
  start=${seen[$path]:-0}
  [ "$start" -le "$size" ] || start=0 # it was emptied
  length=$((size - start))
  [ "$length" -le "$limit" ] || length=$limit
  [ "$length" -gt 0 ] || continue
  printf '\036%s\037%s\037%s\037%s\n' "$size" "$start" "$length" "$path"
  limit=$((limit - length))
  tail -c "+$((start + 1))" -- "$path" | head -c "$length"
done
printf '\036end\n'
