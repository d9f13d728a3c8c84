import { loadCode, reasonOf } from '../../errors/index.ts';
import type { LifecycleActions } from './types.ts';

interface AutoScalingOptions {
  readonly group: string;
  readonly instanceId: string;
  readonly region: string | undefined;
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
export async function openAutoScaling({ group, instanceId, region }: AutoScalingOptions): Promise<LifecycleActions> {
  process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ||= 'true'; // tells operators nothing: it is bundled
  const sdk = await loadCode('Auto Scaling', () => import('./auto-scaling-parts.ts'));
  const client = new sdk.AutoScalingClient({
    ...(region === undefined ? {} : { region }),
    maxAttempts: ATTEMPTS_MAX,
  });
  const limited = (signal: AbortSignal) => ({
    abortSignal: AbortSignal.any([signal, AbortSignal.timeout(CALL_MS_MAX)]),
  });
  const instance = { AutoScalingGroupName: group, InstanceId: instanceId };
  return {
    complete: (hook, result, signal) => {
      const input = { ...instance, LifecycleHookName: hook, LifecycleActionResult: result };
      return outcome('CompleteLifecycleAction', () =>
        client.send(new sdk.CompleteLifecycleActionCommand(input), limited(signal)),
      );
    },
    heartbeat: (hook, signal) => {
      const input = { ...instance, LifecycleHookName: hook };
      return outcome('RecordLifecycleActionHeartbeat', () =>
        client.send(new sdk.RecordLifecycleActionHeartbeatCommand(input), limited(signal)),
      );
    },
    setUnhealthy: async (signal) => {
      const input = { InstanceId: instanceId, HealthStatus: 'Unhealthy', ShouldRespectGracePeriod: false };
      await named('SetInstanceHealth', () => client.send(new sdk.SetInstanceHealthCommand(input), limited(signal)));
    },
    close: () => client.destroy(),
  };
}

async function outcome(call: string, send: () => Promise<unknown>): Promise<'done' | 'unknown'> {
  try {
    await send();
    return 'done';
  } catch (thrown) {
    if (NOT_OPEN.test(reasonOf(thrown))) return 'unknown';
    throw new Error(`${call}: ${reasonOf(thrown)}`, { cause: thrown });
  }
}

async function named(call: string, send: () => Promise<unknown>): Promise<void> {
  try {
    await send();
  } catch (thrown) {
    throw new Error(`${call}: ${reasonOf(thrown)}`, { cause: thrown });
  }
}
