import { describe, expect, it } from 'vitest';
import type { SentSignal } from '../../../../shared/planner/decide/apply-signal.ts';
import { decide } from '../../../../shared/planner/decide/decide.ts';
import { packState, startModel, unpackState } from '../../../../shared/planner/decide/model-state.ts';
import { packStateText, unpackStateText } from '../../../../shared/planner/store/state-bytes.ts';
import { BEGIN_S, changeAt } from '../../../support/planner/fleet-signals.ts';
import { aggregatedAt, plannerOf } from '../../../support/planner/planned-model.ts';

const STATE_BYTES = 64 * 1024;

describe('the state of a model of 10,000 workers', () => {
  it.each(['rate', 'sla', 'latency'])(
    'takes at most 64 KiB of a table with the instance of each, with the law %s',
    (law) => {
      const isSla = law === 'sla';
      const planner = plannerOf({ law, enable_load_scaling: isSla, max_gpu_budget: -1, rate_requests_per_second: 10 });
      let state = startModel(BEGIN_S);
      const batch = (...signals: readonly SentSignal[]): void => {
        ({ state } = decide(unpackState(packState(state)), signals, { planner }));
      };
      for (let seq = 0; seq < 30; seq++) batch(aggregatedAt(5 * seq, seq, { workers: 10_000, perInstance: 1 }));
      const gone = Array.from({ length: 400 }, (_, worker) => changeAt('worker.gone', 146 + worker / 1000, worker, 0));
      batch(...gone);
      const bytes = packStateText(packState(state));
      expect(bytes.length).toBeLessThanOrEqual(STATE_BYTES);
      expect(unpackState(unpackStateText(bytes))).toEqual(unpackState(packState(state)));
      expect(state.ready.decode).toBe(10_000); // those that left were of another fleet
    },
  );
});
