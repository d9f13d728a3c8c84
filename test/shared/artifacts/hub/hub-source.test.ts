import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  type HubSettings,
  hubModelOfCard,
  hubPlace,
  hubSource,
  ModelCache,
} from '../../../../shared/artifacts/index.ts';
import { systemRandom } from '../../../../shared/clock/index.ts';
import { parseHubModel } from '../../../../shared/config/index.ts';
import { type HubBed, openHubBed } from '../../../support/hub/hub-bed.ts';
import { sha256 } from '../../../support/hub/hub-server.ts';

const NAME = 'org/name';
const CONFIG = Buffer.from('{"model_type":"qwen3"}');
const TOKENIZER = Buffer.alloc(50_000, 'token ');

let bed: HubBed;
let root: string;
beforeEach(async () => {
  bed = await openHubBed();
  root = mkdtempSync(join(tmpdir(), 'stator-hub-source-'));
  bed.hub.models.set(NAME, {
    files: { 'config.json': CONFIG, 'tokenizer.json': TOKENIZER },
    large: ['tokenizer.json'],
  });
});
afterEach(async () => {
  await bed.close();
  rmSync(root, { recursive: true });
});

const fileOf = (path: string, content: Buffer) => ({
  path,
  checksum: `sha256:${sha256(content)}`,
  size: content.length,
});

/** The files of a card whose worker has them in a folder of its own. */
const FILES = {
  'config.json': fileOf('/worker/config.json', CONFIG),
  'tokenizer.json': fileOf('/worker/tokenizer.json', TOKENIZER),
};

/** Opens the model of a card as a frontend does, which has nothing but the hub to take its files from. */
function openFromHub(name = NAME, changed: Partial<HubSettings> = {}, files = FILES): Promise<string> {
  const { clock } = bed;
  const reads = { onRead: () => {}, onRemoved: () => {} };
  const cache = new ModelCache({ root, bytesMax: 1e9, clock, random: systemRandom, ...reads });
  const source = hubSource(parseHubModel(name)!, hubPlace(bed.settings(changed), {}), clock);
  return cache.withFolder({ modelName: 'm', files }, [source], async (folder) =>
    readFileSync(join(folder, 'tokenizer.json'), 'utf8'),
  );
}

describe('the model on the hub that a card means', () => {
  const cardOf = (display_name: string, source_path: string | undefined, path: string) => ({
    display_name,
    source_path,
    files: { 'config.json': fileOf(path, CONFIG) },
  });

  it.each([
    [
      'that of its files',
      cardOf('mine', 'org/other', 'hf://org/name/config.json'),
      { id: 'org/name', revision: 'main' },
    ],
    ['a revision of it', cardOf('mine', undefined, 'hf://org/name@v1/config.json'), { id: 'org/name', revision: 'v1' }],
    ['its source', cardOf('mine', 'org/name@v1', '/worker/config.json'), { id: 'org/name', revision: 'v1' }],
    ['its name', cardOf('org/name', undefined, '/worker/config.json'), { id: 'org/name', revision: 'main' }],
    ['none for a folder', cardOf('org/name', '/models/name', '/worker/config.json'), undefined],
    ['none for a text that leaves the hub', cardOf('mine', undefined, 'hf://../../x/config.json'), undefined],
  ])('is %s', (_, card, model) => {
    expect(hubModelOfCard(card)).toEqual(model);
  });
});

describe('the files of a card that are only on the hub', () => {
  it('are downloaded, and the token does not leave the hub', async () => {
    bed.hub.models.set(NAME, { ...bed.hub.models.get(NAME)!, access: 'private' });
    expect(await openFromHub(NAME, { hfToken: bed.hub.token })).toBe(TOKENIZER.toString());
    const ofCdn = bed.hub.asked.filter(({ path }) => path.startsWith('cdn:'));
    expect(ofCdn.map(({ token }) => token)).toEqual([undefined]);
  });

  it('are taken from the cache of the hub if it has the same files, also offline', async () => {
    await bed.fetch(NAME);
    bed.hub.asked.length = 0;
    expect(await openFromHub(NAME, { hfHubOffline: true })).toBe(TOKENIZER.toString());
    expect(bed.hub.asked).toEqual([]);
  });

  it.each([NAME, `${NAME}@v2`, `${NAME}@refs/pr/7`])('are downloaded if the cache has others: %s', async (name) => {
    await bed.fetch(NAME);
    const newer = Buffer.alloc(TOKENIZER.length, 'newer ');
    const files = { 'config.json': CONFIG, 'tokenizer.json': newer };
    bed.hub.models.set(NAME, { files, commit: 'c'.repeat(40), revisions: ['main', 'v2', 'refs/pr/7'] });
    const card = { ...FILES, 'tokenizer.json': fileOf('/worker/tokenizer.json', newer) };
    expect(await openFromHub(name, {}, card)).toBe(newer.toString());
  });

  it('are refused by their checksum if the repository has changed', async () => {
    const files = { 'config.json': CONFIG, 'tokenizer.json': Buffer.alloc(50_000, 'other ') };
    bed.hub.models.set(NAME, { files });
    await expect(openFromHub()).rejects.toThrow(
      `model m: tokenizer.json cannot be fetched: ${bed.hub.url}/${NAME}: its bytes are others than the card names`,
    );
  });

  it('are not asked for offline, and a template of the worker never is', async () => {
    await expect(openFromHub(NAME, { hfHubOffline: true })).rejects.toThrow('HF_HUB_OFFLINE forbids to download it');
    const files = { ...FILES, custom_chat_template: fileOf('/worker/mine.jinja', CONFIG) };
    await expect(openFromHub(NAME, {}, files)).rejects.toThrow('custom_chat_template cannot be fetched');
    expect(bed.hub.asked.filter(({ path }) => path.includes('template'))).toEqual([]);
  });

  it('say what to do if the model is gated', async () => {
    bed.hub.models.set(NAME, { ...bed.hub.models.get(NAME)!, access: 'gated' });
    await expect(openFromHub()).rejects.toThrow(`org/name is gated: accept its terms at ${bed.hub.url}/org/name`);
  });
});
