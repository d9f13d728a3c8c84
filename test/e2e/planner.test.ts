import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  freePort,
  postJson,
  runStator,
  type SpawnedProcess,
  type StatorProcess,
  useFleet,
  waitUntil,
} from '../support/index.ts';

const fleet = useFleet();
/** Seconds instead of minutes; a worker "serves" two requests a second. */
const QUICK = {
  rate_requests_per_second: 2,
  rate_window_seconds: 5,
  rate_down_window_seconds: 5,
  idle_to_zero_seconds: 5,
  load_adjustment_interval_seconds: 1,
  min_endpoint: 0,
  max_gpu_budget: 3,
  start_seconds: 1,
};

describe('a frontend, stator planner and its workers', () => {
  let frontend: StatorProcess;
  let planner: SpawnedProcess;
  let metrics: string;
  const statuses: number[] = [];
  const folder = (): string => join(fleet.temporary, 'planner');

  beforeAll(async () => {
    const port = await freePort();
    metrics = `http://127.0.0.1:${port}/metrics`;
    frontend = await fleet.frontend(['--hold-timeout=60']);
    const flags = [
      '--planner-connector=local',
      `--planner-config=${JSON.stringify(QUICK)}`,
      `--planner-dir=${folder()}`,
      `--planner-metrics-port=${port}`,
    ];
    planner = fleet.spawn(['planner', ...flags, '--', '--engine=mocker', '--speedup-ratio=0.3'], {
      DYN_DISCOVERY_BACKEND: 'file',
      DYN_FILE_KV: fleet.fileKv,
      DYN_TCP_RPC_HOST: '127.0.0.1',
      DYN_EVENT_PLANE_HOST: '127.0.0.1',
      STATOR_EVENT_ROLLUP_INTERVAL_MS: '1000',
    });
    await waitUntil(async () => (await (await fetch(`${frontend.url}/v1/models`)).text()).includes('stator-mini'), {
      timeoutMs: 60_000,
      what: 'the first worker serves',
    });
  }, 120_000);
  afterAll(async () => {
    await planner?.kill();
    await frontend?.kill();
  });

  async function ask(tokens = 8): Promise<string> {
    const body = {
      model: 'stator-mini',
      messages: [{ role: 'user', content: 'What are you?' }],
      max_tokens: tokens,
      ignore_eos: true,
    };
    const response = await postJson(`${frontend.url}/v1/chat/completions`, body);
    statuses.push(response.status);
    return response.text();
  }

  const told = (text: string) => () => planner.stdout().includes(text);

  it('have more workers while more requests begin', { timeout: 120_000 }, async () => {
    await waitUntil(
      async () => {
        await Promise.all([ask(), ask()]);
        return told('planner: 3 workers serve')();
      },
      { timeoutMs: 100_000, pollMs: 100, what: 'three workers' },
    );
    expect(planner.stdout()).toMatch(/planner: workers \d -> 3: [\d.]+ requests\/s .*a worker serves 2\.0/);
  });

  it('show what is seen and wanted under Dynamo’s names', async () => {
    const page = await (await fetch(metrics)).text();
    expect(page).toMatch(/dynamo_planner_num_decode_replicas [123]\n/);
    expect(page).toMatch(/dynamo_planner_engine_decode_capacity_requests_per_second 2\n/);
    expect(page).toMatch(/stator_planner_events_total\{type="worker.rollup"\} [1-9]/);
    expect(page).toMatch(/dynamo_planner_observed_input_sequence_tokens [1-9]/);
  });

  it('let workers go without losing what they have begun, to none at last', { timeout: 200_000 }, async () => {
    const long = Array.from({ length: 3 }, () => ask(400));
    await waitUntil(told('-> 0: '), { timeoutMs: 180_000, what: 'the last worker goes' });
    const answers = await Promise.all(long);
    for (const answer of answers) expect(JSON.parse(answer).usage.completion_tokens).toBe(400);
    expect(planner.stdout()).toMatch(/planner: workers 3 -> [012]: /);
  });

  it('hold the first request after that, and serve it', { timeout: 90_000 }, async () => {
    await waitUntil(told('planner: 0 workers serve'), { timeoutMs: 30_000, what: 'nobody serves' });
    await ask();
    expect(planner.stdout()).toMatch(/planner: workers 0 -> 1: .*1 wait/);
  });

  it('have lost no request on the way', () => {
    expect(statuses.length).toBeGreaterThan(10);
    expect(new Set(statuses)).toEqual(new Set([200]));
  });

  it('say afterwards why', async () => {
    const { stdout, code } = await runStator(['planner', 'explain', `--planner-dir=${folder()}`, '--last=100']);
    expect(code).toBe(0);
    expect(stdout).toContain('dynamo#stator-mini');
    expect(stdout).toMatch(
      /#0 {2}\d{4}-.*(carried out|overtaken by a newer one|being carried out)\n {4}decode 1 -> \d: /,
    );
    expect(stdout).toMatch(/decode 0 -> 1: .*1 wait/);
    const one = await runStator(['planner', 'explain', '0', '--json', `--planner-dir=${folder()}`]);
    expect(JSON.parse(one.stdout)).toMatchObject({ model: 'dynamo#stator-mini', decisions: [{ decisionId: 0 }] });
    const none = await runStator(['planner', 'explain', '99999', `--planner-dir=${folder()}`]);
    expect(none.stderr).toContain('has no decision 99999 in the last week');
    expect(none.code).toBe(2);
  });
});

describe('stator planner refuses', () => {
  it.each([
    [['--', '--engine=mocker'], 'arguments after -- are those of workers, which --planner-connector local starts'],
    [['--planner-law=foresight'], '--planner-law foresight is for stator simulate'],
    [['--planner-connector=local', '--planner-config={"mode":"disagg"}'], '--planner-connector local scales one pool'],
    [['--planner-config={"itl_ms":0}'], 'planner configuration: itl_ms'],
  ])('%j', async (flags, message) => {
    const { code, stderr } = await runStator(['planner', ...flags]);
    expect(stderr).toContain(message);
    expect(code).toBe(2);
  });
});
