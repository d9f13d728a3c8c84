// Tokenizers side by side: ours, the native `tokenizers` and `@huggingface/tokenizers`, each in a process of its own,
// and hashing and templates of ours. `node bench/tokens.mjs [model folder] [--json]`.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'esbuild';

const BUILTIN = fileURLToPath(new URL('../shared/artifacts/builtin-model', import.meta.url));
const SIDES = ['ours', 'native', 'javascript'];
const LONG_WORDS = 60_000;

if (process.argv[2] === 'side') await measureSide(process.argv[3], process.argv[4], process.argv[5]);
else await compareAll();

async function compareAll() {
  const args = process.argv.slice(2).filter((argument) => !argument.startsWith('--'));
  const model = resolve(args[0] ?? BUILTIN);
  const folder = await mkdtemp(join(process.cwd(), 'node_modules', '.bench-tokens-'));
  try {
    await bundle(folder);
    const rows = [];
    for (const side of SIDES) {
      const command = ['--expose-gc', fileURLToPath(import.meta.url), 'side', side, model, folder];
      const { stdout } = await promisify(execFile)(process.execPath, command, { maxBuffer: 1 << 24 });
      rows.push({ side, ...JSON.parse(stdout) });
    }
    if (process.argv.includes('--json')) console.log(JSON.stringify(rows));
    else console.table(Object.fromEntries(rows.map(({ side, ...row }) => [side, row])));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Laid out as dist/ is, so that our side loads in its thread. */
async function bundle(outdir) {
  const contents = `export * from './shared/tokens/index.ts';`;
  await writeFile(join(outdir, 'package.json'), '{"type":"module"}');
  const common = { bundle: true, platform: 'node', format: 'esm', target: 'node20', packages: 'external' };
  await build({
    ...common,
    stdin: { contents, resolveDir: process.cwd(), loader: 'ts' },
    outfile: join(outdir, 'tokens.js'),
  });
  await build({
    ...common,
    entryPoints: ['shared/tokens/loader-thread.ts'],
    outfile: join(outdir, 'tokenizer-loader.js'),
  });
}

async function measureSide(side, model, folder) {
  const tokens = side === 'ours' ? await import(join(folder, 'tokens.js')) : undefined;
  globalThis.gc();
  const rssBefore = process.memoryUsage.rss();
  const started = performance.now();
  const tokenizer = await openSide(side, model, tokens);
  const row = { 'load ms': round(performance.now() - started) };
  await settle();
  row['load RSS MB'] = round((process.memoryUsage.rss() - rssBefore) / 1e6);
  Object.assign(row, await measureEncode(tokenizer), await measureDecode(tokenizer));
  if (tokens !== undefined) {
    Object.assign(row, await measurePrepared(tokens, model, folder), await measureRest(tokens, model));
  }
  console.log(JSON.stringify(row));
}

/** Opening out of tables that an earlier start has kept. */
async function measurePrepared(tokens, model, folder) {
  const prepared = { path: join(folder, 'tables.bpe'), source: '0'.repeat(64) };
  await tokens.loadModelFolder(model, { prepared });
  await settle();
  const before = process.cpuUsage();
  const [ms] = await timed(() => tokens.loadModelFolder(model, { prepared }));
  const { user, system } = process.cpuUsage(before);
  return { 'prepared load ms': round(ms), 'prepared load CPU ms': round((user + system) / 1000) };
}

async function openSide(side, model, tokens) {
  const file = join(model, 'tokenizer.json');
  if (side === 'ours') {
    const { tokenizer } = await tokens.loadModelFolder(model);
    return {
      encode: (text) => tokenizer.encode(text),
      decode: (ids) => tokenizer.decode(ids),
      stream: () => tokenizer.createDetokenizer([]),
    };
  }
  if (side === 'native') {
    const { Tokenizer } = await import('tokenizers');
    const tokenizer = Tokenizer.fromFile(file);
    return {
      encode: async (text) => (await tokenizer.encode(text, null, { addSpecialTokens: false })).getIds(),
      decode: (ids) => tokenizer.decode(Array.from(ids), true),
    };
  }
  const { Tokenizer } = await import('@huggingface/tokenizers');
  const tokenizer = new Tokenizer(JSON.parse(readFileSync(file, 'utf8')), {});
  return {
    encode: (text) => tokenizer.encode(text, { add_special_tokens: false }).ids,
    decode: (ids) => tokenizer.decode(Array.from(ids), { skip_special_tokens: true }),
  };
}

async function measureEncode(tokenizer) {
  const words = readFileSync(join(BUILTIN, 'text.txt'), 'utf8').split(/\s+/);
  const short = words.slice(0, 64).join(' ');
  const unique = uniqueWords('a');
  const usual = Array.from({ length: LONG_WORDS }, (_, at) => words[(at * 7919) % words.length]).join(' ');
  const row = {};
  const [firstMs] = await timed(() => tokenizer.encode(short));
  row['64 words, first us'] = round(firstMs * 1000);
  const repeats = 2000;
  const [manyMs] = await timed(async () => {
    for (let run = 0; run < repeats; run++) await tokenizer.encode(short);
  });
  row['64 words us'] = round((manyMs * 1000) / repeats);
  await tokenizer.encode(usual);
  const [usualMs, usualIds] = await timed(() => tokenizer.encode(usual));
  row['60k usual words ms'] = round(usualMs);
  row['60k usual words Mtok/s'] = round(usualIds.length / usualMs / 1000);
  const [coldMs, ids] = await timed(() => tokenizer.encode(unique));
  row['60k unique words ms'] = round(coldMs);
  row['60k unique words Mtok/s'] = round(ids.length / coldMs / 1000);
  const [warmMs] = await timed(() => tokenizer.encode(unique));
  row['again ms'] = round(warmMs);
  const [runMs] = await timed(() => tokenizer.encode('a'.repeat(50_000)));
  row['50k letters a ms'] = round(runMs);
  return row;
}

function uniqueWords(seed) {
  const word = (at) => {
    let state = (at + 1) * 2_654_435_761 + seed.charCodeAt(0);
    let text = '';
    for (let letter = 0; letter < 4 + (at % 5); letter++) {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      text += String.fromCharCode(97 + ((state >>> 16) % 26));
    }
    return text;
  };
  return Array.from({ length: LONG_WORDS }, (_, at) => word(at)).join(' ');
}

async function measureDecode(tokenizer) {
  const text = readFileSync(join(BUILTIN, 'text.txt'), 'utf8').repeat(8);
  const ids = await tokenizer.encode(text);
  const decodes = 10;
  const decode = async () => {
    for (let run = 0; run < decodes; run++) await tokenizer.decode(ids);
  };
  await decode();
  const [decodeMs] = await timed(decode);
  const row = { 'decode ns/token': round((decodeMs * 1e6) / ids.length / decodes) };
  let length = 0;
  const stream = async () => {
    length = 0;
    const detokenizer = tokenizer.stream?.() ?? slidingWindow(tokenizer);
    for (const id of ids) {
      const piece = detokenizer.push(id);
      length += (typeof piece === 'string' ? piece : await piece).length;
    }
  };
  await stream();
  const passes = tokenizer.stream === undefined ? 1 : 50;
  const [streamMs] = await timed(async () => {
    for (let pass = 0; pass < passes; pass++) await stream();
  });
  if (length !== text.length) throw new Error(`streamed ${length} of ${text.length} characters`);
  row['stream ns/token'] = round((streamMs * 1e6) / ids.length / passes);
  return row;
}

/** Streams with a library that has no streaming decoder: decodes a short window twice per token. */
function slidingWindow(tokenizer) {
  let window = [];
  let read = 0;
  return {
    async push(id) {
      window.push(id);
      const before = read === 0 ? '' : await tokenizer.decode(window.slice(0, read));
      const after = await tokenizer.decode(window);
      if (after.length <= before.length || after.endsWith('\ufffd')) return '';
      window = window.slice(read);
      read = window.length;
      return after.slice(before.length);
    },
  };
}

async function measureRest(tokens, model) {
  const { chatTemplate } = await tokens.loadModelFolder(model);
  const messages = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'word '.repeat(64) },
  ];
  const row = {};
  const runs = 5000;
  if (chatTemplate !== undefined) {
    const render = () => {
      for (let run = 0; run < runs; run++) chatTemplate.render({ messages, nowMs: 0 });
    };
    render();
    row['template us'] = round(((await timed(render))[0] * 1000) / runs);
  }
  const prompt = Uint32Array.from({ length: 100_000 }, (_, at) => at * 7919);
  const hash = () => {
    for (let run = 0; run < 50; run++) tokens.hashBlocks(prompt, { blockSizeTokens: 16 });
  };
  hash();
  row['hash 100k tokens ms'] = round((await timed(hash))[0] / 50);
  return row;
}

async function timed(action) {
  const started = performance.now();
  const result = await action();
  return [performance.now() - started, result];
}

/** Lets a thread that has ended give its memory back. */
async function settle() {
  for (let turn = 0; turn < 3; turn++) {
    await new Promise((done) => setTimeout(done, 50));
    globalThis.gc();
  }
}

function round(value) {
  return Number(value.toPrecision(3));
}
