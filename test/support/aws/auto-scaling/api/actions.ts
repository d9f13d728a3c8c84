import type { Account } from '../account.ts';
import { type Answer, ApiError, type Call } from './call.ts';
import { describeActivities, describeGroups, describeInstances, describeWarmPool } from './describe.ts';
import { completeAction, heartbeat } from './lifecycle.ts';
import { cancelRefresh, describeRefreshes, rollBackRefresh, startRefresh } from './refreshes.ts';
import {
  createGroup,
  resumeProcesses,
  setDesiredCapacity,
  setHealth,
  setProtection,
  suspendProcesses,
  terminateInstance,
} from './scale.ts';
import { putWarmPool } from './warm-pool.ts';

const ACTIONS: Readonly<Record<string, (account: Account, call: Call) => Answer>> = {
  CancelInstanceRefresh: cancelRefresh,
  CompleteLifecycleAction: completeAction,
  CreateAutoScalingGroup: createGroup,
  DescribeAutoScalingGroups: describeGroups,
  DescribeAutoScalingInstances: describeInstances,
  DescribeInstanceRefreshes: describeRefreshes,
  DescribeScalingActivities: describeActivities,
  DescribeWarmPool: describeWarmPool,
  PutWarmPool: putWarmPool,
  RecordLifecycleActionHeartbeat: heartbeat,
  ResumeProcesses: resumeProcesses,
  RollbackInstanceRefresh: rollBackRefresh,
  SetDesiredCapacity: setDesiredCapacity,
  SetInstanceHealth: setHealth,
  SetInstanceProtection: setProtection,
  StartInstanceRefresh: startRefresh,
  SuspendProcesses: suspendProcesses,
  TerminateInstanceInAutoScalingGroup: terminateInstance,
};

/** Carries out one call. @throws ApiError with AWS's code and words */
export function act(account: Account, action: string, call: Call): Answer {
  const run = ACTIONS[action];
  if (run === undefined)
    throw new ApiError('InvalidAction', `Could not find operation ${action} for version 2011-01-01`);
  return run(account, call);
}
