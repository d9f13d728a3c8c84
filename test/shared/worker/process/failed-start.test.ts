import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { resolveConfig } from '../../../../shared/config/index.ts';
import { startWorkerProcess } from '../../../../shared/worker/process/worker.ts';
import { failEachStep, failStart, type Start } from '../../../support/failed-starts.ts';
import { freePort } from '../../../support/index.ts';

// A program that serves a model of its own code goes on when its worker cannot start.

const folder = mkdtempSync(join(tmpdir(), 'stator-failed-worker-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The start of two mock workers with both servers beside them. */
async function workersWith(env: Readonly<Record<string, string>> = {}): Promise<Start> {
  const given = {
    DYN_DISCOVERY_BACKEND: 'file',
    DYN_FILE_KV: join(folder, 'kv'),
    DYN_TCP_RPC_HOST: '127.0.0.1',
    DYN_EVENT_PLANE_HOST: '127.0.0.1',
    DYN_SYSTEM_PORT: String(await freePort()),
    STATOR_CONTROL_PORT: String(await freePort()),
    STATOR_CONTROL_HOST: '127.0.0.1',
    ...env,
  };
  const config = resolveConfig('worker', ['--engine=mocker', '--model-name=m', '--num-workers=2'], given);
  return async ({ logger, ...timeAndChance }) => {
    const { drain } = await startWorkerProcess(config, timeAndChance, logger, AbortSignal.timeout(20_000));
    return drain;
  };
}

describe('a worker process whose start fails', () => {
  it('leaves nothing open, whichever step fails', async () => {
    const { steps, left } = await failEachStep(await workersWith());
    expect([...new Set(steps)].toSorted()).toEqual([
      'control',
      'discovery',
      'engine',
      'events',
      'requests',
      'status',
      'worker',
    ]);
    expect(left).toEqual([]);
  });

  it.each(['DYN_SYSTEM_PORT', 'STATOR_CONTROL_PORT', 'DYN_TCP_RPC_PORT'])(
    'leaves nothing open when its port is taken (%s)',
    async (name) => {
      const server = createServer();
      const port = await freePort();
      await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
      try {
        const host = name === 'DYN_SYSTEM_PORT' ? { DYN_SYSTEM_HOST: '127.0.0.1' } : {};
        const { error, ...left } = await failStart(await workersWith({ [name]: String(port), ...host }));
        expect(error).toContain(String(port));
        expect(left).toEqual({ timers: 0, descriptors: 0 });
      } finally {
        server.close();
      }
    },
  );

  it('names the host if its request plane cannot bind the address', async () => {
    const { error } = await failStart(
      await workersWith({ DYN_TCP_RPC_HOST: '192.0.2.1', STATOR_PLANE_TOKEN: 't'.repeat(32) }),
    );
    expect(error).toContain('set DYN_TCP_RPC_HOST');
  });
});
