import { readdirSync, readFileSync, statSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort, postJson, type SpawnedProcess, useFleet, waitUntil } from '../support/index.ts';

const START_MS_MAX = 30_000;

describe('processes that are not told where to meet', () => {
  const fleet = useFleet();
  let state: string;
  let worker: SpawnedProcess;
  let frontend: SpawnedProcess;
  let url: string;

  beforeAll(async () => {
    state = await mkdtemp(join(tmpdir(), 'state-'));
    worker = start('worker', '--engine=mocker', '--speedup-ratio=20');
    frontend = start('frontend', '--http-port=0');
    [, url = ''] = await frontend.waitForOutput(/serving url=http:\/\/[^:]+(\S+)/, START_MS_MAX);
    url = `http://127.0.0.1${url}`;
  });
  afterAll(() => rm(state, { recursive: true, force: true }));

  const start = (...args: readonly string[]): SpawnedProcess =>
    fleet.spawn(args, { XDG_STATE_HOME: state, STATOR_EVENT_ROLLUP_INTERVAL_MS: '500' });
  const placeOf = ({ stdout, stderr }: SpawnedProcess): string =>
    /meet in folder=(\S+)/.exec(stdout() + stderr())?.[1] ?? '';

  it('serve together, in a folder of this user alone that both name', async () => {
    const ask = () => postJson(`${url}/v1/completions`, { model: 'stator-mini', prompt: 'hi', max_tokens: 4 });
    await waitUntil(async () => (await ask()).status === 200, { timeoutMs: START_MS_MAX });
    const place = placeOf(worker);
    expect(place).toContain(join(state, 'stator', 'discovery'));
    expect(placeOf(frontend)).toBe(place);
    expect(statSync(place).mode & 0o777).toBe(0o700);
  });

  it('bind loopback, as their fleet is on this machine', () => {
    const folder = join(placeOf(worker), 'stator', 'v1', 'instances');
    const [name = ''] = readdirSync(folder).filter((file) => file.includes('generate'));
    expect(readFileSync(join(folder, name), 'utf8')).toContain('127.0.0.1:');
  });

  it('are seen by a planner', async () => {
    const port = await freePort();
    const config = JSON.stringify({ tick_seconds: 0.5, live_dashboard_port: 0, control_api_port: 0 });
    const planner = start('planner', `--planner-config=${config}`, `--planner-metrics-port=${port}`);
    await planner.waitForOutput(/planning/, START_MS_MAX);
    const counted = async () => (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    await waitUntil(async () => /^dynamo_planner_num_decode_replicas 1$/m.test(await counted()), {
      timeoutMs: START_MS_MAX,
    });
    planner.signal('SIGTERM');
    expect(await planner.exited).toBe(0);
  });

  it("are not seen by processes of another user's state", async () => {
    const stranger = fleet.spawn(['frontend', '--http-port=0'], { XDG_STATE_HOME: join(state, 'other') });
    const [, at = ''] = await stranger.waitForOutput(/serving url=http:\/\/[^:]+(\S+)/, START_MS_MAX);
    const listed = await waitUntil(async () => {
      const response = await fetch(`http://127.0.0.1${at}/v1/models`); // 503 while it has just started
      return response.status !== 503 && response;
    });
    expect(await listed.json()).toMatchObject({ data: [] });
  });

  it('leave nothing there', async () => {
    const place = placeOf(worker);
    for (const child of [worker, frontend]) {
      child.signal('SIGTERM');
      expect(await child.exited).toBe(0);
    }
    const left = readdirSync(join(place, 'v1')).flatMap((bucket) => readdirSync(join(place, 'v1', bucket)));
    expect(left).toEqual([]);
  });
});
