job=${job//$home/"$HOME"}
# First what is still being sent for a client that was killed: it becomes the job's directory once it is whole.
rm -rf -- "${job%/*}/.${job##*/}."*
rm -rf -- "$job"
