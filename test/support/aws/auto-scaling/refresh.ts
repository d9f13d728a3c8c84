import type { Account } from './account.ts';
import { tellRefresh } from './events.ts';
import { countedOf } from './instances.ts';
import { replaceRootVolume } from './root-volume.ts';
import { terminate } from './terminate.ts';
import type { FakeGroup, FakeInstance, Refresh, RefreshPreferences, Template } from './types.ts';

/** "Amazon EC2 Auto Scaling waits one hour for you to remove scale-in protection." */
const PROTECTED_MS = 3_600_000;

export interface RefreshStart {
  readonly strategy: Refresh['strategy'];
  readonly preferences: RefreshPreferences;
  readonly target: Template;
  readonly isReversible: boolean;
}

export function beginRefresh(account: Account, group: FakeGroup, how: RefreshStart): Refresh {
  const { strategy, preferences, target, isReversible } = how;
  const matches = ({ templateVersion, imageId }: FakeInstance): boolean =>
    templateVersion === target.version && imageId === target.imageId;
  const toUpdate = countedOf(account, group).filter((each) => !(preferences.skipsMatching && matches(each)));
  const refresh: Refresh = {
    id: account.uuid(),
    strategy,
    preferences,
    startMs: account.clock.wallMs(),
    before: group.template,
    isReversible,
    target,
    remaining: new Set(toUpdate.map(({ id }) => id)),
    total: toUpdate.length,
    status: 'Pending',
    reason: '',
    endMs: undefined,
    waitsSinceMs: undefined,
    bakesSinceMs: undefined,
  };
  group.refreshes.push(refresh);
  account.poke(group);
  return refresh;
}

/** Returns the refresh of a group that still runs. */
export function runningRefresh({ refreshes }: FakeGroup): Refresh | undefined {
  const last = refreshes.at(-1);
  return last?.endMs === undefined ? last : undefined;
}

/** Takes a refresh one step on: it replaces as many instances as the healthy percentages allow. */
export function advanceRefresh(account: Account, group: FakeGroup): void {
  const refresh = runningRefresh(group);
  if (refresh === undefined || group.suspended.has('InstanceRefresh')) return;
  if (refresh.status === 'Pending') {
    refresh.status = 'InProgress';
    tellRefresh(account, group, refresh, 'Started');
  }
  const counted = countedOf(account, group);
  for (const id of refresh.remaining) if (!counted.some((each) => each.id === id)) refresh.remaining.delete(id);
  const old = counted.filter(({ id }) => refresh.remaining.has(id));
  const open = refresh.status === 'Cancelling' ? [] : replaceable(account, group, refresh, old);
  if (open === undefined) return;
  group.surplus = refresh.strategy === 'Rolling' ? surplusOf(group, refresh, open) : 0;
  const settling = counted.filter((each) => !isSettled(account, refresh, each));
  if (open.length === 0) {
    if (settling.length === 0 || refresh.status === 'Cancelling') finish(account, group, refresh);
    else account.poke(group);
    return;
  }
  if (group.surplus > 0) account.poke(group);
  replaceSome(account, group, refresh, { open, serving: counted.length - settling.length });
}

/** Returns what may be replaced; undefined if the refresh waits for protection to be removed, or has failed. */
function replaceable(
  account: Account,
  group: FakeGroup,
  refresh: Refresh,
  old: readonly FakeInstance[],
): FakeInstance[] | undefined {
  const free = old.filter(({ isProtected }) => !isProtected);
  const { protectedOnes } = refresh.preferences;
  if (protectedOnes === 'Refresh') return [...old];
  if (protectedOnes === 'Ignore' || free.length > 0 || old.length === 0) return free;
  refresh.waitsSinceMs ??= account.clock.nowMs();
  if (account.clock.nowMs() - refresh.waitsSinceMs >= PROTECTED_MS) {
    failRefresh(account, group, refresh, 'Instances were protected from scale in for more than 1 hour.');
  } else account.clock.after(PROTECTED_MS, () => account.poke(group));
  return undefined;
}

function surplusOf({ desired }: FakeGroup, { preferences }: Refresh, open: readonly FakeInstance[]): number {
  const most = Math.ceil((desired * preferences.maxHealthy) / 100) - desired;
  return Math.max(0, Math.min(most, open.length));
}

function isSettled({ clock }: Account, { preferences }: Refresh, instance: FakeInstance): boolean {
  const { state, inServiceAtMs, group, isHealthy } = instance;
  if (state !== 'InService' || inServiceAtMs === undefined || !isHealthy) return false;
  const warmupSecs = preferences.warmupSecs ?? group.spec.warmupSecs ?? group.spec.graceSecs ?? 0;
  return clock.nowMs() - inServiceAtMs >= warmupSecs * 1000;
}

function replaceSome(
  account: Account,
  group: FakeGroup,
  refresh: Refresh,
  { open, serving }: { readonly open: readonly FakeInstance[]; readonly serving: number },
): void {
  const least = Math.ceil((group.desired * refresh.preferences.minHealthy) / 100);
  const inTransit = countedOf(account, group).length > serving;
  // "If the percentages allow no replacement, one instance at a time is replaced."
  const one = !inTransit && group.surplus === 0 ? 1 : 0;
  const count = Math.max(one, Math.min(open.length, serving - least));
  for (const instance of open.slice(0, count)) {
    if (refresh.strategy === 'ReplaceRootVolume') {
      if (instance.state !== 'InService') continue;
      replaceRootVolume(account, instance, refresh.target, () => refresh.remaining.delete(instance.id));
    } else {
      const cause = `an instance was taken out of service in response to an instance refresh.`;
      terminate(account, instance, { cause });
    }
  }
  group.surplus = Math.min(group.surplus, open.length - count);
  account.poke(group);
}

function finish(account: Account, group: FakeGroup, refresh: Refresh): void {
  const { status, preferences } = refresh;
  if (status === 'Cancelling') end(account, group, refresh, 'Cancelled', 'Cancelled');
  else if (status === 'RollbackInProgress') {
    group.template = refresh.before;
    end(account, group, refresh, 'RollbackSuccessful', 'Rollback Succeeded');
  } else if (preferences.bakeSecs > 0 && !isBaked(account, group, refresh)) return;
  else {
    group.template = refresh.target;
    end(account, group, refresh, 'Successful', 'Succeeded');
  }
}

function isBaked(account: Account, group: FakeGroup, refresh: Refresh): boolean {
  const { clock } = account;
  const bakeMs = refresh.preferences.bakeSecs * 1000;
  if (refresh.bakesSinceMs === undefined) {
    refresh.bakesSinceMs = clock.nowMs();
    refresh.status = 'Baking';
    tellRefresh(account, group, refresh, 'Started Baking');
    clock.after(bakeMs, () => account.poke(group));
  }
  return clock.nowMs() - refresh.bakesSinceMs >= bakeMs;
}

/** Ends a refresh that cannot go on, or turns it back if its preferences say so. */
export function failRefresh(account: Account, group: FakeGroup, refresh: Refresh, reason: string): void {
  refresh.reason = reason;
  if (refresh.preferences.rollsBack) rollBack(account, group, refresh);
  else end(account, group, refresh, 'Failed', 'Failed');
}

/** Turns a refresh back: the instances that it has updated get the template of before. */
export function rollBack(account: Account, group: FakeGroup, refresh: Refresh): void {
  const updated = countedOf(account, group).filter(({ id }) => !refresh.remaining.has(id));
  refresh.status = 'RollbackInProgress';
  refresh.target = refresh.before;
  refresh.remaining.clear();
  for (const { id, templateVersion, imageId } of updated) {
    const { version, imageId: image } = refresh.before;
    if (templateVersion !== version || imageId !== image) refresh.remaining.add(id);
  }
  tellRefresh(account, group, refresh, 'Rollback Started');
  account.poke(group);
}

function end(account: Account, group: FakeGroup, refresh: Refresh, status: string, told: string): void {
  refresh.status = status;
  refresh.endMs = account.clock.wallMs();
  group.surplus = 0;
  tellRefresh(account, group, refresh, told);
  account.poke(group);
}
