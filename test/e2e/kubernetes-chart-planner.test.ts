import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { dashboardMetrics } from '../../infra/grafana/overview.ts';
import { builtinModelPath } from '../../shared/artifacts/index.ts';
import { renderChart } from '../support/docs/render-kubernetes.ts';
import { hasNatsServer, readChat, useFleet, waitUntil } from '../support/index.ts';
import { ChartCluster } from '../support/kube/chart-cluster.ts';

const helm = process.env.STATOR_TEST_HELM_BIN ?? '';
const FAKE = fileURLToPath(new URL('../shared/engines/server/fake-engine.mjs', import.meta.url));
const QUICK = { STATOR_EVENT_ROLLUP_INTERVAL_MS: '500' };
/** Models with the pools that serve them: one of mock workers, and one whose workers are groups of two pods. */
const POOLS = { 'stator-mini': 'stator-worker-mock', served: 'stator-worker-wide' };
const VALUES = {
  workers: {
    mock: { engine: 'mocker', model: 'stator-mini', env: QUICK },
    wide: {
      ...{ engine: 'vllm', model: builtinModelPath(), nodes: 2, arguments: ['--served-model-name=served'] },
      env: { ...QUICK, STATOR_ENGINE_COMMAND: `${process.execPath} ${FAKE}` },
    },
  },
  frontend: { replicas: 1 },
  router: { enabled: true, replicas: 1 },
  nats: { tls: { secret: 'certificate' } },
  planner: {
    enabled: true,
    pools: [
      { pool: 'mock', min: 0, max: 2 },
      { pool: 'wide', min: 0, max: 2 },
    ],
    models: { [builtinModelPath()]: { name: 'served' } },
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

describe.skipIf(helm === '' || !hasNatsServer())('the chart, with planners of two models, and TLS to NATS', () => {
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

  /** Returns the metrics of a component: of all its containers. */
  const metricsOf = async (component: string, ports: readonly number[]): Promise<string> => {
    const pods = cluster.pods.filter(({ labels }) => labels['app.kubernetes.io/component'] === component);
    const here = pods.flatMap((pod) => ports.flatMap((port) => pod.ports.get(port) ?? []));
    const pages = here.map(async (port) => (await fetch(`http://127.0.0.1:${port}/metrics`)).text());
    return (await Promise.all(pages)).join('');
  };
  const plannerMetrics = () => metricsOf('planner', [9085, 9185]);
  const frontendMetrics = () => metricsOf('frontend', [8000]);

  it('ends the last worker of each model if no request comes', async () => {
    const isEmpty = () => Object.values(POOLS).every((pool) => cluster.podsOf(pool).length === 0);
    await waitUntil(isEmpty, { what: 'no worker', timeoutMs: 180_000 });
  }, 200_000);

  it('tells other scalers what models without workers need', async () => {
    const isZero = async (): Promise<boolean> => {
      const page = await plannerMetrics();
      return Object.keys(POOLS).every((model) =>
        page.includes(`stator_planner_target_replicas{dynamo_namespace="dynamo",model="${model}",pool="decode"} 0\n`),
      );
    };
    await waitUntil(isZero, { what: 'targets of 0', timeoutMs: 60_000 });
    const page = await frontendMetrics();
    for (const model of Object.keys(POOLS)) {
      expect(page).toContain(`stator_held_requests{dynamo_namespace="dynamo",model="${model}"} 0\n`);
    }
  }, 80_000);

  it.each(Object.keys(POOLS))(
    'holds a request for %s until its planner has started a worker for it',
    async (model) => {
      const body = { model, max_tokens: 8, messages: [{ role: 'user', content: 'What are you?' }] };
      const { text, finishReason } = await readChat(cluster.urlOf('frontend', 8000), body);
      expect(finishReason).toMatch(/stop|length/);
      expect(text).not.toBe('');
    },
    200_000,
  );

  it('has started whole groups', async () => {
    const nodes = cluster.pods.filter(({ labels, container }) => {
      return labels['stator/pool'] === 'wide' && container.args.includes('--headless');
    });
    const leaders = cluster.pods.filter(({ labels, container }) => {
      return labels['stator/pool'] === 'wide' && !container.args.includes('--headless');
    });
    expect(leaders.length).toBeGreaterThanOrEqual(2); // the first one, and that of the request
    expect(nodes.map(({ name }) => name).sort()).toEqual(leaders.map(({ name }) => `${name}-1`).sort());
    const [node] = nodes;
    expect(`${node?.process.stdout()}${node?.process.stderr()}`).toMatch(/--nnodes=2 --node-rank=1 --master-addr=127/);
  });

  it('has every metric of the dashboard', async () => {
    const page = (await plannerMetrics()) + (await frontendMetrics());
    const known = new Set([...page.matchAll(/^# TYPE (\S+) /gm)].map(([, name]) => name));
    // Only a router that chooses by itself knows what its workers have cached.
    const shown = dashboardMetrics().filter((name) => !name.startsWith('dynamo_component_router_'));
    expect(shown.filter((name) => !known.has(name))).toEqual([]);
    expect(shown.filter((name) => name.startsWith('stator_planner_')).length).toBeGreaterThan(1);
  });

  it('has ended, and needed the rights of its roles and no others', async () => {
    for (const { process } of cluster.pods) process.signal('SIGTERM');
    for (const { process } of cluster.pods) expect(await process.exited).toBe(0);
    expect([...cluster.used].sort()).toEqual([...cluster.granted].sort());
  }, 60_000);
});
