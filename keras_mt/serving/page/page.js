// The page asks the server that it came from, and no other. What people and the server write
// becomes the text of elements, never HTML.

const $ = (id) => document.getElementById(id);
const [source, target, glossary] = ["source", "target", "glossary"].map($);
const [text, shadow, result, hint] = ["text", "shadow", "result", "hint"].map($);
const names = new Intl.DisplayNames(undefined, { type: "language", fallback: "none" });
const DOUBTS = {
  loop: "repeats itself, and may be wrong.",
  length: "is much longer or shorter than its source: something may be missing or made up.",
};
const attempt = (run) => {
  try {
    return run();
  } catch {} // A browser may keep nothing, and not know a code.
};

let languages = []; // {code, name, targets}
let glossaries = []; // {id, name, source, target}
let settings = {};
let detected = ""; // The code of the text's language.
let partners = new Map(); // Of the element of a word: those of the words that belong to it.
let key = attempt(() => sessionStorage.getItem("key")) ?? "";
let running = new AbortController();
let timer;

/** The answer of the server; an error says in words why there is none. */
async function ask(path, body, signal) {
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  const sent = fetch(path, { method: body ? "POST" : "GET", body, headers, signal });
  const response = await sent.catch((error) => {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer. It may have ended, or you are offline.");
  });
  const answer = await response.json().catch(() => ({}));
  const { status } = response;
  signal?.throwIfAborted();
  if (response.ok) return answer;
  const said = answer.error ? `${answer.error[0].toUpperCase()}${answer.error.slice(1)}.` : "";
  const words = {
    403: key ? "This key is wrong." : "This server asks for an API key.",
    413: `That is too much at once. ${said}`,
    429: said || "The server has much to do.",
    503: "The server is not ready.",
  };
  const error = new Error(words[status] ?? (said || `The server answered with error ${status}.`));
  const wait = [429, 503].includes(status) && (Number(response.headers.get("Retry-After")) || 5);
  throw Object.assign(error, { status, wait });
}

/** Says what went wrong, and tries again when the server said so, or when a person does. */
function fail(error, again) {
  if (error.name === "AbortError") return;
  settle();
  const needsKey = error.status === 403;
  $(needsKey ? "key-form" : "trouble").hidden = false;
  $(needsKey ? "key-problem" : "problem").textContent = error.message;
  $("again").onclick = again;
  const tick = (seconds) => {
    $("wait").textContent = seconds ? `Next try in ${seconds} s.` : "";
    if (seconds) timer = setTimeout(seconds > 1 ? () => tick(seconds - 1) : again, 1000);
  };
  tick(error.wait);
}

/** Ends what waits, and takes back what was said of errors. */
function settle() {
  clearTimeout(timer);
  running.abort();
  $("busy").hidden = $("trouble").hidden = true;
  $("problem").textContent = "";
}

const tag = (code) => code.replaceAll("_", "-");
const entry = (code) => languages.find((each) => each.code === code);
const nameOf = (code) => attempt(() => names.of(tag(code))) ?? entry(code)?.name ?? code;
const targetsOf = (code) => entry(code)?.targets.filter((to) => to !== code) ?? [];
const choices = () =>
  Object.fromEntries([source, target, glossary].map(({ id, value }) => [id, value || null]));
const sourceNow = () => (source.value === "auto" ? detected : source.value);

/** Offers what can be chosen together with what is chosen. */
function offerAll() {
  const offer = (select, rows) => {
    const before = select.value;
    select.replaceChildren(...rows.map(([value, name]) => new Option(name, value)));
    if (rows.some(([value]) => value === before)) select.value = before;
  };
  const named = (codes) =>
    codes.map((code) => [code, nameOf(code)]).sort(([, a], [, b]) => a.localeCompare(b));
  const sources = languages.map(({ code }) => code).filter((code) => targetsOf(code).length);
  const isAuto = source.value === "auto";
  const first = isAuto && detected ? `${nameOf(detected)} (detected)` : "Detect";
  offer(source, [["auto", first], ...named(sources)]);
  const from = isAuto ? sources : [source.value];
  offer(target, named([...new Set(from.flatMap(targetsOf))]));
  const fits = (own, code) => !own || !code || own === code;
  const fitting = glossaries.filter(
    (each) => fits(each.source, sourceNow()) && fits(each.target, target.value),
  );
  offer(glossary, [["", "None"], ...fitting.map(({ id, name }) => [id, name])]);
  $("glossary-label").hidden = !fitting.length;
  $("swap").disabled = !targetsOf(target.value).includes(sourceNow());
  [text.lang, result.lang] = [tag(sourceNow()), tag(target.value)];
}

/** Takes notice of a new text, which is translated in a moment. */
function typed(milliseconds = settings.frontendTimeout ?? 500) {
  settle();
  shadow.textContent = `${text.value}\n`;
  partners = new Map();
  light();
  const [count, most] = [[...text.value].length, settings.charLimit ?? 0];
  const numbers = [count, most].filter((x) => x > 0).map((x) => x.toLocaleString());
  $("count").textContent = count ? `${numbers.join(" of ")} characters` : "";
  $("translate").disabled = !text.value.trim();
  document.body.classList.add("stale");
  if (!text.value.trim()) show({ translatedText: "" });
  else timer = setTimeout(translate, milliseconds);
}

async function translate() {
  settle();
  if ($("translate").disabled) return;
  running = new AbortController();
  $("busy").hidden = false;
  const q = text.value.toWellFormed?.() ?? text.value; // Half a character is none.
  const wish = { q, format: "text", details: true, ...choices() };
  const body = new Blob([JSON.stringify(wish)], { type: "application/json" });
  try {
    show(await ask("translate", body, running.signal));
  } catch (error) {
    fail(error, translate);
  }
}

/** Shows a translation, which words belong together, and what to doubt. */
function show({ translatedText, detectedLanguage, details = {} }) {
  settle();
  document.body.classList.remove("stale");
  detected = detectedLanguage?.language ?? "";
  offerAll();
  const [from, to] = [text.value, translatedText].map(places);
  const words = fill(shadow, `${text.value}\n`);
  const translated = fill(result, translatedText);
  for (const [start, , place] of details.links ?? []) {
    const [one, other] = [words.get(from[start]), translated.get(to[place])];
    if (!one || !other) continue; // The server's white space differs a little.
    partners.set(one, [...(partners.get(one) ?? []), other]);
    partners.set(other, [...(partners.get(other) ?? []), one]);
  }
  $("doubts").replaceChildren();
  for (const [start, end, kind] of details.warnings ?? []) {
    for (const [at, word] of translated) {
      if (at >= to[start] && at < to[end]) word.className = "doubt";
    }
    const part = translatedText.slice(to[start], to[end]).replace(/^(.{60}).+/su, "$1…");
    const textContent = `“${part}” ${DOUBTS[kind] ?? "may be wrong."}`;
    $("doubts").append(Object.assign(document.createElement("li"), { textContent }));
  }
  $("copy").hidden = !translatedText;
  light();
}

/** The index in a string of each of its code points, and of its end. */
function places(string) {
  const found = [0];
  for (const character of string) found.push(found.at(-1) + character.length);
  return found;
}

/** Fills a box with a text whose words are elements; gives these by their indices. */
function fill(box, string) {
  const words = new Map();
  let at = 0;
  box.replaceChildren();
  for (const part of string.split(/(\s+)/)) {
    const word = Object.assign(document.createElement("span"), { textContent: part });
    if (part.trim()) words.set(at, word);
    box.append(part.trim() ? word : part);
    at += part.length;
  }
  return words;
}

/** Lights up a word and those that belong to it, and says them. */
function light(word) {
  for (const each of document.querySelectorAll(".lit")) each.classList.remove("lit");
  const others = partners.get(word) ?? [];
  for (const each of others.length ? [word, ...others] : []) each.classList.add("lit");
  const how = result.matches(":focus-visible") ? "Press ← or →" : "Point at a word";
  const arrow = result.contains(word) ? "←" : "→";
  const said = others.map((each) => each.textContent).join(" ");
  hint.textContent = partners.size ? `${how} to see where words come from.` : "";
  if (others.length) hint.textContent = `${word.textContent} ${arrow} ${said}`;
}

async function translateFile(file) {
  const form = new FormData();
  const fields = Object.entries({ ...choices(), file }).filter(([, value]) => value);
  for (const field of fields) form.set(...field);
  $("download").hidden = true;
  $("file-status").textContent = `Translating ${file.name} …`;
  try {
    const { translatedFileUrl } = await ask("translate_file", form);
    $("download").href = translatedFileUrl.match(/[^/]+\/[^/]+$/)[0]; // Whatever a proxy is called.
    $("download").hidden = false;
    $("file-status").textContent = `${file.name} is translated.`;
  } catch (error) {
    $("file-status").textContent = error.message;
    if (error.status === 403) fail(error, start);
  }
}

async function start() {
  settle();
  try {
    settings = await ask("frontend/settings");
    $("file").accept = settings.supportedFilesFormat?.join() ?? "";
    languages = await ask("languages");
    if (!target.value) target.add(new Option("", settings.language?.target.code));
    offerAll();
    glossaries = await ask("glossaries");
    if (!$("key-form").hidden) text.focus();
    $("key-form").hidden = true;
    typed();
  } catch (error) {
    fail(error, start);
  }
}

text.oninput = (event) => event.isComposing || typed();
text.addEventListener("compositionend", () => typed());
text.onpointermove = ({ clientX, clientY }) =>
  light(document.elementsFromPoint(clientX, clientY).find((each) => partners.has(each)));
result.onpointerover = (event) => light(event.target);
text.onpointerleave = result.onpointerleave = result.onfocus = result.onblur = () => light();
result.onkeydown = (event) => {
  const forth = getComputedStyle(result).direction === "rtl" ? "ArrowLeft" : "ArrowRight";
  if (!["ArrowLeft", "ArrowRight"].includes(event.key) || !partners.size) return;
  event.preventDefault();
  const words = [...result.children].filter((word) => partners.has(word));
  const now = words.findIndex((word) => word.classList.contains("lit"));
  light(words.at(event.key === forth ? (now + 1) % words.length : Math.max(now, 0) - 1));
};
document.onkeydown = (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) translate();
};
source.onchange = target.onchange = glossary.onchange = () => {
  offerAll();
  typed(0);
};
$("translate").onclick = translate;
$("swap").onclick = () => {
  const [from, to] = [sourceNow(), target.value];
  if (!document.body.classList.contains("stale")) text.value = result.textContent;
  source.value = to;
  offerAll();
  target.value = from;
  typed(0);
};
$("copy").onclick = () => {
  getSelection().selectAllChildren(result);
  document.execCommand("copy"); // Without HTTPS too, where navigator.clipboard is not.
  hint.textContent = "Copied.";
};
$("download").onclick = () => ($("download").hidden = true); // The server gives it once.
$("file").onchange = () => {
  if ($("file").files.length) translateFile($("file").files[0]);
  $("file").value = ""; // So that one can be chosen again.
};
$("key-form").onsubmit = (event) => {
  event.preventDefault();
  key = $("key").value.trim();
  attempt(() => sessionStorage.setItem("key", key));
  start();
};

start();
