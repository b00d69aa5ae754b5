// Runs a SavedModel from strings to strings as a model server does: TensorFlow, threads, no Python.
//
//   native_host SAVED_MODEL INPUT OUTPUT THREADS INTRA_OP INTER_OP XLA [OPS...]
//
// INPUT and OUTPUT are the tensors of a signature (such as serving_default_text:0), INTRA_OP and
// INTER_OP are TensorFlow's session options, 0 to 127, XLA is 1 or 0: whether compiled functions may
// run, which a server by default refuses. OPS are the libraries with the tokenizers' ops.
//
// A request, on standard input: the number of strings, then each as its size and its bytes.
// An answer, on standard output as soon as it is ready: the number of the request, TF_SessionRun's
// status code and nanoseconds, the process's resident bytes, then strings as in a request; where the
// code is not 0, the error's message alone.
// Numbers are uint32 in the machine's order, nanoseconds and resident bytes uint64.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tensorflow/c/c_api.h"

// What the model server calls unless it is started with --xla_cpu_compilation_enabled.
void DisableXlaCompilation(void) __asm__("_ZN10tensorflow21DisableXlaCompilationEv");

static TF_Session *session;
static TF_Output input, output;

static void fail(const char *what, const char *why) {
  fprintf(stderr, "native_host: %s: %s\n", what, why);
  exit(1);
}

static void check(const TF_Status *status, const char *what) {
  if (TF_GetCode(status) != TF_OK) fail(what, TF_Message(status));
}

static TF_Output find_strings(TF_Graph *graph, char *name) {
  char *colon = strrchr(name, ':');
  if (colon == NULL) fail(name, "expected OPERATION:INDEX");
  *colon = '\0';
  TF_Output found = {TF_GraphOperationByName(graph, name), atoi(colon + 1)};
  if (found.oper == NULL) fail(name, "the graph has no such operation");
  if (found.index < 0 || found.index >= TF_OperationNumOutputs(found.oper)) {
    fail(name, "the operation has no such output");
  }
  if (TF_OperationOutputType(found) != TF_STRING) fail(name, "expected strings");
  return found;
}

// Returns NULL at the end of the requests.
static TF_Tensor *read_request(uint32_t *number) {
  static uint32_t requests = 0;
  uint32_t count, size;
  if (fread(&count, sizeof count, 1, stdin) != 1) return NULL;
  *number = requests++;
  int64_t shape = count;
  TF_Tensor *texts = TF_AllocateTensor(TF_STRING, &shape, 1, count * sizeof(TF_TString));
  TF_TString *strings = TF_TensorData(texts);
  for (uint32_t i = 0; i < count; i++) {
    if (fread(&size, sizeof size, 1, stdin) != 1) fail("a request", "cut short");
    char *text = malloc((size_t)size + 1);
    if (text == NULL) fail("a request", "out of memory");
    if (fread(text, 1, size, stdin) != size) fail("a request", "cut short");
    TF_StringInit(&strings[i]);
    TF_StringCopy(&strings[i], text, size);
    free(text);
  }
  return texts;
}

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static uint64_t resident_bytes(void) {
  unsigned long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%*u %lu", &pages) != 1) fail("/proc/self/statm", "unreadable");
  fclose(file);
  return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void write_all(const void *bytes, size_t size) {
  if (fwrite(bytes, 1, size, stdout) != size) fail("an answer", "nobody reads it");
}

static void write_string(const char *bytes, size_t size) {
  uint32_t short_size = (uint32_t)size;
  write_all(&short_size, sizeof short_size);
  write_all(bytes, size);
}

static void write_answer(uint32_t number, uint64_t nanoseconds, TF_Status *status,
                         const TF_Tensor *translations) {
  uint32_t code = TF_GetCode(status);
  uint64_t resident = resident_bytes();
  uint32_t count = code == TF_OK ? (uint32_t)TF_TensorElementCount(translations) : 1;
  write_all(&number, sizeof number);
  write_all(&code, sizeof code);
  write_all(&nanoseconds, sizeof nanoseconds);
  write_all(&resident, sizeof resident);
  write_all(&count, sizeof count);
  if (code != TF_OK) {
    write_string(TF_Message(status), strlen(TF_Message(status)));
  } else {
    const TF_TString *strings = TF_TensorData(translations);
    for (uint32_t i = 0; i < count; i++) {
      write_string(TF_StringGetDataPointer(&strings[i]), TF_StringGetSize(&strings[i]));
    }
  }
  if (fflush(stdout) != 0) fail("an answer", "nobody reads it");
}

static void *serve(void *unused) {
  TF_Status *status = TF_NewStatus();
  for (;;) {
    uint32_t number = 0;
    flockfile(stdin);
    TF_Tensor *texts = read_request(&number);
    funlockfile(stdin);
    if (texts == NULL) break;

    TF_Tensor *translations = NULL;
    uint64_t start = now();
    TF_SessionRun(session, NULL, &input, &texts, 1, &output, &translations, 1, NULL, 0, NULL,
                  status);
    uint64_t nanoseconds = now() - start;

    flockfile(stdout);
    write_answer(number, nanoseconds, status, translations);
    funlockfile(stdout);
    TF_DeleteTensor(texts);
    TF_DeleteTensor(translations);
  }
  TF_DeleteStatus(status);
  return unused;
}

int main(int argc, char **argv) {
  if (argc < 8) fail("usage", "SAVED_MODEL INPUT OUTPUT THREADS INTRA_OP INTER_OP XLA [OPS...]");
  int threads = atoi(argv[4]);
  if (threads < 1) fail(argv[4], "expected a number of threads, 1 or more");
  if (atoi(argv[7]) == 0) DisableXlaCompilation();
  TF_Status *status = TF_NewStatus();
  for (int i = 8; i < argc; i++) {
    TF_Library *ops = TF_LoadLibrary(argv[i], status);
    check(status, argv[i]);
    TF_DeleteLibraryHandle(ops);  // Its ops stay.
  }

  // The fields intra_op_parallelism_threads, 2, and inter_op_parallelism_threads, 5.
  const char config[] = {2 << 3, (char)atoi(argv[5]), 5 << 3, (char)atoi(argv[6])};
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_SetConfig(options, config, sizeof config, status);
  check(status, "session options");
  const char *tags[] = {"serve"};
  TF_Graph *graph = TF_NewGraph();
  session = TF_LoadSessionFromSavedModel(options, NULL, argv[1], tags, 1, graph, NULL, status);
  check(status, argv[1]);
  input = find_strings(graph, argv[2]);
  output = find_strings(graph, argv[3]);

  pthread_t *workers = calloc((size_t)threads, sizeof *workers);
  if (workers == NULL) fail("threads", "out of memory");
  for (int i = 0; i < threads; i++) {
    if (pthread_create(&workers[i], NULL, serve, NULL) != 0) fail("threads", "no more to be had");
  }
  for (int i = 0; i < threads; i++) pthread_join(workers[i], NULL);

  free(workers);
  TF_CloseSession(session, status);
  TF_DeleteSession(session, status);
  TF_DeleteGraph(graph);
  TF_DeleteSessionOptions(options);
  TF_DeleteStatus(status);
}
