import { type Fields, fieldsOf, listOf } from './aws-answers.ts';
import { resourcesOf } from './deploy-templates.ts';

/** Type of machine that an option may start. */
export interface MachineType {
  readonly name: string;
  readonly vcpus: number;
  /** Family of its quota: `G` or `P`. */
  readonly quota: string;
  /** Price of an hour, US$; undefined if it is not known. */
  readonly hourUsd: number | undefined;
}

/** One way in which a fleet gets machines, as the template of its Auto Scaling group describes it. */
export interface MachineOption {
  readonly fleet: string;
  readonly model: string;
  readonly id: string;
  readonly market: string;
  /** Machines that always run. */
  readonly min: number;
  readonly max: number;
  /** Machines of the warm pool, and whether they run. */
  readonly warm: number;
  readonly isWarmRunning: boolean;
  readonly diskGib: number;
  readonly types: readonly MachineType[];
  /** Zones that the settings name; empty = all of the deployment. */
  readonly zones: readonly string[];
}

/** Key of these facts in the metadata of a group. */
const FACTS = 'stator:option';

/** Returns the options of all fleets in templates. */
export function optionsIn(templates: readonly unknown[]): readonly MachineOption[] {
  return resourcesOf(templates).flatMap(([, { Type, Metadata }]) => {
    const facts = fieldsOf(Metadata)[FACTS];
    return Type === 'AWS::AutoScaling::AutoScalingGroup' && facts !== undefined ? [readOption(fieldsOf(facts))] : [];
  });
}

function readOption(facts: Fields): MachineOption {
  const number = (name: string): number => Number(facts[name] ?? 0);
  return {
    fleet: String(facts.fleet),
    model: String(facts.model),
    id: String(facts.id),
    market: String(facts.market),
    min: number('min'),
    max: number('max'),
    warm: number('warm'),
    isWarmRunning: facts.warmState === 'Running',
    diskGib: number('diskGib'),
    types: listOf(facts.types).map((type) => {
      const { name, vcpus, quota, hourUsd } = fieldsOf(type);
      return {
        name: String(name),
        vcpus: Number(vcpus),
        quota: String(quota),
        hourUsd: hourUsd === undefined ? undefined : Number(hourUsd),
      };
    }),
    zones: listOf(facts.zones).map(String),
  };
}
