# shellcheck shell=sh
#@ all
# shellcheck disable=SC3067 # test -O: every shell of the matrix has it
# install.sh: the wrapper puts itself into the store.

# h_install FILE: the wrapper has come whole into FILE (the exec string did that, and reads it now): checked, synced, named by its SHA-256.
h_install() {
    h_begin_answer
    h_caps='' h_syncm=sync h_sham=- h_epoch=-
    if ! h_fit || ! h_store_safe || [ ! -O "$h_bin" ]; then
        h_error "$h_why"
    else
        h_install_file "$1" && h_line "installed $h_sha" || h_error "$h_why"
    fi
    command rm -f "$1"
    h_end_answer
}

h_install_file() {
    for h_x in openssl shasum sha256sum; do
        ! command -v "$h_x" >/dev/null 2>&1 || h_sham=$h_x
    done
    h_sha "$1"
    [ "$h_val" = - ] || [ "$h_val" = "$h_sha" ] || { h_why=sha; return 1; }
    h_caps_fresh || h_caps_make || return 1
    h_sync "$1" || { h_why=sync; return 1; }
    mv "$1" "$h_bin/$h_sha" || { h_explain "$h_bin"; return 1; }
    h_parts
}

# h_parts: the parts of the wrapper that a run reads, with their checksums, durable; the one that a run begins with comes last. 1 with h_why.
h_parts() {
    h_w=$h_bin/$h_sha
    h_random || return 1
    for h_y in more super front; do
        h_extract "$h_w" "$h_y" "$h_w.t$h_val" && mv "$h_w.t$h_val" "$h_w.$h_y" || { h_explain "$h_bin"; return 1; }
    done
    h_sums >"$h_w.t$h_val" && mv "$h_w.t$h_val" "$h_w.sums" || { h_explain "$h_bin"; return 1; }
    h_sync "$h_w" "$h_w.more" "$h_w.super" "$h_w.front" "$h_w.sums" "$h_bin" "$h_store" || { h_why=sync; return 1; }
}

# h_extract FROM PROGRAM TO: the parts that PROGRAM needs, each marked by a line `#@ PROGRAM...` before it. A run reads the wrapper twice, and
# a shell needs milliseconds for the whole.
h_extract() {
    sed -n -e '/^#@/{h;d;}' -e "G;/\\n#@.* $2/P" "$1" >"$3" && [ -s "$3" ]
}

# h_sums: a static busybox may come without cksum.
h_sums() {
    set -- "$h_w.more" "$h_w.super" "$h_w.front"
    if command -v cksum >/dev/null 2>&1; then cksum "$@"; else sha256sum "$@"; fi
}

# h_parts_whole: whether the parts are what was installed; a part that was cut would answer nothing for ever.
h_parts_whole() {
    h_w=$h_bin/$h_sha
    h_x=$(h_sums)
    h_y=$(cat "$h_w.sums")
    [ -n "$h_x" ] && [ "$h_x" = "$h_y" ]
}
