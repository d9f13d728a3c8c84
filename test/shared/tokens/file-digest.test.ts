import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { compareModelFile, describeModelFile, openDigest, withBlake3 } from '../../../shared/tokens/index.ts';

/** Bytes as in the published test vectors of BLAKE3: 0, 1, ..., 250, 0, 1, ... */
const vector = (length: number): Buffer => Buffer.from(Array.from({ length }, (_, at) => at % 251));
/** Lengths with the first 32 bytes of their hashes, from the same vectors. */
const VECTORS = [
  [0, 'af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262'],
  [1, '2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213'],
  [1023, '10108970eeda3eb932baac1428c7a2163b0e924c9a9e25b35bba72b28f70bd11'],
  [1025, 'd00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444'],
  [102400, 'bc3e3d41a1146b069abffad3c0d44860cf664390afce4d9661f7902e7943e085'],
] as const;

describe('the digest of a file', () => {
  it.each(VECTORS)('is that of BLAKE3 for %i bytes, in parts of any size', async (length, hash) => {
    const bytes = vector(length);
    for (const part of [1 << 20, 1000, 64]) {
      const digest = await openDigest('blake3:');
      for (let at = 0; at < length; at += part) digest.update(bytes.subarray(at, at + part));
      expect(digest.checksum()).toBe(`blake3:${hash}`);
    }
  });

  it.each(['', 'none', 'md5:00', 'constructor:00', '__proto__:'])(
    'equals no checksum of another kind: %s',
    async (kind) => {
      const digest = await openDigest(kind);
      expect(digest.checksum()).toMatch(/^sha256:e3b0c442/);
    },
  );
});

describe('a file of a model', () => {
  let folder: string;
  let path: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'stator-files-'));
    path = join(folder, 'tokenizer.json');
    await writeFile(path, vector(102400));
  });
  afterEach(() => rm(folder, { recursive: true }));

  it('is compared by the kind of checksum that the card has', async () => {
    const described = await describeModelFile(path);
    if (described === undefined) throw new Error('it is there');
    const { file: summed } = await withBlake3({ file: described });
    expect(summed).toEqual({ ...described, blake3: `blake3:${VECTORS[4][1]}` });
    const file = { ...described, checksum: summed.blake3 ?? '' };
    expect(await compareModelFile(path, described)).toBe('same');
    expect(await compareModelFile(path, file)).toBe('same');
    expect(await compareModelFile(path, { ...file, size: 1 })).toBe('different');
    expect(await compareModelFile(path, { ...file, checksum: `sha256:${VECTORS[4][1]}` })).toBe('different');
  });
});
