import type { Account } from './account.ts';
import { tellInterruption, tellRebalance } from './events.ts';
import { terminate } from './terminate.ts';
import type { FakeInstance } from './types.ts';

/** "Spot Instance interruption notices": the notice comes two minutes before EC2 takes the instance. */
const NOTICE_MS = 120_000;

/** EC2 recommends to replace a Spot Instance. A group with Capacity Rebalancing does so, launching first. */
export function recommendRebalance(account: Account, instance: FakeInstance): void {
  tellRebalance(account, instance);
  if (!instance.group.spec.rebalances) return;
  instance.isAtRisk = true;
  account.poke(instance.group);
}

/** EC2 takes a Spot Instance back: a notice now, and the end of the instance two minutes later. */
export function interruptSpot(account: Account, instance: FakeInstance): void {
  tellInterruption(account, instance);
  if (instance.group.spec.rebalances) {
    instance.isAtRisk = true;
    account.poke(instance.group);
  }
  account.clock.after(NOTICE_MS, () => loseInstance(account, instance));
}

/** An instance ends without anyone's will. Its group notices by EC2's status checks. */
export function loseInstance(account: Account, instance: FakeInstance): void {
  if (!account.instances.has(instance.id) || instance.state.endsWith('Terminating:Proceed')) return;
  const cause =
    'an instance was taken out of service in response to an EC2 health check indicating it has been terminated or stopped.';
  terminate(account, instance, { cause, isGone: true });
}

/** All instances of a zone end, and no launch there succeeds until the returned function is called. */
export function loseZone(account: Account, zone: string): () => void {
  account.lostZones.add(zone);
  for (const instance of [...account.instances.values()]) {
    if (instance.zone === zone) loseInstance(account, instance);
  }
  return () => {
    account.lostZones.delete(zone);
    for (const group of account.groups.values()) account.pokeNow(group);
  };
}
