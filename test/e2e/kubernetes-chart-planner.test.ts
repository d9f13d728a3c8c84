import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { renderChart } from '../support/docs/render-kubernetes.ts';
import { hasNatsServer, readChat, useFleet, waitUntil } from '../support/index.ts';
import { ChartCluster } from '../support/kube/chart-cluster.ts';

const helm = process.env.STATOR_TEST_HELM_BIN ?? '';
const WORKERS = 'stator-worker-mock';
const VALUES = {
  workers: { mock: { engine: 'mocker', model: 'stator-mini', env: { STATOR_EVENT_ROLLUP_INTERVAL_MS: '500' } } },
  frontend: { replicas: 1 },
  router: { enabled: true, replicas: 1 },
  planner: {
    enabled: true,
    pools: [{ pool: 'mock', min: 0, max: 2 }],
    startSecs: 2,
    /** Seconds instead of minutes. */
    config: {
      rate_requests_per_second: 2,
      rate_window_seconds: 5,
      rate_down_window_seconds: 5,
      rate_surge_worth: 0,
      load_adjustment_interval_seconds: 1,
      min_instance_seconds: 1,
      idle_to_zero_seconds: 1,
      live_dashboard_port: 0,
      control_api_port: 0,
    },
  },
};
const SECRET = {
  'plane-token': '1'.repeat(64),
  'nats-worker-password': '2'.repeat(64),
  'nats-router-password': '3'.repeat(64),
};

describe.skipIf(helm === '' || !hasNatsServer())('the chart, with a planner', () => {
  const fleet = useFleet({ STATOR_ROUTER_CHOOSE_TIMEOUT_MS: '5000', STATOR_ROUTER_CONNECT_TIMEOUT_MS: '2000' });
  let cluster: ChartCluster;
  beforeAll(async () => {
    const values = Object.entries(VALUES).flatMap(([name, value]) => [
      '--set-json',
      `${name}=${JSON.stringify(value)}`,
    ]);
    cluster = await ChartCluster.start(renderChart(helm, ...values), SECRET, fleet);
  }, 180_000);
  afterAll(() => cluster?.close());

  it('ends the last worker if no request comes', async () => {
    await waitUntil(() => cluster.podsOf(WORKERS).length === 0, { what: 'no worker', timeoutMs: 180_000 });
  }, 200_000);

  it('holds a request until the planner has started a worker for it', async () => {
    const body = { model: 'stator-mini', messages: [{ role: 'user', content: 'What are you?' }] };
    const { text, finishReason } = await readChat(cluster.urlOf('frontend', 8000), body);
    expect(finishReason).toBe('stop');
    expect(text).not.toBe('');
  }, 200_000);

  it('has ended, and needed the rights of its roles and no others', async () => {
    for (const { process } of cluster.pods) process.signal('SIGTERM');
    for (const { process } of cluster.pods) expect(await process.exited).toBe(0);
    expect([...cluster.used].sort()).toEqual([...cluster.granted].sort());
  }, 60_000);
});
