import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { resolveConfig } from '../../../shared/config/index.ts';
import { startStandaloneRouter } from '../../../shared/standalone/index.ts';
import { failEachStep, type Start } from '../../support/failed-starts.ts';

const folder = mkdtempSync(join(tmpdir(), 'stator-failed-router-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('a standalone router whose start fails', () => {
  it('leaves nothing open, whichever step fails', async () => {
    const env = {
      DYN_DISCOVERY_BACKEND: 'file',
      DYN_FILE_KV: folder,
      DYN_TCP_RPC_HOST: '127.0.0.1',
      DYN_EVENT_PLANE_HOST: '127.0.0.1',
    };
    const { settings } = resolveConfig('router', ['--endpoint=dynamo.backend.generate'], env);
    const start: Start = async ({ logger, ...timeAndChance }) =>
      (await startStandaloneRouter(settings, timeAndChance, logger, AbortSignal.timeout(20_000))).close;
    const { steps, left } = await failEachStep(start);
    expect([...new Set(steps)].toSorted()).toEqual(['discovery', 'events', 'requests', 'router']);
    expect(left).toEqual([]);
  });
});
