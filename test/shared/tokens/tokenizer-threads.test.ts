import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createGeneralTokenizer } from '../../../shared/tokens/general/tokenizer.ts';
import { GENERAL_TOKENIZERS } from '../../support/tokens/variants.ts';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const FOLDER = mkdtempSync(join(tmpdir(), 'stator-tokenizer-threads-'));
const TEXTS = ['', 'hello world', 'hell worlds, caf\u00e9 \ud83d\ude42!', 'hello '.repeat(2000)];

/** Loads each folder that is named as a process of the product does, and tells what becomes of the texts. */
const PROGRAM = `
import { systemClock } from './shared/clock/index.ts';
import { loadModelFolder, PromptEncoder } from './shared/tokens/index.ts';
import { rm } from 'node:fs/promises';
const texts = ${JSON.stringify(TEXTS)};
const tell = (error) => ({ code: error.code ?? error.name, message: error.message });
const results = [];
for (const folder of process.argv.slice(2)) {
  const encoder = new PromptEncoder({ clock: systemClock });
  try {
    const { tokenizer } = await loadModelFolder(folder);
    if (folder.includes('prepared')) {
      await encoder.prepare(tokenizer);
      await rm(folder, { recursive: true });
    }
    const encoded = [];
    for (const text of [...texts, 'hello'.repeat(40_000)]) {
      const { ids } = await Promise.resolve(encoder.encode(tokenizer, text, { addSpecialTokens: true })).catch((error) => ({ ids: [tell(error)] }));
      encoded.push([...ids]);
    }
    const long = encoded.pop();
    const decoded = encoded.map((ids) => tokenizer.decode(ids));
    results.push({ encodesInThreads: tokenizer.encodesInThreads === true, size: tokenizer.vocabSize, encoded, decoded, long: long.length });
  } catch (error) {
    results.push(tell(error));
  }
  await encoder.close();
}
console.log(JSON.stringify(results));
`;

/** The library is in the threads' bundles alone: a process that asks for it itself fails. */
async function bundle(): Promise<void> {
  const common = { absWorkingDir: ROOT, bundle: true, platform: 'node', format: 'esm', logLevel: 'error' } as const;
  const threads = {
    'tokenizer-loader': 'shared/tokens/loader-thread.ts',
    'encode-thread': 'shared/tokens/prompts/encode-thread.ts',
  };
  await build({ ...common, entryPoints: threads, outdir: FOLDER });
  const stdin = { contents: PROGRAM, resolveDir: ROOT, loader: 'ts' } as const;
  await build({ ...common, stdin, outfile: join(FOLDER, 'main.js'), external: ['@huggingface/tokenizers'] });
  writeFileSync(join(FOLDER, 'package.json'), '{"type":"module"}');
}

function folderOf(name: string, json: unknown): string {
  const folder = join(FOLDER, name);
  mkdirSync(folder);
  writeFileSync(join(folder, 'config.json'), '{}');
  writeFileSync(join(folder, 'tokenizer.json'), typeof json === 'string' ? json : JSON.stringify(json));
  return folder;
}

async function load(...folders: readonly string[]): Promise<readonly Record<string, unknown>[]> {
  const { stdout } = await promisify(execFile)(process.execPath, [join(FOLDER, 'main.js'), ...folders]);
  return JSON.parse(stdout) as Record<string, unknown>[];
}

describe('a tokenizer that is not byte-level BPE', () => {
  beforeAll(bundle);
  afterAll(() => rmSync(FOLDER, { recursive: true }));

  it('is loaded and encodes in threads alone, with the ids and texts of the library', async () => {
    const files = Object.values(GENERAL_TOKENIZERS).map((make) => make());
    const results = await load(...files.map((json, at) => folderOf(`kind-${at}`, json)));
    for (const [at, json] of files.entries()) {
      const tokenizer = await createGeneralTokenizer(json);
      const encoded = TEXTS.map((text) => [...tokenizer.encode(text, { addSpecialTokens: true })]);
      expect(results[at]).toMatchObject({
        ...{ encodesInThreads: true, size: tokenizer.vocabSize, encoded },
        decoded: encoded.map((ids) => tokenizer.decode(ids)),
        long: tokenizer.encode('hello'.repeat(40_000), { addSpecialTokens: true }).length,
      });
    }
  });

  it('is opened in a thread before its first prompt', async () => {
    const [make] = Object.values(GENERAL_TOKENIZERS);
    const [result] = await load(folderOf('prepared', make!()));
    const tokenizer = await createGeneralTokenizer(make!());
    expect(result?.encoded).toEqual(TEXTS.map((text) => [...tokenizer.encode(text, { addSpecialTokens: true })]));
  });

  it('is refused with file and reason if it cannot be used', async () => {
    const [make] = Object.values(GENERAL_TOKENIZERS);
    const json = make!();
    const model = json.model as object;
    const [decoder, noMerges, other] = await load(
      folderOf('decoder', { ...json, decoder: { type: 'Rot13' } }),
      folderOf('merges', { ...json, model: { ...model, merges: null } }),
      folderOf('other', { ...json, model: { ...model, type: 'Other' } }),
    );
    expect(decoder).toMatchObject({
      message: expect.stringMatching(/tokenizer\.json: unsupported tokenizer: .*Rot13/),
    });
    expect(noMerges).toMatchObject({ message: expect.stringContaining('model.merges is not a list') });
    expect(other).toMatchObject({ message: expect.stringContaining('model type "Other"; use a model with') });
  });
});
