import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  askAbout,
  freePort,
  openChat,
  postJson,
  readChat,
  type SpawnedProcess,
  type StatorProcess,
  spawnNode,
  untilHeld,
  useFleet,
  waitUntil,
} from '../support/index.ts';

const EXAMPLES = fileURLToPath(new URL('../../examples/', import.meta.url));
const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const FILE = ['--discovery-backend', 'file'];

describe('the examples of the SDK', () => {
  const fleet = useFleet();
  let frontend: StatorProcess;
  let parrot: SpawnedProcess;
  let echo: SpawnedProcess;

  const example = (name: string, env: Readonly<Record<string, string>> = {}, flags: readonly string[] = []) =>
    spawnNode([`${EXAMPLES}${name}`, ...FILE, ...flags], { cwd: ROOT, env: { DYN_FILE_KV: fleet.fileKv, ...env } });

  beforeAll(async () => {
    parrot = example('parrot-worker.mjs');
    echo = example('echo-tokens-worker.mjs');
    frontend = await fleet.frontend(['--enable-anthropic-api']);
    await fleet.untilWorkers(frontend, 1, 'parrot');
    await fleet.untilWorkers(frontend, 1, 'echo-tokens');
  });

  const question = { model: 'parrot', messages: [{ role: 'user', content: 'all the words come back' }] };

  it('serve a chat of a model written in code, streamed and whole', async () => {
    const streamed = await readChat(frontend.url, question);
    expect(streamed.text).toBe('all the words come back');
    expect(streamed.finishReason).toBe('stop');
    const whole = await postJson(`${frontend.url}/v1/chat/completions`, question);
    expect(whole.status).toBe(200);
    expect(await whole.json()).toMatchObject({
      choices: [{ message: { role: 'assistant', content: 'all the words come back' }, finish_reason: 'stop' }],
    });
  });

  it('end with exit code 2 and a line for a setting that cannot be', async () => {
    const refused = spawnNode([`${EXAMPLES}parrot-worker.mjs`, '--no-such-flag'], { cwd: ROOT });
    expect(await refused.exited).toBe(2);
    expect(refused.stderr()).toBe('stator: unknown flag --no-such-flag; stator worker --help lists all\n');
  });

  it.each([
    ['a publisher of events that anybody reaches', ['--event-plane', 'zmq'], { DYN_EVENT_PLANE_HOST: '0.0.0.0' }],
    ['a folder that cannot be written', ['--dump-config-to', '/no/such/folder/settings.json'], {}],
    ['an endpoint of two parts', ['--endpoint', 'dyn://a.b'], {}],
  ])('end as stator worker does for %s: one line and its exit code', async (_mistake, flags, env) => {
    const fleetEnv = { DYN_FILE_KV: fleet.fileKv, DYN_LOG: 'error', ...env };
    const ofCode = example('parrot-worker.mjs', fleetEnv, flags);
    const args = ['bin/stator.js', 'worker', '--engine', 'mocker', ...FILE, ...flags];
    const ofCommand = spawnNode(args, { cwd: ROOT, env: fleetEnv });
    expect(await ofCommand.exited).toBeGreaterThan(0);
    expect(await ofCode.exited).toBe(await ofCommand.exited);
    expect(ofCode.stderr()).toMatch(/^stator: .+\n$/);
    expect(ofCommand.stderr().replaceAll(/^stator: warning: .*\n/gm, '')).toBe(ofCode.stderr()); // variables of the test run
  });

  it('say back what comes in parts', async () => {
    const content = [
      { type: 'text', text: 'all the words' },
      { type: 'text', text: 'of all parts' },
    ];
    const answer = await postJson(`${frontend.url}/v1/chat/completions`, {
      model: 'parrot',
      messages: [{ role: 'user', content }],
    });
    expect(await answer.json()).toMatchObject({ choices: [{ message: { content: 'all the words of all parts' } }] });
  });

  it('serve the same model to Anthropic clients', async () => {
    const answer = await postJson(`${frontend.url}/v1/messages`, { ...question, max_tokens: 100 });
    expect(await answer.json()).toMatchObject({ content: [{ type: 'text', text: 'all the words come back' }] });
  });

  it('serve a model that takes tokens', async () => {
    const body = { model: 'echo-tokens', prompt: 'same again', max_tokens: 2 };
    const answer = await postJson(`${frontend.url}/v1/completions`, body);
    expect(answer.status).toBe(200);
    expect(await answer.json()).toMatchObject({
      choices: [{ finish_reason: 'length' }],
      usage: { completion_tokens: 2 },
    });
  });

  it('embed the frontend beside routes of the program', async () => {
    const port = await freePort();
    const program = example('embedded-frontend.mjs', { PORT: String(port) });
    const [url] = await program.waitForOutput(/http:\/\/127\.0\.0\.1:\d+/);
    const hello = await fetch(`${url}/hello`);
    expect(await hello.text()).toBe('models: echo-tokens, parrot\n');
    const streamed = await readChat(url, question);
    expect(streamed.text).toBe('all the words come back');
    program.signal('SIGTERM');
    expect(await program.exited).toBe(0);
  });

  it('drain and leave with exit code 0 when told to stop', async () => {
    parrot.signal('SIGTERM');
    echo.signal('SIGTERM');
    expect(await parrot.exited).toBe(0);
    expect(await echo.exited).toBe(0);
    await fleet.untilWorkers(frontend, 0, 'parrot');
  });
});

describe('two workers of a model from code that tells of its cache', () => {
  const fleet = useFleet();

  it('get the prompts that they have cached, again and again, and new ones by load', async () => {
    const env = { DYN_FILE_KV: fleet.fileKv, DYN_TCP_RPC_HOST: '127.0.0.1', DYN_EVENT_PLANE_HOST: '127.0.0.1' };
    const start = () => fleet.adopt(spawnNode([`${EXAMPLES}cached-worker.mjs`, ...FILE], { cwd: ROOT, env }));
    const [frontend] = await Promise.all([fleet.frontend(['--router-mode=kv']), start(), start()]);
    await fleet.untilWorkers(frontend, 2, 'cached');
    for (const topic of ['once more', 'of something else']) {
      const first = await askAbout(frontend, topic, 60, 'cached');
      expect(first.cached).toBe(0);
      expect(await untilHeld(frontend, topic, 60, 'cached')).toEqual([first.worker]);
      for (let turn = 0; turn < 6; turn++) {
        const again = await askAbout(frontend, topic, 60, 'cached');
        expect(again.worker).toBe(first.worker);
        expect(again.cached).toBeGreaterThan(again.prompt - 32);
      }
    }
  });
});

describe('one worker on a CPU and one on a GPU', () => {
  const fleet = useFleet();

  it('differ if devices are weighed: the CPU gets a request when the GPU has eight', async () => {
    const flags = ['--engine=mocker', '--speedup-ratio=0.2'];
    const [frontend, cpu, gpu] = await Promise.all([
      fleet.frontend(['--router-mode=device-aware-weighted']),
      fleet.worker([...flags, '--device-type=cpu']),
      fleet.worker(flags, { STATOR_DEVICE_TYPE: 'cuda' }),
    ]);
    await fleet.untilWorkers(frontend, 2);
    const body = { model: 'stator-mini', max_tokens: 500, messages: [{ role: 'user', content: 'Hello' }] };
    const streams = [];
    const underWay = (worker: StatorProcess) => worker.metric('dynamo_component_inflight_requests');
    for (let sent = 1; sent <= 9; sent++) {
      streams.push(await openChat(frontend.url, body));
      const sum = await waitUntil(async () => (await underWay(cpu)) + (await underWay(gpu)) === sent);
      expect(sum).toBe(true);
    }
    expect([await underWay(gpu), await underWay(cpu)]).toEqual([8, 1]);
    const health = (await (await fetch(`${frontend.url}/health`)).json()) as {
      readonly instances: readonly { readonly endpoint: string; readonly device_type: string }[];
    };
    const devices = health.instances.filter(({ endpoint }) => endpoint === 'generate').map((each) => each.device_type);
    expect(devices.sort()).toEqual(['cpu', 'cuda']);
    for (const stream of streams) stream.leave();
  });
});

describe('a mistake in the code of a model', () => {
  const fleet = useFleet();
  const PROGRAM = `
    import { defineWorker } from 'stator/worker';
    async function* misspell({ input }) { yield input.body.mesages[0].content; }
    const worker = defineWorker({ model: 'mistaken', input: 'text', kinds: ['chat'], generate: misspell });
    process.exitCode = await worker.run({ flags: ['--discovery-backend', 'file'] });`;

  it('is in the log with its place in the code, and not in the client’s answer', async () => {
    const args = ['--input-type=module', '--eval', PROGRAM];
    const worker = spawnNode(args, { cwd: ROOT, env: { DYN_FILE_KV: fleet.fileKv } });
    const frontend = await fleet.frontend();
    await fleet.untilWorkers(frontend, 1, 'mistaken');
    const answer = await postJson(`${frontend.url}/v1/chat/completions`, {
      model: 'mistaken',
      messages: [{ role: 'user', content: 'hello' }],
    });
    expect(answer.status).toBe(500);
    expect(await answer.text()).not.toContain('Cannot read');
    const [line] = await worker.waitForOutput(/request failed.*/);
    expect(line).toContain('Cannot read properties of undefined');
    expect(line).toMatch(/"stack":\["at \w*\.?misspell/);
    await worker.kill();
  });

  it('ends the start with the place where it happened', async () => {
    const start = "start: async function load() { await null; undefined.weights; }, kinds: ['chat']";
    const args = ['--input-type=module', '--eval', PROGRAM.replace("kinds: ['chat']", start)];
    const worker = spawnNode(args, { cwd: ROOT, env: { DYN_FILE_KV: fleet.fileKv } });
    expect(await worker.exited).toBe(1);
    expect(worker.stderr()).toMatch(/TypeError: Cannot read properties of undefined.*\n +at \w*\.?load/);
  });
});
