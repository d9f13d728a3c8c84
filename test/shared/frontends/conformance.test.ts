import { afterAll, describe, expect, it } from 'vitest';
import { DIFFERENCES, IDLE_ROWS } from '../../support/differences.ts';
import { type Deployment, startDeployment } from '../../support/dynamo-http/deployments.ts';
import { byPrompt, type Expectation, isBatch } from '../../support/dynamo-http/expectation.ts';
import { LEFT_OUT, reasonLeftOut } from '../../support/dynamo-http/left-out.ts';
import { differencesOf } from '../../support/dynamo-http/match.ts';
import { type HangUp, requestOf, send } from '../../support/dynamo-http/raw-client.ts';
import { type Answer, loadRows, type RecordedRow } from '../../support/dynamo-http/records.ts';
import type { WorkerScript } from '../../support/scripted-engine.ts';
import { waitUntil } from '../../support/wait-until.ts';

const ROWS = loadRows();
const SCRIPTS = new Map<string, WorkerScript>(
  ROWS.flatMap((row) => (row.worker_script === undefined ? [] : [[row.id, row.worker_script] as const])),
);
const deployments = new Map<string, Promise<Deployment>>();

afterAll(async () => {
  for (const deployment of deployments.values()) await (await deployment).close();
});

function deploymentOf(row: RecordedRow): Promise<Deployment> {
  const usesPaths = /^e1\.(a\.|chat\.a$|cmp\.a$)/.test(row.id);
  const name = usesPaths ? 'env1-paths' : row.id === 'size.46mb' ? 'limit-45' : row.server;
  let started = deployments.get(name);
  if (started === undefined) {
    started = startDeployment(name, SCRIPTS);
    deployments.set(name, started);
  }
  return started;
}

describe('recorded exchanges of Dynamo 1.6.1', () => {
  const played = ROWS.filter((row) => reasonLeftOut(row) === undefined);
  for (const group of new Set(played.map((row) => row.group))) {
    describe(group, () => {
      for (const row of played.filter((one) => one.group === group)) {
        it(`${row.id} is answered as recorded or as decided`, () => play(row));
      }
    });
  }

  it('has a row for every reason to leave rows out', () => {
    const unused = LEFT_OUT.filter((entry) => !ROWS.some((row) => entry.matches(row)));
    expect(unused.map((entry) => entry.reason)).toEqual([]);
  });
});

async function play(row: RecordedRow): Promise<void> {
  const deployment = await deploymentOf(row);
  const seenBefore = deployment.engine.seen.length;
  const answer = await send(deployment.port, requestOf(row), hangUpOf(row));
  const expected = expectationOf(row);
  if (row.worker_cancelled === true) {
    await waitUntil(() => deployment.engine.seen.slice(seenBefore).some((seen) => seen.wasCancelled), {
      what: 'the worker was cancelled',
    });
  }
  const actual = { ...normalise(answer, row), worker: expected.worker && workerSaw(deployment, seenBefore) };
  const differences = differencesOf(expected, actual);
  if (differences.length > 0) expect.fail(differences.join('\n'));
}

function hangUpOf(row: RecordedRow): HangUp {
  if (row.connection !== 'client closed') return undefined;
  return row.frames === undefined ? { afterMs: 300 } : { after: 'first-frame' };
}

/** What the record says, as far as it is compared, after every difference that applies. */
function expectationOf(row: RecordedRow): Expectation {
  const expected: Expectation = structuredClone({
    status: row.status,
    headers: { ...row.headers },
    ...(row.body === undefined ? {} : { body: row.body }),
    ...(row.text === undefined ? {} : { text: row.text }),
    ...(row.frames === undefined ? {} : { frames: [...row.frames] }),
    worker: row.worker_request?.map(recordedWorkerRequest),
  });
  for (const difference of DIFFERENCES) if (difference.applies(row, expected)) difference.rewrite(expected, row);
  return expected;
}

function recordedWorkerRequest(seen: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return {
    prompt: seen.prompt,
    prompt_embeds: seen.prompt_embeds,
    stop_conditions: { ...(seen.stop_conditions as object) },
    sampling_options: withoutSingleN({ ...(seen.sampling_options as object) }),
    output_options: { ...(seen.output_options as object) },
    routing: maskIds({ ...(seen.routing as object) }),
  };
}

/** One choice is what every engine makes unasked. */
function withoutSingleN({ n, ...rest }: { readonly n?: number }): object {
  return n === undefined || n === 1 ? rest : { n, ...rest };
}

function workerSaw(deployment: Deployment, from: number): Record<string, unknown>[] {
  return deployment.engine.seen.slice(from).map(({ request, prompt }) => ({
    prompt: request.input.kind === 'tokens' && request.input.promptEmbeds !== undefined ? undefined : prompt,
    prompt_embeds: request.input.kind === 'tokens' ? request.input.promptEmbeds : undefined,
    stop_conditions: { ...request.stop },
    sampling_options: { ...request.sampling },
    output_options: { ...request.output },
    routing: maskIds({ ...request.routing }),
  }));
}

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;
const MASKED_NUMBERS = new Set([
  'created',
  'instance_id',
  'prefill_worker_id',
  'decode_worker_id',
  'backend_instance_id',
  'request_received_ms',
  'prefill_wait_time_ms',
  'prefill_time_ms',
  'ttft_ms',
  'total_time_ms',
]);

/** Ids, times and worker ids as the record masks them. */
function maskIds(value: unknown): unknown {
  if (typeof value === 'string') return value.replaceAll(UUID, 'UUID');
  if (Array.isArray(value)) return value.map(maskIds);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, nested]) => [key, MASKED_NUMBERS.has(key) ? 0 : maskIds(nested)]),
  );
}

function normalise(answer: Answer, row: RecordedRow): Record<string, unknown> {
  const masked = maskIds(answer) as { frames?: { comment?: string }[]; body?: { instances?: unknown[] } };
  if (masked.body?.instances !== undefined) masked.body.instances = masked.body.instances.slice(0, 2);
  if (isBatch(row)) masked.frames?.sort(byPrompt);
  if (masked.frames !== undefined && IDLE_ROWS.test(row.id)) {
    masked.frames = masked.frames.filter((frame) => frame.comment !== '');
  }
  return masked;
}
