import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type HubServer, startHub } from '../support/hub/hub-server.ts';
import { postJson, runStator, type StatorProcess, useFleet } from '../support/index.ts';

const NAME = 'org/mini';
/** A path that each process understands in its own way, as each machine does. */
const ELSEWHERE = '/proc/self/cwd/huggingface';
const NAMES = ['config.json', 'generation_config.json', 'tokenizer.json', 'tokenizer_config.json'];
const FOLDER = resolve('shared/artifacts/builtin-model');

const root = mkdtempSync(join(tmpdir(), 'stator-hub-models-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

describe('a model that is named by its id on the hub', () => {
  const fleet = useFleet();
  let hub: HubServer;

  beforeAll(async () => {
    hub = await startHub();
    const files = Object.fromEntries(NAMES.map((name) => [name, readFileSync(join(FOLDER, name))]));
    const weights = { 'model.safetensors': Buffer.alloc(1000) };
    hub.models.set(NAME, { files: { ...files, ...weights }, large: ['tokenizer.json', 'model.safetensors'] });
  });
  afterAll(() => hub.stop());
  beforeEach(() => {
    hub.asked.length = 0;
    hub.faults.length = 0;
  });

  const envOf = (home: string) => ({ HF_HUB_OFFLINE: undefined, HF_ENDPOINT: hub.url, HF_HOME: home });
  const contentsAsked = (): number => hub.asked.filter(({ path }) => path.startsWith('cdn:')).length;

  async function expectAnswer(url: string): Promise<void> {
    const messages = [{ role: 'user', content: 'What are you?' }];
    const answer = await postJson(`${url}/v1/chat/completions`, { model: NAME, max_tokens: 8, messages });
    expect(answer.status).toBe(200);
    expect(await answer.json()).toMatchObject({ usage: { completion_tokens: 8 } });
  }

  /** Starts a worker that serves its files to nobody, in a folder of its own. */
  function worker(): void {
    const cwd = join(root, 'worker');
    mkdirSync(cwd);
    const env = { ...envOf(ELSEWHERE), DYN_FILE_KV: fleet.fileKv, DYN_TCP_RPC_HOST: '127.0.0.1' };
    fleet.spawn(
      ['worker', '--engine=mocker', '--discovery-backend=file', `--model-path=${NAME}`, '--speedup-ratio=100'],
      env,
      { cwd },
    );
  }

  function frontend(name: string, ...args: readonly string[]): Promise<StatorProcess> {
    const cwd = join(root, name);
    mkdirSync(cwd);
    return fleet.frontend(args, { ...envOf(ELSEWHERE), STATOR_ARTIFACTS_CACHE_DIR: join(cwd, 'cache') }, { cwd });
  }

  it('is served by a worker, and the frontend on another machine downloads the files by the name on the card', async () => {
    worker();
    const one = await frontend('one');
    await fleet.untilWorkers(one, 1, NAME);
    await expectAnswer(one.url);
    expect(await one.metric('stator_artifact_reads_total', 'source="hub"', 'outcome="fetched"')).toBe(NAMES.length);
    expect(contentsAsked()).toBe(2); // once for each machine
    expect(existsSync(join(root, 'worker', 'huggingface', 'hub', 'models--org--mini', 'refs', 'main'))).toBe(true);
  });

  it('is read from the cache of the frontend if that names it, too', async () => {
    const two = await frontend('two', `--model-path=${NAME}`);
    await fleet.untilWorkers(two, 1, NAME);
    await expectAnswer(two.url);
    expect(contentsAsked()).toBe(1);
    expect(await two.metric('stator_artifact_reads_total', 'source="hub"')).toBe(0);
  });

  it('is downloaded once by stator local for all its processes', async () => {
    const local = await fleet.local([`--model-path=${NAME}`, '--speedup-ratio=100'], envOf(join(root, 'local')));
    await expectAnswer(local.url);
    expect(contentsAsked()).toBe(1);
  });

  it.each([
    ['worker', '--engine=mocker', '--discovery-backend=mem'],
    ['frontend', '--http-port=0', '--discovery-backend=mem'],
    ['local', '--http-port=0'],
  ])('ends stator %s with a sentence if the hub has no such model', async (...argv) => {
    const { code, stderr } = await runStator([...argv, '--model-path=org/absent'], envOf(join(root, 'absent')));
    expect(code).toBe(1);
    expect(stderr).toContain(`${hub.url} has no model org/absent for this user: check its name`);
  });

  it('is not waited for after a signal', async () => {
    hub.faults.push({ kind: 'silent', bytes: 10 });
    const silent = new Promise<void>((tell) => {
      hub.onSilent = tell;
    });
    const child = fleet.spawn(['frontend', '--http-port=0', '--discovery-backend=mem', `--model-path=${NAME}`], {
      ...envOf(join(root, 'stopped')),
    });
    await silent;
    child.signal('SIGINT');
    expect(await child.exited).toBe(0);
    expect(child.stderr()).not.toContain('Error');
  });
});
