import { describe, expect, it } from 'vitest';
import { parsePlannerConfig } from '../../../../shared/planner/config.ts';
import { QueuePlanner } from '../../../../shared/planner/index.ts';
import { MemoryPlannerStore } from '../../../../shared/planner/store/memory-store.ts';
import { NO_TRAFFIC } from '../../../../shared/protocol/index.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';
import { fleetSpec, optionSpec, startEc2Fleet } from '../../../support/planner/ec2-fleet.ts';
import { rollupOf } from '../../../support/planner/fleet-signals.ts';

const NEVER = new AbortController().signal;
const GROUP = 'ns/m';

/** Handles one report of a worker under a law. Returns what the log says of the law. */
async function problemsOf(config: Readonly<Record<string, unknown>>, hasPasses: boolean): Promise<readonly unknown[]> {
  await using fleet = await startEc2Fleet();
  const { logger, lines } = captureLogger();
  const planner = { config: parsePlannerConfig({ mode: 'agg', ...config }), engines: { decode: { gpus: 1 } } };
  const queue = new QueuePlanner({
    models: [{ group: GROUP, fleet: fleetSpec([optionSpec('g0')]), planner, connector: fleet.connector }],
    store: new MemoryPlannerStore(),
    clock: fleet.clock,
    logger: logger.for('planner'),
    holder: 'h',
    groupsOf: async () => new Map(),
    refresh: async () => {},
    onUnknown: () => {},
    onPlanned: () => {},
  });
  const sentAtMs = fleet.clock.wallMs();
  const body = JSON.stringify({ ...rollupOf(0, 0, NO_TRAFFIC, sentAtMs), has_passes: hasPasses });
  expect(await queue.handle([{ messageId: '1', group: GROUP, body, sentAtMs }], NEVER)).toEqual([]);
  return lines.flatMap(({ message, fields }) => (/the law lacks/.test(message) ? [fields?.problem] : []));
}

describe('a planner behind a queue', () => {
  it('says why its law cannot decide, if the engines do not say how long their passes take', async () => {
    expect(await problemsOf({ law: 'sla' }, false)).toEqual([expect.stringMatching(/^law sla .* allowed for such/)]);
    expect(await problemsOf({ law: 'rate' }, false)).toEqual([expect.stringMatching(/rate_requests_per_second/)]);
  });

  it('says nothing of the kind if they do, or if its law needs none', async () => {
    expect(await problemsOf({ law: 'sla' }, true)).toEqual([]);
    expect(await problemsOf({ law: 'rate', rate_requests_per_second: 4 }, false)).toEqual([]);
  });
});
