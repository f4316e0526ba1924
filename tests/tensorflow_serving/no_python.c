/* Runs a SavedModel through TensorFlow's C API, without Python.
 *
 * usage: no_python SAVED_MODEL OP_LIBRARY... < PLAN
 *
 * PLAN is a run: lines `feed NAME string|int32|float COUNT` with COUNT lines of values after each
 * (strings in hexadecimal), `fetch NAME` and `run`. Prints each fetched tensor: `NAME DTYPE RANK
 * DIMENSIONS...`, then a value a line.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tensorflow/c/c_api.h>
#include <tensorflow/c/tf_tstring.h>

enum { MOST = 16, LINE = 1 << 20 };

static void check(TF_Status *status, const char *what) {
  if (TF_GetCode(status) != TF_OK) {
    fprintf(stderr, "%s: %s\n", what, TF_Message(status));
    exit(1);
  }
}

static char line[LINE];

static char *next_line(void) {
  if (!fgets(line, LINE, stdin)) return NULL;
  line[strcspn(line, "\n")] = 0;
  return line;
}

static TF_Output output_of(TF_Graph *graph, char *name) {
  char *colon = strchr(name, ':');
  int index = colon ? atoi(colon + 1) : 0;
  if (colon) *colon = 0;
  TF_Output output = {TF_GraphOperationByName(graph, name), index};
  if (!output.oper) {
    fprintf(stderr, "no operation %s\n", name);
    exit(1);
  }
  return output;
}

static TF_Tensor *read_tensor(const char *dtype, int64_t count) {
  int is_string = !strcmp(dtype, "string"), is_int = !strcmp(dtype, "int32");
  size_t size = is_string ? sizeof(TF_TString) : 4;
  TF_Tensor *tensor = TF_AllocateTensor(
      is_string ? TF_STRING : is_int ? TF_INT32 : TF_FLOAT, &count, 1, count * size);
  for (int64_t i = 0; i < count; i++) {
    char *text = next_line();
    char *slot = (char *)TF_TensorData(tensor) + i * size;
    if (is_int) {
      *(int *)slot = atoi(text);
    } else if (!is_string) {
      *(float *)slot = strtof(text, NULL);
    } else {
      size_t length = strlen(text) / 2;
      char *bytes = malloc(length + 1);
      for (size_t k = 0; k < length; k++) sscanf(text + 2 * k, "%2hhx", (unsigned char *)bytes + k);
      TF_StringInit((TF_TString *)slot);
      TF_StringCopy((TF_TString *)slot, bytes, length);
      free(bytes);
    }
  }
  return tensor;
}

static void print_tensor(const char *name, TF_Tensor *tensor) {
  int64_t count = 1;
  printf("%s %d %d", name, TF_TensorType(tensor), TF_NumDims(tensor));
  for (int i = 0; i < TF_NumDims(tensor); i++) {
    printf(" %lld", (long long)TF_Dim(tensor, i));
    count *= TF_Dim(tensor, i);
  }
  printf("\n");
  for (int64_t i = 0; i < count; i++) {
    void *data = TF_TensorData(tensor);
    if (TF_TensorType(tensor) == TF_INT32) {
      printf("%d", ((int *)data)[i]);
    } else if (TF_TensorType(tensor) == TF_FLOAT) {
      printf("%.9g", ((float *)data)[i]);
    } else {
      const TF_TString *string = (TF_TString *)data + i;
      const char *bytes = TF_StringGetDataPointer(string);
      for (size_t k = 0; k < TF_StringGetSize(string); k++) printf("%02x", (unsigned char)bytes[k]);
    }
    printf("\n");
  }
}

int main(int argc, char **argv) {
  TF_Status *status = TF_NewStatus();
  for (int i = 2; i < argc; i++) {
    TF_LoadLibrary(argv[i], status);
    check(status, argv[i]);
  }
  TF_Graph *graph = TF_NewGraph();
  TF_SessionOptions *options = TF_NewSessionOptions();
  const char *tags[] = {"serve"};
  TF_Session *session =
      TF_LoadSessionFromSavedModel(options, NULL, argv[1], tags, 1, graph, NULL, status);
  check(status, argv[1]);

  TF_Output feeds[MOST], fetches[MOST];
  TF_Tensor *inputs[MOST], *outputs[MOST];
  char names[MOST][256], dtype[16];
  int feeding = 0, fetching = 0;
  long long count;
  while (next_line()) {
    if (sscanf(line, "feed %255s %15s %lld", names[MOST - 1], dtype, &count) == 3) {
      feeds[feeding] = output_of(graph, names[MOST - 1]);
      inputs[feeding++] = read_tensor(dtype, count);
    } else if (sscanf(line, "fetch %255s", names[fetching]) == 1) {
      char copy[256];
      strcpy(copy, names[fetching]);
      fetches[fetching++] = output_of(graph, copy);
    } else if (!strcmp(line, "run")) {
      TF_SessionRun(session, NULL, feeds, inputs, feeding, fetches, outputs, fetching, NULL, 0,
                    NULL, status);
      check(status, "run");
      for (int i = 0; i < fetching; i++) print_tensor(names[i], outputs[i]);
      feeding = fetching = 0;
    } else {
      fprintf(stderr, "cannot read: %s\n", line);
      return 1;
    }
  }
  return 0;
}
