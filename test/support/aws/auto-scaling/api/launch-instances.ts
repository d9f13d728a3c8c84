import type { Account } from '../account.ts';
import { enterService, failLaunch, type LaunchFailure, requestInstance } from '../launch.ts';
import type { FakeGroup, FakeInstance } from '../types.ts';
import { type Answer, ApiError, type Call, validationError } from './call.ts';
import { groupOf } from './look-up.ts';

/** "The actual instance count is limited to 100 instances per launch." */
const COUNT_MAX = 100;

interface Earlier {
  readonly request: string;
  readonly answer: Answer;
}

const earlier = new WeakMap<Account, Map<string, Earlier>>();

/** Launches instances and answers with them, or with why EC2 refused ("Launch instances synchronously"). */
export function launchInstances(account: Account, call: Call): Answer {
  const group = groupOf(account, call);
  const count = Number(call.required('RequestedCapacity'));
  const zones = call.texts('AvailabilityZones');
  const token = call.text('ClientToken') ?? account.uuid();
  const request = JSON.stringify([group.name, count, zones]);
  const seen = earlier.get(account) ?? new Map<string, Earlier>();
  earlier.set(account, seen);
  const repeated = seen.get(token);
  if (repeated !== undefined) {
    if (repeated.request === request) return repeated.answer;
    throw new ApiError('IdempotentParameterMismatch', 'The parameters do not match those of the earlier request.');
  }
  const answer = answerTo(account, group, { count, zone: zoneOf(group, zones), token, call });
  seen.set(token, { request, answer });
  return answer;
}

/** "AvailabilityZones must be specified for groups with multiple Availability Zone configurations." */
function zoneOf(group: FakeGroup, [zone, ...others]: readonly string[]): string {
  const { zones } = group.spec;
  if (others.length > 0) throw validationError('AvailabilityZones may name one Availability Zone.');
  if (zone !== undefined && !zones.includes(zone)) {
    throw validationError(`The Availability Zone ${zone} is not part of the group's configuration.`);
  }
  if (zone === undefined && zones.length > 1) {
    throw validationError('Either AvailabilityZones or SubnetIds must be specified for a group with several zones.');
  }
  return zone ?? zones[0] ?? '';
}

interface Asked {
  readonly count: number;
  readonly zone: string;
  readonly token: string;
  readonly call: Call;
}

function answerTo(account: Account, group: FakeGroup, { count, zone, token, call }: Asked): Answer {
  if (!(count >= 1 && count <= COUNT_MAX))
    throw validationError(`RequestedCapacity must be between 1 and ${COUNT_MAX}.`);
  if (group.desired + count > group.max) {
    throw validationError(
      `New desired capacity ${group.desired + count} is above max value ${group.max} for the AutoScalingGroup.`,
    );
  }
  const instances: FakeInstance[] = [];
  let failure: LaunchFailure | undefined;
  const cause = 'an instance was launched in response to a LaunchInstances request.';
  while (instances.length < count && failure === undefined) {
    const launched = requestInstance(account, group, [zone]);
    if ('failures' in launched) failure = launched.failures.at(-1);
    else {
      group.desired++;
      instances.push(launched.instance);
      enterService(account, launched.instance, { cause, route: { origin: 'EC2', destination: 'AutoScalingGroup' } });
    }
  }
  if (failure !== undefined) {
    failLaunch(account, group, cause, failure);
    if (call.text('RetryStrategy') === 'retry-with-group-configuration') group.desired += count - instances.length;
  }
  account.poke(group);
  return {
    AutoScalingGroupName: group.name,
    ClientToken: token,
    Instances: shapesOf(instances),
    Errors: failure && [shapeOfFailure(failure)],
  };
}

function shapesOf(instances: readonly FakeInstance[]): Answer {
  const types = [...new Set(instances.map(({ type }) => type))];
  return types.map((type) => {
    const same = instances.filter((instance) => instance.type === type);
    return { ...placeShape(type, same[0]), InstanceIds: same.map(({ id }) => id) };
  });
}

function shapeOfFailure(failure: LaunchFailure): Answer {
  return { ...placeShape(failure.type, failure), ErrorCode: failure.code, ErrorMessage: failure.text };
}

function placeShape(type: string, place: { readonly zone: string; readonly market: string } | undefined) {
  return {
    InstanceType: type,
    MarketType: place?.market,
    AvailabilityZone: place?.zone,
    SubnetId: `subnet-${place?.zone}`,
  };
}
