# What a cluster has to offer to whoever asks.
section host 0
printf '%s\037%s\037%s\n' "$(id -un)" "$HOME" "$(timeout 5 bash -lc 'printf %s "$SCRATCH"' < /dev/null 2> /dev/null)"
type -P sbatch > /dev/null || exit 0
section sbatch 0
ask partitions sinfo --all --noheader --format="%P$field%l$field%G$field%a"
show_accounts && ask default sacctmgr --noheader --parsable2 show user "$(id -un)" format=defaultaccount
