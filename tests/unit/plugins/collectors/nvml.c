/* A driver's libnvidia-ml.so.1 with one GPU, for tests of the binding. Signatures and structures are those of
 * NVIDIA's nvml.h. Compiled with -DOLD it is an older driver's, without the newer list of processes. */
#include <stdio.h>
#include <string.h>

typedef int nvmlReturn_t;
typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct nvmlEventSet_st *nvmlEventSet_t;

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6,
       INSUFFICIENT_SIZE = 7, TIMEOUT = 10 };

typedef struct { unsigned long long total, free, used; } nvmlMemory_t;
typedef struct { unsigned int pid; unsigned long long usedGpuMemory;
                 unsigned int gpuInstanceId, computeInstanceId; } nvmlProcessInfo_t;
typedef struct { unsigned int pid; unsigned long long usedGpuMemory; } nvmlProcessInfo_v1_t;
typedef struct { unsigned int pid; unsigned long long timeStamp;
                 unsigned int smUtil, memUtil, encUtil, decUtil; } nvmlProcessUtilizationSample_t;
typedef struct { char busIdLegacy[16]; unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
                 char busId[32]; } nvmlPciInfo_t;
typedef struct { nvmlDevice_t device; unsigned long long eventType, eventData;
                 unsigned int gpuInstanceId, computeInstanceId; } nvmlEventData_t;

static int opened, events, processes = 3;
static char first, set;
#define GPU ((nvmlDevice_t)&first)
#define SET ((nvmlEventSet_t)&set)
#define READY if (!opened) return UNINITIALIZED
#define KNOWN(device) READY; if (device != GPU) return INVALID_ARGUMENT

static nvmlReturn_t text(char *buffer, unsigned int length, const char *value) {
    if (strlen(value) >= length) return INSUFFICIENT_SIZE;
    strcpy(buffer, value);
    return SUCCESS;
}

void set_processes(int number) { processes = number; }
int is_open(void) { return opened; }

nvmlReturn_t nvmlInit_v2(void) { opened++; return SUCCESS; }
nvmlReturn_t nvmlShutdown(void) { READY; opened--; return SUCCESS; }
const char *nvmlErrorString(nvmlReturn_t code) { return code == NOT_SUPPORTED ? "Not Supported" : "Failed"; }
nvmlReturn_t nvmlSystemGetDriverVersion(char *v, unsigned int n) { READY; return text(v, n, "550.54.15"); }

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *device) {
    READY;
    if (strcmp(id, "0000:3b:00.0")) return NOT_FOUND;
    *device = GPU;
    return SUCCESS;
}
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t d, unsigned int *index) { KNOWN(d); *index = 5; return SUCCESS; }
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t d, unsigned int *minor) { KNOWN(d); *minor = 3; return SUCCESS; }
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *v, unsigned int n) {
    KNOWN(d);
    return text(v, n, "GPU-8e3a6d58-0e4a-4ee4-b1f5-6f2f3c7d9a10");
}
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *v, unsigned int n) { KNOWN(d); return text(v, n, "NVIDIA H100"); }
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *memory) {
    KNOWN(d);
    memory->total = 85899345920ULL; memory->free = 1; memory->used = 2;
    return SUCCESS;
}

#define LIST(name, type)                                                             \
    nvmlReturn_t name(nvmlDevice_t d, unsigned int *count, type *found) {            \
        KNOWN(d);                                                                    \
        if (*count < (unsigned)processes) { *count = processes; return INSUFFICIENT_SIZE; } \
        for (int i = 0; i < processes; i++) {                                        \
            memset(&found[i], 0xff, sizeof found[i]);                                \
            found[i].pid = 100 + i;                                                  \
            found[i].usedGpuMemory = i == 2 ? ~0ULL : (i + 1ULL) << 32;              \
        }                                                                            \
        *count = processes;                                                          \
        return SUCCESS;                                                              \
    }
#ifdef OLD
LIST(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t)
#else
LIST(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t)
#endif

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t d, nvmlProcessUtilizationSample_t *found,
                                             unsigned int *count, unsigned long long since) {
    static const nvmlProcessUtilizationSample_t samples[] = {
        {100, 7000, 11, 1, 2, 3}, {100, 9000, 42, 1, 2, 3}, {100, 8000, 12, 1, 2, 3}, {101, 9000, 7, 0, 0, 0}};
    KNOWN(d);
    if (since != 1024) return INVALID_ARGUMENT;
    if (!processes) return NOT_FOUND;
    if (!found || *count < 4) { *count = 4; return INSUFFICIENT_SIZE; }
    memcpy(found, samples, sizeof samples);
    *count = 4;
    return SUCCESS;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *created) { READY; *created = SET; return SUCCESS; }
nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t freed) { READY; return freed == SET ? SUCCESS : INVALID_ARGUMENT; }
nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t d, unsigned long long types, nvmlEventSet_t to) {
    KNOWN(d);
#ifdef OLD
    return NOT_SUPPORTED;
#endif
    if (types != 8 || to != SET) return INVALID_ARGUMENT;
    events = 1;
    return SUCCESS;
}
nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t of, nvmlEventData_t *data, unsigned int milliseconds) {
    READY;
    if (of != SET || milliseconds != 5000) return INVALID_ARGUMENT;
    if (!events) return TIMEOUT;
    events = 0;
    data->device = GPU; data->eventType = 8; data->eventData = 79;
    return SUCCESS;
}
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *pci) {
    KNOWN(d);
    memset(pci, 0, sizeof *pci);
    strcpy(pci->busIdLegacy, "0000:3B:00.0");
    strcpy(pci->busId, "00000000:3B:00.0");
    return SUCCESS;
}
