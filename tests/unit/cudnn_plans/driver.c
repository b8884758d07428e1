/* A CUDA driver without a device: it takes what cuDNN loads when it plans, and runs nothing. With it cuDNN plans for a
 * GPU that is not here; what it asks a driver for is what 9.19 asks. */
#define TAKEN(name) \
  int name(void) {  \
    return 0;       \
  }
TAKEN(cuCtxGetCurrent)
TAKEN(cuCtxGetDevice)
TAKEN(cuCtxGetLimit)
TAKEN(cuCtxPopCurrent)
TAKEN(cuCtxPushCurrent)
TAKEN(cuDeviceGet)
TAKEN(cuDeviceGetAttribute)
TAKEN(cuDevicePrimaryCtxRelease)
TAKEN(cuDevicePrimaryCtxReset)
TAKEN(cuDevicePrimaryCtxRetain)
TAKEN(cuFuncGetAttribute)
TAKEN(cuFuncSetAttribute)
TAKEN(cuGetErrorName)
TAKEN(cuGetErrorString)
TAKEN(cuKernelSetAttribute)
TAKEN(cuLaunchCooperativeKernel)
TAKEN(cuLaunchKernel)
TAKEN(cuLaunchKernelEx)
TAKEN(cuLibraryLoadFromFile)
TAKEN(cuLibraryUnload)
TAKEN(cuLinkAddData)
TAKEN(cuLinkAddData_v2)
TAKEN(cuLinkAddFile_v2)
TAKEN(cuLinkComplete)
TAKEN(cuLinkCreate)
TAKEN(cuLinkCreate_v2)
TAKEN(cuLinkDestroy)
TAKEN(cuMemcpyDtoH_v2)
TAKEN(cuModuleGetFunction)
TAKEN(cuModuleGetGlobal_v2)
TAKEN(cuModuleLoadData)
TAKEN(cuModuleLoadDataEx)
TAKEN(cuModuleLoadFatBinary)
TAKEN(cuModuleUnload)
TAKEN(cuOccupancyMaxActiveBlocksPerMultiprocessor)
TAKEN(cuOccupancyMaxPotentialClusterSize)
TAKEN(cuStreamGetCtx)
TAKEN(cuStreamSynchronize)
TAKEN(cuTensorMapEncodeTiled)

enum { kNoDevice = 100 };
static char object;

int cuInit(unsigned flags) {
  (void)flags;
  return kNoDevice;
}
int cuDeviceGetCount(int* count) {
  *count = 0;
  return 0;
}
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
int cuLibraryLoadData(void** library) {
  *library = &object;
  return 0;
}
int cuLibraryGetKernel(void** kernel) {
  *kernel = &object;
  return 0;
}
int cuKernelGetAttribute(int* value) {
  *value = 0;
  return 0;
}
