import { afterEach, describe, expect, it } from 'vitest';
import { SYSTEM, systemClock } from '../../../shared/clock/index.ts';
import { resolveConfig } from '../../../shared/config/index.ts';
import { serveService } from '../../../shared/standalone/service.ts';
import { startSlotTracker } from '../../../shared/standalone/slot-tracker.ts';
import { silentLogger } from '../../../shared/telemetry/log/logger.ts';
import { freePort, waitUntil } from '../../support/index.ts';
import { type ServiceClient, serviceClient } from '../../support/router/service-client.ts';

const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function openReplica(syncPort: number): Promise<ServiceClient> {
  const { settings } = resolveConfig('router', ['--service-port=0', `--service-sync-port=${syncPort}`], {});
  const service = await startSlotTracker(settings, SYSTEM, silentLogger);
  const server = await serveService(service, settings, systemClock);
  cleanups.push(service.close, () => server.close(1000));
  return serviceClient(server.url);
}

describe('slot tracker on real sockets', () => {
  it('tells its replicas what it books', async () => {
    const ports = [await freePort(), await freePort()];
    const [one, two] = [await openReplica(ports[0]!), await openReplica(ports[1]!)];
    const names = { model_name: 'm', routing_group: 'default' };
    const worker = { ...names, worker_id: 2n ** 64n - 1n, block_size: 16, dp_start: 0, dp_size: 1 };
    for (const replica of [one, two]) await replica.post('/register', worker);
    await two.post('/replica_sync/register_peer', { endpoint: `tcp://127.0.0.1:${ports[0]}` });
    let count = 0;
    // A subscription takes a moment; what was told before it is not told again.
    await waitUntil(async () => {
      await one.post('/add', { ...worker, request_id: `r${count}`, sequence_hashes: [count++], new_isl_tokens: 5 });
      const [row] = (await two.get('/loads')).json as readonly { readonly active_prefill_tokens: number }[];
      return row !== undefined && row.active_prefill_tokens > 0;
    });
    expect((await two.post('/free', { ...names, request_id: 'never told' })).status).toBe(200);
  });
});
