import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { builtinModelPath, openModelFolder } from '../../../shared/artifacts/index.ts';
import { ModelFolderError, readModelInfo } from '../../../shared/tokens/index.ts';

describe('openModelFolder', () => {
  let root: string;
  let worker: string;
  let copy: string;

  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'stator-artifacts-'));
    worker = join(root, 'worker');
    copy = join(root, 'copy');
    await cp(builtinModelPath(), worker, { recursive: true });
    await cp(builtinModelPath(), copy, { recursive: true });
  });
  afterEach(() => rm(root, { recursive: true, force: true }));

  it("opens the worker's own folder where it can be read", async () => {
    const { files } = await readModelInfo(worker);
    expect(await openModelFolder({ modelName: 'm', files })).toBe(worker);
    expect(await openModelFolder({ modelName: 'm', files, modelPath: copy })).toBe(worker);
  });

  it('opens the own copy where the worker is on another machine', async () => {
    const { files } = await readModelInfo(worker);
    await rm(worker, { recursive: true });
    expect(await openModelFolder({ modelName: 'm', files, modelPath: copy })).toBe(copy);
  });

  it('refuses a folder whose file is absent or differs, naming it and what to do', async () => {
    const { files } = await readModelInfo(worker);
    await writeFile(join(worker, 'config.json'), '{}');
    await rm(join(copy, 'tokenizer.json'));
    const opened = openModelFolder({ modelName: 'm', files, modelPath: copy });
    await expect(opened).rejects.toThrow(ModelFolderError);
    await expect(opened).rejects.toThrow(
      /^model m: .*worker\/config\.json \(config\.json\) differs from the worker's copy; .*copy\/tokenizer\.json \(tokenizer\.json\) is absent; give a folder .* with --model-path$/,
    );
  });

  it('reads no device, however its card calls it, and no file of another size', async () => {
    const { files } = await readModelInfo(worker);
    const config = files['config.json']!;
    const endless = {
      ...files,
      'tokenizer.json': { ...config, path: '/dev/zero' },
      'config.json': { ...config, path: '/dev/zero' },
    };
    await expect(openModelFolder({ modelName: 'm', files: endless })).rejects.toThrow('/dev/zero: not a file');
    const lying = { ...files, 'config.json': { ...config, size: config.size + 1 } };
    await expect(openModelFolder({ modelName: 'm', files: lying })).rejects.toThrow("differs from the worker's copy");
  });

  it('refuses a card without files unless a folder is given', async () => {
    await expect(openModelFolder({ modelName: 'm', files: {} })).rejects.toThrow(/names no files; give its folder/);
    expect(await openModelFolder({ modelName: 'm', files: {}, modelPath: copy })).toBe(copy);
  });
});
