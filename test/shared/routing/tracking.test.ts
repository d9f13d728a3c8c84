import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { resolveConfig } from '../../../shared/config/index.ts';
import { openTracking } from '../../../shared/routing/router-files.ts';

const folder = mkdtempSync(join(tmpdir(), 'stator-tracking-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function settingsFor(file: string) {
  return {
    ...resolveConfig('frontend', [], {}).settings,
    routerTrackingHash: 'keyed-xxh3-v1',
    routerTrackingKeyFile: join(folder, file),
    routerTrackingKeyId: '2026-01',
  } as const;
}

describe('the key of tracked names', () => {
  it('is not read if names are public', async () => {
    const settings = { ...settingsFor('absent'), routerTrackingHash: 'public-xxh3-v1' } as const;
    await expect(openTracking(settings)).resolves.toBeUndefined();
  });

  it('is 32 bytes of a file, raw', async () => {
    writeFileSync(join(folder, 'key'), Buffer.alloc(32, 10)); // line feeds, which are part of it
    await expect(openTracking(settingsFor('key'))).resolves.toBeDefined();
  });

  it('stops the start when it cannot be used, with nothing of it in the message', async () => {
    writeFileSync(join(folder, 'long'), 'secret'.repeat(6));
    await expect(openTracking(settingsFor('long'))).rejects.toThrow(
      /^--router-tracking-key-file has 36 bytes, not 32$/,
    );
    await expect(openTracking(settingsFor('absent'))).rejects.toThrow(
      '--router-tracking-key-file cannot be read: ENOENT',
    );
  });
});
