# shellcheck shell=sh
#@ all super
# gate.sh: the start marker is the gate. One hard link decides between runs and fences.

# h_gate DIRECTORY TOKEN RECORD: 0 the gate is ours; 1 somebody else has it; 2 nobody of us got it, h_why says why.
# The record is complete under a name of its own before it is linked; that name is never opened again.
h_gate() {
    h_write "$1/s.$2" "$3" || return 2
    ln "$1/s.$2" "$1/start" 2>/dev/null
    # the answer of ln is not believed: a directory of that name, a network file system's lost reply
    if h_record "$1/start" start; then
        [ "$h_rec" != "$3" ] || return 0
        return 1
    fi
    [ ! -e "$1/start" ] && [ ! -L "$1/start" ] || return 1
    h_explain "$1"
    return 2
}

# h_make_dir DIRECTORY: makes it if it is not there; 1 with h_why.
h_make_dir() {
    [ -d "$1" ] || mkdir "$1" 2>/dev/null || [ -d "$1" ] || { h_explain "${1%/*}"; return 1; }
    [ ! -L "$1" ] || { h_why=store-symlink; return 1; }
}

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
        h_litter=
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
