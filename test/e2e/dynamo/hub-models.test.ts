import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { hasDynamo, useDynamo, useMeeting } from '../../support/dynamo/index.ts';
import { type HubBed, openHubBed } from '../../support/hub/hub-bed.ts';
import { postJson, useFleet } from '../../support/index.ts';

const NAME = 'org/mini';
const NAMES = ['config.json', 'generation_config.json', 'tokenizer.json', 'tokenizer_config.json'];
const FOLDER = resolve('shared/artifacts/builtin-model');

describe.runIf(hasDynamo())("a worker of Dynamo's that was started with the id of a model on the hub", () => {
  const meeting = useMeeting('file', 'tcp');
  const fleet = useFleet();
  const dynamo = useDynamo(meeting);
  const root = mkdtempSync(join(tmpdir(), 'stator-dynamo-hub-'));
  let bed: HubBed;

  beforeAll(async () => {
    bed = await openHubBed();
    const files = Object.fromEntries(NAMES.map((name) => [name, readFileSync(join(FOLDER, name))]));
    const weights = { 'model.safetensors': Buffer.alloc(1000) };
    bed.hub.models.set(NAME, { files: { ...files, ...weights }, large: ['tokenizer.json', 'model.safetensors'] });
  });
  afterAll(async () => {
    await bed.close();
    rmSync(root, { recursive: true, force: true });
  });
  beforeEach(() => {
    bed.hub.asked.length = 0;
  });

  /** Starts a worker without a status server, which would serve the files. */
  const worker = (env: Readonly<Record<string, string | undefined>>) =>
    dynamo.mocker({ modelFolder: NAME, modelName: NAME, env: { DYN_SYSTEM_PORT: undefined, ...env } });

  it('is served by a frontend that downloads the files which the card names on the hub', async () => {
    const ofHub = { HF_ENDPOINT: bed.hub.url, HF_HUB_OFFLINE: undefined };
    const one = await worker({ ...ofHub, HF_HOME: join(root, 'worker') });
    const ofFrontend = { HF_HOME: join(root, 'frontend'), STATOR_ARTIFACTS_CACHE_DIR: join(root, 'cache') };
    const frontend = await fleet.frontend([], { ...meeting, ...ofHub, ...ofFrontend });
    await fleet.untilWorkers(frontend, 1, NAME);
    const messages = [{ role: 'user', content: 'What are you?' }];
    const answer = await postJson(`${frontend.url}/v1/chat/completions`, { model: NAME, max_tokens: 8, messages });
    const { usage } = (await answer.json()) as { usage: { completion_tokens: number } };
    expect(usage.completion_tokens).toBeGreaterThan(0); // the mocker draws its tokens, and one may be the last
    expect(await frontend.metric('stator_artifact_reads_total', 'source="hub"', 'outcome="fetched"')).toBe(4);
    await one.kill();
  });

  it('starts offline with the files that Stator has put into the cache, and Stator with those of Dynamo', async () => {
    await bed.fetch(NAME);
    const one = await worker({ HF_HUB_OFFLINE: '1', HF_HOME: bed.home });
    await one.kill();
    bed.hub.asked.length = 0;
    const folder = await bed.fetch(NAME, { hfHome: join(root, 'worker') });
    expect(readFileSync(join(folder, 'tokenizer.json'))).toEqual(readFileSync(join(FOLDER, 'tokenizer.json')));
    expect(bed.hub.asked).toEqual([]);
  });
});
