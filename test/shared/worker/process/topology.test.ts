import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { resolveConfig } from '../../../../shared/config/index.ts';
import { silentLogger } from '../../../../shared/telemetry/log/logger.ts';
import { topologyCard } from '../../../../shared/worker/process/topology.ts';
import { waitUntil } from '../../../support/index.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'stator-topology-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const DEFAULTS = resolveConfig('worker', [], {}, { allowMissing: true }).settings;

type Given = Partial<Parameters<typeof topologyCard>[0]>;

function read(given: Given = {}, clock = new VirtualClock(), signal = new AbortController().signal) {
  return topologyCard(
    {
      ...DEFAULTS,
      topologyEnabled: true,
      topologyMountPath: folder,
      kvTransferDomain: 'zone',
      kvTransferEnforcement: 'required',
      kvTransferPreferredWeight: undefined,
      ...given,
    },
    clock,
    signal,
    silentLogger,
  );
}

/** Lets time pass until `outcome` is there, but not while files are read: that takes real time. */
async function passing<T>(clock: VirtualClock, outcome: Promise<T>): Promise<T> {
  let isSettled = false;
  outcome.then(
    () => (isSettled = true),
    () => (isSettled = true),
  );
  while (!isSettled) {
    if (clock.pendingTimers > 0) await clock.advance(500);
    await new Promise((resolve) => setImmediate(resolve));
  }
  return outcome;
}

describe('what a worker says of where it stands', () => {
  it('is nothing unless it is asked to', async () => {
    writeFileSync(join(folder, 'zone'), 'a');
    expect(await read({ topologyEnabled: false })).toEqual({});
  });

  it('is one domain a file, each a taint as well; hidden, empty and nested files do not count', async () => {
    writeFileSync(join(folder, 'zone'), ' us-east-1a\n');
    writeFileSync(join(folder, 'rack'), 'r7');
    writeFileSync(join(folder, 'block'), '\n');
    writeFileSync(join(folder, '..data'), 'x');
    mkdirSync(join(folder, 'nested'));
    expect(await read()).toEqual({
      topology_domains: { zone: 'us-east-1a', rack: 'r7' },
      kv_transfer_domain: 'zone',
      kv_transfer_enforcement: 'required',
      taints: expect.arrayContaining(['dynamo.topology/zone=us-east-1a', 'dynamo.topology/rack=r7']),
    });
  });

  it('has a weight with a preference', async () => {
    writeFileSync(join(folder, 'zone'), 'a');
    expect(await read({ kvTransferEnforcement: 'preferred', kvTransferPreferredWeight: 0.85 })).toMatchObject({
      kv_transfer_enforcement: 'preferred',
      kv_transfer_preferred_weight: 0.85,
    });
  });

  it.each<[string, Given, string, string]>([
    ['no domain', { kvTransferDomain: undefined }, 'a', 'needs DYN_KV_TRANSFER_DOMAIN'],
    ['a preference without a weight', { kvTransferEnforcement: 'preferred' }, 'a', 'preferred needs a weight'],
    ['a weight without a preference', { kvTransferPreferredWeight: 0.5 }, 'a', 'only preferred takes a weight'],
    ['a value with =', {}, 'a=b', '"a=b" is not a name or value'],
  ])('is refused with %s', async (_what, given, value, says) => {
    writeFileSync(join(folder, 'zone'), value);
    await expect(read(given)).rejects.toThrow(says);
  });

  it('is waited for, but not for ever', async () => {
    const clock = new VirtualClock();
    const later = join(folder, 'later');
    const card = read({ topologyMountPath: later }, clock);
    await waitUntil(() => clock.pendingTimers > 0);
    await clock.advance(1000);
    mkdirSync(later);
    writeFileSync(join(later, 'zone'), 'a');
    expect(await passing(clock, card)).toMatchObject({ topology_domains: { zone: 'a' } });
    const never = read({ topologyMountPath: later, kvTransferDomain: 'rack' }, clock);
    await expect(passing(clock, never)).rejects.toThrow('rack: no such file with a value');
  });

  it('is waited for no longer than the start of the worker', async () => {
    const stopped = new AbortController();
    const card = read({}, new VirtualClock(), stopped.signal);
    stopped.abort(new Error('stopped'));
    await expect(card).rejects.toThrow('stopped');
  });
});
