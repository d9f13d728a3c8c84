import { Annotations } from 'aws-cdk-lib';
import type { Construct } from 'constructs';
import { type FleetSpecs, missingRates, parsePlannerConfig } from '../../../shared/planner/index.ts';
import type { Settings } from '../../settings/index.ts';
import { plannerFleetsOf } from '../ec2-fleet/planner-fleets.ts';
import { type PodFleets, podFleetsOf } from '../eks/pod-fleets.ts';

/** A model that a planner scales. */
export interface PlannedFleet {
  readonly namespace: string;
  readonly model: string;
  readonly planner?: Readonly<Record<string, unknown>> | undefined;
}

/** Fleets of a deployment as its planner reads them (`STATOR_PLANNER_FLEETS`), by the connector that scales them. */
export type PlannedFleets =
  | { readonly connector: 'ec2'; readonly specs: FleetSpecs }
  | { readonly connector: 'eks'; readonly specs: PodFleets };

/** Returns the fleets that a planner scales. The settings allow only one kind of them. */
export function plannedFleetsOf(settings: Settings): PlannedFleets {
  const isEks = Object.values(settings.fleets).some(({ kind }) => kind === 'eks');
  return isEks
    ? { connector: 'eks', specs: podFleetsOf(settings) }
    : { connector: 'ec2', specs: plannerFleetsOf(settings) };
}

/** Warns of models whose law lacks a measured rate: vLLM and SGLang do not report how long their passes take. */
export function warnOfRates(scope: Construct, fleets: readonly PlannedFleet[]): void {
  for (const { namespace, model, planner = {} } of fleets) {
    const missing = missingRates(parsePlannerConfig(planner));
    if (missing.length === 0) continue;
    const why =
      `models.${model}.planner lacks ${missing.join(' and ')}, the requests a second that one worker serves: ` +
      'without that, the law rate starts the first worker and then changes nothing (stator profile measures it)';
    Annotations.of(scope).addWarningV2(`stator:rates:${namespace}#${model}`, why);
  }
}
