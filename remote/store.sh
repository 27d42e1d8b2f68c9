# shellcheck shell=sh
#@ all super
# shellcheck disable=SC3067 # test -O: every shell of the matrix has it
# store.sh: the marker store: is it ours, what can this host do, where is an execution.

# h_store_safe: whether the store is a directory that nobody else could have put there. 1 with h_why.
h_store_safe() {
    case $h_store in
        '') h_why=no-home; return 1 ;;
        /*) ;;
        *) h_why=store-path; return 1 ;;
    esac
    case $h_store in *"$h_nl"*) h_why=store-path; return 1 ;; esac
    if [ -L "$h_store" ]; then
        h_why=store-symlink
    elif [ ! -e "$h_store" ]; then
        h_why=store-missing
    elif [ ! -d "$h_store" ]; then
        h_why=store-type
    elif [ ! -O "$h_store" ]; then
        h_why=store-owner
    elif [ -L "$h_store/x" ] || [ -L "$h_store/bin" ]; then
        h_why=store-symlink
    else
        return 0
    fi
    return 1
}

# h_store_id: h_sid is the store's identity. 1 where there is none.
h_store_id() {
    h_sid=
    { IFS= read -r h_sid; } 2>/dev/null <"$h_store/store-id" || return 1
    h_is hex "$h_sid"
}

# h_store_open: the store as it is, nothing made. 0: safe, has an identity, and it is the expected one if the request names one.
# 1 with h_why; h_why=store-changed means: not the store that the request is about.
h_store_open() {
    h_sid=-
    if ! h_store_safe; then
        [ "$h_why" != store-missing ] || [ -z "$h_q_store" ] || h_why=store-changed
        return 1
    fi
    if ! h_store_id; then
        h_sid=- h_why=store-id
        [ -z "$h_q_store" ] || h_why=store-changed
        return 1
    fi
    [ -z "$h_q_store" ] || [ "$h_q_store" = "$h_sid" ] || { h_why=store-changed; return 1; }
    h_caps_read
}

# h_caps_read: what the contact found. Without it nothing is known about this host, and nothing can be durable.
h_caps_read() {
    h_caps=
    { IFS= read -r h_caps; } 2>/dev/null <"$h_store/caps" || { h_why=caps; return 1; }
    h_caps=" $h_caps "
    h_field "$h_caps" sync && h_syncm=$h_val
    h_field "$h_caps" setsid && h_setsid=$h_val
    h_field "$h_caps" epoch && h_epoch=$h_val
    h_field "$h_caps" fifo && h_fifom=$h_val
    h_field "$h_caps" sleep && h_sleepm=$h_val
    h_half=1
    [ "$h_sleepm" != part ] || h_half=0.5
    h_field "$h_caps" shared && h_shared=$h_val
    h_field "$h_caps" sha && h_sham=$h_val
}

# h_has_witness WITNESS: whether it is in the store.
h_has_witness() {
    [ -s "$h_store/x/$1/w" ] && [ ! -L "$h_store/x/$1" ]
}

# h_elsewhere ID WITNESS: whether the execution has a start marker under another witness.
h_elsewhere() {
    set +f
    for h_x in "$h_store"/x/*/"$1"/start; do
        [ "$h_x" != "$h_store/x/$2/$1/start" ] || continue
        if [ -e "$h_x" ] || [ -L "$h_x" ]; then
            set -f
            return 0
        fi
    done
    set -f
    return 1
}
