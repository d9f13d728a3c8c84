import { createHash } from 'node:crypto';
import {
  chmodSync,
  createWriteStream,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { CardFiles, ModelCacheOptions } from '../../../shared/artifacts/fetching/model-cache.ts';
import type { Artifact } from '../../../shared/artifacts/fetching/sources.ts';
import { type ArtifactSource, ModelCache, ModelFilesAbsent, openModelFolder } from '../../../shared/artifacts/index.ts';
import { systemRandom } from '../../../shared/clock/index.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const sumOf = (content: string): string => `sha256:${createHash('sha256').update(content).digest('hex')}`;

/** A card whose files lie on a machine that is not this one. */
function cardOf(contents: Readonly<Record<string, string>>): CardFiles {
  const files = Object.entries(contents).map(([role, content]) => [
    role,
    { path: `/on/another/machine/${role}`, checksum: sumOf(content), size: content.length },
  ]);
  return { modelName: 'm', files: Object.fromEntries(files) };
}

const CONTENTS = { 'tokenizer.json': '{"a":1}', 'config.json': 'x'.repeat(100_000) };
const CARD = cardOf(CONTENTS);

/** A source that gives `contents` by name, and counts what it is asked for. */
function sourceOf(
  contents: Readonly<Record<string, string>>,
  read?: (file: Artifact, signal: AbortSignal) => Promise<AsyncIterable<Uint8Array>>,
): ArtifactSource & { readonly asked: string[] } {
  const asked: string[] = [];
  return {
    kind: 'worker',
    place: 'w',
    asked,
    read: async (file, signal) => {
      asked.push(file.name);
      return read === undefined ? chunksOf(contents[file.name] ?? '') : read(file, signal);
    },
  };
}

async function* chunksOf(text: string): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < text.length; at += 40_000) yield Buffer.from(text.slice(at, at + 40_000));
}

let base: string;
let root: string;
let clock: VirtualClock;
let reads: string[];
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'stator-models-'));
  root = join(base, 'cache', 'of models');
  clock = new VirtualClock(Date.now());
  reads = [];
});
afterEach(() => {
  chmodSync(base, 0o700);
  rmSync(base, { recursive: true, force: true });
});

function cacheWith(options: Partial<ModelCacheOptions> = {}): ModelCache {
  return new ModelCache({
    root,
    bytesMax: 1 << 20,
    clock,
    random: systemRandom,
    onRead: (_, outcome) => reads.push(outcome),
    onRemoved: () => {},
    ...options,
  });
}

const namesIn = async (folder: string): Promise<string[]> => readdirSync(folder).sort();
const entries = (): string[] => readdirSync(root).sort();

describe('a model of a worker of Dynamo', () => {
  /** A card whose files are URLs with checksums of BLAKE3. */
  const URLS = 'http://192.0.2.9:9090/v1/metadata/dynamo/backend/generate/qwen3/_base';
  const ABC = 'blake3:6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85';
  const card: CardFiles = {
    modelName: 'm',
    files: {
      'tokenizer.json': { path: `${URLS}/tokenizer.json`, checksum: ABC, size: 3 },
      custom_chat_template: { path: `${URLS}/mine.jinja`, checksum: ABC, size: 3 },
    },
  };

  it('is fetched under the names that its worker serves, and kept under those of its roles', async () => {
    const asked: (string | undefined)[] = [];
    const source = sourceOf({}, async ({ servedAs }) => {
      asked.push(servedAs);
      return chunksOf('abc');
    });
    expect(await cacheWith().withFolder(card, [source], namesIn)).toEqual(['custom_chat_template', 'tokenizer.json']);
    expect(asked.sort()).toEqual(['mine.jinja', 'tokenizer.json']);
  });

  it('is refused if its bytes are others than the card names', async () => {
    const wrong = sourceOf({}, async () => chunksOf('abd'));
    await expect(cacheWith().withFolder(card, [wrong], namesIn)).rejects.toThrow('its bytes are others');
  });

  it('has no folder here, so that it is looked for elsewhere', async () => {
    await expect(openModelFolder(card)).rejects.toThrow(ModelFilesAbsent);
    await expect(openModelFolder({ ...card, files: {} })).rejects.not.toThrow(ModelFilesAbsent);
  });
});

describe('a model from elsewhere', () => {
  it('is fetched whole, once for all that ask, and not again', async () => {
    const source = sourceOf(CONTENTS);
    const cache = cacheWith();
    const all = await Promise.all([1, 2, 3].map(() => cache.withFolder(CARD, [source], namesIn)));
    expect(all).toEqual(Array(3).fill(['config.json', 'tokenizer.json']));
    expect(await cacheWith().withFolder(CARD, [], namesIn)).toEqual(['config.json', 'tokenizer.json']);
    expect(source.asked.sort()).toEqual(['config.json', 'tokenizer.json']);
    expect(entries()).toHaveLength(1);
  });

  it.each([
    ['another byte', sourceOf({ ...CONTENTS, 'config.json': `y${CONTENTS['config.json'].slice(1)}` }), 'wrong'],
    ['too few bytes', sourceOf({ ...CONTENTS, 'config.json': 'x' }), 'wrong'],
    ['bytes without an end', sourceOf({}, async () => endless()), 'wrong'],
    ['a refusal', sourceOf({}, () => Promise.reject(new Error('it answers 503'))), 'failed'],
    ['a cut stream', sourceOf({}, async () => cut()), 'failed'],
  ])('is taken from the next source where the first one gives %s', async (_, broken, outcome) => {
    const good = sourceOf(CONTENTS);
    const folder = await cacheWith().withFolder(CARD, [broken, good], async (path) => path);
    expect(readFileSync(join(folder, 'config.json'), 'utf8')).toBe(CONTENTS['config.json']);
    expect(reads).toContain(outcome);
    expect(good.asked).toContain('config.json');
  });

  it('is taken from the next source also where the first one is cut before its file was made', async () => {
    const good = sourceOf(CONTENTS);
    let makeLate: (() => void) | undefined;
    const create = (path: string): Writable => {
      if (makeLate !== undefined) {
        makeLate();
        return createWriteStream(path, { flags: 'wx' });
      }
      let isMade = false;
      makeLate = () => {
        if (!isMade) writeFileSync(path, '', { flag: 'wx' });
        isMade = true;
      };
      return new Writable({
        async construct(done) {
          // Long after it was cut, or just before the next source's file is opened: that is too late.
          for (let turn = 0; turn < 10_000 && !isMade; turn++) await new Promise((resolve) => setImmediate(resolve));
          makeLate?.();
          done();
        },
      });
    };
    const sources = [sourceOf({}, async () => cut()), good];
    expect(await cacheWith({ create }).withFolder(CARD, sources, namesIn)).toHaveLength(2);
    expect(reads).toContain('failed');
  });

  it('is not there at all when no source gives all of it, and the reason names file and sources', async () => {
    const broken = sourceOf({ ...CONTENTS, 'tokenizer.json': '{"a":2}' });
    const attempt = cacheWith().withFolder(CARD, [broken], namesIn);
    await expect(attempt).rejects.toThrow(
      'model m: tokenizer.json cannot be fetched: w: its bytes are others than the card names',
    );
    expect(entries()).toEqual([]);
    expect(await cacheWith().withFolder(CARD, [sourceOf(CONTENTS)], namesIn)).toHaveLength(2);
  });

  it('is read of no other source when the disk here is full, leaves no part of a file, and is fetched once there is room', async () => {
    let room = 50_000;
    const create = (path: string): Writable => {
      const file = createWriteStream(path, { flags: 'wx' });
      return new Writable({
        write(chunk: Buffer, _, done) {
          room -= chunk.length;
          if (room < 0) done(Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' }));
          else file.write(chunk, done);
        },
        final: (done) => void file.end(done),
        destroy: (fault, done) => void file.destroy().once('close', () => done(fault)),
      });
    };
    const cache = cacheWith({ create });
    const [first, second] = [sourceOf(CONTENTS), sourceOf(CONTENTS)];
    await expect(cache.withFolder(CARD, [first, second], namesIn)).rejects.toThrow(
      /^model m: config\.json cannot be fetched: .*no space left on device/,
    );
    expect([first.asked, second.asked, reads, entries()]).toEqual([['config.json'], [], [], []]);
    room = 1 << 20;
    expect(await cache.withFolder(CARD, [first, second], namesIn)).toEqual(['config.json', 'tokenizer.json']);
    expect(readFileSync(join(root, entries()[0] as string, 'config.json'), 'utf8')).toBe(CONTENTS['config.json']);
  });

  it('is given up from a source that falls silent', async () => {
    const silent = sourceOf({}, async (_, signal) => {
      await new Promise((__, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
      return chunksOf('');
    });
    const attempt = cacheWith().withFolder(CARD, [silent, sourceOf(CONTENTS)], namesIn);
    while (silent.asked.length < 1) await new Promise(setImmediate);
    await clock.advance(20_000);
    while (silent.asked.length < 2) await new Promise(setImmediate);
    await clock.advance(20_000);
    expect(await attempt).toHaveLength(2);
    expect(reads.filter((outcome) => outcome === 'failed')).toHaveLength(2);
  });

  it('that was damaged on this disk is an error once, and fetched anew the next time', async () => {
    const cache = cacheWith();
    const source = sourceOf(CONTENTS);
    const folder = await cache.withFolder(CARD, [source], async (path) => path);
    writeFileSync(join(folder, 'config.json'), 'other');
    const found = (): Promise<never> => Promise.reject(new ModelFilesAbsent('it differs'));
    await expect(cache.withFolder(CARD, [source], found)).rejects.toThrow('it differs');
    await cache.withFolder(CARD, [source], namesIn);
    expect(readFileSync(join(folder, 'config.json'), 'utf8')).toBe(CONTENTS['config.json']);
  });

  it.each([
    ['a path out of the folder', { '..': 'x' }],
    ['two files of one name', { a: 'x', b: 'y' }, { a: '/x/same', b: '/y/same' }],
    ['no file', {}],
    ['hundreds of files', Object.fromEntries(Array.from({ length: 65 }, (_, at) => [`f${at}`, 'x']))],
  ])('is refused for a card that names %s', async (_, contents, paths: Record<string, string> = {}) => {
    const card = cardOf(contents);
    const files = Object.entries(card.files).map(([role, file]) => [role, { ...file, path: paths[role] ?? file.path }]);
    const attempt = cacheWith().withFolder(
      { ...card, files: Object.fromEntries(files) },
      [sourceOf(contents)],
      namesIn,
    );
    await expect(attempt).rejects.toThrow('its card must name 1 to ');
  });
});

describe('the cache of models', () => {
  const other = (name: string): readonly [CardFiles, ArtifactSource] => {
    const contents = { 'config.json': name.repeat(400_000) };
    return [cardOf(contents), sourceOf(contents)];
  };

  it('keeps its bound: what was used longest ago leaves, and nothing that is being read', async () => {
    const cache = cacheWith();
    const [[a, fromA], [b, fromB], [c, fromC]] = [other('a'), other('b'), other('c')];
    await cache.withFolder(a, [fromA], async (held) => {
      await cache.withFolder(b, [fromB], namesIn);
      const long = new Date(clock.wallMs() - 60_000);
      utimesSync(held, long, long);
      await cache.withFolder(c, [fromC], namesIn);
      expect(await namesIn(held)).toEqual(['config.json']);
    });
    expect(entries()).toHaveLength(2);
    expect((fromB as ReturnType<typeof sourceOf>).asked).toHaveLength(1);
    await cache.withFolder(b, [fromB], namesIn);
    expect((fromB as ReturnType<typeof sourceOf>).asked).toHaveLength(2);
  });

  it('says what does not fit', async () => {
    const [card, source] = other('abc');
    await expect(cacheWith().withFolder(card, [source], namesIn)).rejects.toThrow('do not fit into');
    expect((source as ReturnType<typeof sourceOf>).asked).toEqual([]);
  });

  it.each([
    ['that others can write', () => chmodSync(root, 0o777)],
    ['that is a link', () => void [rmdirSync(root), symlinkSync(base, root)]],
    ['that is a file', () => void [rmdirSync(root), writeFileSync(root, '')]],
  ])('is not kept in a folder %s', async (_, spoil) => {
    mkdirSync(root, { recursive: true });
    spoil();
    const attempt = cacheWith().withFolder(CARD, [sourceOf(CONTENTS)], namesIn);
    await expect(attempt).rejects.toThrow(/STATOR_ARTIFACTS_CACHE_DIR|EEXIST/);
  });

  it('keeps tables of large tokenizers alone, and does without where it cannot be written', async () => {
    const tokenizer = { path: '/m/tokenizer.json', checksum: sumOf('t'), size: 4 << 20 };
    const cache = cacheWith({ bytesMax: 64 << 20 });
    const prepared = await cache.preparedOf({ 'tokenizer.json': tokenizer });
    expect(prepared?.source).toBe(sumOf('t').slice(7));
    writeFileSync(prepared!.path, 'tables');
    expect((await cache.preparedOf({ 'tokenizer.json': tokenizer }))?.path).toBe(prepared!.path);
    expect(readFileSync(prepared!.path, 'utf8')).toBe('tables');
    expect(await cache.preparedOf({ 'tokenizer.json': { ...tokenizer, size: 1000 } })).toBeUndefined();
    expect(await cache.preparedOf({ 'config.json': { ...tokenizer, path: '/m/config.json' } })).toBeUndefined();
    writeFileSync(join(base, 'file'), '');
    expect(await cacheWith({ root: join(base, 'file') }).preparedOf({ 'tokenizer.json': tokenizer })).toBeUndefined();
  });
});

async function* endless(): AsyncGenerator<Uint8Array> {
  for (;;) yield Buffer.alloc(60_000, 'x');
}

async function* cut(): AsyncGenerator<Uint8Array> {
  yield Buffer.from('x');
  throw new Error('the connection is cut');
}
