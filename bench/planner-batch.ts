import { decide } from '../shared/planner/decide/decide.ts';
import { packState, startModel, unpackState } from '../shared/planner/decide/model-state.ts';
import { packStateText, unpackStateText } from '../shared/planner/store/state-bytes.ts';
import { BEGIN_S } from '../test/support/planner/fleet-signals.ts';
import { aggregatedAt, instanceIdAt, plannerOf } from '../test/support/planner/planned-model.ts';

/*
 * CPU of a planner's function for one batch of a model with 10,000 workers, and bytes of the state in its table:
 *
 *     npm run bench:part -- bench/planner-batch.ts
 *
 * A batch reads the state, applies ten messages (each a whole fleet, and two spot notices), asks the law and packs the
 * state again.
 */

const WORKERS = 10_000;
const BATCHES = 10;
const MESSAGES = 10;

const planner = plannerOf({ max_gpu_budget: -1 });
let stored = packStateText(packState(startModel(BEGIN_S)));
let seq = 0;
const seconds: number[] = [];
for (let batch = 0; batch < BATCHES; batch++) {
  const messages = Array.from({ length: MESSAGES - 2 }, () => {
    const message = aggregatedAt(5 * seq, seq, { workers: WORKERS, perInstance: 1, rate: 80_000 });
    seq++;
    return message;
  });
  const sentAtS = BEGIN_S + 5 * seq - 1;
  const notices = [0, 1].map((at) => {
    const id = instanceIdAt(2 * batch + at);
    const common = {
      v: 1,
      namespace: 'ns',
      model: 'm',
      source: id,
      epoch: `${batch}`,
      seq: 0,
      component: 'agg',
    } as const;
    const signal = {
      type: 'capacity.interrupt',
      ...common,
      instance_id: id,
      kind: 'spot-warning',
      at: 1000 * sentAtS,
    } as const;
    return { signal, sentAtS };
  });
  const before = process.cpuUsage();
  const { state } = decide(unpackState(unpackStateText(stored)), [...messages, ...notices], { planner });
  stored = packStateText(packState(state));
  const { user, system } = process.cpuUsage(before);
  seconds.push((user + system) / 1e6);
}
const sorted = seconds.toSorted((one, other) => one - other);
console.log(`CPU of a batch of ${MESSAGES} messages, ${WORKERS} workers: median ${sorted[BATCHES / 2]?.toFixed(2)} s`);
console.log(`longest ${sorted.at(-1)?.toFixed(2)} s; state of the last one ${stored.length} bytes`);
