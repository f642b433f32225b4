/*
 * A function for Node: gives the pages that malloc holds free back to the system.
 *
 * By itself glibc gives back what lies behind the last piece in use. The buffers of a stream lie among small things
 * that stay, so 20 MB remain of some streams of 50. `base/src/resting-heap.ts` calls it when the daemon comes to rest.
 *
 * Node-API keeps its binary form, and needs two declarations here: no header has to be fetched for a build.
 * https://nodejs.org/api/n-api.html
 */
#include <stddef.h>

typedef struct napi_env__ *napi_env;
typedef struct napi_value__ *napi_value;
typedef struct napi_callback_info__ *napi_callback_info;
typedef napi_value (*napi_callback)(napi_env, napi_callback_info);

int napi_create_function(napi_env env, const char *name, size_t length, napi_callback callback, void *data,
                         napi_value *result);
napi_value napi_register_module_v1(napi_env env, napi_value exports);

/* Another libc has none: then the function does nothing. */
__attribute__((weak)) int malloc_trim(size_t pad);

static napi_value trim(napi_env env, napi_callback_info info) {
  (void)env;
  (void)info;
  if (malloc_trim != NULL) (void)malloc_trim(0);
  return NULL;
}

/* What the module exports is the function itself. */
napi_value napi_register_module_v1(napi_env env, napi_value exports) {
  napi_value function;
  enum { NAPI_OK };
  if (napi_create_function(env, "mallocTrim", sizeof "mallocTrim" - 1, trim, NULL, &function) != NAPI_OK) return exports;
  return function;
}
