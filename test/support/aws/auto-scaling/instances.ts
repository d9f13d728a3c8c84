import type { Account } from './account.ts';
import type { FakeGroup, FakeInstance } from './types.ts';

/** Whether it counts toward the desired capacity of its group. */
export function isCounted({ state }: FakeInstance): boolean {
  return state === 'InService' || state.startsWith('Pending') || isReplacingVolume(state);
}

export function isReplacingVolume(state: string): boolean {
  return state.startsWith('ReplacingRootVolume') || state === 'RootVolumeReplaced';
}

/** Whether it is in the warm pool of its group, or on its way there. */
export function isWarm({ state }: FakeInstance): boolean {
  return state.startsWith('Warmed:') && !state.startsWith('Warmed:Terminating');
}

/** Whether it waits in the warm pool and can be taken from it. */
export function isPrepared({ state }: FakeInstance): boolean {
  return state === 'Warmed:Stopped' || state === 'Warmed:Running' || state === 'Warmed:Hibernated';
}

export function countedOf(account: Account, group: FakeGroup): FakeInstance[] {
  return account.of(group).filter(isCounted);
}

/** Returns the zones of a group, that with the fewest instances first ("Availability Zone balancing"). */
export function zonesByCount(account: Account, group: FakeGroup): string[] {
  const counted = countedOf(account, group);
  const inZone = (zone: string): number => counted.filter((instance) => instance.zone === zone).length;
  return group.spec.zones.toSorted((one, other) => inZone(one) - inZone(other));
}
