# shellcheck shell=sh
#@ all super
# gate.sh: the start marker is the gate. One hard link decides between runs and fences.

# h_gate DIRECTORY TOKEN RECORD: 0 the gate is ours; 1 somebody else has it; 2 nobody of us got it, h_why says why.
# The record is complete under a name of its own before it is linked; that name is never opened again.
h_gate() {
    h_write "$1/s.$2" "$3" || return 2
    ln "$1/s.$2" "$1/start" 2>/dev/null
    # the answer of ln is not believed: a directory of that name, a network file system's lost reply
    [ ! "$1/s.$2" -ef "$1/start" ] || return 0
    [ ! -e "$1/start" ] && [ ! -L "$1/start" ] || return 1
    h_explain "$1"
    return 2
}

# h_make_dir DIRECTORY: makes it if it is not there; 1 with h_why.
h_make_dir() {
    [ -d "$1" ] || mkdir "$1" 2>/dev/null || [ -d "$1" ] || { h_explain "${1%/*}"; return 1; }
    [ ! -L "$1" ] || { h_why=store-symlink; return 1; }
}
