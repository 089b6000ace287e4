while IFS=$'\037' read -r folder task; do
  case $folder in *..* | [!/]*) continue ;; */jobs/*) ;; *) continue ;; esac
  rm -rf -- "$folder/members/$task" || exit
  rmdir -- "$folder/members" 2> /dev/null && { rm -rf -- "$folder" || exit; }
done
exit 0
