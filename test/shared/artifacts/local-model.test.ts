import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { findLocalModel } from '../../../shared/artifacts/index.ts';

describe('the local folder of a model that an engine names', () => {
  let root: string;

  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'models-'));
  });

  afterEach(() => rm(root, { recursive: true, force: true }));

  it('is the folder itself', async () => {
    expect(await findLocalModel(root)).toBe(root);
    expect(await findLocalModel(join(root, 'absent'))).toBeUndefined();
  });

  it.each([
    ['HF_HUB_CACHE', ''],
    ['HF_HOME', 'hub'],
  ])('is the copy that was downloaded from the hub, under %s', async (variable, below) => {
    const model = join(root, below, 'models--org--name-1.5');
    const snapshot = join(model, 'snapshots', 'abc123');
    await mkdir(join(model, 'refs'), { recursive: true });
    await mkdir(snapshot, { recursive: true });
    await writeFile(join(model, 'refs', 'main'), 'abc123\n');
    const env = { [variable]: root };
    expect(await findLocalModel('org/name-1.5', env)).toBe(snapshot);
    expect(await findLocalModel('org/other', env)).toBeUndefined();
    await rm(snapshot, { recursive: true });
    expect(await findLocalModel('org/name-1.5', env)).toBeUndefined();
  });
});
