import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { renderChart } from '../support/docs/render-kubernetes.ts';
import { hasNatsServer, postJson, useFleet, waitUntil } from '../support/index.ts';
import { ChartCluster } from '../support/kube/chart-cluster.ts';
import { PlayedEnvoy, type Refused, type Routed } from '../support/picker/played-envoy.ts';

const helm = process.env.STATOR_TEST_HELM_BIN ?? '';
const VALUES = [
  ...['--values', 'deploy/kubernetes/values/mocker.yaml'],
  ...['--set', 'endpointPicker.enabled=true,endpointPicker.replicas=1'],
];
const SECRET = {
  'plane-token': '1'.repeat(64),
  'nats-worker-password': '2'.repeat(64),
  'nats-router-password': '3'.repeat(64),
};
const PATH = '/v1/chat/completions';
const BODY = { model: 'stator-mini', max_tokens: 4, messages: [{ role: 'user', content: 'What are you?' }] };

describe.skipIf(helm === '' || !hasNatsServer())('the chart, with an endpoint picker', () => {
  const fleet = useFleet();
  let cluster: ChartCluster;
  let envoy: PlayedEnvoy;
  beforeAll(async () => {
    cluster = await ChartCluster.start(renderChart(helm, ...VALUES), SECRET, fleet);
    envoy = new PlayedEnvoy(cluster.urlOf('picker', 9002).replace('http://', ''), true);
  }, 180_000);
  afterAll(async () => {
    envoy?.close();
    await cluster?.close();
  });

  it('routes a chat to a worker, which the frontend beside it asks for the answer', async () => {
    const headers = { 'content-type': 'application/json' };
    let routed: Routed | Refused | undefined;
    const isRouted = async (): Promise<boolean> => {
      const stream = envoy.open();
      routed = await stream.request({ path: PATH, headers, body: JSON.stringify(BODY) });
      stream.halfClose();
      return routed.kind === 'routed'; // its worker may not be in discovery yet
    };
    await waitUntil(isRouted, { what: 'a worker', timeoutMs: 60_000 });
    expect(routed?.headers['x-gateway-destination-endpoint']).toBe('127.0.0.1:8000');
    const named = { 'x-dynamo-worker-instance-id': routed?.headers['x-dynamo-worker-instance-id'] ?? '' };
    const beside = cluster.pods.find(({ container }) => container.name === 'http');
    const url = `http://127.0.0.1:${beside?.ports.get(8000)}${PATH}`;
    // It refuses a request that names no worker.
    expect((await postJson(url, BODY)).status).toBe(400);
    let answer: Response | undefined;
    const isAnswered = async (): Promise<boolean> => {
      answer = await postJson(url, BODY, { headers: named });
      return answer.ok;
    };
    await waitUntil(isAnswered, { what: 'an answer', timeoutMs: 60_000 });
    expect(await answer?.json()).toMatchObject({ usage: { completion_tokens: 4 } });
  }, 150_000);

  it('has ended, and needed the rights of its roles and no others', async () => {
    for (const { process } of cluster.pods) process.signal('SIGTERM');
    for (const { process } of cluster.pods) expect(await process.exited).toBe(0);
    expect([...cluster.used].sort()).toEqual([...cluster.granted].sort());
  }, 120_000);
});
