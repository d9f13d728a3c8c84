import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort, runStator, type SpawnedProcess, type StatorProcess, useFleet, waitUntil } from '../support/index.ts';
import { childPids, isRunning } from '../support/process-table.ts';

const fleet = useFleet();
const QUICK = {
  rate_requests_per_second: 2,
  rate_window_seconds: 5,
  rate_surge_worth: 0,
  load_adjustment_interval_seconds: 1,
  max_gpu_budget: 2,
  start_seconds: 1,
  live_dashboard_port: 0,
  control_api_port: 0,
  report_interval_hours: null,
};
/** As a user types it: processes meet where those without settings do. */
const PLAIN = { DYN_DISCOVERY_BACKEND: undefined, DYN_FILE_KV: undefined };
const HEARD = /the first worker or frontend is heard model=stator-mini/;

describe('stator frontend and stator planner without settings of where they meet', () => {
  let frontend: StatorProcess;
  let planner: SpawnedProcess;
  const folder = join(fleet.temporary, 'joined');
  const engine = ['--engine', 'mocker', '--speedup-ratio=0.3'];

  const plan = (): SpawnedProcess =>
    fleet.spawn(
      [
        'planner',
        '--planner-connector=local',
        `--planner-config=${JSON.stringify({ ...QUICK, namespace: 'team-b' })}`,
        `--planner-dir=${folder}`,
        '--',
        ...engine,
      ],
      { STATOR_EVENT_ROLLUP_INTERVAL_MS: '1000' },
    );

  beforeAll(async () => {
    frontend = await fleet.frontend(['--namespace=team-b'], PLAIN);
    planner = plan();
    await planner.waitForOutput(HEARD, 60_000);
  }, 90_000);
  afterAll(async () => {
    await planner?.kill();
    await frontend?.kill();
  });

  async function ask(tokens = 8): Promise<{ readonly status: number; readonly text: string }> {
    const response = await fetch(`${frontend.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'stator-mini',
        messages: [{ role: 'user', content: 'What are you?' }],
        max_tokens: tokens,
        ignore_eos: true,
      }),
    });
    return { status: response.status, text: await response.text() };
  }

  it('find each other, as the workers join the namespace that is planned for', async () => {
    await fleet.untilWorkers(frontend, 1);
    expect((await ask()).status).toBe(200);
  });

  it('have two workers under load', { timeout: 90_000 }, async () => {
    const isScaled = async (): Promise<boolean> => {
      await Promise.all([ask(), ask()]);
      return planner.stdout().includes('planner: 2 workers serve');
    };
    await waitUntil(isScaled, { timeoutMs: 80_000, pollMs: 100, what: 'two workers' });
    await fleet.untilWorkers(frontend, 2);
  });

  it('lose no request when the planner is killed: its workers end once they have answered', async () => {
    const pids = childPids(planner.pid);
    expect(pids).toHaveLength(2);
    const asked = Array.from({ length: 6 }, () => ask(200));
    await waitUntil(async () => (await frontend.metric('dynamo_frontend_inflight_requests')) === 6, {
      what: 'six are being answered',
    });
    await planner.kill();
    for (const { status, text } of await Promise.all(asked)) {
      expect(status).toBe(200);
      expect(JSON.parse(text).usage.completion_tokens).toBe(200);
    }
    await waitUntil(() => !pids.some(isRunning), { timeoutMs: 30_000, what: 'no worker is left behind' });
    await fleet.untilWorkers(frontend, 0);
  });

  it('have workers again when it is started again, and go on from its last decision', { timeout: 90_000 }, async () => {
    const decided = async () => {
      const { stdout } = await runStator(['planner', 'explain', '--json', '--last=100', `--planner-dir=${folder}`]);
      const { decisions } = JSON.parse(stdout) as {
        readonly decisions: readonly { readonly decisionId: number; readonly targets: { readonly decode: number } }[];
      };
      return decisions.toSorted((one, other) => other.decisionId - one.decisionId);
    };
    const before = (await decided())[0]!;
    planner = plan();
    await planner.waitForOutput(HEARD, 60_000);
    expect((await ask()).status).toBe(200);
    const isThere = async () => childPids(planner.pid).length === (await decided())[0]!.targets.decode;
    await waitUntil(isThere, { timeoutMs: 60_000, what: 'the workers of the last decision' });
    const numbers = (await decided()).map(({ decisionId }) => decisionId);
    expect(numbers[0]).toBeGreaterThanOrEqual(before.decisionId);
    expect(new Set(numbers).size).toBe(numbers.length);
    expect(childPids(planner.pid).length).toBeLessThanOrEqual(2); // none twice
    planner.signal('SIGTERM');
    expect(await planner.exited).toBe(0);
    await fleet.untilWorkers(frontend, 0);
  });
});

describe('stator planner says', () => {
  const start = (args: readonly string[], env = {}): SpawnedProcess => {
    const config = `--planner-config=${JSON.stringify(QUICK)}`;
    const folder = join(fleet.temporary, `said-${args.join('').replaceAll(/\W/g, '')}`);
    mkdirSync(folder, { recursive: true });
    return fleet.spawn(['planner', config, `--planner-dir=${folder}`, ...args], env);
  };

  it('at once that no worker or frontend can be heard in memory, and counts that', async () => {
    const port = await freePort();
    const planner = start(['--discovery-backend=mem', `--planner-metrics-port=${port}`]);
    await planner.waitForOutput(
      /WARN planner: no worker or frontend can be heard: --discovery-backend mem .*allowed: file/,
      20_000,
    );
    const page = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    expect(page).toMatch(/stator_planner_unheard_looks_total [1-9]/);
    await planner.kill();
  });

  it('what the arguments of its workers make different from its own', async () => {
    const planner = start(['--planner-connector=local', '--', '--engine=mocker', '--namespace=other']);
    await planner.waitForOutput(
      /this planner cannot hear its workers, .* setting=namespace planner=dynamo workers=other/,
      20_000,
    );
    await planner.kill();
  });

  it('before it starts any, what is wrong with the arguments of its workers', async () => {
    const { code, stderr } = await runStator(['planner', '--planner-connector=local', '--', '--engine=moker']);
    expect(stderr).toMatch(/^stator: a worker that the planner would start: --engine "moker"/m);
    expect(code).toBe(2);
  });
});
