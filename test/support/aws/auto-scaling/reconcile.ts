import type { Account } from './account.ts';
import { beginActivity, endActivity } from './activities.ts';
import { countedOf } from './instances.ts';
import { launch } from './launch.ts';
import { advanceRefresh } from './refresh.ts';
import { terminate } from './terminate.ts';
import type { FakeGroup, FakeInstance } from './types.ts';
import { fillWarmPool, returnToPool, takeFromPool } from './warm-pool.ts';

const PROTECTED = 'Could not scale to desired capacity because all remaining instances are protected from scale-in.';

/** Brings a group one step nearer to its desired capacity, its warm pool and its instance refresh. */
export function reconcile(account: Account, group: FakeGroup): void {
  replaceUnhealthy(account, group);
  launchMissing(account, group);
  endReplaced(account, group);
  scaleIn(account, group);
  advanceRefresh(account, group);
  fillWarmPool(account, group);
}

/**
 * Ends instances whose health is bad. "Health checks for instances in an Auto Scaling group": a grace period begins
 * when an instance is in service; `SetInstanceHealth` respects it unless the call says otherwise.
 */
function replaceUnhealthy(account: Account, group: FakeGroup): void {
  if (group.suspended.has('ReplaceUnhealthy') || group.suspended.has('Terminate')) return;
  for (const instance of countedOf(account, group)) {
    if (instance.isHealthy || instance.state !== 'InService') continue;
    terminate(account, instance, {
      cause: 'an instance was taken out of service in response to a user health-check.',
    });
  }
}

/** Launches what is missing, from the warm pool first. Instances at risk are replaced before they end. */
function launchMissing(account: Account, group: FakeGroup): void {
  if (group.suspended.has('Launch')) return;
  const lasting = countedOf(account, group).filter(({ isAtRisk }) => !isAtRisk).length;
  const wanted = group.desired + group.surplus;
  const cause = `an instance was started in response to a difference between desired and actual capacity, increasing the capacity from ${lasting} to ${wanted}.`;
  for (let missing = wanted - lasting; missing > 0; missing--) {
    if (takeFromPool(account, group, cause)) continue;
    const waitMs = group.retryAtMs - account.clock.nowMs();
    if (waitMs > 0) return;
    if (launch(account, group, cause)) continue;
    group.retryAtMs = account.clock.nowMs() + account.times.retryMs;
    account.clock.after(account.times.retryMs, () => account.poke(group));
    return;
  }
}

/** Ends instances at risk once enough others are in service ("Use Capacity Rebalancing"). */
function endReplaced(account: Account, group: FakeGroup): void {
  const serving = countedOf(account, group).filter(({ state }) => state === 'InService');
  const atRisk = serving.filter((instance) => instance.isAtRisk);
  let spare = serving.length - group.desired;
  for (const instance of atRisk) {
    if (spare <= 0) return;
    spare--;
    const cause = 'an instance was taken out of service in response to an EC2 instance rebalance recommendation.';
    terminate(account, instance, { cause });
  }
}

/** Ends what is too much. Protected instances stay ("Use instance scale-in protection"). */
function scaleIn(account: Account, group: FakeGroup): void {
  if (group.suspended.has('Terminate')) return;
  const counted = countedOf(account, group).filter(({ isAtRisk }) => !isAtRisk);
  let surplus = counted.length - group.desired - group.surplus;
  if (surplus <= 0) {
    group.protectedAt = undefined;
    return;
  }
  const cause = `an instance was taken out of service in response to a difference between desired and actual capacity, shrinking the capacity from ${counted.length} to ${group.desired}.`;
  for (const instance of inTerminationOrder(account, counted)) {
    if (surplus === 0) return;
    surplus--;
    if (group.warmPool?.reuses && instance.state === 'InService') returnToPool(account, instance, cause);
    else terminate(account, instance, { cause });
  }
  if (surplus === 0 || group.protectedAt === group.desired) return;
  group.protectedAt = group.desired;
  const activity = beginActivity(account, group, { description: PROTECTED, cause });
  endActivity(account, activity, 'Cancelled', PROTECTED);
}

/**
 * Returns the instances that may end, in order ("Default termination policy"): of the zone with the most, then the
 * oldest launch template, then the oldest. Launches that still wait come first or last, as the test says.
 */
function inTerminationOrder(account: Account, counted: readonly FakeInstance[]): FakeInstance[] {
  const first = account.options.scaleIn ?? 'pending-first';
  const rank = ({ state }: FakeInstance): number => ((state === 'InService') === (first !== 'pending-first') ? 0 : 1);
  const mayEnd = (state: string): boolean =>
    state === 'InService' || (first !== 'in-service-only' && state.startsWith('Pending'));
  const inZone = (zone: string): number => counted.filter((instance) => instance.zone === zone).length;
  return counted
    .filter(({ isProtected, state }) => !isProtected && mayEnd(state))
    .toSorted(
      (one, other) =>
        rank(one) - rank(other) ||
        inZone(other.zone) - inZone(one.zone) ||
        Number(one.templateVersion) - Number(other.templateVersion) ||
        one.createdAtMs - other.createdAtMs,
    );
}
