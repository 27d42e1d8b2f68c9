# shellcheck shell=sh
#@ all more
# end.sh: the last part of what a run seldom needs; with it, that is whole.

h_more_end() { h_has_more=yes; }
