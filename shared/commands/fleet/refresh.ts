import type { AutoScalingGroup, StartInstanceRefreshCommandInput } from '@aws-sdk/client-auto-scaling';
import type { Clock } from '../../clock/index.ts';
import { AutoScalingCalls } from '../../planner/index.ts';
import { UsageError } from '../config.ts';
import { type RefreshArguments, readRefreshArguments } from './refresh-arguments.ts';

/** Milliseconds between two readings of a refresh. */
const POLL_MS = 15_000;
/** A refresh that runs longer is left to run by itself. */
const FOLLOW_MS_MAX = 24 * 3_600_000;
const GOOD = 'Successful';
const ENDED = new Set([GOOD, 'Failed', 'Cancelled', 'RollbackSuccessful', 'RollbackFailed']);

interface RefreshDeps {
  readonly clock: Clock;
  /** Ends the command; the refresh goes on. */
  readonly signal: AbortSignal;
  /** Shows one line of progress. */
  tell(line: string): void;
}

/**
 * Runs `stator fleet refresh`: starts an instance refresh of each group, one group after the other, and follows it
 * until it has ended. Resolves with what it prints.
 *
 * @throws UsageError for a mistake in its arguments, or a refresh that did not succeed
 * @throws AutoScalingError if AWS refuses a call
 */
export async function runFleet(argv: readonly string[], deps: RefreshDeps): Promise<string> {
  const [verb, ...rest] = argv;
  if (verb !== 'refresh') throw new UsageError(`stator fleet ${verb ?? ''}: allowed is refresh`);
  const asked = readRefreshArguments(rest);
  const calls = await AutoScalingCalls.open(deps.clock);
  try {
    const groups = await calls.groups(asked.groups, deps.signal);
    const missing = asked.groups.find((name) => !groups.has(name));
    if (missing !== undefined) throw new UsageError(`there is no Auto Scaling group ${missing}`);
    const inputs = asked.groups.map((name) => inputOf(name, groups.get(name), asked));
    for (const input of inputs) await refreshOne(calls, input, asked, deps);
    const many = asked.groups.length === 1 ? 'group is' : 'groups are';
    return asked.waits ? `${asked.groups.length} ${many} refreshed\n` : 'started\n';
  } finally {
    await calls.close();
  }
}

async function refreshOne(
  calls: AutoScalingCalls,
  input: StartInstanceRefreshCommandInput,
  { waits }: RefreshArguments,
  { clock, signal, tell }: RefreshDeps,
): Promise<void> {
  const name = input.AutoScalingGroupName ?? '';
  await calls.startRefresh(input, signal);
  tell(`${name}: a refresh has started`);
  if (!waits) return;
  const untilMs = clock.nowMs() + FOLLOW_MS_MAX;
  for (let told = ''; clock.nowMs() < untilMs; await clock.sleep(POLL_MS, signal)) {
    const refresh = await calls.newestRefresh(name, signal);
    const {
      Status: status = '',
      StatusReason: reason,
      PercentageComplete: percent = 0,
      InstancesToUpdate: left = 0,
    } = refresh ?? {};
    const line = `${name}: ${status}, ${percent} % done, ${left} instances left${reason === undefined ? '' : ` (${reason})`}`;
    if (line !== told) tell(line);
    told = line;
    if (status === GOOD) return;
    if (ENDED.has(status)) throw new UsageError(`the refresh of ${line}; later groups were not touched`);
  }
  throw new UsageError(`the refresh of ${name} still runs after a day; it goes on`);
}

/** Returns the call that refreshes one group. */
function inputOf(
  name: string,
  group: AutoScalingGroup | undefined,
  asked: RefreshArguments,
): StartInstanceRefreshCommandInput {
  const { strategy, image, minHealthy, maxHealthy, skipsMatching, alarms } = asked;
  const preferences = {
    ScaleInProtectedInstances: 'Refresh',
    MinHealthyPercentage: minHealthy,
    ...(alarms.length > 0 && { AlarmSpecification: { Alarms: [...alarms] } }),
  } as const;
  if (strategy === 'rolling') {
    return {
      AutoScalingGroupName: name,
      Strategy: 'Rolling',
      Preferences: { ...preferences, MaxHealthyPercentage: maxHealthy, SkipMatching: skipsMatching },
    };
  }
  const policy = group?.MixedInstancesPolicy;
  if (policy === undefined) {
    throw new UsageError(
      `group ${name} has no mixed instances policy, which --strategy root-volume requires; allowed: rolling`,
    );
  }
  const { LaunchTemplate: template, ...others } = policy;
  const overrides = (template?.Overrides ?? []).map((override) => ({ ...override, ImageId: image }));
  return {
    AutoScalingGroupName: name,
    Strategy: 'ReplaceRootVolume',
    Preferences: preferences,
    DesiredConfiguration: {
      MixedInstancesPolicy: { ...others, LaunchTemplate: { ...template, Overrides: overrides } },
    },
  };
}
