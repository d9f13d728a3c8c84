import { readFile, writeFile } from 'node:fs/promises';
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
  rate_surge_worth: 0,
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
    frontend = await fleet.frontend(['--hold-timeout=60', '--hold-max=2'], {
      DYN_HTTP_SSE_KEEP_ALIVE_INTERVAL_MS: '100',
      DYN_HTTP_PRE_COMMIT_ERROR_PEEK_MS: '0',
    });
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
    const body = { model: 'stator-mini', messages: [{ role: 'user', content: 'What are you?' }], max_tokens: 8 };
    const url = `${frontend.url}/v1/chat/completions`;
    const held = [postJson(url, { ...body, stream: true }), ask()];
    await waitUntil(async () => (await frontend.metric('stator_frontend_held_requests')) === 2, {
      what: 'two are held',
    });
    const refused = await postJson(url, body);
    expect(refused.status).toBe(503);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    const stream = await ((await held[0]) as Response).text();
    expect(stream).toMatch(/^(?:: ?[^\n]*\n\n?){2}[\s\S]*data: \{[\s\S]*data: \[DONE\]/); // kept alive, then answered
    await held[1];
    expect(planner.stdout()).toMatch(/planner: workers 0 -> 1: .*[12] wait/);
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
      /#0 {2}\d{4}-.*(carried out|replaced by a newer one|being carried out)\n {4}decode 1 -> \d: /,
    );
    expect(stdout).toMatch(/decode 0 -> 1: .*[12] wait/);
    const one = await runStator(['planner', 'explain', '0', '--json', `--planner-dir=${folder()}`]);
    expect(JSON.parse(one.stdout)).toMatchObject({ model: 'dynamo#stator-mini', decisions: [{ decisionId: 0 }] });
    const none = await runStator(['planner', 'explain', '99999', `--planner-dir=${folder()}`]);
    expect(none.stderr).toContain('has no decision 99999 in the last week');
    expect(none.code).toBe(2);
  });

  it('write a page of what happened', async () => {
    const page = join(fleet.temporary, 'fleet.html');
    const where = `--planner-dir=${folder()}`;
    const flags = ['planner', 'report', '--model=stator-mini', '--since=1h', where];
    const written = await runStator([...flags, `--output=${page}`, '--gpu-price=2']);
    expect(written).toMatchObject({ code: 0, stderr: '' });
    expect(written.stdout).toMatch(/fleet\.html: dynamo#stator-mini, \d+ records and \d+ decisions\n$/);
    const html = await readFile(page, 'utf8');
    expect(html).toContain('<h1>Fleet of stator-mini</h1>');
    expect(html).toMatch(/<dt>held at once<\/dt><dd>at most [12]<\/dd>/);
    expect(html).toMatch(/<td>decode 0 → 1<\/td><td class="text">decode 0 -&gt; 1: [^<]*[12] wait/);
    expect(html).toMatch(/<dt>US\$<\/dt><dd>\d+\.\d\d<\/dd>/);
    const { samples } = JSON.parse((await runStator([...flags, '--json'])).stdout) as {
      samples: readonly { sample: { started: number; options: Record<string, unknown> } }[];
    };
    expect(samples.reduce((sum, { sample }) => sum + sample.started, 0)).toBeGreaterThan(5);
    expect(samples.every(({ sample }) => Object.keys(sample.options).every((key) => key === 'decode'))).toBe(true);
  });
});

describe('an external system that scales by the keys of stator planner', () => {
  let frontend: StatorProcess;
  let planner: SpawnedProcess;
  const workers: StatorProcess[] = [];
  const folder = join(fleet.temporary, 'virtual');
  const keys = join(folder, 'v1', 'dynamo', 'planner');
  const key = async (name: string): Promise<number> =>
    Number(await readFile(join(keys, name), 'utf8').catch(() => '-1'));
  const ask = () =>
    postJson(`${frontend.url}/v1/chat/completions`, {
      model: 'stator-mini',
      messages: [{ role: 'user', content: 'What are you?' }],
      max_tokens: 8,
    });

  beforeAll(async () => {
    frontend = await fleet.frontend(['--hold-timeout=60', '--namespace=dynamo']);
    const config = `--planner-config=${JSON.stringify({ ...QUICK, live_dashboard_port: 0, control_api_port: 0 })}`;
    planner = fleet.spawn(['planner', config, `--planner-dir=${folder}`, '--planner-model=stator-mini'], {
      DYN_DISCOVERY_BACKEND: 'file',
      DYN_FILE_KV: fleet.fileKv,
      DYN_TCP_RPC_HOST: '127.0.0.1',
      DYN_EVENT_PLANE_HOST: '127.0.0.1',
    });
    await planner.waitForOutput(/planning/, 30_000);
  }, 60_000);
  afterAll(async () => {
    await planner?.kill();
    await frontend?.kill();
  });

  /** Becomes what is asked for, and says so. */
  async function carryOut(): Promise<number> {
    const decision = await key('decision_id');
    const wanted = await key('num_decode_workers');
    while (workers.length < wanted) {
      workers.push(await fleet.worker(['--speedup-ratio=0.3'], { STATOR_EVENT_ROLLUP_INTERVAL_MS: '500' }));
    }
    for (const worker of workers.splice(wanted)) {
      worker.signal('SIGTERM');
      await worker.exited;
    }
    await writeFile(join(keys, 'scaled_decision_id'), `${decision}`);
    return decision;
  }
  const decided = (after: number) =>
    waitUntil(async () => (await key('decision_id')) > after, { what: `a decision after ${after}`, timeoutMs: 60_000 });

  it('reads of the first worker, which serves', { timeout: 90_000 }, async () => {
    await decided(-1);
    expect(await key('decision_id')).toBe(0);
    expect(await key('num_decode_workers')).toBe(1);
    await carryOut();
    await fleet.untilWorkers(frontend, 1);
    expect((await ask()).status).toBe(200);
  });

  it('gets the next decision once it has acknowledged the last one', { timeout: 120_000 }, async () => {
    const pressing = new AbortController();
    const press = async (): Promise<void> => {
      while (!pressing.signal.aborted) expect((await ask()).status).toBe(200);
    };
    const pressed = [press(), press(), press()];
    await decided(0);
    const unacknowledged = await key('decision_id');
    await waitUntil(async () => (await explained('--last=1')).includes('being carried out'), { what: 'it waits' });
    expect(await key('decision_id')).toBe(unacknowledged);
    await carryOut();
    await waitUntil(async () => (await explained('--last=20')).includes('carried out'), { what: 'it is done' });
    expect(workers.length).toBeGreaterThan(1);
    pressing.abort();
    await Promise.all(pressed);
  });

  it('reads that it should stop all of them when requests end', { timeout: 120_000 }, async () => {
    const isIdle = async (): Promise<boolean> => {
      if ((await key('scaled_decision_id')) < (await key('decision_id'))) await carryOut();
      return workers.length === 0;
    };
    await waitUntil(isIdle, { what: 'no worker is left', timeoutMs: 100_000, pollMs: 200 });
    expect(await key('num_decode_workers')).toBe(0);
    expect(await explained('--last=1')).toMatch(/decode \d -> 0: .*\n/);
  });

  it('starts one again for a request that waits, which is served', { timeout: 90_000 }, async () => {
    const before = await key('decision_id');
    const held = ask();
    await decided(before);
    expect(await key('num_decode_workers')).toBeGreaterThanOrEqual(1);
    await carryOut();
    expect((await held).status).toBe(200);
  });

  async function explained(...flags: readonly string[]): Promise<string> {
    return (await runStator(['planner', 'explain', `--planner-dir=${folder}`, ...flags])).stdout;
  }
});

describe('stator planner refuses', () => {
  it.each([
    [['--', '--engine=mocker'], 'arguments after -- are those of workers, which --planner-connector local starts'],
    [['--planner-law=foresight'], '--planner-law foresight is for stator simulate'],
    [['--planner-connector=local', '--planner-config={"mode":"disagg"}'], '--planner-connector local scales one pool'],
    [['--planner-config={"itl_ms":0}'], 'planner configuration: itl_ms'],
    [
      ['--planner-config={"mode":"decode","enable_power_awareness":true,"total_gpu_power_limit":9000}'],
      'enable_power_awareness needs decode_engine_watts',
    ],
  ])('%j', async (flags, message) => {
    const { code, stderr } = await runStator(['planner', ...flags]);
    expect(stderr).toContain(message);
    expect(code).toBe(2);
  });
});
