for ((number = 0; number < ${#paths[@]}; number++)); do
  path=${paths[number]//$home/"$HOME"}
  top=${path#/} top=/${top%%/*}
  if [ -e "$path" ]; then said=there; elif [ -d "$top" ]; then said=missing; else said=unseen; fi
  section "input;$number" 0
  printf '%s\037%s\n' "$said" "$path"
done
