import { describe, expect, it } from 'vitest';
import { PRICES } from '../../../../shared/commands/estimate/prices.ts';
import { handleSignals } from '../../../../shared/planner/decide/handle-batch.ts';
import type { PlannerStore } from '../../../../shared/planner/index.ts';
import { MemoryPlannerStore } from '../../../../shared/planner/store/memory-store.ts';
import { packStateText } from '../../../../shared/planner/store/state-bytes.ts';
import type { Commit } from '../../../../shared/planner/store/types.ts';
import { aggregatedAt, plannerOf } from '../../../support/planner/planned-model.ts';

const NEVER = new AbortController().signal;
const MONTH_S = 730 * 3600;
const HOUR_S = 3600;
/** Seconds between two messages of a model. */
const ROUND_S = 5;
const WRITE_UNIT_BYTES = 1024;
const READ_UNIT_BYTES = 4096;
/** Key, version and names of an item. */
const ITEM_BYTES = 100;
/** Memory and time of the function for a message, in GB seconds. */
const GB_SECONDS = 0.5 * 0.05;

/** Counts the units of a store in a table, as DynamoDB does: each write of a transaction counts twice. */
function countingStore() {
  const store = new MemoryPlannerStore();
  const use = { reads: 0, writes: 0, plain: 0, transactions: 0, stateBytes: 0 };
  const units = (bytes: number, of: number): number => Math.ceil((bytes + ITEM_BYTES) / of);
  const counted: Partial<PlannerStore> = {
    name: 'memory',
    readState: async (...args) => {
      const stored = await store.readState(...args);
      use.reads += units(packStateText(stored?.state ?? '').length, READ_UNIT_BYTES);
      return stored;
    },
    commit: async (group, commit: Commit, signal) => {
      const stateBytes = packStateText(commit.state).length;
      const entries = [commit.decision, commit.tick].filter((entry) => entry !== undefined);
      const bytes = [stateBytes, ...entries.map((entry) => JSON.stringify(entry).length)];
      const all = bytes.reduce((total, each) => total + units(each, WRITE_UNIT_BYTES), 0);
      use.writes += entries.length > 0 ? 2 * all : all;
      if (entries.length > 0) use.transactions++;
      else use.plain++;
      use.stateBytes = stateBytes;
      return await store.commit(group, commit, signal);
    },
  };
  return { store: counted as PlannerStore, use };
}

describe('a planned model at rest', () => {
  it.each([
    ['without requests', 0],
    ['with a steady load', 75],
  ])('%s costs at most five dollars a month, and a plain write for a message', async (_, rate) => {
    const { store, use } = countingStore();
    const planner = plannerOf({ rate_requests_per_second: undefined });
    for (let atS = 0; atS <= HOUR_S; atS += ROUND_S) {
      const message = aggregatedAt(atS, atS / ROUND_S, { workers: 8, perInstance: 1, rate });
      await handleSignals([message], { store, group: 'g', planner }, NEVER);
      if (atS === 300) Object.assign(use, { reads: 0, writes: 0, plain: 0, transactions: 0 }); // it has settled
    }
    const messages = (HOUR_S - 300) / ROUND_S;
    expect(use.plain).toBeGreaterThan(0.85 * messages); // a tick is stored each minute, or when its reason changes
    const months = MONTH_S / (HOUR_S - 300);
    const dollars =
      (months *
        (use.reads * PRICES.tableReadMillion +
          use.writes * PRICES.tableWriteMillion +
          messages * (3 * PRICES.queueMillion + PRICES.requestMillion))) /
        1e6 +
      months * messages * GB_SECONDS * PRICES.gbSecond;
    expect(dollars).toBeLessThanOrEqual(5);
    expect(use.stateBytes).toBeLessThan(4 * 1024);
  });
});
