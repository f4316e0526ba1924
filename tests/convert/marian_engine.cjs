// Translates texts with Marian compiled to WebAssembly, each by itself.
// usage: node engine.cjs PACKAGE JOBS, where PACKAGE is the folder of @browsermt/bergamot-translator
// and JOBS a JSON file: [{"model": FILE, "vocabs": [FILE, ...], "config": YAML, "texts": [...]}].
// Prints a JSON list of lists of translations.
const fs = require('fs');
const path = require('path');

const worker = path.join(process.argv[2], 'worker');
const jobs = JSON.parse(fs.readFileSync(process.argv[3], 'utf-8'));
const integer = {
  int8_prepare_a: 'int8PrepareAFallback',
  int8_prepare_b: 'int8PrepareBFallback',
  int8_prepare_b_from_transposed: 'int8PrepareBFromTransposedFallback',
  int8_prepare_b_from_quantized_transposed: 'int8PrepareBFromQuantizedTransposedFallback',
  int8_prepare_bias: 'int8PrepareBiasFallback',
  int8_multiply_and_add_bias: 'int8MultiplyAndAddBiasFallback',
  int8_select_columns_of_b: 'int8SelectColumnsOfBFallback',
};

function memory(bytes, alignment) {
  const aligned = new Module.AlignedMemory(bytes.byteLength, alignment);
  aligned.getByteArrayView().set(new Int8Array(bytes));
  return aligned;
}

function translate(service, {model, vocabs, config, texts}) {
  const list = new Module.AlignedMemoryList();
  for (const file of vocabs) list.push_back(memory(fs.readFileSync(file), 64));
  const loaded = new Module.TranslationModel(
    config, memory(fs.readFileSync(model), 256), memory(new Uint8Array(0), 64), list, null);
  const translations = texts.map((text) => {
    const input = new Module.VectorString();
    const options = new Module.VectorResponseOptions();
    input.push_back(text);
    options.push_back({alignment: false, html: false, qualityScores: false});
    const responses = service.translate(loaded, input, options);
    const translation = responses.get(0).getTranslatedText();
    [responses, input, options].forEach((each) => each.delete());
    return translation;
  });
  loaded.delete();
  return translations;
}

function run() {
  const service = new Module.BlockingService({cacheSize: 0});
  process.stdout.write(JSON.stringify(jobs.map((job) => translate(service, job))));
}

global.Module = {
  instantiateWasm(imports, accept) {
    const gemm = Object.fromEntries(Object.entries(integer).map(
      ([name, fallback]) => [name, (...given) => Module.asm[fallback](...given)]));
    const bytes = fs.readFileSync(path.join(worker, 'bergamot-translator-worker.wasm'));
    WebAssembly.instantiate(bytes, {...imports, wasm_gemm: gemm})
      .then(({instance}) => accept(instance));
    return {};
  },
  onRuntimeInitialized: run,
};
(0, eval)(fs.readFileSync(path.join(worker, 'bergamot-translator-worker.js'), 'utf-8'));
