# shellcheck shell=sh
#@ all
# shellcheck disable=SC3067 # test -O: every shell of the matrix has it
# install.sh: the wrapper puts itself into the store.

# h_install FILE: the wrapper has come whole into FILE (the exec string did that, and reads it now): checked, synced, named by its SHA-256.
h_install() {
    h_begin_answer
    h_caps='' h_syncm=sync h_sham=- h_epoch=-
    h_mkdirs="$h_store/bin"
    if ! h_store_safe || [ -L "$h_mkdirs" ] || [ ! -O "$h_mkdirs" ]; then
        h_error "$h_why"
    else
        h_install_file "$1" && h_line "installed $h_sha" || h_error "$h_why"
    fi
    rm -f "$1" "$1.front" "$1.super" "$1.more"
    h_end_answer
}

h_install_file() {
    for h_x in openssl shasum sha256sum; do
        ! command -v "$h_x" >/dev/null 2>&1 || h_sham=$h_x
    done
    h_sha "$1"
    [ "$h_val" = - ] || [ "$h_val" = "$h_sha" ] || { h_why=sha; return 1; }
    h_caps_fresh || h_caps_make || return 1
    h_x=$h_store/bin/$h_sha
    for h_y in more super front; do
        h_extract "$1" "$h_y" || { h_explain "$h_store/bin"; return 1; }
    done
    h_sync "$1" "$1.more" "$1.super" "$1.front" || { h_why=sync; return 1; }
    # the one that a run begins with comes last
    mv "$1.more" "$h_x.more" && mv "$1.super" "$h_x.super" && mv "$1" "$h_x" && mv "$1.front" "$h_x.front" ||
        { h_explain "$h_store/bin"; return 1; }
    h_sync "$h_x" "$h_x.more" "$h_x.super" "$h_x.front" "$h_store/bin" "$h_store" || { h_why=sync; return 1; }
}

# h_extract FILE PROGRAM: the parts that PROGRAM needs, each marked by a line `#@ PROGRAM...` before it. A run reads the wrapper twice, and a shell
# needs milliseconds for the whole.
h_extract() {
    sed -n -e '/^#@/{h;d;}' -e "G;/\\n#@.* $2/P" "$1" >"$1.$2" && [ -s "$1.$2" ]
}
