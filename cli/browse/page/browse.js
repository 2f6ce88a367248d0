// The page of tarn browse. All state that makes a view is in the address after #. Text from the
// dataset is only ever set as textContent, never as HTML.
"use strict";

const $ = (id) => document.getElementById(id);
const VIEW = ["order", "seed", "epoch", "by", "rank", "world", "batch", "step", "uneven", "batches", "block", "sort", "down"];
const BLOCK = 60, KEPT = 80, TALLEST = 6e6, GAP = 12;

let info = { fields: [], samples: 0 };
let params = new URLSearchParams();
let count = 0, current = 0, opened = -1, generation = 0;
let blocks = new Map(), tiles = new Map();
const ticked = new Map();
const kinds = new Map();

// --- Small helpers ---

function make(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "text") element.textContent = value;
    else if (name === "class") element.className = value;
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const number = (n) => Number(n).toLocaleString("en");

function short(n) {
  if (!Number.isFinite(n)) return "–";
  if (Number.isInteger(n) && Math.abs(n) < 1e7) return number(n);
  return String(Number(n.toPrecision(4)));
}

function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let u = 0;
  for (; n >= 1024 && u < 4; u++) n /= 1024;
  return (u ? n.toFixed(n < 10 ? 1 : 0) : n) + " " + units[u];
}

// The arguments of the view, for requests.
function viewText(more = {}) {
  const out = new URLSearchParams();
  for (const name of VIEW) if (params.get(name)) out.set(name, params.get(name));
  for (const filter of params.getAll("f")) out.append("f", filter);
  for (const [name, value] of Object.entries(more)) out.set(name, value);
  return out.toString();
}

async function ask(path, more) {
  for (let tries = 0; ; tries++) {
    const response = await fetch(path + "?" + (typeof more === "string" ? more : viewText(more)));
    const answer = await response.json();
    if (response.ok) return answer;
    if (response.status !== 503 || tries > 40) throw new Error(answer.error || "the server did not answer");
    await new Promise((go) => setTimeout(go, 150));
  }
}

const address = (path, i, field, more = {}) => path + "?" + viewText({ i, field, ...more });

// --- The address ---

function setParams(change, keepPlace = false) {
  for (const [name, value] of Object.entries(change)) {
    if (value === "" || value === null || value === undefined || value === false) params.delete(name);
    else params.set(name, value);
  }
  writeAddress();
  load(keepPlace);
}

function writeAddress() {
  const text = params.toString();
  history.replaceState(null, "", text ? "#" + text : location.pathname);
}

function readAddress() {
  params = new URLSearchParams(location.hash.slice(1));
  fillForm();
  load();
}

// --- Pages of samples ---

async function load(keepPlace = false) {
  const mine = ++generation;
  blocks = new Map();
  for (const tile of tiles.values()) tile.remove();
  tiles = new Map();
  if (!keepPlace) { current = 0; setTop(0); closeDetail(false); }
  drawFilters();
  setMode();
  try {
    const page = await getBlock(0);
    if (mine !== generation) return;
    count = page.count;
    note(page);
    message(count ? "" : "No sample matches.");
  } catch (error) {
    if (mine !== generation) return;
    count = 0;
    message(error.message);
  }
  layout();
  refreshStats();
  const at = Number(params.get("at") ?? -1);
  if (at >= 0 && at < count && opened !== at) open(at);
}

function message(text) {
  $("message").textContent = text;
  $("message").hidden = !text;
}

function note(page) {
  const parts = [];
  if (page.step !== undefined) parts.push(`Epoch ${page.epoch}, step ${page.step}.`);
  if (page.first !== undefined) parts.push(`Only the first ${number(page.first)} samples were searched for this filter.`);
  $("step-note").textContent = parts.join(" ");
  $("step-note").hidden = !parts.length;
  const all = count === info.samples ? "" : ` of ${number(info.samples)}`;
  $("summary").textContent = `${number(count)}${all} samples · ${info.kind === "mix" ? info.sources.length + " sources" : number(info.shards) + (info.shards === 1 ? " file" : " files")}${info.remote ? " · remote" : ""}`;
}

function getBlock(number) {
  let block = blocks.get(number);
  if (block) { blocks.delete(number); blocks.set(number, block); return block.promise; }
  block = { data: null };
  block.promise = ask("page", { from: number * BLOCK, count: BLOCK }).then((page) => { block.data = page; return page; });
  block.promise.catch(() => blocks.delete(number));
  blocks.set(number, block);
  if (blocks.size > KEPT) blocks.delete(blocks.keys().next().value);
  return block.promise;
}

function sampleAt(i) {
  const block = blocks.get(Math.floor(i / BLOCK));
  return block && block.data ? block.data.samples[i % BLOCK] : null;
}

// --- Layout: only what is visible exists. Long lists are taller than browsers allow, so the
// scroll bar then stands for a position, and the wheel moves by pixels. ---

const grid = { columns: 1, rows: 0, rowHeight: 100, width: 100, full: 0, height: 0, top: 0, set: 0 };
const isTable = () => $("main").classList.contains("table");

function setMode() {
  const wanted = params.get("mode") || (info.fields.some((f) => f.kind === "image" || f.kind === "array") ? "grid" : "table");
  $("main").classList.toggle("table", wanted === "table");
  $("toggle-mode").textContent = wanted === "table" ? "Grid" : "Table";
  drawHead();
}

function layout() {
  const main = $("main"), zoom = Number($("zoom").value), headHeight = isTable() ? 32 : 0;
  const width = main.clientWidth - 2 * GAP;
  grid.columns = isTable() ? 1 : Math.max(1, Math.floor((width + GAP) / (zoom + GAP)));
  grid.width = isTable() ? width : (width - (grid.columns - 1) * GAP) / grid.columns;
  grid.rowHeight = isTable() ? 33 : Math.round(grid.width * 0.8) + 46 + GAP;
  grid.rows = Math.ceil(count / grid.columns);
  grid.full = grid.rows * grid.rowHeight + (isTable() ? headHeight : GAP);
  grid.height = Math.min(grid.full, TALLEST);
  $("space").style.height = grid.height + "px";
  for (const tile of tiles.values()) tile.remove();
  tiles = new Map();
  setTop(Math.min(grid.top, Math.max(0, grid.full - main.clientHeight)));
}

const range = () => [Math.max(1, grid.height - $("main").clientHeight), Math.max(1, grid.full - $("main").clientHeight)];

function setTop(top) {
  const [scroll, full] = range();
  grid.top = Math.max(0, Math.min(top, full === 1 ? 0 : full));
  $("main").scrollTop = grid.full > grid.height ? grid.top / full * scroll : grid.top;
  grid.set = $("main").scrollTop;
  draw();
}

function onScroll() {
  const [scroll, full] = range();
  if ($("main").scrollTop === grid.set) return; // by setTop
  grid.set = -1;
  grid.top = grid.full > grid.height ? $("main").scrollTop / scroll * full : $("main").scrollTop;
  draw();
}

function onWheel(event) {
  if (grid.full <= grid.height || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  setTop(grid.top + event.deltaY * (event.deltaMode === 1 ? 20 : event.deltaMode === 2 ? $("main").clientHeight : 1));
}

let waiting = 0;
function draw() {
  const main = $("main"), shown = new Set();
  const first = Math.max(0, Math.floor(grid.top / grid.rowHeight) - 1);
  const last = Math.min(grid.rows - 1, Math.ceil((grid.top + main.clientHeight) / grid.rowHeight));
  const holder = $("tiles");
  holder.style.transform = `translateY(${main.scrollTop}px)`;
  let missing = false;
  for (let i = first * grid.columns; i < Math.min(count, (last + 1) * grid.columns); i++) {
    const sample = sampleAt(i);
    shown.add(i);
    let tile = tiles.get(i);
    if (!sample) missing = true;
    if (!tile || (sample && tile.empty)) {
      if (tile) tile.remove();
      tile = sample ? (isTable() ? makeRow(sample) : makeTile(sample)) : make("div", { class: "tile" });
      tile.empty = !sample;
      tiles.set(i, tile);
      holder.append(tile);
    }
    place(tile, i);
  }
  for (const [i, tile] of tiles) if (!shown.has(i)) { tile.remove(); tiles.delete(i); }
  if (missing) {
    clearTimeout(waiting);
    waiting = setTimeout(() => fetchVisible(first * grid.columns, (last + 1) * grid.columns), 40);
  }
}

function fetchVisible(from, end) {
  const mine = generation;
  for (let b = Math.floor(from / BLOCK); b * BLOCK < Math.min(end, count); b++)
    if (!blocks.has(b) || !blocks.get(b).data)
      getBlock(b).then(() => { if (mine === generation) draw(); }, (error) => message(error.message));
}

function place(tile, i) {
  const row = Math.floor(i / grid.columns), column = i % grid.columns;
  const y = row * grid.rowHeight - grid.top + (isTable() ? 32 : GAP);
  const x = isTable() ? 0 : GAP + column * (grid.width + GAP);
  tile.style.transform = `translate(${x}px, ${y}px)`;
  if (isTable()) tile.style.minWidth = "100%";
  else tile.style.width = grid.width + "px";
  tile.style.height = grid.rowHeight - (isTable() ? 0 : GAP) + "px";
  tile.classList.toggle("here", i === current);
}

function show(i) {
  const y = Math.floor(i / grid.columns) * grid.rowHeight, height = $("main").clientHeight - (isTable() ? 32 : 0);
  if (y < grid.top) setTop(y);
  else if (y + grid.rowHeight + GAP > grid.top + height) setTop(y + grid.rowHeight + GAP - height);
  else draw();
}

// --- Tiles and rows ---

function pictureField(sample) {
  const has = (kind) => info.fields.find((f) => f.kind === kind && sample.sizes && f.name in sample.sizes);
  const found = has("image") || has("array");
  return found ? found.name : null;
}

function tickBox(sample) {
  const box = make("input", { type: "checkbox", "aria-label": "Select " + sample.key, tabindex: "-1", onclick: (event) => event.stopPropagation(), onchange: () => tick(sample.key, box.checked) });
  box.checked = ticked.has(sample.key);
  return box;
}

function picture(sample, side, fallback) {
  const field = pictureField(sample);
  if (!field) return fallback();
  const image = make("img", { alt: "", loading: "eager", decoding: "async", src: address("thumb", sample.i, field, { side }) });
  image.addEventListener("error", () => image.replaceWith(fallback()));
  return image;
}

function valueText(sample) {
  const values = Object.entries(sample.values || {});
  return values.map(([name, value]) => (values.length > 1 ? name + ": " : "") + value).join("\n");
}

function makeTile(sample) {
  const text = valueText(sample), field = pictureField(sample);
  const pic = make("div", { class: field ? "pic" : "pic plain" });
  pic.append(picture(sample, grid.width > 190 ? 320 : 192, () => make("span", { text: text || Object.keys(sample.sizes || {}).join(" ") })));
  const label = Object.entries(sample.values || {}).filter(([name]) => kinds.get(name) !== "json").map(([, value]) => value).join(" · ");
  return finishTile(sample, make("div", { class: "tile" }, pic,
    make("div", { class: "cap" }, make("div", { text: sample.key, title: sample.key }), make("div", { class: "label", text: label || " " }))));
}

function finishTile(sample, tile) {
  tile.append(tickBox(sample));
  if (sample.problem !== undefined) {
    tile.classList.add("wrong");
    tile.append(make("span", { class: "badge", text: sample.problem || "problem", title: sample.problem }));
  }
  tile.classList.toggle("ticked", ticked.has(sample.key));
  tile.dataset.key = sample.key;
  tile.addEventListener("click", () => open(sample.i));
  return tile;
}

function makeRow(sample) {
  const row = make("div", { class: "tile" }, make("div", { class: "cell key", text: sample.key, title: sample.key }));
  for (const field of info.fields) {
    const cell = make("div", { class: "cell" }), size = sample.sizes && sample.sizes[field.name];
    const value = sample.values && sample.values[field.name];
    if (value !== undefined && value !== null) cell.textContent = field.column ? plain(value) : value;
    else if (size !== undefined && field.kind === "image") cell.append(picture(sample, 64, () => make("span", { text: bytes(size) })));
    else if (size !== undefined) cell.textContent = bytes(size);
    row.append(cell);
  }
  return finishTile(sample, row);
}

// A text in a column of a record pack is JSON.
function plain(value) {
  if (typeof value !== "string" || value[0] !== '"') return value;
  try { return JSON.parse(value); } catch { return value; }
}

function drawHead() {
  const old = $("main").querySelector(".head");
  if (old) old.remove();
  if (!isTable()) return;
  const head = make("div", { class: "head" }, make("button", { class: "key", type: "button", text: "key", onclick: () => setParams({ sort: null, down: null, order: null }) }));
  for (const field of info.fields) {
    const sort = field.kind === "number" ? field.name : "size:" + field.name, on = params.get("sort") === sort;
    head.append(make("button", {
      type: "button", text: field.name + (on ? (params.get("down") ? " ↓" : " ↑") : ""),
      title: field.kind === "number" ? "Sort" : "Sort by size",
      onclick: () => { setParams({ order: null, sort, down: on && !params.get("down") ? "1" : null }); fillForm(); },
    }));
  }
  $("main").prepend(head);
}

// --- Selection ---

function tick(key, on) {
  if (on) ticked.set(key, true); else ticked.delete(key);
  for (const tile of tiles.values())
    if (tile.dataset.key === key) { tile.classList.toggle("ticked", on); tile.querySelector("input").checked = on; }
  if ($("detail-key").textContent === key) $("detail-tick").checked = on;
  $("ticked").hidden = !ticked.size;
  $("ticked-count").textContent = `${number(ticked.size)} selected`;
}

const exports = {
  keys: ["Key list", "keys.txt", (keys) => keys.join("\n") + "\n"],
  json: ["Selection JSON, for ds.filter(json=…)", "selection.json", (keys) => JSON.stringify([...keys].sort(), null, 2) + "\n"],
  python: ["Python", "selection.py", (keys) => `ds = tarn.open(${pythonText(info.title)}).filter(keys=[${keys.map(pythonText).join(", ")}])\n`],
};

function pythonText(text) {
  return JSON.stringify(text).replace(/[\u007f-\uffff]/g, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"))
    .replace(/\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}/gi, (pair) => "\\U" + JSON.parse('"' + pair + '"').codePointAt(0).toString(16).padStart(8, "0"));
}

let saved = "selection.txt";
function exportTicked(kind) {
  const [title, name, write] = exports[kind];
  $("export-title").textContent = title;
  $("export-text").value = write([...ticked.keys()]);
  saved = name;
  $("export").showModal();
}

function saveExport() {
  const url = URL.createObjectURL(new Blob([$("export-text").value], { type: "application/octet-stream" }));
  make("a", { href: url, download: saved }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

async function copyExport() {
  try { await navigator.clipboard.writeText($("export-text").value); $("export-copy").textContent = "Copied"; }
  catch { $("export-text").select(); document.execCommand("copy"); }
  setTimeout(() => { $("export-copy").textContent = "Copy"; }, 1500);
}

// --- One sample ---

async function open(i) {
  if (i < 0 || i >= count) return;
  const mine = generation;
  current = opened = i;
  params.set("at", i);
  writeAddress();
  const wasHidden = $("detail").hidden;
  $("detail").hidden = false;
  if (wasHidden) layout();
  show(i);
  let sample;
  try { sample = await ask("sample", { i }); } catch (error) { sample = { i, key: "", fields: [], error: error.message }; }
  if (mine !== generation || opened !== i) return;
  $("detail-key").textContent = sample.key;
  $("detail-key").title = sample.key;
  $("detail-tick").checked = ticked.has(sample.key);
  $("previous").disabled = i === 0;
  $("next").disabled = i + 1 >= count;
  const body = $("detail-body");
  const rank = ["image", "video", "audio", "text", "number", "json", "array", "bytes"];
  const fields = [...sample.fields].sort((a, b) => rank.indexOf(a.kind ?? "bytes") - rank.indexOf(b.kind ?? "bytes"));
  body.replaceChildren(facts(sample), ...fields.map((field) => fieldView(sample, field)));
  if (sample.error) body.append(make("p", { class: "bad", text: sample.error }));
  body.scrollTop = 0;
}

function closeDetail(write = true) {
  if ($("detail").hidden) return;
  $("detail").hidden = true;
  $("detail-body").replaceChildren();
  opened = -1;
  if (write) { params.delete("at"); writeAddress(); }
  layout();
}

function facts(sample) {
  const list = make("dl", { class: "facts" });
  const add = (name, value, cls) => { if (value !== undefined && value !== null) list.append(make("dt", { text: name }), make("dd", { text: value, class: cls || "" })); };
  add("problem", sample.problem === undefined ? null : sample.problem || "listed as a problem", "bad");
  add("position", `${number(sample.i)} of ${number(sample.count ?? count)}`);
  add("number", sample.number === undefined ? null : number(sample.number));
  add("file", sample.path);
  if (info.kind === "mix" && sample.source !== undefined) add("source", `${sample.source}: ${info.sources[sample.source] ?? ""}`);
  const turns = make("ul", { class: "turns" });
  const button = make("button", { type: "button", text: "When does a run see it?", onclick: () => findTurns(sample.key, turns) });
  return make("div", {}, list, make("p", {}, button, turns));
}

async function findTurns(key, list) {
  const order = new URLSearchParams({ key, epochs: 3, order: "shuffle" });
  for (const name of ["order", "seed", "epoch", "by", "world", "batch", "batches", "uneven", "block"]) if (params.get(name)) order.set(name, params.get(name));
  if (params.get("sort")) order.set("order", "identity");
  try {
    const found = await ask("when", order.toString());
    const rows = found.turns.map((t) => `epoch ${t.epoch}, step ${number(t.step)}, rank ${t.rank}, place ${t.place}`);
    if (!rows.length) rows.push("not in these epochs");
    if (found.count > rows.length) rows.push(`and ${number(found.count - rows.length)} more`);
    const run = `${order.get("order")}, seed ${order.get("seed") || 0}, batch ${order.get("batch") || 64}, ${order.get("world") || 1} rank(s)`;
    list.replaceChildren(make("li", { class: "note", text: run }), ...rows.map((text) => make("li", { text })));
  } catch (error) { list.replaceChildren(make("li", { class: "bad", text: error.message })); }
}

function fieldView(sample, field) {
  const where = [field.kind, field.size === undefined ? null : bytes(field.size), field.width ? `${field.width} × ${field.height}` : null, field.dtype ? `${field.dtype} [${field.shape.join(", ")}]` : null,
    field.shard, field.offset === undefined ? null : "offset " + number(field.offset)].filter(Boolean).join(" · ");
  const check = field.check === "ok" ? make("span", { class: "ok", text: "checksum ok" }) : field.check === "wrong" ? make("span", { class: "bad", text: "checksum does not match" }) : null;
  const head = make("h3", {}, make("b", { text: field.name }), make("small", { text: where, title: where }), check,
    field.size === undefined ? null : make("a", { href: address("raw", sample.i, field.name, { save: 1 }), text: "Download", download: true }));
  const body = make("div", { class: "body" });
  const content = fieldContent(sample, field, body);
  if (content) body.append(...[content].flat());
  if (field.error) body.append(make("p", { class: "bad", text: field.error }));
  return make("article", {}, head, body);
}

function fieldContent(sample, field, body) {
  const raw = address("raw", sample.i, field.name);
  if (field.kind === "image") return imageView(sample, field, body, raw);
  if (field.kind === "audio" && field.type) return make("audio", { controls: true, preload: "metadata", src: raw });
  if (field.kind === "video" && field.type) return make("video", { controls: true, preload: "metadata", src: raw });
  if (field.values || field.picture) return arrayView(sample, field);
  if (field.text !== undefined) return textView(field);
  return field.hex === undefined ? null : hexView(field);
}

function imageView(sample, field, body, raw) {
  body.classList.add("image");
  const shown = ["image/jpeg", "image/png", "image/webp", "image/gif"].includes(field.type);
  const image = make("img", { alt: field.name, src: shown ? raw : address("thumb", sample.i, field.name, { side: 2048 }) });
  image.addEventListener("error", () => {
    body.classList.remove("image");
    image.replaceWith(field.hex ? hexView(field) : make("p", { class: "bad", text: "This image cannot be shown." }));
  });
  body.addEventListener("click", () => body.classList.toggle("zoomed"));
  return image;
}

function arrayView(sample, field) {
  const out = [];
  if (field.picture) {
    const image = make("img", { alt: field.name, src: address("thumb", sample.i, field.name, { side: 1024 }) });
    image.addEventListener("error", () => image.remove());
    out.push(image);
  }
  const values = field.values || [];
  if (values.length === 1 && !field.picture) return make("div", { class: "number", text: short(values[0]) });
  if (!field.picture && values.length > 1) out.push(plot(values));
  if (values.length) {
    const some = field.measured < field.elements ? ` (of the first ${number(field.measured)} of ${number(field.elements)})` : "";
    out.push(make("p", { class: "note", text: `min ${short(field.min)} · mean ${short(field.mean)} · max ${short(field.max)}${some}` }));
    out.push(make("pre", { text: values.slice(0, 256).map((v) => v === null ? "nan" : short(v)).join(" ") + (values.length > 256 ? " …" : "") }));
  }
  return out;
}

function plot(values) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg"), path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  const known = values.filter((v) => v !== null), low = Math.min(...known), high = Math.max(...known);
  const points = values.map((v, i) => v === null ? null : `${(i / Math.max(1, values.length - 1) * 1000).toFixed(1)} ${(high > low ? (high - v) / (high - low) * 116 + 2 : 60).toFixed(1)}`);
  path.setAttribute("d", points.filter((p) => p).map((p, i) => (i ? "L" : "M") + p).join(""));
  svg.setAttribute("viewBox", "0 0 1000 120");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("class", "plot");
  svg.append(path);
  return svg;
}

function textView(field) {
  const cut = field.cut ? make("p", { class: "note", text: "Only the beginning is shown." }) : null;
  if (field.kind === "number") return make("div", { class: "number", text: field.text.slice(0, 200) });
  if (field.kind === "json" && !field.cut) {
    try { return make("div", { class: "tree" }, tree(JSON.parse(field.text), 0)); } catch { /* shown as text */ }
  }
  return [make("pre", { text: field.text }), cut].filter(Boolean);
}

const MOST_NODES = 500;
function tree(value, depth, name) {
  const label = name === undefined ? [] : [make("span", { class: "k", text: name }), ": "];
  if (value === null || typeof value !== "object")
    return make("div", {}, ...label, make("span", { class: typeof value === "string" ? "s" : "n", text: JSON.stringify(value) }));
  const entries = Array.isArray(value) ? value.map((v, i) => [String(i), v]) : Object.entries(value);
  const node = make("details", {}, make("summary", {}, ...label, Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`));
  const fill = () => {
    if (node.filled || !node.open) return;
    node.filled = true;
    node.append(...entries.slice(0, MOST_NODES).map(([key, v]) => tree(v, depth + 1, key)));
    if (entries.length > MOST_NODES) node.append(make("div", { text: `and ${number(entries.length - MOST_NODES)} more` }));
  };
  node.addEventListener("toggle", fill);
  if (depth < 2) { node.open = true; fill(); }
  return node;
}

function hexView(field) {
  const lines = [];
  for (let at = 0; at < field.hex.length; at += 32) {
    const pairs = field.hex.slice(at, at + 32).match(/../g);
    const text = pairs.map((p) => { const c = parseInt(p, 16); return c >= 32 && c < 127 ? String.fromCharCode(c) : "."; }).join("");
    lines.push((at / 2).toString(16).padStart(6, "0") + "  " + pairs.join(" ").padEnd(48) + " " + text);
  }
  const more = field.size > field.hex.length / 2 ? make("p", { class: "note", text: `The first ${number(field.hex.length / 2)} of ${number(field.size)} bytes.` }) : null;
  return [make("pre", { class: "hex", text: lines.join("\n") }), more].filter(Boolean);
}

// --- Fields, histograms, filters ---

function drawFields() {
  $("fields").replaceChildren(...info.fields.map((field) => {
    const stats = make("div", { class: "stats", hidden: true });
    const size = make("span", { text: field.kind, "data-count": field.name });
    const button = make("button", { type: "button", "aria-expanded": "false", onclick: () => {
      stats.hidden = !stats.hidden;
      button.setAttribute("aria-expanded", String(!stats.hidden));
      if (!stats.hidden) fillStats(field, stats);
    } }, make("b", { text: field.name, title: field.name }), size);
    return make("div", { class: "field" }, button, stats);
  }));
}

// How many samples have each field, beside its name.
async function countFields() {
  const mine = generation, counts = new Map();
  const found = await ask("stats", { what: "sets" }).catch(() => null);
  if (!found || mine !== generation || found.kinds > found.sets.length) return;
  for (const set of found.sets) for (const name of set.fields) counts.set(name, (counts.get(name) || 0) + set.samples);
  for (const span of document.querySelectorAll("[data-count]")) {
    const kind = kinds.get(span.dataset.count), n = counts.get(span.dataset.count);
    span.textContent = n === undefined ? kind : `${kind} · ${number(n)}`;
  }
}

function refreshStats() {
  countFields();
  for (const [n, node] of [...$("fields").children].entries()) {
    const stats = node.querySelector(".stats");
    if (!stats.hidden) fillStats(info.fields[n], stats);
  }
}

async function fillStats(field, box) {
  const mine = generation;
  const wanted = [["size", "Size"]];
  if (field.kind === "number") wanted.unshift(["num", "Value"]);
  if (field.kind === "image") wanted.push(["width", "Width"], ["height", "Height"]);
  if (field.kind === "json" && field.column) wanted.unshift(["words", "Value"]);
  box.replaceChildren(make("p", { class: "note", text: "Counting…" }));
  const charts = [];
  for (const [what, title] of wanted) {
    try { charts.push(chart(field, what, title, await ask("stats", { what, field: field.name }))); }
    catch (error) { charts.push(make("p", { class: "note", text: error.message })); }
    if (mine !== generation) return;
    box.replaceChildren(...charts);
  }
  box.append(make("p", { class: "note" }, make("button", { type: "button", text: "Only samples with it", onclick: () => addFilter("has:" + field.name) }), " ",
    make("button", { type: "button", text: "Without", onclick: () => addFilter("lacks:" + field.name) })));
}

const isClass = (what, data) => what === "num" && data.distinct;

function chart(field, what, title, data) {
  const scope = what === "size" ? `all ${number(data.samples)}` : `first ${number(data.read)} shown`;
  const box = make("div", { class: "chart" }, make("h3", {}, title, make("small", { text: scope + (what === "size" ? " · " + bytes(data.total) : "") })));
  const bins = what === "words" ? data.words.map((w) => ({ ...w, filter: `is:${new TextEncoder().encode(field.name).length}:${field.name}${w.text}` })) : data.bins;
  if (!bins.length) { box.append(make("p", { class: "note", text: "nothing to count" })); return box; }
  const most = Math.max(...bins.map((b) => b.n));
  if (what === "words" || isClass(what, data)) {
    const list = make("div", { class: "list" });
    for (const bin of bins.length > 40 ? bins.slice(0, 40) : bins) {
      const bar = make("i");
      bar.style.width = Math.max(2, bin.n / most * 100) + "%";
      list.append(make("button", { type: "button", onclick: () => addFilter(bin.filter || `num:${bin.low}:${bin.high}:${field.name}`) },
        make("span", { text: bin.text ?? short(bin.low) }), make("span", { class: "track" }, bar), make("span", { text: number(bin.n) })));
    }
    box.append(list);
    return box;
  }
  const bars = make("div", { class: "bars" }), show = what === "size" ? bytes : short;
  if (data.min === data.max) {
    box.append(make("p", { class: "note", text: `always ${show(data.min)}` }));
    return box;
  }
  for (const bin of bins) {
    const bar = make("i");
    bar.style.height = Math.max(3, bin.n / most * 100) + "%";
    bars.append(make("button", { type: "button", title: `${show(bin.low)} to ${show(bin.high)}: ${number(bin.n)}`, "aria-label": `${show(bin.low)} to ${show(bin.high)}: ${bin.n}`,
      onclick: () => addFilter(`${what}:${bin.low}:${bin.high}:${field.name}`) }, bar));
  }
  box.append(bars, make("div", { class: "ends" }, make("span", { text: show(data.min) }), make("span", { text: show(data.max) })));
  return box;
}

function addFilter(text) {
  if (!params.getAll("f").includes(text)) params.append("f", text);
  params.delete("at");
  writeAddress();
  load();
}

function removeFilter(text) {
  const kept = params.getAll("f").filter((one) => one !== text);
  params.delete("f");
  params.delete("at");
  for (const one of kept) params.append("f", one);
  writeAddress();
  load();
}

function filterText(filter) {
  const [kind, ...rest] = filter.split(":");
  if (kind === "problems") return "with problems";
  if (kind === "has") return "has " + rest.join(":");
  if (kind === "lacks") return "without " + rest.join(":");
  if (kind === "is") {
    const data = new TextEncoder().encode(rest.slice(1).join(":")), n = Number(rest[0]), text = new TextDecoder();
    return `${text.decode(data.slice(0, n))} = ${text.decode(data.slice(n))}`;
  }
  const show = kind === "size" ? bytes : short, field = rest.slice(2).join(":");
  const name = { size: "size of " + field, num: field, width: "width of " + field, height: "height of " + field }[kind] ?? kind;
  const low = show(Number(rest[0])), high = show(Number(rest[1]));
  return low === high ? `${name} = ${low}` : `${name}: ${low} to ${high}`;
}

function drawFilters() {
  const filters = params.getAll("f");
  $("filter-box").hidden = !filters.length;
  $("filters").replaceChildren(...filters.map((filter) => make("div", { class: "chip" }, make("span", { text: filterText(filter) }),
    make("button", { type: "button", text: "✕", "aria-label": "Remove filter", onclick: () => removeFilter(filter) }))));
}

async function drawProblems() {
  $("problem-box").hidden = !info.problems;
  if (!info.problems) return;
  const found = await ask("problems", "");
  $("problems").replaceChildren(
    make("p", {}, make("button", { type: "button", text: `Show only these ${number(found.count)}`, onclick: () => addFilter("problems") })),
    ...found.problems.slice(0, 100).map((p) => make("button", { class: "problem", type: "button", title: p.message, onclick: () => goTo(p.key) }, p.key + " ", make("small", { text: p.message }))));
}

// --- The form ---

function fillForm() {
  for (const name of ["seed", "epoch", "rank", "world", "batch", "step"]) $(name).value = params.get(name) || "";
  const sort = params.get("sort");
  $("order").value = sort ? "sort" : params.get("order") === "identity" ? "" : params.get("order") || "";
  $("by").replaceChildren(...info.fields.flatMap((f) => [
    make("option", { value: f.name, text: f.name }), make("option", { value: "size:" + f.name, text: "size of " + f.name })]));
  $("by").value = sort || params.get("by") || (info.fields[0] ? info.fields[0].name : "");
  $("down").checked = Boolean(params.get("down"));
  if (params.get("rank") || params.get("step") || params.get("batch")) $("run-box").open = true;
  showParts();
}

function showParts() {
  const order = $("order").value, sorted = order === "sort";
  const by = ["balanced", "weighted", "weighted-once", "lengths", "sort"].includes(order);
  document.querySelector('[data-for="seed"]').hidden = !order || sorted;
  document.querySelector('[data-for="by"]').hidden = !by;
  document.querySelector('[data-for="down"]').hidden = !sorted;
  $("run-box").hidden = sorted;
}

function onOrder(event) {
  event.preventDefault();
  const order = $("order").value, sorted = order === "sort", value = (name) => $(name).value.trim();
  params.delete("at");
  const run = sorted ? {} : { rank: value("rank"), world: value("world"), batch: value("batch"), step: value("step") };
  if (run.rank && !run.world) run.world = String(Number(run.rank) + 1);
  if (run.world && !run.rank) run.rank = "0";
  const uses = order && !sorted;
  setParams({
    rank: "", world: "", batch: "", step: "", ...run,
    order: sorted ? "" : order, seed: uses ? value("seed") : "", epoch: sorted ? "" : value("epoch"),
    by: ["balanced", "weighted", "weighted-once", "lengths"].includes(order) ? $("by").value.replace(/^size:/, "") : "",
    sort: sorted ? $("by").value : "", down: sorted && $("down").checked ? "1" : "",
  });
}

// --- Search ---

let searching = 0;
async function onSearch() {
  const key = $("key").value.trim(), mine = ++searching;
  if (!key) { $("matches").hidden = true; return; }
  try {
    const found = await ask("find", { key });
    if (mine !== searching) return;
    const rows = found.like.map((m) => make("button", { type: "button", text: m.key, onclick: () => { $("matches").hidden = true; open(m.i); } }));
    if (found.i !== undefined) rows.unshift(make("button", { type: "button", text: key, onclick: () => { $("matches").hidden = true; open(found.i); } }));
    if (!rows.length) rows.push(make("p", { text: "No sample has this key." }));
    if (found.searched && found.searched < count) rows.push(make("p", { text: `Parts of keys are searched in the first ${number(found.searched)} samples.` }));
    $("matches").replaceChildren(...rows);
  } catch (error) { $("matches").replaceChildren(make("p", { text: error.message })); }
  $("matches").hidden = false;
}

async function goTo(key) {
  try {
    const found = await ask("find", { key });
    if (found.i === undefined) message(`Sample ${key} is not in this view.`);
    else { message(""); open(found.i); }
  } catch (error) { message(error.message); }
}

// --- Keyboard ---

function move(by) {
  if (!count) return;
  const to = Math.max(0, Math.min(count - 1, current + by));
  current = to;
  if (!$("detail").hidden) open(to); else show(to);
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) && event.target.type !== "checkbox";
  if (event.key === "Escape") { if (typing) event.target.blur(); $("matches").hidden = true; closeDetail(); return; }
  if (typing) return;
  const onButton = event.target.tagName === "BUTTON" || event.target.tagName === "SUMMARY" || event.target.tagName === "A";
  const page = Math.max(1, Math.floor($("main").clientHeight / grid.rowHeight) - 1) * grid.columns;
  const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -grid.columns, ArrowDown: grid.columns, PageUp: -page, PageDown: page, Home: -count, End: count };
  const keys = {
    "/": () => { $("key").focus(); $("key").select(); },
    "?": () => $("help").showModal(), t: toggleMode, T: toggleMode,
    Enter: () => open(current), " ": () => { const sample = sampleAt(current); if (sample) tick(sample.key, !ticked.has(sample.key)); },
  };
  if (onButton && (event.key === "Enter" || event.key === " ")) return;
  if (event.key in moves) { event.preventDefault(); move(moves[event.key]); }
  else if (event.key in keys) { event.preventDefault(); keys[event.key](); }
}

function toggleMode() {
  setParams({ mode: isTable() ? "grid" : "table" }, true);
}

// --- Start ---

const memory = { get(name) { try { return localStorage.getItem(name); } catch { return null; } }, set(name, value) { try { localStorage.setItem(name, value); } catch { /* not kept */ } } };

function setTheme(theme) {
  const dark = theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.classList.toggle("dark", dark);
  $("theme").textContent = dark ? "Light" : "Dark";
}

function listen() {
  const on = (id, event, f) => $(id).addEventListener(event, f);
  $("main").addEventListener("scroll", onScroll);
  $("main").addEventListener("wheel", onWheel, { passive: false });
  addEventListener("resize", layout);
  addEventListener("hashchange", readAddress);
  addEventListener("keydown", onKey);
  addEventListener("click", (event) => { if (!$("search").contains(event.target)) $("matches").hidden = true; });
  on("order", "change", showParts);
  on("order-form", "submit", onOrder);
  on("search", "submit", (event) => { event.preventDefault(); onSearch(); });
  on("key", "input", () => { clearTimeout(listen.timer); listen.timer = setTimeout(onSearch, 180); });
  on("toggle-mode", "click", toggleMode);
  on("zoom", "input", () => { memory.set("tarn-zoom", $("zoom").value); layout(); });
  on("theme", "click", () => { const next = document.documentElement.classList.contains("dark") ? "light" : "dark"; memory.set("tarn-theme", next); setTheme(next); });
  on("help-button", "click", () => $("help").showModal());
  on("previous", "click", () => move(-1));
  on("next", "click", () => move(1));
  on("close", "click", () => closeDetail());
  on("detail-tick", "change", () => tick($("detail-key").textContent, $("detail-tick").checked));
  on("untick", "click", () => { for (const key of [...ticked.keys()]) tick(key, false); });
  for (const button of document.querySelectorAll("[data-export]")) button.addEventListener("click", () => exportTicked(button.dataset.export));
  on("export-copy", "click", copyExport);
  on("export-save", "click", saveExport);
}

async function start() {
  setTheme(memory.get("tarn-theme"));
  $("zoom").value = memory.get("tarn-zoom") || 170;
  listen();
  params = new URLSearchParams(location.hash.slice(1));
  try { info = await ask("info", ""); } catch (error) { message(error.message); return; }
  for (const field of info.fields) kinds.set(field.name, field.kind);
  document.title = info.title + " – tarn";
  $("title").textContent = info.title;
  drawFields();
  fillForm();
  await load();
  drawProblems();
}

start();
