# shellcheck shell=sh
#@ all
# shellcheck disable=SC3067 # test -O: every shell of the matrix has it
# contact.sh: the first exchange with a store, and the wrapper's own installation.

# h_contact: makes the store where it is not there, leaves the witness, durable, and tells who we are.
h_contact() {
    umask 077
    h_begin_answer
    if ! h_fit; then
        h_error "$h_why"
    elif ! h_request || [ -z "$h_witness" ] || [ -z "$h_q_journal" ]; then
        h_error request
    elif ! h_programs || ! h_store_make || ! h_leave_witness; then
        h_error "$h_why"
    else
        h_contact_lines
    fi
    h_end_answer
}

# h_fit: whether the account's startup files left us what a run needs: stdout and stderr apart, and (bash hands both on through the environment)
# programs that are no functions, and a shell without options. 1 with h_why. The caller's functions and options are his command's, too: not ours to undo.
h_fit() {
    h_why=streams
    [ "$h_streams" = apart ] || return 1
    [ -n "${BASH_VERSION-}" ] || return 0
    h_why=exports
    # shellcheck disable=SC3044 # only bash comes here
    case $(command declare -p SHELLOPTS) in 'declare -rx '*) return 1 ;; esac
    for h_x in $h_needed; do
        # shellcheck disable=SC3044
        ! command declare -F "$h_x" >/dev/null || return 1
    done
}

h_contact_lines() {
    h_where
    h_line "store $h_sid"
    h_encode "$h_store"
    h_line "path $h_val"
    h_line "boot $h_boot"
    h_caps=${h_caps# }
    h_line "caps ${h_caps% }"
    h_line "witness $h_witness"
    h_newest
    h_line "newest $h_val"
    h_sha "$h_bin/$h_sha"
    [ "$h_val" != - ] || h_val=$h_sha
    h_line "wrapper $h_val"
}

# h_store_make: a safe store with identity and capabilities, all on disk. 1 with h_why.
h_store_make() {
    if ! h_store_safe; then
        [ "$h_why" = store-missing ] || return 1
        [ -z "$h_q_store" ] || { h_why=store-changed; return 1; }
        mkdir -p "$h_store" 2>/dev/null || { h_explain "${h_store%/*}"; return 1; }
        h_store_safe || return 1
    fi
    [ -w "$h_store" ] || { h_why='readonly'; return 1; }
    chmod 700 "$h_store" 2>/dev/null || { h_why=store-owner; return 1; }
    [ -d "$h_store/x" ] || mkdir "$h_store/x" 2>/dev/null || [ -d "$h_store/x" ] || { h_explain "$h_store"; return 1; }
    h_caps_fresh || h_caps_make || return 1
    h_parts_whole || h_parts || return 1
    h_make_id || return 1
    [ -z "$h_q_store" ] || [ "$h_q_store" = "$h_sid" ] || { h_why=store-changed; return 1; }
}

# h_make_id: the store's identity, published by a link so that two first contacts agree, and durable before it is told.
h_make_id() {
    h_store_id && return 0
    h_random && h_sid=$h_val && h_random || return 1
    h_write "$h_store/i.$h_val" "$h_sid" || return 1
    ln "$h_store/i.$h_val" "$h_store/store-id" 2>/dev/null
    rm -f "$h_store/i.$h_val"
    h_store_id || { h_why=store-id; return 1; }
    # the directories above may be new, too; another account's need no sync of ours
    set -- "$h_store/store-id" "$h_store"
    h_x=${h_store%/*}
    while [ -n "$h_x" ] && [ -O "$h_x" ] && [ -r "$h_x" ]; do
        set -- "$@" "$h_x"
        h_x=${h_x%/*}
    done
    h_sync "$@" || { h_why=sync; return 1; }
}

# h_leave_witness: the directory x/WITNESS with a non-empty file in it, on disk.
h_leave_witness() {
    h_w=$h_store/x/$h_witness
    mkdir "$h_w" 2>/dev/null || { h_explain "$h_store/x"; [ ! -d "$h_w" ] || h_why=witness; return 1; }
    h_now
    h_write "$h_w/w" "1 witness store=$h_sid witness=$h_witness wall=$h_wall up=$h_up end" || return 1
    h_sync "$h_w/w" "$h_store/store-id" "$h_w" "$h_store/x" "$h_store" || { h_why=sync; return 1; }
}

# h_encode PATH: h_val is the path in the form of the wire.
h_encode() {
    h_val=$1
    case $1 in *[!A-Za-z0-9/._+@,:-]*) ;; *) return 0 ;; esac
    h_val=
    for h_x in $(h_put "$1" | od -An -v -b); do
        # shellcheck disable=SC2059 # the octal number is the format
        h_c=$(printf "\\$h_x.")
        h_c=${h_c%.}
        case $h_c in [A-Za-z0-9/._+@,:-]) h_val=$h_val$h_c ;; *) h_val=$h_val%$h_x ;; esac
    done
}

# h_newest: h_val is this journal's witness with the highest sequence, the new one apart; `-` if there is none.
h_newest() {
    h_best=-1 h_val=-
    set +f
    for h_x in "$h_store/x/$h_q_journal"_*; do
        h_y=${h_x##*/}
        h_n=${h_y#*_} h_n=${h_n%%_*}
        h_is number "$h_n" && h_is witness "$h_y" && [ "$h_y" != "$h_witness" ] && [ -s "$h_x/w" ] || continue
        [ "$h_n" -gt "$h_best" ] || continue
        h_best=$h_n h_val=$h_y
    done
    set -f
}
