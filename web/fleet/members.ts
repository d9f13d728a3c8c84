import type { ConsoleWorker } from '../../shared/console/wire/worker.ts';
import { duration } from '../format.ts';
import { PHASE_WORDS } from './cold-starts.tsx';
import type { Fleet } from './use-fleet.ts';

/** A worker, a machine that starts, or a worker that has gone. */
export interface FleetMember {
  readonly key: string;
  readonly id: string;
  readonly model: string;
  readonly state: ConsoleWorker['state'] | 'starting' | 'gone';
  /** Undefined for a machine that starts. */
  readonly worker: ConsoleWorker | undefined;
  /** Words beside the state; empty if there are none. */
  readonly about: string;
}

/** Returns the members of the fleet: those that start, those that are there, and those that have gone. */
export function membersOf(fleet: Fleet): readonly FleetMember[] {
  const { workers, gone, starting, at_ms: nowMs } = fleet;
  const starts = starting.map(
    ({ instance_id: id, model, phase, since_ms: sinceMs }): FleetMember => ({
      key: `starting ${id}`,
      id,
      model,
      state: 'starting',
      worker: undefined,
      about: `${PHASE_WORDS[phase]} for ${duration(Math.max(0, nowMs - sinceMs))}`,
    }),
  );
  const present = [...workers.values()].map((worker) => memberOf(worker, worker.state));
  const left = [...gone.values()].reverse().map(({ worker }) => memberOf(worker, 'gone'));
  return [...starts, ...present, ...left];
}

function memberOf(worker: ConsoleWorker, state: FleetMember['state']): FleetMember {
  const { id, model } = worker;
  return { key: `${state === 'gone' ? 'gone' : 'worker'} ${id}`, id, model, state, worker, about: '' };
}

/** Returns whether all words are among the names of the member. @param words in lower case */
export function isNamed({ id, model, state, worker, about }: FleetMember, words: readonly string[]): boolean {
  const { pool, endpoint, machine, device } = worker ?? {};
  const names = [id, model, state, about, pool, endpoint, device, ...Object.values(machine ?? {})];
  const text = names.join(' ').toLowerCase();
  return words.every((word) => text.includes(word));
}

/** Returns the machine of a worker in words; empty if nothing is known. */
export function machineWords({ machine, device }: ConsoleWorker): string {
  const known = [machine?.instance_type, machine?.zone, machine?.market].filter(Boolean).join(', ');
  return known === '' ? (device ?? '') : known;
}
