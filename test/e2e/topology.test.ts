import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { postJson, type StatorProcess, useFleet } from '../support/index.ts';

const PREFILL = '--disaggregation-mode=prefill';
const DECODE = '--disaggregation-mode=decode';
const FALLBACKS = 'dynamo_frontend_decode_only_fallback_total';

it.each(['kv', 'round-robin'])('blocks stay in their zone in mode %s', async (mode) => {
  const fleet = fleets[mode] as ReturnType<typeof useFleet>;
  const inZone = (zone: string, role: string, ...more: readonly string[]): Promise<StatorProcess> => {
    const folder = join(fleet.temporary, zone);
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'zone'), `${zone}\n`);
    const env = { DYN_TOPOLOGY_ENABLED: 'true', DYN_TOPOLOGY_MOUNT_PATH: folder, DYN_KV_TRANSFER_DOMAIN: 'zone' };
    return fleet.worker([role, '--speedup-ratio=50', '--block-size=16', ...more], env);
  };
  const [frontend, prefillA, prefillB, decodeB] = await Promise.all([
    fleet.frontend([`--router-mode=${mode}`]),
    inZone('a', PREFILL),
    inZone('b', PREFILL),
    inZone('b', DECODE),
  ]);
  const ask = async (topic: string): Promise<readonly [prefill: string, decode: string]> => {
    const response = await postJson(`${frontend.url}/v1/chat/completions`, {
      model: 'stator-mini',
      max_tokens: 4,
      messages: [{ role: 'user', content: `${topic}: ${'parts meet where their edges fit; '.repeat(10)}` }],
      nvext: { extra_fields: ['worker_id'] },
    });
    const text = await response.text();
    expect(response.status, text).toBe(200);
    const [prefill = '', decode = ''] = [...text.matchAll(/"(?:prefill|decode)_worker_id":(\d+)/g)].map(([, id]) =>
      BigInt(id as string).toString(16),
    );
    return [prefill, decode];
  };
  await fleet.untilWorkers(frontend, 3);
  for (const topic of ['one', 'two', 'three']) {
    expect(await ask(topic)).toEqual([prefillB.instanceId, decodeB.instanceId]);
  }
  expect(await frontend.metric(FALLBACKS)).toBe(0);
  await prefillB.kill();
  await fleet.untilWorkers(frontend, 2);
  expect(await ask('four')).toEqual([decodeB.instanceId, decodeB.instanceId]); // nobody else may hand blocks over
  expect(await frontend.metric(FALLBACKS)).toBe(1);
  const late = await inZone('a', DECODE);
  await fleet.untilWorkers(frontend, 3);
  for (const topic of ['five', 'six']) expect(await ask(topic)).toEqual([prefillA.instanceId, late.instanceId]);
});

const ENV = { STATOR_LEASE_TTL_SECS: '3', DYN_INHIBITED_DURATION_SECS: '30' };
const fleets: Readonly<Record<string, ReturnType<typeof useFleet>>> = {
  kv: useFleet(ENV),
  'round-robin': useFleet(ENV),
};
