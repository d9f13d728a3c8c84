import type { Account } from '../account.ts';
import type { LifecycleAction } from '../types.ts';
import { type Answer, type Call, validationError } from './call.ts';
import { groupOf } from './look-up.ts';

export function completeAction(account: Account, call: Call): Answer {
  const result = call.required('LifecycleActionResult');
  if (result !== 'CONTINUE' && result !== 'ABANDON') {
    throw validationError(`Lifecycle action result ${result} is not valid: use CONTINUE or ABANDON.`);
  }
  actionOf(account, call).end(result, `Lifecycle Action Completed with ${result} Result`);
  return {};
}

export function heartbeat(account: Account, call: Call): Answer {
  actionOf(account, call).heartbeat();
  return {};
}

/** Returns the action that waits, found by its token or by its instance. */
function actionOf(account: Account, call: Call): LifecycleAction {
  const group = groupOf(account, call);
  const hook = call.required('LifecycleHookName');
  const token = call.text('LifecycleActionToken');
  const id = call.text('InstanceId');
  if (token === undefined && id === undefined) {
    throw validationError('Either LifecycleActionToken or InstanceId must be specified.');
  }
  for (const instance of account.of(group)) {
    if (id !== undefined && instance.id !== id) continue;
    const action = instance.actions.find((each) => each.hook.name === hook && (token ?? each.token) === each.token);
    if (action !== undefined) return action;
  }
  const what = token === undefined ? `instance ID ${id}` : `token ${token}`;
  throw validationError(`No active Lifecycle Action found with ${what}`);
}
