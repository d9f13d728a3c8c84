import type { Account } from '../account.ts';
import { runningRefresh } from '../refresh.ts';
import type { PoolState } from '../types.ts';
import { type Answer, ApiError, type Call } from './call.ts';
import { groupOf } from './look-up.ts';

const NO_MAXIMUM = -1;

export function putWarmPool(account: Account, call: Call): Answer {
  const group = groupOf(account, call);
  if (runningRefresh(group) !== undefined) {
    throw new ApiError('InstanceRefreshInProgress', 'An instance refresh is in progress for the Auto Scaling group.');
  }
  const before = group.warmPool;
  const asked = call.whole('MaxGroupPreparedCapacity');
  group.warmPool = {
    minSize: call.whole('MinSize') ?? before?.minSize ?? 0,
    maxPrepared: asked === NO_MAXIMUM ? undefined : (asked ?? before?.maxPrepared),
    state: (call.text('PoolState') as PoolState | undefined) ?? before?.state ?? 'Stopped',
    reuses: call.within('InstanceReusePolicy').flag('ReuseOnScaleIn') ?? before?.reuses ?? false,
  };
  account.pokeNow(group);
  return {};
}
