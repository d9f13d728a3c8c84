import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { dashboardMetrics } from '../../infra/grafana/overview.ts';
import { renderChart } from '../support/docs/render-kubernetes.ts';
import { hasNatsServer, readChat, useFleet, waitUntil } from '../support/index.ts';
import { ChartCluster } from '../support/kube/chart-cluster.ts';

const helm = process.env.STATOR_TEST_HELM_BIN ?? '';
const EXAMPLE = ['--values', 'deploy/kubernetes/values/mocker.yaml'];
/** Passwords that begin with a digit, and that NATS would take for numbers without quotes. */
const SECRET = {
  'plane-token': '1'.repeat(64),
  'nats-worker-password': '2'.repeat(64),
  'nats-router-password': '3e4'.repeat(12),
  'admin-key': '4'.repeat(64),
};
/** Asks until an answer comes, and returns its text. */
async function answerFrom(url: string): Promise<string> {
  const body = { model: 'stator-mini', messages: [{ role: 'user', content: 'What are you?' }] };
  let text = '';
  const isAnswered = async (): Promise<boolean> => {
    const answer = await readChat(url, body).catch(() => undefined); // its worker may not be in discovery yet
    text = answer?.text ?? '';
    return answer?.finishReason === 'stop';
  };
  await waitUntil(isAnswered, { what: 'an answer', timeoutMs: 60_000 });
  return text;
}

describe.skipIf(helm === '' || !hasNatsServer()).each([
  ['frontends that route', [], /^dynamo_component_router_kv_hit_rate_count.* [1-9]/m],
  [
    'frontends that ask routers',
    ['--set', 'router.enabled=true,router.replicas=1'],
    /^stator_router_decisions_total\{.*source="resident".* [1-9]/m,
  ],
])('the chart, with %s', (_, values, decision) => {
  const fleet = useFleet({ STATOR_ROUTER_CHOOSE_TIMEOUT_MS: '5000', STATOR_ROUTER_CONNECT_TIMEOUT_MS: '2000' });
  let cluster: ChartCluster;
  beforeAll(async () => {
    cluster = await ChartCluster.start(renderChart(helm, ...EXAMPLE, ...values), SECRET, fleet);
  }, 180_000);
  afterAll(() => cluster?.close());

  it('answers a chat', async () => {
    expect(await answerFrom(cluster.urlOf('frontend', 8000))).not.toBe('');
  });

  it('chooses workers as the chart says', async () => {
    const url = cluster.urlOf('frontend', 8000);
    const decided = async (): Promise<boolean> => {
      await answerFrom(url);
      const text = await (await fetch(`${url}/metrics`)).text();
      return decision.test(text);
    };
    await waitUntil(decided, { what: 'a decision by the router', timeoutMs: 60_000 });
  }, 90_000);

  it('has frontends with every metric of the dashboard, except those of planners and of requests that wait', async () => {
    const page = await (await fetch(`${cluster.urlOf('frontend', 8000)}/metrics`)).text();
    const known = new Set([...page.matchAll(/^# TYPE (\S+) /gm)].map(([, name]) => name));
    // Only a router that chooses by itself knows what its workers have cached.
    const elsewhere = /^(?:dynamo_component_router|stator_planner|stator_held|stator_frontend_hold)_/;
    const shown = dashboardMetrics().filter((name) => !elsewhere.test(name));
    expect(shown.filter((name) => !known.has(name))).toEqual([]);
    expect(shown.length).toBeGreaterThan(5);
  });

  it('answers after one of its workers has been told to stop', async () => {
    const worker = cluster.pods.find(({ labels }) => labels['app.kubernetes.io/component'] === 'worker');
    worker?.process.signal('SIGTERM');
    expect(await worker?.process.exited).toBe(0);
    expect(await answerFrom(cluster.urlOf('frontend', 8000))).not.toBe('');
  });

  it('has ended, and needed the rights of its roles and no others', async () => {
    for (const { process } of cluster.pods) process.signal('SIGTERM');
    for (const { process } of cluster.pods) expect(await process.exited).toBe(0);
    expect([...cluster.used].sort()).toEqual([...cluster.granted].sort());
  });
});
