import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Random, seededRandom } from '../../../../shared/clock/index.ts';
import { openPlanner } from '../../../../shared/commands/index.ts';
import { resolveConfig } from '../../../../shared/config/index.ts';
import type { ProcessLogger } from '../../../../shared/telemetry/index.ts';
import { silentLogger } from '../../../../shared/telemetry/log/logger.ts';
import { freePort } from '../../../support/index.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'stator-open-planner-'));
});
afterAll(() => rm(folder, { recursive: true }));

/** Lets the first `callsMax` calls of what a planner is given succeed; the next one throws. */
class FailingStep {
  readonly #callsMax: number;
  calls = 0;

  constructor(callsMax: number) {
    this.#callsMax = callsMax;
  }

  step(): void {
    if (this.calls++ === this.#callsMax) throw new Error('this step fails');
  }

  logger(): ProcessLogger {
    const named = (): typeof silentLogger => {
      this.step();
      return silentLogger;
    };
    return { ...silentLogger, for: named, mirrorTo: () => {} };
  }

  random(): Random {
    const random = seededRandom(1);
    const instanceId = (): string => {
      this.step();
      return random.instanceId();
    };
    return { next: () => random.next(), below: (most) => random.below(most), uuid: () => random.uuid(), instanceId };
  }
}

async function expectFree(port: number): Promise<void> {
  const server = createServer().listen(port, '127.0.0.1');
  await once(server, 'listening');
  await new Promise((resolve) => server.close(resolve));
}

describe('a planner that cannot start', () => {
  it('leaves no listener and no timer, whichever step fails', async () => {
    const [metrics, page, control] = [await freePort(), await freePort(), await freePort()];
    const env = {
      DYN_DISCOVERY_BACKEND: 'file',
      DYN_FILE_KV: folder,
      PLANNER_PROMETHEUS_PORT: `${metrics}`,
      STATOR_PLANNER_DIR: folder,
    };
    const file = JSON.stringify({ live_dashboard_port: page, control_api_port: control, report_interval_hours: null });
    const { settings } = resolveConfig('planner', ['--planner-config', file], env);
    let failures = 0;
    for (let callsMax = 0; ; callsMax++) {
      const failing = new FailingStep(callsMax);
      const clock = new VirtualClock();
      const deps = { settings, env, clock, logger: failing.logger(), random: failing.random(), tell: () => {} };
      const opened = await openPlanner(deps).catch((thrown: Error) => thrown);
      if (opened instanceof Error) {
        expect(opened.message).toBe('this step fails');
        failures++;
      } else await opened.close();
      for (const port of [metrics, page, control]) await expectFree(port);
      expect(clock.pendingTimers).toBe(0);
      if (!(opened instanceof Error)) break;
    }
    expect(failures).toBeGreaterThanOrEqual(5);
  });
});
