import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { reporterOf } from '../../../../shared/artifacts/hub/report.ts';
import { findLocalModel, type HubSettings, hubPlace, openModel } from '../../../../shared/artifacts/index.ts';
import { nameOfHubModel, parseHubModel, resolveConfig } from '../../../../shared/config/index.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';
import { type HubBed, openHubBed } from '../../../support/hub/hub-bed.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'models-'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const settings = (env: Readonly<Record<string, string>>): HubSettings =>
  resolveConfig('worker', ['--engine=mocker'], env).settings;

describe('the name of a model on the hub', () => {
  it.each([
    ['org/name', 'org/name', 'main'],
    ['Qwen/Qwen3-0.6B', 'Qwen/Qwen3-0.6B', 'main'],
    ['hf://org/name', 'org/name', 'main'],
    ['org/name@v1.0', 'org/name', 'v1.0'],
    ['org/name@refs/pr/7', 'org/name', 'refs/pr/7'],
    ['org/name@main', 'org/name', 'main'],
  ])('%s is read', (text, id, revision) => {
    const model = parseHubModel(text);
    expect(model).toEqual({ id, revision });
    expect(parseHubModel(nameOfHubModel(model!))).toEqual(model);
  });

  it.each([
    '',
    'name',
    '/org/name',
    './org/name',
    'org/name/file',
    'org/',
    '-org/name',
    'org/.name',
    'org/name.',
    'org/na--me',
    'org/na..me',
    'org/name.git',
    'org/name@',
    'org/name@../../x',
    'org/name@/x',
    'org/name@a/./b',
    'org/name@a//b',
    'org/na me',
    's3://org/name',
    `org/${'n'.repeat(100)}`,
  ])('%j is not such a name', (text) => {
    expect(parseHubModel(text)).toBeUndefined();
  });
});

describe('the folder of a model on this machine', () => {
  it('is the folder itself', async () => {
    expect(await findLocalModel(root, settings({}))).toBe(root);
    expect(await findLocalModel(join(root, 'absent'), settings({}))).toBeUndefined();
    writeFileSync(join(root, 'file'), '');
    expect(await findLocalModel(join(root, 'file'), settings({}))).toBeUndefined();
  });

  it.each([
    ['HF_HUB_CACHE', ''],
    ['HF_HOME', 'hub'],
  ])('is the copy that was downloaded from the hub, under %s', async (variable, below) => {
    const model = join(root, below, 'models--org--name-1.5');
    const snapshot = join(model, 'snapshots', 'abc123');
    mkdirSync(join(model, 'refs'), { recursive: true });
    mkdirSync(snapshot, { recursive: true });
    writeFileSync(join(model, 'refs', 'main'), 'abc123\n');
    const found = (name: string) => findLocalModel(name, settings({ [variable]: root }));
    expect(await found('org/name-1.5')).toBe(snapshot);
    expect(await found('org/other')).toBeUndefined();
    rmSync(snapshot, { recursive: true });
    expect(await found('org/name-1.5')).toBeUndefined();
  });

  it('is never outside the cache, whatever a reference says', async () => {
    const refs = join(root, 'models--org--name', 'refs');
    mkdirSync(refs, { recursive: true });
    for (const commit of ['../../..', '..', '/etc', 'a/b', '']) {
      writeFileSync(join(refs, 'main'), commit);
      expect(await findLocalModel('org/name', settings({ HF_HUB_CACHE: root }))).toBeUndefined();
    }
  });
});

describe('the place of the hub', () => {
  it("has the defaults of Hugging Face's own tools", async () => {
    const place = hubPlace(settings({}), { XDG_CACHE_HOME: '/cache' });
    expect(place).toMatchObject({
      endpoint: 'https://huggingface.co',
      cache: '/cache/huggingface/hub',
      isOffline: false,
    });
    expect(hubPlace(settings({ HF_HOME: '/hf' }), { XDG_CACHE_HOME: '/cache' }).cache).toBe('/hf/hub');
  });

  it('has the token of the environment, or that of the file', async () => {
    writeFileSync(join(root, 'token'), ' hf_file\n');
    expect(await hubPlace(settings({ HF_HOME: root })).token()).toBe('hf_file');
    expect(await hubPlace(settings({ HF_TOKEN_PATH: join(root, 'token') })).token()).toBe('hf_file');
    expect(await hubPlace(settings({ HF_HOME: root, HF_TOKEN: 'hf_env' })).token()).toBe('hf_env');
    expect(await hubPlace(settings({ HF_HOME: root, HUGGING_FACE_HUB_TOKEN: 'hf_old' })).token()).toBe('hf_old');
    expect(await hubPlace(settings({ HF_HOME: join(root, 'absent') })).token()).toBeUndefined();
  });
});

describe('a model path', () => {
  let bed: HubBed;
  beforeEach(async () => {
    bed = await openHubBed();
    bed.hub.models.set('org/name', {
      files: { 'config.json': Buffer.from('{}'), 'tokenizer.json': Buffer.from('{}') },
    });
  });
  afterEach(() => bed.close());

  it('is a folder before it is a model on the hub, and the log says what is downloaded', async () => {
    const { logger, lines } = captureLogger();
    const options = { settings: bed.settings(), clock: bed.clock, logger };
    expect(await openModel(root, options)).toBe(root);
    expect(await openModel(join(root, 'absent'), options)).toBeUndefined();
    expect(lines).toEqual([]);
    expect(await openModel('org/name', options)).toContain('models--org--name/snapshots/');
    expect(lines.map(({ message }) => message)).toEqual(['downloading the files of a model', 'downloaded']);
    expect(lines[0]?.fields).toEqual({ model: 'org/name', from: bed.hub.url, files: 2, bytes: 4 });
  });
});

describe('the progress of a download', () => {
  const model = { id: 'org/name', revision: 'main' };
  const at = (bytes: number) => ({ files: 1, bytes, bytesOfAll: 12_000_000 });

  it('is one line on a terminal, which is gone at the end', () => {
    const { logger } = captureLogger();
    let shown = '';
    const output = { isTTY: true, write: (text: string) => (shown += text) };
    const reporter = reporterOf(model, 'http://hub', new VirtualClock(), logger, output);
    reporter.onProgress(at(0));
    reporter.onProgress(at(5_100_000));
    expect(shown).toContain('downloading org/name: 5.1 of 12.0 MB');
    reporter.end();
    expect(shown.endsWith('\r\u001b[2K')).toBe(true);
    expect(shown).not.toContain('\n');
  });

  it('is a line of the log every five seconds elsewhere', async () => {
    const { logger, lines } = captureLogger();
    const clock = new VirtualClock();
    const reporter = reporterOf(model, 'http://hub', clock, logger, { write: () => {} });
    for (let second = 0; second <= 12; second++) {
      reporter.onProgress(at(second * 1_000_000));
      await clock.advance(1000);
    }
    reporter.end();
    expect(lines.map(({ message }) => message)).toEqual([
      'downloading the files of a model',
      'still downloading',
      'still downloading',
      'downloaded',
    ]);
  });
});
