import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postJson, runStator, type StatorProcess, useFleet, waitUntil } from '../support/index.ts';

const MODEL = 'stator-mini';

/** A long prompt about `topic`, of which no worker has a block. */
function ask(
  frontend: StatorProcess,
  topic: string,
  headers: Readonly<Record<string, string>>,
  sentences = 60,
): Promise<Response> {
  const content = `${topic}: ${'parts meet where their edges fit; '.repeat(sentences)}`;
  return postJson(
    `${frontend.url}/v1/chat/completions`,
    { model: MODEL, max_tokens: 2, messages: [{ role: 'user', content }], nvext: { extra_fields: ['worker_id'] } },
    { headers },
  );
}

describe('stator frontend --router-policy-config', () => {
  const folder = mkdtempSync(join(tmpdir(), 'policies-'));

  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  describe.each(['dynamo', 'stator'])('with the cost model %s', (costModel) => {
    const fleet = useFleet();
    const file = join(folder, `${costModel}.yaml`);
    let frontend: StatorProcess;
    let worker: StatorProcess;

    beforeAll(async () => {
      writeFileSync(
        file,
        `
default_policy_family: chat
uncached_isl_buckets: [{ min_tokens: 0, bucket: all }]
policy_classes:
  - { name: chat, policy_family: chat, cache_bucket: all, quantum: 1024 }
  - { name: batch, quantum: 256, prefill_busy_threshold: 0, request_queue_limit_per_worker: 1 }
`,
      );
      const slowPrefill = ['--speedup-ratio=0.02', '--decode-speedup-ratio=50'];
      const kv = ['--router-mode=kv', `--router-cost-model=${costModel}`];
      frontend = await fleet.frontend([...kv, `--router-policy-config=${file}`]);
      worker = await fleet.worker(slowPrefill);
      await fleet.untilWorkers(frontend, 1);
    });

    it('holds the requests of a class to its bounds, and those of others not', async () => {
      const batch = { 'x-dynamo-meta-policy-class': 'batch' };
      const pending = (): Promise<number> =>
        frontend.metric('dynamo_frontend_router_queue_pending_requests', 'policy_class="batch"');
      const first = ask(frontend, 'first', batch, 400); // some seconds of work, in which all that is seen here happens
      await waitUntil(async () => (await worker.metric('dynamo_component_inflight_requests')) === 1, {
        what: 'a busy worker',
      });
      const second = ask(frontend, 'second', batch);
      await waitUntil(async () => (await pending()) === 1, { what: 'a request that waits' });
      const refused = await ask(frontend, 'third', batch);
      expect([refused.status, await refused.json()]).toMatchObject([503, { error: { code: 'server_overloaded' } }]);
      const other = ask(frontend, 'fourth', {});
      for (const answer of await Promise.all([first, second, other])) expect(answer.status).toBe(200);
    });
  });

  it('does not start with a file that says nothing sensible, and names the field', async () => {
    const bad = join(folder, 'bad.yaml');
    writeFileSync(bad, 'policy_classes: [{ name: batch, quantum: none }]\n');
    const flags = ['--http-port=0', '--router-mode=kv', `--router-policy-config=${bad}`];
    const { code, stderr } = await runStator(['frontend', ...flags], { DYN_DISCOVERY_BACKEND: 'mem' });
    expect(code).not.toBe(0);
    expect(stderr).toMatch(/--router-policy-config: policy_classes.0.quantum: /);
    expect(stderr).not.toMatch(/\n\s+at /);
  });
});

describe('stator frontend --router-session-affinity-ttl-secs', () => {
  const fleet = useFleet();
  let frontend: StatorProcess;

  beforeAll(async () => {
    const fast = ['--speedup-ratio=50'];
    [frontend] = await Promise.all([
      fleet.frontend(['--router-mode=kv', '--router-session-affinity-ttl-secs=60']),
      ...[0, 1, 2].map(() => fleet.worker(fast)),
    ]);
    await fleet.untilWorkers(frontend, 3);
  });

  async function workerOf(topic: string, session: string): Promise<unknown> {
    const answer = await ask(frontend, topic, { 'x-dynamo-session-id': session });
    expect(answer.status).toBe(200);
    const { nvext } = (await answer.json()) as { readonly nvext: { readonly worker_id: Record<string, unknown> } };
    return nvext.worker_id.decode_worker_id;
  }

  it('sends a session to one worker, whatever it asks, and sessions to all of them', async () => {
    // Workers that cost the same are drawn by lot: 60 draws leave one of three out once in 10^10 runs.
    const workers = new Set<unknown>();
    for (let session = 0; session < 60 && workers.size < 3; session++) {
      const first = await workerOf(`${session} first`, `s${session}`);
      for (let turn = 0; turn < 3; turn++) expect(await workerOf(`${session} ${turn}`, `s${session}`)).toBe(first);
      workers.add(first);
    }
    expect(workers.size).toBe(3);
    for (const name of ['time_to_first_token_seconds', 'input_sequence_tokens']) {
      expect(await frontend.metric(`dynamo_frontend_worker_last_${name}`, 'worker_type="decode"')).toBeGreaterThan(0);
    }
    // Tokens that come together have nothing between them, but they are shown.
    const shown = await (await fetch(`${frontend.url}/metrics`)).text();
    expect(shown).toMatch(/^dynamo_frontend_worker_last_inter_token_latency_seconds\{.*worker_type="decode"/m);
  });
});
