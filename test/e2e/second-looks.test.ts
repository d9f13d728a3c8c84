import { beforeAll, describe, expect, it } from 'vitest';
import { postJson, type StatorProcess, useFleet, waitUntil } from '../support/index.ts';

const MODEL = 'stator-mini';
const KV = ['--router-mode=kv', '--router-replica-sync'];

interface Look {
  readonly chosen: { readonly worker_id: string };
  readonly second_look?: { readonly held_ms: number; readonly before: number };
}

/** Sends a long prompt of its own through a frontend. Resolves with the explanation of the decision. */
async function place(frontend: StatorProcess, topic: string): Promise<Look> {
  const content = `${topic}: ${'parts meet where their edges fit; '.repeat(600)}`;
  const body = { model: MODEL, max_tokens: 2, messages: [{ role: 'user', content }] };
  const response = await postJson(`${frontend.url}/v1/chat/completions`, body);
  expect(response.status).toBe(200);
  const { id } = (await response.json()) as { id: string };
  const explained = await fetch(`${frontend.url}/router/explain/${id}`);
  return (await explained.json()) as Look;
}

describe('frontends that decide in one instant', () => {
  const fleet = useFleet();
  let frontends: readonly StatorProcess[] = [];

  beforeAll(async () => {
    const workers = Array.from({ length: 4 }, () => fleet.worker(['--block-size=16', '--speedup-ratio=4']));
    frontends = await Promise.all([fleet.frontend(KV), fleet.frontend(KV), ...workers].slice(0, 2));
    await Promise.all(workers);
    for (const frontend of frontends) await fleet.untilWorkers(frontend, 4);
  });

  it('decide again with what the other has decided, and choose different workers', async () => {
    let round = 0;
    const looks = await waitUntil(
      async () => {
        const placed = await Promise.all(frontends.map((frontend, at) => place(frontend, `${round}/${at}`)));
        round++;
        const counts = placed.map(({ second_look: look }) => look?.before);
        return counts.includes(0) && counts.includes(1) && placed; // a slow machine may not send them at one instant
      },
      { what: 'two decisions in one instant', timeoutMs: 60_000 },
    );
    expect(new Set(looks.map(({ chosen }) => chosen.worker_id)).size).toBe(2);
  });
});
