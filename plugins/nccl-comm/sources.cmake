# The sources of nccl-comm without its ABI edge, relative to this folder: built here, and by tests/cuda_on_cpu.
set(TESSERA_NCCL_COMM_SOURCES
    enqueue.cc
    gpu.cc
    library.cc
    nccl_comm.cc
    rendezvous.cc
    session.cc
    status_board.cc
    watchdog.cc)
