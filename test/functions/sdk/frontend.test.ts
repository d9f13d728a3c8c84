import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { createFrontend, type EmbeddedFrontend } from '../../../functions/sdk/frontend.ts';
import { showConfig } from '../../../shared/commands/config.ts';

const folder = mkdtempSync(join(tmpdir(), 'sdk-frontend-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Effective {
  readonly settings: readonly { readonly setting: string; readonly value: unknown; readonly origin: string }[];
}

const KV = ['--router-mode', 'kv', '--no-router-kv-events'];
const QUIET = { DYN_LOG: 'error', DYN_DISCOVERY_BACKEND: 'mem' };

async function withFrontend<T>(
  flags: readonly string[],
  env: Readonly<Record<string, string>>,
  look: (frontend: EmbeddedFrontend) => Promise<T>,
): Promise<T> {
  const frontend = await createFrontend({ flags, env: { ...QUIET, ...env } });
  try {
    return await look(frontend);
  } finally {
    await frontend.close();
  }
}

describe('a frontend in a program decides as stator frontend does', () => {
  it.each([
    [[], {}, { routerCostModel: 'auto', routerQueueThreshold: 'auto' }],
    [['--router-kv-overlap-score-credit', '0.2'], {}, { routerCostModel: 'dynamo' }],
    [[...KV, '--router-temperature', '0.5'], {}, { routerCostModel: 'dynamo', routerTemperature: 0.5 }],
    [[...KV, '--router-temperature', '0.5', '--router-cost-model', 'stator'], {}, { routerCostModel: 'stator' }],
    [KV, { DYN_ROUTER_PREFILL_LOAD_SCALE: '2' }, { routerCostModel: 'dynamo', routerPrefillLoadScale: 2 }],
    [['--load-aware'], {}, { routerMode: 'kv' }],
    [[...KV, '--roles', 'http,router', '--request-plane', 'tcp'], {}, { routerRole: 'resident' }],
    [['--router-queue-threshold', 'None'], { DYN_HTTP_PORT: '9000' }, { httpPort: 9000, routerQueueThreshold: null }],
  ] as const)('with %j and %j', async (flags, env, expected) => {
    const path = join(folder, 'dump.json');
    const all = [...flags, '--dump-config-to', path];
    await withFrontend(all, env, async () => undefined);
    const dumped = JSON.parse(readFileSync(path, 'utf8')) as Effective;
    const shown = JSON.parse(showConfig(['frontend', '--json', ...all], { ...QUIET, ...env }).text) as Effective;
    expect(dumped).toEqual(shown);
    const values = Object.fromEntries(dumped.settings.map(({ setting, value }) => [setting, value]));
    expect(values).toMatchObject(expected);
    const given = dumped.settings.filter(({ origin }) => origin !== 'default').map(({ setting }) => setting);
    expect(given).toHaveLength(
      new Set(flags.filter((flag) => flag.startsWith('--'))).size + Object.keys(env).length + 3,
    );
  });

  it('refuses the same', async () => {
    for (const flags of [
      ['--roles', 'router'],
      ['--router-role', 'resident', '--roles', 'http'],
    ]) {
      const problem = /--roles/;
      await expect(createFrontend({ flags, env: QUIET })).rejects.toThrow(problem);
      expect(() => showConfig(['frontend', ...flags], QUIET)).toThrow(problem);
    }
  });

  it('answers no clients as a router alone', async () => {
    const ask = async (frontend: EmbeddedFrontend): Promise<unknown> => {
      const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"model":"m"}' };
      const response = await frontend.fetch(new Request('http://localhost/v1/chat/completions', init));
      return (await response.json()) as unknown;
    };
    const router = [...KV, '--roles', 'router'];
    expect(await withFrontend(router, {}, ask)).toMatchObject({ error: { code: 'not_found' } });
    expect(await withFrontend(KV, {}, ask)).toMatchObject({ error: { code: 'service_unavailable' } });
  });
});

describe('closing a frontend in a program', () => {
  it('says how many answers it has cut', async () => {
    const metrics = await withFrontend([], {}, async (frontend) => {
      await frontend.close();
      return (await frontend.fetch(new Request('http://localhost/metrics'))).text();
    });
    expect(metrics).toMatch(/^stator_frontend_drain_cut_total 0$/m);
  });
});
