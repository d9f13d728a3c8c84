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

/** One way in which a fleet gets machines, as its template describes it. */
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
  /** Whether EKS manages the machines, for a fee. */
  readonly isManaged: boolean;
  readonly types: readonly MachineType[];
  /** Zones that the settings name; empty = all of the deployment. */
  readonly zones: readonly string[];
}

/** Resources whose metadata have these facts: a group with those of one option, a fleet of pods with those of all. */
const FACTS = {
  'AWS::AutoScaling::AutoScalingGroup': 'stator:option',
  'AWS::EKS::PodIdentityAssociation': 'stator:options',
} as const;

/** Returns the options of all fleets in templates. */
export function optionsIn(templates: readonly unknown[]): readonly MachineOption[] {
  return resourcesOf(templates).flatMap(([, { Type, Metadata }]) => {
    const key = Object.entries(FACTS).find(([type]) => type === Type)?.[1];
    const facts = key === undefined ? undefined : fieldsOf(Metadata)[key];
    return facts === undefined ? [] : [facts].flat().map((each) => readOption(fieldsOf(each)));
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
    isManaged: facts.isAutoMode === true,
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
