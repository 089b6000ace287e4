[ -s "$held" ] || exit 0
nodes=$(cat "$held")
said=$(timeout 20 squeue --noheader --states=all --jobs="$id" --format=$'%F\037%T\037%r') || exit 1
state=$(sed -n "s/^${id%%_*}\x1f//p" <<< "$said" | tail -n 1)
case $state in
  PENDING$'\037'JobHeldUser)
    timeout 20 scontrol update "JobId=$id" "ExcNodeList=$nodes" && timeout 20 scontrol release "$id" || exit 1
    ;;
  '' | COMPLETING*) exit 0 ;;
esac
rm -f "$held"
section excluded 0 "$nodes"
