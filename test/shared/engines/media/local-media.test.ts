import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readLocalMedia } from '../../../../shared/engines/media/read-media.ts';

const OUTSIDE = 'outside of the folder';

describe('reading local media', () => {
  const base = mkdtempSync(join(tmpdir(), 'stator-media-'));
  const folder = join(base, 'media');
  const secret = join(base, 'secret.png');

  beforeAll(() => {
    mkdirSync(join(folder, 'deep'), { recursive: true });
    mkdirSync(join(base, 'media-beside'));
    writeFileSync(join(folder, 'a.PNG'), 'picture');
    writeFileSync(join(folder, 'deep', 'clip one.mp4'), 'clip');
    writeFileSync(join(folder, '..odd'), 'odd');
    writeFileSync(secret, 'secret');
    writeFileSync(join(base, 'media-beside', 'b.png'), 'beside');
    symlinkSync(secret, join(folder, 'link.png'));
    symlinkSync(base, join(folder, 'up'));
    symlinkSync(join(folder, 'a.PNG'), join(folder, 'inside.png'));
    symlinkSync(folder, join(base, 'alias'));
    execFileSync('mkfifo', [join(folder, 'pipe.png')]);
  });

  afterAll(() => rmSync(base, { recursive: true, force: true }));

  function read(path: string, root = folder, fileBytesMax = 100) {
    const url = path.startsWith('file:') ? path : pathToFileURL(path).href;
    return readLocalMedia(url, { folder: root, fileBytesMax }, new AbortController().signal);
  }

  it('gives the bytes, and the type that the ending says', async () => {
    expect(await read(join(folder, 'a.PNG'))).toEqual({ mediaType: 'image/png', bytes: Buffer.from('picture') });
    expect(await read(join(folder, 'deep', 'clip one.mp4'))).toMatchObject({ mediaType: 'video/mp4' });
    expect(await read(join(folder, '..odd'))).toMatchObject({ mediaType: 'application/octet-stream' });
    expect(await read(`file://localhost${folder}/a.PNG`)).toMatchObject({ mediaType: 'image/png' });
  });

  it('follows links that stay inside, also of the folder itself', async () => {
    expect(await read(join(folder, 'inside.png'))).toMatchObject({ mediaType: 'image/png' });
    expect(await read(join(base, 'alias', 'a.PNG'), join(base, 'alias'))).toMatchObject({ mediaType: 'image/png' });
    expect(await read(join(folder, 'a.PNG'), join(base, 'alias'))).toMatchObject({ mediaType: 'image/png' });
  });

  it.each([
    ['a file beside the folder', () => secret],
    ['a folder whose name begins alike', () => join(base, 'media-beside', 'b.png')],
    ['the folder itself', () => folder],
    ['dots', () => `file://${folder}/../secret.png`],
    ['escaped dots', () => `file://${folder}/%2e%2e/secret.png`],
    ['a link to a file outside', () => join(folder, 'link.png')],
    ['a way over a link to a folder outside', () => join(folder, 'up', 'secret.png')],
    ['what is not even there', () => '/no/such/file'],
  ])('refuses %s in one way', async (_what, path) => {
    await expect(read(path())).rejects.toMatchObject({
      code: 'invalid_value',
      message: expect.stringContaining(OUTSIDE),
    });
  });

  it.each([
    ['another host', () => 'file://example.com/a.png', 'not a file:///path'],
    ['an escaped separator', () => `file://${folder}/deep%2fclip`, 'not a file:///path'],
    ['a zero byte', () => `file://${folder}/a%00.png`, 'not a file:///path'],
    ['a file that is missing', () => join(folder, 'missing.png'), 'ENOENT'],
    ['a folder inside', () => join(folder, 'deep'), 'is not a file'],
    ['a pipe', () => join(folder, 'pipe.png'), 'is not a file'],
  ])('refuses %s', async (_what, path, says) => {
    await expect(read(path())).rejects.toThrow(says);
  });

  it('reads no more than allowed', async () => {
    expect((await read(join(folder, 'a.PNG'), folder, 7)).bytes).toHaveLength(7);
    await expect(read(join(folder, 'a.PNG'), folder, 6)).rejects.toThrow('has more than 6 bytes');
  });

  it('reads nothing where the folder itself is missing', async () => {
    await expect(read(join(base, 'gone', 'a.png'), join(base, 'gone'))).rejects.toThrow('ENOENT');
  });
});
