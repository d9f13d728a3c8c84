import type { Random } from '../../clock/index.ts';
import { ServeError } from '../../errors/index.ts';
import type { RoutableWorker, SimpleRouterMode } from '../types.ts';
import type { InFlight } from './in-flight.ts';

/** Picks one of at least one eligible worker. */
export type Pick = <Worker extends RoutableWorker>(workers: readonly Worker[]) => Worker;

export interface PickOptions {
  readonly inFlight: InFlight;
  readonly random: Random;
  /** Throughput of an accelerator against a CPU. */
  readonly cudaToCpuRatio: number;
}

/** The rule of `mode`. */
export function pickerFor(mode: SimpleRouterMode, { inFlight, random, cudaToCpuRatio }: PickOptions): Pick {
  switch (mode) {
    case 'round-robin':
      return roundRobin();
    case 'random':
      return (workers) => at(workers, random.below(workers.length));
    case 'power-of-two':
      return (workers) => powerOfTwo(workers, inFlight, random);
    case 'least-loaded':
      return (workers) => leastLoaded(workers, inFlight, random);
    case 'device-aware-weighted':
      return (workers) => leastLoaded(deviceGroup(workers, inFlight, cudaToCpuRatio), inFlight, random);
    case 'direct':
      return () => {
        throw new ServeError(
          'invalid_value',
          'Invalid request: router mode "direct" needs the header x-dynamo-worker-instance-id or nvext.backend_instance_id',
          { param: 'nvext.backend_instance_id' },
        );
      };
  }
}

function roundRobin(): Pick {
  let counter = 0;
  return (workers) => {
    const chosen = at(workers, counter % workers.length);
    counter = (counter + 1) % Number.MAX_SAFE_INTEGER;
    return chosen;
  };
}

function powerOfTwo<Worker extends RoutableWorker>(
  workers: readonly Worker[],
  inFlight: InFlight,
  random: Random,
): Worker {
  const firstAt = random.below(workers.length);
  const first = at(workers, firstAt);
  if (workers.length === 1) return first;
  const second = at(workers, (firstAt + 1 + random.below(workers.length - 1)) % workers.length);
  return inFlight.of(second.id) < inFlight.of(first.id) ? second : first;
}

/** Ties are broken uniformly: the k-th tied worker replaces the choice with probability 1/k. */
function leastLoaded<Worker extends RoutableWorker>(
  workers: readonly Worker[],
  inFlight: InFlight,
  random: Random,
): Worker {
  let chosen = at(workers, 0);
  let fewest = inFlight.of(chosen.id);
  let ties = 1;
  for (let index = 1; index < workers.length; index++) {
    const worker = at(workers, index);
    const count = inFlight.of(worker.id);
    if (count > fewest) continue;
    ties = count < fewest ? 1 : ties + 1;
    if (count < fewest || random.below(ties) === 0) chosen = worker;
    fewest = count;
  }
  return chosen;
}

/**
 * The CPU workers or the others, whichever is further below its share of the requests in flight.
 * Workers that do not say what they run on count as accelerators.
 */
function deviceGroup<Worker extends RoutableWorker>(
  workers: readonly Worker[],
  inFlight: InFlight,
  cudaToCpuRatio: number,
): readonly Worker[] {
  const cpus = workers.filter(isCpu);
  if (cpus.length === 0 || cpus.length === workers.length) return workers;
  const accelerators = workers.filter((worker) => !isCpu(worker));
  const load = (group: readonly Worker[]): number => group.reduce((sum, { id }) => sum + inFlight.of(id), 0);
  const share = Math.floor((load(accelerators) * cpus.length) / (cudaToCpuRatio * accelerators.length));
  return load(cpus) < share ? cpus : accelerators;
}

function isCpu({ deviceType }: RoutableWorker): boolean {
  return deviceType?.toLowerCase() === 'cpu';
}

/** `workers[index]`, which must exist. */
export function at<Worker>(workers: readonly Worker[], index: number): Worker {
  const worker = workers[index];
  if (worker === undefined) throw new RangeError(`no worker at ${index} of ${workers.length}`);
  return worker;
}
