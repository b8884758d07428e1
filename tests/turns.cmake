# Which tests have their turn in a build with TESSERA_SHARE=<number>: docs/decisions/0054-turns-in-ci.md. turns_test.cmake
# counts that each comes, whatever the number begins with.
set(TESSERA_NUM_SHARES 12)  # under sanitizers of so many programs one is built
set(TESSERA_NUM_QUARTERS 4) # .ci/run begins with one of so many parts of the other tests: TESSERA_SHARE modulo 4
set(TESSERA_LONG_SHARES 3)  # of so many cases of the long programs one runs without sanitizers

# tessera_has_turn(<variable> <position>): whether the program at this position is built under sanitizers.
function(tessera_has_turn variable position)
  math(EXPR turn "(${position} + ${TESSERA_SHARE}) % ${TESSERA_NUM_SHARES}")
  set(${variable} ON PARENT_SCOPE)
  if(turn)
    set(${variable} OFF PARENT_SCOPE)
  endif()
endfunction()

# tessera_turn(<variable> <n>): which of n parts of a program's cases run. Not by the remainder that chose the program, or
# the quarter, or some parts would never come.
function(tessera_turn variable n)
  set(divisor ${TESSERA_NUM_QUARTERS})
  if(TESSERA_SANITIZE)
    set(divisor ${TESSERA_NUM_SHARES})
  endif()
  math(EXPR turn "0${TESSERA_SHARE} / ${divisor} % ${n}")
  set(${variable} ${turn} PARENT_SCOPE)
endfunction()
