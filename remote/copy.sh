# shellcheck shell=sh
#@ all front
# copy.sh: from a file that grows to the channel, never further than is known to be the command's.

# h_copy: what is new in both files goes to the channel; 1 when that is gone. h_moved is how much went in the last round: while it is much,
# there is another one.
h_copy() {
    h_moved=1000001
    while [ "$h_moved" -gt 1000000 ]; do
        h_moved=0
        h_copy_new 3 out || return 1
        h_copy_new 4 err >&9 || return 1
    done
}

# h_copy_new FD NAME: up to the size that the file has now, which is known before it is asked whether a sentinel may stand in it (collect.sh).
h_copy_new() {
    [ -s "$h_front_dir/$2" ] || return 0
    h_size "$h_front_dir/$2"
    [ "$h_val" != - ] || return 0
    [ ! -e "$h_front_dir/h.$h_token" ] || return 0
    h_copy_to "$1" "$h_val"
}

# h_copy_to FD SIZE: the file from its offset up to SIZE, and not a byte more; h_moved grows by what went.
h_copy_to() {
    h_offset "$1"
    [ "$h_pos" != - ] || return 1
    h_x=$(($2 - h_pos))
    [ "$h_x" -gt 0 ] || return 0
    h_moved=$((h_moved + h_x))
    [ "$h_x" -lt 65536 ] || dd bs=65536 count=$((h_x / 65536)) <&"$1" || return 1
    [ $((h_x % 65536)) -eq 0 ] || dd bs=$((h_x % 65536)) count=1 <&"$1"
}
