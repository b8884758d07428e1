# What of CUDA is here: TESSERA_HAS_CUDA (nvcc, the toolkit's headers, cuBLASLt's) and the flags of our CUDA code. A
# missing toolkit leaves the GPU plugins out, with a message; with TESSERA_CUDA=ON it is an error.
set(TESSERA_CUDA AUTO CACHE STRING "Build the GPU plugins: AUTO (if nvcc is there), ON or OFF")
set_property(CACHE TESSERA_CUDA PROPERTY STRINGS AUTO ON OFF)

set(TESSERA_HAS_CUDA OFF)
if(NOT TESSERA_CUDA STREQUAL OFF AND NOT TESSERA_SANITIZE)
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    # CMake itself reads CUDAARCHS only the first time it looks for the compiler.
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT "$ENV{CUDAARCHS}" STREQUAL "")
      set(CMAKE_CUDA_ARCHITECTURES "$ENV{CUDAARCHS}")
    elseif(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 80-real 90) # A100; H100, H200 and PTX for later ones
    endif()
    enable_language(CUDA)
    # CUDA 13 has no nvToolsExt any more, and CMake 3.25 sets a property of it all the same.
    if(NOT TARGET CUDA::nvToolsExt)
      add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
    endif()
    find_package(CUDAToolkit 12 REQUIRED)
    set(TESSERA_HAS_CUDA ON)
    message(STATUS "CUDA: toolkit ${CUDAToolkit_VERSION}, for ${CMAKE_CUDA_ARCHITECTURES}")
    tessera_uses(CUDA ${CUDAToolkit_VERSION})
  elseif(TESSERA_CUDA STREQUAL ON)
    message(FATAL_ERROR "TESSERA_CUDA is ON, but nvcc was not found; put it on PATH or set CMAKE_CUDA_COMPILER")
  else()
    tessera_left_out("CUDA: nvcc was not found; cuda-device and nccl-comm are left out")
  endif()
elseif(TESSERA_COMPLETE AND NOT TESSERA_SANITIZE)
  tessera_left_out("CUDA: TESSERA_CUDA is OFF, so cuda-device and nccl-comm are left out")
endif()

if(TESSERA_HAS_CUDA)
  # The runtime is linked statically; the driver is opened by it, and every other library by our code, when it is used.
  add_library(tessera_cuda_flags INTERFACE)
  target_link_libraries(tessera_cuda_flags INTERFACE CUDA::cudart_static)
  # -std=c++20 by hand: CMake 3.25 does not know that nvcc takes it.
  # No implicit contraction, as everywhere: FMA is written where it is meant.
  target_compile_options(
    tessera_cuda_flags
    INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -ffp-contract=off>
              "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--fmad=false;--expt-relaxed-constexpr;-Xcompiler=-Wall,-Wextra,-Wshadow>")
endif()

# cuDNN's headers, and those of its front end, which ./dev fetches. The library is opened when it is used.
if(TESSERA_HAS_CUDA)
  find_path(TESSERA_CUDNN_FRONTEND cudnn_frontend.h PATHS "${PROJECT_SOURCE_DIR}/build/cudnn-frontend/include"
            DOC "Folder of cudnn_frontend.h, of NVIDIA's cudnn-frontend")
  find_path(TESSERA_CUDNN_INCLUDE cudnn.h PATHS ${CUDAToolkit_INCLUDE_DIRS} DOC "Folder of cudnn.h")
  if(TESSERA_CUDNN_FRONTEND AND NOT EXISTS "${TESSERA_CUDNN_FRONTEND}/cudnn_frontend.h")
    message(FATAL_ERROR "TESSERA_CUDNN_FRONTEND is ${TESSERA_CUDNN_FRONTEND}, which does not contain cudnn_frontend.h; "
                        "configure through ./dev, which fetches it, or with -U TESSERA_CUDNN_FRONTEND")
  endif()
  if(TESSERA_CUDNN_FRONTEND AND TESSERA_CUDNN_INCLUDE)
    add_library(tessera_cudnn_frontend INTERFACE)
    # For C++ alone, which uses it: in a command of nvcc ccache leaves the path of the checkout as it is, and finds nothing.
    target_include_directories(
      tessera_cudnn_frontend SYSTEM
      INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${TESSERA_CUDNN_FRONTEND}>" "$<$<COMPILE_LANGUAGE:CXX>:${TESSERA_CUDNN_INCLUDE}>")
    target_compile_definitions(tessera_cudnn_frontend INTERFACE NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
                                                                CUDNN_FRONTEND_SKIP_JSON_LIB)
    message(STATUS "cuDNN: its front end is in ${TESSERA_CUDNN_FRONTEND}")
  else()
    tessera_left_out("cuDNN: cudnn.h or its front end was not found; attention in 16 bits is left to our own kernels")
  endif()
endif()
