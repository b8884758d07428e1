# Of ctest's log, as ctest itself shows only programs of which all tests were skipped: how many single ones were, and for
# want of what.
is_next { ++count[$0] }
{ is_next = /: Skipped$/ }
END {
  for (reason in count) print "skipped: " count[reason] " x " reason
}
