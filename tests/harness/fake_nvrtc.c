/* NVRTC without CUDA: sources become shared libraries of the host, whose paths the driver in C takes for machine code.
 * FAKE_NVRTC names the folder that has what kernels need on the host. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FAILED = 6 };

typedef struct program {
    char folder[200], library[256], log[1024];
} program;

const char *nvrtcGetErrorString(int status) { return status ? "NVRTC_ERROR_COMPILATION" : "NVRTC_SUCCESS"; }
int nvrtcVersion(int *major, int *minor) { return *major = 13, *minor = 0, 0; }

/* The host has its own. */
static int is_standard(const char *name) {
    return !strcmp(name, "stdint.h") || !strcmp(name, "stddef.h") || !strcmp(name, "string.h") || !strcmp(name, "math.h");
}

static int write_file(const char *folder, const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *at = strchr(path + strlen(folder) + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = 0;
        mkdir(path, 0700);
        *at = '/';
    }
    FILE *file = fopen(path, "w");
    if (!file)
        return 0;
    fputs(text, file);
    return !fclose(file);
}

int nvrtcCreateProgram(program **made, const char *source, const char *name, int n, const char *const *headers, const char *const *names) {
    (void)name;
    program *p = *made = calloc(1, sizeof *p);
    const char *temporary = getenv("TMPDIR");
    snprintf(p->folder, sizeof p->folder, "%s/nvrtc-XXXXXX", temporary ? temporary : "/tmp");
    if (!mkdtemp(p->folder) || !write_file(p->folder, "sdbr.c", source))
        return FAILED;
    for (int k = 0; k < n; k++)
        if (!is_standard(names[k]) && !write_file(p->folder, names[k], headers[k]))
            return FAILED;
    return 0;
}

int nvrtcCompileProgram(program *p, int n, const char *const *options) {
    (void)n, (void)options;
    char command[2048];
    snprintf(p->library, sizeof p->library, "%s/made.so", p->folder);
    snprintf(command, sizeof command,
             "cc -std=gnu99 -O0 -ffp-contract=off -w -I%s -I%s -shared -fPIC %s/sdbr.c -o %s -lm -ldl > %s/log 2>&1", p->folder,
             getenv("FAKE_NVRTC") ? getenv("FAKE_NVRTC") : ".", p->folder, p->library, p->folder);
    const int status = system(command);
    snprintf(command, sizeof command, "%s/log", p->folder);
    FILE *log = fopen(command, "r");
    if (log) {
        p->log[fread(p->log, 1, sizeof p->log - 1, log)] = 0;
        fclose(log);
    }
    return status ? FAILED : 0;
}

int nvrtcGetProgramLogSize(const program *p, size_t *size) { return *size = strlen(p->log) + 1, 0; }
int nvrtcGetProgramLog(const program *p, char *text) { return strcpy(text, p->log), 0; }
int nvrtcGetCUBINSize(const program *p, size_t *size) { return *size = strlen(p->library) + 1, 0; }
int nvrtcGetCUBIN(const program *p, char *text) { return strcpy(text, p->library), 0; }
/* The library is still to be loaded. */
int nvrtcDestroyProgram(program **p) { return free(*p), *p = NULL, 0; }
