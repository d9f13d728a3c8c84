import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type FleetServices, type StandInService, startFleetServices } from '../support/aws/fleet-services.ts';
import { postJson, runStator, type StatorProcess, useFleet } from '../support/index.ts';

const [TOKEN, ID_SECRET] = ['plane', 'ids'].map((name) => name.padEnd(40, '-')) as [string, string];
const TOKENS = 60;
const CLIENTS = 4;
const CREDENTIALS = { AWS_REGION: 'us-east-1', AWS_ACCESS_KEY_ID: 'rotator', AWS_SECRET_ACCESS_KEY: 'rotator' };
const NAMED = ['--cluster', 'c', '--plane-token', 'plane', '--id-secret', 'ids'];

const fleet = useFleet({ STATOR_PLANE_TLS: 'on' });
let services: FleetServices;
let edge: StatorProcess;
let workers: readonly StatorProcess[];
let isAsking = true;

/** What the service that starts a container gives it of its secrets. */
function given(): Record<string, string> {
  return Object.fromEntries(
    (['plane', 'ids'] as const).flatMap((id) => {
      const variable = id === 'plane' ? 'STATOR_PLANE_TOKEN' : 'STATOR_ID_SECRET';
      const { current, previous } = JSON.parse(services.secret(id)) as Record<'current' | 'previous', string>;
      return [
        [variable, current],
        [`${variable}_PREVIOUS`, previous],
      ];
    }),
  );
}

const startEdge = () => fleet.frontend([], given());
const startWorkers = () =>
  Promise.all(
    [1, 2].map(() => fleet.worker(['--decode-speedup-ratio=0.5'], { ...given(), STATOR_CONTROL_PORT: '-1' })),
  );

async function leave(old: readonly StatorProcess[]): Promise<void> {
  for (const each of old) each.signal('SIGTERM');
  expect(await Promise.all(old.map(({ exited }) => exited))).toEqual(old.map(() => 0));
}

/** As ECS replaces tasks: new ones first, then the old ones drain. */
const SERVICES: readonly StandInService[] = [
  {
    name: 'workers',
    part: 'worker',
    restart: async () => {
      const [old, next] = [workers, await startWorkers()];
      await fleet.untilWorkers(edge, 4);
      workers = next;
      await leave(old);
    },
  },
  {
    name: 'edge',
    part: 'edge',
    restart: async () => {
      const [old, next] = [edge, await startEdge()];
      await fleet.untilWorkers(next, 2);
      edge = next;
      await chat(next); // whoever asks from now on asks the new one
      await leave([old]);
    },
  },
  { name: 'somebody-elses', restart: () => Promise.reject(new Error('it is not of this fleet')) },
];

/** Tokens of a streamed chat, by its last chunk; and the id of the stream, told when it begins. */
async function chat({ url }: StatorProcess, onId: (id: string) => void = () => {}, tokens = TOKENS): Promise<number> {
  const response = await postJson(`${url}/v1/chat/completions`, {
    model: 'stator-mini',
    messages: [{ role: 'user', content: 'What are you?' }],
    max_tokens: tokens,
    ignore_eos: true,
    stream: true,
    stream_options: { include_usage: true },
  });
  let usage = 0;
  let isTold = false;
  let rest = '';
  for await (const text of response.body!.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split('\n\n');
    rest = lines.pop() ?? '';
    for (const line of lines.filter((each) => each.startsWith('data: {'))) {
      const chunk = JSON.parse(line.slice(6)) as { id?: string; usage?: { completion_tokens: number } };
      if (!isTold && chunk.id !== undefined) onId(chunk.id);
      isTold = true;
      usage = chunk.usage?.completion_tokens ?? usage;
    }
  }
  return usage;
}

/** Asks without a pause until it is told to stop; resolves with the tokens of each answer. */
async function ask(): Promise<readonly number[]> {
  const answers: number[] = [];
  while (isAsking) answers.push(await chat(edge));
  return answers;
}

const stator = (args: readonly string[]) =>
  runStator(['secrets', 'rotate', ...args], { PATH: process.env.PATH, ...CREDENTIALS, AWS_ENDPOINT_URL: services.url });

describe('secrets that are rotated under load', () => {
  beforeAll(async () => {
    const json = (current: string) => JSON.stringify({ previous: 'none', current });
    services = await startFleetServices({ plane: json(TOKEN), ids: json(ID_SECRET) }, SERVICES);
    [edge, workers] = await Promise.all([startEdge(), startWorkers()]);
    await fleet.untilWorkers(edge, 2);
  }, 60_000);

  afterAll(() => services.close());

  it('cost no request, and a stream from before is cancelled by its id after', async () => {
    const asking = Promise.all(Array.from({ length: CLIENTS }, ask));
    const rotated = await stator(NAMED);
    isAsking = false;
    const answers = (await asking).flat();
    expect(rotated).toMatchObject({ code: 0, stdout: 'done\n' });
    expect(answers.length).toBeGreaterThan(CLIENTS);
    expect(new Set(answers)).toEqual(new Set([TOKENS]));
    expect(services.asked.filter((line) => /^(Put|Update)/.test(line))).toEqual([
      'PutSecretValue plane',
      'PutSecretValue ids',
      'UpdateService edge',
      'UpdateService workers',
    ]);
    const { STATOR_PLANE_TOKEN, STATOR_PLANE_TOKEN_PREVIOUS, STATOR_ID_SECRET_PREVIOUS } = given();
    expect([STATOR_PLANE_TOKEN_PREVIOUS, STATOR_ID_SECRET_PREVIOUS]).toEqual([TOKEN, ID_SECRET]);
    expect(STATOR_PLANE_TOKEN).toMatch(/^[0-9a-f]{64}$/);
    expect(rotated.stderr).not.toContain(STATOR_PLANE_TOKEN);
  }, 120_000);

  it('cannot be rotated again before everybody has heard of it', async () => {
    const again = await stator(NAMED);
    expect(again).toMatchObject({ code: 1, stdout: '' });
    expect(again.stderr).toMatch(/plane was rotated a moment ago, .*: try again in \d+ min/);
    expect(await stator([...NAMED, '--resume'])).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('nothing is left to restart'),
    });
  }, 60_000);

  it('serve an edge that has not heard of it, and cancel what it began through one that has', async () => {
    const late = await fleet.frontend([], { STATOR_PLANE_TOKEN: TOKEN, STATOR_ID_SECRET: ID_SECRET });
    await fleet.untilWorkers(late, 2);
    let cancelled: Promise<Response> | undefined;
    const tokens = await chat(late, (id) => (cancelled = postJson(`${edge.url}/v1/cancel/${id}`, {})), 3000);
    expect((await cancelled)?.status).toBe(200);
    expect(tokens).toBeLessThan(3000);
  }, 60_000);
});
