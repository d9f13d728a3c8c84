import type { ObservedInstance } from '../live/connector.ts';
import type { OptionState } from './option-state.ts';

/** Instances that end together: one, or those of an engine that needs several. */
export interface Candidate {
  readonly option: OptionState;
  readonly instances: readonly ObservedInstance[];
}

export interface Choice {
  /** Workers too many. */
  readonly surplus: number;
  /** Workers that serve beyond the target. No more of them may end, because the others serve it meanwhile. */
  readonly serving: number;
  /** Most instances. One engine may always end, however many instances it needs. */
  readonly countMax: number;
  /** Time from which on an instance is too young. */
  readonly readyBeforeMs: number;
  /** Options of which none may end: the environment replaces instances there. */
  readonly withBusy: boolean;
}

/**
 * Returns the workers that serve and will stay. Unhealthy instances do not count, and neither do those that a rebalance
 * of Spot replaces.
 */
export function servingOf(options: readonly OptionState[]): number {
  return options
    .filter(({ isLeaving }) => !isLeaving)
    .reduce((total, option) => {
      const { unit, live, count, isBusy } = option;
      const units = candidatesOf(option).filter(isHealthy).length;
      const starting = live.filter(({ state }) => state === 'starting').length;
      const staying = isBusy ? Math.max(0, Math.floor((count - starting) / unit.instances)) : units;
      return total + Math.min(units, staying) * unit.replicas;
    }, 0);
}

/**
 * Returns the instances to end for surplus workers: unhealthy ones first, then idle ones, those of the oldest
 * generation, spot instances, and those with the fewest active blocks. Never more workers than are surplus.
 */
export function chooseVictims(
  options: readonly OptionState[],
  { surplus, serving, countMax, readyBeforeMs, withBusy }: Choice,
): readonly Candidate[] {
  const chosen: Candidate[] = [];
  const counts = new Map(options.map((option) => [option, option.count]));
  let rest = surplus;
  let spare = serving;
  let taken = 0;
  const allowed = options.filter(({ isBusy, isLeaving }) => !isLeaving && (withBusy || !isBusy));
  for (const candidate of allowed.flatMap(candidatesOf).toSorted(compare)) {
    const { option, instances } = candidate;
    const count = counts.get(option) ?? 0;
    const served = isHealthy(candidate) ? option.unit.replicas : 0;
    if (served > 0 && served > spare) continue;
    if (option.unit.replicas > rest || count - instances.length < option.seen.min) continue;
    if (instances.some(({ readySinceMs = 0 }) => readySinceMs > readyBeforeMs)) continue;
    if (taken > 0 && taken + instances.length > countMax) continue;
    if (countMax <= 0) break;
    chosen.push(candidate);
    counts.set(option, count - instances.length);
    rest -= option.unit.replicas;
    spare -= served;
    taken += instances.length;
  }
  return chosen;
}

function candidatesOf(option: OptionState): readonly Candidate[] {
  const ready = option.live.filter(({ state }) => state === 'ready');
  const size = option.unit.instances;
  if (size === 1) return ready.map((instance) => ({ option, instances: [instance] }));
  // Instances that are a part of no known engine serve nothing: they end together with others like them.
  const byEngine = new Map<string, ObservedInstance[]>();
  for (const instance of ready) {
    const together = byEngine.get(instance.engine ?? '') ?? [];
    byEngine.set(instance.engine ?? '', [...together, instance]);
  }
  return [...byEngine.values()].flatMap((instances) => {
    const whole = Math.floor(instances.length / size);
    return Array.from({ length: whole }, (_, at) => ({
      option,
      instances: instances.slice(at * size, (at + 1) * size),
    }));
  });
}

function compare(one: Candidate, other: Candidate): number {
  return (
    Number(isHealthy(one)) - Number(isHealthy(other)) ||
    Number(blocksOf(one) > 0) - Number(blocksOf(other) > 0) ||
    generationOf(one).localeCompare(generationOf(other), 'en', { numeric: true }) ||
    Number(one.option.spec.market !== 'spot') - Number(other.option.spec.market !== 'spot') ||
    difference(blocksOf(one), blocksOf(other)) ||
    other.option.at - one.option.at ||
    (idOf(one) < idOf(other) ? -1 : 1)
  );
}

function isHealthy({ instances }: Candidate): boolean {
  return instances.every(({ isUnhealthy }) => isUnhealthy !== true);
}

/** Blocks that no worker has reported count as many. */
function blocksOf({ instances }: Candidate): number {
  return instances.reduce((total, { activeBlocks = Number.POSITIVE_INFINITY }) => total + activeBlocks, 0);
}

function generationOf({ instances }: Candidate): string {
  return instances[0]?.generation ?? '';
}

function idOf({ instances }: Candidate): string {
  return instances[0]?.id ?? '';
}

function difference(one: number, other: number): number {
  return one === other ? 0 : one - other;
}
