import { createHash } from 'node:crypto';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { builtinModelPath } from '../../../shared/artifacts/index.ts';
import { scanTokenizerJson } from '../../../shared/tokens/bpe/build-tables.ts';
import { packTokenizer, readPrepared, writePrepared } from '../../../shared/tokens/bpe/prepared-tables.ts';
import { createBpeTokenizer } from '../../../shared/tokens/bpe/tokenizer.ts';
import { loadModelFolder, type Tokenizer } from '../../../shared/tokens/index.ts';
import { anyText } from '../../support/tokens/texts.ts';
import { BYTE_LEVEL_VARIANTS, builtinTokenizer } from '../../support/tokens/variants.ts';

const SOURCE = createHash('sha256').update('a tokenizer file').digest('hex');
/** The checksum that the file begins with is of all behind it. */
const SUM_BYTES = 32;

let folder: string;
let prepared: { readonly path: string; readonly source: string };
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'stator-prepared-'));
  prepared = { path: join(folder, 'a.bpe'), source: SOURCE };
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function scannedOf(name: string) {
  const json = builtinTokenizer();
  BYTE_LEVEL_VARIANTS[name]!(json);
  return scanTokenizerJson(Buffer.from(JSON.stringify(json)));
}

const [FIRST] = Object.keys(BYTE_LEVEL_VARIANTS) as [string];

describe.each(Object.keys(BYTE_LEVEL_VARIANTS))('prepared tables: %s', (name) => {
  it('encode and decode as those out of the JSON do', async () => {
    const scanned = scannedOf(name);
    writePrepared(prepared, scanned);
    const [ours, kept] = [scanned, (await readPrepared(prepared))!].map((one) => createBpeTokenizer(one)) as [
      Tokenizer,
      Tokenizer,
    ];
    expect(kept.vocabSize).toBe(ours.vocabSize);
    fc.assert(
      fc.property(anyText, fc.boolean(), (text, addSpecialTokens) => {
        const ids = ours.encode(text, { addSpecialTokens });
        expect(kept.encode(text, { addSpecialTokens })).toEqual(ids);
        expect(kept.decode(ids)).toBe(ours.decode(ids));
      }),
      { numRuns: 100 },
    );
  });
});

describe('a file of prepared tables', () => {
  it('is for this user alone, and the folder holds nothing else', () => {
    writePrepared(prepared, scannedOf(FIRST));
    expect(statSync(prepared.path).mode & 0o777).toBe(0o600);
    expect(readdirSync(folder)).toEqual(['a.bpe']);
  });

  it('is invalid when any byte of it differs', async () => {
    writePrepared(prepared, scannedOf(FIRST));
    const whole = readFileSync(prepared.path);
    for (let at = 0; at < whole.length; at += at < 200 ? 1 : 997) {
      const damaged = Buffer.from(whole);
      damaged[at]! ^= 1;
      writeFileSync(prepared.path, damaged);
      expect(await readPrepared(prepared)).toBeUndefined();
    }
    writeFileSync(prepared.path, whole);
    expect(await readPrepared(prepared)).toBeDefined();
  });

  it('is invalid when it is cut, empty, absent, a link, or made from another tokenizer', async () => {
    expect(await readPrepared(prepared)).toBeUndefined();
    writePrepared(prepared, scannedOf(FIRST));
    const whole = readFileSync(prepared.path);
    expect(
      await readPrepared({ ...prepared, source: SOURCE.replace(/^./, (digit) => (digit === '0' ? '1' : '0')) }),
    ).toBeUndefined();
    const link = join(folder, 'link');
    symlinkSync(prepared.path, link);
    expect(await readPrepared({ ...prepared, path: link })).toBeUndefined();
    for (const length of [0, 10, 100, whole.length >> 1, whole.length - 1]) {
      writeFileSync(prepared.path, whole.subarray(0, length));
      expect(await readPrepared(prepared)).toBeUndefined();
    }
  });

  it.each([
    ['tables without an empty slot, in which a look-up would never end', { tokenSlots: new Int32Array(2048).fill(1) }],
    ['pairs without an empty slot', { pairSlots: new Int32Array(4096).fill(1) }],
    ['slots that are no power of two', { tokenSlots: new Int32Array(1000).fill(-1) }],
    ['tokens that are not there', { tokenSlots: new Int32Array([5_000_000, -1]) }],
    ['bytes that are not there', { blob: new Uint8Array(3) }],
    ['lengths of fewer tokens', { lengths: new Uint16Array(1) }],
  ])('is invalid when it holds %s', async (_, change) => {
    const { rest, tables } = scannedOf(FIRST);
    writeFileSync(prepared.path, packTokenizer({ rest, tables: { ...tables!, ...change } }, SOURCE));
    expect(await readPrepared(prepared)).toBeUndefined();
  });

  it.each([
    ['its tables lie outside of it', /"counts":\[\d+/, '"counts":[99999'],
    ['it does not say how long they are', /"counts":\[\d+/, '"counts":[null'],
    ['it is of another version', /"version":"\d/, '"version":"7'],
    ['what it says is no JSON', /^\{"version"/, '["version"'],
  ])('is invalid when %s, its checksum right', async (_, pattern, wrong) => {
    writePrepared(prepared, scannedOf(FIRST));
    const whole = readFileSync(prepared.path);
    const json = whole.toString('latin1', SUM_BYTES + 4);
    const at = SUM_BYTES + 4 + pattern.exec(json)!.index;
    whole.write(wrong, at, 'latin1');
    createHash('sha256').update(whole.subarray(SUM_BYTES)).digest().copy(whole);
    writeFileSync(prepared.path, whole);
    expect(await readPrepared(prepared)).toBeUndefined();
  });
});

describe('a model folder', () => {
  it('is loaded from prepared tables once they are kept, and without them where they cannot be', async () => {
    const model = join(folder, 'model');
    cpSync(builtinModelPath(), model, { recursive: true });
    const first = await loadModelFolder(model, { prepared });
    writeFileSync(join(model, 'tokenizer.json'), 'no JSON any more');
    const second = await loadModelFolder(model, { prepared });
    expect(second.tokenizer.encode('Hello there')).toEqual(first.tokenizer.encode('Hello there'));
    cpSync(join(builtinModelPath(), 'tokenizer.json'), join(model, 'tokenizer.json'));
    const nowhere = { ...prepared, path: join(folder, 'absent', 'a.bpe') };
    const third = await loadModelFolder(model, { prepared: nowhere });
    expect(third.tokenizer.encode('Hello there')).toEqual(first.tokenizer.encode('Hello there'));
  });
});
