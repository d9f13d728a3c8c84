import type { Clock } from '../../clock/index.ts';
import { withDeadline } from '../../concurrency/index.ts';
import { quietSdkNotice } from '../../discovery/index.ts';
import { loadCode, reasonOf } from '../../errors/index.ts';
import type { LifecycleActions } from './types.ts';

interface AutoScalingOptions {
  readonly group: string;
  readonly instanceId: string;
  readonly region: string | undefined;
  readonly clock: Clock;
}

/** Longest time of one call with its retries, in milliseconds. */
const CALL_MS_MAX = 10_000;
const ATTEMPTS_MAX = 3;
/** Beginning of the message for an action that is not open, whose error code is `ValidationError`. */
const NOT_OPEN = /no active lifecycle action/i;

/**
 * The group by the API of Amazon EC2 Auto Scaling. The endpoint can be set by `AWS_ENDPOINT_URL_AUTO_SCALING`. The
 * first call loads the SDK.
 */
export async function openAutoScaling({
  group,
  instanceId,
  region,
  clock,
}: AutoScalingOptions): Promise<LifecycleActions> {
  quietSdkNotice();
  const sdk = await loadCode('Auto Scaling', () => import('./auto-scaling-parts.ts'));
  const client = new sdk.AutoScalingClient({
    ...(region === undefined ? {} : { region }),
    maxAttempts: ATTEMPTS_MAX,
  });
  const instance = { AutoScalingGroupName: group, InstanceId: instanceId };
  const limited = <T>(call: string, signal: AbortSignal, send: (abortSignal: AbortSignal) => Promise<T>): Promise<T> =>
    withDeadline({ clock, timeoutMs: CALL_MS_MAX, signal }, send).catch((thrown: unknown) => {
      throw new Error(`${call}: ${reasonOf(thrown)}`, { cause: thrown });
    });
  return {
    complete: (hook, result, signal) => {
      const input = { ...instance, LifecycleHookName: hook, LifecycleActionResult: result };
      const command = new sdk.CompleteLifecycleActionCommand(input);
      return outcome(
        limited('CompleteLifecycleAction', signal, (abortSignal) => client.send(command, { abortSignal })),
      );
    },
    heartbeat: (hook, signal) => {
      const command = new sdk.RecordLifecycleActionHeartbeatCommand({ ...instance, LifecycleHookName: hook });
      return outcome(
        limited('RecordLifecycleActionHeartbeat', signal, (abortSignal) => client.send(command, { abortSignal })),
      );
    },
    setUnhealthy: async (signal) => {
      const input = { InstanceId: instanceId, HealthStatus: 'Unhealthy', ShouldRespectGracePeriod: false };
      const command = new sdk.SetInstanceHealthCommand(input);
      await limited('SetInstanceHealth', signal, (abortSignal) => client.send(command, { abortSignal }));
    },
    close: () => client.destroy(),
  };
}

async function outcome(sent: Promise<unknown>): Promise<'done' | 'unknown'> {
  try {
    await sent;
    return 'done';
  } catch (thrown) {
    if (NOT_OPEN.test(reasonOf(thrown))) return 'unknown';
    throw thrown;
  }
}
