# shellcheck shell=sh
#@ all more
# fence.sh: takes the gate ourselves, so that a late dispatch cannot start.

# h_fence ID WITNESS TOKEN: competes for the gate. Sets h_val to `tried`, or to why it could not. Nothing is synced yet.
h_fence() {
    h_val=store-changed
    h_has_witness "$2" || return 0
    h_val=other-witness
    ! h_elsewhere "$1" "$2" || return 0
    h_fdir=$h_store/x/$2/$1
    h_now
    h_where
    h_val=tried
    if h_make_dir "$h_fdir"; then
        h_gate "$h_fdir" "$3" \
            "1 start kind=fence id=$1 store=$h_sid witness=$2 token=$3 boot=$h_boot wall=$h_wall up=$h_up sync=$h_syncm end"
        case $? in 2) h_val=$h_why ;; esac
        h_litter="$h_litter x/$2/$1/s.$3"
    else
        h_val=$h_why
    fi
}

# h_fence_dir ID WITNESS: notes a directory that is missing, so that one process makes many.
h_fence_dir() {
    h_is id "$1" && h_is witness "$2" && h_has_witness "$2" || return 0
    [ -d "$h_store/x/$2/$1" ] || h_dirs="$h_dirs x/$2/$1"
}

# h_fence_line ID WITNESS TOKEN: one line of a request.
h_fence_line() {
    h_is id "$1" && h_is witness "$2" && h_is hex "$3" && h_fence "$1" "$2" "$3"
    return 0
}

# h_fence_all: fences every execution of the request's list, then tells of it.
h_fence_all() {
    h_i=0
    while [ "$h_i" -lt "$h_chunks" ]; do
        h_i=$((h_i + 1))
        eval "h_piece=\$h_ids_$h_i"
        h_litter='' h_dirs=
        h_each "$h_piece" h_fence_dir
        # shellcheck disable=SC2086 # our own names, made of safe characters only
        [ -z "$h_dirs" ] || (cd "$h_store" && mkdir $h_dirs)
        h_each "$h_piece" h_fence_line
        h_report_piece "$h_piece"
        h_sweep_litter
    done
}

# h_sweep_litter: the temporary names of our own fences.
h_sweep_litter() {
    # shellcheck disable=SC2086 # our own names, made of safe characters only
    [ -z "$h_litter" ] || (cd "$h_store" && rm -f $h_litter)
    h_litter=
}
